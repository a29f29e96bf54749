"""Debezium's envelope: {before, after, source, op, transaction, ts_ms}, as JSON with or without schema, Avro, or Parquet structs.

`docs/sources.md` has the rules. Beyond them:
- Of a delete's `before` only the key is used, because default identity fills the rest with zeros.
- The record's key is the fallback for the row's, because a renamed key column can be missing there.
- Connectors of other databases deviate. MongoDB's documents are read (`_document`), as are Scylla's cells, and Spanner's updates without what did
  not change (`frame.PARTIAL`). What has no certain meaning is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import from_avro, signature
from compactor.spark.columns import AFTER, BEFORE, OLD_KEY, OP, PLACE, RECORD_KEY, SCHEMA, TEXT, WRITER
from compactor.spark.decode.conversions import plain
from compactor.spark.decode.frame import PARTIAL, Frame, image_names, is_cell, json_writer, of_other_table, plain_writer
from compactor.spark.decode.order import source_fields, transaction_fields, with_own_fields
from compactor.spark.decode.pg_text import fractions_back, fractions_kept, names_decimal
from compactor.spark.input.files import RawFrame
from compactor.spark.input.json_text import no_object
from compactor.spark.sql import as_column, cited, from_json, literal, member, null, once, quoted

_BODY = "op STRING, before STRING, after STRING, source STRUCT<{0}>, transaction STRUCT<{1}>, ts_ms STRING, _corrupt STRING"

_HEARTBEATS = (frozenset({"ts_ms"}), frozenset({"ts_ms", "vgtid"}), frozenset({"resolved"}))
_NO_ROWS = (frozenset({"databaseName", "ddl"}), frozenset({"event_count", "id", "status"}))
"""The members of heartbeats, also Vitess's and CockroachDB's; members of schema changes and of transaction markers, which have more."""
_ENDS_ROWS = "get_json_object(_body, '$.ddl') RLIKE '(?i)^[ ]*(truncate|drop[ ]+table)[ ]'"
_TRUNCATES = f"CASE WHEN _m.op IS NULL AND _m.source.connector = 'TiCDC' AND {_ENDS_ROWS} THEN 't' END"
"""SQL: `t` for a schema change of TiCDC that ends all rows. It has a place in the order, as a change has."""
_OPS = "('c', 'u', 'd', 'r', 't', 'm')"

_MONGODB = '"io.debezium.connector.mongo.Source"'
"""The name of the source block in Connect's schemas of MongoDB's connector. They call a document a text, and say nothing of its members."""
_WRAPPED_VALUE = r'\{\s*"\$(?:oid"\s*:\s*("[^"]*")|number(?:Long|Int)"\s*:\s*"(-?[0-9]+)")\s*\}'
_CELL = r':\s*\{\s*("set"\s*:\s*(true|false)\s*,\s*)?"value"\s*:'
_NULL = r":\s*null\s*[,}]"
_UNION = r'^\s*\{\s*"\w+([.]\w+)+"\s*:\s*\{'
"""Values of MongoDB's extended JSON that are plain JSON without their type; a cell of YugabyteDB or Scylla; a null; a row inside the name of its
Avro record."""
_PARTIAL = (
    "is an update without `after` from MongoDB: either the connector sends only what changed (set capture.mode: change_streams_update_full, and have "
    "it read the collection again), or the document was deleted before it looked it up (the delete follows; discard this record)"
)
_CASSANDRA = (
    "comes from Debezium's connector for Cassandra, which is not read: its deletes of ranges do not name their rows. Land full loads of the table, "
    "and set `envelope: full-load`"
)
_CELLS = (
    'wraps each value as {"value": .., "set": ..}, with null where nothing changed, as YugabyteDB does: set transforms.pg.type: '
    "io.debezium.connector.yugabytedb.transforms.PGCompatible at the connector, and the stream's before image to ALL or FULL_ROW_NEW_IMAGE"
)
_UNIONS = (
    'wraps values in their Avro types, such as {"string": ..}, as kafka-avro-console-consumer prints them: have a sink write the topic, as Avro or '
    "as plain JSON"
)
_NEW_VALUES = (
    "is an update from Spanner in which a null may be a value that did not change: set value_capture_type of the change stream to 'NEW_ROW' or "
    "'OLD_AND_NEW_VALUES'"
)
_NO_CELLS = (
    "is an update from Scylla in which a null may be a value that did not change: do not set cdc.output.format to advanced at the connector, so that "
    "each value is a cell"
)
_NO_ROW = "creates, updates or reads a row, and has none in `after`"
_NO_KEY = "deletes a row, and neither `before` nor the record's key says which: land whole records and set `container: kafka`"


def decode(raw: RawFrame, spec: TableSpec) -> Frame:
    """Return one raw frame (with OFFSET, KEY, OLD_KEY) as a Frame."""
    return _json(raw, spec) if raw.schema is None else _typed(raw, spec)


def wrapped(text: str, outer: str = "") -> tuple[str, str]:
    """Return SQL for (schema text, body text) of Connect JSON: `{"schema": .., "payload": ..}` with schemas.enable, else the body alone.

    `outer`: the column with `outer_of(text)`, where that is computed already.
    """
    outer = outer or outer_of(text)
    has_schema = f"{outer}.schema LIKE '%\"fields\"%'"
    # what has no schema, such as a tombstone, may be wrapped too
    wraps = f"({has_schema} OR ({outer} IS NOT NULL AND {outer}.schema IS NULL))"
    return f"CASE WHEN {has_schema} THEN {outer}.schema END", f"CASE WHEN {wraps} THEN {outer}.payload ELSE {text} END"


def _has_decimals(schema: str, spec: TableSpec) -> str:
    """SQL: whether some column may be a decimal, by the text of a schema or by the settings."""
    return "true" if spec.types or spec.avro_schema else names_decimal(schema)


def outer_of(text: str, kept: str = "") -> str:
    """SQL: a text that may be wrapped, as a struct of `schema` and `payload`; null for other text, and for rows with more members.

    `kept`: SQL for the text as the reader gets it.
    """
    names = f"sort_array(json_object_keys({text}))"
    # TiCDC without schemas
    by_ticdc = f"get_json_object({text}, '$.payload.source.connector') = 'TiCDC'"
    alone = f"startswith(ltrim({text}), '{{\"payload\"') AND {names} = array('payload') AND {by_ticdc}"
    wraps = f"contains({text}, '\"payload\"') AND ({names} = array('payload', 'schema') OR {alone})"
    return f"(CASE WHEN {wraps} THEN {from_json(kept or text, literal('schema STRING, payload STRING'))} END)"


def bodies(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Return rows of TEXT with its parts as `_schema` and `_body`."""
    outer = outer_of(TEXT, fractions_kept(TEXT, _has_decimals(TEXT, spec)))
    schema, body = (fractions_back(part) for part in wrapped(TEXT, "_outer"))
    return once(rows.selectExpr("*", f"{outer} AS _outer")).selectExpr("*", f"{schema} AS _schema", f"{body} AS _body").drop("_outer")


