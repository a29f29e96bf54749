"""The Iceberg table over the list engine's files: what it shows, after whatever happens to the table, and wherever an export dies."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compactor.core.catalog.objects import iceberg_name
from compactor.core.iceberg import metadata
from compactor.core.model import times
from compactor.core.model.errors import CatalogRefused, NoRowsYet, StateRefused, TryLater, Unavailable
from compactor.core.model.snapshot import Snapshot
from compactor.core.settings.forms import NEVER
from compactor.flows.keep.erase import Request, erase
from compactor.flows.publish import native
from compactor.flows.run import look_at
from compactor.flows.table import Table
from tests.faults import ERRORS, MODES, Crash, Faults, every_fault
from tests.native import readers
from tests.native.lake import NativeLake, as_parquet, visible
from tests.oracle.model import line
from tests.oracle.programs import program
from tests.oracle.sizes import FULL, tiered

__all__ = ["as_parquet"]
pytestmark = pytest.mark.usefixtures("as_parquet")

KEPT = {"keep": 0.0, "keep_versions": 1, "grace": 0.0}
"""Vacuum keeps what it must."""


def change(lake: NativeLake, seq: int, *keys: int, op: str = "u", **more: Any) -> None:
    """Land a change of these keys and run."""
    lines = [line(op, [key], [seq], None if op == "d" else {"a": seq, **more}) for key in keys]
    lake.deliver(f"increment_2026010100/{seq}.json", lines)
    lake.run()


def test_it_shows_the_last_compaction(tmp_path: Path) -> None:
    """A Delta is in no export; a compaction is, and only new manifests are written; an idle run asks nothing; the past can be queried."""
    lake = NativeLake(tmp_path, compact_window=NEVER)
    change(lake, 1, *range(40), op="c")
    lake.check()
    first = lake.exported()
    change(lake, 2, 3, 50)
    assert lake.exported() == first
    lake.check()
    lake.compact()
    lake.check()
    second = lake.exported()
    assert [each["summary"]["compactor.state_version"] for each in second.raw["snapshots"]] == ["1", "3"]
    old = readers.rows("pyiceberg", lake.hint(), snapshot=first.raw["current-snapshot-id"])
    assert (len(old[1]), len(lake.shown()[1])) == (40, 41)
    faults = Faults()
    assert look_at(lake.table(faults)) != 0
    assert not any("_iceberg" in path for _, path in faults.calls)


def test_an_export_reads_the_footers_of_new_files_only(tmp_path: Path) -> None:
    """Also where Segments of one manifest were compacted and others were not: the entries of these are copied."""
    lake = NativeLake(tmp_path, compact_window=NEVER, target_file_bytes=300)
    change(lake, 1, *range(64), op="c")
    old = {segment.path: segment.files for segment in lake.newest().segments}  # type: ignore[union-attr]
    change(lake, 2, 3)
    faults = Faults()
    lake.spec = lake.spec.compacting_now
    lake.run(faults)
    left = {f"{path}/{file.name}" for path in old for segment in lake.newest().segments if segment.path == path for file in segment.files}  # type: ignore[union-attr]
    assert len(old) / 2 < len(left) < len(old)
    assert left.isdisjoint(path.removeprefix(f"{lake.spec.root}/") for name, path in faults.calls if name == "read")
    lake.check("pyiceberg")


def test_a_filter_opens_only_files_whose_bounds_match(tmp_path: Path) -> None:
    """On the key, on another column, on a text; nothing for a value that no file has."""
    lake = NativeLake(tmp_path)
    lake.deliver("increment_2026010100/1.json", [line("c", [key], [key], {"a": key // 8, "b": f"v{key:03d}"}) for key in range(64)])
    lake.run()
    place = lake.dump()
    files = [file for segment in lake.newest().segments for file in segment.files]  # type: ignore[union-attr]
    assert len(files) > 6
    assert [len(readers.plan(place, where)) for where in ("id = 17", "b = 'v020'", "a > 99", "a is null", "b > 'v06'")] == [1, 1, 0, 0, 1]
    # eight neighbours have a = 3
    assert len(readers.plan(place, "a = 3")) <= 3


def test_columns_come_change_and_are_renamed(tmp_path: Path) -> None:
    """A new column without a compaction is null; numbers that became text are a new generation under the same name."""
    lake = NativeLake(tmp_path, compact_window=NEVER)
    change(lake, 1, *range(20), op="c")
    lake.deliver("increment_2026010101/new.json", [line("u", [3], [7], {"a": 7, "b": "new"})])
    lake.run()
    lake.check()
    assert lake.shown()[0] == ("id", "a", "b")
    lake.spec = lake.spec.compacting_now
    lake.run()
    lake.check()


def test_a_misread_file_is_named_and_the_older_export_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on, archives, and says which file; the next run looks again."""
    lake = NativeLake(tmp_path)
    change(lake, 1, *range(10), op="c")
    first = lake.exported()

    def misread(*_: object) -> None:
        raise native._Misread("a file is in the form for Hive")

    with monkeypatch.context() as patched:
        patched.setattr(native, "read_footer", misread)
        lake.deliver("increment_2026010101/new.json", [line("u", [3], [7], {"a": 7})])
        report = lake.run()
        assert (report.outcome, lake.exported(), lake.landing()) == ("committed", first, set())
        assert "Iceberg (base) shows version 1: a file is in the form for Hive" in report.notes
    change(lake, 8, 4)
    lake.check("pyiceberg")


