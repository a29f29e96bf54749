"""Delta and Iceberg, which are changed by MERGE; Hudi and Paimon, which take the changes as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.landed import COLUMNS, newest
from benchmarks.peers.pins import CORES
from benchmarks.peers.plain import NAMES, SparkSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MERGE = (
    "MERGE INTO {table} t USING ({source}) s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE "
    f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in COLUMNS)} "
    f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({NAMES}) VALUES ({', '.join(f's.{name}' for name in COLUMNS)})"
)


class Merged(SparkSystem):
    """A table with a name: `CREATE TABLE .. AS SELECT`, then a MERGE an hour."""

    using = ""
    """Format and properties in CREATE TABLE."""

    def name_of(self, table: Path) -> str:
        """Return the table's name in SQL."""
        raise NotImplementedError

    def frame(self, table: Path) -> DataFrame:
        return self.spark.table(self.name_of(table))

    def load(self, table: Path, landed: Path) -> None:
        rows = newest(f"parquet.`{landed}`", NAMES) + " AND op <> 'd'"
        self.spark.sql(f"CREATE TABLE {self.name_of(table)} {self.using} AS {rows}")

    def commit(self, table: Path, landed: Path) -> None:
        self.spark.sql(MERGE.format(table=self.name_of(table), source=newest(f"parquet.`{landed}`", f"{NAMES}, op")))


class Delta(Merged):
    """By path, without a metastore."""

    def __init__(self, name: str, home: Path) -> None:
        extension, catalog = "io.delta.sql.DeltaSparkSessionExtension", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        super().__init__(name, home, {"spark.sql.extensions": extension, "spark.sql.catalog.spark_catalog": catalog})
        self.using = f"USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(name == 'delta-dv').lower()}')"

    def name_of(self, table: Path) -> str:
        return f"delta.`{table}`"


class Iceberg(Merged):
    """In a Hadoop catalog: the table's folder is <warehouse>/<database>/<table>."""

    def __init__(self, name: str, home: Path) -> None:
        conf = {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(home),
        }
        super().__init__(name, home, conf)
        mode = "merge-on-read" if name == "iceberg-mor" else "copy-on-write"
        properties = ", ".join(f"'write.{work}.mode' = '{mode}'" for work in ("merge", "update", "delete"))
        self.using = f"USING iceberg TBLPROPERTIES ('format-version' = '2', {properties})"

    def name_of(self, table: Path) -> str:
        """Return the name of the table in this folder."""
        return f"ice.`{table.parent.name}`.{table.name}"


HUDI = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}


class Hudi(SparkSystem):
    """Through the data source; `_hoodie_is_deleted` marks deletes."""

    def __init__(self, name: str, home: Path) -> None:
        super().__init__(name, home, HUDI)
        self.options = {
            "hoodie.table.name": "customer",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if name == "hudi-mor" else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.table.ordering.fields": "seq",
        }

    def frame(self, table: Path) -> DataFrame:
        """Return the table's rows: the snapshot query."""
        return self.spark.read.format("hudi").load(str(table))

    def load(self, table: Path, landed: Path) -> None:
        self._write(table, landed, "bulk_insert", "overwrite")

    def commit(self, table: Path, landed: Path) -> None:
        """Upsert the changes; Hudi takes the newest of each key."""
        self._write(table, landed, "upsert", "append")

    def _write(self, table: Path, landed: Path, operation: str, mode: str) -> None:
        rows = self.spark.sql(f"SELECT {NAMES}, op = 'd' AS _hoodie_is_deleted FROM parquet.`{landed}`")
        rows.write.format("hudi").options(**self.options).option("hoodie.datasource.write.operation", operation).mode(mode).save(str(table))


class Paimon(Merged):
    """In a file system catalog: the table's folder is <warehouse>/<database>.db/<table>."""

    def __init__(self, name: str, home: Path) -> None:
        conf = {
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": f"file:{home}",
        }
        super().__init__(name, home, conf)

    def name_of(self, table: Path) -> str:
        """Return the name of the table in this folder."""
        return f"paimon.{table.parent.name.removesuffix('.db')}.{table.name}"

    def load(self, table: Path, landed: Path) -> None:
        """Make the table and write hour 0."""
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS paimon.{table.parent.name.removesuffix('.db')}")
        self.spark.sql(
            f"CREATE TABLE {self.name_of(table)} (id BIGINT, seq BIGINT, name STRING, email STRING, region INT, amount DECIMAL(12,2), "
            "changed_at TIMESTAMP, token BIGINT, kind STRING) TBLPROPERTIES ('primary-key' = 'id', "
            f"'bucket' = '{CORES}', 'sequence.field' = 'seq', 'rowkind.field' = 'kind')"
        )
        self.commit(table, landed)

    def commit(self, table: Path, landed: Path) -> None:
        """Write the changes; Paimon takes the newest of each key by `seq`."""
        rows = f"SELECT {NAMES}, CASE op WHEN 'd' THEN '-D' ELSE '+I' END AS kind FROM parquet.`{landed}`"
        self.spark.sql(f"INSERT INTO {self.name_of(table)} {rows}")


def open_system(name: str, home: Path) -> SparkSystem:
    return {"delta": Delta, "iceberg": Iceberg, "hudi": Hudi, "paimon": Paimon}[name.partition("-")[0]](name, home)
