"""Spark applications on an S3 server and a Hive metastore, both behind networks that fail, killed at random instants. Nobody repairs anything."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compactor.core.settings.s3 import S3Settings
from compactor.storage.s3.storage import S3Storage
from tests.faults_real import feed
from tests.oracle.sizes import FULL
from tests.parts.metastore import metastore
from tests.parts.proxy import ALWAYS, Fault, Proxy
from tests.parts.s3 import CREDENTIALS, s3_server
from tests.parts.tcp_proxy import TcpFault, TcpProxy

pytestmark = [pytest.mark.engines, pytest.mark.spark]

REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 300.0
WAREHOUSE = "s3://lake/w"

ON_S3 = ("500", "503", "reset_before", "reset_after", "cut", "cut_head", "cut_length", "twice", "again", "skew", "skew_back")
"""What S3A and boto3 meet; not what takes longer than S3A's time-outs of minutes, nor listings of the past, which S3 has not had since 2020."""
ON_THRIFT = ("reset_before", "reset_after", "cut", "away")


def config(uri: str) -> str:
    """The table of test_kill.py, in S3 and a shared metastore."""
    text = feed.CONFIG.replace("warehouse: .", f"warehouse: {WAREHOUSE}").replace("catalog: {", f"catalog: {{uri: {uri}, ")
    return text + "s3: {path_style: true}\n"


