"""`source_table`: the tables of a stream that a table takes. `schema.table`, `schema.part_*`, or several with commas.

A name without schema matches in every schema, one without database in every database. What a record does not name is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def tables(source_table: str) -> list[str]:
    """Return the names of the tables.

    >>> tables("public.m_*, orders")
    ['public.m_*', 'orders']
    """
    return [part.strip() for part in source_table.split(",")]


def pattern(name: str) -> str:
    """Return a regular expression for what a name stands for, as Python, Spark and Hive read it.

    >>> pattern("public.m_*")
    '^public\\\\.m_.*$'
    """
    return f"^{'.*'.join(map(re.escape, name.split('*')))}$"


def selects(source_table: str, name: str) -> bool:
    """Return whether `source_table` selects a table. `name`: table, schema and database as far as its records name them.

    >>> [selects("public.users", name) for name in ("public.users", "shop.public.users", "users", "other.users", "shop.users")]
    [True, True, True, False, False]
    >>> [selects("orders*", name) for name in ("orders_1", "public.orders_1", "orders.public.users")]
    [True, True, False]
    """
    for part in tables(source_table):
        levels = min(part.count("."), name.count(".")) + 1
        if re.fullmatch(pattern(_last(part, levels)), _last(name, levels)):
            return True
    return False


def _last(name: str, levels: int) -> str:
    """Return a name without what is above its last levels."""
    return ".".join(name.split(".")[-levels:])


def condition(source_table: str, table: str, above: Sequence[str], literal: Callable[[str], str]) -> str:
    """Return SQL for whether `source_table` selects the table of a record.

    `table`: SQL for its table; `above`: for its schema and its database, as far as records name them, and what may stand for a schema. `literal`
    returns a text as SQL.
    """
    schema = above[0] if len(above) == 1 else f"coalesce({', '.join(above)})"
    names = [table, *([f"concat({schema}, '.', {table})"] if above else [])]
    names += [f"concat({above[1]}, '.', {above[0]}, '.', {table})"] if len(above) > 1 else []
    tests = []
    for part in tables(source_table):
        levels = min(part.count(".") + 1, len(names))
        for number in range(levels, 0, -1):
            # fewer levels where the record names no more
            value = names[number - 1] if number == levels else f"CASE WHEN {names[number]} IS NULL THEN {names[number - 1]} END"
            text = _last(part, number)
            tests.append(f"{value} RLIKE {literal(pattern(text))}" if "*" in text else f"{value} = {literal(text)}")
    return f"coalesce({' OR '.join(tests)}, false)"
