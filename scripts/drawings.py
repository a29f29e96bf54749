"""Draw what lies on disk after each step of a table's life, for docs/start.md#what-lies-on-disk: docs/images/files-<step>.svg.

    python scripts/drawings.py [DIRECTORY]

The drawings are made from the files and Snapshots that the real flows write, so they cannot drift: a test makes them again and compares.
"""

from __future__ import annotations

import dataclasses
import html
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from compactor.catalog.hive import HiveCatalog
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows.environment import Environment
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.spark.engine import SparkEngine
from compactor.spark.session import SessionSettings, close_session, open_session
from compactor.storage.local import LocalStorage

DOCS = Path(__file__).parents[1] / "docs" / "images"
HOURS: tuple[tuple[dict[str, Any], ...], ...] = (
    tuple({"id": number, "op": "c", "seq": number, "name": name} for number, name in enumerate(("Ada", "Ben", "Cem", "Dana"), 1)),
    ({"id": 2, "op": "u", "seq": 5, "name": "Benno"}, {"id": 3, "op": "d", "seq": 6}, {"id": 5, "op": "c", "seq": 7, "name": "Eva"}),
    ({"id": 2, "op": "u", "seq": 4, "name": "Benjamin"}, {"id": 1, "op": "u", "seq": 8, "name": "Ada L."}),
)
"""What lands in each hour. The first event of the last hour is late: a newer one of its row came an hour before."""

WIDTH, LINE, LEFT, SNAPSHOT = 860, 21, 24, 560
STYLE = """
  text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #24292f }
  .title { font: 600 15px system-ui, sans-serif } .note { font: 13px system-ui, sans-serif; fill: #57606a }
  .new { fill: #1a7f37; font-weight: 600 } .gone { fill: #8c959f; text-decoration: line-through } .box { fill: #f6f8fa; stroke: #d0d7de }
  .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #9198a1 } .new { fill: #3fb950 } .gone { fill: #6e7681 }
    .box { fill: #161b22; stroke: #30363d } .page { fill: #0d1117 }
  }"""


@dataclasses.dataclass(frozen=True)
class Step:
    """One drawing."""

    name: str
    """Name of the file, without its ending."""
    title: str
    """What has happened."""
    files: tuple[tuple[str, str], ...]
    """(path below the table's folder, `new`, `gone` or ``), in path order."""
    snapshot: tuple[str, ...]
    """Lines about the newest Snapshot."""


class _Clock(LocalStorage):
    """Storage whose clock stands where the drawing is, so that vacuum finds files old enough."""

    time = 2_000_000_000.0

    def now(self) -> float:
        return self.time


def steps(spark: SparkSession, root: Path) -> Iterator[Step]:
    """Play the table's life in an empty directory and yield a Step after each part of it."""
    storage = _Clock()
    engine, catalog = SparkEngine(spark, storage), HiveCatalog(spark)
    home = root / "people"
    env = Environment(storage, lambda: engine, lambda: catalog, clock=lambda: storage.time)
    spec = TableSpec(
        "people", str(home), str(home / "incremental"), "increment_%Y%m%d%H", "drawings", "people", "drawings",
        key=("id",), order_by=("seq",), op="op", write_mode="merge-on-read", compact_every=1e9, keep=3600.0, keep_versions=1, tombstone_retention=1e9,
    )  # fmt: skip

    def hour(number: int) -> None:
        folder = home / "incremental" / f"increment_20260305{number:02d}"
        folder.mkdir(parents=True)
        (folder / "changes.json").write_text("".join(json.dumps(each) + "\n" for each in HOURS[number - 1]), encoding="utf-8")
        run_table(Table(env, spec))

    def compacted() -> None:
        run_table(Table(env, dataclasses.replace(spec, compact_every=0.0)))

    def vacuumed() -> None:
        # twice: what expires in the first is deleted a grace period later
        for _ in range(2):
            storage.time += 90 * 86400.0
            vacuum(Table(env, spec), dry=False)

    life: tuple[tuple[str, str, Callable[[], None]], ...] = (
        ("hour-1", "After hour 1: four rows are inserted", lambda: hour(1)),
        ("hour-2", "After hour 2: an update, a delete and an insert", lambda: hour(2)),
        ("hour-3", "After hour 3: a late event and an update", lambda: hour(3)),
        ("compaction", "After a compaction", compacted),
        ("vacuum", "After vacuum, when the older versions have expired", vacuumed),
    )
    before: set[str] = set()
    for name, title, happens in life:
        storage.time += 3600.0
        happens()
        after = {_plain(str(path.relative_to(home))) for path in home.rglob("*") if path.is_file() and not _hidden(path)}
        marked = [(path, "" if path in before & after else "new" if path in after else "gone") for path in sorted(before | after)]
        newest = Table(env, spec).newest()
        assert newest is not None  # noqa: S101 - a run has made one
        yield Step(f"files-{name}", title, tuple(marked), tuple(_lines(newest)))
        before = after


