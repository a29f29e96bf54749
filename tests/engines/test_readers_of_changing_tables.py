"""The source's schema changes again and again while another server's clients never stop reading: no error, no wrong row."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.policy import Policy
from tests.engines.test_readers import KEYS, Reader, State, changes, published, reading, run, servers, states
from tests.oracle.sizes import FULL
from tests.parts.metastore import metastore, thrift_server

pytestmark = [pytest.mark.engines, pytest.mark.spark]

RUNS = 50 if FULL else 8
ALWAYS = {"id", "seq", "batch", "amount", "size"}
STEPS: tuple[set[str], ...] = (
    {"note"},
    # a column comes
    {"note", "plus"},
    # `amount` gets fractions: every row is written again, into tables of another generation
    {"note", "plus"},
    # a column goes, from the view too
    {"plus"},
    {"plus", "more"},
    # `size` becomes text: all is read again from the archive, into another generation
    {"plus", "more"},
    # a column comes back
    {"plus", "more", "note"},
    # a struct's member gets fractions: another generation
    {"plus", "more", "note"},
)
"""The columns beside ALWAYS, step by step."""


def step(batch: int) -> int:
    """How far the schema has come with a batch."""
    return batch * len(STEPS) // (RUNS + 1)


def events(batch: int) -> list[dict[str, Any]]:
    """The changes of a batch, in the columns of then."""
    at = step(batch)
    found = []
    for change in changes(batch):
        key = change["id"]
        told = {**change, "amount": change["amount"] + (0.5 if at >= 2 else 0), "size": f"s{key}" if at >= 5 else key}
        more = {"x": key + (0.25 if at >= 7 else 0), "y": f"y{batch}"}
        told |= {name: value for name, value in {"note": f"n{batch}", "plus": f"p{batch}", "more": more}.items() if name in STEPS[at]}
        found.append(told)
    return found


def tables(batches: int) -> list[dict[int, dict[str, Any]]]:
    """Every row after each batch, by id; a value that it was not written with is not in it."""
    rows: dict[int, dict[str, Any]] = {}
    found = []
    for batch in range(batches):
        for change in events(batch):
            rows.pop(change["id"], None)
            if change["op"] != "d":
                rows[change["id"]] = {name: value for name, value in change.items() if name != "op"}
        found.append(dict(rows))
    return found


@dataclass
class ColumnReader(Reader):
    """Reads every column that the view has at that moment."""

    tables: list[dict[int, dict[str, Any]]] = field(default_factory=list)
    shapes: set[frozenset[str]] = field(default_factory=set)

    def read(self, cursor: Any) -> int:
        """Exactly the rows of one batch, in its columns or, while the view is replaced, in those of the batch beside it."""
        names = [column[0].rpartition(".")[2] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        batch = int(max(row["batch"] for row in rows))
        near = [ALWAYS | STEPS[step(at)] for at in range(max(0, batch - 1), min(RUNS, batch + 1) + 1)]
        assert set(names) in near, f"batch {batch}: columns {names}"
        assert len(rows) == KEYS, f"batch {batch}: {len(rows)} rows"
        for row in rows:
            known = self.tables[batch][row["id"]]
            assert {name: shown(value) for name, value in row.items()} == {name: shown(known.get(name)) for name in names}, f"batch {batch}"
        self.shapes.add(frozenset(names))
        return batch


def shown(value: Any) -> Any:
    """A value as it is compared: `size` was a number once, `amount` an integer; a struct comes as JSON."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    if isinstance(value, dict):
        return {name: shown(member) for name, member in value.items()}
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


class AmountReader(Reader):
    """Reads aggregates of columns that are always there."""

    def version(self, rows: list[tuple[Any, ...]]) -> int:
        """The sums of one batch."""
        count, distinct, batch, amount = rows[0]
        assert (count, distinct) == (KEYS, KEYS)
        assert amount == sum(row[2] for row in self.known[int(batch)]), f"batch {batch}"
        return int(batch)


def test_no_read_of_a_changing_table_is_wrong(tmp_path: Path) -> None:
    """A column comes, goes and comes back, types grow thrice, the table is compacted and rewritten: each answer is one batch's rows, and none is older
    than one before."""
    known = tables(RUNS + 1)
    sums: list[State] = [frozenset((row["id"], row["batch"], row["amount"]) for row in rows.values()) for rows in known]
    assert [len(rows) for rows in sums] == [len(rows) for rows in states(RUNS + 1)]
    with (
        servers() as folder,
        metastore(folder, "postgres") as uri,
        published(tmp_path, uri, policy=Policy(drop="hide", kinds=(("to_string", "evolve"),))) as (lake, spec),
        thrift_server(tmp_path, uri) as port,
    ):
        lake.land(spec, 0, events(0))
        lake.run(spec)
        view = f"{spec.database}.{spec.view}"
        columns = ColumnReader(port, f"SELECT * FROM {view}", [], tables=known)
        amounts = AmountReader(port, f"SELECT count(*), count(DISTINCT id), max(batch), sum(amount) FROM {view}", sums)
        readers: list[Reader] = [columns, amounts]
        done = Counter[str]()
        with reading(readers):
            for batch in range(1, RUNS + 1):
                lake.land(spec, batch % 24, events(batch), f"part-{batch}.json")
                done += run(lake, spec, batch, readers)
                assert [reader.errors for reader in readers] == [[], []], f"batch {batch}"
            end = time.monotonic() + 60
            while any(reader.versions[-1:] != [RUNS] for reader in readers) and time.monotonic() < end:
                time.sleep(0.05)
        assert lake.snapshot(spec).schema.generation == 4
        assert lake.problems(spec) == []
    assert [reader.errors for reader in readers] == [[], []]
    for reader in readers:
        assert reader.versions == sorted(reader.versions), "a version came back"
        assert reader.versions[-1] == RUNS
        assert len(set(reader.versions)) > RUNS // 3
    assert len(columns.shapes) >= (4 if FULL else 2)
    # in a few runs every change of a type writes a base before a compaction is worth it
    assert min(done["compacted"], done["rewritten"]) >= RUNS // 25
    assert done["read while rewritten"] > 0
    print(f"{RUNS} runs, {dict(done)}, {[len(reader.versions) for reader in readers]} reads, {len(columns.shapes)} sets of columns")
