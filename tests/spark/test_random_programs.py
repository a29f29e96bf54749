"""Random programs through the real engine, many programs in one table, compared with the model after every run.

    python -m tests.spark.test_random_programs 0 2000

runs the programs of these seeds (each makes PARTS programs) and prints the seeds that fail.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compactor.flows.read.changes import changes
from compactor.flows.table import Table
from tests.oracle import emit
from tests.oracle.feed import applied, text
from tests.oracle.model import Key, Row, replayed, sorted_out
from tests.oracle.programs import Program, alone, program
from tests.oracle.sizes import FULL
from tests.parts.one_spark import one_spark
from tests.spark.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTS = 250
"""Programs in one table."""

NAMES = ("part", "id")
KINDS = {"part": "int32", "id": "int32", "a": "int32", "b": "string", "c": "string", "d": "int32", "e": "string"}


def made(seed: int, parts: int = PARTS) -> Program:
    """Rows get other keys only where runs are in order: what a key change carries is not mixed over runs."""
    in_order = seed % 2 == 1
    return program(seed, parts, moves=in_order, in_order=in_order, spark=True)


def _record(record: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """A record of Kafka Connect's JSON with its schema, which has the added columns with their defaults."""
    columns = [*(name for name in KINDS if name not in "de"), *defaults]
    members = [
        {"field": name, "type": KINDS[name], "optional": True, **({"default": defaults[name]} if name in defaults else {})} for name in columns
    ]
    images = [{"field": part, "type": "struct", "optional": True, "fields": members} for part in ("before", "after")]
    schema = {"type": "struct", "name": "t.Envelope", "fields": [*images, {"field": "op", "type": "string"}]}
    rows = {part: record[part] and {**dict.fromkeys(columns), **record[part]} for part in ("before", "after")}
    return json.dumps({"schema": schema, "payload": {**record, **rows}})


def records(program_: Program) -> list[list[str]]:
    """What Debezium sends for each event, in transactions of one to four."""
    events, rng, out = [json.loads(each) for each in program_.events], random.Random(program_.seed), []
    while len(out) < len(events):
        transaction = events[len(out) : len(out) + rng.randint(1, 4)]
        sent = iter(emit.debezium(NAMES, transaction))
        for event in transaction:
            moves = event["op"] in "cu" and event.get("from") and event["from"] != event["key"]
            out.append([_record(next(sent), event.get("defaults", {})) for _ in range(2 if moves else 1)])
    return out


def expected(program_: Program, places: set[int], soft: bool) -> dict[Key, Row]:
    """The model's rows of these events."""
    found, _ = sorted_out("\n".join(program_.events[place] for place in sorted(places)).encode(), "f")
    return replayed(found, soft)


def shown(rows: Sequence[Mapping[str, Any]]) -> dict[Key, Row]:
    """The view's rows by key, without nulls."""
    out = {}
    for row in rows:
        values = {name: value for name, value in row.items() if name not in NAMES and value is not None and value is not False}
        out[tuple(row[name] for name in NAMES)] = values
    return out


def play(lake: Lake, program_: Program) -> None:
    """Run a program; see tests/flows/test_random_programs.py."""
    settings = {**program_.settings, "envelope": "debezium", "format": "json", "order_by": ()}
    spec = lake.spec(**settings)
    sent = records(program_)
    for hour, files in enumerate(program_.runs):
        for number, places in enumerate(files):
            lake.land(spec, hour, [record for place in places for record in sent[place]], f"{(program_.seed + number * 7) % 10}.json")
        counts = lake.run(spec).counts
        assert counts.get("read", 0) == sum(number for outcome, number in counts.items() if outcome != "read")
        found, right = shown(lake.rows(spec)), expected(program_, program_.delivered[hour], spec.soft)
        wrong = sorted(key for key in {*found, *right} if found.get(key) != right.get(key))
        assert not wrong, f"run {hour}: {len(wrong)} keys differ, such as {wrong[0]}: {found.get(wrong[0])}, expected {right.get(wrong[0])}"
    assert [] == lake.problems(spec)
    # a consumer of the feed adds a column with its default itself: no row changes when the column comes
    if spec.feed != "off" and not spec.soft and not any('"defaults"' in event for event in program_.events):
        table = Table(lake.env, spec)
        told = [line for snapshot in changes(table, 0) for line in lake.env.engine().read_feed(spec, snapshot)]
        assert Counter(map(text, lake.rows(spec))) == applied(told)


@pytest.mark.parametrize("seed", range(8 if FULL else 2))
def test_after_every_run_the_table_is_that_of_all_events_that_have_arrived(lake: Lake, seed: int) -> None:
    """Soft deletes, truncates, added columns with defaults, values left out, key changes; events late, mixed and repeated."""
    play(lake, made(seed, PARTS if FULL else 40))


def main(arguments: list[str] | None = None) -> int:
    """Run the programs numbered from `first` to `end`, PARTS of them for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--parts", type=int, default=PARTS)
    parser.add_argument("--only", type=int, help="the number of the one program to run of each table")
    given = parser.parse_args(arguments)
    seeds = range(given.first // given.parts, -(-given.end // given.parts))
    began, failed = time.monotonic(), 0
    spark = one_spark()
    for seed in seeds:
        root = Path(tempfile.mkdtemp(prefix=f"programs-{seed}-"))
        try:
            whole = made(seed, given.parts)
            play(Lake(spark, root), whole if given.only is None else alone(whole, given.only))
            result = "right"
        except Exception as error:
            failed, result = failed + 1, f"{type(error).__name__}: {error}"[:600]
        print(f"seed {seed}: {result} ({time.monotonic() - began:.0f} s)", flush=True)
        spark.sql("USE default")
        for database in spark.catalog.listDatabases():
            if database.name.startswith("programs_"):
                spark.sql(f"DROP DATABASE `{database.name}` CASCADE")
        shutil.rmtree(root, ignore_errors=True)
    print(f"{len(seeds) * given.parts} programs in {time.monotonic() - began:.0f} s, {failed} seeds failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
