"""Tables without key: the key is `_row_id`, the identity of the event that brought the row.

Two steps. `identify` gives every decoded record its identity. It turns an update into a removal (op `x`, the before image) and an insert, and a
delete into a removal. `match_removals` lets every removal take one row before it with equal content. A removal without such a row waits for one,
as a tombstone does. Rows with equal content are interchangeable, so it makes no difference which of them goes: the lowest does.

A stored removal has `_moved` = 'x'. Once it took its row, `_moved` is 'found', and so is that of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from pyspark.sql import DataFrame

from compactor.core.model.position import OFFSETS, latest, sort_key
from compactor.core.model.schema import Field, Schema
from compactor.core.sources.kafka_files import SINK
from compactor.spark.columns import AFTER, BEFORE, BLOCK, EVENT, GONE, MOVED, OP, ROW, SOURCE, TEXT, UNCHANGED, VERSION
from compactor.spark.decode.frame import Frame
from compactor.spark.rows import position
from compactor.spark.rows.reduce import NEWEST, REMOVAL
from compactor.spark.sql import EXACT_JSON, literal, quoted

MATCHED = "found"
"""The MOVED of a removal that took its row, and of the row that it took."""
COMPARISONS_MAX = 3
"""Comparisons by fewer than all columns within one plan. Each is a step of the plan, and Spark cannot send plans of any depth."""
LIVE, TAKEN, WAITING, TOOK = "live", "taken", "waiting", "took"
"""What a state is to others of its content: a row, one that a removal took, a removal that waits for its row, and one that took it."""


def identify(frame: Frame, order: position.Order, contents: dict[str, str], shard: str, container: str) -> Frame:
    """Return the frame with `_identity` (key text) and ORIGIN; updates and deletes become removals.

    `order` are the order columns. `shard` is SQL for the record's shard, or "". `container` is that of the table.
    `contents` maps each file to what identifies its lines; it is read only where neither source nor sink numbers events.
    """
    rows = frame.rows
    has_order = "total_order" in dict(rows.dtypes)[SOURCE]
    # PostgreSQL's connector may send a change again with another sequence; wal2json's format 1 has no other place
    place = "coalesce(_source.lsn, _source.sequence)"
    event = f"concat_ws(':', 'e', _position.epoch, {place}, _source.txId, _source.total_order)" if has_order else "NULL"
    # MySQL and SQL Server number the events of a transaction too, but not the transactions
    has_number = "_source.total_order IS NOT NULL AND coalesce(_source.sequence, _source.lsn, _source.txId) IS NOT NULL" if has_order else "false"
    if any(name in OFFSETS for name, _ in order):
        place = "concat_ws(':', 'o', _position.epoch, _partition, _offset)"
    else:
        # nothing numbers the event: the same line of the same content is the same event
        content = f"try_element_at(map({', '.join(f'{literal(file)}, {literal(name)}' for file, name in contents.items())}), _file)"
        along = ", ".join(name for name in (BLOCK, ROW, EVENT) if name in rows.columns)
        rows = rows.selectExpr("*", f"row_number() OVER (PARTITION BY _file ORDER BY {along}) AS _line")
        # records of several schemas are frames of their own, each with a first line
        place = f"'f', {content}, _partition, coalesce(_offset, _line)"
        if container != "value" or any(SINK in name for name in contents.values()):
            # a topic that is created anew gives the same names to other records; records without offset are numbered in each schema's frame
            record = TEXT if TEXT in rows.columns else "to_json(struct(_op, _before, _after))"
            place += f", CASE WHEN contains({content}, '{SINK}') {'OR _offset IS NULL ' if container != 'value' else ''}THEN xxhash64({record}) END"
        place = f"concat_ws(':', {place})"
    identity = f"CASE WHEN {has_number} THEN {event} {_of_log(rows)}ELSE {place} END"
    if "change_seq:" in dict(rows.dtypes)[SOURCE]:
        # AWS DMS gives a change that it sends again the same number
        numbered = "_source.phase = 1 AND _source.change_seq IS NOT NULL"
        identity = f"CASE WHEN {numbered} THEN concat_ws(':', 'c', _position.epoch, _source.change_seq) ELSE {identity} END"
    rows = rows.selectExpr("*", f"{f'concat({shard}, {chr(39)}:{chr(39)}, {identity})' if shard else identity} AS _id")
    split = rows.selectExpr(
        "*", f"explode(CASE WHEN _op = 'u' THEN array('{REMOVAL}', 'c') WHEN _op = 'd' THEN array('{REMOVAL}') ELSE array(_op) END) AS _k"
    )
    keep = [name for name in frame.rows.columns if name not in (OP, AFTER)]
    out = split.selectExpr(
        *keep,
        "_k AS _op",
        f"CASE WHEN _k = '{REMOVAL}' THEN _before ELSE _after END AS _after",
        f"CASE WHEN _k = '{REMOVAL}' THEN concat(_id, ':x') ELSE _id END AS _identity",
        f"CASE WHEN _k = '{REMOVAL}' AND _op = 'u' THEN 1 ELSE 0 END AS _origin",
    )
    return Frame(out, frame.images, frame.writers, members=frame.members)


def with_digest(frame: Frame) -> Frame:
    """Return a decoded frame with `_content`, a digest of its images before anything depends on what other records of the batch show.

    Only records with MySQL's or SQL Server's places need it: a server that takes over, and MySQL's compressed transactions, use a place again, for
    another change.
    """
    if frame.omits or frame.order_names.columns_first or "change_lsn:" not in dict(frame.rows.dtypes)[SOURCE]:
        return frame
    images = (image if frame.images is None else f"to_json(struct({image} AS v))" for image in (BEFORE, AFTER))
    return replace(frame, rows=frame.rows.selectExpr("*", f"xxhash64(_op, {', '.join(images)}) AS _content"))


def _of_log(rows: DataFrame) -> str:
    """SQL for a CASE: the identity of a change by its place in MySQL's or SQL Server's log. Rows of a snapshot have none.

    Not by `total_order`: after a restart within a transaction MySQL's connector sends the rest again, and counts from 1.
    """
    if "_content" not in rows.columns:
        return ""
    change = "_op <> 'r' AND coalesce(lower(_source.snapshot), '') IN ('', 'false')"
    places = {
        "'mysql', 'mariadb'": ("nullif(_source.file, '')", "_source.pos", "_source.row"),
        "'sqlserver'": ("_source.commit_lsn", "_source.change_lsn", "_source.event_serial_no"),
    }
    out = ""
    for connectors, members in places.items():
        whole = " AND ".join(f"{member} IS NOT NULL" for member in members)
        place = f"concat_ws(':', 'l', _position.epoch, {', '.join(members)}, _content)"
        out += f"WHEN _source.connector IN ({connectors}) AND {change} AND {whole} THEN {place} "
    return out


def content_digest(schema: Schema, left_out: Collection[str] = ()) -> str:
    """SQL: a digest of all values of a row except its identity and these columns."""
    members = ", ".join(quoted(name) for name in schema.values if name not in left_out)
    return f"sha2(to_json(struct({members}), {EXACT_JSON}), 256)" if members else "''"


def is_waiting() -> str:
    """SQL: whether a state is a removal that still waits for its row."""
    return f"coalesce(_gone IS NOT NULL AND _moved = '{REMOVAL}', false)"


def is_matched() -> str:
    """SQL: whether a state is a removal that took its row, or the row."""
    return f"coalesce(_gone IS NOT NULL AND _moved = '{MATCHED}', false)"


class _Comparison(NamedTuple):
    """Which rows and removals are compared, by which columns."""

    left_out: frozenset[str] = frozenset()
    """Columns that either does not have."""
    rows: str = "true"
    removals: str = "true"


def changed_columns(schema: Schema) -> list[Field]:
    """Return the columns that came or went while the table had events: `first` is None of one that did not come, `last` of one that did not go."""
    columns = [field for field in schema.fields if field.name in schema.values]
    oldest, newest = schema.oldest, latest([field.last for field in columns])
    bounded = (replace(each, first=None if each.first == oldest else each.first, last=None if each.last == newest else each.last) for each in columns)
    return [field for field in bounded if field.first or field.last]


def _lacking(fields: Sequence[Field]) -> list[frozenset[str]]:
    """Return the columns that an event lacks, of these that came or went: before the first of them changed, and after each change."""
    cuts = [(field.first, 0, field.name) for field in fields if field.first] + [(field.last, 1, field.name) for field in fields if field.last]
    lacking = [frozenset(field.name for field in fields if field.first)]
    for (_, went), group in groupby(sorted(cuts, key=lambda cut: (sort_key(cut[0]), cut[1])), key=lambda cut: cut[:2]):
        names = {name for _, _, name in group}
        lacking.append(lacking[-1] | names if went else lacking[-1] - names)
    return lacking


Pairs = dict[tuple[frozenset[str], frozenset[str]], list[frozenset[str]]]
"""(columns that a row lacks, columns that it or a removal lacks) → those that the removals lack."""


def _pairs(lacking: Sequence[frozenset[str]], rows: Collection[frozenset[str]], removals: Collection[frozenset[str]]) -> Pairs:
    """`rows`, `removals`: what some of them lack."""
    pairs: Pairs = {}
    # rows and removals from before a column came, too: some have its default already, and some null
    for at, before in enumerate(lacking):
        for after in dict.fromkeys(lacking[at:]):
            if before | after and before in rows and after in removals:
                pairs.setdefault((before, before | after), []).append(after)
    return pairs


def _lacks(fields: Sequence[Field], place: str, order: position.Order) -> str:
    """SQL: the columns that an event at a Position lacks, of these that came or went."""
    tests = []
    for field in fields:
        sides = [f"{place} {sign} {position.fixed(bound, order)}" for sign, bound in (("<", field.first), (">", field.last)) if bound]
        tests.append(f"CASE WHEN {' OR '.join(sides)} THEN {literal(field.name)} END")
    return f"array_compact(array({', '.join(tests)}))"


def _comparisons(fields: Sequence[Field], pairs: Pairs, order: position.Order) -> list[_Comparison]:
    def lacks(names: frozenset[str], place: str) -> str:
        chosen = ", ".join(literal(field.name) for field in fields if field.name in names)
        return f"{_lacks(fields, place, order)} = CAST(array({chosen}) AS ARRAY<STRING>)"

    tests = {pair: " OR ".join(f"({lacks(after, '_gone')})" for after in afters) for pair, afters in pairs.items()}
    made = [_Comparison(pair[1], lacks(pair[0], "_at"), f"({test})") for pair, test in tests.items()]
    # a row that is equal in more columns goes first
    return sorted(made, key=lambda each: len(each.left_out))


def match_removals(heads: DataFrame, schema: Schema, order: position.Order, version: int, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return states (one for each identity) in which removals and rows of equal content have taken each other.

    They are compared by all columns, and then by fewer where the row is from before a column came, or the removal from after it went. `keep` returns
    rows computed once.
    """
    heads, fields = _matched(heads, schema, order, version, _Comparison()), changed_columns(schema)
    lacking = _lacking(fields)
    pairs = _pairs(lacking, lacking, lacking)
    if len(pairs) > COMPARISONS_MAX:
        heads = keep(heads)
        # mostly nothing waits any more, and no other comparison is needed
        undecided = heads.where(f"_gone IS NULL OR {is_waiting()}").selectExpr(
            "_gone IS NOT NULL AS waits", f"{_lacks(fields, NEWEST, order)} AS lacks"
        )
        states = [(state.waits, frozenset(state.lacks)) for state in undecided.distinct().collect()]
        pairs = _pairs(lacking, *({lacks for waits, lacks in states if waits == one} for one in (False, True)))
    for at, compared in enumerate(_comparisons(fields, pairs, order)):
        if at and at % COMPARISONS_MAX == 0:
            heads = keep(heads)
        heads = _matched(heads, schema, order, version, compared)
    return heads


