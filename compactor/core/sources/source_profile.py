"""Infer envelope, container, key and columns of a source from the first records of a few landed files, or from an Avro schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from compactor.core.model.envelopes import ENVELOPES, Envelope
from compactor.core.model.position import OFFSETS
from compactor.core.model.spec import OPERATIONS, TableSpec
from compactor.core.schema import avro
from compactor.core.sources import increment, records, value_forms
from compactor.core.sources.flat_rows import DELETED, OPERATION, PLAIN_OPERATION, connector, operation_names, source_columns
from compactor.core.sources.key_inference import RowSample
from compactor.core.sources.records import PlainRow
from compactor.core.sources.value_forms import CSV_FORMS, DECIMAL, JSON_FORMS, wide_enough

_WRAPPED = ("debezium", "wal2json", "change-event")
"""Envelopes that a few records show."""

_ADDED = {"flat": re.compile(r"__.*|op", re.IGNORECASE), "dms": re.compile(r"op|transact_id|ar_h_.*", re.IGNORECASE)}
"""Columns of plain rows that say something about the change: the operation, its place in the source."""

_NAMED_OPERATION = re.compile(
    r"(.*/)?_*(header_*|odq_)?(cdc_?|dml_?|change_?|event_?|row_?)?(op|operation|action|kind|type|oper|mode)(_?(type|code))?[$]?", re.IGNORECASE
)
_PAST = {"created": "c", "inserted": "c", "updated": "u", "modified": "u", "deleted": "d", "removed": "d", "remove": "d"}
"""Codes that an event's own column may well have."""
_CODES = {
    **OPERATIONS,
    **_PAST,
    **dict.fromkeys(("+i", "insert_event"), "c"),
    **dict.fromkeys(("+u", "un", "update_postimage", "update_after", "update_event", "update-insert"), "u"),
    **dict.fromkeys(("-d", "delete_event", "update-delete"), "d"),
    **dict.fromkeys(("b", "-u", "uo", "uu", "update_preimage", "update_before"), "ignore"),
}
"""Codes of operations as programs write them, in lower case: Flink's row kinds, the change feeds of Delta and Iceberg, Oracle's change tables, Qlik,
Informatica, Datastream. A row before an update is ignored."""
_INSERTS = {"i", "insert", "+i", "insert_event"}
_SQL_SERVER, _SQL_SERVER_CODES = "__$operation", {"1": "d", "2": "c", "3": "ignore", "4": "u"}
"""The operation in SQL Server's own change tables. 3 is the row before an update."""

_DELETED = re.compile(r"(?:.*_|is|)(?:deleted|removed)(?P<time>_?(?:at|on|date|time|ts))?", re.IGNORECASE)
_TRUE = re.compile("true|t|yes|y|1|x|d", re.IGNORECASE)

_DEPTH_MAX = 4


@dataclass(frozen=True)
class FileSample:
    """The first records of a landed file."""

    documents: Sequence[Any]
    """JSON-like values. Of a CSV file: its inserted rows by column, an empty value is None."""
    columns: Sequence[str] = ()
    """The columns of a CSV file without DMS's operation; `column_1` and so on where nothing names them."""
    csv: Mapping[str, Any] | None = None
    """Value for `csv:`, with `columns` where nothing names them. None if it is no CSV file."""
    quoted: bool = False
    """Whether a CSV file has empty values in quotes only."""
    format: str = "json"
    """What it was read as: by its table's `format`, its name, or else its content."""
    opaque: bool = False
    """Whether only Spark can unpack it."""


ReadSample = Callable[[str, bytes, int, Optional[TableSpec]], FileSample]
"""Return the first records of a file (path, content, number of records, its table if it has one). Raises ValueError, OSError, EOFError or zlib.error
if it cannot be read."""


