"""Checks of Spark's view of the store. tests/faults_real/test_cut_answers.py truncates real responses of S3."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from compactor.core.model.errors import CheckFailed, InconsistentRead, Refused
from compactor.core.model.files import FileInfo
from compactor.core.results.record import TableReport
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.spark import consistency, measured
from compactor.spark.consistency import ConsistentReads
from compactor.spark.engine import SparkEngine
from compactor.spark.tables import table_writer
from compactor.storage.local import LocalStorage
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "_WAIT_SECONDS", 0.0)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as remote."""
    monkeypatch.setattr(ConsistentReads, "remote", staticmethod(lambda _: True))


class Larger(LocalStorage):
    """Reports files as larger than they are, by `more(path)` bytes."""

    def __init__(self, more: Callable[[str], int]) -> None:
        super().__init__()
        self._more = more

    def list(self, prefix: str) -> Iterator[FileInfo]:
        for info in super().list(prefix):
            yield self._larger(info)

    def stat(self, path: str) -> FileInfo | None:
        info = super().stat(path)
        return None if info is None else self._larger(info)

    def _larger(self, info: FileInfo) -> FileInfo:
        return dataclasses.replace(info, size=info.size + self._more(info.path))


def _run(lake: Lake, storage: LocalStorage) -> TableReport:
    engine = SparkEngine(lake.spark, storage)
    spec = lake.spec()
    return run_table(Table(dataclasses.replace(lake.env, storage=storage, engine=lambda: engine), spec))


class Reader:
    """A DataFrameReader that gives one answer after the other, and the last one again."""

    def __init__(self, *answers: DataFrame) -> None:
        self.answers, self.calls = answers, 0

    def load(self, _: list[str]) -> DataFrame:
        """The next answer."""
        self.calls += 1
        return self.answers[min(self.calls, len(self.answers)) - 1]


def _text(lake: Lake, count: int) -> tuple[DataFrame, list[str]]:
    """Return the rows of `count` files of 0, 10, 20, .. bytes, and their paths."""
    folder = lake.root / "text"
    folder.mkdir()
    paths = [str(folder / f"{at}.json") for at in range(count)]
    for at, path in enumerate(paths):
        Path(path).write_text("x" * 10 * at, encoding="utf-8")
    return lake.spark.read.text(paths), paths


@pytest.mark.parametrize("kind", ["text", "csv", "json", "parquet"])
def test_the_sizes_that_spark_lists_are_those_of_the_files(lake: Lake, kind: str) -> None:
    """In bytes, whatever the format and however many files; also with a setting that has Spark guess larger ones."""
    place = lake.root / "made"
    rows = lake.spark.range(100).selectExpr("CAST(id AS STRING) AS v").repartition(3)
    rows.write.format(kind).save(str(place))
    size = sum(path.stat().st_size for path in place.glob("part-*"))
    lake.spark.conf.set("spark.sql.sources.fileCompressionFactor", "3.0")
    try:
        reads = ConsistentReads({str(place): size})
        assert reads.open(lake.spark.read.format(kind).schema("v STRING"), [str(place)]).count() == 100
    finally:
        lake.spark.conf.unset("spark.sql.sources.fileCompressionFactor")


def test_files_of_unexpected_size_are_listed_three_times_and_refused(lake: Lake) -> None:
    """The message has both sizes and what to do."""
    rows, paths = _text(lake, 3)
    reader: Any = Reader(rows)
    reads = ConsistentReads({paths[0]: 0, paths[1]: 11, paths[2]: 20}, "t")
    with pytest.raises(InconsistentRead, match=r"t: \S*0\.json and 2 more: expected 31 bytes, Spark lists 30\. Nothing was committed\. Run again"):
        reads.open(reader, paths)
    assert reader.calls == consistency.TRIES


