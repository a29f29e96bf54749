"""What `ports.Storage` promises, asked of every implementation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.formats import checksum
from compactor.core.model.errors import Refused
from compactor.core.model.files import FileInfo
from compactor.core.settings.s3 import S3Settings
from compactor.ports import Storage
from compactor.storage.local import LocalStorage
from compactor.storage.s3.storage import S3Storage
from tests.oracle.sizes import sized
from tests.parts.memory_storage import MemoryStorage
from tests.storage.worlds import BAD_NAMES, ODD_NAMES, World


@cache
def s3() -> S3Storage:
    """One for all tests: a connection takes longer than most of them. Small pages: listings have several."""
    return S3Storage("s3://lake", S3Settings(path_style=True, list_page=3))


# An implementation joins by a line here: name -> how to make it, and the root of its locations below a scratch directory.
FACTORIES: dict[str, tuple[Callable[[], Storage], str]] = {
    "memory": (MemoryStorage, "s3://bucket"),
    "local": (LocalStorage, ""),
    "s3": (s3, "s3://lake"),
}


def made(name: str, scratch: str) -> World:
    """A world of one kind."""
    make, root = FACTORIES[name]
    return World(make(), f"{root}{scratch}")


@pytest.fixture(params=FACTORIES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Every implementation in turn."""
    if request.param.startswith("s3"):
        request.getfixturevalue("s3_endpoint")
    return made(request.param, str(tmp_path))


# Single objects


def test_encrypting_changes_no_content(world: World) -> None:
    """Where there is no key for raw files, it changes nothing at all; a missing object is none of its business."""
    info = world.put("archive/x", b"1")
    assert not world.storage.encrypt(world.path("archive/x"))
    assert world.info("archive/x") == info
    assert not world.storage.encrypt(world.path("archive/none"))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names(world: World, name: str) -> None:
    """An odd name is taken literally by every call, as a file and as a directory."""
    inside, moved = f"{name}/{name}", f"moved/{name}"
    assert world.storage.put_if_absent(world.path(inside), b"1")
    assert world.content() == {inside: b"1"}
    assert world.storage.move(world.info(inside), world.path(moved))
    assert world.content() == {moved: b"1"}
    world.storage.delete([world.path(moved)])
    assert world.storage.stat(world.path(moved)) is None


@pytest.mark.parametrize("path", BAD_NAMES)
def test_bad_names(world: World, path: str) -> None:
    """A location some store could not keep, or would keep as another, is refused by every call."""
    info = FileInfo(path, 1, "1", 1.0)
    for call in (
        lambda: world.storage.read(path),
        lambda: world.storage.stat(path),
        lambda: world.storage.write(path, b""),
        lambda: world.storage.put_if_absent(path, b""),
        lambda: world.storage.move(info, world.path("x")),
        lambda: world.storage.move(world.put("y", b""), path),
        lambda: world.storage.delete([path]),
    ):
        with pytest.raises(Refused):
            call()


def test_missing(world: World) -> None:
    """What is not there reads as FileNotFoundError, stats as None, lists as nothing and deletes without complaint."""
    with pytest.raises(FileNotFoundError):
        world.storage.read(world.path("x"))
    assert world.storage.stat(world.path("x")) is None
    assert not [*world.storage.list(world.path("x"))]
    world.storage.delete([world.path("x"), world.path("deep", "er", "x")])
    world.storage.delete([])


def test_directory_is_nothing(world: World) -> None:
    """A directory is only a prefix: no object is there, and deleting it removes nothing."""
    world.put("d/x", b"1")
    assert world.storage.stat(world.path("d")) is None
    with pytest.raises(FileNotFoundError):
        world.storage.read(world.path("d"))
    world.storage.delete([world.path("d")])
    assert world.content() == {"d/x": b"1"}


def test_write_replaces(world: World) -> None:
    """A write creates or replaces, and the last one is read."""
    for data in (b"", b"one", b"\x00\xff" * 70_000, b"1"):
        assert world.put("x", data).size == len(data)
        assert world.content() == {"x": data}


def test_replace(world: World) -> None:
    """Only what is still the file that the caller has seen; else nothing is written."""
    first = world.put("x", b"1")
    assert world.storage.replace(first, b"2")
    assert not world.storage.replace(first, b"3")
    (listed,) = world.storage.list(world.root)
    assert world.storage.replace(listed, b"4"), "a listing names the same file"
    assert world.content() == {"x": b"4"}
    last = world.info("x")
    world.storage.delete([last.path])
    assert not world.storage.replace(last, b"5")
    assert world.content() == {}


