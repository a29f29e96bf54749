"""What a table does about each kind of change, under each policy: the rules as a table, and schemas run through them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import pytest

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import EVOLVE, EXPLICIT, POLICIES, Policy
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import fields_of, of_json
from compactor.core.schema import policy
from compactor.core.schema.evolution import Evolved, evolve
from compactor.core.schema.policy import KINDS
from compactor.core.schema.writer import WriterField, WriterSchema
from tests.core.test_evolution import writer

HIDE = Policy(drop="hide")


def test_every_kind_of_change_has_an_action_for_every_policy() -> None:
    """The table is total: nothing is decided elsewhere."""
    assert set(policy.TABLE) == set(KINDS)
    assert {len(actions) for actions in policy.TABLE.values()} == {len(POLICIES)}
    assert {action for actions in policy.TABLE.values() for action in actions} <= set(policy.ACTIONS)


def test_what_has_to_be_asked_for_is_refused_until_it_is_named() -> None:
    """Under whatever policy stands for all the others."""
    for standard in POLICIES:
        for kind in EXPLICIT:
            assert policy.action(Policy(standard), kind) == "refuse"
            assert policy.action(Policy(standard, ((kind, "evolve"),)), kind) == "widen"


def test_no_policy_loses_what_another_keeps_without_saying_so() -> None:
    """Under `fail` whatever `evolve` acts on is refused; under `freeze` no stored column changes."""
    for kind, (evolved, frozen, failing) in policy.TABLE.items():
        assert (failing == "refuse") == (kind in policy.CHOOSABLE or evolved == "refuse"), kind
        assert frozen in ("leave out", "keep", "refuse"), kind


def named(first: int, last: int, *fields: WriterField) -> WriterSchema:
    """A writer of fields with aliases."""
    return dataclasses.replace(writer(first, last), fields=(*writer(first, last).fields, *fields))


def column(name: str, kind: str = "int", *aliases: str) -> WriterField:
    return WriterField(name, types.parse(kind), types.parse(kind), aliases=aliases)


OLD = [writer(0, 9, a="int", b="string")]
DAY = {"a": "date", "b": "string"}
INSIDE = {"a": "array<struct<x:int,y:struct<u:int,v:string>>>", "b": "string"}
BEFORE = {"date_to_timestamp": DAY, "added inside": INSIDE, "removed inside": INSIDE, "widened inside": INSIDE, "incompatible inside": INSIDE}
CHANGES = {
    "added": [writer(10, 19, a="int", b="string", c=("int", 7))],
    "removed": [writer(10, 19, a="int")],
    "renamed": [named(10, 19, column("x", "int", "a"), column("b", "string"))],
    "widened": [writer(10, 19, a="bigint", b="string")],
    "replaced": [writer(10, 19, b="string"), writer(20, 29, a="string", b="string")],
    "incompatible": [writer(10, 19, a="struct<x:int>", b="string")],
    "to_string": [writer(10, 19, a="string", b="string")],
    "narrowed": [writer(10, 19, a="smallint", b="string")],
    "date_to_timestamp": [writer(10, 19, a="timestamp", b="string")],
    "string_to_bytes": [writer(10, 19, a="int", b="binary")],
    "added inside": [writer(10, 19, **{**INSIDE, "a": "array<struct<x:int,y:struct<u:int,v:string,w:date>>>"})],
    "removed inside": [writer(10, 19, **{**INSIDE, "a": "array<struct<x:int>>"})],
    "widened inside": [writer(10, 19, **{**INSIDE, "a": "array<struct<x:int,y:struct<u:bigint,v:string>>>"})],
    "incompatible inside": [writer(10, 19, **{**INSIDE, "a": "array<struct<x:int,y:struct<u:boolean,v:string>>>"})],
    "reordered": [writer(10, 19, b="string", a="int")],
}
SAME = [("a", "a", "int"), ("b", "b", "string")]
KEPT = [("a", "a", INSIDE["a"]), ("b", "b", "string")]
SHOWN = {
    ("added", "evolve"): [*SAME, ("c", "c", "int")],
    ("added", "freeze"): SAME,
    ("removed", "evolve"): SAME,
    ("removed", "freeze"): SAME,
    ("renamed", "evolve"): [("x", "a", "int"), ("b", "b", "string")],
    ("renamed", "freeze"): SAME,
    ("widened", "evolve"): [("a", "a", "bigint"), ("b", "b", "string")],
    ("replaced", "evolve"): [("b", "b", "string"), ("a", "a_2", "string")],
    ("date_to_timestamp", "evolve"): [("a", "a", "timestamp"), ("b", "b", "string")],
    ("string_to_bytes", "evolve"): [("a", "a", "int"), ("b", "b", "binary")],
    ("to_string", "evolve"): [("a", "a", "string"), ("b", "b", "string")],
    ("added inside", "evolve"): [("a", "a", "array<struct<x:int,y:struct<u:int,v:string,w:date>>>"), ("b", "b", "string")],
    ("added inside", "freeze"): KEPT,
    ("removed inside", "evolve"): KEPT,
    ("removed inside", "freeze"): KEPT,
    ("widened inside", "evolve"): [("a", "a", "array<struct<x:int,y:struct<u:bigint,v:string>>>"), ("b", "b", "string")],
    **{(kind, each): SAME for kind in ("narrowed", "reordered") for each in POLICIES},
}
PATHS = {"added inside": "a[].y.w", "removed inside": "a[].y", "widened inside": "a[].y.u", "incompatible inside": "a[].y.u"}
"""(kind, policy) → (name in the view, stored name, type) of the columns; refused where nothing stands here."""


def shown(schema: Schema) -> list[tuple[str, str, str]]:
    """The view's columns but the key."""
    return [(schema.view_name(field), field.name, field.type) for field in schema.payload if field.name != "id"]


