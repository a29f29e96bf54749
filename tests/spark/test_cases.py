"""What every source can do to a row, as cases of a few events each; every envelope in every format must make the same rows of them.

The plain-Python oracle (`tests/oracle/model.py`) plays the same cases back. All cases of a table lie in one stream, each with ten keys of its own.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pytest

from compactor.core.model.spec import Csv, TableSpec
from tests.oracle import emit, model
from tests.oracle.emit import Event, Record
from tests.oracle.sizes import FULL
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

Row = tuple[Any, Any, Any]
"""a, b, c."""

HOURS = 3


@dataclass(frozen=True)
class Sent:
    """A transaction, and the hours in whose folders it lands."""

    hours: tuple[int, ...]
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Case:
    """Transactions in the order of their commits, and the rows that are left, by key 0-9. `lacking` are the envelopes that cannot tell it."""

    sent: Sequence[Sent]
    rows: dict[int, Row]
    lacking: frozenset[str] = field(default=frozenset())


def at(hour: int, *events: Event, again: int | None = None) -> Sent:
    """A transaction that lands in one hour, and perhaps once more in another."""
    return Sent((hour,) if again is None else (hour, again), events)


def put(op: str, key: int, a: int, b: str | None = None, c: str | None = None, missing: str = "", old: int | None = None) -> Event:
    """An insert (c) or update (u); `missing` names columns that are not sent, `old` the key that the row had."""
    values = {name: value for name, value in (("a", a), ("b", b), ("c", c)) if name not in missing}
    return {"op": op, "key": [key], "values": values, "missing": [*missing], **({} if old is None else {"from": [old]})}


def gone(key: int) -> Event:
    """A delete."""
    return {"op": "d", "key": [key]}


def emptied() -> Event:
    """A truncate."""
    return {"op": "t", "key": []}


WHOLE = frozenset({"dms"})
"""Sends whole rows only: it never leaves a value out."""
NO_TRUNCATE = frozenset({"dms", "flat", "wal2json_1"})

CASES: dict[str, Case] = {
    # the first in time: it empties what the others have not yet begun
    "a truncate is a barrier, also for what arrives after it": Case(
        [at(0, put("c", 1, 1, "x")), at(2, put("c", 2, 2, "late")), at(1, emptied()), at(0, put("c", 3, 3, "after"))],
        {3: (3, "after", None)},
        NO_TRUNCATE,
    ),
    "rows come, change and go": Case(
        [at(0, put("c", 1, 1, "one"), put("c", 2, 2, "two"), put("c", 3, 3, "three")), at(1, put("u", 1, 5, "five")), at(1, gone(2))],
        {1: (5, "five", None), 3: (3, "three", None)},
    ),
    "null is a value": Case([at(0, put("c", 1, 1, "x", "y")), at(1, put("u", 1, 2, None, "y"))], {1: (2, None, "y")}),
    "the last event of a transaction counts": Case([at(0, put("c", 1, 1), put("u", 1, 2), put("u", 1, 3, "end"))], {1: (3, "end", None)}),
    "deleted and inserted again in one transaction": Case(
        [at(0, put("c", 1, 1, "old")), at(1, gone(1), put("c", 1, 2, "new"))], {1: (2, "new", None)}
    ),
    "a row that lives and dies in one batch": Case([at(1, put("c", 1, 1)), at(1, put("u", 1, 2)), at(1, gone(1))], {}),
    "the older event arrives later": Case(
        [at(0, put("c", 1, 1)), at(2, put("u", 1, 2, "late")), at(1, put("u", 1, 3, "newest"))], {1: (3, "newest", None)}
    ),
    "an older event does not bring a deleted row back": Case([at(0, put("c", 1, 1)), at(2, put("u", 1, 2)), at(1, gone(1))], {}),
    "a late delete does not end the row that came after it": Case(
        [at(0, put("c", 1, 1, "x")), at(2, gone(1)), at(1, put("c", 1, 2, "y"))], {1: (2, "y", None)}
    ),
    "sent again after a crash": Case(
        [at(0, put("c", 1, 1, "x"), again=2), at(0, put("u", 1, 2, "y"), again=1), at(1, put("u", 1, 3, "z"), again=2)], {1: (3, "z", None)}
    ),
    "a changed key": Case([at(0, put("c", 1, 1, "x")), at(1, put("u", 2, 2, "x", old=1))], {2: (2, "x", None)}),
    "a chain of changed keys in one batch": Case(
        [at(0, put("c", 1, 1, "x")), at(1, put("u", 2, 1, "x", old=1)), at(1, put("u", 3, 2, "x", old=2), put("u", 4, 3, "x", old=3))],
        {4: (3, "x", None)},
    ),
    "two keys change places through a third": Case(
        [
            at(0, put("c", 1, 1, "first"), put("c", 2, 2, "second")),
            at(1, put("u", 9, 1, "first", old=1), put("u", 1, 2, "second", old=2), put("u", 2, 1, "first", old=9)),
        ],
        {1: (2, "second", None), 2: (1, "first", None)},
    ),
    "a value that is not sent keeps what the batch tells": Case(
        [at(1, put("c", 1, 1, "big")), at(1, put("u", 1, 2, missing="b")), at(1, put("u", 1, 3, missing="bc"))], {1: (3, "big", None)}, WHOLE
    ),
    "a value that is not sent keeps what is stored": Case(
        [at(0, put("c", 1, 1, "big", "c")), at(1, put("u", 1, 2, "new", missing="c")), at(2, put("u", 1, 3, missing="b"))],
        {1: (3, "new", None)},
        WHOLE,
    ),
    "a value that is not sent is told by an older event that arrives later": Case(
        [at(2, put("c", 1, 1, "big")), at(1, put("u", 1, 2, missing="b"))], {1: (2, "big", None)}, WHOLE
    ),
    "a value that is not sent follows its row to the new key": Case(
        [at(0, put("c", 1, 1, "big")), at(1, put("u", 2, 2, missing="b", old=1)), at(2, put("u", 3, 3, missing="b", old=2))],
        {3: (3, "big", None)},
        WHOLE,
    ),
    "a late event of the old key changes what followed the row, not what the key change had itself": Case(
        [
            at(0, put("c", 1, 1, "big", "c1")),
            at(2, put("u", 1, 2, "late", "c2")),
            at(0, put("u", 2, 3, c="own", missing="b", old=1)),
            at(1, put("u", 2, 4, missing="bc")),
        ],
        {2: (4, "late", "own")},
        WHOLE,
    ),
    "values that are not sent change places": Case(
        [
            at(0, put("c", 1, 1, "first"), put("c", 2, 2, "second")),
            at(1, put("u", 9, 1, missing="b", old=1), put("u", 1, 2, missing="b", old=2), put("u", 2, 1, missing="b", old=9)),
        ],
        {1: (2, "second", None), 2: (1, "first", None)},
        WHOLE,
    ),
}


def transactions(envelope: str) -> Iterator[tuple[tuple[int, ...], list[dict[str, Any]]]]:
    """What an envelope can tell of the cases: (hours, events with whole keys and Positions), in the order of their commits."""
    position = 1000
    for number, case in enumerate(CASES.values()):
        if envelope in case.lacking:
            continue
        for sent in case.sent:
            events = []
            for event in sent.events:
                position += 10
                keys = {name: [10 * number + key for key in event[name]] for name in ("key", "from") if name in event}
                events.append({"values": {}, "missing": [], **event, **keys, "position": [position]})
            yield sent.hours, events


def expected(envelope: str) -> dict[int, Row]:
    """The rows written beside the cases."""
    told = [(10 * number, case) for number, case in enumerate(CASES.values()) if envelope not in case.lacking]
    return {first + key: row for first, case in told for key, row in case.rows.items()}


# ---- how each format writes records ------------------------------------------------------------------------------------

_SOURCE = "connector STRING, `schema` STRING, `table` STRING, txId BIGINT, lsn BIGINT, ts_ms BIGINT, sequence STRING"
_IMAGE = "id BIGINT, a INT, b STRING, c STRING"
_DEBEZIUM = f"before STRUCT<{_IMAGE}>, after STRUCT<{_IMAGE}>, source STRUCT<{_SOURCE}>, op STRING, ts_ms BIGINT, transaction STRUCT<id: STRING, total_order: BIGINT>"
_FLAT = f"{_IMAGE}, __op STRING, __deleted STRING, __lsn BIGINT, __source_txId BIGINT, __source_sequence STRING, __source_ts_ms BIGINT"
_DMS = f"Op STRING, {_IMAGE}, BI_id BIGINT, AR_H_CHANGE_SEQ STRING"
_LISTS = "columnNames ARRAY<STRING>, columnValues ARRAY<STRING>, oldKeyNames ARRAY<STRING>, oldKeyValues ARRAY<STRING>"
_CHANGE_EVENT = f"changeType STRING, timestamp BIGINT, {_LISTS}"


def _nullable(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _avro(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_nullable(field, kind) for field, kind in fields.items()]}


_ROW = {"id": "long", "a": "int", "b": "string", "c": "string"}
_BLOCK = {"connector": "string", "schema": "string", "table": "string", "txId": "long", "lsn": "long", "ts_ms": "long", "sequence": "string"}
_AVRO = {
    "debezium": _avro(
        "Envelope",
        {
            "before": _avro("Value", _ROW),
            "after": "Value",
            "source": _avro("Source", _BLOCK),
            "op": "string",
            "ts_ms": "long",
            "transaction": _avro("Block", {"id": "string", "total_order": "long"}),
        },
    ),
    "flat": _avro(
        "Value",
        {
            **_ROW,
            "__op": "string",
            "__deleted": "string",
            "__lsn": "long",
            "__source_txId": "long",
            "__source_sequence": "string",
            "__source_ts_ms": "long",
        },
    ),
}

Write = Callable[[Lake, Path, Sequence[Record]], None]


def json_lines(lake: Lake, folder: Path, records: Sequence[Any]) -> None:
    """Gzipped; None is an empty line."""
    text = "".join(("" if record is None else json.dumps(record)) + "\n" for record in records)
    (folder / "part-0.json.gz").write_bytes(gzip.compress(text.encode()))


def debezium_topic(lake: Lake, folder: Path, records: Sequence[Record]) -> None:
    """The value's JSON beside what else a topic holds."""
    first, *rest = records
    json_lines(lake, folder, [*emit.without_rows(first), *rest])


