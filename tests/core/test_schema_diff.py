"""What changed between two schemas: a table of cases that reads like the sentences people get, then the captured history of one table."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.errors import SchemaRefused
from compactor.core.schema import avro
from compactor.core.schema.diff import KINDS, Change, diff

CAPTURED = Path(__file__).parents[1] / "capture" / "data" / "registry"


def record(*members: Any, name: str = "R") -> dict[str, Any]:
    """A record of fields given as (name, type) or as dicts."""
    return {
        "type": "record",
        "name": name,
        "fields": [member if isinstance(member, dict) else dict(zip(("name", "type"), member)) for member in members],
    }


def sentences(before: Any, after: Any) -> list[str]:
    """What `diff` says."""
    return [change.sentence for change in diff(json.dumps(before), json.dumps(after))]


def nullable(kind: Any) -> list[Any]:
    """Null first."""
    return ["null", kind]


def decimal(precision: int, scale: int) -> dict[str, Any]:
    """An Avro decimal."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def connect(base: str, name: str, **parameters: str) -> dict[str, Any]:
    """A semantic type of Connect."""
    return {"type": base, "connect.name": name, "connect.parameters": parameters}


def enum(*symbols: str) -> dict[str, Any]:
    """An enum."""
    return {"type": "enum", "name": "E", "symbols": list(symbols)}


ID = ("id", "int")
MILLIS, MICROS = connect("long", "io.debezium.time.Timestamp"), connect("long", "io.debezium.time.MicroTimestamp")

