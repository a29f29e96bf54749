"""Infer envelope, container, key and columns of a source from a few landed files.

Every format becomes a sequence of JSON-like documents. A Parquet footer or an Avro schema becomes one example document, whose values are LEAF.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compactor.core.model.spec import TableSpec
from compactor.core.schema import avro, parquet_footer
from compactor.core.schema.parquet_footer import LEAF
from compactor.core.sources import csv_profile, increment, key_inference
from compactor.core.sources.encoded_values import EncodedValues
from compactor.core.sources.envelopes import ENVELOPES, Envelope
from compactor.core.sources.key_inference import RowSample

_ORDERED = ("__source_sequence", "__sequence", "__source_lsn", "__lsn", "__source_pos", "__pos", "__file", "__source_file")
"""Metadata columns of connectors that order changes."""

_WRAPPED = ("debezium", "wal2json", "change-event")
"""Envelopes that a few records show."""

_ADDED = {"flat": re.compile(r"__.*|op", re.IGNORECASE), "dms": re.compile(r"op|transact_id|ar_h_.*", re.IGNORECASE)}
"""Columns of plain rows that say something about the change: the operation, its place in the source."""

_JSON_BYTES = 1 << 26
_DEPTH_MAX = 4
_ROUTING = ("__dbz__physicalTableIdentifier",)
_INTERNAL = ("io.debezium.connector.common.Heartbeat", "io.debezium.connector.common.TransactionMetadata", "io.debezium.connector.schema.Change")
"""Schema names of Debezium's own records begin so. These records hold no rows."""


@dataclass
class SourceProfile:
    """The properties of one source table, as far as they can be inferred."""

    table: str = ""
    """`schema.table` as the records name it; "" when they do not."""
    topic: str = ""
    """Kafka topic, if the records or the file names show it."""
    envelope: str = "flat"
    """Value for `envelope:`."""
    container: str = "value"
    """Value for `container:`."""
    connector: str = ""
    """Debezium's connector, such as `postgresql`."""
    key: tuple[str, ...] | None = None
    """Key columns; () when the records have no key, None when the key is unknown."""
    key_from: str = ""
    """Where `key` comes from, for the comment in the file."""
    columns: tuple[str, ...] = ()
    """Columns in order of appearance."""
    has_offsets: bool = False
    """Whether every record has a Kafka offset."""
    opaque: bool = False
    """Whether there are records whose value cannot be read here, such as Avro bytes."""
    csv: dict[str, Any] = field(default_factory=dict)
    """Value for `csv:`. `columns` holds placeholders when the files have no header."""
    csv_width: int = 0
    """Values in the first row of a CSV file, without DMS's operation; 0 if no CSV file was read."""
    csv_types: dict[str, str] = field(default_factory=dict)
    """Column → `date` or `timestamp` if all its values in CSV files have that form, which is not inferred; else ""."""
    csv_foreign: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Column of CSV files whose values are numbers or dates in a form that stays text → (form, example)."""
    encoded: EncodedValues = field(default_factory=EncodedValues, repr=False)
    """The values of JSON rows without schema, which may stand for decimals, days and times."""
    sample: RowSample = field(default_factory=RowSample, repr=False)
    """Inserted rows, for the inference of the key."""

    @property
    def source(self) -> Envelope:
        """What the source can do, by its envelope."""
        return ENVELOPES[self.envelope]

    @property
    def candidates(self) -> tuple[str, ...]:
        """Columns that were never null and always different in the inserted rows of each file."""
        return key_inference.candidates(self.sample, self.row_columns)

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns without those that describe the change, such as the operation or a before image. None of those identifies a row."""
        before, added = self.source.before_prefix, _ADDED.get(self.envelope)
        images = {before + name for name in self.columns} if before else set()
        return tuple(name for name in self.columns if name not in images and not (added and added.fullmatch(name)))

    @property
    def ordered(self) -> bool:
        """Whether the records carry what orders them, so that `order_by` is not needed."""
        return not self.source.order_columns or self.has_offsets or bool({*_ORDERED} & {*self.columns})

    @property
    def is_signal_table(self) -> bool:
        """Whether the columns are those of Debezium's signal table, which holds commands to the connector."""
        return {*self.columns} == {"id", "type", "data"}

    def add(self, row: Mapping[str, Any], inserted: bool, read: bool = False) -> None:
        """Add a row's columns, and its values if the row was inserted. `read`: by a snapshot."""
        self.columns = tuple(dict.fromkeys([*self.columns, *row]))
        if inserted:
            self.sample.add(row, read)


Profiles = dict[str, SourceProfile]
"""Profiles by `schema.table`; "" where records name no table, `?topic` where they cannot be read."""


