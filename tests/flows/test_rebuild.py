"""Rebuild: the table again out of its raw files, compared, published at once, beside whatever else goes on (invariant 7)."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.model.errors import Conflict, InputRefused, NoRowsYet, Refused, TryLater
from compactor.core.model.inputs import IN_QUARANTINE
from compactor.core.model.policy import Policy
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.flows.write import rebuild as rewrite
from compactor.flows.write import restore
from tests.faults import Crash, Faults, every_fault
from tests.flows.test_every_crash import DELIVERIES, WAYS, ending, stages
from tests.oracle.lake import Lake, table
from tests.oracle.memo import anew
from tests.oracle.model import line
from tests.oracle.sizes import tiered
from tests.oracle.watch import Watch, at_every_call, watched


def begun() -> tuple[Lake, Watch]:
    """The lake after the whole program, and one who watches it."""
    return watched(stages()[-1].copy())


def test_every_stage_of_a_table_is_its_archive_resolved_at_once() -> None:
    """Rows, columns and ledger stay; Delta and old Segments go; the next increments and a restore go on top."""
    for done, stage in enumerate(stages()[1:]):
        lake = stage.copy()
        watch = Watch(lake)
        watch.look()
        before, seen = lake.newest(), lake.look()
        assert before is not None
        assert seen is not None
        report = lake.rebuild()
        after = lake.newest()
        assert after is not None
        assert (report.outcome, report.version, bool(report.difference)) == ("published", before.version + 1, False)
        assert (after.operation, after.delta, after.schema.generation) == ("rebuild", None, before.schema.generation)
        assert not after.named & {part.path for part in (*before.segments, *filter(None, [before.delta]))}
        now = lake.look()
        assert now is not None
        assert (now.version, now.rows, now.columns) == (after.version, seen.rows, seen.columns)
        lake.run()
        watch.settled()
        for deliver in DELIVERIES[done + 1 :]:
            deliver(lake)
            lake.run()
            watch.settled()
        assert lake.look().rows == stages()[-1].look().rows  # type: ignore[union-attr]
        lake.restore(before.version)
        assert lake.look().rows == seen.rows  # type: ignore[union-attr]
        watch.settled()


def test_a_dry_run_tells_and_changes_nothing() -> None:
    """Not a file stays of it."""
    lake, _ = begun()
    before = {info.path: info.etag for info in lake.storage.list("/")}
    report = lake.rebuild(dry=True)
    assert (report.outcome, report.version, report.files) == ("equal", None, 6)
    assert {info.path: info.etag for info in lake.storage.list("/")} == before


def spoiled(lake: Lake) -> str:
    """A stored file of the newest Snapshot in which a row has another value now, of the same length."""
    newest = lake.newest()
    assert newest is not None
    parts = [lake.layout.inside(f"{part.path}/{file.name}") for part in newest.segments for file in part.files]
    path = next(path for path in parts if b'"b": "x11"' in lake.storage.read(path))
    lake.storage.write(path, lake.storage.read(path).replace(b'"b": "x11"', b'"b": "y11"', 1))
    return path


def test_a_table_that_differs_is_told_and_only_replaced_on_request() -> None:
    """A stored row was damaged: its key is told, nothing changes; accepted, the archive's rows are shown."""
    lake, _ = begun()
    right = lake.expected()
    spoiled(lake)
    assert lake.look().rows != right  # type: ignore[union-attr]
    before = lake.newest()
    for dry in (True, False):
        report = lake.rebuild(dry=dry)
        assert (report.outcome, report.version) == ("differs", None)
        assert (report.difference.missing, report.difference.added, report.difference.changed) == (0, 0, 1)
        assert len(report.difference.samples) == 1
        assert lake.newest() == before
    assert lake.rebuild(accept=True).outcome == "published"
    assert lake.look().rows == right  # type: ignore[union-attr]
    assert lake.failed_checks() == []


def test_a_base_that_cannot_be_read_any_more_is_rebuilt() -> None:
    """Which is a difference too: somebody has to say that the old rows are not wanted."""
    lake, _ = begun()
    right = lake.expected()
    lake.storage.delete([spoiled(lake)])
    report = lake.rebuild()
    assert report.outcome == "differs"
    assert report.difference.unreadable
    assert lake.rebuild(accept=True).outcome == "published"
    assert lake.look().rows == right  # type: ignore[union-attr]
    assert lake.failed_checks() == []


def test_a_column_that_became_text_stays_text_before_the_text_is_ingested() -> None:
    """A run that died between reading its numbers as text and ingesting the file that asked for it."""
    lake = Lake(table(policy=Policy(kinds=(("to_string", "evolve"),))))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    text = rewrite.as_text(Table(lake.env(), lake.spec), {"a": "string"})
    assert text is not None
    assert lake.rebuild().outcome == "published"
    assert lake.rebuild(target=text).outcome == "published"
    lake.deliver("increment_2026010100/b.json", [line("u", [1], [2], {"a": "n"})])
    lake.run()
    assert lake.look().rows == lake.expected() == ((1, "n"),)  # type: ignore[union-attr]


