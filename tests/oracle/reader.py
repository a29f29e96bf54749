"""A reader: what a query through the catalog gets, and nothing it would not have.

It takes the view's text and the tables' registered partitions from the catalog, lists the partitions' directories as Hive does, reads every file
there, and lets SQLite run the text. It never looks at a Snapshot.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass
from typing import Any

from compactor.core.catalog import daily_views, views
from compactor.core.catalog.ddl import TableDef, ViewDef, quoted
from compactor.core.model.files import FileInfo
from compactor.core.model.history import ROWS
from compactor.core.model.spec import TableSpec
from compactor.ports import Storage
from tests.parts.memory_catalog import MemoryCatalog


@dataclass(frozen=True)
class Shown:
    """The rows of the view, sorted, and the version its properties name."""

    version: int
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


Cache = dict[tuple[str, str], Any]
"""Path and etag of a file → its content: a reader of ten thousand queries need not fetch a file that it has, only look that it is there."""


def look(catalog: MemoryCatalog, storage: Storage, spec: TableSpec, name: str = "", cache: Cache | None = None) -> Shown | None:
    """Query the view (or another one) as it is now; None when there is none."""
    view = catalog.view(spec.database, name or spec.view)
    if view is None:
        return None
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"ATTACH ':memory:' AS {quoted(spec.tables_in)}")
        for generation in generations(view):
            for part in ("base", "delta", ROWS, daily_views.ROWS):
                table = catalog.table(spec.tables_in, views.table_name(spec, part, generation))
                if table is not None:
                    _load(connection, catalog, storage, table, view.text, cache)
        cursor = connection.execute(for_sqlite(view.text))
        columns = tuple(column[0] for column in cursor.description)
        assert columns == tuple(column.name for column in view.columns)
        rows = tuple(sorted(cursor.fetchall(), key=repr))
    finally:
        connection.close()
    return Shown(int(view.properties[views.VERSION]), view.text, columns, rows)


def for_sqlite(text: str) -> str:
    """The text for SQLite, which calls a string a text."""
    return text.replace(" AS string)", " AS text)")


def generations(view: ViewDef) -> range:
    """Return the generations of tables up to the newest that the view reads. A version that was never published has registered none."""
    return range(1, 1 + max([1, *map(int, re.findall(r"_g(\d+)\b", view.text))]))


def _load(connection: sqlite3.Connection, catalog: MemoryCatalog, storage: Storage, table: TableDef, text: str, cache: Cache | None) -> None:
    """The rows of the partitions that the text names."""
    columns = [column.name for column in (*table.columns, *table.partition_columns)]
    name = f"{quoted(table.database)}.{quoted(table.name)}"
    connection.execute(f"CREATE TABLE {name} ({', '.join(quoted(column) for column in columns)})")
    holes = ", ".join("?" for _ in columns)
    for partition in catalog.partitions(table.database, table.name):
        if daily_views.has_days(table.name):
            days = re.findall(r"'(\d{4}-\d\d-\d\d)'", text)
            if not (days and min(days) <= partition.values[0] <= max(days)):
                continue
        elif f"'{partition.values[0]}'" not in text:
            continue
        keys = dict(zip((column.name for column in table.partition_columns), partition.values))
        found = [row for info in storage.list(partition.location) for row in _content(storage, info, cache)]
        assert len(found) == partition.rows, f"{partition.values}: {partition.rows} rows registered, {len(found)} found"
        rows = [[_plain({**row, **keys}.get(column)) for column in columns] for row in found]
        connection.executemany(f"INSERT INTO {name} VALUES ({holes})", rows)


def _content(storage: Storage, info: FileInfo, cache: Cache | None) -> Any:
    if cache is None:
        return json.loads(storage.read(info.path))
    if (info.path, info.etag) not in cache:
        cache[info.path, info.etag] = json.loads(storage.read(info.path))
    return cache[info.path, info.etag]


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value