def other_envelope(spec: TableSpec, profiles: Iterable[SourceProfile]) -> str | None:
    """Return the envelope that the records have instead of the table's, None if the records agree with it or do not show theirs."""
    shown = {profile.envelope for profile in profiles if not profile.opaque}
    # rows of DMS are plain rows: whoever sets their order reads them as such
    unordered = spec.envelope == "flat" and not spec.order_by
    others = {name for name in shown if name in _WRAPPED or spec.envelope in _WRAPPED or (name == "dms" and unordered)}
    return min(others - {spec.envelope}, default=None)


def of_file(path: str, data: bytes, lines_max: int, profiles: Profiles) -> None:
    """Add what a file shows to `profiles`. Raises ValueError, OSError, EOFError, zlib.error or SchemaRefused when it cannot be read."""
    kind = increment.file_format(path) or "json"
    for profile in profiles.values():
        profile.sample.next_file()
    if kind == "csv":
        text = _text(path, data, csv_profile.BYTES)
        profiles[""] = of_csv(text if len(text) < csv_profile.BYTES else text.rpartition("\n")[0], path, profiles.get(""))
    elif kind == "parquet":
        of_documents([parquet_footer.columns(data)], profiles)
    elif kind == "avro":
        of_documents([_avro_document(avro.parse(avro.container_schema(data)))], profiles)
    else:
        of_documents(_json_lines(_text(path, data, _JSON_BYTES), lines_max), profiles)
    name = path.rpartition("/")[2]
    for profile in profiles.values():
        if profile.source.plain_rows and _is_dms(path):
            profile.envelope = "dms"
        # Kafka Connect's sinks name files <topic>+<partition>+<offset>
        profile.topic = profile.topic or (name.split("+")[0] if name.count("+") >= 2 else "")


def _is_dms(path: str) -> bool:
    return increment.is_full_load(path) or increment.is_dated_changes(path)


def _text(path: str, data: bytes, size: int) -> str:
    """Return the first `size` bytes of a text file, unpacked. Raises ValueError for a compression that only Spark reads."""
    if path.lower().endswith((".zst", ".snappy")):
        raise ValueError(f"{path}: only Spark reads this compression")
    if data[:2] == b"\x1f\x8b":
        data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(size)
    elif path.lower().endswith(".bz2"):
        data = bz2.BZ2Decompressor().decompress(data, size)
    return data[:size].decode("utf-8", "replace").lstrip("\ufeff")


def _json_lines(text: str, lines_max: int) -> Iterator[Any]:
    # not `splitlines`: a value may hold U+2028. An invalid line is for the run to report.
    return (document for line in text.split("\n")[:lines_max] if (document := _json(line)) is not None)


def _json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def of_avro(text: str) -> SourceProfile | None:
    """Return the profile of an Avro schema of values, None for Debezium's own records. Raises SchemaRefused for a schema that is no record."""
    return next(iter(of_documents([_avro_document(avro.parse(text))], {}).values()), None)


def _avro_document(schema: avro.AvroSchema) -> dict[str, Any]:
    """Return an example document with its schema's name, as Kafka Connect's JSON converter writes it."""

    def example(kind: Any, depth: int) -> Any:
        definition = schema.present(kind)
        if definition["type"] != "record" or depth > _DEPTH_MAX:
            return LEAF
        return {member["name"]: example(member["type"], depth + 1) for member in definition["fields"]}

    # raises when the root is no record
    schema.row()
    root = schema.present(schema.root)
    return {"schema": {"name": root.get("connect.name") or root.get("name")}, "payload": example(schema.root, 0)}


def of_csv(text: str, path: str, profile: SourceProfile | None = None) -> SourceProfile:
    """Add the head of a CSV file to a profile: its delimiter, whether it has a header, its rows, and columns with dates."""
    dms = _is_dms(path)
    head = csv_profile.head(text, dms)
    profile = profile or SourceProfile(envelope="dms" if dms else "flat")
    profile.csv = {} if head.delimiter == "," else {"delimiter": head.delimiter}
    profile.csv_width = len(head.columns)
    if not head.header:
        profile.csv = {"columns": list(head.columns), **profile.csv}
    elif dms:
        profile.csv = {"header": "true", **profile.csv}
    for row in head.rows:
        if head.header:
            profile.add(row, inserted=True)
        else:
            profile.sample.add(row)
    profile.columns = tuple(dict.fromkeys([*profile.columns, *head.columns])) if head.header else profile.columns
    profile.csv_foreign.update(csv_profile.foreign(head))
    for name, kind in csv_profile.types(head).items():
        profile.csv_types[name] = kind if profile.csv_types.get(name, kind) == kind else ""
    return profile


