"""`cluster_by:`: which order the files of a Segment get, and which columns are refused."""

from __future__ import annotations

import pytest

from compactor.core.model.errors import Refused
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema import clustering
from compactor.core.schema.clustering import ROW_GROUP_BYTES, FileOrder

SCHEMA = Schema(
    (
        Field("id", "Id", "bigint"),
        Field("region", "Region", "string"),
        Field("at", "at", "timestamp"),
        Field("day", "day", "date"),
        Field("price", "price", "decimal(10,2)", formerly=("cost",)),
        Field("tags", "tags", "array<string>"),
        Field("image", "image", "binary"),
        Field("was", "region_old", "string", visible=False),
        Field("dear", "price_in_euro", "int", formerly=("zone",)),
        Field("zone", "zone", "int"),
    ),
    ("id",),
)


def spec(*columns: str, parquet: str = "hive") -> TableSpec:
    return TableSpec("t", "/t", "/t/in", "", "d", "t", "d", ("Id",), cluster_by=columns, parquet=parquet)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((), FileOrder(("id",))),
        (("Region",), FileOrder(("region", "id"), ROW_GROUP_BYTES)),
        (("day", "Region"), FileOrder(("day", "region", "id"), ROW_GROUP_BYTES)),
        (("price",), FileOrder(("price", "id"), ROW_GROUP_BYTES)),
        # a renamed column keeps its place under the earlier name
        (("cost",), FileOrder(("price", "id"), ROW_GROUP_BYTES)),
        (("REGION", "Price"), FileOrder(("region", "price", "id"), ROW_GROUP_BYTES)),
        # a column of its own now
        (("zone",), FileOrder(("zone", "id"), ROW_GROUP_BYTES)),
        # hidden by `drop: hide`; its rows still have values
        (("region_old",), FileOrder(("was", "id"), ROW_GROUP_BYTES)),
        (("Id", "Region", "Region"), FileOrder(("id", "region"), ROW_GROUP_BYTES)),
        # a column that has not come yet
        (("later",), FileOrder(("id",))),
        (("later", "Region"), FileOrder(("region", "id"), ROW_GROUP_BYTES)),
    ],
)
def test_files_are_sorted_by_the_columns_and_then_by_the_key(columns: tuple[str, ...], expected: FileOrder) -> None:
    """Names are those of the source; each column once; only clustered files have small row groups."""
    assert clustering.of_segments(spec(*columns), SCHEMA) == expected


def test_a_delta_is_sorted_by_its_key() -> None:
    """Whatever `cluster_by:` says."""
    assert clustering.by_key(SCHEMA) == FileOrder(("id",))


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("at", "at, a timestamp. Timestamps are stored as INT96, which has no statistics.* Set `parquet: standard`"),
        ("tags", "tags, which is array<string>: no reader skips data"),
        ("image", "image, which is binary: no reader skips data"),
    ],
)
def test_a_column_that_helps_no_reader_is_refused(column: str, problem: str) -> None:
    """The message says what to do."""
    with pytest.raises(Refused, match=f"table t: `cluster_by` names {problem}"):
        clustering.of_segments(spec("Region", column), SCHEMA)


def test_a_timestamp_of_64_bits_is_accepted() -> None:
    """It has statistics."""
    assert clustering.of_segments(spec("at", parquet="standard"), SCHEMA).columns == ("at", "id")


def test_absent_columns_are_named() -> None:
    """For a warning."""
    assert clustering.absent(spec("later", "Region", "region", "cost"), SCHEMA) == ["later"]
