"""The live view of random programs: whatever has happened to the table and whatever lies in landing, it shows what the next run will."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.catalog.ddl import TableDef
from compactor.core.model.errors import CompactorError, InputRefused, NoRowsYet, Refused
from compactor.flows.publish.landing import sync_landing
from compactor.flows.publish.sync import sync_table
from compactor.flows.run import look_at
from compactor.flows.write.adopt import adopt
from tests.faults import Crash, Faults
from tests.oracle.lake import Lake, table
from tests.oracle.live import look_live
from tests.oracle.model import line
from tests.oracle.sizes import sized
from tests.oracle.source import Source
from tests.oracle.watch import Intrusion
from tests.oracle.whole_engine import WholeEngine
from tests.parts.memory_catalog import MemoryCatalog

KINDS = ("insert", "insert", "update", "update", "delete", "snapshot", "truncate")
"""Statements whose events flat rows can tell."""

ACTIONS = ("run", "run", "run", "restore", "reabsorb", "epoch", "replacing epoch", "wait and purge", "vacuum", "pin", "replay", "rebuild", "nothing")

UNUSABLE = (
    line("u", [None], [7_000], {"a": 1}),
    line("u", [3], [None], {"a": 1}),
    line("zap", [3], [9_000_000], {"a": 1}),
    '{"op": "-", "key": [4], "position": [9000000]}',
)
"""Records that a run ignores or puts into quarantine."""


def opened(rng: random.Random, composite: bool) -> Lake:
    """A table with a live view, perhaps one that begins with an adopted base."""
    settings: dict[str, Any] = {
        "write_mode": rng.choice(("merge-on-read", "auto", "copy-on-write")),
        "target_file_bytes": rng.choice((300, 1200)),
        "compact_every": rng.choice((0.0, 3.0)),
        "beyond_retention": rng.choice(("quarantine", "quarantine", "apply")),
        "truncate": rng.choice(("apply", "apply", "ignore")),
        "tombstone_retention": 500.0,
        "quarantine_share": 1.0,
        "key": ("id", "part") if composite else ("id",),
    }
    return Lake(table(live_view=True, archive="keep", **settings))


def adopted(lake: Lake) -> None:
    """Some rows of others, some of their increments landed."""
    rows = [json.dumps({"id": key, "a": 1000 + key}) for key in range(5)]
    lake.storage.write("/old/t/part-0", "\n".join(rows).encode())
    lake.deliver("increment_2026010100/old.json", [line("u", [1], [5], {"a": 5, "b": "b"}), line("c", [2], [6], {"a": 6, "b": "b"})])
    lake.now += 1.0
    adopt(lake.table(), "/old/t", "increment_2026010100")


def act(lake: Lake, how: str, rng: random.Random) -> None:
    """Something that happens to the table between two deliveries."""
    newest = lake.newest()
    if how == "run" or newest is None:
        # a run of nothing but unusable records is refused
        with suppress(NoRowsYet, InputRefused):
            lake.run()
    elif how == "restore":
        lake.restore(rng.choice(lake.restorable()))
    elif how == "reabsorb":
        lake.reabsorb()
    elif how in ("epoch", "replacing epoch"):
        lake.spec = dataclasses.replace(lake.spec, epoch=lake.spec.epoch + 1, epoch_replaces=how == "replacing epoch")
    elif how == "wait and purge":
        lake.now += 1000.0
    elif how == "vacuum":
        lake.vacuum()
    elif how == "pin":
        lake.pin(newest.version, f"p{lake.now}")
    elif how == "replay":
        with suppress(InputRefused):
            lake.replay()
    elif how == "rebuild" and lake.spec.epoch == 0:
        # a table whose rows are all adopted has nothing to rebuild from
        with suppress(Refused):
            lake.rebuild(accept=True)


@sized(400)
@given(seed=st.integers(0, 1_000_000), length=st.integers(2, 12), composite=st.booleans())
def test_the_live_view_shows_what_the_view_shows_after_the_next_run(seed: int, length: int, composite: bool) -> None:
    """Late and repeated files, old and new folders, truncates, purged tombstones, epochs, restores, adopted bases, unusable records."""
    rng = random.Random(seed)
    lake, source = opened(rng, composite), Source(keys=8, composite=composite)
    if not composite and rng.random() < 0.3:
        adopted(lake)
    sent: list[str] = []
    for number in range(length):
        for _ in range(rng.randint(1, 5)):
            source.step(rng.choice(KINDS), rng.randrange(30), rng.randrange(30))
        waiting = [each for each in source.lines if each not in sent]
        lines = rng.sample(waiting, rng.randint(0, len(waiting))) + rng.sample(sent, min(len(sent), rng.choice((0, 0, 2))))
        sent += lines
        if rng.random() < 0.2 and not composite:
            lines.append(rng.choice(UNUSABLE))
        if lines:
            lake.deliver(f"increment_20260101{rng.choice((number, rng.randrange(number + 1))):02d}/{number:03d}.json", lines)
        act(lake, rng.choice(ACTIONS), rng)
        compare(lake)


def compare(lake: Lake) -> None:
    """Register what has landed; what the live view shows now is what the view shows after the next run."""
    if lake.newest() is None:
        return
    # without what waits in landing it shows what the view shows: restores and rebuilds bring it along
    answer = sync_table(lake.table())
    live = look_live(lake)
    assert live is not None
    if "leaves out" in answer:
        return
    after = lake.copy()
    with suppress(CompactorError):
        after.run()
        seen = after.look()
        assert seen is not None
        columns = {name: at for at, name in enumerate(seen.columns)}
        expected = sorted((tuple(row[columns[name]] for name in live[0]) for row in seen.rows), key=repr)
        assert list(live[1]) == expected


def test_an_older_version_never_replaces_a_newer_live_view() -> None:
    """A process that slept while a run added a column finishes its sync: neither the table of landed files nor the view goes back."""
    lake = Lake(table(live_view=True, archive="keep"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    old = lake.newest()
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2, "z": 5})])
    lake.run()
    assert old is not None
    sync_landing(lake.table(), old)
    assert look_live(lake) == (("id", "a", "z"), ((1, 1, None), (2, 2, 5)))
    shown = [lake.catalog.view(lake.spec.database, name) for name in (lake.spec.view, f"{lake.spec.view}_live")]
    assert len({view.columns for view in shown if view}) == 1, "types and comments"


def test_a_run_that_registers_columns_while_landing_is_synced_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog refuses the columns of the version that was the newest a moment ago: the newest version is shown."""
    lake = Lake(table(live_view=True, archive="keep"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    old, ensure_table = lake.newest(), MemoryCatalog.ensure_table

    def beside(catalog: MemoryCatalog, definition: TableDef) -> None:
        if definition.name.endswith("_incremental"):
            monkeypatch.setattr(MemoryCatalog, "ensure_table", ensure_table)
            lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2, "z": 5})])
            lake.run()
        ensure_table(catalog, definition)

    monkeypatch.setattr(MemoryCatalog, "ensure_table", beside)
    assert old is not None
    sync_landing(lake.table(), old)
    assert look_live(lake) == (("id", "a", "z"), ((1, 1, None), (2, 2, 5)))


