"""A Snapshot's files as SQL: what stands for `student_base`, `student_delta` and the other tables of the catalog in the text of a view.

Every file that a Snapshot names is listed, so no directory is listed and no other version can be seen. Columns have the declared types:

- a column that came later is null in older files;
- timestamps in INT96 and in 64-bit microseconds are the same instants.

All files of one commit were written by one job, with the same columns. The footer of one of them is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compactor.core.catalog import daily_views, feed, history_views, views
from compactor.core.catalog.ddl import TableDef
from compactor.core.catalog.dialect import DUCKDB
from compactor.core.model import types
from compactor.core.model.errors import CompactorError, StateRefused
from compactor.core.model.files import ROW_STATE, DataFile, Delta, Segment
from compactor.core.model.history import values
from compactor.core.model.layout import Layout
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

PROTOCOL = "compactor"
"""`compactor://512@bucket/key` is DuckDB's name for `s3://bucket/key` of 512 bytes: its own S3 client is an extension that it would download."""

_FILE = "__compactor_file"


def address(location: str, size: int) -> str:
    """Return the name of a file in DuckDB's SQL. An object in S3 has its size in it, so that nobody has to ask for it.

    >>> address("s3://lake/a.parquet", 512), address("file:///lake/a.parquet", 512)
    ('compactor://512@lake/a.parquet', '/lake/a.parquet')
    """
    if location.startswith("s3://"):
        return f"{PROTOCOL}://{size}@{location[len('s3://') :]}"
    # a configuration with `*?[` in a location is refused
    return "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


Part = tuple[Mapping[str, str], Sequence[str]]
"""(partition column → SQL, files with these values). Files have the names that `address` returns."""


def of_rows(connection: Any, spec: TableSpec, snapshot: Snapshot) -> dict[str, str]:
    """Return table → SQL for base and Delta."""
    layout = spec.layout
    base, delta = views.tables(spec, snapshot)
    text = DUCKDB.text
    # only the Segments that the view names have an id here: each is a query of its own
    named, segments = views.compared(snapshot), list[Part]()
    for segment in snapshot.segments:
        id_ = {"segment": text(segment.id if segment.id in named else "")} if named else {}
        segments += _folders(layout, segment, {"base_version": text(snapshot.base_id), **id_})
    sources = {base.name: _query(connection, base, segments)}
    if snapshot.delta is not None:
        sources[delta.name] = _query(connection, delta, _folders(layout, snapshot.delta, {"delta_version": text(snapshot.delta.id)}))
    return sources


def _folders(layout: Layout, stored: Segment | Delta, fixed: Mapping[str, str]) -> list[Part]:
    """Return the files of a directory by the state of their rows."""
    return [({**fixed, ROW_STATE: DUCKDB.text(folder.state)}, _addresses(layout, stored.path, folder.files)) for folder in stored.folders]


def _addresses(layout: Layout, path: str, files: Sequence[DataFile]) -> tuple[str, ...]:
    """Return the names in SQL of the files of a directory, which lies at `path` below the table's root."""
    return tuple(address(layout.inside(f"{path}/{file.name}"), file.size) for file in files)


def of_history(connection: Any, spec: TableSpec, snapshot: Snapshot) -> dict[str, str]:
    """Return table → SQL for the stored events; {} for a table without history."""
    history = snapshot.history
    if history is None:
        return {}
    layout, table = spec.layout, history_views.table(spec, snapshot)
    # the day is the last directory of closed parts, so that DuckDB opens no file of a day that the query leaves out
    day = f"regexp_extract({DUCKDB.name(_FILE)}, 'history_part=([^/]+)/[^/]*$', 1)"
    newest, parts = max((part.id for part in history.closed), default=""), list[Part]()
    for (set_, value, id_), part in values(history):
        in_path = part.path.endswith(f"history_part={value}")
        fixed = {"history_set": DUCKDB.text(set_), "history_day": day if in_path else DUCKDB.text(value)}
        parts.append(({**fixed, "history_part": DUCKDB.text(newest if in_path else id_)}, _addresses(layout, part.path, part.files)))
    return {table.name: _query(connection, table, parts)}


