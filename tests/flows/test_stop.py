"""Ctrl-C and SIGTERM: the run ends soon, every table is reported, and the next run does what is left."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.spec import TableSpec
from compactor.flows import stop
from compactor.flows.environment import Environment
from compactor.flows.run import run_table
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

WAIT_SECONDS = 60.0
"""Machines of CI pause."""


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Cancelled(Exception):
    """What a computation raises when it is cancelled."""


class BlockingEngine:
    """An engine that computes until it is cancelled, and sends a signal, that of Ctrl-C, as soon as it computes for `together` tables."""

    def __init__(self, together: int, sign: signal.Signals = signal.SIGINT, to_main: bool = True) -> None:
        self._sign, self._to_main = sign, to_main
        self._barrier = threading.Barrier(together)
        self._cancelled = threading.Event()
        self.read_for: list[str] = []

    def read(self, spec: TableSpec, *_: Any) -> Any:
        self.read_for.append(spec.name)
        if self._barrier.wait(WAIT_SECONDS) == 0:
            if self._to_main:
                os.kill(os.getpid(), self._sign)
            else:
                # the main thread is asleep by then
                time.sleep(0.2)
                signal.pthread_kill(threading.get_ident(), self._sign)
        assert self._cancelled.wait(WAIT_SECONDS)
        raise Cancelled

    def cancel(self) -> None:
        """Cancel all computations."""
        self._cancelled.set()


@pytest.fixture(autouse=True)
def handler_is_put_back() -> Iterator[None]:
    """Whatever a run does, Ctrl-C and SIGTERM do afterwards what they did before."""
    before = [signal.getsignal(each) for each in SIGNALS]
    yield
    assert [signal.getsignal(each) for each in SIGNALS] == before


def lake_with_three_tables() -> tuple[Lake, list[TableSpec]]:
    lake = Lake(table())
    specs = [dataclasses.replace(lake.spec, name=name, root=f"/lake/{name}", landing=f"/lake/{name}/incremental", view=name) for name in "abc"]
    for spec in specs:
        lake.storage.write(f"{spec.landing}/increment_2026010100/a.json", line("c", [1], [1], {"a": 1}).encode())
    return lake, specs


def with_engine(lake: Lake, engine: BlockingEngine) -> Environment:
    return dataclasses.replace(lake.env(), engine=lambda: engine, stop=stop.Stop(engine.cancel))  # type: ignore[arg-type, return-value]


def committed_files(lake: Lake) -> dict[str, object]:
    """All files but the records of runs and the marks of owners."""
    other = ("/_compactor/runs/", "/_runs/", "/_compactor/owner.json")
    return {path: stored for path, stored in lake.storage._objects.items() if not any(part in path for part in other)}


@pytest.mark.parametrize("sign", SIGNALS)
def test_a_signal_cancels_what_is_computed_and_reports_every_table(sign: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    """Two of three tables have begun. The next run ingests all three."""
    lake, specs = lake_with_three_tables()
    engine, done = BlockingEngine(together=2, sign=sign), []
    env = with_engine(lake, engine)
    before = committed_files(lake)
    reports = run_tables(env, specs, parallel=2, progress=lambda name, step, _: done.append(name) if step == "done" else None)
    assert [(report.table, report.outcome, report.exit_code, report.error_class) for report in reports] == [
        (x, "stopped", 130, "Stopped") for x in "abc"
    ]
    assert sorted(engine.read_for) == ["a", "b"]
    assert sorted(done) == ["a", "b", "c"]
    assert committed_files(lake) == before
    warning = next(record.getMessage() for record in caplog.records if record.name == "compactor.flows.stop")
    assert warning.startswith("stopping, which interrupts a (read), b (read).")
    healthy = dataclasses.replace(lake.env(), stop=env.stop)
    assert [report.outcome for report in run_tables(healthy, specs, parallel=2)] == ["committed"] * 3


def test_a_signal_that_does_not_wake_the_main_thread_is_handled_at_once() -> None:
    """It comes to another thread while the main thread sleeps. Python handles signals in the main thread only."""
    lake, specs = lake_with_three_tables()
    began = time.monotonic()
    reports = run_tables(with_engine(lake, BlockingEngine(together=2, to_main=False)), specs, parallel=2)
    assert {report.outcome for report in reports} == {"stopped"}
    assert time.monotonic() - began < WAIT_SECONDS / 2


def test_a_second_ctrl_c_ends_the_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a computation cannot be cancelled, or takes long to notice."""
    lake, specs = lake_with_three_tables()
    engine = BlockingEngine(together=2)
    ended: list[bool] = []
    monkeypatch.setattr(stop, "end_process", lambda: ended.append(True) or engine.cancel())
    env = dataclasses.replace(with_engine(lake, engine), stop=stop.Stop(lambda: None))

    def press_again() -> None:
        # a signal that comes before the first was handled would be one with it
        while not env.stop.requested:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    second = threading.Thread(target=press_again)
    second.start()
    reports = run_tables(env, specs, parallel=2)
    second.join()
    assert ended == [True]
    assert {report.outcome for report in reports} == {"stopped"}


