"""Find the value that is the reason why a schema change is refused: a message that names it saves a search through all files."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.inputs import path_of
from compactor.core.model.policy import TO_STRING
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.evolution import Evolved
from compactor.core.schema.policy import Change, Decision
from compactor.spark.columns import AFTER, BEFORE, BLOCK, FILE, ROW
from compactor.spark.decode import conversions
from compactor.spark.decode.frame import Frame
from compactor.spark.input.inputs import Inputs
from compactor.spark.rows import survey
from compactor.spark.rows.reduce import union
from compactor.spark.sql import cast, literal, member, named, quoted
from compactor.spark.tables.table_reader import TableReader

_VALUE_MAX = 80


def located(error: SchemaRefused, frames: Sequence[Frame], opened: Inputs) -> SchemaRefused:
    """Return the error with the first value that no type holds with the stored ones, its file and record."""
    refused = [decision.change for decision in error.decisions if isinstance(decision, Decision) and decision.action == "refuse"]
    places = [place for change in refused if change.kind in (TO_STRING, "incompatible") and (place := _first(change, frames, opened))]
    return SchemaRefused(f"{error} {' '.join(places)}", error.decisions) if places else error


def _first(change: Change, frames: Sequence[Frame], opened: Inputs) -> str:
    for frame in frames:
        values, kind = _values(frame, change.column)
        if kind is None:
            continue
        stored = types.parse(change.before)
        # text that a schema gives another meaning (base64 of a decimal) is only looked at where no writer explains the change
        fields = [(writer.id, field) for writer in frame.writers for field in writer.fields if field.name == change.column]
        others = [writer for writer, field in fields if types.widest(stored, field.type, numbers=True) is None]
        of = f"_writer IN ({', '.join(map(literal, others))}) AND " if others else ""
        tests = [f"coalesce({of}{_does_not_fit(value, kind, stored)}, false)" for value in values]
        shown = " ".join(f"WHEN {test} THEN {conversions.plain(value, kind, ('string',))}" for test, value in zip(tests, values))
        if place := first(frame, " OR ".join(tests), f"CASE {shown} END", opened):
            return f"The first such value, of {change.column}, is {place}."
    return ""


def first(frame: Frame, test: str, value: str, opened: Inputs) -> str:
    """Return value, file and record of the first event that passes a test; "" without one. `test` and `value` (text) are SQL."""
    rows = frame.rows.where(f"_op IS NOT NULL AND ({test})").selectExpr(FILE, BLOCK, ROW, f"substr({value}, 1, {_VALUE_MAX}) AS value")
    for row in rows.orderBy(FILE, BLOCK, ROW).limit(1).collect():
        place = (row[FILE], row[BLOCK], row[ROW])
        shown = repr(row.value) if opened.spec.quotes_records else survey.HIDDEN
        return f"{shown}: {path_of(place[0])}, record {survey.record_numbers([place], opened.raws)[place]}"
    return ""


def _values(frame: Frame, path: str) -> tuple[list[str], types.Type | None]:
    """Return SQL for the value of a path of struct members in both images, and its type there; no type if the rows do not have it."""
    images = frame.columns
    column = path if path in images else path.partition(".")[0]
    values, kind = [frame.value(column, image) for image in (AFTER, BEFORE)], images.get(column)
    for name in path[len(column) + 1 :].split(".") if path != column else ():
        kind = dict(kind[1]).get(name) if kind is not None and kind[0] == "struct" else None
        values = [member(value, name) for value in values]
    return values, kind


def _does_not_fit(value: str, kind: types.Type, stored: types.Type) -> str:
    """SQL: whether a value, read as type `kind`, is not one of the stored type."""
    if kind == ("string",) and types.is_scalar(stored):
        return f"{value} IS NOT NULL AND {conversions.exact(value, stored)} IS NULL"
    if kind == ("string",):
        # where JSON has objects and other values under one name, all are read as text
        return f"{value} NOT LIKE '{'[' if stored[0] == 'array' else '{'}%'"
    if types.widest(stored, kind) == stored:
        return "false"
    numbers = {kind[0], stored[0]} <= {"tinyint", "smallint", "int", "bigint", "decimal", "float", "double"}
    again = f" AND NOT coalesce({cast(cast(value, stored), kind)} = {value}, false)" if numbers else ""
    return f"{value} IS NOT NULL{again}"


def check_exact(spark: SparkSession, spec: TableSpec, parent: Snapshot, evolved: Evolved) -> None:
    """Raise SchemaRefused if a stored whole number would be another one as a double. A Spark job runs only if some become doubles."""
    tests = {}
    for name in evolved.retyped:
        old, new = (types.parse(schema.field(name).type) for schema in (parent.schema, evolved.schema))
        test = conversions.is_inexact(quoted(name), old, new)
        if test:
            tests[name] = test
    if not tests:
        return
    reader = TableReader(spark, spec.layout, parent, parent.schema)
    delta = reader.delta()
    rows = union([reader.rows(parent.segments), *([delta] if delta is not None else [])])
    samples = [named(f"max(CASE WHEN {test} THEN to_json(struct({quoted(name)} AS v)) END)", name) for name, test in tests.items()]
    row = rows.agg(*samples).collect()[0]
    for name in tests:
        if row[name] is not None:
            shown = row[name] if spec.quotes_records else survey.HIDDEN
            raise SchemaRefused(
                f"table {spec.name}, column {evolved.schema.field(name).source}: the new data has fractions, and as a double a stored value such as "
                f"{shown} would be another number. The increments stay in landing. Declare a decimal in `types:`, or repair the producer.",
                evolved.decisions,
            )
