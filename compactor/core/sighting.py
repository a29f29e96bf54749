"""What a few landed records tell about their source: envelope, container, tables, keys, columns. For proposing a configuration. Pure.

Words: a *Sighting* is what was seen of one source table in one landing folder.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactor.core import avro, increment
from compactor.core.envelopes import ENVELOPES, Envelope
from compactor.core.errors import SchemaRefused
from compactor.core.parquet import ParquetColumn

ROWS_MIN = 5
"""Rows that must differ in a column before it is called a candidate for the key."""

_ROUTING = ("__dbz__physicalTableIdentifier",)
_INTERNAL = ("io.debezium.connector.common.Heartbeat", "io.debezium.connector.common.TransactionMetadata", "io.debezium.connector.schema.Change")
"""Names of Debezium's own records begin so; they carry no rows."""


@dataclass
class Sighting:
    """What was seen of one source table.

    `key`: its columns, () when records have none, None when nothing tells; `key_from` says what told it. `candidates`: columns that were never
    null and always different. `opaque`: records are there whose value cannot be looked into. `names_columns` is False for CSV without header.
    """

    table: str = ""
    topic: str = ""
    envelope: str = "flat"
    container: str = "value"
    connector: str = ""
    key: tuple[str, ...] | None = None
    key_from: str = ""
    columns: tuple[str, ...] = ()
    rows: int = 0
    fresh: int = 0
    offsets: bool = False
    opaque: bool = False
    names_columns: bool = True
    values: dict[str, set[str] | None] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> Envelope:
        """What the source can do, by its envelope."""
        return ENVELOPES[self.envelope]

    @property
    def candidates(self) -> tuple[str, ...]:
        """Columns whose values, over at least ROWS_MIN rows, were never null and never the same."""
        return tuple(name for name in self.columns if len(self.values.get(name) or ()) >= ROWS_MIN)

    def note(self, row: Mapping[str, Any], fresh: bool) -> None:
        """Take a row's columns down, and (of a row not seen before: `fresh`) its values."""
        self.rows += 1
        self.columns = tuple(dict.fromkeys([*self.columns, *row]))
        if not fresh:
            return
        for name in self.columns:
            # a column that earlier rows lacked was null there
            known = self.values.setdefault(name, None if self.fresh else set())
            value = row.get(name)
            if known is None or value is None or isinstance(value, (dict, list, float)) or repr(value) in known:
                self.values[name] = None
            else:
                known.add(repr(value))
        self.fresh += 1


def of_documents(documents: Iterable[Any]) -> dict[str, Sighting]:
    """JSON documents, one a line → what each source table (`schema.table`; "" where records name none) showed."""
    seen: dict[str, Sighting] = {}
    for document in documents:
        if isinstance(document, dict):
            if _is_kafka(document):
                _kafka(document, seen)
            else:
                _value(document, seen, None, "value", "", False)
    return seen


def _is_kafka(record: Mapping[str, Any]) -> bool:
    # Connect's wrapper {"schema", "payload"} is a value; a whole record has a place in Kafka
    return ("value" in record or "payload" in record) and bool({"offset", "partition", "topic", "headers"} & record.keys())


def _kafka(record: Mapping[str, Any], seen: dict[str, Sighting]) -> None:
    topic = str(record.get("topic") or "")
    value = record.get("value", record.get("payload"))
    document = _json(value)
    if isinstance(document, dict) and document.keys() != {"b64"}:
        _value(document, seen, _key_names(record.get("key")), "kafka", topic, record.get("offset") is not None)
    elif value is not None:
        # Avro's bytes, or text that is no JSON
        seen.setdefault(f"?{topic}", Sighting(topic=topic, container="kafka", opaque=True))


def _key_names(said: Any) -> tuple[str, ...]:
    key = _json(said)
    key = key["payload"] if isinstance(key, dict) and key.keys() == {"schema", "payload"} else key
    return tuple(name for name in key if name not in _ROUTING) if isinstance(key, dict) else ()


def _json(said: Any) -> Any:
    try:
        return json.loads(said) if isinstance(said, str) else said
    except (ValueError, RecursionError):
        return None


