"""History on Spark: the worked examples, and random programs, against the plain-Python oracle, whatever the order of arrival and the cut into runs."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from compactor.app.query import as_of_views
from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec
from compactor.duckdb import queries
from compactor.spark.history import commit
from tests.oracle.history import Version, as_of, versions
from tests.oracle.history_cases import CASES, TRUNCATES, Case, Event
from tests.oracle.model import Change, ordered, replayed
from tests.oracle.sizes import FULL
from tests.oracle.source import Source
from tests.read import same_rows
from tests.spark.added_defaults import PLAIN, record, with_score
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

SECOND = 1_000_000
START = 1_709_632_800 * SECOND
"""2024-03-05T10:00:00Z, microseconds since 1970."""

GONE = "__debezium_unavailable_value"
COLUMNS = ("a", "b", "c")


def envelope(one: Change, micros: int) -> dict[str, Any]:
    """A change as Debezium sends it. All columns are text; of a key change the old key is in `before`."""

    def image(key: Sequence[Any]) -> dict[str, Any]:
        return {"p": str(key[0]), "id": str(key[1])}

    source = {"connector": "postgresql", "lsn": one.position[1], "ts_us": micros}
    if one.op == "t":
        return {"op": "t", "before": None, "after": None, "source": source}
    if one.op == "d":
        return {"op": "d", "before": {**image(one.key), **dict.fromkeys(COLUMNS)}, "after": None, "source": source}
    told = {name: GONE if name in one.missing else text(one.values.get(name)) for name in COLUMNS}
    before = {**image(one.left), **dict.fromkeys(COLUMNS)} if one.left else None
    return {"op": "u" if one.left else one.op, "before": before, "after": {**image(one.key), **told}, "source": source}


def text(value: Any) -> str | None:
    return None if value is None else str(value)


def table(lake: Lake, name: str, **settings: Any) -> TableSpec:
    """Debezium's envelope, keyed by program and id, ordered by LSN."""
    return lake.spec(name, envelope="debezium", format="json", key=("p", "id"), order_by=("source.lsn",), history=True, **settings)


def in_view(lake: Lake, spec: TableSpec) -> list[Version]:
    """The view's rows as the oracle has them, in a certain order."""
    shown = lake.spark.table(f"{lake.database}.{spec.view}_history").columns
    pairs = ", ".join(f"'{name}', {name}" for name in COLUMNS if name in shown)
    columns = f"p, id, map_filter(map({pairs}), (k, v) -> v IS NOT NULL) AS v, __start_us, __end_us, __is_deleted, __is_current"
    more = "__start_position.o1 AS s, __end_position.o1 AS e, __previous_key, __start_time, __end_time, __end_day"
    rows = lake.spark.sql(
        f"SELECT {columns}, {more}, unix_micros(__start_time) AS t0, unix_micros(__end_time) AS t1 FROM {lake.database}.{spec.view}_history"
    )
    out = []
    for row in rows.collect():
        live = row["__is_current"]
        assert row.t0 == row["__start_us"]
        assert (row.t1, row["__end_day"]) == ((None, "open") if live else (row["__end_us"], f"d{row['__end_time']:%Y-%m-%d}"))
        previous = tuple(json.loads(row["__previous_key"])) if row["__previous_key"] else None
        values = tuple(sorted(row.v.items()))
        end, ended = (None, None) if live else (row["__end_us"], (0, row.e))
        out.append(Version((row.p, row.id), values, row["__start_us"], end, row["__is_deleted"], (0, row.s), ended, previous))
    return sorted(out, key=order)


def order(one: Version) -> Any:
    return one.key, one.began


def as_text(changes: Iterable[Change]) -> list[Change]:
    """The same changes with keys and values as text, as the table has them."""
    return [
        Change(
            one.op,
            tuple(str(part) for part in one.key),
            {name: text(value) for name, value in one.values.items()},
            one.position,
            one.missing,
            tuple(str(part) for part in one.left) if one.left else None,
        )
        for one in changes
    ]


def expected(changes: Sequence[Change], time: Callable[[Change], int], **settings: Any) -> list[Version]:
    return sorted(versions(as_text(changes), time, **settings), key=order)


