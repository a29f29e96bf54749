"""`compactor.read` beside Spark: every type and its extremes, history, rows at a time, the change feed, and changes of a schema.

`Lake.rows` compares DuckDB with Spark wherever a test reads a view; here are the values that other tests do not have, and the API's own results.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from compactor.flows.read.changes import changes
from compactor.flows.table import Table as Stored
from compactor.read import Table
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

DDL = (
    "id bigint, seq bigint, t tinyint, s smallint, i int, l bigint, f float, d double, big decimal(38,18), whole decimal(38,0), money decimal(9,2), "
    "flag boolean, name string, raw binary, day date, at timestamp, ints array<int>, deep array<array<string>>, "
    "place struct<x:double,`when`:timestamp,tags:array<string>>, counts map<string,bigint>, times map<string,struct<a:timestamp,b:decimal(20,5)>>"
)
EMPTY = [None] * 19


def moment(*parts: int) -> datetime:
    """A time in UTC."""
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]


ROWS: list[list[Any]] = [
    [1, 1, *EMPTY],
    [2, 2, -128, -32768, -(2**31), -(2**63), float("nan"), float("nan"), Decimal("-99999999999999999999.999999999999999999"),
     Decimal(10**38 - 1), Decimal("-9999999.99"), False, "", b"", date(1, 1, 1), moment(1, 1, 1), [], [[]], (float("-inf"), None, []), {}, {}],
    [3, 3, 127, 32767, 2**31 - 1, 2**63 - 1, -0.0, -0.0, Decimal("0E-18"), Decimal(0), Decimal("0.00"), True, "nul\0 \U0001f600 \"'\\ \n\u2028",
     b"\x00\xff\x80", date(1582, 10, 4), moment(1582, 10, 4, 23, 59, 59, 999999), [None, 0, -1], [None, ["a", None]],
     (1.5, moment(9999, 12, 31, 23, 59, 59, 999999), [None, ""]), {"": None, "k\"'": 7}, {"x": (moment(1969, 12, 31, 23, 59, 59, 1), None), "y": None}],
    [4, 4, 0, 0, 0, 0, 3.4028235e38, 5e-324, Decimal("1E-18"), Decimal(1), Decimal("0.01"), None, "İ\u0000", b"x" * 300, date(9999, 12, 31),
     moment(9999, 12, 31, 23, 59, 59, 999999), [1] * 200, [["x"] * 3] * 3, (None, None, None), {"a": -1}, {"z": (None, Decimal("1.00000"))}],
    [5, 5, 1, 1, 1, 1, 0.1, 1.7976931348623157e308, Decimal("0.1"), Decimal(7), Decimal("1.10"), True, "x", b"y", date(1900, 1, 1),
     moment(1900, 1, 1), [5], [["y"]], (0.1, moment(1970, 1, 1), ["t"]), {"a": 1}, {"z": (moment(2024, 2, 29, 12), Decimal("2.5"))}],
]  # fmt: skip


@pytest.mark.parametrize("timestamps", ["int96", "int64"])
def test_every_type_and_its_extremes(lake: Lake, timestamps: str) -> None:
    """`Lake.rows` compares; the Arrow Table has the same instants, digits and bytes. The key is a double with NaN and -0.0, too."""
    spec = lake.spec(timestamps=timestamps, format="parquet", feed="net")
    names = [part.strip().split(" ")[0] for part in DDL.split(", ")]
    lake.land_parquet(spec, 0, [dict(zip(names, row, strict=False)) for row in ROWS], DDL)
    lake.run(spec)
    assert len(lake.rows(spec)) == 5
    # a Delta over the base: the Arrow types do not depend on where a row lies
    lake.land_parquet(spec, 1, [dict(zip(names, [*row[:1], row[1] + 10, *row[2:]], strict=False)) for row in ROWS[1:3]], DDL)
    lake.run(spec)
    assert len(lake.rows(spec)) == 5
    opened = Table(Stored(lake.env, spec), lake.snapshot(spec))
    found = {row["id"]: row for row in opened.to_arrow().to_pylist()}
    for row in ROWS:
        expected = dict(zip(names, row, strict=False))
        for name in ("big", "whole", "money", "name", "raw", "day", "at", "ints", "deep", "l"):
            assert found[row[0]][name] == expected[name], name
    assert str(opened.to_arrow().schema.field("at").type) == "timestamp[us, tz=UTC]"


def test_keys_of_every_scalar_type_meet_their_rows_in_the_delta(lake: Lake) -> None:
    """A base row whose key the Delta has is hidden, by the same equality as in Spark."""
    spec = lake.spec(key=("k", "m", "w"), format="parquet", compact_every=1e9, write_mode="merge-on-read")
    keys = [
        (Decimal("1.50"), moment(1, 1, 1), "a\0"),
        (Decimal("-0.01"), moment(9999, 12, 31, 23, 59, 59, 999999), "É"),
        (Decimal(0), moment(1970, 1, 1), ""),
    ]
    ddl = "k decimal(38,2), m timestamp, w string, seq bigint, v string"
    lake.land_parquet(spec, 0, [{"k": k, "m": m, "w": w, "seq": 1, "v": "old"} for k, m, w in keys], ddl)
    lake.run(spec)
    lake.land_parquet(spec, 1, [{"k": k, "m": m, "w": w, "seq": 2, "v": "new"} for k, m, w in keys[:2]], ddl)
    lake.run(spec)
    assert lake.snapshot(spec).delta is not None
    assert Counter(row["v"] for row in lake.rows(spec)) == {"new": 2, "old": 1}


def test_history_rows_at_a_time_and_changes(lake: Lake) -> None:
    """The API's views beside Spark's, and the change feed beside the engine's own reading of it, over a column that comes and one that widens."""
    spec = lake.spec(history=True, feed="net")
    rows = [{"id": at, "seq": at, "at": f"2024-03-05T0{at}:00:00Z", "n": at} for at in range(1, 6)]
    lake.land(spec, 0, rows)
    lake.run(spec)
    lake.land(
        spec,
        1,
        [{"id": 1, "seq": 10, "at": "2024-03-06T01:00:00Z", "n": 11, "later": "x"}, {"id": 6, "seq": 11, "at": "2024-03-06T02:00:00Z", "n": 2**40}],
    )
    lake.run(spec)
    lake.land(spec, 2, [{"id": 2, "seq": 12, "at": "2024-03-07T01:00:00Z", "n": 3, "op": "d"}])
    lake.run(spec)
    shown = lake.rows(spec, "t_history")
    assert len(shown) == 7
    stored = Stored(lake.env, spec)
    opened = Table(stored, lake.snapshot(spec))
    assert opened.history().to_arrow().num_rows == 7
    # the time of a flat row is its folder's
    at = opened.as_of("2024-03-05T00:30:00Z").to_arrow(columns=["id", "n"])
    assert sorted(at.to_pylist(), key=str) == [{"id": number, "n": number} for number in range(1, 6)]
    engine = lake.env.engine()
    for since in range(3):
        told = [json.loads(line) for snapshot in changes(stored, since) for line in engine.read_feed(spec, snapshot)]
        found = opened.changes(since).to_arrow(columns=["_change_type", "_commit_version", "id", "n"]).to_pylist()
        assert Counter(map(repr, found)) == Counter(
            repr({name: row[name] for name in ("_change_type", "_commit_version", "id", "n")}) for row in told
        )
    assert opened.changes(since=3).to_arrow().num_rows == 0
