"""Keys out of samples: which columns are proposed, and for how sure they are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compactor.core.sources import key_inference
from compactor.core.sources.key_inference import RowSample

MANY = range(key_inference.ROWS_SURE)
COURSE = [{"student": at // 2, "course": f"c{at % 2}", "grade": 1} for at in MANY]

CASES: Mapping[str, tuple[Sequence[Mapping[str, Any]], tuple[str, ...] | None, bool]] = {
    "id": ([{"id": at, "name": f"n{at}"} for at in MANY], ("id",), True),
    "the table's name and id": ([{"name": f"n{at}", "order_id": at} for at in MANY], ("order_id",), True),
    "the only unique column, first": ([{"sku": f"s{at}", "price": 1} for at in MANY], ("sku",), True),
    "the only unique column, not first": ([{"price": 1, "sku": f"s{at}"} for at in MANY], ("sku",), False),
    "two unique columns without a telling name": ([{"sku": at, "ean": at} for at in MANY], ("sku",), False),
    "few rows": ([{"id": at} for at in range(key_inference.ROWS_MIN)], ("id",), False),
    "too few rows": ([{"id": at} for at in range(key_inference.ROWS_MIN - 1)], None, False),
    "two columns together": (COURSE, ("student", "course"), False),
    "a time is not a key": ([{"n": 1, "updated_at": at} for at in MANY], None, False),
    "a fraction is not a key": ([{"share": at / 7} for at in MANY], None, False),
    "a null": ([{"id": at or None, "n": 1} for at in MANY], None, False),
    "a column that one row lacks": ([{"id": at} if at else {"n": 1} for at in MANY], None, False),
    "twice": ([{"id": at // 2} for at in MANY], None, False),
    "metadata of a connector": ([{"__lsn": at, "n": 1} for at in MANY], None, False),
}


@pytest.mark.parametrize("case", CASES)
def test_the_columns_that_identify_each_sampled_row_are_proposed(case: str) -> None:
    """Only a usual name, or the only candidate in the first place, among enough rows, counts as likely."""
    rows, expected, likely = CASES[case]
    sample = RowSample()
    for row in rows:
        sample.add(row)
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    proposed = key_inference.propose(sample, columns, "orders")
    assert (proposed and proposed.columns) == expected
    assert bool(proposed and proposed.likely) is likely


def test_a_key_may_come_again_in_the_next_file() -> None:
    """Rows without an operation are upserts. Twice in one file it is refuted."""
    sample = RowSample()
    for at in [*MANY, None, *MANY]:
        sample.next_file() if at is None else sample.add({"id": at})
    proposed = key_inference.propose(sample, ("id",), "t")
    assert proposed is not None
    assert (proposed.columns, "40 sampled rows (2 files, each by itself)" in proposed.reason) == (("id",), True)
    sample.add({"id": 0})
    assert key_inference.propose(sample, ("id",), "t") is None


def test_what_deleted_rows_still_have_is_the_key() -> None:
    """Also where another column is unique and has a more usual name."""
    sample = RowSample(old=("tenant", "no"))
    for at in MANY:
        sample.add({"id": at, "tenant": at % 2, "no": at})
    proposed = key_inference.propose(sample, ("id", "tenant", "no"), "t")
    assert proposed is not None
    assert (proposed.columns, proposed.likely) == (("tenant", "no"), True)


def test_a_null_in_whole_images_of_deleted_rows_shows_no_key() -> None:
    """MySQL sends all columns of a deleted row. Only what is null there and never null in a row has been left out."""
    sample = RowSample(old=("id", "v"))
    for at in MANY:
        sample.add({"id": at, "v": at % 7, "w": None if at % 2 else 1})
    proposed = key_inference.propose(sample, ("id", "v", "w"), "t")
    assert proposed is not None
    assert proposed.columns == ("id",)


@pytest.mark.parametrize("zero", [False, True], ids=["no tenant is 0", "a tenant is 0"])
def test_a_filler_in_a_deleted_row_refutes_the_key_of_the_records(zero: bool) -> None:
    """With `message.key.columns` the source sends its own key of a deleted row and fills the rest: also where one row really has the filler."""
    sample, columns = RowSample(), ("id", "tenant", "v")
    for at in MANY:
        sample.add({"id": at, "tenant": at % 3 if zero else at % 3 + 1, "v": "x"})
    for at in (5, 3):
        sample.remove({"id": at, "tenant": 0})
    assert "another value" in key_inference.contradicted(sample, columns, ("tenant", "id"), "t")
    assert not key_inference.contradicted(sample, columns, ("id",), "t")


def test_a_deleted_row_whose_key_the_sample_does_not_show_refutes_no_key() -> None:
    """A row that has moved to another tenant was deleted under its former key."""
    sample = RowSample()
    for at in MANY:
        sample.add({"id": at, "tenant": at % 3, "v": "x"})
    sample.remove({"id": 4, "tenant": 2})
    assert not key_inference.contradicted(sample, ("id", "tenant", "v"), ("tenant", "id"), "t")
