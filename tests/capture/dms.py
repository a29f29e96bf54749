"""The capture as AWS DMS would have written it: full load and changes, as CSV or Parquet, made of the Debezium records.

DMS itself was not at hand: names, folders, columns and their order are those of its user guide. `IncludeOpForFullLoad` is off,
`AddColumnName` on, `DatePartitionSequence` YYYYMMDDHH with DASH, a before-image rule covers the key (without key: all columns). What DMS does not
send is left out: a TRUNCATE, and a change that Debezium sent twice. Types for which DMS has a text of its own (arrays, points) are JSON here.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import config, landing, replay, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERN = "%Y-%m-%d-%H"
NULL = "<null>"
"""CsvNullValue. One student of the capture is called NULL and one \\N: a common marker cannot be told from such a text."""

_TRUNCATED = {"trunc_child": (2, 3, 4, 5), "trunc_parent": (2, 3, 4, 5), "trunc_solo": (1, 2, 3, 6, 7, 8)}
IMPOSSIBLE = (
    *(*truth._ALWAYS, *truth._OVERFLOW, *truth._NO_NAN, *truth._TYPED_RANGE, *truth._NO_DEFAULTS),
    *(truth.Impossible(name, truth.ROW_EXTRA, truth._ids(*ids), truth._from(5), "no file tells a TRUNCATE") for name, ids in _TRUNCATED.items()),
)
"""What DMS's files made of this capture do not carry."""

_NAME_AGAIN = truth.Impossible(
    "evolve",
    "legacy",
    None,
    truth._from(4),
    "text, dropped, then made again as a number: CSV has no types that would tell the two columns apart",
    where=lambda difference: difference.expected is None and "legacy " in str(difference.found),
)

Row = Mapping[str, Any]

_SQL = {"integer": "INT", "smallint": "SMALLINT", "bigint": "BIGINT", "interval": "BIGINT", "real": "FLOAT", "double precision": "DOUBLE"}
_SQL |= {"date": "DATE", "bytea": "BINARY"}
_AVRO = {"INT": "int", "SMALLINT": "int", "BIGINT": "long", "FLOAT": "float", "DOUBLE": "double", "BINARY": "bytes"}


@cache
def kinds(source: str, hour: int) -> dict[str, str]:
    """PostgreSQL's types of a table's columns at the end of an hour."""
    described = json.loads((landing.DATA / f"truth/hour={hour:02}/_tables.json").read_text(encoding="utf-8"))
    return {column["name"]: column["type"] for column in described.get(source, {"columns": []})["columns"]}


def sql_type(kind: str) -> str:
    """The type that DMS writes to Parquet, as Spark spells it: booleans are text."""
    if kind.startswith("timestamp") and not kind.endswith("[]"):
        return "TIMESTAMP"
    numeric = re.fullmatch(r"numeric\((\d+),(\d+)\)", kind)
    return f"DECIMAL({numeric[1]},{numeric[2]})" if numeric else _SQL.get(kind, "STRING")


def schema(source: str) -> str:
    """An Avro schema that declares the columns of a table whose types were of one family all the time."""
    fields = []
    for name, kind in kinds(source, 8).items():
        family = {sql_type(kinds(source, hour)[name])[:7] for hour in landing.HOURS if name in kinds(source, hour)}
        if family in ({sql_type(kind)[:7]}, {"INT", "BIGINT"}):
            fields.append({"name": name, "type": _avro(kind)})
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def _avro(kind: str) -> Any:
    found = sql_type(kind)
    if found.startswith("DECIMAL"):
        precision, scale = re.findall(r"\d+", found)
        return {"type": "bytes", "logicalType": "decimal", "precision": int(precision), "scale": int(scale)}
    if found == "TIMESTAMP":
        return {"type": "long", "logicalType": "timestamp-micros"}
    if found == "DATE":
        return {"type": "int", "logicalType": "date"}
    return "boolean" if kind == "boolean" else _AVRO.get(found, "string")


def changes(source: str, name: str, last: int) -> Iterator[tuple[int, str, Row, Row]]:
    """(hour, Op or "" for the full load, row, before image) of a table, up to the end of an hour, in the order of commits."""
    table = replay.Table(config.keys()[name])
    for hour in range(last + 1):
        events = sorted(replay._events("debezium_json", source, hour), key=lambda event: event.position)
        at = 0
        while at < len(events):
            event, following = events[at], events[at + 1] if at + 1 < len(events) else None
            at += 1
            if (event.identity is not None and event.identity in table.seen) or event.op == "t":
                table.apply(event)
                continue
            table.apply(event)
            if event.op == "d":
                assert event.before is not None
                if following is not None and following.op == "c" and following.moment == event.moment and table.key:
                    at += 1
                    table.apply(following)
                    yield hour, "U", _resolved(table, following.after), {column: event.before[column] for column in table.key}
                else:
                    yield hour, "D", event.before, {}
                continue
            assert event.after is not None
            before = {column: event.after[column] for column in table.key} if table.key else event.before or {}
            op = {"c": "I", "u": "U", "r": "" if hour == 0 else "U"}[event.op]
            yield hour, op, _resolved(table, event.after), before if op == "U" else {}