def test_a_foreign_table_is_refused(tmp_path: Path) -> None:
    """A view or an Iceberg table of that name that is not ours stays as it is, and the run says so."""
    lake = NativeLake(tmp_path)
    change(lake, 1, 1, op="c")
    ours = lake.catalog.native("school", "t_iceberg")
    assert ours is not None
    other = NativeLake(tmp_path / "other", name="u", view="u")
    other.catalog = lake.catalog
    change(other, 1, 1, op="c")
    theirs = lake.catalog.native("school", "u_iceberg")
    assert theirs is not None
    lake.catalog._objects["school", "t_iceberg"] = theirs
    with pytest.raises(CatalogRefused, match="is not ours"):
        change(lake, 2, 2)
    assert lake.catalog.native("school", "t_iceberg") == theirs
    # the folder of another life
    wiped = NativeLake(tmp_path)
    for info in lake.storage.list(lake.layout.iceberg("base")):
        wiped.storage.write(info.path, lake.storage.read(info.path))
    with pytest.raises(StateRefused, match="another life"):
        change(wiped, 1, 1, op="c")


@pytest.mark.parametrize("seed", tiered([*range(60 if FULL else 6)], fast=[0]))
def test_whatever_happens_it_shows_what_ro_shows(tmp_path: Path, seed: int) -> None:
    """Changes, deletes, compactions, restores, rebuilds, erased keys, vacuums; runs are cut at any call. No reader misses a file, in no snapshot."""
    rng = random.Random(seed)
    lake = NativeLake(tmp_path, **KEPT, compact_every=rng.choice([0.0, 4.0]), tombstone_retention=5.0, beyond_retention="apply")
    change(lake, 1, *range(40), op="c")
    for step in range(2, 24):
        do = lake.happens(rng, step)
        if not lake.table().notes and lake.exported().base == lake.newest().base_id:  # type: ignore[union-attr]
            lake.check("pyiceberg")
        for each in lake.exported().raw["snapshots"]:
            shown = readers.rows("pyiceberg", lake.dump(), snapshot=each["snapshot-id"])
            assert len(shown[1]) == int(each["summary"]["total-records"]), (step, do)
    lake.check()


