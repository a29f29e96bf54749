"""Hive 2.3.9's own command line on a metastore, with local MapReduce: another engine than Spark, made of PySpark's jars and six of Maven's."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from compactor.core.model import types
from compactor.core.model.types import Type
from tests.parts import metastore as parts
from tests.parts import stack

VERSION = "2.3.9"
_NONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_JARS = (
    *(("org.apache.calcite", name, "1.10.0") for name in ("calcite-core", "calcite-linq4j", "calcite-druid")),
    ("org.apache.calcite.avatica", "avatica", "1.8.0"),
    ("net.hydromatic", "eigenbase-properties", "1.1.5"),
    ("org.apache.hive", "hive-llap-client", VERSION),
)
OPENED = ("lang", "net", "util", "util.concurrent", "nio", "lang.reflect", "io", "util.regex", "util.concurrent.atomic", "time", "security")
_NULL = "~"
"""Stands for null where values are base64."""


@dataclass(frozen=True)
class Hive:
    """`command` starts it; each question starts it anew."""

    command: tuple[object, ...]
    home: Path

    def tables(self, database: str, views: Mapping[str, Mapping[str, str]]) -> dict[str, list[dict[str, Any]]]:
        """All rows of these views (name → column → Hive type), as `compactor sql --output json` would give them."""
        leaves = {view: [leaf for name, kind in columns.items() for leaf in _leaves((name,), types.parse(kind))] for view, columns in views.items()}
        script = [f"SELECT '{view}', {', '.join(_asked(*leaf) for leaf in leaves[view])} FROM `{database}`.`{view}`;" for view in views]
        (self.home / "query.sql").write_text("\n".join(script), encoding="utf-8")
        command = parts._text([*self.command, "-S", "-f", self.home / "query.sql"])
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.home, check=False, timeout=600)
        if done.returncode:
            raise RuntimeError(f"Hive ended with {done.returncode}:\n{done.stderr[-3000:]}")
        found: dict[str, list[dict[str, Any]]] = {view: [] for view in views}
        for line in done.stdout.split("\n"):
            view, *told = line.split("\t")
            if view in found:
                found[view].append(_row(leaves[view], told))
        return found


def _leaves(path: tuple[str, ...], kind: Type) -> Iterator[tuple[tuple[str, ...], Type]]:
    """What is asked for one by one: a struct's members apart, because Hive prints the bytes in one as text."""
    if kind[0] != "struct":
        yield path, kind
    for name, member in kind[1] if kind[0] == "struct" else ():
        yield from _leaves((*path, name), member)


def _asked(path: tuple[str, ...], kind: Type, since_1970: str = "") -> str:
    """The SQL that asks for a leaf. `since_1970`: for a moment `{0}`, whole seconds, a point, and six digits."""
    value = ".".join(f"`{name}`" for name in path)
    if kind[0] in ("array", "map", "decimal"):
        # printed as JSON; Hive 2 casts a decimal of more than 20 digits to a null, and prints it right
        return value
    # Hive 2 shows days before 1582-10-15 in the Julian calendar and leaves out the era: what it has read is asked for as a number, in which
    # it is the day, and the moment, that it is
    text = {"date": f"datediff({value}, '1970-01-01')", "timestamp": (since_1970 or _SINCE_1970).format(value)}.get(kind[0], value)
    encoded = f"base64({value})" if kind[0] == "binary" else f"base64(CAST(CAST({text} AS STRING) AS BINARY))"
    return f"coalesce({encoded}, '{_NULL}')"


_FRACTION = "regexp_extract(CAST({0} AS STRING), '[.]([0-9]+)$', 1)"
_SINCE_1970 = (
    "concat(CAST(unix_timestamp({0}) - CASE WHEN {0} < CAST('1970-01-01 00:00:00' AS TIMESTAMP) AND "
    + _FRACTION
    + " RLIKE '[1-9]' THEN 1 ELSE 0 END AS STRING), '.', rpad("
    + _FRACTION
    + ", 6, '0'))"
)
"""Whole seconds and microseconds; Hive's seconds are cut towards 1970, and as a double the microseconds of the year 9999 would be rounded."""


