"""Adoption: how the columns of a foreign base become those of a table, by the columns of the table's changes. Pure.

| base | changes | result |
|---|---|---|
| a column | the same name (its own spelling, or as it is stored), the same type | as it is |
| a column | another type, and one that holds both without loss | that type |
| a column | another type, none holds both | refused |
| a column | none of that name | as with one that is removed: `on_schema_change` decides (kept; hidden; refused) |
| `__...`, an operation code | none of that name | metadata of the increments it was made of: left out |
| none | a column | as with one that is added (older rows read its default, else null; left out; refused) |
| none | a column of the key | refused |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactor.core.model import names, types
from compactor.core.model.errors import OrderRefused, Refused, SchemaRefused
from compactor.core.model.position import Position
from compactor.core.model.schema import RESERVED, Field, Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema import policy
from compactor.core.schema.change import Change
from compactor.core.schema.policy import Decision
from compactor.core.sources.flat_rows import PLAIN_OPERATION

EPOCH = -1
"""The epoch of rows without a Position: whatever is ingested later is newer."""

OPERATION = "adopt"
"""The operation of the Snapshot. It is always version 1."""

ADOPTED = "adopted"
"""Outcome of an input that was not read, because its changes are in the adopted rows."""

FIRST = 1
"""The version that an adoption makes."""

Order = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ForeignBase:
    """A base that others built, before its files are opened. `Engine.read` reads the files by it."""

    changes: Schema
    """The columns of the table's changes."""
    order: Order
    """The order columns of the changes, with their types."""
    order_by: tuple[str, ...] = ()
    """The base's columns with the Position of each row's last change, one for each column of `order`. Empty: its rows have no Position."""
    unplaced: bool = True
    """Whether rows without a Position are accepted, as older than every change."""

    def spec(self, spec: TableSpec, path: str) -> TableSpec:
        """Return the settings for reading the Parquet files in the folder `path` as the inputs of a first load."""
        return dataclasses.replace(spec, landing=path, format="parquet", patch_rows=False, epoch_replaces=False, feed="off", history=False)


@dataclass(frozen=True)
class Adoption:
    """What becomes of the columns of a foreign base."""

    schema: Schema
    """The columns of the table."""
    columns: tuple[tuple[str, str], ...]
    """Stored name → the base's column, for the columns that the base has."""
    left_out: tuple[str, ...] = ()
    """The base's columns that are not stored."""
    decisions: tuple[Decision, ...] = ()
    """How the base's columns differ from those of the changes, and what is done about it."""


def adoption(spec: TableSpec, columns: Mapping[str, types.Type], base: ForeignBase) -> Adoption:
    """Return how a base with these columns becomes the table of its changes. `spec` is `base.spec(..)`.

    Raises SchemaRefused and OrderRefused, with the decisions when a policy refuses one.
    """
    changes, path = base.changes, spec.landing
    _check_order(spec, columns, base)
    origin: dict[str, str] = {}
    fields: list[Field] = []
    decisions: list[Decision] = []

    def decided(change: Change, stored: str) -> str:
        decisions.append(Decision(change, policy.action(spec.policy, change.kind), stored))
        return decisions[-1].action

    for field in changes.payload:
        column = _column(columns, field)
        if column is None:
            if field.name in changes.key:
                raise SchemaRefused(f"table {spec.name}: {path} has no column {field.source!r}, a part of the key; it has {_names(columns)}")
            if decided(_added(field), field.name) != "leave out":
                # the base's rows are from before it, and read its default
                fields.append(dataclasses.replace(field, since=FIRST + 1))
            continue
        kind = _joined(spec, field, columns[column])
        if types.text(kind) != types.text(types.lower_names(types.stored_names(columns[column]))):
            decided(Change("widened", field.source, types.text(columns[column]), types.text(kind)), field.name)
        origin[field.name] = column
        fields.append(dataclasses.replace(field, type=types.text(kind), since=FIRST, first=None, default=None))
    used = {*origin.values()}
    left_out = []
    for column, kind in columns.items():
        if column in used:
            continue
        if _is_metadata(spec, column) or column in base.order_by:
            left_out.append(column)
            continue
        name = names.unique(names.stored_name(column), [*RESERVED, *(field.name for field in fields)])
        action = decided(Change("removed", column, before=types.text(kind)), name)
        origin[name] = column
        fields.append(Field(name, column, types.text(types.stored_names(kind)), FIRST, visible=action != "hide"))
    _check_policy(spec, decisions)
    schema = Schema(tuple(fields), changes.key)
    stored = tuple((field.name, origin[field.name]) for field in fields if field.name in origin)
    return Adoption(schema, stored, tuple(left_out), tuple(decisions))


def sentence(decision: Decision) -> str:
    """Describe a difference and what is done about it, in words that fit a base."""
    change = decision.change
    if change.kind == "widened":
        return f"`{change.column}` is {change.before} in the base, and is copied as {change.after}, which can hold the values of its changes"
    if change.kind == "added":
        done = "left out" if decision.action == "leave out" else change.detail
        return f"`{change.column}` ({change.after}) is in the changes only: {done}"
    done = "stored, and not shown" if decision.action == "hide" else "kept, null in new rows"
    return f"`{change.column}` ({change.before}) is in the base only: {done}"


