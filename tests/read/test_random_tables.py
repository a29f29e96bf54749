"""DuckDB's answers on random tables equal the model's: soft deletes, truncates, defaults of added columns, late events, compactions.

    python -m tests.read.test_random_tables 0 500

runs the tables of these seeds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from compactor.core.model.errors import NoRowsYet
from tests.oracle.lake import Lake, table
from tests.oracle.programs import program
from tests.oracle.sizes import FULL
from tests.read.parquet_lake import ParquetLake

PARTS = 20


def play(seed: int, root: Path) -> int:
    """Run the programs of a table. After each run DuckDB shows the rows that the oracle expects. Return the number of comparisons."""
    made = program(seed, PARTS)
    lake = Lake(table(**made.settings))
    duck, compared = ParquetLake(lake, root), 0
    for hour, files in enumerate(made.runs):
        for number, places in enumerate(files):
            lake.deliver(f"increment_20260101{hour:02d}/{(made.seed + number * 7) % 10}.json", [made.events[place] for place in places])
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


@pytest.mark.slow
def test_duckdb_shows_the_rows_of_500_random_tables(tmp_path: Path) -> None:
    """The same for 500 tables (12 in CI)."""
    compared = [play(seed, tmp_path / str(seed)) for seed in range(3, 503 if FULL else 15)]
    assert all(compared)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        with tempfile.TemporaryDirectory() as folder:
            play(number, Path(folder))
