"""Change events by hand: {changeType, timestamp, columnNames, columnValues, oldKeyNames, oldKeyValues}."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

AVRO = json.dumps({"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "long"},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
    {"name": "born", "type": ["null", {"type": "int", "logicalType": "date"}]},
    {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    {"name": "photo", "type": ["null", "bytes"]},
    {"name": "code", "type": ["null", "string"]},
    {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
]})  # fmt: skip


def event(kind: str, at: Any, new: Mapping[str, Any] | None = None, old: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A change event; `at` is its timestamp."""
    new, old = new or {}, old or {}
    return {
        "changeType": kind, "timestamp": at, "columnNames": [*new], "columnValues": [*new.values()], "oldKeyNames": [*old], "oldKeyValues": [*old.values()], **more,
    }  # fmt: skip


def spec_of(lake: Lake, **settings: Any) -> Any:
    return lake.spec(**{"envelope": "change-event", "format": "json", "order_by": (), "quarantine_rows": 0, **settings})


def landed(lake: Lake, spec: Any, *events: Any, hour: int = 1) -> list[dict[str, Any]]:
    lake.land(spec, hour, events)
    lake.run(spec)
    return sorted(lake.rows(spec), key=lambda row: row["id"])


def types(lake: Lake, spec: Any) -> dict[str, str]:
    return {field.name: field.type for field in lake.snapshot(spec).schema.fields}


@pytest.mark.slow
def test_values_have_the_types_that_the_schema_declares(lake: Lake) -> None:
    """Text is cast; empty text and null are null; decimals are decimal text here, never base64."""
    spec = spec_of(lake, avro_schema=AVRO)
    told = {
        "id": "1",
        "price": "12.50",
        "born": "1990-11-30",
        "seen": "2024-03-05T10:00:00.000000Z",
        "photo": "\\x00ff",
        "code": "007",
        "tags": '["a","b"]',
    }
    rows = landed(lake, spec, event("insert", 1, told), event("INSERT", 2, {"id": "2", "price": "", "code": "", "tags": "{a,NULL}", "photo": "AP8="}))
    assert {
        "id": 1,
        "price": Decimal("12.50"),
        "born": "1990-11-30",
        "seen": "2024-03-05T10:00:00.000000Z",
        "photo": "AP8=",
        "code": "007",
        "tags": ["a", "b"],
    } == rows[0]
    assert {"id": 2, "price": None, "born": None, "seen": None, "photo": "AP8=", "code": "", "tags": ["a", None]} == rows[1]


@pytest.mark.slow
def test_values_have_the_types_named_beside_them(lake: Lake) -> None:
    """`columnTypes` and `oldKeyTypes`, where present, are PostgreSQL's or plain SQL's names."""
    spec = spec_of(lake)
    rows = landed(lake, spec, event("I", 1, {"id": "1", "n": "5", "b": "00ff"}, columnTypes=["bigint", "numeric(9,2)", "bytea"]))
    assert [{"id": 1, "n": Decimal("5"), "b": "AP8="}] == rows
    assert {"id": "bigint", "n": "decimal(9,2)", "b": "binary"} == types(lake, spec)


@pytest.mark.slow
def test_without_types_values_tell_them_and_nothing_is_lost(lake: Lake) -> None:
    """Only what reads back as it was written is taken for more than text; the table's types stand while they fit, and widen when not."""
    spec = spec_of(lake, policy=TEXT_ALLOWED)
    first = {"id": "1", "n": "12", "price": "12.50", "zip": "00501", "day": "2024-03-05", "at": "2024-03-05 10:00:00+01", "ok": "true", "s": "a"}
    landed(lake, spec, event("insert", 1, first), event("insert", 2, {"id": "2", "n": None, "price": "-100", "zip": "10115"}))
    assert {
        "id": "bigint", "n": "bigint", "price": "decimal(5,2)", "zip": "string", "day": "date", "at": "timestamp", "ok": "boolean", "s": "string",
    } == types(lake, spec)  # fmt: skip
    rows = landed(lake, spec, event("insert", 3, {"id": "3", "n": "7", "price": "1.5", "day": "soon"}), hour=2)
    assert {**types(lake, spec), "day": "string", "price": "decimal(5,2)"} == types(lake, spec)
    assert [("00501", "2024-03-05"), ("10115", None), (None, "soon")] == [(row["zip"], row["day"]) for row in rows]
    assert [Decimal("12.50"), Decimal("-100"), Decimal("1.5")] == [row["price"] for row in rows]
    rows = landed(lake, spec, event("insert", 4, {"id": "4", "n": "012"}), hour=3)
    assert ["12", None, "7", "012"] == [row["n"] for row in rows]
    rows = landed(lake, spec, event("insert", 5, {"id": "5", "price": "12.505"}), hour=4)
    assert (rows[-1]["price"], types(lake, spec)["price"]) == (Decimal("12.505"), "decimal(6,3)")
    rows = landed(lake, spec, event("insert", 6, {"id": "6", "price": "0050.5"}), hour=5)
    assert ["12.50", "0050.5"] == [rows[0]["price"], rows[-1]["price"]]


