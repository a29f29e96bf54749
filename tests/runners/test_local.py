"""The local runner: a process of its own, whose log comes as it is written, and of which nothing is left when it is ended."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.core.model.errors import Refused
from compactor.runners.local import LocalRunner


def runner(program: str, grace: float = 5.0) -> LocalRunner:
    """A runner of a Python program given as text; the command line's arguments come after it."""
    return LocalRunner((sys.executable, "-c", program), grace=grace)


def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait; fail after so many seconds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("code", [0, 1, 2, 75])
def test_output_errors_and_exit_code_arrive(code: int) -> None:
    """Whole and apart; arguments as they were given, also with blanks and quotes in them."""
    text = f"import sys; print(sys.argv[1:]); print('late words', file=sys.stderr); sys.exit({code})"
    ended = runner(text).run(["run", "a b", "it's"], lambda line: None)
    assert (ended.code, ended.output, ended.errors) == (code, "['run', 'a b', \"it's\"]\n", "late words\n")


def test_lines_are_told_while_it_runs(tmp_path: Path) -> None:
    """Not when it ends: the program waits until its first line was told."""
    release = tmp_path / "release"
    text = (
        "import pathlib, sys, time\n"
        "print('first', file=sys.stderr, flush=True)\n"
        f"while not pathlib.Path({str(release)!r}).exists(): time.sleep(0.02)\n"
        "print('second', file=sys.stderr)"
    )
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        release.touch()

    assert runner(text).run([], tell).code == 0
    assert told == ["first", "second"]


def test_much_output_does_not_stop_it() -> None:
    """Megabytes on both pipes; of the log only the end is kept."""
    text = "import sys\nfor n in range(40000): print('o' * 50); print(n, 'e' * 50, file=sys.stderr)"
    ended = runner(text).run([], lambda line: None)
    assert len(ended.output) == 40_000 * 51
    assert ended.errors.splitlines()[-1].startswith("39999 ")
    assert len(ended.errors) < 100_000


def test_a_listener_that_fails_does_not_stop_it() -> None:
    """A log that cannot be written is no reason to leave a run standing with a full pipe."""

    def tell(line: str) -> None:
        raise OSError("no space left")

    ended = runner("import sys\nfor n in range(5000): print('e' * 50, file=sys.stderr)\nprint('done')").run([], tell)
    assert (ended.code, ended.output) == (0, "done\n")
    assert ended.errors.startswith("eee")


def test_a_signal_is_a_negative_code() -> None:
    """As when the kernel ends it for want of memory."""
    assert runner("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").run([], lambda line: None).code == -signal.SIGKILL


# The program starts another one, as Spark's Python starts a JVM; both tell their numbers.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, time\\n{child}\\ntime.sleep(60)"])
time.sleep(0.3)
print(os.getpid(), child.pid, file=sys.stderr, flush=True)
{parent}
"""


@pytest.mark.parametrize(
    ("child", "stubborn"),
    [("pass", False), ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", True)],
    ids=["a child that obeys", "a child that ignores SIGTERM"],
)
def test_cancel_ends_the_whole_family(child: str, stubborn: bool) -> None:
    """From another thread or a signal's handler; the child too, and a stubborn one by SIGKILL."""
    family: list[int] = []
    running = runner(FAMILY.format(child=child, parent="time.sleep(60)"), grace=3.0)
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(running.run([], lambda line: family.extend(map(int, line.split()))).code))
    thread.start()
    until(lambda: len(family) == 2)
    began = time.monotonic()
    running.cancel()
    thread.join(20)
    assert ended == [-signal.SIGTERM]
    until(lambda: all(gone(pid) for pid in family))
    assert (time.monotonic() - began >= 3.0) is stubborn


def test_what_a_process_leaves_behind_is_ended_too() -> None:
    """The process ends in peace, its child would go on."""
    family: list[int] = []
    ended = runner(FAMILY.format(child="pass", parent=""), grace=0.5).run([], lambda line: family.extend(map(int, line.split())))
    assert ended.code == 0
    until(lambda: all(gone(pid) for pid in family))


def test_an_exception_while_waiting_ends_it() -> None:
    """As Airflow raises its time-out, out of a signal's handler."""

    class TimedOut(Exception):
        pass

    def ring(number: int, frame: object) -> None:
        raise TimedOut

    family: list[int] = []
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        with pytest.raises(TimedOut):
            runner(FAMILY.format(child="pass", parent="time.sleep(60)")).run([], lambda line: family.extend(map(int, line.split())))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(family) == 2
    until(lambda: all(gone(pid) for pid in family))


def test_it_runs_in_a_directory_of_its_own(tmp_path: Path) -> None:
    """Spark leaves files where it is started; that directory goes."""
    ended = runner("import os; print(os.getcwd(), os.listdir())").run([], lambda line: None)
    directory, left = ended.output.split(" ", 1)
    assert left == "[]\n"
    assert not Path(directory).exists()


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """With the key to correct."""
    with pytest.raises(Refused, match=r"nowhere/python: cannot be started: No such file or directory. Correct `airflow: \{command"):
        LocalRunner((str(tmp_path / "nowhere/python"),)).run(["run"], lambda line: None)


def test_cancel_before_and_after_is_harmless() -> None:
    """Airflow may kill a task that has not begun, or is done."""
    idle = runner("pass")
    idle.cancel()
    assert idle.run([], lambda line: None).code == 0
    idle.cancel()
