"""The text format of Prometheus, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/.

All measures are gauges: the value of the table's last run. Moments (`.._timestamp_seconds`) stay true when runs stop, so alert on
`time() - compactor_source_timestamp_seconds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactor.core.measures.measures import MEASURES, TableMeasures


def text(tables: Sequence[TableMeasures], labels: Mapping[str, str]) -> str:
    """Return the values of these tables with the label `table` and these labels."""
    lines = []
    for measure in MEASURES:
        values = [value for each in tables for value in each.values if value.measure == measure]
        if not values:
            continue
        lines += [f"# HELP {measure.prometheus} {_escaped(measure.text)}", f"# TYPE {measure.prometheus} gauge"]
        for value in values:
            pairs = {**labels, "table": value.table or ""}
            inside = ",".join(f'{name}="{_quoted(text)}"' for name, text in pairs.items())
            lines.append(f"{measure.prometheus}{{{inside}}} {value.value!r}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