@pytest.mark.slow
def test_a_decimal_that_would_be_rounded_is_quarantined(lake: Lake) -> None:
    """With declared types, as for JSON and CSV."""
    spec = spec_of(lake, types=(("price", "decimal(10,2)"),), quarantine_rows=1)
    rows = landed(
        lake,
        spec,
        event("insert", 1, {"id": "1", "price": "12.50"}),
        event("insert", 2, {"id": "2", "price": "1.005"}),
        event("insert", 3, {"id": "3", "price": "1.234E+5"}),
    )
    assert ([row["price"] for row in rows], len(lake.unusable(spec))) == ([Decimal("12.5"), Decimal("123400")], 1)


@pytest.mark.slow
def test_texts_may_hold_any_braces_and_numbers_stay_exact_beside_them(lake: Lake) -> None:
    """`}{` in a text is no second document, and a brace is no object: numbers without quotes keep all digits."""
    spec, texts, exact = spec_of(lake), ["}{", '}{"', "a{b", "{", "x"], 1234567890123456789.25
    kinds = ["bigint", "text", "numeric(38,10)"]
    lines = [json.dumps(event("insert", at, {"id": at, "v": value, "n": exact}, columnTypes=kinds)) for at, value in enumerate(texts)]
    digits = "12345678901234567890.0123456789"
    rows = landed(lake, spec, *(line.replace(repr(exact), digits) for line in lines))
    assert [(value, Decimal(digits)) for value in texts] == [(row["v"], row["n"]) for row in rows]


@pytest.mark.slow
def test_chains_of_key_changes_carry_what_is_not_told(lake: Lake) -> None:
    """1 → 2 → 3 in one run and in three, the end first; an update may leave out any column; old key names come in any case."""
    for name, apart in (("together", False), ("apart", True)):
        spec = spec_of(lake, name=name)
        events = [
            event("insert", "2024-03-05T10:00:00Z", {"id": "1", "v": "a", "n": "1"}), event("update", "2024-03-05T10:00:01Z", {"id": "2", "n": "2"}, {"ID": "1"}),
            event("update", "2024-03-05T10:00:02Z", {"Id": "3"}, {"id": "2"}), event("insert", "2024-03-05T10:00:03Z", {"id": "1", "v": "new", "n": "5"}),
            event("update", "2024-03-05T10:00:04Z", {"id": "1", "n": "6"}), event("delete", "2024-03-05T10:00:05Z", None, {"id": "9"}),
        ]  # fmt: skip
        for hour, group in enumerate([events[3:], events[:2], events[2:3]] if apart else [events]):
            rows = landed(lake, spec, *group, hour=hour)
        assert [{"id": 1, "v": "new", "n": 6}, {"id": 3, "v": "a", "n": 2}] == rows
        assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_composite_key_in_any_order_and_case(lake: Lake) -> None:
    """The names say which value is which."""
    spec = spec_of(lake, key=("id", "Part"))
    told = event("insert", 1, {"id": "1", "Part": "x", "v": "a"}), event("insert", 2, {"id": "2", "Part": "x", "v": "b"})
    rows = landed(
        lake, spec, *told, event("delete", 3, None, {"PART": "x", "ID": "1"}), event("update", 4, {"id": "3", "Part": "y"}, {"part": "x", "id": "2"})
    )
    assert [{"id": 3, "part": "y", "v": "b"}] == rows


