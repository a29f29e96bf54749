"""Notice that several inserted rows of a batch have the same key: then the key is most likely wrong, and rows were lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.schema import Schema
from compactor.core.results.phrases import counted
from compactor.core.sources import key_inference
from compactor.core.sources.key_inference import RowSample
from compactor.spark.columns import FROM
from compactor.spark.keys import key_columns, key_types
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import position
from compactor.spark.sql import EXACT_JSON, named, quoted

_SAMPLED = 5_000


def note(batch: SparkBatch, counts: Mapping[str, int]) -> str:
    """Return a sentence about inserts that others with the same key superseded; "" without any. `counts`: of events by outcome.

    An insert changes a row, or it is late, or a duplicate, unless another event of its key superseded it. Only where that cannot add up a Spark job
    counts. Not counted are: an insert and a snapshot's read of one row, the same row again, reads of a row that was updated, an insert for each
    delete or move of its key, and what comes late or again: what was deleted since is in earlier runs.
    """
    spec, summary, parent = batch.spec, batch.summary, batch.parent
    possible = counts["applied"] + counts["duplicate"] + counts["late"]
    if spec.keyless or spec.source.full_loads or summary.truncates or summary.inserts <= possible:
        return ""
    schema = summary.evolved.schema
    # a row that is read again has another place in the order
    content = [field.name for field in schema.fields if field.source not in spec.order_by]
    changes = batch.changes
    if parent is not None and parent.position_max is not None:
        place, newest = (position.event(at, summary.order) for at in ("_position", position.fixed(parent.position_max, summary.order)))
        changes = changes.where(f"{place} > {newest}")
    grouped = _by_key(changes, schema, content, bool(summary.moves))
    row = grouped.agg(named("sum(inserted - 1)", "lost"), named("sum(inserted)", "inserted"), named("count(1)", "keys")).collect()[0]
    if not row.lost:
        return ""
    key = ", ".join(schema.field(name).source for name in schema.key)
    columns = [
        field for field in schema.payload if types.parse(field.type)[0] not in ("float", "double") and types.is_scalar(types.parse(field.type))
    ]
    sample = RowSample()
    values = [f"CAST({quoted(field.name)} AS STRING)" for field in columns]
    names = [field.source for field in columns]
    for op, *inserted in changes.where("_op IN ('c', 'r')").selectExpr("_op", *values).limit(_SAMPLED).collect():
        sample.add(dict(zip(names, inserted)), op == "r")
    repeated = key_inference.repeated(sample, names, [schema.field(name).source for name in schema.key], spec.name, spec.order_by)
    evidence = repeated.sentence if repeated else f"{key} has {counted(row['keys'], 'value')} in {row.inserted:,} inserted rows"
    return f"{counted(row.lost, 'inserted row')} had the key of another one and left no row: {evidence}. If these are different rows, correct `key:`"


def _by_key(changes: DataFrame, schema: Schema, columns: Sequence[str], moves: bool) -> DataFrame:
    """Return the keys with more inserts of different rows (by `columns`) than deletes and moves, and `inserted`: how many more."""
    keys = [quoted(name) for name in schema.key]
    content = f"xxhash64(to_json(struct({', '.join(quoted(name) for name in columns)}), {EXACT_JSON}))"
    rows = changes.selectExpr(*keys, "_op", f"{content} AS _content")
    if moves:
        old = [f"{value} AS {name}" for name, value in zip(keys, key_columns(FROM, key_types(schema)))]
        rows = rows.unionByName(changes.where("_from IS NOT NULL").selectExpr(*old, "'d' AS _op", "0L AS _content"))
    created, read = (f"count(DISTINCT CASE WHEN _op = '{op}' THEN _content END)" for op in ("c", "r"))
    inserted = f"greatest({created}, CASE WHEN count_if(_op = 'u') = 0 THEN {read} ELSE 0 END) - count_if(_op = 'd')"
    # a key column may be called like the number
    grouped = rows.groupBy(*keys).agg(named(inserted, "inserted")).toDF(*(f"k{at}" for at in range(len(keys))), "inserted")
    return grouped.where("inserted > 0")
