"""Repair: rows of the source as a file in landing, which the next run ingests. docs/design/proofs.md has why the table is right afterwards.

A line is a JSON object: `op` (u or d), `position` (order column → text or null), `time` (of the read, microseconds since 1970), and of the columns
`names`, `types` (Hive's), `forms` and `values` (canonical texts).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from compactor.core.model.position import TABLE, Order, Position, latest, scope
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.reconcile.canonical import Columns
from compactor.core.reconcile.side import Key, Rows


def refusal(spec: TableSpec, snapshot: Snapshot) -> str:
    """Return why rows of the source have no place in the order of a table's changes, or ""."""
    if spec.source.full_loads:
        return "the next full load repairs it"
    kinds = {"bigint", "string"}
    if scope(snapshot.order) != TABLE or not {kind for _, kind in snapshot.order} <= kinds or "dms.file" in _names(snapshot.order):
        names = ", ".join(_names(snapshot.order))
        return f"its order ({names}) does not compare the changes of different keys, so that a row read from the source has no place in it"
    if spec.epoch != snapshot.epoch:
        return f"`epoch` is {spec.epoch}, and nothing of it has been ingested yet; run the table first"
    return ""


def position_above(snapshot: Snapshot) -> dict[str, str | None]:
    """Return the order columns, as text or None, of the next place after everything that a version has ingested."""
    newest: Position | None = latest([snapshot.position, snapshot.truncated_to])
    values = list((newest or (0,) + (None,) * len(snapshot.order))[1 : len(snapshot.order) + 1])
    kind, last = snapshot.order[-1][1], values[-1]
    values[-1] = f"{last or ''}0" if kind == "string" else (last or 0) + 1
    return {name: None if value is None else str(value) for name, value in zip(_names(snapshot.order), values)}


def _names(order: Order) -> list[str]:
    return [name for name, _ in order]


def lines(columns: Columns, keys: Sequence[Key], rows: Rows, position: Mapping[str, str | None], time: int) -> Iterator[str]:
    """Return the lines that make these keys of a table what `rows` of the source are. A key without rows is deleted. `time`: of the read, micros."""
    for key in keys:
        row = rows.get(key, ())
        pairs = columns.pairs if row else columns.key
        read = {"op": "u" if row else "d", "position": position, "time": time, "values": row[0].values if row else key}
        described = {"names": [pair.source for pair in pairs], "types": [pair.type for pair in pairs], "forms": [pair.form for pair in pairs]}
        yield json.dumps({**read, **described}, ensure_ascii=False)


def signal_data(collection: str, condition: str) -> str:
    """Return the data of Debezium's signal for an incremental snapshot of some rows."""
    conditions = [{"data-collection": collection, "filter": condition}]
    return json.dumps({"data-collections": [collection], "type": "incremental", "additional-conditions": conditions})
