"""`iceberg: current`: base and Delta with deletion vectors, over the list engine's files. Each reader shows what the view shows, as soon as it does."""

from __future__ import annotations

import contextlib
import random
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from compactor.app.query import check_tables
from compactor.core.iceberg import metadata, vectors
from compactor.core.model.errors import Refused
from compactor.core.settings.forms import NEVER
from tests.native import readers
from tests.native.lake import NativeLake, as_parquet, visible
from tests.native.test_export import KEPT, change
from tests.oracle.lake import table
from tests.oracle.model import line
from tests.oracle.sizes import FULL, tiered

__all__ = ["as_parquet"]
pytestmark = pytest.mark.usefixtures("as_parquet")


@pytest.mark.slow
def test_it_is_as_new_as_the_view(tmp_path: Path) -> None:
    """Changes, deletes, a deleted row that comes back, a new column with a default, a compaction, a restore; older snapshots stay readable."""
    lake = NativeLake(tmp_path, "current", compact_window=NEVER, target_file_bytes=300)
    change(lake, 1, *range(40), op="c")
    lake.check()
    change(lake, 2, 3, 7, 50)
    lake.check()
    hidden = lake.exported().current["summary"]
    assert (hidden["total-position-deletes"], hidden["total-records"]) == ("2", "43")
    change(lake, 3, 3, 8, op="d")
    lake.check()
    change(lake, 4, 3)
    lake.check()
    lake.deliver("increment_2026010101/new.json", [line("u", [3], [7], {"a": 7, "b": "new"})])
    lake.run()
    lake.check()
    version = lake.newest().version  # type: ignore[union-attr]
    lake.compact()
    lake.check()
    assert metadata.VECTORS not in lake.exported().current["summary"]
    change(lake, 9, 30)
    lake.restore(version)
    lake.check()
    old = lake.exported().raw["snapshots"][1]
    assert len(readers.rows("pyiceberg", lake.hint(), snapshot=old["snapshot-id"])[1]) == 41
    before = lake.exported()
    lake.run()
    assert lake.exported() == before


@pytest.mark.slow
def test_rows_that_a_compaction_took_out_of_the_delta_come_back(tmp_path: Path) -> None:
    """One Segment is compacted and its Delta rows stay until the next commit; then nothing of the new Segment is hidden."""
    lake = NativeLake(tmp_path, "current", compact_window=NEVER, target_file_bytes=300, write_mode="merge-on-read")
    change(lake, 1, *range(40), op="c")
    change(lake, 2, *range(6), 39)
    lake.check()
    for seq in range(3, 9):
        lake.compact()
        lake.check()
        change(lake, seq, *range(seq), 38)
        lake.check()


@pytest.mark.parametrize("seed", tiered([*range(40 if FULL else 4)], fast=[0]))
def test_whatever_happens_it_shows_what_the_view_shows(tmp_path: Path, seed: int) -> None:
    """Changes, deletes, compactions, restores, rebuilds, erased keys, vacuums; runs are cut at any call. No snapshot names a file that is gone."""
    rng = random.Random(seed)
    lake = NativeLake(
        tmp_path, "current", **KEPT, compact_every=rng.choice([4.0, 1e9]), tombstone_retention=5.0, beyond_retention="apply", target_file_bytes=400
    )
    change(lake, 1, *range(40), op="c")
    for step in range(2, 20):
        do = lake.happens(rng, step)
        lake.check("pyiceberg")
        for each in lake.exported().raw["snapshots"]:
            rows = readers.rows("pyiceberg", lake.dump(), snapshot=each["snapshot-id"])[1]
            assert len(rows) == visible(each), (step, do)
    lake.check()


def test_a_vector_is_what_the_specification_asks_for() -> None:
    """Lists, bits and 64-bit positions; pyroaring reads the same positions; length, magic number and checksum."""
    rng = random.Random(3)
    several: list[list[int]] = [
        [0],
        [*range(70_000)],
        sorted(rng.sample(range(1 << 20), 9_000)),
        [*range(0, 8192, 2)],
        [*range(4097)],
        [5, 65_535, 65_536, 1 << 31, (1 << 32) - 1, 1 << 32, (3 << 32) + 7],
    ]
    for positions in several:
        blob = vectors.blob(positions)
        assert struct.unpack(">I", blob[:4]) == (len(blob) - 8,)
        assert blob[4:8] == bytes.fromhex("d1d33964")
        assert struct.unpack(">I", blob[-4:]) == (zlib.crc32(blob[4:-4]),)
        assert _by_pyroaring(blob[8:-4]) == positions


def _by_pyroaring(data: bytes) -> list[int]:
    read = "import sys, pyroaring; print(*pyroaring.BitMap64.deserialize(sys.stdin.buffer.read()))"
    done: Any = subprocess.run([readers.PYTHON, "-c", read], input=data, capture_output=True, check=True)
    return [*map(int, done.stdout.split())]


@pytest.mark.parametrize(
    ("text", "refused"), [("select * from t_iceberg_current", True), ("SELECT 1 FROM x.T_ICEBERG", True), ("drop table t_iceberg", False)]
)
def test_a_query_of_an_iceberg_table_is_refused_in_one_sentence(text: str, refused: bool) -> None:
    """Neither Spark nor DuckDB reads it here; the table's own view has the rows."""
    specs = [table(iceberg=("base", "current"))]
    with pytest.raises(Refused, match=r"is an Iceberg table.*; here t has the rows") if refused else contextlib.nullcontext():
        check_tables(specs, text)
    check_tables(specs, "select * from t_iceberg_of_mine")
