"""The fault injectors themselves: every loop over failures stands on them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from compactor.core.catalog.ddl import PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import Unavailable
from tests.faults import Crash, Faults, FaultyCatalog, FaultyStorage, every_fault
from tests.parts.memory_storage import MemoryStorage


class Recorder:
    """A Catalog that only remembers what reached it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def ensure_database(self, name: str, location: str) -> None:
        self.seen.append(f"database {name} {location}")

    def ensure_table(self, table: TableDef) -> None:
        self.seen.append(f"table {table.name}")

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        self.seen.append(f"add {[partition.values for partition in partitions]}")

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        self.seen.append("partitions")
        return [PartitionDef(("1",), "/x")]

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        self.seen.append(f"drop {[*values]}")

    def view(self, database: str, name: str) -> ViewDef | None:
        self.seen.append(f"view {name}")
        return None

    def replace_view(self, view: ViewDef) -> None:
        self.seen.append(f"replace {view.name}")


def content(storage: MemoryStorage) -> dict[str, bytes]:
    """Everything stored."""
    return {info.path: storage.read(info.path) for info in storage.list("/")}


def two_writes(storage: FaultyStorage) -> None:
    """A program of three calls."""
    storage.write("/a", b"1")
    storage.read("/a")
    storage.write("/b", b"2")


def test_nothing_fails_by_default() -> None:
    """Without a number the wrapper only counts, and what it wraps is reached."""
    storage = FaultyStorage(MemoryStorage())
    two_writes(storage)
    assert storage.calls == [("write", "/a"), ("read", "/a"), ("write", "/b")]
    assert not storage.faults.fired


@pytest.mark.parametrize(
    ("mode", "n", "left"),
    [
        ("before", 1, {}),
        ("before", 3, {"/a": b"1"}),
        ("before", 4, {"/a": b"1", "/b": b"2"}),
        ("after_effect", 1, {"/a": b"1"}),
        ("after_effect", 3, {"/a": b"1", "/b": b"2"}),
        ("from_then_on", 1, {}),
        ("from_then_on", 3, {"/a": b"1"}),
    ],
)
def test_modes(mode: str, n: int, left: dict[str, bytes]) -> None:
    """The n-th call fails with or without its effect; with n beyond the last call nothing does."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner, n, mode)
    with suppress(Crash):
        two_writes(storage)
    assert content(inner) == left
    assert storage.faults.fired == (n <= 3)


@pytest.mark.parametrize(("mode", "later"), [("before", {"/late": b""}), ("after_effect", {"/late": b""}), ("from_then_on", {})])
def test_after_the_failure(mode: str, later: dict[str, bytes]) -> None:
    """Only from_then_on keeps failing."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner, 1, mode)
    with pytest.raises(Crash):
        storage.now()
    with suppress(Crash):
        storage.write("/late", b"")
    assert content(inner) == later


def test_crash_passes_except_exception() -> None:
    """A Crash is a process death: no `except Exception` holds it; `error="unavailable"` is the project's own error."""
    assert not issubclass(Crash, Exception)
    with pytest.raises(Crash, match=r"call 1: read /a \(before 1\)"):
        FaultyStorage(MemoryStorage(), 1).read("/a")
    with pytest.raises(Unavailable, match="unavailable injected at call 1: stat /a"):
        FaultyStorage(MemoryStorage(), 1, error="unavailable").stat("/a")


