"""Callbacks that notify a table's `notify:` targets: a task failed finally, a run missed its deadline, files wait in quarantine; and recovery.

They log their own errors and never fail.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from compactor.airflow.compat import AsyncCallback, DeadlineAlert, DeadlineReference
from compactor.airflow.opened import open_app, opened_in_triggerer

if TYPE_CHECKING:
    from compactor.app.app import App
    from compactor.core.results.notice import Target

log = logging.getLogger(__name__)

TOGETHER_MIN = 4
"""From so many tables with the same reason and the same targets on, one alert names them all."""


def failed(context: Any) -> None:
    """Report that a task failed and has no retries left, for each of its tables (`on_failure_callback`)."""
    try:
        task = context["task"]
        if hasattr(task, "partial_kwargs"):
            # of a worker that was lost Airflow has only what the DAG file declares
            task = SimpleNamespace(**task.partial_kwargs, **task.expand_input.resolve(context)[0])
        # a job whose worker was lost did not say which tables have work
        tables = getattr(task, "working", None) or getattr(task, "members", None) or [str(task.table)]
        if not tables[0]:
            return
        whole = str(context.get("exception") or "its worker was lost: killed, or never started")
        reasons = getattr(task, "reasons", None) or dict.fromkeys(tables, whole)
        with open_app(task.config, strict=False) as app:
            _alert(app, reasons, "run_failed", _where(context))
    except Exception:
        log.exception("could not send the alert about a failed task")


def recovered(app: App, tables: list[str], context: Any) -> None:
    """Report those tables that are up to date after their failure in this DAG was reported."""
    from compactor.flows.publish import notices

    try:
        for name in notices.recovered([app.table(name) for name in tables], _where(context)):
            log.info("%s has recovered", name)
    except Exception:
        log.exception("could not report that tables have recovered")


def send(config: str, reasons: dict[str, str], event: str) -> None:
    """Send an alert about each of these tables. `reasons`: table → sentence."""
    try:
        with open_app(config, strict=False) as app:
            _alert(app, reasons, event, {})
    except Exception:
        log.exception("could not send the alert (%s)", event)


async def late(config: str, tables: list[str], deadline: str, context: Any = None) -> None:
    """Report tables whose group's run has not ended by their deadline."""
    try:
        run = (context or {}).get("dag_run") or {}
        where = {name: str(run[key]) for name, key in (("dag", "dag_id"), ("run", "dag_run_id")) if run.get(key)}
        await asyncio.to_thread(_late, await opened_in_triggerer(config), tables, deadline, where)
    except Exception:
        log.exception("could not send the alert about a missed deadline")


def _late(app: App, tables: list[str], deadline: str, where: dict[str, str]) -> None:
    from compactor.flows.read.status import lateness

    _alert(app, lateness(app.status(tables), deadline), "table_late", where)


def _alert(app: App, reasons: dict[str, str], event: str, where: dict[str, str]) -> None:
    from compactor.flows.publish import notices

    together: dict[tuple[str, tuple[Target, ...]], list[str]] = {}
    for name, reason in reasons.items():
        together.setdefault((reason, app.specs([name])[0].notify), []).append(name)
    for (reason, _), names in together.items():
        # what stops a whole group is one message, not hundreds
        one = len(names) >= TOGETHER_MIN
        for name in names[:1] if one else names:
            notices.alert(app.table(name), event, reason, {**where, **({"tables": ", ".join(names)} if one else {})})


def _where(context: Any) -> dict[str, str]:
    """Return DAG, run, task and log of a task."""
    instance = context["ti"]
    where = {"dag": instance.dag_id, "run": str(context["run_id"]), "task": instance.task_id, "log": str(getattr(instance, "log_url", "") or "")}
    return {name: value for name, value in where.items() if value}


def deadlines(config: str, tables: dict[str, float | None]) -> dict[str, Any]:
    """Return a DAG's `deadline` argument for its tables (name → seconds, or None). Empty before Airflow 3.2, which has no deadlines."""
    by_seconds: dict[float, list[str]] = {}
    for name, seconds in tables.items():
        if seconds is not None:
            by_seconds.setdefault(seconds, []).append(name)
    if DeadlineAlert is None or not by_seconds:
        return {}
    return {"deadline": [_deadline_alert(config, seconds, names) for seconds, names in sorted(by_seconds.items())]}


def _deadline_alert(config: str, seconds: float, names: list[str]) -> Any:
    after = timedelta(seconds=seconds)
    callback = AsyncCallback(late, kwargs={"config": config, "tables": names, "deadline": str(after)})
    return DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=after, callback=callback)