@pytest.mark.slow
def test_etag_follows_content(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The etag stays while the object stays, and changes with the content however quickly that follows."""
    # Without the wait for the disk two writes can fall into one step of an older kernel's clock, and inodes come round again.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    seen = [world.put("x", bytes([n])).etag for n in range(200)]
    assert len(set(seen)) == 200
    assert world.info("x").etag == seen[-1]
    assert [*world.storage.list(world.root)] == [world.info("x")]


def test_checksum(world: World) -> None:
    """It agrees with the content that is there, and with no other of that length; what is not there has none."""
    for data in (b"", b"one", b"\x00\xff" * 70_000):
        told = world.storage.checksum(world.put("x", data))
        assert checksum.agrees(told, data)
        assert not checksum.agrees(told, data[:-1] + b"!")
    gone = world.info("x")
    world.storage.delete([gone.path])
    with pytest.raises(FileNotFoundError):
        world.storage.checksum(gone)


def test_modified_and_now(world: World) -> None:
    """Modification times are epoch seconds of the clock that `now` shows."""
    before = world.storage.now()
    assert before - 1 <= world.put("x", b"").modified <= world.storage.now() + 1


def test_memory_clock() -> None:
    """The memory storage shows the clock it is given."""
    storage = MemoryStorage(clock=lambda: 42.0)
    storage.write("/x", b"")
    assert (storage.now(), next(storage.list("/")).modified) == (42.0, 42.0)


def test_put_if_absent(world: World) -> None:
    """The first put wins, later ones change nothing, and after a delete the name is free again."""
    path = world.path("a", "b", "x")
    assert world.storage.put_if_absent(path, b"1")
    assert not world.storage.put_if_absent(path, b"2")
    assert world.storage.read(path) == b"1"
    world.storage.delete([path])
    assert world.storage.put_if_absent(path, b"3")
    assert world.storage.read(path) == b"3"


def test_put_race_of_threads(world: World) -> None:
    """Of eight threads racing for a name exactly one wins, and its content is there."""
    for name in map(str, range(20)):
        path, barrier = world.path(name), threading.Barrier(8)

        def put(me: int, path: str = path, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return world.storage.put_if_absent(path, b"%d" % me)

        with ThreadPoolExecutor(8) as pool:
            won = [*pool.map(put, range(8))]
        assert won.count(True) == 1
        assert world.storage.read(path) == b"%d" % won.index(True)


# Listing


def test_list_order(world: World) -> None:
    """A listing is recursive, in the order of full paths - `a-b` before `a/x` before `a0` - and knows no siblings."""
    names = ["a-b", "a/x", "a0", "a.b", "a/y/z", "a/y-z", "A", "ä", "zz/1", "~"]
    for name in names:
        world.put(f"here/{name}", b"")
    world.put("here2/x", b"")
    expected = sorted(world.path("here", name) for name in names)
    assert [info.path for info in world.storage.list(world.path("here"))] == expected
    assert [info.path for info in world.storage.list(world.path("here") + "/")] == expected
    assert not [*world.storage.list(world.path("here", "A"))]


def test_folders(world: World) -> None:
    """Only what is directly below, and no files."""
    for name in ("a/x", "a-b/c/x", "b/x", "file"):
        world.put(f"t/{name}", b"")
    world.put("u/c/x", b"")
    assert [*world.storage.folders(world.path("t"))] == ["a", "a-b", "b"]
    assert [*world.storage.folders(world.path("t/a") + "/")] == []
    assert [*world.storage.folders(world.path("absent"))] == []


# Moving


def test_move(world: World) -> None:
    """A move takes the content to the target and the source away, creating and leaving directories as needed."""
    assert world.storage.move(world.put("a/x", b"1"), world.path("b", "c", "x"))
    assert world.content() == {"b/c/x": b"1"}
    assert world.storage.stat(world.path("a", "x")) is None


def test_move_again(world: World) -> None:
    """A move that happened already is True again, from the first FileInfo."""
    source = world.put("x", b"1")
    assert world.storage.move(source, world.path("y"))
    assert world.storage.move(source, world.path("y"))
    assert world.content() == {"y": b"1"}


def test_move_interrupted_copy(world: World) -> None:
    """A target with the same content beside its source is an interrupted move: it is finished."""
    source = world.put("x", b"1")
    world.put("y", b"1")
    assert world.storage.move(source, world.path("y"))
    assert world.content() == {"y": b"1"}


def test_move_changed(world: World) -> None:
    """A source that changed stays where it is: False, nothing moved."""
    source = world.put("x", b"1")
    world.put("x", b"2")
    assert not world.storage.move(source, world.path("y"))
    assert world.content() == {"x": b"2"}


def test_move_replaced_after_move(world: World) -> None:
    """A sink that writes the name again after its move has made a new object: the move is True, the new object stays."""
    source = world.put("x", b"1")
    assert world.storage.move(source, world.path("y"))
    world.put("x", b"22")
    assert world.storage.move(source, world.path("y"))
    assert world.content() == {"x": b"22", "y": b"1"}


@pytest.mark.parametrize("other", [b"2", b"other"])
def test_move_name_taken(world: World, other: bytes) -> None:
    """A target with other content, of the same length or not, is FileExistsError while the source is there; nothing moves."""
    source = world.put("x", b"1")
    world.put("y", other)
    with pytest.raises(FileExistsError):
        world.storage.move(source, world.path("y"))
    assert world.content() == {"x": b"1", "y": other}


def test_move_retry_with_two_names(world: World) -> None:
    """Name taken, moved under a second name, died: the retry finds the first still taken and the second done."""
    source = world.put("x", b"1")
    world.put("y", b"2")
    assert world.storage.move(source, world.path("y.1"))
    with pytest.raises(FileExistsError):
        world.storage.move(source, world.path("y"))
    assert world.storage.move(source, world.path("y.1"))
    assert world.content() == {"y": b"2", "y.1": b"1"}


def test_move_nothing(world: World) -> None:
    """With the content on neither side a move is FileNotFoundError."""
    source = world.put("x", b"1")
    world.storage.delete([source.path])
    with pytest.raises(FileNotFoundError):
        world.storage.move(source, world.path("y"))


def test_move_onto_itself(world: World) -> None:
    """A move onto its own name loses nothing."""
    source = world.put("x", b"1")
    assert world.storage.move(source, source.path)
    assert world.content() == {"x": b"1"}


@pytest.mark.slow
def test_move_race(world: World) -> None:
    """Eight threads moving the same object all succeed, and one copy is left."""
    for n in range(20):
        source, target = world.put(f"x{n}", b"%d" % n), world.path("y", f"x{n}")
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda _, s=source, t=target: world.storage.move(s, t), range(8)))
    assert world.content() == {f"y/x{n}": b"%d" % n for n in range(20)}


def test_copy(world: World) -> None:
    """A move that keeps its source is a copy, as often as it is asked for; what is written over the source later does not reach it."""
    source = world.put("a/x", b"1")
    for _ in range(2):
        assert world.storage.move(source, world.path("b", "x"), keep=True)
        assert world.content() == {"a/x": b"1", "b/x": b"1"}
    assert world.info("a/x") == source
    world.put("a/x", b"2")
    assert not world.storage.move(source, world.path("c"), keep=True)
    assert world.content() == {"a/x": b"2", "b/x": b"1"}


def test_copy_is_no_second_name(world: World) -> None:
    """A sink that goes on writing into its file changes the original only."""
    source = world.put("x", b"1")
    assert world.storage.move(source, world.path("y"), keep=True)
    if isinstance(world.storage, LocalStorage):
        with open(world.path("x"), "ab") as file:
            file.write(b"more")
        assert world.content() == {"x": b"1more", "y": b"1"}


def test_copy_name_taken(world: World) -> None:
    """Other content is never replaced; equal content is a copy that was made before."""
    source = world.put("x", b"1")
    world.put("y", b"2")
    with pytest.raises(FileExistsError):
        world.storage.move(source, world.path("y"), keep=True)
    world.put("y", b"1")
    assert world.storage.move(source, world.path("y"), keep=True)
    assert world.content() == {"x": b"1", "y": b"1"}


# Random programs

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=60)
STEPS = st.tuples(st.sampled_from(["write", "put", "replace", "move", "delete"]), st.integers(0, 5), st.integers(0, 5), st.binary(max_size=3))


PROGRAMS = (st.lists(NAMES, min_size=6, max_size=6, unique=True), st.lists(STEPS, max_size=20))


@pytest.mark.parametrize("name", ["memory", "local"])
@sized(60)
@given(*PROGRAMS)
def test_like_a_dict(name: str, tmp_path_factory: pytest.TempPathFactory, names: Sequence[str], steps: Any) -> None:
    """Any program leaves what the same program leaves in a dict, and says so."""
    compare_with_a_dict(made(name, str(tmp_path_factory.getbasetemp())), names, steps)


@pytest.mark.usefixtures("s3_endpoint")
@sized(8)
@given(*PROGRAMS)
def test_s3_is_like_a_dict(names: Sequence[str], steps: Any) -> None:
    """Fewer programs: each step is a few requests."""
    compare_with_a_dict(made("s3", ""), names, steps)


def compare_with_a_dict(world: World, names: Sequence[str], steps: Any) -> None:
    """Play a program on both, compare after every step."""
    model = dict[str, bytes]()
    # Directories and files have distinct names, as in our layout: a file system cannot have one below the other.
    pool = [f"f-{text}" if n % 2 else f"d-{text}/f-{text}" for n, text in enumerate(names)]
    for step, first, second, data in steps:
        one, two = pool[first], pool[second]
        if step == "write":
            world.put(one, data)
            model[one] = data
        elif step == "put":
            assert world.storage.put_if_absent(world.path(one), data) == (one not in model)
            model.setdefault(one, data)
        elif step == "replace":
            seen = world.storage.stat(world.path(one)) or FileInfo(world.path(one), 0, "none", 0.0)
            assert world.storage.replace(seen, data) == (one in model)
            model |= {one: data} if one in model else {}
        elif step == "delete":
            world.storage.delete([world.path(one), world.path(two)])
            model = {key: value for key, value in model.items() if key not in (one, two)}
        elif one in model and model.get(two, model[one]) != model[one]:
            with pytest.raises(FileExistsError):
                world.storage.move(world.info(one), world.path(two))
        elif one in model:
            assert world.storage.move(world.info(one), world.path(two))
            model[two] = model.pop(one)
        assert [*world.content().items()] == sorted(model.items())
