"""A table with `archive_kms_key` on an S3 server: whatever a verb does, its raw files have the key, nothing else has it, and the table is right."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest

from compactor.core.model.errors import Refused
from compactor.flows.keep.erase import Request, erase
from compactor.flows.keep.raw_files import reencrypt
from compactor.storage.s3.storage import S3Storage
from tests.faults import MODES, Crash, every_fault
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.s3_lake import BUCKET, KEY, SETTINGS
from tests.parts.s3 import Server

pytestmark = pytest.mark.slow


class KeyLake(Lake):
    """A lake in the server's bucket. `key`: whether its processes know the table's key."""

    def __init__(self, server: Server, archive: str = "move", key: bool = True, root: str = "") -> None:
        root = root or f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
        keeps = {"keep": 0.0, "keep_versions": 1, "grace": 0.0}
        super().__init__(
            table(root=root, landing=f"{root}/incremental", archive=archive, target_file_bytes=900, archive_kms_key=KEY if key else "", **keeps)
        )
        self.server = server
        settings = type(SETTINGS)(**{**vars(SETTINGS), "endpoint": server.url, "read_seconds": 30})
        self.storage = S3Storage(root, settings, {root: KEY} if key else {})  # type: ignore[assignment]

    def keys(self, raw: bool) -> dict[str, str]:
        """Location → KMS key, of raw files or of all other objects of the table."""
        there = {f"s3://{BUCKET}/{key}": arn for key, arn in self.server.keys(BUCKET).items()}
        ours = {location: arn for location, arn in there.items() if location.startswith(f"{self.spec.root}/")}
        return {location: arn for location, arn in ours.items() if self.layout.raw_file(location) is raw}

    def check(self) -> None:
        """Raw files have the key, other objects have not, and everything agrees with the ledger."""
        assert set(self.keys(raw=True).values()) == {KEY}
        assert set(self.keys(raw=False).values()) == {""}
        assert self.failed_checks() == []


def played(lake: KeyLake) -> None:
    """Files that are taken, one whose name comes again with other content, and one that cannot be read."""
    lake.deliver("increment_2026010100/a.json", [line("c", [key], [key], {"a": key, "b": f"x{key}"}) for key in range(12)])
    lake.run()
    lake.deliver("increment_2026010101/a.json", [line("u", [1], [101], {"a": 101}), line("d", [7], [103])])
    lake.run()
    lake.deliver("increment_2026010101/a.json", [line("u", [2], [106], {"a": 106})])
    lake.deliver("increment_2026010101/damaged.json", [line("u", [3], [107], {"a": 107})], damaged=True)
    lake.run()


@pytest.mark.parametrize("archive", ["move", "copy"])
def test_whatever_a_verb_does_raw_files_have_the_key(server: Server, archive: str) -> None:
    """Run, replay of a repaired file, restore and reabsorb, rebuild, erase, vacuum."""
    lake = KeyLake(server, archive)
    played(lake)
    lake.check()
    assert sum("/archive/" in location for location in lake.keys(raw=True)) == 3
    (damaged,) = [location for location in lake.keys(raw=True) if "/quarantine/" in location]
    assert [location for location in lake.keys(raw=False) if location.endswith(".reason.json")] != []
    # somebody repairs it, with the key of the lake
    KeyLake(server, key=False, root=lake.spec.root).storage.write(damaged, line("u", [3], [107], {"a": 107}).encode())
    lake.replay()
    lake.check()
    assert [location for location in lake.keys(raw=True) if "/quarantine/" in location] == []
    assert (3, 107) in [row[:2] for row in lake.look().rows]  # type: ignore[union-attr]
    before = lake.look()
    newest = lake.newest()
    assert newest is not None
    lake.deliver("increment_2026010102/b.json", [line("u", [5], [201], {"a": 201})])
    lake.run()
    lake.restore(newest.version)
    assert lake.reabsorb().outcome == "committed"
    assert lake.rebuild().outcome == "published"
    lake.check()
    lake.now += 1.0
    report = erase(lake.table(), Request((("1",), ("3",)), now=True, leave_landing=True))
    assert report.left == ()
    assert "increment_2026010101/a.json" in {item.path for item in report.rewritten}
    raw = {location: lake.storage.read(location) for location in lake.keys(raw=True)}
    assert [location for location, data in raw.items() if b'"key": [3]' in data or b'"key": [1]' in data] == []
    lake.check()
    assert [row for row in lake.look().rows if row[0] != 5] == [row for row in before.rows if row[0] not in (1, 3, 5)]  # type: ignore[union-attr]
    assert lake.rebuild().outcome == "published"
    lake.vacuum()
    lake.check()


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupted_encryption_goes_on_where_it_was(server: Server, mode: str) -> None:
    """Of files that were archived before there was a key: the next call encrypts the rest, and a further one nothing."""
    old = KeyLake(server, key=False)
    played(old)
    assert set(old.keys(raw=True).values()) == {""}
    with pytest.raises(Refused, match="`archive_kms_key` is not set"):
        reencrypt(old.table())
    files = len(old.keys(raw=True))
    name = f"before-{uuid.uuid4().hex}"
    server.save(name)
    for faults in every_fault(mode):
        server.restore(name)
        lake = KeyLake(server, root=old.spec.root)
        lake.now, lake.catalog, lake.delivered = old.now, old.catalog, old.delivered
        done = 0
        with suppress(Crash):
            done = reencrypt(lake.table(faults)).changed
        again = reencrypt(lake.table())
        assert (again.files, again.key) == (files, KEY)
        assert done + again.changed <= files
        lake.check()
        assert reencrypt(lake.table()).changed == 0
        assert lake.ledger(lake.newest()) == old.ledger(old.newest())  # type: ignore[arg-type]
    assert len(faults.calls) == files + 3, "three listings, and every file"
    assert lake.rebuild().outcome == "published"
    lake.check()
