"""What only a file system can get wrong, and a failure at every call of the operating system."""

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
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import CompactorError, Refused, Unavailable
from compactor.core.model.files import FileInfo
from compactor.storage import local, local_files
from compactor.storage.local import LocalStorage, local_path
from compactor.storage.local_files import LINK, STAGING_PREFIX
from tests.storage.worlds import BAD_NAMES, World


@pytest.fixture
def files(tmp_path: Path) -> World:
    """A world in directories."""
    return World(LocalStorage(), str(tmp_path))


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
    """Links to files are listed with a problem, and moved as their content; dangling ones and links to directories are not listed."""
    files.put("data/x", b"1")
    for name, to in {"file": "data/x", "dangling": "nowhere", "directory": "data"}.items():
        os.symlink(files.path(to), files.path(name))
    assert {"data/x": "", "file": LINK} == {info.path.removeprefix(f"{files.root}/"): info.problem for info in files.storage.list(files.root)}
    assert files.storage.move(files.info("file"), files.path("y"))
    assert not os.path.islink(files.path("y"))
    assert files.content() == {"data/x": b"1", "y": b"1"}


def test_names_that_are_not_utf_8(files: World) -> None:
    """They are listed as people can read them, with the problem, and no other call takes them for a file."""
    files.put("fine", b"1")
    for name in (b"caf\xe9", b"d\xff/x"):
        path = os.path.join(os.fsencode(files.root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb"):
            pass
    listed = {info.path.removeprefix(f"{files.root}/"): info for info in files.storage.list(files.root)}
    assert [("caf\\xe9", True), ("d\\xff/x", True), ("fine", False)] == sorted((name, bool(info.problem)) for name, info in listed.items())
    assert files.storage.stat(listed["caf\\xe9"].path) is None
    # a space that is no space in ASCII
    files.put("\u5b66\u3000\u751f/x", b"1")
    assert [*files.storage.folders(files.root)] == ["\u5b66\u3000\u751f"]


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
    """`os` and `open` for `local.py` and its helpers, failing at call `fail_at`: by death, or once with an error number."""

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
            for module in (local, local_files):
                patch.setattr(module, "os", self)
                patch.setattr(module, "open", self._wrapped("open", open), raising=False)
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


def state(world: World, source: FileInfo) -> frozenset[tuple[Any, ...]]:
    """What lies on disk: of each name its content, which names are one file, and whether it has the time of `source`."""
    inodes: dict[int, int] = {}
    found = []
    for path in sorted(Path(world.root).rglob("*")):
        about = path.stat()
        name = str(path.relative_to(world.root)).partition(STAGING_PREFIX)
        content = (path.read_bytes(), about.st_mtime == source.modified) if path.is_file() else ()
        found.append((*name[:2], content, path.is_file() and inodes.setdefault(about.st_ino, len(inodes))))
    return frozenset(found)


@pytest.mark.parametrize("no_links", [0, errno.EXDEV, errno.EPERM, errno.EMLINK])
@pytest.mark.parametrize("after", [False, True])
def test_move_dies_anywhere(files: World, after: bool, no_links: int) -> None:
    """A move that dies at any call, and its repetition that dies at any call, lose nothing; the next one ends with one copy."""
    data, seen = b"content" * 1000, set()
    for first in broken(after=after, no_links=no_links):
        source, target = files.put("in/x", data), files.path("out", "x")
        with first.in_use(), suppress(Death):
            files.storage.move(source, target)
        left = state(files, source)
        shutil.rmtree(files.root)
        if left in seen:
            # what a repetition does was tried from this state
            continue
        seen.add(left)
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
            # an erase of the file would leave what has a private name
            assert os.stat(target).st_nlink == 1
            shutil.rmtree(files.root)


@pytest.mark.parametrize("after", [False, True])
def test_a_copy_that_dies_anywhere_keeps_no_second_name(files: World, after: bool) -> None:
    """Once the copy has its name, the next call removes the private one."""
    for system in broken(after=after):
        source, target = files.put("in/x", b"content"), files.path("out", "x")
        with system.in_use(), suppress(Death):
            files.storage.move(source, target, keep=True)
        assert files.storage.move(source, target, keep=True)
        assert files.content() == {"in/x": b"content", "out/x": b"content"}
        assert os.stat(target).st_nlink == 1
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
