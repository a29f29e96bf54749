"""Rebuild on Spark: the table again out of its raw files, with other keys, orders and policies, and what differs by key."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.core.model.errors import OrderRefused, SchemaRefused
from compactor.core.model.policy import Policy
from compactor.core.model.spec import TableSpec
from compactor.core.results.checks import Difference
from compactor.core.results.reports import RebuildReport
from compactor.flows.read.verify import verify
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table, restore_table
from compactor.flows.write.restore import at_version
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def rebuilt(lake: Lake, spec: TableSpec, accept: bool = False) -> RebuildReport:
    """A rebuild, and what it shows is sound."""
    lake.now += 1
    report = rebuild_table(Table(lake.env, spec), accept=accept)
    if report.outcome == "published":
        assert lake.snapshot(spec).version == report.version
        assert lake.problems(spec) == []
    return report


@pytest.mark.slow
def test_a_grown_table_is_its_archive_resolved_at_once(lake: Lake) -> None:
    """After a wider type (tables of another generation), a new column, a late event, a delete, a fold; runs go on top of it."""
    spec = lake.spec(write_mode="merge-on-read", compact_every=2.0, target_file_bytes=4_000, policy=TEXT_ALLOWED)
    lake.land(spec, 0, [{"id": n, "a": n, "seq": n, "op": "c"} for n in range(300)])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 7, "a": "many", "seq": 1000, "op": "u"}, {"id": 8, "seq": 1001, "op": "d"}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 9, "a": "2", "b": {"x": [1, None]}, "seq": 1002, "op": "u"}, {"id": 8, "a": "3", "seq": 900, "op": "u"}])
    lake.run(spec)
    before, rows = lake.snapshot(spec), lake.rows(spec)
    assert before.schema.generation > 1
    report = rebuilt(lake, spec)
    after = lake.snapshot(spec)
    assert (report.outcome, report.files, report.difference) == ("published", 3, Difference())
    assert (after.operation, after.delta, after.schema.generation) == ("rebuild", None, before.schema.generation)
    assert lake.rows(spec) == rows
    lake.land(spec, 3, [{"id": 8, "a": "4", "seq": 950, "op": "u"}, {"id": 9, "a": "5", "seq": 1003, "op": "u"}])
    lake.run(spec)
    # the tombstone of 8 has come through
    assert [row["id"] for row in lake.rows(spec) if row["id"] in (8, 9)] == [9]
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_another_key_and_another_order_are_refused_by_runs_and_taken_by_a_rebuild(lake: Lake) -> None:
    """The messages name the command; what differs is told by whole rows; the next run goes on with it, in tables of a new generation."""
    spec = lake.spec(key=("id", "part"))
    rows: list[dict[str, Any]] = [{"id": n, "part": part, "v": n, "seq": n + 100 * part, "at": 500 - n} for n in range(4) for part in (0, 1)]
    lake.land(spec, 0, [*rows, {"id": 0, "part": 1, "v": 77, "seq": 400, "at": 1}])
    lake.run(spec)
    assert len(lake.rows(spec)) == 8
    other = lake.with_settings(spec, key=("id",))
    lake.land(spec, 1, [{"id": 3, "part": 5, "v": 33, "seq": 500, "at": 0}])
    with pytest.raises(SchemaRefused, match="compactor rebuild t --accept-differences"):
        lake.run(other)
    report = rebuilt(lake, other)
    # of each id one row is left
    assert (report.outcome, report.difference.columns) == ("differs", ("the key was (id, part), it is (id)",))
    assert (report.difference.missing, report.difference.added, report.difference.changed) == (4, 0, 0)
    assert report.difference.samples[0].startswith('{"id":0,"part":0,')
    assert len(lake.rows(spec)) == 8
    assert rebuilt(lake, other, accept=True).outcome == "published"
    assert lake.snapshot(spec).schema.generation == 2
    lake.run(other)
    assert [(row["id"], row["v"]) for row in lake.rows(spec)] == [(0, 77), (1, 1), (2, 2), (3, 33)]

    by_time = lake.with_settings(other, order_by=("at",))
    lake.land(spec, 2, [{"id": 1, "part": 0, "v": 11, "seq": 1, "at": 900}])
    with pytest.raises(OrderRefused, match="compactor rebuild t"):
        lake.run(by_time)
    report = rebuilt(lake, by_time, accept=True)
    assert (report.difference.missing, report.difference.added, report.difference.changed) == (0, 0, 2)
    lake.run(by_time)
    assert [(row["id"], row["v"]) for row in lake.rows(spec)] == [(0, 0), (1, 11), (2, 2), (3, 3)]
    assert lake.problems(by_time) == []


@pytest.mark.slow
@pytest.mark.parametrize("key", [("id", "part"), ()])
def test_far_fewer_rows_under_another_key_are_accepted_apart(lake: Lake, key: tuple[str, ...]) -> None:
    """Rows are counted as the table has them, not by the new key; of rows without a key some are alike."""
    spec = lake.spec(key=key)
    lake.land(spec, 0, [{"id": n % 2, "part": 0 if not key else n, "seq": 1 if not key else n} for n in range(10)])
    lake.run(spec)
    other = lake.with_settings(spec, key=("id",))
    report = rebuilt(lake, other, accept=True)
    assert (report.outcome, report.rows_before, report.rows, report.difference.missing) == ("fewer", 10, 2, 8)
    assert len(lake.rows(spec)) == 10
    assert rebuild_table(Table(lake.env, other), accept=True, fewer=True).outcome == "published"


@pytest.mark.slow
def test_a_restore_goes_back_across_a_rebuild_with_more_columns_of_order(lake: Lake) -> None:
    """Positions have a member for each; the catalog's tables only get columns, so these are new ones."""
    spec = lake.spec()
    lake.land(spec, 0, [{"id": 1, "seq": 1, "part": 2, "v": "a"}, {"id": 1, "seq": 1, "part": 1, "v": "b"}])
    lake.run(spec)
    other = lake.with_settings(spec, order_by=("seq", "part"))
    assert rebuilt(lake, other, accept=True).outcome == "published"
    assert [row["v"] for row in lake.rows(spec)] == ["a"]
    table = Table(lake.env, spec)
    restore_table(table, at_version(table, 1))
    lake.land(spec, 1, [{"id": 2, "seq": 2, "part": 0, "v": "c"}])
    lake.run(spec)
    assert [row["v"] for row in lake.rows(spec)] == ["b", "c"]
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_a_rebuilt_history_begins_with_the_first_event(lake: Lake) -> None:
    """Also where the rebuild begins with the columns of the table, because a policy has left others out; and it can still be recomputed."""
    spec = lake.spec(policy=Policy("freeze"), history=True)
    lake.land(spec, 0, [{"id": 1, "seq": 1}, {"id": 2, "seq": 2}])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 1, "b": "x", "seq": 3}, {"id": 2, "seq": 4, "op": "d"}])
    lake.run(spec)
    versions = lake.rows(spec, "t_history")
    assert rebuilt(lake, spec).outcome == "published"
    assert lake.rows(spec, "t_history") == versions
    history = lake.snapshot(spec).history
    assert history is not None
    assert history.since is None
    assert [check.detail for check in verify(Table(lake.env, spec)) if check.name == "history equals full recompute"] == ["equal"]


