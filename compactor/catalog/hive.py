"""The catalog in a Hive metastore, a thrift:// server or embedded Derby, through the client that Spark uses, in Spark's JVM.

Spark SQL cannot publish: ALTER VIEW AS loses column comments and keeps old properties, CREATE OR REPLACE VIEW leaves a moment
without the view, ADD PARTITION takes no statistics. The client's `alter_table` changes everything in one transaction.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from compactor.catalog import rules
from compactor.catalog.formats import FORMATS, VIEW_FORMAT
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef
from compactor.core.catalog.views import VERSION
from compactor.core.model.errors import CatalogRefused, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BATCH = 500
"""Partitions in one call. One `add_partitions` is one transaction; readers see nothing of it until the view names them."""

TURNS = 10
"""How often a view is looked at again that somebody else replaced at the same moment."""

_MODIFIED = "The table has been modified"
"""How a metastore begins its answer when an expected parameter has another value."""

_CANNOT = "start with SELECT"
"""What DataNucleus answers where the metastore's own defaults (HiveConf) are older than its code; nothing was altered."""

_REFUSED = {
    "AccessControlException",
    "AlreadyExistsException",
    "ConfigValSecurityException",
    "InvalidInputException",
    "InvalidObjectException",
    "InvalidOperationException",
    "InvalidPartitionException",
    "NoSuchObjectException",
    "UnknownDBException",
    "UnknownTableException",
}
_REFUSED_TEXTS = ("AccessControlException", "Permission denied", "not authorized", "Invalid method name")
"""The last: a metastore of another age, which Spark's client cannot talk to."""


