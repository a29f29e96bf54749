"""Sinks that write files: text files for Prometheus's node exporter, and lines of run records.

The text is Prometheus's format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/. All measures are gauges: the values of the
table's last run. Moments (`.._timestamp_seconds`) stay true when runs stop, so alert on `time() - compactor_source_timestamp_seconds`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from compactor.core.model.errors import Unavailable
from compactor.core.results.measures import TableMeasures


def write_prometheus(tables: Sequence[TableMeasures], folder: str, deployment: str) -> None:
    """Write one file a table, so that runs of different tables never overwrite each other's values. Raises Unavailable."""
    for table in tables:
        name = re.sub(r"[^0-9A-Za-z_-]", "_", f"compactor_{deployment}_{table.table}")
        target = Path(folder, f"{name}.prom")
        # the node exporter reads only names that end with .prom
        staged = target.with_suffix(f".{os.getpid()}.tmp")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.write_text(_text(table, deployment), encoding="utf-8")
            staged.replace(target)
        except OSError as error:
            raise Unavailable(f"{target} cannot be written: {error.strerror}") from error


def _text(table: TableMeasures, deployment: str) -> str:
    labels = f'deployment="{_escaped(deployment)}",table="{_escaped(table.table)}"'
    return "".join(
        f"# HELP {measure.prometheus} {measure.text}\n# TYPE {measure.prometheus} gauge\n{measure.prometheus}{{{labels}}} {value!r}\n"
        for measure, value in table.values.items()
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def write_records(tables: Sequence[TableMeasures], file: str) -> None:
    """Append the records of runs that did something, one JSON object a line. Raises Unavailable."""
    text = "".join(f"{json.dumps(table.record.to_json(), ensure_ascii=False)}\n" for table in tables if table.record is not None)
    if not text:
        return
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        # one write to a file opened for appending: lines of several processes do not mix
        with open(file, "ab", buffering=0) as lines:
            lines.write(text.encode())
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}") from error