CASES = [
    ("nothing", record(ID), record(ID), []),
    ("added, null in old rows", record(ID), record(ID, ("note", nullable("string"))), ["`note` was added: string, null in older rows"]),
    ("added with a default", record(ID), record(ID, {"name": "note", "type": "string", "default": "n/a"}), ['`note` was added: string, older rows read "n/a"']),
    ("added with a made-up default", record(ID), record(ID, {"name": "at", "type": MICROS, "default": 0}), ["`at` was added: timestamp, null in older rows"]),
    ("removed", record(ID, ("note", "string")), record(ID), ["`note` was removed; it was string"]),
    ("renamed", record(ID, ("note", "string")), record(ID, {"name": "remark", "type": "string", "aliases": ["note"]}), ["`note` was renamed to `remark` (Avro alias)"]),
    ("renamed and widened", record(("n", "int")), record({"name": "m", "type": "long", "aliases": ["n"]}), ["`n` was renamed to `m` (Avro alias)", "`m` was widened from int to bigint"]),
    ("no alias, no renaming", record(ID, ("a", "int")), record(ID, ("b", "int")), ["`b` was added: int, null in older rows", "`a` was removed; it was int"]),
    ("an alias of a column that stays", record(ID, ("a", "int")), record(ID, ("a", "int"), {"name": "b", "type": "int", "aliases": ["a"]}), ["`b` was added: int, null in older rows"]),
    ("reordered", record(ID, ("a", "int"), ("b", "int")), record(("b", "int"), ID, ("a", "int")), ["the columns have a new order: b, id, a; before: id, a, b"]),
    ("added in the middle is no other order", record(ID, ("b", "int")), record(ID, ("a", "int"), ("b", "int")), ["`a` was added: int, null in older rows"]),
    ("nullable", record(("a", "int")), record(("a", nullable("int"))), ["`a` is nullable now"]),
    ("required", record(("a", nullable("int"))), record(("a", "int")), ["`a` is required now"]),
    ("null last", record(("a", nullable("int"))), record(("a", ["int", "null"])), []),
    ("widened", record(("a", nullable("int"))), record(("a", nullable("long"))), ["`a` was widened from int to bigint"]),
    ("float to double", record(("a", "float")), record(("a", "double")), ["`a` was widened from float to double"]),
    ("more digits", record(("a", decimal(9, 2))), record(("a", decimal(12, 2))), ["`a` was widened from decimal(9,2) to decimal(12,2)"]),
    ("more digits and another scale", record(("a", decimal(9, 2))), record(("a", decimal(9, 4))), ["`a` was widened from decimal(9,2) to decimal(9,4); both are stored as decimal(11,4)"]),
    ("narrowed", record(("a", "long")), record(("a", "int")), ["`a` was narrowed from bigint to int"]),
    ("incompatible", record(("a", "int")), record(("a", "boolean")), ["`a` changed from int to boolean, and no type can store both"]),
    ("date to timestamp", record(("a", connect("int", "io.debezium.time.Date"))), record(("a", MICROS)), ["`a` changed from date to timestamp; a date becomes its midnight"]),
    ("text to bytes", record(("a", "string")), record(("a", "bytes")), ["`a` changed from string to binary; text becomes its UTF-8 bytes"]),
    ("milliseconds to microseconds", record(("a", MILLIS)), record(("a", MICROS)), ["`a` is encoded as MicroTimestamp instead of Timestamp; it is still stored as timestamp"]),
    ("uuid to text", record(("a", connect("string", "io.debezium.data.Uuid"))), record(("a", "string")), ["`a` is encoded as string instead of Uuid; it is still stored as string"]),
    ("a symbol more", record(("e", enum("a"))), record(("e", enum("a", "b", "c"))), ["`e` has new symbols: b, c"]),
    ("a symbol less", record(("e", enum("a", "b"))), record(("e", enum("a"))), ["`e` lost symbols: b"]),
    ("Debezium's enums", record(("e", connect("string", "io.debezium.data.Enum", allowed="a,b"))), record(("e", connect("string", "io.debezium.data.Enum", allowed="b,c"))), ["`e` has new symbols: c", "`e` lost symbols: a"]),
    ("another default", record({"name": "a", "type": "int", "default": 7}), record({"name": "a", "type": "int", "default": 9}), ["the default of `a` changed from 7 to 9"]),
    ("a default more", record(("a", "boolean")), record({"name": "a", "type": "boolean", "default": False}), ["the default of `a` changed from none to false"]),
    ("another comment", record({"name": "a", "type": "int", "doc": "x"}), record(("a", "int")), ['the documentation of `a` changed from "x" to none']),
    # nested
    ("a member more", record(("p", record(("x", "int"), name="P"))), record(("p", record(("x", "int"), ("y", "string"), name="P"))), ["`p.y` was added: string, null in older rows"]),
    ("a member less, deep", record(("p", record(("q", nullable(record(("x", "int"), ("y", "int"), name="Q"))), name="P"))), record(("p", record(("q", nullable(record(("x", "int"), name="Q"))), name="P"))), ["`p.q.y` was removed; it was int"]),
    ("members in another order", record(("p", record(("x", "int"), ("y", "int"), name="P"))), record(("p", record(("y", "int"), ("x", "int"), name="P"))), ["the members of `p` have a new order: y, x; before: x, y"]),
    ("items", record(("a", {"type": "array", "items": "int"})), record(("a", {"type": "array", "items": "long"})), ["`a[]` was widened from int to bigint"]),
    ("items that may be null", record(("a", {"type": "array", "items": "int"})), record(("a", {"type": "array", "items": nullable("int")})), ["`a[]` is nullable now"]),
    ("items of records", record(("a", {"type": "array", "items": record(("x", "int"), name="P")})), record(("a", {"type": "array", "items": record(("x", "long"), name="P")})), ["`a[].x` was widened from int to bigint"]),
    ("values", record(("m", {"type": "map", "values": "string"})), record(("m", {"type": "map", "values": "int"})), ["`m{}` changed from string to int, and no type can store both"]),
    ("array to value", record(("a", {"type": "array", "items": "int"})), record(("a", "int")), ["`a` changed from array<int> to int, and no type can store both"]),
    ("another record name is the same columns", record(("p", record(("x", "int"), name="P"))), record(("p", record(("x", "int"), name="Q")), name="S"), []),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_change(before: Any, after: Any, expected: list[str]) -> None:
    """In words."""
    assert sentences(before, after) == expected


def test_every_kind_of_change_has_a_case() -> None:
    """The table above is complete."""
    reported = {change.kind for _, before, after, _ in CASES for change in diff(json.dumps(before), json.dumps(after))}
    # a schema alone does not tell that a name is used again, or what text may hold: `evolution` does
    assert reported | {"replaced", "to_string"} == set(KINDS)


def test_an_envelope_is_compared_by_its_rows() -> None:
    """What Debezium changes in its own `source` block is nobody's column."""

    def envelope(row: Any, *source: Any) -> dict[str, Any]:
        return record(
            ("before", nullable({**row, "name": "Value"})),
            ("after", nullable("Value")),
            ("source", record(*source, name="Source")),
            ("op", "string"),
            name="Envelope",
        )

    assert sentences(envelope(record(ID), ("lsn", "long")), envelope(record(ID, ("a", "int")), ("lsn", "long"), ("xmin", "long"))) == [
        "`a` was added: int, null in older rows"
    ]


def test_a_change_as_json() -> None:
    """For notices."""
    assert Change("widened", "a", "int", "bigint").to_json() == {
        "kind": "widened",
        "column": "a",
        "before": "int",
        "after": "bigint",
        "detail": "",
        "sentence": "`a` was widened from int to bigint",
    }


KIND = st.recursive(
    st.sampled_from(["int", "long", "string", "boolean", decimal(9, 2), MICROS, enum("a")]),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner) | st.builds(nullable, inner.filter(lambda kind: not isinstance(kind, list)))
    ),
    max_leaves=3,
)
ROWS = st.dictionaries(st.sampled_from("abcd"), KIND, min_size=1).map(lambda members: [*members.items()])


