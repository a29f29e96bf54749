"""Decide whether a statement answers the same in DuckDB and in Spark, from DuckDB's parse tree and the types of the columns.

The rule is a list of what was compared (`tests/read/test_dialects.py`): a node, a function or a pair of types that is not in it is not exact.
Spark means compactor's session: ANSI mode, UTC.

A name without its table that has two types in a statement has none here, and nothing is computed from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from compactor.duckdb import functions
from compactor.duckdb.parse_tree import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LOCAL,
    NULL,
    OTHER,
    SORTED,
    TEXT,
    TIME,
    UNKNOWN,
    Inexact,
    Kind,
    Node,
    arguments,
    constant,
    kind_of,
    only,
    shown,
    sides,
    words,
)

_CAST_TO = {
    **dict.fromkeys(("int", "integer", "bigint"), INT),
    **dict.fromkeys(("varchar", "string"), TEXT),
    "double": DOUBLE,
    "boolean": BOOL,
    "date": DATE,
    "timestamp": LOCAL,
}
_CASTS = {(INT, INT), (INT, TEXT), (INT, DOUBLE), (TEXT, TEXT), (BOOL, BOOL), (DATE, DATE), (TIME, DATE)}
_LITERALS = {
    INT: re.compile(r"-?\d{1,9}"),
    DATE: re.compile(r"\d{4}-\d\d-\d\d"),
    TIME: re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?"),
    LOCAL: re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?"),
}
"""Texts that both engines read as the same value of a type."""
_RANKS = ("WINDOW_ROW_NUMBER", "WINDOW_RANK", "WINDOW_RANK_DENSE")
_UNNAMED = "the name of a computed column without `as`"
_JOINS = ("INNER", "LEFT", "RIGHT", "FULL")


class UnknownColumn(Exception):
    """The statement is exact but for a column that no table has."""


def names(statement: Node, tables: Mapping[str, Iterable[tuple[str, str]]]) -> list[str] | None:
    """Return the names of a statement's columns in Spark; None if they are DuckDB's.

    `statement`: what json_serialize_sql makes of it; `tables`: table → name and type of its columns, for all that it may read. Raises Inexact,
    UnknownColumn.
    """
    reader = _Reader(tables)
    node = statement["node"]
    reader.query(node)
    if reader.missing:
        raise UnknownColumn(reader.missing)
    while node["type"] == "SET_OPERATION_NODE":
        node = sides(node)[0]
    return None if any(item["class"] == "STAR" for item in node["select_list"]) else [_name(item) for item in node["select_list"]]


class _Reader:
    """Walks a parse tree, and knows the kinds of the names seen so far."""

    def __init__(self, tables: Mapping[str, Iterable[tuple[str, str]]]) -> None:
        self.missing = ""
        self._stored = {table.lower(): {name.lower(): kind_of(kind) for name, kind in columns} for table, columns in tables.items()}
        self._kinds: dict[str, Kind] = {}
        """Name, and table and name, of columns → kind."""
        self._tables: set[str] = set()
        self._derived: set[str] = set()
        """Names of subqueries: their columns are known without it only."""
        for columns in self._stored.values():
            for name, kind in columns.items():
                self._add(name, kind)

    def _add(self, name: str, kind: Kind) -> None:
        self._kinds[name.lower()] = kind if self._kinds.get(name.lower(), kind) == kind else UNKNOWN

    # ---- queries ----

    def query(self, node: Node, inner: bool = False) -> list[Kind]:
        """Check a query. Return the kinds of its columns. `inner`: its columns are read by name."""
        for entry in node["cte_map"]["map"]:
            value = entry["value"]
            only(value, "query_node", "query", "materialized", "aliases")
            kinds = self.query(value.get("query_node") or value["query"]["node"], inner=True)
            self._name_columns(value["aliases"], kinds)
            self._derived.add(entry["key"].lower())
        if node["type"] == "SET_OPERATION_NODE":
            result = self._set_operation(node, inner)
        elif node["type"] == "SELECT_NODE":
            result = self._select(node, inner)
        else:
            raise Inexact(words(node["type"]))
        self._modifiers(node["modifiers"], result)
        return result

    def _set_operation(self, node: Node, inner: bool) -> list[Kind]:
        only(node, "modifiers", "cte_map", "setop_type", "left", "right", "children", "setop_all")
        branches = [self.query(side, inner) for side in sides(node)]
        first = branches[0]
        for side in branches[1:]:
            if OTHER in side or UNKNOWN in side or len(side) != len(first):
                raise Inexact("the columns of a union")
            first = [self._same((left, right), "the columns of a union") for left, right in zip(first, side)]
        for kind in () if node["setop_all"] else first:
            self._groupable(kind, "distinct")
        return first

    def _select(self, node: Node, inner: bool) -> list[Kind]:
        handled = ("modifiers", "cte_map", "select_list", "from_table", "where_clause", "group_expressions", "group_sets", "having")
        only(node, *handled, aggregate_handling="STANDARD_HANDLING")
        joined = self._from(node["from_table"])
        items, before = node["select_list"], set(self._kinds)
        stars = any(item["class"] == "STAR" for item in items)
        if joined and stars:
            raise Inexact("`*` of a join with `using`")
        if node["where_clause"]:
            self._condition(node["where_clause"])
        sorts = node["group_expressions"] or node["having"] or any(each["type"] == "ORDER_MODIFIER" for each in node["modifiers"])
        result: list[Kind] = []
        for item in items:
            alias, star = item["alias"].lower(), item["class"] == "STAR"
            kind = self._star(item) if star else self.kind(item)
            if kind == LOCAL:
                raise Inexact("a timestamp without a zone as a column")
            result.append(kind)
            if alias:
                if alias in before and sorts and not (item["class"] == "COLUMN_REF" and item["column_names"][-1].lower() == alias):
                    raise Inexact(f"the new column `{alias}`, which has the name of another one")
                self._add(alias, kind)
            elif (inner or stars) and not star:
                # read by name, in lower case as DuckDB shows it, or beside columns whose number is not known here
                written = item["column_names"][-1] if item["class"] == "COLUMN_REF" else ""
                if not written or written != written.lower():
                    raise Inexact(_UNNAMED)
        if len(node["group_sets"]) > 1:
            raise Inexact("grouping sets")
        for item in node["group_expressions"]:
            self._groupable(self.kind(item), "group by")
        if node["having"]:
            self._condition(node["having"])
        return result

    def _star(self, item: Node) -> Kind:
        only(item, "relation_name")
        # whatever sorts or compares these columns must do it with all of them
        return UNKNOWN

    def _from(self, node: Node) -> bool:
        """Check what a query reads. Return whether it joins by names of columns."""
        if node["type"] == "EMPTY":
            return False
        if node["type"] == "BASE_TABLE":
            only(node, "schema_name", "table_name", "column_name_alias")
            table, alias = node["table_name"].lower(), (node["alias"] or node["table_name"]).lower()
            derived = table in self._derived or node["column_name_alias"]
            (self._derived if derived else self._tables).add(alias)
            for name, kind in self._stored.get(table, {}).items():
                self._add(f"{alias}.{name}", kind)
            self._name_columns(node["column_name_alias"], [])
            return False
        if node["type"] == "SUBQUERY":
            only(node, "subquery", "column_name_alias")
            kinds = self.query(node["subquery"]["node"], inner=True)
            self._derived.add(node["alias"].lower())
            self._name_columns(node["column_name_alias"], kinds)
            return False
        if node["type"] != "JOIN":
            raise Inexact(words(node["type"]))
        extra = ("nearest_count", "nearest_order_type", "is_implicit")
        only(node, "left", "right", "condition", "join_type", "ref_type", "using_columns", *extra)
        if node["join_type"] not in _JOINS or node["ref_type"] not in ("REGULAR", "CROSS", "NATURAL"):
            raise Inexact(f"{node['ref_type']} {node['join_type']} join".lower())
        sides = [self._from(node[side]) for side in ("left", "right")]
        for name in node["using_columns"]:
            self._groupable(self._kinds.get(name.lower(), UNKNOWN), "using")
        if node["condition"]:
            self._condition(node["condition"])
        return any(sides) or bool(node["using_columns"]) or node["ref_type"] == "NATURAL"

    def _name_columns(self, aliases: Sequence[str], kinds: Sequence[Kind]) -> None:
        for at, name in enumerate(aliases):
            self._add(name, kinds[at] if at < len(kinds) else UNKNOWN)

    def _modifiers(self, modifiers: Sequence[Node], kinds: Sequence[Kind]) -> None:
        for each in modifiers:
            if each["type"] == "ORDER_MODIFIER":
                self._orders(each["orders"])
            elif each["type"] == "LIMIT_MODIFIER":
                only(each, "limit", "offset", limit_type="ROW_COUNT")
                for bound in (each["limit"], each["offset"]):
                    if bound and (bound["class"] != "CONSTANT" or self.kind(bound) != INT):
                        raise Inexact("a computed limit")
            elif each["type"] == "DISTINCT_MODIFIER":
                only(each)
                for kind in kinds:
                    self._groupable(kind, "distinct")
            else:
                raise Inexact(words(each["type"]))

    def _orders(self, orders: Sequence[Node]) -> None:
        for order in orders:
            self._sortable(self.kind(order["expression"]), "order by")

    # ---- expressions ----

    def kind(self, node: Node) -> Kind:
        """Check an expression. Return its kind."""
        method = getattr(self, f"_on_{node['class'].lower()}", None)
        if method is None:
            raise Inexact(words(node["class"]))
        kind: Kind = method(node)
        return kind

    def _condition(self, node: Node) -> None:
        self._same((self.kind(node), BOOL), "a condition that is no boolean")

    def _on_column_ref(self, node: Node) -> Kind:
        *path, name = (part.lower() for part in node["column_names"])
        if path and path[-1] not in self._tables | self._derived:
            # a member of a struct, or a mistake
            return UNKNOWN
        kind = self._kinds.get(f"{path[-1]}.{name}" if path and path[-1] not in self._derived else name) or {
            "current_date": DATE,
            "current_timestamp": TIME,
        }.get("" if path else name)
        if kind is None:
            self.missing = self.missing or name
        return kind or NULL

    def _on_constant(self, node: Node) -> Kind:
        return constant(node)[0]

    def _on_cast(self, node: Node) -> Kind:
        only(node, "child", "cast_type", "type_expr")
        written = node.get("type_expr") or {"type_name": node["cast_type"]["id"], "children": node["cast_type"].get("type_info")}
        source, target = self.kind(node["child"]), _CAST_TO.get(written["type_name"].lower(), OTHER)
        text = constant(node["child"])[1] if node["child"]["class"] == "CONSTANT" and source == TEXT else None
        if target is BOOL and text in ("t", "f"):
            # DuckDB 1.5 parses `true` to this
            return BOOL
        if text is not None and target in (DATE, LOCAL) and _LITERALS[target].fullmatch(text):
            return target
        if written.get("children") or target == OTHER or (source != NULL and (source, target) not in _CASTS):
            raise Inexact(f"a cast from {shown(source)} to {written['type_name'].lower()}")
        return target

    def _on_comparison(self, node: Node) -> Kind:
        only(node, "left", "right")
        return self._compared(node["left"], node["right"])

    def _on_between(self, node: Node) -> Kind:
        only(node, "input", "lower", "upper")
        return self._compared(node["input"], node["lower"], node["upper"])

    def _on_conjunction(self, node: Node) -> Kind:
        only(node, "children")
        for child in node["children"]:
            self._condition(child)
        return BOOL

    def _on_operator(self, node: Node) -> Kind:
        only(node, "children")
        children = node["children"]
        if node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
            return self._compared(*children)
        kinds = [self.kind(child) for child in children]
        if node["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            return BOOL
        if node["type"] == "OPERATOR_NOT":
            return self._same((kinds[0], BOOL), "`not`")
        if node["type"] == "OPERATOR_COALESCE":
            return self._same(kinds, "`coalesce` of several types")
        raise Inexact(words(node["type"]))

    def _on_case(self, node: Node) -> Kind:
        only(node, "case_checks", "else_expr")
        for check in node["case_checks"]:
            self._condition(check["when_expr"])
        results = [*(check["then_expr"] for check in node["case_checks"]), node["else_expr"]]
        return self._same([self.kind(each) for each in results if each], "`case` with several types")

    def _on_subquery(self, node: Node) -> Kind:
        only(node, "subquery_type", "subquery", "child", "comparison_type")
        kinds = self.query(node["subquery"]["node"])
        if node["subquery_type"] == "EXISTS":
            return BOOL
        if node["subquery_type"] == "SCALAR":
            return kinds[0]
        if node["subquery_type"] != "ANY" or node["comparison_type"] != "COMPARE_EQUAL":
            raise Inexact("`any` and `all`")
        self._same((self.kind(node["child"]), kinds[0]), "`in` with several types")
        return BOOL

    def _on_window(self, node: Node) -> Kind:
        frame = {"start": "UNBOUNDED_PRECEDING", "end": "CURRENT_ROW_RANGE", "exclude_clause": "NO_OTHER"}
        only(node, "function_name", "schema", "catalog", "children", "arguments", "partitions", "orders", "distinct", **frame)
        for part in node["partitions"]:
            self._groupable(self.kind(part), "partition by")
        self._orders(node["orders"])
        if node["type"] in _RANKS and not arguments(node):
            return INT
        if node["type"] == "WINDOW_AGGREGATE" and node["function_name"] in functions.AGGREGATES and not node["distinct"]:
            return self._call(node["function_name"], arguments(node))
        raise Inexact(f"`{node['function_name']}` over a window")

    def _on_function(self, node: Node) -> Kind:
        only(node, "function_name", "schema", "catalog", "children", "arguments", "filter", "order_bys", "distinct", "is_operator")
        name = node["function_name"]
        if node["order_bys"] and node["order_bys"]["orders"]:
            raise Inexact(f"`{name}` with order by")
        if node["filter"]:
            self._condition(node["filter"])
        return self._call(name, arguments(node))

    def _call(self, name: str, inside: Sequence[Node]) -> Kind:
        if name not in functions.KNOWN:
            raise Inexact(f"`{name}`")
        kinds = [self.kind(each) for each in inside]
        result = functions.result(name, kinds, inside)
        if result is None:
            raise Inexact(f"`{name}` of {', '.join(map(shown, kinds))}")
        return result

    # ---- kinds ----

    def _compared(self, *nodes: Node) -> Kind:
        kinds = [self.kind(node) for node in nodes]
        other = {kind for node, kind in zip(nodes, kinds) if not (node["class"] == "CONSTANT" and kind == TEXT)} - {NULL}
        for node, kind in zip(nodes, kinds):
            if node["class"] == "CONSTANT" and kind == TEXT and other and TEXT not in other:
                pattern = _LITERALS.get(next(iter(other))) if len(other) == 1 else None
                if pattern is None or not pattern.fullmatch(constant(node)[1]):
                    raise Inexact(f"a comparison of {shown(next(iter(other)))} with a text")
        families = {kind[0] for kind in other}
        numbers = families <= {"int", "decimal", "double"}
        if len(families) > 1 and not numbers and not families <= {"date", "timestamp", "local timestamp"}:
            raise Inexact(f"a comparison of {' with '.join(sorted(map(shown, other)))}")
        for kind in other - {LOCAL}:
            self._sortable(kind, "a comparison")
        return BOOL

    def _same(self, kinds: Sequence[Kind], what: str) -> Kind:
        """Return the kind that values have together. Raises Inexact if the engines may disagree about it."""
        different = {kind for kind in kinds if kind != NULL}
        if len(different) > 1 and all(kind[0] == "decimal" for kind in different):
            different = {functions.widened(different) or OTHER}
        if len(different) > 1 or UNKNOWN in different or OTHER in different or LOCAL in different:
            raise Inexact(what)
        return next(iter(different), NULL)

    def _groupable(self, kind: Kind, what: str) -> None:
        # DuckDB shows a group of zeros as -0.0
        self._sortable(OTHER if kind[0] in ("float", "double") else kind, what)

    def _sortable(self, kind: Kind, what: str) -> None:
        if kind[0] not in SORTED and kind != NULL:
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
    if item["class"] == "FUNCTION" and item["function_name"] in functions.KNOWN and not item["is_operator"] and not item["filter"]:
        if item["function_name"] == "count_star":
            return "count(1)"
        inside = arguments(item)
        # Spark adds the length that `substr` lacks, and writes `extract` as it is
        same = item["function_name"] != "date_part" and (item["function_name"] not in ("substr", "substring") or len(inside) == 3)
        if same and all(each["class"] in ("COLUMN_REF", "CONSTANT") for each in inside):
            return f"{item['function_name']}({'DISTINCT ' if item['distinct'] else ''}{', '.join(map(_name, inside))})"
    raise Inexact(_UNNAMED)
