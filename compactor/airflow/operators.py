"""Operators for the commands that the DAGs run: wait, run, verify, plan, rebuild, replay, vacuum, schema notify, quarantine list."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from compactor.airflow import alerts
from compactor.airflow.command import CommandOperator
from compactor.airflow.hours import HOUR, expected_hours, hour_of, written
from compactor.airflow.outcome import sentence
from compactor.airflow.triggers import HourTrigger, arrived
from compactor.core.model.errors import Refused

try:
    from airflow.sdk.exceptions import AirflowFailException
except ImportError:  # before Airflow 3.2
    from airflow.exceptions import AirflowFailException

if TYPE_CHECKING:
    from compactor.app.app import App

LINES_MAX = 50
"""Quarantined files that an error lists."""


def hour_of_run(context: Any) -> datetime:
    """Return the hour that a DAG run stands for."""
    run = context["dag_run"]
    return hour_of(getattr(run, "partition_key", None), run.logical_date, run.run_after)


class WaitForHourOperator(BaseOperator):
    """Wait until a file of the run's hour has landed, but not longer than `wait` seconds after the hour's end. An hour without files is no error."""

    def __init__(self, *, config: str, table: str, wait: float, **more: Any) -> None:
        super().__init__(**more)
        self.config, self.table, self.wait = config, table, wait

    def execute(self, context: Any) -> str:
        """Return the hour. The task is deferred while it waits, so that it occupies no worker slot."""
        hour = hour_of_run(context)
        until = (hour + HOUR).timestamp() + self.wait
        if time.time() < until and not self._arrived(hour):
            self.log.info("%s: waiting for the first file of %s", self.table, written(hour))
            self.defer(trigger=HourTrigger(self.config, self.table, written(hour), until), method_name="resume")
        return written(hour)

    def resume(self, context: Any, event: dict[str, Any]) -> str:
        """Return the hour after the wait."""
        self.log.info("%s: %s", self.table, event["message"])
        return str(event["hour"])

    def _arrived(self, hour: datetime) -> bool:
        try:
            return bool(arrived(self.config, self.table, [written(hour)]))
        except Refused as error:
            raise AirflowFailException(str(error)) from error


class RunOperator(CommandOperator):
    """Run `compactor run` for a table, with `compact` also a compaction (`--compact`). Returns the report."""

    def __init__(self, *, compact: bool = False, **more: Any) -> None:
        super().__init__(words=("run", *(("--compact",) if compact else ())), labelled=True, spark=True, **more)
        self._compact = compact

    def known_result(self, app: App) -> Any:
        """Return the report of a table without work, found from storage alone."""
        return None if self._compact else [report.to_json() for report in app.idle([self.table])] or None

    def log_result(self, result: Any) -> None:
        """Log a summary of the report."""
        for report in result or ():
            self.log.info("%s", sentence(report))

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return the report."""
        (report,) = result
        return dict(report)


class VerifyOperator(CommandOperator):
    """Run `compactor verify` for a table. With `asset`, emit an asset event with the report of the run task whose id is `reported`."""

    def __init__(self, *, files_only: bool, deep: bool = False, asset: Any = None, reported: str = "", **more: Any) -> None:
        words = ("verify", *(("--files-only",) if files_only else ()), *(("--deep",) if deep else ()))
        if asset is not None:
            more["outlets"] = [asset]
        super().__init__(words=words, spark=not files_only, **more)
        self.asset, self.reported = asset, reported

    def log_result(self, result: Any) -> None:
        """Log each check."""
        for check in result or ():
            self.log.info("%s: %s: %s: %s", check["table"], check["name"], "ok" if check["ok"] else "FAILED", check["detail"])

    def task_result(self, result: Any, context: Any) -> Any:
        """Return the checks, and add the run's report to the asset event."""
        if self.asset is not None:
            report = context["ti"].xcom_pull(task_ids=self.reported) or {}
            names = ("outcome", "version", "operations", "files", "rows", "counts")
            extra = {"hour": written(hour_of_run(context)), **{name: report[name] for name in names if name in report}}
            context["outlet_events"][self.asset].extra = extra
        return result