def test_a_new_folder_is_shown_after_a_sync_that_starts_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """`compactor publish` on a schedule is enough for `_live` to show what has landed since the last run."""
    lake = Lake(table(live_view=True, archive="keep"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    checks: list[str] = []
    monkeypatch.setattr(WholeEngine, "check_view", lambda engine, view, tables: checks.append(view.name))
    for hour in range(1, 6):
        lake.deliver(f"increment_20260101{hour:02}/b.json", [line("u", [1], [hour + 1], {"a": hour + 1})])
        sync_table(lake.table())
        assert look_live(lake) == (("id", "a"), ((1, hour + 1),))
    assert checks == []


def test_a_folder_that_mixes_undone_and_new_files_is_left_out_and_named() -> None:
    """The undone rows must not come back: the run's report says which folder the live view does not read."""
    lake = Lake(table(live_view=True, archive="keep"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2})])
    lake.run()
    lake.restore(1)
    assert look_live(lake) == (("id", "a"), ((1, 1),))
    lake.deliver("increment_2026010101/c.json", [line("c", [3], [3], {"a": 3})])
    answer = sync_table(lake.table())
    assert "t_live leaves out 1 folders (such as increment_2026010101)" in answer
    assert look_live(lake) == (("id", "a"), ((1, 1),))


