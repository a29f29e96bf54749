"""An oracle: the captured changes applied one by one in plain Python, as slowly and plainly as possible.

`replay(form, hour)` gives every table's rows at the end of an hour as `compactor sql --output json` would print them, for every
family of forms that `truth.IMPOSSIBLE` names. It shares no code with the compactor.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from . import config, landing, truth
from .stream import streamed

PLACEHOLDER = "__debezium_unavailable_value"
_BYTES = base64.b64encode(PLACEHOLDER.encode()).decode()
_PLACEHOLDERS: tuple[Any, ...] = (
    PLACEHOLDER,
    _BYTES,
    [PLACEHOLDER],
    list(PLACEHOLDER.encode()),
    json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")),
)
# A default that PostgreSQL computes is described by a made-up constant: never the value of an old row.
_MADE_UP = ("1970-01-01T00:00:00.000000Z", "00000000-0000-0000-0000-000000000000")

Row = dict[str, Any]


@dataclass
class Event:
    """One change: rows are JSON-ready; columns are those the writer knew; defaults are its schema's."""

    op: str
    before: Row | None
    after: Row | None
    position: tuple[int, ...]
    identity: tuple[Any, ...] | None
    moment: tuple[Any, ...]
    defaults: Row = field(default_factory=dict)


@dataclass
class Table:
    """A table being replayed: rows by key, or a list of rows where there is no key."""

    key: tuple[str, ...]
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    bag: list[Row] = field(default_factory=list)
    columns: frozenset[str] | None = None
    seen: set[tuple[Any, ...]] = field(default_factory=set)
    moved: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Apply the next event in order."""
        if event.identity is not None:
            if event.identity in self.seen:
                return
            self.seen.add(event.identity)
        if event.op == "t":
            self.rows.clear()
            self.bag.clear()
            return
        if event.after is not None:
            self._follow_columns(event.after, event.defaults)
        if not self.key:
            self._apply_to_bag(event)
        elif event.op == "d":
            assert event.before is not None
            self.moved[event.moment] = self.rows.pop(self._key_of(event.before), {})
        else:
            assert event.after is not None
            key = self._key_of(event.after)
            older = self.rows.get(key) or self.moved.get(event.moment) or {}
            self.rows[key] = {name: older.get(name) if value in _PLACEHOLDERS else value for name, value in event.after.items()}

    def _key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[column] for column in self.key)

    def _follow_columns(self, after: Row, defaults: Row) -> None:
        """A column that appears gives old rows its default of that moment; one that goes is gone from all rows."""
        columns = frozenset(after)
        if self.columns is not None and columns != self.columns:
            for row in (*self.rows.values(), *self.bag):
                for gone in self.columns - columns:
                    row.pop(gone, None)
                for new in columns - self.columns:
                    row[new] = None if defaults.get(new) in _MADE_UP else defaults.get(new)
        self.columns = columns

    def _apply_to_bag(self, event: Event) -> None:
        if event.before is not None and event.before in self.bag:
            self.bag.remove(event.before)
        if event.after is not None:
            self.bag.append(dict(event.after))


@cache
def replay(form: str, hour: int) -> dict[str, list[Row]]:
    """Every table's rows, column names as in the view, after all changes of the hours 0 to `hour`."""
    kind = truth.family(form)
    if kind in landing.WAL2JSON:
        return streamed(kind, hour)
    found = {}
    for name, source in landing.tables().items():
        spelling = config.avro_name if kind in ("debezium_avro", "debezium_parquet") else str
        table = Table(tuple(spelling(column) for column in config.keys()[name]))
        events = [event for past in range(hour + 1) for event in _events(kind, source, past)]
        for event in sorted(events, key=lambda event: event.position):
            table.apply(event)
        rows = list(table.rows.values()) if table.key else table.bag
        found[name] = [{config.stored_name(column): value for column, value in row.items()} for row in rows]
    return found


def _events(kind: str, source: str, hour: int) -> Iterator[Event]:
    if kind in ("debezium_avro", "debezium_parquet"):
        yield from _avro_events(source, hour, with_defaults=kind == "debezium_avro")
        return
    stream = "debezium_flat" if kind == "flat" else "debezium_json"
    for record in landing.records(stream, hour).get(landing.topic_suffix(source), []):
        if record["value"] is None:
            continue
        value = json.loads(record["value"], parse_float=Decimal)
        if kind == "flat":
            yield _flat_event(value, record["offset"])
        elif kind == "debezium_json_noschema":
            yield _envelope_event(value["payload"], record["offset"], value["payload"]["before"], value["payload"]["after"], {})
        else:
            yield _schema_event(value, record["offset"])


