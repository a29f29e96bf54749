"""Adoption: how the columns of a base that others made become those of a table, compared with what its changes tell (H28). Pure.

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
from compactor.core.schema.diff import Change
from compactor.core.schema.policy import Decision

EPOCH = -1
"""Of rows without a Position: whatever is absorbed later is newer (H6)."""

OPERATION = "adopt"
"""Of the Snapshot; it is always version 1."""

ADOPTED = "adopted"
"""Outcome of an input that was taken unread: what it tells is in the adopted rows."""

_VERSION = 1
_OPERATION_COLUMNS = ("op", "Op")

Order = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Adoption:
    """What becomes of the columns.

    `columns`: stored name → the base's column, for those it has. `order_by`: the base's columns that hold the members of a Position, in the order of
    `order`; () when its rows have none. `unplaced`: rows in which one of them is null are taken all the same, as older than every change.
    `left_out`: the base's columns that are not stored. `decisions`: what differs from the changes' columns.
    """

    schema: Schema
    order: Order
    columns: tuple[tuple[str, str], ...]
    order_by: tuple[str, ...] = ()
    epoch: int = 0
    unplaced: bool = True
    left_out: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()


def adoption(
    spec: TableSpec, path: str, base: Mapping[str, types.Type], changes: Schema, order: Order, order_by: Sequence[str], unplaced: bool
) -> Adoption:
    """How a base with these columns becomes the table of these changes. `path` is for messages.

    Raises SchemaRefused, OrderRefused; with the decisions when a policy refuses one.
    """
    _check_order(spec, path, base, order, order_by)
    found: dict[str, str] = {}
    fields: list[Field] = []
    decisions: list[Decision] = []

    def decided(change: Change, stored: str) -> str:
        decisions.append(Decision(change, spec.policy.action(change.kind), stored))
        return decisions[-1].action

    for field in changes.payload:
        column = _column(base, field)
        if column is None:
            if field.name in changes.key:
                raise SchemaRefused(f"table {spec.name}: {path} has no column {field.source!r}, which is of the key; it has {_names(base)}")
            if decided(_added(field), field.name) != "leave out":
                # not there from the start: rows of this version read the default (H15)
                fields.append(dataclasses.replace(field, since=_VERSION + 1))
            continue
        kind = _joined(spec, path, field, base[column])
        if types.text(kind) != types.text(types.lower_names(types.stored_names(base[column]))):
            decided(Change("widened", field.source, types.text(base[column]), types.text(kind)), field.name)
        found[field.name] = column
        fields.append(dataclasses.replace(field, type=types.text(kind), since=_VERSION, first=None, default=None))
    used = {*found.values()}
    left_out = []
    for column, kind in base.items():
        if column in used:
            continue
        if _is_metadata(spec, column) or column in order_by:
            left_out.append(column)
            continue
        name = names.unique(names.stored_name(column), [*RESERVED, *(field.name for field in fields)])
        action = decided(Change("removed", column, before=types.text(kind)), name)
        found[name] = column
        fields.append(Field(name, column, types.text(types.stored_names(kind)), _VERSION, visible=action != "hide"))
    _check_policy(spec, path, decisions)
    schema = Schema(tuple(fields), changes.key)
    shown = tuple((field.name, found[field.name]) for field in fields if field.name in found)
    return Adoption(schema, order, shown, tuple(order_by), spec.epoch, unplaced, tuple(left_out), tuple(decisions))


def told(decision: Decision) -> str:
    """A difference, and what became of it, in words that fit a base."""
    change = decision.change
    if change.kind == "widened":
        return f"`{change.column}` is {change.before} in the base, and is copied as {change.after}, which holds what its changes have too"
    if change.kind == "added":
        done = "left out" if decision.action == "leave out" else change.detail
        return f"`{change.column}` ({change.after}) is in the changes only: {done}"
    done = "stored, and not shown" if decision.action == "hide" else "kept, null in new rows"
    return f"`{change.column}` ({change.before}) is in the base only: {done}"


def unplaced(order: Order) -> Position:
    """The Position of a row that has none."""
    return (EPOCH, *(None for _ in order), None, None, None)


def _check_order(spec: TableSpec, path: str, base: Mapping[str, types.Type], order: Order, order_by: Sequence[str]) -> None:
    if not order_by:
        return
    missing = [name for name in order_by if name not in base]
    if missing:
        raise OrderRefused(f"table {spec.name}: --order-by names {missing[0]!r}, which {path} does not have; it has {_names(base)}")
    if len(order_by) != len(order):
        wanted = ", ".join(f"{name} ({kind})" for name, kind in order)
        raise OrderRefused(
            f"table {spec.name}: its changes are ordered by {wanted}; --order-by names {len(order_by)}, expected {len(order)}, in that order: "
            "those in which each row keeps what its last change had there. Where rows do not keep them, say --absorbed-through FOLDER; or "
            "`order_by:` in the configuration, with what they do keep."
        )


def _column(base: Mapping[str, types.Type], field: Field) -> str | None:
    """The base's column that holds a field: of the source's spelling, else of the stored one (Hive keeps lower case only)."""
    if field.source in base:
        return field.source
    return next((column for column in base if names.stored_name(column) == field.name), None)


def _joined(spec: TableSpec, path: str, field: Field, found: types.Type) -> types.Type:
    stored = types.lower_names(types.stored_names(found))
    kind = types.widest(types.parse(field.type), stored)
    if kind is None:
        raise SchemaRefused(
            f"table {spec.name}, column {field.source}: {path} has {types.text(found)}, its changes have {field.type}, and no type holds both "
            "without loss. Where the type of the changes is a guess, declare it with `schema:`; else adopt a copy of the base with that column cast."
        )
    return kind


def _added(field: Field) -> Change:
    return Change(
        "added", field.source, after=field.type, detail="null in adopted rows" if field.default is None else f"{field.default!r} in adopted rows"
    )


def _names(base: Mapping[str, types.Type]) -> str:
    return ", ".join(base) or "none"


def _is_metadata(spec: TableSpec, column: str) -> bool:
    """Whether a column that changes do not have tells of the increments that the base was made of."""
    return (column.startswith("__") or column in (spec.op, *_OPERATION_COLUMNS)) and column not in spec.metadata_columns


def _check_policy(spec: TableSpec, path: str, decisions: Sequence[Decision]) -> None:
    try:
        policy.check(spec.name, decisions, spec.policy)
    except SchemaRefused as error:
        refused = [decision.change for decision in decisions if decision.action == "refuse"]
        told = "; ".join(change.sentence for change in refused)
        raise SchemaRefused(
            f"table {spec.name}: {path} differs from its changes, and `on_schema_change` does not follow that: {told}. "
            f"Say `on_schema_change: {{{refused[0].kind}: evolve}}`, or make a copy of the base without the difference.",
            error.decisions,
        ) from None


def refused_paths(path: str, below: Sequence[str]) -> str | None:
    """Why the files below a directory are no plain Parquet base, as a sentence, or None. `below`: paths below it, data or not."""
    tops = {name.split("/", 1)[0] for name in below}
    foreign = {"_delta_log": "Delta Lake", ".hoodie": "Apache Hudi"}
    kind = next((told for name, told in foreign.items() if name in tops), None)
    if kind is None and any(name.startswith("metadata/") and name.endswith(".metadata.json") for name in below):
        kind = "Apache Iceberg"
    if kind is not None:
        return f"{path} is a table of {kind}: which of its files hold rows only {kind} knows. Write its rows out as plain Parquet, and adopt that"
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
