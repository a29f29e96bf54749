"""compactor: the flows of `compactor run`, in a session that `compactor run` opens."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.peers.landed import COLUMNS
from benchmarks.peers.pins import CORES, MEMORY
from benchmarks.table import DATABASE, Table, hour_text
from compactor.core.catalog import base_views
from compactor.spark.session import SessionSettings, close_session, open_session


class Compactor:
    """Tables of benchmarks.table, with the default `write_mode`."""

    compacts = True

    def __init__(self, name: str, home: Path) -> None:
        os.environ["COMPACTOR_DRIVER_MEMORY"] = MEMORY
        self.settings = {"history": name == "compactor-history", "read_optimized": name == "compactor-ro"}
        parquet = "standard" if name == "compactor-standard" else "hive"
        places = str(home / "metastore"), str(home / "warehouse")
        self.spark = open_session(SessionSettings(None, *places, master=f"local[{CORES}]", parquet=parquet))
        self.tables: dict[Path, Table] = {}

    def stage(self, table: Path, landed: Path) -> None:
        """Link the files into the landing folder: a run moves them to its archive."""
        if table not in self.tables:
            self.tables[table] = Table(self.spark, table.parent, 0, table.name, write_mode="auto", **self.settings)
        folder = Path(self.tables[table].spec.landing) / f"increment_{hour_text(int(landed.name))}"
        shutil.copytree(landed, folder, copy_function=os.link)

    def load(self, table: Path, landed: Path) -> None:
        self.tables[table].run()

    def commit(self, table: Path, landed: Path) -> None:
        self.tables[table].run()

    def compact(self, table: Path) -> None:
        # with a view of the base alone, every Segment that has a Delta row is rewritten; otherwise those for which it pays off
        self.tables[table].run(compact_every=0.0, read_optimized=True)

    def read(self, table: Path) -> None:
        """Aggregate the whole table through the view, or through that of the base alone."""
        view = base_views.called(self.tables[table].spec) if self.settings["read_optimized"] else self.tables[table].spec.view
        self.spark.sql(f"SELECT region, sum(amount) FROM {DATABASE}.{view} GROUP BY region").collect()

    def export(self, table: Path, folder: Path) -> None:
        """Write the view's rows as plain Parquet."""
        self.spark.table(f"{DATABASE}.{self.tables[table].spec.view}").select(*COLUMNS).write.parquet(str(folder))

    def close(self) -> None:
        """Stop Spark and its JVM."""
        close_session(self.spark)


def open_system(name: str, home: Path) -> Compactor:
    return Compactor(name, home)