@dataclass(frozen=True)
class Place:
    """The servers, the proxies before them, and the table."""

    folder: Path
    s3: Proxy
    thrift: TcpProxy
    store: S3Storage

    @property
    def config(self) -> Path:
        """What a process is told."""
        return self.folder / "compactor.yaml"

    def land(self, hour: int) -> None:
        """The sink's next file."""
        lines = "".join(json.dumps(event) + "\n" for event in feed.events(hour))
        self.store.write(f"{WAREHOUSE}/t/incremental/{feed.folder(hour)}/{feed.FILE}", lines.encode())

    def disturb(self, draw: random.Random) -> None:
        """One request of some thirty fails from now on, each time in another way."""
        self.s3.plan(*[Fault(draw.choice(ON_S3), at) for at in range(1, 3000) if draw.random() < 0.03])
        self.thrift.plan(*[TcpFault(draw.choice(ON_THRIFT), at) for at in range(1, 1000) if draw.random() < 0.01])

    def calm(self) -> None:
        """Nothing fails any more."""
        self.s3.plan()
        self.thrift.plan()

    def compactor(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, as anyone would use it."""
        command = [sys.executable, "-m", "compactor", *words, "--config", str(self.config)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=PATIENCE_SECONDS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """All of it, with nothing landed."""
    for name, value in {**CREDENTIALS, "COMPACTOR_DRIVER_MEMORY": "1g"}.items():
        monkeypatch.setenv(name, value)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(s3_server(tmp_path / "s3.log"))
        server.bucket("lake")
        uri = stack.enter_context(metastore(tmp_path, "postgres", s3=server.url))
        s3, thrift = stack.enter_context(Proxy(server)), stack.enter_context(TcpProxy(int(uri.rpartition(":")[2])))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        store = S3Storage(WAREHOUSE, S3Settings(path_style=True, endpoint=server.url, region="us-east-1"))
        made = Place(tmp_path, s3, thrift, store)
        made.config.write_text(config(f"thrift://127.0.0.1:{thrift.port}"), encoding="utf-8")
        yield made


class Application:
    """A Spark application that runs the table again and again; a process group of its own."""

    def __init__(self, place: Place, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            command = [sys.executable, "-m", "tests.faults_real.spark_runner", str(place.config)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=REPOSITORY, start_new_session=True
            )

    def told(self) -> list[str]:
        """What each run so far came to."""
        outcomes = ("committed", "resumed", "idle", "later", "ready")
        return [line for line in self._log.read_text(errors="replace").splitlines() if line.startswith(outcomes)]

    def until(self, outcomes: tuple[str, ...], times: int) -> None:
        """Wait for so many runs that ended so. It must not have ended by itself."""
        end = time.monotonic() + PATIENCE_SECONDS
        while sum(line.startswith(outcomes) for line in self.told()) < times:
            assert self._process.poll() is None, f"ended by itself with {self._process.returncode}: {self._log.read_text()[-5000:]}"
            assert time.monotonic() < end, f"no {outcomes}: {self._log.read_text()[-5000:]}"
            time.sleep(0.02)

    def kill(self) -> None:
        """kill -9 of all of it, its JVM too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.mark.parametrize("count", [1, 2] if FULL else [1])
def test_spark_on_s3_killed_and_disturbed_loses_and_doubles_nothing(place: Place, count: int) -> None:
    """However many applications work on the table, die at any instant, and whatever the network does: the next undisturbed run ends right, the views
    show the rows of all events, every check holds, and every file that landed is in the archive once."""
    draw, hours, outcomes = random.Random(count), 0, Counter[str]()
    kills = (50 if count == 1 else 25) if FULL else 2
    logs = iter(range(10_000))
    running: list[Application] = []
    try:
        for _ in range(kills):
            while len(running) < count:
                running.append(Application(place, place.folder / f"{next(logs):04}.log"))
            place.land(hours)
            hours += 1
            place.disturb(draw)
            victim = running.pop(draw.randrange(count))
            victim.until(("ready",), 1)
            if draw.random() < 0.5:
                # beyond the first run of a cold JVM
                place.land(hours)
                hours += 1
                victim.until(("committed", "resumed", "idle", "later"), 1)
            time.sleep(draw.uniform(0.0, 6.0))
            assert victim._process.poll() is None, f"ended by itself: {victim._log.read_text()[-5000:]}"
            victim.kill()
            outcomes.update(line.split()[0] for line in victim.told())
    finally:
        for application in running:
            application.kill()
    place.calm()
    finished = place.compactor("run")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    shown = place.compactor("sql", "select seq, id, name, amount from t order by id", "--engine", "spark", "--output", "json")
    assert json.loads(shown.stdout) == feed.rows(hours)
    verified = place.compactor("verify", "--deep")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert [info for info in place.store.list(f"{WAREHOUSE}/t/incremental") if "/_compactor/" not in info.path] == []
    assert len([*place.store.list(f"{WAREHOUSE}/t/archive")]) == hours
    assert len(place.s3.requests) > 0
    print(f"{kills} kills of {count} applications, {hours} hours; before they were killed their runs were {dict(outcomes)}")


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("reset_before", 75, "t (later, unavailable): the store did not answer Spark"),
        ("403 AccessDenied", 1, "t (failed, refused): Spark was not allowed to"),
    ],
)
def test_a_store_that_fails_while_spark_reads_puts_no_file_into_quarantine(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: str, code: int, said: str
) -> None:
    """Of two files one cannot be fetched: nothing is committed, the reason is told in a line, and the next run takes both."""
    settings = place.folder / "conf"
    settings.mkdir()
    # the user's own patience
    (settings / "spark-defaults.conf").write_text("spark.hadoop.fs.s3a.retry.limit 1\nspark.hadoop.fs.s3a.attempts.maximum 1\n", encoding="utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(settings))
    place.land(0)
    place.land(1)
    place.s3.plan(Fault(kind, 1, ALWAYS, method="GET", path=rf"/{feed.folder(1)}/.*json"))
    began = time.monotonic()
    run = place.compactor("run")
    assert (run.returncode, place.s3.fired) == (code, True), run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert "\tat " not in run.stderr
    assert time.monotonic() - began < PATIENCE_SECONDS
    place.calm()
    assert len([info for info in place.store.list(f"{WAREHOUSE}/t/incremental") if "/_compactor/" not in info.path]) == 2
    assert [*place.store.list(f"{WAREHOUSE}/t/quarantine")] == []
    finished = place.compactor("run", "--output", "json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (report,) = json.loads(finished.stdout)
    assert (report["version"], report["counts"]["quarantined"], report["files"]) == (1, 0, 2)