def test_what_is_committed_is_shown_and_the_compaction_is_left_to_the_next_run() -> None:
    """Ctrl-C while the first of two steps is published."""
    lake = Lake(table(compact_every=1e9))
    for hour, keys in enumerate((range(60), range(0, 60, 2))):
        lake.deliver(f"increment_202601010{hour}/a.json", [line("u", [key], [hour * 100 + key], {"a": key}) for key in keys])
        if hour == 0:
            lake.run()
    lake.spec = dataclasses.replace(lake.spec, compact_every=0.0)
    env = lake.env()
    press = env.stop.checking(lambda _, step, __: env.stop.request() if step == "publish" else None)
    report = run_table(Table(env, lake.spec, progress=press))
    assert (report.outcome, report.operations, report.archived) == ("committed", ("commit 2",), 1)
    assert lake.look().version == 2
    env.stop._ended.set()
    assert lake.run().outcome in ("committed", "idle")
    assert lake.look().rows == lake.expected()


def test_a_thread_that_is_not_the_main_one_runs_tables_as_ever() -> None:
    """Only the main thread gets signals: Airflow and notebooks run tables elsewhere."""
    lake, specs = lake_with_three_tables()
    reports: list[str] = []
    thread = threading.Thread(target=lambda: reports.extend(report.outcome for report in run_tables(lake.env(), specs)))
    thread.start()
    thread.join(30)
    assert reports == ["committed"] * 3


def repeated(lake: Lake, specs: list[TableSpec], engine: BlockingEngine | None = None) -> tuple[Environment, Callable[[], None], list[list[str]]]:
    """An environment, a run of all tables in it, and the outcomes of each of its runs."""
    env, outcomes = with_engine(lake, engine) if engine else lake.env(), list[list[str]]()
    return env, lambda: outcomes.append([report.outcome for report in run_tables(env, specs, parallel=2)]), outcomes


@pytest.mark.parametrize("sign", SIGNALS)
def test_a_loop_runs_until_it_is_told_to_end(sign: signal.Signals) -> None:
    """Between two runs: nothing is cut. A run that has to be tried again later does not end it."""
    lake, specs = lake_with_three_tables()
    env, run, outcomes = repeated(lake, specs)
    calls: list[float] = []

    def played() -> None:
        calls.append(time.monotonic())
        if len(calls) == 2:
            raise Unavailable("the metastore does not answer")
        run()
        if len(calls) == 4:
            threading.Timer(0.05, os.kill, (os.getpid(), sign)).start()

    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    env.stop.repeat(played, 0.3)
    assert outcomes == [["committed"] * 3, ["idle"] * 3, ["idle"] * 3]
    assert min(later - earlier for earlier, later in itertools.pairwise(calls)) >= 0.29
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("sign", SIGNALS)
def test_a_loop_ends_with_the_run_that_is_stopped(sign: signal.Signals) -> None:
    """In the middle of a run, as after Ctrl-C; the next loop ingests all."""
    lake, specs = lake_with_three_tables()
    env, run, outcomes = repeated(lake, specs, BlockingEngine(together=2, sign=sign))
    env.stop.repeat(run, 0.1)
    assert outcomes == [["stopped"] * 3]
    healthy = dataclasses.replace(lake.env(), stop=env.stop)
    assert [report.outcome for report in run_tables(healthy, specs, parallel=2)] == ["committed"] * 3


def test_a_loop_ends_with_an_error_that_needs_a_person() -> None:
    """It would come back in every run."""

    def refused() -> None:
        raise Refused("no such operation")

    with pytest.raises(Refused):
        Lake(table()).env().stop.repeat(refused, 0.1)
