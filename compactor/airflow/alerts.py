"""What Airflow calls when a task is not tried again, when a run is not done by its deadline, when something waits in quarantine: `notify:`
targets are told. It never fails.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

try:
    from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference
except ImportError:  # before 3.2
    DeadlineAlert = None

if TYPE_CHECKING:
    from compactor.app.app import App

log = logging.getLogger(__name__)

LINES_MAX = 10
"""Of what waits in quarantine, in one alert."""


def failed(context: Any) -> None:
    """A task of a table's has failed and is not tried again (`on_failure_callback`)."""
    try:
        task, instance = context["task"], context["ti"]
        if not task.table:
            return
        reason = str(context.get("exception") or "no reason was given")
        where = {"dag": instance.dag_id, "run": str(context["run_id"]), "task": instance.task_id, "log": str(getattr(instance, "log_url", "") or "")}
        with _opened(task.config) as app:
            _tell(app, {str(task.table): reason}, "run_failed", {name: said for name, said in where.items() if said})
    except Exception:
        log.exception("a failed task was not told")


def quarantined(config: str, waiting: dict[str, list[str]]) -> None:
    """Files of these tables wait in quarantine; a line for each."""
    try:
        with _opened(config) as app:
            _tell(app, {name: _shortened(lines) for name, lines in waiting.items()}, "quarantined", {})
    except Exception:
        log.exception("what waits in quarantine was not told")


async def late(config: str, tables: list[str], deadline: str, context: Any = None) -> None:
    """A run of a group is not done by the deadline of these tables."""
    try:
        run = (context or {}).get("dag_run") or {}
        where = {name: str(run[key]) for name, key in (("dag", "dag_id"), ("run", "dag_run_id")) if run.get(key)}
        await asyncio.to_thread(_late, config, tables, deadline, where)
    except Exception:
        log.exception("a missed deadline was not told")


def _late(config: str, tables: list[str], deadline: str, where: dict[str, str]) -> None:
    with _opened(config) as app:
        _tell(app, app.lateness(tables, deadline), "table_late", where)


def _opened(config: str) -> App:
    from compactor.app.app import App

    return App.open(config)


def _tell(app: App, reasons: dict[str, str], event: str, where: dict[str, str]) -> None:
    page = app.settings.airflow.status_page
    for name, reason in reasons.items():
        app.alert(name, event, reason, {**where, **({"status page": page} if page else {})})


def _shortened(lines: list[str]) -> str:
    return "; ".join([*lines[:LINES_MAX], *([f"and {len(lines) - LINES_MAX} more"] if lines[LINES_MAX:] else [])])


def deadlines(config: str, tables: dict[str, float | None]) -> dict[str, Any]:
    """What a DAG is told of the deadlines (seconds, or None) of its tables; nothing where Airflow knows none."""
    wanted: dict[float, list[str]] = {}
    for name, seconds in tables.items():
        if seconds is not None:
            wanted.setdefault(seconds, []).append(name)
    if DeadlineAlert is None or not wanted:
        return {}
    return {"deadline": [_alert(config, seconds, names) for seconds, names in sorted(wanted.items())]}


def _alert(config: str, seconds: float, names: list[str]) -> Any:
    after = timedelta(seconds=seconds)
    callback = AsyncCallback(late, kwargs={"config": config, "tables": names, "deadline": str(after)})
    return DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=after, callback=callback)
