"""The operator that runs a `compactor` command line for a table, on the worker or on EMR. The operators of the DAGs derive from it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from compactor.airflow.outcome import judge
from compactor.airflow.triggers import JobTrigger
from compactor.core.model.errors import Refused, TryLater
from compactor.core.results.reports import Ended
from compactor.ports import Runner, Submitted

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # before Airflow 3.2
    from airflow.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from compactor.app.app import App


def attempt_of(context: Any) -> str:
    """Return the name of a task's attempt. It stays the same if a scheduler starts the attempt twice; a retry or a cleared task has another."""
    ti = context["ti"]
    return "/".join(map(str, (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)))


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Translate this project's errors: Refused fails the task without retries, TryLater fails it with retries."""
    try:
        yield
    except Refused as error:
        raise AirflowFailException(str(error)) from error
    except TryLater as error:
        raise AirflowException(str(error)) from error


class CommandOperator(BaseOperator):
    """Run a `compactor` command for a table and return its JSON output.

    `words` is the command without the table. With `labelled` the run's id becomes `--label`. With `spark` the command runs where the table's `runner`
    says; on EMR the task is deferred meanwhile and occupies no worker slot. A refused command fails the task at once, whatever `retries` says. Any
    other failure may be retried.
    """

    template_fields = ("table",)

    def __init__(self, *, config: str, table: str, words: tuple[str, ...], labelled: bool = False, spark: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.config, self.table, self.words, self.labelled, self.spark = config, table, tuple(words), labelled, spark
        self._runner: Runner | None = None

    def execute(self, context: Any) -> Any:
        """Run the command and return its result."""
        from compactor.app.app import App

        arguments = [*self.words, *self.options(context), *([self.table] if self.table else []), "--output", "json"]
        arguments += ["--label", str(context["run_id"])] if self.labelled else []
        self.log.info("compactor %s", " ".join(arguments))
        with airflow_errors():
            with App.open(self.config) as app:
                on_emr = self.spark and app.settings.runner_of(self.table) != "local"
                result = self.known_result(app) if on_emr else None
                if result is not None:
                    self.log.info("nothing to do: no job is submitted")
                    return self._finish(Ended(0, json.dumps(result)), context)
                remote = app.remote_runner(self.table, attempt_of(context)) if on_emr else None
                self._runner = remote or app.runner()
                submitted = remote.submit(arguments) if remote is not None else None
            if submitted is not None:
                self.log.info("submitted job %s; its report will be below %s", submitted.job, submitted.report)
                trigger = JobTrigger(self.config, self.table, asdict(submitted))
                # the trigger has its own deadline; this timeout is for a triggerer that does not run
                self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=max(60.0, submitted.until - time.time()) + 600))
            ended = self._runner.run(arguments, lambda line: self.log.info("%s", line))
        return self._finish(ended, context)

    def resume(self, context: Any, event: dict[str, Any]) -> Any:
        """Return the result of the command on EMR."""
        from compactor.app.app import App

        if event["problem"] is not None:
            raise (AirflowFailException if event["final"] else AirflowException)(event["problem"])
        with airflow_errors(), App.open(self.config) as app:
            remote = app.remote_runner(self.table)
            if remote is None:
                raise Refused(f"table {self.table}: its runner was changed to local while its job ran. Run the task again.")
            ended = remote.result(Submitted(**event["submitted"]), lambda line: self.log.info("%s", line))
            if "run" in self.words:
                app.finished(ended.output, remote.usage(Submitted(**event["submitted"])))
        return self._finish(ended, context)

    def _finish(self, ended: Ended, context: Any) -> Any:
        outcome = judge(ended)
        self.log_result(outcome.result)
        if outcome.problem is not None:
            raise (AirflowException if outcome.retryable else AirflowFailException)(outcome.problem)
        return self.task_result(outcome.result, context)

    def options(self, context: Any) -> list[str]:
        """Return options of the command that depend on the run's parameters."""
        return []

    def known_result(self, app: App) -> Any:
        """Return the command's output if it is known without a job on EMR, else None."""
        return None

    def log_result(self, result: Any) -> None:
        """Log the command's output in readable form."""

    def task_result(self, result: Any, context: Any) -> Any:
        """Return the task's return value for the command's output."""
        return result

    def on_kill(self) -> None:
        """End the command when Airflow ends the task."""
        if self._runner is not None:
            self._runner.cancel()
