"""Snapshots that somebody deleted: no verb uses their numbers again or deletes their files, and there is a way on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compactor.core.catalog import feed
from compactor.core.model.errors import Refused, StateRefused
from compactor.flows.keep.erase import Request, erase
from compactor.flows.publish import shown
from compactor.flows.read.status import plan, status
from compactor.flows.read.verify import verify
from compactor.flows.verbs import go_on_table
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

PATH = "increment_202601010{}/a.json"


def lake() -> Lake:
    """Three versions of one row each."""
    made = Lake(table(compact_every=1e9, feed="net"))
    for number in range(3):
        made.deliver(PATH.format(number), [line("c", [number], [number + 1], {"a": number})])
        made.run()
    newest = made.newest()
    assert newest is not None
    assert newest.version == 3
    return made


def lose(made: Lake, *versions: int) -> dict[int, bytes]:
    """Delete Snapshots; gives back what they were."""
    paths = {version: made.layout.snapshot(version) for version in versions}
    content = {version: made.storage.read(path) for version, path in paths.items()}
    made.storage.delete(paths.values())
    return content


VERBS: dict[str, Callable[[Lake], object]] = {
    "run": lambda made: made.run(),
    "vacuum": lambda made: made.vacuum(),
    "dry vacuum": lambda made: made.vacuum(dry=True),
    "rebuild": lambda made: made.rebuild(accept=True),
    "erase": lambda made: erase(made.table(), Request((("1",),), leave_landing=True)),
    "restore": lambda made: made.restore(1),
    "pin": lambda made: made.pin(1),
    "verify": lambda made: verify(made.table()),
    "status": lambda made: status(made.table()),
    "plan": lambda made: plan(made.table(), [made.spec]),
}


ASK_NO_CATALOG = ("dry vacuum", "pin", "status", "plan")


@pytest.mark.parametrize(
    ("proof", "verb"), [(proof, verb) for proof in ("hint", "shown", "view") for verb in VERBS if proof != "view" or verb not in ASK_NO_CATALOG]
)
def test_every_verb_refuses_a_table_whose_newest_snapshot_is_gone(proof: str, verb: str) -> None:
    """Each of the three that know of the version proves it alone. Nothing is written, and the message has both ways on."""
    made = lake()
    lose(made, 3)
    others = {"hint": made.layout.hint(), "shown": made.layout.shown()}
    made.storage.delete([path for name, path in others.items() if name != proof])
    before = stored(made)
    made.deliver(PATH.format(4), [line("c", [4], [5], {"a": 4})])
    with pytest.raises(StateRefused, match=r"version 3 was committed and is gone .*00003.json from a backup.*--as-of 2 --accept-loss"):
        VERBS[verb](made)
    assert stored(made) == before


def stored(made: Lake) -> dict[str, str]:
    """The objects of the table, without landing and what is written for people."""
    places = ("/incremental/", "/runs/", "last_run")
    return {info.path: info.etag for info in made.storage.list(made.spec.root) if not any(place in info.path for place in places)}


@pytest.mark.parametrize("content", ["", "Infinity", "[" * 100_000, "1e400", "99999999999999999999", "null", '{"version": []}'])
def test_a_damaged_hint_names_no_version(content: str) -> None:
    """The newest one is found without it."""
    made = lake()
    made.storage.write(made.layout.hint(), content.encode())
    assert made.run().outcome == "idle"
    assert made.newest().version == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("lost", [(3,), (2, 3)])
def test_the_object_from_a_backup_is_all_that_is_needed(lost: tuple[int, ...]) -> None:
    """The table goes on as if nothing had happened."""
    made = lake()
    before = made.look()
    content = lose(made, *lost)
    with pytest.raises(StateRefused):
        made.run()
    for version, data in content.items():
        made.storage.write(made.layout.snapshot(version), data)
    assert made.run().outcome == "idle"
    assert made.look() == before
    assert made.failed_checks() == []


@pytest.mark.parametrize("proof", ["hint", "shown", "view"])
@pytest.mark.parametrize("lost", [(3,), (2, 3)])
def test_the_way_on_without_a_backup(lost: tuple[int, ...], proof: str) -> None:
    """No number stands for other rows, `verify` names the files whose rows are missing, and with them in landing again every row is there."""
    made = lake()
    rows = made.look()
    lose(made, *lost)
    others = {"hint": made.layout.hint(), "shown": made.layout.shown()}
    made.storage.delete([path for name, path in others.items() if name != proof])
    report = go_on_table(made.table(), lost[0] - 1)
    assert (report.outcome, report.version) == ("committed", 4)
    found = made.look()
    assert found is not None
    assert (found.version, len(found.rows)) == (4, lost[0] - 1)
    with pytest.raises(Refused, match="the change feed begins at version 4"):
        feed.check_start(made.spec, made.table().newest(), 3)
    made.run()
    made.vacuum()
    (problem,) = made.failed_checks()
    files = "1 archived file" if len(lost) == 1 else "2 archived files"
    assert problem.startswith(f"archive: no version has ingested {files}: {', '.join(PATH.format(version - 1) for version in lost)} (")
    for version in lost:
        info = made.storage.stat(f"/lake/t/archive/{PATH.format(version - 1)}")
        assert info is not None
        made.storage.move(info, made.layout.landed(PATH.format(version - 1)))
    made.run()
    assert made.failed_checks() == []
    assert rows is not None
    assert made.look().rows == rows.rows  # type: ignore[union-attr]


def test_the_way_on_is_for_lost_versions_only() -> None:
    """It asks for the newest version that is there, names it, and refuses where none is lost."""
    made = lake()
    with pytest.raises(Refused, match="no version after 3 is lost; leave out --accept-loss"):
        go_on_table(made.table(), 3)
    lose(made, 3)
    with pytest.raises(Refused, match="expected the newest version that is there, 2, found 1"):
        go_on_table(made.table(), 1)
    made.storage.delete([made.layout.inside(path) + "/" + file.name for path, file in made.committed_at(2).data_files])
    with pytest.raises(Refused, match="Restore a backup of the table"):
        go_on_table(made.table(), 2)


def test_a_gap_in_the_middle_is_reported() -> None:
    """Also where the hint is older than the gap, which is normal after a crash."""
    made = lake()
    lose(made, 2)
    with pytest.raises(StateRefused, match=r"00002.json was committed and is gone"):
        made.failed_checks()
    made.storage.write(made.layout.hint(), b"1")
    assert made.run().outcome == "idle"
    with pytest.raises(StateRefused, match=r"00002.json"):
        made.vacuum()
    made.storage.delete([made.layout.shown()])
    with pytest.raises(StateRefused, match=r"version 2 was committed and is gone .*the view school.t shows version 3"):
        made.run()


def test_an_old_hint_and_none_are_normal() -> None:
    """A crash between the put and the hint leaves one; the search goes up from the greater of the two files."""
    made = lake()
    for content in (b"1", b"", b"x", b"[]"):
        made.storage.write(made.layout.hint(), content)
        made.storage.write(made.layout.shown(), content)
        assert made.table().newest().version == 3  # type: ignore[union-attr]
    assert shown.remembered(made.table()).version == 0
    assert made.run().outcome == "idle"


@pytest.mark.parametrize("name", [4, 2])
def test_a_snapshot_under_another_number_is_refused(name: int) -> None:
    """Somebody copied it to a free number, or over another version."""
    made = lake()
    made.storage.write(made.layout.snapshot(name), made.storage.read(made.layout.snapshot(1)))
    with pytest.raises(StateRefused, match=rf"0000{name}.json holds version 1: somebody copied it to this name. Delete it if no version {name} was"):
        (made.restore(2) if name == 2 else made.run())
    if name == 4:
        made.storage.delete([made.layout.snapshot(4)])
        made.run()
        assert verify(made.table())


def test_a_hint_that_names_no_version_says_what_to_delete() -> None:
    made = lake()
    made.storage.write(made.layout.hint(), b"300")
    with pytest.raises(StateRefused, match=r"`latest` or `shown.json`, which are written after the commit, name it; if they are wrong, delete them"):
        made.run()
    made.storage.delete([made.layout.hint(), made.layout.shown()])
    made.run()


def test_an_emptied_ledger_file_is_damaged() -> None:
    made = lake()
    (path,) = [info.path for info in made.storage.list(made.layout.inside("_compactor/ledger"))][-1:]
    made.storage.write(path, b"")
    with pytest.raises(StateRefused, match=r"cannot be read: expected . entr.*, found 0"):
        made.rebuild()


def test_a_wrong_memory_of_what_was_published_is_written_again() -> None:
    made = lake()
    made.storage.write(made.layout.shown(), b'{"version": 3, "views": null}')
    made.deliver(PATH.format(4), [line("c", [4], [5], {"a": 4})])
    made.run()
    assert shown.remembered(made.table()).version == 4