def test_numbers_do_not_become_text_where_other_rows_would_change_too() -> None:
    """Settings that have changed since decide about raw files that are read again. No run takes rows for that; a rebuild may."""
    lake = Lake(table(truncate="ignore", policy=Policy(kinds=(("to_string", "evolve"),))))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1}), line("t", (), [2]), line("c", [2], [3], {"a": 2})])
    lake.run()
    shown = lake.look().rows  # type: ignore[union-attr]
    before = {info.path for info in lake.storage.list(lake.layout.root)}
    lake.spec = dataclasses.replace(lake.spec, truncate="apply")
    with pytest.raises(
        Refused,
        match=r"a becomes text.*: 1 rows of version 1 are missing, 0 are new, 0 have other values; such as \(1,\)\..*rebuild t --accept-differences",
    ):
        rewrite.as_text(lake.table(), {"a": "string"})
    assert lake.look().rows == shown  # type: ignore[union-attr]
    assert [path for path in {info.path for info in lake.storage.list(lake.layout.root)} - before if path.endswith(".parquet")] == []
    assert lake.rebuild(accept=True).outcome == "published"
    assert rewrite.as_text(lake.table(), {"a": "string"}) is not None
    lake.run()
    assert lake.look().rows == ((2, "2"),)  # type: ignore[union-attr]


def test_an_older_version_is_rebuilt_and_what_came_later_is_undone() -> None:
    """As with a restore: it stays out until it is taken again; and back again."""
    shown = {snapshot.version: lake_rows for snapshot in stages()[-1].committed() for lake_rows in [stages()[-1].expected(snapshot)]}
    for version in [*shown][:-1]:
        lake, watch = begun()
        target = restore.at_version(Table(lake.env(), lake.spec), version)
        report = lake.rebuild(target=target)
        newest = lake.newest()
        assert newest is not None
        assert (report.outcome, report.against, newest.restored) == ("published", version, version)
        assert lake.look().rows == shown[version]  # type: ignore[union-attr]
        watch.settled()
        assert lake.rebuild().outcome == "published"
        assert lake.look().rows == shown[version]  # type: ignore[union-attr]
        if report.undone:
            lake.reabsorb()
        assert lake.look().rows == stages()[-1].look().rows  # type: ignore[union-attr]
        watch.settled()


def test_what_a_restore_has_undone_stays_out() -> None:
    """The archive holds it; the ledger says that it is not in the table."""
    lake, watch = begun()
    lake.restore(1)
    rows = lake.look().rows  # type: ignore[union-attr]
    report = lake.rebuild()
    assert (report.outcome, report.files) == ("published", 2)
    assert lake.look().rows == rows  # type: ignore[union-attr]
    watch.settled()


def test_files_that_are_gone_are_named_and_nothing_happens() -> None:
    """One that was deleted, one that holds something else, one that cannot be read."""
    for harm in ("delete", "other", "unreadable"):
        lake, _ = begun()
        path = next(info.path for info in lake.storage.list("/lake/t/archive") if info.path.endswith("b.json"))
        size = len(lake.storage.read(path))
        if harm == "delete":
            lake.storage.delete([path])
        else:
            lake.storage.write(path, b"\xff" * size if harm == "unreadable" else b"{}")
        before = lake.newest()
        with pytest.raises(InputRefused, match=r"increment_2026010100/b\.json.*backup"):
            lake.rebuild(accept=True)
        assert lake.newest() == before


def test_a_table_without_a_version_has_nothing_to_rebuild() -> None:
    """It says what does."""
    with pytest.raises(NoRowsYet, match="compactor run"):
        Lake(table()).rebuild()


@pytest.mark.parametrize(("mode", "error"), WAYS)
def test_a_rebuild_cut_at_any_call_has_happened_or_not(mode: str, error: str) -> None:
    """Whatever it left, a run finishes; a second rebuild is possible."""
    for faults in every_fault(mode, error=error):
        lake, watch = begun()
        with suppress(Crash, TryLater):
            lake.rebuild(faults)
        watch.look()
        # the last one, which was not cut, goes on below
        if faults.fired and not anew(lake, watch, "rebuild"):
            continue
        lake.run()
        watch.settled()
        found = ending(lake)
        expected = ending(stages()[-1])
        assert {**found, "landed folders": ()} == {**expected, "landed folders": ()}
    assert len(faults.calls) > 30
    assert lake.rebuild().outcome == "published"


