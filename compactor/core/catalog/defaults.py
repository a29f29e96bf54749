"""SQL of views for the default that rows from before a column read.

A row's own Position decides. Hive cannot compare structs, so their members are compared one by one, nulls first as everywhere.
"""

from __future__ import annotations

from typing import Any

from compactor.core.catalog.dialect import Dialect
from compactor.core.model.position import Order, Position, constant, members


def below(position: str, bound: Position, order: Order, dialect: Dialect) -> str:
    """Return SQL for `position` < `bound`; it is never null. `position` is SQL for a Position's struct."""
    out = ""
    for (name, kind), value in reversed([*zip(members(order), bound)]):
        member = f"{position}.{dialect.name(name)}"
        if value is None:
            # nothing lies below null
            out = f"({member} IS NULL AND {out})" if out else ""
            continue
        least = f"({member} IS NULL OR {member} < {_literal(value, kind, dialect)})"
        out = f"({least} OR ({member} = {_literal(value, kind, dialect)} AND {out}))" if out else least
    return out or "(1 = 0)"


def _literal(value: Any, kind: str, dialect: Dialect) -> str:
    if isinstance(value, int) and kind in ("int", "bigint"):
        return str(value)
    return dialect.constant(constant(value, kind), kind)
