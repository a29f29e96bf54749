"""A stand-in for EMR Serverless, asked through HTTP as the real one: jobs that run for some seconds, and leave the reports that a test tells."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS = 8.0
"""How long a job runs."""

GROUP_SECONDS = 50.0
"""How long the job of several tables runs: longer than the triggerer's interval."""

WAITING_SECONDS = 3.0
"""How long a job waits before it runs. It has no page in Spark's UI meanwhile."""


@dataclass
class Job:
    """A job that was submitted."""

    name: str
    words: list[str]
    tags: dict[str, str]
    began: float = field(default_factory=time.time)

    @property
    def active(self) -> bool:
        """Whether it still waits or runs."""
        return time.time() < self.began + (GROUP_SECONDS if "--parallel" in self.words else SECONDS)

    @property
    def state(self) -> str:
        """As EMR names it."""
        return "PENDING" if time.time() < self.began + WAITING_SECONDS else "RUNNING" if self.active else "SUCCESS"


@dataclass
class Emr:
    """What was asked of it. `report`: writes the report of a job."""

    report: Callable[[list[str]], None]
    url: str = ""
    jobs: dict[str, Job] = field(default_factory=dict)
    together: int = 0
    """Most jobs that ran at the same time."""

    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, asked: Any) -> str:
        """Take a job; the same client token is the same job."""
        with self.lock:
            if (job := asked["clientToken"][:16]) not in self.jobs:
                words = asked["jobDriver"]["sparkSubmit"]["entryPointArguments"]
                self.report(words)
                self.jobs[job] = Job(asked["name"], words, asked.get("tags", {}))
                self.together = max(self.together, sum(each.active for each in self.jobs.values()))
        return str(job)


@contextmanager
def emr_serverless(report: Callable[[list[str]], None]) -> Iterator[Emr]:
    """Start it, on loopback."""
    emr = Emr(report)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def answer(self, told: Any, status: int = 200) -> None:
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            """StartJobRun."""
            job = emr.start(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(
                {"applicationId": "00a", "jobRunId": job, "arn": f"arn:aws:emr-serverless:us-east-1:123456789012:/applications/00a/jobruns/{job}"}
            )

        def do_GET(self) -> None:
            """GetJobRun and GetDashboardForJobRun."""
            job, *page = self.path.partition("/jobruns/")[2].split("/")
            found = emr.jobs[job]
            if page:
                waits = found.state == "PENDING"
                self.answer(
                    {"__type": "ValidationException", "message": "it waits"} if waits else {"url": f"https://ui.example/{job}"}, 400 if waits else 200
                )
                return
            named = {"applicationId": "00a", "jobRunId": job, "name": found.name, "state": found.state}
            times = dict.fromkeys(("createdAt", "updatedAt", *(("startedAt",) if found.state != "PENDING" else ())), found.began)
            self.answer({"jobRun": {**named, **times, "stateDetails": "", "releaseLabel": "emr-7.13.0"}})

        def do_DELETE(self) -> None:
            """CancelJobRun."""
            self.answer({"applicationId": "00a", "jobRunId": self.path.rpartition("/")[2]})

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        emr.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield emr
        server.shutdown()
