"""Decide from the end of a command line what Airflow does: succeed, retry or fail. Without Airflow."""

from __future__ import annotations

import inspect
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from compactor.core.model import errors
from compactor.core.results.phrases import without_table
from compactor.core.results.reports import Ended

REFUSED = frozenset(name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.Refused))
"""Names of the errors that a retry cannot change."""

_UNEXPECTED = "compactor: unexpected "
_USAGE = 2


@dataclass(frozen=True)
class Outcome:
    """End of a command line."""

    result: Any = None
    """The JSON that the command printed, parsed; None if it printed none."""
    problem: str | None = None
    """Why the command failed; None if it succeeded."""
    retryable: bool = False
    """Whether a retry may help."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why the command failed, by table; empty if that is not known."""


def judge(ended: Ended) -> Outcome:
    """Classify the end of a command. A refusal is final; an unavailable service, a busy table, a signal or an unexpected error is retryable."""
    result = _parsed(ended.output)
    if ended.code == 0:
        problem = None if result is not None else f"expected a JSON document, found {ended.output[:200]!r}"
        return Outcome(result, problem, retryable=False)
    items = [item for item in result if isinstance(item, dict)] if isinstance(result, list) else []
    failed = [item for item in items if item.get("error")]
    reasons = {item["table"]: reason(item) for item in failed}
    for item in items:
        if item.get("ok") is False:
            reasons[item["table"]] = "; ".join(filter(None, (reasons.get(item["table"]), f"{item['name']}: {item['detail']}")))
    lines = [f"{table}: {reason}" for table, reason in reasons.items()] or [_end(ended)]
    return Outcome(result, "\n".join(lines), _retryable(ended, [item.get("error_class") for item in failed]), reasons)


def report_outcome(report: dict[str, Any]) -> Outcome:
    """Classify the report of one table, as `judge` does for a command with one table."""
    if not report["error"]:
        return Outcome(report)
    retryable = report["outcome"] == "later" or report["error_class"] not in REFUSED
    return Outcome(report, f"{report['table']}: {reason(report)}", retryable, {report["table"]: reason(report)})


def reason(report: dict[str, Any]) -> str:
    """Return the error in a table's report without the table's name in front, which every line has already."""
    return without_table(report["table"], str(report["error"]))


_SIGNALS = {
    signal.SIGKILL: "most likely out of memory. Raise the memory of the worker, or lower --parallel or COMPACTOR_DRIVER_MEMORY",
    signal.SIGTERM: "because something stopped it: a timeout, a cleared task, or the end of the worker",
    signal.SIGABRT: "because the JVM or a library aborted; `hs_err_pid*.log` in its working directory says why",
    signal.SIGSEGV: "because the JVM or a library crashed; `hs_err_pid*.log` in its working directory says why",
}


def _end(ended: Ended) -> str:
    """Describe the end of a command without a report: the signal that killed it with the last line of its log, or its last message."""
    number = -ended.code if ended.code < 0 else ended.code - 128
    lines = _plain(ended.errors).strip().splitlines()
    if number in {int(each) for each in signal.Signals}:
        reason = _SIGNALS.get(signal.Signals(number))
        end = f"killed by {signal.Signals(number).name}" + (f", {reason}" if reason else "")
        return end + (f". The last line of its log: {lines[-1][:500]}" if lines else "")
    return _last_message(_plain(ended.errors)) or f"ended with exit code {ended.code} without a message"


def _retryable(ended: Ended, classes: list[str | None]) -> bool:
    if ended.code != 1:
        # 75 means "try again later"; a negative code or one above 128 is a signal
        return ended.code != _USAGE
    if classes:
        return not REFUSED.intersection(name for name in classes if name)
    return any(line.startswith(_UNEXPECTED) for line in _plain(ended.errors).splitlines())


def _plain(errors: str) -> str:
    """Return a log without what `--log-format json` puts around its messages."""
    lines = errors.splitlines()
    parsed = [_parsed(line) if line.startswith("{") else None for line in lines]
    return "\n".join(str(each["message"]) if isinstance(each, dict) and "message" in each else line for line, each in zip(lines, parsed))


def _parsed(output: str) -> Any:
    try:
        return json.loads(output)
    except ValueError:
        return None


def _last_message(lines: str) -> str:
    """Return the last message of the log: from the last `compactor: ` on."""
    _, mark, words = lines.rpartition("compactor: ")
    return (words if mark else lines)[-2000:].strip()


def shortened(lines: Sequence[str], most: int, between: str) -> str:
    """Join the first `most` lines, with the number of the others at the end."""
    return between.join([*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])])


def sentence(report: dict[str, Any]) -> str:
    """Summarize a run's report in one line, as `compactor run` does."""
    counts = report["counts"]
    parts = [
        f"{report['table']}: {report['outcome']}",
        *([f"version {report['version']}"] if report["version"] is not None else []),
        *([", ".join(report["operations"])] if report["operations"] else []),
        *([f"{report['files']} files, {counts.get('read', 0):,} events, {counts.get('applied', 0):,} rows changed"] if report["files"] else []),
        *([f"{counts['late']:,} late"] if counts.get("late") else []),
        *([f"{counts['quarantined']:,} quarantined"] if counts.get("quarantined") else []),
        f"{report['seconds']:.1f} s",
        *report["notes"],
    ]
    return "; ".join(parts)


def _vacuum(head: str, results: list[dict[str, Any]]) -> tuple[list[str], str]:
    some = [item for item in results if item["files"] or item["expired"]]
    lines = [
        f"- **{item['table']}**: {item['files']:,} files, {item['bytes']:,} bytes"
        + (f", {item['raw']:,} of them raw files past `archive_retention`" if item["raw"] else "")
        + (f"; {item['expired']} versions expire" if item["expired"] else "")
        for item in some
    ]
    return [item["table"] for item in some], "\n".join([head, "", *lines])


def _schemas(results: list[dict[str, Any]]) -> tuple[list[str], str]:
    refused = [item for item in results if item["refused"]]
    lines = [f"- **{item['table']}**: {change}" for item in refused for change in item["changes"]]
    head = (
        "The newest source schema blocks these tables, because their `on_schema_change` does not allow the change. New files stay in landing. "
        "Repair the producer, or allow the change in `compactor.yaml`. Then approve: the tables run."
    )
    return [item["table"] for item in refused], "\n".join([head, "", *lines])


QUESTIONS: dict[str, Callable[[list[dict[str, Any]]], tuple[list[str], str]]] = {
    "vacuum": partial(_vacuum, "Approve to delete the files that no kept version needs. They cannot be recovered."),
    "vacuum_auto": partial(_vacuum, "Deleting the files that no kept version needs, because `airflow.vacuum` is `auto`."),
    "schemas": _schemas,
}
"""Name → function from the results of all tables to the tables that something is to be done about, and the question or notice (Markdown)."""
