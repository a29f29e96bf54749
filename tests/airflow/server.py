"""Airflow as it is run: API server, scheduler, DAG processor and triggerer as processes of their own on the loopback, with SQLite; asked through REST."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PARTS = (("api-server", "--host", "127.0.0.1"), ("scheduler",), ("dag-processor",), ("triggerer",))
PATIENCE = 600.0
"""Seconds for anything to come about: each part takes half a minute to start on a small machine."""


@dataclass
class Server:
    """A running Airflow. `home`: its folder, with the log of each part."""

    home: Path
    url: str
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    token: str = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A REST call's answer. Raises HTTPError."""
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.token}"} if self.token else {})}
        # a log comes as lines of JSON otherwise
        headers["Accept"] = "application/json"
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode() if body is not None else None, headers, method=method)
        for left in (4, 3, 2, 1, 0):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                # SQLite has one writer at a time: a call that cannot note itself in the audit log is not carried out
                if error.code != 500 or not left:
                    raise
                time.sleep(2.0)
        raise AssertionError("unreachable")

    def until(self, what: str, told: Callable[[], Any]) -> Any:
        """What `told` gives as soon as it gives anything; while the server does not answer, it gives nothing."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            gone = [process.args for process in self.running if process.poll() is not None]
            assert not gone, f"{gone} ended; see {self.home}"
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                found = told()
                if found:
                    return found
            time.sleep(1.0)
        raise AssertionError(f"{what}: not within {PATIENCE:.0f} s; see {self.home}")

    def trigger(self, dag: str, conf: Mapping[str, Any] | None = None, logical_date: str | None = None) -> str:
        """Start a run of a DAG; its id."""
        return str(self.ask("POST", f"/api/v2/dags/{dag}/dagRuns", {"logical_date": logical_date, "conf": dict(conf or {})})["dag_run_id"])

    def state(self, dag: str, run: str) -> str:
        """Of a run."""
        return str(self.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{run}")["state"])

    def tasks(self, dag: str, run: str) -> dict[str, str]:
        """Task (with its number, when mapped) → state."""
        found = self.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100")["task_instances"]
        return {each["task_id"] + (f"[{each['map_index']}]" if each["map_index"] >= 0 else ""): each["state"] for each in found}

    def attempt(self, dag: str, run: str, task: str) -> int:
        """The number of a task's attempt."""
        return int(self.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}")["try_number"])

    def log(self, dag: str, run: str, task: str, attempt: int = 1) -> str:
        """What a task has logged so far."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}?full_content=true"
        content = self.ask("GET", path)["content"]
        errors = lambda line: [str(error["exc_value"]) for error in line.get("error_detail") or ()]  # noqa: E731
        return "\n".join(text for line in content for text in ([line] if isinstance(line, str) else [str(line.get("event", "")), *errors(line)]))

    def links(self, dag: str, run: str, task: str) -> dict[str, str]:
        """The buttons of a task in the UI: name → address."""
        return dict(self.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/links")["extra_links"])

    def clear(self, dag: str, run: str, tasks: Sequence[str] | None = None) -> None:
        """Clear some tasks of a run, or all, as in the UI."""
        chosen = {"task_ids": list(tasks)} if tasks is not None else {}
        body = {"dry_run": False, "dag_run_id": run, "only_failed": False, "reset_dag_runs": True, **chosen}
        self.ask("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body)

    def ended(self, dag: str, run: str) -> dict[str, str]:
        """The states of a run's tasks, when it has ended."""
        self.until(f"{dag} {run}", lambda: self.state(dag, run) in ("success", "failed"))
        return self.tasks(dag, run)

    def returned(self, dag: str, run: str, task: str, map_index: int = -1) -> Any:
        """What a task returned."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value?map_index={map_index}&deserialize=true"
        return self.ask("GET", path)["value"]


@contextmanager
def serving(home: Path, dags: Path, config: Path, more: Mapping[str, str] | None = None) -> Iterator[Server]:
    """An Airflow with the DAG files in `dags`, ready to be asked; all its processes have gone in the end. `more`: variables of its environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(home, f"http://127.0.0.1:{port}")
    environment = {**os.environ, **settings(home, dags, config, port), **(more or {})}
    program = [sys.executable, "-m", "airflow"]
    with (home / "migrate.log").open("wb") as log:
        subprocess.run([*program, "db", "migrate"], env=environment, stdout=log, stderr=log, check=True, timeout=300)
    try:
        for part in PARTS:
            words = [*part, *(["--port", str(port), "--workers", "1"] if part[0] == "api-server" else [])]
            with (home / f"{part[0]}.log").open("wb") as log:
                # a session of its own: what it starts ends with it
                server.running.append(subprocess.Popen([*program, *words], env=environment, stdout=log, stderr=log, start_new_session=True))
        server.token = server.until("a token", lambda: server.ask("GET", "/auth/token")["access_token"])
        healthy = lambda: all(part["status"] == "healthy" for part in server.ask("GET", "/api/v2/monitor/health").values())  # noqa: E731
        server.until("every part is healthy", healthy)
        yield server
    finally:
        for sign, patience in ((signal.SIGTERM, 30.0), (signal.SIGKILL, 5.0)):
            end(server.running, sign, patience)


def end(running: Sequence[subprocess.Popen[bytes]], sign: signal.Signals, patience: float) -> None:
    """Send a signal to processes and all that they have started, and wait for them to end."""
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)


def settings(home: Path, dags: Path, config: Path, port: int) -> dict[str, str]:
    """Airflow's settings, as environment."""
    said = {
        "CORE__DAGS_FOLDER": dags,
        "CORE__LOAD_EXAMPLES": False,
        "CORE__PARALLELISM": 4,
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        # without one each part makes up its own, and none believes another
        "API_AUTH__JWT_SECRET": "only for tests, and long enough for HS512, which takes 64 bytes of it",
        "API__SECRET_KEY": "only for tests",
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "SCHEDULER__ENABLE_HEALTH_CHECK": False,
    }
    found = {f"AIRFLOW__{name}": str(value) for name, value in said.items()}
    return {**found, "AIRFLOW_HOME": str(home), "COMPACTOR_CONFIG": str(config)}
