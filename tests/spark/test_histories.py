"""Random histories: a simulated database sends its transactions as each envelope; however they are cut, mixed and repeated, the table is the database's.

`COMPACTOR_TESTS=full` tries many times as many, each envelope both ways.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from compactor.core.model.spec import Csv, TableSpec
from compactor.flows.read.visible import changes
from compactor.flows.table import Table
from tests.oracle import emit
from tests.oracle.emit import Emit, Event, Record
from tests.oracle.feed import applied, text
from tests.oracle.sizes import FULL
from tests.oracle.source import Source
from tests.spark.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WHOLE = ("insert", "insert", "update", "delete")
"""Statements of which a source sends whole rows."""
STATEMENTS = (*WHOLE, "update", "partial", "partial")
MOVES = ("move", "move_partial", "move_partial")

ENVELOPES: dict[str, tuple[Emit, str, Sequence[str], Sequence[str]]] = {
    # what moves keys comes only where runs are in order
    "debezium": (emit.debezium, "debezium", (*STATEMENTS, "snapshot", "truncate"), MOVES),
    "flat": (emit.flat, "flat", (*STATEMENTS, "snapshot"), MOVES),
    "flat, ordered by text": (emit.flat_at, "flat", (*WHOLE, "snapshot"), ("move",)),
    "dms": (emit.dms, "dms", WHOLE, ("move",)),
    # format 1 writes nothing for a truncate
    "wal2json, format 1": (emit.wal2json_1, "wal2json", STATEMENTS, MOVES),
    "wal2json, format 2": (emit.wal2json_2, "wal2json", (*STATEMENTS, "truncate"), MOVES),
    "change-event": (emit.change_event, "change-event", (*STATEMENTS, "truncate"), MOVES),
    # tombstones are purged at once; a late change of another partition must not be taken for one older than that
    "flat, two partitions": (emit.of_topic, "flat", WHOLE, ()),
    "flat, deleted by a condition": (emit.flat_marked, "flat", (*WHOLE, "snapshot"), ("move",)),
}


ORDERS = {"flat, ordered by text": ("at",), "flat, deleted by a condition": ("at",)}
MARKED = {"flat, deleted by a condition": "gone IS NOT NULL"}
HALVED = ("flat, ordered by text", "dms")
"""Where the numbers of column `a` are halved: whole ones and fractions come in any order, so that its type changes on the way."""


PURGED = ("flat, two partitions",)
"""Envelopes whose tombstones are purged at once. Their runs come in order."""

CASES = [
    (name, late)
    for at, name in enumerate(ENVELOPES)
    for late in (False, True)
    if not (late and name in PURGED) and (FULL or late == bool(at % 2) or name in PURGED)
]
"""(envelope, whether the order of runs is random too). The sample has each envelope one way."""


def transactions(source: Source, rng: random.Random) -> list[list[Event]]:
    """The source's events in transactions of one to four; the first is an insert, which names every column."""
    events = [json.loads(line) for line in source.lines]
    out = []
    while events:
        size = rng.randint(1, 4)
        out.append(events[:size])
        events = events[size:]
    return out


