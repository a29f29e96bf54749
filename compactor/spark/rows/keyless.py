"""Tables without key: the key is `_row_id`, the identity of the event that brought the row.

Two steps. `identify` gives every decoded record its identity. It turns an update into a removal (op `x`, the before image) and an insert, and a
delete into a removal. `match_removals` lets every removal take one row with equal content, the lowest first. A removal without such a row waits for
one, as a tombstone does. Rows with equal content are interchangeable, so it makes no difference which of them goes, or when.

A stored removal has `_moved` = 'x'. Once it took its row, `_moved` is 'found', and so is that of the row.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from compactor.core.model.position import OFFSETS
from compactor.core.model.schema import Schema
from compactor.core.sources.kafka_files import SINK
from compactor.spark.columns import AFTER, BLOCK, EVENT, GONE, MOVED, OP, ROW, SOURCE, TEXT, UNCHANGED, VERSION
from compactor.spark.decode.frame import Frame
from compactor.spark.rows import position
from compactor.spark.rows.reduce import REMOVAL
from compactor.spark.sql import EXACT_JSON, literal, quoted

MATCHED = "found"
"""The MOVED of a removal that took its row, and of the row that it took."""


def identify(frame: Frame, order: position.Order, contents: dict[str, str], shard: str) -> Frame:
    """Return the frame with `_identity` (key text) and ORIGIN; updates and deletes become removals.

    `order` are the order columns. `shard` is SQL for the record's shard, or "".
    `contents` maps each file to what identifies its lines; it is read only where neither source nor sink numbers events.
    """
    assert frame.images is not None
    rows = frame.rows
    has_order = "total_order" in dict(rows.dtypes)[SOURCE]
    event = "concat_ws(':', 'e', _position.epoch, _source.sequence, _source.lsn, _source.txId, _source.total_order)" if has_order else "NULL"
    # MySQL and SQL Server number the events of a transaction too, but not the transactions
    has_number = "_source.total_order IS NOT NULL AND coalesce(_source.sequence, _source.lsn, _source.txId) IS NOT NULL" if has_order else "false"
    if any(name in OFFSETS for name, _ in order):
        place = "concat_ws(':', 'o', _position.epoch, _partition, _offset)"
    else:
        # nothing numbers the event: the same line of the same content is the same event
        content = f"try_element_at(map({', '.join(f'{literal(file)}, {literal(name)}' for file, name in contents.items())}), _file)"
        along = ", ".join(name for name in (BLOCK, ROW, EVENT) if name in rows.columns)
        rows = rows.selectExpr("*", f"row_number() OVER (PARTITION BY _file ORDER BY {along}) AS _line")
        # records of several schemas are frames of their own, each with a first line
        place = f"'f', {content}, _partition, coalesce(_offset, _line)"
        if any(SINK in name for name in contents.values()):
            # a topic that is created anew gives the same names to other records
            record = TEXT if TEXT in rows.columns else "to_json(struct(_op, _before, _after))"
            place += f", CASE WHEN contains({content}, '{SINK}') THEN xxhash64({record}) END"
        place = f"concat_ws(':', {place})"
    identity = f"CASE WHEN {has_number} THEN {event} ELSE {place} END"
    rows = rows.selectExpr("*", f"{f'concat({shard}, {chr(39)}:{chr(39)}, {identity})' if shard else identity} AS _id")
    split = rows.selectExpr(
        "*",
        f"explode(CASE WHEN _op = 'u' THEN array('{REMOVAL}', 'c') WHEN _op = 'd' THEN array('{REMOVAL}') ELSE array(_op) END) AS _k",
    )
    keep = [name for name in frame.rows.columns if name not in (OP, AFTER)]
    out = split.selectExpr(
        *keep,
        "_k AS _op",
        f"CASE WHEN _k = '{REMOVAL}' THEN _before ELSE _after END AS _after",
        f"CASE WHEN _k = '{REMOVAL}' THEN concat(_id, ':x') ELSE _id END AS _identity",
        f"CASE WHEN _k = '{REMOVAL}' AND _op = 'u' THEN 1 ELSE 0 END AS _origin",
    )
    return Frame(out, frame.images, frame.writers, members=frame.members)


def content_digest(schema: Schema) -> str:
    """SQL: a digest of all values of a row except its identity."""
    members = ", ".join(quoted(name) for name in schema.values)
    return f"sha2(to_json(struct({members}), {EXACT_JSON}), 256)"


def is_waiting() -> str:
    """SQL: whether a state is a removal that still waits for its row."""
    return f"coalesce(_gone IS NOT NULL AND _moved = '{REMOVAL}', false)"


def match_removals(heads: DataFrame, schema: Schema, version: int) -> DataFrame:
    """Return states (one for each identity) in which removals and rows of equal content have taken each other."""
    ranked = heads.selectExpr(
        "*", f"{content_digest(schema)} AS _content", f"CASE WHEN {is_waiting()} THEN 'w' WHEN _gone IS NULL THEN 'l' ELSE 'n' END AS _kind"
    )
    counted = ranked.selectExpr(
        "*",
        "row_number() OVER (PARTITION BY _content, _kind ORDER BY coalesce(_gone, _at), _row_id) AS _n",
        "count_if(_kind = 'w') OVER (PARTITION BY _content) AS _removals",
        "count_if(_kind = 'l') OVER (PARTITION BY _content) AS _rows",
        "max(CASE WHEN _kind = 'w' THEN _gone END) OVER (PARTITION BY _content) AS _removed_at",
    )
    gone, took = "(_kind = 'l' AND _n <= _removals)", "(_kind = 'w' AND _n <= _rows)"
    columns = [quoted(name) for name in schema.names]
    rest = [name for name in heads.columns if name not in (*schema.names, VERSION, GONE, MOVED, UNCHANGED)]
    return counted.selectExpr(
        *columns,
        *rest,
        f"CASE WHEN {gone} OR {took} THEN CAST({version} AS BIGINT) ELSE _version END AS _version",
        f"CASE WHEN {gone} THEN greatest(_at, _removed_at) ELSE _gone END AS _gone",
        f"CASE WHEN {gone} OR {took} THEN '{MATCHED}' ELSE _moved END AS _moved",
        f"_unchanged AND NOT ({gone} OR {took}) AS _unchanged",
    )
