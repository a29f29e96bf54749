"""What `ports.Storage` promises, asked of every implementation; then what only a file system can get wrong."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.core.errors import CompactorError, Refused, Unavailable
from compactor.ports import FileInfo, Storage
from compactor.storage import local
from compactor.storage.local import STAGING_PREFIX, LocalStorage, local_path
from compactor.storage.memory import MemoryStorage

# An implementation joins by a line here: name -> how to make it, and the root of its locations below a scratch directory.
FACTORIES: dict[str, tuple[Callable[[], Storage], str]] = {
    "memory": (MemoryStorage, "s3://bucket"),
    "local": (LocalStorage, ""),
}

ODD_NAMES = [
    *(
        "a b",
        " leading",
        "trailing ",
        "Käse-Ümläut-ß",
        "日本",
        "a=b",
        "year=2026",
        "a%20b",
        "%2F",
        "a+b",
        "a&b;c",
        "a#b?c=d",
        "'\"`$x",
    ),
    *(
        ".hidden",
        "_SUCCESS",
        "..two",
        "three...",
        "a.b.c.parquet",
        "trailing.",
        "-rf",
        "~",
        "*",
        "[x]",
        "{y}",
        "a\\b",
        "x" * 200,
        "ü" * 100,
    ),
]
BAD_NAMES = ["", "/", "relative", "/a//b", "/a/", "/a/.", "/a/../b", "/a\0b"]


class World:
    """A storage and the root this test may use in it."""

    def __init__(self, name: str, scratch: str) -> None:
        make, root = FACTORIES[name]
        self.storage = make()
        self.root = f"{root}{scratch}/{uuid.uuid4().hex}"

    def path(self, *names: str) -> str:
        """A location in this world."""
        return "/".join([self.root, *names])

    def put(self, name: str, data: bytes) -> FileInfo:
        """Write, and look what is there."""
        self.storage.write(self.path(name), data)
        return self.info(name)

    def info(self, name: str) -> FileInfo:
        """What is there, which must be something."""
        found = self.storage.stat(self.path(name))
        assert found is not None
        return found

    def content(self) -> dict[str, bytes]:
        """Everything in this world, by relative name."""
        return {info.path[len(self.root) + 1 :]: self.storage.read(info.path) for info in self.storage.list(self.root)}


@pytest.fixture(params=FACTORIES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Every implementation in turn."""
    return World(request.param, str(tmp_path))


@pytest.fixture
def files(tmp_path: Path) -> World:
    """The local one."""
    return World("local", str(tmp_path))


# Single objects


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


