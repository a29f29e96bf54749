"""Debezium's envelope: {before, after, source, op, transaction, ts_ms}, as JSON with or without schema, Avro, or Parquet structs.

`docs/sources.md` has the rules. Beyond them:
- Of a delete's `before` only the key is used, because default identity fills the rest with zeros.
- The record's key is the fallback for the row's, because a renamed key column can be missing there.
- Connectors of other databases deviate. MongoDB's documents are read (`_document`), as are Scylla's cells, and Spanner's updates without what did
  not change (`frame.PARTIAL`). What has no certain meaning is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import from_avro, signature
from compactor.spark.columns import OLD_KEY, PLACE, SCHEMA, TEXT
from compactor.spark.decode.conversions import plain
from compactor.spark.decode.frame import PARTIAL, Frame, image_names, is_cell, json_writer, of_other_table, plain_writer
from compactor.spark.decode.order import source_fields, transaction_fields, with_own_fields
from compactor.spark.decode.pg_text import fractions_back, fractions_kept, names_decimal
from compactor.spark.input.files import RawFrame
from compactor.spark.input.json_text import no_object
from compactor.spark.sql import as_column, cited, from_json, literal, member, null, once, quoted, struct

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


_NO_ENVELOPE = "is not a Debezium envelope (no `op`)"
_CAPTURE = "value_capture_type"
_PARTIAL_WRITER = (
    f"CASE WHEN _m.source.connector = 'scylla' OR (_m.source.connector = 'spanner' AND _m.source.{_CAPTURE} = 'OLD_AND_NEW_VALUES') "
    f"THEN '{PARTIAL}' ELSE '' END"
)
"""SQL for the beginning of the writer's id: PARTIAL where a null may be a value that the connector did not send. `_CAPTURE`: Spanner's setting."""
_TABLE = "coalesce(_m.source.`table`, _m.source.collection, _m.source.table_name)"
_ABOVE = ("_m.source.schema", "nullif(_m.source.db, '')", "_m.source.keyspace", "_m.source.keyspace_name")
"""SQL for the table, and for what is above it: a schema and its database. MySQL has databases only, others keyspaces, MongoDB collections."""


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
    blocks = (f"{block} STRUCT<{', '.join(f'{quoted(name)}: STRING' for name in names)}>" for block, names in _blocks(spec).items())
    body_type = literal(f"op STRING, before STRING, after STRING, {', '.join(blocks)}, _corrupt STRING")
    rows = bodies(raw.rows, spec).withColumn(SCHEMA, as_column(f"CASE WHEN NOT contains({SCHEMA}, {literal(_MONGODB)}) THEN {SCHEMA} END"))
    rows = rows.selectExpr("*", f"{_has_decimals(SCHEMA, spec)} AS _decimals")
    kept = fractions_kept("_body", "_decimals")
    # at a quick look, which spares to read it again for its names; where fractions are made strings, what is read is not the body
    is_envelope = "(_m.op IS NOT NULL AND _m._corrupt IS NULL AND startswith(ltrim(_body), '{') AND NOT _decimals)"
    document = from_json(kept, body_type, columnNameOfCorruptRecord="_corrupt", allowNonNumericNumbers="false")
    parsed = once(rows.selectExpr("*", f"{document} AS _m")).selectExpr("*", f"CASE WHEN NOT {is_envelope} THEN json_object_keys(_body) END AS _keys")
    row = "coalesce(_m.after, _m.before)"
    writer = json_writer(f"json_object_keys({row})" if spec.key else image_names("_m.after", "_m.before"))
    heartbeats, others = ([f"array({', '.join(map(literal, sorted(names)))})" for names in kinds] for kinds in (_HEARTBEATS, _NO_ROWS))
    silent = " OR ".join((f"sort_array(_keys) IN ({', '.join(heartbeats)})", *(f"size(array_except({names}, _keys)) = 0" for names in others)))
    no_envelope = (
        f"WHEN _body IS NULL OR trim(_body) IN ('', 'null') THEN NULL WHEN NOT {is_envelope} AND _keys IS NULL THEN {no_object('_body')} "
        f"WHEN _m.op IS NULL AND NOT ({silent}) THEN {literal(_NO_ENVELOPE)}"
    )
    no_row = (
        f"WHEN {row} RLIKE {literal(_UNION)} AND size(json_object_keys({row})) = 1 THEN {literal(_UNIONS)} "
        f"WHEN _m.source.connector = 'yugabytedb' AND {row} RLIKE {literal(_CELL)} THEN {literal(_CELLS)}"
    )
    unsent = f"_m.after RLIKE {literal(_NULL)} AND NOT _m.after RLIKE {literal(_CELL)}"
    judged = parsed.selectExpr("*", f"coalesce({raw.unreadable}, {_invalid(spec, unsent, no_envelope, no_row)}) AS _why")
    decoded = once(
        judged.selectExpr(
            *PLACE,
            TEXT,
            "_why AS _invalid",
            f"CASE WHEN _why IS NULL THEN {_operation(spec, _TRUNCATES)} END AS _op",
            f"concat({_PARTIAL_WRITER}, {writer}) AS _writer",
            SCHEMA,
            f"{_document(fractions_back('_m.after'))} AS _after",
            f"{_document(fractions_back('_m.before'))} AS _before",
            f"{_record_key(wrapped('_key')[1])} AS _record_key",
            f"{wrapped('_old_key')[1]} AS _old_key",
            *_source_and_time(spec),
        )
    )
    return Frame(decoded, None, order_names=with_own_fields(spec), fillers=True)


def _blocks(spec: TableSpec) -> dict[str, tuple[str, ...]]:
    """Return the blocks of an envelope, and their members that are read, as text."""
    return {"source": tuple(dict.fromkeys((*source_fields(spec), _CAPTURE))), "transaction": transaction_fields(spec)}


def _other(spec: TableSpec) -> str:
    """SQL: whether a record is of another table."""
    return of_other_table(_TABLE, _ABOVE, spec.source_table)


def _operation(spec: TableSpec, others: str = "NULL") -> str:
    """SQL for OP: c, u, d, r, t, or null for a record without a row of this table. `others`: SQL for records without one of these."""
    return (
        f"CASE WHEN {_other(spec)} THEN NULL WHEN _m.op = 't' THEN 't' WHEN _m.op IN ('c', 'u', 'r') AND _m.after IS NOT NULL THEN _m.op "
        f"WHEN _m.op = 'd' AND NOT (_m.before IS NULL AND _key IS NULL) THEN 'd' ELSE {others} END"
    )


def _invalid(spec: TableSpec, unsent: str, no_envelope: str = "", no_row: str = "") -> str:
    """SQL: why a record cannot be read, or null. `unsent`: whether the row of an update has a null that may be a value which Scylla did not send.

    `no_envelope` and `no_row`: cases for what is no envelope, and for a row in a form that is not read.
    """
    of = "WHEN _m.source.connector ="
    return (
        f"CASE {no_envelope} {of} 'cassandra' THEN {literal(_CASSANDRA)} "
        f"WHEN _m.op NOT IN {_OPS} THEN concat('has an unknown op ', {cited('_m.op')}) WHEN _m.op IS NULL OR {_other(spec)} THEN NULL {no_row} "
        f"{of} 'mongodb' AND _m.op = 'u' AND _m.after IS NULL THEN {literal(_PARTIAL)} "
        f"{of} 'spanner' AND _m.op = 'u' AND _m.source.{_CAPTURE} = 'NEW_VALUES' THEN {literal(_NEW_VALUES)} "
        f"{of} 'scylla' AND _m.op = 'u' AND _m.after IS NOT NULL AND ({unsent}) THEN {literal(_NO_CELLS)} "
        f"WHEN _m.op = 'd' AND _m.before IS NULL AND _key IS NULL THEN {literal(_NO_KEY)} "
        f"WHEN _m.op IN ('c', 'u', 'r') AND _m.after IS NULL THEN {literal(_NO_ROW)} END"
    )


def _source_and_time(spec: TableSpec) -> tuple[str, str]:
    """SQL for SOURCE and TIME. Before Debezium 0.9 the source did not name the connector, and older connectors have milliseconds only."""
    older = "CASE WHEN _m.source.file IS NOT NULL AND _m.source.pos IS NOT NULL THEN 'mysql' WHEN _m.source.lsn IS NOT NULL THEN 'postgresql' END"
    fields = {name: f"_m.source.{quoted(name)}" for name in source_fields(spec)}
    fields |= {name: f"_m.transaction.{quoted(name)}" for name in transaction_fields(spec)}
    fields["connector"] = f"coalesce(_m.source.connector, {older})"
    # a snapshot's read of another table says nothing about the changes that have come: the stream may be hours behind it
    ignored_read = f"coalesce(_m.op, '') = 'r' AND ({_operation(spec)}) IS NULL"
    time = "coalesce(try_cast(_m.source.ts_us AS BIGINT), try_multiply(try_cast(_m.source.ts_ms AS BIGINT), 1000L))"
    source = ", ".join(f"{value} AS {quoted(name)}" for name, value in fields.items())
    return f"struct({source}) AS _source", f"CASE WHEN NOT ({ignored_read}) THEN {time} END AS _time"


def _document(image: str) -> str:
    """SQL for an image of JSON text. MongoDB's numbers of 64 bits and ids of objects are wrapped in their types; texts cannot look like these."""
    plain_values = f"regexp_replace({image}, {literal(_WRAPPED_VALUE)}, '$1$2')"
    return f"CASE WHEN _m.source.connector = 'mongodb' THEN {plain_values} ELSE {image} END"


