"""The canonical texts of values that the lake has as text: other spellings of one value are equal."""

from __future__ import annotations

import pytest

from compactor.core.reconcile.canonical import Pair
from compactor.core.reconcile.dialects import SPARK
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

CASES = (
    ("integer", "00007", "7"),
    ("integer", "-007", "-7"),
    ("integer", "0000", "0"),
    ("integer", "n/a", "n/a"),
    ("integer", "NaN", None),
    ("date", "2024-00-00", None),
    ("date", "2024-01-31", "19753"),
    ("moment", "+292278994-08-16T23:00:00Z", None),
    ("moment", "soon", "soon"),
    ("double", "", None),
    ("number", "007.50", "7.5"),
    ("number", "0.500", "0.5"),
    ("boolean", "\x01", "true"),
    ("boolean", "\x00", "false"),
    ("boolean", "t", "true"),
    ("boolean", "0", "false"),
    ("time", "10:00:00.5Z", "10:00:00.5"),
    ("time", "00:00:00.000Z", "00:00:00"),
    ("time", "00:10:00.500000", "00:10:00.5"),
)
"""(form, text in the lake, canonical text)."""


def test_other_spellings_of_a_value_are_equal(lake: Lake) -> None:
    """MySQL's ZEROFILL and bits, PostgreSQL's COPY, and Debezium's IsoTime."""
    for form in dict.fromkeys(form for form, *_ in CASES):
        own = [(text, canonical) for kind, text, canonical in CASES if kind == form]
        rows = lake.spark.createDataFrame(own, "v STRING, canonical STRING")
        texts = rows.selectExpr("v", "canonical", f"{SPARK.text(Pair('v', 'string', 'v', form, form, False))} AS made").collect()
        assert [(row.v, row.canonical) for row in texts] == [(row.v, row.made) for row in texts]
