"""How a stored schema follows its writers: each rule, and that splitting writers over runs changes nothing."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence

import pytest

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import Policy
from compactor.core.model.schema import RESERVED, Field, Schema
from compactor.core.model.snapshot import fields_of, of_json
from compactor.core.schema.evolution import evolve
from compactor.core.schema.nested_types import UNDECIDED
from compactor.core.schema.schema_history import became_text
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.spark import columns
from compactor.spark.rows.reduce import COUNTED


def writer(first: int | None, last: int | None, undecided: tuple[str, ...] = (), **columns: object) -> WriterSchema:
    """A writer of an `id` and these columns: `a="int"`, or `a=("int", default)`; its Changes lie between the Positions."""
    fields = []
    for name, column_type in {"id": "bigint", **columns}.items():
        text, default = column_type if isinstance(column_type, tuple) else (column_type, None)
        kind = types.parse(str(text))
        fields.append(WriterField(name, kind, kind, default=default))
    bounds = [(0, at, "f", 0, 0) if at is not None else None for at in (first, last)]
    return WriterSchema(f"w{first}-{last}", tuple(fields), bounds[0], bounds[1], undecided)


def guessing(one: WriterSchema) -> WriterSchema:
    """The writer of JSON without schema."""
    return dataclasses.replace(one, fields=tuple(dataclasses.replace(field, inferred=True) for field in one.fields))


TEXT_ALLOWED = Policy(kinds=(("to_string", "evolve"),))


def runs(*batches: Sequence[WriterSchema]) -> Schema:
    """The schema after these runs."""
    schema: Schema | None = None
    for version, writers in enumerate(batches, 1):
        schema = evolve(schema, writers, ["id"], version, "t", TEXT_ALLOWED).schema
    assert schema is not None
    return schema


def shape(schema: Schema) -> list[tuple[str, str, bool]]:
    """(stored name, type, visible) of each column."""
    return [(field.name, field.type, field.visible) for field in schema.fields]


ID = ("id", "bigint", True)


@pytest.mark.parametrize(
    ("batches", "expected", "generation"),
    [
        pytest.param([[writer(0, 9, a="int")]], [ID, ("a", "int", True)], 1, id="first load"),
        pytest.param([[writer(0, 9, a="int")], [writer(10, 19, a="int", b="string")]], [ID, ("a", "int", True), ("b", "string", True)], 1, id="added"),
        pytest.param([[writer(0, 9, a="int", b="int")], [writer(10, 19, a="int")]], [ID, ("a", "int", True), ("b", "int", True)], 1, id="removed: kept"),
        pytest.param([[writer(0, 9, a="bigint")], [writer(10, 19, a="int")]], [ID, ("a", "bigint", True)], 1, id="a narrower type fits"),
        pytest.param([[writer(0, 9, a="int")], [writer(10, 19, a="bigint")]], [ID, ("a", "bigint", True)], 2, id="widened"),
        pytest.param([[writer(0, 9, a="int"), writer(10, 19, a="bigint")]], [ID, ("a", "bigint", True)], 1, id="widened while new: no generation"),
        pytest.param([[writer(0, 9, a="int")], [writer(10, 19, a="string")]], [ID, ("a", "string", True)], 2, id="no common number: text"),
        pytest.param([[writer(0, 9, a="decimal(5,2)")], [writer(10, 19, a="decimal(9,4)")]], [ID, ("a", "decimal(9,4)", True)], 2, id="more digits"),
        pytest.param([[writer(0, 9, a="struct<x:int>")], [writer(10, 19, a="struct<x:int,y:int>")]], [ID, ("a", "struct<x:int,y:int>", True)], 2, id="members"),
        pytest.param(
            [[writer(0, 9, a="int"), writer(10, 19), writer(20, 29, a="string")]], [ID, ("a", "int", False), ("a_2", "string", True)], 1, id="dropped, added with another type, at once"
        ),
        pytest.param(
            [[writer(0, 9, a="int")], [writer(10, 19)], [writer(20, 29, a="string")]], [ID, ("a", "int", False), ("a_2", "string", True)], 1, id="the same, run by run"
        ),
        pytest.param(
            [[writer(0, 9, a="int")], [writer(10, 19), writer(20, 29, a="string")]], [ID, ("a", "int", False), ("a_2", "string", True)], 1, id="the same, in two runs"
        ),
        pytest.param(
            [[writer(20, 29, a="string")], [writer(0, 9, a="int")]], [ID, ("a", "string", True)], 1, id="a late old writer of another type that text takes"
        ),
        pytest.param(
            [[writer(20, 29, a="int")], [writer(0, 9, a="string")]], [ID, ("a", "string", True)], 2, id="a late old writer of text: all is text"
        ),
        pytest.param(
            [[writer(10, 19), writer(20, 29, a="int")], [writer(0, 9, a="string")]], [ID, ("a", "int", True), ("a_2", "string", False)], 1,
            id="a late old writer of another type, before the column was away",
        ),
        pytest.param(
            [[writer(20, 29, a="int")], [writer(0, 9, a="string"), writer(10, 19)]], [ID, ("a", "int", True), ("a_2", "string", False)], 1,
            id="the same, the late run shows that it was away",
        ),
        pytest.param([[writer(0, 9, a="int")], [writer(10, 19)], [writer(20, 29, a="int")]], [ID, ("a", "int", True)], 1, id="added again with its type"),
        pytest.param([[writer(0, 9, a="int")], [writer(10, 19)], [writer(20, 29, a="bigint")]], [ID, ("a", "bigint", True)], 2, id="added again, wider"),
        pytest.param(
            [[writer(0, 9, a="int")], [writer(10, 19, ("a",))], [writer(20, 29, a="string")]], [ID, ("a", "string", True)], 2, id="only nulls in between: not away"
        ),
        pytest.param([[writer(0, 9, _op="int", segment="string")]], [ID, ("_op_2", "int", True), ("segment_2", "string", True)], 1, id="reserved names"),
        pytest.param([[writer(0, 9, userId="int", userid="string")]], [ID, ("userid", "int", True), ("userid_2", "string", True)], 1, id="names equal but for case"),
        pytest.param([[writer(0, 9, undecided=("a",))], [writer(10, 19, a="int")]], [ID, ("a", "int", True)], 1, id="undecided until typed"),
    ],
)  # fmt: skip
def test_a_rule(batches: list[list[WriterSchema]], expected: list[tuple[str, str, bool]], generation: int) -> None:
    """Stored names, types, which is shown, and whether new tables are needed."""
    schema = runs(*batches)
    assert shape(schema) == expected
    assert schema.generation == generation


def test_every_column_that_lies_beside_the_payload_is_reserved() -> None:
    """In Changes, in states, and in reduced rows: a source column of that name is stored under another one."""
    reduced = (columns.BEHIND, columns.UNCHANGED, columns.SEGMENT, *COUNTED)
    assert {*columns.CHANGE, columns.TIME, *columns.STATE, *reduced} - set(RESERVED) == set()


def test_an_event_that_is_incomplete_does_not_show_that_a_column_was_away() -> None:
    """It brings a column that no other writer has had, in the same run or an earlier one. Which others the table had then, it does not say."""
    stored, partial = writer(1, 5, v="int"), dataclasses.replace(writer(7, 7, w="string"), whole=False)
    later = writer(9, 9, v="binary", w="string")
    for batches in ([[stored], [partial, later]], [[stored], [partial], [later]]):
        with pytest.raises(SchemaRefused, match="no type can store both"):
            runs(*batches)


@pytest.mark.parametrize("table", [[], [[writer(0, 4)]]], ids=["first run", "new column"])
def test_json_with_a_schema_and_without_it_are_no_text_together(table: list[list[WriterSchema]]) -> None:
    """In one run as in two: `2024-02-29` and its days since 1970 are the same day. Writers of one kind may make text of a new column."""
    dates, days, texts = writer(5, 9, a="date"), writer(10, 19, a="bigint"), writer(10, 19, a="string")
    with pytest.raises(SchemaRefused, match="to_string"):
        evolve(runs(*table) if table else None, [dates, guessing(days)], ["id"], 2, "t")
    for writers in ([dates, texts], [guessing(days), guessing(texts)]):
        assert shape(runs(*table, writers))[-1] == ("a", "string", True)


@pytest.mark.parametrize(
    ("stored", "result"),
    [("struct<a:int>", "array<int>"), ("array<int>", "string"), ("binary", "int"), ("struct<a:int>", "struct<a:string>"), ("map<string,int>", "int")],
)
def test_what_no_type_holds_is_refused(stored: str, result: str) -> None:
    """The error names table, column and both types."""
    with pytest.raises(SchemaRefused, match=r"(?s)table t, column a.*" + result.replace("(", r"\(").split("<")[0]):
        runs([writer(0, 9, a=stored)], [writer(10, 19, a=result)])


def test_an_added_column_remembers_its_default_and_its_beginning() -> None:
    """The version that brought it, the Position of its first Change, and the default it came with."""
    schema = runs([writer(0, 9)], [writer(10, 19, a=("int", 7))], [writer(20, 29, a=("int", 8))])
    field = schema.field("a")
    assert (field.since, field.default, field.first, field.last) == (2, 7, (0, 10, "f", 0, 0), (0, 29, "f", 0, 0))


def test_a_default_is_a_value_of_its_columns_type() -> None:
    """Also when the type changes. Bytes have no constant that every engine reads, and four-byte fractions none either: they are stored as eight."""
    for default, kind, becomes, expected in ((False, "boolean", "string", "false"), (7, "int", "string", "7"), (7, "int", "decimal(12,1)", "7")):
        field = runs([writer(0, 9)], [writer(10, 19, a=(kind, default))], [writer(20, 29, a=becomes)]).field("a")
        assert (field.type, field.default) == (becomes, expected)
    added = runs([writer(0, 9)], [writer(10, 19, a=("float", 1.5), b="float")])
    assert (added.field("a").type, added.field("b").type) == ("double", "float")
    text = runs([writer(0, 9)], [writer(10, 19, a=("string", "x"))])
    with pytest.raises(SchemaRefused, match="its default 'x'"):
        evolve(text, [writer(20, 29, a="binary")], ["id"], 3, "t", Policy(kinds=(("string_to_bytes", "evolve"),)))


def test_a_late_older_writer_moves_a_columns_beginning_back() -> None:
    """The default is the one that the column came with at the source, whenever that is learned."""
    late_last = runs([writer(0, 9)], [writer(20, 29, a=("int", 8))], [writer(10, 19, a=("int", 7))])
    in_order = runs([writer(0, 9)], [writer(10, 19, a=("int", 7))], [writer(20, 29, a=("int", 8))])
    assert [(f.name, f.default, f.first, f.last) for f in late_last.fields] == [(f.name, f.default, f.first, f.last) for f in in_order.fields]


def test_each_writer_is_told_where_its_columns_go() -> None:
    """Two writers of one run whose column changed its type between write to two columns."""
    evolved = evolve(None, [writer(0, 9, a="int"), writer(10, 19), writer(20, 29, a="string")], ["id"], 1, "t")
    assert evolved.columns == {"w0-9": {"id": "id", "a": "a"}, "w10-19": {"id": "id"}, "w20-29": {"id": "id", "a": "a_2"}}
    assert (evolved.schema.names, evolved.retyped) == (("id", "a", "a_2"), ())


def test_the_view_shows_one_column_of_a_name() -> None:
    """The newest of a source name has the name; the other is hidden; a name differing only by case keeps its number."""
    schema = runs([writer(0, 9, a="int"), writer(10, 19), writer(20, 29, a="string")])
    assert [(schema.view_name(field), field.type) for field in schema.payload] == [("id", "bigint"), ("a", "string")]
    schema = runs([writer(0, 9, userId="int", userid="string")])
    assert [schema.view_name(field) for field in schema.payload] == ["id", "userid", "userid_2"]


@pytest.mark.parametrize("kind", ["float", "double", "array<int>", "map<string,int>", "struct<a:int>"])
def test_a_key_that_engines_compare_differently_is_refused(kind: str) -> None:
    """Their equality differs between engines, so a row could be two rows in one of them."""
    with pytest.raises(SchemaRefused, match="another key"):
        evolve(None, [writer(0, 9, k=kind)], ["k"], 1, "t")


def test_a_key_that_is_not_in_the_data_is_refused() -> None:
    """The error lists the columns; another case of letters is accepted."""
    with pytest.raises(SchemaRefused, match="it has the columns id, a"):
        evolve(None, [writer(0, 9, a="int")], ["nope"], 1, "t")
    assert evolve(None, [writer(0, 9)], ["ID"], 1, "t").schema.key == ("id",)
    with pytest.raises(SchemaRefused, match="id and ID in `key` are one column of the data"):
        evolve(None, [writer(0, 9)], ["id", "ID"], 1, "t")


def test_a_keyless_table_has_a_hidden_key_of_its_own() -> None:
    """`_row_id` is stored and not shown."""
    schema = evolve(None, [writer(0, 9, a="int")], [], 1, "t").schema
    assert schema.key == ("_row_id",)
    assert "_row_id" not in [field.name for field in schema.payload]


def test_the_given_schema_is_left_as_it_was() -> None:
    """`evolve` makes a new value."""
    before = runs([writer(0, 9, a="int")])
    fields = before.fields
    evolve(before, [writer(10, 19, a="bigint", b="int")], ["id"], 2, "t")
    assert before.fields == fields
    assert before == of_json(Schema, json.loads(json.dumps(before, default=fields_of)))
    assert of_json(Field, dataclasses.asdict(fields[1])) == fields[1]


@pytest.mark.parametrize(
    ("stored", "given", "result"),
    [
        ("array<int>", "array<array<int>>", "array<string>"),
        ("array<int>", "array<boolean>", "array<string>"),
        ("struct<x:array<int>>", "struct<x:int>", "struct<x:string>"),
        ("array<struct<x:int>>", "array<struct<x:string,y:int>>", "array<struct<x:string,y:int>>"),
        ("map<string,int>", "map<string,string>", "map<string,string>"),
        ("struct<a:int>", "array<int>", "string"),
        ("struct<a:int>", "map<string,int>", "string"),
        ("array<int>", "string", "string"),
        ("string", "struct<a:int>", "string"),
        ("struct<a:string>", "struct<a:array<int>>", "struct<a:string>"),
    ],
)
def test_what_only_text_can_hold_in_json_becomes_text_on_request(stored: str, given: str, result: str) -> None:
    """Without schema: the column, or what is inside of it. Text that may hold arrays and objects, as JSON, is no change that a later run reports again.

    Of other writers only arrays of several depths become text: PostgreSQL's `integer[]` holds one dimension or two.
    """
    one, other, again = (guessing(writer(first, first + 9, a=kind)) for first, kind in ((0, stored), (10, given), (20, stored)))
    first = runs([one])
    with pytest.raises(SchemaRefused, match=r"`a.*` changed from .*to_string: evolve"):
        evolve(first, [other], ["id"], 2, "t")
    evolved = evolve(first, [other], ["id"], 2, "t", TEXT_ALLOWED)
    assert [ID, ("a", result, True)] == shape(evolved.schema)
    assert became_text(first, evolved.schema) == ({} if stored == result else {"a": result})
    assert ("to_string" in [decision.change.kind for decision in evolved.decisions]) == (stored != result)
    assert evolve(evolved.schema, [again, dataclasses.replace(other, id="w")], ["id"], 3, "t", TEXT_ALLOWED).decisions == ()

    typed = [writer(0, 9, a=stored)], [writer(10, 19, a=given)]
    if types.depth(types.parse(given)) in (0, types.depth(types.parse(stored))) or stored[:5] != "array":
        with pytest.raises(SchemaRefused, match="no type can store both"):
            runs(*typed)
    else:
        assert [ID, ("a", "string", True)] == shape(runs(*typed))


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "run by run"])
@pytest.mark.parametrize("kinds", [("bigint", "double", "bigint"), ("double", "bigint", "double"), ("bigint", "bigint", "double")])
def test_numbers_out_of_json_become_double_and_never_another_column(apart: bool, kinds: tuple[str, ...]) -> None:
    """Whichever came first, and whatever rows without the column lie between."""
    reported = [writer(at * 20, at * 20 + 9, a=kind) for at, kind in enumerate(kinds)]
    inferred = [guessing(one) for one in reported]
    between = [writer(at * 20 + 10, at * 20 + 19) for at in range(2)]
    all_ = [inferred[0], between[0], inferred[1], between[1], inferred[2]]
    assert [ID, ("a", "double", True)] == shape(runs(*([one] for one in all_)) if apart else runs(all_))


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "run by run"])
def test_a_writer_that_leaves_out_columns_says_nothing_of_them(apart: bool) -> None:
    """A delete has only the key: a column that it does not name was not away, so another type widens it."""
    for whole, expected in ((False, [ID, ("a", "string", True)]), (True, [ID, ("a", "string", False), ("a_2", "int", True)])):
        three = [writer(0, 9, a="string"), dataclasses.replace(writer(10, 19), whole=whole), writer(20, 29, a="int")]
        assert expected == shape(runs(*([one] for one in three)) if apart else runs(three))


def test_older_rows_read_the_first_default_of_a_column_whichever_writer_came_first() -> None:
    """The writer with the least Position decides, in one run and over several; a column that was there from the start has no older rows."""

    def writer(name: str, at: int, default: int | None, *columns: str) -> WriterSchema:
        fields = [WriterField(column, ("int",), ("int",), default=default if column == "n" else None) for column in columns]
        return WriterSchema(name, tuple(fields), (0, at, "f", 0, 0), (0, at + 5, "f", 0, 0))

    writers = [writer("a", 10, None, "id"), writer("b", 30, 7, "id", "n"), writer("c", 20, 5, "id", "n")]
    for order in itertools.permutations(writers):
        schema = None
        for each in order:
            before, schema = schema, evolve(schema, [each], ("id",), 1, "t").schema
        assert schema is not None
        assert schema.defaults == evolve(None, order, ("id",), 1, "t").schema.defaults == {"n": ((0, 20, "f", 0, 0), 5)}
        assert before is not None
        assert schema.defaults_moved(before, (0, 25, "f", 0, 0)) == (schema.defaults != before.defaults)
        assert not schema.defaults_moved(before, (0, 15, "f", 0, 0))
    assert evolve(None, writers[2:], ("id",), 1, "t").schema.defaults == {}


def test_empty_arrays_and_objects_are_hidden_text_until_a_value_shows_their_type() -> None:
    """Then the column has that type, whatever the policy says of other types; beside a scalar it stays text."""
    text = ("string",)

    def empty(at: int) -> WriterSchema:
        made = writer(at, at)
        return dataclasses.replace(made, fields=(*made.fields, WriterField("a", text, text, inferred=True, marked=UNDECIDED)))

    assert shape(runs([empty(1)], [empty(2)])) == [ID, ("a", "string", False)]
    typed = runs([empty(1)], [writer(2, 2, a="array<int>")], [empty(3)])
    assert (shape(typed), typed.generation, typed.field("a").undecided) == ([ID, ("a", "array<int>", True)], 2, ())
    assert shape(runs([empty(5)], [writer(2, 2, a="struct<b:int>")])) == [ID, ("a", "struct<b:int>", True)]
    assert shape(runs([empty(1), writer(2, 2, a="int")])) == [ID, ("a", "string", True)]
