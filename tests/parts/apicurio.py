"""A real Apicurio Registry for tests, on loopback, in memory: its Confluent API. Needs Java 17 and Maven; 110 MB are fetched once."""

from __future__ import annotations

import shutil
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compactor.spark.java import find_java
from tests.parts import metastore as parts

VERSION = "3.0.9"


@contextmanager
def apicurio(tmp: Path) -> Iterator[str]:
    """Gives the address of its Confluent API. Ready in some ten seconds."""
    home, port = _home(), parts.free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    options = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        "quarkus.otel.sdk.disabled": "true",
    }
    command = [
        Path(find_java()) / "bin" / "java",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *[f"-D{name}={value}" for name, value in options.items()],
        "-jar",
        next(home.glob("apicurio-registry-app-*-runner.jar")),
    ]
    with parts._server("Apicurio", command, tmp / "apicurio.log", lambda: _answers(url), cwd=tmp):
        yield url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _home() -> Path:
    home = parts._CACHE / f"apicurio-{VERSION}"
    if home.exists():
        return home
    if not shutil.which("mvn"):
        raise parts.PartsMissing(f"Apicurio is needed: install Maven, or unpack apicurio-registry-app-{VERSION}-all.tar.gz into {home}")
    fetched = parts._CACHE / f"apicurio-{VERSION}.part"
    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir(parents=True)
    artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
    parts._run(["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={fetched}"], "Apicurio could not be had from Maven: ")
    (archive,) = fetched.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(fetched, filter="data")
    archive.unlink()
    fetched.rename(home)
    return home