class PlanOperator(CommandOperator):
    """Run `compactor plan` for a table, and check which of the hours in the form have landed."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("plan",), **more)

    def log_result(self, result: Any) -> None:
        """Log the steps."""
        for plan in result or ():
            for step in plan["steps"]:
                self.log.info("%s: %s", plan["table"], step)

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return the steps and the hours: `new` wait in landing, `ingested` were ingested before, `missing` never landed.

        Fails the task if hours are missing and the form's `complete` is on.
        """
        (plan,) = result
        new = sorted({item["hour"] for item in plan["landing"]["new"] if item["hour"]})
        # each hour is checked on its own, because the archive of a table is too large to list
        expected = [hour for hour in expected_hours(context["params"]) if not any(name.startswith(hour) for name in new)]
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
    """Run `compactor quarantine replay` for a table."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("quarantine", "replay"), labelled=True, spark=True, **more)


class RebuildOperator(CommandOperator):
    """Run `compactor rebuild` for a table. Rows that differ fail the task unless the form accepts them."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("rebuild",), labelled=True, spark=True, **more)

    def options(self, context: Any) -> list[str]:
        """Return `--accept-differences` if the form's switch is on."""
        return ["--accept-differences"] if context["params"]["accept_differences"] else []


class VacuumDryRunOperator(CommandOperator):
    """Run `compactor vacuum` for a table, which lists what it would delete and deletes nothing."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("vacuum",), **more)

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return files and bytes to delete, how many of the files are raw files past their retention, and the number of expired versions."""
        deletable = [item for report in result for item in report["swept"] if item["goes"] is None]
        size = {"files": sum(item["files"] for item in deletable), "bytes": sum(item["bytes"] for item in deletable)}
        raw = sum(item["files"] for item in deletable if item["reason"] == "discarded")
        return {"table": self.table, **size, "raw": raw, "expired": sum(len(report["expired"]) for report in result)}


class VacuumOperator(CommandOperator):
    """Run `compactor vacuum --run` for a table, which deletes."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("vacuum", "--run"), labelled=True, spark=True, **more)


class NotifySchemaChangesOperator(CommandOperator):
    """Run `compactor schema notify` for a table, which sends new schema changes to the table's `notify:` targets."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("schema", "notify"), **more)

    def log_result(self, result: Any) -> None:
        """Log each change."""
        for notice in result or ():
            for change in notice["changes"]:
                self.log.info("%s: %s", notice["table"], change)

    def task_result(self, result: Any, context: Any) -> dict[str, Any]:
        """Return the changes. A table that has no rows yet has none."""
        return dict(result[0]) if result else {"table": self.table, "refused": False, "changes": []}


class CheckQuarantineOperator(CommandOperator):
    """Run `compactor quarantine list`. If any file is in quarantine, notify each table's `notify:` targets and fail the task."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("quarantine", "list"), table="", **more)

    def task_result(self, result: Any, context: Any) -> list[Any]:
        """Return an empty list, or fail the task."""
        by_table: dict[str, list[str]] = {}
        for item in result:
            records = "the file" if item["records"] is None else f"{item['records']:,} records"
            by_table.setdefault(item["table"], []).append(f"{item['path']}: {records}: {item['reason']}")
        lines = [f"{table}: {line}" for table, reasons in by_table.items() for line in reasons]
        if lines:
            alerts.quarantined(self.config, by_table)
            more = f"\nand {len(lines) - LINES_MAX} more" if len(lines) > LINES_MAX else ""
            raise AirflowFailException(f"{len(lines)} files wait in quarantine:\n" + "\n".join(lines[:LINES_MAX]) + more)
        return []
