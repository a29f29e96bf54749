"""Repair: rows of the source as a file in landing, which the next run ingests. docs/design/proofs.md has why the table is right afterwards.

A line is a JSON object: `op` (u or d), `position` (order column → text or null), `time` (of the read, microseconds since 1970), and of the columns
`names`, `types` (Hive's), `forms`, `values` (canonical texts) and `own` (the texts to store instead, or nulls: `Dialect.own_text`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from compactor.core.model.position import TABLE, Order, Position, latest, scope
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.reconcile.canonical import Columns, Pair
from compactor.core.reconcile.side import Key, Row, Rows

Texts = Sequence["str | None"]


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


def lines(
    columns: Columns, keys: Sequence[Key], source: Rows, lake: Rows, position: Mapping[str, str | None], time: int, envelope: str
) -> Iterator[str]:
    """Return the lines that make these keys of the lake what the source's rows are. A key without rows is deleted, as is one that the lake has in
    another text beside the right one. `time`: of the read, micros; `envelope`: of the table, whose stream has texts of its own."""
    for key in keys:
        theirs, ours = source.get(key, ()), lake.get(key, ())
        stored = list(dict.fromkeys(_own(row)[: len(key)] for row in ours))
        if theirs:
            sent = _sent(columns.pairs, theirs[0], envelope)
            kept = next((row for row in ours if _own(row)[: len(key)] == _texts(theirs[0].values, sent)[: len(key)]), ours[0] if ours else None)
            if kept is not None:
                # equal values keep the text that the lake has
                equal = [there == here for there, here in zip(theirs[0].values, kept.values)]
                sent = [mine if same and mine is not None else text for same, mine, text in zip(equal, kept.own or sent, sent)]
            yield _line("u", columns.pairs, theirs[0].values, sent, position, time)
            final = _texts(theirs[0].values, sent)[: len(key)]
            stored = [each for each in stored if each != final]
        for each in stored if ours or theirs else [key]:
            own = [None if mine == text else mine for mine, text in zip(each, key)]
            yield _line("d", columns.key, key, own, position, time)


def _line(op: str, pairs: Sequence[Pair], values: Texts, own: Texts, position: Mapping[str, str | None], time: int) -> str:
    described = {"names": [pair.source for pair in pairs], "types": [pair.type for pair in pairs], "forms": [pair.form for pair in pairs]}
    return json.dumps({"op": op, "position": position, "time": time, "values": values, "own": own, **described}, ensure_ascii=False)


def _sent(pairs: Sequence[Pair], row: Row, envelope: str) -> list[str | None]:
    """Return the texts of a row of the source that its change stream has instead of the canonical ones."""
    own = [None if value is None else text for value, text in zip(row.values, row.own)] or [None] * len(row.values)
    if envelope not in ("debezium", "flat"):
        return own
    # Debezium sends microseconds, whose text has six digits of them or none
    times = [value.partition(".") if value is not None and pair.form == "time" else None for pair, value in zip(pairs, row.values)]
    return [text if parts is None else f"{parts[0]}.{parts[2]:0<6}" if parts[2] else parts[0] for text, parts in zip(own, times)]


def _own(row: Row) -> Texts:
    return _texts(row.values, row.own or (None,) * len(row.values))


def _texts(values: Texts, own: Texts) -> Texts:
    return tuple(value if text is None else text for value, text in zip(values, own))


def signal_data(collection: str, condition: str) -> str:
    """Return the data of Debezium's signal for an incremental snapshot of some rows."""
    conditions = [{"data-collection": collection, "filter": condition}]
    return json.dumps({"data-collections": [collection], "type": "incremental", "additional-conditions": conditions})
