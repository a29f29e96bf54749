"""The operator that runs a `compactor` command line, on the worker or on EMR, with links to its job. The operators of the DAGs derive from it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink

from compactor.airflow import connection
from compactor.airflow.compat import AirflowFailException
from compactor.airflow.opened import open_app
from compactor.airflow.outcome import judge
from compactor.airflow.triggers import SPARK_UI, JobTrigger
from compactor.core.model.errors import CompactorError, Refused, TryLater
from compactor.core.results.reports import Ended
from compactor.core.settings.command_line import LABEL, OUTPUT
from compactor.ports import RemoteRunner, Runner, Submitted

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class _JobLink(BaseOperatorLink):
    """A page about the job of a task. Airflow asks for it when the task is deferred and when it ends."""

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the address; "" if the task has no job, or the page is not known."""
        return str(operator.links.get(self.name, ""))


class SparkUiLink(_JobLink):
    """Spark's UI of a job on EMR Serverless. EMR opens it for an hour."""

    name = SPARK_UI


class EmrConsoleLink(_JobLink):
    """The page of the EMR cluster."""

    name = "EMR console"


class LogLink(_JobLink):
    """The folder with the job's log and report."""

    name = "Log"


LINKS = (SparkUiLink(), EmrConsoleLink(), LogLink())

AS_JSON = (OUTPUT.names[0], "json")

ARGUMENT_CHARS_MAX = 8000
"""Characters of table names in a job's arguments. A step of an EMR cluster takes 10,280 characters of arguments."""

SLACK_SECONDS = 600.0
"""How long a deferred task waits beyond its trigger's own deadline. Then no triggerer runs, and the task fails."""


class TryAgain(SystemExit):
    """End the task, so that Airflow retries it. Airflow prints the frames of every other exception, which say nothing about an expected outcome."""

    def __init__(self, reason: str) -> None:
        super().__init__(75)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def attempt_of(context: Any) -> str:
    """Return the name of a task's attempt. It stays the same if a scheduler starts the attempt twice; a retry or a cleared task has another."""
    ti = context["ti"]
    # the id: somebody may delete the run, and start one with the same name
    return "/".join(map(str, (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number, ti.id)))


@contextmanager
def airflow_errors(log: Any) -> Iterator[None]:
    """Translate this project's errors: Refused fails the task without retries, TryLater fails it with retries."""
    try:
        yield
    except Refused as error:
        raise AirflowFailException(str(error)) from None
    except TryLater as error:
        log.error("%s", error)
        raise TryAgain(str(error)) from None


class CommandOperator(BaseOperator):
    """Run a `compactor` command for a table and return its JSON output.

    A subclass or an argument sets `words`, the command without the table. With `labelled` the run's id becomes `--label`. With `spark` the command
    runs where the table's `runner` says; on EMR the task is deferred meanwhile and occupies no worker slot. A refused command fails the task at once,
    whatever `retries` says. Any other failure may be retried.
    """

    template_fields = ("table",)
    operator_extra_links = LINKS
    words: tuple[str, ...] = ()
    labelled = spark = False

    def __init__(self, *, config: str, table: str = "", words: Sequence[str] = (), **more: Any) -> None:
        super().__init__(**more)
        self.config, self.table, self.words = config, table, tuple(words) or self.words
        self.links: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.group, self.seconds = "", 0.0
        self._runner: Runner | RemoteRunner | None = None

    def tables(self, context: Any) -> list[str]:
        return [self.table] if self.table else []

    def execute(self, context: Any) -> Any:
        return self._run(context, self.tables(context))

    def _run(self, context: Any, names: list[str]) -> Any:
        def arguments(tables: list[str]) -> list[str]:
            label = [*LABEL.names, str(context["run_id"])] if self.labelled else []
            return [*self.words, *self.options(context), *tables, *AS_JSON, *label]

        with airflow_errors(self.log):
            with open_app(self.config) as app:
                on_emr = self.spark and app.settings.tables[names[0]].runner != "local"
                remote = app.remote_runner(names, attempt_of(context), self.group, self.seconds) if on_emr else None
                local = app.runner()
                self._runner = remote or local
                self.log.info("compactor %s", " ".join(arguments(names)))
                # without names the job runs all tables of its configuration, which are these
                named = names if sum(map(len, names)) < ARGUMENT_CHARS_MAX else []
                submitted = None
                if remote is not None:
                    emr = asdict(app.settings.emr)
                    submitted = replace(remote.submit(arguments(named)), runner=app.settings.tables[names[0]].runner, emr=emr)
            if remote is not None and submitted is not None:
                self.log.info("submitted job %s; its report will be below %s", submitted.job, submitted.report)
                self._wait(remote, submitted, names, first=True)
            connection.export()
            ended = local.run(arguments(names), lambda line: self.log.info("%s", line))
        return self._finish(ended, context)

    def _wait(self, remote: RemoteRunner, submitted: Submitted, names: list[str], first: bool) -> None:
        """Defer the task until its job has ended, with links to its pages; at `first` only until Spark's UI has one."""
        self.links = remote.links(submitted)
        trigger = JobTrigger(self.config, names, asdict(submitted), until_ui=first and SPARK_UI not in self.links)
        timeout = timedelta(seconds=max(60.0, submitted.until - time.time()) + SLACK_SECONDS)
        self.defer(trigger=trigger, method_name="resume", timeout=timeout)

    def resume(self, context: Any, event: dict[str, Any]) -> Any:
        """Return the result of the command on EMR. While the job runs, only show Spark's UI and wait on."""
        submitted = Submitted(**event["submitted"])
        try:
            with open_app(self.config) as app:
                remote = app.submitted_runner(submitted)
                if event["active"]:
                    self._wait(remote, submitted, event["tables"], first=False)
                self.links = remote.links(submitted)
                ended = remote.result(submitted, lambda line: self.log.info("%s", line))
                if "run" in self.words:
                    app.finished(ended.output, lambda: remote.usage(submitted))
        except CompactorError as error:
            # the job may have done its work: a retry finds out
            raise self._failed("; ".join(filter(None, (event["problem"], str(error)))), True) from None
        return self._finish(ended, context)

    def _finish(self, ended: Ended, context: Any) -> Any:
        outcome = judge(ended)
        self.log_result(outcome.result)
        self.reasons = outcome.reasons
        if outcome.problem is not None:
            raise self._failed(outcome.problem, outcome.retryable)
        return self.task_result(outcome.result, context)

    def _failed(self, problem: str, retryable: bool) -> BaseException:
        if retryable:
            self.log.error("%s", problem)
        failed: BaseException = TryAgain(problem) if retryable else AirflowFailException(problem)
        return failed

    def options(self, context: Any) -> list[str]:
        """Return options of the command that depend on the run's parameters."""
        return []

    def log_result(self, result: Any) -> None:
        """Log the command's output in readable form."""

    def task_result(self, result: Any, context: Any) -> Any:
        """Return the task's return value for the command's output."""
        return result

    def on_kill(self) -> None:
        """End the command when Airflow ends the task."""
        if self._runner is not None:
            self._runner.cancel()