@pytest.mark.parametrize("stage", tiered(range(1, len(DELIVERIES)), fast=[1]))
def test_what_others_absorb_while_it_goes_on_is_in_it(stage: int) -> None:
    """A run with the next delivery at any call of the rebuild: late events, a new column, damaged records."""
    caught = 0
    # the delivery of the stage lies in landing
    for lake, watch, intrusion in at_every_call(lambda: watched(stages()[stage].copy()), Lake.run):
        with suppress(TryLater):
            lake.rebuild(intrusion)
            newest = lake.newest()
            assert newest is not None
            caught += newest.operation == "rebuild" and intrusion.happened
        watch.look()
        if intrusion.happened and anew(lake, watch, "absorbed beside a rebuild", stage):
            lake.run()
            watch.settled()
            assert lake.look().rows == stages()[stage + 1].copy().expected()  # type: ignore[union-attr]
    assert len(intrusion.calls) >= 20
    assert caught > 10


def test_a_comparison_that_fails_beside_a_commit_is_made_again() -> None:
    """A rebuild that was never compared is never published."""
    lake, watch = begun()
    env, engine, compared = lake.env(), lake.env().engine(), []

    class Once:
        """The engine, whose first comparison fails while another run commits."""

        def __getattr__(self, name: str) -> Any:
            if name == "difference":
                compared.append(name)
                if len(compared) == 1:
                    lake.deliver("increment_2026010104/x.json", [line("c", [77], [5000], {"a": 77})])
                    lake.run()
                    raise RuntimeError("the executor is gone")
            return getattr(engine, name)

    report = rebuild_table(Table(dataclasses.replace(env, engine=Once), lake.spec))
    assert (report.outcome, len(compared)) == ("published", 2)
    watch.settled()
    assert 77 in [row[0] for row in lake.look().rows]  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_truncate_that_overtakes_it_takes_its_rows() -> None:
    """At any call."""

    def other(lake: Lake) -> None:
        lake.deliver("increment_2026010103/t.json", ['{"op": "t", "position": [1000]}', line("c", [1], [1001], {"a": 1})])
        lake.run()

    for lake, watch, intrusion in at_every_call(begun, other):
        with suppress(TryLater):
            lake.rebuild(intrusion)
        if intrusion.happened and anew(lake, watch, "truncated beside a rebuild"):
            lake.run()
            watch.settled()
            assert [row[:2] for row in lake.look().rows] == [(1, 1)]  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["restore", "rebuild"])
def test_a_restore_or_another_rebuild_beside_it_makes_one_of_them_lose(what: str) -> None:
    """What was asked for last may not be what is wanted: it says so, and changes nothing."""
    lost = 0

    def other(lake: Lake) -> None:
        if what == "restore":
            lake.restore(1)
        else:
            lake.rebuild()

    for lake, watch, intrusion in at_every_call(begun, other):
        try:
            lake.rebuild(intrusion)
        except Conflict:
            lost += 1
        watch.look()
        if anew(lake, watch, "settled"):
            lake.run()
            watch.settled()
    assert lost > 10


@pytest.mark.slow
def test_vacuum_beside_it_takes_nothing_that_is_shown() -> None:
    """A rebuild that sleeps longer than `grace` has its work thrown away and says so."""

    def without_grace() -> tuple[Lake, Watch]:
        lake = stages()[-1].copy()
        lake.spec = dataclasses.replace(lake.spec, keep=0.0, keep_versions=1, grace=0.0)
        return watched(lake)

    def other(lake: Lake) -> None:
        lake.now += 60.0
        lake.deliver("increment_2026010104/v.json", [line("u", [6], [7000], {"a": 7000})])
        lake.run()
        lake.vacuum()
        lake.vacuum()

    for lake, watch, intrusion in at_every_call(without_grace, other):
        with suppress(TryLater):
            lake.rebuild(intrusion)
        watch.look()
        if anew(lake, watch, "settled"):
            lake.run()
            watch.settled()
    assert len(intrusion.calls) >= 20


def test_the_old_files_go_with_vacuum() -> None:
    """Nothing but what kept Snapshots name stays."""
    lake = stages()[-1].copy()
    lake.spec = dataclasses.replace(lake.spec, keep=0.0, keep_versions=1, grace=0.0, feed_retention=0.0)
    with suppress(Crash):
        lake.rebuild(Faults(1, only=["put_if_absent"]))
    lake.rebuild()
    for _ in range(3):
        lake.now += 60.0
        lake.vacuum()
    newest = lake.newest()
    assert newest is not None
    assert lake.units() == newest.named
    assert lake.failed_checks() == []


# records that were ingested and are invalid now --------------------------------------------------------------------------


