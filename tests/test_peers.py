"""The benchmark beside other systems: its right answer, its pins, and its page, which belongs to the stored measurements."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks.peers import page
from benchmarks.peers.duck import open_system
from benchmarks.peers.landed import COLUMNS, differences, land
from benchmarks.peers.law import Law, simulated, sizes
from benchmarks.peers.pins import PIP, SYSTEMS
from benchmarks.peers.worker import measure
from tests.parts.each import each

RESULTS = page.stored()


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hours of a table of 2,000 rows."""
    return land(tmp_path_factory.mktemp("landed"), 2_000, 200, 3)


def test_a_system_is_measured_and_its_table_compared(tmp_path: Path, landed: Path) -> None:
    result = measure(open_system("duckdb", tmp_path), "duckdb", tmp_path / "customer", landed)
    assert len(result["commits"]) == 3
    assert all(cost["bytes_written"] > 0 for cost in (result["load"], *result["commits"]))


@pytest.mark.parametrize(
    ("change", "side"),
    [
        pytest.param("id <> 7", "missing", id="a row is missing"),
        pytest.param("true UNION ALL SELECT * REPLACE (-1 AS id) FROM answer WHERE id = 7", "too many", id="a row too many"),
        pytest.param("id <> 7 UNION ALL SELECT * REPLACE (amount + 1 AS amount) FROM answer WHERE id = 7", "too many", id="a value differs"),
        pytest.param("true UNION ALL SELECT * FROM answer WHERE id = 7", "too many", id="a row is there twice"),
    ],
)
def test_a_wrong_table_is_an_error(tmp_path: Path, landed: Path, change: str, side: str) -> None:
    system = open_system("duckdb", tmp_path)
    for hour in range(4):
        (system.commit if hour else system.load)(tmp_path / "customer", landed / str(hour))
    (tmp_path / "final").mkdir()
    database = duckdb.connect()
    database.execute(f"CREATE TABLE answer AS SELECT {', '.join(COLUMNS)} FROM read_parquet('{tmp_path}/customer/3.parquet')")
    assert database.execute("SELECT count(*) FROM answer WHERE id = 7").fetchone() == (1,)
    database.execute(f"COPY (SELECT * FROM answer WHERE {change}) TO '{tmp_path}/final/all.parquet' (FORMAT parquet)")
    assert any(row.startswith(side) for row in differences(landed, tmp_path / "final"))


def test_of_ten_changes_eight_update_one_deletes_one_inserts(landed: Path) -> None:
    counts = duckdb.sql(f"SELECT op, count(*) FROM read_parquet('{landed}/2/*.parquet') GROUP BY op").fetchall()
    assert dict(counts) == {"u": 160, "d": 20, "c": 20}


@each(SYSTEMS)
def test_each_system_has_a_module_and_its_version_is_that_of_its_package(name: str) -> None:
    pin = SYSTEMS[name]
    assert importlib.util.find_spec(f"benchmarks.peers.{pin.module}")
    assert not pin.jars or all(jar.endswith(f":{pin.version}") for jar in pin.jars.split(","))
    package = {"delta-rs": "deltalake", "pypaimon": "pypaimon"}.get(name)
    assert package is None or f"{package}=={pin.version}" in PIP


def test_the_page_is_written_from_the_stored_measurements() -> None:
    """Write it again with `python -m benchmarks.peers.page`."""
    assert (page.DOCS / "performance.md").read_text(encoding="utf-8") == page.text(RESULTS)
    for name, drawing in page.images(RESULTS).items():
        assert (page.DOCS / "images" / name).read_text(encoding="utf-8") == drawing, name


def test_every_target_that_is_not_met_is_explained() -> None:
    unexplained = [row for row in page.targets_table(RESULTS) if re.search(r"\*\*no\*\* \| *\|", row)]
    assert not unexplained


@each(RESULTS, str)
def test_a_stored_measurement_is_of_a_system_that_is_pinned(result: dict[str, Any]) -> None:
    assert result["system"] in SYSTEMS
    assert len(result["commits"]) > 0


def test_the_simulation_scales_with_the_tables() -> None:
    """Twice the bytes cost twice as much; and it writes √(2NC) rows an hour instead of N, in the proportion of the bytes of a row in Delta and base."""
    law = Law(fixed=5.0, change=1e-4, rewritten=1e-5, delta_bytes=60.0, base_bytes=40.0, naive=1e-5)
    assert sum(sizes(500, 1e14)) == pytest.approx(1e14)
    day = simulated(law, 10, 1e13)
    assert simulated(law, 10, 2e13).bytes_written == pytest.approx(2 * day.bytes_written)
    assert day.bytes_written / day.naive_bytes_written == pytest.approx(0.007 * (1 + 60 / 40), rel=0.1)
