"""Carry values along key changes: a create under a new key may lack values that its row had under the old key.

Planned only where some state lacks a value. In and out: states (`rows/reduce.py`). The values that a key change carries are a state of the new key
with neither `_at` nor `_gone`: it gives single columns a value at the Position of the change, and is no row.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.spark import measured
from compactor.spark.keys import key_columns, key_types
from compactor.spark.rows import position
from compactor.spark.rows.reduce import HAS_NEW_KEY, MADE, MADE_OF_BATCH, Reducer, register, union
from compactor.spark.sql import DIGEST, listed, literal, named, null, query, quoted
from compactor.spark.tables.table_reader import TableReader

MAX_ROUNDS = 16
"""The number of key changes of one row that are followed within one run. Values behind a longer chain stay unavailable and are counted."""


def with_carried(reducer: Reducer, states: DataFrame, stored: TableReader | None) -> DataFrame:
    """Return the states with those that key changes carry along. Each round follows one step of a chain, until a round adds nothing."""
    if states.where(HAS_NEW_KEY).isEmpty():
        return states
    result, digest = states, None
    for _ in range(MAX_ROUNDS):
        carried = measured.materialize(query("carry", _text(reducer), states=result))
        before, digest = digest, carried.agg(named(DIGEST, "s")).collect()[0].s
        if digest == before:
            break
        base = stored.rows_with_keys_of(carried) if stored else None
        frames = [states, carried]
        if base is not None:
            frames.append(base.join(states.select(*reducer.keys).distinct(), list(reducer.schema.key), "left_anti"))
        result = union(frames)
    return result


def _text(reducer: Reducer) -> str:
    """Return the query over `{states}` for what key changes carry.

    Every tombstone with a new key passes on what its row held at that moment, also if the old key has a row again since (a swap through a third key).
    Only keys that this batch touches are looked at.
    """
    schema, order, keys = reducer.schema, reducer.order, reducer.keys
    ddl = position.ddl(order)
    same = " AND ".join(f"s.{key} <=> m.{key}" for key in keys)
    after = " AND NOT coalesce({} <= {}, false)" if reducer.bounded else ""
    bound = f", max({reducer.bound('s.')}) AS _bound" if reducer.bounded else ""
    after_gone = after.format("_gone", reducer.bound()) if reducer.bounded else ""
    registers, values, entries = [], [], []
    for at, name in enumerate(reducer.partial):
        entry, clock, has_known = register(name, "s.", "s._at")
        value = f"struct(s.{quoted(name)} AS v, {clock} AS at, {has_known} AS known)"
        newest = f"CASE WHEN {clock} < m._p THEN struct({clock} AS at, {has_known} AS known, {entry} IS NULL AS own, s._origin AS o) END"
        registers.append(f"max_by({value}, {newest}) AS _r{at}")
        has = f"coalesce(_r{at}.known AND (_floor IS NULL OR _r{at}.at >= _floor){after.format(f'_r{at}.at', '_bound')}, false)"
        values.append(f"CASE WHEN {has} THEN _r{at}.v END AS {quoted(name)}")
        entries.append(f"CASE WHEN {has} THEN struct({literal(name)}, struct(_p AS at, true AS known)) END")
    # deletes after the newest event of the row take nothing from it: one is the other half of the change
    lived = f"max(CASE WHEN s._at < m._p THEN s._at END) AS _lived, collect_set(s._gone) AS _deletes{bound}"
    # a newer row is stored under the old key: what was stored before it is not known any more
    place = position.event("coalesce(s._gone, s._at)", order)
    replaced = f"max(s._origin > {MADE} AND {place} > {position.event('m._p', order)}) AS _replaced"
    new_key = dict(zip(schema.key, key_columns("_to", key_types(schema))))
    rest = [f"{null(types.parse(schema.field(name).type))} AS {quoted(name)}" for name in schema.values if name not in reducer.partial]
    own = f"array_compact(array({', '.join(entries)}))"
    return f"""
SELECT {", ".join(f"{value} AS {quoted(name)}" for name, value in new_key.items())},
  {listed([*values, *rest])},
  CAST(NULL AS BIGINT) AS _version, CAST(NULL AS {ddl}) AS _at, CAST(NULL AS {ddl}) AS _gone,
  CAST(map_from_entries({own}) AS {position.own_ddl(order)}) AS _own,
  CAST(NULL AS STRING) AS _moved, CASE WHEN _replaced THEN {MADE_OF_BATCH} ELSE {MADE} END AS _origin, false AS _behind
FROM (SELECT *, array_max(filter(_deletes, _d -> _d < _lived)) AS _floor FROM (
  SELECT m._p, m._to, {lived}, {replaced},
    {listed(registers)}
  FROM {{states}} s JOIN (SELECT {", ".join(keys)}, _gone AS _p, _moved AS _to FROM {{states}} WHERE {HAS_NEW_KEY}{after_gone}) m ON {same}
  GROUP BY {", ".join(f"m.{key}" for key in keys)}, m._p, m._to
  HAVING max(s._origin <= {MADE})
))
WHERE size({own}) > 0"""
