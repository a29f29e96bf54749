"""Random histories: a simulated database sends its transactions as each envelope; however they are cut, mixed and repeated, the table is the database's.

`COMPACTOR_TESTS=full` tries twenty times as many.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from compactor.flows.changes import changes
from tests.oracle.feed import applied, text
from tests.oracle.sizes import FULL
from tests.oracle.source import Source
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

STATEMENTS = ("insert", "insert", "update", "partial", "partial", "delete")
MOVES = ("move", "move_partial", "move_partial")
TYPES = {"id": "integer", "part": "text", "a": "integer", "b": "text", "c": "text"}

Event = dict[str, Any]
"""One line of `Source`: op, key, position, values, missing, from."""


def told(names: Sequence[str], event: Event) -> dict[str, Any]:
    """The columns an event tells."""
    return {**dict(zip(names, event["key"])), **event.get("values", {})}


def old(names: Sequence[str], event: Event) -> dict[str, Any]:
    """The key the row had."""
    return dict(zip(names, event.get("from") or event["key"]))


def format_1(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """A document a transaction."""
    changes = []
    for event in transaction:
        change: dict[str, Any] = {"kind": {"c": "insert", "u": "update", "d": "delete"}[event["op"]], "schema": "public", "table": "t"}
        if event["op"] != "d":
            new = told(names, event)
            change |= {"columnnames": [*new], "columntypes": [TYPES[name] for name in new], "columnvalues": [*new.values()]}
        if event["op"] != "c":
            key = old(names, event)
            change["oldkeys"] = {"keynames": [*key], "keytypes": [TYPES[name] for name in key], "keyvalues": [*key.values()]}
        changes.append(change)
    commit = transaction[-1]["position"][0]
    yield {"xid": commit, "nextlsn": f"0/{commit:X}", "timestamp": "2024-03-05 10:00:00+00", "change": changes}


def format_2(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """BEGIN, a document a change, COMMIT."""
    commit = transaction[-1]["position"][0]
    time = f"2024-03-05 10:{commit // 60 % 60:02}:{commit % 60:02}.5+00"
    yield {"action": "B", "xid": commit, "timestamp": time, "lsn": f"0/{commit:X}", "nextlsn": f"0/{commit + 1:X}"}
    for event in transaction:
        out = {"action": {"c": "I", "u": "U", "d": "D", "t": "T"}[event["op"]], "xid": commit, "timestamp": time}
        out |= {"lsn": f"0/{event['position'][0]:X}", "schema": "public", "table": "t"}
        pairs = {"columns": told(names, event) if event["op"] in "cu" else None, "identity": old(names, event) if event["op"] in "ud" else None}
        out |= {part: [{"name": n, "type": TYPES[n], "value": v} for n, v in row.items()] for part, row in pairs.items() if row is not None}
        yield out
    yield {"action": "C", "xid": commit, "timestamp": time, "lsn": f"0/{commit:X}", "nextlsn": f"0/{commit + 1:X}"}


def change_events(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """Values as text, old keys in another order."""
    for event in transaction:
        new = told(names, event) if event["op"] in "cu" else {}
        key = old(names, event) if event["op"] == "d" or event.get("from") else {}
        yield {
            "changeType": {"c": "insert", "u": "update", "d": "delete", "t": "truncate"}[event["op"]],
            "timestamp": event["position"][0],
            "columnNames": [*new],
            "columnValues": [None if value is None else str(value) for value in new.values()],
            "oldKeyNames": [name.upper() for name in reversed(key)],
            "oldKeyValues": [str(key[name]) for name in reversed(key)],
        }


ENVELOPES: dict[str, tuple[Callable[[Sequence[str], Sequence[Event]], Iterator[dict[str, Any]]], str, tuple[str, ...]]] = {
    # format 1 writes nothing for a truncate
    "wal2json, format 1": (format_1, "wal2json", STATEMENTS),
    "wal2json, format 2": (format_2, "wal2json", (*STATEMENTS, "truncate")),
    "change-event": (change_events, "change-event", (*STATEMENTS, "truncate")),
}


def transactions(source: Source, rng: random.Random) -> list[list[Event]]:
    """The source's events in transactions of one to four; the first is an insert, which names every column."""
    events = [json.loads(line) for line in source.lines]
    out = []
    while events:
        size = rng.randint(1, 4)
        out.append(events[:size])
        events = events[size:]
    return out


@pytest.mark.parametrize("seed", range(20 if FULL else 1))
@pytest.mark.parametrize("late", [False, True], ids=["runs in order, keys change", "any order"])
@pytest.mark.parametrize("name", ENVELOPES)
def test_any_cut_of_the_stream_gives_the_databases_table(lake: Lake, name: str, late: bool, seed: int) -> None:
    """Events in random files and runs, some of them twice: rows, counts and `verify` are right, and nothing is unresolved.

    What a key change carries is not mixed over runs: a key that lives again forgets which key its earlier row moved to.
    """
    emit, envelope, statements = ENVELOPES[name]
    rng = random.Random(f"{name} {late} {seed}")
    statements = statements if late else (*statements, *MOVES)
    names = ("id", "part") if seed % 2 else ("id",)
    source = Source(composite=len(names) > 1)
    source.step("insert", 0, 0)
    for _ in range(rng.randint(15, 40)):
        source.step(rng.choice(statements), rng.randrange(30), rng.randrange(30))
    first, *rest = [document for transaction in transactions(source, rng) for document in emit(names, transaction)]
    start = [first, *rest[:1]]
    mixed = rng.sample(rest, len(rest)) if late else rest
    # sent again after a crash
    mixed = [again for at in range(len(mixed)) for again in (mixed[at], *(rng.sample(mixed[: at + 1], 1) if rng.random() < 0.25 else ()))]
    cuts = sorted(rng.sample(range(len(mixed) + 1), 2))
    how = {"compaction": rng.choice(("auto", "delta", "rewrite")), "feed": rng.choice(("net", "all"))}
    spec = lake.spec(envelope=envelope, format="json", order_by=(), key=names, **how)
    read = 0
    for hour, group in enumerate((start + mixed[: cuts[0]], mixed[cuts[0] : cuts[1]], mixed[cuts[1] :])):
        group = rng.sample(group, len(group))
        for number, part in enumerate((group[::2], group[1::2])):
            lake.land(spec, hour, part, file=f"part-{rng.randrange(1000):03}-{number}.json")
        counts = lake.run(spec).counts
        assert counts.get("read", 0) == sum(number for outcome, number in counts.items() if outcome != "read")
        read += counts.get("read", 0)
    expected = {tuple(key): row for key, row in source.table().items()}
    found = {tuple(row[column] for column in names): row for row in lake.rows(spec)}
    assert expected == {key: {n: v for n, v in row.items() if n not in names and v is not None} for key, row in found.items()}
    # `verify` compares the newest part of the change feed with the difference of its versions
    assert [] == lake.problems(spec)
    told = [line for snapshot in changes(lake.world, spec, 0) for line in lake.world.engine().read_feed(spec, snapshot)]
    assert Counter(map(text, found.values())) == applied(told)
    assert 0 == lake.snapshot(spec).unresolved
