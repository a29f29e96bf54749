"""Whole hours: an hour that is called whole has every change that any stream will ever bring of it (docs/semantics.md, Whole hours)."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.catalog import views
from compactor.core.model import times
from compactor.core.model.errors import InputRefused, NoRowsYet, Refused
from compactor.core.model.inputs import IN_QUARANTINE, LEFT_OUT
from compactor.core.sources.whole_hours import HOUR
from compactor.flows.read.arrived import whole
from compactor.flows.read.status import status
from compactor.flows.write import commit
from tests.flows.test_epochs import repair
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.sizes import sized

BEGIN = times.to_micros("2026-02-01T00:00:00Z")
"""The lake's clock shows the day after."""

File = tuple[str, list[str]]


def at(hours: float) -> int:
    """So many hours after BEGIN, in microseconds."""
    return BEGIN + int(hours * HOUR)


def event(key: int, seq: int, hours: float, op: str = "u", **more: Any) -> str:
    """One line of a landed file, of this source time."""
    return json.dumps({**json.loads(line(op, [key], [seq], {"a": seq})), "time": at(hours), **more})


def whole_to(lake: Lake) -> int | None:
    """The mark of the newest version."""
    newest = lake.newest()
    return times.to_micros(newest.watermark.whole_to) if newest and newest.watermark.whole_to else None


def incomplete(lake: Lake) -> str:
    """What the mark waits for."""
    newest = lake.newest()
    assert newest is not None
    return newest.watermark.incomplete


def delivered(lake: Lake, *files: File) -> Lake:
    """Each file lands, and a run takes it."""
    for path, lines in files:
        lake.deliver(f"increment_2026020100/{path}", lines)
        lake.run()
    return lake


# ---- one by one ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([("t+0+1.json", [event(1, 1, 0.5)]), ("t+0+2.json", [event(1, 2, 2.5)])], 2),
        ([("t+0+1.json", [event(1, 1, 3.5)]), ("t+1+1.json", [event(2, 2, 1.5)])], 3),
        ([("t+1+1.json", [event(2, 2, 1.5)]), ("t+0+1.json", [event(1, 1, 3.5)])], 1),
        ([("a.json", [event(1, 1, 2.5, partition=4)])], 2),
        ([("t+0+1.json", [event(1, 1, 1.5)]), ("t+0+2.json", [event(1, 2, 5.5, op="-")])], 5),
        ([("t+0+1.json", [event(1, 1, 1.5)]), ("t+0+2.json", [event(1, 2, 5.5, op="r")])], 1),
        ([("t+0+1.json", [event(1, 1, 1.5, op="r")]), ("t+1+1.json", [event(2, 2, 5.5)])], None),
        ([("load.json", [event(1, 1, 1.5, op="r")]), ("t+1+1.json", [event(2, 2, 5.5)])], 5),
        ([("a.json", [event(1, 1, 2.5)])], None),
        ([("t+0+1.json", [line("u", [1], [1], {"a": 1})])], None),
    ],
    ids=[
        "a later change",
        "a new partition that is behind: what was called whole stays so",
        "a partition that is silent",
        "partitions in the records",
        "a heartbeat table's change in the same stream",
        "a read of a snapshot, which runs ahead of the changes",
        "a partition that has brought only reads of a snapshot",
        "a first load whose files name no partition",
        "no partitions",
        "no source times",
    ],
)
def test_which_hours_are_whole(files: list[File], expected: int | None) -> None:
    """By the newest change of each stream."""
    assert whole_to(delivered(Lake(table()), *files)) == (None if expected is None else at(expected))