def of_days(connection: Any, spec: TableSpec, tables: Iterable[TableDef], days: Iterable[tuple[str, Snapshot]]) -> dict[str, str]:
    """Return table → SQL for the partitions of frozen days. `days`: (day, its version); `tables`: those below the view."""
    layout = spec.layout
    parts: dict[str, list[Part]] = {}
    for day, version in days:
        directories: list[Segment | Delta] = [*version.segments, *([version.delta] if version.delta else [])]
        for stored in directories:
            part = DUCKDB.text("delta" if stored is version.delta else "base")
            fixed = {daily_views.DAY_COLUMN: DUCKDB.text(day), daily_views.PART_COLUMN: part}
            parts.setdefault(daily_views.table(spec, version), []).extend(_folders(layout, stored, fixed))
    return {table.name: _query(connection, table, parts.get(table.name, [])) for table in tables}


def of_feed(connection: Any, spec: TableSpec, snapshots: Iterable[Snapshot]) -> dict[str, tuple[TableDef, str]]:
    """Return name → (table, SQL) for the tables of the change feed, one a generation. `snapshots`: in the order of versions."""
    layout = spec.layout
    tables: dict[str, tuple[TableDef, list[str]]] = {}
    for snapshot in snapshots:
        if snapshot.feed is not None and snapshot.feed.mode != feed.OFF:
            definition = feed.table(spec, snapshot)
            files = tables.get(definition.name, (definition, []))[1]
            part = snapshot.feed.part
            more = _addresses(layout, part.path, part.files) if part else ()
            tables[definition.name] = (definition, [*files, *more])
    version = f"regexp_extract({DUCKDB.name(_FILE)}, 'feed/([^/]+)/[^/]*$', 1)"
    return {name: (definition, _query(connection, definition, [({feed.VERSION: version}, files)])) for name, (definition, files) in tables.items()}


def _query(connection: Any, table: TableDef, parts: Sequence[Part]) -> str:
    """Return a query of these files in the columns of the table, in parentheses."""
    partitioned = [column.name for column in table.partition_columns]
    columns = [(column.name, DUCKDB.type(column.type)) for column in table.columns]
    declared = _described(connection, "SELECT " + ", ".join(f"CAST(NULL AS {kind}) AS {DUCKDB.name(name)}" for name, kind in columns))
    kinds = [(column.name, column.type, declared[column.name]) for column in table.columns]
    merged: dict[tuple[str, ...], list[str]] = {}
    for given, names in parts:
        merged.setdefault(tuple(given.get(name, "NULL") for name in partitioned), []).extend(names)
    texts = []
    for fixed, names in merged.items():
        constants = [f"{value} AS {DUCKDB.name(name)}" for name, value in zip(partitioned, fixed)]
        for files in _alike(connection, names):
            source = _read(files, any(_FILE in value for value in fixed))
            stored = _described(connection, f"SELECT * FROM {_read(files[:1])}")
            chosen = [column(name, kind, full, stored.get(name)) for name, kind, full in kinds]
            texts.append(f"SELECT {', '.join([*chosen, *constants])} FROM {source}")
    if not texts:
        empty = [*(f"CAST(NULL AS {kind}) AS {DUCKDB.name(name)}" for name, kind in columns)]
        empty += [f"CAST(NULL AS VARCHAR) AS {DUCKDB.name(name)}" for name in partitioned]
        texts.append(f"SELECT {', '.join(empty)} WHERE false")
    return f"({' UNION ALL '.join(texts)})"