def with_schema(lake: Lake, folder: Path, records: Sequence[Record]) -> None:
    """Connect's `schemas.enable`."""
    kinds = {"id": "int64", "a": "int32", "b": "string", "c": "string"}
    columns = [{"field": name, "type": kind, "optional": name != "id"} for name, kind in kinds.items()]
    parts = [{"field": part, "type": "struct", "optional": True, "fields": columns} for part in ("before", "after")]
    schema = {"type": "struct", "name": "db.public.t.Envelope", "fields": [*parts, {"field": "op", "type": "string"}]}
    json_lines(lake, folder, [{"schema": schema, "payload": record} for record in records])


def kafka(lake: Lake, folder: Path, records: Sequence[Record]) -> None:
    """Whole records as kcat writes them, each delete followed by its tombstone."""
    hour, out = int(folder.name[-2:]), []
    for record in records:
        key = json.dumps({"id": (record["after"] or record["before"] or {}).get("id")}) if record["op"] != "t" else None
        for value in (json.dumps(record), *([None] if record["op"] == "d" else [])):
            out.append({"topic": "t", "partition": 0, "offset": 1000 * hour + len(out), "key": key, "headers": [], "payload": value})
    json_lines(lake, folder, out)


def parquet(ddl: str) -> Write:
    """Columns and structs of their own types."""

    def write(lake: Lake, folder: Path, records: Sequence[Record]) -> None:
        lake.spark.createDataFrame([*records], ddl).coalesce(1).write.mode("append").parquet(str(folder))

    return write


