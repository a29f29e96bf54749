"""Decide whether a statement answers the same in DuckDB and in Spark, from DuckDB's parse tree and the types of the columns.

The rule is a short list of what people type most, and what was compared (`tests/read/test_dialects.py`): columns, counts, sums, minima and maxima of
joined tables, conditions on columns and constants, groups and order. Any other node, function or pair of types is not exact, and Spark answers.
Spark means compactor's session: ANSI mode, UTC. The parse tree is what DuckDB's json_serialize_sql returns, in DuckDB 1.5 and 2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
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
_DIGITS_MAX = 38
"""Digits of a decimal. Spark refuses a literal with more."""
_PLACES = {"query_location", "query_location_length", "class", "type", "alias", "qualified_name"}


class Inexact(Exception):
    """Part of a statement may mean something else in Spark. The text names the part."""


def only(node: Node, *handled: str, **expected: str) -> None:
    """Raise Inexact if a node has a part that nobody looks at."""
    for name, value in node.items():
        if value and name not in _PLACES and name not in handled and value != expected.get(name):
            raise Inexact(f"`{name.replace('_', ' ')}`")


def arguments(node: Node) -> list[Node]:
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
    if kind == "NUMERIC" and "e" in text.lower():
        return (DOUBLE if math.isfinite(float(text)) else OTHER), text
    if kind == "NUMERIC":
        whole, _, part = text.lstrip("-").partition(".")
        digits = max(len(whole.lstrip("0")), 1) + len(part)
        return (("decimal", digits, len(part)) if digits <= _DIGITS_MAX else OTHER), text
    return {"STRING": TEXT, "BOOLEAN": BOOL, "NULL_LITERAL": NULL}.get(kind, OTHER), text


def kind_of(text: str) -> Kind:
    kind = types.parse(text)
    if kind[0] in types.INTEGERS:
        return INT
    return tuple(kind) if kind[0] in SORTED else OTHER


_SHOWN = {"int": "a whole number", "string": "a text", "other": "a nested or binary value", "unknown": "a value of unknown type"}


def shown(kind: Kind) -> str:
    """Return a kind for people."""
    return _SHOWN.get(kind[0], str(kind[0]))


def words(code: str) -> str:
    """Return a code of the parse tree for people."""
    return code.lower().replace("_", " ")


_LITERALS = {DATE: re.compile(r"\d{4}-\d\d-\d\d"), TIME: re.compile(r"\d{4}-\d\d-\d\d( ([01]\d|2[0-3]):\d\d:\d\d(\.\d{1,6})?)?")}
"""Texts that both engines read as the same value of a type."""
_AGGREGATES = ("count_star", "count", "sum", "min", "max")
_UNNAMED = "the name of a computed column without `as`"
_JOINS = ("INNER", "LEFT", "RIGHT", "FULL")


class UnknownColumn(Exception):
    """The statement is exact but for a column that no table has."""


def names(statement: Node, tables: Mapping[str, Iterable[tuple[str, str]]]) -> list[str] | None:
    """Return the names of a statement's columns in Spark; None if they are DuckDB's.

    `statement`: what json_serialize_sql makes of it; `tables`: table → name and type of its columns, for all that it may read. Raises Inexact,
    UnknownColumn.
    """
    node = statement["node"]
    if node["type"] != "SELECT_NODE":
        raise Inexact(words(node["type"]))
    reader = _Reader(tables)
    reader.select(node)
    if reader.missing:
        raise UnknownColumn(reader.missing)
    return None if any(item["class"] == "STAR" for item in node["select_list"]) else [_name(item) for item in node["select_list"]]


class _Reader:
    """Walks a parse tree, and knows the kinds of the names seen so far."""

    def __init__(self, tables: Mapping[str, Iterable[tuple[str, str]]]) -> None:
        self.missing = ""
        self._stored = {table.lower(): {name.lower(): kind_of(kind) for name, kind in columns} for table, columns in tables.items()}
        self._kinds: dict[tuple[str, str], Kind] = {}
        """(table or "", column) → kind. A name without its table that has two kinds has none here."""
        self._tables: set[str] = set()

    def _add(self, name: str, kind: Kind) -> None:
        self._kinds["", name] = kind if self._kinds.get(("", name), kind) == kind else UNKNOWN

    def select(self, node: Node) -> None:
        """Check a query."""
        handled = ("modifiers", "cte_map", "select_list", "from_table", "where_clause", "group_expressions", "group_sets", "having")
        only(node, *handled, aggregate_handling="STANDARD_HANDLING")
        if node["cte_map"]["map"]:
            raise Inexact("`with`")
        if len(node["group_sets"]) > 1:
            raise Inexact("grouping sets")
        self._from(node["from_table"])
        if node["where_clause"]:
            self._condition(node["where_clause"])
        kinds = self._columns(node["select_list"])
        for item in node["group_expressions"]:
            self._check(self._key(item, kinds), GROUPED, "group by")
        if node["having"]:
            self._condition(node["having"])
        for each in node["modifiers"]:
            self._modifier(each, kinds)

    def _columns(self, items: Sequence[Node]) -> list[Kind]:
        stored, stars = {*self._kinds}, any(item["class"] == "STAR" for item in items)
        kinds: list[Kind] = []
        for item in items:
            alias, star = item["alias"].lower(), item["class"] == "STAR"
            written = item["column_names"][-1] if item["class"] == "COLUMN_REF" else ""
            if star:
                only(item, "relation_name")
            # whatever sorts or compares the columns of a star must do it with all of them
            kinds.append(UNKNOWN if star else self.kind(item))
            if alias:
                if ("", alias) in stored and written.lower() != alias:
                    raise Inexact(f"the new column `{alias}`, which has the name of another one")
                self._add(alias, kinds[-1])
            elif stars and not star and (not written or written != written.lower()):
                # shown as DuckDB names it: in lower case
                raise Inexact(_UNNAMED)
        return kinds

    def _from(self, node: Node) -> None:
        if node["type"] == "BASE_TABLE":
            only(node, "schema_name", "table_name")
            table = node["table_name"].lower()
            alias = node["alias"].lower() or table
            self._tables.add(alias)
            for name, kind in self._stored.get(table, {}).items():
                self._add(name, kind)
                self._kinds[alias, name] = kind
        elif node["type"] == "JOIN":
            extra = ("nearest_count", "nearest_order_type", "is_implicit")
            only(node, "left", "right", "condition", "join_type", "ref_type", *extra)
            if node["join_type"] not in _JOINS or node["ref_type"] not in ("REGULAR", "CROSS"):
                raise Inexact(f"{node['ref_type']} {node['join_type']} join".lower())
            self._from(node["left"])
            self._from(node["right"])
            if node["condition"]:
                self._condition(node["condition"])
        elif node["type"] != "EMPTY":
            raise Inexact(words(node["type"]))

    def _modifier(self, node: Node, kinds: Sequence[Kind]) -> None:
        if node["type"] == "ORDER_MODIFIER":
            for order in node["orders"]:
                self._check(self._key(order["expression"], kinds), SORTED, "order by")
        elif node["type"] == "LIMIT_MODIFIER":
            only(node, "limit", "offset", limit_type="ROW_COUNT")
            for bound in (node["limit"], node["offset"]):
                if bound and (bound["class"] != "CONSTANT" or self.kind(bound) != INT):
                    raise Inexact("a computed limit")
        elif node["type"] == "DISTINCT_MODIFIER":
            only(node)
            for kind in kinds:
                self._check(kind, GROUPED, "distinct")
        else:
            raise Inexact(words(node["type"]))

    def _key(self, node: Node, kinds: Sequence[Kind]) -> Kind:
        """Return the kind of what is grouped or sorted by: an expression, or the number of a column."""
        if node["class"] != "CONSTANT":
            return self.kind(node)
        kind, text = constant(node)
        if kind != INT or UNKNOWN in kinds or not 0 < int(text) <= len(kinds):
            return UNKNOWN
        return kinds[int(text) - 1]

    # ---- expressions ----

    def kind(self, node: Node) -> Kind:
        """Check an expression. Return its kind."""
        method = getattr(self, f"_on_{node['class'].lower()}", None)
        if method is None:
            raise Inexact(words(node["class"]))
        kind: Kind = method(node)
        return kind

    def _condition(self, node: Node) -> None:
        if self.kind(node) not in (BOOL, NULL):
            raise Inexact("a condition that is no boolean")

    def _on_column_ref(self, node: Node) -> Kind:
        *path, name = (part.lower() for part in node["column_names"])
        if path and path[-1] not in self._tables:
            raise Inexact("a member of a column")
        kind = self._kinds.get((path[-1] if path else "", name))
        if kind is None:
            self.missing = self.missing or name
        return kind or NULL

    def _on_constant(self, node: Node) -> Kind:
        return constant(node)[0]

    def _on_cast(self, node: Node) -> Kind:
        """Take `date '2026-01-01'`, and `true`, which DuckDB 1.5 parses to a cast of a text."""
        only(node, "child", "cast_type", "type_expr")
        kind = (node.get("type_expr") or {"type_name": node["cast_type"]["id"]})["type_name"].lower()
        text = constant(node["child"])[1] if node["child"]["class"] == "CONSTANT" and self.kind(node["child"]) == TEXT else ""
        if kind == "boolean" and text in ("t", "f"):
            return BOOL
        if kind == "date" and _LITERALS[DATE].fullmatch(text):
            return DATE
        raise Inexact(f"a cast to {kind}")

    def _on_comparison(self, node: Node) -> Kind:
        only(node, "left", "right")
        return self._compared(node["left"], node["right"])

    def _on_between(self, node: Node) -> Kind:
        only(node, "input", "lower", "upper")
        bounds = (self.kind(node["lower"]), self.kind(node["upper"]))
        if DOUBLE in bounds and self.kind(node["input"])[0] in ("int", "decimal"):
            # DuckDB compares all three as doubles, Spark each pair as its own types
            raise Inexact(f"between {' and '.join(map(shown, bounds))}")
        return self._compared(node["input"], node["lower"], node["upper"])

    def _on_conjunction(self, node: Node) -> Kind:
        only(node, "children")
        for child in node["children"]:
            self._condition(child)
        return BOOL

    def _on_operator(self, node: Node) -> Kind:
        only(node, "children")
        if node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
            return self._compared(*node["children"])
        if node["type"] == "OPERATOR_NOT":
            self._condition(node["children"][0])
        elif node["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            self.kind(node["children"][0])
        else:
            raise Inexact(words(node["type"]))
        return BOOL

    def _on_function(self, node: Node) -> Kind:
        only(node, "function_name", "schema", "catalog", "children", "arguments", "order_bys", "distinct", "is_operator")
        name, inside = node["function_name"], arguments(node)
        if name not in (*_AGGREGATES, "+", "-", "*", "~~", "!~~") or (node["order_bys"] and node["order_bys"]["orders"]):
            raise Inexact(f"`{name}`")
        kinds = [self.kind(each) for each in inside]
        families = {kind[0] for kind in kinds}
        if name == "count_star" or (name in ("+", "-", "*") and families == {"int"}):
            return INT
        if name in ("~~", "!~~") and families == {"string"} and inside[1]["class"] == "CONSTANT":
            return BOOL
        if len(kinds) == 1:
            if name == "count" and families <= (GROUPED if node["distinct"] else SORTED) | {"null"}:
                return INT
            # which zero is the least, and how a sum is rounded, depends on the order of the rows where numbers are floating
            if (name in ("min", "max") and families <= GROUPED) or (name == "sum" and families <= {"int", "decimal"}):
                return kinds[0]
        raise Inexact(f"`{name}` of {', '.join(map(shown, kinds))}")

    def _compared(self, *nodes: Node) -> Kind:
        kinds = [self.kind(node) for node in nodes]
        texts = [constant(node)[1] if node["class"] == "CONSTANT" and kind == TEXT else None for node, kind in zip(nodes, kinds)]
        typed = {kind for kind, text in zip(kinds, texts) if text is None} - {NULL}
        families = {kind[0] for kind in typed}
        if not families <= SORTED or (len(families) > 1 and not families <= {"int", "decimal", "double"}):
            raise Inexact(f"a comparison of {' with '.join(sorted(map(shown, typed)))}")
        for text in texts:
            if text is not None and typed and TEXT not in typed:
                pattern = _LITERALS.get(next(iter(typed)))
                if pattern is None or not pattern.fullmatch(text):
                    raise Inexact(f"a comparison of {shown(next(iter(typed)))} with a text")
        return BOOL

    def _check(self, kind: Kind, families: set[str], what: str) -> None:
        if kind[0] not in families and kind != NULL:
            raise Inexact(f"{what} with {shown(kind)}")


def _name(item: Node) -> str:
    """Return the name that Spark gives a column."""
    if item["alias"]:
        return str(item["alias"])
    if item["class"] == "COLUMN_REF":
        return str(item["column_names"][-1])
    if item["class"] == "CONSTANT":
        kind, text = constant(item)
        if kind == NULL or (kind in (INT, TEXT) and text):
            return str(int(text)) if kind == INT else text or "NULL"
    if item["class"] == "FUNCTION" and item["function_name"] in _AGGREGATES:
        if item["function_name"] == "count_star":
            return "count(1)"
        inside = arguments(item)
        if all(each["class"] in ("COLUMN_REF", "CONSTANT") for each in inside):
            return f"{item['function_name']}({'DISTINCT ' if item['distinct'] else ''}{', '.join(map(_name, inside))})"
    raise Inexact(_UNNAMED)