@given(before=ROWS, after=ROWS)
def test_what_is_said_is_what_differs(before: list[Any], after: list[Any]) -> None:
    """Nothing is said exactly when the rows are the same but for null's place; additions one way are removals the other way."""

    def once(rows: list[Any]) -> dict[str, Any]:
        text = json.dumps(record(*rows))
        for at in range(text.count('"name": "E"')):
            text = text.replace('"name": "E"', f'"name": "E{at}"', 1)
        return dict(json.loads(text))

    old, new = once(before), once(after)
    there, back = diff(json.dumps(old), json.dumps(new)), diff(json.dumps(new), json.dumps(old))
    assert (there == []) == (before == after)
    assert (back == []) == (there == [])
    retyped = {"widened", "narrowed", "incompatible", "encoded"}
    for one, other in (({"added"}, {"removed"}), ({"nullable"}, {"required"}), (retyped, retyped), ({"narrowed"}, {"widened"})):
        assert {change.column for change in there if change.kind in one} <= {change.column for change in back if change.kind in other}


def test_what_is_no_schema_is_refused() -> None:
    """As everywhere."""
    with pytest.raises(SchemaRefused):
        diff("{}", json.dumps(record(ID)))


def test_the_history_of_a_captured_table() -> None:
    """`evolve`: thirteen versions of a PostgreSQL table changed in mid-stream, as its registry tells them."""
    subjects = json.loads((CAPTURED / "subjects.json").read_text(encoding="utf-8"))
    history = {
        table: [
            (CAPTURED / "schemas" / f"{each['id']}.avsc").read_text(encoding="utf-8") for each in subjects if each["subject"] == f"pga.public.{table}"
        ]
        for table in ("evolve-value", "evolve-key")
    }
    values = history["evolve-value"]
    reported = [[change.sentence for change in diff(before, after)] for before, after in itertools.pairwise(values)]
    # the ALTER TABLEs of the workload, in their order
    assert reported == [
        ["`note` was added: string, null in older rows"],
        ["`score` was added: int, older rows read 7"],
        ["`qty` was widened from int to bigint"],
        ["`price` was widened from decimal(10,2) to decimal(20,4)"],
        ["`legacy` was removed; it was string"],
        ["`remark` was added: string, null in older rows", "`note` was removed; it was string"],
        ["`legacy` was added: int, null in older rows"],
        ["`id` was widened from int to bigint"],
        ["`flag` changed from boolean to string, and no type can store both"],
        ["`score` is nullable now"],
        ["the default of `score` changed from 7 to 9"],
        ["`in_tx` was added: timestamp, null in older rows"],
    ]
    assert [avro.key_fields(text) for text in history["evolve-key"]] == [("id",), ("id",)]
