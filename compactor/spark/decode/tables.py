"""Which events of a stream belong to a table: `source_table`."""

from __future__ import annotations

from compactor.spark.sql import literal


def of_other_table(schema: str, table: str, wanted: str | None) -> str:
    """SQL: whether an event belongs to none of the tables that `source_table` names: `schema.table`, `schema.part_*`, several with commas."""
    if not wanted:
        return "false"
    name = f"concat_ws('.', {schema}, {table})"
    tests = []
    for part in (part.strip() for part in wanted.split(",")):
        for told in (name, table) if "." not in part else (name,):
            pattern = "(.*)".join(rf"\Q{piece}\E" for piece in part.split("*"))
            tests.append(f"{told} RLIKE {literal(f'^{pattern}$')}" if "*" in part else f"{told} = {literal(part)}")
    return f"NOT coalesce({' OR '.join(tests)}, false)"
