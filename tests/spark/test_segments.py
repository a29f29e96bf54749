"""Key ranges of a base: how they are chosen, and how rows come into them."""

from __future__ import annotations

import pytest

from compactor.core.model.files import DataFile, Segment
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.spark.columns import SEGMENT
from compactor.spark.tables import segments
from compactor.spark.tables.segments import Placement, placement
from tests.spark.lake import Lake

IDS = Schema((Field("id", "id", "bigint"),), ("id",))


@pytest.mark.spark
@pytest.mark.parametrize("count", [2, 3, 8, 40])
def test_every_segment_is_written_by_a_task_of_its_own(lake: Lake, count: int) -> None:
    """The names are chosen so that Spark sends each to another partition; the ranges have about equally many rows."""
    rows = lake.spark.range(count * 500).selectExpr("id")
    placed = placement(rows, IDS, [(None, None, count)], count * 500)
    sizes = placed.place(rows, IDS).selectExpr(SEGMENT, "spark_partition_id() AS task").groupBy(SEGMENT, "task").count().collect()
    assert len(sizes) == count == len({row.task for row in sizes}) == len({*placed.names(lake.spark)})
    assert all(150 < row["count"] < 1500 for row in sizes)


@pytest.mark.spark
def test_a_key_that_most_rows_have_does_not_divide_a_range_twice(lake: Lake) -> None:
    """All rows of a key are in one Segment, so fewer Segments are written than were planned."""
    rows = lake.spark.range(3000).selectExpr("CASE WHEN id < 2900 THEN 7 ELSE id END AS id")
    placed = placement(rows, IDS, [(None, None, 10)], 3000)
    assert len(placed.ranges) < 5
    found = placed.place(rows, IDS).where("id = 7").select(SEGMENT).distinct().collect()
    assert len(found) == 1


@pytest.mark.spark
def test_several_ranges_are_divided_each_by_itself(lake: Lake) -> None:
    """A compaction of Segments that do not lie next to each other; a range that is kept needs no sample."""
    rows = lake.spark.range(2000).where("id < 500 OR id >= 1500").selectExpr("id")
    ranges: list[segments.Range] = [(None, ("500",), 2), (("1500",), ("1600",), 1), (("1600",), None, 2)]
    placed = placement(rows, IDS, ranges, 1000)
    assert [low for low, _ in placed.ranges[2:4]] == [("1500",), ("1600",)]
    assert placed.ranges[0][0] is None
    assert placed.ranges[1][1] == ("500",)
    assert placed.ranges[-1][1] is None
    middle = placed.ranges[0][1]
    assert middle == placed.ranges[1][0]
    assert middle is not None
    assert 100 < int(middle[0]) < 400


Ranges = list[tuple[segments.Bound, segments.Bound]]
FIRST, SECOND, THIRD = (None, ("3",)), (("3",), ("6",)), (("6",), None)


@pytest.mark.parametrize(
    ("ranges", "filled", "expected"),
    [
        ([FIRST, SECOND, THIRD], "012", [(None, ("3",)), (("3",), ("6",)), (("6",), None)]),
        ([FIRST, SECOND, THIRD], "02", [(None, ("6",)), (("6",), None)]),
        ([FIRST, SECOND, THIRD], "12", [(None, ("6",)), (("6",), None)]),
        ([FIRST, SECOND, THIRD], "01", [(None, ("3",)), (("3",), None)]),
        ([FIRST, SECOND, THIRD], "1", [(None, None)]),
        ([FIRST, SECOND, THIRD], "", []),
        ([FIRST, THIRD], "01", [(None, ("3",)), (("6",), None)]),
        ([FIRST, THIRD], "1", [(("6",), None)]),
    ],
)
def test_a_range_without_rows_goes_to_its_neighbour(ranges: Ranges, filled: str, expected: Ranges) -> None:
    """Segments cover the ranges without a gap; a gap between ranges stays."""
    names = [f"segment=0-{at:05d}" for at in range(len(ranges))]
    made = [names[int(at)] for at in filled]
    assert list(segments._without_empty(names, Placement(tuple(ranges)), made).values()) == expected


def segment(at: int, size: int) -> Segment:
    low, high = (None if at == 0 else (str(at),)), (None if at == 3 else (str(at + 1),))
    return Segment(f"s{at}", f"base/c/s{at}", size, 0, (DataFile("a", size, ""),), low, high, None, None, 1, ())


@pytest.mark.parametrize(
    ("sizes", "chosen", "expected"),
    [
        ([100, 100, 100, 100], [0, 1, 2, 3], [1, 1, 1, 1]),
        ([100, 100, 100, 100], [0, 2], [1, 1]),
        ([100, 300, 100, 100], [0, 1, 2, 3], [6]),
        ([30, 170, 100, 100], [0, 1], [2]),
        ([200, 100, 100, 100], [0, 3], [2, 1]),
        ([40, 40, 100, 100], [0, 1], [1]),
    ],
    ids=["all as they are", "two apart", "grown", "uneven", "one has grown", "two become one"],
)
def test_segments_that_are_about_equal_keep_their_ranges(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], chosen: list[int], expected: list[int]
) -> None:
    """Then nothing is sampled. Others are divided anew, each run of neighbours by itself."""
    monkeypatch.setattr(compaction, "segment_count", lambda size, _, spec: max(1, round(size / 100)))
    made = tuple(segment(at, size) for at, size in enumerate(sizes))
    snapshot = Snapshot("t", "u", 3, 2, "w", "", "", "commit", IDS, (("seq", "bigint"),), "b", made, None)
    spec = TableSpec("t", "/t", "/t/incremental", "increment_%Y%m%d%H", "d", "t", "d", key=("id",))
    assert [count for _, _, count in segments.ranges_of(snapshot, chosen, spec)] == expected