def column(name: str, kind: str, declared: str, stored: str | None) -> str:
    """Return a column of a file in its type. `declared` and `stored` name that type and the file's in DuckDB; None if the file lacks the column."""
    quoted, target = DUCKDB.name(name), DUCKDB.type(kind)
    if stored is None:
        return f"CAST(NULL AS {target}) AS {quoted}"
    if stored == declared:
        return quoted
    if "TIMESTAMP" in stored and "WITH TIME ZONE" not in stored:
        # a cast to instants would take them for times of the session's time zone
        local = f"CAST({quoted} AS {target.replace('TIMESTAMPTZ', 'TIMESTAMP')})"
        return f"{_with_instants(local, types.parse(kind))} AS {quoted}"
    return f"CAST({quoted} AS {target}) AS {quoted}"


def _with_instants(value: str, kind: types.Type, depth: int = 0) -> str:
    """Return SQL for a value whose timestamps without time zone, also those inside of it, become instants: they are in UTC."""
    one = f"_v{depth}"
    if kind[0] == "timestamp":
        return f"make_timestamptz(epoch_us({value}))"
    if kind[0] == "array":
        return f"[{_with_instants(one, kind[1], depth + 1)} FOR {one} IN {value}]"
    if kind[0] == "map":
        key, item = (_with_instants(f"{one}.{part}", kind[at], depth + 1) for at, part in ((1, "key"), (2, "value")))
        return f"map_from_entries([{{'key': {key}, 'value': {item}}} FOR {one} IN map_entries({value})])"
    if kind[0] == "struct":
        members = ", ".join(f"{DUCKDB.name(name)} := {_with_instants(f'{one}.{DUCKDB.name(name)}', member, depth + 1)}" for name, member in kind[1])
        # a list of one, so that the value is written once
        return f"[CASE WHEN {one} IS NOT NULL THEN struct_pack({members}) END FOR {one} IN [{value}]][1]"
    return value


def _read(files: Sequence[str], named: bool = False) -> str:
    """Return the table function that reads files. `named`: with a column of their names."""
    listed = ", ".join(map(DUCKDB.text, files))
    return f"read_parquet([{listed}], hive_partitioning = false{f', filename = {DUCKDB.text(_FILE)}' if named else ''})"


def _described(connection: Any, query: str) -> dict[str, str]:
    """Return column → type of a query."""
    return {row[0]: row[1] for row in _rows(connection, f"DESCRIBE {query}")}


def _rows(connection: Any, query: str) -> list[Any]:
    """Return the rows of a query over files of a Snapshot. Raises StateRefused for a file that is gone or damaged."""
    import duckdb

    try:
        rows: list[Any] = connection.execute(query).fetchall()
        return rows
    except duckdb.Error as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, CompactorError):
            raise cause from error
        raise StateRefused(f"a file of the table cannot be read: {error}") from error


def _alike(connection: Any, files: Sequence[str]) -> list[list[str]]:
    """Return the files in groups with the same columns."""
    commits: dict[str, list[str]] = {}
    for file in files:
        commits.setdefault(_commit(file), []).append(file)
    if len(commits) < 2:
        return [list(group) for group in commits.values()]
    listed = ", ".join(DUCKDB.text(group[0]) for group in commits.values())
    about = "name, type, num_children, converted_type, scale, precision, CAST(logical_type AS VARCHAR)"
    rows = _rows(connection, f"SELECT file_name, list(row({about})) FROM parquet_schema([{listed}]) GROUP BY file_name")
    signatures = {name: repr(signature) for name, signature in rows}
    groups: dict[str, list[str]] = {}
    for group in commits.values():
        groups.setdefault(signatures.get(group[0], group[0]), []).extend(group)
    return list(groups.values())


def _commit(file: str) -> str:
    """Return the directory of the commit that wrote a file: `.../base/v00000042-1a2b3c4d`."""
    parts = file.split("/")
    at = next((at for at in range(len(parts) - 1, 0, -1) if parts[at - 1] in ("base", "delta", "history", "feed")), len(parts) - 1)
    return "/".join(parts[: at + 1])