def test_a_listing_that_is_right_the_second_time_is_used(lake: Lake) -> None:
    """One truncated response does not fail the run."""
    rows, paths = _text(lake, 3)
    reader: Any = Reader(lake.spark.read.text(paths[1]), rows)
    reads = ConsistentReads({paths[0]: 0, paths[1]: 10, paths[2]: 20})
    assert reads.open(reader, paths).count() == 2
    assert reader.calls == 2


def test_landed_files_that_were_overwritten_since_they_were_listed_are_read(lake: Lake) -> None:
    """The store is asked for their sizes once more. Stored files never change: any difference is refused."""
    rows, paths = _text(lake, 3)
    reader: Any = Reader(rows)
    sizes = dict.fromkeys(paths, 5)
    assert ConsistentReads(sizes, "t", lake.env.storage).open(reader, paths).count() == 2
    with pytest.raises(InconsistentRead):
        ConsistentReads(sizes, "t").open(reader, paths)


def test_local_rows_are_not_read_twice(lake: Lake) -> None:
    """No reading more on a local disk."""
    rows, paths = _text(lake, 3)
    assert ConsistentReads(dict.fromkeys(paths, 0)).materialize(rows, lambda found: pytest.fail(str(found))) is rows


@pytest.mark.slow
def test_a_file_with_different_rows_in_two_readings_is_refused(lake: Lake, remote: None) -> None:
    """The error names the file and both numbers of rows. One truncated response is no error: the file is read again."""
    path = lake.root / "a.json"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    rows = lake.spark.read.text(str(path)).selectExpr("'f/a.json' AS _file", "value AS _text")
    truncated = 0

    def keep(found: DataFrame) -> DataFrame:
        nonlocal truncated
        path.write_text("one\ntwo\nthree\n", encoding="utf-8")
        kept = measured.materialize(found)
        assert kept.count() == 3
        if truncated:
            truncated -= 1
            path.write_text("one\ntwo\n", encoding="utf-8")
        return kept

    truncated = consistency.TRIES
    with pytest.raises(InconsistentRead, match=r"f/a\.json: Spark read 3 rows and then 2, expected the same number twice"):
        ConsistentReads({str(path): 14}).materialize(rows, keep)
    truncated = 1
    assert ConsistentReads({str(path): 14}).materialize(rows, keep).count() == 3


def test_a_remote_file_fails_twice_before_it_is_blamed(lake: Lake, remote: None) -> None:
    """A file that is in the store is never blamed for being missing; one that is gone there too is."""
    path = lake.root / "a.json"
    path.write_text("x", encoding="utf-8")
    reads = ConsistentReads({str(path): 1}, "t", lake.env.storage)
    assert [reads.confirmed({str(path): "Invalid sync!"}) for _ in range(2)] == [False, True]
    missing = {str(path): "java.io.FileNotFoundException: No such file or directory"}
    with pytest.raises(InconsistentRead, match=r"table t: .*a\.json is in the store, and Spark does not find it"):
        reads.confirmed(missing)
    path.unlink()
    assert reads.confirmed(missing)


def test_a_local_file_is_blamed_at_once(lake: Lake) -> None:
    """No response can be truncated on the way."""
    assert ConsistentReads({str(lake.root / "a.json"): 1}, "t", lake.env.storage).confirmed({str(lake.root / "a.json"): "No such file or directory"})


def test_an_empty_content_is_read_once_more() -> None:
    """A truncated response looks like an empty file to the driver too."""
    answers = [b"", b"", b"content", b""]
    assert ConsistentReads.again_if_empty(answers.pop) == b"content"
    assert ConsistentReads.again_if_empty(answers.pop) == b""
    assert answers == []


