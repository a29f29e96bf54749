"""Spark as it comes, for all systems that run on it; the naive recipe, and the limits: work that no system can do without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from benchmarks.peers.landed import COLUMNS, newest
from benchmarks.peers.pins import CORES, MEMORY, SYSTEMS
from compactor.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES = ", ".join(COLUMNS)


def session(name: str, home: Path, conf: dict[str, str]) -> SparkSession:
    """Return a plain session with a system's jars and `conf`. All systems have the same cores, heap and garbage collector."""
    os.environ["JAVA_HOME"] = find_java()
    builder = SparkSession.builder.master(f"local[{CORES}]").appName(name)
    settings = {
        "spark.driver.memory": MEMORY,
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC -Duser.timezone=UTC -Dderby.system.home={home}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * CORES),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        **({"spark.jars.packages": SYSTEMS[name].jars} if SYSTEMS[name].jars else {}),
        **conf,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class SparkSystem:
    """What all systems on Spark have in common."""

    compacts = False

    def __init__(self, name: str, home: Path, conf: dict[str, str] | None = None) -> None:
        self.name = name
        self.spark = session(name, home, conf or {})

    def frame(self, table: Path) -> DataFrame:
        raise NotImplementedError

    def stage(self, table: Path, landed: Path) -> None:
        """Read the files where they have landed."""

    def compact(self, table: Path) -> None:
        """Leave the table as it is."""

    def read(self, table: Path) -> None:
        self.frame(table).groupBy("region").agg({"amount": "sum"}).collect()

    def export(self, table: Path, folder: Path) -> None:
        self.frame(table).select(*COLUMNS).write.parquet(str(folder))

    def close(self) -> None:
        """Stop Spark; the JVM ends with this process."""
        self.spark.stop()


class Naive(SparkSystem):
    """Every hour, a new folder with everything."""

    def frame(self, table: Path) -> DataFrame:
        """Return the rows of the newest folder."""
        return self.spark.read.parquet(str(_last(table)))

    def load(self, table: Path, landed: Path) -> None:
        rows = newest(f"parquet.`{landed}`", NAMES) + " AND op <> 'd'"
        self.spark.sql(rows).write.parquet(str(table / "0"))

    def commit(self, table: Path, landed: Path) -> None:
        last = _last(table)
        everything = f"(SELECT {NAMES}, 'c' AS op FROM parquet.`{last}` UNION ALL SELECT {NAMES}, op FROM parquet.`{landed}`)"
        self.spark.sql(newest(everything, NAMES) + " AND op <> 'd'").write.parquet(str(table / str(int(last.name) + 1)))


class Limits(Naive):
    """Not a system, but what one cannot do without."""

    compacts = True

    def frame(self, table: Path) -> DataFrame:
        """Return the rows of the load."""
        return self.spark.read.parquet(str(table / "0"))

    def load(self, table: Path, landed: Path) -> None:
        """Dedupe, range partition, sort, write."""
        rows = self.spark.sql(newest(f"parquet.`{landed}`", NAMES) + " AND op <> 'd'")
        rows.repartitionByRange(2 * CORES, "id").sortWithinPartitions("id").write.parquet(str(table / "0"))

    def commit(self, table: Path, landed: Path) -> None:
        """Read, dedupe and write the changes alone."""
        self.spark.sql(newest(f"parquet.`{landed}`", f"{NAMES}, op")).write.parquet(str(table / f"changes-{landed.name}"))

    def compact(self, table: Path) -> None:
        """Scan and write the base."""
        self.frame(table).write.parquet(str(table / "copy"))


def _last(table: Path) -> Path:
    return max((path for path in table.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def open_system(name: str, home: Path) -> SparkSystem:
    return {"naive": Naive, "limits": Limits}[name](name, home)
