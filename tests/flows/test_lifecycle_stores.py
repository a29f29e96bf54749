"""One program of pins, vacuums and restores on every kind of storage; and what `verify --deep` sees."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from compactor.core.formats import checksum
from compactor.flows.read.verify import verify
from compactor.flows.table import Table
from compactor.ports import Storage
from compactor.storage.local import LocalStorage
from tests.faults import Crash, Faults
from tests.flows.test_every_crash import first, second, third
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.s3_lake import BUCKET, storage
from tests.parts.memory_storage import MemoryStorage
from tests.parts.s3 import Server


class Here(Lake):
    """A lake on a storage that is given."""

    def __init__(self, there: Storage, root: str) -> None:
        super().__init__(
            table(root=root, landing=f"{root}/incremental", target_file_bytes=900, keep=0.0, keep_versions=1, grace=0.0),
        )
        self.storage = there  # type: ignore[assignment]


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.slow)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    """Keeps one version and what is pinned, and deletes at once."""
    if request.param == "memory":
        return Here(MemoryStorage(), "/lake/t")
    if request.param == "local":
        return Here(LocalStorage(), str(tmp_path / "t"))
    server: Server = request.getfixturevalue("server")
    return Here(storage(server.url, 20.0), f"s3://{BUCKET}/{uuid.uuid4().hex}/t")


def kept(lake: Lake) -> set[str]:
    """The units that Snapshots name which are no stubs."""
    return {path for snapshot in lake.committed() if not snapshot.expired for path in snapshot.named}


def test_versions_are_pinned_vacuumed_and_restored(lake: Here) -> None:
    """Storage holds in the end what is kept, and every state comes back that is kept."""
    shown = {}
    for deliver in (first, second, third):
        deliver(lake)
        lake.run()
        shown[lake.newest().version] = lake.look().rows  # type: ignore[union-attr]
    lake.deliver("increment_2026010106/more.json", [line("u", [6], [8000], {"a": 8000})])
    lake.run()
    lake.pin(2, "second")
    lake.deliver("increment_2026010107/dies.json", [line("u", [1], [9000], {"a": 9000})])
    with suppress(Crash):
        lake.run(Faults(1, only=["put_if_absent"]))
    told = lake.vacuum(dry=True)
    assert {item.reason for item in told.swept} == {"expired", "orphan"}
    assert told.kept[2] == "pinned as second"
    lake.vacuum()
    lake.run()
    lake.vacuum()
    assert lake.units() == kept(lake)
    lake.restore(2)
    assert lake.look().rows == shown[2]  # type: ignore[union-attr]
    assert lake.failed_checks() == []
    assert lake.reabsorb().outcome == "committed"
    assert (1, 9000) in [row[:2] for row in lake.look().rows]  # type: ignore[union-attr]
    lake.unpin("second")
    lake.run()
    for _ in range(3):
        lake.vacuum()
    assert lake.units() == kept(lake)
    assert (6, 8000) in [row[:2] for row in lake.look().rows]  # type: ignore[union-attr]
    assert [check.name for check in verify(Table(lake.env(), lake.spec), deep=True) if not check.ok] == []
    versions = [snapshot.version for snapshot in lake.committed()]
    assert versions == list(range(1, len(versions) + 1))


def lose(lake: Lake, path: str) -> None:
    lake.storage.delete([path])


def cut(lake: Lake, path: str) -> None:
    lake.storage.write(path, lake.storage.read(path)[:-1])


def flip(lake: Lake, path: str) -> None:
    data = lake.storage.read(path)
    lake.storage.write(path, data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])


@pytest.mark.parametrize("place", ["base", "delta"])
def test_other_bytes_of_the_same_length_are_found(place: str) -> None:
    """By the checksum that was taken when the file was written; a Snapshot from before there were checksums has none to compare with, and says so."""
    lake = Here(MemoryStorage(), "/lake/t")
    for deliver in (first, second, third):
        deliver(lake)
        lake.run()
    path = next(info.path for info in lake.storage.list(f"/lake/t/{place}"))
    flip(lake, path)
    assert [(name, detail.partition(":")[0]) for name, ok, detail in verify_files(lake) if not ok] == [("kept versions", path)]
    for snapshot in [*lake.committed()]:
        text = lake.storage.read(lake.layout.snapshot(snapshot.version)).decode()
        lake.storage.write(lake.layout.snapshot(snapshot.version), re.sub(r',\s*"checksum": "[^"]*"', "", text).encode())
    (told,) = [detail for name, ok, detail in verify_files(lake) if name == "kept versions" and ok]
    assert "without a checksum" in told


@pytest.mark.parametrize("harm", [lose, cut])
@pytest.mark.parametrize(
    ("place", "check"),
    [("base", "kept versions"), ("delta", "kept versions"), ("_compactor/ledger", "ledger"), ("archive", "raw files")],
)
def test_what_is_lost_or_cut_is_found(place: str, check: str, harm: Callable[[Lake, str], None]) -> None:
    """Also what only an older version names, which a shallow look does not see."""
    lake = Here(MemoryStorage(), "/lake/t")
    for deliver in (first, second, third):
        deliver(lake)
        lake.run()
    oldest = next(iter(lake.committed()))
    found = [info.path for info in lake.storage.list(f"/lake/t/{place}")]
    if place == "base":
        found = [f"/lake/t/{segment.path}/{file.name}" for segment in oldest.segments for file in segment.files]
    assert [each.name for each in verify(Table(lake.env(), lake.spec), deep=True) if not each.ok] == []
    harm(lake, found[0])
    (wrong,) = [each for each in verify_files(lake) if each[0] == check]
    assert not wrong[1]
    assert found[0].rpartition("/")[2].partition("~")[2] in wrong[2]


def verify_files(lake: Lake) -> list[tuple[str, bool, str]]:
    """Without the engine, which could not read what is damaged."""
    env = dataclasses.replace(lake.env(), files_only=True)
    return [(check.name, check.ok, check.detail) for check in verify(Table(env, lake.spec), deep=True)]


def test_a_parquet_file_that_is_not_whole_is_found() -> None:
    """Of the right size, with a footer that is none."""
    lake = Here(MemoryStorage(), "/lake/t")
    first(lake)
    lake.run()
    newest = lake.newest()
    assert newest is not None
    data = b"PAR1" + bytes(100) + (40).to_bytes(4, "little") + b"PAR1"
    for content, whole in ((data, True), (data[:-1] + b"0", False), (data[:-8] + (105).to_bytes(4, "little") + b"PAR1", False)):
        part = newest.segments[0]
        path = f"/lake/t/{part.path}/x.parquet"
        lake.storage.write(path, content)
        text = lake.storage.read(lake.layout.snapshot(1)).replace(part.files[0].name.encode(), b"x.parquet", 1)
        text = text.replace(f'"size": {part.files[0].size}'.encode(), f'"size": {len(content)}'.encode(), 1)
        text = text.replace(part.files[0].checksum.encode(), checksum.of(content).encode(), 1)
        other = Here(lake.storage, "/lake/t")
        lake.storage.write(lake.layout.snapshot(1), text)
        (found,) = [ok for name, ok, _ in verify_files(other) if name == "kept versions"]
        assert found is whole
        lake.storage.write(lake.layout.snapshot(1), newest.to_bytes())