def unplaced(order: Order) -> Position:
    """Return the Position that a row without one gets."""
    return (EPOCH, *(None for _ in order), None, None, None)


def _check_order(spec: TableSpec, columns: Mapping[str, types.Type], base: ForeignBase) -> None:
    missing = [name for name in base.order_by if name not in columns]
    if missing:
        raise OrderRefused(f"table {spec.name}: --order-by names {missing[0]!r}, which {spec.landing} does not have; it has {_names(columns)}")
    if base.order_by and len(base.order_by) != len(base.order):
        expected = ", ".join(f"{name} ({kind})" for name, kind in base.order)
        raise OrderRefused(
            f"table {spec.name}: its changes are ordered by {expected}; --order-by names {len(base.order_by)} columns, expected {len(base.order)}, "
            "in that order, with the values of each row's last change. If rows do not keep them, use --ingested-through FOLDER, or set `order_by:` "
            "in the configuration to columns that they do keep."
        )


def _column(columns: Mapping[str, types.Type], field: Field) -> str | None:
    """Return the base's column for a field: in the source's spelling, else in the stored one (Hive keeps lower case only)."""
    if field.source in columns:
        return field.source
    return next((column for column in columns if names.stored_name(column) == field.name), None)


def _joined(spec: TableSpec, field: Field, column: types.Type) -> types.Type:
    stored = types.lower_names(types.stored_names(column))
    kind = types.widest(types.parse(field.type), stored)
    if kind is None:
        raise SchemaRefused(
            f"table {spec.name}, column {field.source}: {spec.landing} has {types.text(column)}, its changes have {field.type}, and no type holds "
            "both without loss. If the changes' type is a guess, declare it with `schema:`; else adopt a copy of the base with that column cast."
        )
    return kind


def _added(field: Field) -> Change:
    return Change(
        "added", field.source, after=field.type, detail="null in adopted rows" if field.default is None else f"{field.default!r} in adopted rows"
    )


def _names(columns: Mapping[str, types.Type]) -> str:
    return ", ".join(columns) or "none"


def _is_metadata(spec: TableSpec, column: str) -> bool:
    """Return whether a column that changes do not have is metadata of the increments that the base was made of."""
    return (column.startswith("__") or column in (spec.op, *PLAIN_OPERATION)) and column not in spec.metadata_columns


def _check_policy(spec: TableSpec, decisions: Sequence[Decision]) -> None:
    try:
        policy.check(spec.name, decisions, spec.policy)
    except SchemaRefused as error:
        refused = [decision.change for decision in decisions if decision.action == "refuse"]
        differences = "; ".join(change.sentence for change in refused)
        raise SchemaRefused(
            f"table {spec.name}: {spec.landing} differs from its changes, and `on_schema_change` refuses that: {differences}. "
            f"Set `on_schema_change: {{{refused[0].kind}: evolve}}`, or make a copy of the base without the difference.",
            error.decisions,
        ) from None


def refused_paths(path: str, below: Sequence[str]) -> str | None:
    """Return why the files below a directory are no plain Parquet base, as a sentence, or None. `below`: paths below it, data or not."""
    tops = {name.split("/", 1)[0] for name in below}
    foreign = {"_delta_log": "Delta Lake", ".hoodie": "Apache Hudi"}
    kind = next((product for name, product in foreign.items() if name in tops), None)
    if kind is None and any(name.startswith("metadata/") and name.endswith(".metadata.json") for name in below):
        kind = "Apache Iceberg"
    if kind is not None:
        return f"{path} is a table of {kind}: only {kind} knows which of its files hold rows. Write its rows out as plain Parquet, and adopt that"
    return None


def check_plain(table: str, path: str, data: Sequence[str]) -> None:
    """Raises Refused unless these data files, paths below the directory, are those of a plain, unpartitioned base."""
    if not data:
        raise Refused(f"table {table}: there are no files below {path}; expected the plain Parquet files of a base")
    nested = next((name for name in data if "/" in name), None)
    if nested is not None:
        folder = nested.rsplit("/", 1)[0]
        what = "is partitioned: values of rows are in the names of its folders" if "=" in folder else "has folders"
        raise Refused(
            f"table {table}: {path} {what} ({folder}/); expected Parquet files in one folder. Write its rows into one, partition columns among them "
            "(`INSERT OVERWRITE DIRECTORY ... STORED AS PARQUET SELECT * FROM ...`), and adopt that."
        )
    other = next((name for name in data if name.rsplit(".", 1)[-1].lower() in ("orc", "avro", "json", "jsonl", "csv", "txt", "gz")), None)
    if other is not None:
        raise Refused(f"table {table}: {path} holds {other}, which is no Parquet file; expected Parquet files only")
