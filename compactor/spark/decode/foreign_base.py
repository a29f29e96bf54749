"""A foreign base: rows that another tool stored become Frames of snapshot reads (op `r`), in the columns and the order of the table's changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import DataFrame

from compactor.core.model.errors import InputRefused
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema.adoption import EPOCH, ForeignBase
from compactor.core.sources.quarantine import Unusable
from compactor.spark.decode.flat import decode, settle
from compactor.spark.decode.frame import Frame
from compactor.spark.input import kafka
from compactor.spark.input.inputs import Inputs
from compactor.spark.rows import position
from compactor.spark.sql import literal, named, quoted, struct

_SAMPLES = 3
"""Keys that an error names."""


def frames(opened: Inputs, base: ForeignBase) -> list[Frame]:
    """Return the rows of all files with `_op` and `_position`.

    Rows that cannot be adopted have `_invalid`: their key is null, or they are marked as deleted. Raises InputRefused for a file that cannot be
    opened.
    """
    spec = opened.spec
    raws = [raw for kind, paths in opened.by_format().items() for raw in opened.raw(kind, paths, (), None)]
    check_usable(spec, opened.unusable())
    unpacked = [part for raw in raws for part in kafka.unpack(raw, "value", None, opened.materialize)]
    return [_placed(settle(decode(raw, spec), spec), spec, base) for raw in unpacked]


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


def _placed(frame: Frame, spec: TableSpec, base: ForeignBase) -> Frame:
    """Return the frame with the Position of adopted rows, and without its deleted rows."""
    names = ", ".join(spec.key)
    columns = {base.source(name): name for name in frame.columns}
    no_key = " OR ".join(f"_after.{quoted(columns[name])} IS NULL" for name in spec.key if name in columns) or "false"
    why = f"CASE WHEN _invalid IS NOT NULL THEN _invalid WHEN {no_key} THEN {literal(f'has no key ({names} is null)')} "
    why += "WHEN _op = 'd' THEN 'is marked as deleted' END"
    members = "".join(f"'o{at + 1}', NULL, " for at in range(len(base.order)))
    place = f"CAST(named_struct('epoch', {EPOCH}, {members}'file', NULL, 'block', NULL, 'row', NULL) AS {position.ddl(base.order)})"
    keep = [name for name in frame.rows.columns if name not in ("_op", "_invalid")]
    rows = frame.rows.selectExpr(*keep, f"{place} AS _position", f"{why} AS _invalid").selectExpr(
        "*", "CASE WHEN _invalid IS NULL THEN 'r' END AS _op"
    )
    # every value was sent: no text of a stored row is a placeholder
    return dataclasses.replace(frame, rows=rows, absent=())
