"""Compare: the rows that readers see against two independent ways to get them. Used by `verify`; writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog import views
from compactor.core.model import types
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.checks import Check, Difference
from compactor.spark.decode import conversions
from compactor.spark.input.files import from_spark
from compactor.spark.rows.resolve import Resolver
from compactor.spark.sql import literal, named, quoted
from compactor.spark.tables.table_reader import Stored

SAMPLES = 5
"""Keys that are told of those that differ."""

_EVERY = "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false'"


def comparable(value: str, kind: str) -> str:
    """SQL for a value as it is compared: every reader's difference counts, that of 0.0 and -0.0 too; maps cannot be compared as they are."""
    told = types.text(types.parse(kind))
    if told in ("float", "double"):
        return f"CAST({value} AS STRING)"
    return f"to_json({value}, map({_EVERY}))" if any(part in told for part in ("map<", "float", "double")) else value


def as_text(rows: DataFrame, columns: list[tuple[str, str]], key: Sequence[str] = ()) -> DataFrame:
    """Every row as one JSON text of (name, type) columns: comparable whatever the types, maps too; with `key`, these columns apart as well."""
    found = {field.name: from_spark(field.dataType) for field in rows.schema.fields}
    texts = [f"{_json(columns, found)} AS row"]
    texts += [f"{_json([column for column in columns if column[0] in key], found)} AS key"] if key else []
    return rows.selectExpr(*texts)


def _json(columns: list[tuple[str, str]], found: Mapping[str, types.Type]) -> str:
    members = ", ".join(f"{literal(name)}, {_as(name, found[name], types.parse(kind))}" for name, kind in columns)
    return f"to_json(named_struct({members}), map({_EVERY}))"


def _as(name: str, found: types.Type, wanted: types.Type) -> str:
    # members by name: either side may have some that the other lacks
    nested = found[0] == wanted[0] and wanted[0] in ("array", "map", "struct")
    return conversions.follow(quoted(name), found, wanted) if nested else f"CAST({quoted(name)} AS {types.text(wanted, quote=True)})"


def difference(left: DataFrame, right: DataFrame) -> tuple[int, int, str | None]:
    """Rows only left, rows only right (as bags), and one of them."""
    only_left, only_right = left.exceptAll(right), right.exceptAll(left)
    example = only_left.limit(1).collect() or only_right.limit(1).collect()
    return only_left.count(), only_right.count(), example[0][0] if example else None


def against_reference(spark: SparkSession, spec: TableSpec, snapshot: Snapshot) -> Check:
    """The view's text against union + row_number over the same Snapshot."""
    columns = [(snapshot.schema.view_name(field), field.type) for field in snapshot.schema.payload]
    shown = as_text(spark.table(f"{quoted(spec.database)}.{quoted(spec.view)}"), columns)
    left, right, example = difference(shown, as_text(spark.sql(views.reference_text(spec, snapshot)), columns))
    return Check(spec.name, "view = reference", not (left or right), _sentence(left, right, example, "the reference"))


def against_history(spark: SparkSession, spec: TableSpec, snapshot: Snapshot, resolver: Resolver, resolved: DataFrame) -> Check:
    """The view against one resolve of everything that was ever absorbed (`resolved`: states in the resolver's schema)."""
    pairs = _shared(snapshot.schema, resolver.schema)
    columns = [(view_name, kind) for view_name, kind, _ in pairs]
    shown = as_text(spark.table(f"{quoted(spec.database)}.{quoted(spec.view)}"), columns)
    rows = resolved if spec.soft else resolved.where("_op = 'u'")
    again = rows.selectExpr(*[f"{quoted(stored)} AS {quoted(view_name)}" for view_name, _, stored in pairs])
    left, right, example = difference(shown, as_text(again, columns))
    return Check(spec.name, "view = archive", not (left or right), _sentence(left, right, example, "a resolve of the whole archive"))


def between(before: Stored, after: Stored, spec: TableSpec) -> Difference:
    """What the rows that two Snapshots show differ in, by the key of `after`; columns that only one has are left out.

    Without a key, or where `before` lacks a column of it, a row is its own key: then nothing is `changed`.
    """
    pairs = _shared(before.schema, after.schema)
    shown = [(view_name, kind) for view_name, kind, _ in pairs]
    key = [view_name for view_name, _, stored in pairs if stored in after.schema.key]
    by = key if len(key) == len(after.schema.key) else [name for name, _ in shown]
    old = {before.schema.view_name(field): field.name for field in before.schema.payload}
    sides = ((before, old, 1), (after, {name: stored for name, _, stored in pairs}, -1))
    counted = []
    for side, names, weight in sides:
        state = ["CAST(_op = 'd' AS STRING) AS _gone"] if spec.soft else ["'' AS _gone"]
        rows = side.live(spec.soft).selectExpr(*[f"{quoted(names[name])} AS {quoted(name)}" for name, _ in shown], *state)
        told = as_text(rows, [*shown, ("_gone", "string")], by)
        counted.append(told.selectExpr("key", "row", f"{weight} AS w"))
    uneven = counted[0].unionByName(counted[1]).groupBy("key", "row").agg(named("sum(w)", "w")).where("w <> 0")
    keys = uneven.groupBy("key").agg(named("max(w) > 0", "was"), named("min(w) < 0", "is")).persist()
    try:
        counts = {(row["was"], row["is"]): row["count"] for row in keys.groupBy("was", "is").count().collect()}
        samples = tuple(row["key"] for row in keys.orderBy("key").limit(SAMPLES).collect())
    finally:
        keys.unpersist()
    return Difference(counts.get((True, False), 0), counts.get((False, True), 0), counts.get((True, True), 0), samples)


def _shared(shown: Schema, again: Schema) -> list[tuple[str, str, str]]:
    """(name in the view, its type, stored name when built again) of the view's columns."""
    names = {again.view_name(field): field.name for field in again.payload}
    return [(shown.view_name(field), field.type, names[shown.view_name(field)]) for field in shown.payload if shown.view_name(field) in names]


def _sentence(left: int, right: int, example: str | None, other: str) -> str:
    if not (left or right):
        return "equal"
    return f"{left} rows only in the view, {right} only in {other}; such as {example}"
