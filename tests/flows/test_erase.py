"""Erase: afterwards no object under the table has a value of the keys, whatever interrupted it, and nothing brings the values back."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import itertools
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.erasure.keys import hashed
from compactor.core.model.errors import Refused, TryLater
from compactor.core.results.record import RunRecord
from compactor.core.results.reports import ErasureReport
from compactor.flows.keep.erase import Request, erase
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.ledger import ERASED_REASON
from compactor.flows.read.verify import verify
from compactor.flows.read.visible import changes
from compactor.flows.write import compact
from tests.faults import ERRORS, MODES, Crash, Faults
from tests.oracle.erased_keys import SECRET
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.reader import look
from tests.oracle.sizes import FULL

GONE = (3, 7, 44)
VALUES = ("private",)


def row(key: int, seq: int, op: str = "u") -> str:
    """A line; those of erased keys have a value that is searched for."""
    return line(op, [key], [seq], {"a": seq, "b": f"private{key}-{seq}" if key in GONE else f"x{key}-{seq}"})


@functools.cache
def old(**settings: Any) -> Lake:
    """Several segments, a Delta, older versions, a file that a restore undid, two contents of one name, and a run that died before its commit.

    Files whose name ends in `.parquet` are lines like all others here.
    """
    lake = Lake(table(target_file_bytes=900, archive="move", **settings))
    lake.deliver("increment_2026010100/a.json", [row(key, key, "c") for key in range(12)])
    lake.run()
    lake.deliver("increment_2026010101/a.json", [row(1, 101), row(3, 102), line("d", [7], [103]), row(44, 104, "c")])
    lake.run()
    lake.deliver("increment_2026010101/a.json", [row(44, 105), row(2, 106)])
    lake.run()
    newest = lake.newest()
    assert newest is not None
    lake.deliver("increment_2026010102/undone.json", [row(3, 201), row(5, 202)])
    lake.run()
    lake.restore(newest.version)
    lake.deliver("increment_2026010103/b.parquet", [row(3, 301), row(6, 302)])
    with suppress(Crash):
        lake.run(Faults(25, "from_then_on"))
    lake.run()
    return lake


def done(lake: Lake, *keys: int, faults: Faults | None = None, now: bool = True) -> ErasureReport:
    """One erase by a process of its own."""
    lake.now += 1.0
    return erase(lake.table(faults), Request(tuple((str(key),) for key in keys), now=now))


def found(lake: Lake) -> list[str]:
    """The objects that have a value of the erased keys, in any byte, unpacked."""
    objects = {info.path: lake.storage.read(info.path) for info in lake.storage.list(lake.spec.root)}
    plain = {path: gzip.decompress(data) if path.endswith(".gz") else data for path, data in objects.items()}
    return [path for path, data in plain.items() if any(value.encode() in data for value in VALUES)]


def rows(lake: Lake) -> dict[int, str]:
    """What readers see: key → b."""
    seen = lake.look()
    assert seen is not None
    at = [seen.columns.index(name) for name in ("id", "b")]
    return {each[at[0]]: each[at[1]] for each in seen.rows}


def expected() -> dict[int, str]:
    """The rows of the other keys."""
    return {key: value for key, value in rows(old()).items() if key not in GONE}


def check_finished(lake: Lake, report: ErasureReport) -> None:
    """Nothing is left, and there is a certificate that says so."""
    assert report.left == ()
    assert found(lake) == []
    assert rows(lake) == expected()
    assert lake.failed_checks() == []
    assert [check.detail for check in verify(lake.table(), deep=True) if not check.ok] == []
    newest = lake.newest()
    assert newest is not None
    assert lake.storage.read(lake.layout.certificate(newest.version, "txt")).decode().endswith("none with an erased key\n")


def test_afterwards_no_object_has_a_value_and_nothing_brings_it_back() -> None:
    """Neither a rebuild, nor the undone file, nor the events when they come again, nor a version from before."""
    lake = old().copy()
    assert len(found(lake)) > 6
    report = done(lake, *GONE)
    check_finished(lake, report)
    assert report.rows == 3
    assert {item.path for item in report.rewritten} == {
        "increment_2026010100/a.json",
        "increment_2026010101/a.json",
        "increment_2026010102/undone.json",
        "increment_2026010103/b.parquet",
    }
    assert not [info for info in lake.storage.list(lake.spec.root) if "rewriting" in info.path]
    assert lake.rebuild().outcome == "published"
    assert rows(lake) == expected()
    lake.reabsorb()
    assert rows(lake) == {**expected(), 5: "x5-202"}
    lake.deliver("increment_2026010104/again.json", [row(key, 400 + key, "c") for key in (3, 4, 7)])
    assert lake.run().outcome == "committed"
    assert rows(lake) == {**expected(), 5: "x5-202", 4: "x4-404"}
    assert lake.failed_checks() == []
    with pytest.raises(Refused, match="older than version"):
        lake.restore(1)
    with pytest.raises(Refused, match="older than version"):
        lake.pin(2)
    # the archive has the events that came again
    assert found(lake) != []
    again = done(lake)
    assert again.finished
    assert found(lake) == []


def test_texts_that_were_written_before_go_and_later_ones_stay() -> None:
    """Errors, notes and verdicts may quote records. The figures of a run stay."""
    lake = old().copy()
    layout, moment = lake.layout, "2026-01-01T00:00:00Z"
    failed = RunRecord("t", "failed", id="a1", started=moment, ended=moment, rows=17, error="no: private3-102", notes=("private7-7",))
    well = RunRecord("t", "committed", id="a2", started=moment, ended=moment, rows=18)
    for record in (failed, well):
        lake.storage.write(layout.run(record.started, record.id), record.to_bytes())
    for place in (layout.last_run(), layout.audit()):
        lake.storage.write(place, failed.to_bytes())
    check_finished(lake, done(lake, *GONE))
    assert dataclasses.replace(failed, error=ERASED_REASON, notes=()) == RunRecord.from_bytes(lake.storage.read(layout.run(moment, "a1")))
    assert well == RunRecord.from_bytes(lake.storage.read(layout.run(moment, "a2")))
    assert lake.storage.stat(layout.last_run()) is None
    assert lake.storage.stat(layout.audit()) is None
    lake.now += 1.0
    later = dataclasses.replace(failed, id="a3", error="later", notes=())
    for place in (layout.run(moment, "a3"), layout.last_run(), layout.audit()):
        lake.storage.write(place, later.to_bytes())
    assert done(lake).finished
    assert [later] * 3 == [RunRecord.from_bytes(lake.storage.read(place)) for place in (layout.run(moment, "a3"), layout.last_run(), layout.audit())]


ALL: dict[str, Any] = {"history": True, "feed": "net"}
"""A table that stores everything."""


def test_history_and_feed_have_nothing_of_the_keys_either() -> None:
    """Events of other keys stay in the history. The feed begins anew: its older parts would have to be rewritten version by version."""
    lake = old(**ALL).copy()
    before = history(lake)
    assert {place.split("/")[3] for place in found(lake)} >= {"base", "feed", "history", "archive"}
    report = done(lake, *GONE)
    check_finished(lake, report)
    assert history(lake) == [row for row in before if row[0] not in GONE]
    assert report.events == 7
    newest = lake.newest()
    assert newest is not None
    assert report.feed_from == report.erased_in
    assert f"the change feed begins anew: it can be read from version {report.erased_in} on" in report.to_text()
    assert not [info for info in lake.storage.list(lake.spec.root) if "/feed/" in info.path]
    assert lake.catalog.partitions("school", "t_changes") == []
    with pytest.raises(Refused, match=f"the change feed begins at version {report.erased_in}"):
        list(changes(lake.table(), report.erased_in - 1))
    assert lake.rebuild().outcome == "published"
    lake.deliver("increment_2026010104/again.json", [row(key, 400 + key, "c") for key in (3, 4, 7)])
    lake.run()
    assert [(each[0], each[2]) for each in history(lake) if each[0] in (*GONE, 4)] == [(4, "x4-4"), (4, "x4-404")]
    engine = lake.env().engine()
    told = [json.loads(text) for each in changes(lake.table(), report.erased_in) for text in engine.read_feed(lake.spec, each)]
    assert {(each["_change_type"], each["id"]) for each in told} == {("update_preimage", 4), ("update_postimage", 4)}
    assert done(lake).finished
    assert found(lake) == []
    assert lake.failed_checks() == []


def history(lake: Lake) -> list[tuple[Any, ...]]:
    """The versions of rows that readers see: id, a, b and when each began."""
    seen = look(lake.catalog, lake.storage, lake.spec, "t_history")
    assert seen is not None
    at = [seen.columns.index(name) for name in ("id", "a", "b", "__start_us")]
    return sorted(tuple(each[place] for place in at) for each in seen.rows)


def test_a_history_that_was_switched_off_and_a_feed_go_too() -> None:
    """What older settings have left is erased as well."""
    lake = old(**ALL).copy()
    lake.spec = dataclasses.replace(lake.spec, history=False, feed="off")
    report = done(lake, *GONE)
    check_finished(lake, report)


@functools.cache
def calls(**settings: Any) -> int:
    """The number of calls of an erase that nobody disturbs."""
    faults = Faults()
    done(old(**settings).copy(), *GONE, faults=faults)
    return len(faults.calls)


def check_cut(mode: str, error: str, numbers: Iterable[int], **settings: Any) -> None:
    """Cut an erase at each of these calls, and erase again. In between a rebuild gives the rows with or without the keys, and no other."""
    for number in numbers:
        faults, lake = Faults(number, mode, error=error), old(**settings).copy()
        with suppress(Crash, TryLater):
            done(lake, *GONE, faults=faults)
        assert faults.fired
        if not any("_compactor/erased" in info.path for info in lake.storage.list(lake.spec.root)):
            between = lake.copy()
            assert between.rebuild().outcome == "published"
            assert rows(between) in (expected(), rows(old()))
        check_finished(lake, done(lake, *GONE))


def test_an_erase_that_is_cut_is_finished_by_the_next_one() -> None:
    """At some calls."""
    check_cut("from_then_on", "crash", range(3, calls(), 29))
    check_cut("from_then_on", "crash", range(11, calls(**ALL), 41), **ALL)


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("mode", MODES)
def test_an_erase_cut_at_any_call_is_finished_by_the_next_one(mode: str, error: str) -> None:
    """At every call, in every way, with all that a table can store."""
    check_cut(mode, error, range(1, calls(**ALL) + 1), **ALL)


@pytest.mark.slow
def test_runs_between_the_parts_of_an_erase_harm_nothing() -> None:
    """A run and a vacuum come after every interruption."""
    for number in range(1, calls() + 1):
        lake = old().copy()
        with suppress(Crash):
            done(lake, *GONE, faults=Faults(number, "from_then_on"))
        lake.deliver("increment_2026010104/more.json", [row(8, 500)])
        lake.run()
        lake.vacuum()
        report = done(lake, *GONE)
        assert report.finished
        assert found(lake) == []
        assert rows(lake) == {**expected(), 8: "x8-500"}
        assert lake.failed_checks() == []


class Beside(Faults):
    """Before call `at` another process does its work."""

    def __init__(self, at: int, work: Callable[[], object]) -> None:
        super().__init__()
        self.at, self.work = at, work

    def call(self, operation: str, path: str, effect: Callable[[], Any], half: Callable[[], object] | None = None) -> Any:
        """Count and carry out one call."""
        if len(self.calls) + 1 == self.at:
            self.work()
        return super().call(operation, path, effect, half)


def a_run(lake: Lake) -> None:
    """One more row arrives and is ingested."""
    lake.deliver("increment_2026010104/more.json", [row(8, 500)])
    lake.run()


def a_vacuum(lake: Lake) -> None:
    """Everything goes that no version names."""
    vacuum(dataclasses.replace(lake.table(), spec=dataclasses.replace(lake.spec, keep=0.0, keep_versions=1, grace=0.0)), False)


def an_archived_key(lake: Lake) -> None:
    """A record of an erased key arrives and is ingested."""
    lake.deliver("increment_2026010104/again.json", [row(3, 600)])
    lake.run()


def check_beside(work: Callable[[Lake], None], numbers: Iterable[int]) -> None:
    """Let another process work at each of these calls. The erase is finished, or says that it is to be repeated, and then is."""
    for number in numbers:
        lake = old().copy()
        with suppress(TryLater):
            done(lake, *GONE, faults=Beside(number, lambda lake=lake: work(lake)))
        report = done(lake, *GONE)
        assert report.finished
        assert found(lake) == []
        assert rows(lake) in (expected(), {**expected(), 8: "x8-500"})
        assert lake.failed_checks() == []


@pytest.mark.parametrize("work", [a_run, a_vacuum, an_archived_key])
def test_an_erase_beside_another_process_is_finished_or_to_be_repeated(work: Callable[[Lake], None]) -> None:
    """It blames no file that a run has archived meanwhile, and a copy that vacuum took is made again. At some calls."""
    check_beside(work, range(5, calls(), 23))


@pytest.mark.slow
@pytest.mark.parametrize("work", [a_run, a_vacuum, an_archived_key])
def test_an_erase_beside_another_process_at_any_call(work: Callable[[Lake], None]) -> None:
    """At every call."""
    check_beside(work, range(1, calls() + 1))


def test_a_run_that_finds_its_file_archived_and_rewritten_ends_well() -> None:
    """At any call of a run another one ingests and archives the same file, and an erase takes records out of it."""
    for number in itertools.count(1):
        lake = old().copy()
        lake.deliver("increment_2026010104/more.json", [row(8, 500), row(3, 501)])

        def others(lake: Lake = lake) -> None:
            lake.run()
            with suppress(TryLater):
                done(lake, *GONE)

        beside = Beside(number, others)
        with suppress(TryLater):
            lake.run(beside)
        if len(beside.calls) < number:
            break
        assert done(lake, *GONE).finished
        assert found(lake) == []
        assert rows(lake) == {**expected(), 8: "x8-500"}
        assert lake.failed_checks() == []
    assert number > 30


@pytest.mark.parametrize("now", [False, True])
def test_a_certificate_holds_whichever_of_two_erases_ends_last(now: bool) -> None:
    """At some calls of an erase another one takes key 5: none writes an older copy over its files, or certifies a key that it has not searched."""
    for number in range(1 if FULL else 97, calls() + 1 if FULL else 131):
        lake, reports = old().copy(), list[ErasureReport]()

        def other(lake: Lake = lake, reports: list[ErasureReport] = reports) -> None:
            with suppress(TryLater):
                reports.append(done(lake, 5, now=now))

        with suppress(TryLater):
            reports.append(done(lake, 3, faults=Beside(number, other)))
        archived = b"".join(lake.archive())
        for key, value in ((3, b"private3-"), (5, b"x5-")):
            certified = any(hashed(json.dumps([str(key)]), SECRET) in report.keys for report in reports if report.finished)
            assert not certified or value not in archived, f"key {key}, at call {number}"
        assert done(lake, 3, 5).finished
        assert not any(value in data for value in (b"private3-", b"x5-") for data in lake.archive())
        assert lake.failed_checks() == []


def test_readers_of_older_versions_have_time_to_finish() -> None:
    """Without `now` files stay for `grace`, and there is no certificate before."""
    lake = old().copy()
    report = done(lake, *GONE, now=False)
    assert not report.finished
    assert report.goes is not None
    assert rows(lake) == expected()
    assert found(lake) != []
    assert not [info for info in lake.storage.list(lake.spec.root) if "_compactor/erased" in info.path]
    lake.now += lake.spec.grace
    check_finished(lake, done(lake, now=False))


def test_a_compaction_that_was_computing_brings_nothing_back() -> None:
    """Its base is of a version before the erase."""
    lake = old().copy()
    lake.deliver("increment_2026010105/c.json", [row(key, 600 + key) for key in range(8, 12)])
    lake.spec = dataclasses.replace(lake.spec, compact_every=1e9)
    lake.run()
    lake.spec = dataclasses.replace(lake.spec, compact_every=0.0)
    read = lake.newest()
    assert read is not None
    work = compact._Compaction(lake.table(), read, compact.Spending())
    assert work.staged is not None
    done(lake, *GONE)
    newest = lake.newest()
    assert newest is not None
    edit = work.edit(newest)
    assert edit is not None
    assert [each.problem(newest) for each in edit.requires] != [None, None]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"live_view": True}, "live view"),
        ({"envelope": "full-load"}, "a row that is missing in a full load counts as deleted"),
    ],
)
def test_what_cannot_be_erased_from_is_refused_by_name(settings: dict[str, object], why: str) -> None:
    """Before anything is written."""
    lake = old().copy()
    lake.spec = dataclasses.replace(lake.spec, **settings)  # type: ignore[arg-type]
    before = {info.path: info.etag for info in lake.storage.list(lake.spec.root)}
    with pytest.raises(Refused, match=why):
        done(lake, *GONE)
    assert {info.path: info.etag for info in lake.storage.list(lake.spec.root)} == before


def test_pins_quarantine_landing_and_unknown_files_are_named() -> None:
    """Each is in the way until somebody has looked at it."""
    lake = old().copy()
    lake.pin(2, "audit")
    lake.deliver("increment_2026010109/late.json", ["{oops", row(3, 900)])
    with pytest.raises(Refused, match=r"pins keep older versions.*--remove audit.*1 file in landing"):
        done(lake, *GONE)
    lake.unpin("audit")
    lake.run()
    with pytest.raises(Refused, match="records are in quarantine"):
        done(lake, *GONE)
    kept = Lake(table(archive="keep"))
    kept.deliver("increment_2026010100/a.json", [row(3, 1)])
    kept.run()
    with pytest.raises(
        Refused,
        match=r"1 file in landing, .*: run the table, and remove what is ingested and stays \(`archive: keep` or `copy`, .*\), or leave them there",
    ):
        done(kept, 3)
    other = old().copy()
    other.storage.write("/lake/t/archive/hand/made.json", b"private")
    with pytest.raises(Refused, match=r"no version ingested /lake/t/archive/hand/made\.json"):
        done(other, *GONE)
    with pytest.raises(Refused, match="no key was ever erased"):
        done(old().copy())


def test_a_file_that_cannot_be_rewritten_is_deleted_only_if_asked_to() -> None:
    """Then the rows stay, and a rebuild is refused."""
    lake = Lake(table(archive="move", format="json"))
    lake.deliver("increment_2026010100/a.zst", [row(key, key, "c") for key in range(5)])
    lake.deliver("increment_2026010100/b.json", [row(8, 8, "c")])
    lake.run()
    with pytest.raises(Refused, match=r"a\.zst has 1 record of erased keys, and .*a\.zst: cannot be rewritten: only plain and gzip files can be"):
        done(lake, 3)
    report = erase(lake.table(), Request((("3",),), now=True, delete_files=True))
    assert report.finished
    assert report.deleted == ("increment_2026010100/a.zst",)
    assert found(lake) == []
    assert sorted(rows(lake)) == [0, 1, 2, 4, 8]
    with pytest.raises(Refused, match="archive_retention"):
        lake.rebuild()