def _row(leaves: Sequence[tuple[tuple[str, ...], Type]], told: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for (path, kind), text in zip(leaves, told, strict=True):
        inner = row
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = _value(kind, text)
    # a struct of nulls and no struct print alike
    return {
        name: None if isinstance(value, dict) and value and not any(part is not None for part in value.values()) else value
        for name, value in row.items()
    }


def _value(kind: Type, text: str) -> Any:
    if kind[0] in ("array", "map", "decimal"):
        return None if text == "NULL" else Decimal(text) if kind[0] == "decimal" else json.loads(text, parse_float=Decimal)
    if text == _NULL:
        return None
    if kind[0] == "binary":
        return text
    said = base64.b64decode(text).decode()
    if kind[0] in ("tinyint", "smallint", "int", "bigint", "date"):
        return int(said)
    if kind[0] == "boolean":
        return {"TRUE": True, "FALSE": False}[said]
    if kind[0] == "timestamp":
        seconds, micros = said.split(".")
        return _moment(int(seconds) * 1_000_000 + int(micros))
    return said if kind[0] == "string" or said in ("NaN", "Infinity", "-Infinity") else Decimal(said)


def _moment(micros: int) -> str:
    """Microseconds since 1970 as ISO text, in the calendar that goes on before 1582 and before the year 1."""
    days, rest = divmod(micros, 86_400_000_000)
    era, within = divmod(days + 719_468, 146_097)
    year_of_era = (within - within // 1460 + within // 36524 - within // 146096) // 365
    day = within - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day + 2) // 153
    year = year_of_era + era * 400 + (month >= 10)
    date = f"{'-' if year < 0 else ''}{abs(year):04}-{month + 3 if month < 10 else month - 9:02}-{day - (153 * month + 2) // 5 + 1:02}"
    return f"{date}T{rest // 3_600_000_000:02}:{rest // 60_000_000 % 60:02}:{rest // 1_000_000 % 60:02}.{rest % 1_000_000:06}Z"


@contextmanager
def hive(tmp: Path, metastore_uri: str) -> Iterator[Hive]:
    """Hive on that metastore."""
    home = tmp / "hive"
    home.mkdir(parents=True)
    settings = {
        "hive.metastore.uris": metastore_uri,
        "hive.async.log.enabled": "false",
        "hive.execution.engine": "mr",
        "mapreduce.framework.name": "local",
        "hive.exec.mode.local.auto": "true",
        "hive.exec.submit.local.task.via.child": "false",
        "hive.exec.scratchdir": (home / "scratch").as_uri(),
        "hive.exec.local.scratchdir": str(home / "local"),
        "hive.downloaded.resources.dir": str(home / "resources"),
        "hive.querylog.location": str(home / "log"),
        "mapreduce.cluster.local.dir": str(home / "mapreduce"),
        "hadoop.tmp.dir": str(home / "hadoop"),
        "fs.defaultFS": "file:///",
    }
    parts.write_site(home, settings)
    jars = [parts.SPARK_HOME / "jars" / "*", _jars() / "*"]
    # moments are shown in the zone of the JVM
    java = [*parts.java("1g", OPENED), "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8"]
    yield Hive((*java, "-cp", ":".join(map(str, [home, *jars])), "org.apache.hadoop.hive.cli.CliDriver"), home)


def _jars() -> Path:
    """Those that PySpark lacks, without what they depend on: that is among PySpark's."""
    home = parts._CACHE / f"hive-{VERSION}"
    if not home.exists():
        fetched = stack._empty(home)
        listed = (f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{_NONE}" for group, name, version in _JARS)
        (fetched / "pom.xml").write_text(stack._POM.format("".join(f"<dependency>{one}</dependency>" for one in listed)))
        stack._maven(["-f", fetched / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"], "Hive")
        fetched.rename(home)
    return home
