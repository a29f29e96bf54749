"""Tables, views and partitions as Glue's API words them, and back. Pure. https://docs.aws.amazon.com/glue/latest/webapi/API_TableInput.html"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from compactor.catalog import rules
from compactor.catalog.formats import FORMATS, VIEW_FORMAT
from compactor.catalog.glue import presto
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef

TABLE, VIEW = "EXTERNAL_TABLE", "VIRTUAL_VIEW"
_TABLE_FIELDS = (
    *("Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor", "PartitionKeys"),
    *("ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable"),
)
_PARTITION_FIELDS = ("Values", "LastAccessTime", "StorageDescriptor", "Parameters", "LastAnalyzedTime")
"""Of what Glue tells of an object, the fields that it takes back; an update replaces the whole object."""


def kind(found: dict[str, Any]) -> str:
    """What an object is, in words."""
    names = {VIEW: "a view", TABLE: "an external table", "MANAGED_TABLE": "a managed table"}
    return names.get(found.get("TableType", ""), found.get("TableType") or "nothing")


def columns(fields: Iterable[dict[str, str]]) -> tuple[Column, ...]:
    """Glue's columns as ours."""
    return tuple(Column(each["Name"], each.get("Type", ""), each.get("Comment", "")) for each in fields)


def table_input(table: TableDef) -> dict[str, Any]:
    """A new external table."""
    return {
        "Name": table.name.lower(),
        "TableType": TABLE,
        # Hive's own clients take a table without it for a managed one and delete its files with it
        "Parameters": {"EXTERNAL": "TRUE", **table_parameters(table)},
        "PartitionKeys": _fields(rules.stored(table.partition_columns)),
        "StorageDescriptor": _descriptor(rules.table_columns(table), rules.uri(table.location), FORMATS[table.format]),
    }


def table_parameters(table: TableDef) -> dict[str, str]:
    """The parameters that are ours."""
    return {**table.properties, **({"comment": table.comment} if table.comment else {})}


def view_input(view: ViewDef) -> dict[str, Any]:
    """A view, in its dialect's form."""
    presto_view = view.dialect == "presto"
    return {
        "Name": view.name.lower(),
        "TableType": VIEW,
        # Trino asks for both, the flag and the comment
        "Parameters": {**view.properties, **({presto.FLAG: "true", "comment": presto.COMMENT} if presto_view else {})},
        "PartitionKeys": [],
        "StorageDescriptor": _descriptor(rules.stored(view.columns), "", VIEW_FORMAT),
        # Engines differ in which of the two texts they read.
        "ViewOriginalText": presto.encoded(view) if presto_view else view.text,
        "ViewExpandedText": presto.EXPANDED if presto_view else view.text,
    }


def table(found: dict[str, Any]) -> TableDef:
    """An external table of the catalog."""
    said, parameters = found["StorageDescriptor"], found.get("Parameters", {})
    serde = said.get("SerdeInfo", {}).get("SerializationLibrary")
    return TableDef(
        found["DatabaseName"],
        found["Name"],
        columns(said.get("Columns", [])),
        columns(found.get("PartitionKeys", [])),
        rules.place(said.get("Location", "")),
        rules.shown(parameters),
        next((name for name, formats in FORMATS.items() if formats[2] == serde), str(serde)),
        parameters.get("comment", ""),
    )


def view(found: dict[str, Any]) -> ViewDef:
    """A view of the catalog; whoever made it."""
    original = found.get("ViewOriginalText", "")
    said = presto.decoded(original)
    properties = {name: value for name, value in rules.shown(found.get("Parameters", {})).items() if name != presto.FLAG}
    text = said["originalSql"] if said else found.get("ViewExpandedText") or original
    shown = columns(found.get("StorageDescriptor", {}).get("Columns", []))
    return ViewDef(found["DatabaseName"], found["Name"], text, shown, properties, "presto" if said else "hive")


def updated(found: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The input that leaves an object as it was found, but for the changes."""
    return {**{name: found[name] for name in _TABLE_FIELDS if name in found}, **changes}


def partition_input(owner: dict[str, Any], partition: PartitionDef) -> dict[str, Any]:
    """A new partition of the table `owner`, read as the table is."""
    storage = {**owner["StorageDescriptor"], "Location": rules.uri(partition.location)}
    return {"Values": list(partition.values), "StorageDescriptor": storage, "Parameters": rules.statistics(partition)}


def outdated_partition(owner: dict[str, Any], found: dict[str, Any], wanted: PartitionDef) -> bool:
    """Whether a partition has other columns or statistics than it should."""
    stale = rules.statistics(wanted).items() - found.get("Parameters", {}).items()
    # Hive 2.3 reads a column that the partition does not list as null, silently.
    return bool(stale) or columns(found["StorageDescriptor"].get("Columns", [])) != columns(owner["StorageDescriptor"].get("Columns", []))


def updated_partition(owner: dict[str, Any], found: dict[str, Any], wanted: PartitionDef) -> dict[str, Any]:
    """The input that gives it the table's columns and our statistics."""
    storage = {**found["StorageDescriptor"], "Columns": owner["StorageDescriptor"].get("Columns", [])}
    kept = {name: found[name] for name in _PARTITION_FIELDS if name in found}
    return {**kept, "StorageDescriptor": storage, "Parameters": {**found.get("Parameters", {}), **rules.statistics(wanted)}}


def partition(found: dict[str, Any]) -> PartitionDef:
    """A partition of the catalog."""

    def number(name: str) -> int | None:
        text = found.get("Parameters", {}).get(name, "")
        return int(text) if text.isdigit() else None

    location = rules.place(found.get("StorageDescriptor", {}).get("Location", ""))
    return PartitionDef(tuple(found["Values"]), location, number("numRows"), number("totalSize"), number("numFiles"))


def _descriptor(shown: Sequence[Column], location: str, formats: tuple[str, str, str]) -> dict[str, Any]:
    library = {"SerializationLibrary": formats[2]} if formats[2] else {}
    return {
        "Columns": _fields(shown),
        **({"Location": location} if location else {}),
        "InputFormat": formats[0],
        "OutputFormat": formats[1],
        "SerdeInfo": {**library, "Parameters": {"serialization.format": "1"}},
    }


def _fields(shown: Iterable[Column]) -> list[dict[str, str]]:
    return [{"Name": each.name, "Type": each.type, **({"Comment": each.comment} if each.comment else {})} for each in shown]
