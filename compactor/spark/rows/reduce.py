"""Reduce: many states of each key become one row, in one query (`Reducer.query`).

A *state* is what one event, one stored row or one step of a run says of a key, with the Position of everything it says:

| column | of an event | of a stored row |
|---|---|---|
| the table's columns | the values it carries | the values |
| `_at` | its Position; null for a delete | that of the newest event that is no delete; of a tombstone: of the row that it hides |
| `_gone` | its Position for a delete, else null | that of the delete; null for a row that is shown |
| `_own` | the columns that it lacks: (null, false) | the columns whose value is not of `_at`: Position, `known` (below) |
| `_moved` | of a delete: the new key of its row; of a create that lacks values: the old key; or LINK_MARK + LINK | the same |
| `_version` | null | the version that last changed the row |
| `_origin` | EVENT | DELTA or BASE |

`known` is false where no event had a value, and null for a value that a key change carried.

States that a run makes itself (MADE) are the tombstone that a key change leaves under the old key, and the values that it carries to the new key
(`rows/resolution.py`): a state with neither `_at` nor `_gone`.

**The rule: the greatest Position of each clock wins, and a value counts if its Position is above the delete and the truncate before the row.** A
maximum depends neither on order nor on grouping nor on repetition. So events, Delta, base, compaction, rebuild and `verify` are one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.position import Position
from compactor.core.model.schema import Schema
from compactor.spark.columns import LINK_MARK, SEGMENT
from compactor.spark.keys import key_columns, key_types, row_key
from compactor.spark.rows import position
from compactor.spark.sql import EXACT_JSON, listed, literal, null, query, quoted, unless

MADE_OF_BATCH, EVENT, MADE, DELTA, BASE = -1, 0, 1, 2, 3
"""Values of ORIGIN: a change of the batch, a state that a step of the run made (MADE_OF_BATCH: without knowing what was stored of its old key at
that time), a row of the Delta, a row of the base.
"""
NEWEST = "coalesce(_gone, _at)"
"""SQL: the Position of the newest event of a state or row."""
HAS_NEW_KEY = f"(_gone IS NOT NULL AND NOT startswith(_moved, '{LINK_MARK}'))"
"""SQL: whether a state is a tombstone whose row is known to live on under another key."""
COUNTED = ("_applied", "_duplicate", "_late", "_superseded", "_ties")
"""Columns of a reduced row: how many of the batch's events of its key became what."""
OUTCOMES = {name[1:]: f"coalesce(sum({name}), 0)" for name in COUNTED}
"""Aggregates of reduced rows: the number of events by outcome, and of keys whose newest events share a place in the order."""


