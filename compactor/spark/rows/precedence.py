"""Resolve: many states of each key become one row.

In and out: *states*, which are the table's stored columns, then `columns.STATE` (what base and Delta files hold), and beside them ORIGIN and BEHIND.

The rule: **every column of a row is a last-writer-wins register, and a delete writes "unknown" to all of them.** An event writes the columns it
carries at its Position. The operation of the row is a register too. Taking the greatest Position of each register depends neither on order nor on
repetition nor on grouping. That is why late, duplicated and split deliveries end in the same table.

`_older` holds the registers that differ from the row's Position: `column → (at, via, known)`. Rows that are complete have none. The `_older` of a
tombstone holds the registers of the row it hides, under their names or under `*` for all, so that a create under another key can take them (H10), and
so that `delete: soft` can show them.

A barrier (a truncate, the beginning of an epoch that replaces) writes "unknown" to every register of every key: neither a row nor a value at or below
it counts, wherever it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.position import Position
from compactor.core.model.schema import Schema
from compactor.spark.columns import BEHIND, FROM, HEAD, LINK_MARK, MISSING, MOVED_TO, OLDER, OP, ORIGIN, OUTCOME, POSITION, SEGMENT, TIE, VERSION
from compactor.spark.keys import key_columns, key_types, row_key
from compactor.spark.rows import position
from compactor.spark.sql import EXACT_JSON, literal, null, quoted

EVENT, MADE, DELTA, BASE = 0, 1, 2, 3
"""Values of ORIGIN: a change of the batch, a state derived from a key change, a row of the Delta, a row of the base."""

ALL = "*"
"""The key in `_older` that stands for all columns without an entry of their own."""

_MARKS = (ORIGIN, BEHIND, HEAD, OUTCOME, TIE)

MOVED = f"(_op = 'd' AND NOT startswith(_moved_to, '{LINK_MARK}'))"
"""SQL: whether a state is a tombstone whose row is known to live on under another key."""

_STORED_FIRST = f"CASE _origin WHEN {DELTA} THEN 0 WHEN {BASE} THEN 1 ELSE 2 END"
"""SQL to sort by: of equal events, the Delta's is more complete than the base's, and both more than the event when it is delivered again."""


@dataclass(frozen=True)
class Resolver:
    """The rules for one table."""

    schema: Schema
    """The stored columns and the key."""

    order: position.Order
    """The order columns of the Positions."""

    version: int
    """The version that is being made. Rows that change get it."""

    keyless: bool = False
    """Whether the table has no key of its own (`rows/keyless.py`)."""

    barrier: Position | None = None
    """The newest truncate, or beginning of an epoch that replaces. The caller leaves out states at or below it."""

    empty: bool = False
    """Whether the table has no rows yet, so that no state is a stored one."""

    tombstones: bool = True
    """Whether some state may be a tombstone. Without them the newest event of a key is its row, whatever else is known of the key."""

    placed: bool = False
    """Whether the states have SEGMENT, with all states of a key in one Segment. Then resolving them needs no other exchange and sort than writing."""

    @property
    def keys(self) -> list[str]:
        """Return the quoted key columns."""
        return [quoted(name) for name in self.schema.key]

    @property
    def columns(self) -> list[str]:
        """Return the quoted stored columns."""
        return [quoted(name) for name in self.schema.names]

    @property
    def _by_key(self) -> str:
        return f"PARTITION BY {', '.join([*([SEGMENT] if self.placed else []), *self.keys])}"

    @property
    def _marks(self) -> tuple[str, ...]:
        return (*_MARKS, SEGMENT) if self.placed else _MARKS

    @property
    def _latest(self) -> str:
        if self.keyless:
            # an identity is one event, however often it is delivered: the stored state stays, else a removal that took its row would wait again
            return f"{_STORED_FIRST}, _position"
        # fills are never the row; of equal Positions the stored state stays, so that absorbing a file twice changes nothing
        return f"_op = 'f', _position DESC, {_STORED_FIRST}, _origin"

    def states(self, changes: DataFrame, moves: bool) -> DataFrame:
        """Return Changes (without truncates, with BEHIND) as states: one for each change, and for each key change a tombstone under the old key.

        `moves`: whether there may be key changes.
        """
        older = self._unknown(MISSING)
        waits = f"'{LINK_MARK}' || _link"
        op = "CASE WHEN _op IN ('d', 'x') THEN 'd' ELSE 'u' END"
        events = changes.selectExpr(
            *self.columns,
            f"{op} AS _op",
            f"CAST({self.version} AS BIGINT) AS _version",
            POSITION,
            f"{older} AS _older",
            f"CASE WHEN _op = 'x' THEN 'x' WHEN _op = 'c' AND size(_missing) > 0 THEN coalesce(_from, {waits}) ELSE _from END AS _from",
            f"CASE WHEN _op = 'd' THEN coalesce(_to, {waits}) END AS _moved_to",
            ORIGIN,
            BEHIND,
        )
        if self.keyless or not moves:
            return events
        old_keys = dict(zip(self.schema.key, key_columns(FROM, key_types(self.schema))))
        left = [
            f"{old_keys[name]} AS {quoted(name)}" if name in old_keys else f"{null(types.parse(self.schema.field(name).type))} AS {quoted(name)}"
            for name in self.schema.names
        ]
        tombstones = changes.where("_from IS NOT NULL").selectExpr(
            *left,
            "'d' AS _op",
            f"CAST({self.version} AS BIGINT) AS _version",
            POSITION,
            f"CAST(NULL AS {position.older_ddl(self.order)}) AS _older",
            "CAST(NULL AS STRING) AS _from",
            f"{row_key(self.schema)} AS _moved_to",
            f"{MADE} AS _origin",
            "false AS _behind",
        )
        return events.unionByName(tombstones)

    def _unknown(self, missing: str) -> str:
        pos = position.ddl(self.order)
        entry = f"named_struct('at', CAST(NULL AS {pos}), 'via', CAST(NULL AS {pos}), 'known', false)"
        entries = f"transform({missing}, _m -> named_struct('key', _m, 'value', {entry}))"
        return f"CASE WHEN size({missing}) > 0 THEN CAST(map_from_entries({entries}) AS {position.older_ddl(self.order)}) END"

    def outcomes(self, states: DataFrame, partial: Sequence[str] = ()) -> DataFrame:
        """Rank the states of each key.

        `partial` names the columns that some events do not carry; each has a register of its own, and all others share one (`*`).

        Returns every state with HEAD (this state is the row of its key), OUTCOME of events and TIE. On the head the stored columns and STATE are
        resolved.
        """
        ranked = self._ranked(states, partial)
        return self._registers(ranked, partial) if partial else self._whole(ranked)

    def _ranked(self, states: DataFrame, partial: Sequence[str]) -> DataFrame:
        by_key = self._by_key
        latest = f"({by_key} ORDER BY {self._latest})"
        same = f"struct({position.event('_position', self.order)} AS e, {self._content(partial)} AS h) AS _same"
        # a step of its own, so that the hash is computed once
        ranked = states.selectExpr("*", same).selectExpr(
            "*",
            f"row_number() OVER {latest} AS _rank",
            f"first(_origin) OVER {latest} AS _head_origin",
            f"first(_position) OVER {latest} AS _head_position",
            f"first(_op) OVER {latest} AS _head_op",
            f"lag(_same) OVER {latest} AS _before_it",
            f"first(_same) OVER {latest} AS _head_same",
        )
        # an event that is delivered again under a later file name ranks above the stored row that it made before: that row stays as it is.
        # All states between the two are of that event too, such as one that it tied with and that is delivered again beside it.
        made = f"CASE WHEN _origin >= {DELTA} AND _same = _head_same THEN struct(_rank AS r, _origin AS o, _position AS p) END"
        first = f"CASE WHEN false THEN {made} END" if self.empty else f"CASE WHEN _head_origin < {DELTA} THEN min({made}) OVER ({by_key}) END"
        ranked = ranked.selectExpr("*", f"{first} AS _made")
        keep = [quoted(name) for name in ranked.columns if name not in ("_head_origin", "_head_position", "_rank")]
        ranked = ranked.selectExpr(
            *keep,
            "_rank = coalesce(_made.r, 1) AS _head",
            "coalesce(_made.o, _head_origin) AS _head_origin",
            "coalesce(_made.p, _head_position) AS _head_position",
            f"(_made IS NOT NULL AND _origin < {DELTA} AND _rank < _made.r) AS _again",
        )
        own = position.event(POSITION, self.order)
        late = "false" if self.empty else f"_head_origin >= {DELTA}"
        stored_twin = f"({late} AND {own} = {position.event('_head_position', self.order)})"
        twin = f"(_before_it IS NOT NULL AND _before_it = _same) OR {stored_twin}"
        tie = f"(_before_it IS NOT NULL AND _before_it.e = _same.e AND _before_it.h <> _same.h AND NOT {stored_twin})"
        outcome = (
            f"CASE WHEN _origin <> {EVENT} THEN NULL WHEN _head THEN 'applied' "
            f"WHEN {twin} THEN 'duplicate' WHEN {late} THEN 'late' ELSE 'superseded' END"
        )
        return ranked.selectExpr("*", f"{outcome} AS _outcome", f"(_origin = {EVENT} AND {tie}) AS _tie").drop(
            "_before_it", "_same", "_head_same", "_made"
        )

    def _content(self, partial: Sequence[str]) -> str:
        """SQL for a hash of what the newest event of a state carried: of a delete only the row's new key, of others no column in `_older`."""
        sent = {name: f"CASE WHEN try_element_at(_older, {literal(name)}) IS NULL THEN {quoted(name)} END" for name in partial}
        columns = [sent.get(name, quoted(name)) for name in self.schema.names]
        hashed = [f"to_json({column}, {EXACT_JSON})" if self._is_nested(name) else column for name, column in zip(self.schema.names, columns)]
        # the hash passes over nulls, also inside of structs and arrays, so the places of nulls are compared beside it
        nulls = f"array({', '.join(f'({column}) IS NULL' for column in columns)})"
        content = f"xxhash64(_op, {', '.join(hashed)}, {nulls})"
        new_key = f"CASE WHEN {MOVED} THEN _moved_to END"
        return content if self.keyless else f"CASE WHEN _op = 'd' THEN xxhash64(_op, {new_key}) ELSE {content} END"

    def _is_nested(self, name: str) -> bool:
        return types.parse(self.schema.field(name).type)[0] in ("array", "map", "struct")

    def _whole(self, ranked: DataFrame) -> DataFrame:
        """Resolve where every event carries every column: the head is the row. A tombstone shows the newest row below it."""
        if self.keyless or not self.tombstones:
            return ranked.selectExpr(*self.columns, OP, VERSION, POSITION, OLDER, FROM, MOVED_TO, *self._marks)
        by_key = f"({self._by_key})"
        # in a struct of their own: a column may be called `s` or `r`
        payload = f"struct({', '.join(quoted(name) for name in self.schema.values) or '1'})"
        own = f"map('{ALL}', named_struct('at', _position, 'via', _position, 'known', true))"
        kept = f"CASE WHEN _op = 'u' AND _older IS NULL THEN {own} WHEN _op = 'u' THEN map_concat({own}, _older) ELSE _older END"
        rows = ranked.selectExpr("*", f"CASE WHEN _head_op = 'd' THEN {self._lived('true')} END AS _lived")
        # of equal ones what is stored, so that an event that is delivered again changes nothing
        newest = f"CASE WHEN _lived IS NOT NULL THEN struct(_lived AS a, -({_STORED_FIRST}) AS s) END"
        hidden = f"max_by(struct(_origin AS s, {kept} AS r, {payload} AS v), {newest}) OVER {by_key} AS _hidden"
        rows = rows.selectExpr("*", hidden, f"{self._moved_to} AS _lives_at")
        hides = "(_head AND _op = 'd')"
        values = {name: f"CASE WHEN {hides} THEN _hidden.v.{quoted(name)} ELSE {quoted(name)} END" for name in self.schema.values}
        columns = [f"{values[name]} AS {quoted(name)}" if name in values else quoted(name) for name in self.schema.names]
        # a stored tombstone changes when it learns a newer row or where its row lives on, or when a barrier ends the row that it hides
        changes = f"(coalesce(_hidden.s < {DELTA}, _older IS NOT NULL) OR NOT (_lives_at <=> _moved_to))"
        version = f"CASE WHEN {hides} AND _origin >= {DELTA} AND {changes} THEN CAST({self.version} AS BIGINT) ELSE _version END AS _version"
        older = f"CAST(CASE WHEN {hides} THEN _hidden.r ELSE _older END AS {position.older_ddl(self.order)}) AS _older"
        return rows.selectExpr(*columns, OP, version, POSITION, older, FROM, "_lives_at AS _moved_to", *self._marks)

    @property
    def _moved_to(self) -> str:
        """SQL: of a tombstone, where its row lives on, if any delivery of the same event knows it."""
        same = f"{position.event(POSITION, self.order)} = {position.event('_head_position', self.order)}"
        return f"CASE WHEN _op = 'd' THEN max(CASE WHEN _op = 'd' AND {same} THEN _moved_to END) OVER ({self._by_key}) END"

    def _lived(self, below: str) -> str:
        """SQL: the Position of the newest event of a row that a state shows or hides. `below`: whether a shown row counts."""
        after = f" AND _e.at > {self._bound} AND _e.via > {self._bound}" if self.barrier else ""
        hidden = f"array_max(transform(filter(map_values(_older), _e -> _e.known{after}), _e -> _e.at))"
        return f"CASE WHEN _op = 'u' AND {below} THEN _position WHEN _op = 'd' THEN {hidden} END"

    @property
    def _bound(self) -> str:
        assert self.barrier is not None
        return position.fixed(self.barrier, self.order)

    def _registers(self, ranked: DataFrame, partial: Sequence[str]) -> DataFrame:
        """Resolve each register by itself: the greatest (at, via) wins, and a delete above it makes it unknown."""
        by_key = f"({self._by_key})"
        named = [name for name in self.schema.values if name in partial]
        rest = [name for name in self.schema.values if name not in partial]
        # A tombstone hides the last life of its row. Deletes after the last event of that life take nothing from it.
        lived = self._lived("_position < _head_position")
        rows = ranked.selectExpr("*", f"CASE WHEN _head_op = 'd' THEN max({lived}) OVER {by_key} ELSE _head_position END AS _life")
        rows = rows.selectExpr("*", f"max(CASE WHEN _op = 'd' AND _position < _life THEN _position END) OVER {by_key} AS _floor")
        registers = {name: quoted(name) for name in named}
        registers[ALL] = "struct(" + ", ".join(quoted(name) for name in rest) + ")" if rest else "struct(1)"
        best = []
        for name, value in registers.items():
            own = self._register(name)
            # the stored row has the registers of an event that is delivered again
            newest = f"CASE WHEN NOT _again THEN {self._newest(own)} END"
            best.append(f"max_by(struct({own} AS r, {value} AS v, _origin AS s), {newest}) OVER {by_key} AS {_best(name)}")
        rows = rows.selectExpr("*", *best)
        columns = [*self.keys]
        columns += [f"CASE WHEN {self._has_value(name)} THEN {_best(name)}.v END AS {quoted(name)}" for name in named]
        columns += [f"CASE WHEN {self._has_value(ALL)} THEN {_best(ALL)}.v.{quoted(name)} END AS {quoted(name)}" for name in rest]
        entries = ", ".join(self._entry(name) for name in registers)
        mapped = f"array_sort(filter(array({entries}), _e -> _e IS NOT NULL))"
        rows = rows.selectExpr("*", f"{mapped} AS _entries", f"{self._moved_to} AS _lives_at")
        # a stored row changes when an event fills one of its columns, and when a late delete ends one of them or more of the time before them
        changes = [f"({_best(name)}.r.known AND ({_best(name)}.s < {DELTA} OR NOT {self._has_value(name)}))" for name in registers]
        changes += ["NOT (_entries <=> coalesce(array_sort(map_entries(_older)), array()))", "NOT (_lives_at <=> _moved_to)"]
        version = f"CASE WHEN _head_origin >= {DELTA} AND ({' OR '.join(changes)}) THEN CAST({self.version} AS BIGINT) ELSE _version END AS _version"
        older = f"CAST(CASE WHEN size(_entries) > 0 THEN map_from_entries(_entries) END AS {position.older_ddl(self.order)}) AS _older"
        return rows.selectExpr(*columns, OP, version, POSITION, older, FROM, "_lives_at AS _moved_to", *self._marks)

    def _register(self, name: str) -> str:
        own = f"CASE WHEN _op = 'u' THEN named_struct('at', _position, 'via', _position, 'known', true) ELSE {self._unknown_register} END"
        return f"coalesce(try_element_at(_older, {literal(name)}), try_element_at(_older, '{ALL}'), {own})"

    def _newest(self, own: str) -> str:
        """SQL to take the greatest of: a register that no barrier has ended, the newest one, of equal ones what is stored.

        A key change that is delivered again is the same event, wherever its file sorts: what it brought along decides.
        """
        after = f"coalesce({own}.at > {self._bound} AND {own}.via > {self._bound}, false) AS k, " if self.barrier else ""
        return f"struct({after}{position.event(f'{own}.at', self.order)} AS e, {own}.via AS b, {own}.at AS a, _origin AS s)"

    def _has_value(self, name: str) -> str:
        """SQL: whether the best register of a column holds a value that no delete and no barrier has ended."""
        best = _best(name)
        after = f" AND {best}.r.at > {self._bound} AND {best}.r.via > {self._bound}" if self.barrier else ""
        return f"({best}.r.known AND {best}.r.at IS NOT NULL AND (_floor IS NULL OR {best}.r.at >= _floor){after})"

    def _entry(self, name: str) -> str:
        """SQL: the `_older` entry of a register. Null if a live row's value is as new as the row, or if a tombstone hides no value.

        Beside an entry for ALL a tombstone has one for each partial column: without it the column would count as known, and null.
        """
        best = _best(name)
        lowest = f"CASE WHEN _floor IS NULL OR {best}.r.at >= _floor THEN {best}.r.at ELSE _floor END"
        unknown = f"named_struct('at', {lowest}, 'via', CAST(NULL AS {position.ddl(self.order)}), 'known', false)"
        pair = f"named_struct('key', {literal(name)}, 'value', CASE WHEN {self._has_value(name)} THEN {best}.r ELSE {unknown} END)"
        current = f"({self._has_value(name)} AND {best}.r.at = _position AND {best}.r.via = _position)"
        live = "false" if name == ALL else f"(_op = 'u' AND NOT coalesce({current}, false))"
        hidden = f"(_op = 'd' AND ({self._has_value(name)} OR {self._has_value(ALL)}))"
        return f"CASE WHEN {live} OR {hidden} THEN {pair} END"

    def heads(self, outcomes: DataFrame) -> DataFrame:
        """Return the rows that stay, one for each key, as states. ORIGIN says where each comes from."""
        return outcomes.where("_head AND _op <> 'f'").drop(HEAD, OUTCOME, TIE)

    def fills(self, states: DataFrame, partial: Sequence[str]) -> DataFrame:
        """Return the values that rows carry along to their new keys: states with `_op` = 'f' at the Position of the move.

        Every tombstone with a new key passes on what its row held at that moment, also if the old key has a row again since (a swap through a third
        key). Only keys that this batch touches are looked at.
        """
        by_key = self._by_key
        # a stored tombstone holds what its row had; the other half of the event may lie in a file of an earlier name
        along = f"{position.event(POSITION, self.order)}, _op <> 'd' OR _origin < {DELTA}, _position"
        until = f"({by_key} ORDER BY {along} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        earlier = f"({by_key} ORDER BY _position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        rows = states.selectExpr("*", f"max(CASE WHEN _op = 'd' THEN _position END) OVER {earlier} AS _last_delete")
        # the delete before the life that this tombstone ends; a stored tombstone hides no values of older lives
        life = "CASE WHEN _op = 'u' THEN struct(_last_delete AS p) WHEN _op = 'd' AND _older IS NOT NULL THEN struct(CAST(NULL AS {0}) AS p) END"
        begin = f"last({life.format(position.ddl(self.order))}, true) OVER {until}.p"
        touched = f"max(_origin < {DELTA}) OVER ({by_key})"
        best = []
        for name in partial:
            own = self._register(name)
            best.append(f"max_by(struct({own} AS r, {quoted(name)} AS v), {self._newest(own)}) OVER {until} AS {_best(name)}")
        rows = rows.selectExpr("*", f"{begin} AS _floor", f"{touched} AS _touched", *best)
        new_keys = dict(zip(self.schema.key, key_columns(MOVED_TO, key_types(self.schema))))
        values = [f"CASE WHEN {self._has_value(name)} THEN {_best(name)}.v END AS {quoted(name)}" for name in partial]
        rest = [f"{null(types.parse(self.schema.field(name).type))} AS {quoted(name)}" for name in self.schema.values if name not in partial]
        entries = ", ".join(f"named_struct('key', {literal(name)}, 'value', {self._carried(name)})" for name in partial)
        unknown = f"named_struct('key', '{ALL}', 'value', {self._unknown_register})"
        return rows.where(f"{MOVED} AND _touched").selectExpr(
            *[f"{new_keys[name]} AS {quoted(name)}" for name in self.schema.key],
            *values,
            *rest,
            "'f' AS _op",
            f"CAST({self.version} AS BIGINT) AS _version",
            POSITION,
            f"CAST(map_from_entries(array({entries}, {unknown})) AS {position.older_ddl(self.order)}) AS _older",
            "CAST(NULL AS STRING) AS _from",
            "CAST(NULL AS STRING) AS _moved_to",
            f"{MADE} AS _origin",
            "false AS _behind",
        )

    @property
    def _unknown_register(self) -> str:
        pos = position.ddl(self.order)
        return f"named_struct('at', CAST(NULL AS {pos}), 'via', CAST(NULL AS {pos}), 'known', false)"

    def _carried(self, name: str) -> str:
        """SQL: a register as it arrives under the new key. `at` is the Position of the move, `via` that under the old key."""
        moved = f"named_struct('at', _position, 'via', {_best(name)}.r.at, 'known', true)"
        return f"CASE WHEN {self._has_value(name)} THEN {moved} ELSE {self._unknown_register} END"


def _best(name: str) -> str:
    return quoted("_r_" + name)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames. Columns are matched by name; a column that a frame lacks is null."""
    out = frames[0]
    for frame in frames[1:]:
        out = out.unionByName(frame, allowMissingColumns=True)
    return out