def test_status_and_view_tell_it_and_readers_can_wait_for_it() -> None:
    """Each in its own way, all the same hour; nothing of it needs an engine or the catalog."""
    lake = delivered(Lake(table(partitions=2)), ("t+0+1.json", [event(1, 1, 2.5)]))
    first, hour = status(lake.table()), datetime(2026, 2, 1, 1, tzinfo=timezone.utc)
    assert (first.whole_to, first.whole_note) == (None, "1 of 2 partitions have brought changes")
    assert properties(lake)[views.WHOLE_TO] == "not known"
    assert whole(lake.table(), hour) == first.whole_note
    delivered(lake, ("t+1+1.json", [event(2, 2, 3.5)]))
    second = status(lake.table())
    assert (second.whole_to, second.whole_note) == ("2026-02-01T02:00:00Z", "partition t-0 has brought no change after 2026-02-01T02:30:00Z")
    assert properties(lake)[views.WHOLE_TO] == second.whole_to
    assert whole(lake.table(), hour) is None
    assert whole(lake.table(), hour.replace(hour=2)) == second.whole_note
    # somebody publishes: what the catalog shows is not known until that ends
    lake.storage.write(lake.layout.publishing("x"), b"")
    assert str(whole(lake.table(), hour)).endswith(" is not published yet")
    assert whole(Lake(table()).table(), hour) == "nothing is committed yet"


def properties(lake: Lake) -> dict[str, str]:
    """Those of the view."""
    view = lake.catalog.view("school", "t")
    assert view is not None
    return dict(view.properties)


def test_an_hour_is_not_whole_while_a_file_of_it_waits_in_quarantine() -> None:
    """Although later changes come; a replay of the repaired file makes it whole."""
    lake = delivered(Lake(table(quarantine_share=1.0)), ("t+0+1.json", [event(1, 1, 0.5)]))
    lake.deliver("increment_2026020100/t+0+2.json", [event(2, 2, 0.7)], damaged=True)
    delivered(lake, ("t+0+3.json", [event(1, 3, 2.5)]))
    assert (whole_to(lake), incomplete(lake)) == (at(0), IN_QUARANTINE)
    delivered(lake, ("t+0+4.json", [event(1, 4, 3.5)]))
    assert (whole_to(lake), incomplete(lake)) == (at(0), IN_QUARANTINE)
    repair(lake)
    assert (whole_to(lake), incomplete(lake)) == (at(3), "")


def test_a_restore_takes_the_mark_back_until_what_it_undid_is_ingested_again() -> None:
    """Later changes alone do not make an hour whole whose changes were undone."""
    lake = delivered(Lake(table()), *((f"t+0+{n}.json", [event(n, n, n + 0.5)]) for n in range(4)))
    assert whole_to(lake) == at(3)
    lake.restore(2)
    assert (whole_to(lake), incomplete(lake)) == (at(1), IN_QUARANTINE)
    delivered(lake, ("t+0+9.json", [event(9, 9, 9.5)]))
    assert (whole_to(lake), incomplete(lake)) == (at(1), IN_QUARANTINE)
    assert lake.rebuild().outcome == "published"
    assert (whole_to(lake), incomplete(lake)) == (at(1), IN_QUARANTINE)
    lake.reabsorb()
    assert (whole_to(lake), incomplete(lake)) == (at(9), "")


