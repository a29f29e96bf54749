"""wal2json's JSON (PostgreSQL's logical decoding plugin, README of version 2.5), one document a line, both formats.

| | format 1: a transaction | format 2: a change |
|---|---|---|
| insert, update, delete | `change[i].kind`, `columnnames`, `columntypes`, `columnvalues`, `oldkeys` | `action` I, U, D, `columns`, `identity` |
| truncate | not written: an empty `change` | `action` T |
| carries no row | `kind` message; an empty `change` | `action` B, C, M |
| Position | `nextlsn` (end of the commit), then the place in `change` | `timestamp` (of the commit), then `lsn` |

Rules beyond `decode/named.py`:
- A record of format 1 is one event for each element of `change`, or one ignored event if there is none.
- Format 2 has the commit's LSN only in B and C, which may lie in another file than a change. Positions must not depend on where a stream was cut
  into files, so the commit's time orders transactions. Not the change's LSN alone: an insert is logged before it waits for a transaction that still
  has its key, and that one may delete the row by a change logged later.
  Transactions of another server, which a replication origin replays, have none, or that server's. A table that begins with some is ordered by LSN
  alone.
- Numbers are exact: they are read as text, then as the type beside them.
- A stream of several tables needs `source_table`. Lines that do not contain the table's name are only checked for being complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import TableSpec
from compactor.spark.columns import EVENT, PLACE
from compactor.spark.decode import named, pg_text
from compactor.spark.decode.frame import Frame, declared_order, of_other_table
from compactor.spark.decode.order import default_order, lsn_number, micros
from compactor.spark.input.files import RawFrame
from compactor.spark.rows import survey
from compactor.spark.sql import cited, from_json, literal, once

_COLUMNS = "ARRAY<STRUCT<name: STRING, type: STRING, value: STRING>>"
_TEXTS = "ARRAY<STRING>"
_CHANGE = (
    f"STRUCT<kind: STRING, schema: STRING, `table`: STRING, columnnames: {_TEXTS}, columntypes: {_TEXTS}, columnvalues: {_TEXTS}, "
    f"oldkeys: STRUCT<keynames: {_TEXTS}, keytypes: {_TEXTS}, keyvalues: {_TEXTS}>>"
)
_DOCUMENT = (
    "action STRING, xid STRING, `timestamp` STRING, lsn STRING, nextlsn STRING, schema STRING, `table` STRING, origin STRING, "
    f"columns {_COLUMNS}, identity {_COLUMNS}, change ARRAY<{_CHANGE}>, _corrupt STRING"
)

_OPS = {"i": "c", "insert": "c", "u": "u", "update": "u", "d": "d", "delete": "d", "t": "t", "truncate": "t"}
_SILENT = ("b", "c", "m", "message")

FORMAT_1, FORMAT_2, NO_TIME, NO_LSN = "wal2json 1", "wal2json 2", "wal2json 2 without timestamp", "wal2json without include-lsn"
"""Values of `_source.connector`, for the default order (`position.DEFAULTS`)."""
_UNREAD_NUMBER = r"[:,\[]\s*(?:NaN\s*[,}\]]|-?Infinity\s*[,}\]]|-?[0-9.]{1000})"
"""A number that JSON's reader does not read: older versions write floats that are not finite as they are; it reads no more than 1,000 digits."""
_COMMA = r'^(\{"change":\[),'
"""Begins the document of a message outside of a transaction, which version 2.5 writes with a comma too many."""
_NO_COMMIT_TIME = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970, PostgreSQL's zero: some replication origins replay transactions without a time."""