def after(changes: Sequence[WriterSchema], follow: Policy, before: Sequence[WriterSchema] = OLD) -> Evolved:
    """The old schema with these changes."""
    return evolve(evolve(None, before, ["id"], 1, "t").schema, changes, ["id"], 2, "t", follow)


@pytest.mark.parametrize("policy_name", POLICIES)
@pytest.mark.parametrize("case", CHANGES)
def test_the_matrix(case: str, policy_name: str) -> None:
    """What the view shows after a change of each kind, or that it is refused with what to do; said for the kind alone it is the same."""
    kind, before = case.replace(" inside", ""), [writer(0, 9, **BEFORE[case])] if case in BEFORE else OLD
    others = next(name for name in POLICIES if name != policy_name)
    policies = [Policy(policy_name), *([Policy(others, ((kind, policy_name),))] if kind in policy.CHOOSABLE else [])]
    if kind in EXPLICIT:
        policies = policies[1:]
    if kind == "replaced":
        # the column is away first
        policies = [dataclasses.replace(each, kinds=(*each.kinds, ("removed", "evolve"))) for each in policies]
    for follow in policies:
        if (case, policy_name) in SHOWN:
            evolved = after(CHANGES[case], follow, before)
            assert sorted(shown(evolved.schema)) == sorted(SHOWN[case, policy_name])
            reported = [(decision.change.kind, decision.change.column) for decision in evolved.decisions]
            assert (kind in [each for each, _ in reported]) == (kind not in ("narrowed", "reordered"))
            assert case not in PATHS or reported == [(kind, PATHS[case])]
            assert of_json(Schema, json.loads(json.dumps(evolved.schema, default=fields_of))) == evolved.schema
            # the next file of the same writer brings nothing new
            assert evolve(evolved.schema, CHANGES[case][-1:], ["id"], 3, "t", Policy(kinds=follow.kinds)).decisions == () or policy_name == "freeze"
            continue
        with pytest.raises(SchemaRefused, match="stay in landing") as refused:
            after(CHANGES[case], follow, before)
        (result,) = [decision for decision in refused.value.decisions if decision.action == "refuse"]  # type: ignore[attr-defined]
        assert (result.change.kind, result.change.column) == (kind, PATHS.get(case, result.change.column))
        assert kind not in policy.CHOOSABLE or f"{{{kind}: evolve}}" in str(refused.value)


