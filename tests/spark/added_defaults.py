"""A table that gets a column with a default of every type that has one: what Kafka Connect writes, and what every engine must show."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

from compactor.core.model.policy import Policy
from compactor.core.model.spec import TableSpec
from tests.spark.lake import Lake

DECIMAL = "org.apache.kafka.connect.data.Decimal"
TEXT = 'it\'s "so" \\ back\nnew `line` ${spark.app.name} é 😀 100 % -- /* no */ ; $ {'
"""A text with everything that means something in some dialect."""

ID = [{"field": "id", "type": "int64"}, {"field": "seq", "type": "int64"}]
DEFAULTS: dict[str, tuple[dict[str, Any], str, Any]] = {
    # Connect's schema with the default, the stored type, what older rows show
    "b": ({"type": "boolean", "default": False}, "boolean", False),
    "t1": ({"type": "int8", "default": -128}, "tinyint", -128),
    "t2": ({"type": "int16", "default": 7}, "smallint", 7),
    "t4": ({"type": "int32", "default": -(2**31)}, "int", -(2**31)),
    "t8": ({"type": "int64", "default": 2**63 - 1}, "bigint", 2**63 - 1),
    "f4": ({"type": "float", "default": 1.5}, "double", Decimal("1.5")),
    "f8": ({"type": "double", "default": 1e22}, "double", Decimal("1e22")),
    "d": ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "10"}}, "decimal(10,2)", Decimal("-12.50")),
    # `decimal.format: NUMERIC`
    "n": ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}, "default": 1.2}, "decimal(38,2)", Decimal("1.20")),
    "a": ({"type": "int32", "name": "io.debezium.time.Date", "default": 18321}, "date", "2020-02-29"),
    "c": ({"type": "int64", "name": "io.debezium.time.MicroTime", "default": 45296000000}, "string", "12:34:56"),
    "s": ({"type": "string", "default": TEXT}, "string", TEXT),
    "e": ({"type": "string", "default": ""}, "string", ""),
}
DEFAULTS["d"][0]["default"] = base64.b64encode((-1250).to_bytes(2, "big", signed=True)).decode()
OLDER = {name: shown for name, (_, _, shown) in DEFAULTS.items()}
TEXT_ALLOWED = Policy(kinds=(("to_string", "evolve"),))


def record(fields: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    """A row with its Connect schema."""
    return {"schema": {"type": "struct", "fields": fields}, "payload": row}


PLAIN = [*ID, {"field": "x", "type": "int64"}]
"""Columns of a table before it gets `score`."""


def with_score(default: int) -> list[dict[str, Any]]:
    """The same with `score`."""
    return [*PLAIN, {"field": "score", "type": "int64", "optional": True, "default": default}]


def columns(**changed: str) -> list[dict[str, Any]]:
    """The columns with their defaults; `changed` gives single ones another Connect type, without a default."""
    added = [{"field": name, "optional": True, **(schema if name not in changed else {})} for name, (schema, _, _) in DEFAULTS.items()]
    return [*ID, *({**field, "type": changed.get(field["field"], field.get("type"))} for field in added)]


def land(lake: Lake, spec: TableSpec) -> None:
    """Two rows without the columns, run; then the columns with a row of nulls, run."""
    lake.land(spec, 1, [record(ID, {"id": 1, "seq": 1}), record(ID, {"id": 2, "seq": 2})])
    lake.run(spec)
    lake.land(spec, 2, [record(columns(), {"id": 3, "seq": 3, **dict.fromkeys(DEFAULTS)})])
    lake.run(spec)
