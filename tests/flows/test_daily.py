"""Frozen days: each shows what the main view showed at its end, whatever happens to the table later and whatever interrupts it."""

from __future__ import annotations

import dataclasses
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.app.registry import sync
from compactor.core.catalog import daily_views
from compactor.core.catalog.daily_views import Form
from compactor.core.catalog.dialect import PRESTO
from compactor.core.model import times
from compactor.core.model.errors import CatalogRefused, TryLater
from compactor.core.model.policy import ROW_CHANGE, UNIQUE, Daily, Rule
from compactor.core.model.schema import Field
from compactor.core.model.snapshot import Day, Snapshot
from compactor.core.planning import daily
from compactor.core.settings.job_config import JobConfig
from compactor.flows.keep.erase import Request, erase
from compactor.flows.publish.sync import sync_table
from compactor.flows.run import look_at
from tests.faults import ERRORS, MODES, Crash, Faults, every_fault
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.reader import look
from tests.oracle.sizes import sized, tiered
from tests.oracle.source import PLAIN, Source

Rows = tuple[tuple[Any, ...], ...]
DAY = 86400.0


def morning(lake: Lake, day: str) -> None:
    """It is 06:00 of a day."""
    lake.now = times.to_seconds(f"{day}T06:00:00Z")


def days(lake: Lake) -> dict[str, Rows]:
    """What a reader gets: day → rows."""
    shown = look(lake.catalog, lake.storage, lake.spec, "t_daily")
    assert shown is not None
    assert shown.columns[-1] == "dt"
    out: dict[str, Rows] = {}
    for row in shown.rows:
        out[row[-1]] = (*out.get(row[-1], ()), row[:-1])
    return out


def rows(lake: Lake) -> Rows:
    """What the main view shows."""
    shown = lake.look()
    assert shown is not None
    return shown.rows


def listed(lake: Lake) -> list[tuple[str, int]]:
    """The shown days with their versions."""
    newest = lake.newest()
    assert newest is not None
    assert Snapshot.from_bytes(newest.to_bytes()) == newest
    return [(day.day, day.version) for day in daily.shown(newest.days)]


def changed(lake: Lake, day: str, *keys: int, seq: int, **settings: Any) -> None:
    """A run on a day that gives these keys a value."""
    morning(lake, day)
    lake.deliver(f"increment_{day.replace('-', '')}06/{seq}.json", [line("u", [key], [seq], {"a": seq}) for key in keys])
    lake.run(**settings)


def begun(**settings: Any) -> Lake:
    """A table with rows on 2026-01-10."""
    lake = Lake(table(**{"daily": Daily(), **settings}))
    changed(lake, "2026-01-10", *range(12), seq=1)
    return lake


def test_a_day_is_the_last_version_before_midnight() -> None:
    """The first run after midnight makes the day, with or without changes; missed days have the version that was there; then a run is idle again."""
    lake = begun()
    assert days(lake) == {}
    changed(lake, "2026-01-10", 1, seq=2)
    tenth = rows(lake)
    morning(lake, "2026-01-11")
    assert look_at(lake.table()) != 0
    assert isinstance(look_at(lake.table()), int)
    report = lake.run()
    assert (report.outcome, report.operations) == ("committed", ("daily 3",))
    assert days(lake) == {"2026-01-10": tenth}
    assert not isinstance(look_at(lake.table()), int)
    assert lake.run().outcome == "idle"
    changed(lake, "2026-01-11", 2, seq=3)
    eleventh = rows(lake)
    changed(lake, "2026-01-14", 3, seq=4)
    assert days(lake) == {"2026-01-10": tenth, **dict.fromkeys(("2026-01-11", "2026-01-12", "2026-01-13"), eleventh)}
    assert [version for _, version in listed(lake)] == [2, 4, 4, 4]
    assert lake.failed_checks() == []