def _flat_event(value: Row, offset: int) -> Event:
    """A flattened change: whole rows, nothing to tell a repeated one by, and an update does not say what was there before."""
    commit, lsn = json.loads(value["__source_sequence"])
    row = {name: content for name, content in value.items() if not name.startswith("__")}
    gone = value["__op"] == "d"
    moment = (value["__source_txId"], value["__lsn"])
    return Event(value["__op"], row if gone else None, None if gone else row, (int(commit or -1), int(lsn), offset), None, moment)


def _envelope_event(payload: Row, offset: int, before: Row | None, after: Row | None, defaults: Row) -> Event:
    source = payload["source"]
    commit, lsn = json.loads(source["sequence"])
    order = (payload.get("transaction") or {}).get("total_order", -1)
    place = (int(commit or -1), int(lsn), int(order))
    moment = (source["txId"], source["lsn"])
    return Event(payload["op"], before, after, (*place, offset), None if payload["op"] == "r" else place, moment, defaults)


def _schema_event(value: Row, offset: int) -> Event:
    fields = next(part for part in value["schema"]["fields"] if part["field"] == "after")["fields"]
    schemas = {part["field"]: part for part in fields}
    payload = value["payload"]

    def shown(row: Row | None) -> Row | None:
        return None if row is None else {name: _connect(content, schemas[name]) for name, content in row.items()}

    defaults = {name: _connect(part["default"], part) for name, part in schemas.items() if "default" in part}
    return _envelope_event(payload, offset, shown(payload["before"]), shown(payload["after"]), defaults)


def _connect(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value of Kafka Connect's JSON with its schema, as the view shows it."""
    if value is None or value in _PLACEHOLDERS:
        return value
    name = schema.get("name", "")
    if name == "org.apache.kafka.connect.data.Decimal":
        return _decimal(value, int(schema["parameters"]["scale"]))
    if name == "io.debezium.data.VariableScaleDecimal":
        return _decimal(value["value"], value["scale"])
    if name == "io.debezium.time.Date":
        return _day(value)
    if name in ("io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"):
        seconds, micros = divmod(value * (1000 if name.endswith(".Timestamp") else 1), 1_000_000)
        days, second = divmod(seconds, 86_400)
        return f"{_day(days)}T{_clock(second)}.{micros:06}Z"
    if name == "io.debezium.time.MicroTime":
        return f"{_clock(value // 1_000_000)}.{value % 1_000_000:06}"
    if schema["type"] == "array":
        return [_connect(member, schema["items"]) for member in value]
    return value


def _decimal(text: str, scale: int) -> Decimal:
    whole = int.from_bytes(base64.b64decode(text), "big", signed=True)
    return Decimal((int(whole < 0), tuple(int(digit) for digit in str(abs(whole))), -scale))


def _clock(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _day(days: int) -> str:
    """The ISO date of a day of any year, the years before 1 as 0000, -0001, ..."""
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _avro_events(source: str, hour: int, *, with_defaults: bool) -> Iterator[Event]:
    """The container files: no offsets, so a row's place among all rows of the hour stands for it. Parquet keeps no defaults."""
    import fastavro

    place = hour * 1_000_000
    for path in landing.avro_files(source, hour):
        with path.open("rb") as content:
            reader = fastavro.reader(content)
            defaults = _avro_defaults(reader.writer_schema) if with_defaults else {}
            for payload in reader:
                assert isinstance(payload, dict)
                place += 1
                yield _envelope_event(payload, place, _avro_shown(payload["before"]), _avro_shown(payload["after"]), defaults)


def _avro_defaults(schema: Any) -> Row:
    before = next(part for part in schema["fields"] if part["name"] == "before")
    (row,) = (branch for branch in before["type"] if branch != "null")
    usable = (bool, int, float, str)
    return {part["name"]: part["default"] for part in row["fields"] if isinstance(part.get("default"), usable)}


def _avro_shown(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _avro_shown(content) for name, content in value.items()}
    if isinstance(value, list):
        return [_avro_shown(content) for content in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), Decimal(repr(value)))
    return value