def _record_key(key: str) -> str:
    """SQL for the record's key. MongoDB's is `{"id": text}`, and the text is the JSON of the document's `_id`."""
    document = f"concat('{{\"_id\":', {from_json(key, literal('id STRING'))}.id, '}}')"
    return f"CASE WHEN _m.source.connector = 'mongodb' THEN {_document(document)} ELSE {key} END"


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
    names, has = [*raw.columns], raw.blocks("before", "after", "source", "transaction")
    # the records of one file may be changes and others
    silent = not {"op", "after"} <= {*names} and ({*names} in _HEARTBEATS or any(others <= {*names} for others in _NO_ROWS))
    if silent:
        names, has = [], {}
    else:
        _check_envelope(spec, names, has)
    # in a file of deletes `after` may be null everywhere
    row = next((name for name in ("after", "before") if name in has), "")
    images: types.Type = has.get(row, ("struct", ()))
    if images[0] != "struct":
        raise InputRefused(
            f"table {spec.name}: not rows: `after` is {types.text(images)}, as Debezium's MongoDB connector writes documents: unwrap them at the "
            "connector (io.debezium.connector.mongodb.transforms.ExtractNewDocumentState), and set `envelope: flat`."
        )
    source = dict(has.get("source", ("struct", ()))[1])
    if images[1] and all(kind[0] == "struct" and {name for name, _ in kind[1]} >= {"value", "set"} for _, kind in images[1]):
        raise InputRefused(f"table {spec.name}: each record {_CASSANDRA if 'keyspace' in source else _CELLS}")
    values = {"op": "_value.op" if "op" in names else "CAST(NULL AS STRING)", **{name: _image(name, has, images) for name in ("after", "before")}}
    values |= {block: _texts(block, dict(has.get(block, ("struct", ()))[1]), read) for block, read in _blocks(spec).items()}
    partial, writer = bool({"keyspace_name", _CAPTURE} & source.keys()), literal(_writer_id(raw))
    invalid = _invalid(
        spec, _nulls(images, spec) if partial else "false", f"WHEN _m.op IS NULL AND _m.after IS NOT NULL THEN {literal(_NO_ENVELOPE)}"
    )
    rows = raw.rows.selectExpr("*", f"{struct([*values.items()])} AS _m").selectExpr(
        *PLACE,
        f"coalesce({raw.unreadable}, {invalid}) AS _invalid",
        f"{_operation(spec)} AS _op",
        f"{f'concat({_PARTIAL_WRITER}, {writer})' if partial else writer} AS _writer",
        "CAST(NULL AS STRING) AS _schema",
        "_m.after AS _after",
        "_m.before AS _before",
        "_key AS _record_key",
        OLD_KEY,
        *_source_and_time(spec),
    )
    if silent:
        return Frame(rows, images, order_names=with_own_fields(spec))
    described = from_avro(raw.avro) if raw.avro and "after" in has else plain_writer(_writer_id(raw), dict(raw.described[1]).get(row, images))
    writers = (described, replace(described, id=PARTIAL + described.id)) if partial else (described,)
    return Frame(rows, images, writers, order_names=with_own_fields(spec), fillers=True)


