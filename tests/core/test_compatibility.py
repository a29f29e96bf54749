"""Avro's schema resolution and Confluent's levels, as tables of cases; fastavro is the second opinion."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.errors import Refused
from compactor.core.schema import avro
from compactor.core.schema.compatibility import LEVELS, check, problems
from tests.oracle.sizes import sized


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record of (field name, type) or (field name, type, default)."""
    members = [{"name": name, "type": kind, **({"default": rest[0]} if rest else {})} for name, kind, *rest in fields]
    return {"type": "record", "name": name, **more, "fields": members}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    """An enum."""
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    """A fixed."""
    return {"type": "fixed", "name": name, "size": size}


def aliased(name: str, kind: Any, *aliases: str, **more: Any) -> dict[str, Any]:
    """A record whose only field has aliases."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind, "aliases": list(aliases), **more}]}


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
NODE = record(("v", "int"), ("next", ["null", "R"], None))
LONGER = record(("v", "long"), ("next", ["null", "R"], None))
TEXTS = record(("v", "string"), ("next", ["null", "R"], None))

CASES = [
    # reader, writer, readable, why not
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, ""),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "[]: written as long, read as int"),
    ({"type": "map", "values": "double"}, {"type": "map", "values": "float"}, ""),
    ({"type": "map", "values": "string"}, {"type": "map", "values": "int"}, "{}: written as int, read as string"),
    ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "written as map, read as array"),
    (enum("a", "b"), enum("a"), ""),
    (enum("a"), enum("a", "b"), "the reader's enum lacks b and has no default"),
    (enum("a", default="a"), enum("a", "b"), ""),
    (enum("b", "a"), enum("a", "b"), ""),
    (enum("a"), enum("a", name="X"), "the writer's enum has the name X, the reader's E"),
    (enum("a", aliases=["X"]), enum("a", name="X"), ""),
    (enum("a", name="n.E"), enum("a", name="m.E"), ""),
    (fixed(4), fixed(4), ""),
    (fixed(4), fixed(5), "written as fixed of 5 bytes, read as fixed of 4"),
    (fixed(4), fixed(4, "G"), "the writer's fixed has the name G, the reader's F"),
    (fixed(4), "bytes", "written as bytes, read as fixed F"),
    (enum("a"), "string", "written as string, read as enum E"),
    # records
    (record(("a", "int")), record(("a", "int"), ("b", "int")), ""),
    (record(("a", "int"), ("b", "int")), record(("a", "int")), "b: the field is not written and has no default"),
    (record(("a", "int"), ("b", "int", 7)), record(("a", "int")), ""),
    (record(("a", "int"), ("b", ["null", "int"], None)), record(("a", "int")), ""),
    (record(("a", "int"), ("b", ["null", "int"])), record(("a", "int")), "b: the field is not written and has no default"),
    (record(("b", "int"), ("a", "int")), record(("a", "int"), ("b", "int")), ""),
    (record(("a", "long")), record(("a", "int")), ""),
    (record(("a", "int")), record(("a", "string")), "a: written as string, read as int"),
    (aliased("b", "int", "a"), record(("a", "int")), ""),
    (record(("a", "int")), aliased("b", "int", "a"), "a: the field is not written and has no default"),
    (aliased("b", "int", "a"), record(("a", "string")), "b: written as string, read as int"),
    (
        record(("a", record(("x", "int"), name="P"))),
        record(("a", record(("y", "int"), name="P"))),
        "a.x: the field is not written and has no default",
    ),
    (record(("a", "int")), record(("a", "int"), name="S"), "the writer's record has the name S, the reader's R"),
    (record(("a", "int"), aliases=["S"]), record(("a", "int"), name="S"), ""),
    (record(("a", "int"), namespace="n"), record(("a", "int"), namespace="m"), ""),
    # unions
    (["null", "int"], "int", ""),
    (["null", "long"], "int", ""),
    ("int", ["null", "int"], "written as null, read as int"),
    ("int", ["int"], ""),
    (["null", "int", "string"], ["null", "int"], ""),
    (["null", "int"], ["null", "int", "string"], "no branch of the reader's union can read the written string"),
    (["string", "null"], ["null", "string"], ""),
    (["null", "int"], "string", "no branch of the reader's union can read the written string"),
    ("double", ["int", "float"], ""),
    (
        ["null", record(("x", "int"), name="P")],
        ["null", record(("x", "int"), name="Q")],
        "no branch of the reader's union can read the written record Q",
    ),
    # recursive ones
    (NODE, NODE, ""),
    (LONGER, NODE, ""),
    (NODE, LONGER, "v: written as long, read as int"),
    (TEXTS, NODE, "v: written as int, read as string"),
]


def parsed(schema: Any) -> avro.AvroSchema:
    """A schema given as Python values."""
    return avro.parse(json.dumps(schema))


@pytest.mark.parametrize(
    ("reader", "writer", "why"), CASES, ids=[f"{json.dumps(reader)[:40]} reads {json.dumps(writer)[:40]}" for reader, writer, _ in CASES]
)
def test_a_reader_and_a_writer(reader: Any, writer: Any, why: str) -> None:
    """What stands in the way, with its place in the reader."""
    assert [str(problem) for problem in problems(parsed(reader), parsed(writer))] == ([why] if why else [])


@pytest.mark.parametrize(("written", "read"), [*itertools.product(PRIMITIVES, PRIMITIVES)])
def test_every_pair_of_primitives(written: str, read: str) -> None:
    """The same, or promoted."""
    assert (problems(parsed(read), parsed(written)) == []) == (written == read or (written, read) in PROMOTED)


def test_what_one_branch_took_for_granted_proves_nothing_for_the_next() -> None:
    """A pair of records under way counts as readable only as long as nothing says otherwise."""
    part = record(("v", "string"), name="P")
    reader = [record(("p", part), name="R", namespace="one"), record(("p", "one.P"), name="R", namespace="two")]
    writer = record(("p", record(("v", "int"), name="P")), name="R")
    assert [str(problem) for problem in problems(parsed(reader), parsed(writer))] == ["no branch of the reader's union can read the written record R"]


def test_every_problem_is_told() -> None:
    """Not the first one only."""
    reader = record(("a", "int"), ("b", "int"), ("c", enum("x")), ("d", "int", 0))
    writer = record(("a", "string"), ("c", enum("x", "y", "z")))
    assert [problem.partition(":")[0] for problem in problems(parsed(reader), parsed(writer))] == ["a", "b", "c"]


V1 = record(("id", "int"))
WITH_DEFAULT = record(("id", "int"), ("note", "string", ""))
WITHOUT_DEFAULT = record(("id", "int"), ("note", "string"))
WIDER = record(("id", "long"))
GONE = record(("note", "string", ""))

LEVEL_CASES = [
    # what changes: new schema, old ones; the levels at which it is refused
    ("nothing", V1, [V1], ""),
    ("the first version", V1, [], ""),
    ("a field with default is added", WITH_DEFAULT, [V1], ""),
    ("a field without default is added", WITHOUT_DEFAULT, [V1], "BACKWARD BACKWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("a field with default is removed", V1, [WITH_DEFAULT], ""),
    ("a field without default is removed", V1, [WITHOUT_DEFAULT], "FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("int becomes long", WIDER, [V1], "FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("long becomes int", V1, [WIDER], "BACKWARD BACKWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("int becomes string", record(("id", "string")), [V1], "BACKWARD BACKWARD_TRANSITIVE FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("a symbol is added", record(("e", enum("a", "b"))), [record(("e", enum("a")))], "FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("a symbol is removed", record(("e", enum("a"))), [record(("e", enum("a", "b")))], "BACKWARD BACKWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("a column becomes nullable", record(("id", ["null", "int"])), [V1], "FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
    ("a default goes after its field came with it", WITHOUT_DEFAULT, [V1, WITH_DEFAULT], "BACKWARD_TRANSITIVE FULL_TRANSITIVE"),
    (
        "an older reader needs what is gone",
        GONE,
        [WITHOUT_DEFAULT, record(("note", "string", ""), ("id", "int", 0))],
        "FORWARD_TRANSITIVE FULL_TRANSITIVE",
    ),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("new", "old", "refused"), [case[1:] for case in LEVEL_CASES], ids=[case[0] for case in LEVEL_CASES])
def test_a_level(level: str, new: Any, old: list[Any], refused: str) -> None:
    """Confluent's table: BACKWARD lets consumers be upgraded first, FORWARD producers, FULL either, NONE says nothing."""
    sentences = check(level, json.dumps(new), [json.dumps(each) for each in old])
    assert bool(sentences) == (level in refused.split()), sentences


