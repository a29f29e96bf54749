"""Operators for the commands of one table that the DAGs run: run, plan, rebuild, replay, vacuum, schema --notify; and for all: quarantine, check. And
operators that decide what follows: the choices of the backfill form, and questions to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator

from compactor.airflow import alerts
from compactor.airflow.command import CommandOperator
from compactor.airflow.compat import AirflowFailException, AirflowSkipException, earlier_run
from compactor.airflow.hours import expected_hours
from compactor.airflow.outcome import QUESTIONS, judge, sentence, shortened
from compactor.airflow.triggers import arrived, waiting
from compactor.core.results.checks import SILENT, UNTAKEN
from compactor.core.results.reports import Ended
from compactor.core.settings.command_line import ACCEPT_DIFFERENCES, DELETE, QUARANTINE, REBUILD, REPLAY, RUN, VACUUM
from compactor.core.settings.forms import alike

LINES_MAX, ALERTED_MAX = 50, 10
"""Quarantined files that an error lists, and an alert."""


class RunOperator(CommandOperator):
    """Run `compactor run` for a table. Returns the report."""

    words = RUN.words
    labelled = spark = True

    def log_result(self, result: Any) -> None:
        for report in result or ():
            self.log.info("%s", sentence(report))

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        (report,) = result
        return dict(report)


class PlanOperator(CommandOperator):
    """Run `compactor plan` for a table, and check which of the hours in the form have landed."""

    words = ("plan", "--no-samples")

    def log_result(self, result: Any) -> None:
        for plan in result or ():
            for step in plan["steps"]:
                self.log.info("%s: %s", plan["table"], step)

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return the steps and the hours: `new` wait in landing, `ingested` were ingested before, `missing` never landed.

        Fails the task if hours are missing and the form's `complete` is on.
        """
        (plan,) = result
        new = sorted({item["hour"] for item in plan["landing"]["new"] if item["hour"]})
        hours = expected_hours(context["params"])
        # a folder of a day, or of an hour that the clock repeats, has several of them
        still = waiting(self.config, self.table, hours, new) if new else []
        # each hour is checked on its own, because the archive of a table is too large to list
        expected = [hour for hour in hours if hour not in still]
        ingested = arrived(self.config, self.table, expected)
        missing = [hour for hour in expected if hour not in ingested]
        self.log.info("%s: %d hours with new files, %d hours ingested before, %d hours missing", self.table, len(new), len(ingested), len(missing))
        if missing:
            text = f"{self.table}: no file has landed for {', '.join(missing[:24])}{' ...' if len(missing) > 24 else ''}"
            self.log.warning("%s", text)
            if context["params"]["complete"]:
                raise AirflowFailException(f"{text}. Land the missing files, or switch `complete` off.")
        return {"table": self.table, "steps": plan["steps"], "new": new, "ingested": ingested, "missing": missing}


class ReplayQuarantineOperator(CommandOperator):
    """Run `compactor quarantine --replay` for a table."""

    words = (*QUARANTINE.words, *REPLAY.names)
    labelled = spark = True


class RebuildOperator(CommandOperator):
    """Run `compactor rebuild` for a table. Rows that differ fail the task unless the form accepts them."""

    words = REBUILD.words
    labelled = spark = True

    def options(self, context: Any) -> list[str]:
        return [*ACCEPT_DIFFERENCES.names] if context["params"]["accept_differences"] else []


class VacuumDryRunOperator(CommandOperator):
    """Run `compactor versions vacuum` for a table, which lists what it would delete and deletes nothing."""

    words = VACUUM.words

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return files and bytes to delete, how many of the files are raw files past their retention, and the number of expired versions."""
        deletable = [item for report in result for item in report["swept"] if item["goes"] is None]
        size = {"files": sum(item["files"] for item in deletable), "bytes": sum(item["bytes"] for item in deletable)}
        raw = sum(item["files"] for item in deletable if item["reason"] == "discarded")
        return {"table": self.table, **size, "raw": raw, "expired": sum(len(report["expired"]) for report in result)}


class VacuumOperator(CommandOperator):
    """Run `compactor versions vacuum --run` for a table, which deletes."""

    words = (*VACUUM.words, *DELETE.names)
    labelled = spark = True


class NotifySchemaChangesOperator(CommandOperator):
    """Run `compactor schema --notify` for a table, which sends new schema changes to the table's `notify:` targets."""

    words = ("schema", "--notify")

    def log_result(self, result: Any) -> None:
        for change in self.task_result(result, None)["changes"]:
            self.log.info("%s: %s", self.table, change)

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return the changes. A table that has no rows yet has none."""
        reports = result or [{"refused": False, "decisions": []}]
        return {"table": self.table, "refused": reports[0]["refused"], "changes": [each["decision"] for each in reports[0]["decisions"]]}


class CheckQuarantineOperator(CommandOperator):
    """Run `compactor quarantine`. If any file is in quarantine, notify each table's `notify:` targets and fail the task."""

    words = QUARANTINE.words

    def task_result(self, result: Any, context: Any) -> list[Any]:
        by_table: dict[str, list[str]] = {}
        for item in result:
            records = "the file" if item["records"] is None else f"{item['records']:,} records"
            by_table.setdefault(item["table"], []).append(f"{item['path']}: {records}: {item['reason']}")
        lines = [f"{table}: {line}" for table, reasons in by_table.items() for line in reasons]
        if lines:
            alerts.send(self.config, {name: shortened(reasons, ALERTED_MAX, "; ") for name, reasons in by_table.items()}, "quarantined")
            raise AirflowFailException(f"{len(lines)} files wait in quarantine:\n" + shortened(lines, LINES_MAX, "\n"))
        return []


