"""Convert tables, views and partitions to Glue's API objects and back, without I/O.

https://docs.aws.amazon.com/glue/latest/webapi/API_TableInput.html
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from typing import Any

from compactor.catalog import rules
from compactor.catalog.rules import FORMATS, NATIVE_FORMAT, VIEW_FORMAT, serde_parameters
from compactor.core.catalog.ddl import Column, NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.catalog.dialect import presto_type

_TABLE_FIELDS = (
    *("Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor", "PartitionKeys"),
    *("ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable"),
)
_PARTITION_FIELDS = ("Values", "LastAccessTime", "StorageDescriptor", "Parameters", "LastAnalyzedTime")
"""Fields that Glue accepts in an update. An update replaces the whole object, so all of them are sent back."""

_PRESTO_FLAG, _PRESTO_COMMENT, _PRESTO_EXPANDED = "presto_view", "Presto View", "/* Presto View */"
_PRESTO_BEGIN, _PRESTO_END = "/* Presto View: ", " */"
_PRESTO_CATALOG = "awsdatacatalog"
"""Athena's name for the account's Glue catalog."""


def columns(fields: Iterable[dict[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(each["Name"], each.get("Type", ""), each.get("Comment", "")) for each in fields)


def table_input(table: TableDef) -> dict[str, Any]:
    return {
        "Name": table.name.lower(),
        "TableType": rules.TABLE,
        # without it Hive's own clients treat the table as managed and delete its files with it
        "Parameters": {"EXTERNAL": "TRUE", **rules.table_parameters(table)},
        "PartitionKeys": _fields(rules.stored(table.partition_columns)),
        "StorageDescriptor": _descriptor(rules.table_columns(table), rules.uri(table.location), FORMATS[table.format]),
    }


def view_input(view: ViewDef) -> dict[str, Any]:
    presto_view = view.dialect == "presto"
    return {
        "Name": view.name.lower(),
        "TableType": rules.VIEW,
        # Trino requires both the flag and the comment
        "Parameters": {**view.properties, **({_PRESTO_FLAG: "true", "comment": _PRESTO_COMMENT} if presto_view else {})},
        "PartitionKeys": [],
        "StorageDescriptor": _descriptor(rules.stored(view.columns), "", VIEW_FORMAT),
        # Some engines read the original text, others the expanded one.
        "ViewOriginalText": presto_text(view) if presto_view else view.text,
        "ViewExpandedText": _PRESTO_EXPANDED if presto_view else view.text,
    }


def table(entry: dict[str, Any]) -> TableDef:
    storage, parameters = entry["StorageDescriptor"], entry.get("Parameters", {})
    return TableDef(
        entry["DatabaseName"],
        entry["Name"],
        columns(storage.get("Columns", [])),
        columns(entry.get("PartitionKeys", [])),
        rules.place(storage.get("Location", "")),
        rules.shown(parameters),
        rules.format_of(storage.get("SerdeInfo", {}).get("SerializationLibrary")),
        parameters.get("comment", ""),
    )


def view(entry: dict[str, Any]) -> ViewDef:
    """Convert a view of the catalog, whoever created it."""
    original = entry.get("ViewOriginalText", "")
    definition = presto_definition(original)
    properties = {name: value for name, value in rules.shown(entry.get("Parameters", {})).items() if name != _PRESTO_FLAG}
    text = definition["originalSql"] if definition else entry.get("ViewExpandedText") or original
    shown = columns(entry.get("StorageDescriptor", {}).get("Columns", []))
    return ViewDef(entry["DatabaseName"], entry["Name"], text, shown, properties, "presto" if definition else "hive")


def native_input(table: NativeDef, before: str | None) -> dict[str, Any]:
    """Return the input that creates or moves an Iceberg table. `before`: the metadata file that it pointed to."""
    return {
        "Name": table.name.lower(),
        "TableType": rules.TABLE,
        "Parameters": rules.native_parameters(table, before),
        "PartitionKeys": [],
        "StorageDescriptor": _descriptor(rules.stored(table.columns), rules.uri(table.location), NATIVE_FORMAT),
    }


def native(label: str, entry: dict[str, Any]) -> NativeDef:
    """Convert an Iceberg table of the catalog. Raises CatalogRefused for any other object."""
    storage, parameters = entry.get("StorageDescriptor", {}), entry.get("Parameters", {})
    metadata = rules.pointer(label, parameters)
    location = rules.place(storage.get("Location", ""))
    return NativeDef(entry["DatabaseName"], entry["Name"], columns(storage.get("Columns", [])), location, metadata, rules.own(parameters))


def updated(entry: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the input that updates an object with these changes and leaves everything else."""
    return {**{name: entry[name] for name in _TABLE_FIELDS if name in entry}, **changes}


