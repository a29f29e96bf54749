"""Flat rows: one record is one row (ExtractNewRecordState, JDBC sinks, hand-made files), with metadata columns beside the payload.

Rules:
- the operation stands in the column `op:` names (default `op`, `__op`, `Op`, the first that is there); codes in any case, see
  `core/spec.OPERATIONS`; an unknown code is refused. No such column, or a null in it: the row is an upsert.
- `__deleted` = "true" (a string) makes a delete, whatever the operation says. Of a delete only the key is used.
- columns that begin with `__`, and the operation column, are metadata: they can order, they are not stored unless `metadata_columns` asks.
- a null record (tombstone) is counted as ignored.
- there is no before image: a table without a key takes inserts only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from compactor.core.model import types
from compactor.core.model.inputs import Input
from compactor.core.model.spec import OPERATIONS, TableSpec
from compactor.core.schema.writer import from_avro, signature
from compactor.spark.decode.debezium import wrapped
from compactor.spark.decode.frame import Frame, plain_writer
from compactor.spark.decode.order import PLAIN_ROWS, SOURCE, default_order, flat_connector, flat_source
from compactor.spark.input.files import RawFrame
from compactor.spark.rows import survey
from compactor.spark.sql import literal, null, quoted

_NAMES = ("op", "__op", "Op")
DELETED = "__deleted"


def decode(raw: RawFrame, spec: TableSpec) -> Frame:
    """One raw frame as a Frame whose operation and order are still inside `_after` (`settled` takes them out)."""
    unknown = ("CAST(NULL AS STRUCT<_none: STRING>) AS _source", "CAST(NULL AS BIGINT) AS _time")
    if raw.schema is not None:
        described = from_avro(raw.avro) if raw.avro else plain_writer(signature(types.text(raw.schema)), raw.schema)
        if raw.fields is not None:
            present = {field.name for field in raw.fields}
            described = dataclasses.replace(described, fields=raw.fields, undecided=tuple(name for name, _ in raw.schema[1] if name not in present))
        rows = raw.rows.selectExpr(
            "_file",
            "_block",
            "_row",
            "_offset",
            "_partition",
            f"{raw.unreadable} AS _invalid",
            "CASE WHEN _value IS NOT NULL THEN 'u' END AS _op",
            f"{literal(described.id)} AS _writer",
            "CAST(NULL AS STRING) AS _schema",
            "_value AS _after",
            "CAST(NULL AS STRING) AS _before",
            "_key AS _record_key",
            "_old_key",
            *unknown,
        )
        return Frame(rows.drop("_before").selectExpr("*", "_after AS _before"), raw.schema, (described,))
    schema, body = wrapped("_text")
    bodies = raw.rows.selectExpr("*", f"{schema} AS _schema", f"{body} AS _body").selectExpr("*", "json_object_keys(_body) AS _keys")
    writer = "CASE WHEN _schema IS NOT NULL THEN hex(xxhash64(_schema)) ELSE concat('k', hex(xxhash64(array_sort(_keys)))) END"
    empty = "(_body IS NULL OR trim(_body) IN ('', 'null'))"
    rows = bodies.selectExpr(
        "_file",
        "_block",
        "_row",
        "_text",
        "_offset",
        "_partition",
        f"coalesce({raw.unreadable}, CASE WHEN NOT {empty} AND _keys IS NULL THEN 'is not a JSON object' END) AS _invalid",
        f"CASE WHEN NOT {empty} AND _keys IS NOT NULL THEN 'u' END AS _op",
        f"{writer} AS _writer",
        "_schema",
        "_body AS _after",
        "_body AS _before",
        f"{wrapped('_key')[1]} AS _record_key",
        f"{wrapped('_old_key')[1]} AS _old_key",
        *unknown,
    )
    return Frame(rows, None)


def operation_column(spec: TableSpec, columns: dict[str, types.Type]) -> str | None:
    """The column that tells the operation, or None."""
    if spec.op:
        return spec.op if spec.op in columns else None
    return next((name for name in _NAMES if name in columns), None)


def is_metadata(name: str, spec: TableSpec, op: str | None) -> bool:
    """Whether a column is no payload."""
    return (name.startswith("__") or name == op) and name not in spec.metadata_columns


def settled(frame: Frame, spec: TableSpec, inputs: Sequence[Input] = ()) -> Frame:
    """The frame with `_op`, `_invalid`, `_source` and `_time` taken out of the parsed row."""
    assert frame.images is not None
    columns = dict(frame.images[1])
    op = operation_column(spec, columns)
    code = f"lower(trim(CAST(_after.{quoted(op)} AS STRING)))" if op else "CAST(NULL AS STRING)"
    known = {**OPERATIONS, **{code.lower(): meaning for code, meaning in spec.op_map}}
    mapped = " ".join(f"WHEN {literal(text)} THEN {literal(meaning)}" for text, meaning in known.items() if meaning != "ignore")
    dropped = [text for text, meaning in known.items() if meaning == "ignore"]
    silent = f"{code} IN ({', '.join(literal(text) for text in dropped)})" if dropped else "false"
    deleted = f"lower(CAST(_after.{quoted(DELETED)} AS STRING)) = 'true'" if DELETED in columns else "false"
    found = flat_source(columns)
    source = ", ".join(f"{f'CAST(_after.{quoted(found[name])} AS STRING)' if name in found else 'CAST(NULL AS STRING)'} AS {name}" for name in SOURCE)
    time = (
        f"try_cast(_after.{quoted(found['ts_us'])} AS BIGINT)"
        if "ts_us" in found
        else f"try_cast(_after.{quoted(found['ts_ms'])} AS BIGINT) * 1000L"
        if "ts_ms" in found
        else "CAST(NULL AS BIGINT)"
    )
    other = "false"
    if spec.source_table and "__table" in columns:
        other = f"NOT coalesce(_after.`__table` = {literal(spec.source_table.split('.')[-1])}, false)"
    told = f"CASE {code} {mapped} END"
    # a row without operation is an upsert; without a key there is nothing to update
    bare = "u" if spec.key else "c"
    meaning = f"CASE WHEN _op IS NULL OR {silent} OR {other} THEN NULL WHEN {deleted} THEN 'd' WHEN {code} IS NULL THEN '{bare}' ELSE {told} END"
    strange = f"_invalid IS NULL AND _op IS NOT NULL AND {code} IS NOT NULL AND NOT ({silent}) AND {told} IS NULL"
    unknown = f"CASE WHEN {strange} THEN concat('has an unknown operation ', {code}) END"
    keep = [name for name in frame.rows.columns if name not in ("_op", "_invalid", "_source", "_time", "_before")]
    rows = frame.rows.selectExpr(
        *keep,
        "_before" if spec.key else f"{null(frame.images)} AS _before",
        f"coalesce(_invalid, {unknown}) AS _invalid",
        f"{meaning} AS _op",
        f"struct({source}, CAST(NULL AS STRING) AS total_order) AS _source",
        f"{time} AS _time",
    )
    metadata = frozenset(name for name in columns if is_metadata(name, spec, op))
    return dataclasses.replace(frame, rows=rows, metadata=metadata, order_names=PLAIN_ROWS)


def order(spec: TableSpec, frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the order columns of a new table: `order_by`, else what the connector's metadata columns allow. Raises OrderRefused."""
    if spec.order_by:
        return spec.order_by
    _, offsets = survey.connector(frames)
    found = flat_connector(flat_source(dict((frames[0].images or ("struct", ()))[1])))
    # a flattened row has no transaction block
    return tuple(name for name in default_order(found, offsets, spec.name) if name != "total_order")
