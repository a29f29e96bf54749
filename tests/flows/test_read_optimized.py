"""`<view>_ro`: always the rows of one committed version, from the base alone after each compaction, whatever happens to the table."""

from __future__ import annotations

import dataclasses
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.catalog import base_views, views
from compactor.core.catalog.ddl import ViewDef
from compactor.core.model.errors import TryLater
from compactor.core.settings.forms import ALWAYS, NEVER
from compactor.flows.keep.erase import Request, erase
from compactor.flows.read.status import status
from compactor.flows.run import look_at
from tests.faults import Crash, Faults
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.reader import look
from tests.oracle.sizes import sized

Rows = tuple[tuple[Any, ...], ...]
KEYS = 40


def ro(lake: Lake) -> tuple[int, Rows]:
    """What the view shows: its version, and rows."""
    seen, view = look(lake.catalog, lake.storage, lake.spec, "t_ro"), definition(lake)
    assert seen is not None
    return int(view.properties[base_views.STATE_VERSION]), seen.rows


def definition(lake: Lake) -> ViewDef:
    """The view as the catalog has it."""
    view = lake.catalog.view("school", "t_ro")
    assert view is not None
    return view


def rows(lake: Lake) -> Rows:
    """What the main view shows."""
    seen = lake.look()
    assert seen is not None
    return seen.rows


def change(lake: Lake, seq: int, *keys: int, op: str = "u") -> None:
    """Land a change of these keys and run."""
    lake.deliver(f"increment_2026010100/{seq}.json", [line(op, [key], [seq], None if op == "d" else {"a": seq}) for key in keys])
    lake.run()


def begun(**settings: Any) -> Lake:
    """A table of several Segments, without compactions."""
    lake = Lake(table(**{"read_optimized": True, "target_file_bytes": 1100, "compact_window": NEVER, **settings}))
    change(lake, 1, *range(KEYS), op="c")
    assert len(lake.newest().segments) > 3  # type: ignore[union-attr]
    return lake


def compacted(lake: Lake) -> None:
    """A run that compacts."""
    spec, lake.spec = lake.spec, lake.spec.compacting_now
    lake.run()
    lake.spec = spec


@pytest.mark.parametrize("delete", ["hide", "soft"])
def test_it_shows_the_last_compaction_while_the_table_goes_on(delete: str) -> None:
    """Deleted rows are hidden or marked as in the view; the next compaction brings it up to date, without a Delta in its text."""
    lake = begun(delete=delete)
    first = rows(lake)
    assert ro(lake) == (1, first)
    change(lake, 2, 3, 9)
    change(lake, 3, 4, op="d")
    assert ro(lake) == (1, first)
    assert rows(lake) != first
    compacted(lake)
    assert ro(lake)[1] == rows(lake)
    change(lake, 4, 5)
    version, shown = ro(lake)
    assert (version, shown) == (3, lake.expected(lake.committed_at(3)))
    assert "_delta" not in definition(lake).text
    assert shown != rows(lake)
    assert lake.failed_checks() == []


def test_its_columns_are_those_of_the_view() -> None:
    """A column that came after the compaction is null there."""
    lake = begun()
    lake.deliver("increment_2026010101/new.json", [line("u", [3], [7], {"a": 7, "b": "new"})])
    lake.run()
    view = lake.catalog.view("school", "t")
    assert view is not None
    assert definition(lake).columns == view.columns
    assert {row[-1] for row in ro(lake)[1]} == {None}
    assert (definition(lake).properties[views.VERSION], ro(lake)[0]) == ("2", 1)


def test_its_age_is_in_properties_and_in_the_status() -> None:
    """The version, its source time, and when the base was written."""
    lake = begun()
    change(lake, 2, 3)
    newest, told = lake.newest(), status(lake.table())
    assert newest is not None
    assert (told.version, told.ro_version) == (2, 1)
    dated = dataclasses.replace(newest, base_source_time="2026-01-01T00:00:00Z", source_time="2026-01-01T01:00:00Z")
    assert base_views.state(dated) == (1, "2026-01-01T00:00:00Z")
    assert base_views.state(dataclasses.replace(dated, delta=None)) == (2, "2026-01-01T01:00:00Z")
    properties = base_views.view(lake.spec, dated).properties
    expected = {
        base_views.STATE_VERSION: "1", base_views.STATE_SOURCE_TIME: "2026-01-01T00:00:00Z", base_views.STATE_COMPACTED: newest.compacted_at,
        views.VERSION: "2", views.UUID: newest.uuid,
    }  # fmt: skip
    assert {name: properties[name] for name in expected} == expected
    assert definition(lake).properties[base_views.STATE_SOURCE_TIME] == views.UNKNOWN
    lake.spec = table()
    assert (status(lake.table()).ro_version, status(lake.table()).ro_source_time) == (None, None)