def _value(document: Mapping[str, Any], seen: dict[str, Sighting], key: tuple[str, ...] | None, container: str, topic: str, offsets: bool) -> None:
    """One value. `key`: what the Kafka record's key names, None where there is no record around the value."""
    schema = document.get("schema") if document.keys() == {"schema", "payload"} else None
    payload = document["payload"] if document.keys() == {"schema", "payload"} else document
    if not isinstance(payload, dict):
        return
    for envelope, table, told, why, row, fresh, connector in _events(payload):
        at = seen.get(table)
        if at is None:
            at = seen[table] = Sighting(table, topic or _topic(schema), envelope, container, connector, offsets=offsets)
        at.offsets = at.offsets and offsets
        if key is not None and ENVELOPES[envelope].record_key:
            told, why = key, "the keys of the Kafka records"
        if told is not None and (at.key is None or told):
            # a renamed key column was seen missing from a few keys: the longest counts
            at.key, at.key_from = max(at.key or (), told, key=len), why
        at.note(row, fresh)


def _topic(schema: Any) -> str:
    name = str(schema.get("name") or "") if isinstance(schema, dict) else ""
    return name[: -len(".Envelope")] if name.endswith(".Envelope") else ""


Event = tuple[str, str, "tuple[str, ...] | None", str, "dict[str, Any]", bool, str]
"""(envelope, table, key or None, what told it, row, whether it is a new row, connector)"""


def _events(payload: Mapping[str, Any]) -> list[Event]:
    """The rows that one value tells of; none for heartbeats, transaction markers and the like."""
    if payload.get("op") in ("c", "u", "d", "r") and ("after" in payload or "before" in payload):
        return _debezium(payload)
    if isinstance(payload.get("change"), list):
        return [event for change in payload["change"] if isinstance(change, dict) for event in _wal2json(change, 1)]
    if payload.get("action") in ("I", "U", "D", "T") and ("columns" in payload or "identity" in payload):
        return _wal2json(payload, 2)
    if "action" in payload and payload["action"] in ("B", "C", "M", "T") and not payload.keys() - _W2:
        return []
    if "changeType" in payload and ("columnNames" in payload or "oldKeyNames" in payload):
        return _change_event(payload)
    if payload.get("op") in ("m", "t") and "source" in payload:
        return []
    if payload.keys() <= {"ts_ms", "ts_us", "ts_ns"} or {"status", "id", "event_count"} <= payload.keys():
        return []
    table = str(payload.get("__table") or "")
    gone = str(payload.get("__deleted")).lower() == "true"
    code = str(payload.get("__op") or payload.get("op") or payload.get("Op") or "c").lower()
    return [("flat", table, None, "", dict(payload), not gone and code in ("c", "i", "r", "insert", "create"), "")]


_W2 = frozenset({"action", "xid", "timestamp", "lsn", "nextlsn", "schema", "table", "transactional", "prefix", "content", "origin"})


def _debezium(payload: Mapping[str, Any]) -> list[Event]:
    said = payload.get("source")
    source = said if isinstance(said, dict) else {}
    table = ".".join(str(source[part]) for part in ("schema", "table") if source.get(part)) or str(source.get("collection") or "")
    if table and not source.get("schema") and source.get("db"):
        # MySQL has databases for schemas
        table = f"{source['db']}.{table}"
    row = payload.get("after") or payload.get("before")
    if not isinstance(row, dict):
        return []
    return [("debezium", table, None, "", dict(row), payload["op"] in ("c", "r"), str(source.get("connector") or ""))]


def _wal2json(change: Mapping[str, Any], version: int) -> list[Event]:
    table = f"{change.get('schema')}.{change.get('table')}"
    if version == 1:
        if change.get("kind") not in ("insert", "update", "delete"):
            return []
        row = dict(zip(change.get("columnnames") or (), change.get("columnvalues") or ()))
        old = (change.get("oldkeys") or {}).get("keynames")
        primary = (change.get("pk") or {}).get("pknames")
        inserted = change["kind"] == "insert"
    else:
        row = {column["name"]: column.get("value") for column in change.get("columns") or ()}
        old = [column["name"] for column in change["identity"]] if "identity" in change else None
        primary = [column["name"] for column in change["pk"]] if "pk" in change else None
        inserted = change["action"] == "I"
        if change["action"] == "T":
            return []
    key, why = None, ""
    if primary:
        key, why = tuple(primary), "the primary key that wal2json tells"
    elif old and (not row or len(old) < len(row)):
        # REPLICA IDENTITY FULL names all columns, which tells no key; a delete alone cannot be told from it
        key, why = (tuple(old), "the old keys that wal2json tells") if row else (None, "")
    return [("wal2json", table, key, why, row, inserted, "")]


