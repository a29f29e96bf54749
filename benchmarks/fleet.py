"""`python -m benchmarks.fleet`: what looking at many tables costs: `status`, `plan`, `check` and a run with nothing to do, on a local disk and on S3.

One table is made by two runs and copied. On the local disk each command is a process of its own; on S3 (the tests' server, in another process) the
requests are counted. Prints the figures as JSON. `--save` also puts them into benchmarks/results/fleet.json, and writes docs/performance.md again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3

from benchmarks.many import command, configured
from benchmarks.peers import page
from benchmarks.peers.landed import land
from benchmarks.program import options, scratch, told
from benchmarks.table import hour_text
from compactor.app import App
from compactor.flows.publish import shown
from compactor.storage.s3.client import S3Client
from tests.parts.s3 import CREDENTIALS, s3_server

_MADE = "template_table"
_HOURS = 7
_COMMANDS: dict[str, tuple[str, ...]] = {"status": ("status",), "plan": ("plan",), "check": ("check", "--no-samples"), "run": ("run",)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = options(__doc__, saves=True)
    parser.add_argument("--tables", type=int, default=500)
    given = parser.parse_args(arguments)
    with scratch(given) as home:
        names = [f"table_{number:03}" for number in range(given.tables)]
        template = _template(home / "template")
        local = _copied(home / "local", template, names)
        seconds = {name: command(local, *words).cpu_seconds for name, words in _COMMANDS.items()}
        with s3_server(home / "s3.log") as server:
            os.environ.update(CREDENTIALS, AWS_ENDPOINT_URL_S3=server.url)
            server.bucket("lake")
            requests = _requests(home / "s3", template, names)
    return told(given, page.FLEET, {"tables": given.tables, "cpu_seconds": seconds, "requests_a_table": requests})


def _template(home: Path) -> Path:
    """Make a table by a run for each hour, and return its folder."""
    config = configured(home, str(home), [_MADE])
    land(home / "hours", 100, 10, _HOURS)
    with App.open(config) as app:
        for hour in range(_HOURS + 1):
            shutil.copytree(home / "hours" / str(hour), home / _MADE / "incremental" / f"increment_{hour_text(hour)}")
            (report,) = app.run()
            if report.error is not None:
                raise RuntimeError(report.error)
    return home / _MADE


def _files(template: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield (path below the table, content) of a copy. Its data files and its raw files have no content: nothing here reads them."""
    for path in sorted(path for path in template.rglob("*") if path.is_file()):
        below = path.relative_to(template).as_posix()
        yield below, path.read_bytes().replace(_MADE.encode(), name.encode()) if "_compactor/" in below else b""


def _copied(home: Path, template: Path, names: Sequence[str]) -> Path:
    """Write copies of the table to the local disk, and return their configuration."""
    config = configured(home, str(home), names)
    for name in names:
        for below, data in _files(template, name):
            path = home / name / below
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    _remember(config)
    return config


def _remember(config: Path) -> None:
    """Let each copy count as published by this configuration."""
    with App.open(config) as app:
        for spec in app.specs():
            table = app.runtime.table(spec)
            newest = table.newest()
            if newest is None:
                raise RuntimeError(f"{spec.name} has no version")
            shown.remember(table, newest, [])


def _requests(home: Path, template: Path, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return command → kind of request → number of them a table."""
    config = configured(home, "s3://lake/fleet", names)
    client = boto3.client("s3")
    for name in names:
        for below, data in _files(template, name):
            client.put_object(Bucket="lake", Key=f"fleet/{name}/{below}", Body=data)
    _remember(config)
    calls: dict[str, Callable[[App], object]] = {
        "status": lambda app: (app.status(), app.folders()),
        "plan": lambda app: (app.plan(), app.plan_of_folders()),
        "check": lambda app: (app.plan(samples=False), app.plan_of_folders(samples=False)),
        "run": lambda app: app.run(),
    }
    counts = {}
    for name, call in calls.items():
        with App.open(config) as app, counted() as requests:
            call(app)
        counts[name] = {kind: round(count / len(names), 2) for kind, count in sorted(requests.items())}
    return counts


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the requests to S3 within the block, by operation."""
    requests: Counter[str] = Counter()
    send = S3Client.request

    def counting(self: S3Client, operation: str, *words: Any, **more: Any) -> dict[str, Any]:
        requests[operation] += 1
        return send(self, operation, *words, **more)

    S3Client.request = counting  # type: ignore[method-assign]
    try:
        yield requests
    finally:
        S3Client.request = send  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
