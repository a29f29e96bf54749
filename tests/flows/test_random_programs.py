"""Random programs through the real flows over the list engine, many programs in one table, compared with the model after every run.

    python -m tests.flows.test_random_programs 0 100000 --processes 2

runs the programs of these seeds (each makes PARTS programs) and prints the seeds that fail.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

import pytest

from compactor.core.model.errors import NoRowsYet
from tests.oracle.lake import Lake, table
from tests.oracle.programs import Program, program
from tests.oracle.sizes import FULL

PARTS = 20
"""Programs in one table."""


def play(made: Program) -> None:
    """Run a program. After each run the view, and what `verify` compares at the end, are the model's rows of all events that have arrived."""
    lake = Lake(table(**made.settings))
    for hour, files in enumerate(made.runs):
        for number, places in enumerate(files):
            # files are named out of the order in which they come, because names break ties
            lake.deliver(f"increment_20260101{hour:02d}/{(made.seed + number * 7) % 10}.json", [made.events[place] for place in places])
        try:
            report = lake.run()
        except NoRowsYet:
            continue
        assert report.counts.get("read", 0) == sum(number for name, number in report.counts.items() if name != "read")
        seen = lake.look()
        assert seen is not None
        assert seen.rows == lake.expected(), f"run {hour}"
    assert lake.failed_checks() == []


@pytest.mark.parametrize("seed", range(200 if FULL else 12))
def test_after_every_run_the_table_is_that_of_all_events_that_have_arrived(seed: int) -> None:
    """Soft deletes, truncates, added columns with defaults, values left out, key changes; events late, mixed and repeated."""
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