def _json(raw: RawFrame, spec: TableSpec) -> Frame:
    members = (", ".join(f"{quoted(name)}: STRING" for name in names) for names in (source_fields(spec), transaction_fields(spec)))
    body_type = literal(_BODY.format(*members))
    rows = bodies(raw.rows, spec).withColumn(SCHEMA, as_column(f"CASE WHEN NOT contains({SCHEMA}, {literal(_MONGODB)}) THEN {SCHEMA} END"))
    rows = rows.selectExpr("*", f"{_has_decimals(SCHEMA, spec)} AS _decimals")
    kept = fractions_kept("_body", "_decimals")
    # at a quick look, which spares to read it again for its names; where fractions are made strings, what is read is not the body
    is_envelope = "(_m.op IS NOT NULL AND _m._corrupt IS NULL AND startswith(ltrim(_body), '{') AND NOT _decimals)"
    document = from_json(kept, body_type, columnNameOfCorruptRecord="_corrupt", allowNonNumericNumbers="false")
    parsed = once(rows.selectExpr("*", f"{document} AS _m")).selectExpr("*", f"CASE WHEN NOT {is_envelope} THEN json_object_keys(_body) END AS _keys")
    row = "coalesce(_m.after, _m.before)"
    writer = json_writer(f"json_object_keys({row})" if spec.key else image_names("_m.after", "_m.before"))
    capture = "get_json_object(_body, '$.source.value_capture_type')"
    heartbeats, others = ([f"array({', '.join(map(literal, sorted(names)))})" for names in kinds] for kinds in (_HEARTBEATS, _NO_ROWS))
    silent = " OR ".join((f"sort_array(_keys) IN ({', '.join(heartbeats)})", *(f"size(array_except({names}, _keys)) = 0" for names in others)))
    no_envelope = f"_m.op IS NULL AND NOT ({silent})"
    other = of_other_table(*_origin(lambda name: f"_m.source.{name}"), spec.source_table)
    op = _operation("_m.op", "_m.after IS NULL", "_m.before IS NULL", other)
    invalid = (
        f"CASE WHEN _body IS NULL OR trim(_body) IN ('', 'null') THEN NULL WHEN NOT {is_envelope} AND _keys IS NULL THEN {no_object('_body')} "
        f"WHEN {no_envelope} THEN 'is not a Debezium envelope (no `op`)' "
        f"WHEN _m.source.connector = 'cassandra' THEN {literal(_CASSANDRA)} "
        f"WHEN _m.op IS NOT NULL AND _m.op NOT IN {_OPS} THEN concat('has an unknown op ', {cited('_m.op')}) "
        f"WHEN _m.op IS NULL OR {other} THEN NULL "
        f"WHEN {row} RLIKE {literal(_UNION)} AND size(json_object_keys({row})) = 1 THEN {literal(_UNIONS)} "
        f"WHEN _m.source.connector = 'yugabytedb' AND {row} RLIKE {literal(_CELL)} THEN {literal(_CELLS)} "
        f"WHEN _m.source.connector = 'mongodb' AND _m.op = 'u' AND _m.after IS NULL THEN {literal(_PARTIAL)} "
        f"WHEN _m.source.connector = 'spanner' AND _m.op = 'u' AND {capture} = 'NEW_VALUES' THEN {literal(_NEW_VALUES)} "
        f"WHEN _m.source.connector = 'scylla' AND _m.op = 'u' AND _m.after RLIKE {literal(_NULL)} AND NOT _m.after RLIKE {literal(_CELL)} "
        f"THEN {literal(_NO_CELLS)} "
        f"{_incomplete('_m.op', '_m.after IS NULL', '_m.before IS NULL')} END"
    )
    judged = parsed.selectExpr("*", f"coalesce({raw.unreadable}, {invalid}) AS _why")
    decoded = once(
        judged.selectExpr(
            *PLACE,
            TEXT,
            "_why AS _invalid",
            f"CASE WHEN _why IS NULL THEN coalesce({op}, CASE WHEN NOT {other} THEN {_TRUNCATES} END) END AS _op",
            f"concat({_mark('_m.source.connector', capture)}, {writer}) AS _writer",
            SCHEMA,
            f"{_document(fractions_back('_m.after'))} AS _after",
            f"{_document(fractions_back('_m.before'))} AS _before",
            f"{_record_key(wrapped('_key')[1])} AS _record_key",
            f"{wrapped('_old_key')[1]} AS _old_key",
            f"{_source(spec, lambda block, name: f'_m.{block}.{quoted(name)}')} AS _source",
            f"CASE WHEN NOT ({_ignored_read(op, '_m.op')}) THEN {_time('_m.source.ts_us', '_m.source.ts_ms')} END AS _time",
        )
    )
    return Frame(decoded, None, order_names=with_own_fields(spec), fillers=True)


