"""Epochs in random programs: the source's positions start again, folders are dated in any way, files come late, are damaged, repaired and replayed."""

from __future__ import annotations

import dataclasses
import random
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.errors import InputRefused, NoRowsYet
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from tests.oracle.lake import Lake, as_rows, table
from tests.oracle.model import line
from tests.oracle.sizes import sized
from tests.oracle.source import Source

PATTERNS = ("%d-%m-%Y", "increment_%Y%m%d", "%m/%Y/%d")
FOLDERS = {
    "%d-%m-%Y": ("28-02-2026", "05-03-2026", "01-04-2026", "02-05-2027"),
    "increment_%Y%m%d": ("increment_20260228", "increment_20260305", "increment_20260401", "increment_20270502"),
    "%m/%Y/%d": ("02/2026/28", "03/2026/05", "04/2026/01", "05/2027/02"),
}
"""Folders in the order of their dates. The second epoch begins with the second one."""
KINDS = ("insert", "update", "update", "delete")
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=20)


@sized(200)
@given(before=STEPS, after=STEPS, pattern=st.sampled_from(PATTERNS), replace=st.booleans(), seed=st.integers(0, 10_000))
def test_a_source_that_counts_anew_ends_with_its_own_rows(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]], pattern: str, replace: bool, seed: int
) -> None:
    """Small positions of the new epoch win, whenever files of the old one land; a file keeps its epoch through quarantine and repair."""
    rng = random.Random(seed)
    source = Source(keys=6)
    for step in (("insert", 0, 0), *before):
        source.step(*step)
    old, source.lines, source.seq = source.lines, [], 0
    if replace:
        source.rows.clear()
    for step in (("insert", 1, 1), *after):
        source.step(*step)
    folders = FOLDERS[pattern]
    early = parts(old, [folders[0]], rng)
    late = parts(source.lines, folders[1:], rng)
    lake = Lake(table(pattern=pattern, quarantine_share=1.0))
    at = rng.randrange(1, len(early) + 1)
    for path, lines in early[:at]:
        land(lake, path, lines, rng)
    lake.spec = dataclasses.replace(lake.spec, epoch=1, epoch_from=folders[1], epoch_replaces=replace)
    for path, lines in rng.sample([*early[at:], *late], len(early) - at + len(late)):
        land(lake, path, lines, rng)
    # so that no run consists of damaged files only
    lake.deliver(f"{folders[1]}/last.json", [line("u", [99], [1])])
    lake.run()
    repair(lake)
    newest, seen = lake.newest(), lake.look()
    assert newest is not None
    assert seen is not None
    assert seen.rows == lake.expected() == as_rows({**source.table(), (99,): {}}, newest.schema)
    assert lake.failed_checks() == []
    assert lake.rebuild().outcome == "published"
    assert lake.look().rows == seen.rows  # type: ignore[union-attr]


def parts(lines: list[str], folders: tuple[str, ...] | list[str], rng: random.Random) -> list[tuple[str, list[str]]]:
    """The lines in files of these folders."""
    names = [f"{rng.choice(folders)}/{number:02}.json" for number in range(3)]
    spread: dict[str, list[str]] = {name: [] for name in names}
    for each in lines:
        spread[rng.choice(names)].append(each)
    return [(name, found) for name, found in spread.items() if found]


def land(lake: Lake, path: str, lines: list[str], rng: random.Random) -> None:
    """A file lands, one in four damaged; a run follows, or not."""
    lake.deliver(path, lines, damaged=rng.random() < 0.25)
    if rng.random() < 0.6:
        with suppress(NoRowsYet, InputRefused):
            lake.run()


def repair(lake: Lake) -> None:
    """Every damaged file is repaired and taken again."""
    for held in quarantine.waiting(Table(lake.env(), lake.spec), lake.newest()):
        good = lake.delivered[held.path, held.etag].removesuffix(b"\xff")
        assert held.location is not None
        lake.storage.write(held.location, good)
        lake.delivered[held.path, held.etag] = good
    lake.replay()