def test_only() -> None:
    """Operations not named are neither counted nor failed."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner, 2, only={"write"})
    with pytest.raises(Crash):
        two_writes(storage)
    assert content(inner) == {"/a": b"1"}
    assert storage.calls == [("write", "/a"), ("write", "/b")]


@pytest.mark.parametrize("options", [{"mode": "sometimes"}, {"error": "oops"}])
def test_unknown_words(options: dict[str, str]) -> None:
    """A misspelt mode would be a loop that tests nothing."""
    with pytest.raises(ValueError, match="expected a mode of"):
        FaultyStorage(MemoryStorage(), 1, **options)


@pytest.mark.parametrize("mode", ["before", "after_effect", "from_then_on"])
def test_move_dies_half_way(mode: str) -> None:
    """A move can die before it began, between copy and removal, and after it; its repetition finishes each."""
    states = []
    for faults in every_fault(mode, only={"move"}):
        inner = MemoryStorage()
        inner.write("/x", b"1")
        source = inner.stat("/x")
        assert source
        with suppress(Crash):
            FaultyStorage(inner, faults).move(source, "/y")
        states.append(sorted(content(inner)))
        assert inner.move(source, "/y")
        assert content(inner) == {"/y": b"1"}
    assert states == [["/x"], ["/y"] if mode == "after_effect" else ["/x", "/y"], ["/y"]]


def test_half_a_move_is_conditional_too() -> None:
    """Half a move copies nothing that a whole one would not have moved."""
    inner = MemoryStorage()
    inner.write("/x", b"1")
    source = inner.stat("/x")
    assert source
    inner.write("/x", b"2")
    with pytest.raises(Crash):
        FaultyStorage(inner, 2).move(source, "/y")
    assert content(inner) == {"/x": b"2"}


def test_delete_dies_half_way() -> None:
    """A delete can die after any of its paths."""
    left = []
    for faults in every_fault():
        inner = MemoryStorage()
        for path in ("/a", "/b"):
            inner.write(path, b"")
        with suppress(Crash):
            FaultyStorage(inner, faults).delete(iter(["/a", "/b"]))
        left.append(sorted(content(inner)))
    assert left == [["/a", "/b"], ["/b"], []]


def test_every_storage_operation_counts() -> None:
    """Each operation of the protocol is passed on with its result, and counted."""
    storage = FaultyStorage(MemoryStorage(lambda: 7.0))
    assert storage.put_if_absent("/a", b"1")
    assert not storage.put_if_absent("/a", b"2")
    info = storage.stat("/a")
    assert info
    assert [*storage.list("/")] == [info]
    assert storage.move(info, "/b")
    assert storage.read("/b") == b"1"
    storage.delete(["/b"])
    assert storage.now() == 7.0
    storage.write("/c", b"")
    assert not storage.replace(info, b"2")
    expected = ["put_if_absent", "put_if_absent", "stat", "list", "move", "move", "read", "delete", "now", "write", "replace"]
    assert [operation for operation, _ in storage.calls] == expected


def test_every_catalog_operation_counts() -> None:
    """Each operation of the protocol is passed on with its result, and counted, partitions one by one."""
    inner = Recorder()
    catalog = FaultyCatalog(inner)
    catalog.ensure_database("d", "/d")
    catalog.ensure_table(TableDef("d", "t", (), (), "/t"))
    catalog.ensure_partitions("d", "t", [PartitionDef(("1",), "/1"), PartitionDef(("2",), "/2")])
    catalog.ensure_partitions("d", "t", [])
    assert catalog.partitions("d", "t") == [PartitionDef(("1",), "/x")]
    catalog.drop_partitions("d", "t", [("1",), ("2",)])
    assert catalog.view("d", "v") is None
    catalog.replace_view(ViewDef("d", "v", "select 1", ()))
    assert catalog.calls == [
        ("ensure_database", "d"),
        ("ensure_table", "d.t"),
        ("ensure_partitions", "d.t/1"),
        ("ensure_partitions", "d.t/2"),
        ("ensure_partitions", "d.t"),
        ("partitions", "d.t"),
        ("drop_partitions", "d.t/1"),
        ("drop_partitions", "d.t/2"),
        ("view", "d.v"),
        ("replace_view", "d.v"),
    ]
    steps = ["add [('1',)]", "add [('2',)]", "add []", "partitions", "drop [('1',)]", "drop [('2',)]", "view v", "replace v"]
    assert inner.seen == ["database d /d", "table t", *steps]


def test_shared_counter() -> None:
    """One Faults given to both wrappers counts through both: the loop visits every call of either, and ends."""
    reached = []
    for faults in every_fault("from_then_on"):
        inner, recorder = MemoryStorage(), Recorder()
        storage, catalog = FaultyStorage(inner, faults), FaultyCatalog(recorder, faults)
        with suppress(Crash):
            storage.write("/a", b"")
            catalog.view("d", "v")
            storage.write("/b", b"")
        reached.append((sorted(content(inner)), recorder.seen))
    assert reached == [([], []), (["/a"], []), (["/a"], ["view v"]), (["/a", "/b"], ["view v"])]


def test_faults_object_is_shared_not_copied() -> None:
    """What the wrappers count is seen in the Faults given to them."""
    faults = Faults(2, error="unavailable")
    storage, catalog = FaultyStorage(MemoryStorage(), faults), FaultyCatalog(Recorder(), faults)
    storage.now()
    with pytest.raises(Unavailable):
        catalog.view("d", "v")
    assert faults.calls == [("now", ""), ("view", "d.v")] == storage.calls == catalog.calls