def avro(schema: dict[str, Any]) -> Write:
    """A container file."""

    def write(lake: Lake, folder: Path, records: Sequence[Record]) -> None:
        with (folder / "part-0.avro").open("wb") as out:
            fastavro.writer(out, fastavro.parse_schema(schema), records, codec="deflate")

    return write


def comma_separated(lake: Lake, folder: Path, records: Sequence[Record]) -> None:
    """With a header; null is an unquoted empty value."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*records[0]])
    writer.writeheader()
    writer.writerows(records)
    (folder / "part-0.csv").write_text(out.getvalue())


FORMATS: dict[str, tuple[str, emit.Emit, Write, dict[str, Any]]] = {
    "debezium, JSON": ("debezium", emit.debezium, debezium_topic, {}),
    "debezium, JSON with schema": ("debezium", emit.debezium, with_schema, {}),
    "debezium, Kafka records": ("debezium", emit.debezium, kafka, {"container": "kafka"}),
    "debezium, Avro": ("debezium", emit.debezium, avro(_AVRO["debezium"]), {}),
    "debezium, Parquet": ("debezium", emit.debezium, parquet(_DEBEZIUM), {}),
    "flat, JSON": ("flat", emit.flat, json_lines, {}),
    "flat, CSV": ("flat", emit.flat, comma_separated, {"csv": Csv(header=True)}),
    "flat, Avro": ("flat", emit.flat, avro(_AVRO["flat"]), {}),
    "flat, Parquet": ("flat", emit.flat, parquet(_FLAT), {}),
    "wal2json, format 1": ("wal2json_1", emit.wal2json_1, json_lines, {}),
    "wal2json, format 2": ("wal2json_2", emit.wal2json_2, json_lines, {}),
    "dms, CSV": ("dms", emit.dms, comma_separated, {"csv": Csv(header=True, null_value="")}),
    "dms, Parquet": ("dms", emit.dms, parquet(_DMS), {}),
    "change-event, JSON": ("change-event", emit.change_event, json_lines, {}),
    "change-event, Parquet": ("change-event", emit.change_event, parquet(_CHANGE_EVENT), {}),
}

EACH_ONCE = (
    "debezium, JSON with schema",
    "debezium, Avro",
    "flat, Parquet",
    "wal2json, format 1",
    "wal2json, format 2",
    "dms, CSV",
    "change-event, JSON",
)
"""The sample: every envelope and every format."""


@pytest.mark.parametrize("envelope", sorted({envelope for envelope, *_ in FORMATS.values()}))
def test_the_oracle_plays_the_cases_back(envelope: str) -> None:
    """The rows written beside the cases are those of a plain replay."""
    lines = [json.dumps(event) for _, events in transactions(envelope) for event in events]
    found = model.replayed(model.parsed("\n".join(lines).encode(), "f"))
    assert expected(envelope) == {key[0]: (row.get("a"), row.get("b"), row.get("c")) for key, row in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS if FULL else EACH_ONCE)
def test_every_envelope_in_every_format_makes_the_same_rows(lake: Lake, name: str) -> None:
    """Three hours in three runs; every event is counted, nothing waits in quarantine, nothing is unresolved, `verify` is content."""
    envelope, made, write, settings = FORMATS[name]
    spec: TableSpec = lake.spec(envelope=envelope.partition("_")[0], order_by=(), quarantine_rows=0, write_mode="merge-on-read", **settings)
    for hour in range(HOURS):
        records = [record for hours, events in transactions(envelope) if hour in hours for record in made(("id",), events)]
        folder = Path(spec.landing) / f"increment_20240305{hour:02d}"
        folder.mkdir(parents=True)
        write(lake, folder, records)
        counts = lake.run(spec).counts
        assert counts["read"] == sum(number for outcome, number in counts.items() if outcome != "read") >= len(records)
    assert expected(envelope) == {row["id"]: (row["a"], row["b"], row["c"]) for row in lake.rows(spec)}
    assert 0 == lake.snapshot(spec).unresolved
    assert [] == lake.problems(spec)
