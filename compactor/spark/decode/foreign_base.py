"""A foreign base: rows that another tool stored become Frames of snapshot reads (op `r`), in the columns and the order of the table's changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import InputRefused, OrderRefused, SchemaRefused
from compactor.core.model.position import NULLABLE
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema.adoption import EPOCH, Adoption, ForeignBase, adoption
from compactor.core.schema.evolution import Evolved
from compactor.core.sources import flat_rows
from compactor.core.sources.quarantine import Unusable
from compactor.spark.columns import INVALID, OP
from compactor.spark.decode.flat import decode
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import expression
from compactor.spark.input import kafka
from compactor.spark.input.files import RawFrame
from compactor.spark.input.inputs import Inputs
from compactor.spark.rows import position
from compactor.spark.rows.comparable import exactly
from compactor.spark.sql import as_column, literal, named, null, quoted, struct

_SAMPLES = 3
"""Keys that an error names."""


def frames(opened: Inputs, base: ForeignBase) -> tuple[list[Frame], Adoption]:
    """Return the rows of all files with `_op` and `_position`, and what becomes of their columns.

    Rows that cannot be adopted have `_invalid`: their key is null, or they are marked as deleted. Raises InputRefused for a file that cannot be
    opened, SchemaRefused and OrderRefused for columns that do not go with those of the changes.
    """
    spec = opened.spec
    raws = [raw for kind, paths in opened.by_format().items() for raw in opened.raw(kind, paths, (), None)]
    check_usable(spec, opened.unusable())
    adopted = adoption(spec, _columns(raws, spec), base)
    unpacked = [part for raw in raws for part in kafka.unpack(raw, "value", None, opened.materialize)]
    return [_settled(decode(raw, spec), spec, base, adopted) for raw in unpacked], adopted


def evolved(frames: Sequence[Frame], adopted: Adoption) -> Evolved:
    """Return which column of each file becomes which stored column."""
    stored = {column: name for name, column in adopted.columns}
    writers = {writer.id: writer for frame in frames for writer in frame.writers}
    columns = {name: {field.name: stored[field.name] for field in writer.fields if field.name in stored} for name, writer in writers.items()}
    return Evolved(adopted.schema, columns, decisions=adopted.decisions)


def check_usable(spec: TableSpec, unusable: Sequence[Unusable], count: int | None = None) -> None:
    """Raises InputRefused if there are unusable files or records; `count`: how many, where only some are listed."""
    if unusable:
        raise InputRefused(
            f"table {spec.name}: {count or len(unusable):,} files or rows of {spec.landing} cannot be adopted, such as {unusable[0]}. Nothing was "
            "adopted. Make a copy of the base without them, and adopt that."
        )


def check_keys(changes: DataFrame, spec: TableSpec, schema: Schema) -> None:
    """Raises InputRefused, naming keys and files, if a key occurs more than once."""
    counted = changes.groupBy(*schema.key).agg(named("count(1)", "_n"), named("min(_file)", "_a"), named("max(_file)", "_b")).where("_n > 1")
    key = struct([(name, quoted(name)) for name in schema.key])
    some = counted.selectExpr(f"to_json({key}) AS k", "_n AS n", "_a AS a", "_b AS b").orderBy("k").limit(_SAMPLES).collect()
    if some:
        samples = "; ".join(f"{row.k} {row.n} times in {row.a if row.a == row.b else f'{row.a} and {row.b}'}" for row in some)
        raise InputRefused(
            f"table {spec.name}: {counted.count()} keys are in {spec.landing} more than once, such as {samples}; expected one row per key. Nothing "
            "was adopted. Make a copy with the right row of each, or correct `key:`."
        )


def _columns(raws: Sequence[RawFrame], spec: TableSpec) -> dict[str, types.Type]:
    """Return the columns that the files have together. Raises SchemaRefused where their types disagree."""
    columns: dict[str, types.Type] = {}
    for raw in raws:
        assert raw.schema is not None
        for name, kind in raw.schema[1]:
            joined = types.widest(columns.get(name, kind), kind)
            if joined is None:
                raise SchemaRefused(
                    f"table {spec.name}, column {name}: files of {spec.landing} have it as {types.text(columns[name])} and as {types.text(kind)}, "
                    f"such as {raw.paths[0]}; no type holds both. Make a copy of the base in one type, and adopt that."
                )
            columns[name] = joined
    return columns


def _settled(frame: Frame, spec: TableSpec, base: ForeignBase, adopted: Adoption) -> Frame:
    """Return the frame with `_op`, `_invalid` and `_position`."""
    assert frame.images is not None
    columns = dict(frame.images[1])
    origin = dict(adopted.columns)
    keys = [f"_after.{quoted(origin[name])}" for name in adopted.schema.key if origin[name] in columns]
    no_key = " OR ".join(f"{key} IS NULL" for key in keys) if len(keys) == len(adopted.schema.key) else "true"
    names = ", ".join(adopted.schema.key)
    why = f"CASE WHEN _invalid IS NOT NULL THEN _invalid WHEN {no_key} THEN {literal(f'has no key ({names} is null)')} "
    why += f"WHEN {_deleted(spec, adopted, columns)} THEN 'is marked as deleted' END"
    keep = [name for name in frame.rows.columns if name not in (OP, INVALID)]
    rows = frame.rows.selectExpr(*keep, f"{_position(spec, base, frame.images)} AS _position", f"{why} AS _invalid")
    # every value was sent: no text of a stored row is a placeholder
    return dataclasses.replace(frame, rows=rows.withColumn(OP, as_column("CASE WHEN _invalid IS NULL THEN 'r' END")), absent=())


def _position(spec: TableSpec, base: ForeignBase, images: types.Type) -> str:
    """SQL for a row's Position. It has no tie-breakers, so that a change of the same place in the order is newer."""
    required, members, columns = [], [], dict(images[1])
    for at, (name, kind) in enumerate(base.order):
        column = base.order_by[at] if base.order_by else None
        value = null(types.parse(kind))
        if column is not None and column in columns:
            sql, column_kind = expression(f"after.{column}", images, spec.name)
            text = types.text(column_kind)
            if text != kind and (text, kind) not in (("string", "bigint"), ("string", "double"), ("bigint", "double")):
                raise OrderRefused(
                    f"table {spec.name}: --order-by {column} is compared as {text}, the changes' {name} as {kind}; expected the same. Name another "
                    "column, or use --ingested-through FOLDER alone."
                )
            value = exactly(sql, column_kind, types.parse(kind))
        members.append(value)
        if name not in NULLABLE:
            required.append(f"({value}) IS NOT NULL")
    placed = " AND ".join(required) or " OR ".join(f"({value}) IS NOT NULL" for value in members)
    if not base.order_by:
        placed = "false"
    inside = "".join(f"'o{at + 1}', CASE WHEN {placed} THEN {value} END, " for at, value in enumerate(members))
    epoch = f"CASE WHEN {placed} THEN {spec.epoch} ELSE {EPOCH} END"
    return f"CAST(named_struct('epoch', {epoch}, {inside}'file', NULL, 'block', NULL, 'row', NULL) AS {position.ddl(base.order)})"


def _deleted(spec: TableSpec, adopted: Adoption, columns: dict[str, types.Type]) -> str:
    """SQL: whether metadata columns that the base has kept mark a row as deleted."""
    metadata = {name: kind for name, kind in columns.items() if name in adopted.left_out}
    tests = []
    op = flat_rows.operation_column(spec, metadata)
    if op is not None:
        deletes = ", ".join(literal(code) for code, meaning in flat_rows.operations(spec).items() if meaning == "d")
        tests.append(f"coalesce(lower(trim(CAST(_after.{quoted(op)} AS STRING))) IN ({deletes}), false)")
    if flat_rows.DELETED in metadata:
        tests.append(f"coalesce(lower(CAST(_after.{quoted(flat_rows.DELETED)} AS STRING)) = 'true', false)")
    return " OR ".join(tests) or "false"