@pytest.mark.slow
def test_remote_files_give_the_same_table_as_local_ones(lake: Lake, remote: None) -> None:
    """All formats of rows."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1, "v": "a"}, {"id": 2, "seq": 1, "v": "b"}])
    lake.land(spec, 1, [{"id": 2, "seq": 2, "v": "c"}], "part-1.json.gz")
    lake.land(spec, 1, [], "empty.json")
    lake.land_parquet(spec, 2, [{"id": 3, "seq": 1, "v": "d"}], "id BIGINT, seq BIGINT, v STRING")
    (Path(spec.landing) / "increment_2024030502" / "a.csv").write_text("id,seq,v\n4,1,e\n5,1,\n", encoding="utf-8")
    assert lake.run(spec).counts["applied"] == 5
    assert [(row["id"], row["v"]) for row in lake.rows(spec)] == [(1, "a"), (2, "c"), (3, "d"), (4, "e"), (5, None)]
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_remote_files_that_cannot_be_opened_go_to_quarantine(lake: Lake, remote: None) -> None:
    """Each after a second attempt."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1}])
    folder = Path(spec.landing) / "increment_2024030501"
    for name, content in {"bad.parquet": b"PAR1 no", "bad.json.gz": b"no gzip at all", "cut.avro": b"Obj\x01", "bad.csv": b"id,id\n1,2\n"}.items():
        (folder / name).write_bytes(content)
        # not one that is still being written
        os.utime(folder / name, (1_700_000_000, 1_700_000_000))
    spec = lake.with_settings(spec, quarantine_rows=100, quarantine_share=1.0)
    report = lake.run(spec)
    assert (report.counts["applied"], len(lake.snapshot(spec).inputs)) == (1, 5)
    assert [item.path.rpartition("/")[2] for item in lake.snapshot(spec).inputs if item.outcome == "quarantined"] == [
        "bad.csv",
        "bad.json.gz",
        "bad.parquet",
        "cut.avro",
    ]


def test_a_landed_file_that_is_smaller_to_spark_is_not_ingested(lake: Lake) -> None:
    """Nothing is committed; the next run takes it when both sizes agree."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1}])
    lake.land(spec, 1, [{"id": 2, "seq": 1}], "part-1.json")

    with pytest.raises(InconsistentRead, match=r"table t: .*part-0\.json and 1 more: expected 47 bytes, Spark lists 40"):
        _run(lake, Larger(lambda path: 7 if path.endswith("part-1.json") else 0))
    assert Table(lake.env, spec).newest() is None
    assert lake.run(spec).counts["applied"] == 2


@pytest.mark.slow
def test_a_run_that_misses_a_stored_file_is_refused(lake: Lake) -> None:
    """A directory that Spark lists without one of its files is not taken for a smaller Segment or Delta."""
    spec = lake.spec(write_mode="merge-on-read")
    for hour in (1, 2):
        lake.land(spec, hour, [{"id": hour, "seq": hour}])
        lake.run(spec)
    snapshot = lake.snapshot(spec)
    assert snapshot.delta is not None
    (path,) = (Path(spec.root) / snapshot.delta.path).glob("row_state=live/*.parquet")
    path.rename(path.with_name("_hidden"))
    lake.land(spec, 3, [{"id": 3, "seq": 3}])
    message = rf"{re.escape(snapshot.delta.path)}/row_state=live: expected {snapshot.delta.size:,} bytes, Spark lists 0"
    with pytest.raises(InconsistentRead, match=message):
        lake.run(spec)
    path.with_name("_hidden").rename(path)
    folder = path.parent.rename(path.parent.with_name("_gone"))
    with pytest.raises(InconsistentRead, match=r"a directory of the table is gone: .*row_state=live.*compactor verify names what is missing"):
        lake.run(spec)
    folder.rename(path.parent)
    assert lake.run(spec).counts["applied"] == 1
    assert [row["id"] for row in lake.rows(spec)] == [1, 2, 3]


def test_a_job_counts_the_rows_of_many_files_as_the_driver_does(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File by file, also where folders have signs that locations write in another way and both have files of one name."""
    directory = tmp_path / "a b#%41=ä"
    lake.spark.range(5).selectExpr("id", "id < 2 AS part").coalesce(1).write.partitionBy("part").parquet(str(directory))
    files = {str(path): path.stat().st_size for path in directory.glob("*/*.parquet")}
    by_driver = table_writer.count_rows(lake.spark, files)
    monkeypatch.setattr(table_writer, "FILES_MAX", 0)
    assert table_writer.count_rows(lake.spark, files) == by_driver
    assert sorted(by_driver.values()) == [2, 3]
    with pytest.raises(InconsistentRead, match=f"Spark lists {sum(files.values()):,}"):
        table_writer.count_rows(lake.spark, {path: size + 1 for path, size in files.items()})


