"""How a command line ended → what Airflow is to do: go on, try again, or give up. No Airflow in here."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compactor.core.model import errors
from compactor.core.results.reports import Ended

REFUSED = frozenset(name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.Refused))
"""Errors after which trying again changes nothing."""

_UNEXPECTED = "compactor: unexpected "
_USAGE = 2


@dataclass(frozen=True)
class Outcome:
    """`found` is what the command printed, parsed; `problem` why it did not do all it should, None when it did.

    `again`: whether trying again may help.
    """

    found: Any = None
    problem: str | None = None
    again: bool = False


def judge(ended: Ended) -> Outcome:
    """Refused → never again; unavailable, busy, ended by a signal, or an error that nobody foresaw → again."""
    found = _parsed(ended.output)
    if ended.code == 0:
        problem = None if found is not None else f"expected a JSON document, found {ended.output[:200]!r}"
        return Outcome(found, problem, again=False)
    failed = [item for item in found if isinstance(item, dict) and item.get("error")] if isinstance(found, list) else []
    told = [f"{item['table']}: {item['error']}" for item in failed]
    told += [] if failed else [_last_words(ended.errors) or f"no word, exit code {ended.code}"]
    return Outcome(found, "\n".join(told), again=_again(ended, [item.get("error_class") for item in failed]))


def _again(ended: Ended, classes: list[str | None]) -> bool:
    if ended.code != 1:
        # 75 is ours; negative or above 128: a signal, such as the kernel's when memory is short
        return ended.code != _USAGE
    if classes:
        return not REFUSED.intersection(name for name in classes if name)
    return any(line.startswith(_UNEXPECTED) for line in ended.errors.splitlines())


def _parsed(output: str) -> Any:
    try:
        return json.loads(output)
    except ValueError:
        return None


def _last_words(lines: str) -> str:
    """What the command line said at its end: from the last line that begins with its name on."""
    _, mark, words = lines.rpartition("compactor: ")
    return (words if mark else lines)[-2000:].strip()


def sentence(report: dict[str, Any]) -> str:
    """What a run did for a table, in the words of `compactor run`."""
    counts = report["counts"]
    parts = [
        f"{report['table']}: {report['outcome']}",
        *([f"version {report['version']}"] if report["version"] is not None else []),
        *([", ".join(report["operations"])] if report["operations"] else []),
        *([f"{report['files']} files, {counts.get('read', 0):,} events, {counts.get('applied', 0):,} applied"] if report["files"] else []),
        *([f"{counts['late']:,} late"] if counts.get("late") else []),
        *([f"{counts['quarantined']:,} quarantined"] if counts.get("quarantined") else []),
        f"{report['seconds']:.1f} s",
        *report["notes"],
    ]
    return "; ".join(parts)


def _waste(found: list[dict[str, Any]]) -> tuple[list[str], str]:
    some = [item for item in found if item["files"] or item["expired"]]
    lines = [
        f"- **{item['table']}**: {item['files']:,} files, {item['bytes']:,} bytes"
        + (f", {item['raw']:,} of them raw files past `archive_retention`" if item["raw"] else "")
        + (f"; {item['expired']} versions are given up" if item["expired"] else "")
        for item in some
    ]
    return [item["table"] for item in some], "\n".join(["Vacuum would delete what no kept version needs. It cannot be brought back.", "", *lines])


def _schemas(found: list[dict[str, Any]]) -> tuple[list[str], str]:
    refused = [item for item in found if item["refused"]]
    lines = [f"- **{item['table']}**: {change}" for item in refused for change in item["changes"]]
    head = (
        "These tables stop at the newest schema of their source, by their `on_schema_change`; what lands stays in landing. "
        "Repair the producer, or say in `compactor.yaml` that the change is to be followed; then approve, and they run."
    )
    return [item["table"] for item in refused], "\n".join([head, "", *lines])


QUESTIONS: dict[str, Callable[[list[dict[str, Any]]], tuple[list[str], str]]] = {"waste": _waste, "schemas": _schemas}
"""Name → what of answers, one for each table, a person must be asked: the tables it is about, and the text (Markdown)."""
