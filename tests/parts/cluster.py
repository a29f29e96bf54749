"""A Spark standalone cluster on loopback, made of PySpark's jars: a master, and workers of one core, each with an executor of its own for a session.

    with cluster(tmp) as running:
        subprocess.run(command, env={**os.environ, **running.environment})

A command line then computes on it instead of `local[*]`: what Spark keeps is kept in executors, which have memory and disks of their own, and die
without the driver. All of it ends with the block, and with the process that started it, however that dies.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compactor.spark.java import find_java
from tests.parts.metastore import SPARK_HOME, PartsMissing, _connects, _server, _until, free_port

_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    url: str
    """The master, for `SPARK_MASTER` and `spark-submit --master`."""

    conf: Path
    """The folder with the spark-defaults.conf of everyone who uses it."""

    workers: tuple[int, ...]
    """The process group of each worker; its executors are in it."""

    @property
    def environment(self) -> dict[str, str]:
        """What lets a command line use it."""
        return {"SPARK_MASTER": self.url, "SPARK_CONF_DIR": str(self.conf)}

    def executors(self) -> list[int]:
        """The executors that run now, of all applications."""
        found = []
        for entry in Path("/proc").iterdir():
            # a process may end while it is looked at
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.getpgid(int(entry.name)) in self.workers and _EXECUTOR in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
        return sorted(found)

    def kill(self, executor: int) -> None:
        """kill -9 of an executor, which may have ended. Its worker starts another one."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(executor, signal.SIGKILL)


@contextmanager
def cluster(tmp: Path, workers: int = 2, conf: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Start it. `conf`: more of its spark-defaults.conf."""
    if not shutil.which("setpriv"):
        raise PartsMissing("setpriv is needed for the test cluster: apt-get install util-linux")
    home = tmp / "cluster"
    home.mkdir(parents=True)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.pyspark.python": sys.executable,
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:-UsePerfData",
        "spark.sql.shuffle.partitions": str(2 * workers),
        **(conf or {}),
    }
    (home / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()), encoding="utf-8")
    with contextlib.ExitStack() as stack:
        port, pages = free_port(), free_port()
        daemon = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
        environment = {"JAVA_HOME": find_java(), "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(home), **daemon}
        master = _daemon("master.Master", "--port", port, "--webui-port", pages)
        stack.enter_context(_server("Spark's master", master, home / "master.log", lambda: _connects(port) and _connects(pages), environment))
        url, groups = f"spark://127.0.0.1:{port}", []
        for number in range(workers):
            folder = home / f"worker-{number}"
            worker = _daemon("worker.Worker", "--cores", 1, "--memory", "2g", "--webui-port", 0, "--work-dir", folder, url)
            groups.append(stack.enter_context(_server("a Spark worker", worker, home / f"worker-{number}.log", lambda: True, environment)))
        _until("Spark's master", lambda: _alive(pages) == workers)
        yield Cluster(url, home, tuple(groups))


def _daemon(name: str, *options: object) -> list[object]:
    """A command line. The process is killed with the one that starts it: a test may be killed, too."""
    program = SPARK_HOME / "bin" / "spark-class"
    return ["setpriv", "--pdeathsig", "KILL", program, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *options]


def _alive(pages: int) -> int:
    """How many workers the master knows of; 0 if it does not answer, which takes it long where others work too."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", pages, timeout=10)) as connection, contextlib.suppress(OSError):
        connection.request("GET", "/json/")
        answer = connection.getresponse()
        return int(json.load(answer)["aliveworkers"]) if answer.status == 200 else 0
    return 0
