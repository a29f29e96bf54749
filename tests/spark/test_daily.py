"""Frozen days on Spark: every day shows what the view showed at its end, after type changes, compactions, vacuums and a restore."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from compactor.core.catalog import daily_views
from compactor.core.catalog.dialect import PRESTO
from compactor.core.model import times
from compactor.core.model.policy import Daily
from compactor.core.model.spec import TableSpec
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.publish import daily
from compactor.flows.table import Table
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

SETTINGS = {"op": "op", "policy": TEXT_ALLOWED, "compact_every": 0.0, "target_file_bytes": 4000, "keep": 0.0, "keep_versions": 1, "grace": 0.0}


def record(rng: random.Random, day: int, seq: int) -> dict[str, Any]:
    """A change: from day 2 on with a new column, on day 3 `a` has fractions and large numbers, from day 4 on it is text."""
    if rng.random() < 0.2:
        return {"op": "d", "id": rng.randrange(40), "seq": seq}
    a = seq if day < 3 else (seq + 0.5) * 10.0 ** (seq % 3 * 6) if day < 4 else f"text {seq}"
    tags = [seq] if day < 3 else [seq + 0.5]
    return {"op": "u", "id": rng.randrange(40), "seq": seq, "a": a, "tags": tags, "dt": f"of {seq}", **({"b": f"b{seq}"} if day > 1 else {})}


def five_days(lake: Lake, spec: TableSpec) -> Iterator[int]:
    """Run at five o'clock of five days, with changes on the first four. Yields the number of each day after its run."""
    rng = random.Random(20)
    for number in range(1, 6):
        lake.now = times.to_seconds(f"2026-01-{10 + number}T05:00:00Z")
        if number < 5:
            lake.land(spec, number, [record(rng, number, 12 * number + each) for each in range(12)])
        lake.run(spec)
        yield number


def main_view(lake: Lake) -> dict[int, dict[str, Any]]:
    """The rows of the main view by id, and `a` as text."""
    rows = lake.spark.sql(f"select *, cast(a as string) as a_text from `{lake.database}`.t").collect()
    return {row["id"]: row.asDict() for row in rows}


def check_days(lake: Lake, spec: Any, ends: dict[str, dict[int, dict[str, Any]]], text: bool) -> None:
    """Numbers that became text are cast, later columns and items of another type are null."""
    shown = lake.rows(spec, "t_daily")
    assert sorted({row["dt"] for row in shown}) == sorted(ends)
    for day, end in ends.items():
        rows = {row["id"]: row for row in shown if row["dt"] == day}
        assert rows.keys() == end.keys(), day
        for key, row in end.items():
            tags = row["tags"] if row["tags"] and isinstance(row["tags"][0], float) else None
            values = (row["seq"], row["a_text"] if text else row["a"], row.get("b"), row["dt"], tags)
            assert tuple(rows[key][name] for name in ("seq", "a", "b", "dt_2", "tags")) == values, (day, key)


@pytest.mark.slow
def test_every_day_shows_what_the_view_showed_at_its_end(lake: Lake) -> None:
    """After compactions, vacuums and two changes of types; a query of a day reads only files of that day's version."""
    spec = lake.spec(daily=Daily(keep=6), **SETTINGS)
    ends: dict[str, dict[int, dict[str, Any]]] = {}
    for number in five_days(lake, spec):
        vacuum(Table(lake.env, spec), False)
        if number in (4, 5):
            check_days(lake, spec, ends, text=True)
        ends[f"2026-01-{10 + number}"] = main_view(lake)
    assert lake.problems(spec) == []
    snapshot, table = lake.snapshot(spec), Table(lake.env, spec)
    forms = daily.forms(table, snapshot)
    assert len({form.snapshot.schema.generation for form in forms}) == 3
    lake.env.engine().check_view(daily_views.view(spec, snapshot, forms, PRESTO), daily.tables(table, snapshot))
    # as in a reader's session, unlike ours
    reader = lake.spark.newSession()
    reader.conf.set("spark.sql.constraintPropagation.enabled", "true")
    for day, version in daily.versions(table, snapshot):
        query = reader.sql(f"select * from `{lake.database}`.t_daily where dt = '{day}'")
        read = {"/".join(path.split("/")[-2:]) for path in query.inputFiles()}
        # of the base only what is shown, of the Delta also the keys of deleted rows
        live = {file.name for segment in version.segments for file in segment.files if file.name.startswith("row_state=live/")}
        assert read == live | {file.name for file in (version.delta.files if version.delta else ())}, day
