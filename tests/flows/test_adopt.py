"""Adopting a base of others, cut everywhere and raced: nothing is seen of it before it stands, and nothing of it is lost or doubled after."""

from __future__ import annotations

import dataclasses
import functools
import json
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.catalog.ddl import Column, TableDef
from compactor.core.model.errors import CatalogRefused, NoRowsYet, Refused, SchemaRefused, TryLater, Unavailable
from compactor.core.model.policy import Policy
from compactor.core.results.reports import AdoptReport
from compactor.flows.read.verify import verify
from compactor.flows.table import Table
from compactor.flows.write.adopt import adopt
from tests.faults import ERRORS, MODES, Crash, Faults, every_fault
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.sizes import FULL
from tests.oracle.watch import Watch, at_every_call

WAYS = [(mode, error) for mode in MODES for error in ERRORS] if FULL else [("from_then_on", "crash"), ("after_effect", "unavailable")]
OLD = "/old/t"
THROUGH = "increment_2026010101"


def begun() -> Lake:
    """A base of others in two files, and four increments of which it holds two."""
    lake = Lake(table(target_file_bytes=900, feed="net"))
    for file, keys in (("000000_0", range(8)), ("part-1.parquet", range(8, 16))):
        rows = [json.dumps({"id": key, "a": 1000 + key, "old": key, "at": 100 + key}) for key in keys]
        lake.storage.write(f"{OLD}/{file}", "\n".join(rows).encode())
    for hour in range(2):
        lake.deliver(f"increment_20260101{hour:02}/a.json", [line("u", [1], [110 + hour], {"a": -1, "b": 0}), line("d", [2], [110 + hour])])
    lake.deliver("increment_2026010102/a.json", [line("u", [3], [50], {"a": 3, "b": 3}), line("d", [4], [300])])
    lake.deliver(
        "increment_2026010103/a.json", [line("u", [50], [301], {"a": 5, "b": 5}), line("d", [5], [301]), line("u", [6], [302], {"a": 1006, "b": 6})]
    )
    return lake


def take_over(lake: Lake, faults: Faults | None = None) -> AdoptReport:
    """By a process of its own."""
    lake.now += 1.0
    return adopt(Table(lake.env(faults), lake.spec), OLD, THROUGH)


def shown(lake: Lake) -> dict[int, int | None]:
    """id → a."""
    seen = lake.look()
    assert seen is not None
    at = {name: number for number, name in enumerate(seen.columns)}
    return {row[at["id"]]: row[at["a"]] for row in seen.rows}


@functools.cache
def undisturbed() -> tuple[Lake, Lake]:
    """The lake after the adoption, and after a run on top of it."""
    lake = begun()
    take_over(lake)
    first = lake.copy()
    lake.run()
    return first, lake


def test_changes_after_the_folder_win_and_those_up_to_it_are_never_read() -> None:
    """Whatever their Positions; the new column is null in adopted rows; what was absorbed lies in the archive, and a rebuild gives the same."""
    first, lake = undisturbed()
    assert shown(first) == {key: 1000 + key for key in range(16)}
    newest = first.newest()
    assert newest is not None
    assert {item.folder: item.outcome for item in newest.inputs} == {"increment_2026010100": "adopted", THROUGH: "adopted"}
    assert first.landing() == {name for name in lake.delivered if name[0] > THROUGH + "/z"}
    later = {**shown(first), 3: 3, 50: 5}
    del later[4], later[5]
    assert shown(lake) == later
    assert (first.failed_checks(), lake.failed_checks(), lake.landing()) == ([], [], set())
    assert len(lake.archive()) == 4
    lake = lake.copy()
    report = lake.rebuild()
    assert (report.outcome, report.files, bool(report.difference)) == ("published", 2, False)
    assert (shown(lake), lake.failed_checks()) == (later, [])


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no folder of that form": ({"through": "hour-2"}, Refused, "'hour-2' is no folder like"),
    "no key": ({"spec": {"key": ()}}, Refused, "it has no key"),
    "a flat landing folder": ({"spec": {"pattern": ""}}, Refused, "one flat folder"),
    "nothing landed": ({"spec": {"landing": "/lake/none"}}, NoRowsYet, "no change has landed below /lake/none"),
    "no files": ({"path": "/older"}, Refused, "there are no files below /older"),
    "Delta Lake": ({"write": "_delta_log/0.json"}, Refused, "is a table of Delta Lake"),
    "partitions": ({"write": "day=1/p.parquet"}, Refused, r"is partitioned.*\(day=1/\)"),
    "a column more, by policy": ({"spec": {"policy": Policy("fail")}}, SchemaRefused, "`old`.*was added"),
    "a table of others": ({"table": "t_base"}, CatalogRefused, "a table school.t_base exists at /their/t_base and is not ours"),
}
"""What is wrong → what is done or said otherwise, the error."""


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_words_before_anything_is_written(name: str) -> None:
    """No object appears and none goes."""
    said, error, message = REFUSED[name]
    lake = begun()
    lake.spec = dataclasses.replace(lake.spec, **said.get("spec", {}))
    if "write" in said:
        lake.storage.write(f"{OLD}/{said['write']}", b"{}")
    if "table" in said:
        lake.catalog.ensure_database("school", "/lake")
        lake.catalog.ensure_table(TableDef("school", said["table"], (Column("id", "bigint"),), (), f"/their/{said['table']}"))
    before = [*lake.storage.list("/")]
    with pytest.raises(error, match=message):
        adopt(Table(lake.env(), lake.spec), said.get("path", OLD), said.get("through", THROUGH))
    assert [*lake.storage.list("/")] == before


