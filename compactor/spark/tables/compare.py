"""Compare rows for `verify` and for differences between Snapshots. Writes nothing.

`verify` compares the rows of the view with two independent ways to compute them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog import views
from compactor.core.model import types
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.checks import Check, Difference
from compactor.spark import measured
from compactor.spark.decode import conversions
from compactor.spark.input.files import from_spark
from compactor.spark.sql import literal, member, named, quoted, struct
from compactor.spark.tables.table_reader import TableReader

SAMPLES = 5
"""The number of differing keys to report."""
_EVERY = "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false'"
"""Options of `to_json` that lose nothing."""


def comparable(value: str, kind: str) -> str:
    """SQL for a value that can be compared: 0.0 differs from -0.0, and maps, which Spark cannot compare, become JSON."""
    parsed = types.parse(kind)
    text = types.text(parsed)
    if text in ("float", "double"):
        return f"CAST({value} AS STRING)"
    return f"to_json({_entries(value, parsed)}, map({_EVERY}))" if any(part in text for part in ("map<", "float", "double")) else value


def _entries(value: str, kind: types.Type) -> str:
    """SQL: a value with a list of entries, sorted by key, for each map. A map is the same in any order."""
    if "map<" not in types.text(kind):
        return value
    if kind[0] == "array":
        return f"transform({value}, _e -> {_entries('_e', kind[1])})"
    if kind[0] == "map":
        entries = f"transform(map_entries({value}), _e -> struct(_e.key AS k, {_entries('_e.value', kind[2])} AS v))"
        return f"array_sort({entries}, (_l, _r) -> CASE WHEN _l.k < _r.k THEN -1 WHEN _l.k > _r.k THEN 1 ELSE 0 END)"
    return f"CASE WHEN {value} IS NOT NULL THEN {struct([(name, _entries(member(value, name), inner)) for name, inner in kind[1]])} END"


def as_text(rows: DataFrame, columns: list[tuple[str, str]], key: Sequence[str] = ()) -> DataFrame:
    """Return each row as one JSON text `row` of these (name, type) columns. With `key` also a JSON text `key` of the columns that it names."""
    kinds = {field.name: from_spark(field.dataType) for field in rows.schema.fields}
    texts = [f"{_json(columns, kinds)} AS row"]
    texts += [f"{_json([column for column in columns if column[0] in key], kinds)} AS key"] if key else []
    return rows.selectExpr(*texts)


def _json(columns: list[tuple[str, str]], kinds: Mapping[str, types.Type]) -> str:
    members = ", ".join(f"{literal(name)}, {_as(name, kinds[name], types.parse(kind))}" for name, kind in columns)
    return f"to_json(named_struct({members}), map({_EVERY}))"


def _as(name: str, own: types.Type, kind: types.Type) -> str:
    # structs by member name: either side may lack members
    nested = own[0] == kind[0] and kind[0] in ("array", "map", "struct")
    return conversions.change_type(quoted(name), own, kind) if nested else f"CAST({quoted(name)} AS {types.text(kind, quote=True)})"


def _uneven(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the rows that one side (both bags) has more often than the other, each once, with `w`: how many more of it the left has."""
    both = left.selectExpr("*", "1 AS w").unionByName(right.selectExpr("*", "-1 AS w"))
    return both.groupBy(*left.columns).agg(named("sum(w)", "w")).where("w <> 0")


def compared(spec: TableSpec, check: str, left: DataFrame, right: DataFrame, names: tuple[str, str], equal: str = "equal", about: str = "") -> Check:
    """Return whether rows of `as_text` are equal. `names`: what left and right are, for the report; `about` begins it. One Spark job."""
    counts = {"left": "coalesce(sum(greatest(w, 0)), 0)", "right": "coalesce(sum(greatest(-w, 0)), 0)"}
    numbers = measured.compute(_uneven(left, right), {**counts, "example": "coalesce(min(CASE WHEN w > 0 THEN row END), min(row))"})
    differ = f"{numbers['left']} rows only in {names[0]}, {numbers['right']} only in {names[1]}; such as {numbers['example']}"
    same = numbers["example"] is None
    return Check(spec.name, check, same, about + (equal if same else differ))