REFUSED: list[tuple[str, Any, str]] = [
    ("other old key names", event("update", 1, {"id": "1", "v": "a"}, {"v": "b"}), "key_mismatch: oldKeyNames are v; the key is id"),
    ("more old key names", event("delete", 1, None, {"id": "1", "v": "b"}), "key_mismatch: oldKeyNames are id, v; the key is id"),
    ("an unknown changeType", event("upsret", 1, {"id": "1"}), "unknown changeType upsret"),
    ("no changeType", {"id": 1}, "not a change event"),
    ("lists of different lengths", {**event("insert", 1, {"id": "1"}), "columnValues": ["1", "2"]}, "1 column names and 2 values"),
    ("no key", event("insert", 1, {"v": "1"}), "no value for the key column id"),
    ("a value of another type", event("insert", 1, {"id": "1", "price": "twelve"}), r"column price: twelve is not of type decimal\(12,2\)"),
    ("names that are no list", {**event("insert", 1, {"id": "1"}), "columnNames": {"id": 1}}, "is not a JSON object with lists"),
]


@pytest.mark.slow
def test_what_cannot_be_used_is_told_with_its_record(lake: Lake) -> None:
    """All cases in one file, good records between. The message names file, record and reason, and nothing is absorbed unless quarantine allows it."""
    spec = spec_of(lake, avro_schema=AVRO)
    lake.land(spec, 1, [line for number, (_, record, _) in enumerate(REFUSED) for line in (event("insert", 1, {"id": str(100 + number)}), record)])
    with pytest.raises(InputRefused, match=f"part-0.json, record 2: .*{REFUSED[0][2]}"):
        lake.run(spec)
    assert ["part-0.json"] == lake.landed(spec)
    lake.run(lake.with_settings(spec, quarantine_rows=None, quarantine_share=1.0))
    for number, ((name, _, why), (at, reason)) in enumerate(zip(REFUSED, lake.unusable(spec), strict=True)):
        assert 2 * number + 2 == at, name
        assert re.search(why, reason), (name, reason)
    assert [100 + number for number in range(len(REFUSED))] == [row["id"] for row in lake.rows(spec)]


@pytest.mark.slow
def test_the_order_is_the_timestamp_or_fields_of_the_record(lake: Lake) -> None:
    """A number of seconds or milliseconds, ISO text, an LSN: each compared as what it is, not as text."""
    newest = {"ms": (1709629200999, 1709629201000), "seconds": (9.5, 10), "iso": ("2024-03-05T10:00:00+02:00", "2024-03-05T09:00:00Z")}
    for name, (older, newer) in newest.items():
        assert [{"id": 1, "v": "new"}] == landed(
            lake, spec_of(lake, name=name), event("insert", newer, {"id": "1", "v": "new"}), event("update", older, {"id": "1", "v": "old"})
        )
    spec = spec_of(lake, name="lsn", order_by=("timestamp", "lsn"))
    rows = landed(lake, spec, event("insert", 1, {"id": "1", "v": "new"}, lsn="0/100"), event("update", 1, {"id": "1", "v": "old"}, lsn="0/FF"))
    assert [{"id": 1, "v": "new"}] == rows


@pytest.mark.slow
def test_change_events_in_parquet(lake: Lake) -> None:
    """The same lists as columns."""
    spec = spec_of(lake, format="parquet")
    ddl = "changeType string, timestamp timestamp, columnNames array<string>, columnValues array<string>, oldKeyNames array<string>, oldKeyValues array<string>"
    from datetime import datetime

    lake.land_parquet(spec, 1, [
        {"t": "insert", "at": datetime(2024, 3, 5), "n": ["id", "v"], "v": ["1", "a"], "on": None, "ov": None},
        {"t": "update", "at": datetime(2024, 3, 6), "n": ["id"], "v": ["2"], "on": ["id"], "ov": ["1"]},
    ], ddl)  # fmt: skip
    lake.run(spec)
    assert [{"id": 2, "v": "a"}] == lake.rows(spec)


@pytest.mark.slow
def test_truncate_and_a_delete_named_by_its_columns(lake: Lake) -> None:
    """A delete without old key names its row by `columnNames`; a truncate ends all before it."""
    spec = spec_of(lake)
    rows = landed(
        lake, spec, event("insert", 1, {"id": "1", "v": "a"}), event("truncate", 2), event("insert", 3, {"id": "2", "v": "b"}),
        event("insert", 4, {"id": "3", "v": "c"}), event("delete", 5, {"id": "3", "v": "c"}),
    )  # fmt: skip
    assert [{"id": 2, "v": "b"}] == rows
