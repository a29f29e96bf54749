"""Sinks that write files: text files for Prometheus's node exporter, and lines of run records, EMF documents or OpenLineage events."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from compactor.core.measures import emf, prometheus
from compactor.core.measures.measures import Measured
from compactor.core.model.errors import Unavailable
from compactor.core.settings.metrics import LOG, MetricsSettings


def write_prometheus(measured: Measured, settings: MetricsSettings) -> None:
    """Write one file a table, so that runs of different tables never overwrite each other's values. Raises Unavailable."""
    folder = Path(str(settings.prometheus))
    for table in measured.tables:
        name = re.sub(r"[^0-9A-Za-z_-]", "_", f"compactor_{settings.deployment}_{table.table}")
        target = folder / f"{name}.prom"
        # the node exporter reads only names that end with .prom
        staged = target.with_suffix(f".{os.getpid()}.tmp")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            staged.write_text(prometheus.text([table], {"deployment": settings.deployment}), encoding="utf-8")
            staged.replace(target)
        except OSError as error:
            raise Unavailable(f"{target} cannot be written: {error.strerror}") from error


def write_emf(measured: Measured, settings: MetricsSettings) -> None:
    """Append one EMF document a table. Raises Unavailable."""
    lines = (emf.line(table, settings.namespace, settings.deployment, measured.now) for table in measured.tables)
    append(str(settings.emf), lines)


def write_records(measured: Measured, settings: MetricsSettings) -> None:
    """Append the records of runs that did something. Raises Unavailable."""
    append(str(settings.json), (json.dumps(table.record.to_json(), ensure_ascii=False) for table in measured.tables if table.record is not None))


def write_events(measured: Measured, settings: MetricsSettings) -> None:
    """Append OpenLineage events. Raises Unavailable."""
    append(str(settings.openlineage), (json.dumps(event, ensure_ascii=False) for event in measured.events))


def append(place: str, lines: Iterable[str]) -> None:
    """Append lines to a file, or print them on standard error for LOG. Raises Unavailable."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        return
    if place == LOG:
        print(text, end="", file=sys.stderr, flush=True)
        return
    try:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        # one write to a file opened for appending: lines of several processes do not mix
        with open(place, "ab", buffering=0) as file:
            file.write(text.encode())
    except OSError as error:
        raise Unavailable(f"{place} cannot be written: {error.strerror}") from error
