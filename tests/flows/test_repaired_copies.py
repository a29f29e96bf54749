"""Repaired copies of files in quarantine: what was ingested of them is what is read ever after, whatever becomes of landed files."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from compactor.core.model.errors import Conflict, InputRefused
from compactor.flows.read import quarantine
from compactor.flows.verbs import discard_table
from compactor.flows.write import rebuild as rewrite
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.watch import Intrusion

ARCHIVES = ("move", "copy", "keep")
PATH = "increment_2026010101/bad.json"


def repaired(archive: str, whole: bool) -> Lake:
    """Version 1: a file, of which a record or nothing can be used; version 2: its repaired copy is replayed."""
    lake = Lake(table(archive=archive))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.deliver(PATH, [line("c", [2], [2], {"a": 2}), *([] if whole else ["{oops"])], damaged=whole)
    lake.run()
    (held,) = quarantine.waiting(lake.table(), lake.newest())
    lake.storage.write(held.repaired, "\n".join([line("c", [2], [2], {"a": 2}), line("c", [3], [3], {"a": 3})]).encode())
    lake.replay()
    return lake


def keys(lake: Lake) -> list[int]:
    """The keys of the shown rows."""
    return sorted(row[0] for row in lake.look().rows)  # type: ignore[union-attr]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_repaired_copy_stays_in_the_table_through_every_rebuild(archive: str, whole: bool) -> None:
    """Also through the rebuild of a run that makes numbers text, which compares nothing; nothing of it is left in quarantine."""
    lake = repaired(archive, whole)
    assert list(lake.storage.list(f"{lake.spec.root}/quarantine")) == []
    assert (keys(lake), lake.failed_checks()) == ([1, 2, 3], [])
    assert lake.rebuild(dry=True).outcome == "equal"
    rewrite.as_text(lake.table(), {"a": "string"})
    assert (keys(lake), quarantine.waiting(lake.table(), lake.newest())) == ([1, 2, 3], [])
    assert lake.failed_checks() == []


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_restore_to_before_a_replay_takes_the_repaired_copy_out_of_everything(archive: str, whole: bool) -> None:
    """What the copy brought waits in quarantine again, with a reason; no rebuild reads it, until it is replayed once more or restored."""
    lake = repaired(archive, whole)
    lake.restore(1)
    before = [1] if whole else [1, 2]
    assert (keys(lake), lake.failed_checks()) == (before, [])
    (held,) = quarantine.with_reasons(lake.table(), quarantine.waiting(lake.table(), lake.newest()))
    assert (held.path, held.records, bool(held.reason)) == (PATH, None if whole else 1, True)
    rewrite.as_text(lake.table(), {"a": "string"})
    assert (keys(lake), lake.failed_checks()) == (before, [])
    for back in (lambda: lake.restore(2), lake.replay, *([lake.reabsorb] if whole else [])):
        back()
        assert quarantine.waiting(lake.table(), lake.newest()) == []
        rewrite.as_text(lake.table(), {"a": "string"})
        assert (keys(lake), lake.failed_checks()) == ([1, 2, 3], [])
        lake.restore(1)
        assert (keys(lake), lake.failed_checks()) == (before, [])


def test_a_second_repaired_copy_of_a_file_is_joined_with_the_first() -> None:
    """Both hold records that no other file has, and one name is theirs."""
    lake = Lake(table())
    lake.deliver(PATH, [line("c", [1], [1], {"a": 1}), "{oops", "{oops too"])
    lake.run()
    (held,) = quarantine.waiting(lake.table(), lake.newest())
    lake.storage.write(held.repaired, "\n".join([line("c", [2], [2], {"a": 2}), "{oops too"]).encode())
    lake.replay()
    (held,) = quarantine.waiting(lake.table(), lake.newest())
    third = line("c", [3], [3], {"a": 3})
    lake.storage.write(held.repaired, third.encode())
    lake.run()
    with pytest.raises(InputRefused, match=r"was repaired before, by .*/archive/.*bad.json. Put the records of .* into that file too"):
        lake.replay()
    lake.storage.delete([held.repaired])
    lake.storage.write(str(held.location), "\n".join([line("c", [2], [2], {"a": 2}), third]).encode())
    lake.replay()
    lake.rebuild()
    assert (keys(lake), lake.failed_checks()) == ([1, 2, 3], [])


@pytest.mark.parametrize("archive", ["keep", "copy"])
def test_a_run_that_makes_numbers_text_is_refused_where_a_raw_file_is_gone(archive: str) -> None:
    """Also if its sink has written other rows under its name: nothing shows that they hold what it did. A copy of each content is enough."""
    lake = Lake(table(archive=archive))
    for key in (1, 2):
        lake.deliver("increment_2026010100/a.json", [line("c", [key], [key], {"a": key})])
        lake.run()
    if archive == "keep":
        with pytest.raises(InputRefused, match=r"1 files that version \d was made of are neither in landing nor archived as they were"):
            rewrite.as_text(lake.table(), {"a": "string"})
        assert lake.rebuild().outcome == "differs"
    else:
        rewrite.as_text(lake.table(), {"a": "string"})
    assert keys(lake) == [1, 2]


@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_copy_that_nothing_has_read_stays_in_quarantine(archive: str) -> None:
    """After a replay that repaired nothing: the next run leaves the copy for the next replay."""
    lake = Lake(table(archive=archive, quarantine_share=1.0))
    lake.deliver(PATH, [line("c", [1], [1], {"a": 1}), "{oops"])
    lake.run()
    lake.replay()
    (held,) = quarantine.waiting(lake.table(), lake.newest())
    lake.storage.write(held.repaired, line("c", [2], [2], {"a": 2}).encode())
    lake.run()
    assert (keys(lake), lake.failed_checks()) == ([1], [])
    lake.replay()
    assert (keys(lake), lake.failed_checks()) == ([1, 2], [])


def waiting_for_replay(beside: bool = False) -> Lake:
    """A table with a file in quarantine that was repaired in its place, or by a copy beside it."""
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.deliver(PATH, [line("c", [2], [2], {"a": 2})], damaged=True)
    lake.run()
    (held,) = quarantine.waiting(lake.table(), lake.newest())
    lake.storage.write(held.repaired if beside else held.location or "", line("c", [2], [2], {"a": 2}).encode())
    return lake


@pytest.mark.parametrize("beside", [False, True])
def test_a_discard_that_begins_while_a_replay_reads_takes_nothing_from_the_archive(beside: bool) -> None:
    """At any call of the replay. The file is repaired in its place or by a copy beside it; what the discard puts there is not archived in its stead."""
    for at in itertools.count(1):
        lake = waiting_for_replay(beside)

        def discard(lake: Lake = lake) -> None:
            with suppress(InputRefused):
                quarantine.give_up(lake.table(), quarantine.waiting(lake.table(), lake.newest()), [PATH])

        intrusion = Intrusion(at, discard)
        replayed = True
        try:
            lake.replay(intrusion)
        except InputRefused:
            replayed = False
        if not intrusion.happened:
            break
        if replayed:
            with pytest.raises(InputRefused, match="is not in quarantine"):
                discard_table(lake.table(), [PATH])
        else:
            discard_table(lake.table(), [PATH])
        lake.run()
        assert keys(lake) == ([1, 2] if replayed else [1])
        assert lake.failed_checks() == []
        assert list(lake.storage.list(f"{lake.spec.root}/quarantine")) == []
        assert lake.rebuild(dry=True).outcome == "equal"
    assert at > 30


def test_a_discard_that_comes_after_a_replay_leaves_nothing() -> None:
    """It has looked before the replay, and puts its empty copy after it."""
    for at in itertools.count(1):
        lake = waiting_for_replay()

        def replay(lake: Lake = lake) -> None:
            with suppress(InputRefused):
                lake.replay()

        intrusion = Intrusion(at, replay)
        with suppress(InputRefused, Conflict):
            discard_table(lake.table(intrusion), [PATH])
        if not intrusion.happened:
            break
        lake.run()
        assert lake.failed_checks() == []
        assert list(lake.storage.list(f"{lake.spec.root}/quarantine")) == []
        assert lake.rebuild(dry=True).outcome == "equal"
    assert at > 20