def test_a_folder_with_a_file_that_runs_leave_out_is_left_out_and_named() -> None:
    """Engines read all files of a folder; `ignore:` knows of none of them."""
    lake = Lake(table(live_view=True, archive="keep", ignore=("*/skip*",)))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2})])
    # a writer at work; engines pass over it
    lake.deliver("increment_2026010101/_temporary/0/d.json", [line("c", [5], [5], {"a": 5})])
    lake.deliver("increment_2026010101/_SUCCESS", [])
    lake.deliver("increment_2026010102/c.json", [line("c", [3], [3], {"a": 3})])
    lake.deliver("increment_2026010102/skip.json", [line("c", [4], [4], {"a": 4})])
    assert "t_live leaves out 1 folders (such as increment_2026010102)" in sync_table(lake.table())
    assert look_live(lake) == (("id", "a"), ((1, 1), (2, 2)))


def test_only_the_view_is_the_table_with_copy_on_write_too() -> None:
    """The directory of the base holds several versions and tombstones; docs/configuration.md says so."""
    lake = Lake(table(write_mode="copy-on-write"))
    for number, lines in enumerate(
        ([line("c", [1], [1], {"a": 1}), line("c", [2], [2], {"a": 2})], [line("d", [1], [3])], [line("u", [2], [4], {"a": 4})])
    ):
        lake.deliver(f"increment_2026010100/{number}.json", lines)
        lake.run()
    stored = [row for info in lake.storage.list(f"{lake.spec.root}/base") for row in json.loads(lake.storage.read(info.path))]
    assert len(stored) > 1 == len(lake.look().rows)  # type: ignore[union-attr]
    assert any(row["_gone"] for row in stored)
    assert "alone is then the table" not in (Path(__file__).parents[2] / "docs/configuration.md").read_text()


def test_columns_that_differ_in_case_only_cannot_be_in_a_live_view() -> None:
    """Engines find the columns of files by names without case, so both would show the values of one."""
    lake = Lake(table(archive="keep"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"val": 1, "Val": 2})])
    lake.run()
    lake.spec = dataclasses.replace(lake.spec, live_view=True)
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"val": 3, "Val": 4})])
    with pytest.raises(Refused, match="columns Val and val of the files differ in case only"):
        lake.run()
    assert (2, 4, 3) in lake.look().rows  # type: ignore[union-attr]


def test_vacuum_keeps_what_a_live_view_shows_that_was_left_behind() -> None:
    """A run dies after it has published its version and before it has brought the live view to it; no run comes for longer than `keep`."""
    lake = Lake(table(live_view=True, archive="keep", keep=10.0, keep_versions=1, grace=10.0))
    for hour in range(3):
        lake.deliver(f"increment_202601010{hour}/a.json", [line("u", [key], [10 * hour + key], {"a": hour}) for key in range(8)])
        with suppress(Crash):
            # its last replacement, after those of commit and compaction
            lake.run(Faults(3, "from_then_on", only=["replace_view"]) if hour == 2 else None)
    before = look_live(lake)
    assert before is not None
    assert len(before[1]) == 8
    for _ in range(3):
        lake.now += 100.0
        lake.vacuum()
        assert look_live(lake) == before
    lake.run()
    live = look_live(lake)
    assert live is not None
    assert live[1] == lake.expected()
    lake.now += 100.0
    assert lake.vacuum().expired


class _Overtaken(Intrusion):
    """Before a call another process acts; the call is carried out, and then this process dies."""

    def call(self, operation: str, path: str, effect: Callable[[], Any], half: Callable[[], object] | None = None) -> Any:
        """Count and carry out one call."""
        result = super().call(operation, path, effect, half)
        if self.happened:
            raise Crash
        return result


def test_an_older_live_view_of_a_run_that_was_overtaken_and_died_does_not_stay() -> None:
    """In a catalog without compare-and-set. The next run has nothing to ingest, and brings the live view to the newest version."""
    for at in itertools.count(1):
        lake = Lake(table(live_view=True, archive="keep"))

        def delivered(hour: int, lake: Lake = lake) -> None:
            lake.deliver(f"increment_202601010{hour}/a.json", [line("u", [key], [10 * hour + key], {"a": hour}) for key in range(6)])

        def other(lake: Lake = lake, delivered: Callable[[int], None] = delivered) -> None:
            delivered(2)
            lake.run()

        delivered(0)
        lake.run()
        delivered(1)
        overtaken = _Overtaken(at, other)
        with suppress(Crash):
            lake.run(overtaken)
        if not overtaken.happened:
            break
        if isinstance(look_at(lake.table()), int):
            lake.run()
        live = look_live(lake)
        assert live is not None
        assert live[1] == lake.expected(), f"overtaken at call {at}, {overtaken.calls[at - 1]}"
    assert at > 40
