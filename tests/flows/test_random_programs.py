"""Random programs through the real flows over the list engine, many programs in one table, compared with the model after every run.

    python -m tests.flows.test_random_programs 0 100000 --processes 2

runs the programs of these seeds (each makes PARTS programs) and prints the seeds that fail.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from typing import Any

import pytest

from compactor.core.model.errors import NoRowsYet
from compactor.core.model.snapshot import Snapshot
from compactor.flows.publish.sync import sync_table
from tests.oracle.lake import Lake, table
from tests.oracle.live import look_live
from tests.oracle.programs import Program, program
from tests.oracle.reader import Shown
from tests.oracle.sizes import FULL

PARTS = 20
"""Programs in one table."""

Live = tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]
"""Columns and rows of a live view."""


def play(made: Program) -> None:
    """Run a program. After each run the view, and what `verify` compares at the end, are the model's rows of all events that have arrived."""
    lake = Lake(table(**made.settings))
    for hour, files in enumerate(made.runs):
        for number, places in enumerate(files):
            # files are named out of the order in which they come, because names break ties
            lake.deliver(f"increment_20260101{hour:02d}/{(made.seed + number * 7) % 10}.json", [made.line(place) for place in places])
        before, live = lake.newest(), shown_live(lake)
        try:
            report = lake.run()
        except NoRowsYet:
            continue
        assert report.counts.get("read", 0) == sum(number for name, number in report.counts.items() if name != "read")
        seen = lake.look()
        assert seen is not None
        assert seen.rows == lake.expected(), f"run {hour}"
        if live is not None and before is not None:
            check_live(live, seen, before, lake)
    assert lake.failed_checks() == []


def shown_live(lake: Lake) -> Live | None:
    """What the live view shows of the files that wait in landing, if there is one."""
    if not lake.spec.live_view or lake.newest() is None:
        return None
    assert "leaves out" not in sync_table(lake.table())
    return look_live(lake)


def check_live(live: Live, seen: Shown, before: Snapshot, lake: Lake) -> None:
    """Compare the live view from before a run with the view after it, in the columns whose meaning the run has not changed.

    Nobody knows before a run which columns the waiting files bring, nor whether an older writer of a column has another default.
    """
    after = lake.newest()
    assert after is not None
    was, now = ({each.view_name(f): (f.type, f.default and f.first, f.default) for f in each.payload} for each in (before.schema, after.schema))
    same = [name for name in live[0] if was[name] == now[name]]
    rows = [[tuple(row[columns.index(name)] for name in same) for row in rows] for columns, rows in (live, (seen.columns, seen.rows))]
    assert sorted(rows[0], key=repr) == sorted(rows[1], key=repr)


@pytest.mark.parametrize("seed", range(200 if FULL else 12))
def test_after_every_run_the_table_is_that_of_all_events_that_have_arrived(seed: int) -> None:
    """Soft deletes, truncates, added columns, values left out, key changes, numbers that become text, odd names, live views; events late and repeated."""
    play(program(seed, PARTS))


def _failure(seed: int) -> tuple[int, str] | None:
    try:
        play(program(seed, PARTS))
    except Exception as error:
        return seed, f"{type(error).__name__}: {error}"[:300]
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run the programs numbered from `first` on, PARTS of them for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    seeds = range(given.first // PARTS, -(-given.end // PARTS))
    began, failed = time.monotonic(), 0
    with multiprocessing.Pool(given.processes) as pool:
        for done, failure in enumerate(pool.imap_unordered(_failure, seeds, chunksize=10), 1):
            if failure:
                failed += 1
                print(f"seed {failure[0]}: {failure[1]}", flush=True)
            if done % 1000 == 0:
                print(f"{done * PARTS} programs, {failed} seeds failed, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{len(seeds) * PARTS} programs in {time.monotonic() - began:.0f} s, {failed} seeds failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
