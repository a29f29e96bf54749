"""The views and tables in the catalog that a table has by its settings, as `database.name`, and its Iceberg tables as values.

A type change adds `_g2` to the name of a table.
"""

from __future__ import annotations

from compactor.core.catalog import base_views, daily_views, feed, history_views, live, views
from compactor.core.catalog.ddl import Column, NativeDef
from compactor.core.model import history
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableKeys, TableSpec


def iceberg_name(spec: TableSpec, form: str) -> str:
    """Return the name of the Iceberg table. `form`: `base` or `current`."""
    return f"{spec.view}_iceberg" if form == "base" else f"{spec.view}_iceberg_{form}"


def iceberg_problem(keys: TableKeys) -> str | None:
    """Return why a table with these keys can have no Iceberg table, or None if it can or has none."""
    if keys.iceberg and keys.parquet == "hive":
        return "Iceberg's readers misread files in the form for Hive 2 and 3; set `parquet: standard` for all tables of the file"
    if keys.iceberg and keys.delete == "soft":
        return "`_deleted` is computed by the view and is in no Parquet file; set `delete: hide`, or remove this key"
    return None


def iceberg_table(spec: TableSpec, form: str, schema: Schema, uuid: str, location: str, metadata: str) -> NativeDef:
    """Return the Iceberg table. `location`: its directory; `metadata`: the metadata file. Engines read the columns there, and people read these."""
    columns = tuple(Column(schema.view_name(field), field.type, views.column_comment(field)) for field in schema.payload)
    return NativeDef(spec.database, iceberg_name(spec, form), columns, location, metadata, {views.UUID: uuid})


def views_of(spec: TableSpec) -> list[str]:
    """Return the views and Iceberg tables that readers use, the view of the current rows first."""
    optional = ((history_views.name(spec), spec.history), (daily_views.called(spec), spec.daily), (base_views.called(spec), spec.read_optimized))
    shown = [spec.view, *(name for name, on in optional if on)]
    names = [views.in_dialect(name, dialect) for name in shown for dialect in views.dialects(spec)]
    names += [iceberg_name(spec, form) for form in spec.iceberg] + ([live.name(spec)] if spec.live_view else [])
    return [f"{spec.database}.{name}" for name in names]


def tables_of(spec: TableSpec) -> list[str]:
    """Return the tables below the views. Landed files hold protected columns as they are, so no table shows those."""
    parts = {"incremental": not spec.columns, feed.TABLE: spec.feed != "off", history.ROWS: spec.history, daily_views.ROWS: spec.daily}
    return [f"{spec.tables_in}.{spec.name}_{part}" for part in ("base", "delta", *(part for part, on in parts.items() if on))]
