"""Distinguish the documents that sources send: Kafka records, envelopes and plain rows. Yield the changes of rows that they hold."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from compactor.core.model.spec import OPERATIONS
from compactor.core.schema.avro import ROUTING
from compactor.core.sources import flat_rows

LEAF = ""
"""The example value of a column in an example document that a schema gives."""

PRIMARY_KEY = "wal2json's primary key"
"""Where a key comes from that the source itself names."""

OLD_KEYS = "wal2json's old keys"
"""Where a key comes from that is a whole row under REPLICA IDENTITY FULL, without its nulls."""

RECORD_KEYS = "the keys of the Kafka records"
"""Where a key comes from that the producer may have chosen (`message.key.columns`, `ValueToKey`)."""

INTERNAL = re.compile(r"io[.]debezium[.]connector[.](common[.](Heartbeat|TransactionMetadata)|schema[.]Change|\w+[.]SchemaChange)")
"""Schema names of Debezium's own records. These records hold no rows."""


class Row(NamedTuple):
    """One change of a row, as its envelope shows it."""

    table: str
    op: str
    """c, r (read by a snapshot), u or d."""
    columns: dict[str, Any]
    old: Mapping[str, Any]
    """What the record says about a row that it deletes; else empty."""
    key: tuple[str, ...] | None = None
    """None when the envelope does not name it."""
    key_from: str = ""
    connector: str = ""


PlainRow = Callable[[Mapping[str, Any]], Iterator[Row]]
"""Yields the changes in a plain row: `flat`, with the settings of a table."""


class Record(NamedTuple):
    """A Kafka record around a value."""

    topic: str
    has_offset: bool
    key: tuple[str, ...] | None
    """The key's columns; () when the record has none, None when it cannot be read."""
    has_value: bool
    """Whether it is no tombstone."""


def parsed(value: Any) -> Any:
    """Return a text's JSON value, None if it has none. Return any other value as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def without_schema(document: Any) -> tuple[str, Any]:
    """Return (name of the schema, payload) of a value in Kafka Connect's JSON wrapper, ("", document) of any other. TiCDC may write no schema."""
    payload = document.get("payload") if isinstance(document, dict) else None
    source = payload.get("source") if isinstance(payload, dict) else None
    alone = isinstance(source, dict) and source.get("connector") == "TiCDC" and document.keys() == {"payload"}
    if isinstance(document, dict) and (document.keys() == {"schema", "payload"} or alone):
        schema = document.get("schema")
        return str(schema.get("name") or "") if isinstance(schema, dict) else "", document["payload"]
    return "", document


def unwrapped(document: Any) -> tuple[Record | None, str, Any, bool]:
    """Return (Kafka record or None, name of the value's schema, value, whether no schema gives the value its meaning).

    The value is None where it is no JSON object, such as Avro's bytes, and where the record is a tombstone.
    """
    name, value = without_schema(document)
    if not isinstance(value, dict) or not ("value" in value or "payload" in value):
        return None, name, value, value is document
    # Lenses' sinks write the record's place into `metadata`
    inside = value["metadata"] if isinstance(value.get("metadata"), dict) else {}
    if not ({"offset", "partition", "topic", "headers"} & value.keys() or {"offset", "partition", "topic"} <= inside.keys()):
        return None, name, value, value is document
    text = _plain(value.get("key"))
    _, key = without_schema(parsed(text))
    # a value alone, as ExtractField leaves it, names no column, and neither does text that is no JSON
    bare = key is not None or (isinstance(text, str) and parsed(text) is None and text.strip() != "null")
    names = key_columns(key) if isinstance(key, dict) else None if bare else ()
    sent = _plain(value.get("value", value.get("payload")))
    own_key = names if value.get("key", LEAF) != LEAF else None
    # Connect's JSON without schemas writes a null value as text
    sent = None if isinstance(sent, str) and sent.strip() == "null" else sent
    place = {**value, **inside}
    record = Record(str(place.get("topic") or ""), place.get("offset") is not None, own_key, sent is not None)
    inner = parsed(sent)
    name, content = without_schema(inner)
    return record, name, None if not isinstance(content, dict) or content.keys() == {"b64"} else content, content is inner


