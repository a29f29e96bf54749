"""Adoption: how a base's columns become those of a table, as one table of cases; folders that are no plain base."""

from __future__ import annotations

import pytest

from compactor.core.model import types
from compactor.core.model.errors import OrderRefused, Refused, SchemaRefused
from compactor.core.model.policy import EVOLVE, Policy
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema.adoption import Adoption, ForeignBase, adoption, check_plain, refused_paths, sentence

PLACE = (0, 7, "increment_2024030503/a.json", 0, 0)
CHANGES = Schema((Field("id", "id", "bigint"), Field("userid", "userId", "string"), Field("n", "n", "int", 1, PLACE, PLACE, default=5)), ("id",))
ORDER = (("seq", "bigint"),)
PLAIN = {"id": "bigint", "userid": "string", "n": "int"}


def spec(policy: Policy = EVOLVE, **settings: object) -> TableSpec:
    """A table."""
    return TableSpec("t", "/lake/t", "/lake/t/in", "%Y", "school", "t", "school", ("id",), policy=policy, **settings)  # type: ignore[arg-type]


def adopted(base: dict[str, str], order_by: tuple[str, ...] = (), policy: Policy = EVOLVE, **settings: object) -> Adoption:
    """What becomes of a base with these columns."""
    foreign = ForeignBase(CHANGES, ORDER, order_by)
    return adoption(foreign.spec(spec(policy, **settings), "/old"), {name: types.parse(kind) for name, kind in base.items()}, foreign)


CASES: dict[str, tuple[dict[str, str], Policy, dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "the same": (PLAIN, Policy(), PLAIN, (), ()),
    "spelled as at the source": ({"id": "bigint", "userId": "string", "n": "int"}, Policy(), PLAIN, (), ()),
    "narrower": ({**PLAIN, "id": "int"}, Policy(), PLAIN, (), ("widened",)),
    "wider": ({**PLAIN, "n": "decimal(12,2)"}, Policy(), {**PLAIN, "n": "decimal(12,2)"}, (), ()),
    "one more": ({**PLAIN, "Old": "date"}, Policy(), {**PLAIN, "old": "date"}, (), ("removed",)),
    "one more, hidden": ({**PLAIN, "old": "date"}, Policy(drop="hide"), PLAIN, (), ("removed",)),
    "one less": ({"id": "bigint", "userid": "string"}, Policy(), PLAIN, (), ("added",)),
    "one less, left out": ({"id": "bigint", "userid": "string"}, Policy("freeze"), {"id": "bigint", "userid": "string"}, (), ("added",)),
    "metadata": ({**PLAIN, "__ts_ms": "bigint", "Op": "string"}, Policy(), PLAIN, ("__ts_ms", "Op"), ()),
    "a column named like ours": ({**PLAIN, "_op": "string"}, Policy(), {**PLAIN, "_op_2": "string"}, (), ("removed",)),
}
"""The base → under which policy, the columns shown, what is left out, the kinds of difference reported."""


@pytest.mark.parametrize("name", CASES)
def test_columns(name: str) -> None:
    """Types that hold both; nothing of the base is lost unless it is metadata or a policy says so."""
    base, policy, shown, left_out, reported = CASES[name]
    result = adopted(base, policy=policy)
    assert {field.name: field.type for field in result.schema.payload} == shown
    assert result.left_out == left_out
    assert tuple(decision.change.kind for decision in result.decisions) == reported
    assert {column for _, column in result.columns} == {*base} - {*left_out}


def test_differences_are_told_in_words_that_fit_a_base() -> None:
    """Not in those of a schema that changes while the table goes on."""
    base = {"id": "int", "userid": "string", "old": "date"}
    words = [sentence(decision) for decision in adopted(base).decisions]
    assert words == [
        "`id` is int in the base, and is copied as bigint, which can hold the values of its changes",
        "`n` (int) is in the changes only: 5 in adopted rows",
        "`old` (date) is in the base only: kept, null in new rows",
    ]
    assert [sentence(decision) for decision in adopted(base, policy=Policy(drop="hide")).decisions][-1].endswith("stored, and not shown")
    frozen = {"id": "bigint", "userid": "string"}
    assert [sentence(decision) for decision in adopted(frozen, policy=Policy("freeze")).decisions] == ["`n` (int) is in the changes only: left out"]


def test_a_column_that_the_base_lacks_shows_its_default_in_adopted_rows() -> None:
    """They are of version 1, and the column came with the version after; one that it has was there from the start."""
    new = adopted({"id": "bigint", "userid": "string"}).schema.field("n")
    assert (new.since, new.first, new.default) == (2, PLACE, 5)
    given = adopted(PLAIN).schema.field("n")
    assert (given.since, given.first, given.default) == (1, None, None)


REFUSED: dict[str, tuple[dict[str, str], tuple[str, ...], Policy, type[Exception], str]] = {
    "no key": ({"userid": "string"}, (), Policy(), SchemaRefused, "no column 'id', a part of the key; it has userid"),
    "no common type": ({**PLAIN, "userid": "date"}, (), Policy(), SchemaRefused, "column userId: /old has date, its changes have string"),
    "a difference that the policy refuses": ({**PLAIN, "old": "date"}, (), Policy("fail"), SchemaRefused, r"`old` was removed.*\{removed: evolve\}"),
    "an order that is not there": (PLAIN, ("at",), Policy(), OrderRefused, "'at', which /old does not have; it has id, userid, n"),
    "an order of more columns": (PLAIN, ("n", "id"), Policy(), OrderRefused, r"ordered by seq \(bigint\); --order-by names 2 columns, expected 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name: str) -> None:
    """In the words of the base and of the changes."""
    base, order_by, policy, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        adopted(base, order_by, policy)


def test_what_only_tells_the_order_is_no_column() -> None:
    """A column of the changes that does stays one."""
    assert adopted({**PLAIN, "at": "bigint"}, ("at",)).left_out == ("at",)
    assert adopted(PLAIN, ("n",)).left_out == ()


def test_folders_that_hold_no_plain_base() -> None:
    """Tables of other formats are named; hidden files are none of it."""
    cases = {"_delta_log/0.json": "Delta Lake", ".hoodie/x": "Apache Hudi", "metadata/v1.metadata.json": "Apache Iceberg"}
    for path, name in cases.items():
        assert name in (refused_paths("/old", ["part-0.parquet", path]) or "")
    assert refused_paths("/old", ["part-0.parquet", "metadata/notes.txt"]) is None
    check_plain("t", "/old", ["000000_0", "part-0.gz.parquet", "part-0.parquet"])
    for paths, message in (
        (["a=1/x.parquet"], "is partitioned"),
        (["sub/x"], "has folders"),
        ([], "there are no files"),
        (["x.orc"], "no Parquet file"),
    ):
        with pytest.raises(Refused, match=message):
            check_plain("t", "/old", paths)