def cases_of(name: str, case: Case, first: int) -> list[list[Change]]:
    """A case as one program of a table that holds all of them: its events' order shifted so that no two programs meet."""

    def made(event: Event) -> Change:
        told = {column: value for column, value in event.values.items() if value != "?"}
        missing = frozenset(event.values) - frozenset(told)
        key = (name, event.key) if event.op != "t" else ()
        return Change(event.op, key, told, (0, first + event.seq, "f", 0, 0), missing, (name, event.left) if event.left else None)

    return [[made(event) for event in run] for run in case.runs]


def run_cases(lake: Lake, spec: TableSpec, cases: dict[str, Case]) -> None:
    """All runs of all cases, then every version of each compared with what is written down."""
    told = {name: cases_of(name, case, 1000 * at) for at, (name, case) in enumerate(cases.items())}
    times = {1000 * at + event.seq: event.time for at, case in enumerate(cases.values()) for run in case.runs for event in run}
    for number in range(max(len(case.runs) for case in cases.values())):
        changes = [one for runs in told.values() if number < len(runs) for one in runs[number]]
        lake.land(spec, number, [envelope(one, START + times[one.position[1]] * SECOND) for one in changes])
        lake.run(spec)
    found: dict[str, dict[str, list[Any]]] = {}
    previous: dict[str, dict[str, str]] = {}
    for one in in_view(lake, spec):
        case, key = one.key
        start, end = (one.start - START) // SECOND, None if one.end is None else (one.end - START) // SECOND
        found.setdefault(case, {}).setdefault(key, []).append((dict(one.values), start, end, one.deleted))
        if one.previous:
            previous.setdefault(case, {})[key] = one.previous[1]
    for name, case in cases.items():
        wanted = {
            key: [({column: str(value) for column, value in values.items()}, *rest) for values, *rest in history]
            for key, history in case.expected.items()
        }
        assert (name, wanted, case.previous) == (name, found.get(name, {}), previous.get(name, {}))
    assert [] == problems(lake, spec)


def problems(lake: Lake, spec: TableSpec) -> list[str]:
    """What `verify` finds wrong. What a key change carries is mixed over runs here: the table itself loses track of chains then, its history does not."""
    return [told for told in lake.problems(spec) if not told.startswith(("view equals full", "current versions equal"))]


@pytest.mark.slow
def test_worked_examples(lake: Lake) -> None:
    """All of them in one table, each with keys of its own; those that concern all rows in tables of their own."""
    run_cases(lake, table(lake, "t"), CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUNCATES if FULL else list(TRUNCATES)[:1])
def test_truncates(lake: Lake, name: str) -> None:
    """They end every open version, also of what comes late from before them."""
    run_cases(lake, table(lake, "t"), {name: TRUNCATES[name]})


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "whole rows tracked": ({}, {}, ("insert", "insert", "update", "partial", "delete", "move", "move_partial", "snapshot")),
    "one column tracked, truncates": (
        {"track": ("b",), "write_mode": "merge-on-read"},
        {"tracked": ("b",)},
        ("insert", "update", "update", "partial", "delete", "move_partial", "snapshot", "truncate"),
    ),
    "all columns but one, rewritten": (
        {"track": ("b", "c"), "write_mode": "copy-on-write"},
        {"tracked": ("b", "c")},
        ("insert", "update", "delete"),
    ),
}


