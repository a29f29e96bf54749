"""Trino on a metastore: 435, with files of this machine and the legacy translation of Hive's views that the README recommends for it, and 483, with
files in S3, which can have a second catalog, `iceberg`. Needs Maven (270 MB a version, once, 350 more for Iceberg), a JDK 17, and for 483 a Java of 25
or newer.
"""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compactor.spark.java import find_java
from tests.parts import metastore as parts
from tests.parts import stack
from tests.parts.s3 import CREDENTIALS

OLD, NEW = "435", "483"
"""The last one for Java 17; one that needs no setting for our views (448 or later) and reads deletion vectors of Iceberg (480 or later)."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>compactor.tests</groupId><artifactId>trino</artifactId><version>1</version><packaging>pom</packaging>
<dependencyManagement><dependencies><dependency><groupId>io.trino</groupId><artifactId>trino-root</artifactId><version>{0}</version>
<type>pom</type><scope>import</scope></dependency></dependencies></dependencyManagement>
<dependencies><dependency><groupId>io.trino</groupId><artifactId>{1}</artifactId><version>{0}</version></dependency></dependencies></project>
"""
_HEADERS = {"X-Trino-User": "tests", "X-Trino-Catalog": "hive", "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME"}
"""Without that capability Trino rounds timestamps to milliseconds for the client."""
_CONFIG = """coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
node.internal-address=127.0.0.1
node.bind-ip=127.0.0.1
discovery.uri=http://127.0.0.1:{port}
"""
_CATALOG = """connector.name=hive
hive.metastore.uri={uri}
hive.hive-views.enabled=true
hive.hive-views.run-as-invoker=true
"""
_LOCAL = """fs.hadoop.enabled=false
hive.hive-views.legacy-translation=true
"""
_MICROSECONDS = "hive.timestamp-precision=MICROSECONDS\n"
_ICEBERG = """connector.name=iceberg
hive.metastore.uri={uri}
"""
_S3 = """fs.native-s3.enabled=true
s3.endpoint={endpoint}
s3.region=us-east-1
s3.path-style-access=true
s3.aws-access-key={AWS_ACCESS_KEY_ID}
s3.aws-secret-key={AWS_SECRET_ACCESS_KEY}
"""


@dataclass(frozen=True)
class Trino:
    """A running server."""

    port: int

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Run a query in the catalog `hive`; its rows by column, numbers and texts as JSON has them. Raises RuntimeError with Trino's message."""
        url, body = f"http://127.0.0.1:{self.port}/v1/statement", query.encode()
        names: list[str] = []
        rows: list[list[Any]] = []
        while url:
            request = urllib.request.Request(url, body or None, _HEADERS)
            with urllib.request.urlopen(request, timeout=120) as answer:
                page = json.load(answer)
            if "error" in page:
                raise RuntimeError(page["error"]["message"])
            names = [column["name"] for column in page.get("columns", [])] or names
            rows += page.get("data", [])
            url, body = page.get("nextUri"), b""
        return [dict(zip(names, row)) for row in rows]


