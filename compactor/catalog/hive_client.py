"""The metastore client inside Spark's JVM, called through py4j: connection, thrift objects as plain values, translated exceptions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from compactor.catalog import rules
from compactor.catalog.rules import FORMATS, NATIVE_FORMAT, VIEW_FORMAT, serde_parameters
from compactor.core.catalog.ddl import Column, NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BATCH = 500
"""Partitions in one call. One `add_partitions` call is one transaction; readers do not see them until the view names them."""

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
"""`Invalid method name`: Spark's client does not match the metastore's version."""


class HiveClient:
    """The Hive metastore client of a Spark session. Thread-safe: use it within `calls`, which takes a lock."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        context: Any = spark.sparkContext._jsc
        self._lock = threading.RLock()
        api = jvm.org.apache.hadoop.hive.metastore.api
        # Each part of a class name costs a round trip: look the classes up once.
        self.database, self._table, self._partition = api.Database, api.Table, api.Partition
        self._storage, self._serde, self._field = api.StorageDescriptor, api.SerDeInfo, api.FieldSchema
        self._list, self.context = api.PartitionListComposingSpec, api.EnvironmentContext
        self.warehouse = jvm.org.apache.hadoop.hive.metastore.Warehouse
        thrift = jvm.org.apache.thrift
        self._json = thrift.TSerializer(thrift.protocol.TSimpleJSONProtocol.Factory())
        with self.calls("the metastore"):
            kind = jvm.java.lang.Class.forName("org.apache.hadoop.hive.conf.HiveConf")
            conf = jvm.org.apache.hadoop.hive.conf.HiveConf(context.hadoopConfiguration(), kind)
            # The first client to connect creates the database `default`. Hive's own setting would place it below /user/hive.
            conf.set("hive.metastore.warehouse.dir", spark.conf.get("spark.sql.warehouse.dir") or "")
            hive = jvm.org.apache.hadoop.hive.ql.metadata.Hive
            # Spark keeps its own client in the thread. Sharing it would mix our calls with Spark's.
            hive.set(None)
            self.client = hive.getWithoutRegisterFns(conf).getMSC()
            hive.set(None)
            database = conf.get("javax.jdo.option.ConnectionURL") or ""
            if database.startswith("jdbc:derby:") and not conf.get("hive.metastore.uris"):
                # makes the metastore's tables, where it is new
                self.client.getAllTables("default")
                widen_view_texts(jvm, database)

    @contextmanager
    def calls(self, what: str) -> Iterator[None]:
        """Allow one call at a time, and translate the metastore's exceptions into CatalogRefused or Unavailable. `what` names the object."""
        with self._lock:
            try:
                yield
            except Py4JJavaError as error:
                raise _translated(what, causes(error)) from None
            except (Py4JError, PySparkException, ConnectionError) as error:
                raise Unavailable(f"{what}: Spark's JVM does not answer ({_line(str(error))})") from None

    def get(self, database: str, name: str) -> Any | None:
        """Return the thrift object of a table or view, or None."""
        try:
            return self.client.getTable(database, name)
        except Py4JJavaError as error:
            if causes(error).keys() & {"NoSuchObjectException", "UnknownDBException"}:
                return None
            raise

    def entry(self, database: str, name: str) -> dict[str, Any] | None:
        """Return a table or view as plain values, or None."""
        with self.calls(f"{database}.{name}"):
            handle = self.get(database, name)
            return self.read(handle) if handle is not None else None

    def has_database(self, name: str) -> bool:
        try:
            self.client.getDatabase(name.lower())
        except Py4JJavaError as error:
            if "NoSuchObjectException" not in causes(error):
                raise
            return False
        return True

    def create(self, table: Any) -> Any | None:
        """Create a table or view. Return None, or the existing object if another process created it first."""
        try:
            self.client.createTable(table)
        except Py4JJavaError as error:
            if "AlreadyExistsException" not in causes(error):
                raise
            return self.get(table.getDbName(), table.getTableName())
        return None

    def read(self, thing: Any) -> dict[str, Any]:
        """Return a thrift object as plain values, in one round trip instead of one for each field."""
        entry: dict[str, Any] = json.loads(self._json.toString(thing))
        for name in ("parameters", "partitionKeys", "partitions"):
            entry.setdefault(name, {} if name == "parameters" else [])
        return entry

    def read_all(self, partitions: Any) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.read(self._list(partitions))["partitions"]
        return [{"parameters": {}, **entry} for entry in entries]

    def new_table(self, table: TableDef) -> Any:
        storage = self.descriptor(rules.table_columns(table), rules.uri(table.location), FORMATS[table.format])
        # Without this parameter Hive treats the table as managed, whatever its type, and deletes the files with it.
        made = self._new(table, rules.TABLE, storage, {"EXTERNAL": "TRUE", **rules.table_parameters(table)})
        made.setPartitionKeys(self.fields(rules.stored(table.partition_columns)))
        return made

    def new_view(self, view: ViewDef) -> Any:
        made = self._new(view, rules.VIEW, self.descriptor(rules.stored(view.columns), "", VIEW_FORMAT), dict(view.properties))
        made.setViewOriginalText(view.text)
        made.setViewExpandedText(view.text)
        return made

    def new_native(self, table: NativeDef) -> Any:
        storage = self.descriptor(rules.stored(table.columns), rules.uri(table.location), NATIVE_FORMAT)
        return self._new(table, rules.TABLE, storage, rules.native_parameters(table, None))

    def _new(self, definition: TableDef | ViewDef | NativeDef, kind: str, storage: Any, parameters: dict[str, str]) -> Any:
        made = self._table()
        made.setDbName(definition.database.lower())
        made.setTableName(definition.name.lower())
        made.setTableType(kind)
        made.setSd(storage)
        made.setPartitionKeys([])
        made.setParameters(parameters)
        return made

    def new_partition(self, owner: Any, database: str, table: str, partition: PartitionDef) -> Any:
        """Return the thrift object of a partition with the formats and columns of `owner`, its table."""
        made = self._partition()
        made.setDbName(database.lower())
        made.setTableName(table.lower())
        made.setValues(list(partition.values))
        storage = owner.getSd().deepCopy()
        storage.setLocation(rules.uri(partition.location))
        made.setSd(storage)
        # Without this the metastore lists the folder and overwrites the Snapshot's statistics with its own counts.
        made.setParameters({**rules.statistics(partition), "DO_NOT_UPDATE_STATS": "true"})
        return made

    def altered(self, handle: Any, owner: Any, parameters: dict[str, str]) -> Any:
        """Give a thrift partition its table's columns and these parameters, and return it."""
        handle.getSd().setCols(owner.getSd().getCols())
        handle.setParameters(parameters)
        return handle

    def descriptor(self, columns: Iterable[Column], location: str, formats: tuple[str, str, str]) -> Any:
        """Return a storage descriptor. `formats`: input format, output format, serde."""
        made = self._storage()
        made.setCols(self.fields(columns))
        if location:
            made.setLocation(location)
        made.setInputFormat(formats[0])
        made.setOutputFormat(formats[1])
        made.setNumBuckets(-1)
        serde = self._serde()
        if formats[2]:
            serde.setSerializationLib(formats[2])
        serde.setParameters(serde_parameters(formats))
        made.setSerdeInfo(serde)
        for setter in (made.setBucketCols, made.setSortCols):
            setter([])
        made.setParameters({})
        return made

    def fields(self, columns: Iterable[Column]) -> list[Any]:
        return [self._field(column.name, column.type, column.comment) for column in columns]


