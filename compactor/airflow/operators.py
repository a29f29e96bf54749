"""Operators for the commands of one table that the DAGs run: run, plan, rebuild, replay, vacuum, schema --notify; and for all: quarantine, check."""

from __future__ import annotations

from typing import Any

from compactor.airflow import alerts
from compactor.airflow.command import CommandOperator
from compactor.airflow.compat import AirflowFailException
from compactor.airflow.hours import expected_hours
from compactor.airflow.outcome import judge, sentence, shortened
from compactor.airflow.triggers import arrived, waiting
from compactor.core.results.checks import SILENT, UNTAKEN
from compactor.core.results.reports import Ended
from compactor.core.settings.command_line import ACCEPT_DIFFERENCES, DELETE, QUARANTINE, REBUILD, REPLAY, RUN, VACUUM

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
