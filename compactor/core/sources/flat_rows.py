"""Flat rows: which of their columns say what happened to the row. Connectors begin the names of columns that they add with two underscores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from compactor.core.model.errors import InputRefused
from compactor.core.model.position import ORDERING
from compactor.core.model.spec import OPERATIONS, TableSpec

OPERATION, DELETED = "__op", "__deleted"
"""Columns that ExtractNewRecordState adds: the operation, and whether the row was deleted."""

MESSAGE = "m"
"""The operation of PostgreSQL's logical messages, which are no rows. ExtractNewRecordState hands them on in their envelope."""

PLAIN_OPERATION = ("op", "Op")
"""Names of the operation in rows that no connector has added columns to."""

NO_TABLE = (
    "`source_table` is set, and the rows do not name their table; add `table` and `schema` (or `db`) to `add.fields`, or unset it (`reconcile` has "
    "--source-table)"
)
"""Why `source_table` cannot separate rows, and what to do."""

LOST_DELETES = (
    "records have a key and no value, as ExtractNewRecordState writes deletes by default, and no row has the operation of a delete. Such records "
    "have no place in the table's order, so the deletes would be lost. Set `order_by: [offset]` (a table that exists is built again: "
    "`compactor rebuild`), or have the connector write the rows of deletes: `delete.tombstone.handling.mode=rewrite`"
)
"""Why a table would keep deleted rows, and what to do."""

_METADATA = (*ORDERING, "txId", "connector")
"""Fields of Debezium's source block that ExtractNewRecordState's `add.fields` puts into columns: `__source_lsn`, or `__lsn`."""


def source_columns(columns: Collection[str]) -> dict[str, str]:
    """Return field of the source block → the column of a flattened row that has it."""
    names = ((field, name) for field in _METADATA for name in (f"__{field}", f"__source_{field}") if name in columns)
    return dict(names)


def origin(columns: Collection[str]) -> tuple[list[str], list[list[str]]]:
    """Return the columns that may have the source table of a flattened row, and those of its schema and of its database, where there are any."""
    table, *above = (
        [name for field in fields for name in (f"__{field}", f"__source_{field}") if name in columns]
        for fields in (("table", "collection"), ("schema",), ("db",))
    )
    return table, [names for names in above if names]


def table_name(row: Mapping[str, Any]) -> str:
    """Return the source table of a flattened row with schema and database as far as it has them, "" if it has no table."""
    table, above = origin(row)
    names = [next((str(row[name]) for name in columns if row[name]), "") for columns in (*reversed(above), table)]
    return ".".join(filter(None, names)) if names[-1] else ""


def unsent(spec: TableSpec, columns: Collection[str]) -> str:
    """Return why `patch_rows` would store nulls of values that GoldenGate's Avro rows leave out, and what to do; "" for other rows."""
    marks = [f"{name}_isMissing" for name in columns if spec.patch_rows and f"{name}_isMissing" in columns]
    remedy = "have GoldenGate write JSON, which leaves such columns out, or whole rows without `patch_rows`"
    return f"`patch_rows` takes null for a value, and {marks[0]} says whether the record has one; {remedy}" if marks else ""


def connector(fields: Collection[str], unsent: Collection[str] = ()) -> str | None:
    """Return the connector whose order these fields of the source block allow, or None. `unsent`: others that have nulls only, as in a snapshot."""
    if "sequence" in fields or "lsn" in fields:
        return "postgresql"
    orders = {"mysql": {"file", "pos"}, "sqlserver": {"commit_lsn", "change_lsn"}, "oracle": {"scn", "rs_id", "ssn"}}
    return next((name for name, order in orders.items() if order & {*fields} and order <= {*fields, *unsent}), None)


def operation_column(spec: TableSpec, columns: Collection[str]) -> str | None:
    """Return the column with the operation of a writer's rows, or None. Raises InputRefused if it may be one of several.

    A connector's operation is `__op`, whatever columns the row itself has. `columns` are those of one writer, so that the answer does not depend on
    the other files of a run.
    """
    if spec.op == "":
        return None
    if spec.op:
        return spec.op if spec.op in columns else next((name for name in sorted(columns) if name.lower() == spec.op.lower()), None)
    if OPERATION in columns:
        return OPERATION
    plain = [name for name in PLAIN_OPERATION if name in columns]
    if not plain:
        return None
    if len(plain) > 1:
        which = "set `op:` to the one with the operation, or to '' if none has it"
        raise InputRefused(f"table {spec.name}: the rows have the columns {plain[0]} and {plain[1]}; {which}.")
    if DELETED in columns or any(name.startswith("__source_") for name in columns):
        raise InputRefused(
            f"table {spec.name}: the rows have a connector's metadata columns without {OPERATION}, and a column {plain[0]}. If it has the operation, "
            f"set `op: {plain[0]}`. If it is a column of the source's table, set `op: {OPERATION}`, and add `op` to the connector's `add.fields`."
        )
    return plain[0]


def operation_names(op: str | None) -> tuple[str, ...]:
    """Return the names of the columns that may have the operation, under the setting `op`."""
    return (OPERATION, *PLAIN_OPERATION) if op is None else (op,)


def is_message(columns: Collection[str]) -> bool:
    """Return whether the columns are those of a logical message in its envelope."""
    return {"op", "source", "message"} <= {*columns} and not {OPERATION, DELETED, "before", "after"} & {*columns}


def operations(spec: TableSpec) -> dict[str, str]:
    """Return code in lower case → c, u, r, d, t or `ignore`."""
    return {**OPERATIONS, **{code.lower(): meaning for code, meaning in spec.op_map}}


def is_metadata(spec: TableSpec, column: str, operation: str | None) -> bool:
    """Return whether a column is metadata and not stored."""
    return (column.startswith("__") or column == operation) and not is_kept(spec, column)


def is_kept(spec: TableSpec, column: str) -> bool:
    """Return whether `metadata_columns` names a column. Case is of no account, as in all settings."""
    return column.lower() in map(str.lower, spec.metadata_columns)
