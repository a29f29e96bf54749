"""Random programs whose first half came from another recipe: its rows are adopted, and the runs after it end in the table of all events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor.flows.table import Table
from compactor.flows.write.adopt import adopt
from tests.oracle.emit import row_of
from tests.oracle.model import Key, Row, replayed, sorted_out
from tests.oracle.programs import Program, program
from tests.oracle.sizes import FULL
from tests.spark.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTS = 60
"""Programs in one table."""

BASE = "part INT, id INT, a INT, b STRING, c STRING"


def sent(event: dict[str, Any]) -> dict[str, Any]:
    """The row that lands for an event."""
    return {**row_of(("part", "id"), event), "seq": event["position"][0], "op": event["op"]}


def model(program_: Program, run: int) -> dict[Key, Row]:
    """The rows after a run."""
    found, _ = sorted_out("\n".join(program_.events[place] for place in sorted(program_.delivered[run])).encode(), "f")
    return replayed(found)


def play(lake: Lake, program_: Program) -> None:
    """Adopt the rows of half of the runs, then run the rest."""
    events = [json.loads(event) for event in program_.events]
    half = len(program_.runs) // 2
    settings = {name: program_.settings[name] for name in ("write_mode", "target_file_bytes", "compact_every", "feed")}
    spec = lake.spec(**settings, key=("part", "id"))
    rows = model(program_, half)
    old = str(lake.root / "old")
    base = [(*key, row.get("a"), row.get("b"), row.get("c")) for key, row in rows.items()]
    lake.spark.createDataFrame(base, BASE).repartition(2).write.parquet(old)
    for run, files in enumerate(program_.runs):
        for number, file in enumerate(files):
            # what the base has is not sent again: without an order of the rows it would count as newer
            wanted = [place for place in file if run <= half or place not in program_.delivered[half]]
            if wanted:
                lake.land(spec, run, [sent(events[place]) for place in wanted], f"{number}.json")
        if run == half:
            adopt(Table(lake.env, spec), old, f"increment_20240305{half:02d}")
        if run > half:
            lake.run(spec)
        if run >= half:
            right = model(program_, run)
            found = {(row["part"], row["id"]): {name: row[name] for name in "abc" if row[name] is not None} for row in lake.rows(spec)}
            wrong = sorted(key for key in {*found, *right} if found.get(key) != right.get(key))
            assert not wrong, f"run {run}: {len(wrong)} keys differ, such as {wrong[0]}: {found.get(wrong[0])}, expected {right.get(wrong[0])}"
    assert [] == lake.problems(spec)


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 7] if FULL else [0])
def test_changes_after_the_adopted_folder_lead_to_the_table_of_all_events(lake: Lake, seed: int) -> None:
    """`--ingested-through`: updates that leave values out take those of the adopted rows."""
    play(lake, program(seed, PARTS, moves=False, in_order=True, spark=True, grows=False))
