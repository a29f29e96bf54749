"""A throw-away MariaDB for tests, on loopback, and what it changes as Debezium's documents.

The documents come from the server's own binlog, by mysql-replication. Types are those of Debezium's connectors for MySQL and MariaDB with their
defaults (`decimal.handling.mode: precise`, `time.precision.mode: adaptive_time_microseconds`): its documentation lists them.
"""

from __future__ import annotations

import base64
import datetime
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import RotateEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from tests.parts.metastore import PartsMissing, _connects, _run, _server, _succeeds, _until, free_port

_EPOCH = datetime.datetime(1970, 1, 1)
_PLAIN = {"tinyint": "int16", "smallint": "int16", "mediumint": "int32", "int": "int32", "bigint": "int64", "double": "double", "float": "float"}
_TEXT = ("char", "varchar", "text", "longtext")


@contextmanager
def mariadb_server(tmp: Path, database: str) -> Iterator[int]:
    """A server with an empty database and row-based binlogs; user `hive`, password `it's`, this machine only. Gives its port."""
    server = _programs()
    home, port = tmp / "mariadb", free_port()
    home.mkdir(parents=True)
    data, socket = home / "data", home / "s"
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    _run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db", *as_root])
    binlog = ["--log-bin=bin-1", "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL", "--server-id=1"]
    quick = ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--default-time-zone=+05:30", "--character-set-server=latin1"]
    address = [f"--datadir={data}", f"--socket={socket}", f"--port={port}", "--bind-address=127.0.0.1", f"--pid-file={home / 'pid'}"]
    with _server(
        "MariaDB", [server, "--no-defaults", *as_root, *address, *binlog, *quick], tmp / "mariadb.log", lambda: _connects(port), end=signal.SIGTERM
    ):
        client = ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-e"]
        _until("MariaDB", lambda: _succeeds([*client, "select 1"]))
        _run([*client, f"create database {database}; create user hive@'127.0.0.1' identified by 'it''s'; grant all on *.* to hive@'127.0.0.1'"])
        yield port


def _programs() -> str:
    for attempt in (1, 2):
        found = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
        if found and shutil.which("mariadb-install-db"):
            return found
        if attempt == 1 and os.geteuid() == 0 and shutil.which("apt-get"):
            subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
            install = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends", "mariadb-server"]
            _run(install, "MariaDB is needed and could not be installed: ")
    raise PartsMissing("MariaDB is needed: apt-get install --no-install-recommends mariadb-server")


