"""`cluster_by:` in files: their order, their row groups, what engines skip, and a setting that changes while the table lives."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec
from compactor.core.schema import clustering
from compactor.core.settings.forms import NEVER
from compactor.flows.keep.erase import Request, erase
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.flows.write import restore
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

ROWS = 20_000
REGIONS = ("", "EU", "US", "Zoë", None)


def row(at: int, seq: int = 0, **values: Any) -> dict[str, Any]:
    """Neither column goes along with the key."""
    return {"id": at, "seq": seq or at, "region": REGIONS[at % 5], "n": at * 7919 % ROWS, "note": f"{at * 31:040d}", "op": "c", **values}


def files(lake: Lake, spec: TableSpec) -> list[Path]:
    """The files of the base, in key order."""
    return [Path(spec.root, segment.path, file.name) for segment in lake.snapshot(spec).segments for file in segment.files]


def ranges(file: Path, column: str) -> list[tuple[Any, Any]]:
    """The least and greatest value of a column in each row group."""
    footer = pq.ParquetFile(file).metadata
    found = [
        next(group.column(leaf) for leaf in range(group.num_columns) if group.column(leaf).path_in_schema == column)
        for group in (footer.row_group(number) for number in range(footer.num_row_groups))
    ]
    return [(chunk.statistics.min, chunk.statistics.max) for chunk in found]


def is_sorted(file: Path, *columns: str) -> bool:
    """Whether rows follow one another in the order of these columns, nulls first."""
    rows = pq.read_table(file, columns=list(columns)).to_pylist()
    keys = [tuple((value is not None, value.encode() if isinstance(value, str) else value or 0) for value in each.values()) for each in rows]
    return keys == sorted(keys)


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a test's files have several."""
    monkeypatch.setattr(clustering, "ROW_GROUP_BYTES", 60_000)


@pytest.mark.slow
def test_a_filter_on_a_clustered_column_skips_row_groups(lake: Lake) -> None:
    """Several Segments that tile the keys; inside each the row groups follow one another by `n`."""
    spec = lake.spec(op="op", cluster_by=("n",), target_file_bytes=400_000, compact_window=NEVER)
    lake.land(spec, 0, [row(at) for at in range(ROWS)])
    lake.run(spec)
    segments = lake.snapshot(spec).segments
    assert len(segments) > 1
    assert [segment.high for segment in segments[:-1]] == [segment.low for segment in segments[1:]]
    for file in files(lake, spec):
        groups = ranges(file, "n")
        assert len(groups) >= 3
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(groups))
        assert sum(low <= 1234 <= high for low, high in groups) == 1
        assert is_sorted(file, "n", "id")
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_an_order_that_changes_counts_for_new_files_only(lake: Lake) -> None:
    """By key, by region, by two columns: compactions follow the setting of their time; rows, deletes and restores do not depend on it."""
    # compactions of such a table take every Segment with changes
    spec = lake.spec(op="op", compact_window=NEVER, write_mode="merge-on-read", target_file_bytes=30_000, read_optimized=True)
    lake.land(spec, 0, [row(at) for at in range(3000)])
    lake.run(spec)
    first = lake.rows(spec)
    assert len(files(lake, spec)) > 1
    assert all(is_sorted(file, "id") for file in files(lake, spec))
    for hour, columns in enumerate((("region",), ("region", "n"), ()), 1):
        spec = lake.with_settings(spec, cluster_by=columns)
        # each Segment has a change
        lake.land(
            spec,
            hour,
            [row(at, 10_000 * hour + at, note="new", region="US") for at in range(hour, 3000, 10)]
            + [{**row(5 * hour, 20_000 * hour + 9000), "op": "d"}],
        )
        lake.run(spec)
        delta = lake.snapshot(spec).delta
        assert delta is not None
        assert all(is_sorted(Path(spec.root, delta.path, file.name), "id") for file in delta.files)
        before = lake.rows(spec)
        lake.run(spec.compacting_now)
        assert lake.snapshot(spec).delta is None
        assert all(is_sorted(file, *columns, "id") for file in files(lake, spec))
        assert lake.rows(spec) == before
        assert len(before) == 3000 - hour
    assert lake.problems(spec) == []
    restore.restore(Table(lake.env, spec), restore.at_version(Table(lake.env, spec), 1))
    assert lake.rows(spec) == first
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_a_rebuild_and_an_erase_write_every_file_in_the_order_of_now(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also Segments without a change, which no compaction takes."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", "a secret of the test only")
    spec = lake.spec(op="op", compact_window=NEVER, target_file_bytes=20_000)
    lake.land(spec, 0, [row(at) for at in range(3000)])
    lake.run(spec)
    first = lake.rows(spec)
    assert len(files(lake, spec)) > 1
    spec = lake.with_settings(spec, cluster_by=("n",))
    rebuild_table(Table(lake.env, spec))
    assert all(is_sorted(file, "n", "id") for file in files(lake, spec))
    assert lake.rows(spec) == first
    spec = lake.with_settings(spec, cluster_by=("region",))
    erase(Table(lake.env, spec), Request((("7",),)))
    assert all(is_sorted(file, "region", "id") for file in files(lake, spec))
    assert lake.rows(spec) == [each for each in first if each["id"] != 7]
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_a_table_without_key_may_be_clustered(lake: Lake) -> None:
    """Its rows have a key that nobody sees. One Segment is written in another way than several, and has small row groups too."""
    spec = lake.spec(key=(), order_by=("__lsn",), cluster_by=("n",))
    lake.land(spec, 0, [{"__lsn": at, "n": at * 7919 % ROWS, "note": f"{at:050d}", "op": "c"} for at in range(5000)])
    lake.run(spec)
    (file,) = files(lake, spec)
    groups = ranges(file, "n")
    assert len(groups) > 2
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(groups))
    assert is_sorted(file, "n")
    assert (len(lake.rows(spec)), lake.problems(spec)) == (5000, [])