def test_a_compaction_takes_every_segment_with_changes_and_no_other() -> None:
    """Without the setting one change in a Segment is not worth a compaction. The untouched ones stay, and no Delta is left."""
    for on in (True, False):
        lake = begun(read_optimized=on)
        before = {segment.path for segment in lake.newest().segments}  # type: ignore[union-attr]
        change(lake, 2, *range(6))
        change(lake, 3, KEYS - 1)
        compacted(lake)
        newest = lake.newest()
        assert newest is not None
        kept = before & {segment.path for segment in newest.segments}
        assert kept
        assert (newest.delta is None) is on
        assert lake.failed_checks() == []


def test_after_partial_compactions_it_shows_the_newest_version_through_the_delta() -> None:
    """Switched on over a base of several versions: it is as the view until the next compaction."""
    lake = begun(read_optimized=False)
    change(lake, 2, *range(6))
    change(lake, 3, KEYS - 1)
    compacted(lake)
    lake.spec = dataclasses.replace(lake.spec, read_optimized=True)
    assert look_at(lake.table()) != 0
    lake.run()
    newest = lake.newest()
    assert newest is not None
    assert len({segment.compacted_through for segment in newest.segments}) == 2
    assert ro(lake) == (newest.version, rows(lake))
    assert "_delta" in definition(lake).text
    compacted(lake)
    change(lake, 4, 1)
    assert "_delta" not in definition(lake).text
    assert ro(lake) == (newest.version, lake.expected(lake.committed_at(newest.version)))


def test_a_copy_on_write_table_has_two_equal_views() -> None:
    """There is never a Delta."""
    lake = begun(write_mode="copy-on-write")
    change(lake, 2, 3)
    assert ro(lake) == (2, rows(lake))


def test_athena_has_its_form() -> None:
    """With the same rows."""
    lake = begun(athena=True)
    change(lake, 2, 3)
    seen = look(lake.catalog, lake.storage, lake.spec, "t_ro_athena")
    assert seen is not None
    assert (1, seen.rows) == ro(lake)


@sized(30)
@given(seed=st.integers(0, 2**32), soft=st.booleans())
def test_whatever_happens_it_shows_a_version_that_the_view_has_shown(seed: int, soft: bool) -> None:
    """Changes, deletes and late events, compactions, restores, rebuilds, erased keys and vacuums; runs are cut at any call."""
    rng = random.Random(seed)
    kept = {"keep": 0.0, "keep_versions": 1, "grace": 0.0, "tombstone_retention": 5.0, "beyond_retention": "apply"}
    settings = {"delete": "soft" if soft else "hide", "compact_window": ALWAYS, "compact_every": rng.choice([0.0, 4.0])}
    lake = begun(**settings, **kept)
    seen = {1: rows(lake)}
    for step in range(2, 24):
        do = rng.choice(["run"] * 6 + ["compact", "restore", "rebuild", "erase", "vacuum", "cut"])
        if do in ("run", "cut"):
            lines = [
                line(rng.choice("uuud"), [key], [step - rng.choice([0, 0, 3])], {"a": step}) for key in rng.sample(range(KEYS), rng.choice([1, 2, 6]))
            ]
            lake.deliver(f"increment_2026010100/{step}.json", lines)
            with suppress(Crash, TryLater):
                lake.run(Faults(rng.randrange(60), "from_then_on") if do == "cut" else None)
        elif do == "restore":
            lake.restore(rng.choice(lake.restorable()))
        elif do == "rebuild":
            lake.rebuild(accept=True)
        elif do == "erase":
            key = rng.randrange(KEYS)
            erase(lake.table(), Request(((str(key),),), now=True))
            # the key is gone from every version
            seen = {version: tuple(row for row in shown if row[0] != key) for version, shown in seen.items()}
        elif do == "vacuum":
            lake.vacuum()
        else:
            compacted(lake)
        lake.run()
        newest = lake.newest()
        assert newest is not None
        seen.update(dict.fromkeys(range(max(seen) + 1, newest.version + 1), rows(lake)))
        version, shown = ro(lake)
        assert shown == seen[version], (step, do, version)
        assert lake.failed_checks() == [], (step, do)
    assert "_delta" not in definition(lake).text
