"""What Spark was told of files, held against what is so. Answers of S3 that are really cut: tests/faults_real/test_cut_answers.py."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from compactor.core.errors import CheckFailed, Doubt, Refused
from compactor.flows import snapshots
from compactor.flows.reports import TableReport
from compactor.flows.run import run_table
from compactor.ports import FileInfo
from compactor.spark import doubt, store
from compactor.spark.engine import SparkEngine
from compactor.spark.files import RawFrame
from compactor.storage.local import LocalStorage
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubt, "_WAIT_SECONDS", 0.0)


@pytest.fixture
def afar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file comes from far."""
    monkeypatch.setattr(doubt, "remote", lambda _: True)


class Lying(LocalStorage):
    """Tells of files that they are larger than they are, by what `more` says."""

    def __init__(self, more: Callable[[str], int]) -> None:
        super().__init__()
        self._more = more

    def list(self, prefix: str) -> Iterator[FileInfo]:
        for info in super().list(prefix):
            yield self._told(info)

    def stat(self, path: str) -> FileInfo | None:
        info = super().stat(path)
        return None if info is None else self._told(info)

    def _told(self, info: FileInfo) -> FileInfo:
        return dataclasses.replace(info, size=info.size + self._more(info.path))


def _run(lake: Lake, storage: LocalStorage) -> TableReport:
    engine = SparkEngine(lake.spark, storage)
    spec = lake.spec()
    return run_table(dataclasses.replace(lake.world, storage=storage, engine=lambda: engine), spec)


def _files(lake: Lake, count: int) -> tuple[DataFrame, int]:
    folder = lake.root / "text"
    folder.mkdir()
    for at in range(count):
        (folder / f"{at}.json").write_text("x" * 10 * at, encoding="utf-8")
    return lake.spark.read.text(str(folder)), sum(10 * at for at in range(count))


@pytest.mark.parametrize("kind", ["text", "csv", "json", "parquet"])
def test_the_sizes_that_spark_lists_are_those_of_the_files(lake: Lake, kind: str) -> None:
    """In bytes, whatever the format and however many files; also with a setting that has Spark guess larger ones."""
    place = lake.root / "made"
    rows = lake.spark.range(100).selectExpr("CAST(id AS STRING) AS v").repartition(3)
    rows.write.format(kind).save(str(place))
    size = sum(path.stat().st_size for path in place.glob("part-*"))
    lake.spark.conf.set("spark.sql.sources.fileCompressionFactor", "3.0")
    try:
        read = lake.spark.read.format(kind).schema("v STRING").load(str(place))
        assert doubt.listed(lambda: read, size, "made").count() == 100
    finally:
        lake.spark.conf.unset("spark.sql.sources.fileCompressionFactor")


def test_files_of_other_sizes_are_listed_again_and_then_not_believed(lake: Lake) -> None:
    """Three listings; the message has both sizes and what to do."""
    rows, size = _files(lake, 3)
    tries: list[int] = []

    def opened() -> DataFrame:
        tries.append(1)
        return rows

    with pytest.raises(Doubt, match=r"t: expected 31 bytes, as listed, and the store told Spark of 30\. Nothing was committed\. Run again"):
        doubt.again(lambda: doubt.listed(opened, size + 1, "t"))
    assert len(tries) == doubt.TRIES


def test_a_listing_that_is_right_the_second_time_is_taken(lake: Lake) -> None:
    """Which is what becomes of one answer that was cut."""
    rows, size = _files(lake, 3)
    answers = [rows, lake.spark.read.text(str(lake.root / "text" / "1.json"))]
    assert doubt.again(lambda: doubt.listed(lambda: answers.pop(), size, "t")).count() == 2
    assert answers == []


def test_files_that_were_written_over_since_they_were_listed_are_not_doubted(lake: Lake) -> None:
    """The store is asked once more."""
    rows, size = _files(lake, 3)
    assert doubt.listed(lambda: rows, size + 5, "t", lambda: size).count() == 2


def test_rows_from_near_are_left_as_they_are(lake: Lake) -> None:
    """No reading more on a local disk."""
    raw = RawFrame(_files(lake, 3)[0], paths=(str(lake.root),))
    assert doubt.once(raw, lambda rows: pytest.fail(str(rows))) is raw


def test_a_file_of_which_two_readings_differ_is_doubted(lake: Lake, afar: None) -> None:
    """Named, with the numbers of rows."""
    path = lake.root / "a.json"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    rows = lake.spark.read.text(str(path)).selectExpr("'f/a.json' AS _file", "value AS _text")

    def hold(found: DataFrame) -> DataFrame:
        kept = store.held(found)
        path.write_text("one\ntwo\n", encoding="utf-8")
        return kept

    with pytest.raises(Doubt, match=r"f/a\.json: Spark read 3 rows of it and then 2; expected as many each time"):
        doubt.once(RawFrame(rows, paths=(str(path),)), hold)