def invalid_now(records: int, **settings: Any) -> Lake:
    """Twelve rows of two files. The archive holds something else for so many of the first file's ten records."""
    lake = Lake(table(**settings))
    lake.deliver("increment_2026010100/a.json", [line("c", [number], [number + 1], {"a": number}) for number in range(10)])
    lake.deliver("increment_2026010100/b.json", [line("c", [number], [number + 1], {"a": number}) for number in (10, 11)])
    lake.run()
    path = "/lake/t/archive/increment_2026010100/a.json"
    lines = lake.storage.read(path).decode().splitlines()
    lake.storage.write(path, "\n".join(["x" * len(text) for text in lines[:records]] + lines[records:]).encode())
    return lake


def test_records_that_became_invalid_go_to_quarantine_with_their_reasons() -> None:
    """`verify` reports them before and not after; the report counts them; a replay after the repair brings the rows back, a restore the old state."""
    lake = invalid_now(3)
    (_, problem) = lake.failed_checks()
    assert problem.startswith(
        "ingested records: 3 records of 1 file cannot be used with the present settings any more, such as increment_2026010100/a.json, record 1:"
    )
    for dry in (True, False):
        report = lake.rebuild(dry=dry)
        assert (report.outcome, report.invalid, report.exit_code, report.difference.missing) == ("differs", 3, 1, 3)
        assert any(text.startswith("3 records that were ingested cannot be used with the present settings and would go") for text in report.sentences)
    assert quarantine.waiting(lake.table(), lake.newest()) == []
    report = lake.rebuild(accept=True)
    assert (report.outcome, report.rows, report.invalid) == ("published", 9, 3)
    assert lake.failed_checks() == []
    assert lake.newest().watermark.incomplete == IN_QUARANTINE  # type: ignore[union-attr]
    (waits,) = quarantine.waiting(lake.table(), lake.newest())
    assert (waits.path, waits.records) == ("increment_2026010100/a.json", 3)
    reasons = quarantine.reasons(lake.table(), waits)["unusable"]
    assert [(each["record"], bool(each["reason"])) for each in reasons] == [(1, True), (2, True), (3, True)]
    again = lake.rebuild()
    assert (again.outcome, again.invalid) == ("published", 0)
    back = lake.copy()
    back.restore(1)
    assert len(back.look().rows) == 12  # type: ignore[union-attr]
    assert quarantine.waiting(back.table(), back.newest()) == []
    original = lake.delivered[next(name for name in lake.delivered if name[0].endswith("a.json"))]
    lake.storage.write("/lake/t/archive/increment_2026010100/a.json", original)
    lake.replay()
    assert len(lake.look().rows) == 12  # type: ignore[union-attr]
    assert lake.failed_checks() == []


def test_too_many_of_them_stop_a_rebuild_as_they_stop_a_run() -> None:
    """Whatever is accepted: the limits are those of `quarantine:`."""
    for records, settings, limit in (
        (10, {}, r"10 of 12 records .* limit is 50 % \(`quarantine`\)"),
        (3, {"quarantine_rows": 2}, r"3 records or files are unusable; the limit is 2 \(`quarantine`\)"),
    ):
        lake = invalid_now(records, **settings)
        with pytest.raises(InputRefused, match=f"{limit}.*record 1.*Nothing was published. Correct the table's settings, such as `types:`"):
            rebuild_table(lake.table(), accept=True, fewer=True)
        newest = lake.newest()
        assert newest is not None
        assert newest.version == 1


@pytest.mark.parametrize(("records", "settings"), [(10, {"quarantine_share": 1.0}), (3, {"max_gone": 0.1})])
def test_far_fewer_rows_need_a_word_of_their_own(records: int, settings: dict[str, Any]) -> None:
    """More than half of the rows, or more than `max_gone` allows."""
    lake = invalid_now(records, **settings)
    for accept in (False, True):
        report = lake.rebuild(accept=accept)
        assert (report.outcome, report.version, report.exit_code) == ("fewer", None, 1)
        assert report.sentences[-1] == (
            f"nothing was published: of 12 rows {12 - records} would be left; --accept-differences together with --accept-fewer-rows publishes it"
        )
    report = rebuild_table(lake.table(), accept=True, fewer=True)
    assert (report.outcome, report.rows) == ("published", 12 - records)
    assert lake.failed_checks() == []


def test_they_go_to_quarantine_also_if_others_commit_meanwhile() -> None:
    """The entries of a first attempt, which lost the race, are in the one that is committed."""

    def with_more() -> tuple[Lake, Watch]:
        lake = invalid_now(3)
        lake.deliver("increment_2026010101/c.json", [line("c", [20], [50], {"a": 1})])
        return lake, Watch(lake)

    for lake, _, other in at_every_call(with_more, Lake.run, step=9):
        assert rebuild_table(lake.table(other), accept=True).outcome == "published"
        lake.run()
        assert len(lake.look().rows) == 10  # type: ignore[union-attr]
        assert [each.records for each in quarantine.waiting(lake.table(), lake.newest())] == [3]
        assert lake.failed_checks() == []