@pytest.mark.parametrize(("kind", "narrow", "wide"), [("date_to_timestamp", "date", "timestamp"), ("string_to_bytes", "string", "binary")])
def test_a_date_is_a_midnight_and_text_is_bytes_only_where_it_is_asked_for(kind: str, narrow: str, wide: str) -> None:
    """Either way round, inside a struct, in the first run and in a late file; without asking no column becomes text of it."""
    asked = Policy("freeze", ((kind, "evolve"), ("widened", "evolve")))
    pairs = [(narrow, wide), (wide, narrow), (f"struct<d:array<{narrow}>>", f"struct<d:array<{wide}>>"), (f"map<int,{wide}>", f"map<int,{narrow}>")]
    for old, new in pairs:
        moment = types.text(types.parse(old.replace(narrow, wide)))
        for batches in (
            [[writer(0, 9, a=old)], [writer(10, 19, a=new)]],
            [[writer(0, 9, a=old), writer(10, 19, a=new)]],
            [[writer(10, 19, a=old)], [writer(0, 9, a=new)]],
        ):
            schema: Schema | None = None
            for version, writers in enumerate(batches, 1):
                schema = evolve(schema, writers, ["id"], version, "t", asked).schema
            assert schema is not None
            assert [(field.name, field.type) for field in schema.payload] == [("id", "bigint"), ("a", moment)]
        for batches in ([[writer(0, 9, a=old)], [writer(10, 19, a=new)]], [[writer(0, 9, a=old), writer(10, 19, a=new)]]):
            before = evolve(None, batches[0], ["id"], 1, "t").schema if batches[1:] else None
            with pytest.raises(SchemaRefused, match=r"followed only if .*Set `on_schema_change: \{" + kind + r": evolve\}`"):
                evolve(before, batches[-1], ["id"], 2, "t", EVOLVE)


def test_text_of_a_key_or_without_a_schema_is_never_taken_for_bytes() -> None:
    """Whoever asks: rows are found by the key's text, and text in bare JSON may be any writing of bytes."""
    asked = Policy(kinds=(("string_to_bytes", "evolve"),))
    by_key = evolve(None, [writer(0, 9, code="string")], ["code"], 1, "t", asked).schema
    with pytest.raises(SchemaRefused, match="column code: stored as string, the new data has binary, and no type can store both"):
        evolve(by_key, [writer(10, 19, code="binary")], ["code"], 2, "t", asked)
    bytes_ = evolve(None, [writer(0, 9, a="binary")], ["id"], 1, "t", asked).schema
    text = writer(10, 19, a="string")
    bare = dataclasses.replace(text, fields=tuple(dataclasses.replace(field, inferred=True, guessed=True) for field in text.fields))
    with pytest.raises(SchemaRefused, match="column a: stored as binary, the new data has string, and no type can store both"):
        evolve(bytes_, [bare], ["id"], 2, "t", asked)
    assert evolve(bytes_, [text], ["id"], 2, "t", asked).schema.field("a").type == "binary"


def test_members_go_and_come_back() -> None:
    """Reported once each time they go; a late file without them, JSON that may only have nulls in them and a delete's row say nothing."""
    with_, without = {"a": "struct<x:int,y:struct<u:int>>"}, {"a": "struct<x:int>"}
    guessed = dataclasses.replace(writer(40, 49), fields=tuple(dataclasses.replace(field, inferred=True) for field in writer(0, 9, **without).fields))
    batches = [
        (writer(10, 19, **with_), []),
        (writer(0, 9, **without), []),
        (writer(20, 29, **without), [("removed", "a.y")]),
        (writer(25, 35, **without), []),
        (writer(36, 39, **with_), []),
        (guessed, []),
        (dataclasses.replace(writer(50, 59, **without), whole=False), []),
        (writer(60, 69, **without), [("removed", "a.y")]),
    ]
    schema: Schema | None = None
    for version, (reported, expected) in enumerate(batches, 1):
        evolved = evolve(schema, [reported], ["id"], version, "t", HIDE)
        schema = evolved.schema
        assert [(decision.change.kind, decision.change.column) for decision in evolved.decisions] == expected, version
        assert {decision.action for decision in evolved.decisions} <= {"keep"}
        assert schema.field("a").type == "struct<x:int,y:struct<u:int>>"
        assert schema.field("a").visible


def test_a_first_load_is_no_change() -> None:
    """Also when its own writers differ."""
    evolved = evolve(None, [*OLD, *CHANGES["widened"], writer(20, 29, c="int")], ["id"], 1, "t", Policy("fail"))
    assert evolved.decisions == ()


