"""Rows of a table before and after its source's schema changed in every way, as each kind of file has them.

The columns of three hours are told once, as Hive types and Python values; `land` writes them as JSON, CSV, Parquet, Avro, or as Debezium's envelopes.
"""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro

from compactor.core.model import types
from compactor.core.model.spec import TableSpec
from tests.spark.lake import Lake

DAY = datetime.timedelta(days=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
NOON = datetime.datetime(2024, 3, 6, 10, 11, 12, 13, tzinfo=datetime.timezone.utc)
ALIASES = {"label": "name"}
DEFAULTS = {"score": 7}
SYMBOLS = {1: ["ok", "sad"], 2: ["ok", "sad"], 3: ["mad", "ok", "sad"]}

BOX = "struct<x:int,list:array<struct<a:int,b:string>>>"
BOX_2 = "struct<x:bigint,list:array<struct<a:int,c:string>>>"
_WORDS = (
    "id bigint, seq bigint, wide int, text int, day date, narrow bigint, box BOX, name string, gone string, again int, mood string, mark string, code binary",
    # types grow, a date is a timestamp now, text is bytes and bytes are text, members come and go, and `again` is away
    "id bigint, seq bigint, wide bigint, text string, day timestamp, narrow bigint, box BOX_2, name string, gone string, mood string, mark binary, "
    "code string",
    # columns come, go, come back as something else, get another name and another order, and one is narrower
    "plus string, id bigint, seq bigint, day timestamp, wide bigint, text string, narrow int, box BOX_2, label string, again string, mood string, "
    "score int, mark binary, code string",
)
COLUMNS: Mapping[int, Mapping[str, str]] = {
    hour: {name: {"BOX": BOX, "BOX_2": BOX_2}.get(kind, kind) for name, kind in (word.split() for word in words.split(", "))}
    for hour, words in enumerate(_WORDS, 1)
}
"""Hour → column → type."""


def _old(n: int) -> dict[str, Any]:
    day = datetime.date(2024, 3, n)
    box = {"x": n, "list": [{"a": n, "b": f"b{n}"}]}
    return {
        "id": n,
        "wide": n,
        "text": n,
        "day": day,
        "narrow": n,
        "box": box,
        "name": f"n{n}",
        "gone": f"g{n}",
        "again": n,
        "mood": "ok",
        "mark": f"m{n}é",
        "code": b"c\xff",
    }


def _new(n: int) -> dict[str, Any]:
    box = {"x": 2**40 + n, "list": [{"a": n, "c": f"c{n}"}]}
    return {
        "id": n,
        "wide": 2**40 + n,
        "text": f"many {n}",
        "day": NOON + n * DAY,
        "narrow": n,
        "box": box,
        "name": f"n{n}",
        "mood": "sad",
        "mark": b"m\xfe",
        "code": f"c{n}é",
    }


ROWS: Mapping[int, Sequence[Mapping[str, Any]]] = {
    1: [_old(1), _old(2), _old(3)],
    2: [{**_new(2), "gone": "g"}],
    3: [{**_new(n), "plus": f"p{n}", "again": f"back {n}", "mood": "mad", "score": n} for n in (1, 4, 5)],
}
"""Hour → the rows that come, `label` told as `name`. 3 is touched once, in the first hour; 2 in the second; 1, 4 and 5 in the third."""


@dataclass(frozen=True)
class Form:
    """A kind of file. `lacks`: the columns that cannot tell there what they are for; `typed`: whether its files say what their columns are."""

    settings: Mapping[str, Any]
    lacks: tuple[str, ...] = ()
    typed: bool = True
    aliases: bool = False
    defaults: bool = False

    def columns(self, hour: int) -> dict[str, str]:
        """The columns that its files of an hour have."""
        plain = {value: name for name, value in ALIASES.items()}
        named = {ALIASES.get(name, name) if not self.aliases else name: kind for name, kind in COLUMNS[hour].items()}
        return {name: kind for name, kind in named.items() if plain.get(name, name) not in self.lacks and name not in self.lacks}


FLAT: Mapping[str, Any] = {}
DEBEZIUM: Mapping[str, Any] = {"envelope": "debezium", "order_by": ()}
FORMS = {
    "parquet": Form(FLAT),
    "avro": Form(FLAT, aliases=True, defaults=True),
    "debezium json": Form(DEBEZIUM, defaults=True),
    "debezium avro": Form(DEBEZIUM, aliases=True, defaults=True),
    # numbers have one type and dates none; a column that comes back is the same one, because nobody said what it was
    "json": Form(FLAT, lacks=("wide", "day", "narrow", "again", "mark", "code"), typed=False),
    # and nothing is nested
    "csv": Form(FLAT, lacks=("wide", "day", "narrow", "again", "mark", "code", "box"), typed=False),
}


def land(lake: Lake, spec: TableSpec, name: str, hour: int, rows: Sequence[Mapping[str, Any]] = (), columns: Mapping[str, str] | None = None) -> None:
    """The rows of an hour, or other ones, as files of that form."""
    form, columns = FORMS[name], columns or FORMS[name].columns(hour)
    rows = [
        {column: {**row, "seq": hour * 10 + row["id"]}.get(ALIASES.get(column, column)) for column in columns} for row in (rows or ROWS.get(hour, ()))
    ]
    if name == "parquet":
        lake.land_parquet(spec, hour, rows, ", ".join(f"{column} {kind}" for column, kind in columns.items()))
    elif name == "json":
        lake.land(spec, hour, [json.dumps(row) for row in rows])
    elif name == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([list(columns), *(row.values() for row in rows)])
        lake.land(spec, hour, out.getvalue().splitlines(), "part-0.csv")
    elif name == "avro":
        _avro(lake, spec, hour, {"type": "record", "name": "Row", "fields": _avro_fields(columns, hour, False)}, rows)
    else:
        images = [_debezium(row, text=name == "debezium json") for row in rows]
        events = [{"op": "u", "before": None, "after": image, "source": _source(image, form), "ts_ms": 1} for image in images]
        if name == "debezium json":
            lake.land(spec, hour, [{"schema": _connect_envelope(columns), "payload": event} for event in events])
        else:
            _avro(lake, spec, hour, _avro_envelope(columns, hour), events)


def _source(row: Mapping[str, Any], form: Form) -> dict[str, Any]:
    lsn = row["seq"]
    return {"connector": "postgresql", "schema": "public", "table": "t", "txId": lsn, "lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)])}


def _debezium(value: Any, text: bool) -> Any:
    """Dates as days, moments as microseconds or, in JSON, as text with a zone; bytes there in base64."""
    if isinstance(value, Mapping):
        return {name: _debezium(member, text) for name, member in value.items()}
    if isinstance(value, list):
        return [_debezium(item, text) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z") if text else (value - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, bytes) and text:
        return base64.b64encode(value).decode()
    return (value - EPOCH.date()) // DAY if isinstance(value, datetime.date) else value


_CONNECT = {
    "int": {"type": "int32"},
    "bigint": {"type": "int64"},
    "string": {"type": "string"},
    "binary": {"type": "bytes"},
    "date": {"type": "int32", "name": "io.debezium.time.Date"},
    "timestamp": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
}


def _connect(kind: types.Type) -> dict[str, Any]:
    if kind[0] == "array":
        return {"type": "array", "optional": True, "items": _connect(kind[1])}
    if kind[0] == "struct":
        return {"type": "struct", "optional": True, "fields": [{"field": name, **_connect(member)} for name, member in kind[1]]}
    return {"optional": True, **_CONNECT[kind[0]]}


def _connect_envelope(columns: Mapping[str, str]) -> dict[str, Any]:
    said = {name: {"default": DEFAULTS[name]} for name in DEFAULTS}
    fields = [{"field": name, **_connect(types.parse(kind)), **said.get(name, {})} for name, kind in columns.items()]
    images = [{"field": part, "type": "struct", "optional": True, "fields": fields} for part in ("before", "after")]
    return {"type": "struct", "name": "t.Envelope", "fields": [*images, {"field": "op", "type": "string"}]}


def _avro(lake: Lake, spec: TableSpec, hour: int, schema: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    path = Path(spec.landing) / f"increment_20240305{hour:02d}" / "part-0.avro"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), rows, codec="deflate")


def _avro_type(kind: types.Type, path: str, debezium: bool) -> Any:
    if kind[0] == "array":
        return {"type": "array", "items": _avro_type(kind[1], path, debezium)}
    if kind[0] == "struct":
        members = [{"name": name, "type": _avro_type(member, f"{path}_{name}", debezium)} for name, member in kind[1]]
        return {"type": "record", "name": path, "fields": members}
    if debezium and kind[0] in ("date", "timestamp"):
        base, name = ("int", "Date") if kind[0] == "date" else ("long", "MicroTimestamp")
        return {"type": base, "connect.name": f"io.debezium.time.{name}"}
    logical = {"date": {"type": "int", "logicalType": "date"}, "timestamp": {"type": "long", "logicalType": "timestamp-micros"}}
    return logical.get(kind[0], {"int": "int", "bigint": "long", "string": "string", "binary": "bytes"}.get(kind[0]))


def _avro_fields(columns: Mapping[str, str], hour: int, debezium: bool) -> list[dict[str, Any]]:
    fields = []
    for name, kind in columns.items():
        said = (
            {"type": "enum", "name": "Mood", "symbols": SYMBOLS.get(hour, [])}
            if name == "mood"
            else _avro_type(types.parse(kind), f"r_{name}", debezium)
        )
        field: dict[str, Any] = {"name": name, "type": [said, "null"] if name in DEFAULTS else ["null", said]}
        field.update({"default": DEFAULTS[name]} if name in DEFAULTS else {})
        field.update({"aliases": [ALIASES[name]]} if name in ALIASES else {})
        fields.append(field)
    return fields


def _avro_envelope(columns: Mapping[str, str], hour: int) -> dict[str, Any]:
    image = {"type": "record", "name": "Value", "fields": _avro_fields(columns, hour, True)}
    kinds = {"connector": "string", "schema": "string", "table": "string", "txId": "long", "lsn": "long", "sequence": "string"}
    source = {"type": "record", "name": "Source", "fields": [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]}
    members = {"before": ["null", image], "after": ["null", "Value"], "source": source, "op": "string", "ts_ms": ["null", "long"]}
    return {"type": "record", "name": "Envelope", "namespace": "t", "fields": [{"name": name, "type": kind} for name, kind in members.items()]}


def shown(value: Any) -> Any:
    """A value as the view's JSON shows it."""
    if isinstance(value, Mapping):
        return {name: shown(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, datetime.date) else value


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A shown row without the order's column, its numbers as Python counts them."""
    return {name: int(value) if isinstance(value, Decimal) else value for name, value in row.items() if name != "seq"}