@pytest.mark.parametrize(
    ("zone", "since", "until", "expected"),
    [
        ("UTC", "2026-01-10T23:59:59.999Z", "2026-01-11T00:00:00Z", ["2026-01-10"]),
        ("UTC", "2026-01-11T00:00:00Z", "2026-01-11T23:59:59Z", []),
        ("Europe/Berlin", "2026-01-10T22:59:59Z", "2026-01-10T23:00:00Z", ["2026-01-10"]),
        ("Europe/Berlin", "2026-01-10T23:00:00Z", "2026-01-11T22:59:59Z", []),
        # a day of 23 hours, one of 25
        ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", ["2026-03-29"]),
        ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59Z", []),
        ("America/Los_Angeles", "2026-01-10T09:00:00Z", "2026-01-12T08:00:00Z", ["2026-01-10", "2026-01-11"]),
        ("UTC", "2025-01-01T00:00:00Z", "2026-01-11T00:00:00Z", ["2026-01-08", "2026-01-09", "2026-01-10"]),
        # a clock that goes back
        ("UTC", "2026-01-11T00:00:00Z", "2026-01-10T00:00:00Z", []),
    ],
)
def test_days_end_at_midnights_of_their_zone(zone: str, since: str, until: str, expected: list[str]) -> None:
    """At the midnight itself the day has ended; of many missed days only those that are kept are made."""
    assert [*daily.ended(Daily(3, zone), times.parse(since), times.parse(until))] == expected
    last = Day("", 7, "f")
    made = daily.after((Day("2026-01-09", 5, "f"),), Daily(400, zone), last, times.parse(since), times.parse(until))
    assert [(day.day, day.version) for day in made] == [("2026-01-09", 5), *((day, 7) for day in expected if day > "2026-01-09")] or len(
        expected
    ) == 3


def test_vacuum_keeps_the_files_of_days_and_deletes_those_of_older_ones() -> None:
    """Nothing of a shown day expires; a day beyond `keep` goes with the files and partitions that only it needs."""
    lake = begun(daily=Daily(keep=3), keep=0.0, keep_versions=1, grace=60.0)
    expected = {}
    for number in range(10, 18):
        changed(lake, f"2026-01-{number}", number % 5, seq=number)
        expected[f"2026-01-{number}"] = rows(lake)
        lake.vacuum()
        lake.now += 120.0
        lake.vacuum()
        assert days(lake) == {day: expected[day] for day in sorted(expected)[:-1][-3:]}
        assert lake.failed_checks() == []
    lake.vacuum()
    newest = lake.newest()
    assert newest is not None
    kept = {version for _, version in listed(lake)} | {newest.version}
    assert {each.version for each in lake.committed() if not each.expired} <= kept | {newest.version - 1}
    assert len([day for day in newest.days or () if not day.shown]) <= 2
    registered = {partition.values[0] for partition in lake.catalog.partitions("school", "t_daily_rows")}
    # a day that a publisher may still register stays for two days
    assert {day for day, _ in listed(lake)} <= registered <= {f"2026-01-{number}" for number in range(13, 18)}
    named = {path for version in kept for path in lake.committed_at(version).named}
    pending = {item.path for item in newest.pending_deletions}
    assert lake.units() <= named | pending | lake.committed_at(newest.version - 1).named


def test_without_the_key_the_days_go() -> None:
    """The view stays and is empty, the files go; with the key again days begin anew."""
    lake = begun(keep=0.0, keep_versions=1, grace=60.0)
    changed(lake, "2026-01-11", 1, seq=2)
    changed(lake, "2026-01-12", *range(12), seq=3)
    old = lake.committed_at(1).named
    assert [day for day, _ in listed(lake)] == ["2026-01-10", "2026-01-11"]
    lake.spec = dataclasses.replace(lake.spec, daily=None)
    assert lake.run().operations == ("daily 5",)
    assert (days(lake), listed(lake)) == ({}, [])
    assert lake.run().outcome == "idle"
    lake.vacuum()
    lake.now += 120.0
    lake.vacuum()
    assert not old & lake.units()
    lake.spec = dataclasses.replace(lake.spec, daily=Daily())
    morning(lake, "2026-01-13")
    lake.run()
    assert list(days(lake)) == ["2026-01-12"]
    newest = lake.newest()
    assert newest is not None
    assert [day.day for day in newest.days or () if not day.shown] == ["2026-01-10", "2026-01-11"]
    for number in (13, 14, 15):
        changed(lake, f"2026-01-{number}", 3, seq=number)
        changed(lake, f"2026-01-{number}", 3, seq=number + 10)
        lake.vacuum()
    newest = lake.newest()
    assert newest is not None
    # what is a stub only is not listed any more
    assert [day.day for day in newest.days or ()] == ["2026-01-12", "2026-01-13", "2026-01-14"]