class HiveCatalog:
    """The Catalog of a session that has a metastore. Threads may share it: a lock guards the client."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        context: Any = spark.sparkContext._jsc
        self._lock = threading.RLock()
        self._compares = True
        api = jvm.org.apache.hadoop.hive.metastore.api
        # Looking a class up costs a round trip for each part of its name.
        self._database, self._table, self._partition = api.Database, api.Table, api.Partition
        self._storage, self._serde, self._field = api.StorageDescriptor, api.SerDeInfo, api.FieldSchema
        self._list, self._context = api.PartitionListComposingSpec, api.EnvironmentContext
        self._warehouse = jvm.org.apache.hadoop.hive.metastore.Warehouse
        thrift = jvm.org.apache.thrift
        self._json = thrift.TSerializer(thrift.protocol.TSimpleJSONProtocol.Factory())
        with self._answers("the metastore"):
            kind = jvm.java.lang.Class.forName("org.apache.hadoop.hive.conf.HiveConf")
            conf = jvm.org.apache.hadoop.hive.conf.HiveConf(context.hadoopConfiguration(), kind)
            # Whoever comes first creates the database `default`, and with Hive's own setting below /user/hive.
            conf.set("hive.metastore.warehouse.dir", spark.conf.get("spark.sql.warehouse.dir") or "")
            hive = jvm.org.apache.hadoop.hive.ql.metadata.Hive
            # Spark keeps its own client in the thread; with that one we would talk into Spark's calls.
            hive.set(None)
            self._client = hive.getWithoutRegisterFns(conf).getMSC()
            hive.set(None)

    def ensure_database(self, name: str, location: str) -> None:
        """Create the database when it is missing."""
        with self._answers(f"database {name}"):
            if name.lower() in {found.lower() for found in self._client.getAllDatabases()}:
                return
            try:
                self._client.createDatabase(self._database(name.lower(), "", rules.uri(location), {}))
            except Py4JJavaError as error:
                if "AlreadyExistsException" not in _causes(error):
                    raise

    def has_database(self, name: str) -> bool:
        """Whether it is there."""
        with self._answers(f"database {name}"):
            return name.lower() in {found.lower() for found in self._client.getAllDatabases()}

    def table(self, database: str, name: str) -> TableDef | None:
        """The external table as it is, or None."""
        with self._answers(f"{database}.{name}"):
            found = self._get(database, name)
            told = self._read(found) if found is not None else {}
        if told.get("tableType") != "EXTERNAL_TABLE":
            return None
        serde = told["sd"]["serdeInfo"].get("serializationLib")
        kind = next((kind for kind, formats in FORMATS.items() if formats[2] == serde), str(serde))
        return TableDef(
            told["dbName"],
            told["tableName"],
            _columns(told["sd"]["cols"]),
            _columns(told["partitionKeys"]),
            rules.place(told["sd"]["location"]),
            rules.shown(told["parameters"]),
            kind,
            told["parameters"].get("comment", ""),
        )

    def ensure_table(self, table: TableDef) -> None:
        """Create the table, or append columns and bring comments and properties up to date."""
        rules.check_table(table)
        label = f"{table.database}.{table.name}"
        with self._answers(label):
            existing = self._get(table.database, table.name)
            if existing is None:
                existing = self._create(self._new_table(table))
            if existing is not None:
                self._update_table(label, existing, table)

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register the missing ones in bulk; nothing is registered when one is refused."""
        label = f"{database}.{table}"
        with self._answers(label):
            owner = self._get(database, table)
            told = self._read(owner) if owner is not None else {}
            if told.get("tableType") != "EXTERNAL_TABLE":
                raise CatalogRefused(f"{label}: expected an external table, found {_kind(told)}")
            wanted = rules.distinct(label, [key["name"] for key in told["partitionKeys"]], partitions)
            missing, changed = [], []
            for values, (handle, entry) in self._registered(owner, database, table, list(wanted)).items():
                if handle is None:
                    missing.append(wanted[values])
                    continue
                rules.check_location(f"{label} {list(values)}", entry["sd"]["location"], wanted[values].location)
                stale = rules.statistics(wanted[values]).items() - entry["parameters"].items()
                # Hive 2.3 reads a column that the partition does not list as null, silently.
                if stale or _columns(entry["sd"]["cols"]) != _columns(told["sd"]["cols"]):
                    parameters = {**entry["parameters"], **rules.statistics(wanted[values])}
                    changed.append((handle, parameters))
            for batch in _batches(changed):
                handles = [self._altered(handle, owner, parameters) for handle, parameters in batch]
                self._client.alter_partitions(database, table, handles, self._context({"DO_NOT_UPDATE_STATS": "true"}))
            for batch in _batches(missing):
                self._client.add_partitions([self._new_partition(owner, database, table, each) for each in batch], True, False)

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """What is registered, by values."""
        with self._answers(f"{database}.{table}"):
            if self._get(database, table) is None:
                return []
            names = list(self._client.listPartitionNames(database, table, -1))
            found = [
                _partition(entry) for batch in _batches(names) for entry in self._read_all(self._client.getPartitionsByNames(database, table, batch))
            ]
        return sorted(found, key=lambda partition: partition.values)

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """Unregister; the files stay."""
        with self._answers(f"{database}.{table}"):
            for each in values:
                try:
                    self._client.dropPartition(database, table, list(each), False)
                except Py4JJavaError as error:
                    if "NoSuchObjectException" not in _causes(error):
                        raise

    def view(self, database: str, name: str) -> ViewDef | None:
        """The view as it is, or None."""
        with self._answers(f"{database}.{name}"):
            found = self._get(database, name)
            told = self._read(found) if found is not None else None
        if told is None:
            return None
        _check_view(f"{database}.{name}", told)
        text = told.get("viewExpandedText") or told.get("viewOriginalText", "")
        comment = {"comment": told["parameters"]["comment"]} if told["parameters"].get("comment") else {}
        return ViewDef(told["dbName"], told["tableName"], text, _columns(told["sd"]["cols"]), {**rules.shown(told["parameters"]), **comment})

    def replace_view(self, view: ViewDef) -> None:
        """Create the view, or replace text, columns and properties by one `alter_table`; foreign properties stay.

        One that shows a newer version of the same table by now stays as it is: looked at just before, and on a metastore that compares and sets
        (HIVE-26882: Hive 2.3.10, 4.0) in the alteration itself.

        Where the columns change it takes up to three, so that whatever a reader gets of two that follow one another, it can read it. The version
        among the properties is changed by the last: what a crash leaves between is replaced again.
        """
        label = f"{view.database}.{view.name}"
        if view.dialect != "hive":
            raise CatalogRefused(f"{label}: a view in the form of {view.dialect} is kept in Glue only")
        for _ in range(TURNS):
            with self._answers(label):
                try:
                    self._replace(label, view)
                    return
                except Py4JJavaError as error:
                    told = " ".join(_causes(error).values())
                    if _CANNOT in told and self._compares:
                        log.warning("the metastore could compare and set, but for its setting datanucleus.query.sql.allowAll, which is not true")
                        self._compares = False
                    elif _MODIFIED not in told:
                        raise
        raise Unavailable(f"{label}: others replaced the view {TURNS} times while it was to be replaced")

    def _replace(self, label: str, view: ViewDef) -> None:
        existing = self._get(view.database, view.name)
        if existing is None:
            existing = self._create(self._new_view(view))
        if existing is None:
            return
        told = self._read(existing)
        _check_view(label, told)
        if rules.outdated(view, told["parameters"]):
            log.info("%s: shows a newer version already; it stays", label)
            return
        columns = rules.stored(view.columns)
        properties = rules.kept(told["parameters"])
        existing.setParameters(properties)
        now = _shape(_columns(told["sd"]["cols"]))
        both = rules.between(_columns(told["sd"]["cols"]), columns) if now != _shape(columns) else None
        if both and _shape(both) != now:
            self._alter_view(view, existing, both, properties)
        # Engines differ in which of the two texts they read.
        existing.setViewOriginalText(view.text)
        existing.setViewExpandedText(view.text)
        if both and both != columns:
            self._alter_view(view, existing, both, properties)
        existing.setParameters({**properties, **view.properties})
        self._alter_view(view, existing, columns, properties)

    def _alter_view(self, view: ViewDef, handle: Any, columns: Sequence[Column], there: dict[str, str]) -> None:
        handle.setSd(self._descriptor(columns, "", VIEW_FORMAT))
        expected = {"expected_parameter_key": VERSION, "expected_parameter_value": there[VERSION]} if self._compares and VERSION in there else {}
        self._client.alter_table_with_environmentContext(view.database, view.name, handle, self._context(expected))

    def _get(self, database: str, name: str) -> Any | None:
        try:
            return self._client.getTable(database, name)
        except Py4JJavaError as error:
            if _causes(error).keys() & {"NoSuchObjectException", "UnknownDBException"}:
                return None
            raise

    def _create(self, table: Any) -> Any | None:
        """Create it; what is there instead when somebody was faster."""
        try:
            self._client.createTable(table)
        except Py4JJavaError as error:
            if "AlreadyExistsException" not in _causes(error):
                raise
            return self._get(table.getDbName(), table.getTableName())
        return None

    def _update_table(self, label: str, existing: Any, table: TableDef) -> None:
        told = self._read(existing)
        if told["tableType"] != "EXTERNAL_TABLE":
            raise CatalogRefused(f"{label}: expected an external table, found {_kind(told)}; drop it or choose another name")
        rules.check_location(label, told["sd"]["location"], table.location)
        rules.check_partition_columns(label, _columns(told["partitionKeys"]), table.partition_columns)
        found = told["sd"]["serdeInfo"].get("serializationLib")
        if found != FORMATS[table.format][2]:
            raise CatalogRefused(f"{label}: expected a table of {table.format} files, found {found}")
        columns, columns_now = rules.table_columns(table), _columns(told["sd"]["cols"])
        rules.check_evolution(label, columns_now, columns)
        properties = {**rules.kept(told["parameters"]), **_table_parameters(table)}
        if columns == columns_now and properties == told["parameters"]:
            return
        existing.getSd().setCols(self._fields(columns))
        existing.setParameters(properties)
        self._client.alter_table(table.database, table.name, existing)

    def _new_table(self, table: TableDef) -> Any:
        made = self._table()
        made.setDbName(table.database.lower())
        made.setTableName(table.name.lower())
        made.setTableType("EXTERNAL_TABLE")
        made.setSd(self._descriptor(rules.table_columns(table), rules.uri(table.location), FORMATS[table.format]))
        made.setPartitionKeys(self._fields(rules.stored(table.partition_columns)))
        # Without the parameter Hive takes it for a managed table, whatever its type says, and deletes the files with it.
        made.setParameters({"EXTERNAL": "TRUE", **_table_parameters(table)})
        return made

    def _new_view(self, view: ViewDef) -> Any:
        made = self._table()
        made.setDbName(view.database.lower())
        made.setTableName(view.name.lower())
        made.setTableType("VIRTUAL_VIEW")
        made.setSd(self._descriptor(rules.stored(view.columns), "", VIEW_FORMAT))
        made.setPartitionKeys([])
        made.setViewOriginalText(view.text)
        made.setViewExpandedText(view.text)
        made.setParameters(dict(view.properties))
        return made

    def _new_partition(self, owner: Any, database: str, table: str, partition: PartitionDef) -> Any:
        made = self._partition()
        made.setDbName(database.lower())
        made.setTableName(table.lower())
        made.setValues(list(partition.values))
        storage = owner.getSd().deepCopy()
        storage.setLocation(rules.uri(partition.location))
        made.setSd(storage)
        # Else the metastore lists the folder and writes what it counts over what the Snapshot knows.
        made.setParameters({**rules.statistics(partition), "DO_NOT_UPDATE_STATS": "true"})
        return made

    def _altered(self, handle: Any, owner: Any, parameters: dict[str, str]) -> Any:
        handle.getSd().setCols(owner.getSd().getCols())
        handle.setParameters(parameters)
        return handle

    def _registered(
        self, owner: Any, database: str, table: str, values: Sequence[tuple[str, ...]]
    ) -> dict[tuple[str, ...], tuple[Any, dict[str, Any]]]:
        """Each of `values` → (the partition or None, what it says)."""
        found: dict[tuple[str, ...], tuple[Any, dict[str, Any]]] = {each: (None, {}) for each in values}
        for batch in _batches(values):
            names = [self._warehouse.makePartName(owner.getPartitionKeys(), list(each)) for each in batch]
            handles = self._client.getPartitionsByNames(database, table, names)
            for handle, entry in zip(handles, self._read_all(handles)):
                found[tuple(entry["values"])] = (handle, entry)
        return found

    def _descriptor(self, columns: Iterable[Column], location: str, formats: tuple[str, str, str]) -> Any:
        made = self._storage()
        made.setCols(self._fields(columns))
        if location:
            made.setLocation(location)
        made.setInputFormat(formats[0])
        made.setOutputFormat(formats[1])
        made.setNumBuckets(-1)
        serde = self._serde()
        if formats[2]:
            serde.setSerializationLib(formats[2])
        serde.setParameters({"serialization.format": "1"})
        made.setSerdeInfo(serde)
        for setter in (made.setBucketCols, made.setSortCols):
            setter([])
        made.setParameters({})
        return made

    def _fields(self, columns: Iterable[Column]) -> list[Any]:
        return [self._field(column.name, column.type, column.comment) for column in columns]

    def _read(self, thing: Any) -> dict[str, Any]:
        """A thrift object as plain values in one round trip, instead of one for each of its fields."""
        told: dict[str, Any] = json.loads(self._json.toString(thing))
        for name in ("parameters", "partitionKeys", "partitions"):
            told.setdefault(name, {} if name == "parameters" else [])
        return told

    def _read_all(self, partitions: Any) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._read(self._list(partitions))["partitions"]
        return [{"parameters": {}, **entry} for entry in entries]

    @contextmanager
    def _answers(self, what: str) -> Iterator[None]:
        """One call at a time; the metastore's exceptions as ours."""
        with self._lock:
            try:
                yield
            except Py4JJavaError as error:
                raise _translated(what, _causes(error)) from None
            except (Py4JError, PySparkException, ConnectionError) as error:
                raise Unavailable(f"{what}: Spark's JVM does not answer ({_line(str(error))})") from None


