"""A run with nothing to do: found from storage alone, and never where something is left to do."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from compactor.core.model.spec import TableSpec
from compactor.core.results.record import TableReport
from compactor.flows.environment import Environment
from compactor.flows.record import last_idle, remember_idle
from compactor.flows.run_tables import run_tables
from tests.faults import Crash, every_fault
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.sizes import tiered

CAUGHT_UP = (("increment_2026010100/a.json", 1), ("increment_2026010101/a.json", 2))


def caught_up(spec: TableSpec | None = None) -> Lake:
    """A lake whose table has run twice and shows everything."""
    lake = Lake(spec or table(compact_every=1e9))
    for path, key in CAUGHT_UP:
        lake.deliver(path, [line("c", [key], [key], {"a": key})])
        assert look(lake)[1] == ["t"]
    return lake


def look(lake: Lake, env: Environment | None = None) -> tuple[TableReport, list[str]]:
    """Run the table as the command line does; return its report, and the tables for which Spark would have started."""
    started: list[str] = []

    def start(busy: Sequence[TableSpec], size: int) -> None:
        started.extend(spec.name for spec in busy)

    lake.now += 1
    (report,) = run_tables(env or lake.env(), [lake.spec], start=start)
    return report, started


def no_more(*_: Any) -> Any:
    """A port that must not be asked for."""
    raise AssertionError("an idle run asked the engine or the catalog")


def test_a_table_without_work_starts_nothing() -> None:
    """Neither engine nor catalog is asked, and nothing is written below the table; one small file beside the tables is overwritten with the outcome."""
    lake = caught_up()

    def below() -> dict[str, object]:
        return {path: each for path, each in lake.storage._objects.items() if path.startswith(lake.spec.root + "/")}

    before = below()
    for _ in range(2):
        report, started = look(lake, dataclasses.replace(lake.env(), engine=no_more, catalog=no_more))
        assert (report.outcome, report.version, report.operations, started) == ("idle", 2, (), [])
    assert below() == before
    (beside,) = (path for path in lake.storage._objects if path not in before)
    assert json.loads(lake.storage.read(beside)) == {"time": lake.env().now(), "idle": ["t"]}


def test_tables_that_run_together_share_one_file_whichever_of_them_are_idle() -> None:
    """It would else be another one for each mix, for ever. What has no record of its own is in it."""
    env = Lake(table()).env()
    specs = [dataclasses.replace(table(), name=name, root=f"/lake/{name}") for name in "ab"]
    for outcomes in (("idle", "idle"), ("committed", "idle"), ("failed", "committed")):
        remember_idle(env, specs, [TableReport(name, outcome) for name, outcome in zip("ab", outcomes)])
    assert [json.loads(env.storage.read(info.path))["idle"] for info in env.storage.list("/lake/_runs")] == [["b"]]
    assert last_idle(env, specs, env.now()) == {"b": env.now()}
    assert last_idle(env, specs, "2000-01-01T00:00:00.000Z") == {}


def test_a_table_whose_landing_is_empty_starts_nothing() -> None:
    """Before its first file."""
    lake = Lake(table())
    report, started = look(lake, dataclasses.replace(lake.env(), engine=no_more, catalog=no_more))
    assert (report.outcome, report.version, started) == ("idle", None, [])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"view": "renamed"}, "the view has another name"),
        ({"delete": "soft"}, "the view has another text"),
        ({"compact_every": 0.0}, "a compaction is due"),
    ],
)
def test_other_settings_are_work(settings: dict[str, Any], why: str) -> None:
    """What the catalog shows was written with the settings of then."""
    lake = caught_up()
    lake.spec = dataclasses.replace(lake.spec, **settings)
    assert look(lake)[1] == ["t"], why


def test_a_compaction_that_is_not_worth_it_is_looked_at_once() -> None:
    """A Delta may stay for weeks; until the next commit the answer is the same."""
    lake = Lake(table(compact_every=1e9))
    for hour, keys in enumerate((range(60), range(0, 60, 2))):
        lake.deliver(f"increment_202601010{hour}/a.json", [line("u", [key], [hour * 100 + key], {"a": key}) for key in keys])
        look(lake)
    lake.spec = dataclasses.replace(lake.spec, compact_every=0.0)
    report, started = look(lake)
    assert (report.outcome, report.notes, started) == ("idle", (), ["t"])
    assert lake.newest().delta is not None
    assert look(lake, dataclasses.replace(lake.env(), engine=no_more, catalog=no_more))[1] == []
    lake.deliver("increment_2026010103/a.json", [line("u", [3], [100], {"a": 100})])
    assert look(lake)[1] == ["t"]


def test_a_compaction_that_was_asked_for_and_rewrites_nothing_has_a_reason() -> None:
    """Also where the run ingests something; a run that compacts needs none."""
    lake = Lake(table(compact_every=1e9))
    keys = (range(60), range(0, 60, 2))
    lake.deliver("increment_2026010100/a.json", [line("u", [key], [key], {"a": key}) for key in keys[0]])
    look(lake)
    lake.spec = lake.spec.compacting_now
    assert look(lake)[0].notes == ("not compacted: the table has no Delta, all changes are in the base",)
    lake.deliver("increment_2026010101/a.json", [line("u", [key], [100 + key], {"a": key}) for key in keys[1]])
    for outcome in ("committed", "idle"):
        report, _ = look(lake)
        assert report.outcome == outcome
        assert [note.split(";")[-1] for note in report.notes] == [" the Delta has 30 rows, the base 60"]
    lake.deliver("increment_2026010102/a.json", [line("u", [key], [200 + key], {"a": key}) for key in keys[0]])
    report, _ = look(lake)
    assert (report.operations, report.notes) == (("commit 3", "compact 4"), ())


def test_another_catalog_is_work() -> None:
    """What one catalog shows says nothing about another."""
    lake = caught_up()
    assert look(lake, dataclasses.replace(lake.env(), catalog_name=lambda: "another"))[1] == ["t"]


def test_a_file_in_landing_is_work() -> None:
    """Also one that is damaged."""
    lake = caught_up()
    lake.deliver("increment_2026010102/a.json", [line("c", [3], [3], {"a": 3})])
    assert look(lake)[1] == ["t"]
    assert look(lake)[1] == []


@pytest.mark.parametrize(
    ("mode", "error"),
    tiered([("from_then_on", "crash"), ("after_effect", "unavailable"), ("before", "unavailable")], fast=[("from_then_on", "crash")], several=True),
)
def test_whatever_failed_a_run_is_idle_only_when_all_is_done(mode: str, error: str) -> None:
    """Fail at every call of a run in turn: later runs end with the newest version shown and nothing left in landing."""
    for faults in every_fault(mode, error=error):
        lake = caught_up()
        lake.deliver("increment_2026010102/a.json", [line("c", [3], [3], {"a": 3})])
        with contextlib.suppress(Crash):
            look(lake, lake.env(faults))
        look(lake)
        # what a dead publisher left makes every run ask the catalog until it must have ended
        lake.now += 3 * lake.spec.publish_window
        look(lake)
        report, started = look(lake)
        assert (report.outcome, report.version, started) == ("idle", 3, []), faults.fail_at
        assert lake.look().version == 3
        assert not lake.landing()
    assert faults.fail_at > 20


def test_a_vacuum_that_commits_leaves_no_work_to_the_next_run() -> None:
    """It publishes its version. Where something was to be shown before, a run does it as ever."""
    lake = caught_up(table(write_mode="copy-on-write", keep=0.0, keep_versions=1, grace=0.0))
    before = [*lake.committed()][-1].version
    assert lake.vacuum().version == before + 1
    assert look(lake)[1] == []
    lake = caught_up(table(write_mode="copy-on-write", keep=0.0, keep_versions=1, grace=0.0))
    lake.spec = dataclasses.replace(lake.spec, read_optimized=True)
    lake.vacuum()
    assert look(lake)[1] == ["t"]
