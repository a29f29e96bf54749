"""Packages that Spark fetches: from where, which, and what an error quotes. Ivy is Spark's own, Maven Central a server of the test."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyspark
import pytest

from compactor.app.spark import REPOSITORY, fetch_error, fetch_properties
from compactor.spark.java import find_java

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>{group}</groupId><artifactId>{name}</artifactId><version>1.0</version><dependencies>{needs}</dependencies></project>"""
NEEDS = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>1.0</version></dependency>"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def put(repository: Path, group: str, name: str, jar: bool = True, needs: tuple[tuple[str, str], ...] = ()) -> None:
    """Add version 1.0 of a module to a repository in Maven's layout."""
    folder = repository / group.replace(".", "/") / name / "1.0"
    folder.mkdir(parents=True)
    (folder / f"{name}-1.0.pom").write_text(POM.format(group=group, name=name, needs="".join(NEEDS.format(*each) for each in needs)))
    if jar:
        data = io.BytesIO()
        zipfile.ZipFile(data, "w").close()
        (folder / f"{name}-1.0.jar").write_bytes(data.getvalue())


@pytest.fixture
def central(tmp_path: Path) -> Iterator[str]:
    """A Maven Central with a part of Spark that needs S3's client and that of another cloud."""
    folder = tmp_path / "central"
    put(folder, "org.example", "part", needs=(("org.apache.hadoop", "hadoop-aws"), ("com.microsoft.azure", "azure-storage")))
    put(folder, "org.apache.hadoop", "hadoop-aws")
    put(folder, "com.microsoft.azure", "azure-storage")
    put(folder, "org.example", "lost", jar=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def environment(tmp_path: Path, central: str) -> dict[str, str]:
    """A user whose local Maven repository has the POMs of the same modules, and no jar."""
    for group, name in (("org.example", "part"), ("org.apache.hadoop", "hadoop-aws"), ("org.example", "lost")):
        put(tmp_path / "home/.m2/repository", group, name, jar=False)
    java = {"JAVA_HOME": find_java(), "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path}/home", "SPARK_CONF_DIR": str(tmp_path)}
    return {**os.environ, **java, REPOSITORY: central, "PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.mark.slow
def test_a_local_maven_repository_with_poms_alone_is_not_asked(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Any machine where Maven has run has one. The clients of other clouds are not fetched."""
    monkeypatch.setenv(REPOSITORY, environment[REPOSITORY])
    submit = [f"{Path(pyspark.__file__).parent}/bin/spark-submit", "--class", "NoSuchClass"]
    for name, value in fetch_properties(["org.example:part:1.0"]).items():
        submit += ["--conf", f"{name}={value}"]
    log = subprocess.run([*submit, "spark-internal"], env=environment, capture_output=True, text=True, timeout=120).stderr
    jars = sorted(path.name for path in (tmp_path / "home/.ivy2/jars").glob("*.jar"))
    assert jars == ["org.apache.hadoop_hadoop-aws-1.0.jar", "org.example_part-1.0.jar"], log


@pytest.mark.slow
def test_an_error_quotes_the_download_that_failed(tmp_path: Path, environment: dict[str, str]) -> None:
    """Not the end of a Java stack."""
    code = (
        "from compactor.app.spark import fetch_error, fetch_properties\n"
        "from compactor.core.model.errors import Refused\n"
        "from compactor.spark.session import SessionSettings, open_session\n"
        "try: open_session(SessionSettings(None, None, '/tmp', conf=tuple(fetch_properties(['org.example:lost:1.0', 'org.example:none:1.0']).items())))\n"
        "except Refused as error: print(fetch_error(str(error)))"
    )
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    quoted = "unresolved dependency: org.example#none;1.0: not found; download failed: org.example#lost;1.0!lost.jar"
    assert result.stdout.strip() == quoted, (result.stdout, result.stderr)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "a\nException: [download failed: a#b;1!b.jar, download failed: c#d;2!d.jar]\n",
            "download failed: a#b;1!b.jar; download failed: c#d;2!d.jar",
        ),
        (
            "Server access error at url https://x/y (java.net.ConnectException)\n",
            "Server access error at url https://x/y (java.net.ConnectException)",
        ),
        (f"[{', '.join(f'download failed: a#b{at};1!b.jar' for at in range(9))}]", "download failed: a#b4;1!b.jar and 4 more"),
        ("something else", "something else"),
    ],
)
def test_the_lines_that_matter(text: str, quoted: str) -> None:
    """Each once, at most five; the end of the output if none is known."""
    assert fetch_error(text).endswith(quoted)


def test_ivy_settings_of_the_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A company's own repository, say."""
    assert fetch_properties([]) == {}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert Path(fetch_properties(["a:b:1"])["spark.jars.ivySettings"]).is_file()
    (tmp_path / "spark-defaults.conf").write_text("spark.jars.ivySettings /etc/ivy.xml\n")
    assert "spark.jars.ivySettings" not in fetch_properties(["a:b:1"])
