"""The oracle for wal2json: the documents applied one by one, in the order of the stream, in plain Python."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from . import config, landing, truth

Row = dict[str, Any]


@dataclass
class Table:
    """Rows by key, or a list of rows where there is no key; `kinds` are the types of the columns named last, `known` of all ever named."""

    key: tuple[str, ...]
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    bag: list[Row] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def apply(self, op: str, new: Row, old: Row, kinds: dict[str, str]) -> None:
        """The next change."""
        if op == "truncate":
            self.rows.clear()
            self.bag.clear()
            return
        if new:
            self._follow(kinds)
        if not self.key:
            if old:
                self.bag.remove({**dict.fromkeys(self.known), **old})
            if new:
                self.bag.append({**dict.fromkeys(self.known), **new})
            return
        place = tuple({**new, **old}[column] for column in self.key)
        before = self.rows.pop(place, {}) if op != "insert" else {}
        if new:
            kept = {**before, **old} if op == "update" else {}
            row = {**kept, **new}
            self.rows[tuple(row[column] for column in self.key)] = row

    def _follow(self, kinds: dict[str, str]) -> None:
        """A name that was gone and comes back with another type is another column."""
        for column, kind in kinds.items():
            if self.known.get(column, kind) != kind and column not in self.kinds:
                for row in (*self.rows.values(), *self.bag):
                    row.pop(column, None)
        self.kinds = kinds
        self.known.update(kinds)


def streamed(form: str, hour: int) -> dict[str, list[Row]]:
    """Every table's rows, column names as in the view, after all documents of the hours 0 to `hour`."""
    owners = {source: name for name in landing.tables() for source in landing.source_tables(name).split(",")}
    found = {name: Table(config.keys()[name]) for name in landing.tables()}
    for past in range(hour + 1):
        for line in landing.documents(form, past):
            for source, op, new, old, kinds in _changes(json.loads(line, parse_float=Decimal)):
                if source in owners:
                    found[owners[source]].apply(op, new, old, kinds)
    shown = {name: [*table.rows.values()] if table.key else table.bag for name, table in found.items()}
    return {name: [{config.stored_name(column): value for column, value in row.items()} for row in rows] for name, rows in shown.items()}


def _changes(document: Any) -> Iterator[tuple[str, str, Row, Row, dict[str, str]]]:
    """(table, operation, row, old row, types of the row)."""
    if "change" in document:
        for change in document["change"]:
            if change["kind"] != "message":
                names, kinds = change.get("columnnames", []), change.get("columntypes", [])
                old = change.get("oldkeys", {"keynames": [], "keytypes": [], "keyvalues": []})
                yield (
                    f"{change['schema']}.{change['table']}",
                    change["kind"],
                    {name: _shown(value, kind) for name, kind, value in zip(names, kinds, change.get("columnvalues", []), strict=True)},
                    {name: _shown(value, kind) for name, kind, value in zip(old["keynames"], old["keytypes"], old["keyvalues"], strict=True)},
                    dict(zip(names, kinds, strict=True)),
                )
    elif document["action"] in "IUDT":
        new, old = document.get("columns", []), document.get("identity", [])
        yield (
            f"{document['schema']}.{document['table']}",
            {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}[document["action"]],
            {column["name"]: _shown(column["value"], column["type"]) for column in new},
            {column["name"]: _shown(column["value"], column["type"]) for column in old},
            {column["name"]: column["type"] for column in new},
        )


def _shown(value: Any, kind: str) -> Any:
    """A value as the view shows it; what stays text is PostgreSQL's."""
    if value is None:
        return None
    if kind.endswith("[]"):
        return _lists(truth.from_truth(value, kind if "numeric" not in kind else "text[]"), kind)
    if kind == "bytea":
        return base64.b64encode(bytes.fromhex(value)).decode()
    return value


def _lists(value: Any, kind: str) -> Any:
    if isinstance(value, tuple):
        return [_lists(member, kind) for member in value]
    return value
