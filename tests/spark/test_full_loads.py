"""Full loads (`envelope: full-load`): table, history and feed against a list of loads, which is all the oracle there is to write."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.spec import TableSpec
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.spark.tables.compare import comparable
from tests.oracle.sizes import FULL
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def test_maps_are_compared_in_any_order_of_their_entries(lake: Lake) -> None:
    """Also inside of each other; another key, another value and a null are other maps."""
    kind = "map<string,struct<a:array<map<int,double>>>>"
    values = (
        "map('x', struct(array(map(1, 1D, 2, 2D)) AS a), 'y', NULL)",
        "map('y', NULL, 'x', struct(array(map(2, 2D, 1, 1D)) AS a))",
        "map('y', NULL, 'x', struct(array(map(2, 1D, 1, 1D)) AS a))",
        "map('y', NULL, 'z', struct(array(map(1, 1D, 2, 2D)) AS a))",
        "map('x', struct(array(map(1, 1D, 2, 2D)) AS a))",
        "map()",
        "NULL",
    )
    rows = lake.spark.sql(" UNION ALL ".join(f"SELECT {at} AS at, CAST({value} AS {kind}) AS m" for at, value in enumerate(values)))
    shown = {row["at"]: row["m"] for row in rows.selectExpr("at", f"{comparable('m', kind)} AS m").collect()}
    assert shown[0] == shown[1]
    assert len({*shown.values()}) == len(values) - 1


DDL = "w STRING, id INT, a STRING, b DOUBLE, c MAP<STRING, INT>, _time STRING"
COLUMNS = ("a", "b", "c", "_time")
HOUR_US = 3_600_000_000
MIDNIGHT_US = 1_709_596_800_000_000
"""2024-03-05T00:00Z."""

Row = tuple[Any, ...]
Copy = dict[int, Row]
"""id → the other columns, of one program."""

FOLDERS = 9
RUNS = ((1,), (2, 3, 7), (0, 5), (4,), (6, 8)) if FULL else ((1, 2, 7), (0, 5), (4, 6, 8))
"""Which copies each run gets; 0, 5, 4 and 6 come late."""


def whole(a: str | None, b: float | None = 0.0, c: dict[str, int] | None = None, told: str | None = None) -> Row:
    return (a, b, c, told)


CASES: dict[str, list[Copy]] = {
    "nothing changes": [{1: whole("x"), 2: whole(None, None)}] * 6,
    "a row comes": [{1: whole("x")}] * 2 + [{1: whole("x"), 2: whole("y")}] * 4,
    "a row goes": [{1: whole("x"), 2: whole("y")}] * 3 + [{1: whole("x")}] * 3,
    "a row goes for one copy": [{1: whole("x")}, {}, *[{1: whole("x")}] * 4],
    "a row goes and comes back in another run": [{1: whole("x")}, {1: whole("x")}, {}, {}, {1: whole("x")}, {}],
    "a value changes, and back": [{1: whole("x")}, {1: whole("y")}, *[{1: whole("x")}] * 2, {1: whole("z")}, {1: whole("z")}],
    "null is a value": [{1: whole("x")}, {1: whole(None)}, {1: whole("")}, {1: whole(None)}, {1: whole("x", None)}, {1: whole("x", None)}],
    "minus zero is another value, as for every reader": [*[{1: whole("x", 0.0)}] * 3, *[{1: whole("x", -0.0)}] * 2, {1: whole("x", 0.0)}],
    "not a number equals itself": [*[{1: whole("x", float("nan"))}] * 5, {1: whole("x", 1.0)}],
    "maps are compared": [{1: whole("x", c={"k": 1})}, *[{1: whole("x", c={"k": 1})}] * 3, *[{1: whole("x", c={"k": 2})}] * 2],
    "a column may have a name of ours": [{1: whole("x", told="1")}, *[{1: whole("x", told="2")}] * 5],
    "text that connectors use for values they do not send": [{1: whole("x")}, *[{1: whole("__debezium_unavailable_value")}] * 5],
    "the table is empty in between": [{1: whole("x"), 2: whole("y")}, *[{}] * 4, {3: whole("x")}],
}


@pytest.mark.slow
def test_late_loads_before_one_that_changed_nothing(lake: Lake) -> None:
    """What a late load restores lies at the hour of the next one, above every row that was stored before."""
    spec = lake.spec(envelope="full-load", format="json", order_by=(), complete="_SUCCESS", history=True, compact_every=1e9)
    loads: dict[int, dict[int, str]] = {8: {}, 16: {}, 10: {1: "b", 2: "b"}, 12: {1: "c", 2: "b"}, 14: {}}
    for hour, changed in loads.items():
        path = lake.land(spec, hour, [{"id": number, "v": changed.get(number, "a")} for number in range(1, 7)])
        (path.parent / "_SUCCESS").touch()
        lake.run(spec)
        assert {"a"} == {row["v"] for row in lake.rows(spec)}, hour
        assert [] == lake.problems(spec)


def programs(seeds: Sequence[int]) -> dict[str, list[Copy]]:
    """Random copies: each row of the last one stays, changes or goes, some that went come again."""
    made = {}
    for seed in seeds:
        dice = random.Random(seed)
        copies: list[Copy] = [{}]
        for _ in range(FOLDERS):
            last, new = copies[-1], {}
            for number in range(dice.randint(1, 9)):
                if number in last and dice.random() < 0.6:
                    new[number] = last[number]
                elif dice.random() < 0.6:
                    new[number] = whole(dice.choice(["x", "y", None]), dice.choice([0.0, 1.5, None]), dice.choice([None, {"k": 1}, {"k": 2}]))
            copies.append(new)
        made[f"seed {seed}"] = copies[1:]
    return made


Shown = tuple[str, int, str]
"""Program, id, the other columns as JSON."""


def shown(env: str, number: int, row: Row) -> Shown:
    return (env, number, json.dumps([str(value) if isinstance(value, float) else value for value in row]))


def expected(worlds: dict[str, list[Copy]], at: int) -> list[Shown]:
    """The rows of copy `at`."""
    return sorted(shown(env, number, row) for env, copies in worlds.items() for number, row in copies[at].items())


def changes(before: list[Shown], after: list[Shown]) -> list[tuple[str, str, int]]:
    """What a feed tells between two copies."""
    old, new = ({row[:2]: row for row in rows} for rows in (before, after))
    kinds = {(False, True): ("insert",), (True, False): ("delete",), (True, True): ("update_preimage", "update_postimage")}
    keys = [key for key in {*old, *new} if old.get(key) != new.get(key)]
    return sorted((kind, *key) for key in keys for kind in kinds[key in old, key in new])


def versions(worlds: dict[str, list[Copy]], told: Sequence[int]) -> list[tuple[Shown, int, int | None, bool]]:
    """Row, first hour, hour of the end, whether it ended by a delete: runs of copies in which a row is the same."""
    out = []
    for env, copies in worlds.items():
        for number in {number for copy in copies for number in copy}:
            was: tuple[Shown, int] | None = None
            for hour in told:
                row = shown(env, number, copies[hour][number]) if number in copies[hour] else None
                if was is not None and row != was[0]:
                    out.append((*was, hour, row is None))
                    was = None
                if was is None and row is not None:
                    was = (row, hour)
            if was is not None:
                out.append((*was, None, False))
    return sorted(out, key=str)


def in_table(lake: Lake, sql: str) -> list[Shown]:
    """Rows of a statement that selects w, id and COLUMNS first, as the oracle has them."""
    return sorted(of_row(row) for row in lake.spark.sql(sql).collect())


def of_row(row: Any) -> Shown:
    return shown(row.w, row.id, tuple(row[name] for name in COLUMNS))


def in_history(lake: Lake, spec: TableSpec) -> list[tuple[Shown, int, int | None, bool]]:
    found = []
    for row in lake.spark.sql(f"SELECT * FROM {lake.database}.{spec.view}_history").collect():
        hours = [(micros - MIDNIGHT_US) // HOUR_US for micros in (row["__start_us"], row["__end_us"])]
        found.append((of_row(row), hours[0], None if row["__is_current"] else hours[1], row["__is_deleted"]))
    return sorted(found, key=str)


def land(lake: Lake, spec: TableSpec, worlds: dict[str, list[Copy]], at: int) -> None:
    """Copy `at` of all programs, in one or two files, and the marker."""
    rows = [{"w": env, "id": number, **dict(enumerate(row))} for env, copies in worlds.items() for number, row in copies[at].items()]
    for part in (rows[::2], rows[1::2]) if at % 2 else (rows,):
        path = lake.land_parquet(spec, at, part, DDL)  # type: ignore[arg-type]
    (path.parent / "_SUCCESS").touch()


@pytest.mark.slow
def test_table_history_and_feed_are_what_the_copies_differ_in(lake: Lake) -> None:
    """Written cases and random programs side by side in one table; several copies in one run, and copies that come late between others."""
    worlds = {name: [copies[at % len(copies)] for at in range(FOLDERS)] for name, copies in (CASES | programs(range(200 if FULL else 25))).items()}
    spec = lake.spec(
        "t", envelope="full-load", format="parquet", key=("w", "id"), order_by=(), complete="_SUCCESS", max_gone=0.95, history=True, feed="net"
    )
    told: list[int] = []
    for run in RUNS:
        for at in run:
            land(lake, spec, worlds, at)
        report = lake.run(spec)
        last, told = (max(told) if told else None), sorted({*told, *run})
        before = expected(worlds, last) if last is not None else []
        assert expected(worlds, told[-1]) == in_table(lake, f"SELECT * FROM {lake.database}.t")
        assert versions(worlds, told) == in_history(lake, spec)
        feed = lake.spark.sql(f"SELECT * FROM {lake.database}.t_changes WHERE _commit_version = {_committed(lake, spec)}").collect()
        assert changes(before, expected(worlds, told[-1])) == sorted((row["_change_type"], row.w, row.id) for row in feed)
        if all(last is None or at > last for at in run):
            # a row that is as it was is a duplicate; a key that is gone is read as a delete; of several changes of a key the last is applied
            sides = [last, *run]
            steps = [changes(expected(worlds, one) if one is not None else [], expected(worlds, two)) for one, two in zip(sides, run)]
            told_changes = [{tuple(key) for _, *key in step} for step in steps]
            applied, made = len(set().union(*told_changes)), sum(len(step) for step in told_changes)
            read = sum(len(expected(worlds, at)) for at in run) + sum(kind == "delete" for step in steps for kind, *_ in step)
            counts = {"read": read, "applied": applied, "superseded": made - applied, "duplicate": read - made}
            assert counts == {name: count for name, count in report.counts.items() if count}
    assert [] == lake.problems(spec)
    rebuilt = rebuild_table(Table(lake.env, spec))
    assert ("published", False) == (rebuilt.outcome, bool(rebuilt.difference))
    assert versions(worlds, told) == in_history(lake, spec)


def _committed(lake: Lake, spec: TableSpec) -> int:
    """The newest version that absorbed something."""
    return next(each.version for each in Table(lake.env, spec).history() if each.operation == "commit")


@pytest.mark.slow
def test_half_a_copy_deletes_nothing(lake: Lake) -> None:
    """What cannot be a whole copy waits, is refused, or goes to quarantine with all of its files; whole copies after it go on."""
    spec = lake.spec(envelope="full-load", format="json", order_by=(), complete="_SUCCESS", max_gone=0.3)

    def copy(hour: int, rows: Sequence[Any], *more: Sequence[Any], marked: bool = True) -> Path:
        paths = [lake.land(spec, hour, part, f"part-{number}.json") for number, part in enumerate((rows, *more))]
        if marked:
            (paths[0].parent / "_SUCCESS").touch()
        return paths[0].parent

    def ids() -> list[int]:
        return sorted(row["id"] for row in lake.rows(spec))

    def held() -> dict[str, str]:
        return {f"{item.folder[-2:]}{item.path[-6]}": item.reason for item in lake.snapshot(spec).inputs if item.reason}

    ten = [{"id": number, "a": "x", "op": "d"} for number in range(10)]
    copy(1, ten[:5], ten[5:])
    assert ("committed", 10) == (lake.run(spec).outcome, len(ids()))
    # no marker, though the first half is there
    folder = copy(2, ten[:5], marked=False)
    assert ("idle", 10) == (lake.run(spec).outcome, len(ids()))
    # the marker of another writer, or a writer that broke off behind its marker: most rows would go
    (folder / "_SUCCESS").touch()
    with pytest.raises(CheckFailed, match=r"increment_2024030502 lacks 5 of the 10 rows before it; `max_gone: 30%` allows fewer"):
        lake.run(spec)
    assert ["part-0.json"] == [name for name in lake.landed(spec) if name.startswith("part")]
    copy(2, ten[:5], ten[5:])
    assert (10, 0) == ((counts := lake.run(spec).counts)["duplicate"], counts["applied"])
    # a file that comes afterwards is no copy
    straggler = copy(2, [{"id": 11, "a": "x"}])
    with pytest.raises(InputRefused, match=r"part-0.json: the full load in increment_2024030502 was ingested already"):
        lake.run(spec)
    (straggler / "part-0.json").unlink()

    # four copies that are none, and a good one after them, in one run: a key twice, no key, a broken file, a line that is no row
    copy(3, ten, [ten[0]])
    copy(4, ten, [{"id": None, "a": "x"}])
    copy(5, ten, ["{"])
    copy(6, ten[:9], [{"id": 12, "a": "y"}])
    report = lake.run(lake.with_settings(spec, quarantine_share=0.9))
    assert [*range(9), 12] == ids()
    assert {"read": 11, "applied": 2, "duplicate": 9} == {name: count for name, count in report.counts.items() if count}
    told = held()
    assert ["030", "031", "040", "041", "050", "051"] == sorted(told)
    assert 'record 1: has the key ["0"] of another row of its full load' in told["031"]
    assert "belongs to a full load that is not usable: increment_2024030503/part-1.json: record 1: has the key" in told["030"]
    assert "a column of the key (id) is null" in told["041"]
    assert "not a JSON object" in told["051"]
    assert [] == lake.problems(spec)

    # replayed after a newer copy it is late, whole or not at all; a copy that was written again in its folder cannot come twice
    broken = Path(spec.root) / "quarantine" / "increment_2024030505"
    (broken / "part-1.json").write_text('{"id": 13, "a": "z"}\n')
    assert 11 == lake.replay(lake.with_settings(spec, quarantine_share=1.0), "increment_2024030505/part-0.json").counts["late"]
    assert [*range(9), 12] == ids()
    copy(3, ten)
    assert 10 == lake.run(spec).counts["late"]
    with pytest.raises(InputRefused, match="the full load in increment_2024030503 was ingested already"):
        lake.replay(spec, "increment_2024030503/part-1.json")
    assert [] == lake.problems(spec)

    # the guard holds from one copy to the next, not for a run as a whole; an empty file says that the table is empty
    copy(7, ten[:7])
    copy(8, ten[:5])
    copy(9, ten[:4])
    assert (6, [0, 1, 2, 3]) == (lake.run(spec).counts["applied"], ids())
    copy(10, [])
    assert "idle" == lake.run(spec).outcome
    copy(10, ["null"])
    assert "committed" == lake.run(lake.with_settings(spec, max_gone=1.0)).outcome
    assert [] == ids()


@pytest.mark.slow
def test_no_load_has_the_hour_of_another(lake: Lake) -> None:
    """A new `hours_in` gives the folder of a newer load the hour of an ingested one: it is not late, and must not be dropped."""
    spec = lake.spec(envelope="full-load", format="json", order_by=(), complete="_SUCCESS")
    (lake.land(spec, 1, [{"id": 1, "a": 1}]).parent / "_SUCCESS").touch()
    lake.run(spec)
    (lake.land(spec, 2, [{"id": 1, "a": 2}]).parent / "_SUCCESS").touch()
    with pytest.raises(InputRefused, match="increment_2024030501 and increment_2024030502 are both of the hour 2024-03-05T01:00 UTC"):
        lake.run(dataclasses.replace(spec, hours_in="Europe/Berlin"))
    lake.run(spec)
    assert [(1, 2)] == [(row["id"], row["a"]) for row in lake.rows(spec)]