def _table_parameters(table: TableDef) -> dict[str, str]:
    return {**table.properties, **({"comment": table.comment} if table.comment else {})}


def _check_view(label: str, told: dict[str, Any]) -> None:
    if told.get("tableType") != "VIRTUAL_VIEW":
        raise CatalogRefused(f"{label}: expected a view, found {_kind(told)}; say `view:` or rename it")


def _kind(told: dict[str, Any]) -> str:
    names = {"VIRTUAL_VIEW": "a view", "MANAGED_TABLE": "a managed table", "EXTERNAL_TABLE": "an external table"}
    return names.get(told.get("tableType", ""), told.get("tableType") or "nothing")


def _columns(fields: Iterable[dict[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(each["name"], each["type"], each.get("comment", "")) for each in fields)


def _shape(columns: Iterable[Column]) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def _partition(entry: dict[str, Any]) -> PartitionDef:
    def number(name: str) -> int | None:
        text = entry["parameters"].get(name, "")
        return int(text) if text.isdigit() else None

    location = rules.place(entry["sd"].get("location", ""))
    return PartitionDef(tuple(entry["values"]), location, number("numRows"), number("totalSize"), number("numFiles"))


def _batches(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), BATCH):
        yield list(items[start : start + BATCH])


def _causes(error: Py4JJavaError) -> dict[str, str]:
    """The exception and its causes: simple class name → first line of its message, outermost first."""
    found: dict[str, str] = {}
    cause = error.java_exception
    while cause is not None and len(found) < 20:
        found.setdefault(cause.getClass().getSimpleName(), _line(cause.getMessage() or ""))
        cause = cause.getCause()
    return found


def _translated(what: str, causes: dict[str, str]) -> CatalogRefused | Unavailable:
    messages = [f"{name}: {message}" if message else name for name, message in causes.items()]
    # Outer exceptions only say that something could not be instantiated.
    told = next((each for each in reversed(messages) if ":" in each), messages[-1])
    if causes.keys() & _REFUSED or any(text in told for text in _REFUSED_TEXTS):
        return CatalogRefused(f"{what}: the metastore refuses: {told}")
    return Unavailable(f"{what}: the metastore does not answer: {told}")


def _line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:400]