def test_a_commit_that_leaves_landed_files_for_the_next_makes_no_hour_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that it leaves may be older than those that it takes."""
    monkeypatch.setattr(commit, "FILES_MAX", 2)
    lake = Lake(table())
    for name, hours in (("a+0+3", 3.5), ("b+0+1", 0.5), ("b+0+2", 0.7)):
        lake.deliver(f"increment_2026020100/{name}.json", [event(int(hours * 10), int(hours * 10), hours)])
    made = commit.commit(lake.table(), None)
    assert made is not None
    assert (whole_to(lake), incomplete(lake)) == (None, LEFT_OUT)
    lake.run()
    assert (whole_to(lake), incomplete(lake)) == (at(0), "")


# ---- random programs -------------------------------------------------------------------------------------------------


class Streams:
    """Partitions that bring files in the order of their source times, and everything that they will ever bring."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self.rng = rng
        self.files = [list(self._files(number)) for number in range(count)]
        self.next = [0] * count
        self.times = {path: changes for files in self.files for path, _, changes in files}
        """Path → source times of the changes in it."""

    def _files(self, partition: int) -> Iterator[tuple[str, list[str], list[int]]]:
        now, keys = self.rng.uniform(0, 2), itertools.count(partition * 100)
        for number in range(self.rng.randrange(2, 8)):
            lines, changes = [], []
            for _ in range(self.rng.randrange(1, 4)):
                now += self.rng.choice((0, 0.01, 0.4, 1.2))
                # a stream counts from its first record of the table on
                op = self.rng.choice("cuu-r" if number or lines else "cur")
                # a snapshot reads ahead
                hours = now + 5 if op == "r" else now
                lines.append(event(next(keys) if op != "-" else 0, int(now * 1000) + 1, hours, op))
                changes += [at(hours)] if op != "r" else []
            folder = f"increment_20260201{self.rng.randrange(24):02}"
            yield f"{folder}/t+{partition}+{number}.json", lines, changes

    def deliver(self, lake: Lake, partition: int, damaged: bool = False) -> None:
        """The next file of a partition lands."""
        if self.next[partition] < len(self.files[partition]):
            path, lines, _ = self.files[partition][self.next[partition]]
            self.next[partition] += 1
            lake.deliver(path, lines, damaged)

    def missing(self, lake: Lake, before: int) -> list[str]:
        """The files with a change of a source time below `before` that is not in the table, delivered or not."""
        newest = lake.newest()
        assert newest is not None
        present = {item.path for item in ledger_entries(lake) if not item.unabsorbed and not item.in_quarantine}
        return [path for path, changes in self.times.items() if path not in present and any(time < before for time in changes)]


def ledger_entries(lake: Lake) -> list[Any]:
    """The newest entry of each input."""
    from compactor.flows import ledger

    return ledger.newest_entries(lake.table(), lake.newest())


@sized(200)
@given(seed=st.integers(0, 10**6), told=st.booleans(), few=st.booleans())
def test_a_whole_hour_never_receives_another_change(seed: int, told: bool, few: bool) -> None:
    """Whatever lands late, is damaged, left for the next run, restored, ingested again, rebuilt or vacuumed; and at the end every hour is whole."""
    rng = random.Random(seed)
    count = rng.randrange(1, 4)
    streams = Streams(rng, count)
    lake = Lake(table(quarantine_share=1.0, keep=0.0, grace=0.0, partitions=count if told else None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "FILES_MAX", 2 if few else 100)
        if not told:
            # the table has seen each partition before it calls an hour whole
            for partition in range(count):
                streams.deliver(lake, partition)
            attempt(lake, rng, "run")
        mark = -1
        for _ in range(rng.randrange(5, 25)):
            for partition in range(count):
                if rng.random() < 0.5:
                    streams.deliver(lake, partition, rng.random() < 0.15)
            did = rng.choice(("run", "run", "run", "run", "repair", "restore", "reabsorb", "rebuild", "vacuum", "as of"))
            attempt(lake, rng, did)
            if lake.newest() is None:
                continue
            now = whole_to(lake) or -1
            assert now == -1 or not streams.missing(lake, now), (did, seed)
            assert now >= mark or did in ("restore", "as of"), (did, seed)
            mark = now
    for partition, files in enumerate(streams.files):
        for _ in files:
            streams.deliver(lake, partition)
        lake.deliver(f"increment_2026020123/t+{partition}+99.json", [event(999 + partition, 10**6, 21.5)])
    lake.run()
    repair(lake)
    lake.reabsorb()
    repair(lake)
    lake.run()
    assert (incomplete(lake), whole_to(lake)) == ("", at(21))


def attempt(lake: Lake, rng: random.Random, what: str) -> None:
    """One command. It may be refused: a first run without a row, a version that is gone."""
    if what != "run" and lake.newest() is None:
        return
    with suppress(NoRowsYet, InputRefused, Refused):
        if what in ("restore", "as of"):
            target = rng.choice(lake.restorable())
            _ = lake.restore(target) if what == "restore" else lake.rebuild(target=lake.committed_at(target), accept=True)
        elif what == "rebuild":
            lake.rebuild(accept=True)
        elif what == "repair":
            repair(lake)
        else:
            getattr(lake, what)()