def _image(name: str, has: Mapping[str, types.Type], images: types.Type) -> str:
    """SQL: a row image in the type of both. `has`: the types of the members of the envelope."""
    kind = has.get(name)
    if kind is None or kind[0] != "struct":
        return null(images) if images[1] else "CAST(NULL AS STRUCT<_none: STRING>)"
    return plain(f"_value.{name}", kind, images)


def _texts(block: str, kinds: Mapping[str, types.Type], names: Sequence[str]) -> str:
    """SQL: a block of the envelope with these members as text, null where it lacks them. `kinds`: the types of its members."""
    values = {name: member(f"_value.{block}", name) for name in names}
    values = {name: f"base64({value})" if kinds.get(name) == ("binary",) else value for name, value in values.items()}
    return struct([(name, f"CAST({value if name in kinds else 'NULL'} AS STRING)") for name, value in values.items()])


def _nulls(images: types.Type, spec: TableSpec) -> str:
    """SQL: whether a column of `_m.after` outside of the key, and without cells, is null."""
    key = {name.lower() for name in spec.key}
    return " OR ".join(f"{member('_m.after', name)} IS NULL" for name, kind in images[1] if not is_cell(kind) and name.lower() not in key) or "false"


def _writer_id(raw: RawFrame) -> str:
    return signature(raw.avro or types.text(raw.described))