@pytest.mark.parametrize("seed", range(10 if FULL else 1))
@pytest.mark.parametrize("name", SETTINGS if FULL else list(SETTINGS)[:1])
@pytest.mark.slow
def test_any_arrival_gives_the_oracles_history(lake: Lake, name: str, seed: int) -> None:
    """Events of many small programs mixed, doubled and dealt out to runs: after each run the view holds what the events so far make."""
    settings, oracle, kinds = SETTINGS[name]
    rng, spec = random.Random(f"{name} {seed}"), table(lake, "t", **settings)
    programs = 1 if "truncate" in kinds else 25
    changes: list[Change] = []
    for program in range(programs):
        source = Source()
        for _ in range(rng.randint(4, 25) if programs > 1 else 60):
            source.step(rng.choice(kinds), rng.randrange(30), rng.randrange(30))
        for line in source.lines:
            raw = json.loads(line)
            left = (program, *raw["from"]) if raw.get("from") else None
            position = (0, raw["position"][0] * 100 + program, "f", 0, 0)
            key = (program, *raw["key"]) if raw["key"] else ()
            changes.append(Change(raw["op"], key, raw.get("values", {}), position, frozenset(raw.get("missing", ())), left))
    # two days long, with ties and a clock that now and then goes back
    micros = {one.position[1]: START + (one.position[1] // 2000 + rng.choice((0, 0, 0, -2))) * 4000 * SECOND for one in changes}

    def time(one: Change) -> int:
        return micros[one.position[1]]

    mixed = rng.sample(changes, len(changes))
    mixed = [again for at in range(len(mixed)) for again in (mixed[at], *(rng.sample(mixed[: at + 1], 1) if rng.random() < 0.15 else ()))]
    cuts = [*sorted(rng.sample(range(1, len(mixed)), 3 if FULL else 2)), len(mixed)]
    for number, (start, end) in enumerate(itertools.pairwise((0, *cuts))):
        group = mixed[start:end]
        for part in range(2):
            lake.land(spec, number, [envelope(one, time(one)) for one in group[part::2]], file=f"part-{rng.randrange(1000):03}-{part}.json")
        lake.run(spec)
        assert expected(mixed[:end], time, **oracle) == in_view(lake, spec)
    current = {one.key: dict(one.values) for one in in_view(lake, spec) if one.end is None}
    assert current == replayed(as_text(ordered(changes)))
    assert current == as_of(in_view(lake, spec), max(micros.values()))
    assert [] == problems(lake, spec)


@pytest.mark.parametrize(("doubled", "settings"), [(False, {}), (True, {}), (False, {"small_batch": 0})])
@pytest.mark.slow
def test_events_that_follow_all_stored_ones_are_merged_in_one_pass(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, doubled: bool, settings: dict[str, Any]
) -> None:
    """Runs in the source's order, with and without repetitions inside a run. Then late events, which the steps merge."""
    rng, spec = random.Random(doubled), table(lake, "t", track=("b", "c"), write_mode="merge-on-read", **settings)
    changes: list[Change] = []
    for program in range(25):
        source = Source()
        for _ in range(rng.randint(4, 25)):
            source.step(rng.choice(("insert", "update", "update", "delete", "snapshot")), rng.randrange(30), rng.randrange(30))
        for raw in map(json.loads, source.lines):
            changes.append(Change(raw["op"], (program, *raw["key"]), raw.get("values", {}), (0, raw["position"][0] * 100 + program, "f", 0, 0)))
    changes.sort(key=lambda one: one.position[1])
    micros = {one.position[1]: START + (one.position[1] // 2000 + rng.choice((0, 0, 0, -2))) * 4000 * SECOND for one in changes}

    def time(one: Change) -> int:
        return micros[one.position[1]]

    late = [changes.pop(at) for at in sorted(rng.sample(range(len(changes)), 4), reverse=True)]
    cuts = [0, *sorted(rng.sample(range(1, len(changes)), 4)), len(changes)]
    runs = [changes[start:end] for start, end in itertools.pairwise(cuts)]
    open_parts = set()
    with monkeypatch.context() as patch:
        if not settings:
            patch.setattr(commit._Work, "merged", None)
        for number, run in enumerate(runs):
            for part in range(2):
                sent = run if doubled else run[part::2]
                lake.land(spec, number, [envelope(one, time(one)) for one in sent], file=f"part-{part}.json")
            lake.run(spec)
            so_far = changes[: cuts[number + 1]]
            assert expected(so_far, time, tracked=("b", "c")) == in_view(lake, spec)
            open_parts.add(check_parts(lake, spec))
    assert len(open_parts) > 1, "no commit wrote all open rows"
    lake.land(spec, len(runs), [envelope(one, time(one)) for one in late])
    lake.run(spec)
    assert expected([*changes, *late], time, tracked=("b", "c")) == in_view(lake, spec)
    check_parts(lake, spec)
    assert [] == lake.problems(spec)


def check_parts(lake: Lake, spec: TableSpec) -> str:
    """The numbers of each part of the history are those of its files. Returns the name of the open parts."""
    snapshot = lake.snapshot(spec)
    assert snapshot.history is not None
    for part in snapshot.history.parts:
        last = "max(coalesce(__end_position, _position))"
        files = lake.spark.read.parquet(str(lake.root / spec.name / part.path))
        row = files.selectExpr("count(*)", f"to_json({last})", f"{last}.o1").collect()[0]
        assert part.last is not None
        assert (part.rows, part.last[1]) == (row[0], row[2])
        assert list(part.last) == [json.loads(row[1]).get(name) for name in ("epoch", "o1", "file", "block", "row")]
    return snapshot.history.open_id


@pytest.mark.slow
def test_a_history_that_is_switched_on_later_begins_with_the_rows_as_they_are(lake: Lake) -> None:
    """Each open since what the table knew; what comes late goes before it, a truncate ends it. Rows without a time have their folder's hour."""
    spec = lake.spec(write_mode="merge-on-read")
    lake.land(spec, 1, [{"id": key, "seq": 10 + key, "a": key} for key in (1, 2, 3)])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "seq": 20, "a": 11}])
    lake.run(spec)
    known = lake.snapshot(spec)
    spec = lake.with_settings(spec, history=True)
    lake.land(spec, 3, [{"id": 2, "seq": 5, "a": 0}, {"id": 3, "seq": 30, "a": 33}, {"op": "t", "id": 0, "seq": 40}, {"id": 1, "seq": 41, "a": 4}])
    lake.run(spec)
    made = lake.snapshot(spec).history
    assert made is not None
    assert made.since == known.hour == "2024-03-05T02:00"
    shown = "id, a, __start_us, __end_us, __is_deleted"
    rows = lake.spark.sql(f"SELECT {shown} FROM {lake.database}.t_history ORDER BY id, __start_position.o1").collect()
    two, three = (START - 10 * 3600 * SECOND + hour * 3600 * SECOND for hour in (2, 3))
    assert [
        (1, 11, two, three, True), (1, 4, three, 2**63 - 1, False), (2, 0, three, three, False), (2, 2, three, three, True), (3, 3, two, three, False),
        (3, 33, three, three, True),
    ] == [tuple(row) for row in rows]  # fmt: skip
    assert [] == lake.problems(spec)
    # between two and three the rows are known, before nobody knows which there were
    assert [(1, 11), (3, 3)] == as_of_now(lake, spec, two)
    for moment in (two - 1, 0):
        with pytest.raises(Refused, match=r"table t: its history begins at 2024-03-05T02:00; what its rows were at 20|1970-"):
            as_of_now(lake, spec, moment)


def as_of_now(lake: Lake, spec: TableSpec, moment: int) -> list[tuple[int, int]]:
    """The rows at a source time, by Spark and by DuckDB; a refusal of both is the same."""
    snapshot = lake.snapshot(spec)
    assert snapshot.history is not None
    since = snapshot.history.since
    try:
        found = queries.as_of(same_rows.session().connection, spec, snapshot, moment).text
        rows = same_rows.session().connection.execute(f"SELECT id, a FROM ({found}) ORDER BY id").fetchall()
    except Refused as error:
        with pytest.raises(Exception, match=str(error)), as_of_views(lake.spark, [spec], moment, lambda _: since):
            lake.spark.sql("SELECT id, a FROM t").collect()
        raise
    lake.spark.catalog.setCurrentDatabase(lake.database)
    with as_of_views(lake.spark, [spec], moment, lambda _: since):
        assert rows == [tuple(row) for row in lake.spark.sql("SELECT id, a FROM t ORDER BY id").collect()]
    return rows


@pytest.mark.slow
def test_a_time_before_the_first_row_is_refused(lake: Lake) -> None:
    """Also where no row is left to be shown now."""
    spec = lake.spec(history=True)
    lake.land(spec, 2, [{"id": 1, "seq": 10, "a": 1}])
    lake.land(spec, 3, [{"id": 1, "seq": 11, "op": "d"}])
    lake.run(spec)
    two = START - 8 * 3600 * SECOND
    assert [(1, 1)] == as_of_now(lake, spec, two)
    assert [] == as_of_now(lake, spec, two + 3600 * SECOND)
    with pytest.raises(
        Refused, match=r"table t: its history begins at 2024-03-05T02:00:00Z; what its rows were at 2024-03-05T01:59:59.999999Z is not"
    ):
        as_of_now(lake, spec, two - 1)


@pytest.mark.slow
def test_an_epoch_that_replaces_the_rows_ends_their_versions_when_it_begins(lake: Lake) -> None:
    """The time is that of its first event, and neither that of its last one nor of a late event of the old epoch that comes in the same run."""
    spec = lake.spec(history=True)
    lake.land(spec, 2, [{"id": 1, "seq": 10, "a": 1}])
    lake.run(spec)
    spec = lake.with_settings(spec, epoch=1, epoch_from="increment_2024030505", epoch_replaces=True)
    lake.land(spec, 1, [{"id": 1, "seq": 5, "a": 0}])
    lake.land(spec, 5, [{"id": 2, "seq": 1, "a": 2}])
    lake.land(spec, 6, [{"id": 3, "seq": 2, "a": 3}])
    lake.run(spec)
    rows = lake.spark.sql(f"SELECT id, a, __start_us, __end_us, __is_deleted FROM {lake.database}.t_history ORDER BY id, __start_us").collect()
    one, two, five, six = (START - 10 * 3600 * SECOND + hour * 3600 * SECOND for hour in (1, 2, 5, 6))
    now = 2**63 - 1
    assert [(1, 0, one, two, False), (1, 1, two, five, True), (2, 2, five, now, False), (3, 3, six, now, False)] == [tuple(row) for row in rows]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_history_knows_of_the_truncate_before_it_began(lake: Lake) -> None:
    """A late event below it is no row, and no current version."""
    spec = lake.spec(write_mode="merge-on-read")
    lake.land(spec, 1, [{"id": 1, "seq": 10, "a": 1}])
    lake.run(spec)
    lake.land(spec, 2, [{"op": "t", "id": 0, "seq": 30}, {"id": 3, "seq": 40, "a": 3}])
    lake.run(spec)
    spec = lake.with_settings(spec, history=True)
    lake.land(spec, 3, [{"id": 5, "seq": 50, "a": 5}])
    lake.run(spec)
    lake.land(spec, 4, [{"id": 4, "seq": 25, "a": 4}])
    lake.run(spec)
    current = lake.spark.sql(f"SELECT id FROM {lake.database}.t_history WHERE __is_current ORDER BY id").collect()
    assert [3, 5] == [row.id for row in current]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_default_that_a_late_event_changes_makes_other_versions(lake: Lake) -> None:
    """Of a key without any new event, too."""
    spec = lake.spec(history=True, write_mode="merge-on-read")
    for hour, one in enumerate(
        [
            record(PLAIN, {"id": 1, "seq": 10, "x": 1}),
            record(PLAIN, {"id": 1, "seq": 25, "x": 1}),
            record(with_score(7), {"id": 2, "seq": 30, "x": 1, "score": 2}),
            record(with_score(5), {"id": 3, "seq": 20, "x": 1, "score": 3}),
        ]
    ):
        lake.land(spec, hour, [one])
        lake.run(spec)
    versions = lake.spark.sql(f"SELECT seq, score, __is_current FROM {lake.database}.t_history WHERE id = 1 ORDER BY seq").collect()
    assert [(10, 5, False), (25, None, True)] == [tuple(row) for row in versions]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_days_outside_of_four_digits_are_with_the_nearest(lake: Lake) -> None:
    """As text they would sort before all others, and be no folder of a part: `+10000`."""
    spec = lake.spec(order_by=("at",), history=True, types=(("at", "timestamp_micros"),))
    first, last = times.BEGIN - 1, times.END + 1
    lake.land(spec, 0, [{"id": key, "at": first - 1} for key in (1, 2)])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 1, "at": first}, {"id": 1, "at": START}, {"id": 1, "at": last}, {"id": 2, "at": START}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 2, "at": last}])
    lake.run(spec)
    rows = lake.spark.table(f"{lake.database}.t_history").orderBy("id", "__start_us").select("id", "__end_day").collect()
    closed = ["d0001-01-01", "d2024-03-05", "d9999-12-31", "open"]
    assert [(row.id, row["__end_day"]) for row in rows] == [*((1, day) for day in closed), *((2, day) for day in closed[1:])]
    assert problems(lake, spec) == []