@pytest.mark.parametrize("pinned", [True, False])
def test_without_its_first_version_an_adopted_table_goes_on_and_is_not_rebuilt(pinned: bool) -> None:
    """`verify` says what cannot be told, `rebuild` names the pin that would have kept it; with the pin both go."""
    lake = begun()
    lake.spec = dataclasses.replace(lake.spec, keep=0.0, keep_versions=1, grace=0.0, write_mode="copy-on-write", archive_retention=5.0)
    take_over(lake)
    # what had landed before leaves the archive, which nobody misses
    lake.now += 10.0
    lake.vacuum()
    assert lake.archive() == []
    lake.spec = dataclasses.replace(lake.spec, archive_retention=None)
    if pinned:
        lake.pin(1, "adopted")
    lake.run()
    rows = shown(lake)
    for _ in range(3):
        lake.now += 10.0
        lake.vacuum()
    assert (shown(lake), lake.failed_checks()) == (rows, [])
    assert rows[1] == 1001
    told = [check.detail for check in verify(Table(lake.env(), lake.spec)) if check.name == "view equals full recompute"]
    assert ["cannot be compared" in detail for detail in told] == [not pinned]
    if pinned:
        assert lake.rebuild().outcome == "published"
        assert (shown(lake), lake.failed_checks()) == (rows, [])
    else:
        with pytest.raises(Refused, match=r"adopted with rows that no landed file holds.*pin t 1"):
            lake.rebuild()


@pytest.mark.parametrize(("mode", "error"), WAYS)
def test_cut_anywhere_it_is_not_there_or_it_stands(mode: str, error: str) -> None:
    """Before the commit point nothing is to be seen and it can be begun again; after it a second one is refused, and a run finishes it."""
    first, after = undisturbed()
    ends = set()
    for faults in every_fault(mode=mode, error=error):
        lake = begun()
        with suppress(Crash, Unavailable):
            take_over(lake, faults)
        stands = lake.newest() is not None
        ends.add(stands)
        if stands:
            with pytest.raises(Refused, match="it was adopted before"):
                take_over(lake)
        else:
            assert lake.look() is None
            assert lake.landing() == begun().landing()
            take_over(lake)
            assert shown(lake) == shown(first)
        lake.run()
        assert (shown(lake), lake.landing(), lake.failed_checks()) == (shown(after), set(), [])
        assert sorted(lake.archive()) == sorted(after.archive())
        assert len([*lake.storage.list(OLD)]) == 2
    assert ends == {True, False}


@pytest.mark.slow
def test_a_run_that_comes_first_at_any_moment_is_not_overwritten() -> None:
    """Then the table is what landed, and the adoption is refused; one that comes later goes on top."""
    told = set()

    def landed() -> tuple[Lake, Watch]:
        lake = begun()
        return lake, Watch(lake)

    for lake, _, intrusion in at_every_call(landed, Lake.run):
        try:
            take_over(lake, intrusion)
            told.add("stands")
        except (TryLater, Refused) as error:
            told.add("refused" if isinstance(error, Refused) else type(error).__name__)
            assert 1000 not in shown(lake).values()
        lake.run()
        assert lake.failed_checks() == []
    # NoRowsYet: it has archived everything, so that nothing is left in landing to learn from
    assert told == {"refused", "NoRowsYet", "stands"}