def test_etag_follows_content(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The etag stays while the object stays, and changes with the content however quickly that follows."""
    # Without the wait for the disk two writes can fall into one step of an older kernel's clock, and inodes come round again.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    seen = [world.put("x", bytes([n])).etag for n in range(200)]
    assert len(set(seen)) == 200
    assert world.info("x").etag == seen[-1]
    assert [*world.storage.list(world.root)] == [world.info("x")]


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


def test_move_race(world: World) -> None:
    """Eight threads moving the same object all succeed, and one copy is left."""
    for n in range(20):
        source, target = world.put(f"x{n}", b"%d" % n), world.path("y", f"x{n}")
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda _, s=source, t=target: world.storage.move(s, t), range(8)))
    assert world.content() == {f"y/x{n}": b"%d" % n for n in range(20)}


# Random programs

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=60)
STEPS = st.tuples(st.sampled_from(["write", "put", "move", "delete"]), st.integers(0, 5), st.integers(0, 5), st.binary(max_size=3))


@pytest.mark.parametrize("name", FACTORIES)
@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, min_size=6, max_size=6, unique=True), st.lists(STEPS, max_size=20))
def test_like_a_dict(name: str, tmp_path_factory: pytest.TempPathFactory, names: Sequence[str], steps: Any) -> None:
    """Any program leaves what the same program leaves in a dict, and says so."""
    world, model = World(name, str(tmp_path_factory.getbasetemp())), dict[str, bytes]()
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


# The local file system: names and what lies around


@pytest.mark.parametrize("location", ["/a/b c%20d", "file:/a/b c%20d", "file:///a/b c%20d", "file://localhost/a/b c%20d"])
def test_local_locations(location: str) -> None:
    """A file URI is its path, undecoded."""
    assert local_path(location) == "/a/b c%20d"


@pytest.mark.parametrize("location", [*BAD_NAMES, "s3://b/x", "file:x", "file://elsewhere/x", "//x", f"/x/{STAGING_PREFIX}1", "/" + "x" * 256])
def test_local_refuses(files: World, location: str) -> None:
    """Relative paths, other schemes, other machines, private names and names too long are refused."""
    with pytest.raises(Refused):
        files.storage.write(location, b"")


def test_directory_or_file_in_the_way(files: World) -> None:
    """A directory under the name, or a file where a directory is needed, is refused: nothing hides or replaces the other."""
    files.put("d/x", b"1")
    for path in (files.path("d"), files.path("d", "x", "y")):
        for call in (files.storage.write, files.storage.put_if_absent):
            with pytest.raises(Refused):
                call(path, b"2")
    assert files.storage.stat(files.path("d", "x", "y")) is None
    with pytest.raises(FileExistsError):
        files.storage.move(files.put("z", b"1"), files.path("d"))
    assert files.content() == {"d/x": b"1", "z": b"1"}


def test_links(files: World) -> None:
    """Links to files are listed and moved as their content; dangling ones and links to directories are not listed."""
    files.put("data/x", b"1")
    for name, to in {"file": "data/x", "dangling": "nowhere", "directory": "data"}.items():
        os.symlink(files.path(to), files.path(name))
    assert files.content() == {"data/x": b"1", "file": b"1"}
    assert files.storage.move(files.info("file"), files.path("y"))
    assert not os.path.islink(files.path("y"))
    assert files.content() == {"data/x": b"1", "y": b"1"}


def test_move_never_unlinks_the_only_copy(files: World) -> None:
    """Source and target that are one directory entry, or a link from target to source, are not taken for an interrupted move."""
    source = files.put("data/x", b"1")
    os.symlink(files.path("data"), files.path("alias"))
    os.symlink(source.path, files.path("y"))
    assert files.storage.move(source, files.path("alias", "x"))
    with pytest.raises(FileExistsError):
        files.storage.move(source, files.path("y"))
    assert files.storage.read(source.path) == b"1"


def test_delete_prunes(files: World) -> None:
    """Directories left empty go, up to the first that holds anything; also when an earlier call died before they went."""
    files.put("keep", b"")
    files.put("a/b/c/x", b"")
    os.unlink(files.path("a", "b", "c", "x"))
    os.rmdir(files.path("a", "b", "c"))
    files.storage.delete([files.path("a", "b", "c", "x")])
    assert os.listdir(files.root) == ["keep"]


def test_delete_sweeps(files: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dead process staged keeps a directory for a day, then goes with it; nothing of anybody else's does."""
    for day, left in ((0, ["a", "keep"]), (2, ["keep"])):
        files.put("keep", b"")
        files.put("a/x", b"")
        Path(files.path("a", STAGING_PREFIX + "1")).touch()
        then = time.time() + day * 86400
        monkeypatch.setattr(time, "time", lambda then=then: then)
        files.storage.delete([files.path("a", "x")])
        monkeypatch.undo()
        assert sorted(os.listdir(files.root)) == left


def test_put_beside_delete(files: World) -> None:
    """A put makes its directory again when a delete has just removed it."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            files.storage.delete([files.path("a", "b", "none")])
            time.sleep(0.0001)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(churn)
        try:
            for n in range(200):
                assert files.storage.put_if_absent(files.path("a", "b", str(n)), b"")
                files.storage.delete([files.path("a", "b", str(n))])
        finally:
            stop.set()


RACER = """
import json, os, sys, time
from compactor.storage.local import LocalStorage
root, me = sys.argv[1], sys.argv[2]
storage = LocalStorage()
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([n for n in range(50) if storage.put_if_absent(f"{root}/{n}", me.encode() * 100_000)]))
"""


def test_put_race_of_processes(files: World) -> None:
    """Of eight processes racing for fifty names exactly one wins each, and its content is there, complete."""
    command = [sys.executable, "-c", RACER, files.path("race")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    racers = [subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) for n in range(8)]
    assert [racer.stdout.readline() for racer in racers if racer.stdout] == ["ready\n"] * 8
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    wins = [json.loads(racer.communicate()[0]) for racer in racers]
    assert sorted(itertools.chain(*wins)) == [*range(50)]
    for me, won in enumerate(wins):
        assert all(files.storage.read(files.path("race", str(n))) == b"%d" % me * 100_000 for n in won)


# The local file system: failing at every call of the operating system


class Death(BaseException):
    """The process is gone: no later call reaches the operating system either."""


class BrokenOs:
    """`os` and `open` for `local.py`, failing at call `fail_at`: by death, or once with an error number."""

    CALLS = frozenset({"link", "unlink", "replace", "fsync", "mkdir", "rmdir", "utime", "open", "scandir", "stat", "lstat", "fstat"})

    def __init__(self, fail_at: int, code: int = 0, after: bool = False, calls: Iterable[str] = CALLS, no_links: int = 0) -> None:
        self.fail_at, self.code, self.after, self.calls, self.no_links = fail_at, code, after, frozenset(calls), no_links
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(name, getattr(os, name)) if name in self.CALLS else getattr(os, name)

    def _wrapped(self, name: str, real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if name in self.calls:
                self.count += 1
                if self.count == self.fail_at:
                    if self.after:
                        _let_go(real(*args, **options))
                    raise OSError(self.code, os.strerror(self.code)) if self.code else Death
            if not self.code and self.count >= self.fail_at:
                raise Death
            if name == "link" and self.no_links and STAGING_PREFIX not in args[0]:
                raise OSError(self.no_links, os.strerror(self.no_links))
            return real(*args, **options)

        return call

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The storage meets this system, counting from 0."""
        self.count = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local, "os", self)
            patch.setattr(local, "open", self._wrapped("open", open), raising=False)
            yield