def _resolved(table: replay.Table, after: Row | None) -> Row:
    """A row with the values that Debezium did not send again: DMS looks them up at the source."""
    assert after is not None
    return dict(table.rows[table._key_of(dict(after))]) if table.key else after


def text(value: Any, kind: str) -> str | None:
    """A value as DMS writes it to CSV; None where it is null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=str, ensure_ascii=False)
    if kind == "bytea":
        return base64.b64decode(value).hex().upper()
    if kind.startswith("timestamp"):
        return str(value).replace("T", " ").removesuffix("Z")
    return str(value)


def land(warehouse: Path, form: str, name: str, hours: Iterable[int], spark: SparkSession | None = None) -> list[Path]:
    """Land these hours of a table as `dms_csv` or `dms_parquet`; the files of the full load belong to hour 0."""
    source, wanted = landing.tables()[name], set(hours)
    files: list[tuple[int, bool, tuple[str, ...], list[dict[str, str | None]]]] = []
    for hour, op, row, before in changes(source, name, max(wanted)):
        kind = kinds(source, hour)
        shown = {column: text(value, kind.get(column, "text")) for column, value in row.items()}
        images = [*config.keys()[name]] or [*row]
        if op:
            shown = {"Op": op, **shown, **{f"BI_{column}": text(before.get(column), kind.get(column, "text")) for column in images}}
        last = files[-1] if files else None
        # a file has one set of columns: DMS begins another when the table changes; and some files are small
        if last is None or last[:3] != (hour, not op, tuple(shown)) or len(last[3]) >= 200:
            files.append((hour, not op, tuple(shown), []))
        files[-1][3].append(shown)
    written = []
    for number, (hour, loaded, columns, rows) in enumerate(files):
        if hour in wanted:
            folder = warehouse / name / "incremental"
            stem = f"LOAD{number + 9:08X}" if loaded else f"2024-03-05-{hour:02}/20240305-{hour:02}{number // 60:02}{number % 60:02}000"
            path = folder / f"{stem}.{form.removeprefix('dms_')}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if form == "dms_csv":
                path.write_text(csv_text(columns, rows), encoding="utf-8", newline="")
            else:
                assert spark is not None
                _write_parquet(spark, path, columns, rows, kinds(source, hour))
            written.append(path)
    return written


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, str | None]]) -> str:
    """RFC 4180 with a header; quotes only where they are needed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([NULL if value is None else value for value in row.values()] for row in rows)
    return out.getvalue()


def _write_parquet(spark: SparkSession, path: Path, columns: tuple[str, ...], rows: list[dict[str, str | None]], kind: Mapping[str, str]) -> None:
    made = path.with_suffix(".made")
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], ", ".join(f"_c{at} STRING" for at in range(len(columns))))
    selected = []
    for at, name in enumerate(columns):
        found = sql_type(kind.get(name.removeprefix("BI_"), "text"))
        values = [row[name] for row in rows]
        if found in ("INT", "SMALLINT") and not all(re.fullmatch(r"-?\d+", value or "0") for value in values):
            found = "STRING"  # the column was dropped and made again within the hour
        value = f"unhex(_c{at})" if found == "BINARY" else f"try_cast(_c{at} AS {found})"
        selected.append(f"{value} AS `{name}`")
    frame.selectExpr(*selected).coalesce(1).write.option("compression", "gzip").parquet(str(made))
    shutil.move(next(made.glob("*.parquet")), path)
    shutil.rmtree(made)


def config_text(form: str, names: Iterable[str], folder: Path) -> str:
    """The compactor.yaml for these tables; CSV has its types declared in files beside it."""
    tables = {}
    for name in names:
        said: dict[str, Any] = {"envelope": "dms", "key": [*config.keys()[name]], "increments": f"{name}/incremental/{PATTERN}"}
        if form == "dms_csv":
            (folder / f"{name}.avsc").write_text(schema(landing.tables()[name]), encoding="utf-8")
            said |= {"schema": f"{name}.avsc", "csv": {"header": True, "null_value": NULL}}
        tables[name] = said
    return json.dumps({"warehouse": ".", "catalog": {"database": "school"}, "tables": tables})


def unexpected(found: Iterable[truth.Difference], form: str, hour: int) -> list[truth.Difference]:
    """The differences that no entry of IMPOSSIBLE explains."""
    listed = (*IMPOSSIBLE, _NAME_AGAIN) if form == "dms_csv" else IMPOSSIBLE
    return [difference for difference in found if not any(entry.covers(difference, hour) for entry in listed)]
