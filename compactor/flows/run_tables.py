"""Run many tables at once, the longest first. One that fails does not stop the others."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from compactor.core.model.errors import CompactorError, EngineEnded, NoRowsYet, Refused
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.results.phrases import counted
from compactor.core.results.record import RunRecord, TableReport
from compactor.core.results.reports import Progress, silent
from compactor.flows import logs
from compactor.flows.environment import Environment
from compactor.flows.land import discover
from compactor.flows.record import Recorder, last_run, remember_idle
from compactor.flows.run import Committed, commit_table, failure, finish_table, look_at
from compactor.flows.stop import Stop, stopped
from compactor.flows.table import Table
from compactor.flows.write.compact import Spending

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_LOOKED_AT = 8
"""Tables that are looked at, at a time. Looking waits for storage and computes nothing."""

_AWAKE_SECONDS = 0.5
"""How long the main thread sleeps at most while tables run. Ctrl-C is handled no later than that."""

Start = Callable[[Sequence[TableSpec], int], None]
"""Called once, before the tables that have work are run, with about how many bytes they have to read. Raises errors that concern all of them."""


def run_tables(
    env: Environment,
    specs: Sequence[TableSpec],
    progress: Progress = silent,
    parallel: int = 2,
    label: str = "",
    start: Start = lambda specs, size: None,
) -> list[TableReport]:
    """Run these tables, `parallel` at a time; a table that fails does not stop the others. Reports come in the order of `specs`.

    Tables without work are found first, from storage alone. `start` is not called if all are without work. The tables that will take longest begin
    first. Compactions come after the commits of all tables, so that they do not hold back any. Those with a budget come in the order of their Deltas,
    the largest first. Tables whose engine has ended are tried again at the end, one at a time. After Ctrl-C or SIGTERM the tables that are not
    finished are reported as stopped.
    """
    with env.stop.on_interrupt():
        return _run_tables(env, specs, env.stop.checking(progress), parallel, label, start)


def _run_tables(env: Environment, specs: Sequence[TableSpec], progress: Progress, parallel: int, label: str, start: Start) -> list[TableReport]:
    looks = _look_at(env, specs, progress)
    reports = {name: look for name, look in looks.items() if isinstance(look, TableReport)}
    sizes = {name: look for name, look in looks.items() if isinstance(look, int)}
    busy = sorted((spec for spec in specs if spec.name in sizes), key=lambda spec: -sizes[spec.name])
    if busy and not env.stop.requested:
        start(busy, sum(sizes.values()))
    spending = Spending()

    def recorder(spec: TableSpec, calls: Progress) -> Recorder:
        return Recorder(Table(env, spec, label, calls), "run")

    def run(spec: TableSpec, again: bool = False) -> TableReport | Future[TableReport] | tuple[Committed, Recorder] | None:
        """Return None if the engine has ended, and what `finish` needs if the compaction waits for the commits of all tables."""
        env.share(spec.name)
        record = recorder(spec, progress)

        def commit() -> Committed | None:
            try:
                return commit_table(record.table)
            except EngineEnded as error:
                if again:
                    raise
                log.warning("%s: %s. It is tried again after the other tables", spec.name, error)
                return None

        step = _reported(spec.name, commit, record.progress, env.stop)
        if isinstance(step, TableReport):
            return record.recorded(_judged(record.table, step) if again else step)
        if step is None:
            return None
        if again or not step.compaction_due:
            return finish(step, record)
        # the pool has the commits of all tables in its queue already
        return pool.submit(finish, step, record) if spec.compact_budget is None else (step, record)

    def finish(step: Committed, record: Recorder) -> TableReport:
        if step.compaction_due:
            env.share("compactions")
        report = _reported(step.table.name, lambda: finish_table(step, spending), record.progress, env.stop, begun=True)
        return record.recorded(dataclasses.replace(report, seconds=round(report.seconds + step.seconds, 3)))

    with ThreadPoolExecutor(max(1, parallel), thread_name_prefix="table") as pool:
        begun = [pool.submit(run, spec) for spec in busy]
        ran = [(spec, _result(each)) for spec, each in zip(busy, begun)]
        # those that share a budget: first where readers pay most
        waiting = sorted((each for _, each in ran if isinstance(each, tuple)), key=lambda each: -compaction.debt(each[0].current))
        later = [pool.submit(finish, *each) for each in waiting] + [each for _, each in ran if isinstance(each, Future)]
        done = [*(_result(each) for each in later), *(each for _, each in ran if isinstance(each, TableReport))]
        reports.update((report.table, report) for report in done)
    # one at a time: the table that the engine ends of does not end it for the others again
    for spec in (spec for spec, each in ran if each is None):
        report = run(spec, again=True)
        assert isinstance(report, TableReport)  # noqa: S101 - neither None nor in the pool
        reports[spec.name] = report
    ended = ((spec, reports[spec.name]) for spec in specs)
    # a failure without a record was found while looking for work
    results = [each if isinstance(each, RunRecord) or each.error is None else recorder(spec, silent).recorded(each) for spec, each in ended]
    remember_idle(env, specs, results)
    return results


def _result(future: Future[_T]) -> _T:
    """Wait for a result. Python handles a signal that comes just before a thread falls asleep only when the thread wakes, so this one often does."""
    while not wait([future], _AWAKE_SECONDS).done:
        pass
    return future.result()


def idle_tables(env: Environment, specs: Sequence[TableSpec]) -> dict[str, TableReport]:
    """Return the reports of the tables that have no work, and of those whose work is known to fail. Asks neither engine nor catalog."""
    return {name: look for name, look in _look_at(env, specs, silent).items() if isinstance(look, TableReport)}


def _look_at(env: Environment, specs: Sequence[TableSpec], progress: Progress) -> dict[str, TableReport | int]:
    with ThreadPoolExecutor(_LOOKED_AT, thread_name_prefix="look") as pool:
        looks = [pool.submit(_reported, spec.name, functools.partial(look_at, Table(env, spec)), progress, env.stop) for spec in specs]
        return {spec.name: _result(look) for spec, look in zip(specs, looks)}


def _reported(name: str, run: Callable[[], _T], progress: Progress, stop: Stop, begun: bool = False) -> TableReport | _T:
    """Return what `run` returns, or the report of its failure. A report gets the seconds that it took.

    `begun`: the first part of the table's run is done, and its report must say so even after Ctrl-C.
    """
    began = time.monotonic()
    try:
        if stop.requested and not begun:
            raise stopped()
        with logs.about(table=name):
            result: TableReport | _T = run()
    except NoRowsYet as error:
        result = TableReport(name, "idle", notes=(str(error),))
    except Exception as error:
        # after Ctrl-C a cancelled computation raises anything
        result = failure(name, stopped() if stop.requested else error)
    if not isinstance(result, TableReport):
        return result
    if result.error is not None:
        logs.failed(result)
    progress(name, "done", 1.0)
    return dataclasses.replace(result, seconds=round(time.monotonic() - began, 3))


def _judged(table: Table, report: TableReport) -> TableReport:
    """Return the report of a run that was alone with the engine.

    Where the engine has ended, as in the last run on the same files, it has failed: to try later would not help. The run record remembers the files.
    """
    if report.error_class != EngineEnded.__name__:
        return report
    try:
        new = discover.landing(table, table.newest()).new
    except CompactorError:
        return report
    if not new:
        return report
    ended_on = hashlib.sha256("\n".join(sorted(f"{item.path} {item.etag}" for item in new)).encode()).hexdigest()[:16]
    before = last_run(table)
    if before is not None and before.ended_on == ended_on:
        largest = max(new, key=lambda item: item.size)
        report = failure(
            table.name,
            Refused(
                f"table {table.name}: Spark's JVM has ended again on the same {counted(len(new), 'new file')} below {table.spec.landing}, the "
                f"largest of them {join(table.spec.landing, largest.path)} ({largest.size:,} bytes): {report.error}. Nothing was committed. Runs go "
                "on trying them: give Spark more memory, or move a file that no memory holds out of landing"
            ),
        )
    return dataclasses.replace(report, ended_on=ended_on)
