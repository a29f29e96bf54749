"""`source_table`: the tables of a stream that a table takes. `schema.table`, `schema.part_*`, or several with commas.

A name without schema matches in every schema.
"""

from __future__ import annotations

import re


def tables(source_table: str, schema: bool = True) -> list[str]:
    """Return the names of the tables. `schema`: as they are; else without schema, as rows name their table.

    >>> tables("public.m_*, orders"), tables("public.m_*, orders", schema=False)
    (['public.m_*', 'orders'], ['m_*', 'orders'])
    """
    given = [part.strip() for part in source_table.split(",")]
    return given if schema else [name.rpartition(".")[2] for name in given]


def pattern(name: str) -> str:
    """Return a regular expression for what a name stands for, as Python, Spark and Hive read it.

    >>> pattern("public.m_*")
    '^public\\\\.m_.*$'
    """
    return f"^{'.*'.join(map(re.escape, name.split('*')))}$"
