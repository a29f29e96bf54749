"""Adoption: how a base's columns become those of a table, as one table of cases; folders that are no plain base."""

from __future__ import annotations

import pytest

from compactor.core.model import types
from compactor.core.model.errors import Refused, SchemaRefused
from compactor.core.model.policy import EVOLVE, Policy
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema.adoption import ForeignBase, check_plain, refused_paths
from compactor.core.schema.evolution import Evolved
from compactor.core.schema.writer import WriterField, WriterSchema

PLACE = (0, 7, "increment_2024030503/a.json", 0, 0)
CHANGES = Schema(
    (
        Field("id", "id", "bigint", 1, PLACE, PLACE),
        Field("userid", "userId", "string", 1, PLACE, PLACE),
        Field("n", "n", "int", 1, PLACE, PLACE, default=5),
    ),
    ("id",),
)
ORDER = (("seq", "bigint"),)
PLAIN = {"id": "bigint", "userid": "string", "n": "int"}


def spec(policy: Policy = EVOLVE, **settings: object) -> TableSpec:
    """A table."""
    return TableSpec("t", "/lake/t", "/lake/t/in", "%Y", "school", "t", "school", ("id",), policy=policy, **settings)  # type: ignore[arg-type]


def adopted(base: dict[str, str], policy: Policy = EVOLVE) -> Evolved:
    """The table of a base with these columns."""
    foreign = ForeignBase(CHANGES, ORDER)
    fields = tuple(WriterField(name, types.parse(kind), types.parse(kind)) for name, kind in base.items())
    return foreign.evolved([WriterSchema("w", fields)], foreign.spec(spec(policy), "/old"))


CASES: dict[str, tuple[dict[str, str], Policy, dict[str, str], tuple[str, ...]]] = {
    "the same": (PLAIN, Policy(), PLAIN, ()),
    "spelled as at the source": ({"id": "bigint", "userId": "string", "n": "int"}, Policy(), PLAIN, ()),
    "narrower": ({**PLAIN, "id": "int"}, Policy(), PLAIN, ()),
    "wider": ({**PLAIN, "n": "decimal(12,2)"}, Policy(), {**PLAIN, "n": "decimal(12,2)"}, ("widened",)),
    "one more": ({**PLAIN, "Old": "date"}, Policy(), {**PLAIN, "old": "date"}, ("added",)),
    "one less": ({"id": "bigint", "userid": "string"}, Policy(), PLAIN, ()),
    "a column named like ours": ({**PLAIN, "_version": "string"}, Policy(), {**PLAIN, "_version_2": "string"}, ("added",)),
}
"""The base → under which policy, the columns shown, the kinds of difference reported."""


def test_the_rows_of_a_base_name_no_table() -> None:
    """They are those of the table, whatever `source_table` selects from the stream."""
    assert ForeignBase(CHANGES, ORDER).spec(spec(source_table="public.t"), "/old").source_table is None


@pytest.mark.parametrize("name", CASES)
def test_columns(name: str) -> None:
    """Types that hold both; nothing of the base is lost unless a policy says so, and its rows are of generation 1."""
    base, policy, shown, reported = CASES[name]
    result = adopted(base, policy)
    assert {field.name: field.type for field in result.schema.payload} == shown
    assert tuple(decision.change.kind for decision in result.decisions) == reported
    assert ({*result.columns["w"]}, result.schema.generation, result.retyped) == ({*base}, 1, ())


def test_a_column_that_the_base_lacks_shows_its_default_in_adopted_rows() -> None:
    """One that it has was there from the start, so a null of the base stays null."""
    new = adopted({"id": "bigint", "userid": "string"}).schema.field("n")
    assert (new.first, new.default) == (PLACE, 5)
    given = adopted(PLAIN).schema.field("n")
    assert (given.first, given.default) == ((-1, None, None, None, None), None)


REFUSED: dict[str, tuple[dict[str, str], Policy, str]] = {
    "no key": ({"userid": "string"}, Policy(), "no column 'id', a part of the key; it has userId"),
    "no common type": ({**PLAIN, "n": "array<int>"}, Policy(), "column n: stored as int, the new data has array<int>"),
    "a difference that the policy refuses": ({**PLAIN, "old": "date"}, Policy("fail"), "`old`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name: str) -> None:
    """In the words of the base and of the changes."""
    base, policy, message = REFUSED[name]
    with pytest.raises(SchemaRefused, match=message):
        adopted(base, policy)


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