def _matched(heads: DataFrame, schema: Schema, order: position.Order, version: int, compared: _Comparison) -> DataFrame:
    """Return the states after one comparison.

    In the order of the Positions a row counts 1 and a removal -1: as far as the sum falls below 0, removals have no row before them, and wait. Those
    that took their row in an earlier run count too, so that it does not matter in which run an event arrives. Where some of them are not here (they
    are purged, or the batch is not late), a row's own `_gone` stands for its removal.
    """
    matched = is_matched() if not compared.left_out else "false"
    kinds = {
        WAITING: f"{is_waiting()} AND {compared.removals}",
        LIVE: f"_gone IS NULL AND {compared.rows}",
        TAKEN: f"{matched} AND _at IS NOT NULL",
        TOOK: matched,
    }
    case = " ".join(f"WHEN {test} THEN '{kind}'" for kind, test in kinds.items())
    values, rest = [quoted(name) for name in schema.values], [name for name in heads.columns if name not in schema.values]
    # the row's own columns wait in a struct: one may be called like those that are added
    row = f"struct({', '.join(values)}) AS _values" if values else "NULL AS _values"
    named = heads.selectExpr(row, *rest, f"{content_digest(schema, compared.left_out)} AS _content", f"CASE {case} END AS _kind")
    taken, took, removals = (f"count_if(_kind = '{kind}') OVER (PARTITION BY _content)" for kind in (TAKEN, TOOK, WAITING))
    numbered = f"row_number() OVER (PARTITION BY _content, _kind ORDER BY {NEWEST}, _row_id) AS _n"
    ranked = named.selectExpr("*", f"{taken} = {took} AS _all", f"{removals} AS _removals", numbered)
    live, removal, none = "struct(_at AS p, 1 AS n)", "struct(_gone AS p, -1 AS n)", f"struct(CAST(NULL AS {position.ddl(order)}) AS p, 0 AS n)"
    points = (
        f"CASE WHEN _kind = '{WAITING}' OR (_kind = '{TOOK}' AND _all) THEN array({removal}) "
        f"WHEN _kind = '{LIVE}' OR (_kind = '{TAKEN}' AND _all) THEN array({live}) "
        f"WHEN _kind = '{TAKEN}' AND _gone > _at THEN array({live}, {removal}) ELSE array({none}) END"
    )
    in_order = "PARTITION BY _content ORDER BY _point.p, _point.n, _row_id"
    summed = ranked.selectExpr("*", f"posexplode({points}) AS (_nth, _point)")
    summed = summed.selectExpr("*", f"sum(_point.n) OVER ({in_order} ROWS UNBOUNDED PRECEDING) AS _sum")
    # the lowest rows go, by the highest removals
    counted = summed.selectExpr("*", "greatest(0L, -min(_sum) OVER (PARTITION BY _content)) AS _rest").where("_nth = 0")
    pair = f"CASE WHEN _kind = '{LIVE}' AND _n <= _removals - _rest THEN _n WHEN _kind = '{WAITING}' AND _n > _rest THEN _n - _rest END AS _pair"
    paired = counted.selectExpr("*", pair).selectExpr(
        "*", f"max(CASE WHEN _kind = '{WAITING}' THEN _gone END) OVER (PARTITION BY _content, _pair) AS _by"
    )
    return paired.selectExpr(
        *(f"_values.{name} AS {name}" for name in values),
        *(name for name in rest if name not in (VERSION, GONE, MOVED, UNCHANGED)),
        f"CASE WHEN _pair IS NOT NULL THEN CAST({version} AS BIGINT) ELSE _version END AS _version",
        f"CASE WHEN _pair IS NOT NULL AND _kind = '{LIVE}' THEN greatest(_at, _by) ELSE _gone END AS _gone",
        f"CASE WHEN _pair IS NOT NULL THEN '{MATCHED}' ELSE _moved END AS _moved",
        "_unchanged AND _pair IS NULL AS _unchanged",
    )
