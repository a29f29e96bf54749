"""change-event: `{changeType, timestamp, columnNames, columnValues, oldKeyNames, oldKeyValues[, columnTypes, oldKeyTypes, schema, table]}`.

Rules beyond `docs/sources.md` and `decode/named.py`:
- `oldKeyNames` give the key in any order and case. Columns other than the declared key make the record invalid (key_mismatch).
- The Position is `timestamp` (ISO text, or a number of s, ms, us or ns since 1970), then `offset` where the sink keeps it, then file and row.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import OPERATIONS, TableSpec
from compactor.spark.columns import OP, PLACE, VALUE
from compactor.spark.decode import named, pg_text
from compactor.spark.decode.frame import Frame, of_other_table
from compactor.spark.decode.order import CHANGE_EVENTS, micros
from compactor.spark.input.files import RawFrame
from compactor.spark.sql import cited, from_json, literal, mapped, member, once, quoted

_LISTS = ("columnNames", "columnTypes", "columnValues", "oldKeyNames", "oldKeyTypes", "oldKeyValues")
_TEXTS = ("changeType", "timestamp", "schema", "table")

CONNECTOR = "change-event"


def decode(raw: RawFrame, spec: TableSpec) -> Frame:
    """Return one raw frame, JSON text or columns, as a Frame of rows that name their columns. Raises InputRefused for other columns."""
    # names of `order_by` as fields of the record. A column of the row with the same name has precedence
    own = [name for name in (name.removeprefix("event.") for name in spec.order_by) if name not in (*_LISTS, *_TEXTS)]
    records = _parsed(raw, own) if raw.schema is None else _typed(raw, spec, own)
    valid = ", ".join(literal(code) for code in OPERATIONS)
    code = "lower(trim(_d.changeType))"
    unknown = f"WHEN {code} NOT IN ({valid}) THEN concat('has an unknown changeType ', {cited('_d.changeType')})"
    events = records.selectExpr("*", f"CASE WHEN _problem IS NULL AND NOT ({_other(spec)}) THEN {mapped(code, OPERATIONS)} END AS _op")
    new = named.image(_spelled("_d.columnNames", spec), "_d.columnTypes", "_d.columnValues")
    old = named.image(_spelled("_d.oldKeyNames", spec), "_d.oldKeyTypes", "_d.oldKeyValues")
    has_old = "(size(_d.oldKeyNames) > 0)"
    rows = events.selectExpr(
        *(*PLACE, "CAST(NULL AS INT) AS _event", OP),
        f"CASE WHEN _problem IS NOT NULL THEN _problem {unknown} {_mismatch(spec, has_old)} END AS _invalid",
        "coalesce(concat_ws('.', _d.schema, _d.`table`), '') AS _table",
        f"{new} AS _new",
        f"CASE WHEN {has_old} THEN {old} WHEN _op = 'd' AND size(_d.columnNames) > 0 THEN {new} END AS _old",
        f"{micros('_d.`timestamp`')} AS _time",
        "_d",
    )
    fields = {"connector": literal(CONNECTOR), "ts_us": "CAST(_time AS STRING)", **{f"event_{name}": f"_d.{quoted(name)}" for name in own}}
    return named.frame(rows.selectExpr("*", named.source(fields)), spec, named.ANY, CHANGE_EVENTS)


def _parsed(raw: RawFrame, own: list[str]) -> DataFrame:
    body = ", ".join([*(f"{quoted(name)} STRING" for name in (*_TEXTS, *own)), *(f"{name} ARRAY<STRING>" for name in _LISTS), "_corrupt STRING"])
    empty = "(_text IS NULL OR trim(_text) IN ('', 'null'))"
    # values that are objects keep their text; if there are none, numbers are read exactly
    exact = f"CASE WHEN {named.has_objects('_text')} THEN _text ELSE {pg_text.exact_numbers('_text')} END"
    document = from_json(exact, literal(body), columnNameOfCorruptRecord="_corrupt")
    documents = once(raw.rows.selectExpr("*", f"CASE WHEN NOT {empty} THEN json_object_keys(_text) END AS _keys", f"{document} AS _d"))
    problem = (
        f"CASE WHEN {raw.unreadable} IS NOT NULL THEN {raw.unreadable} WHEN {empty} THEN NULL "
        "WHEN _keys IS NULL OR _d._corrupt IS NOT NULL THEN 'is not a JSON object with lists of names and values' "
        "WHEN _d.changeType IS NULL THEN 'is not a change event (no `changeType`)' END"
    )
    return documents.selectExpr("*", f"{problem} AS _problem")


def _typed(raw: RawFrame, spec: TableSpec, own: list[str]) -> DataFrame:
    has = raw.columns
    if not {"changeType", "columnNames", "columnValues"} <= set(has):
        raise InputRefused(
            f"table {spec.name}: not change events: expected columns changeType, columnNames, columnValues; found {', '.join(has)}. "
            "Set `envelope:` to another one."
        )

    def field(name: str, kind: str) -> str:
        value = member(VALUE, name) if name in has else "NULL"
        return f"{literal(name)}, CAST({value} AS {kind})"

    members = [*(field(name, "STRING") for name in (*_TEXTS, *own)), *(field(name, "ARRAY<STRING>") for name in _LISTS)]
    problem = "CASE WHEN _value IS NOT NULL AND _value.changeType IS NULL THEN 'is not a change event (no `changeType`)' END"
    return raw.rows.selectExpr("*", f"named_struct({', '.join(members)}) AS _d", f"coalesce({raw.unreadable}, {problem}) AS _problem")


def _other(spec: TableSpec) -> str:
    # events of a stream with one table need not name the table
    return f"_d.`table` IS NOT NULL AND {of_other_table('_d.`table`', ('_d.schema',), spec.source_table)}"


def _spelled(names: str, spec: TableSpec) -> str:
    """SQL: the names, with those of the key in the spelling of the configuration."""
    cases = " ".join(f"WHEN {literal(name.lower())} THEN {literal(name)}" for name in spec.key)
    return f"transform({names}, _n -> CASE lower(_n) {cases} ELSE _n END)" if cases else names


def _mismatch(spec: TableSpec, has_old: str) -> str:
    if not spec.key:
        return ""
    expected = f"array({', '.join(literal(name) for name in sorted(name.lower() for name in spec.key))})"
    differs = f"array_sort(transform(_d.oldKeyNames, _n -> lower(_n))) <> {expected}"
    reason = f"concat('key_mismatch: oldKeyNames are ', array_join(_d.oldKeyNames, ', '), {literal('; the key is ' + ', '.join(spec.key))})"
    return f"WHEN _op IN ('u', 'd') AND {has_old} AND {differs} THEN {reason}"