def _change_event(payload: Mapping[str, Any]) -> list[Event]:
    table = ".".join(str(payload[part]) for part in ("schema", "table") if payload.get(part))
    names = payload.get("columnNames") or ()
    row = dict(zip(names, payload.get("columnValues") or ()))
    old = payload.get("oldKeyNames")
    inserted = str(payload["changeType"]).lower()[:1] in ("i", "c")
    return [("change-event", table, tuple(old) if old else None, "oldKeyNames", row, inserted, "")]


def of_avro(text: str) -> Sighting | None:
    """An Avro schema of values → what it tells; None for Debezium's own records, and for what is no row. Raises SchemaRefused."""
    schema = avro.parse(text)
    root = schema.present(schema.root)
    name = str(root.get("connect.name") or root.get("name") or "")
    members = {member["name"] for member in root.get("fields", ())}
    if name.startswith(_INTERNAL) or {"status", "id", "event_count"} <= members or ({"op", "source"} <= members and "after" not in members):
        return None
    columns = tuple(member["name"] for member in schema.row()["fields"])
    if members >= {"value"} and members & {"offset", "partition", "topic"}:
        return Sighting(container="kafka", opaque=True)
    if schema.is_envelope():
        topic = name[: -len(".Envelope")] if name.endswith(".Envelope") else ""
        return Sighting(topic=topic, envelope="debezium", columns=columns)
    return Sighting(envelope=_flat_or_not(columns), columns=columns)


def of_parquet(columns: Sequence[ParquetColumn]) -> Sighting:
    """A Parquet file's columns → what they tell."""
    named = {column.name: column for column in columns}
    if {"op", "after"} <= named.keys() and named["after"].children:
        return Sighting(envelope="debezium", columns=tuple(column.name for column in named["after"].children))
    if "value" in named and {"offset", "partition", "topic", "headers"} & named.keys():
        inside = named["value"].child("after")
        known = Sighting(container="kafka", offsets="offset" in named, opaque=not named["value"].children)
        if inside is not None:
            known.envelope, known.columns = "debezium", tuple(column.name for column in inside.children)
        elif named["value"].children:
            known.columns = tuple(column.name for column in named["value"].children)
        return known
    return Sighting(envelope=_flat_or_not([*named]), columns=tuple(named))


def of_csv(text: str, path: str) -> Sighting:
    """The head of a CSV file → what it tells: the names of its columns, when its first line looks like names."""
    rows = list(csv.reader(text.splitlines()[:2]))
    first = rows[0] if rows else []
    dms = increment.is_full_load(path) or increment.is_dated_changes(path)
    names = all(re.fullmatch(r"[A-Za-z_][\w $.-]*", name) for name in first) and len(set(first)) == len(first) > 0
    if dms and first and first[0] in ("I", "U", "D"):
        names = False
    if dms and names and "Op" not in first and not (len(rows) > 1 and any(re.search(r"\d", cell) for cell in rows[1])):
        names = False
    return Sighting(envelope="dms" if dms else "flat", columns=tuple(first) if names else (), names_columns=names)


def _flat_or_not(columns: Sequence[str]) -> str:
    return "change-event" if {"changeType", "columnNames"} <= {*columns} else "flat"


def is_signal(columns: Iterable[str]) -> bool:
    """Whether these are the columns of Debezium's signal table: commands to the connector, no data of the source."""
    return {*columns} == {"id", "type", "data"}


def key_of(text: str) -> tuple[str, ...] | None:
    """The key columns that a `-key` subject's schema names; None when it names none (a bare value)."""
    try:
        return avro.key_fields(text)
    except SchemaRefused:
        return None
