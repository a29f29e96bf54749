"""py4j's own thread and Spark's own handler of Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections import deque
from types import SimpleNamespace

import pytest
from py4j.clientserver import FinalizerWorker
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from compactor.core.model.errors import Stopped
from compactor.spark import gateway
from compactor.spark.failures import environment_error
from compactor.spark.gateway import end_finalizer, interrupted_after, keeping_interrupts
from compactor.spark.progress import join_group, tasks
from tests.spark.lake import Lake


def test_no_java_object_is_released_once_the_jvm_is_about_to_end() -> None:
    """Ten thousand wait. The thread that releases them would call a JVM that has ended, and log a traceback for the call that failed."""
    calls: list[str] = []
    client = SimpleNamespace(garbage_collect_object=lambda target, _: calls.append(target) or time.sleep(0.001))  # type: ignore[func-returns-value]
    queue: deque[object] = deque((client, str(number)) for number in range(10_000))
    worker = FinalizerWorker(queue)
    worker.daemon = True
    worker.start()
    end_finalizer(SimpleNamespace(_gateway_client=SimpleNamespace(finalizer_deque=queue)))
    after = len(calls)
    assert not worker.is_alive()
    queue.appendleft((client, "later"))
    assert after == len(calls) < 10_000


def test_a_gateway_without_such_a_thread_is_left_alone() -> None:
    """spark-submit's, where threads are not pinned."""
    end_finalizer(SimpleNamespace(_gateway_client=SimpleNamespace()))


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -6 $$", "killed by SIGABRT"),
        ("exit 3", "exit code 3"),
        ("exit 52", "out of memory, exit code 52"),
        ("sleep 9", ""),
    ],
)
def test_an_error_says_how_the_jvm_ended(command: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel kills the larger process: the JVM, not Python. One that goes on has not ended."""
    monkeypatch.setattr(gateway, "_NOTICED_SECONDS", 1.0 if end else 0.05)
    with subprocess.Popen(["sh", "-c", command]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        assert gateway.jvm_end() == end
        process.kill()
    text = str(environment_error(Py4JNetworkError("Answer from Java side is empty")))
    assert text.startswith(f"Spark's JVM has ended ({end or 'killed by SIGKILL'}). Run again; if it happens again, ")
    assert ("raise COMPACTOR_DRIVER_MEMORY." if "52" in end else "lower --parallel or COMPACTOR_DRIVER_MEMORY") in text


def test_ctrl_c_does_what_it_did_before_spark_started() -> None:
    """A SparkContext sets a handler of its own."""
    before = signal.getsignal(signal.SIGINT)
    with keeping_interrupts():
        signal.signal(signal.SIGINT, lambda *_: None)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_waits_until_the_jvm_has_started() -> None:
    """Interrupted before, PySpark would leave it behind, with the metastore's lock. Who presses again need not wait."""
    reached: list[int] = []

    def start(presses: int) -> None:
        with interrupted_after():
            for _ in range(presses):
                os.kill(os.getpid(), signal.SIGINT)
            reached.append(presses)

    # a process that was started in the background has none
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for presses in (1, 2):
            with pytest.raises(KeyboardInterrupt):
                start(presses)
        assert (reached, signal.getsignal(signal.SIGINT)) == ([1], signal.default_int_handler)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.spark
def test_the_tasks_of_a_table_are_counted_while_its_jobs_run(spark: SparkSession) -> None:
    """Those of another phase are not."""

    def compute() -> None:
        join_group(spark, "t-1", "t: resolving")
        spark.range(0, 6, 1, 6).selectExpr("reflect('java.lang.Thread', 'sleep', 300L) AS slept").collect()

    thread = threading.Thread(target=compute)
    thread.start()
    counts = []
    while thread.is_alive():
        counts.append(tasks(spark, "t-1"))
        assert tasks(spark, "t-2") is None
        thread.join(0.1)
    running = [each for each in counts if each is not None]
    assert {each.all for each in running} == {6}
    assert max(each.running for each in running) > 0
    assert max(each.done for each in running) > 0
    ended = tasks(spark, "t-1")
    assert ended is not None
    assert (ended.done, ended.all) == (6, 6)


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_whose_jobs_are_cancelled_puts_no_file_into_quarantine(lake: Lake, spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """A file is unreadable if a job over it fails. A cancelled job says nothing about the file: it stays in landing, and the next run takes it."""
    caplog.set_level(logging.CRITICAL)
    spec = lake.spec()
    for hour in range(3):
        lake.land(spec, hour, [{"id": number, "seq": 100 * hour + number, "op": "u"} for number in range(20)])
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(0.02):
            spark.sparkContext.cancelAllJobs()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(Stopped, match="somebody cancelled a job of Spark"):
            lake.run(spec)
    finally:
        ended.set()
        thread.join()
    assert len(lake.landed(spec)) == 3
    report = lake.run(spec)
    assert (report.files, lake.landed(spec), lake.unusable(spec), lake.problems(spec)) == (3, [], [], [])
    assert len(lake.rows(spec)) == 20