class CheckLandingOperator(CommandOperator):
    """Run `compactor check`. Fail the task if a table is silent, whose `notify:` targets get `table_late`, or if no table takes landed files."""

    words = ("plan", "--no-samples")

    def _finish(self, ended: Ended, context: Any) -> Any:
        outcome = judge(ended)
        # a mistake of the configuration is the business of `compactor check`, and of the run that it stops
        return super()._finish(ended, context) if not isinstance(outcome.result, list) else self.task_result(outcome.result, context)

    def task_result(self, result: Any, context: Any) -> list[Any]:
        checks = [check for plan in result for check in plan["checks"]]
        silent = {check["table"]: check["detail"] for check in checks if check["name"] == SILENT}
        if silent:
            alerts.send(self.config, silent, "table_late")
        lines = [*(f"{table}: {reason}" for table, reason in silent.items()), *(check["detail"] for check in checks if check["name"] == UNTAKEN)]
        if lines:
            raise AirflowFailException(shortened(lines, LINES_MAX, "\n"))
        return []


class ChooseTablesOperator(BaseOperator):
    """Return the tables in the form, or all of `tables` if it names none. Fails if the form's values do not fit together.

    `form`: the names of its fields. Airflow's REST and command line take others too, and Airflow adds some (`openlineage`); but `table` is `tables`,
    which would be all of them.
    """

    def __init__(self, *, tables: list[str], form: list[str], **more: Any) -> None:
        super().__init__(**more)
        self.tables, self.form = tables, form

    def execute(self, context: Any) -> list[str]:
        params = context["params"]
        for name in sorted({*(context["dag_run"].conf or {})} - {*self.form}):
            if meant := alike(name, self.form):
                raise AirflowFailException(f"the form has no field `{name}`{meant}")
        try:
            expected_hours(params)
        except ValueError as error:
            raise AirflowFailException(str(error)) from error
        if params["accept_differences"] and not params["rebuild"]:
            raise AirflowFailException("`accept_differences` needs `rebuild`, which is off")
        return list(dict.fromkeys(params["tables"])) or self.tables


class SkipUnlessOperator(BaseOperator):
    """Pass the tables on, or skip the following tasks unless the form's switch `param` has this value."""

    template_fields = ("tables",)

    def __init__(self, *, tables: Any, param: str, value: bool = True, **more: Any) -> None:
        super().__init__(**more)
        self.tables, self.param, self.value = tables, param, value

    def execute(self, context: Any) -> list[str]:
        if context["params"][self.param] is not self.value:
            now, then = ("off", "on") if self.value else ("on", "off")
            raise AirflowSkipException(f"nothing to do, because `{self.param}` is {now}. To go on, start again with `{self.param}` {then}.")
        if not self.tables:
            raise AirflowSkipException("no table was run")
        return list(self.tables)


class PrepareQuestionOperator(BaseOperator):
    """Make a question to a person from the results of earlier tasks. Skip the following tasks if there is nothing to ask.

    `verified_by`: ids of the tasks that verify tables; a table that none of them passed is left out. `one_at_a_time`: ask nothing while an earlier
    run may wait for an answer. Returns the tables that the question is about. The text of the question is the XCom `text`.
    """

    template_fields = ("results",)

    def __init__(self, *, results: Any, question: str, verified_by: Sequence[str] | None = None, one_at_a_time: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.results, self.question, self.one_at_a_time = results, question, one_at_a_time
        self.verified_by = None if verified_by is None else list(verified_by)

    def execute(self, context: Any) -> list[str]:
        results, ti = list(self.results), context["ti"]
        if self.verified_by is not None:
            passed = {name for task in self.verified_by for name in ti.xcom_pull(task_ids=task, key="passed") or ()}
            left_out = [result["table"] for result in results if result["table"] not in passed]
            results = [result for result in results if result["table"] in passed]
            if left_out:
                self.log.warning("left out, because their verification did not pass: %s", ", ".join(left_out))
        tables, text = QUESTIONS[self.question](results)
        if not tables:
            raise AirflowSkipException("nothing to do")
        if self.one_at_a_time and (earlier := earlier_run(ti)) is not None:
            raise AirflowSkipException(f"the run {earlier.run_id} still waits for an answer")
        self.log.info("%s", text)
        ti.xcom_push(key="text", value=text)
        return tables


class ApproveByMarkingOperator(BaseOperator):
    """Ask a person where Airflow has no approval form (3.0): the task fails with the question, and a person approves by marking it as success."""

    def __init__(self, *, subject: str, asked_by: str, **more: Any) -> None:
        super().__init__(**more)
        self.subject, self.asked_by = subject, asked_by

    def execute(self, context: Any) -> None:
        text = context["ti"].xcom_pull(task_ids=self.asked_by, key="text")
        raise AirflowFailException(f"{self.subject}\n{text}\nTo approve, mark this task as success. Otherwise do nothing.")
