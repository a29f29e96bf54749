"""Versions: the events of each key make the versions of its history. Pure steps; `parts.py` reads and writes, `commit.py` runs the steps.

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

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.catalog.history_views import state_types
from compactor.core.model import types
from compactor.core.model.history import FOREVER, Truncated
from compactor.core.model.schema import Schema
from compactor.spark.columns import FROM, LINK, LINK_MARK, MISSING, OP, POSITION, TIME, VERSION
from compactor.spark.keys import key_columns, key_types, row_key
from compactor.spark.rows import position
from compactor.spark.sql import EXACT_JSON, literal, named, null, quoted

EVENT, MADE, OPEN, DELTA, CLOSED = range(5)

MOVED_TO = "_moved_to"
"""string: of a delete, the key under which its row lives on, or LINK_MARK + LINK."""

HAS_OLD_KEY = f"(_from IS NOT NULL AND NOT startswith(_from, '{LINK_MARK}'))"
"""SQL: whether the key that a row had before is known."""

MOVED = f"(_op = 'd' AND _moved_to IS NOT NULL AND NOT startswith(_moved_to, '{LINK_MARK}'))"
"""SQL: whether the row of a delete is known to live on under another key."""


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
    def keys(self) -> list[str]:
        """Return the quoted key columns."""
        return [quoted(name) for name in self.schema.key]

    @property
    def stored(self) -> list[tuple[str, str]]:
        """Return name and type of every column of a stored event."""
        return [*((field.name, field.type) for field in self.schema.fields), *state_types(position.ddl(self.order))]

    @property
    def key_text(self) -> str:
        """SQL: the key of a row as text."""
        return row_key(self.schema)

    def event(self, value: str = POSITION) -> str:
        """SQL: what identifies an event at its source."""
        return position.event(value, self.order)

    @property
    def frozen(self) -> str:
        """SQL: whether an event is stored and lies before the first new one of its key."""
        return f"coalesce(__origin >= {OPEN} AND {self.event()} < __first, __origin >= {OPEN})"

    @property
    def _along(self) -> str:
        return f"PARTITION BY {', '.join(self.keys)} ORDER BY _position"

    @property
    def _until(self) -> str:
        return f"({self._along} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"

    # making rows --------------------------------------------------------------------------------------------------

    def events(self, changes: DataFrame) -> DataFrame:
        """Return Changes (without truncates, with TIME) as rows."""
        arrived = "_op = 'c' AND size(_missing) > 0 AND _from IS NULL AND _link IS NOT NULL"
        return self._rows(
            changes.selectExpr(*[quoted(name) for name in changes.columns if name != MISSING], "coalesce(_missing, array()) AS _missing"),
            EVENT,
            {
                OP: "CASE WHEN _op = 'd' THEN 'd' ELSE 'u' END",
                POSITION: POSITION,
                "__time_us": TIME,
                "__missing": "array_sort(_missing)",
                FROM: f"CASE WHEN {arrived} THEN '{LINK_MARK}' || _link ELSE _from END",
                MOVED_TO: f"CASE WHEN _op = 'd' THEN '{LINK_MARK}' || _link END",
                "__link": LINK,
            },
            {name: quoted(name) for name in self.schema.names},
        )

    def ends(self, moved: DataFrame) -> DataFrame:
        """Return a delete for each key that a row has left."""
        old = dict(zip(self.schema.key, key_columns(FROM, key_types(self.schema))))
        return self._rows(
            moved.where(HAS_OLD_KEY),
            MADE,
            {OP: "'d'", POSITION: POSITION, "__time_us": "__time_us", MOVED_TO: self.key_text},
            old,
        )

    def truncated(self, keys: DataFrame, truncates: Sequence[Truncated]) -> DataFrame:
        """Return the truncates as they meet each of these keys (with `__first`)."""
        structs = ", ".join(f"named_struct('__p', {position.fixed(one.position, self.order)}, '__t', {one.time}L)" for one in truncates)
        met = keys.selectExpr("*", f"inline(array({structs}))").where(f"{self.event('__p')} >= __first")
        return self._rows(met, MADE, {OP: "'t'", POSITION: "__p", "__time_us": "__t"}, {name: quoted(name) for name in self.schema.key})

    def seeds(self, states: DataFrame, time: str) -> DataFrame:
        """Return the rows that a table has when its history begins, out of stored rows with POSITION. `time` is SQL for microseconds since 1970."""
        return self._rows(
            states,
            MADE,
            {OP: "CASE WHEN _gone IS NULL THEN 'u' ELSE 'd' END", VERSION: VERSION, POSITION: POSITION, "__time_us": time},
            {name: quoted(name) for name in self.schema.names},
        )

    def _rows(self, rows: DataFrame, origin: int, state: dict[str, str], values: dict[str, str]) -> DataFrame:
        """Return stored events out of SQL for their state columns and stored columns (name → SQL); all others are null."""
        given = {VERSION: f"CAST({self.version} AS BIGINT)", "__missing": "CAST(array() AS ARRAY<STRING>)", **state}
        payload = [f"{values.get(field.name) or null(types.parse(field.type))} AS {quoted(field.name)}" for field in self.schema.fields]
        columns = [f"{given.get(name) or null(types.parse(kind))} AS {name}" for name, kind in state_types(position.ddl(self.order))]
        return rows.selectExpr(*payload, *columns, f"{origin} AS __origin", "CAST(NULL AS STRING) AS __part", "CAST(NULL AS BIGINT) AS __digest")

    def digest(self) -> str:
        """SQL: a number that changes when anything of a stored event changes."""
        computed = ("__shown", "__start_us", "__end_us", "__begun_us", "__is_deleted", "__start_position", "__end_position", "__previous_key")
        columns = [*(quoted(name) for name in self.schema.values), OP, FROM, MOVED_TO, "__link", *computed]
        return _text_hash(columns)

    # steps --------------------------------------------------------------------------------------------------------

    def link(self, rows: DataFrame) -> DataFrame:
        """Return rows with FROM filled for creates that wait for the delete of the same transaction and LSN, and a delete for each such old key."""
        left = rows.where("_op = 'd' AND __link IS NOT NULL").selectExpr("__link", f"{self.key_text} AS __left").groupBy("__link")
        halves = left.agg(named("min(__left)", "__left"), named("count(DISTINCT __left)", "__n")).where("__n = 1").drop("__n")
        joined = rows.join(halves, ["__link"], "left")
        waits = f"_op = 'u' AND startswith(_from, '{LINK_MARK}') AND __left <> {self.key_text}"
        columns = [f"CASE WHEN {waits} THEN __left ELSE _from END AS _from" if name == FROM else quoted(name) for name in rows.columns]
        resolved = joined.selectExpr(*columns, f"coalesce({waits}, false) AS __linked")
        ends = self.ends(resolved.where("__linked"))
        return resolved.drop("__linked").unionByName(ends, allowMissingColumns=True)

    def deduplicate(self, rows: DataFrame) -> DataFrame:
        """Return each event once.

        A stored event stays as it is. Where several events share one Position (ties), each stands at its latest delivery, as in the table.
        """
        values = [
            f"CASE WHEN _op <> 'u' OR array_contains(__missing, {literal(name)}) THEN NULL ELSE {quoted(name)} END" for name in self.schema.values
        ]
        named_values = [f"{value} AS `v{at}`" for at, value in enumerate(values)]
        events = rows.selectExpr("*", f"{_text_hash(['_op', *named_values])} AS __c", f"{self.event()} AS __e")
        place = f"(PARTITION BY {', '.join(self.keys)}, __e)"
        events = events.selectExpr("*", f"min(__c) OVER {place} <> max(__c) OVER {place} AS __tied")
        same = f"PARTITION BY {', '.join(self.keys)}, __e, __c"
        best = f"({same} ORDER BY CASE WHEN __tied THEN _position END DESC, __origin DESC, _position)"
        whole = f"({same} ORDER BY _position ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
        columns = [quoted(name) for name in rows.columns if name not in (FROM, MOVED_TO)]
        events = events.selectExpr(
            *columns,
            f"coalesce(max(CASE WHEN {HAS_OLD_KEY} THEN _from END) OVER {whole}, _from) AS _from",
            f"coalesce(max(CASE WHEN {MOVED} THEN _moved_to END) OVER {whole}, _moved_to) AS _moved_to",
            f"row_number() OVER {best} AS __rank",
        )
        return events.where("__rank = 1").drop("__rank")

    def fill(self, rows: DataFrame, partial: Sequence[str]) -> DataFrame:
        """Return rows in which values that events do not carry come from the events before them.

        A delete keeps the values that it ended, for a create under another key. `partial` names the columns that some events do not carry.
        """
        kept = rows.columns
        rows = rows.selectExpr("*", f"lag(_op) OVER ({self._along}) AS __before")
        begins = "CASE WHEN _op = 't' OR (_op = 'u' AND __before IN ('d', 't')) THEN 1 ELSE 0 END"
        rows = rows.selectExpr("*", f"sum({begins}) OVER {self._until} AS __life")
        life = f"(PARTITION BY {', '.join(self.keys)}, __life ORDER BY _position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        carries = "((__frozen AND _op <> 't') OR _op = 'u')"
        rest = [name for name in self.schema.values if name not in partial]
        whole = ", ".join(f"{quoted(name)} AS v{at}" for at, name in enumerate(rest)) or "1 AS v0"
        parts = [f"last(CASE WHEN {carries} THEN struct({whole}) END, true) OVER {life} AS __rest"]
        for at, name in enumerate(partial):
            missing = f"array_contains(__missing, {literal(name)}) AND NOT __frozen"
            arrived = f"WHEN _op = 'u' AND {missing} AND __carried IS NOT NULL THEN struct(__carried.{quoted(name)} AS v)"
            carried = arrived if "__carried" in rows.columns else ""
            own = f"CASE WHEN {carries} AND NOT ({missing}) THEN struct({quoted(name)} AS v) {carried} END"
            parts.append(f"last({own}, true) OVER {life} AS __p{at}")
        rows = rows.selectExpr("*", *parts)
        values = {name: f"__rest.v{at}" for at, name in enumerate(rest)} | {name: f"__p{at}.v" for at, name in enumerate(partial)}
        return rows.selectExpr(*[f"{values[name]} AS {quoted(name)}" if name in values else quoted(name) for name in kept])

    def with_stored_carried(self, rows: DataFrame, partial: Sequence[str]) -> DataFrame:
        """Return rows with `__carried`: the values that stored events already got with their key change."""
        values = ", ".join(f"{quoted(name)} AS {quoted(name)}" for name in partial)
        moved = f"_op = 'u' AND {HAS_OLD_KEY} AND size(__missing) > 0 AND __origin >= {OPEN} AND NOT __frozen"
        return rows.selectExpr("*", f"CASE WHEN {moved} THEN struct({values}) END AS __carried")

    def carry(self, rows: DataFrame, filled: DataFrame, partial: Sequence[str]) -> DataFrame:
        """Return `rows` with `__carried`: the values that the old key had at the key change, where `filled` has the old key."""
        moves = filled.where(f"_op = 'u' AND {HAS_OLD_KEY} AND size(__missing) > 0 AND NOT __frozen")
        moves = moves.selectExpr(*self.keys, POSITION, "_from AS __k", "_position AS __p")
        values = ", ".join(f"{quoted(name)} AS {quoted(name)}" for name in partial)
        sources = filled.selectExpr(f"{self.key_text} AS __k", "_position AS __at", f"CASE WHEN _op <> 't' THEN struct({values}) END AS __v")
        pairs = moves.join(sources, ["__k"], "inner").where("__at < __p")
        taken = pairs.groupBy(*self.keys, POSITION).agg(named("max_by(__v, __at)", "__taken"))
        joined = rows.join(taken, [*self.schema.key, POSITION], "left")
        columns = [quoted(name) for name in rows.columns if name != "__carried"]
        return joined.selectExpr(*columns, "coalesce(__taken, __carried) AS __carried")

    def versions(self, rows: DataFrame) -> DataFrame:
        """Return filled rows with the columns that depend on their neighbours: what is shown, from when to when, and `__same`."""
        made = self._intervals(rows.selectExpr("*", self._content).selectExpr("*", *self._before), ["__origin", "__part", "__digest"])
        return made.selectExpr("*", f"coalesce(__digest = {self.digest()}, false) AS __same")

    def together(self, events: DataFrame, last: Sequence[DataFrame]) -> DataFrame:
        """Return the events of a batch and the stored last events of its keys, for `following`."""
        columns = [*(quoted(name) for name, _ in self.stored), "__origin"]
        rows = events.selectExpr(*columns, "false AS __frozen")
        for stored in last:
            rows = rows.unionByName(stored.selectExpr(*columns, "true AS __frozen"))
        return rows

    def following(self, rows: DataFrame, replaced: bool) -> DataFrame:
        """Return the versions of stored last events and of new events that all come after them and carry all values. No event is there twice.

        The result is the same as that of `fill` and `versions`, in one sort and two windows. `replaced`: a key may have two last events, and that of
        the Delta counts.
        """
        if replaced:
            newer = f"lead(__frozen) OVER (PARTITION BY {', '.join(self.keys)} ORDER BY _position, __origin) AS __newer"
            rows = rows.selectExpr("*", newer).where("NOT (__frozen AND coalesce(__newer, false))").drop("__newer")
        # a delete keeps the values that it ended; a truncate has none, not even defaults of columns that came later
        none = {name: f"CASE WHEN _op <> 't' THEN {quoted(name)} END" for name in self.schema.defaults}
        whole = ", ".join(f"{none.get(name, quoted(name))} AS v{at}" for at, name in enumerate(self.schema.values)) or "1 AS v0"
        rest = f"last(CASE WHEN _op <> 'd' OR __frozen THEN struct({whole}) END, true) OVER {self._until} AS __rest"
        rows = rows.selectExpr("*", self._content).selectExpr("*", *self._before, rest)
        values = {name: f"__rest.v{at} AS {quoted(name)}" for at, name in enumerate(self.schema.values)}
        kept = [name for name in rows.columns if name not in (*self.schema.values, "__rest")]
        return self._intervals(rows.selectExpr(*values.values(), *[quoted(name) for name in kept]), ["__origin"])

    @property
    def _content(self) -> str:
        return f"CASE WHEN _op = 'u' THEN {_text_hash([quoted(name) for name in self.tracked])} END AS __t"

    @property
    def _before(self) -> tuple[str, str]:
        begun = f"max(CASE WHEN __frozen THEN __begun_us ELSE __time_us END) OVER {self._until} AS __b"
        return begun, f"lag(struct(_op AS o, __t AS t)) OVER ({self._along}) AS __l"

    def _intervals(self, rows: DataFrame, kept: Sequence[str]) -> DataFrame:
        """Return rows with `_content` and `_before` as stored events, with the columns `kept`."""
        begins = f"(_op = 'u' AND (__l IS NULL OR __l.o <> 'u' OR __l.t <> __t OR {HAS_OLD_KEY}))"
        rows = rows.selectExpr("*", f"{begins} AS __n")
        stored = "struct(__start_us AS us, __start_position AS at, __previous_key AS k)"
        own = f"struct(__b AS us, _position AS at, CASE WHEN {HAS_OLD_KEY} THEN _from END AS k)"
        rows = rows.selectExpr(
            "*",
            f"last(CASE WHEN __frozen THEN {stored} WHEN __n THEN {own} END, true) OVER {self._until} AS __run",
            f"lead(struct(_op AS o, _position AS at, __b AS us, __n AS n)) OVER ({self._along}) AS __next",
        )
        start = "CASE WHEN _op = 'u' THEN __run.us ELSE __b END"
        shown = "_op = 'u' AND (__next IS NULL OR __next.o <> 'u' OR __next.n)"
        computed = {
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
        columns = [f"{computed[name]} AS {name}" if name in computed else quoted(name) for name, _ in self.stored]
        return rows.selectExpr(*columns, *kept)


def _text_hash(columns: Sequence[str]) -> str:
    """SQL: a number for these values. It hashes their text, because Spark's own hash skips nulls: (1, null) and (null, 1) would be equal."""
    return f"xxhash64(to_json(struct({', '.join(columns)}), {EXACT_JSON}))" if columns else "0L"