@dataclass
class SourceProfile:
    """The properties of one source table, as far as they can be inferred."""

    table: str = ""
    """`schema.table` as the records name it; "" when they do not."""
    topic: str = ""
    """Kafka topic, if the records or the file names show it."""
    envelope: str = "flat"
    container: str = "value"
    connector: str = ""
    format: str = ""
    """Value for `format:`, if the names of the files do not show it."""
    subject: str = ""
    """The registry's subject of its values, if a registry has their schema."""
    key: tuple[str, ...] | None = None
    """Key columns; () when the records have no key, None when the key is unknown."""
    key_from: str = ""
    """Where `key` comes from, for the comment in the file."""
    keys_differ: bool = False
    """Whether records have keys of different columns."""
    columns: tuple[str, ...] = ()
    foreign: str = ""
    """The program whose envelope its records have, if that is none that compactor reads."""
    members: dict[str, set[str]] = field(default_factory=dict, repr=False)
    """Column with objects, or arrays of them → the members of these, in lower case."""
    has_offsets: bool = False
    """Whether every record has a Kafka offset."""
    tombstones: bool = False
    """Whether its topic has keys without value."""
    opaque: bool = False
    """Whether there are records whose value cannot be read here, such as Avro bytes, or text that only Spark can unpack."""
    csv: dict[str, Any] = field(default_factory=dict)
    """Value for `csv:`. `columns` holds placeholders when the files have no header."""
    quoted: bool = False
    """Whether CSV files have empty values in quotes only, which are text and not null."""
    csv_width: int = 0
    """Values in the first row of a CSV file, without DMS's operation; 0 if no CSV file was read."""
    forms: Sequence[str] = ()
    """What values may stand for: CSV_FORMS in CSV files with a header, JSON_FORMS in JSON rows without schema."""
    sample: RowSample = field(default_factory=RowSample, repr=False)
    """Its rows, for the inference of the key and of types."""

    @property
    def source(self) -> Envelope:
        """What the source can do, by its envelope."""
        return ENVELOPES[self.envelope]

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns without those that describe the change, such as the operation or a before image. None of those identifies a row."""
        before, added = self.source.before_prefix, _ADDED.get(self.envelope)
        images = {before + name for name in self.columns} if before else set()
        return tuple(name for name in self.columns if name not in images and not (added and added.fullmatch(name)))

    @property
    def ordered(self) -> bool:
        """Whether the records carry what orders them, so that `order_by` is not needed."""
        return not self.source.order_columns or self.has_offsets or connector(source_columns(self.columns)) is not None

    @property
    def likely_operation(self) -> dict[str, Any]:
        """Return `op` and `op_map` for rows whose operation has another name than those that are looked for; nothing if no column looks like it."""
        if self.envelope != "flat" or {OPERATION, DELETED, *PLAIN_OPERATION} & {*self.columns}:
            return {}
        if _SQL_SERVER in self.columns:
            return {"op": _SQL_SERVER, "op_map": _SQL_SERVER_CODES}
        for name in self.columns:
            codes = {text: _CODES.get(text.lower(), "") for text in sorted({str(value).strip() for value in self.values(name)})}
            meanings, inserts = {*codes.values()}, {*map(str.lower, codes)} & _INSERTS
            if "" not in meanings and meanings & {"u", "d"} and (_NAMED_OPERATION.fullmatch(name) or inserts or meanings >= {"c", "u", "d"}):
                others = {text: meaning for text, meaning in codes.items() if text.lower() not in OPERATIONS}
                return {"op": name, **({"op_map": others} if others else {})}
        return {}

    @property
    def certain_operation(self) -> bool:
        """Whether `likely_operation` is hardly a column of the row, such as a grade or a permission."""
        name = str(self.likely_operation.get("op", ""))
        codes = {str(value).strip().lower() for value in self.values(name)}
        return name == _SQL_SERVER or (bool(_NAMED_OPERATION.fullmatch(name) or codes & _INSERTS) and not codes & _PAST.keys())

    @property
    def likely_deletes(self) -> str:
        """Return a condition for `delete_when`, by a column that is named like a mark of deleted rows; "" without one."""
        marks = [mark for name in self.columns if name != DELETED and (mark := _DELETED.fullmatch(name))]
        if not marks or self.envelope != "flat":
            return ""
        name, values = marks[0].group(), {value for value in self.values(marks[0].group()) if not isinstance(value, bool)}
        if marks[0]["time"]:
            return f"{name} IS NOT NULL"
        if texts := [value for value in values if isinstance(value, str)]:
            return f"{name} = '{next((text for text in texts if _TRUE.fullmatch(text)), 'true')}'"
        return f"{name} = 1" if values else name

    def loses_deletes(self, op: str | None, order_by: Sequence[str]) -> bool:
        """Return whether the deletes are tombstones that count as ignored: beside an operation, in an order of more than offsets (`decode/flat.py`).

        `op`, `order_by`: those of the table.
        """
        return self.tombstones and self.would_lose_deletes(op, order_by)

    def would_lose_deletes(self, op: str | None, order_by: Sequence[str]) -> bool:
        """Return whether `loses_deletes` would be true once a row is deleted, unless the connector then writes the row."""
        marked = self.envelope != "flat" or DELETED in self.columns or self.sample.gone
        if marked or not {*operation_names(op)} & {*self.columns}:
            return False
        return not {*order_by} <= {*OFFSETS} if order_by else connector(source_columns(self.columns)) is not None

    @property
    def is_signal_table(self) -> bool:
        """Whether the columns are those of Debezium's signal table, which holds commands to the connector."""
        return {*self.columns} == {"id", "type", "data"}

    def add(self, row: records.Row) -> None:
        """Add a row's columns, and its values if the row was inserted."""
        self.columns = tuple(dict.fromkeys([*self.columns, *row.columns]))
        for name, value in row.columns.items():
            inner = next(iter(value), None) if isinstance(value, list) else value
            if isinstance(inner, dict):
                self.members.setdefault(name, set()).update(map(str.lower, inner))
        if row.op in ("c", "r"):
            self.sample.add(row.columns, row.op == "r")
        elif row.op == "d":
            self.sample.remove(row.old, image=self.source.from_connector)
        else:
            self.sample.update(row.columns)

    def values(self, column: str) -> list[Any]:
        """Return the sampled values of a column that are not null. Images of deleted rows do not count, as they may hold fillers."""
        return [value for rows in (*self.sample.files, self.sample.changed) for row in rows if (value := row.get(column)) is not None]

    def likely(self, words: Sequence[str]) -> dict[str, str]:
        """Return column → the one of `words` (`value_forms`) that its values most likely are. Columns that a connector added have a known meaning."""
        possible = [word for word in words if word in self.forms]
        likely = {name: value_forms.word(name, self.values(name), possible) for name in self.columns if possible and not name.startswith("__")}
        return {name: wide_enough(self.values(name)) if word == DECIMAL else word for name, word in likely.items() if word}

    def example(self, column: str) -> Any:
        return self.values(column)[0]