def test_what_comes_from_far_is_read_as_what_lies_near(lake: Lake, afar: None) -> None:
    """All formats of rows: a table of files from far is the same table."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1, "v": "a"}, {"id": 2, "seq": 1, "v": "b"}])
    lake.land(spec, 1, [{"id": 2, "seq": 2, "v": "c"}], "part-1.json.gz")
    lake.land(spec, 1, [], "empty.json")
    lake.land_parquet(spec, 2, [{"id": 3, "seq": 1, "v": "d"}], "id BIGINT, seq BIGINT, v STRING")
    (Path(spec.landing) / "increment_2024030502" / "a.csv").write_text("id,seq,v\n4,1,e\n5,1,\n", encoding="utf-8")
    assert lake.run(spec).counts["applied"] == 5
    assert [(row["id"], row["v"]) for row in lake.rows(spec)] == [(1, "a"), (2, "c"), (3, "d"), (4, "e"), (5, None)]
    assert lake.problems(spec) == []


def test_files_from_far_that_cannot_be_opened_go_to_quarantine_all_the_same(lake: Lake, afar: None) -> None:
    """Each after a second look."""
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


def test_a_file_that_spark_takes_for_a_smaller_one_is_not_absorbed(lake: Lake) -> None:
    """Nothing is committed; it is taken as soon as the answers fit."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1}])
    lake.land(spec, 1, [{"id": 2, "seq": 1}], "part-1.json")

    with pytest.raises(Doubt, match=r"table t: .*part-0\.json and 1 more: expected 47 bytes, as listed, and the store told Spark of 40"):
        _run(lake, Lying(lambda path: 7 if path.endswith("part-1.json") else 0))
    assert snapshots.newest(lake.world, snapshots.layout_of(spec)) is None
    assert lake.run(spec).counts["applied"] == 2


def test_stored_files_that_are_gone_are_missed_by_every_run_that_reads_them(lake: Lake) -> None:
    """A directory that Spark lists without one of its files is not taken for a smaller Segment or Delta."""
    spec = lake.spec(compaction="delta")
    for hour in (1, 2):
        lake.land(spec, hour, [{"id": hour, "seq": hour}])
        lake.run(spec)
    snapshot = lake.snapshot(spec)
    assert snapshot.delta is not None
    (path,) = (Path(spec.root) / snapshot.delta.path).glob("*.parquet")
    path.rename(path.with_name("_hidden"))
    lake.land(spec, 3, [{"id": 3, "seq": 3}])
    told = rf"{re.escape(snapshot.delta.path)}: expected {snapshot.delta.size:,} bytes, as listed, and the store told Spark of 0"
    with pytest.raises(Doubt, match=told):
        lake.run(spec)
    path.with_name("_hidden").rename(path)
    assert lake.run(spec).counts["applied"] == 1
    assert [row["id"] for row in lake.rows(spec)] == [1, 2, 3]


def test_fewer_rows_than_were_written_are_not_committed(lake: Lake) -> None:
    """What is read back is counted."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1}, {"id": 2, "seq": 1}])
    lake.run(spec)
    snapshot = lake.snapshot(spec)
    (segment,) = snapshot.segments
    directory = str(Path(spec.root) / segment.path)
    with pytest.raises(CheckFailed, match=r"2 rows are there, expected the 3 that were written"):
        store.inspect(lake.spark, lake.world.storage, snapshot.schema, snapshot.order, directory, "t", 3)
    with pytest.raises(CheckFailed, match=r"0 rows are there, expected the 2 that were written"):
        store.inspect(lake.spark, lake.world.storage, snapshot.schema, snapshot.order, directory + "/nothing", "t", 2)


def test_what_fails_for_no_single_file_from_far_is_tried_once_more(lake: Lake, afar: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error that nobody knows is no reason to wake somebody; two are."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1}])
    errors = [RuntimeError("Reached the end of stream with 550 bytes left to read")]
    counted = doubt.once

    def once(raw: RawFrame, hold: Callable[[DataFrame], DataFrame]) -> RawFrame:
        if errors:
            raise errors.pop()
        return counted(raw, hold)

    monkeypatch.setattr(doubt, "once", once)
    assert lake.run(spec).counts["applied"] == 1
    lake.land(spec, 2, [{"id": 2, "seq": 2}])
    errors = [RuntimeError("one"), RuntimeError("and another")]
    with pytest.raises(Refused, match="Spark failed: one"):
        lake.run(spec)
    assert lake.landed(spec) == ["part-0.json"]