def test_timestamps_without_statistics_are_refused(lake: Lake) -> None:
    """INT96; the increment stays in landing. With 64 bits the run goes on."""
    spec = lake.spec(cluster_by=("at",), format="parquet", op="op")
    lake.spark.sql("SELECT id, id AS seq, timestamp_seconds(1700000000 + id) AS at, 'c' AS op FROM range(10)").write.parquet(
        str(Path(spec.landing, "increment_2024030500"))
    )
    with pytest.raises(Refused, match="`cluster_by` names at, a timestamp"):
        lake.run(spec)
    assert lake.landed(spec) != []
    lake.run(lake.with_settings(spec, parquet="standard"))
    assert len(lake.rows(spec)) == 10


@pytest.mark.slow
def test_the_command_line_runs_and_reads_a_clustered_table(tmp_path: Path) -> None:
    """`check` names a column that no file has; `run`, `compact`, then `sql` on both engines and `verify`."""
    landing = tmp_path / "warehouse/t/incremental"
    for hour, seq in enumerate((0, 1000)):
        folder = landing / f"increment_202403050{hour}"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text("".join(json.dumps(row(at, seq + at)) + "\n" for at in range(0, 500, 1 + 9 * hour)))
    config = tmp_path / "compactor.yaml"
    text = "tables:\n  t: {key: [id], order_by: [seq], op: op, parquet: standard, cluster_by: [region, n]}\n"
    config.write_text(text.replace("region, n", "regoin"))

    def compactor(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "compactor", *words, "--config", str(config)], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    assert "did you mean region?" in compactor("plan", "--output", "json", code=1)
    config.write_text(text)
    compactor("plan")
    compactor("run")
    compactor("run", "--compact")
    query = "select count(*) as n, max(note) as note from t where region = 'EU' and n between 10 and 4000"
    answers = [json.loads(compactor("sql", query, "--engine", engine, "-o", "json")) for engine in ("duckdb", "spark")]
    expected = [at for at in range(500) if at % 5 == 1 and 10 <= at * 7919 % ROWS <= 4000]
    assert answers == [[{"n": len(expected), "note": f"{max(expected) * 31:040d}"}]] * 2
    compactor("verify")