@pytest.mark.parametrize("form", metadata.FORMATS)
@pytest.mark.parametrize("seed", tiered([*range(200 if FULL else 4)], fast=[0]))
def test_random_programs(tmp_path: Path, seed: int, form: str) -> None:
    """Twenty programs in a table with both forms: truncates, added columns, odd names, numbers that become text. Each reader after each run."""
    # every second four seeds leave no values out
    made, compared = program(8 * (seed // 4) + 4 + seed % 4, 20, moves=False), 0
    settings = {name: value for name, value in made.settings.items() if name != "delete"}
    lake = NativeLake(tmp_path, form, **{**settings, "iceberg": (*metadata.FORMATS,)})
    for hour, files in enumerate(made.runs):
        for number, places in enumerate(files):
            events = [json.loads(made.line(place)) for place in places]
            # defaults are Spark's
            lines = [json.dumps({name: value for name, value in event.items() if name != "defaults"}) for event in events]
            lake.deliver(f"increment_20260101{hour:02d}/{(made.seed + number * 7) % 10}.json", lines)
        with suppress(NoRowsYet):
            report = lake.run()
            newest = lake.newest()
            assert newest is not None
            if isinstance(metadata.parts_of(newest, form), str):
                assert any(note.startswith("Iceberg (") for note in report.notes)
                lake.compact()
            lake.check()
            compared += 1
    assert compared


WAYS = tiered([(mode, error) for error in ERRORS for mode in MODES], fast=[("from_then_on", "crash"), ("after_effect", "unavailable")], several=True)


@pytest.mark.parametrize("form", metadata.FORMATS)
@pytest.mark.parametrize(("mode", "error"), WAYS)
def test_an_export_that_dies_at_any_call_is_repeated(tmp_path: Path, mode: str, error: str, form: str) -> None:
    """Readers see the older export or the new one in between, and the next run leaves what an undisturbed one leaves."""
    begun = NativeLake(tmp_path, form)
    change(begun, 1, *range(20), op="c")
    change(begun, 2, *range(3))
    old = begun.exported()
    begun.deliver("increment_2026010100/3.json", [line("u", [key], [3], {"a": 3}) for key in range(5)])
    expected: dict[str, Any] = {}
    for faults in (Faults(), *every_fault(mode=mode, error=error)):
        lake = NativeLake(tmp_path, form)
        copied = begun.copy()
        lake.storage, lake.catalog, lake.now, lake.delivered, lake._nonces = (
            copied.storage,
            copied.catalog,
            copied.now,
            copied.delivered,
            copied._nonces,
        )
        with suppress(Crash, Unavailable, TryLater):
            lake.run(faults)
        between = lake.storage.read(lake.hint())
        assert json.loads(between)["format-version"] == metadata.FORMATS[form]
        assert lake.exported().base in (old.base, *(metadata.state_id(each, form) for each in lake.committed()))
        lake.run()
        newest = lake.newest()
        assert newest is not None
        assert lake.exported().base == metadata.state_id(newest, form)
        found = {"rows": lake.shown(), "total": visible(lake.exported().current), "hint": lake.hint().rpartition("/")[2] != ""}
        expected = expected or found
        assert found == expected
        pointer = lake.catalog.native("school", iceberg_name(lake.spec, form))
        assert pointer is not None
        assert pointer.metadata == lake.hint()
    lake.check("pyiceberg")


@pytest.mark.parametrize("form", metadata.FORMATS)
def test_a_reader_in_a_loop_sees_committed_versions(tmp_path: Path, form: str) -> None:
    """After each of 200 publishes, and of what each call of them leaves, the hint leads to one committed version whose files are all there."""
    lake = NativeLake(tmp_path, form, **KEPT)
    rng = random.Random(7)
    change(lake, 1, *range(30), op="c")
    for seq in range(2, 202 if FULL else 22):
        lake.deliver(f"increment_2026010100/{seq}.json", [line("u", [rng.randrange(30)], [seq], {"a": seq})])
        with suppress(Crash, TryLater):
            lake.run(Faults(rng.randrange(20, 90), "from_then_on"))
        place = lake.dump()
        shown = readers.rows("pyiceberg", place)[1]
        assert sum(row[1] for row in shown) in {
            sum(row[1] for row in lake.expected(lake.committed_at(each.version))) for each in lake.committed() if not each.expired
        }
        if seq % 5 == 0:
            lake.run()
            lake.vacuum()


@pytest.mark.parametrize("form", metadata.FORMATS)
def test_vacuum_keeps_what_an_export_names_and_removes_older_exports(tmp_path: Path, form: str) -> None:
    """Snapshots of given-up bases leave the export before their files go; files of older exports go after `grace`."""
    lake = NativeLake(tmp_path, form, **{**KEPT, "grace": 100.0})
    for seq in range(1, 5):
        change(lake, seq, *range(seq, 20), op="u")
    before = len(lake.exported().raw["snapshots"])
    lake.vacuum()
    assert (before, len(lake.exported().raw["snapshots"])) == ({"base": 4, "current": 7}[form], 1)
    files = {info.path for info in lake.storage.list(lake.layout.iceberg(form))}
    lake.now += 200
    lake.vacuum()
    left = {info.path for info in lake.storage.list(lake.layout.iceberg(form))}
    assert left < files
    lake.check()
    lake.spec = dataclasses.replace(lake.spec, iceberg=())
    lake.now += 200
    change(lake, 9, 1)
    lake.vacuum()
    assert not [*lake.storage.list(lake.layout.iceberg(form))]


def test_a_slow_run_does_not_lead_the_hint_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another has exported a newer version, and written its hint, before this one comes to write its own."""
    lake, point = NativeLake(tmp_path, "current", compact_every=1e9), native._point
    change(lake, 1, 1)

    def slow(table: Table, form: str, snapshot: Snapshot, *more: Any) -> None:
        if snapshot.version == 2:
            monkeypatch.setattr(native, "_point", point)
            change(lake, 3, 1)
        point(table, form, snapshot, *more)

    monkeypatch.setattr(native, "_point", slow)
    change(lake, 2, 1)
    assert lake.exported().number == 3
    assert lake.hint() == lake.layout.iceberg_metadata("current", 3)


@pytest.mark.parametrize("form", metadata.FORMATS)
def test_what_a_reader_began_with_stays_for_a_grace_period(tmp_path: Path, form: str) -> None:
    """However old the metadata file is: it was the newest until now. One that was replaced so long ago goes."""
    lake = NativeLake(tmp_path, form, **{**KEPT, "grace": 100.0})
    change(lake, 1, *range(20), op="c")
    lake.now += 1000
    first = lake.dump()
    seen = readers.rows("pyiceberg", first)
    for seq in (2, 3):
        change(lake, seq, *range(seq), op="u")
    lake.vacuum()
    # what was written to the disk before counts for nothing
    shutil.rmtree(lake.layout.iceberg(form))
    assert lake.dump() != first
    assert readers.rows("pyiceberg", first) == seen
    lake.now += 101
    lake.vacuum()
    assert lake.storage.stat(first) is None
    lake.check()


@pytest.mark.parametrize("form", metadata.FORMATS)
def test_erase_leaves_no_bound_of_an_erased_row(tmp_path: Path, form: str) -> None:
    """Manifests hold values: none of an erased row is left anywhere below `_iceberg`."""
    lake = NativeLake(tmp_path, form)
    lake.deliver("increment_2026010100/1.json", [line("c", [key], [key], {"b": f"secret{key}"}) for key in range(10)])
    lake.run()
    report = erase(lake.table(), Request((("9",),), now=True))
    assert report.left == ()
    lake.check()
    assert len(readers.rows("pyiceberg", lake.hint())[1]) == 9
    assert len([info for info in lake.storage.list(lake.layout.iceberg(form)) if info.path.endswith(".avro")]) == 2


@pytest.mark.parametrize("form", metadata.FORMATS)
def test_an_erase_is_finished_at_the_time_that_it_names(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of older exports are of use until `grace` after its own."""
    lake = NativeLake(tmp_path, form, archive="move", grace=3600.0)
    change(lake, 1, *range(20), op="c")
    lake.now += 100_000

    def tick() -> float:
        lake.now += 2
        return lake.now

    monkeypatch.setattr(lake.storage, "_clock", tick)
    report = erase(lake.table(), Request((("3",),)))
    assert report.left
    lake.now = max(lake.now, times.to_seconds(str(report.goes)))
    assert erase(lake.table(), Request()).finished
