"""What an ordinary `pip install` of compactor resolves to, and what the documents say about installing it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from compactor.app.packaging.mwaa import REQUIREMENTS

ROOT = Path(__file__).parent.parent
OTHERS = ("3.5.6", "3.5.8", "3.5.9", "4.0.0", "4.1.4")
"""Versions of PySpark that PyPI has."""


def test_an_ordinary_install_gets_the_pyspark_that_is_tested() -> None:
    """Spark fetches jars of its own version for Avro, Kafka and S3: another PySpark fetches other jars, or none."""
    text = (ROOT / "pyproject.toml").read_text()
    (line,) = re.findall(r'^    "(pyspark\b[^"]*)",', text, re.MULTILINE)
    (tested,) = re.findall(r"^pyspark==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    requirement = Requirement(line)
    assert requirement.specifier.contains(tested)
    assert [*requirement.specifier.filter(OTHERS)] == []


def pages() -> list[Path]:
    """Everything that a user may copy an install from."""
    folders = (ROOT / "docs", ROOT / "compactor", ROOT / "terraform", ROOT / "dags")
    return [ROOT / "README.md", *(path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".md", ".py", ".tf", ".ipynb"))]


def test_nothing_tells_a_user_to_install_a_name_from_an_index() -> None:
    """`compactor` on PyPI is another project's, and `cdc-compactor` is on no index yet: an install names a wheel, a folder or a repository."""
    installs = [
        (path, found) for path in pages() for found in re.findall(r"(?:pip|uv) (?:install|download) [^`\n]*", path.read_text(encoding="utf-8"))
    ]
    assert len(installs) >= 10
    named = r"(?<![\w./*-])(?:cdc[-_])?compactor(?:\[\w+(?:,\w+)*\])?(?=$|[\s'\"=<>~])"
    assert [(path.name, text) for path, text in installs if re.search(named, text)] == []
    assert re.search(named, "pip install 'compactor[airflow]'")
    assert re.search(named, "pip install -c constraints.txt cdc-compactor")


def test_the_page_for_airflow_names_what_a_worker_without_spark_needs() -> None:
    """The same as the wheel for MWAA requires."""
    page = " ".join((ROOT / "docs/airflow.md").read_text(encoding="utf-8").split())
    (words,) = re.findall(r"and `pip install ([^`]*)`", page)
    assert {word.strip("'") for word in words.split()} == set(REQUIREMENTS)


def test_the_objects_on_the_page_for_kubernetes_are_whole() -> None:
    """A CronJob that repeats what may help and nothing else, and a pod in which Airflow finds its container."""
    page = (ROOT / "docs/airflow.md").read_text(encoding="utf-8")
    cron, pod = (yaml.safe_load(block) for block in re.findall(r"```yml\n(.*?)```", page, re.DOTALL))
    job = cron["spec"]["jobTemplate"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [1, 2])
    assert (job["template"]["spec"]["restartPolicy"], job["template"]["spec"]["containers"][0]["args"]) == ("Never", ["run"])
    assert (pod["kind"], pod["spec"]["restartPolicy"], pod["spec"]["containers"][0]["name"]) == ("Pod", "Never", "base")
    image = re.search(r"USER (\d+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert image is not None
    assert job["template"]["spec"]["securityContext"]["runAsUser"] == int(image[1])
