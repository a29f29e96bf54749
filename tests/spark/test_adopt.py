"""Adopting on Spark: bases that others wrote, what is refused of them, and that runs, folds and rebuilds go on with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import CatalogRefused, InputRefused
from compactor.core.model.policy import Policy
from compactor.core.model.spec import TableSpec
from compactor.core.results.checks import Difference
from compactor.core.results.reports import AdoptReport
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.flows.write.adopt import adopt
from tests.oracle.sizes import FULL
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

HOUR_2 = "increment_2024030502"


def old_base(lake: Lake, *parts: tuple[str, Sequence[tuple[Any, ...]]], name: str = "old") -> str:
    """A folder with a Parquet file for each (columns, rows), as a job of others leaves it."""
    folder = lake.root / name
    for ddl, rows in parts:
        lake.spark.createDataFrame(list(rows), ddl).coalesce(1).write.mode("append").parquet(str(folder))
    return str(folder)


def files_below(folder: str) -> dict[str, bytes]:
    """Everything in a folder."""
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def adopted(lake: Lake, spec: TableSpec, path: str, through: str) -> AdoptReport:
    """Adopt after a dry run that tells the same and changes nothing; what it shows is sound, and the base of others is as it was."""
    lake.now += 1
    before = files_below(str(lake.root))
    told = adopt(Table(lake.env, spec), path, through, dry=True)
    assert files_below(str(lake.root)) == before
    made = adopt(Table(lake.env, spec), path, through)
    assert (told.outcome, made.outcome, told.rows, told.columns) == ("would be adopted", "adopted", made.rows, made.columns)
    assert files_below(path).items() >= {(name, data) for name, data in before.items() if name.startswith(path)}
    assert lake.problems(spec) == []
    return made


def values(lake: Lake, spec: TableSpec) -> dict[Any, Any]:
    """id → a."""
    return {row["id"]: row["a"] for row in lake.rows(spec)}


if FULL:

    @pytest.mark.slow
    def test_rows_whose_changes_are_behind_them_lose_to_every_later_change(lake: Lake) -> None:
        """Files up to hour 02 are archived unread, although they would say otherwise; then updates, a partial one, a delete, a key change, a new column,
        a late file; a fold, a history of the adopted rows, a rebuild of all of it.
        """
        spec = lake.spec(
            envelope="debezium", order_by=("source.ts_ms",), write_mode="merge-on-read", compact_every=3.0, target_file_bytes=2_000, history=True
        )
        base = old_base(
            lake,
            ("id int, a string, Old_Note string, __op string", [(n, f"base {n}", "kept", "u") for n in range(100)]),
            ("id bigint, a string, __op string", [(n, f"base {n}", "c") for n in range(100, 200)]),
        )

        def event(op: str, at: int, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> dict[str, Any]:
            return {"op": op, "before": before, "after": after, "source": {"connector": "postgresql", "ts_ms": at, "table": "t"}, "ts_ms": at}

        for hour in range(3):
            lake.land(spec, hour, [event("u", 1000 + hour, {"id": 1, "a": "too old"}), event("d", 1000 + hour, None, {"id": 2, "a": "x"})])
        lake.land(spec, 3, [event("u", 2000, {"id": 1, "a": "new"}), event("u", 2001, {"id": 150, "a": "__debezium_unavailable_value"})])
        report = adopted(lake, spec, base, through=HOUR_2)
        assert (report.rows, report.files, report.ingested, report.waiting) == (200, 2, 3, 1)
        assert [column for column, _, _ in report.columns] == ["id", "a", "old_note"]
        first = lake.snapshot(spec)
        assert (first.operation, first.hour, {item.outcome for item in first.inputs}) == ("adopt", "2024-03-05T02:00", {"adopted"})
        assert {segment.position_max[0] for segment in first.segments if segment.position_max} == {-1}
        assert len(first.segments) > 1
        assert lake.landed(spec) == ["part-0.json"]
        assert values(lake, spec) == {n: f"base {n}" for n in range(200)}

        assert lake.run(spec).counts["applied"] == 2
        now = values(lake, spec)
        assert (now[1], now[150], now[2]) == ("new", "base 150", "base 2")
        lake.land(spec, 4, [event("d", 3000, None, {"id": 2, "a": "base 2"}), event("u", 3001, {"id": 900, "a": "moved"}, {"id": 3, "a": "base 3"})])
        lake.land(spec, 4, [event("u", 3002, {"id": 4, "a": "four", "more": 7})], "part-1.json")
        lake.land(spec, 1, [event("u", 1500, {"id": 1, "a": "late"}), event("u", 1500, {"id": 5, "a": "late, and the first since"})], "late.json")
        lake.land(spec, 4, [event("u", 3003, {"id": n, "a": "many"}) for n in range(10, 60)], "part-2.json")
        lake.run(spec)
        lake.land(spec, 5, [event("u", 4000, {"id": 199, "a": "last"})])
        assert [name.split()[0] for name in lake.run(spec).operations] == ["commit", "compact"]
        # one of the adopted segments has become another, the others are as they were written
        assert {*first.segments} & {*lake.snapshot(spec).segments} != {*first.segments}
        now = values(lake, spec)
        assert {n: now.get(n) for n in (1, 2, 3, 900, 4, 5)} == {1: "new", 2: None, 3: None, 900: "moved", 4: "four", 5: "late, and the first since"}
        assert len(now) == 199
        assert {row["more"] for row in lake.rows(spec)} == {None, 7}
        assert lake.problems(spec) == []
        assert len(lake.rows(spec, "t_history")) >= 200

        lake.now += 1
        rows = lake.rows(spec)
        rebuilt = rebuild_table(Table(lake.env, spec))
        assert (rebuilt.outcome, rebuilt.files, rebuilt.difference) == ("published", 6, Difference())
        assert lake.rows(spec) == rows
        assert lake.problems(spec) == []


@pytest.mark.slow
def test_numbers_of_landed_files_become_text_as_the_source_wrote_them(lake: Lake) -> None:
    """Also where a fraction came between: 99 is no 99.0. Adopted rows are in no file: theirs is the text of the stored value."""
    spec = lake.spec(policy=Policy(kinds=(("to_string", "evolve"),)))
    base = old_base(lake, ("id bigint, a bigint, seq bigint", [(1, 10, 1)]))
    lake.land(spec, 2, [{"id": 1, "a": 10, "seq": 1}])
    adopted(lake, spec, base, through=HOUR_2)
    for hour, value in ((3, 99), (4, 1.5), (5, "x")):
        lake.land(spec, hour, [{"id": hour, "a": value, "seq": hour}])
        report = lake.run(spec)
    assert values(lake, spec) == {1: "10", 3: "99", 4: "1.5", 5: "x"}
    assert [name.split()[0] for name in report.operations] == ["commit", "rebuild"]
    assert lake.problems(spec) == []


GOOD = ("id bigint, a string", [(1, "one")])
REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "the view's name is a table": ([GOOD], {"table": True}, CatalogRefused, "Set `view:` to another name"),
    "a key twice": ([GOOD, GOOD], {}, InputRefused, r'1 keys are in .* more than once, such as \{"id":1\} 2 times in .*parquet and .*parquet'),
    "no key in a row": (
        [("id bigint, a string", [(None, "x")])],
        {},
        InputRefused,
        r"1 files or rows of .* such as part-\S+, record 1: has no key \(id is null\)",
    ),
    "deleted rows": (
        [("id bigint, a string, __deleted string", [(1, "x", "true"), (2, "y", "false")])],
        {},
        InputRefused,
        "record 1: is marked as deleted",
    ),
    "damaged": ([GOOD], {"write": "part-9.parquet"}, InputRefused, "1 files or rows of .*part-9.parquet: not a readable Parquet file"),
}
"""What is wrong → the base's files, what is said or done besides, the error. What needs no Spark is in `tests/flows` and `tests/core`."""


@pytest.mark.slow
def test_what_cannot_be_adopted_is_refused_in_words_and_leaves_nothing(lake: Lake) -> None:
    """No file appears below the table's root; each message names what is wrong, and where."""
    for number, (name, (parts, said, error, message)) in enumerate(REFUSED.items()):
        spec = lake.spec(f"t{number}")
        lake.land(spec, 1, [{"id": 7, "a": "x", "seq": 1}])
        base = old_base(lake, *parts, name=f"old{number}")
        if "write" in said:
            Path(base, said["write"]).write_bytes(b"no Parquet")
        if said.get("table"):
            lake.spark.sql(f"CREATE DATABASE IF NOT EXISTS {lake.database}")
            lake.spark.sql(f"CREATE TABLE {lake.database}.{spec.view} (id bigint) STORED AS PARQUET")
        before = files_below(str(lake.root))
        with pytest.raises(error, match=message):
            adopt(Table(lake.env, spec), base, HOUR_2)
        assert files_below(str(lake.root)) == before, name
