"""The catalog in a Hive metastore (a thrift:// server or embedded Derby), through the client in Spark's JVM.

Spark SQL cannot publish atomically. ALTER VIEW AS loses column comments and keeps old properties. CREATE OR REPLACE VIEW drops the view for a
moment. ADD PARTITION takes no statistics. The client's `alter_table` changes everything in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from compactor.catalog import rules
from compactor.catalog.hive_client import HiveClient, batches, causes, listed
from compactor.catalog.rules import NATIVE_FORMAT, VIEW_FORMAT
from compactor.core.catalog.ddl import Column, NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.catalog.views import VERSION
from compactor.core.model.errors import CatalogRefused, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


TURNS = 10
"""Attempts to replace a view while others replace it at the same moment."""

_MODIFIED = "The table has been modified"
"""Beginning of the metastore's error when an expected parameter has another value."""

_OTHER_TYPES = "types incompatible with the existing columns"
"""Part of the metastore's error when a column has another type than the one before it at its place."""

_CANNOT = "start with SELECT"
"""Error of DataNucleus when the metastore's defaults (HiveConf) are older than its code. Nothing was altered then."""


class HiveCatalog:
    """The Catalog of a session that has a metastore. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        self._hive = HiveClient(spark)
        self._compares = True

    def ensure_database(self, name: str, location: str) -> None:
        with self._hive.calls(f"database {name}"):
            if self._hive.has_database(name):
                return
            try:
                self._hive.client.createDatabase(self._hive.database(name.lower(), "", rules.uri(location), {}))
            except Py4JJavaError as error:
                if "AlreadyExistsException" not in causes(error):
                    raise

    def has_database(self, name: str) -> bool:
        with self._hive.calls(f"database {name}"):
            return self._hive.has_database(name)

    def table(self, database: str, name: str) -> TableDef | None:
        entry = self._hive.entry(database, name)
        if entry is None or entry.get("tableType") != rules.TABLE:
            return None
        return TableDef(
            entry["dbName"],
            entry["tableName"],
            _columns(entry["sd"]["cols"]),
            _columns(entry["partitionKeys"]),
            rules.place(entry["sd"]["location"]),
            rules.shown(entry["parameters"]),
            rules.format_of(entry["sd"]["serdeInfo"].get("serializationLib")),
            entry["parameters"].get("comment", ""),
        )

    def ensure_table(self, table: TableDef) -> None:
        label = f"{table.database}.{table.name}"
        with self._hive.calls(label):
            existing = self._hive.get(table.database, table.name)
            if existing is None:
                existing = self._hive.create(self._hive.new_table(table))
            if existing is not None:
                self._update_table(existing, table)

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register the missing partitions in bulk, and update stale ones. Registers nothing if one is refused."""
        label = f"{database}.{table}"
        with self._hive.calls(label):
            owner = self._hive.get(database, table)
            definition = self._hive.read(owner) if owner is not None else {}
            rules.check_external(label, definition.get("tableType", ""))
            requested = {each.values: each for each in partitions}
            missing, changed = [], []
            for values, (handle, entry) in self._registered(owner, database, table, list(requested)).items():
                if handle is None:
                    missing.append(requested[values])
                    continue
                rules.check_location(f"{label} {list(values)}", entry["sd"]["location"], requested[values].location)
                listed_columns, expected = (_columns(each["sd"]["cols"]) for each in (entry, definition))
                if rules.outdated_partition(requested[values], entry["parameters"], listed_columns, expected):
                    parameters = {**entry["parameters"], **rules.statistics(requested[values])}
                    changed.append((handle, parameters))
            for batch in batches(changed):
                handles = [self._hive.altered(handle, owner, parameters) for handle, parameters in batch]
                self._hive.client.alter_partitions(database, table, handles, self._hive.context({"DO_NOT_UPDATE_STATS": "true"}))
            for batch in batches(missing):
                self._hive.client.add_partitions([self._hive.new_partition(owner, database, table, each) for each in batch], True, False)

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        with self._hive.calls(f"{database}.{table}"):
            if self._hive.get(database, table) is None:
                return []
            names = listed(self._hive.client.listPartitionNames(database, table, -1))
            registered = [
                rules.partition(entry["values"], entry["sd"].get("location", ""), entry["parameters"])
                for batch in batches(names)
                for entry in self._hive.read_all(self._hive.client.getPartitionsByNames(database, table, batch))
            ]
        return sorted(registered, key=lambda partition: partition.values)

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        with self._hive.calls(f"{database}.{table}"):
            for each in values:
                try:
                    self._hive.client.dropPartition(database, table, list(each), False)
                except Py4JJavaError as error:
                    if "NoSuchObjectException" not in causes(error):
                        raise

    def view(self, database: str, name: str) -> ViewDef | None:
        entry = self._hive.entry(database, name)
        if entry is None:
            return None
        rules.check_view(f"{database}.{name}", entry.get("tableType", ""))
        text = entry.get("viewExpandedText") or entry.get("viewOriginalText", "")
        return ViewDef(entry["dbName"], entry["tableName"], text, _columns(entry["sd"]["cols"]), rules.shown(entry["parameters"]))

    def replace_view(self, view: ViewDef) -> None:
        """Create the view, or replace its text, columns and properties with `alter_table`. Foreign properties stay.

        A view that shows a newer version of the same table is left unchanged. This is checked just before the call, and within the call on a
        metastore that supports compare-and-set (HIVE-26882: Hive 2.3.10, 4.0).

        If columns change, up to three calls are needed: a reader may combine the text of one step with the columns of the next, and every such
        combination must be readable. Only the last call changes the version property, so a run after a crash replaces the view again.
        """
        label = f"{view.database}.{view.name}"
        if view.dialect != "hive":
            raise CatalogRefused(f"{label}: views in the form of {view.dialect} are supported in Glue only")
        for _ in range(TURNS):
            with self._hive.calls(label):
                try:
                    self._replace(label, view)
                    return
                except Py4JJavaError as error:
                    messages = _messages(error)
                    if _CANNOT in messages and self._compares:
                        log.warning("%s: the metastore cannot compare and set: set datanucleus.query.sql.allowAll to true there", label)
                        self._compares = False
                    elif _MODIFIED not in messages:
                        raise
        raise Unavailable(f"{label}: other processes replaced the view at the same moment in {TURNS} attempts. Run again.")

    def _replace(self, label: str, view: ViewDef) -> None:
        existing = self._hive.get(view.database, view.name)
        if existing is None:
            existing = self._hive.create(self._hive.new_view(view))
        if existing is None:
            return
        entry = self._hive.read(existing)
        rules.check_view(label, entry.get("tableType", ""))
        if rules.outdated(view, entry["parameters"]):
            log.info("%s: already shows a newer version; left unchanged", label)
            return
        columns = rules.stored(view.columns)
        properties = rules.kept(entry["parameters"])
        existing.setParameters(properties)
        now = _shape(_columns(entry["sd"]["cols"]))
        both = rules.between(_columns(entry["sd"]["cols"]), columns) if now != _shape(columns) else None
        if both and _shape(both) != now:
            self._alter_view(view, existing, both, properties)
        # Some engines read the original text, others the expanded one.
        existing.setViewOriginalText(view.text)
        existing.setViewExpandedText(view.text)
        if both and both != columns:
            self._alter_view(view, existing, both, properties)
        existing.setParameters({**properties, **view.properties})
        self._alter_view(view, existing, columns, properties)

    def _alter_view(self, view: ViewDef, handle: Any, columns: Sequence[Column], there: dict[str, str]) -> None:
        handle.setSd(self._hive.descriptor(columns, "", VIEW_FORMAT))
        expected = {"expected_parameter_key": VERSION, "expected_parameter_value": there[VERSION]} if self._compares and VERSION in there else {}
        self._hive.client.alter_table_with_environmentContext(view.database, view.name, handle, self._hive.context(expected))

    def native(self, database: str, name: str) -> NativeDef | None:
        entry = self._hive.entry(database, name)
        if entry is None:
            return None
        pointer = rules.pointer(f"{database}.{name}", entry["parameters"])
        location = rules.place(entry["sd"].get("location", ""))
        return NativeDef(entry["dbName"], entry["tableName"], _columns(entry["sd"]["cols"]), location, pointer, rules.own(entry["parameters"]))

    def point(self, table: NativeDef, expected: str | None) -> bool:
        """Create the table, or replace its pointer by one `alter_table`, which the metastore compares where it can."""
        with self._hive.calls(f"{table.database}.{table.name}"):
            if expected is None:
                return self._hive.create(self._hive.new_native(table)) is None
            handle = self._hive.get(table.database, table.name)
            entry = self._hive.read(handle) if handle is not None else {"parameters": {}}
            pointer = entry["parameters"].get(rules.POINTER, "")
            if handle is None or rules.place(pointer) != expected:
                return False
            handle.setParameters({**rules.kept(entry["parameters"]), **rules.native_parameters(table, expected)})
            compared = {"expected_parameter_key": rules.POINTER, "expected_parameter_value": pointer} if self._compares else {}

            def alter(columns: Sequence[Column]) -> None:
                handle.setSd(self._hive.descriptor(columns, rules.uri(table.location), NATIVE_FORMAT))
                self._hive.client.alter_table_with_environmentContext(table.database, table.name, handle, self._hive.context(compared))

            try:
                try:
                    alter(rules.stored(table.columns))
                except Py4JJavaError as error:
                    if _OTHER_TYPES not in _messages(error):
                        raise
                    # those that are registered: readers of Iceberg take the columns from the metadata
                    alter(_columns(entry["sd"]["cols"]))
            except Py4JJavaError as error:
                if _MODIFIED not in _messages(error):
                    raise
                return False
            return True

    def _update_table(self, existing: Any, table: TableDef) -> None:
        entry = self._hive.read(existing)
        storage = entry["sd"]
        columns, columns_now = rules.table_columns(table), _columns(storage["cols"])
        library = storage.get("serdeInfo", {}).get("serializationLib")
        rules.check_update(table, entry["tableType"], storage.get("location", ""), columns_now, _columns(entry["partitionKeys"]), library)
        properties = {**rules.kept(entry["parameters"]), **rules.table_parameters(table)}
        if columns == columns_now and properties == entry["parameters"]:
            return
        existing.getSd().setCols(self._hive.fields(columns))
        existing.setParameters(properties)
        self._hive.client.alter_table(table.database, table.name, existing)

    def _registered(
        self, owner: Any, database: str, table: str, values: Sequence[tuple[str, ...]]
    ) -> dict[tuple[str, ...], tuple[Any, dict[str, Any]]]:
        """Return each of `values` with (the thrift partition or None, its content)."""
        registered: dict[tuple[str, ...], tuple[Any, dict[str, Any]]] = {each: (None, {}) for each in values}
        for batch in batches(values):
            names = [self._hive.warehouse.makePartName(owner.getPartitionKeys(), list(each)) for each in batch]
            handles = self._hive.client.getPartitionsByNames(database, table, names)
            for handle, entry in zip(listed(handles), self._hive.read_all(handles)):
                registered[tuple(entry["values"])] = (handle, entry)
        return registered


def _messages(error: Py4JJavaError) -> str:
    return " ".join(causes(error).values())


def _columns(fields: Iterable[dict[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(each["name"], each["type"], each.get("comment", "")) for each in fields)


def _shape(columns: Iterable[Column]) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]
