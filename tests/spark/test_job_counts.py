"""The number of Spark jobs of a run. In a small commit each job costs more to plan and to compile than to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame

from compactor.core.model.spec import TableSpec
from compactor.flows.table import Table
from compactor.flows.write import compact
from compactor.spark import interpreting
from tests.oracle.sizes import tiered
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

Rows = Sequence[Mapping[str, Any]]


def flat(hour: int, count: int) -> Rows:
    """Rows of the keys from 0 on, each newer than those of earlier hours."""
    return [{"id": at, "seq": hour * 1000 + at, "name": f"n{hour}"} for at in range(count)]


def debezium(hour: int, count: int) -> Rows:
    """The same changes in Debezium's envelope, without a schema."""

    def source(at: int) -> dict[str, Any]:
        return {
            "connector": "postgresql",
            "lsn": hour * 1000 + at,
            "txId": hour,
            "ts_ms": 1000 * hour,
            "sequence": f'["{hour * 1000}","{hour * 1000 + at}"]',
        }

    return [
        {"before": None, "after": {"id": at, "name": f"n{hour}"}, "op": "c" if hour == 1 else "u", "ts_ms": hour, "source": source(at)}
        for at in range(count)
    ]


def json_lines(lake: Lake, spec: TableSpec, hour: int, rows: Rows) -> None:
    lake.land(spec, hour, list(rows))


def parquet(lake: Lake, spec: TableSpec, hour: int, rows: Rows) -> None:
    lake.land_parquet(spec, hour, rows, "id bigint, seq bigint, name string")


def jobs_of(lake: Lake, work: Callable[[], Any]) -> list[str]:
    """Run `work` and return the names of the Spark jobs that it started, with the line that started each."""
    context: Any = lake.spark.sparkContext._jsc.sc()
    # Spark's store gets its events through a queue
    context.listenerBus().waitUntilEmpty(60_000)
    before = {job.jobId() for job in _jobs(context)}
    work()
    context.listenerBus().waitUntilEmpty(60_000)
    return [job.name() for job in _jobs(context) if job.jobId() not in before]


def _jobs(context: Any) -> list[Any]:
    jobs = context.statusStore().jobsList(None)
    return [jobs.apply(at) for at in range(jobs.size())]


Land = Callable[[Lake, TableSpec, int, Rows], None]

CASES: list[tuple[str, Callable[[int, int], Rows], Land, dict[str, Any], int, int, int]] = [
    ("flat_json", flat, json_lines, {}, 5, 5, 3),
    ("flat_parquet", flat, parquet, {}, 3, 3, 3),
    ("debezium", debezium, json_lines, {"envelope": "debezium", "order_by": ()}, 6, 5, 3),
    ("feed", flat, json_lines, {"feed": "net"}, 6, 7, 3),
    ("history", flat, json_lines, {"history": True}, 6, 7, 3),
    ("history_and_feed", flat, json_lines, {"history": True, "feed": "net"}, 7, 9, 3),
]
"""(name, rows, how they land, settings, most jobs of the first load, of a commit, of a compaction)"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows", "land", "settings", "first", "commit", "compaction"), CASES, ids=[case[0] for case in CASES])
def test_a_run_starts_few_jobs(
    lake: Lake, name: str, rows: Callable[[int, int], Rows], land: Land, settings: dict[str, Any], first: int, commit: int, compaction: int
) -> None:
    """A first load, two commits that write a Delta, and a compaction, in as many jobs as they need; the rows are right."""
    spec = lake.spec(name, write_mode="merge-on-read", **settings)
    jobs = []
    for hour, count in ((1, 9), (2, 3), (3, 9)):
        land(lake, spec, hour, rows(hour, count))
        jobs.append(jobs_of(lake, lambda: lake.run(spec)))
    snapshot = lake.snapshot(spec)
    assert snapshot.delta is not None
    table = Table(lake.env, spec.compacting_now)
    jobs.append(jobs_of(lake, lambda: compact.compact(table, snapshot, compact.Spending())))
    assert [len(each) for each in jobs] == [first, commit, commit, compaction], jobs
    assert lake.snapshot(spec).delta is None
    assert [row["name"] for row in lake.rows(spec)] == ["n3"] * 9


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows", "land", "settings"), [case[:4] for case in CASES], ids=[case[0] for case in CASES])
def test_the_code_that_spark_generates_does_not_change_with_the_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, name: str, rows: Callable[[int, int], Rows], land: Land, settings: dict[str, Any]
) -> None:
    """A number in it, such as the version or the newest source time, would have it compiled anew in each commit.

    Of the last four commits one compiles nothing, not each: in a session that ran fifty tests before, one of thirty commits compiled two classes.
    """
    monkeypatch.setattr(interpreting, "ROWS_MAX", -1)
    compiling = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {key: lake.spark.conf.get(key) for key in compiling}
    jvm: Any = lake.spark._jvm
    classes = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    spec, compiled = lake.spec(f"same_{name}", write_mode="merge-on-read", **settings), []
    for key, value in compiling.items():
        lake.spark.conf.set(key, value)
    try:
        for hour in range(1, 8):
            land(lake, spec, hour, rows(hour, 9 if hour == 1 else 3))
            count = classes.getCount()
            lake.run(spec)
            compiled.append(classes.getCount() - count)
    finally:
        for key, value in before.items():
            lake.spark.conf.set(key, value)
    assert compiled[0] > 0
    assert 0 in compiled[3:], compiled


@pytest.mark.parametrize(("envelope", "most"), tiered([("flat", 60), ("debezium", 250)], fast=[("flat", 60)], several=True))
def test_spark_does_not_copy_the_parsing_of_a_record_into_each_step(lake: Lake, monkeypatch: pytest.MonkeyPatch, envelope: str, most: int) -> None:
    """It copies what a step computes into every place that uses it: 803 parsers a record of Debezium's, most of which ran."""
    parsers: list[int] = []
    for action in ("collect", "localCheckpoint"):
        run = getattr(DataFrame, action)

        def counting(rows: DataFrame, *given: Any, run: Callable[..., Any] = run, **named: Any) -> Any:
            plan: Any = rows._jdf
            parsers.append(plan.queryExecution().optimizedPlan().toJSON().count("expressions.JsonToStructs"))
            return run(rows, *given, **named)

        monkeypatch.setattr(DataFrame, action, counting)
    spec = lake.spec(envelope="debezium", order_by=()) if envelope == "debezium" else lake.spec()
    lake.land(spec, 1, list((debezium if envelope == "debezium" else flat)(1, 5)))
    lake.run(spec)
    assert 0 < max(parsers) < most
