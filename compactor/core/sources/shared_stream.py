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
    """
    inner = name.partition(".")[2]
    for part in tables(source_table):
        names = [name, *([inner] if "." in inner else ()), *([] if "." in part else [name.rpartition(".")[2]])]
        expected = pattern(part if "." in name else part.rpartition(".")[2])
        if any(re.fullmatch(expected, each) for each in names):
            return True
    return False


def condition(source_table: str, table: str, above: Sequence[str], literal: Callable[[str], str]) -> str:
    """Return SQL for whether `source_table` selects the table of a record.

    `table`: SQL for its table; `above`: for its schema and its database, as far as records name them; `literal`: returns a text as SQL.
    """
    schema = above[0] if len(above) == 1 else f"coalesce({', '.join(above)})"
    names = [f"concat({schema}, '.', {table})"] if above else []
    names += [f"concat({above[1]}, '.', {above[0]}, '.', {table})"] if len(above) > 1 else []
    tests = []
    for part in tables(source_table):
        last = part.rpartition(".")[2]
        compared = [(name, part) for name in (*names, *([table] if last == part else []))]
        if last != part:
            compared.append((f"CASE WHEN {schema} IS NULL THEN {table} END" if above else table, last))
        tests += [f"{name} RLIKE {literal(pattern(text))}" if "*" in text else f"{name} = {literal(text)}" for name, text in compared]
    return f"coalesce({' OR '.join(tests)}, false)"