@pytest.mark.parametrize("mode", tiered(MODES, fast=["from_then_on"]))
@pytest.mark.parametrize("error", tiered(ERRORS, fast=["crash"]))
@pytest.mark.parametrize("lands", [False, True])
def test_a_run_cut_at_any_call_makes_the_day_once(mode: str, error: str, lands: bool) -> None:
    """At the moment of death a reader sees the days of before or after, each as a whole; the next run ends as an undisturbed one."""
    start = begun(target_file_bytes=400)
    changed(start, "2026-01-11", 1, 2, seq=2)
    before, eleventh = days(start), rows(start)
    morning(start, "2026-01-13")
    if lands:
        start.deliver("increment_2026011306/a.json", [line("u", [3], [9], {"a": 9})])
    after = {**before, "2026-01-11": eleventh, "2026-01-12": eleventh}
    for faults in every_fault(mode, error=error):
        lake = start.copy()
        with suppress(Crash, TryLater):
            lake.run(faults)
        assert days(lake) in (before, after)
        lake.run()
        assert days(lake) == after
        assert [version for _, version in listed(lake)] == [1, 2, 2]
        assert lake.failed_checks() == []
    assert len(faults.calls) > 15


@pytest.mark.parametrize("mode", tiered(MODES, fast=["from_then_on"]))
def test_a_vacuum_cut_at_any_call_leaves_the_days(mode: str) -> None:
    """Shown days stay whole; made again, the vacuum ends as an undisturbed one."""
    start = begun(daily=Daily(keep=1), keep=0.0, keep_versions=1, grace=60.0, write_mode="copy-on-write")
    for number in (11, 12, 13):
        changed(start, f"2026-01-{number}", 1, seq=number)
    start.vacuum()
    start.now += 120.0
    before = days(start)
    assert [*before] == ["2026-01-12"]
    undisturbed = start.copy()
    for _ in range(2):
        undisturbed.vacuum()
        undisturbed.now += 120.0
    for faults in every_fault(mode):
        lake = start.copy()
        with suppress(Crash, TryLater):
            lake.vacuum(faults)
        assert days(lake) == before
        for _ in range(2):
            lake.now += 120.0
            lake.vacuum()
        assert days(lake) == before
        assert lake.failed_checks() == []
        assert {path for path in lake.units() if path.startswith(("base", "delta"))} == {
            path for path in undisturbed.units() if path.startswith(("base", "delta"))
        }


def test_an_erase_gives_up_all_days() -> None:
    """They have the row: readers do not see them after the erase, their files go, and the certificate is true. Days begin anew."""
    lake = begun()
    for number in (11, 12):
        changed(lake, f"2026-01-{number}", 3, seq=number)
    assert len(days(lake)) == 2
    # the day before the erase ended with a version that has the row
    morning(lake, "2026-01-13")
    report = erase(lake.table(), Request((("3",),), now=True))
    assert report.finished, report.left
    assert days(lake) == {}
    assert all(each.expired for each in lake.committed() if each.version < report.erased_in)
    stored = [lake.storage.read(info.path) for info in lake.storage.list("/lake/t/base")]
    assert stored
    assert not any(b'"id": 3,' in data for data in stored)
    morning(lake, "2026-01-14")
    lake.run()
    assert {day: [row[0] for row in shown] for day, shown in days(lake).items()} == {
        "2026-01-13": [key for key in sorted(range(12), key=str) if key != 3]
    }
    assert erase(lake.table(), Request(now=True)).finished
    assert len(days(lake)) == 1


def test_a_restore_a_rebuild_and_sync_leave_days_as_they_were() -> None:
    """Days are bookkeeping; a catalog that was lost gets all of them back."""
    lake = begun(key=("id",))
    changed(lake, "2026-01-11", 1, seq=2)
    changed(lake, "2026-01-12", 2, seq=3)
    before = days(lake)
    lake.restore(1)
    assert days(lake) == before
    lake.rebuild()
    assert days(lake) == before
    lake.catalog = Lake(lake.spec).catalog
    sync_table(lake.table())
    assert days(lake) == before
    morning(lake, "2026-01-13")
    lake.run()
    assert days(lake) == {**before, "2026-01-12": rows(lake)}


