"""Warehouses made by arithmetic: Snapshots, run records and the outcomes of runs as real runs leave them, for hundreds of tables in a second."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compactor.core.model import times
from compactor.core.model.files import DataFile, Delta, Segment
from compactor.core.model.inputs import Input
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.record import JobUsage, Phase, RunRecord

END = times.to_seconds("2026-11-20T12:00:00Z")
"""When the last commit was made."""

NAMES = ("student", "enrollment", "ledger", "course", "invoice", "payment", "address", "audit_log")


def name(number: int) -> str:
    """The name of a table."""
    return NAMES[number] if number < len(NAMES) else f"{NAMES[number % len(NAMES)]}_{number:03}"


def snapshots(versions: int, wide: int = 12) -> Iterator[Snapshot]:
    """The life of one table: hourly commits with a daily rhythm, late events at times, a compaction every eighth version, a column added in the middle."""
    base = delta = 0
    for version in range(1, versions + 1):
        at = END - (versions - version) * 3600.0
        hour = times.from_seconds(at - 3600)[:16]
        events = int(4000 + 3500 * math.sin(at / 13750))
        compaction, writer = version % 8 == 0, f"v{version:08d}-0a0b0c0d"
        late, duplicate = (events // 3 if version % 9 == 5 else version % 3), 600 if version == versions - 4 else 0
        if version == 1:
            base = 240_000_000
        elif compaction:
            base, delta = base + delta // 4, 0
        else:
            delta += events * 900
        fields = [Field(f"c{index}", f"c{index}", "bigint" if index == 0 else "string", since=1) for index in range(wide)]
        if version > versions // 2:
            fields.append(Field("email", "email", "string", since=versions // 2 + 1))
        segments = tuple(
            Segment(f"{index}", f"base/{writer if compaction or version == 1 else 'v00000000-00000000'}/segment={index}", 300_000, 0,
                    (DataFile("part-0.parquet", base // 2, "sha256:x"),), None if index == 0 else (500,), (500,) if index == 0 else None, (0, 1), (0, 99), version)
            for index in range(2)
        )  # fmt: skip
        part = Delta("d", f"delta/{writer}", delta // 900, 3, (DataFile("part-0.parquet", delta, "sha256:y"),), (0, 1), (0, 99)) if delta else None
        inputs = () if compaction else tuple(
            Input(f"increment_{hour[:13].replace('-', '').replace('T', '')}/part-{index}.json.gz", 90_000, f"e{version}{index}", "increment", hour, events // 4)
            for index in range(4)
        )  # fmt: skip
        counts = {} if compaction else {
            "read": events, "applied": events - late - duplicate, "late": late, "duplicate": duplicate, "superseded": 0, "ignored": 0, "beyond_retention": 0, "quarantined": 0,
        }  # fmt: skip
        yield Snapshot(
            "@table", "u", version, version - 1 or None, writer, f"scheduled__{hour}", times.from_seconds(at, "milliseconds"), "compact" if compaction else "commit",
            Schema(tuple(fields), ("c0",)), (("lsn", "bigint"),), "b", segments, part, hour=hour, source_time=times.from_seconds(at - 700), inputs=inputs, counts=counts,
        )  # fmt: skip


def record(version: int, at: float, **changes: Any) -> RunRecord:
    """A run that made a version."""
    began, ended = times.from_seconds(at - 95, "milliseconds"), times.from_seconds(at + 5, "milliseconds")
    standard = RunRecord(
        "@table", "committed", version, (f"commit {version}",), 4, {"read": 4000, "applied": 4000}, 600_000, before=version - 1, bytes_read=360_000,
        seconds=100.0, id=f"{version:08x}", started=began, ended=ended, label="scheduled", program="0.1.0",
        phases=(Phase("discover", 1.0), Phase("read", 30.0), Phase("resolve", 55.0), Phase("publish", 14.0)),
        source_lag_seconds=700.0, job=JobUsage("j", 0.4, 1.6),
    )  # fmt: skip
    return dataclasses.replace(standard, **changes)


def warehouse(root: Path, tables: int, versions: int, records: int = 5) -> Path:
    """Write a warehouse and its compactor.yaml. Return the path of the latter."""
    made = [(each.version, each.to_bytes()) for each in snapshots(versions)]
    runs = [(times.to_seconds(each.time), each.version) for each in snapshots(versions)][-records:]
    texts = [(item.started, item.id, item.to_bytes()) for item in (record(version, at) for at, version in runs)]
    for number in range(tables):
        folder = root / "warehouse" / name(number) / "_compactor"
        (folder / "snapshots").mkdir(parents=True)
        (folder / "runs").mkdir()
        for version, data in made:
            (folder / "snapshots" / f"{version:020d}.json").write_bytes(data.replace(b"@table", name(number).encode()))
        (folder / "snapshots" / "latest").write_text(str(versions))
        for began, identifier, data in texts:
            (folder / "runs" / f"{_compact(began)}-{identifier}.json").write_bytes(data.replace(b"@table", name(number).encode()))
    (root / "warehouse" / "_runs").mkdir()
    idle = {"time": times.from_seconds(END + 1800, "milliseconds"), "idle": [name(number) for number in range(tables)]}
    (root / "warehouse" / "_runs" / "all.json").write_text(json.dumps(idle))
    lines = [f"  {name(number)}: {{key: [c0]}}" for number in range(tables)]
    (root / "compactor.yaml").write_text("metrics: {deployment: school, cloudwatch: false}\ntables:\n" + "\n".join(lines) + "\n")
    return root / "compactor.yaml"


def fail(config: Path, table: str, at: float) -> None:
    """The last run of a table failed."""
    error = (
        "table student: increment_2026112012/part-0.json.gz: all landed files or records are unusable: is not a JSON object <script>alert(1)</script>"
    )
    run = record(99, at, id="ffffffff", table=table, outcome="failed", operations=(), error=error, error_class="InputRefused", job=None)
    (config.parent / "warehouse" / table / "_compactor" / "runs" / f"{_compact(run.started)}-ffffffff.json").write_bytes(run.to_bytes())


def idle_run(config: Path, table: str, at: float) -> None:
    """A run has found no work for a table."""
    text = json.dumps({"time": times.from_seconds(at, "milliseconds"), "idle": [table]})
    (config.parent / "warehouse" / "_runs" / f"{table}.json").write_text(text)


def quarantine(config: Path, table: str) -> None:
    """The newest version of a table has a whole file and some records in quarantine."""
    path = max((config.parent / "warehouse" / table / "_compactor" / "snapshots").glob("*.json"))
    raw = json.loads(path.read_text())
    assert raw["inputs"], "the newest version is no compaction"
    raw["inputs"][0].update(outcome="quarantined", reason="the gzip stream ends in the middle of the file")
    raw["inputs"][1].update(quarantined=7)
    path.write_text(json.dumps(raw))


def _compact(moment: str) -> str:
    return f"{moment[:19].replace('-', '').replace(':', '')}Z"