@pytest.mark.parametrize("follow", [EVOLVE, Policy("freeze"), Policy("fail")])
def test_a_late_file_of_an_old_schema_is_no_change(follow: Policy) -> None:
    """Old by Position, whenever it arrives: what it lacks came later, what it has narrower has been widened since."""
    schema = evolve(None, [writer(20, 29, a="bigint", b="string", c="int")], ["id"], 1, "t").schema
    evolved = evolve(schema, [writer(0, 9, a="int", b="string")], ["id"], 2, "t", follow)
    assert evolved.decisions == ()
    assert shown(evolved.schema) == shown(schema)
    asked = Policy(kinds=(("to_string", "evolve"),))
    grown = evolve(evolve(None, [writer(0, 9, a="int")], ["id"], 1, "t").schema, [writer(20, 29, a="string")], ["id"], 2, "t", asked).schema
    assert evolve(grown, [writer(3, 12, a="int")], ["id"], 3, "t", follow).decisions == ()


def test_removed_columns_are_hidden_until_they_come_back() -> None:
    """`drop: hide`: stored all the time; a late file that still has them does not show them again; the key always shows."""
    batches = [
        (OLD, ["a", "b"]),
        ([writer(20, 29, a="int")], ["a"]),
        ([writer(10, 19, a="int", b="string")], ["a"]),
        ([writer(30, 39, ("b",), a="int")], ["a", "b"]),
        ([writer(40, 49, a="int")], ["a"]),
        ([writer(50, 59, a="int", b="string")], ["a", "b"]),
        ([writer(60, 69, a="int")], ["a"]),
        # in another case it is the same column
        ([writer(70, 79, a="int", B="string")], ["a", "b"]),
    ]
    schema: Schema | None = None
    for version, (writers, expected) in enumerate(batches, 1):
        schema = evolve(schema, writers, ["id"], version, "t", HIDE).schema
        assert [name for name, _, _ in shown(schema)] == expected, version
        assert schema.names == ("id", "a", "b")
    assert evolve(schema, [writer(80, 89, a="int")], ["id"], 9, "t", dataclasses.replace(HIDE, patch_rows=True)).decisions == ()


def test_a_column_that_some_record_of_the_run_has_is_there_where_records_leave_nulls_out() -> None:
    """Rows without schema: each set of columns is a writer of its own, and the newest record may have the smallest."""

    def rows(*writers: WriterSchema) -> list[WriterSchema]:
        guessed = [tuple(dataclasses.replace(field, guessed=True, inferred=True) for field in each.fields) for each in writers]
        return [dataclasses.replace(each, fields=fields) for each, fields in zip(writers, guessed)]

    first = evolve(None, rows(writer(0, 9, x="string", k="int")), ["id"], 1, "t", HIDE).schema
    second = evolve(first, rows(writer(10, 10, x="string", k="int", e="int"), writer(11, 11, x="string")), ["id"], 2, "t", HIDE)
    assert (["x", "k", "e"], ["added"]) == ([name for name, _, _ in shown(second.schema)], [each.change.kind for each in second.decisions])
    third = evolve(second.schema, rows(writer(12, 12, x="string")), ["id"], 3, "t", HIDE)
    assert (["x"], {"removed"}) == ([name for name, _, _ in shown(third.schema)], {each.change.kind for each in third.decisions})
    # a rebuild reads all again in one run, and a late record may come beside new ones: neither has the column anew
    rebuilt = rows(writer(0, 9, x="string", k="int"), writer(10, 10, x="string", k="int", e="int"), writer(11, 12, x="string"))
    # rows of several files are counted on
    rebuilt[1] = dataclasses.replace(rebuilt[1], last=(*(rebuilt[1].last or ())[:-1], 77))
    for again in (rebuilt, rows(writer(5, 5, x="string", k="int"), writer(13, 13, x="string"))):
        assert ["x"] == [name for name, _, _ in shown(evolve(third.schema, again, ["id"], 4, "t", HIDE).schema)]


def test_a_column_is_not_away_while_it_is_spelled_in_another_case() -> None:
    """A text that was ingested first, before the numbers that came between: it is one column in one run and in two."""
    text, upper, number = writer(20, 29, x="string"), writer(0, 9, X="int"), writer(10, 19, x="int")
    asked = Policy(kinds=(("to_string", "evolve"),))
    together = evolve(None, [text, upper, number], ["id"], 1, "t", asked).schema
    first = evolve(None, [text], ["id"], 1, "t", asked).schema
    assert together.names == evolve(first, [upper, number], ["id"], 2, "t", asked).schema.names == ("id", "x")


