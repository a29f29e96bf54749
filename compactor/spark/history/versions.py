"""Versions: the events of each key make the versions of its history, in one query (`Versions.query`).

In and out: stored events (`core/catalog/history_views.state_types`). While they are worked on they also have:

| column | type | meaning |
|---|---|---|
| `__origin` | int | EVENT (of the batch), MADE (a key change, truncate or row of the table), OPEN (an open part), DELTA, CLOSED (a closed part) |
| `__part` | string | the path of the part that holds the event |
| `__digest` | bigint | `digest()` of the event as it is stored: an event with the same digest need not be written again |
| `__first` | struct | the earliest event of the key that is new; events before it stay as they are stored |
| `__frozen` | boolean | whether the event is stored and lies before `__first` |
| `__carried` | struct | values of columns that the event does not carry and that came with a key change |
| `__same` | boolean | whether the event need not be written again |

A batch is worked on together with the stored events of its keys, from the last event before the batch's first on: nothing older can change. Events
are in the order of their Positions, and times follow that order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from compactor.core.catalog.history_views import state_types
from compactor.core.model import types
from compactor.core.model.history import FOREVER, Truncated
from compactor.core.model.schema import Schema
from compactor.spark.columns import FROM, LINK, LINK_MARK, OP, POSITION, VERSION
from compactor.spark.keys import key_columns, key_types, row_key
from compactor.spark.rows import position
from compactor.spark.sql import EXACT_JSON, listed, literal, null, quoted, unless

EVENT, MADE, OPEN, DELTA, CLOSED = range(5)

MOVED_TO = "_moved_to"
"""string: of a delete, the key under which its row lives on, or LINK_MARK + LINK."""
HAS_OLD_KEY = f"(_from IS NOT NULL AND NOT startswith(_from, '{LINK_MARK}'))"
"""SQL: whether the key that a row had before is known."""
MOVED = f"(_op = 'd' AND _moved_to IS NOT NULL AND NOT startswith(_moved_to, '{LINK_MARK}'))"
"""SQL: whether the row of a delete is known to live on under another key."""


@dataclass(frozen=True)
class Steps:
    """The steps that the events of one batch need. What nothing needs is not in the query."""

    time: str
    """SQL for the time of a change, in microseconds since 1970."""
    follows: bool = False
    """Whether all events come after all stored ones, and carry all values. Of the stored ones only the last of each key is there."""
    repeated: bool = True
    """Whether some event may occur twice, or ties with another one."""
    moves: bool = False
    """Whether some row has changed its key."""
    partial: tuple[str, ...] = ()
    """The columns that some events do not carry."""
    truncates: tuple[Truncated, ...] = ()
    frozen: bool = True
    """Whether stored events before the first new one of their key stay as they are."""
    small: bool = False
    """Whether one task computes everything."""
    wide: bool = False
    """Whether looking keys up in the open parts takes all cores."""


@dataclass(frozen=True)
class Versions:
    """The rules for the history of one table."""

    schema: Schema
    """The stored columns and the key."""
    order: position.Order
    version: int
    """The version that is being made."""
    tracked: Sequence[str]
    """Stored names of the columns whose changes make a version."""

    @property
    def keys(self) -> str:
        return ", ".join(quoted(name) for name in self.schema.key)

    @property
    def stored(self) -> list[tuple[str, str]]:
        """Return name and type of every column of a stored event."""
        return [*((field.name, field.type) for field in self.schema.fields), *state_types(position.ddl(self.order))]

    def columns(self, *more: str, values: Mapping[str, str] = MappingProxyType({})) -> str:
        """SQL: the columns of a stored event, then `more`, listed. `values` are SQL for those that are computed (by name)."""
        computed = {name: sql for name, sql in values.items() if sql not in (name, quoted(name))}
        return listed([*(f"{computed[name]} AS {quoted(name)}" if name in computed else quoted(name) for name, _ in self.stored), *more])

    def event(self, value: str = POSITION) -> str:
        """SQL: what identifies an event at its source."""
        return position.event(value, self.order)

    def old_key(self, column: str) -> str:
        """SQL: the key columns, listed, out of a column with a key as text."""
        return listed([f"{sql} AS {quoted(name)}" for name, sql in zip(self.schema.key, key_columns(column, key_types(self.schema)))])

    def digest(self) -> str:
        """SQL: a number that changes when anything of a stored event changes."""
        computed = ("__shown", "__start_us", "__end_us", "__begun_us", "__is_deleted", "__start_position", "__end_position", "__previous_key")
        return _text_hash([*(quoted(name) for name in self.schema.values), OP, FROM, MOVED_TO, "__link", *computed])

    @property
    def _along(self) -> str:
        return f"(PARTITION BY {self.keys} ORDER BY _position)"

    @property
    def _until(self) -> str:
        return f"(PARTITION BY {self.keys} ORDER BY _position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"

    # the query ----------------------------------------------------------------------------------------------------

    def query(self, steps: Steps, frames: Collection[str]) -> str:
        """Return the query for the stored events after a batch. `frames` are those that there are, of:

        `changes`; `keys` with `__first`, and `stored` events of these keys; with `steps.follows` instead of these two the `open` parts and the
        `newer` ones of the Delta; or alone `rows`, the result of `once`.
        """
        source = [("once", f"SELECT {_one_task(steps)}* FROM {{rows}}")] if "rows" in frames else self._once(steps, frames)
        text = _with([*source, *self._versions(steps, "__carried" if "rows" in frames else "")])
        if steps.follows:
            return f"{text}\nSELECT {self.columns(values=self._computed)} FROM runs"
        same = f"coalesce(__digest = {self.digest()}, false) AS __same"
        return f"{text}\nSELECT *, {same}\nFROM (SELECT {self.columns(*_TAIL, values=self._computed)} FROM runs)"

    def once(self, steps: Steps, frames: Collection[str]) -> str:
        """Return the query for the events of a batch and the stored ones of its keys, each once, with what stored ones got with a key change."""
        values = ", ".join(quoted(name) for name in steps.partial)
        moved = f"{_LACKS_MOVED} AND __origin >= {OPEN}"
        return f"{_with(self._once(steps, frames))}\nSELECT *, CASE WHEN {moved} THEN struct({values}) END AS __carried FROM once"

    def carry(self, steps: Steps) -> str:
        """Return the query for `{rows}` with the values in `__carried` that the old key had at the key change, if its events are there."""
        values = ", ".join(quoted(name) for name in steps.partial)
        filled = _with([("once", f"SELECT {_one_task(steps)}* FROM {{rows}}"), *self._filled(steps, "__carried")])
        return f"""{filled},
