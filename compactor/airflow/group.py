"""Operators of a group's DAG: wait for the hour, find the tables with work, run them in one job, and show the result of each table.

Why it is built like this: docs/design/airflow.md.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from compactor.airflow import alerts, connection
from compactor.airflow.command import AS_JSON, SLACK_SECONDS, CommandOperator, TryAgain, airflow_errors
from compactor.airflow.compat import DownstreamTasksSkipped, earlier_run
from compactor.airflow.hours import HOUR, hour_of_run, written
from compactor.airflow.opened import open_app, opened
from compactor.airflow.outcome import Outcome, judge, reason, report_outcome, sentence, shortened
from compactor.airflow.triggers import HourTrigger, missing, not_whole
from compactor.core.results.reports import Ended
from compactor.core.settings.command_line import DEEP, FILES_ONLY, PARALLEL, RUN, VERIFY

if TYPE_CHECKING:
    from compactor.app.app import App

SINGLE_RETRIES = 3
"""If more tables than this end with "try again later", their job is retried; else each of them is retried alone."""

FINISHED = ("success", "failed", "skipped", "upstream_failed", "removed")
"""States of a task that does nothing more."""

SHOWN = 20
"""Tables that a line of the log names."""


class WaitForHourOperator(BaseOperator):
    """Wait until a file of the run's hour has landed for each table, at most `wait` seconds after the hour's end.

    An hour without files is no error.
    """

    whole = False

    def __init__(self, *, config: str, tables: Sequence[str], wait: float, **more: Any) -> None:
        super().__init__(**more)
        self.config, self.members, self.wait = config, list(tables), wait

    def execute(self, context: Any) -> str:
        """Return the hour. The task is deferred while it waits, so that it occupies no worker slot."""
        begin = hour_of_run(context["dag_run"])
        hour, until = written(begin), (begin + HOUR).timestamp() + self.wait
        if time.time() >= until:
            return self.over(hour)
        waiting = self.waiting(hour)
        if waiting:
            self.log.info("waiting for %s of %s: %s", "everything" if self.whole else "the first files", hour, _named(waiting))
            trigger = HourTrigger(self.config, waiting, hour, until, whole=self.whole)
            self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=until - time.time() + SLACK_SECONDS))
        return hour

    def resume(self, context: Any, event: dict[str, Any]) -> str:
        late = event["missing"]
        self.log.info("%s: %s", event["hour"], f"continuing without files of {_named(late)}" if late else "files of every table have landed")
        return str(event["hour"])

    def waiting(self, hour: str) -> list[str]:
        """Return the tables that the task waits for."""
        with airflow_errors(self.log):
            return missing(opened(self.config), self.members, hour)

    def over(self, hour: str) -> str:
        """Return the hour where there is no time to wait."""
        return hour


class WaitForWholeHourOperator(WaitForHourOperator):
    """Wait until the views of these tables show everything of the run's hour, at most `wait` seconds after the hour's end. For DAGs that read them.

    The task fails, with the reason for each table, if an hour is not whole by then; a retry looks again.
    """

    whole = True

    def resume(self, context: Any, event: dict[str, Any]) -> str:
        return self.over(event["hour"])

    def waiting(self, hour: str) -> list[str]:
        return [*self._reasons(hour)]

    def over(self, hour: str) -> str:
        waiting = self._reasons(hour)
        for name, why in waiting.items():
            self.log.error("%s: %s is not whole: %s", name, hour, why)
        if waiting:
            raise TryAgain(f"{hour} is not whole in {_named([*waiting])}")
        return hour

    def _reasons(self, hour: str) -> dict[str, str]:
        with airflow_errors(self.log):
            return not_whole(opened(self.config), self.members, hour)


class FindWorkOperator(BaseOperator):
    """Find the tables that have work, from storage alone, and skip the tasks of the others.

    `jobs`: id of a job's task → its tables. `assets`: table → its asset; `alias`: the alias through which the assets of tables without work get an
    event. Returns, for each job, its tables with work. Tables that an earlier, still active run of the DAG works on are left to it.
    """

    def __init__(self, *, config: str, jobs: Mapping[str, Sequence[str]], assets: Mapping[str, Any], alias: Any, **more: Any) -> None:
        super().__init__(outlets=[alias], **more)
        self.config, self.jobs, self.assets, self.alias = config, {job: list(tables) for job, tables in jobs.items()}, dict(assets), alias
        self.members = [name for tables in self.jobs.values() for name in tables]

    def execute(self, context: Any) -> dict[str, list[str]]:
        """Return task id of the job → tables with work."""
        names = self.members
        with airflow_errors(self.log), open_app(self.config) as app:
            if app.settings.discover:
                # the next time that Airflow reads the DAG file it has tasks for them
                self.log.info("%d tables were added", sum(not each.waits for each in app.add_tables()))
            left_out = self._left_to_earlier_run(context, names)
            idle = {report.table: report.to_json() for report in app.idle([name for name in names if name not in left_out])}
            alerts.recovered(app, list(idle), context)
        work = {job: [name for name in tables if name not in idle and name not in left_out] for job, tables in self.jobs.items()}
        busy = [name for tables in work.values() for name in tables]
        self.log.info("%d of %d tables have work: %s", len(busy), len(names), ", ".join(busy) or "none")
        self.log.info("%d tables have no work: %s", len(idle), ", ".join(idle) or "none")
        hour = written(hour_of_run(context["dag_run"]))
        for name, report in idle.items():
            # Airflow 3.0 hashes what comes by an alias, and fails the task for a list or a dict
            plain = {key: value for key, value in event_extra(hour, report).items() if not isinstance(value, (list, tuple, dict))}
            context["outlet_events"][self.alias].add(self.assets[name], extra=plain)
        without = [*(job for job, tables in work.items() if not tables), *(table_task(name) for name in names if name not in busy)]
        if without:
            context["ti"].xcom_push(key="return_value", value=work)
            raise DownstreamTasksSkipped(tasks=without)
        return work

    def _left_to_earlier_run(self, context: Any, names: Sequence[str]) -> set[str]:
        """Return the tables that an earlier run of this DAG took, if that run is still active and has not finished them."""
        ti = context["ti"]
        earlier = earlier_run(ti)
        if earlier is None:
            return set()
        taken = ti.xcom_pull(task_ids=self.task_id, run_id=earlier.run_id) or {}
        tables = {name for job in taken.values() for name in job}
        tasks = {table_task(name): name for name in names if name in tables}
        if not tasks:
            return set()
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[earlier.run_id], task_ids=list(tasks)).get(earlier.run_id, {})
        left = {name for task, name in tasks.items() if states.get(task) not in FINISHED}
        if left:
            self.log.info("%d tables are left to the run %s, which still works on them: %s", len(left), earlier.run_id, _named([*left]))
        return left


class GroupOperator(CommandOperator):
    """Run a command for tables of a group in one process or one job on EMR. The task fails with the errors of the tables that failed.

    `seconds`: time limit of the job on EMR; default the longest `timeout` of the tables.
    """

    spark = True

    def __init__(self, *, group: str, members: Sequence[str], seconds: float = 0.0, labelled: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.labelled = labelled
        self.group, self.members, self.seconds = group, list(members), seconds

    def tables(self, context: Any) -> list[str]:
        return self.members

    def log_result(self, result: Any) -> None:
        for item in result or ():
            if "ok" in item:
                log_checks(self.log, [item])
            else:
                log_report(self.log, item)


class VerifyGroupOperator(GroupOperator):
    """Run `compactor verify --deep` for tables of a group. The XCom `passed` has the tables without a problem, also if the task fails."""

    words = (*VERIFY.words, *DEEP.names)

    def __init__(self, **more: Any) -> None:
        # also if the compaction before it failed
        super().__init__(trigger_rule="all_done", **more)

    def _finish(self, ended: Ended, context: Any) -> Any:
        outcome = judge(ended)
        # a table with an error has no checks in the result
        checked = {item["table"] for item in outcome.result if "ok" in item} if isinstance(outcome.result, list) else set()
        context["ti"].xcom_push(key="passed", value=[name for name in self.members if name in checked and name not in outcome.reasons])
        return super()._finish(ended, context)


class RunGroupOperator(GroupOperator):
    """Run the tables that `find_work` found in one process or one job on EMR. Returns table → report, also for tables that failed.

    The task fails only if there are no reports, or if many tables must be tried again later. A retry leaves out the tables that are done by then.
    """

    def __init__(self, *, at_once: int, **more: Any) -> None:
        super().__init__(words=(*RUN.words, PARALLEL.names[0], str(at_once)), labelled=True, **more)
        self.working: list[str] = []

    def tables(self, context: Any) -> list[str]:
        """Return the tables with work. A run whose `find_work` left no result runs all tables."""
        work = context["ti"].xcom_pull(task_ids="find_work")
        return list((work or {}).get(self.task_id, self.members))

    def execute(self, context: Any) -> Any:
        names, idle = self.tables(context), []
        if context["ti"].try_number > 1:
            with airflow_errors(self.log), open_app(self.config) as app:
                idle = [report.to_json() for report in app.idle(names)]
        done = {report["table"] for report in idle}
        self.working = [name for name in names if name not in done]
        context["ti"].xcom_push(key="done", value=idle)
        if not self.working:
            self.log.info("all tables are done")
            return {report["table"]: report for report in idle}
        return self._run(context, self.working)

    def resume(self, context: Any, event: dict[str, Any]) -> Any:
        self.working = event["tables"]
        return super().resume(context, event)

    def _finish(self, ended: Ended, context: Any) -> Any:
        outcome = judge(ended)
        if not isinstance(outcome.result, list):
            raise self._failed(outcome.problem or "expected reports, found none", outcome.retryable)
        done = context["ti"].xcom_pull(task_ids=self.task_id, key="done") or []
        later = [report["table"] for report in outcome.result if report["outcome"] == "later"]
        self.log_result(outcome.result)
        if len(later) > SINGLE_RETRIES and context["ti"].try_number <= context["ti"].max_tries:
            raise self._failed(f"{len(later)} tables must be tried again later: {_named(later)}", True)
        return {report["table"]: report for report in [*done, *outcome.result]}


class TableOperator(CommandOperator):
    """Show what became of a table in its group's job: fail with its error, or verify its files and send its asset event. Returns the report.

    From the second attempt on the task runs the table itself, if it still has work. `job`: the id of the task that ran the group.
    """

    words = RUN.words
    labelled = spark = True

    def __init__(self, *, job: str, asset: Any, **more: Any) -> None:
        super().__init__(outlets=[asset], **more)
        self.job, self.asset = job, asset

    def execute(self, context: Any) -> Any:
        ti = context["ti"]
        report = (ti.xcom_pull(task_ids=self.job) or {}).get(self.table)
        if report is not None and ti.try_number <= 1:
            return self.task_result([report], context)
        with airflow_errors(self.log), open_app(self.config) as app:
            idle = [each.to_json() for each in app.idle([self.table])]
        if idle:
            self.log.info("%s: nothing is left to do", self.table)
            return self.task_result(idle if report is None or report["error"] else [report], context)
        return self._run(context, [self.table])

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return the report, after its files were verified."""
        (report,) = result
        outcome = report_outcome(report)
        self.reasons = outcome.reasons
        if outcome.problem is not None:
            raise self._failed(outcome.problem, outcome.retryable)
        self.log.info("%s", sentence(report))
        with airflow_errors(self.log), open_app(self.config) as app:
            self._verify(app)
            alerts.recovered(app, [self.table], context)
        context["outlet_events"][self.asset].extra = event_extra(written(hour_of_run(context["dag_run"])), report)
        return dict(report)

    def _verify(self, app: App) -> None:
        """Check files, counts and inputs, without Spark."""
        self._runner = app.runner()
        connection.export()
        ended = self._runner.run([*VERIFY.words, *FILES_ONLY.names, self.table, *AS_JSON], lambda line: self.log.info("%s", line))
        outcome: Outcome = judge(ended)
        log_checks(self.log, outcome.result)
        if outcome.problem is not None:
            raise self._failed(outcome.problem, outcome.retryable)


def log_report(log: Any, report: Any) -> None:
    if report["error"]:
        log.error("%s: %s", report["table"], reason(report))
    else:
        log.info("%s", sentence(report))


def log_checks(log: Any, checks: Any) -> None:
    for check in checks or ():
        log.info("%s: %s: %s: %s", check["table"], check["name"], "ok" if check["ok"] else "FAILED", check["detail"])


def event_extra(hour: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra of a table's asset event."""
    names = ("outcome", "version", "operations", "files", "rows", "counts")
    return {"hour": hour, **{name: report[name] for name in names if name in report}}


def table_task(name: str) -> str:
    """Return the id of a table's task."""
    return f"tables.{name}"


def _named(names: Sequence[str]) -> str:
    return shortened(names, SHOWN, ", ")