@dataclass
class Capture:
    """A capture of one table: `documents` gives the changes since the last call."""

    port: int
    database: str
    table: str
    file: str = "bin-1.000001"
    types: dict[str, str] = field(default_factory=dict)

    def connected(self, **more: Any) -> Any:
        """A connection of the user `hive`."""
        settings = {"host": "127.0.0.1", "port": self.port, "user": "hive", "password": "it's", "database": self.database}
        return pymysql.connect(**settings, autocommit=True, charset="utf8mb4", **more)

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the changes in the order of the binlog. Ends the file of the binlog and reads it. The library begins with the first file that there is."""
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute("purge binary logs to %s", (self.file,))
            cursor.execute("flush binary logs")
            cursor.execute("show master status")
            following, *_ = cursor.fetchone()
            if not self.types:
                cursor.execute("select column_name, column_type from information_schema.columns where table_name = %s", (self.table,))
                self.types = dict(cursor.fetchall())
        stream = BinLogStreamReader(
            {"host": "127.0.0.1", "port": self.port, "user": "hive", "password": "it's"},
            server_id=77,
            log_file=self.file,
            log_pos=4,
            resume_stream=True,
            # MariaDB ends the connection of a reader that does not want to wait
            blocking=True,
            only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, RotateEvent],
            only_tables=[self.table],
            is_mariadb=True,
            enable_logging=False,
        )
        try:
            for event in stream:
                if isinstance(event, RotateEvent):
                    # the first one names the file that is read
                    if event.next_binlog == following:
                        break
                    continue
                op = {WriteRowsEvent: "c", UpdateRowsEvent: "u", DeleteRowsEvent: "d"}[type(event)]
                begins = event.packet.log_pos - event.packet.event_size
                for number, row in enumerate(event.rows):
                    source = {"connector": "mariadb", "db": self.database, "table": self.table, "file": self.file, "pos": begins, "row": number}
                    yield from self._changes(op, row, {**source, "ts_ms": event.timestamp * 1000})
            self.file = following
        finally:
            stream.close()

    def _changes(self, op: str, row: dict[str, Any], source: dict[str, Any]) -> Iterator[dict[str, Any]]:
        before = row.get("before_values", row.get("values") if op == "d" else None)
        after = row.get("after_values", row.get("values") if op == "c" else None)
        if op == "u" and before["id"] != after["id"]:
            # so does Debezium
            yield self._document("d", before, None, source)
            yield self._document("c", None, after, source)
        else:
            yield self._document(op, before, after, source)

    def _document(self, op: str, before: Any, after: Any, source: dict[str, Any]) -> dict[str, Any]:
        fields = [{"field": name, "optional": True, **schema(kind)} for name, kind in self.types.items()]
        parts = [{"field": part, "type": "struct", "optional": True, "fields": fields} for part in ("before", "after")]
        envelope = {"type": "struct", "name": "t.Envelope", "fields": [*parts, {"field": "op", "type": "string"}]}
        images = {
            name: row and {each: value(self.types[each], row[each]) for each in self.types} for name, row in (("before", before), ("after", after))
        }
        return {"schema": envelope, "payload": {"op": op, **images, "source": source, "ts_ms": source["ts_ms"]}}


def schema(kind: str) -> dict[str, Any]:
    """Return Connect's schema of a column."""
    word, _, rest = kind.partition("(")
    word, size = word.split(" ")[0], rest.partition(")")[0]
    if kind == "tinyint(1)" or kind == "bit(1)":
        return {"type": "boolean"}
    if kind.endswith("unsigned") and word in ("int", "smallint"):
        return {"type": {"int": "int64", "smallint": "int32"}[word]}
    if word == "decimal":
        precision, scale = size.split(",")
        return {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": scale, "connect.decimal.precision": precision},
        }
    named = {
        "date": ("int32", "io.debezium.time.Date"),
        "time": ("int64", "io.debezium.time.MicroTime"),
        "timestamp": ("string", "io.debezium.time.ZonedTimestamp"),
        "datetime": ("int64", f"io.debezium.time.{'MicroTimestamp' if size > '3' else 'Timestamp'}"),
        "year": ("int32", "io.debezium.time.Year"),
        "enum": ("string", "io.debezium.data.Enum"),
        "set": ("string", "io.debezium.data.EnumSet"),
        "bit": ("bytes", "io.debezium.data.Bits"),
    }.get(word)
    if named:
        return {"type": named[0], "name": named[1]}
    return {"type": "string"} if word in _TEXT else {"type": _PLAIN.get(word, "bytes")}


def value(kind: str, given: Any) -> Any:
    """Return a value as Debezium's JSON has it. `given`: as mysql-replication reads it."""
    word = kind.partition("(")[0].split(" ")[0]
    if given is None:
        return None
    if kind == "tinyint(1)":
        return given != 0
    if word == "bit":
        return given == "1" if kind == "bit(1)" else _packed(int(given, 2).to_bytes(2, "little"))
    if word == "decimal":
        digits = int(Decimal(given).scaleb(int(kind.partition(",")[2].partition(")")[0])))
        return _packed(digits.to_bytes(digits.bit_length() // 8 + 1, "big", signed=True))
    if word == "date":
        return (given - _EPOCH.date()).days
    if word == "time":
        return given // datetime.timedelta(microseconds=1)
    if word == "timestamp":
        return given.isoformat() + "Z"
    if word == "datetime":
        return (given - _EPOCH) // datetime.timedelta(**{"microseconds" if schema(kind)["name"].endswith("MicroTimestamp") else "milliseconds": 1})
    if word == "set":
        names = kind[5:-2].split("','")
        return ",".join(sorted(given, key=names.index))
    if word == "binary":
        # the binlog has no zeros at the end
        given = (given if isinstance(given, bytes) else given.encode("latin1")).ljust(int(kind[7:-1]), b"\0")
    return _packed(given if isinstance(given, bytes) else given.encode("latin1")) if schema(kind)["type"] == "bytes" else given


def _packed(content: bytes) -> str:
    return base64.b64encode(content).decode()