Profiles = dict[str, SourceProfile]
"""Profiles by `schema.table`; "" where records name no table, `?topic` where they cannot be read."""


def several_tables(spec: TableSpec, profiles: Iterable[SourceProfile]) -> str:
    """Return that the records of a table without `source_table` are of several tables, and what to do; "" if they are not."""
    names = [profile.table for profile in profiles if profile.table]
    if spec.source_table or len(names) < 2:
        return ""
    return (
        f"the sampled records are of several source tables: {', '.join(names[:10])}. Set `source_table:` to the one that {spec.name} is, or to "
        "all of them, with commas or *, if they are its partitions"
    )


def other_envelope(spec: TableSpec, profiles: Collection[SourceProfile]) -> str:
    """Return how the envelope of the records differs from the table's, as a sentence; "" if it does not, or if the records do not show theirs."""
    if program := next((each.foreign for each in profiles if each.foreign), ""):
        return f"the records look like {program}'s, which are not read"
    key = {name.lower() for name in spec.key}
    # what looks like rows, and lacks the key or has objects, may have an envelope that nobody knows here
    rows = [each for each in profiles if each.envelope == "flat" and not each.members and key <= {name.lower() for name in each.columns}]
    shown = {each.envelope for each in profiles if not each.opaque and (each.envelope != "flat" or each in rows)}
    # rows of DMS are plain rows: whoever sets their order reads them as such
    unordered = spec.envelope == "flat" and not spec.order_by
    others = {name for name in shown if name in _WRAPPED or spec.envelope in _WRAPPED or (name == "dms" and unordered)} - {spec.envelope}
    if others:
        return f"the records look like `envelope: {min(others)}`, expected {spec.envelope}; set `envelope:`"
    if spec.envelope in _WRAPPED and profiles and not shown and not any(each.opaque for each in profiles):
        return f"the records are not in `envelope: {spec.envelope}`, and their own is unknown"
    return ""