def partition_input(owner: dict[str, Any], partition: PartitionDef) -> dict[str, Any]:
    """Return the input that creates a partition of the table `owner`, with the table's format and columns."""
    storage = {**owner["StorageDescriptor"], "Location": rules.uri(partition.location)}
    return {"Values": list(partition.values), "StorageDescriptor": storage, "Parameters": rules.statistics(partition)}


def outdated_partition(owner: dict[str, Any], entry: dict[str, Any], requested: PartitionDef) -> bool:
    """Whether a partition's columns or statistics differ from those requested."""
    listed, expected = (columns(each["StorageDescriptor"].get("Columns", [])) for each in (entry, owner))
    return rules.outdated_partition(requested, entry.get("Parameters", {}), listed, expected)


def updated_partition(owner: dict[str, Any], entry: dict[str, Any], requested: PartitionDef) -> dict[str, Any]:
    """Return the input that gives a partition the table's columns and our statistics."""
    storage = {**entry["StorageDescriptor"], "Columns": owner["StorageDescriptor"].get("Columns", [])}
    kept = {name: entry[name] for name in _PARTITION_FIELDS if name in entry}
    return {**kept, "StorageDescriptor": storage, "Parameters": {**entry.get("Parameters", {}), **rules.statistics(requested)}}


def partition(entry: dict[str, Any]) -> PartitionDef:
    return rules.partition(entry["Values"], entry.get("StorageDescriptor", {}).get("Location", ""), entry.get("Parameters", {}))


def _descriptor(shown: Sequence[Column], location: str, formats: tuple[str, str, str]) -> dict[str, Any]:
    library = {"SerializationLibrary": formats[2]} if formats[2] else {}
    return {
        "Columns": _fields(shown),
        **({"Location": location} if location else {}),
        "InputFormat": formats[0],
        "OutputFormat": formats[1],
        "SerdeInfo": {**library, "Parameters": serde_parameters(formats)},
    }


def _fields(shown: Iterable[Column]) -> list[dict[str, str]]:
    return [{"Name": each.name, "Type": each.type, **({"Comment": each.comment} if each.comment else {})} for each in shown]


# The form of Athena's and Trino's own views: JSON in base64, in a comment, as the view's original text. Written as Trino's Hive connector does
# (io.trino.plugin.hive.ViewReaderUtil; fields of io.trino.spi.connector.ConnectorViewDefinition), with the four fields that Athena's own views have.
# Athena refuses a Hive view, Hive and Spark refuse this one: hence two objects.


def presto_text(view: ViewDef) -> str:
    """Return the original text of a view in this form."""
    columns = [{"name": column.name, "type": presto_type(column.type)} for column in view.columns]
    definition = {"originalSql": view.text, "catalog": _PRESTO_CATALOG, "schema": view.database, "columns": columns}
    return f"{_PRESTO_BEGIN}{base64.b64encode(json.dumps(definition, ensure_ascii=False).encode()).decode()}{_PRESTO_END}"


def presto_definition(original: str) -> dict[str, Any] | None:
    """Return the JSON object in an original text, or None for any other text."""
    if not (original.startswith(_PRESTO_BEGIN) and original.endswith(_PRESTO_END)):
        return None
    try:
        definition = json.loads(base64.b64decode(original[len(_PRESTO_BEGIN) : -len(_PRESTO_END)], validate=True))
    except (binascii.Error, ValueError):
        return None
    return definition if isinstance(definition, dict) and isinstance(definition.get("originalSql"), str) else None
