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
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.schema import Schema
from compactor.flows.read.visible import changes
from compactor.flows.table import Table
from tests.oracle import emit
from tests.oracle.feed import applied, text
from tests.oracle.model import Key, Row, cast, replayed, sorted_out
from tests.oracle.programs import Program, alone, program
from tests.oracle.sizes import FULL
from tests.parts.one_spark import one_spark
from tests.spark.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTS = 250
"""Programs in one table."""

NAMES = ("part", "id")
KINDS = {"part": "int32", "id": "int32", "a": "int32", "b": "string", "c": "string", "d": "int32", "e": "string"}


FORMS = ("debezium", "debezium", "flat", "bare", "binlog", "debezium")
"""What a table's connector sends, by its seed: envelopes, rows with a schema, rows without one, or rows of MySQL with a schema."""


def form(seed: int) -> str:
    """What the connector of a table sends."""
    return FORMS[seed % len(FORMS)]


def made(seed: int, parts: int = PARTS) -> Program:
    """Rows get other keys only where runs are in order: what a key change carries is not mixed over runs. Rows without envelope tell no key changes."""
    in_order = seed % 2 == 1 and form(seed) == "debezium"
    whole = program(seed, parts, moves=in_order, in_order=in_order, spark=True, grows=form(seed) != "bare")
    if form(seed) == "debezium":
        return whole
    # two underscores begin the names of columns that a connector adds
    names = {name: odd for name, odd in whole.names.items() if not odd.startswith("__")}
    # MySQL's own `pos` decides, whatever the table has under that name
    return replace(whole, names={**names, "a": "pos"} if form(seed) == "binlog" and "pos" not in names.values() else names)


