"""Run the demo with an installed command, and check what it leaves: `python scripts/try_demo.py COMMAND FOLDER`. `make wheel` does so with the wheel.

Nothing may be printed but the demo's own lines: no traceback when Spark has ended. The run records are validated by their JSON Schema, the text for
Prometheus by Prometheus's own client.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
from prometheus_client.parser import text_string_to_metric_families

from compactor.demo import HERE, MARKER
from scripts.generated import run_record_schema

METRICS = "metrics: {deployment: demo, cloudwatch: false, json: runs.jsonl, prometheus: prom}\n"


def play(command: str, folder: Path) -> list[str]:
    """Run the demo in a new folder, with all sinks that write files. Return what is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()
    (folder / "compactor.yaml").write_text(METRICS + (HERE / "compactor.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(  # noqa: S603
        [command, "demo", "--keep", "--dir", str(folder)], capture_output=True, text=True, check=False, timeout=1800
    )
    print(done.stdout)
    wrong = [] if done.returncode == 0 else [f"exit code {done.returncode}"]
    wrong += [] if "\nDone in " in done.stdout else ["the demo did not come to its end"]
    # every line of the log ends with what it belongs to; below that of a notice there are the changes of the schema, indented
    wrong += [f"standard error: {line}" for line in done.stderr.splitlines() if not line.endswith("Z]") and not line.startswith("  - `")]
    return wrong


def lines(path: Path) -> list[Any]:
    """Return the values of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check(folder: Path) -> list[str]:
    """Return what is wrong with the records and figures of the demo."""
    schema, wrong = jsonschema.Draft202012Validator(run_record_schema()), []
    stored = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*/_compactor/runs/*.json")]
    records = lines(folder / "runs.jsonl")
    for record in (*stored, *records):
        wrong += [f"record {record['id']}: {error.message}" for error in schema.iter_errors(record)]
    if not stored or sorted(record["id"] for record in stored) != sorted(record["id"] for record in records):
        wrong.append(f"{len(stored)} records are beside the tables and {len(records)} in runs.jsonl")
    samples = 0
    for path in (folder / "prom").iterdir():
        samples += sum(len(family.samples) for family in text_string_to_metric_families(path.read_text(encoding="utf-8")))
    print(f"{len(records)} run records, {samples} values for Prometheus")
    return wrong if samples else [*wrong, "no values for Prometheus"]


if __name__ == "__main__":
    place = Path(sys.argv[2]).resolve()
    if found := play(sys.argv[1], place) or check(place):
        sys.exit("\n".join(found))