def test_a_view_of_somebody_else_is_left_alone() -> None:
    """The run is refused, as for every other view."""
    lake, other = begun(daily=None), begun(name="u", view="t_daily", root="/lake/u", landing="/lake/u/incremental")
    shown = other.catalog.view("school", "t_daily")
    assert shown is not None
    lake.catalog.replace_view(shown)
    lake.spec = dataclasses.replace(lake.spec, daily=Daily())
    with pytest.raises(CatalogRefused, match="t_daily"):
        lake.run()


@sized(20)
@given(seed=st.integers(0, 2**32), soft=st.booleans(), mode=st.sampled_from(["merge-on-read", "copy-on-write", "auto"]))
def test_every_day_is_what_the_view_showed_at_its_end(seed: int, soft: bool, mode: str) -> None:
    """Random changes, restores, rebuilds, crashes and vacuums over many days; with new columns and changed types."""
    rng, source = random.Random(seed), Source()
    settings = {"delete": "soft" if soft else "hide", "daily": Daily(keep=6), "keep": 0.0, "keep_versions": 1, "grace": 3600.0}
    lake = Lake(table(write_mode=mode, target_file_bytes=900, **settings))
    for _ in range(40):
        source.step(rng.choice(PLAIN), rng.randrange(30), rng.randrange(30))
    expected: dict[str, Rows] = {}
    for number in range(10, 22):
        day = f"2026-01-{number}"
        morning(lake, day)
        for _ in range(rng.randrange(3)):
            do = rng.choice(("run", "run", "cut", "restore", "rebuild", "vacuum"))
            if do in ("run", "cut") or lake.newest() is None:
                lake.deliver(f"increment_202601{number}06/{rng.random()}.json", [source.lines.pop(0) for _ in range(min(5, len(source.lines)))])
                with suppress(Crash, TryLater):
                    lake.run(Faults(rng.randrange(40), "from_then_on") if do == "cut" else None)
            elif do == "restore":
                lake.restore(rng.choice(lake.restorable()))
            elif do == "rebuild":
                lake.rebuild(accept=True)
            else:
                lake.vacuum()
        lake.run()
        if lake.newest() is None:
            continue
        wide = len(rows(lake)[0]) if rows(lake) else 0
        assert {day: len(shown) for day, shown in days(lake).items()} == {day: len(expected[day]) for day in sorted(expected)[-6:] if expected[day]}
        for earlier, shown in days(lake).items():
            # columns that came later are null
            assert sorted(row[: len(expected[earlier][0])] for row in shown) == sorted(expected[earlier]) or wide != len(expected[earlier][0])
        expected[day] = rows(lake)
        assert lake.failed_checks() == []


def form(*fields: tuple[str, str], generation: int = 1, first: str = "2026-01-10", last: str = "2026-01-11") -> Form:
    """Days of a version with these columns beside the key."""
    lake = begun()
    version = lake.newest()
    assert version is not None
    key = version.schema.field("id")
    schema = dataclasses.replace(version.schema, fields=(key, *(Field(name, name, kind) for name, kind in fields)), generation=generation)
    return Form(dataclasses.replace(version, schema=schema), first, last)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("int", "bigint", "CAST(`__b`.`a` AS bigint)"),
        ("bigint", "int", "`__b`.`a` AS"),
        ("int", "string", "CAST(`__b`.`a` AS varchar(65535))"),
        ("date", "timestamp", "CAST(`__b`.`a` AS timestamp)"),
        ("string", "binary", "__null_"),
        ("array<int>", "array<bigint>", "__null_"),
        ("array<int>", "array<int>", "`__b`.`a` AS"),
        ("struct<x:int>", "struct<x:int,y:int>", "__null_"),
    ],
)
def test_a_column_of_another_type_is_cast_if_nothing_is_lost(old: str, new: str, shown: str) -> None:
    """To the widest type of all days; what no engine-independent cast converts is null, in a column that no file has."""
    newest, before = form(("a", new), generation=2, first="2026-01-12"), form(("a", old))
    spec = table(daily=Daily(), athena=True)
    text = daily_views.view_text(spec, newest.snapshot, [before])
    assert shown in text
    tables = daily_views.tables(spec, newest.snapshot, [before, newest])
    assert [each.name for each in tables] == ["t_daily_rows", "t_daily_rows_g2"]
    view = daily_views.view(spec, newest.snapshot, [before, newest])
    assert [column.type for column in view.columns if column.name == "a"] == ["bigint" if (old, new) == ("bigint", "int") else new]
    for column in {word for word in text.replace("`", " ").split() if word.startswith("__null_")}:
        assert [each.type for each in tables[0].columns if each.name == column] == [new]
    assert [each.name for each in daily_views.published(spec, newest.snapshot, [])] == ["t_daily", "t_daily_athena"]
    assert daily_views.view(spec, newest.snapshot, [before], PRESTO).dialect == "presto"


