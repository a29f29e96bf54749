"""kill -9 of real processes at every step of the protocol; afterwards nobody repairs anything, the job is just run again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compactor.storage.local import LocalStorage
from tests.faults_real import feed

pytestmark = [pytest.mark.slow, pytest.mark.spark]

FULL = os.environ.get("COMPACTOR_TESTS") == "full"
REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 400
_INSIDE = Path(feed.TABLE)

STEPS: dict[str, tuple[Path, float]] = {
    "delta": (_INSIDE / "delta", 0.4),
    "delta file": (_INSIDE / "delta", 0.0),
    "snapshot": (_INSIDE / "_compactor" / "snapshots", 0.01),
    "publish": (_INSIDE / "_compactor" / "snapshots", 0.6),
    "archive": (_INSIDE / "archive", 0.05),
    "base": (_INSIDE / "base", 0.4),
    "any": (_INSIDE / "_compactor" / "snapshots", 3.0),
}
"""What has to appear first, and the longest wait after that: a kill comes at a random instant of it."""

SAMPLE = ["cold", "delta", "snapshot", "archive"]
EVERY = ["cold", *STEPS, "python only"]
KILLS = EVERY * 4 if FULL else SAMPLE


def test_a_killed_run_is_just_run_again(tmp_path: Path) -> None:
    """However often it is killed, the next run finishes the work: same rows, nothing twice, nothing left, nothing repaired."""
    (tmp_path / "compactor.yaml").write_text(feed.CONFIG, encoding="utf-8")
    draw = random.Random(20240305)
    for number, kind in enumerate(KILLS):
        killed_at(tmp_path, kind, draw, tmp_path / f"{number:02}-{kind.replace(' ', '-')}.log")
    hours = feed.delivered(tmp_path)
    assert hours > 0
    assert finished(tmp_path) == 0
    shown = compactor(tmp_path, "sql", "select seq, id, name, amount from t order by id", "--engine", "spark", "--output", "json")
    assert json.loads(shown.stdout) == feed.rows(hours)
    verified = compactor(tmp_path, "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    # but for the mark of the folder's owner
    assert [name for name in _visible(tmp_path / feed.TABLE / "incremental") if name != "owner.json"] == []
    assert _visible(tmp_path / feed.TABLE / "archive") == [feed.FILE] * hours
    print(f"{len(KILLS)} kills, {hours} hours, {len(feed.rows(hours))} rows")


def _visible(directory: Path) -> list[str]:
    """Return the files that a listing shows. What a kill leaves under a staged name goes a day later."""
    return [info.path.rpartition("/")[2] for info in LocalStorage().list(str(directory))]


def killed_at(root: Path, kind: str, draw: random.Random, log: Path) -> None:
    """Start a process, kill it at such an instant; it must not have ended by itself before."""
    if kind == "cold":
        feed.deliver(root, feed.delivered(root))
        with started(log, "compactor", "run", "--config", str(root / "compactor.yaml"), "--wait", "60") as process:
            # a run that is over sooner is fine too
            with contextlib.suppress(subprocess.TimeoutExpired):
                assert process.wait(draw.uniform(0.5, 12.0)) == 0, log.read_text()
        return
    watched, longest = STEPS.get(kind, STEPS["any"])
    with started(log, "tests.faults_real.driver", str(root)) as process:
        for _ in range(draw.randint(1, 3)):
            until_new(root / watched, process, log, files=kind != "delta" and kind != "base")
        time.sleep(draw.uniform(0.0, longest))
        assert process.poll() is None, f"{kind}: ended by itself with {process.returncode}: {log.read_text()}"
        if kind == "python only":
            # its JVM lives on for a moment; the next run must get along with that
            process.kill()
            process.wait()
            finished(root)


@contextlib.contextmanager
def started(log: Path, module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process group of its own, killed as a whole at the end of the block."""
    with log.open("wb") as output:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=REPOSITORY, env=environment(), start_new_session=True
        )
    try:
        yield process
    finally:
        # the group outlives its leader: a JVM whose Python is gone is in it still
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until_new(directory: Path, process: subprocess.Popen[bytes], log: Path, files: bool) -> None:
    """Wait until there is something in the directory that was not; looked at every few milliseconds."""
    look: Callable[[], set[str]] = (lambda: _files(directory)) if files else (lambda: set(_names(directory)))
    before, end = look(), time.monotonic() + PATIENCE_SECONDS
    while not look() - before:
        assert process.poll() is None, f"ended by itself with {process.returncode}: {log.read_text()}"
        assert time.monotonic() < end, f"nothing new in {directory}: {log.read_text()}"
        time.sleep(0.003)


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _files(directory: Path) -> set[str]:
    return {os.path.join(place, name) for place, _, names in os.walk(directory) for name in names}


def finished(root: Path) -> int:
    """Run until a run succeeds; three times at most, and only `try later` may come before."""
    for _ in range(3):
        run = compactor(root, "run")
        if run.returncode != 75:
            break
    assert run.returncode == 0, run.stdout + run.stderr
    return run.returncode


def compactor(root: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, as anyone would use it."""
    called = [sys.executable, "-m", "compactor", command, *arguments, "--config", str(root / "compactor.yaml")]
    return subprocess.run(called, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment(), timeout=PATIENCE_SECONDS)


def environment() -> dict[str, str]:
    """Ours, with little memory for the JVM."""
    return {**os.environ, "COMPACTOR_DRIVER_MEMORY": "1g"}
