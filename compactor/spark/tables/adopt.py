"""Adopting: the files of a base that others made → states of a new table, checked row by row before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model import types
from compactor.core.model.errors import InputRefused, OrderRefused, SchemaRefused
from compactor.core.model.spec import OPERATIONS, TableSpec
from compactor.core.schema.adoption import EPOCH, Adoption
from compactor.ports import Storage
from compactor.spark.consistency import ConsistentReads
from compactor.spark.decode import conversions
from compactor.spark.decode.flat import DELETED, operation_column
from compactor.spark.decode.order import NULLABLE, expression
from compactor.spark.input import files
from compactor.spark.input.files import Origins, RawFrame
from compactor.spark.rows import position
from compactor.spark.rows.resolve import union
from compactor.spark.sql import cast, literal, named, null, quoted, struct

_TOLD = 3
"""Keys and files that a refusal names."""


def columns(spark: SparkSession, storage: Storage, table: str, path: str, paths: Sequence[str]) -> dict[str, types.Type]:
    """The columns that the files have together. Raises InputRefused for one that is no Parquet file, SchemaRefused where they disagree."""
    found: dict[str, types.Type] = {}
    for raw in _frames(spark, storage, table, path, paths):
        assert raw.schema is not None
        for name, kind in raw.schema[1]:
            joined = types.widest(found.get(name, kind), kind)
            if joined is None:
                raise SchemaRefused(
                    f"table {table}, column {name}: files of {path} have it as {types.text(found[name])} and, such as {raw.paths[0]}, as "
                    f"{types.text(kind)}; no type holds both. Make a copy of the base in one type, and adopt that."
                )
            found[name] = joined
    return found


def checked(
    spark: SparkSession, storage: Storage, spec: TableSpec, adoption: Adoption, path: str, paths: Sequence[str]
) -> tuple[DataFrame, dict[str, int]]:
    """The rows as states, and how many there are: `adopted`, and of these `unplaced`, without a Position.

    Raises InputRefused naming keys and files for keys that are null or there twice, for values that are lost in the table's types, for rows that
    are marked as deleted; OrderRefused for rows without a Position where each needs one.
    """
    frames = _frames(spark, storage, spec.name, path, paths)
    rows = union([_marked(raw, spec, adoption) for raw in frames])
    keys = [quoted(name) for name in adoption.schema.key]
    nameless = " OR ".join(f"{key} IS NULL" for key in keys)
    told = rows.agg(
        named("count(1)", "adopted"),
        named(f"count_if(_position.epoch = {EPOCH})", "unplaced"),
        *(named(f"count_if({test})", f"n_{name}") for name, test in (("nameless", nameless), ("gone", "_gone"), ("lost", "_lost IS NOT NULL"))),
        *(named(f"min(CASE WHEN {test} THEN _file END)", f"f_{name}") for name, test in (("nameless", nameless), ("gone", "_gone"))),
        named("min(CASE WHEN _lost IS NOT NULL THEN struct(_lost, _file) END)", "f_lost"),
        named(f"min(CASE WHEN _position.epoch = {EPOCH} THEN _file END)", "f_unplaced"),
    ).collect()[0]
    key = ", ".join(adoption.schema.key)
    if told.n_nameless:
        raise InputRefused(
            f"table {spec.name}: {told.n_nameless} rows of {path} have no key ({key} is null), such as in {told.f_nameless}. Nothing was adopted."
        )
    if told.n_gone:
        raise InputRefused(
            f"table {spec.name}: {told.n_gone} rows of {path} are marked as deleted, such as in {told.f_gone}; expected the rows that are there. "
            "Make a copy without them, and adopt that."
        )
    if told.n_lost:
        raise InputRefused(
            f"table {spec.name}: {told.n_lost} rows of {path} hold a value in {told.f_lost[0]} that the table's type does not hold, such as in "
            f"{told.f_lost[1]}. Nothing was adopted."
        )
    if adoption.order_by and told.unplaced and not adoption.unplaced:
        raise OrderRefused(
            f"table {spec.name}: in {told.unplaced} rows of {path}, such as in {told.f_unplaced}, {', '.join(adoption.order_by)} is null or does "
            "not have the changes' type. Any change in landing, however old, would win over them: say --absorbed-through FOLDER too, or others."
        )
    _check_once(rows, spec, adoption, path)
    return rows.drop("_file", "_gone", "_lost"), {"adopted": told.adopted, "unplaced": told.unplaced}


def _check_once(rows: DataFrame, spec: TableSpec, adoption: Adoption, path: str) -> None:
    by_key = rows.groupBy(*adoption.schema.key).agg(named("count(1)", "_n"), named("min(_file)", "_a"), named("max(_file)", "_b")).where("_n > 1")
    key = struct([(name, quoted(name)) for name in adoption.schema.key])
    some = by_key.selectExpr(f"to_json({key}) AS k", "_n AS n", "_a AS a", "_b AS b").orderBy("k").limit(_TOLD).collect()
    if some:
        told = "; ".join(f"{row.k} {row.n} times in {row.a if row.a == row.b else f'{row.a} and {row.b}'}" for row in some)
        raise InputRefused(
            f"table {spec.name}: {by_key.count()} keys are in {path} more than once, such as {told}; expected one row per key. Nothing was adopted. "
            "Make a copy with the right row of each, or correct `key:`."
        )


def _frames(spark: SparkSession, storage: Storage, table: str, path: str, paths: Sequence[str]) -> list[RawFrame]:
    sizes = {info.path: info.size for info in storage.list(path)}
    frames, broken = files.read(spark, "parquet", Origins((path,)), paths, ConsistentReads(sizes, table))
    if broken:
        place, why = min(broken.items())
        raise InputRefused(
            f"table {table}: {place} is {why.text}; {len(broken)} of {len(paths)} files of {path} cannot be opened. Nothing was adopted."
        )
    return frames


def _marked(raw: RawFrame, spec: TableSpec, adoption: Adoption) -> DataFrame:
    """Rows of files with one footer as states, with `_file`, `_gone` (a deleted row), `_lost` (a column whose value its type does not hold)."""
    assert raw.schema is not None
    has = dict(raw.schema[1])
    stored, lost = [], []
    origin = dict(adoption.columns)
    for field in adoption.schema.fields:
        wanted, column = types.parse(field.type), origin.get(field.name)
        if column is None or column not in has:
            stored.append(f"{null(wanted)} AS {quoted(field.name)}")
            continue
        own = f"_after.{quoted(column)}"
        value = conversions.plain(own, has[column], wanted)
        stored.append(f"{value} AS {quoted(field.name)}")
        if value != own:
            lost.append(f"WHEN {own} IS NOT NULL AND ({value}) IS NULL THEN {literal(field.name)}")
    rows = raw.rows.selectExpr("_file", "_block", "_row", "_value AS _after", "_value AS _before")
    return rows.selectExpr(
        *stored,
        "'u' AS _op",
        "1L AS _version",
        f"{_position(spec, adoption, has, raw.schema)} AS _position",
        f"CAST(NULL AS {position.older_ddl(adoption.order)}) AS _older",
        "CAST(NULL AS STRING) AS _from",
        "CAST(NULL AS STRING) AS _moved_to",
        "_file",
        f"{_gone(spec, adoption, has)} AS _gone",
        f"CASE {' '.join(lost)} END AS _lost" if lost else "CAST(NULL AS STRING) AS _lost",
    )


def _position(spec: TableSpec, adoption: Adoption, has: dict[str, types.Type], images: types.Type) -> str:
    """SQL for a row's Position; without tie-breakers, so that a change of the same place in the order, should one come, is its own or newer."""
    placed, members = [], []
    for at, (name, kind) in enumerate(adoption.order):
        column = adoption.order_by[at] if at < len(adoption.order_by) else None
        value = null(types.parse(kind))
        if column is not None and column in has:
            found, found_kind = expression(column, images, spec.name)
            if found_kind != types.parse(kind) and (types.text(found_kind), kind) not in (
                ("string", "bigint"),
                ("string", "double"),
                ("bigint", "double"),
            ):
                raise OrderRefused(
                    f"table {spec.name}: --order-by {column} is compared as {types.text(found_kind)}, the changes' {name} as {kind}; expected the "
                    "same. Say another column, or --absorbed-through FOLDER alone."
                )
            value = cast(found, types.parse(kind))
        members.append(value)
        if name not in NULLABLE:
            placed.append(f"({value}) IS NOT NULL")
    known = " AND ".join(placed) or " OR ".join(f"({value}) IS NOT NULL" for value in members)
    if not adoption.order_by:
        known = "false"
    inside = "".join(f"'o{at + 1}', CASE WHEN {known} THEN {value} END, " for at, value in enumerate(members))
    epoch = f"CASE WHEN {known} THEN {adoption.epoch} ELSE {EPOCH} END"
    return f"CAST(named_struct('epoch', {epoch}, {inside}'file', NULL, 'block', NULL, 'row', NULL) AS {position.ddl(adoption.order)})"


def _gone(spec: TableSpec, adoption: Adoption, has: dict[str, types.Type]) -> str:
    """SQL: whether a row is one that its increments deleted, told by metadata that the base has kept."""
    tests = []
    op = operation_column(spec, {name: kind for name, kind in has.items() if name in adoption.left_out})
    if op is not None:
        codes = {**OPERATIONS, **{code.lower(): meaning for code, meaning in spec.op_map}}
        deletes = ", ".join(literal(code) for code, meaning in codes.items() if meaning == "d")
        tests.append(f"coalesce(lower(trim(CAST(_after.{quoted(op)} AS STRING))) IN ({deletes}), false)")
    if DELETED in has and DELETED in adoption.left_out:
        tests.append(f"coalesce(lower(CAST(_after.{quoted(DELETED)} AS STRING)) = 'true', false)")
    return " OR ".join(tests) or "false"