def batches(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), BATCH):
        yield list(items[start : start + BATCH])


def listed(elements: Any) -> list[Any]:
    """Return the elements of a Java list. py4j's iterator ends in an exception that PySpark tests for twelve classes, which costs 20 ms."""
    return [elements[at] for at in range(len(elements))]


def causes(error: Py4JJavaError) -> dict[str, str]:
    """Return the exception and its causes, outermost first: simple class name → first line of the message."""
    messages: dict[str, str] = {}
    cause = error.java_exception
    while cause is not None and len(messages) < 20:
        messages.setdefault(cause.getClass().getSimpleName(), _line(cause.getMessage() or ""))
        cause = cause.getCause()
    return messages


def _translated(what: str, chain: dict[str, str]) -> CatalogRefused | Unavailable:
    messages = [f"{name}: {message}" if message else name for name, message in chain.items()]
    # The outer exceptions only report that something could not be instantiated.
    innermost = next((each for each in reversed(messages) if ":" in each), messages[-1])
    if chain.keys() & _REFUSED or any(text in innermost for text in _REFUSED_TEXTS):
        return CatalogRefused(f"{what}: the metastore rejected the call: {innermost}")
    return Unavailable(f"{what}: the metastore does not answer: {innermost}")


def _line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:400]


_VIEW_TEXTS = ("VIEW_EXPANDED_TEXT", "VIEW_ORIGINAL_TEXT")


def widen_view_texts(jvm: Any, url: str) -> None:
    """Let a metastore in Derby hold views of any length.

    Hive's schema for Derby has LONG VARCHAR, which ends at 32,700 characters: the view of a table of 300 columns is longer. (PostgreSQL's and MySQL's
    have no such limit.) Expects that the metastore has made its tables. `url`: its JDBC URL.
    """
    account = jvm.java.util.Properties()
    account.setProperty("user", "APP")
    connection = jvm.org.apache.derby.jdbc.EmbeddedDriver().connect(url, account)
    # one transaction: a process that is killed in the middle leaves the tables as they were
    connection.setAutoCommit(False)
    try:
        statement = connection.createStatement()
        for column in _VIEW_TEXTS:
            if _derby_type(statement, column) == "LONG VARCHAR":
                statement.execute(f"ALTER TABLE TBLS ADD COLUMN NEW_{column} CLOB")
                statement.execute(f"UPDATE TBLS SET NEW_{column} = CAST({column} AS CLOB)")
                statement.execute(f"ALTER TABLE TBLS DROP COLUMN {column}")
                statement.execute(f"RENAME COLUMN TBLS.NEW_{column} TO {column}")
        connection.commit()
    finally:
        # Derby does not close a connection with an open transaction; after the commit this does nothing
        connection.rollback()
        connection.close()


def _derby_type(statement: Any, column: str) -> str:
    answer = statement.executeQuery(
        "SELECT CAST(c.COLUMNDATATYPE AS VARCHAR(100)) FROM SYS.SYSCOLUMNS c JOIN SYS.SYSTABLES t ON c.REFERENCEID = t.TABLEID "
        f"WHERE t.TABLENAME = 'TBLS' AND c.COLUMNNAME = '{column}'"
    )
    return str(answer.getString(1)) if answer.next() else ""
