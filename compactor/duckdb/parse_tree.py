"""The parse tree that DuckDB's json_serialize_sql returns, of DuckDB 1.5 and of 2, and the kinds of values in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactor.core.model import types

Node = Mapping[str, Any]
Kind = tuple[Any, ...]
"""A type as `core.model.types` parses it, with all whole numbers as `int`; `other` is binary and nested."""

INT, DOUBLE, TEXT, BOOL, DATE, TIME, NULL, OTHER, UNKNOWN = (
    (name,) for name in ("int", "double", "string", "boolean", "date", "timestamp", "null", "other", "unknown")
)
GROUPED = {"int", "decimal", "string", "boolean", "date", "timestamp"}
"""Families of kinds whose equal values look the same: DuckDB shows a group of zeros as -0.0."""
SORTED = {*GROUPED, "float", "double"}
"""Families of kinds whose values both engines compare and sort in the same way."""
_PLACES = {"query_location", "query_location_length", "class", "type", "alias", "qualified_name"}


class Inexact(Exception):
    """Part of a statement may mean something else in Spark. The text names the part."""


def only(node: Node, *handled: str, **expected: str) -> None:
    """Raise Inexact if a node has a part that nobody looks at."""
    for name, value in node.items():
        if value and name not in _PLACES and name not in handled and value != expected.get(name):
            raise Inexact(f"`{name.replace('_', ' ')}`")


def arguments(node: Node) -> list[Node]:
    """Return the arguments of a function."""
    listed: list[Node] = [each["expression"] for each in node["arguments"]] if "arguments" in node else node["children"]
    return listed


def constant(node: Node) -> tuple[Kind, str]:
    """Return kind and text of a literal."""
    literal = node.get("literal")
    if literal is None:
        value, kind = node["value"].get("value"), node["value"]["type"]
        if kind["id"] == "DECIMAL":
            return ("decimal", kind["type_info"]["width"], kind["type_info"]["scale"]), ""
        named = {"INTEGER": INT, "BIGINT": INT, "DOUBLE": DOUBLE, "VARCHAR": TEXT, "BOOLEAN": BOOL, "NULL": NULL}
        return named.get(kind["id"], OTHER), "" if value is None else str(value)
    kind, text = literal["kind"], literal.get("text") or ""
    if kind == "INTEGER":
        return (INT if abs(int(text)) < 1 << 63 else OTHER), text
    if kind == "NUMERIC":
        whole, _, part = text.lstrip("-").partition(".")
        return (DOUBLE if "e" in text.lower() else ("decimal", max(len(whole.lstrip("0")), 1) + len(part), len(part))), text
    return {"STRING": TEXT, "BOOLEAN": BOOL, "NULL_LITERAL": NULL}.get(kind, OTHER), text


def kind_of(text: str) -> Kind:
    """Return the kind of a Hive type."""
    kind = types.parse(text)
    if kind[0] in ("tinyint", "smallint", "int", "bigint"):
        return INT
    return tuple(kind) if kind[0] in SORTED else OTHER


_SHOWN = {"int": "a whole number", "string": "a text", "other": "a nested or binary value", "unknown": "a value of unknown type"}


def shown(kind: Kind) -> str:
    """Return a kind for people."""
    return _SHOWN.get(kind[0], str(kind[0]))


def words(code: str) -> str:
    """Return a code of the parse tree for people."""
    return code.lower().replace("_", " ")
