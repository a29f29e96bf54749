"""Defaults: what rows from before a column read in it.

An event whose writer lacks a column writes the column's default if the event lies below the first one with the column, else null. Both the default
and that first event can still change when an older event arrives. So files do not hold what a row's own Position decides: they have null there, and
views and readers put the default in its place. Files of a table with `iceberg:` do hold it, because others read them alone (`Segment.defaults`); who
reads them after a change of the default takes it out again (`in_file`). Where only `_own` decides (a value that later events left out) the file has
the default, and the commit that changes it writes a new base (`Schema.defaults_moved`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.spark.rows import position
from compactor.spark.sql import cast, literal, quoted


def default(schema: Schema, name: str) -> str:
    """SQL for the default of a column, in its type."""
    return cast(literal(schema.defaults[name][1]), types.parse(schema.field(name).type))


def below(schema: Schema, name: str, order: position.Order, at: str = "_at") -> str:
    """SQL: whether a Position lies below the first event with a column that has a default."""
    return f"({at} < {position.fixed(schema.defaults[name][0], order)})"


def shown(schema: Schema, name: str, order: position.Order, value: str, stored: Schema | None) -> str:
    """SQL for a value of a base or Delta file as its row has it. `value` is SQL; `stored` is the schema of the file if it is another one."""
    # null for a tombstone that hides no row
    register = f"coalesce(try_element_at(_own, {literal(name)}).at, _at)"
    cases = []
    if name in schema.defaults:
        put = default(schema, name)
        cases += [
            f"WHEN {below(schema, name, order)} AND {value} IS NULL AND {register} IS NOT NULL THEN {put}",
            f"WHEN NOT {below(schema, name, order)} AND {below(schema, name, order, register)} THEN {put}",
        ]
    if stored is not None and name in stored.defaults and stored.defaults[name] != schema.defaults.get(name):
        cases.append(f"WHEN NOT {below(stored, name, order)} AND {below(stored, name, order, register)} THEN NULL")
    return f"CASE {' '.join(cases)} ELSE {value} END" if cases else value


def shown_by_position(schema: Schema, name: str, order: position.Order, value: str) -> str:
    """SQL for a value of an event of the history."""
    if name not in schema.defaults:
        return value
    return f"CASE WHEN {below(schema, name, order, '_position')} AND {value} IS NULL THEN {default(schema, name)} ELSE {value} END"


def in_file(schema: Schema, name: str, order: position.Order, at: str = "_at") -> str:
    """SQL for the value of a column as a file holds it: null where the row's Position says that it reads the default."""
    if name not in schema.defaults:
        return quoted(name)
    value = f"CASE WHEN {below(schema, name, order, at)} THEN nullif({quoted(name)}, {default(schema, name)}) ELSE {quoted(name)} END"
    return f"{value} AS {quoted(name)}"


def without_later(rows: DataFrame, spec: TableSpec, schema: Schema, partial: Sequence[str], order: position.Order) -> DataFrame:
    """Return stored rows, under `patch_rows` with an entry in `_own` for each partial column that is younger than the row: no event had a value."""
    later = [field for field in schema.later if field.name in partial] if spec.patch_rows else []
    if not later:
        return rows
    younger = [
        f"CASE WHEN _version < {field.since} AND try_element_at(_own, {literal(field.name)}) IS NULL "
        f"THEN struct({literal(field.name)}, {position.lacks(order)}) END"
        for field in later
    ]
    own, ddl = f"map_from_entries(array_compact(array({', '.join(younger)})))", position.own_ddl(order)
    marked = f"map_concat(coalesce(_own, CAST(map() AS {ddl})), CAST({own} AS {ddl})) AS _own"
    return rows.selectExpr(*[marked if name == "_own" else quoted(name) for name in rows.columns])