@dataclass(frozen=True)
class Reducer:
    """The rule for one table."""

    schema: Schema
    """The stored columns and the key."""
    order: position.Order
    """The order columns of the Positions."""
    version: int
    """The version that is being made. Rows that change get it."""
    keyless: bool = False
    """Whether the table has no key of its own (`rows/keyless.py`): then a key is one event, which never changes."""
    barrier: Position | None = None
    """The newest truncate, or beginning of an epoch that replaces."""
    partial: Sequence[str] = ()
    """The columns that some state lacks. Each has a clock of its own; all others share the row's."""
    stored: bool = True
    """Whether some states are stored rows."""
    tombstones: bool = True
    """Whether some state may be a tombstone, or wait for one."""
    placed: bool = False
    """Whether the states have SEGMENT, with all states of a key in one Segment. Then reducing them needs no other exchange and sort than writing."""
    shard: str = ""
    """The stored column with the shard of a row; "" without shards."""
    barriers: Sequence[tuple[str, Position]] = ()
    """(shard, its newest truncate), in the place of `barrier`."""

    @property
    def keys(self) -> list[str]:
        return [quoted(name) for name in self.schema.key]

    @property
    def _shared(self) -> list[str]:
        return [name for name in self.schema.values if name not in self.partial]

    # making states ------------------------------------------------------------------------------------------------

    def states(self, changes: DataFrame, moves: bool) -> DataFrame:
        """Return Changes (without truncates, with BEHIND) as states: one for each change, and for each key change a tombstone under the old key.

        `moves`: whether there may be key changes.
        """
        lacks = f"map_from_entries(transform(_missing, _m -> struct(_m, {position.lacks(self.order)})))"
        waits = f"'{LINK_MARK}' || _link"
        moved = f"CASE WHEN _op = 'd' THEN coalesce(_to, {waits}) WHEN _op = 'c' AND size(_missing) > 0 THEN coalesce(_from, {waits}) END"
        columns = [
            *map(quoted, self.schema.names),
            "CAST(NULL AS BIGINT) AS _version",
            "CASE WHEN _op NOT IN ('d', 'x') THEN _position END AS _at",
            "CASE WHEN _op IN ('d', 'x') THEN _position END AS _gone",
            self._own(f"CASE WHEN size(_missing) > 0 THEN {lacks} END" if self.partial else "NULL"),
            f"CASE WHEN _op = 'x' THEN '{REMOVAL}' END AS _moved" if self.keyless else f"{moved} AS _moved",
            "_origin",
            "_behind",
        ]
        text = f"SELECT {listed(columns)}\nFROM {{changes}}"
        if moves and not self.keyless:
            left = dict(zip(self.schema.key, key_columns("_from", key_types(self.schema))))
            tombstone = [
                *[f"{left.get(field.name) or null(types.parse(field.type))} AS {quoted(field.name)}" for field in self.schema.fields],
                "CAST(NULL AS BIGINT) AS _version",
                f"{self._no_position} AS _at",
                "_position AS _gone",
                self._own("NULL"),
                f"{row_key(self.schema)} AS _moved",
                f"{MADE} AS _origin",
                "_behind",
            ]
            text += f"\nUNION ALL\nSELECT {listed(tombstone)}\nFROM {{changes}} WHERE _from IS NOT NULL"
        return query("states", text, changes=changes)

    def _own(self, value: str) -> str:
        return f"CAST({value} AS {position.own_ddl(self.order)}) AS _own"

    # reducing -----------------------------------------------------------------------------------------------------

    def rows(self, states: DataFrame) -> DataFrame:
        """Return one row for each key, in the columns of a stored row, with ORIGIN (where it was stored, else EVENT), UNCHANGED, BEHIND and
        COUNTED.
        """
        return query("reduce", self.query("{states}", "_behind" in states.columns), states=states)

    def query(self, states: str, judged: bool = False) -> str:
        """Return the query over the states of `states`. `judged`: they have BEHIND."""
        segment = [SEGMENT] if self.placed else []
        behind = ["_behind"] if judged else []
        # the tombstone that a key change leaves is no change of the old key; the removal of an update is one of its row
        is_behind = "_behind" if self.keyless else f"_behind AND _origin = {EVENT}"
        # a key column may be called like one of ours
        keys = [f"_k{at}" for at in range(len(self.keys))]
        named, columns = [f"{key} AS {own}" for own, key in zip(keys, self.keys)], [*segment, *keys]
        back = [f"{own} AS {key}" for own, key in zip(keys, self.keys)]
        lines = (
            f"SELECT {listed([*segment, *back, *self._values(), *self._state(), *behind, *self._counts()])}",
            f"FROM (SELECT *, {listed(self._compared())}",
            f"FROM (SELECT *, {listed(self._registers())}" if self.partial else "",
            f"FROM (SELECT {listed([*columns, *self._newest(), *([f'max({is_behind}) AS _behind'] if judged else [])])}",
            f"FROM (SELECT {listed([*segment, *named, *self._clocks(), *behind])}",
            f"FROM {states})",
            "WHERE NOT coalesce(_newest <= _bound, false)" if self.bounded else "",
            f"GROUP BY {', '.join(columns)}",
            ") WHERE _at IS NOT NULL OR _gone IS NOT NULL)",
            ")" if self.partial else "",
        )
        return "\n".join(line for line in lines if line)

    @property
    def bounded(self) -> bool:
        """Return whether some rows lie below a truncate."""
        return self.barrier is not None or bool(self.barriers)

    def bound(self, state: str = "") -> str:
        """SQL: the barrier of a state; null if nothing ends it. `state`: prefix of the state's columns."""
        if self.barrier is not None:
            return position.fixed(self.barrier, self.order)
        cases = " ".join(f"WHEN {literal(shard)} THEN {position.fixed(bound, self.order)}" for shard, bound in self.barriers)
        return f"CASE {state}{quoted(self.shard)} {cases} END"

    @property
    def _no_position(self) -> str:
        return f"CAST(NULL AS {position.ddl(self.order)})"

    def _event(self, at: str) -> str:
        return position.event(at, self.order)

    def _clocks(self) -> list[str]:
        """SQL for one state: its clocks, what shares them, and what it says, to find ties and repetitions."""
        # a truncate ends the row that a tombstone hides, too
        at = f"CASE WHEN _at <= {self.bound()} THEN NULL ELSE _at END" if self.bounded else "_at"
        # a struct: a column may be called like one of ours
        own = ["_own AS _own"] if self.stored and not self.partial else []
        row = listed([*map(quoted, self._shared), *own, f"{at} AS _at"])
        clocks = [f"struct({row}) AS _row", f"{at} AS _at", "_gone", f"{NEWEST} AS _newest", "_moved", "_version", "_origin"]
        content = self.content()
        clocks += [f"CASE WHEN _gone IS NULL THEN {content} ELSE 0L END AS _content"]
        if self.partial:
            # a create waits for the values of its old key, also when an update without them has come
            clocks += [f"CASE WHEN startswith(_moved, '{LINK_MARK}') AND NOT coalesce(_gone >= _at, false) THEN _at END AS _waits"]
            sent = [f"CASE WHEN {register(name).entry} IS NULL THEN {self._hashed(name, quoted(name))} END" for name in self.partial]
            clocks += [f"CASE WHEN _gone IS NULL THEN xxhash64({', '.join([content, *sent])}) ELSE 0L END AS _sent"]
        clocks += [f"coalesce(_at <= {self.bound()}, false) AS _ended", f"{self.bound()} AS _bound"] if self.bounded else []
        for name in self.partial:
            state = register(name, at=at)
            clocks += [f"{state.struct(quoted(name))} AS {_register(name)}"]
            clocks += [f"CASE WHEN ({state.at}) IS NOT NULL THEN {state.rank(self.order)} END AS {_clock(name)}"]
        return clocks

    def _newest(self) -> list[str]:
        """SQL aggregates for one key: the greatest of each clock, and what follows it."""
        place = self._event("_newest")
        moved = f"struct({place}, NOT startswith(coalesce(_moved, '{LINK_MARK}'), '{LINK_MARK}'), _moved IS NOT NULL)"
        by = f"CASE WHEN _newest IS NOT NULL THEN struct({place}, _origin <> {MADE}, _newest) END"
        # a state without events sorts below all others
        greatest = f"max(struct({place} AS e, {{}}{'_sent' if self.partial else '_content'} AS h))"
        latest = f"CASE WHEN _newest IS NOT NULL THEN {moved} END"
        newest_moved = f"max_by(_moved, {latest})" if self.tombstones or self.partial else "CAST(NULL AS STRING)"
        if self.partial:
            newest_moved = f"coalesce({newest_moved}, CASE WHEN NOT coalesce(max(_gone) >= max(_waits), false) THEN max_by(_moved, _waits) END)"
        # 'found' comes before 'x': a removal that took its row never waits again, also where the base has it as it waited
        newest_moved = "min(_moved)" if self.keyless else newest_moved
        made = [
            f"max_by(_row, {'_newest' if self.keyless else '_at'}) AS _row",
            "max(_at) AS _at" if self.keyless else "max_by(_row, _at)._at AS _at",
            f"{'max(_gone)' if self.tombstones else self._no_position} AS _gone",
            f"{newest_moved} AS _moved",
            f"count_if(_origin = {EVENT}) AS _events",
            f"max_by(_origin, {by}) AS _by" if self.tombstones else f"{EVENT} AS _by",
            # whether all that happened at the newest place of the order says the same
            f"{greatest.format('')}.h <> ~{greatest.format('~')}.h AS _tied",
        ]
        for name in self.partial:
            made.append(f"max_by({_register(name)}, {_clock(name)}) AS {_register(name)}")
        made += ["collect_set(_gone) AS _deletes", *(["any_value(_bound) AS _bound"] if self.bounded else [])] if self.partial else []
        if not self.stored:
            return made
        was = f"FILTER (WHERE _origin >= {DELTA})"
        made += [
            "max(_version) AS _version",
            f"min(_origin) {was} AS _was_in",
            f"max(_at) {was} AS _was_at",
            f"max(_gone) {was} AS _was_gone",
            f"max_by(_content, _newest) {was} AS _was_content",
            f"max(_newest) FILTER (WHERE _origin = {EVENT}) AS _new",
        ]
        made += ["max(_ended) AS _ended"] if self.bounded else []
        if self.partial:
            made += [f"max_by(_moved, {latest}) {was} AS _was_moved"]
            made += [f"max_by({_register(name)}, {_clock(name)}) {was} AS {_was(name)}" for name in self.partial]
        return made

    def _registers(self) -> list[str]:
        """SQL: of each column with a clock of its own, what counts: (value, Position, whether it is known, whether a key change carried it)."""
        # deletes after the row that a tombstone hides take nothing from it
        ends = ["array_max(filter(_deletes, _d -> _d < _at))", *(["_bound"] if self.bounded else [])]
        floor = f"greatest({', '.join(ends)})" if len(ends) > 1 else ends[0]
        made = []
        for name in self.partial:
            best = _register(name)
            has = f"coalesce({best}.known AND ({best}.at >= {floor} OR {floor} IS NULL), false)"
            at = f"CASE WHEN {best}.at >= {floor} OR {floor} IS NULL THEN {best}.at ELSE {floor} END"
            value, at = f"CASE WHEN {has} THEN {best}.v END AS v", f"CASE WHEN {has} THEN {best}.at ELSE {at} END AS at"
            made.append(f"struct({value}, {at}, {has} AS known, {has} AND {best}.carried AS carried) AS {_final(name)}")
        return made

    def _compared(self) -> list[str]:
        """SQL: whether the row is live, whether the newest event is the one that is stored, and whether nothing changed."""
        live = "_gone IS NULL" if self.keyless else "(_gone IS NULL OR coalesce(_at > _gone, false))"
        if not self.stored or self.keyless:
            stored = "_was_in IS NOT NULL" if self.stored else "false"
            return [f"{live} AS _live", f"{stored} AS _same", f"{stored} AS _unchanged"]
        newest, was = "greatest(_at, _gone)", "greatest(_was_at, _was_gone)"
        # the same event may lie in a file of a later name; of two that differ at one place of the order the later file wins
        content = f"CASE WHEN _live THEN {self.content('_row.')} ELSE 0L END"
        again = f"{self._event(newest)} = {self._event(was)} AND ({content}) = _was_content"
        same = f"(_was_in IS NOT NULL AND ({newest} = {was} OR ({again})))"
        # late events change what a tombstone hides, and single columns
        changes = [f"NOT _live AND NOT ({self._event('_at')} <=> {self._event('_was_at')})"]
        changes += ["_ended"] if self.bounded else []
        changes += ["NOT (_moved <=> _was_moved)"] if self.partial else []
        changes += [f"NOT ({self._same_register(name)})" for name in self.partial]
        return [f"{live} AS _live", f"{same} AS _same", f"(_same AND NOT ({' OR '.join(changes)})) AS _unchanged"]

    def _same_register(self, name: str) -> str:
        now, was = _final(name), _was(name)
        values = f"{self._hashed(name, f'{now}.v')} <=> {self._hashed(name, f'{was}.v')}"
        place = f"{self._event(f'{now}.at')} <=> {self._event(f'{was}.at')}"
        return f"{now}.known = coalesce({was}.known, false) AND {place} AND (NOT {now}.known OR {values})"

    def _values(self) -> list[str]:
        partial = {name: f"{_final(name)}.v" for name in self.partial}
        return [f"{partial.get(name) or f'_row.{quoted(name)}'} AS {quoted(name)}" for name in self.schema.values]

    def _state(self) -> list[str]:
        """SQL for the columns that are stored beside the values, and ORIGIN."""
        chosen = (lambda now, was: f"CASE WHEN _unchanged THEN {was} ELSE {now} END") if self.stored else (lambda now, was: now)
        own = "_row._own" if self.stored else "NULL"
        if self.partial:
            same = {name: f"{self._event(f'{_final(name)}.at')} = {self._event('_at')}" for name in self.partial}
            has = {name: f"CASE WHEN NOT {_final(name)}.carried THEN {_final(name)}.known END" for name in self.partial}
            entry = {name: f"struct({literal(name)}, struct({_final(name)}.at AS at, {has[name]} AS known))" for name in self.partial}
            # a value that a key change carried keeps its entry: a late event of the old key may still change it
            shared = {name: f"({_final(name)}.known AND NOT {_final(name)}.carried AND {same[name]})" for name in self.partial}
            entries = [f"CASE WHEN NOT {shared[name]} THEN {entry[name]} END" for name in self.partial]
            listed = f"array_compact(array({', '.join(entries)}))"
            own = f"CASE WHEN _at IS NOT NULL AND size({listed}) > 0 THEN map_from_entries({listed}) END"
        origin, version = f"{EVENT}", f"{self.version}L"
        if self.stored:
            origin = f"coalesce(_was_in, {EVENT})"
            version = f"coalesce(CASE WHEN _unchanged THEN _version END, {unless('_unchanged', self.version)})"
        return [
            f"{version} AS _version",
            f"{chosen('_at', '_was_at')} AS _at",
            f"CASE WHEN NOT _live THEN {chosen('_gone', '_was_gone')} END AS _gone",
            self._own(own),
            "_moved",
            f"{origin} AS _origin",
            "_unchanged",
        ]

    def _counts(self) -> list[str]:
        applied = f"CASE WHEN _events > 0 AND NOT _same AND _by = {EVENT} THEN 1 ELSE 0 END"
        again = f"CASE WHEN _same AND {self._event('_new')} = {self._event('greatest(_was_at, _was_gone)')} THEN 1 ELSE 0 END" if self.stored else "0"
        late = "CASE WHEN _same THEN _events - _duplicate ELSE 0 END"
        superseded = "CASE WHEN _same THEN 0 ELSE _events - _applied END"
        ties = "CASE WHEN _events > 0 AND _tied AND NOT _same THEN 1 ELSE 0 END"
        if self.keyless:
            # an identity is one event: what comes again is the same
            again, late, superseded, ties = "_events - _applied", "0", "0", "0"
        return [f"{sql} AS {name}" for name, sql in zip(COUNTED, (applied, again, late, superseded, ties))]

    def _content(self, names: Sequence[str], prefix: str) -> str:
        """SQL for a number in which rows with other values differ. `prefix` stands before the names of the columns."""
        # the hash passes over nulls, also inside of structs and arrays, so the places of nulls are compared beside it
        values = [(name, prefix + quoted(name)) for name in names]
        nulls = f"array({', '.join(f'{value} IS NULL' for _, value in values)})"
        return f"xxhash64({', '.join([*(self._hashed(name, value) for name, value in values), nulls])})"

    def content(self, prefix: str = "") -> str:
        """SQL for a hash of the values that share the clock of the row. `prefix` stands before their names."""
        return self._content(self._shared, prefix)

    def _hashed(self, name: str, value: str) -> str:
        nested = types.parse(self.schema.field(name).type)[0] in ("array", "map", "struct")
        return f"to_json({value}, {EXACT_JSON})" if nested else value