class HidesDelta(LocalStorage):
    """A store whose listing lacks the Delta that was just written."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return (info for info in super().list(prefix) if "/delta/" not in info.path)


@pytest.mark.slow
def test_a_listing_that_lacks_a_written_file_stops_the_commit(lake: Lake) -> None:
    """The pass that writes counts its rows, and the footers of the listed files count theirs. A footer of another file is not believed."""
    spec = lake.spec(write_mode="merge-on-read")
    lake.land(spec, 1, [{"id": 1, "seq": 1}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "seq": 2}, {"id": 2, "seq": 2}])
    engine = SparkEngine(lake.spark, HidesDelta())
    env = dataclasses.replace(lake.env, engine=lambda: engine)
    with pytest.raises(CheckFailed, match=r"0 rows are there, expected the 2 that were written"):
        run_table(Table(env, spec))
    assert lake.snapshot(spec).version == 1
    assert lake.run(spec).counts["applied"] == 2
    delta = lake.snapshot(spec).delta
    assert delta is not None
    path = f"{spec.root}/{delta.path}/{delta.files[0].name}"
    assert table_writer.count_rows(lake.spark, {path: delta.size}) == {path: 2}
    with pytest.raises(InconsistentRead, match=rf"expected {delta.size + 1:,} bytes, Spark's client sees {delta.size:,}"):
        table_writer.count_rows(lake.spark, {path: delta.size + 1})


class HidesOneFolder(LocalStorage):
    """A store whose listing lacks the tombstones, and some of several Segments."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return (info for info in super().list(prefix) if "row_state=deleted" not in info.path and "-00001/" not in info.path)


@pytest.mark.slow
@pytest.mark.parametrize(("segments", "by_job", "message"), [(1, False, "2 rows are there"), (2, True, "[12] rows are there")])
def test_fewer_rows_than_were_written_are_not_committed(
    lake: Lake, segments: int, by_job: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one Segment and of several, whether the driver or a job counts."""
    monkeypatch.setattr(table_writer, "FILES_MAX", 0 if by_job else 64)
    spec = lake.spec(target_file_bytes=1 if segments > 1 else 384 << 20)
    lake.land(spec, 1, [{"id": key, "seq": key, "op": "d" if key == 3 else "c"} for key in (1, 2, 3)])
    engine = SparkEngine(lake.spark, HidesOneFolder())
    with pytest.raises(CheckFailed, match=f"{message}, expected the 3 that were written"):
        run_table(Table(dataclasses.replace(lake.env, engine=lambda: engine), spec))
    assert lake.run(spec).counts["applied"] == 3
    snapshot = lake.snapshot(spec)
    assert (len(snapshot.segments) > 1, snapshot.rows, snapshot.tombstones) == (segments > 1, 2, 1)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_an_error_that_no_single_remote_file_causes_is_tried_once_more(lake: Lake, remote: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One unknown error does not fail the run; two do."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1}])
    errors = [RuntimeError("Reached the end of stream with 550 bytes left to read")]
    materialize = ConsistentReads.materialize

    def failing(self: ConsistentReads, rows: DataFrame, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
        if errors:
            raise errors.pop()
        return materialize(self, rows, keep)

    monkeypatch.setattr(ConsistentReads, "materialize", failing)
    assert lake.run(spec).counts["applied"] == 1
    lake.land(spec, 2, [{"id": 2, "seq": 2}])
    errors = [RuntimeError("one"), RuntimeError("and another")]
    with pytest.raises(Refused, match="Spark failed: one"):
        lake.run(spec)
    assert lake.landed(spec) == ["part-0.json"]