def order(spec: TableSpec, frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the order columns of a new table. Where some change has no commit time, LSNs alone order all."""
    declared = declared_order(spec.order_by, frames)
    timeless = (frame.rows.where(f"_op IS NOT NULL AND _source.connector = '{NO_TIME}'").isEmpty() for frame in frames)
    main, offsets = survey.main_connector(frames)
    return declared or default_order(NO_TIME if main == FORMAT_2 and not all(timeless) else main, offsets, spec.name)


def decode(raw: RawFrame, spec: TableSpec) -> Frame:
    """Return one raw frame of JSON text as a Frame of rows that name their columns. Raises InputRefused for files of another format."""
    if raw.schema is not None:
        raise InputRefused(f"table {spec.name}: wal2json writes JSON text, but these files have columns. Set `format: json`, or `container: kafka`.")
    empty = "(_text IS NULL OR trim(_text) IN ('', 'null'))"
    rows = raw.rows.selectExpr("*", f"regexp_replace(_text, {literal(_COMMA)}, '$1') AS _json")
    as_texts = f"CASE WHEN _json RLIKE {literal(_UNREAD_NUMBER)} THEN json_object_keys({pg_text.exact_numbers('_json')}) END"
    keyed = rows.selectExpr("*", f"CASE WHEN NOT {empty} THEN coalesce(json_object_keys(_json), {as_texts}) END AS _keys")
    document = from_json(pg_text.exact_numbers("_json"), literal(_DOCUMENT), columnNameOfCorruptRecord="_corrupt")
    documents = once(once(keyed).selectExpr("*", f"CASE WHEN _keys IS NOT NULL AND {_mentions(spec)} THEN {document} END AS _d"))
    problem = (
        f"CASE WHEN {raw.unreadable} IS NOT NULL THEN {raw.unreadable} WHEN {empty} THEN NULL "
        "WHEN _keys IS NULL OR _d._corrupt IS NOT NULL THEN 'is not a JSON object, or not a whole one' "
        "WHEN NOT arrays_overlap(_keys, array('action', 'change')) THEN 'is not a wal2json record (neither `action` nor `change`)' END"
    )
    # every event of a transaction gets a copy of these columns, so none may grow with the transaction
    document_columns = (
        "_d.action AS _action",
        "_d.xid AS _xid",
        f"{lsn_number('coalesce(_d.lsn, _d.nextlsn)')} AS _lsn",
        "_d.`timestamp` AS _at",
        "_d.origin AS _from",
    )
    transactions = documents.selectExpr(*PLACE, *document_columns, f"{problem} AS _problem", f"{_events()} AS _events")
    transactions = transactions.selectExpr("*", f"nullif({micros('_at')}, {_NO_COMMIT_TIME}L) AS _time")
    # with `include-origin`
    transactions = transactions.selectExpr("*", "CASE WHEN coalesce(_from, '0') = '0' THEN _time END AS _commit_time")
    kept = (*PLACE, "_action", "_xid", "_lsn", "_time", "_commit_time", "_problem")
    events = transactions.selectExpr(*kept, "posexplode_outer(_events) AS (_event, _e)")
    names = ", ".join(literal(code) for code in (*_OPS, *_SILENT))
    codes = " ".join(f"WHEN {literal(code)} THEN {literal(op)}" for code, op in _OPS.items())
    other = of_other_table("_e.`table`", ("_e.schema",), spec.source_table)
    unknown = f"CASE WHEN _e.kind NOT IN ({names}) THEN concat('has an unknown action ', {cited('_e.kind')}) END"
    rows = events.selectExpr(
        *(name for name in kept if name != "_problem"),
        EVENT,
        f"coalesce(_problem, {unknown}) AS _invalid",
        f"CASE WHEN _problem IS NOT NULL OR {other} THEN NULL ELSE CASE _e.kind {codes} END END AS _op",
        "concat_ws('.', _e.schema, _e.`table`) AS _table",
        "_e.new AS _new",
        "_e.old AS _old",
    )
    if not spec.key:
        rows = _numbered(rows)
    # format 1 writes no nulls into `oldkeys`
    return named.frame(rows.selectExpr("*", _source(spec)), spec, named.TOAST, sparse="_action IS NULL")


def _mentions(spec: TableSpec) -> str:
    """SQL: whether a line can hold an event of this table. Most lines of a shared stream cannot, and need not be parsed."""
    tables = [part.strip().split(".", 1)[-1] for part in (spec.source_table or "*").split(",")]
    plain = all(name.isascii() and name.isprintable() and not set(name) & set('*"\\') for name in tables)
    return "(" + " OR ".join(f"instr(_text, {literal(f'{chr(34)}{name}{chr(34)}')}) > 0" for name in tables) + ")" if plain else "true"


def _events() -> str:
    def listed(columns: str) -> str:
        return named.image(*(f"transform({columns}, _c -> _c.{part})" for part in ("name", "type", "value")))

    def event(kind: str, place: str, new: str, old: str) -> str:
        return f"named_struct('kind', lower({kind}), 'schema', {place}.schema, 'table', {place}.`table`, 'new', {new}, 'old', {old})"

    new = named.image("_c.columnnames", "_c.columntypes", "_c.columnvalues")
    old = named.image("_c.oldkeys.keynames", "_c.oldkeys.keytypes", "_c.oldkeys.keyvalues")
    one = event("_d.action", "_d", listed("_d.columns"), listed("_d.identity"))
    return f"CASE WHEN _d.action IS NOT NULL THEN array({one}) ELSE transform(_d.change, _c -> {event('_c.kind', '_c', new, old)}) END"


def _source(spec: TableSpec) -> str:
    single = "_action IS NOT NULL"
    unordered = f"_lsn IS NULL THEN '{NO_LSN}' WHEN NOT ({single}) THEN '{FORMAT_1}' WHEN _commit_time IS NULL THEN '{NO_TIME}' ELSE '{FORMAT_2}'"
    return named.source(
        {
            "connector": f"CASE WHEN {unordered} END",
            "txId": "_xid",
            "lsn": f"CASE WHEN {single} THEN CAST(_lsn AS STRING) END",
            "sequence": f"CASE WHEN NOT ({single}) THEN concat('[\"', _lsn, '\"]') END",
            "ts_us": "CAST(_commit_time AS STRING)",
            "total_order": f"CASE WHEN NOT ({single}) THEN CAST(_event AS STRING) {'' if spec.key else 'ELSE _twins'} END",
        }
    )


def _numbered(rows: DataFrame) -> DataFrame:
    """Return events of a table without key with `_twins`, which distinguishes those of one LSN: COPY writes many rows at one.

    In format 1 their place in the transaction distinguishes them. In format 2 their content does, and equal rows are numbered in their order; sent
    again, they get the same numbers. Only equal rows of one COPY that a sink puts into two files look like one row that was sent twice.
    """
    in_file = "PARTITION BY _file ORDER BY _block, _row, _event"
    same_lsn = f"lag(struct(_lsn, _xid)) OVER ({in_file}) <=> struct(_lsn, _xid) AS _same_lsn"
    rows = rows.selectExpr("*", same_lsn, "sha2(to_json(struct(_table, _new, _old)), 256) AS _content")
    rows = rows.selectExpr("*", f"count_if(NOT _same_lsn) OVER ({in_file} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS _lsn_no")
    number = "row_number() OVER (PARTITION BY _file, _lsn_no, _content ORDER BY _block, _row, _event)"
    return rows.selectExpr("*", f"concat(substr(_content, 1, 16), '.', {number}) AS _twins")
