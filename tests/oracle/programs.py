"""Random programs, many in one table: what happens to each program's rows at the source, and how the events reach the table.

A program is a handful of rows under keys of their own (`part` is its number) and the statements that change them. Programs of one table share its
clock, its truncates, its added columns, and the files and runs in which their events arrive: every run then costs as much as a run of one program.

    program(seed) gives settings of the table, the source's events, and deliveries: for each run the files, each a list of places in `events`
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from compactor.core.model.policy import Policy
from tests.oracle.model import Key, line
from tests.oracle.source import Source

STATEMENTS = ("insert", "insert", "update", "update", "partial", "partial", "delete", "delete", "snapshot")
MOVES = ("move", "move_partial", "move_in_two")
LEAVING_OUT = ("partial", "move_partial", "move_in_two")
TYPES = {"d": 7, "e": "new"}
"""Columns that a source adds, with their first defaults."""

ODD = {
    "operations": ("op", "__op", "Op"),
    "equal but for case": ("val", "Val", "VAL", "ID", "Part"),
    "parts of an order": ("s", "r", "pos", "row", "offset", "lsn", "Seq", "file", "scn"),
    "what stored rows have": ("_op", "_position", "_version", "epoch", "o1", "block", "base_version", "__end_us"),
}
"""Names of columns that mean something elsewhere."""


@dataclass
class Part(Source):
    """The rows of one program."""

    number: int = 0

    def key(self, number: int) -> Key:
        """The program's number and the row's."""
        return (self.number, number)


@dataclass(frozen=True)
class Program:
    """What happens to one table."""

    seed: int
    settings: dict[str, Any]
    """Settings of the TableSpec."""

    events: list[str]
    """Lines of `model.sorted_out`, in the source's order, but for the names of columns."""

    runs: list[list[list[int]]]
    """For each run its files, for each file the places of its lines in `events`."""

    delivered: list[set[int]] = field(default_factory=list)
    """The places of the events that the runs up to each have delivered."""

    names: dict[str, str] = field(default_factory=dict)
    """What the source calls a column; `events` call it a to e."""

    texts: bool = False
    """Whether the numbers of the column `a` become text."""

    def line(self, place: int) -> str:
        """Return an event with the source's names of columns."""
        event = json.loads(self.events[place])
        for part in ("values", "defaults"):
            if part in event:
                event[part] = {self.names.get(name, name): value for name, value in event[part].items()}
        if "missing" in event:
            event["missing"] = sorted(self.names.get(name, name) for name in event["missing"])
        return json.dumps(event)