def test_the_sentences_name_versions() -> None:
    """Which way round, and which version."""
    assert check("FULL_TRANSITIVE", json.dumps(record(("id", "string"))), [json.dumps(V1)]) == [
        "the new schema cannot read data of version 1: id: written as int, read as string",
        "version 1 cannot read data of the new schema: id: written as string, read as int",
    ]


def test_a_level_nobody_knows_is_refused() -> None:
    """Saying nothing would be worse."""
    with pytest.raises(Refused, match="found 'SIDEWAYS'"):
        check("SIDEWAYS", json.dumps(V1), [])


SCHEMAS = st.recursive(
    st.sampled_from(["int", "long", "double", "string", "boolean", enum("a"), enum("a", "b"), fixed(2)]),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda values: {"type": "map", "values": values}, inner)
        | st.dictionaries(st.sampled_from("xyz"), inner, min_size=1).map(lambda members: record(*members.items(), name="P"))
    ),
    max_leaves=5,
)


def once(schema: Any, seen: set[str] | None = None) -> Any:
    """The schema with distinct names for its named types, so that none is defined twice; the same numbering on both sides."""
    seen = set() if seen is None else seen
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    if "name" in out:
        seen.add(str(len(seen)))
        out["name"] = f"{out['name']}{len(seen)}"
    for part in ("items", "values"):
        if part in out:
            out[part] = once(out[part], seen)
    if "fields" in out:
        out["fields"] = [{**member, "type": once(member["type"], seen)} for member in out["fields"]]
    return out


def sample(schema: Any) -> Any:
    """A value in which every part of the schema occurs."""
    if isinstance(schema, str):
        return {"int": 1, "long": 2, "double": 0.5, "string": "s", "boolean": True}[schema]
    if schema["type"] == "array":
        return [sample(schema["items"])]
    if schema["type"] == "map":
        return {"k": sample(schema["values"])}
    if schema["type"] == "record":
        return {member["name"]: sample(member["type"]) for member in schema["fields"]}
    return schema["symbols"][-1] if schema["type"] == "enum" else b"\0" * schema["size"]


@sized(200)
@given(reader=SCHEMAS, writer=SCHEMAS)
def test_data_can_be_read_when_nothing_stands_in_the_way(reader: Any, writer: Any) -> None:
    """fastavro reads what was written, or cannot, as this module says. (A symbol that may be unknown is written; arrays are not empty.)"""
    reader, writer = once(reader), once(writer)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(writer), sample(writer))
    written.seek(0)
    try:
        fastavro.schemaless_reader(written, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
        readable = True
    except Exception:
        readable = False
    assert (problems(parsed(reader), parsed(writer)) == []) == readable