@pytest.mark.slow
def test_what_a_policy_has_left_out_stays_out(lake: Lake) -> None:
    """Until the policy is another one: then the column is told as new."""
    spec = lake.spec(policy=Policy("freeze"), key=())
    lake.land(spec, 0, [{"a": 1, "seq": 1}, {"a": 2, "seq": 2}])
    lake.run(spec)
    lake.land(spec, 1, [{"a": 3, "b": "x", "seq": 3}])
    lake.run(spec)
    rows = lake.rows(spec)
    assert rebuilt(lake, spec).outcome == "published"
    assert lake.rows(spec) == rows
    report = rebuilt(lake, lake.with_settings(spec, policy=Policy()))
    assert (report.outcome, report.difference.columns) == ("differs", ("column b string is new",))
    assert (report.difference.missing, report.difference.added, report.difference.changed) == (0, 0, 0)


@pytest.mark.slow
def test_columns_that_a_policy_hides_stay_hidden(lake: Lake) -> None:
    """In JSON without schema, where all records of one run have the columns of any: by a rebuild that a text asks for, and by one of an operator."""
    spec = lake.spec(policy=Policy(drop="hide", kinds=(("to_string", "evolve"),)))
    for hour, more in enumerate(({"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3}, {"a": "text"})):
        lake.land(spec, hour, [{"id": hour, "seq": hour, **more}])
        operations = lake.run(spec).operations
    assert operations == ("rebuild 4", "commit 5")
    versions = [{field.source for field in at_version(Table(lake.env, spec), version).schema.payload} for version in (3, 4, 5)]
    assert versions == [{"id", "seq", "a"}] * 3
    assert rebuilt(lake, spec).outcome == "published"
    assert [(row["id"], row["a"]) for row in lake.rows(spec)] == [(0, "1"), (1, "2"), (2, "3"), (3, "text")]
    assert not any("b" in row for row in lake.rows(spec))