REMOVAL = "x"
"""The operation of a removal (`rows/keyless.py`), and its `_moved` while it waits for its row."""


class Register(NamedTuple):
    """SQL for the clock that a state has for one column."""

    entry: str
    """Its entry in `_own`; null if the column shares the clock of the row."""
    at: str
    """The Position of the value; null without one."""
    has_value: str
    """Whether a value is known at that Position."""
    carried: str
    """Whether that is no value of the event itself, but one that a key change carried."""

    def struct(self, value: str) -> str:
        """SQL for the column's value (`value`) with its clock."""
        return f"struct({value} AS v, {self.at} AS at, {self.has_value} AS known, {self.carried} AS carried)"

    def rank(self, order: position.Order, origin: str = "_origin") -> str:
        """SQL: by this the greatest of the states of a key decides about the column.

        Of one event: its own value, then what this run carried along if it knows all of the old key; else that counts least.
        """
        rank = f"CASE WHEN NOT {self.carried} THEN 3 WHEN {origin} = {MADE} THEN 2 WHEN {origin} = {MADE_OF_BATCH} THEN 0 ELSE 1 END"
        return f"struct({position.event(f'({self.at})', order)} AS e, {self.has_value} AS known, {rank} AS r, {self.at} AS at)"


def register(name: str, state: str = "", at: str = "_at") -> Register:
    """Return the clock of a column. `state`: prefix of the state's columns; `at`: SQL for its `_at`."""
    entry = f"try_element_at({state}_own, {literal(name)})"
    clock = f"CASE WHEN {entry} IS NOT NULL THEN {entry}.at ELSE {at} END"
    return Register(entry, clock, f"coalesce({entry}.known, true)", f"({entry} IS NOT NULL AND {entry}.known IS NULL)")


def _register(name: str) -> str:
    return quoted("_r_" + name)


def _clock(name: str) -> str:
    return quoted("_c_" + name)


def _final(name: str) -> str:
    return quoted("_f_" + name)


def _was(name: str) -> str:
    return quoted("_w_" + name)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames. Columns are matched by name; a column that a frame lacks is null."""
    out = frames[0]
    for frame in frames[1:]:
        out = out.unionByName(frame, allowMissingColumns=True)
    return out