moved AS (SELECT {self.keys}, _position, _from AS __k FROM filled WHERE {_LACKS_MOVED}),
sources AS (SELECT {row_key(self.schema)} AS __k, _position AS __at, CASE WHEN _op <> 't' THEN struct({values}) END AS __v FROM filled),
taken AS (SELECT {self.keys}, _position, max_by(__v, __at) AS __taken FROM moved JOIN sources USING (__k) WHERE __at < _position
  GROUP BY {self.keys}, _position)
SELECT {self.columns(*_TAIL, "__frozen")}, coalesce(__taken, __carried) AS __carried
FROM once LEFT JOIN taken USING ({self.keys}, _position)"""

    # its parts, from top to bottom --------------------------------------------------------------------------------

    def _once(self, steps: Steps, frames: Collection[str]) -> list[tuple[str, str]]:
        """Return named queries; `once` is the last."""
        columns, keys, one = self.columns(*_TAIL), self.keys, _one_task(steps)
        rows = [self._changed(steps)]
        if steps.moves:
            rows.append(self._left("{changes}", "_from IS NOT NULL", steps.time))
        if steps.follows:
            last = {name: origin for name, origin in (("open", OPEN), ("newer", DELTA)) if name in frames}
            for name, origin in last.items():
                exchanged = ", REPARTITION(1)" if steps.wide and name == "open" else ""
                hint = f"/*+ BROADCAST(k){exchanged} */ " if steps.small else ""
                rows.append(
                    f"SELECT {hint}{self.columns(f'{origin} AS __origin', *_NO_PART)}\n"
                    f"FROM {{{name}}} LEFT SEMI JOIN (SELECT {keys} FROM {{changes}}) k USING ({keys})"
                )
        if "stored" in frames:
            rows.append(f"SELECT {columns} FROM {{stored}}")
        if steps.truncates:
            rows.append(self._truncated(steps.truncates))
        union = "\nUNION ALL\n".join(rows)
        made = [("rows", f"SELECT {one}* FROM (\n{union})" if one else union)]
        if steps.partial:
            made += self._linked()
        if "keys" in frames:
            first = f"SELECT {one}{keys}, __first FROM {{keys}}"
            made.append(("placed", f"SELECT {columns}, __first FROM {made[-1][0]} LEFT JOIN ({first}) USING ({keys})"))
        stays = f"__origin >= {OPEN}" if steps.frozen else "false"
        frozen = f"coalesce({stays} AND {self.event()} < __first, {stays})" if "keys" in frames else stays
        made.append(("once", self._deduplicated(made[-1][0], frozen) if steps.repeated else f"SELECT *, {frozen} AS __frozen FROM {made[-1][0]}"))
        if {"open", "newer"} <= {*frames}:
            # of the two last events that a key may have, that of the Delta counts
            newer = f"lead(__frozen) OVER (PARTITION BY {keys} ORDER BY _position, __origin) AS __newer"
            made[-1] = ("twice", made[-1][1])
            made.append(("once", f"SELECT * FROM (SELECT *, {newer} FROM twice) WHERE NOT (__frozen AND coalesce(__newer, false))"))
        return made

    def _changed(self, steps: Steps) -> str:
        """SQL: an event for each change."""
        waits = "_op = 'c' AND size(_missing) > 0 AND _from IS NULL AND _link IS NOT NULL"
        state = {
            OP: "CASE WHEN _op = 'd' THEN 'd' ELSE 'u' END",
            VERSION: unless("_op = ''", self.version),
            POSITION: POSITION,
            "__time_us": steps.time,
            "__missing": "array_sort(coalesce(_missing, array()))",
            FROM: f"CASE WHEN {waits} THEN '{LINK_MARK}' || _link ELSE _from END",
            MOVED_TO: f"CASE WHEN _op = 'd' THEN '{LINK_MARK}' || _link END",
            "__link": LINK,
        }
        return self._event("{changes} WHERE _op <> 't'", EVENT, state, {name: quoted(name) for name in self.schema.names})

    def _left(self, rows: str, where: str, time: str) -> str:
        """SQL: a delete for each key that a row has left. `rows`: the row under its new key, with FROM."""
        old = dict(zip(self.schema.key, key_columns(FROM, key_types(self.schema))))
        state = {OP: "'d'", POSITION: POSITION, "__time_us": time, MOVED_TO: row_key(self.schema)}
        return self._event(f"{rows} WHERE {where}", MADE, state, old)

    def _truncated(self, truncates: Sequence[Truncated]) -> str:
        """SQL: the truncates as they meet each key."""
        structs = ", ".join(f"named_struct('__p', {position.fixed(one.position, self.order)}, '__t', {one.time}L)" for one in truncates)
        met = f"(SELECT *, inline(array({structs})) FROM {{keys}}) WHERE {self.event('__p')} >= __first"
        keys = {name: quoted(name) for name in self.schema.key}
        return self._event(met, MADE, {OP: "'t'", POSITION: "__p", "__time_us": "__t"}, keys)

    def seeds(self, time: str) -> str:
        """Return the query for the rows that a table has when its history begins, out of `{table}`. `time` is SQL for microseconds since 1970."""
        state = {OP: "CASE WHEN _gone IS NULL THEN 'u' ELSE 'd' END", VERSION: VERSION, POSITION: POSITION, "__time_us": time}
        rows = "(SELECT *, coalesce(_gone, _at) AS _position FROM {table})"
        return self._event(rows, MADE, state, {name: quoted(name) for name in self.schema.names})

    def _event(self, rows: str, origin: int, state: Mapping[str, str], values: Mapping[str, str]) -> str:
        """SQL: stored events out of SQL for their state columns and stored columns (name → SQL); all others are null."""
        given = {VERSION: f"CAST({self.version} AS BIGINT)", "__missing": "CAST(array() AS ARRAY<STRING>)", **state, **values}
        columns = {name: given.get(name) or null(types.parse(kind)) for name, kind in self.stored}
        return f"SELECT {self.columns(f'{origin} AS __origin', *_NO_PART, values=columns)}\nFROM {rows}"

    def _linked(self) -> list[tuple[str, str]]:
        """SQL: FROM of creates that wait for the delete of the same transaction and LSN, and a delete for each such old key."""
        key = row_key(self.schema)
        halves = f"""SELECT __link, min({key}) AS __left FROM rows
  WHERE _op = 'd' AND __link IS NOT NULL GROUP BY __link HAVING count(DISTINCT {key}) = 1"""
        waits = f"coalesce(_op = 'u' AND startswith(_from, '{LINK_MARK}') AND __left <> {key}, false)"
        columns = self.columns(*_TAIL, values={FROM: f"CASE WHEN {waits} THEN __left ELSE _from END"})
        linked = f"SELECT {columns}, {waits} AS __waits FROM rows LEFT JOIN halves USING (__link)"
        ends = f"SELECT {self.columns(*_TAIL)} FROM linked\nUNION ALL\n{self._left('linked', '__waits', '__time_us')}"
        return [("halves", halves), ("linked", linked), ("ended", ends)]

    def _deduplicated(self, rows: str, frozen: str) -> str:
        """SQL: each event once.

        A stored event stays as it is. Where several events share one Position (ties), each stands at its latest delivery, as in the table.
        """
        carried = [f"CASE WHEN _op = 'u' AND NOT array_contains(__missing, {literal(name)}) THEN {quoted(name)} END" for name in self.schema.values]
        content = _text_hash(["_op", *(f"{value} AS `v{at}`" for at, value in enumerate(carried))])
        place = f"(PARTITION BY {self.keys}, __e)"
        same = f"PARTITION BY {self.keys}, __e, __c"
        best = f"({same} ORDER BY CASE WHEN __tied THEN _position END DESC, __origin DESC, _position)"
        whole = f"({same} ORDER BY _position ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
        moves = {
            FROM: f"coalesce(max(CASE WHEN {HAS_OLD_KEY} THEN _from END) OVER {whole}, _from)",
            MOVED_TO: f"coalesce(max(CASE WHEN {MOVED} THEN _moved_to END) OVER {whole}, _moved_to)",
        }
        return f"""SELECT {self.columns(*_TAIL, "__frozen")}
