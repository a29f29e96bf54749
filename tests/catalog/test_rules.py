"""The rules that every catalog follows, as tables of cases."""

from __future__ import annotations

import pytest

from compactor.catalog import rules
from compactor.core.catalog.ddl import Column


def columns(text: str) -> tuple[Column, ...]:
    """Columns told as `id bigint, a string`."""
    return tuple(Column(*one.split(" ", 1)) for one in text.split(", ") if one)


@pytest.mark.parametrize(
    ("now", "wanted", "between"),
    [
        ("id bigint, a int", "id bigint, a int, b string", "id bigint, a int"),
        ("id bigint, a int, b string", "id bigint, a int", "id bigint, a int"),
        ("id bigint, a int", "id bigint, a bigint", "id bigint, a bigint"),
        ("id bigint, a int, b date", "c string, b timestamp, id bigint, a string", "b timestamp, id bigint, a string"),
        ("a decimal(5,2)", "a decimal(9,4)", "a decimal(9,4)"),
        ("a array<int>", "a array<bigint>", "a array<bigint>"),
        ("a map<string,float>", "a map<string,double>", "a map<string,double>"),
        ("a struct<x:int>", "a struct<x:double>", "a struct<x:double>"),
        ("a int", "b int", ""),
        # what Spark does not cast on its own
        ("id bigint, a struct<x:int>", "id bigint, a struct<x:int,y:int>", None),
        ("id bigint, a array<int>", "id bigint, a string", None),
        ("id bigint, a string", "id bigint, a int", None),
        ("id bigint, a bigint", "id bigint, a int", None),
        ("id bigint, a decimal(20,0)", "id bigint, a double", None),
        ("id bigint, a binary", "id bigint, a string", None),
    ],
)
def test_columns_under_which_both_texts_of_a_view_can_be_read(now: str, wanted: str, between: str | None) -> None:
    """Those of both, in the new types."""
    assert rules.between(columns(now), columns(wanted)) == (None if between is None else columns(between))