@contextmanager
def trino(tmp: Path, metastore_uri: str, s3: str | None = None, iceberg: bool = False) -> Iterator[Trino]:
    """Trino on that metastore: OLD; with the endpoint `s3`, where the tables lie, NEW. `iceberg`: with a catalog of Iceberg tables, on NEW."""
    home, port, files = tmp / "trino", parts.free_port(), _files(NEW if s3 else OLD)
    catalogs = home / "etc" / "catalog"
    catalogs.mkdir(parents=True)
    (home / "etc" / "config.properties").write_text(_CONFIG.format(port=port))
    (home / "etc" / "node.properties").write_text("")
    where = _S3.format(endpoint=s3, **CREDENTIALS)
    (catalogs / "hive.properties").write_text(_CATALOG.format(uri=metastore_uri) + (_MICROSECONDS + where if s3 else _LOCAL))
    if iceberg:
        (catalogs / "iceberg.properties").write_text(_ICEBERG.format(uri=metastore_uri) + where)
    (home / "plugin").mkdir()
    for name in ("hive", "iceberg") if iceberg else ("hive",):
        (home / "plugin" / name).symlink_to(_plugin(files, name, NEW if s3 else OLD))
    node = {"environment": "tests", "id": "tests", "data-dir": home / "data", "bind-ip": "127.0.0.1", "internal-address": "127.0.0.1"}
    java = [
        new_java() if s3 else Path(find_java()) / "bin" / "java",
        "-Xmx1g",
        "-XX:ReservedCodeCacheSize=256M",
        "-Djdk.attach.allowAttachSelf=true",
    ]
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("nio", "lang")]
    if s3:
        opened += ["--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]
    settings = [*(f"-Dnode.{name}={value}" for name, value in node.items()), "-Dconfig=etc/config.properties", "-Dfile.encoding=UTF-8"]
    command = [*java, *opened, *settings, "-cp", f"{files / 'classes'}:{files / 'lib'}/*", "compactor.TrinoMain", NEW if s3 else OLD]
    server = Trino(port)
    with parts._server("Trino", command, tmp / "trino.log", lambda: _answers(server), cwd=home):
        yield server


def new_java() -> Path:
    """Return a Java that is new enough for NEW, of those that the system has. Raises PartsMissing."""
    for release in sorted(Path("/usr/lib/jvm").glob("*/release")):
        version = re.search(r'JAVA_VERSION="(\d+)', release.read_text(encoding="utf-8"))
        if version and int(version[1]) >= 25:
            return release.parent / "bin" / "java"
    raise parts.PartsMissing(f"a Java of 25 or newer is needed for Trino {NEW}: install one into /usr/lib/jvm, such as Eclipse Temurin 25")


def _answers(server: Trino) -> bool:
    # the port opens some seconds before there is a node to run a query
    try:
        return server.rows("SELECT count(*) AS n FROM system.runtime.nodes WHERE state = 'active'")[0]["n"] > 0
    except (OSError, RuntimeError):
        return False


def _files(version: str) -> Path:
    """The server's jars and our main class; the Hive plugin, for OLD with files of this machine."""
    home = parts._CACHE / f"trino-{version}"
    if not home.exists():
        fetched = stack._empty(home)
        _jars(fetched / "lib", "trino-main", version)
        _compile("TrinoMain", ".", fetched / "classes")
        plugin = _plugin(fetched, "hive", version)
        if version == OLD:
            _compile("LocalHivePlugin", f"{fetched / 'lib'}/*:{plugin}/*", fetched / "plugin-classes")
            _services(plugin, "compactor.LocalHivePlugin", *(fetched / "plugin-classes").rglob("*.class"))
        fetched.rename(home)
    return home


def _plugin(home: Path, name: str, version: str) -> Path:
    """A plugin out of its jar and what that needs. Newer versions have no archives of plugins in Maven Central."""
    plugin = home / "plugin" / name
    if not plugin.exists():
        fetched = stack._empty(plugin)
        _jars(fetched, f"trino-{name}", version)
        _services(fetched, f"io.trino.plugin.{name}.{name.title()}Plugin")
        fetched.rename(plugin)
    return plugin


def _jars(target: Path, artifact: str, version: str) -> None:
    pom = target.with_suffix(".xml")
    pom.parent.mkdir(parents=True, exist_ok=True)
    pom.write_text(_POM.format(version, artifact))
    stack._maven(["-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"], "Trino")


def _services(plugin: Path, main: str, *classes: Path) -> None:
    """Write the jar that names the plugin's class to Trino, with more classes."""
    with zipfile.ZipFile(plugin / "services.jar", "w") as jar:
        jar.writestr("META-INF/services/io.trino.spi.Plugin", f"{main}\n")
        for path in classes:
            jar.write(path, f"compactor/{path.name}")


def _compile(name: str, jars: str, target: Path) -> None:
    compiler = Path(find_java()) / "bin" / "javac"
    program = str(compiler) if compiler.exists() else shutil.which("javac")
    if program is None:
        raise parts.PartsMissing("javac is needed for Trino: apt-get install --no-install-recommends openjdk-17-jdk-headless")
    parts._run([program, "-nowarn", "-cp", jars, "-d", target, Path(__file__).with_name(f"{name}.java")])
