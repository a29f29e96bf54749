"""Resolve: many states of each key → one.

Input and output are *states*: stored columns, then `_op`, `_version`, `_position`, `_older`, `_from`, `_moved_to` (what Delta and base files hold),
and beside them `_source`: EVENT (a raw change), MADE (a delete or fill derived from a key change), DELTA, BASE.

The rule is one sentence: **every column of a row is a last-writer-wins register, and a delete writes "unknown" to all of them.**
An event writes the columns it tells at its Position; the row's own operation is a register too. Taking the greatest Position per
register does not depend on order, repetition or grouping, which is why late, duplicated and split deliveries end in the same table.

`_older` holds the registers that differ from the row's Position: `column → (at, via, known)`; whole rows have none. A tombstone's `_older` holds
the registers of the row it hides, under their names or under `*` for all, so that a create under another key can take them (H10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.schema import Schema
from compactor.spark.rows import position
from compactor.spark.rows.conform import key_columns, key_text
from compactor.spark.sql import literal, null, quoted

EVENT, MADE, DELTA, BASE = 0, 1, 2, 3
STATE = ("_op", "_version", "_position", "_older", "_from", "_moved_to")
ALL = "*"
LINK = "#"
"""Begins a `_from` or `_moved_to` that names no key yet, only the transaction and LSN that the other half of a key change shares (H10)."""
_MARKS = ("_source", "_file", "_head", "_outcome", "_tie")

MOVED = f"(_op = 'd' AND NOT startswith(_moved_to, '{LINK}'))"
"""SQL: whether a state is a tombstone whose row is known to live on under another key."""

_NEWEST_STATE = f"CASE _source WHEN {DELTA} THEN 0 WHEN {BASE} THEN 1 ELSE 2 END"
"""The Delta knows more than the base, and both more than an event delivered again."""


@dataclass(frozen=True)
class Resolver:
    """Resolution for one table: its schema, its order columns, the version being made."""

    schema: Schema
    order: position.Order
    version: int
    keyless: bool = False

    @property
    def keys(self) -> list[str]:
        """Quoted key columns."""
        return [quoted(name) for name in self.schema.key]

    @property
    def columns(self) -> list[str]:
        """Quoted stored names."""
        return [quoted(name) for name in self.schema.names]

    @property
    def _latest(self) -> str:
        if self.keyless:
            # one identity is one event, however often delivered: what is stored stays, else an applied removal would wait again
            return f"{_NEWEST_STATE}, _position"
        # fills never are the row; of equal Positions the stored one stays, so that a file absorbed twice changes nothing
        return f"_op = 'f', _position DESC, {_NEWEST_STATE}"

    def states(self, changes: DataFrame) -> DataFrame:
        """Raw changes (no truncates) as states: one per change, and one tombstone per key change for the key it left."""
        older = self._unknown("_missing")
        kinds = [self.schema.field(name).type for name in self.schema.key]
        op = "CASE WHEN _op IN ('d', 'x') THEN 'd' ELSE 'u' END"
        events = changes.selectExpr(
            *self.columns,
            f"{op} AS _op",
            f"CAST({self.version} AS BIGINT) AS _version",
            "_position",
            f"{older} AS _older",
            f"CASE WHEN _op = 'x' THEN 'x' WHEN _op = 'c' AND size(_missing) > 0 THEN coalesce(_from, '{LINK}' || _link) ELSE _from END AS _from",
            f"CASE WHEN _op = 'd' THEN coalesce(_to, '{LINK}' || _link) END AS _moved_to",
            "_source",
            "_file",
        )
        if self.keyless:
            return events
        old_keys = dict(zip(self.schema.key, key_columns("_from", kinds)))
        left = [
            f"{old_keys[name]} AS {quoted(name)}" if name in old_keys else f"{null(types.parse(self.schema.field(name).type))} AS {quoted(name)}"
            for name in self.schema.names
        ]
        moves = changes.where("_from IS NOT NULL").selectExpr(
            *left,
            "'d' AS _op",
            f"CAST({self.version} AS BIGINT) AS _version",
            "_position",
            f"CAST(NULL AS {position.older_ddl(self.order)}) AS _older",
            "CAST(NULL AS STRING) AS _from",
            f"{key_text(self.keys, kinds)} AS _moved_to",
            f"{MADE} AS _source",
            "_file",
        )
        return events.unionByName(moves)

    def _unknown(self, missing: str) -> str:
        pos = position.ddl(self.order)
        entry = f"named_struct('at', CAST(NULL AS {pos}), 'via', CAST(NULL AS {pos}), 'known', false)"
        entries = f"transform({missing}, _m -> named_struct('key', _m, 'value', {entry}))"
        return f"CASE WHEN size({missing}) > 0 THEN CAST(map_from_entries({entries}) AS {position.older_ddl(self.order)}) END"

    def outcomes(self, states: DataFrame, partial: Sequence[str] = ()) -> DataFrame:
        """Every state with `_head` (it is the row that stays), `_outcome` of events, and, on the head, the resolved columns.

        `partial` names the columns that need registers of their own; all others are told by every event and share one (`*`).
        """
        ranked = self._ranked(states)
        return self._registers(ranked, partial) if partial else self._whole(ranked)

    def _ranked(self, states: DataFrame) -> DataFrame:
        by_key = f"PARTITION BY {', '.join(self.keys)}"
        latest = f"({by_key} ORDER BY {self._latest})"
        # the hash passes over nulls: where they stand is told beside
        nulls = f"array({', '.join(f'{quoted(name)} IS NULL' for name in self.schema.names)})"
        hashed = [*(self._hashable(name) for name in self.schema.names), nulls]
        same = f"struct({position.event('_position', self.order)} AS e, xxhash64(_op, {', '.join(hashed)}) AS h)"
        ranked = states.selectExpr(
            "*",
            f"row_number() OVER {latest} = 1 AS _head",
            f"first(_source) OVER {latest} AS _head_source",
            f"first(_position) OVER {latest} AS _head_position",
            f"first(_op) OVER {latest} AS _head_op",
            f"lag({same}) OVER {latest} AS _before_it",
            f"first({same}) OVER {latest} AS _head_same",
            f"{same} AS _same",
        )
        # an event that comes again under a later file name stands above the stored row it once made
        again = f"max(_source >= {DELTA} AND _same = _head_same) OVER ({by_key})"
        ranked = ranked.selectExpr("*", f"(_head_source < {DELTA} AND {again}) AS _again")
        own = position.event("_position", self.order)
        stored_twin = f"(_head_source >= {DELTA} AND {own} = {position.event('_head_position', self.order)})"
        twin = f"(_before_it IS NOT NULL AND _before_it = _same) OR {stored_twin}"
        tie = f"(_before_it IS NOT NULL AND _before_it.e = _same.e AND _before_it.h <> _same.h AND NOT {stored_twin})"
        outcome = (
            f"CASE WHEN _source <> {EVENT} THEN NULL WHEN _head AND NOT coalesce(_again, false) THEN 'applied' "
            f"WHEN _head OR {twin} THEN 'duplicate' WHEN _head_source >= {DELTA} THEN 'late' ELSE 'superseded' END"
        )
        return ranked.selectExpr("*", f"{outcome} AS _outcome", f"(_source = {EVENT} AND {tie}) AS _tie").drop(
            "_before_it", "_same", "_head_same", "_again"
        )

    def _hashable(self, name: str) -> str:
        kind = types.parse(self.schema.field(name).type)
        return f"to_json({quoted(name)})" if "map" in types.text(kind) else quoted(name)

    def _whole(self, ranked: DataFrame) -> DataFrame:
        """No state carries older columns: the head is the row; a tombstone takes over what the state below it told."""
        below = f"(PARTITION BY {', '.join(self.keys)} ORDER BY {self._latest})"
        payload = ", ".join(quoted(name) for name in self.schema.values)
        hidden = f"lead(struct(_op AS _lop, _position AS _lat, _older AS _lolder{', ' + payload if payload else ''})) OVER {below}"
        rows = ranked.selectExpr("*", f"{hidden} AS _hidden")
        takes = "(_op = 'd' AND _older IS NULL AND _hidden._lop = 'u')"
        whole = f"map('{ALL}', named_struct('at', _hidden._lat, 'via', _hidden._lat, 'known', true))"
        keeps = f"CASE WHEN _hidden._lolder IS NULL THEN {whole} ELSE map_concat({whole}, _hidden._lolder) END"
        columns = [
            quoted(name) if name in self.schema.key else f"CASE WHEN {takes} THEN _hidden.{quoted(name)} ELSE {quoted(name)} END AS {quoted(name)}"
            for name in self.schema.names
        ]
        older = f"CAST(CASE WHEN {takes} THEN {keeps} ELSE _older END AS {position.older_ddl(self.order)}) AS _older"
        return rows.selectExpr(*columns, "_op", "_version", "_position", older, "_from", "_moved_to", *_MARKS)

    def _registers(self, ranked: DataFrame, partial: Sequence[str]) -> DataFrame:
        """The full rule: per register the greatest (at, via), lowered to unknown by a delete above it."""
        by_key = f"(PARTITION BY {', '.join(self.keys)})"
        named = [name for name in self.schema.values if name in partial]
        rest = [name for name in self.schema.values if name not in partial]
        below = "_position < _head_position"
        # A tombstone hides the last life of its row: deletes after that life's last event take nothing from it.
        hidden = "array_max(transform(filter(map_values(_older), _e -> _e.known), _e -> _e.at))"
        lived = f"CASE WHEN _op = 'u' AND {below} THEN _position WHEN _op = 'd' THEN {hidden} END"
        rows = ranked.selectExpr("*", f"CASE WHEN _head_op = 'd' THEN max({lived}) OVER {by_key} ELSE _head_position END AS _life")
        rows = rows.selectExpr("*", f"max(CASE WHEN _op = 'd' AND _position < _life THEN _position END) OVER {by_key} AS _floor")
        told = {name: quoted(name) for name in named}
        told[ALL] = "struct(" + ", ".join(quoted(name) for name in rest) + ")" if rest else "struct(1)"
        best = []
        for name, value in told.items():
            own = self._register(name)
            newest = f"struct({own}.at AS a, {own}.via AS b, _source AS s)"
            best.append(f"max_by(struct({own} AS r, {value} AS v, _source AS s), {newest}) OVER {by_key} AS {_best(name)}")
        rows = rows.selectExpr("*", *best)
        columns = [*self.keys]
        columns += [f"CASE WHEN {_stands(name)} THEN {_best(name)}.v END AS {quoted(name)}" for name in named]
        columns += [f"CASE WHEN {_stands(ALL)} THEN {_best(ALL)}.v.{quoted(name)} END AS {quoted(name)}" for name in rest]
        # a stored row changes when an event fills one of its columns, or when a late delete ends one
        changes = " OR ".join(f"({_best(name)}.r.known AND ({_best(name)}.s < {DELTA} OR NOT {_stands(name)}))" for name in told)
        version = f"CASE WHEN _head_source >= {DELTA} AND ({changes}) THEN CAST({self.version} AS BIGINT) ELSE _version END AS _version"
        moved_to = f"max(CASE WHEN _op = 'd' AND _position = _head_position THEN _moved_to END) OVER {by_key}"
        entries = ", ".join(self._entry(name) for name in told)
        mapped = f"filter(array({entries}), _e -> _e IS NOT NULL)"
        result = rows.selectExpr(*columns, "_op", version, "_position", f"{mapped} AS _entries", "_from", f"{moved_to} AS _moved_to", *_MARKS)
        older = f"CAST(CASE WHEN size(_entries) > 0 THEN map_from_entries(_entries) END AS {position.older_ddl(self.order)}) AS _older"
        return result.selectExpr(*self.columns, "_op", "_version", "_position", older, "_from", "_moved_to", *_MARKS)

    def _register(self, name: str) -> str:
        own = f"CASE WHEN _op = 'u' THEN named_struct('at', _position, 'via', _position, 'known', true) ELSE {self._nothing} END"
        return f"coalesce(try_element_at(_older, {literal(name)}), try_element_at(_older, '{ALL}'), {own})"

    def _entry(self, name: str) -> str:
        """The `_older` entry of a register: none when a live row's value is as new as the row, or when a tombstone hides no value."""
        best = _best(name)
        lowest = f"CASE WHEN _floor IS NULL OR {best}.r.at >= _floor THEN {best}.r.at ELSE _floor END"
        unknown = f"named_struct('at', {lowest}, 'via', CAST(NULL AS {position.ddl(self.order)}), 'known', false)"
        pair = f"named_struct('key', {literal(name)}, 'value', CASE WHEN {_stands(name)} THEN {best}.r ELSE {unknown} END)"
        current = f"({_stands(name)} AND {best}.r.at = _position AND {best}.r.via = _position)"
        live = "false" if name == ALL else f"(_op = 'u' AND NOT coalesce({current}, false))"
        return f"CASE WHEN {live} OR (_op = 'd' AND {_stands(name)}) THEN {pair} END"

    def heads(self, outcomes: DataFrame) -> DataFrame:
        """The rows that stay, as states (their `_source` tells where they come from)."""
        return outcomes.where("_head AND _op <> 'f'").drop("_head", "_outcome", "_tie")

    def fills(self, states: DataFrame, partial: Sequence[str]) -> DataFrame:
        """What the rows that moved away have to tell the keys they moved to: states with `_op` = 'f' at the Position of the move.

        Every tombstone that moved tells what its row knew at that moment, also when the key has lived again since (a swap through
        a third key). Only keys that this batch touches are asked.
        """
        by_key = f"PARTITION BY {', '.join(self.keys)}"
        until = f"({by_key} ORDER BY _position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        earlier = f"({by_key} ORDER BY _position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        rows = states.selectExpr("*", f"max(CASE WHEN _op = 'd' THEN _position END) OVER {earlier} AS _last_delete")
        # the delete before the life that this tombstone ends; what a stored tombstone hides has been cleared of older lives already
        life = "CASE WHEN _op = 'u' THEN struct(_last_delete AS p) WHEN _op = 'd' AND _older IS NOT NULL THEN struct(CAST(NULL AS {0}) AS p) END"
        begin = f"last({life.format(position.ddl(self.order))}, true) OVER {until}.p"
        touched = f"max(_source < {DELTA}) OVER ({by_key})"
        best = []
        for name in partial:
            own = self._register(name)
            best.append(f"max_by(struct({own} AS r, {quoted(name)} AS v), struct({own}.at AS a, {own}.via AS b)) OVER {until} AS {_best(name)}")
        rows = rows.selectExpr("*", f"{begin} AS _floor", f"{touched} AS _touched", *best)
        kinds = [self.schema.field(name).type for name in self.schema.key]
        new_keys = dict(zip(self.schema.key, key_columns("_moved_to", kinds)))
        values = [f"CASE WHEN {_stands(name)} THEN {_best(name)}.v END AS {quoted(name)}" for name in partial]
        rest = [f"{null(types.parse(self.schema.field(name).type))} AS {quoted(name)}" for name in self.schema.values if name not in partial]
        entries = ", ".join(f"named_struct('key', {literal(name)}, 'value', {self._passed(name)})" for name in partial)
        unknown = f"named_struct('key', '{ALL}', 'value', {self._nothing})"
        return rows.where(f"{MOVED} AND _touched").selectExpr(
            *[f"{new_keys[name]} AS {quoted(name)}" for name in self.schema.key],
            *values,
            *rest,
            "'f' AS _op",
            f"CAST({self.version} AS BIGINT) AS _version",
            "_position",
            f"CAST(map_from_entries(array({entries}, {unknown})) AS {position.older_ddl(self.order)}) AS _older",
            "CAST(NULL AS STRING) AS _from",
            "CAST(NULL AS STRING) AS _moved_to",
            f"{MADE} AS _source",
            "CAST(NULL AS STRING) AS _file",
        )

    @property
    def _nothing(self) -> str:
        pos = position.ddl(self.order)
        return f"named_struct('at', CAST(NULL AS {pos}), 'via', CAST(NULL AS {pos}), 'known', false)"

    def _passed(self, name: str) -> str:
        """A register as it arrives under the new key: at the Position of the move, by way of its own."""
        moved = f"named_struct('at', _position, 'via', {_best(name)}.r.at, 'known', true)"
        return f"CASE WHEN {_stands(name)} THEN {moved} ELSE {self._nothing} END"


def _best(name: str) -> str:
    return quoted("_r_" + name)


def _stands(name: str) -> str:
    """SQL: whether the best register of a column tells a value that no delete has ended."""
    best = _best(name)
    return f"({best}.r.known AND {best}.r.at IS NOT NULL AND (_floor IS NULL OR {best}.r.at >= _floor))"


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All frames, columns by name."""
    out = frames[0]
    for frame in frames[1:]:
        out = out.unionByName(frame, allowMissingColumns=True)
    return out
