"""History in the commit protocol: published with its Snapshot, brought back by a restore, kept by vacuum, whole after every crash."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.catalog import history_views
from compactor.core.model.errors import TryLater
from compactor.core.model.history import History, HistoryPart, compaction_due, rules, to_merge
from compactor.core.model.layout import Layout
from compactor.core.model.snapshot import Snapshot
from compactor.flows.read.status import status
from compactor.flows.table import Table
from tests.faults import MODES, Crash, every_fault
from tests.oracle.history import versions
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.reader import look
from tests.oracle.sizes import sized, tiered
from tests.oracle.source import PLAIN, Source


def shown(lake: Lake) -> list[tuple[object, ...]]:
    """What a reader of the view gets: key, value, from, until, how it ended."""
    found = look(lake.catalog, lake.storage, lake.spec, f"{lake.spec.view}_history")
    assert found is not None
    at = [found.columns.index(name) for name in ("id", "a", "__start_us", "__end_us", "__is_deleted", "__is_current")]
    return sorted(tuple(row[place] for place in at) for row in found.rows)


def expected(lake: Lake, version: int | None = None) -> list[tuple[object, ...]]:
    """The same by the oracle, out of everything that the ledger of a Snapshot names."""
    snapshot = next(each for each in lake.committed() if each.version == version) if version else lake.newest()
    assert snapshot is not None
    undone = {name for name, outcome in lake.outcomes(snapshot).items() if outcome == "undone"}
    events = lake.events(name for name in lake.ledger(snapshot) if name not in undone)
    told = versions(events, lambda event: event.position[1])
    return sorted(
        (*one.key, dict(one.values).get("a"), one.start, 2**63 - 1 if one.end is None else one.end, int(one.deleted), int(one.end is None))
        for one in told
    )


@sized(25)
@given(seed=st.integers(0, 2**32))
def test_a_reader_sees_the_history_of_the_snapshot_that_is_shown(seed: int) -> None:
    """After runs of late and repeated events, restores, taking again and vacuums: the oracle's of just what is in the table."""
    rng, source, lake = random.Random(seed), Source(), Lake(table(history=True, keep=2.0, grace=1.0, keep_versions=1))
    for _ in range(30):
        source.step(rng.choice([kind for kind in PLAIN if kind != "truncate"]), rng.randrange(30), rng.randrange(30))
    lines = rng.sample(source.lines, len(source.lines))
    first = next(text for text in lines if json.loads(text)["op"] in ("c", "r"))
    lake.deliver("increment_2026010100/first.json", [first])
    lake.run()
    for number in range(8):
        do = rng.choice(("run", "run", "run", "again", "restore", "reabsorb", "vacuum"))
        if do in ("run", "again"):
            part = [lines.pop() for _ in range(min(5, len(lines)))] if do == "run" else rng.sample(source.lines, 3)
            lake.deliver(f"increment_20260101{number:02d}/a.json", part)
            lake.run()
        elif do == "restore":
            lake.restore(rng.choice(lake.restorable()))
        elif do == "reabsorb":
            lake.reabsorb()
        else:
            lake.vacuum()
            lake.now += 10.0
            lake.vacuum()
        assert shown(lake) == expected(lake)
        assert lake.failed_checks() == []


@pytest.mark.parametrize("mode", tiered(MODES, fast=["from_then_on"]))
def test_a_run_cut_at_any_call_leaves_the_history_whole(mode: str) -> None:
    """At the moment of death a reader sees the history of one Snapshot; the next run ends as an undisturbed one."""
    start = Lake(table(history=True))
    start.deliver("increment_2026010100/a.json", [line("c", [key], [key], {"a": key}) for key in (1, 2, 3)])
    start.run()
    before = shown(start)
    start.deliver("increment_2026010101/a.json", [line("u", [1], [9], {"a": 9}), line("d", [2], [8]), line("u", [3], [2], {"a": 0})])
    undisturbed = start.copy()
    undisturbed.run()
    after = shown(undisturbed)
    for faults in every_fault(mode):
        lake = start.copy()
        with suppress(Crash, TryLater):
            lake.run(faults)
        assert shown(lake) in (before, after)
        lake.run()
        assert shown(lake) == after == expected(lake)
        assert lake.failed_checks() == []
    assert len(faults.calls) > 30