def of_documents(documents: Iterable[Any], profiles: Profiles | None = None) -> Profiles:
    """Add documents, whole Kafka records or their values, to `profiles` and return them."""
    profiles = {} if profiles is None else profiles
    for document in documents:
        name, value = _without_schema(document)
        base, bare = SourceProfile(), value is document
        if isinstance(value, dict) and _is_kafka_record(value):
            record = value
            inner = _json(sent := record.get("value", record.get("payload")))
            name, value = _without_schema(inner)
            bare = value is inner
            base = SourceProfile(topic=str(record.get("topic") or ""), container="kafka", has_offsets=record.get("offset") is not None)
            base.key, base.key_from = _record_key(record), "the keys of the Kafka records"
            if sent is not None and (value is None or not isinstance(value, dict) or value.keys() == {"b64"}):
                # Avro's bytes, or text that is no JSON
                profiles.setdefault(f"?{base.topic}", replace(base, opaque=True, key=None, key_from=""))
                continue
        if isinstance(value, dict) and not name.startswith(_INTERNAL):
            base.topic = base.topic or (name[: -len(".Envelope")] if name.endswith(".Envelope") else "")
            _add_value(value, base, profiles, bare)
    return profiles


def _add_value(value: Mapping[str, Any], base: SourceProfile, profiles: Profiles, bare: bool) -> None:
    """Add the rows of one value. `base` holds what the Kafka record around it shows. `bare`: no schema gives the values their meaning."""
    envelope, _, rows_of = next(entry for entry in _ENVELOPES if entry[1](value))
    for row in rows_of(value):
        profile = profiles.get(row.table)
        if profile is None:
            profile = replace(
                base, table=row.table, envelope=envelope, connector=row.connector, key=None, key_from="", sample=RowSample(), encoded=EncodedValues()
            )
            profiles[row.table] = profile
        profile.has_offsets = profile.has_offsets and base.has_offsets
        key, key_from = row.key, row.key_from
        if base.key is not None and profile.source.record_key:
            key, key_from = base.key, base.key_from
        if key is not None and (profile.key is None or key):
            # a renamed key column is missing from a few keys: the longest key counts
            profile.key, profile.key_from = max(profile.key or (), key, key=len), key_from
        profile.sample.old = max(profile.sample.old, row.old, key=len)
        profile.add(row.columns, row.inserted, row.read)
        if row.gone:
            profile.sample.remove(row.gone)
        # the image of a deleted row may hold fillers
        if bare and not row.old and envelope in ("debezium", "flat"):
            profile.encoded.add(row.columns)


