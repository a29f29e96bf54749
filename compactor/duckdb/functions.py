"""What functions and operators return, if DuckDB and Spark compute the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from compactor.duckdb.parse_tree import BOOL, DATE, DOUBLE, INT, NULL, SORTED, TEXT, TIME, Kind, Node, constant

_DATE_PARTS = ("year", "quarter", "month", "day", "hour", "minute")
_TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_WIDE = "wide"
"""Last part of the kind of a decimal that may have 38 digits in DuckDB, as every sum has, whatever Spark gives it."""
AGGREGATES = ("count_star", "count", "sum", "avg", "min", "max")
KNOWN = (
    *AGGREGATES,
    *_DATE_PARTS,
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "abs",
    "length",
    "date_trunc",
    "date_part",
    "nullif",
    "~~",
    "!~~",
    "substr",
    "substring",
)


def result(name: str, kinds: Sequence[Kind], arguments: Sequence[Node]) -> Kind | None:
    """Return the kind of a function's value; None if it was not compared for these arguments."""
    families = [kind[0] for kind in kinds]
    if name == "count_star" or (name == "count" and all(kind[0] in SORTED or kind == NULL for kind in kinds) and len(kinds) < 2):
        return INT
    if name in ("+", "-", "*"):
        return _arithmetic(name, kinds)
    if name in ("/", "%") and len(kinds) == 2 and _nonzero(arguments[1]):
        # another divisor may be zero, which DuckDB before 2 answers with null
        return {("/", "int", "int"): DOUBLE, ("/", "double", "int"): DOUBLE, ("%", "int", "int"): INT}.get((name, *families))
    if len(kinds) == 1:
        (kind,) = kinds
        if name in ("min", "max") and kind[0] in SORTED:
            return kind
        if name == "sum":
            return ("decimal", min(kind[1] + 10, 38), kind[2], _WIDE) if kind[0] == "decimal" else kind if kind in (INT, DOUBLE) else None
        # a sum beyond 2^53 depends in Spark on the order of its tasks
        if name == "avg" and kind in (INT, DOUBLE):
            return DOUBLE
        if name == "abs" and families[0] in ("int", "decimal", "double"):
            return kind
        if name == "length" and kind == TEXT:
            return INT
        if name in _DATE_PARTS and kind in (DATE, TIME):
            return INT
    texts = [constant(each)[1] if each["class"] == "CONSTANT" else None for each in arguments]
    if name in ("substr", "substring") and kinds[0] == TEXT and all(text and re.fullmatch(r"[1-9]\d{0,8}", text) for text in texts[1:]):
        return TEXT
    if len(kinds) != 2:
        return None
    if name == "||" and TEXT in kinds and {*kinds} <= {TEXT, NULL}:
        return TEXT
    if name in ("~~", "!~~") and kinds[0] == kinds[1] == TEXT and texts[1] is not None:
        return BOOL
    if name == "nullif" and kinds[0] == kinds[1] and families[0] in SORTED:
        return kinds[0]
    if name == "date_part" and kinds[1] in (DATE, TIME) and str(texts[0]).lower() in _DATE_PARTS:
        return INT
    return TIME if name == "date_trunc" and kinds[1] == TIME and str(texts[0]).lower() in _TRUNCATED else None


def widened(kinds: Collection[Kind]) -> Kind | None:
    """Return the kind that decimals have together; None if one of the engines may drop digits of them."""
    scale = max(kind[2] for kind in kinds)
    whole = max((38 if _WIDE in kind else kind[1]) - kind[2] for kind in kinds)
    precision = max(kind[1] - kind[2] for kind in kinds) + scale
    wide = [_WIDE] if any(_WIDE in kind for kind in kinds) else []
    return ("decimal", precision, scale, *wide) if whole + scale <= 38 else None


def _arithmetic(name: str, kinds: Sequence[Kind]) -> Kind | None:
    """Return the kind of a sum, a difference or a product. Overflows are errors in both engines."""
    families = {kind[0] for kind in kinds}
    if len(kinds) == 1:
        return kinds[0] if name == "-" and families <= {"int", "decimal", "double"} else None
    if families == {"int"}:
        return INT
    if "double" in families and families <= {"int", "decimal", "double"}:
        return DOUBLE
    if not families <= {"int", "decimal"}:
        return None
    # a whole number may be a sum, which has 38 digits too
    wide = [_WIDE] if "int" in families or any(_WIDE in kind for kind in kinds) else []
    (left, left_scale), (right, right_scale) = ((kind[1], kind[2]) if kind[0] == "decimal" else (20, 0) for kind in kinds)
    scale = left_scale + right_scale if name == "*" else max(left_scale, right_scale)
    precision = left + right + 1 if name == "*" else max(left - left_scale, right - right_scale) + scale + 1
    # beyond it Spark drops digits after the point
    return ("decimal", precision, scale, *wide) if precision <= 38 else None


def _nonzero(node: Node) -> bool:
    return node["class"] == "CONSTANT" and constant(node)[0] == INT and int(constant(node)[1]) != 0
