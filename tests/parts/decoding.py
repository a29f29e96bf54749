"""Changes of a real PostgreSQL as wal2json documents, by the decoding plugin that every PostgreSQL has (`test_decoding`).

It writes what wal2json writes: the same type names, PostgreSQL's text of each value, the LSN of each change, the time of the commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg

_CHANGE = re.compile(r"table (?P<schema>[^.]+)\.(?P<table>.+?): (?P<op>INSERT|UPDATE|DELETE): ?(?P<rest>.*)", re.DOTALL)
_VALUE = re.compile(r"(?P<name>\"(?:[^\"]|\"\")+\"|[^\[\s]+)\[(?P<type>[^\]]+(?:\[\])?)\]:(?P<value>'(?:[^']|'')*'|\S+) ?", re.DOTALL)


def slot(connection: psycopg.Connection[Any], name: str = "lake") -> None:
    """Begin to keep changes."""
    connection.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", (name,))


def documents(connection: psycopg.Connection[Any], name: str = "lake") -> Iterator[dict[str, Any]]:
    """Yield the changes since the last call, in the order of their commits."""
    text = "select lsn::text, xid::text, data from pg_logical_slot_get_changes(%s, null, null, 'include-timestamp', '1')"
    open_changes: list[dict[str, Any]] = []
    for lsn, xid, data in connection.execute(text, (name,)).fetchall():
        if data.startswith("COMMIT"):
            at = data.partition("(at ")[2].rstrip(")")
            yield from ({**change, "timestamp": at} for change in open_changes)
            open_changes = []
        elif (match := _CHANGE.fullmatch(data)) is not None:
            open_changes.append({"xid": int(xid), "lsn": lsn, **_change(match)})


def lines(changes: list[dict[str, Any]]) -> str:
    """One JSON document a line."""
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in changes)


def _change(match: re.Match[str]) -> dict[str, Any]:
    old, _, new = match["rest"].partition("new-tuple: ") if match["rest"].startswith("old-key: ") else ("", "", match["rest"])
    values = [_column(value) for value in _VALUE.finditer(new)]
    keys = [_column(value) for value in _VALUE.finditer(old.removeprefix("old-key: "))]
    head = {"action": match["op"][0], "schema": match["schema"], "table": match["table"]}
    if match["op"] == "DELETE":
        return {**head, "identity": values}
    present = [value for value in values if value["value"] != "unchanged-toast-datum"]
    return {**head, "columns": present, **({"identity": keys or present} if match["op"] == "UPDATE" else {})}


def _column(match: re.Match[str]) -> dict[str, Any]:
    value: Any = match["value"]
    if value == "null":
        value = None
    elif value.startswith("'"):
        value = value[1:-1].replace("''", "'")
        value = value.removeprefix("\\x") if match["type"] == "bytea" else value
    elif value in ("true", "false"):
        value = value == "true"
    name = match["name"]
    return {"name": name[1:-1].replace('""', '"') if name.startswith('"') else name, "type": match["type"], "value": value}