def _without_schema(document: Any) -> tuple[str, Any]:
    """Return (name of the schema, payload) of a value in Kafka Connect's JSON wrapper, ("", document) of any other."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        schema = document["schema"]
        return str(schema.get("name") or "") if isinstance(schema, dict) else "", document["payload"]
    return "", document


def _is_kafka_record(document: Mapping[str, Any]) -> bool:
    return ("value" in document or "payload" in document) and bool({"offset", "partition", "topic", "headers"} & document.keys())


def _record_key(record: Mapping[str, Any]) -> tuple[str, ...] | None:
    if record.get("key", LEAF) == LEAF:
        return None
    _, key = _without_schema(_json(record["key"]))
    return tuple(name for name in key if name not in _ROUTING) if isinstance(key, dict) else ()


@dataclass(frozen=True)
class _Row:
    """One change of a row, as its envelope shows it. `key` is None when the envelope does not name it."""

    table: str
    columns: dict[str, Any]
    inserted: bool
    key: tuple[str, ...] | None = None
    key_from: str = ""
    connector: str = ""
    old: tuple[str, ...] = ()
    """Columns with a value in the image of a deleted row."""
    read: bool = False
    """Whether a snapshot read the row."""
    gone: Mapping[str, Any] = field(default_factory=dict)
    """What the record says about a row that it deletes."""


def _qualified(source: Mapping[str, Any], *parts: str) -> str:
    return ".".join(str(source[part]) for part in parts if source.get(part))


def _no_rows(_: Mapping[str, Any]) -> Iterator[_Row]:
    return iter(())


def _debezium(value: Mapping[str, Any]) -> Iterator[_Row]:
    source = value["source"] if isinstance(value.get("source"), dict) else {}
    # MySQL has databases instead of schemas, MongoDB collections instead of tables
    table = _qualified(source, "schema" if source.get("schema") else "db", "table") if source.get("table") else str(source.get("collection") or "")
    row = value.get("after") or value.get("before")
    if isinstance(row, dict):
        old = tuple(name for name, item in row.items() if item is not None) if value["op"] == "d" else ()
        connector, gone = str(source.get("connector") or ""), row if value["op"] == "d" else {}
        yield _Row(table, row, value["op"] in ("c", "r"), connector=connector, old=old, read=value["op"] == "r", gone=gone)


def _wal2json_1(value: Mapping[str, Any]) -> Iterator[_Row]:
    for change in value["change"]:
        if isinstance(change, dict) and change.get("kind") in ("insert", "update", "delete"):
            row = dict(zip(change.get("columnnames") or (), change.get("columnvalues") or ()))
            keys, primary = change.get("oldkeys") or {}, (change.get("pk") or {}).get("pknames")
            gone = dict(zip(keys.get("keynames") or (), keys.get("keyvalues") or ())) if change["kind"] == "delete" else {}
            yield replace(_wal2json(change, row, change["kind"] == "insert", keys.get("keynames"), primary), gone=gone)


def _wal2json_2(value: Mapping[str, Any]) -> Iterator[_Row]:
    names = {part: [column["name"] for column in value.get(part) or ()] for part in ("identity", "pk")}
    row = {column["name"]: column.get("value") for column in value.get("columns") or ()}
    if value["action"] != "T":
        gone = {column["name"]: column.get("value") for column in value.get("identity") or ()} if value["action"] == "D" else {}
        yield replace(_wal2json(value, row, value["action"] == "I", names["identity"], names["pk"]), gone=gone)


def _wal2json(change: Mapping[str, Any], row: dict[str, Any], inserted: bool, old: Sequence[str] | None, primary: Sequence[str] | None) -> _Row:
    table = f"{change.get('schema')}.{change.get('table')}"
    if primary:
        return _Row(table, row, inserted, tuple(primary), "wal2json's primary key")
    # REPLICA IDENTITY FULL names all columns; a delete alone does not show whether its old key is all of them
    is_key = old and row and len(old) < len(row)
    return _Row(table, row, inserted, tuple(old or ()) if is_key else None, "wal2json's old keys")


def _change_event(value: Mapping[str, Any]) -> Iterator[_Row]:
    row = dict(zip(value.get("columnNames") or (), value.get("columnValues") or ()))
    kind, old = str(value["changeType"]).lower()[:1], tuple(value.get("oldKeyNames") or ())
    gone = dict(zip(old, value.get("oldKeyValues") or ())) if kind == "d" else {}
    yield _Row(_qualified(value, "schema", "table"), row, kind in ("i", "c"), old or None, "oldKeyNames", gone=gone)


def _flat(value: Mapping[str, Any]) -> Iterator[_Row]:
    deleted = str(value.get("__deleted")).lower() == "true"
    code = str(value.get("__op") or value.get("op") or value.get("Op") or "c").lower()
    inserted = not deleted and code in ("c", "i", "r", "read", "snapshot", "insert", "create")
    gone = dict(value) if deleted or code in ("d", "delete") else {}
    yield _Row(str(value.get("__table") or ""), dict(value), inserted, read=code in ("r", "read", "snapshot"), gone=gone)


_WAL2JSON_MARKER = frozenset({"action", "xid", "timestamp", "lsn", "nextlsn", "schema", "table", "transactional", "prefix", "content", "origin"})

_ENVELOPES: tuple[tuple[str, Callable[[Mapping[str, Any]], bool], Callable[[Mapping[str, Any]], Iterator[_Row]]], ...] = (
    ("debezium", lambda v: v.get("op") in ("c", "u", "d", "r", LEAF) and v.get("after", v.get("before", LEAF)) != LEAF, _debezium),
    ("wal2json", lambda v: isinstance(v.get("change"), list), _wal2json_1),
    ("wal2json", lambda v: v.get("action") in ("I", "U", "D", "T") and ("columns" in v or "identity" in v), _wal2json_2),
    ("change-event", lambda v: "changeType" in v and ("columnNames" in v or "oldKeyNames" in v), _change_event),
    # wal2json's transactions, Debezium's messages, heartbeats and transactions
    ("", lambda v: v.get("action") in ("B", "C", "M", "T") and v.keys() <= _WAL2JSON_MARKER, _no_rows),
    ("", lambda v: v.get("op") in ("m", "t", LEAF) and "source" in v, _no_rows),
    ("", lambda v: v.keys() <= {"ts_ms", "ts_us", "ts_ns"} or v.keys() >= {"status", "id", "event_count"}, _no_rows),
    ("flat", lambda v: True, _flat),
)
"""Each envelope as (name, predicate, its rows). The first entry whose predicate holds applies; "" names records without rows."""