def _let_go(handle: Any) -> None:
    if isinstance(handle, int):
        os.close(handle)
    elif hasattr(handle, "close"):
        handle.close()


def broken(**options: Any) -> Iterator[BrokenOs]:
    """A system broken at call 1, 2, 3, ... up to and including the first that the body did not reach."""
    for n in itertools.count(1):
        system = BrokenOs(n, **options)
        yield system
        if system.count < n:
            return


def staged(world: World) -> list[Path]:
    """Private names left behind."""
    return [*Path(world.root).rglob(STAGING_PREFIX + "*")]


@pytest.mark.parametrize("no_links", [0, errno.EXDEV, errno.EPERM, errno.EMLINK])
@pytest.mark.parametrize("after", [False, True])
def test_move_dies_anywhere(files: World, after: bool, no_links: int) -> None:
    """A move that dies at any call, and its repetition that dies at any call, lose nothing; the next one ends with one copy."""
    data = b"content" * 1000
    for first in broken(after=after, no_links=no_links):
        for second in broken(after=after, no_links=no_links):
            source, target = files.put("in/x", data), files.path("out", "x")
            for system in (first, second):
                with system.in_use(), suppress(Death):
                    assert files.storage.move(source, target)
                found = files.content()
                assert {*found} in ({"in/x"}, {"out/x"}, {"in/x", "out/x"})
                assert {*found.values()} == {data}
            assert files.storage.move(source, target)
            assert files.content() == {"out/x": data}
            shutil.rmtree(files.root)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["write", "put_if_absent"])
def test_put_dies_anywhere(files: World, operation: str, after: bool) -> None:
    """A put that dies at any call leaves all or nothing, and its repetition leaves all; a replacing write leaves old or new."""
    data, old = b"content" * 1000, {"other": b""}
    for system in broken(after=after):
        files.put("other", b"")
        if operation == "write":
            old = {"other": b"", "a/b/x": b"old"}
            files.put("a/b/x", b"old")
        with system.in_use(), suppress(Death):
            getattr(files.storage, operation)(files.path("a", "b", "x"), data)
        assert files.content() in (old, {"other": b"", "a/b/x": data})
        getattr(files.storage, operation)(files.path("a", "b", "x"), data)
        assert files.content() == {"other": b"", "a/b/x": data}
        shutil.rmtree(files.root)


@pytest.mark.parametrize("after", [False, True])
def test_delete_dies_anywhere(files: World, after: bool) -> None:
    """A delete that dies at any call removes nothing else, and its repetition leaves no trace."""
    for system in broken(after=after):
        for name in ("keep", "a/b/x", "a/y"):
            files.put(name, b"")
        doomed = [files.path("a", "b", "x"), files.path("a", "y")]
        with system.in_use(), suppress(Death):
            files.storage.delete(doomed)
        assert "keep" in files.content()
        files.storage.delete(doomed)
        assert os.listdir(files.root) == ["keep"]


TROUBLE = [
    (errno.ENOSPC, Refused, "no space left for /.*x"),
    (errno.EDQUOT, Refused, "no space left for /.*x"),
    (errno.EACCES, Refused, "not allowed: /.*x"),
    (errno.EROFS, Refused, "not allowed: /.*x"),
    (errno.EIO, Unavailable, "/.*x: Input/output error"),
]


