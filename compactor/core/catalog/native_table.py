"""`<view>_iceberg` and `<view>_iceberg_current`: an Iceberg table in the catalog, which points to a metadata file."""

from __future__ import annotations

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, NativeDef
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableKeys, TableSpec


def called(spec: TableSpec, form: str) -> str:
    """Return the name of the table. `form`: `base` or `current`."""
    return f"{spec.view}_iceberg" if form == "base" else f"{spec.view}_iceberg_{form}"


def problem(keys: TableKeys) -> str | None:
    """Return why a table with these keys can have no Iceberg table, or None if it can or has none."""
    if keys.iceberg and keys.parquet == "hive":
        return "Iceberg's readers misread files in the form for Hive 2 and 3; set `parquet: standard` for all tables of the file"
    if keys.iceberg and keys.delete == "soft":
        return "`_deleted` is computed by the view and is in no Parquet file; set `delete: hide`, or remove this key"
    return None


def definition(spec: TableSpec, form: str, schema: Schema, uuid: str, location: str, metadata: str) -> NativeDef:
    """Return the table. `location`: its directory; `metadata`: the metadata file. Engines read the columns there, and people read these."""
    columns = tuple(Column(schema.view_name(field), field.type, views.column_comment(field)) for field in schema.payload)
    return NativeDef(spec.database, called(spec, form), columns, location, metadata, {views.UUID: uuid})
