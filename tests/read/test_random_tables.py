"""DuckDB's answers on random tables equal the model's: soft deletes, truncates, added columns, late events, compactions.

    python -m tests.read.test_random_tables 0 500

runs the tables of these seeds.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compactor.core.catalog import history_views, views
from compactor.core.model import times as model_times
from compactor.core.model.errors import NoRowsYet, Refused
from compactor.core.settings.forms import NEVER
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.programs import program
from tests.oracle.reader import look
from tests.oracle.sizes import FULL
from tests.read.parquet_lake import ParquetLake

PARTS = 20


def plain_event(text: str) -> str:
    """Return the event without what the list engine leaves to Spark: values that were left out (they are null here), defaults, and changed keys."""
    return json.dumps({name: value for name, value in json.loads(text).items() if name not in ("missing", "from", "defaults")})


def play(seed: int, root: Path) -> int:
    """Run the programs of a table. After each run DuckDB shows the rows that the oracle expects. Return the number of comparisons."""
    made = program(seed, PARTS)
    lake = Lake(table(**made.settings))
    duck, compared = ParquetLake(lake, root), 0
    for hour, files in enumerate(made.runs):
        for number, places in enumerate(files):
            lake.deliver(f"increment_20260101{hour:02d}/{(made.seed + number * 7) % 10}.json", [plain_event(made.events[place]) for place in places])
        try:
            lake.run()
        except NoRowsYet:
            continue
        newest = lake.newest()
        assert newest is not None
        assert duck.rows(newest) == lake.expected(), f"seed {seed}, run {hour}"
        compared += 1
    return compared


@pytest.mark.parametrize("seed", range(3))
def test_duckdb_shows_the_rows_of_the_model_after_every_run(tmp_path: Path, seed: int) -> None:
    """Tables of twenty programs each; the list engine writes Segments of a few rows."""
    assert play(seed, tmp_path) > 0


def test_duckdb_reads_untouched_segments_without_a_comparison(tmp_path: Path) -> None:
    """Recent keys change: the two queries over the base do not mix their files."""
    lake = Lake(table(compact_window=NEVER))
    duck = ParquetLake(lake, tmp_path)
    for number, keys in enumerate((range(60), (59, 58, 70), (57,), (3, 59))):
        lines = [line("d" if key == 58 else "u", [key], [10 * number + 1], {"a": number}) for key in keys]
        lake.deliver(f"increment_202601010{number}/a.json", lines)
        lake.run()
        newest = lake.newest()
        assert newest is not None
        assert (views.compared(newest) is None) is (number == 0)
        assert duck.rows(newest) == lake.expected()


@pytest.mark.slow
def test_duckdb_shows_the_rows_of_500_random_tables(tmp_path: Path) -> None:
    """The same for 500 tables (12 in CI)."""
    compared = [play(seed, tmp_path / str(seed)) for seed in range(3, 503 if FULL else 15)]
    assert all(compared)


@pytest.mark.parametrize("seed", range(2))
def test_duckdb_shows_the_history_that_the_catalog_shows(tmp_path: Path, seed: int) -> None:
    """Versions after every run, and the rows at every source time, of random changes of a few keys that come late."""
    rng, lake = random.Random(seed), Lake(table(history=True))
    duck, shown = ParquetLake(lake, tmp_path), "id, a, __start_us, __end_us, __is_deleted, __is_current, __end_day"
    times = rng.sample(range(1, 200), 60)
    for run in range(4):
        part = times[run * 15 : run * 15 + 15]
        lake.deliver(
            f"increment_2026010{run + 1}00/f.json", [line(rng.choice("cuud"), [rng.randrange(6)], [at], {"a": rng.randrange(3)}) for at in part]
        )
        lake.run()
        newest, seen = lake.newest(), look(lake.catalog, lake.storage, lake.spec, history_views.name(lake.spec))
        assert newest is not None
        assert seen is not None
        at = [seen.columns.index(name) for name in shown.split(", ")]
        expected = [tuple(row[place] for place in at) for row in seen.rows]
        assert Counter(map(plain, duck.history(newest, shown))) == Counter(map(plain, expected))
        for moment in part[:5]:
            alive = [row[:2] for row in expected if row[2] <= moment < row[3]]
            if moment < (begun := min(row[2] for row in expected)):
                with pytest.raises(Refused, match=f"its history begins at {re.escape(model_times.from_micros(begun))}"):
                    duck.history(newest, "id, a", moment)
                continue
            assert Counter(duck.history(newest, "id, a", moment)) == Counter(alive)


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with truth values as SQLite has them."""
    return tuple(int(value) if isinstance(value, bool) else value for value in row)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        with tempfile.TemporaryDirectory() as folder:
            play(number, Path(folder))