def program(seed: int, parts: int, moves: bool = True, in_order: bool = False, spark: bool = False, grows: bool = True) -> Program:
    """Make a table of `parts` programs of about 14 statements each.

    `moves`: rows get other keys too. `in_order`: no event arrives in a run before one that is older; inside a run they are mixed all the same.
    `spark`: only texts are left out of updates, as a connector does, and the first run has a row. `grows`: columns are added.
    """
    rng = random.Random(seed)
    # tables without left-out values are resolved by a cheaper rule; a live view can show only such tables, without key changes
    whole, live = seed // 4 % 2 == 1, seed % 8 == 5 and not spark
    statements = [each for each in (*STATEMENTS, *(MOVES if moves and not live else ())) if not (whole and each in LEAVING_OUT)]
    rows = [Part(keys=3, number=number) for number in range(parts)]
    count = parts * 14
    special = {rng.randrange(count): "truncate" for _ in range(rng.choice((0, 0, 1, 2)))}
    special |= {rng.randrange(count): name for name in TYPES if rng.random() < 0.6 and grows}
    events: list[str] = []
    held: list[range] = []
    added: dict[str, Any] = {}
    for at in range(count):
        what = special.get(at)
        if what == "truncate":
            for each in rows:
                each.rows.clear()
            events.append(line("t", (), [10 * len(events) + 10]))
            continue
        if what is not None:
            added[what] = TYPES[what]
            # what a new writer sends first may come last
            held += [range(len(events), len(events) + rng.randint(1, 4 * parts))] if rng.random() < 0.5 else []
        if what is None and added and rng.random() < 0.01:
            # a later default is that of new rows only
            name = rng.choice(sorted(added))
            added[name] = rng.randrange(100) if isinstance(TYPES[name], int) else f"later {rng.randrange(9)}"
        part = rng.choice(rows)
        part.lines.clear()
        part.seq = 10 * len(events)
        part.step(rng.choice(statements), rng.randrange(30), rng.randrange(30))
        events += [_with_columns(each, added, rng, spark) for each in part.lines]
    runs = list(_runs(events, rng, in_order, held))
    delivered: list[set[int]] = []
    for run in runs:
        delivered.append({place for file in run for place in file}.union(*delivered[-1:]))
    settings = {
        "key": ("part", "id"),
        # a few tables of many programs have all of these too
        "delete": ("hide", "soft")[seed // 2 % 2],
        "write_mode": rng.choice(("merge-on-read", "merge-on-read", "auto", "copy-on-write")),
        "target_file_bytes": rng.choice((1200, 20_000, 10_000_000)),
        "compact_every": rng.choice((0.0, 2.0, 1e9)),
        "feed": rng.choice(("off", "net")),
    }
    also = random.Random(f"also {seed}")
    texts = not live and also.random() < 0.3
    if texts:
        events = _as_texts(events, also)
        settings["policy"] = Policy(kinds=(("to_string", "evolve"),))
    if live:
        settings |= {"live_view": True, "archive": "keep"}
    names = _names(also, live)
    if also.random() < 0.4:
        columns = also.sample(("part", "a", "b", "d"), also.randint(1, 2))
        # one of them may come later, or never
        settings["cluster_by"] = tuple(names.get(name, name) for name in columns)
    return Program(seed, settings, events, runs, delivered, names, texts)


def _names(rng: random.Random, live: bool) -> dict[str, str]:
    """Draw what the source calls its columns: in half of the tables some have odd names."""
    if rng.random() < 0.5:
        return {}
    # in files with column names a live view cannot show two that are equal but for case, and the operation is a column too
    excluded = {"__op", "Op", "Val", "VAL", "ID", "Part", "Seq"} if live else set()
    kinds = rng.sample(sorted(ODD), rng.randint(1, 2))
    odd = [name for kind in kinds for name in ODD[kind] if name not in excluded]
    columns = rng.sample("abcde", rng.randint(1, 5))
    return dict(zip(columns, rng.sample(odd, min(len(odd), len(columns)))))


def _as_texts(events: list[str], rng: random.Random) -> list[str]:
    """Let the numbers of `a` become fractions, perhaps, and then text, at places in the source's order."""
    texts = rng.randrange(len(events))
    fractions = rng.randrange(texts + 1) if rng.random() < 0.5 else texts
    out = []
    for place, told in enumerate(events):
        event = json.loads(told)
        value = event.get("values", {}).get("a")
        if value is not None and place >= fractions:
            event["values"]["a"] = f"n{value}" if place >= texts else value + 0.5
        out.append(json.dumps(event))
    return out


def alone(whole: Program, number: int) -> Program:
    """The same table with the events of one program, and the truncates."""
    places = [place for place, told in enumerate(whole.events) if (json.loads(told)["key"] or [number])[0] == number]
    new = {place: at for at, place in enumerate(places)}
    runs = [[[new[place] for place in file if place in new] for file in run] for run in whole.runs]
    delivered = [{new[place] for place in each if place in new} for each in whole.delivered]
    return replace(whole, events=[whole.events[place] for place in places], runs=runs, delivered=delivered)


def _with_columns(told: str, added: dict[str, Any], rng: random.Random, texts: bool) -> str:
    """The event as a writer sends it that has the added columns; some writers still lack them."""
    if not added or rng.random() < 0.1:
        return told
    event = json.loads(told)
    event["defaults"] = dict(added)
    if event["op"] in "cur":
        values, missing = event.setdefault("values", {}), event.setdefault("missing", [])
        for name, default in added.items():
            what = rng.random()
            if what < 0.15 and missing and event["op"] == "u" and not (texts and isinstance(TYPES[name], int)):
                missing.append(name)
            elif what < 0.9:
                values[name] = default if what < 0.5 else rng.randrange(100) if isinstance(TYPES[name], int) else f"{name}{rng.randrange(9)}"
    return json.dumps(event)


def _runs(events: list[str], rng: random.Random, in_order: bool, held: list[range]) -> Iterator[list[list[int]]]:
    """Cut the events into runs and files; a fifth of them come again, in the same run or a later one."""
    count = rng.randint(3, 6)
    if in_order:
        cuts = sorted(rng.sample(range(len(events) + 1), count - 1))
        first = [sum(cut <= place for cut in cuts) for place in range(len(events))]
    else:
        # most events are late by little, some by much
        late = rng.choice((0.05, 0.3, 1.0))
        ranks = [place / len(events) + (rng.random() if rng.random() < 0.3 else 0) * late for place in range(len(events))]
        first = [min(count - 1, int(rank / (1 + late) * count)) for rank in ranks]
        for place in range(len(events)):
            if any(place in each for each in held) and rng.random() < 0.8:
                first[place] = max(first[place], rng.randrange(count))
        for truncate in (place for place, told in enumerate(events) if '"op": "t"' in told and rng.random() < 0.7):
            # it comes after changes of rows that it ended and that were made anew, and half of what made them anew comes later still
            first[truncate] = rng.randrange(1, count - 1)
            for place in range(truncate + 1, len(events)):
                if '"op": "c"' in events[place] and rng.random() < 0.5:
                    first[place] = rng.randrange(first[truncate] + 1, count)
    for run in range(count):
        places = [place for place in range(len(events)) if first[place] == run]
        old = [place for place in range(len(events)) if first[place] <= run]
        places += rng.sample(old, len(old) // 10)
        rng.shuffle(places)
        files = rng.randint(1, 3)
        yield [places[number::files] for number in range(files) if places[number::files]]
