"""What the killed table is fed, hour after hour, and what must come out: plain Python, the same in every process."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

KEYS, EVENTS = 60, 25
TABLE, FILE = "t", "part-0.json"
CONFIG = """\
warehouse: .
catalog: {database: killed}
tables:
  t:
    key: [id]
    order_by: [seq]
    op: op
    write_mode: merge-on-read
    compact_every: 0s
"""


def folder(hour: int) -> str:
    """The folder's name of an hour."""
    return (datetime(2024, 3, 5) + timedelta(hours=hour)).strftime("increment_%Y%m%d%H")


def events(hour: int) -> list[dict[str, Any]]:
    """Of one hour: a third late, a fifth deletes, and some of the hour before once more."""
    return [*_new(hour), *(_new(hour - 1)[:5] if hour else [])]


def _new(hour: int) -> list[dict[str, Any]]:
    # no two have the same Position: the hour and the number are in it
    draw = random.Random(hour)
    found = []
    for number in range(EVENTS):
        happened = draw.randrange(hour + 1) if number % 3 == 0 else hour
        key, seq = draw.randrange(KEYS), happened * 10_000_000 + hour * 1_000 + number
        op = "d" if draw.random() < 0.2 else "u"
        found.append({"op": op, "seq": seq, "id": key, "name": f"row {key} of hour {hour}", "amount": draw.randrange(1_000)})
    return found


def rows(hours: int) -> list[dict[str, Any]]:
    """The table after that many hours: per key the event of the greatest Position, unless it is a delete."""
    newest: dict[int, dict[str, Any]] = {}
    for hour in range(hours):
        for event in events(hour):
            if event["id"] not in newest or newest[event["id"]]["seq"] < event["seq"]:
                newest[event["id"]] = event
    shown = [{name: value for name, value in event.items() if name != "op"} for event in newest.values() if event["op"] != "d"]
    return sorted(shown, key=lambda row: row["id"])


def delivered(root: Path) -> int:
    """How many hours have landed so far, absorbed or not; they land in order."""
    hour = 0
    while any((root / TABLE / place / folder(hour) / FILE).exists() for place in ("incremental", "archive")):
        hour += 1
    return hour


def deliver(root: Path, hour: int) -> None:
    """Land an hour's file, at once or not at all."""
    path = root / TABLE / "incremental" / folder(hour) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{FILE}.tmp")
    staged.write_text("".join(json.dumps(event) + "\n" for event in events(hour)), encoding="utf-8")
    staged.replace(path)