def test_the_history_is_shown_no_later_than_its_table() -> None:
    """Its view is replaced before the table's; a file of it that is gone is found by `verify`; `status` knows its size."""
    lake = Lake(table(history=True))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    newest = lake.newest()
    assert newest is not None
    assert newest.history is not None
    assert Snapshot.from_bytes(newest.to_bytes()) == newest
    told = status(Table(lake.env(), lake.spec))
    assert (told.history_events, told.history_bytes, told.history_since) == (2, newest.history.size, None)
    lake.storage.delete([f"/lake/t/{newest.history.open[0].path}/part-00000.json"])
    assert "part-00000.json: expected" in lake.failed_checks()[0]


def part(name: str, rows: int, day: str = "d2026-01-01") -> HistoryPart:
    """A part of which nothing matters but its size and day."""
    return HistoryPart(name, f"history/v00000001-00000000/history_part={name}", day, rows, (), None)


def test_closed_parts_of_about_the_same_size_become_one() -> None:
    """Eight of a day; large ones wait for large ones."""
    small = [part(f"s{number}", 500) for number in range(8)]
    assert to_merge(small) == tuple(small)
    assert to_merge(small[:7]) == ()
    assert to_merge([*small[:7], part("other day", 500, "d2026-01-02"), part("large", 50_000)]) == ()
    assert to_merge([*small, part("large", 50_000)]) == tuple(small)


def test_a_day_of_many_commits_is_rewritten_a_few_times_in_all() -> None:
    """288 commits of a thousand rows: each row is written about log8(288) times, and few parts are left."""
    parts: list[HistoryPart] = []
    written = 0
    for number in range(288):
        gone = to_merge(parts)
        rows = 1000 + sum(each.rows for each in gone)
        parts = [*(each for each in parts if each not in gone), part(str(number), rows)]
        written += rows
    assert sum(each.rows for each in parts) == 288_000
    assert written <= 4 * 288_000
    assert len(parts) <= 24


@pytest.mark.parametrize(("rows", "changes", "commits"), [(1_000_000, 1000, 45), (1_000_000, 20_000, 10), (100, 100, 2)])
def test_the_open_rows_are_folded_after_a_root_of_their_number(rows: int, changes: int, commits: int) -> None:
    """sqrt(2 N / C) commits."""
    assert next(number for number in range(1, 1000) if compaction_due(rows, number * changes, changes)) == commits


def test_the_rules_of_a_history_as_text() -> None:
    """A Snapshot holds them, so that a change of the settings is noticed."""
    assert [rules(track) for track in ((), ("a", "b"))] == ["track all", "track a, b"]


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("history/v00000012-0123abcd/history_part=d2026-11-20/part-0.parquet", "history/v00000012-0123abcd/history_part=d2026-11-20"),
        ("history/v00000012-0123abcd/history_part=delta/part-0.parquet", "history/v00000012-0123abcd/history_part=delta"),
        ("history/v00000012-0123abcd/history_part=open-00003/part-0.parquet", "history/v00000012-0123abcd/history_part=open-00003"),
        ("history/v00000012-0123abcd/_temporary/0/x", "history/v00000012-0123abcd/_temporary"),
        ("history/12/history_part=delta/x.parquet", None),
    ],
)
def test_paths_of_parts(path: str, unit: str | None) -> None:
    """Each part is deleted as a whole, with what a dead engine left beside it."""
    found = Layout("/lake/t", "/lake/t/in").unit(f"/lake/t/{path}")
    assert (found[0] if found else None) == unit


def test_athena_gets_a_view_of_its_own() -> None:
    """In its dialect."""
    lake = Lake(table(history=True))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    newest = lake.newest()
    assert newest is not None
    far = table(history=True, athena=True)
    (plain,) = history_views.published(lake.spec, newest)
    hive, presto = history_views.published(far, newest)
    assert "coalesce" not in plain.text
    assert hive.text == plain.text
    assert (presto.name, presto.dialect) == ("t_history_athena", "presto")
    assert "`" not in presto.text


def test_a_restored_history_has_a_set_of_its_own() -> None:
    """The old set has gone on: parts added to it since must not be seen."""
    lake = Lake(table(history=True))
    for number in range(3):
        lake.deliver(f"increment_202601010{number}/a.json", [line("u", [1], [number], {"a": number})])
        lake.run()
    lake.restore(2)
    found = [each.history for each in lake.committed()]
    before, after = found[1], found[-1]
    assert isinstance(before, History)
    assert isinstance(after, History)
    assert (before.parts, before.open_id) == (after.parts, after.open_id)
    assert before.set != after.set
    assert shown(lake) == expected(lake, 2)