class Connect:
    """Kafka Connect's JSON with its schema, which has the added columns with their defaults, all under the source's names."""

    def __init__(self, program_: Program) -> None:
        self._name = program_.names

    def named(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row under the source's names."""
        return {self._name.get(name, name): value for name, value in row.items()}

    def members(self, row: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the columns of a row; what is not of their usual type says its own."""
        kinds = {**KINDS, "a": {float: "double", str: "string"}.get(type(row.get("a")), KINDS["a"])}
        columns = [*(name for name in KINDS if name not in "de"), *defaults]
        default = {name: {"default": value} for name, value in defaults.items()}
        return [{"field": self._name.get(name, name), "type": kinds[name], "optional": True, **default.get(name, {})} for name in columns]

    def wrapped(self, record: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
        """Return a record of Debezium's envelope."""
        members = self.members(record["after"] or {}, defaults)
        images = [{"field": part, "type": "struct", "optional": True, "fields": members} for part in ("before", "after")]
        schema = {"type": "struct", "name": "t.Envelope", "fields": [*images, {"field": "op", "type": "string"}]}
        nothing = dict.fromkeys(member["field"] for member in members)
        rows = {part: record[part] and {**nothing, **self.named(record[part])} for part in ("before", "after")}
        return json.dumps({"schema": schema, "payload": {**record, **rows}})

    def flat(self, row: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
        """Return a row with the metadata columns of a connector."""
        meta = {name: value for name, value in row.items() if name.startswith("__")}
        members = self.members(row, defaults)
        kinds = [{"field": name, "type": "int64" if isinstance(value, int) else "string", "optional": True} for name, value in meta.items()]
        columns = {member["field"]: None for member in members}
        values = self.named({name: value for name, value in row.items() if name not in meta})
        return json.dumps({"schema": {"type": "struct", "fields": [*members, *kinds]}, "payload": {**columns, **values, **meta}})

    def bare(self, row: Mapping[str, Any], _: Mapping[str, Any]) -> str:
        """Return such a row without its schema."""
        meta = {name: value for name, value in row.items() if name.startswith("__")}
        return json.dumps({**self.named({name: value for name, value in row.items() if name not in meta}), **meta})


def records(program_: Program) -> list[list[str]]:
    """What the connector sends for each event."""
    events, connect = [json.loads(each) for each in program_.events], Connect(program_)
    if form(program_.seed) != "debezium":
        write = connect.bare if form(program_.seed) == "bare" else connect.flat
        rows = emit.flat_of_mysql if form(program_.seed) == "binlog" else emit.flat
        # the order inside an LSN is lost, so each event is a transaction
        return [[write(row, event.get("defaults", {})) for row in rows(NAMES, [event], truncates=True)] for event in events]
    return _enveloped(program_, events, connect)


def _enveloped(program_: Program, events: Sequence[Mapping[str, Any]], connect: Connect) -> list[list[str]]:
    """In transactions of one to four. What a snapshot reads is in none: it comes between them."""
    rng, out = random.Random(program_.seed), list[list[str]]()
    while len(out) < len(events):
        transaction = events[len(out) : len(out) + rng.randint(1, 4)]
        read = next((at for at, event in enumerate(transaction) if event["op"] == "r"), len(transaction))
        transaction = transaction[: max(read, 1)]
        sent = iter(emit.debezium(NAMES, transaction))
        for event in transaction:
            moves = event["op"] in "cu" and event.get("from") and event["from"] != event["key"]
            out.append([connect.wrapped(next(sent), event.get("defaults", {})) for _ in range(2 if moves else 1)])
    return out


def expected(program_: Program, places: set[int], schema: Schema, soft: bool) -> dict[Key, Row]:
    """The model's rows of these events, in the types of the columns."""
    found, _ = sorted_out("\n".join(program_.line(place) for place in sorted(places)).encode(), "f")
    kinds = {field.source: field.type for field in schema.payload}
    rows = replayed(found, soft)
    return {key: {name: cast(value, kinds.get(name, "")) for name, value in row.items()} for key, row in rows.items()}


def shown(rows: Sequence[Mapping[str, Any]], schema: Schema) -> dict[Key, Row]:
    """The view's rows by key, without nulls, under the source's names."""
    sources, out = {schema.view_name(field): field.source for field in schema.payload}, {}
    # a column `Part` of the source may have taken the name
    key = [schema.view_name(schema.field(name)) for name in schema.key]
    for row in rows:
        values = {sources.get(name, name): value for name, value in row.items() if name not in key and value is not None and value is not False}
        out[tuple(row[name] for name in key)] = values
    return out


def play(lake: Lake, program_: Program) -> None:
    """Run a program; see tests/flows/test_random_programs.py."""
    settings = {**program_.settings, "envelope": "debezium" if form(program_.seed) == "debezium" else "flat", "format": "json", "order_by": ()}
    spec = lake.spec(**settings)
    sent = records(program_)
    for hour, files in enumerate(program_.runs):
        for number, places in enumerate(files):
            lake.land(spec, hour, [record for place in places for record in sent[place]], f"{(program_.seed + number * 7) % 10}.json")
        counts = lake.run(spec).counts
        assert counts.get("read", 0) == sum(number for outcome, number in counts.items() if outcome != "read")
        schema = lake.snapshot(spec).schema
        found, right = shown(lake.rows(spec), schema), expected(program_, program_.delivered[hour], schema, spec.soft)
        wrong = sorted(key for key in {*found, *right} if found.get(key) != right.get(key))
        assert not wrong, f"run {hour}: {len(wrong)} keys differ, such as {wrong[0]}: {found.get(wrong[0])}, expected {right.get(wrong[0])}"
    assert [] == lake.problems(spec)
    # a consumer of the feed adds a column with its default itself, and changes a column's type: no row changes then
    if spec.feed != "off" and not spec.soft and not program_.texts and not any('"defaults"' in event for event in program_.events):
        table = Table(lake.env, spec)
        told = [line for snapshot in changes(table, 0) for line in lake.env.engine().read_feed(spec, snapshot)]
        assert Counter(map(text, lake.rows(spec))) == applied(told)


@pytest.mark.parametrize("seed", range(10 if FULL else 4))
def test_after_every_run_the_table_is_that_of_all_events_that_have_arrived(lake: Lake, seed: int) -> None:
    """Soft deletes, truncates, added columns, values left out, key changes, numbers that become text, odd names; events late, mixed and repeated."""
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