FROM (SELECT {self.columns(*_TAIL, values=moves)},
  {frozen} AS __frozen, row_number() OVER {best} AS __rank
FROM (SELECT *, min(__c) OVER {place} <> max(__c) OVER {place} AS __tied
FROM (SELECT *, {content} AS __c, {self.event()} AS __e
FROM {rows}))) WHERE __rank = 1"""

    def _filled(self, steps: Steps, carried: str) -> list[tuple[str, str]]:
        """SQL: values that events do not carry come from the event before, unless a delete or truncate lies between.

        A delete keeps the values that it ended, for a create under another key.
        """
        filled = {}
        for name in steps.partial:
            has = f"(__frozen OR (_op = 'u' AND NOT array_contains(__missing, {literal(name)})))"
            came = f" WHEN _op = 'u' THEN __carried.{quoted(name)}" if carried else ""
            ends = f"_op = 't' OR {has} OR (_op = 'u' AND (__before IN ('d', 't')" + (" OR __carried IS NOT NULL))" if carried else "))")
            value = f"CASE WHEN _op = 't' THEN NULL WHEN {has} THEN {quoted(name)}{came} END"
            filled[name] = f"(last(CASE WHEN {ends} THEN struct({value} AS v) END, true) OVER {self._until}).v"
        columns = self.columns(*_TAIL, "__frozen", *([carried] if carried else []), values=filled)
        before = f"SELECT *, lag(_op) OVER {self._along} AS __before FROM once"
        return [("ordered", before), ("filled", f"SELECT {columns} FROM ordered")]

    def _versions(self, steps: Steps, carried: str) -> list[tuple[str, str]]:
        """SQL: what an event has from the events before and after it: `__rest`, `__b`, `__n`, `__run`, `__next`."""
        made = self._filled(steps, carried) if steps.partial else []
        tracked = _text_hash([quoted(name) for name in self.tracked])
        # a delete keeps the values that it ended; a truncate has none, not even defaults of columns that came later
        none = {name: f"CASE WHEN _op <> 't' THEN {quoted(name)} END" for name in self.schema.defaults}
        whole = ", ".join(f"{none.get(name, quoted(name))} AS v{at}" for at, name in enumerate(self.schema.values)) or "1 AS v0"
        rest = f"last(CASE WHEN _op <> 'd' OR __frozen THEN struct({whole}) END, true) OVER {self._until} AS __rest"
        begun = f"max(CASE WHEN __frozen THEN __begun_us ELSE __time_us END) OVER {self._until} AS __b"
        begins = f"(_op = 'u' AND (__l IS NULL OR __l.o <> 'u' OR __l.t <> __t OR {HAS_OLD_KEY})) AS __n"
        stored = "struct(__start_us AS us, __start_position AS at, __previous_key AS k)"
        own = f"struct(__b AS us, _position AS at, CASE WHEN {HAS_OLD_KEY} THEN _from END AS k)"
        run = f"last(CASE WHEN __frozen THEN {stored} WHEN __n THEN {own} END, true) OVER {self._until} AS __run"
        following = f"lead(struct(_op AS o, _position AS at, __b AS us, __n AS n)) OVER {self._along} AS __next"
        return [
            *made,
            ("hashed", f"SELECT *, CASE WHEN _op = 'u' THEN {tracked} END AS __t FROM {made[-1][0] if made else 'once'}"),
            ("sequence", f"SELECT *, {rest},\n  {begun},\n  lag(struct(_op AS o, __t AS t)) OVER {self._along} AS __l FROM hashed"),
            ("begun", f"SELECT *, {begins} FROM sequence"),
            ("runs", f"SELECT *, {run},\n  {following} FROM begun"),
        ]

    @property
    def _computed(self) -> dict[str, str]:
        """SQL for the columns of a stored event that follow from its neighbours."""
        start = "CASE WHEN _op = 'u' THEN __run.us ELSE __b END"
        shown = "_op = 'u' AND (__next IS NULL OR __next.o <> 'u' OR __next.n)"
        return {
            **{name: f"__rest.v{at}" for at, name in enumerate(self.schema.values)},
            "__begun_us": "__b",
            "__shown": f"({shown})",
            "__start_us": start,
            "__end_us": f"coalesce(__next.us, {FOREVER}L)",
            "__start_time": f"timestamp_micros({start})",
            "__end_time": "timestamp_micros(__next.us)",
            "__is_deleted": "coalesce(__next.o <> 'u', false)",
            "__start_position": "CASE WHEN _op = 'u' THEN __run.at ELSE _position END",
            "__end_position": "__next.at",
            "__previous_key": "CASE WHEN _op = 'u' THEN __run.k END",
        }


_TAIL = ("__origin", "__part", "__digest")

_NO_PART = ("CAST(NULL AS STRING) AS __part", "CAST(NULL AS BIGINT) AS __digest")

_LACKS_MOVED = f"_op = 'u' AND {HAS_OLD_KEY} AND size(__missing) > 0 AND NOT __frozen"
"""SQL: whether a key change lacks values of its row."""


def _one_task(steps: Steps) -> str:
    return "/*+ COALESCE(1) */ " if steps.small else ""


def _with(queries: Sequence[tuple[str, str]]) -> str:
    return "WITH " + ",\n".join(f"{name} AS ({text})" for name, text in queries)


def _text_hash(columns: Sequence[str]) -> str:
    """SQL: a number for these values. It hashes their text, because Spark's own hash skips nulls: (1, null) and (null, 1) would be equal."""
    return f"xxhash64(to_json(struct({', '.join(columns)}), {EXACT_JSON}))" if columns else "0L"
