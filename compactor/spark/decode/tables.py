"""Select the events of one table out of a stream: `source_table`."""

from __future__ import annotations

from compactor.spark.sql import literal


def of_other_table(schema: str, table: str, source_table: str | None) -> str:
    """SQL: whether an event belongs to none of the tables in `source_table`: `schema.table`, `schema.part_*`, or several with commas.

    `schema` and `table` are SQL. A name without schema matches in every schema.
    """
    if not source_table:
        return "false"
    name = f"concat_ws('.', {schema}, {table})"
    tests = []
    for part in (part.strip() for part in source_table.split(",")):
        for value in (name, table) if "." not in part else (name,):
            pattern = "(.*)".join(rf"\Q{piece}\E" for piece in part.split("*"))
            tests.append(f"{value} RLIKE {literal(f'^{pattern}$')}" if "*" in part else f"{value} = {literal(part)}")
    return f"NOT coalesce({' OR '.join(tests)}, false)"