@pytest.mark.parametrize(("code", "error", "message"), TROUBLE)
@pytest.mark.parametrize("operation", ["write", "put_if_absent", "move"])
def test_trouble_anywhere(files: World, operation: str, code: int, error: type[CompactorError], message: str) -> None:
    """A full disk, a forbidden directory or a broken one is named as such; nothing half-visible and nothing private stays."""
    data, reached = b"content" * 1000, 0
    for system in broken(code=code, calls={"link", "replace", "fsync", "mkdir", "utime", "open"}):
        source, target = files.put("in/x", data), files.path("out", "x")
        call = partial(files.storage.move, source) if operation == "move" else partial(getattr(files.storage, operation), data=data)
        raised: list[BaseException] = []
        with system.in_use():
            try:
                call(target)
            except error as found:
                raised.append(found)
        assert all(re.search(message, str(found)) for found in raised)
        reached += len(raised)
        assert set(files.content().values()) == {data}
        assert not staged(files)
        files.storage.delete([target])
    assert reached >= 4


def test_no_hard_links(files: World) -> None:
    """A file system without hard links is refused by put_if_absent, in words that say why."""
    for code in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
        system = BrokenOs(1, code=code, calls={"link"})
        with system.in_use(), pytest.raises(Refused, match="expected a file system with hard links"):
            files.storage.put_if_absent(files.path("x"), b"")
    assert (files.content(), staged(files)) == ({}, [])


def test_trouble_reading(files: World) -> None:
    """A listing or reading that the system refuses is an error, never an empty result."""
    files.put("a/x", b"1")
    for operation, call in (("list", "scandir"), ("list", "stat"), ("read", "open"), ("stat", "stat")):
        for code, error in ((errno.EACCES, Refused), (errno.EIO, Unavailable)):
            path = files.root if operation == "list" else files.path("a", "x")
            with BrokenOs(1, code=code, calls={call}).in_use(), pytest.raises(error):
                tuple(getattr(files.storage, operation)(path) or ())


def test_list_beside_delete(files: World) -> None:
    """What vanishes while a listing runs is skipped."""
    for name in ("a/x", "b/x", "c", "d"):
        files.put(name, b"")
    listing = files.storage.list(files.root)
    seen = [next(listing).path]
    files.storage.delete([files.path("b", "x"), files.path("c")])
    assert seen + [info.path for info in listing] == [files.path("a", "x"), files.path("d")]


@pytest.mark.parametrize("how", ["in place", "replaced"])
@pytest.mark.parametrize("no_links", [0, errno.EXDEV])
def test_move_beside_sink(files: World, how: str, no_links: int) -> None:
    """Whenever a sink writes the source again while it is moved, up to the last look, its new content survives."""
    for when in itertools.count(1):
        source, target = files.put("in/x", b"old"), files.path("out", "x")
        system = Sink(when, source.path, how, no_links)
        with system.in_use():
            moved = files.storage.move(source, target)
        if not system.wrote:
            break
        expected = [{"in/x": b"newer", "out/x": b"old"}] if moved else [{"in/x": b"newer"}]
        if how == "in place" and not no_links and not moved:
            # One file under two names by then; moving what it has become finishes that.
            expected.append({"in/x": b"newer", "out/x": b"newer"})
        assert files.content() in expected
        if target not in {info.path for info in files.storage.list(files.root)} or files.content()["out/x"] == b"newer":
            assert files.storage.move(files.info("in/x"), target)
            assert files.content() == {"out/x": b"newer"}
        shutil.rmtree(files.root)
    assert when > 5


class Sink(BrokenOs):
    """A system where somebody else writes `source` just before call `when`, unless the source is just about to be unlinked."""

    def __init__(self, when: int, source: str, how: str, no_links: int) -> None:
        super().__init__(0, code=errno.EIO, no_links=no_links)
        self.when, self.source, self.how, self.wrote, self.seen = when, source, how, False, 0

    def _wrapped(self, name: str, real: Any) -> Any:
        inner = super()._wrapped(name, real)

        def call(*args: Any, **options: Any) -> Any:
            self.seen += 1
            if self.seen == self.when:
                if (name == "unlink" and args[0] == self.source) or not os.path.exists(self.source):
                    self.when += 1
                else:
                    self.wrote = True
                    if self.how == "replaced":
                        os.unlink(self.source)
                    Path(self.source).write_bytes(b"newer")
            return inner(*args, **options)

        return call


@pytest.mark.skipif(not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat("/tmp").st_dev, reason="one device only")
def test_move_between_devices(files: World) -> None:
    """A move to another device copies, and is recognised when the source is gone."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        source, target = files.put("x", b"1" * 3_000_000), f"{other}/a/x"
        assert files.storage.move(source, target)
        assert files.storage.move(source, target)
        assert files.content() == {}
        assert files.storage.read(target) == b"1" * 3_000_000
        files.put("x", b"2" * 3_000_000)
        with pytest.raises(FileExistsError):
            files.storage.move(files.info("x"), target)