def _hidden(path: Path) -> bool:
    """Return whether a file is of no interest to a reader: hints, and checksums that Hadoop writes beside local files."""
    return path.name in ("latest", "shown.json", "owner.json", "_SUCCESS") or path.name.endswith(".crc")


def _plain(path: str) -> str:
    """Return a path without what is random in it: `v00000001-1a2b3c4d` becomes `v1`."""
    path = re.sub(r"v0*(\d+)-[0-9a-f]{8}", r"v\1", path)
    path = re.sub(r"snapshots/0*(\d+)\.json", r"snapshots/\1.json", path)
    return re.sub(r"part-(\d+)-.*\.parquet", r"part-\1.parquet", path)


def _lines(snapshot: Snapshot) -> Iterator[str]:
    yield f"Snapshot {snapshot.version}, made by {snapshot.operation}"
    yield ""
    yield f"base   {_plain(snapshot.base_id or '-')}: {sum(segment.rows for segment in snapshot.segments)} rows"
    yield f"Delta  {_plain(snapshot.delta.id)}: {snapshot.delta.rows} rows" if snapshot.delta else "Delta  none"
    counts = {name: count for name, count in snapshot.counts.items() if count and name != "read"}
    if snapshot.operation == "commit":
        yield "events " + ", ".join(f"{count} {name}" for name, count in counts.items())
    yield ""
    yield "view = Delta + base" if snapshot.delta else "view = base"
    if snapshot.delta:
        yield "       without the Delta's keys"


def svg(step: Step) -> str:
    """Return the drawing of a step."""
    height = 60 + LINE * max(len(step.files), len(step.snapshot) + 2) + 24
    marks = {"new": "+ ", "gone": "− ", "": "  "}
    text = [f'<text class="title" x="{LEFT}" y="32">{html.escape(step.title)}</text>']
    for number, (path, state) in enumerate(step.files):
        label = html.escape(marks[state] + path)
        text.append(f'<text class="{state}" x="{LEFT}" y="{64 + LINE * number}" xml:space="preserve">{label}</text>')
    box = LINE * len(step.snapshot) + 20
    text.append(f'<rect class="box" x="{SNAPSHOT - 14}" y="46" width="{WIDTH - SNAPSHOT}" height="{box}" rx="6"/>')
    for number, line in enumerate(step.snapshot):
        kind = "title" if number == 0 else ""
        text.append(f'<text class="{kind}" x="{SNAPSHOT}" y="{68 + LINE * number}" xml:space="preserve">{html.escape(line)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(step.title)}">'
    return "\n".join([head, f"<style>{STYLE}\n</style>", f'<rect class="page" width="{WIDTH}" height="{height}"/>', *text, "</svg>", ""])


def main(directory: Path = DOCS) -> None:
    """Write all drawings."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        spark = open_session(SessionSettings(None, f"{scratch}/metastore", f"{scratch}/warehouse", master="local[2]"))
        for step in steps(spark, Path(scratch)):
            (directory / f"{step.name}.svg").write_text(svg(step), encoding="utf-8")
            print(f"wrote {step.name}.svg: {len(step.files)} files")
        close_session(spark)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
