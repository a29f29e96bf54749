"""HiveServer2 4.0.1 with Tez and a metastore of its own, all in one process. Needs Maven (328 jars, 280 MB, once).

It does not work on a metastore of Hive 2.3, which lacks calls that it makes (`Invalid method name: 'get_database_req'`), and Spark 3.5's client does not
work on a metastore of Hive 4, which lacks `get_table`. So tables and views come here as statements: those that `compactor publish --dry-run` shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compactor.core.model import types
from tests.parts import hive as hive23
from tests.parts import metastore as parts
from tests.parts import stack

VERSION = "4.0.1"
_HADOOP, _TEZ = "3.3.6", "0.10.4"
_LOGGER = "org.slf4j:slf4j-reload4j"
_SHADED = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
_JARS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    # group, name, version, what it does not bring along: a second Hadoop, a second logger, jars that no repository has
    ("com.google.guava", "guava", "32.0.1-jre", ()),
    ("org.apache.hive", "hive-service", VERSION, ("org.pac4j:*", *_SHADED, _LOGGER)),
    ("org.apache.hive", "hive-standalone-metastore-server", VERSION, (_SHADED[0], _LOGGER)),
    ("org.apache.hadoop", "hadoop-client", _HADOOP, (_LOGGER,)),
    ("org.apache.hadoop", "hadoop-hdfs-client", _HADOOP, ("*:*",)),
    ("org.apache.hadoop", "hadoop-hdfs", _HADOOP, ("*:*",)),
    ("org.apache.tez", "tez-dag", _TEZ, (_SHADED[0], _LOGGER)),
    ("org.apache.tez", "tez-mapreduce", _TEZ, ("*:*",)),
    ("org.datanucleus", "datanucleus-api-jdo", "5.2.8", ()),
    ("org.datanucleus", "datanucleus-rdbms", "5.2.10", ()),
    ("org.datanucleus", "javax.jdo", "3.2.0-release", ()),
)


_SINCE_1970 = f"concat(CAST(to_unix_timestamp({{0}}) AS STRING), '.', rpad({hive23._FRACTION}, 6, '0'))"
"""Hive 4 cuts seconds towards the past, Hive 2.3 towards 1970."""


@dataclass(frozen=True)
class Hive4:
    """A running HiveServer2 at `port`."""

    port: int

    def execute(self, statements: Iterable[str]) -> None:
        """Run statements that have no rows."""
        with self._cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        with self._cursor() as cursor:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def tables(self, database: str, views: Mapping[str, Mapping[str, str]]) -> dict[str, list[dict[str, Any]]]:
        """All rows of these views (name → column → Hive type), as `compactor sql --output json` would give them."""
        found = {}
        for view, columns in views.items():
            leaves = [leaf for name, kind in columns.items() for leaf in hive23._leaves((name,), types.parse(kind))]
            rows = self.rows(f"SELECT {', '.join(hive23._asked(*leaf, _SINCE_1970) for leaf in leaves)} FROM `{database}`.`{view}`")
            found[view] = [hive23._row(leaves, ["NULL" if value is None else str(value) for value in row]) for row in rows]
        return found

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        from pyhive import hive

        with contextlib.closing(hive.connect("127.0.0.1", self.port, username="tests", auth="NONE")) as connection:
            with contextlib.closing(connection.cursor()) as cursor:
                yield cursor


@contextmanager
def hive4(tmp: Path) -> Iterator[Hive4]:
    """HiveServer2 4 with an empty metastore."""
    home, port = tmp / "hive4", parts.free_port()
    home.mkdir(parents=True)
    warehouse = (home / "warehouse").as_uri()
    settings = {
        "hive.metastore.warehouse.dir": warehouse,
        "hive.metastore.warehouse.external.dir": warehouse,
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore_db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.async.log.enabled": "false",
        "hive.execution.engine": "tez",
        "tez.local.mode": "true",
        "tez.local.mode.without.network": "true",
        "tez.ignore.lib.uris": "true",
        "tez.runtime.optimize.local.fetch": "true",
        "tez.staging-dir": str(home / "tez"),
        "fs.defaultFS": "file:///",
        "mapreduce.framework.name": "local",
        "hive.exec.scratchdir": (home / "scratch").as_uri(),
        "hive.exec.local.scratchdir": str(home / "local"),
        "hive.downloaded.resources.dir": str(home / "resources"),
        "hive.querylog.location": str(home / "log"),
        "hive.user.install.directory": (home / "install").as_uri(),
        "hadoop.tmp.dir": str(home / "hadoop"),
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": str(port),
        "hive.server2.webui.port": "0",
        "hive.server2.enable.doAs": "false",
        "hive.server2.logging.operation.log.location": str(home / "operations"),
        "hive.server2.tez.initialize.default.sessions": "false",
        "hive.tez.container.size": "256",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
        "hive.support.concurrency": "false",
        "hive.scheduled.queries.executor.enabled": "false",
        "hive.notification.event.poll.interval": "0",
        "hive.materializedview.rewriting": "false",
        "hive.server2.materializedviews.registry.impl": "DUMMY",
        "hive.stats.fetch.column.stats": "false",
        # else it takes days before 1582-10-15 for days of the Julian calendar, and shows no era
        "hive.parquet.date.proleptic.gregorian.default": "true",
    }
    parts.write_site(home, settings)
    (home / "hive-log4j2.properties").write_text(
        "status=error\nappender.c.type=Console\nappender.c.name=c\nappender.c.layout.type=PatternLayout\n"
        "appender.c.layout.pattern=%d{HH:mm:ss} %p %c{1} %m%n\nrootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\n"
    )
    command = [*parts.java("1200m", hive23.OPENED), "-Duser.timezone=UTC", "-cp", f"{home}:{_jars()}/*", "org.apache.hive.service.server.HiveServer2"]
    server = Hive4(port)
    with parts._server("HiveServer2 4", command, tmp / "hive4.log", lambda: parts._connects(port), cwd=home):
        yield server


def _jars() -> Path:
    home = parts._CACHE / f"hive-{VERSION}"
    if not home.exists():
        fetched = stack._empty(home)
        (fetched / "pom.xml").write_text(stack._POM.format("".join(map(_dependency, *zip(*_JARS)))), encoding="utf-8")
        where = [f"-DoutputDirectory={fetched}", "-DincludeScope=runtime"]
        stack._maven(["-f", fetched / "pom.xml", "dependency:copy-dependencies", *where], "Hive 4")
        fetched.rename(home)
    return home


def _dependency(group: str, name: str, version: str, without: tuple[str, ...]) -> str:
    pairs = (each.split(":") for each in without)
    left_out = "".join(f"<exclusion><groupId>{one}</groupId><artifactId>{two}</artifactId></exclusion>" for one, two in pairs)
    identity = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    return f"<dependency>{identity}<exclusions>{left_out}</exclusions></dependency>"