def _plain(value: Any) -> Any:
    """Return a value, or the text whose base64 it is (`spark/input/kafka.py`)."""
    if not isinstance(value, str) or not value.startswith("e"):
        return value
    try:
        text = base64.b64decode(value, validate=True).decode()
    except ValueError:
        return value
    return text if text.startswith("{") else value


def key_columns(key: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of a record's key, without what only routes the record."""
    return tuple(name for name in key if name not in ROUTING)


def rows(value: Mapping[str, Any], plain: PlainRow) -> tuple[str, Iterable[Row]]:
    """Return a value's envelope ("" for records that hold no rows) and the changes in it. `plain` reads a plain row."""
    envelope, _, rows_of = next(entry for entry in _ENVELOPES if entry[1](value))
    return envelope, (plain if envelope == "flat" else rows_of)(value)


def _has_image(value: Mapping[str, Any]) -> bool:
    """Return whether the images are rows. A table may have columns of these names."""
    image = value.get("after") or value.get("before")
    return image is None or isinstance(parsed(image), dict)


def _debezium(value: Mapping[str, Any]) -> Iterator[Row]:
    source = value["source"] if isinstance(value.get("source"), dict) else {}
    # MySQL has databases instead of schemas, Vitess and Scylla keyspaces, MongoDB collections instead of tables
    above = next((source[name] for name in ("schema", "db", "keyspace", "keyspace_name") if source.get(name)), "")
    named = source.get("table") or source.get("table_name")
    # one connector of SQL Server reads several databases
    database = source.get("db") if source.get("connector") == "sqlserver" and above != source.get("db") else ""
    table = ".".join(str(part) for part in (database, above, named) if part) if named else str(source.get("collection") or "")
    # MongoDB's connector writes documents as text
    row = parsed(value.get("after") or value.get("before"))
    if isinstance(row, dict):
        connector = str(source.get("connector") or "")
        # the keys of its Kafka records call it `id`
        key, key_from = (("_id",), "the _id of the documents") if connector == "mongodb" else (None, "")
        yield Row(table, value["op"], row, row if value["op"] == "d" else {}, key, key_from, connector)


def _wal2json_1(value: Mapping[str, Any]) -> Iterator[Row]:
    for change in value["change"]:
        if isinstance(change, dict) and change.get("kind") in ("insert", "update", "delete"):
            row = dict(zip(change.get("columnnames") or (), change.get("columnvalues") or ()))
            keys = change.get("oldkeys") or {}
            old = dict(zip(keys.get("keynames") or (), keys.get("keyvalues") or ()))
            yield _wal2json(change, change["kind"][0], row, old, (change.get("pk") or {}).get("pknames"))


def _wal2json_2(value: Mapping[str, Any]) -> Iterator[Row]:
    row, old = ({column["name"]: column.get("value") for column in value.get(part) or ()} for part in ("columns", "identity"))
    if value["action"] != "T":
        yield _wal2json(value, value["action"].lower(), row, old, [column["name"] for column in value.get("pk") or ()])


def _wal2json(change: Mapping[str, Any], kind: str, row: dict[str, Any], old: Mapping[str, Any], primary: Sequence[str] | None) -> Row:
    # REPLICA IDENTITY FULL names all columns, or all that are not null; a delete alone does not show whether its old key is all of them
    key = primary or (old if len(old) < sum(value is not None for value in row.values()) else ())
    op, table = {"i": "c"}.get(kind, kind), f"{change.get('schema')}.{change.get('table')}"
    return Row(table, op, row, old if op == "d" else {}, tuple(key) or None, PRIMARY_KEY if primary else OLD_KEYS)


def _change_event(value: Mapping[str, Any]) -> Iterator[Row]:
    row = dict(zip(value.get("columnNames") or (), value.get("columnValues") or ()))
    old = dict(zip(value.get("oldKeyNames") or (), value.get("oldKeyValues") or ()))
    kind = str(value["changeType"]).lower()[:1]
    table = ".".join(str(value[part]) for part in ("schema", "table") if value.get(part))
    yield Row(table, {"i": "c"}.get(kind, kind), row, old if kind == "d" else {}, tuple(value.get("oldKeyNames") or ()) or None, "oldKeyNames")


def flat(value: Mapping[str, Any], column: str | None = None, codes: Mapping[str, str] = OPERATIONS) -> Iterator[Row]:
    """Yield the change that a plain row describes. `column`: that of its operation, as in `op`; `codes`: code → meaning."""
    named = flat_rows.operation_names(None) if column is None else (name for name in value if name.lower() == column.lower())
    code = next((str(value[name]) for name in named if value.get(name)), "c").strip().lower()
    if code == flat_rows.MESSAGE not in codes and flat_rows.OPERATION in value and column in (None, flat_rows.OPERATION):
        return
    deleted = str(value.get("__deleted")).lower() == "true" or codes.get(code) == "d"
    op = "d" if deleted else codes.get(code, "u")
    if op in "crud":
        yield Row(flat_rows.table_name(value), op, dict(value), value if deleted else {})


_FOREIGN: tuple[tuple[str, str, str, str], ...] = (
    ("CloudEventsConverter", "specversion iodebeziumop", "", ""),
    ("CloudEventsConverter", "specversion datacontenttype", "data", "before after"),
    ("TiCDC", "commitTs type version", "data", ""),
    ("TiCDC", "commitTs type version", "tableSchema", ""),
    ("Maxwell", "database table type ts xid", "data", ""),
    ("Maxwell", "database table type ts sql", "def", ""),
    ("Canal", "database table type es pkNames", "", ""),
    ("GoldenGate", "op_type op_ts", "after", ""),
    ("GoldenGate", "op_type op_ts", "before", ""),
    ("AWS DMS", "data metadata", "metadata", "record-type"),
    ("Datastream", "source_metadata payload read_method", "payload", ""),
    ("Striim", "metadata data userdata", "metadata", "OperationName"),
    ("Qlik Replicate", "magic message", "message", "data headers"),
    ("Qlik Replicate", "data beforeData headers", "headers", "operation"),
)
"""Envelopes that are not read: (program, members of a record, a member that is an object, members of that object)."""


def foreign(value: Mapping[str, Any]) -> str:
    """Return the program whose envelope a value has, if that is none that compactor reads; else ""."""
    for program, members, nested, inside in _FOREIGN:
        inner = value.get(nested) if nested else {}
        if value.keys() >= {*members.split()} and isinstance(inner, dict) and inner.keys() >= {*inside.split()}:
            return program
    return ""


def _none(_: Mapping[str, Any]) -> Iterator[Row]:
    return iter(())


_WAL2JSON_MARKER = frozenset({"action", "xid", "timestamp", "lsn", "nextlsn", "schema", "table", "transactional", "prefix", "content", "origin"})

_ENVELOPES: tuple[tuple[str, Callable[[Mapping[str, Any]], bool], PlainRow], ...] = (
    ("debezium", lambda v: v.get("op") in ("c", "u", "d", "r", LEAF) and v.get("after", v.get("before", LEAF)) != LEAF and _has_image(v), _debezium),
    ("wal2json", lambda v: isinstance(v.get("change"), list), _wal2json_1),
    ("wal2json", lambda v: v.get("action") in ("I", "U", "D", "T") and ("columns" in v or "identity" in v), _wal2json_2),
    ("change-event", lambda v: "changeType" in v and ("columnNames" in v or "oldKeyNames" in v), _change_event),
    # wal2json's transactions, Debezium's messages, heartbeats, transactions and schema changes
    ("", lambda v: v.get("action") in ("B", "C", "M", "T") and v.keys() <= _WAL2JSON_MARKER, _none),
    ("", lambda v: v.get("op") in ("m", "t", LEAF) and "source" in v, _none),
    ("", lambda v: v.keys() <= {"ts_ms", "ts_us", "ts_ns"} or v.keys() == {"resolved"} or v.keys() >= {"status", "id", "event_count"}, _none),
    ("", lambda v: v.keys() >= {"databaseName", "ddl"}, _none),
    ("flat", lambda v: True, flat),
)
"""Each envelope as (name, predicate, its rows). The first entry whose predicate holds applies; "" names records without rows."""
