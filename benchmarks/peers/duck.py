"""Without a JVM: the naive recipe in DuckDB, over Parquet files; and delta-rs, whose package is in build/peers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.peers.landed import COLUMNS, newest
from benchmarks.peers.pins import CORES

NAMES = ", ".join(COLUMNS)


class Duck:
    """Every hour, a new file with everything."""

    compacts = False

    def __init__(self) -> None:
        self.database = duckdb.connect(config={"threads": CORES, "memory_limit": "4GB"})

    def stage(self, table: Path, landed: Path) -> None:
        """Read the files where they have landed."""

    def load(self, table: Path, landed: Path) -> None:
        self._write(f"read_parquet('{landed}/*.parquet')", table / "0.parquet")

    def commit(self, table: Path, landed: Path) -> None:
        last = self._last(table)
        changes = f"SELECT {NAMES}, op FROM read_parquet('{landed}/*.parquet')"
        self._write(f"(SELECT {NAMES}, 'c' AS op FROM read_parquet('{last}') UNION ALL {changes})", table / f"{int(last.stem) + 1}.parquet")

    def compact(self, table: Path) -> None:
        """Leave the table as it is."""

    def read(self, table: Path) -> None:
        self.database.execute(f"SELECT region, sum(amount) FROM read_parquet('{self._last(table)}') GROUP BY region").fetchall()

    def export(self, table: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "all.parquet").hardlink_to(self._last(table))

    def close(self) -> None:
        self.database.close()

    def _write(self, source: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.database.execute(f"COPY ({newest(source, NAMES)} AND op <> 'd') TO '{path}' (FORMAT parquet)")

    @staticmethod
    def _last(table: Path) -> Path:
        return max(table.glob("*.parquet"), key=lambda path: int(path.stem))


class DeltaRs(Duck):
    """`write_deltalake` and `DeltaTable.merge`. DuckDB reads the landed files and takes the newest row per key."""

    def __init__(self) -> None:
        super().__init__()
        self.deltalake: Any = importlib.import_module("deltalake")

    def load(self, table: Path, landed: Path) -> None:
        self.deltalake.write_deltalake(str(table), self._rows(landed, NAMES, " AND op <> 'd'"))

    def commit(self, table: Path, landed: Path) -> None:
        values = {name: f"s.{name}" for name in COLUMNS}
        merge = self.deltalake.DeltaTable(str(table)).merge(
            self._rows(landed, f"{NAMES}, op", ""), predicate="t.id = s.id", source_alias="s", target_alias="t"
        )
        merge = merge.when_matched_delete("s.op = 'd'").when_matched_update(values, "s.op <> 'd'")
        merge.when_not_matched_insert(values, "s.op <> 'd'").execute()

    def read(self, table: Path) -> None:
        """Aggregate the whole table, by DuckDB over what delta-rs reads."""
        data = self.deltalake.DeltaTable(str(table)).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
        self.database.execute("SELECT region, sum(amount) FROM data GROUP BY region").fetchall()

    def export(self, table: Path, folder: Path) -> None:
        folder.mkdir()
        data = self.deltalake.DeltaTable(str(table)).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
        self.database.execute(f"COPY (SELECT {NAMES} FROM data) TO '{folder}/all.parquet' (FORMAT parquet)")

    def _rows(self, landed: Path, columns: str, condition: str) -> Any:
        self.database.execute("SET TimeZone = 'UTC'")
        return self.database.sql(newest(f"read_parquet('{landed}/*.parquet')", columns) + condition).to_arrow_reader()


class PyPaimon(Duck):
    """Paimon's own Python implementation. DuckDB reads the landed files; the changes are written as they are."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.paimon: Any = importlib.import_module("pypaimon")
        self.catalog = self.paimon.CatalogFactory.create({"warehouse": f"file://{home}"})

    def load(self, table: Path, landed: Path) -> None:
        self.catalog.create_database(self._name(table).partition(".")[0], True)
        options = {"bucket": str(CORES), "sequence.field": "seq", "rowkind.field": "kind"}
        schema = self.paimon.Schema.from_pyarrow_schema(self._changes(landed).schema, primary_keys=["id"], options=options)
        self.catalog.create_table(self._name(table), schema, False)
        self.commit(table, landed)

    def commit(self, table: Path, landed: Path) -> None:
        """Write the changes; Paimon takes the newest of each key by `seq`."""
        builder = self.catalog.get_table(self._name(table)).new_batch_write_builder()
        write, end = builder.new_write(), builder.new_commit()
        write.write_arrow(self._changes(landed))
        end.commit(write.prepare_commit())
        write.close()
        end.close()

    def read(self, table: Path) -> None:
        rows = self._rows_of(table, ["region", "amount"])  # noqa: F841 - DuckDB finds it by its name
        self.database.execute("SELECT region, sum(amount) FROM rows GROUP BY region").fetchall()

    def export(self, table: Path, folder: Path) -> None:
        folder.mkdir()
        rows = self._rows_of(table, list(COLUMNS))  # noqa: F841 - DuckDB finds it by its name
        self.database.execute(f"COPY (SELECT {NAMES} FROM rows) TO '{folder}/all.parquet' (FORMAT parquet)")

    @staticmethod
    def _name(table: Path) -> str:
        return f"{table.parent.name.removesuffix('.db')}.{table.name}"

    def _changes(self, landed: Path) -> Any:
        self.database.execute("SET TimeZone = 'UTC'")
        kind = "CASE op WHEN 'd' THEN '-D' ELSE '+I' END AS kind"
        return self.database.sql(f"SELECT {NAMES}, {kind} FROM read_parquet('{landed}/*.parquet')").to_arrow_table()

    def _rows_of(self, table: Path, columns: list[str]) -> Any:
        builder = self.catalog.get_table(self._name(table)).new_read_builder().with_projection(columns)
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def open_system(name: str, home: Path) -> Duck:
    return PyPaimon(home) if name == "pypaimon" else DeltaRs() if name == "delta-rs" else Duck()