def halved(name: str, row: Record) -> Record:
    """The row with half the number in column `a`, for envelopes in HALVED; halves that are whole are written without a point."""
    if name not in HALVED or row.get("a") is None:
        return row
    return {**row, "a": row["a"] / 2 if row["a"] % 2 else row["a"] // 2}


def comma_separated(records: Sequence[Record]) -> list[str]:
    """Lines with a header; null is an empty value."""
    rows = [[*records[0]], *(record.values() for record in records)] if records else []
    return [",".join("" if value is None else str(value) for value in row) for row in rows]


@pytest.mark.parametrize("seed", range(20 if FULL else 1))
@pytest.mark.parametrize(("name", "late"), CASES, ids=[f"{name}, {'any order' if late else 'runs in order, keys change'}" for name, late in CASES])
def test_any_cut_of_the_stream_gives_the_databases_table(lake: Lake, name: str, late: bool, seed: int) -> None:
    """Events in random files and runs, some of them twice: rows, counts and `verify` are right, and nothing is unresolved.

    What a key change carries is not mixed over runs: a key that lives again forgets which key its earlier row moved to.
    """
    made, envelope, statements, moves = ENVELOPES[name]
    rng = random.Random(f"{name} {late} {seed}")
    statements = statements if late else (*statements, *moves)
    names = ("id", "part") if seed % 2 else ("id",)
    source = Source(composite=len(names) > 1)
    source.step("insert", 0, 0)
    for _ in range(rng.randint(15, 40)):
        source.step(rng.choice(statements), rng.randrange(30), rng.randrange(30))
    first, *rest = [halved(name, document) for transaction in transactions(source, rng) for document in made(names, transaction)]
    start = [first, *rest[:1]]
    mixed = rng.sample(rest, len(rest)) if late else rest
    # sent again after a crash
    mixed = [again for at in range(len(mixed)) for again in (mixed[at], *(rng.sample(mixed[: at + 1], 1) if rng.random() < 0.25 else ()))]
    cuts = sorted(rng.sample(range(len(mixed) + 1), 2))
    how = {"write_mode": rng.choice(("auto", "merge-on-read", "copy-on-write")), "feed": "net"}
    given: dict[str, Any] = {"format": "csv", "csv": Csv(header=True, null_value="")} if envelope == "dms" else {"format": "json"}
    if name in PURGED:
        given |= {"container": "kafka", "order_by": ("kafka.offset",), "tombstone_retention": 0.5, "quarantine_share": 1.0}
    given["delete_when"] = MARKED.get(name)
    spec = lake.spec(**{"envelope": envelope, "order_by": ORDERS.get(name, ()), "key": names, **given, **how})
    read = 0
    for hour, group in enumerate((start + mixed[: cuts[0]], mixed[cuts[0] : cuts[1]], mixed[cuts[1] :])):
        group = rng.sample(group, len(group))
        for number, part in enumerate((group[::2], group[1::2])):
            lines = comma_separated(part) if envelope == "dms" else part
            lake.land(spec, hour, lines, file=f"part-{rng.randrange(1000):03}-{number}.{spec.format}")
        counts = lake.run(spec).counts
        assert counts.get("read", 0) == sum(number for outcome, number in counts.items() if outcome != "read")
        read += counts.get("read", 0)
    expected = {tuple(key): halved(name, row) for key, row in source.table().items()}
    found = {tuple(row[column] for column in names): row for row in lake.rows(spec)}
    assert expected == {key: {n: v for n, v in row.items() if n not in (*names, "at") and v is not None} for key, row in found.items()}
    # `verify` compares the newest part of the change feed with the difference of its versions
    assert [] == lake.problems(spec)
    told = [line for snapshot in changes(Table(lake.env, spec), 0) for line in lake.env.engine().read_feed(spec, snapshot)]
    assert Counter(map(text, found.values())) == applied(told)
    assert 0 == lake.snapshot(spec).unresolved
    lines = comma_separated(mixed[cuts[1] :]) if envelope == "dms" else mixed[cuts[1] :]
    if len(lines) > 1 and name not in PURGED:
        delivered_again(lake, spec, lines)


def delivered_again(lake: Lake, spec: TableSpec, lines: Sequence[Any]) -> None:
    """The last hour lands once more under a later name: only truncates are applied, no row changes, and there are no ties that were not there."""
    before = lake.rows(spec)
    lake.land(spec, 3, lines, file=f"zz.{spec.format}")
    report = lake.run(spec)
    truncates = sum(
        isinstance(line, dict) and "t" in (line.get("op"), str(line.get("action")).lower(), str(line.get("changeType"))[:1]) for line in lines
    )
    assert truncates == report.counts["applied"]
    assert before == lake.rows(spec)
    part = lake.snapshot(spec).feed
    assert part is not None
    assert [] == told_of(lake, spec)


def told_of(lake: Lake, spec: TableSpec) -> list[str]:
    """The newest part of the change feed."""
    snapshot = lake.snapshot(spec)
    return [*lake.env.engine().read_feed(spec, snapshot)] if snapshot.feed and snapshot.feed.part else []
