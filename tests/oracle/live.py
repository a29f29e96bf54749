"""The live view over a lake in memory: SQLite runs its text over the stored files and over the landed ones, as flat rows.

A landed event is a row of the key's columns, its values, `seq` and `op` (`__op` where the row has a column `op`).
"""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any

from compactor.core.catalog import landed, views
from compactor.core.catalog.ddl import TableDef, quoted
from compactor.core.model.layout import relative
from compactor.core.model.spec import TableSpec
from compactor.core.sources import flat_rows, increment
from tests.oracle.lake import Lake
from tests.oracle.reader import for_sqlite

Rows = tuple[tuple[Any, ...], ...]


def flat_row(line: str, spec: TableSpec, operation: str) -> dict[str, Any]:
    """A landed event as a flat row."""
    event = json.loads(line)
    row = {name.lower(): value for name, value in event.get("values", {}).items()}
    return {**row, **dict(zip(spec.key, event["key"])), **dict(zip(spec.order_by, event["position"])), operation: event["op"]}


def look_live(lake: Lake) -> tuple[tuple[str, ...], Rows] | None:
    """Columns and sorted rows of the live view as the catalog has it now; None when there is none."""
    view = lake.catalog.view(lake.spec.database, f"{lake.spec.view}_live")
    newest = lake.newest()
    if view is None or newest is None:
        return None
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"ATTACH ':memory:' AS {quoted(lake.spec.tables_in)}")
        names = [views.table_name(lake.spec, part, newest.schema.generation) for part in ("base", "delta")]
        for name in (*names, *_files(lake)):
            table = lake.catalog.table(lake.spec.tables_in, name)
            if table is not None:
                _load(connection, lake, table, view.text)
        cursor = connection.execute(re.sub(r"`(_at|_gone)`\.`(epoch|o(\d+))`", _member, for_sqlite(view.text)))
        return tuple(column[0] for column in cursor.description), tuple(sorted(cursor.fetchall(), key=repr))
    finally:
        connection.close()


def _files(lake: Lake) -> list[str]:
    """The tables over landed files that are registered."""
    names = (views.table_name(lake.spec, "incremental", generation) for generation in range(1, 5))
    return [name for name in names if lake.catalog.table(lake.spec.tables_in, name) is not None]


def _member(match: re.Match[str]) -> str:
    return f"json_extract(`{match[1]}`, '$[{match[3] or 0}]')"


def _load(connection: sqlite3.Connection, lake: Lake, table: TableDef, text: str) -> None:
    columns = [*(column.name for column in table.columns), *(column.name for column in table.partition_columns)]
    name = f"{quoted(table.database)}.{quoted(table.name)}"
    connection.execute(f"CREATE TABLE {name} ({', '.join(quoted(column) for column in columns)})")
    operation = flat_rows.OPERATION if flat_rows.OPERATION in columns else "op"
    for partition in lake.catalog.partitions(table.database, table.name):
        if f"'{partition.values[0]}'" not in text:
            continue
        keys = dict(zip((column.name for column in table.partition_columns), partition.values))
        rows = []
        for info in (each for each in lake.storage.list(partition.location) if not increment.hidden(relative(each.path, partition.location))):
            content = lake.storage.read(info.path).decode()
            if table.partition_columns[0].name == landed.FOLDER:
                rows += [flat_row(line, lake.spec, operation) for line in content.splitlines()]
            else:
                rows += json.loads(content)
        values = [
            [json.dumps(value) if isinstance(value, (list, dict)) else value for value in ({**row, **keys}.get(c) for c in columns)] for row in rows
        ]
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' for _ in columns)})", values)