def compare_with_reference(spark: SparkSession, spec: TableSpec, snapshot: Snapshot) -> Check:
    """Compare the view with its reference definition over the same Snapshot, which is a union with row_number."""
    columns = [(snapshot.schema.view_name(field), field.type) for field in snapshot.schema.payload]
    shown = as_text(spark.table(f"{quoted(spec.database)}.{quoted(spec.view)}"), columns)
    again = as_text(spark.sql(views.reference_text(spec, snapshot)), columns)
    return compared(spec, "view equals base and Delta", shown, again, ("the view", "the reference"))


def view_against(
    spark: SparkSession, spec: TableSpec, view: str, check: str, other: str, snapshot: Snapshot, schema: Schema, rows: DataFrame
) -> Check:
    """Compare a view with states in the columns of `schema`, in the columns that both have. `other` names the states in the report of `check`."""
    pairs = _shared(snapshot.schema, schema)
    # a date and a number, which no cast compares, are compared as texts
    texts = {view_name for view_name, kind, stored in pairs if _common(kind, schema.field(stored).type) == "string"}
    columns = [(view_name, "string" if view_name in texts else kind) for view_name, kind, _ in pairs]
    shown = as_text(spark.table(f"{quoted(spec.database)}.{quoted(view)}"), columns)
    visible = rows if spec.soft else rows.where("_gone IS NULL")
    again = visible.selectExpr(*[f"{quoted(stored)} AS {quoted(view_name)}" for view_name, _, stored in pairs])
    return compared(spec, check, shown, as_text(again, columns), ("the view", other))


def compare_snapshots(before: TableReader, after: TableReader, spec: TableSpec) -> Difference:
    """Return in what the visible rows of two Snapshots differ, by the key of `after`. Columns that only one of them has are left out.

    Without a key, or if `before` has another one, a whole row is its own key. Then no row counts as changed.
    """
    pairs = _shared(before.schema, after.schema)
    shown = [(view_name, _common(kind, after.schema.field(stored).type)) for view_name, kind, stored in pairs]
    key = [view_name for view_name, _, stored in pairs if stored in after.schema.key]
    by = key if len(key) == len(after.schema.key) and {*before.schema.key} == {*after.schema.key} else [name for name, _ in shown]
    old = {before.schema.view_name(field): field.name for field in before.schema.payload}
    texts = []
    for side, names in ((before, old), (after, {name: stored for name, _, stored in pairs})):
        state = ["_gone IS NOT NULL AS _deleted"] if spec.soft else ["false AS _deleted"]
        rows = side.live(spec.soft).selectExpr(*[f"{quoted(names[name])} AS {quoted(name)}" for name, _ in shown], *state)
        texts.append(as_text(rows, [*shown, ("_deleted", "boolean")], by))
    # rows without a key may be alike
    rows_of_key = named("CASE WHEN max(w) > 0 AND min(w) < 0 THEN 1 ELSE abs(sum(w)) END", "rows")
    keys = _uneven(*texts).groupBy("key").agg(named("max(w) > 0", "was"), named("min(w) < 0", "is"), rows_of_key).persist()
    try:
        counts = {(row["was"], row["is"]): row["rows"] for row in keys.groupBy("was", "is").agg(named("sum(rows)", "rows")).collect()}
        samples = tuple(row["key"] for row in keys.orderBy("key").limit(SAMPLES).collect())
    finally:
        keys.unpersist()
    return Difference(counts.get((True, False), 0), counts.get((False, True), 0), counts.get((True, True), 0), samples)


_FAMILIES = (("tinyint", "smallint", "int", "bigint", "decimal", "float", "double"), ("date", "timestamp"))


def _common(old: str, new: str) -> str:
    """Return the type in which the values of a column are compared whose type has changed: the new one within a family, else text."""
    kinds = (types.parse(old), types.parse(new))
    if kinds[0] == kinds[1] or not all(map(types.is_scalar, kinds)):
        return old
    return new if any(all(kind[0] in family for kind in kinds) for family in _FAMILIES) else "string"


def _shared(shown: Schema, again: Schema) -> list[tuple[str, str, str]]:
    """Return (name in the view, type, stored name in `again`) of the columns that both have."""
    names = {again.view_name(field): field.name for field in again.payload}
    return [(shown.view_name(field), field.type, names[shown.view_name(field)]) for field in shown.payload if shown.view_name(field) in names]