def test_a_source_column_called_dt_is_shown_beside_the_day() -> None:
    """The day keeps its name, so that a filter never changes its meaning."""
    newest = form(("dt", "string"))
    view = daily_views.view(table(daily=Daily()), newest.snapshot, [newest])
    assert [column.name for column in view.columns] == ["id", "dt_2", "dt"]
    assert JobConfig.read(JobConfig((table(daily=Daily(7, "Europe/Berlin")),), "/lake").written()).specs[0].daily == Daily(7, "Europe/Berlin")


def test_a_version_that_checks_keep_from_readers_is_no_day() -> None:
    """The day has what the main view showed, once a version is shown that froze it; a table whose first version is blocked has no such day."""
    lake = begun(rules=(Rule(UNIQUE, ("a",)),))
    assert lake.look() is None
    for key in range(12):
        changed(lake, "2026-01-11", key, seq=10 + key)
    assert days(lake) == {}
    seen, shown = rows(lake), len(list(lake.committed()))
    changed(lake, "2026-01-11", 0, 1, seq=30)
    assert rows(lake) == seen
    changed(lake, "2026-01-13", 0, seq=31)
    assert rows(lake) != seen
    assert days(lake) == {"2026-01-11": seen, "2026-01-12": seen}
    assert {version for _, version in listed(lake)} == {shown}
    changed(lake, "2026-01-14", 1, seq=40)
    assert days(lake)["2026-01-13"] != seen


def test_a_version_that_is_accepted_after_midnight_is_not_the_day_before() -> None:
    """It was blocked when the day ended, and readers saw the one before."""
    lake = begun(rules=(Rule(ROW_CHANGE, (), 0.1),))
    seen = rows(lake)
    changed(lake, "2026-01-10", *range(12, 24), seq=2)
    assert rows(lake) == seen
    morning(lake, "2026-01-11")
    sync(lake.table(), dry_run=False, accept=True)
    assert len(rows(lake)) == 24
    assert days(lake) == {"2026-01-10": seen}


def test_a_version_that_other_rules_let_pass_after_midnight_is_not_the_day_before() -> None:
    """A run shows it before it ingests what has landed."""
    lake = begun(rules=(Rule(ROW_CHANGE, (), 0.1),))
    seen = rows(lake)
    changed(lake, "2026-01-10", *range(12, 24), seq=2)
    lake.spec = dataclasses.replace(lake.spec, rules=(Rule(UNIQUE, ("id",)),))
    changed(lake, "2026-01-11", 0, seq=3)
    assert len(rows(lake)) == 24
    assert days(lake) == {"2026-01-10": seen}


@pytest.mark.parametrize("verb", ["run", "publish"])
@pytest.mark.parametrize("rules", [(), (Rule(UNIQUE, ("id",)),)], ids=["removed", "corrected"])
def test_rules_that_change_after_midnight_change_no_day(rules: tuple[Rule, ...], verb: str) -> None:
    """A version was blocked when the day ended, and is shown by the new rules."""
    lake = begun(rules=(Rule(ROW_CHANGE, (), 0.1),))
    seen = rows(lake)
    changed(lake, "2026-01-10", *range(12, 24), seq=2)
    lake.spec = dataclasses.replace(lake.spec, rules=rules)
    morning(lake, "2026-01-11")
    if verb == "publish":
        sync(lake.table(), dry_run=False)
    lake.run()
    assert len(rows(lake)) == 24
    assert days(lake) == {"2026-01-10": seen}


def test_rules_that_come_after_a_restore_find_its_rows_in_the_day() -> None:
    """No version was blocked."""
    lake = begun(compact_every=1e9)
    changed(lake, "2026-01-10", *range(12), seq=2)
    lake.restore(1)
    seen = rows(lake)
    lake.spec = dataclasses.replace(lake.spec, rules=(Rule(UNIQUE, ("id",)),))
    morning(lake, "2026-01-11")
    lake.run()
    assert days(lake) == {"2026-01-10": seen}