def test_a_renamed_column_stays_one_column() -> None:
    """By Avro alias: old files that come late, the newer name, and the old name used again for something else."""
    renamed = after(CHANGES["renamed"], EVOLVE).schema
    late = evolve(renamed, [writer(3, 5, a="int")], ["id"], 3, "t")
    assert shown(late.schema) == shown(renamed)
    assert late.columns["w3-5"]["a"] == "a"
    again = evolve(late.schema, [named(20, 29, column("x", "int", "a"), column("a", "string"), column("b", "string"))], ["id"], 4, "t")
    assert again.columns["w20-29"] == {"id": "id", "x": "a", "a": "a_2", "b": "b"}
    assert sorted(shown(again.schema)) == [("a", "a_2", "string"), ("b", "b", "string"), ("x", "a", "int")]
    assert of_json(Schema, json.loads(json.dumps(again.schema, default=fields_of))) == again.schema


def test_names_that_differ_in_case_are_one_column_unless_a_writer_has_both() -> None:
    """Two files of a run, a later run, and the first spelling again; nulls only show that the column is still there."""
    one = [named(1, 4, column("UserName", "string")), named(5, 9, column("username", "string"))]
    evolved = evolve(None, one, ["id"], 1, "t")
    assert shown(evolved.schema) == [("username", "username", "string")]
    assert (evolved.columns["w1-4"]["UserName"], evolved.columns["w5-9"]["username"]) == ("username", "username")
    later = evolve(evolved.schema, [named(10, 19, column("USERNAME", "string"))], ["id"], 2, "t")
    assert [decision.change.kind for decision in later.decisions] == ["renamed"]
    assert (later.columns["w10-19"]["USERNAME"], later.schema.names) == ("username", ("id", "username"))
    again = evolve(later.schema, [writer(20, 29, ("UserName",))], ["id"], 3, "t")
    assert (again.decisions, again.schema.names) == ((), ("id", "username"))
    both = evolve(later.schema, [named(30, 39, column("USERNAME", "string"), column("userName", "string"))], ["id"], 4, "t")
    assert both.columns["w30-39"] == {"id": "id", "USERNAME": "username", "userName": "username_2"}


def test_a_change_is_told_once_and_with_what_is_done() -> None:
    """Several writers of one run bring the same; the next run finds nothing new."""
    twice = [writer(10, 14, a="bigint", c="int"), writer(15, 19, a="bigint", c="int")]
    evolved = after(twice, EVOLVE)
    assert [decision.sentence for decision in evolved.decisions] == [
        f"`a` was widened from int to bigint: {policy.ACTIONS['widen']}",
        f"`c` was added: int, null in older rows: {policy.ACTIONS['add']}",
        f"`b` was removed; it was string: {policy.STAYS}",
    ]
    assert evolve(evolved.schema, [writer(20, 29, a="bigint", c="int")], ["id"], 3, "t").decisions == ()


def test_a_renamed_key_keeps_its_place() -> None:
    """Said by either name."""
    old = evolve(None, OLD, ["a"], 1, "t").schema
    for key in (["x"], ["a"]):
        assert evolve(old, CHANGES["renamed"], key, 2, "t").schema.key == ("a",)


@pytest.mark.parametrize("key", [["a"], ["id", "a"], []])
def test_another_key_is_refused_under_any_policy(key: list[str]) -> None:
    """Rows are stored by it."""
    with pytest.raises(SchemaRefused, match=r"expected the key \(id\), by which its rows are stored, found "):
        evolve(evolve(None, OLD, ["id"], 1, "t").schema, OLD, key, 2, "t")


def test_a_delete_with_only_the_key_says_nothing_of_the_other_columns() -> None:
    """Nor do events that name some of the columns: nothing is removed, no later type is a new column, nothing is hidden."""
    schema = evolve(None, OLD, ["id"], 1, "t").schema
    evolved = evolve(schema, [dataclasses.replace(writer(10, 19), whole=False)], ["id"], 2, "t", HIDE)
    assert evolved.decisions == ()
    assert all(field.visible for field in evolved.schema.payload)
    with pytest.raises(SchemaRefused, match="column a: stored as int, the new data has array<int>"):
        evolve(evolved.schema, [writer(20, 29, a="array<int>", b="string")], ["id"], 3, "t")
    more = dataclasses.replace(writer(30, 39, c="int"), whole=False, undecided=("b",))
    evolved = evolve(evolved.schema, [more], ["id"], 3, "t", HIDE)
    assert [("added", "c")] == [(decision.change.kind, decision.change.column) for decision in evolved.decisions]
    assert {"id", "a", "b", "c"} == {field.source for field in evolved.schema.payload if field.visible}
