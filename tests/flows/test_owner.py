"""Two environments: neither changes the other's table, nor takes files out of the other's landing folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from compactor.core.model.errors import CatalogRefused, Refused
from compactor.flows.keep.erase import Request, erase
from compactor.flows.owner import check_landing, foreign
from compactor.flows.publish import sync
from compactor.flows.read.status import plan
from compactor.flows.run_tables import run_tables
from tests.faults import Crash, Faults
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage

TEST = {"root": "/test/t", "database": "test", "tables_in": "test"}
"""What differs in a second environment that reads the same landing."""


def production() -> Lake:
    """A table that has run once, and has another file waiting."""
    lake = Lake(table(archive="move"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2})])
    return lake


def beside(lake: Lake, **changes: str) -> Lake:
    """Another environment: its own settings and process, the same storage and catalog."""
    other = Lake(dataclasses.replace(lake.spec, **changes))
    other.now, other.storage, other.catalog = lake.now, lake.storage, lake.catalog
    other.delivered = dict(lake.delivered)
    return other


def objects(lake: Lake, below: str) -> dict[str, str]:
    """Path → etag of everything below a folder."""
    return {info.path: info.etag for info in lake.storage.list(below)}


def test_another_warehouse_does_not_take_the_files_of_a_landing_that_is_owned() -> None:
    """It is refused before it reads anything; told who owns the folder, where that stands, and what to do."""
    lake = production()
    before = objects(lake, "/lake")
    other = beside(lake, **TEST)
    with pytest.raises(
        Refused, match=r"table t: /lake/t/incremental belongs to the table /lake/t \(/lake/t/incremental/_compactor/owner.json\).*archive: keep"
    ):
        other.run()
    assert (objects(lake, "/lake"), other.newest()) == (before, None)
    assert "belongs to the table /lake/t" in foreign(other.table())
    assert foreign(other.table()) in [result.detail for result in plan(other.table()).checks if not result.ok]
    assert lake.run().outcome == "committed"
    assert lake.landing() == set()


def test_one_folder_under_two_names_has_one_owner(tmp_path: Path) -> None:
    """A symbolic link below the root of another table leads to it."""
    (tmp_path / "t/incremental").mkdir(parents=True)
    (tmp_path / "u").mkdir()
    (tmp_path / "u/incremental").symlink_to(tmp_path / "t/incremental")
    roots = [{"root": str(tmp_path / name), "landing": str(tmp_path / name / "incremental")} for name in ("t", "u")]
    lake = Lake(dataclasses.replace(table(archive="move"), **roots[0]))  # type: ignore[arg-type]
    check_landing(lake.table())
    with pytest.raises(Refused, match=f"u/incremental belongs to the table {tmp_path}/t "):
        check_landing(beside(lake, **roots[1]).table())
    check_landing(lake.table())


def test_with_keep_it_reads_the_landing_and_leaves_it_as_it_is() -> None:
    """Neither a file nor the mark changes, and the owner ingests the same files."""
    lake = production()
    before = objects(lake, "/lake")
    other = beside(lake, **TEST, archive="keep")
    assert (other.run().outcome, other.run().outcome) == ("committed", "idle")
    assert other.look().rows == ((2, 2),)  # type: ignore[union-attr]
    assert objects(lake, "/lake") == before
    assert foreign(other.table()) == ""
    assert lake.run().outcome == "committed"
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    assert lake.landing() == set()


def test_with_keep_a_landing_without_an_owner_gets_none() -> None:
    lake = Lake(table(archive="keep"))
    name = lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    assert [info.path for info in lake.storage.list(lake.spec.landing)] == [lake.layout.landed(name[0])]


def test_what_was_to_be_moved_stays_when_the_setting_becomes_keep() -> None:
    """A run that died before it archived has left work; the landing may have been handed over since."""
    lake = Lake(table(archive="move"))
    name = lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    with suppress(Crash):
        lake.run(Faults(1, "from_then_on", only=["move"]))
    assert lake.newest().pending  # type: ignore[union-attr]
    lake.spec = dataclasses.replace(lake.spec, archive="keep")
    lake.run()
    assert lake.landing() == {name}
    assert lake.run().outcome == "idle"


VERBS: dict[str, Callable[[Lake], object]] = {
    "run": Lake.run,
    "pin": lambda lake: lake.pin(1, "x"),
    "vacuum": Lake.vacuum,
    "rebuild": Lake.rebuild,
    "sync": lambda lake: sync.sync_table(lake.table()),
    "erase": lambda lake: erase(lake.table(), Request((("1",),), leave_landing=True)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_another_database_does_not_change_a_table_that_is_owned(verb: str) -> None:
    """One warehouse, two databases: no verb commits, publishes or archives anything."""
    lake = production()
    other = beside(lake, database="test", tables_in="test", keep=0.0, keep_versions=1)  # type: ignore[arg-type]
    before, shown = objects(lake, "/lake"), lake.catalog.view("school", "t")
    with pytest.raises(Refused, match=r"/lake/t belongs to the database school .*has test.*its own `warehouse:`"):
        VERBS[verb](other)
    assert {path: etag for path, etag in objects(lake, "/lake").items() if "/runs/" not in path and "last_run" not in path} == before
    assert (lake.catalog.view("school", "t"), lake.catalog.view("test", "t")) == (shown, None)
    assert lake.run().outcome == "committed"


def test_of_two_first_runs_one_owns() -> None:
    """The other creates its mark between our look and ours: we read whom it names."""

    class Beaten(MemoryStorage):
        rivals = 0

        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.endswith("owner.json"):
                Beaten.rivals += 1
                super().put_if_absent(path, json.dumps({"owner": "rival"}).encode())
            return super().put_if_absent(path, data)

    for settings, named in (({"archive": "move"}, "the database rival"), ({"archive": "keep"}, "the database rival")):
        lake = Lake(table(**settings))
        lake.storage = Beaten(lake._clock)
        lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
        with pytest.raises(Refused, match=named):
            lake.run()
        assert lake.newest() is None
    assert Beaten.rivals == 2


def test_who_deletes_the_mark_of_a_landing_takes_it_over() -> None:
    """The next to run owns it, and the former owner is refused."""
    lake = production()
    other = beside(lake, **TEST)
    lake.storage.delete([lake.layout.landing_owner()])
    assert other.run().outcome == "committed"
    assert other.landing() == set()
    lake.deliver("increment_2026010102/c.json", [line("c", [3], [3], {"a": 3})])
    waiting = lake.landing()
    with pytest.raises(Refused, match="belongs to the table /test/t"):
        lake.run()
    assert lake.landing() == waiting


def moved(lake: Lake, where: str) -> Lake:
    """Another process after the warehouse was moved or copied, file by file: each copy has an etag of its own. The catalog is still the same."""
    other = Lake(dataclasses.replace(lake.spec, root=f"{where}/t", landing=lake.spec.landing.replace("/lake/", f"{where}/")))
    other.now, other.catalog, other.delivered = lake.now, lake.catalog, dict(lake.delivered)
    for info in lake.storage.list("/lake"):
        place = info.path.replace("/lake/", f"{where}/")
        other.storage.write(place, lake.storage.read(info.path))
        if "/incremental/" in place:
            copy = other.storage.stat(place)
            other.delivered[place.rpartition("/incremental/")[2], copy.etag] = other.storage.read(place)  # type: ignore[union-attr]
    return other


@pytest.mark.parametrize("extras", [{}, {"history": True, "feed": "net"}])
def test_a_warehouse_that_was_moved_goes_on(extras: dict[str, object]) -> None:
    """As docs/operations.md says: the catalog names the old place and is refused; once its objects are dropped, `sync` registers the new one."""
    lake = Lake(table(archive="move", **extras))
    for number in range(3):
        lake.deliver(
            f"increment_202601010{number}/a.json", [line("c", [number], [number], {"a": number}), line("u", [0], [9 + number], {"a": number})]
        )
        lake.run()
    lake.deliver("increment_2026010109/waits.json", [line("c", [7], [7], {"a": 7})])
    there = moved(lake, "/moved")
    with pytest.raises(CatalogRefused, match=r"expected at /moved/t/.*, registered at /lake/t/.*[Mm]oved.*drop"):
        sync.sync_table(there.table())
    there.catalog = MemoryCatalog()
    sync.sync_table(there.table())
    shown = there.look()
    assert shown is not None
    assert shown.rows == there.expected() == lake.expected()
    assert there.run().outcome == "committed"
    assert there.look().rows == there.expected()  # type: ignore[union-attr]
    assert there.landing() == set()
    assert there.failed_checks() == []
    there.restore(2)
    assert there.look().rows == lake.expected(lake.committed_at(2))  # type: ignore[union-attr]
    assert there.rebuild(dry=True).exit_code == 0
    there.vacuum()
    assert there.failed_checks() == []
    there.deliver("increment_2026010110/b.json", [line("c", [8], [8], {"a": 8})])
    with pytest.raises(Refused, match="belongs to the table /moved/t"):
        beside(there, **TEST).run()


def test_a_landing_elsewhere_is_handed_over_by_hand() -> None:
    """Nobody can tell a warehouse that was moved from a second one that was copied: the old one may still run."""
    lake = Lake(table(archive="move", landing="/sink/t"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2})])
    there = beside(lake, root="/moved/t")
    with pytest.raises(Refused, match=r"belongs to the table /lake/t .*was moved.*delete /sink/t/_compactor/owner.json"):
        there.run()


def test_a_mark_that_cannot_be_read_is_nobodys() -> None:
    lake = production()
    lake.storage.write(lake.layout.owner(), b"{")
    with pytest.raises(Refused, match=r"a mark that cannot be read \(/lake/t/_compactor/owner.json\)"):
        lake.run()


def test_a_landing_that_cannot_be_written_is_refused_before_anything_is_committed() -> None:
    """With `archive: move` each run would commit, and fail when it moves the files."""

    class ReadOnly(MemoryStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.startswith("/lake/t/incremental/"):
                raise Refused(f"not allowed: {path}")
            return super().put_if_absent(path, data)

    lake = Lake(table(archive="move"))
    lake.storage = ReadOnly(lake._clock)
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    with pytest.raises(Refused, match=r"table t: /lake/t/incremental cannot be marked.*archive: keep.*not allowed: /lake"):
        lake.run()
    assert lake.newest() is None
    lake.spec = dataclasses.replace(lake.spec, archive="keep")
    assert lake.run().outcome == "committed"


def test_the_marks_cost_nothing_while_nothing_lands_and_a_read_each_in_a_run_that_commits() -> None:
    lake = production()
    for expected in (["/lake/t/_compactor/owner.json", "/lake/t/incremental/_compactor/owner.json"], []):
        faults = Faults()
        (report,) = run_tables(lake.env(faults), [lake.spec])
        assert report.outcome == ("committed" if expected else "idle")
        assert sorted(path for _, path in faults.calls if path.endswith("owner.json")) == expected


@pytest.mark.parametrize("pattern", ["increment_%Y%m%d%H", ""])
def test_the_mark_is_no_landed_file(pattern: str) -> None:
    """Not for a run, a plan, a check, an erase, or the table of landed files."""
    lake = Lake(table(archive="move", pattern=pattern))
    lake.deliver("increment_2026010100/a.json", [line("c", [key], [key], {"a": key}) for key in range(3)])
    lake.run()
    assert [info.path for info in lake.storage.list(lake.spec.landing)] == ["/lake/t/incremental/_compactor/owner.json"]
    assert lake.run().outcome == "idle"
    assert plan(lake.table()).steps == ("nothing to do",)
    assert lake.catalog.partitions("school", "t_incremental") == []
    assert lake.failed_checks() == []
    assert erase(lake.table(), Request((("1",),), now=True)).left == ()
    assert lake.vacuum().version is not None


def test_a_landing_that_nothing_can_be_taken_out_of_stops_before_more_is_ingested(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was marked before. What is committed stays and is shown; `archive: keep` goes on, and nothing is ingested twice."""
    lake = production()

    def move(*_: object, **__: object) -> bool:
        raise Refused("/lake/t/incremental: not allowed to delete")

    monkeypatch.setattr(lake.storage, "move", move)
    for _ in range(2):
        with pytest.raises(
            Refused, match=r"b.json is ingested and cannot be taken out of /lake/t/incremental.*`archive: keep`.*not allowed to delete"
        ):
            lake.run()
        lake.deliver("increment_2026010102/c.json", [line("c", [3], [3], {"a": 3})])
        assert [snapshot.version for snapshot in lake.committed()] == [1, 2]
        assert [row[0] for row in lake.look().rows] == [1, 2]  # type: ignore[union-attr]
    lake.spec = dataclasses.replace(lake.spec, archive="keep")
    assert lake.run().outcome == "committed"
    assert lake.run().outcome == "idle"
    assert [row[0] for row in lake.look().rows] == [1, 2, 3]  # type: ignore[union-attr]
    assert lake.failed_checks() == []