def of_file(path: str, file: FileSample, profiles: Profiles, plain: PlainRow = records.flat) -> None:
    """Add what a file shows to `profiles`. `plain` reads a plain row."""
    for profile in profiles.values():
        profile.sample.next_file()
    if file.csv is not None:
        of_csv(file, profiles.setdefault("", SourceProfile()), plain)
    elif file.opaque:
        profiles.setdefault("", SourceProfile(opaque=True))
    else:
        of_documents(file.documents, profiles, typed=file.format in ("avro", "parquet"), plain=plain)
    name = path.rpartition("/")[2]
    for profile in profiles.values():
        profile.format = "" if increment.file_format(path) else file.format
        if profile.source.plain_rows and increment.is_dms(path):
            profile.envelope = "dms"
        # Kafka Connect's sinks name files <topic>+<partition>+<offset>
        profile.topic = profile.topic or (name.split("+")[0] if name.count("+") >= 2 else "")


def of_csv(file: FileSample, profile: SourceProfile, plain: PlainRow) -> None:
    """Add the head of a CSV file to a profile: its dialect and its rows."""
    profile.csv, profile.csv_width, profile.quoted = dict(file.csv or {}), len(file.columns), profile.quoted or file.quoted
    if "columns" in profile.csv:
        for row in file.documents:
            profile.sample.add(row)
        return
    profile.columns, profile.forms = tuple(dict.fromkeys([*profile.columns, *file.columns])), CSV_FORMS
    for row in (change for values in file.documents for change in plain(values)):
        profile.add(row)


def of_avro(text: str) -> SourceProfile | None:
    """Return the profile of an Avro schema of values, None for Debezium's own records. Raises SchemaRefused for a schema that is no record."""
    return next(iter(of_documents([example(text)]).values()), None)


def example(text: str) -> dict[str, Any]:
    """Return an example document of an Avro schema with its name, as Kafka Connect's JSON converter writes it. Raises SchemaRefused."""
    schema = avro.parse(text)

    def value(kind: Any, depth: int) -> Any:
        definition = schema.present(kind)
        if definition["type"] != "record" or depth > _DEPTH_MAX:
            return records.LEAF
        return {member["name"]: value(member["type"], depth + 1) for member in definition["fields"]}

    # raises when the root is no record
    schema.row()
    root = schema.present(schema.root)
    return {"schema": {"name": root.get("connect.name") or root.get("name")}, "payload": value(schema.root, 0)}


def of_documents(documents: Iterable[Any], profiles: Profiles | None = None, typed: bool = False, plain: PlainRow = records.flat) -> Profiles:
    """Add documents, whole Kafka records or their values, to `profiles` and return them. `typed`: the format shows what their values mean."""
    profiles = {} if profiles is None else profiles
    emptied = set[str]()
    for document in documents:
        record, name, value, bare = records.unwrapped(document)
        if record and value is None and record.has_value:
            # Avro's bytes, or text that is no JSON
            opaque = SourceProfile(topic=record.topic, container="kafka", has_offsets=record.has_offset, opaque=True)
            profiles.setdefault(f"?{record.topic}", opaque)
        elif isinstance(value, dict) and not records.INTERNAL.match(name):
            _add_value(value, record, name, profiles, bare and not typed, plain)
        elif record and not record.has_value and record.key != ():
            emptied.add(record.topic)
    for profile in profiles.values():
        profile.tombstones = profile.tombstones or profile.topic in emptied
    return profiles


def _add_value(value: Mapping[str, Any], record: records.Record | None, name: str, profiles: Profiles, bare: bool, plain: PlainRow) -> None:
    """Add the rows of one value. `bare`: no schema gives the values their meaning."""
    envelope, rows = records.rows(value, plain)
    topic = (record.topic if record else "") or (name[: -len(".Envelope")] if name.endswith(".Envelope") else "")
    for row in rows:
        if row.table not in profiles:
            container = "kafka" if record else "value"
            offsets = bool(record and record.has_offset)
            profiles[row.table] = SourceProfile(row.table, topic, envelope, container, connector=row.connector, has_offsets=offsets)
        profile = profiles[row.table]
        profile.has_offsets = profile.has_offsets and bool(record and record.has_offset)
        key, key_from = row.key, row.key_from
        if record and record.key is not None and profile.source.record_key and row.connector != "mongodb":
            key, key_from = record.key, records.RECORD_KEYS
        if key is not None and (profile.key is None or key):
            profile.keys_differ = profile.keys_differ or (profile.key is not None and profile.key != key)
            # a renamed key column is missing from a few keys: the longest key counts
            profile.key, profile.key_from = max(profile.key or (), key, key=len), key_from
        profile.add(row)
        profile.foreign = profile.foreign or (records.foreign(value) if envelope == "flat" else "")
        if bare and envelope in ("debezium", "flat"):
            profile.forms = JSON_FORMS