def _mark(connector: str, capture: str) -> str:
    """SQL for the beginning of the writer's id: PARTIAL where a null may be a value that the connector did not send. `capture`: Spanner's setting."""
    return f"CASE WHEN {connector} = 'scylla' OR ({connector} = 'spanner' AND {capture} = 'OLD_AND_NEW_VALUES') THEN '{PARTIAL}' ELSE '' END"


def _source(spec: TableSpec, text: Callable[[str, str], str]) -> str:
    """SQL for SOURCE. `text` gives SQL for a field of a block, source or transaction. Before Debezium 0.9 that did not name the connector."""
    fields = {name: text("source", name) for name in source_fields(spec)}
    older = (
        f"CASE WHEN {fields['file']} IS NOT NULL AND {fields['pos']} IS NOT NULL THEN 'mysql' WHEN {fields['lsn']} IS NOT NULL THEN 'postgresql' END"
    )
    fields |= {name: text("transaction", name) for name in transaction_fields(spec)}
    fields["connector"] = f"coalesce({fields['connector']}, {older})"
    return f"struct({', '.join(f'{value} AS {quoted(name)}' for name, value in fields.items())})"


def _origin(text: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    """SQL for the table, and for what is above it: a schema and its database. MySQL has databases only, others keyspaces, MongoDB collections.

    `text`: SQL for a field of the source block.
    """
    above = (text("schema"), f"nullif({text('db')}, '')", text("keyspace"), text("keyspace_name"))
    return f"coalesce({text('table')}, {text('collection')}, {text('table_name')})", above


def _document(image: str) -> str:
    """SQL for an image of JSON text. MongoDB's numbers of 64 bits and ids of objects are wrapped in their types; texts cannot look like these."""
    plain_values = f"regexp_replace({image}, {literal(_WRAPPED_VALUE)}, '$1$2')"
    return f"CASE WHEN _m.source.connector = 'mongodb' THEN {plain_values} ELSE {image} END"


def _record_key(key: str) -> str:
    """SQL for the record's key. MongoDB's is `{"id": text}`, and the text is the JSON of the document's `_id`."""
    document = f"concat('{{\"_id\":', {from_json(key, literal('id STRING'))}.id, '}}')"
    return f"CASE WHEN _m.source.connector = 'mongodb' THEN {_document(document)} ELSE {key} END"


def _operation(op: str, no_after: str, no_before: str, other: str) -> str:
    """SQL for OP: c, u, d, r, t, or null for a record without a row of this table. `other`: SQL for whether it is of another."""
    return (
        f"CASE WHEN {other} THEN NULL WHEN {op} = 't' THEN 't' WHEN {op} IN ('c', 'u', 'r') AND NOT ({no_after}) THEN {op} "
        f"WHEN {op} = 'd' AND NOT ({no_before} AND _key IS NULL) THEN 'd' END"
    )


def _incomplete(op: str, no_after: str, no_before: str) -> str:
    """SQL for the cases of a change that does not say which row it concerns, or what the row is."""
    return (
        f"WHEN {op} = 'd' AND {no_before} AND _key IS NULL THEN {literal(_NO_KEY)} "
        f"WHEN {op} IN ('c', 'u', 'r') AND {no_after} THEN {literal(_NO_ROW)}"
    )


def _ignored_read(op: str, code: str) -> str:
    """SQL: a snapshot's read of another table. Its time says nothing about the changes that have come: the stream may be hours behind it."""
    return f"({op}) IS NULL AND coalesce({code}, '') = 'r'"


def _time(micros: str, millis: str) -> str:
    """SQL for TIME. Older connectors have milliseconds only."""
    return f"coalesce(try_cast({micros} AS BIGINT), try_multiply(try_cast({millis} AS BIGINT), 1000L))"


def _check_envelope(spec: TableSpec, names: Sequence[str], has: Mapping[str, types.Type]) -> None:
    """Raise InputRefused for columns that are no envelope. `names`: all columns; `has`: those with a type."""
    if not {"op", "after"} <= {*names}:
        raise InputRefused(
            f"table {spec.name}: not a Debezium envelope: expected columns op, before, after, source; found {', '.join(names)}. "
            "If the records are plain rows, set `envelope: flat`."
        )
    for name, kind in has.items():
        if name in ("source", "transaction") and kind[0] != "struct":
            raise InputRefused(
                f"table {spec.name}: not a Debezium envelope: `{name}` is {types.text(kind)}, expected a struct. Have the writer store the "
                "blocks of the envelope as structs, or write JSON lines."
            )


def _typed(raw: RawFrame, spec: TableSpec) -> Frame:
    assert raw.schema is not None
    names, has = [name for name, _ in raw.schema[1]], raw.blocks("before", "after", "source", "transaction")
    if {*names} in _HEARTBEATS or any(others <= {*names} for others in _NO_ROWS):
        return _silent(raw, spec)
    _check_envelope(spec, names, has)
    # in a file of deletes `after` may be null everywhere
    row = next((name for name in ("after", "before") if name in has), "")
    images: types.Type = has.get(row, ("struct", ()))
    blocks = {name: dict(has.get(name, ("struct", ()))[1]) for name in ("source", "transaction")}
    source = blocks["source"]

    def text(path: str, kinds: dict[str, types.Type], name: str) -> str:
        value = f"base64({member(path, name)})" if kinds.get(name) == ("binary",) else member(path, name)
        return f"CAST({value} AS STRING)" if name in kinds else "CAST(NULL AS STRING)"

    if images[0] != "struct":
        raise InputRefused(
            f"table {spec.name}: not rows: `after` is {types.text(images)}, as Debezium's MongoDB connector writes documents: unwrap them at the "
            "connector (io.debezium.connector.mongodb.transforms.ExtractNewDocumentState), and set `envelope: flat`."
        )
    if images[1] and all(kind[0] == "struct" and {name for name, _ in kind[1]} >= {"value", "set"} for _, kind in images[1]):
        raise InputRefused(f"table {spec.name}: each record {_CASSANDRA if 'keyspace' in source else _CELLS}")
    connector, capture = text("_value.source", source, "connector"), text("_value.source", source, "value_capture_type")
    partial, writer = bool({"keyspace_name", "value_capture_type"} & source.keys()), literal(_writer_id(raw))
    unsent = _unsent(connector, capture, [name for name, kind in images[1] if not is_cell(kind)], spec) if partial and "after" in has else ""
    after, before = (f"_value.{name}" if has.get(name) == images else _same(f"_value.{name}", has.get(name), images) for name in ("after", "before"))
    other = of_other_table(*_origin(lambda name: text("_value.source", source, name)), spec.source_table)
    no_after, no_before = (f"_value.{name} IS NULL" if name in has else "true" for name in ("after", "before"))
    op = _operation("_value.op", no_after, no_before, other)
    invalid = (
        f"CASE WHEN _value.op IS NOT NULL AND _value.op NOT IN {_OPS} THEN concat('has an unknown op ', {cited('_value.op')}) "
        f"WHEN {other} THEN NULL {_incomplete('_value.op', no_after, no_before)} {unsent} END"
    )
    rows = raw.rows.selectExpr(
        *PLACE,
        f"coalesce({raw.unreadable}, {invalid}) AS _invalid",
        f"{op} AS _op",
        f"{f'concat({_mark(connector, capture)}, {writer})' if partial else writer} AS _writer",
        "CAST(NULL AS STRING) AS _schema",
        f"{after} AS _after",
        f"{before} AS _before",
        "_key AS _record_key",
        OLD_KEY,
        f"{_source(spec, lambda block, name: text(f'_value.{block}', blocks[block], name))} AS _source",
        f"CASE WHEN NOT ({_ignored_read(op, '_value.op')}) THEN "
        f"{_time(text('_value.source', source, 'ts_us'), text('_value.source', source, 'ts_ms'))} END AS _time",
    )
    described = from_avro(raw.avro) if raw.avro and "after" in has else plain_writer(_writer_id(raw), dict(raw.described[1]).get(row, images))
    writers = (described, replace(described, id=PARTIAL + described.id)) if partial else (described,)
    return Frame(rows, images, writers, order_names=with_own_fields(spec), fillers=True)


def _unsent(connector: str, capture: str, plain_values: list[str], spec: TableSpec) -> str:
    """SQL for the cases of an update in which a null may be a value that the connector did not send. `plain_values`: columns without cells."""
    key = {name.lower() for name in spec.key}
    nulls = " OR ".join(f"{member('_value.after', name)} IS NULL" for name in plain_values if name.lower() not in key) or "false"
    return (
        f"WHEN {connector} = 'spanner' AND _value.op = 'u' AND {capture} = 'NEW_VALUES' THEN {literal(_NEW_VALUES)} "
        f"WHEN {connector} = 'scylla' AND _value.op = 'u' AND ({nulls}) THEN {literal(_NO_CELLS)}"
    )


def _silent(raw: RawFrame, spec: TableSpec) -> Frame:
    """Return records that hold no row as a frame: heartbeats, schema changes, transaction markers."""
    nothing = dict.fromkeys((OP, WRITER, SCHEMA, AFTER, BEFORE, RECORD_KEY, OLD_KEY), "CAST(NULL AS STRING)")
    source = _source(spec, lambda block, name: "CAST(NULL AS STRING)")
    given = [f"{sql} AS {name}" for name, sql in nothing.items()]
    rows = raw.rows.selectExpr(*PLACE, f"{raw.unreadable} AS _invalid", *given, f"{source} AS _source", "CAST(NULL AS BIGINT) AS _time")
    return Frame(rows, ("struct", ()), order_names=with_own_fields(spec))


def _writer_id(raw: RawFrame) -> str:
    return signature(raw.avro or types.text(raw.described))


def _same(value: str, kind: types.Type | None, images: types.Type) -> str:
    if kind is None or kind[0] != "struct":
        return null(images) if images[1] else "CAST(NULL AS STRUCT<_none: STRING>)"
    return plain(value, kind, images)
