"""Which steps a batch needs beside the reducer (`core/planning/batch.py`)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from compactor.core.model.files import Delta, Segment
from compactor.core.model.inputs import Input
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.batch import plan
from compactor.core.results.batch import BatchSummary
from compactor.core.schema.evolution import Evolved

SPEC = TableSpec("t", "/t", "/t/in", "", "d", "t", "d", ("id",))
SCHEMA = Schema((), ("id",))


def at(number: int) -> tuple[Any, ...]:
    """A Position."""
    return (0, number, "f", 0, 0)


def batch(**values: Any) -> BatchSummary:
    """Changes at the Positions 11 to 20."""
    summary = BatchSummary(
        evolved=Evolved(SCHEMA, {}), order=(("seq", "bigint"),), inputs=(Input("a", 100, "e", "h", None),), read=9, ignored=0, changes=9,
        unavailable_columns=(), deletes=0, moves=0, truncates=0, first=at(11), last=at(20), truncate=None, source_time=None,
    )  # fmt: skip
    return dataclasses.replace(summary, **values)


def stored(**values: Any) -> Snapshot:
    """A version with rows up to Position 10, in one Segment and a Delta."""
    segment = Segment("s", "base/s", 100, 0, (), None, None, at(1), at(9), 1)
    delta = Delta("d", "delta/d", 10, 0, (), at(2), at(10))
    made = Snapshot(
        table="t", uuid="u", version=2, parent=1, writer="w", run="", time="", operation="commit", schema=SCHEMA, order=(("seq", "bigint"),),
        base_id="b", segments=(segment,), delta=delta,
    )  # fmt: skip
    return dataclasses.replace(made, **values)


CASES = {
    "newer changes": ({}, {}, {}, {"new Delta", "one task"}),
    "a late change": ({}, {}, {"first": at(9)}, {"new Delta", "one task", "look up the base"}),
    "the newest stored event again, from another file": ({}, {}, {"first": (0, 10, "a", 0, 0)}, {"new Delta", "one task", "look up the base"}),
    "a late truncate": ({}, {}, {"truncate": at(5)}, {"new Delta", "one task", "look up the base", "barrier"}),
    "a late truncate of a shard, beside a newer one of another": (
        {"pattern": "{region}/increment_%Y%m%d%H"},
        {"unavailable_columns": ("a",)},
        {"truncate": at(30), "shard_truncates": (("a", at(5)), ("b", at(30)))},
        {"new Delta", "one task", "look up the base", "clocks of columns", "barrier"},
    ),
    "a truncate before": ({}, {"truncated_to": at(5)}, {}, {"new Delta", "one task", "barrier"}),
    "unavailable values": ({}, {}, {"unavailable_columns": ("a",)}, {"new Delta", "one task", "look up the base", "clocks of columns"}),
    "unavailable values stored, newer changes": ({}, {"unavailable_columns": ("a",)}, {}, {"new Delta", "one task"}),
    "unavailable values stored, a late change": (
        {}, {"unavailable_columns": ("a",)}, {"first": at(3)}, {"new Delta", "one task", "look up the base", "clocks of columns"},
    ),
    "unavailable values stored, a delete whose row stays visible": (
        {"delete": "soft"}, {"unavailable_columns": ("a",)}, {"deletes": 1}, {"new Delta", "one task", "look up the base", "clocks of columns"},
    ),
    "unavailable values stored, newer than the rows but older than a purge": (
        {}, {"unavailable_columns": ("a",), "purged_to": at(15)}, {},
        {"new Delta", "one task", "look up the base", "clocks of columns", "beyond retention"},
    ),
    "key changes": ({}, {}, {"moves": 2}, {"new Delta", "one task", "key changes"}),
    "older than a purge": ({}, {"purged_to": at(15)}, {}, {"new Delta", "one task", "look up the base", "beyond retention"}),
    "older than a purge of its partition": (
        {}, {"purged_to": at(0), "purged_offsets": ((3, 40),)}, {"least_offsets": ((3, 40),)}, {"new Delta", "one task", "beyond retention"},
    ),
    "newer than a purge of its partition": ({}, {"purged_to": at(0), "purged_offsets": ((3, 40),)}, {"least_offsets": ((3, 41),)}, {"new Delta", "one task"}),
    "offsets of a purge that is forgotten": ({}, {"purged_offsets": ((3, 40),)}, {"least_offsets": ((3, 1),)}, {"new Delta", "one task"}),
    "older than a purge, applied": ({"beyond_retention": "apply"}, {"purged_to": at(15)}, {}, {"new Delta", "one task", "look up the base"}),
    "a table without key": ({"key": ()}, {}, {"unavailable_columns": ("a",)}, {"new Delta", "one task", "removals"}),
    "many bytes": ({}, {}, {"inputs": (Input("a", 1 << 30, "e", "h", None),)}, {"new Delta", "exchange by key"}),
    "many small files": ({}, {}, {"inputs": (Input("a", 1, "e", "h", None),) * 100}, {"new Delta", "exchange by key"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_batch_gets_the_steps_that_it_needs(case: str) -> None:
    """And a reason for each; a whole base is merged without looking anything up, with the clocks of all columns that stored rows lack."""
    settings, parent, summary, steps = CASES[case]
    spec, before = dataclasses.replace(SPEC, **settings), stored()
    columns = parent.get("unavailable_columns", ())
    parts = {"segments": tuple(dataclasses.replace(part, unavailable_columns=columns) for part in before.segments)}
    before = dataclasses.replace(before, **parts, **{name: value for name, value in parent.items() if name != "unavailable_columns"})
    made = plan(spec, before, batch(**summary), whole=False)
    assert {name for name, _ in made.reasons} == steps
    whole = plan(spec, before, batch(**summary), whole=True)
    clocks = {"clocks of columns"} if columns else set()
    assert {name for name, _ in whole.reasons} == (steps - {"new Delta", "look up the base"}) | {"new base"} | clocks


def test_without_a_delta_no_value_lies_beside_its_row() -> None:
    """A base has each key once, so that newer changes need no clock for each column."""
    segments = tuple(dataclasses.replace(part, unavailable_columns=("a",)) for part in stored().segments)
    assert plan(SPEC, stored(segments=segments, delta=None), batch(), whole=True).partial == ()
    assert plan(SPEC, stored(segments=segments), batch(), whole=True).partial == ("a",)


def test_a_first_load_merges_nothing() -> None:
    """Nothing is stored that could be late, purged or lack a value."""
    made = plan(SPEC, None, batch(first=at(1), deletes=1), whole=True)
    assert (made.late, made.partial, made.behind, made.barrier, made.tombstones) == (False, (), False, None, True)
    assert [name for name, _ in made.reasons] == ["new base", "one task"]


def test_a_delta_is_written_by_one_task_if_the_delta_before_is_small_too() -> None:
    """What is merged counts like what is read."""
    large = Delta("d", "delta/d", 10, 0, stored().delta.files, at(2), at(10))  # type: ignore[union-attr]
    spec = dataclasses.replace(SPEC, small_batch=2 << 20)
    assert plan(spec, stored(delta=large), batch(), whole=False).small
    assert not plan(dataclasses.replace(spec, small_batch=1 << 20), stored(delta=large), batch(), whole=False).small
