"""Damage of every kind beside good data: the good rows come through, the damage is named and kept, and no run crashes or hangs.

`COMPACTOR_TESTS=full` draws more of each.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import CompactorError
from compactor.core.model.spec import TableSpec
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from tests.oracle import emit
from tests.oracle.sizes import FULL
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

DRAWS = 40 if FULL else 2
ROUNDS = 10 if FULL else 1
GOOD = range(20)
ODD: list[Any] = [None, True, -1, 1.5, "", "text", [], [1, "a"], {}, {"a": 1}, 10**40, -(10**400), "\u0000", "\ud83d\ude00", "9" * 5000]


def flat(id_: int, seq: int, v: str) -> dict[str, Any]:
    """A flat row."""
    return {"id": id_, "seq": seq, "a": 0, "b": v}


def made(envelope: emit.Emit) -> Callable[[int, int, str], dict[str, Any]]:
    """The record by which an envelope tells of a new row."""

    def record(id_: int, seq: int, v: str) -> dict[str, Any]:
        event = {"op": "c", "key": [id_], "position": [seq], "values": {"a": 0, "b": v, "c": None}, "missing": []}
        return next(each for each in envelope(("id",), [event]) if each.get("action") != "B")

    return record


_KINDS = {"id": "long", "seq": "long", "a": "int", "b": "string", "c": "string"}
SCHEMA = json.dumps({"type": "record", "name": "t", "fields": [{"name": name, "type": ["null", kind]} for name, kind in _KINDS.items()]})
"""Where types are guessed, a text among numbers makes a text of them all."""

ENVELOPES: dict[str, tuple[Callable[[int, int, str], dict[str, Any]], dict[str, Any]]] = {
    "flat": (flat, {"order_by": ("seq",), "avro_schema": SCHEMA}),
    "debezium": (made(emit.debezium), {"order_by": (), "avro_schema": SCHEMA, "source_table": "public.t"}),
    "wal2json": (made(emit.wal2json_2), {"order_by": (), "source_table": "public.t", "policy": TEXT_ALLOWED}),
    "change-event": (made(emit.change_event), {"order_by": (), "avro_schema": SCHEMA}),
}


def text(records: list[Any]) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def noise(good: bytes, draw: random.Random) -> bytes:
    """Random bytes."""
    return draw.randbytes(draw.randint(1, 4000))


def cut(good: bytes, draw: random.Random) -> bytes:
    """A file without its end."""
    return good[: draw.randint(1, len(good) - 2)]


def flipped(good: bytes, draw: random.Random) -> bytes:
    """A file with some bytes changed."""
    found = bytearray(good)
    for _ in range(draw.randint(1, 8)):
        found[draw.randrange(len(found))] = draw.randrange(256)
    return bytes(found)


def odd_records(good: bytes, draw: random.Random) -> bytes:
    """Lines that are JSON, and no records."""
    lines = [b"null", b"1", b"[]", b'"text"', b"{}", b'{"a":', b"}{", b"true false", b"\x00", b"[" * 50]
    return b"\n".join(draw.choice(lines) for _ in range(5)) + b"\n" + good


def huge(good: bytes, draw: random.Random) -> bytes:
    """A value of megabytes."""
    return good.replace(b'"x"', b'"' + b"x" * draw.randint(1 << 20, 3 << 20) + b'"', 1)


def deep(good: bytes, draw: random.Random) -> bytes:
    """A value nested deeper than any reader follows."""
    depth = draw.randint(600, 3000)
    return good.replace(b'"x"', b'{"a":' * depth + b"1" + b"}" * depth, 1)


def odd_values(good: bytes, draw: random.Random) -> bytes:
    """A value of another kind somewhere in each record; never one that makes a truncate of it."""
    return text([_changed(json.loads(line), draw) for line in good.splitlines()])


def _changed(record: Any, draw: random.Random) -> Any:
    out = copy.deepcopy(record)
    holder, name = draw.choice([*_places(out)])
    holder[name] = draw.choice(ODD)
    return out


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for name in value if isinstance(value, dict) else range(len(value)):
        if name == "type":
            # what a record says of its columns' types is believed; a struct where a text was is refused, for the whole table
            continue
        yield value, name
        if isinstance(value[name], (dict, list)):
            yield from _places(value[name])


def packed(good: bytes, draw: random.Random) -> bytes:
    """Gzip that is cut."""
    whole = gzip.compress(good)
    return whole[: len(whole) - draw.randint(1, 12)]


DAMAGE: list[tuple[str, Callable[[bytes, random.Random], bytes]]] = [
    *((f"{each.__name__}.json", each) for each in (noise, cut, flipped, odd_records, odd_values, huge, deep)),
    *((f"{each.__name__}.json.gz", each) for each in (noise, packed)),
    ("noise.parquet", noise),
    ("noise.avro", noise),
]


def attempted(lake: Lake, spec: TableSpec) -> CompactorError | None:
    """How a run refused, if it did."""
    try:
        counts = lake.run(spec).counts
    except CompactorError as error:
        return error
    assert counts["read"] == sum(number for name, number in counts.items() if name != "read")
    return None


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("envelope", ENVELOPES if FULL else ["flat", "debezium"])
@pytest.mark.slow
def test_good_rows_come_through_whatever_lies_beside_them(lake: Lake, envelope: str, round_: int) -> None:
    """Every file is in exactly one place afterwards, every record is counted once; what is left in landing is so because it may still be growing."""
    record, settings = ENVELOPES[envelope]
    spec = lake.spec(envelope=envelope, quarantine_share=1.0, **settings)
    lake.land(spec, 1, [record(n, 10 + n, f"v{n}") for n in GOOD])
    lake.run(spec)
    folder = Path(spec.landing) / "increment_2024030502"
    folder.mkdir(parents=True)
    (folder / "good.json").write_bytes(text([record(n, 100 + n, "new") for n in GOOD]))
    landed = ["good.json"]
    for name, damage in DAMAGE:
        for number in range(DRAWS):
            draw, first = random.Random(f"{envelope} {name} {number} {round_}"), 1000 * (1 + len(landed))
            landed.append(f"{number}-{name}")
            (folder / landed[-1]).write_bytes(damage(text([record(first + n, first + n, "x") for n in range(20)]), draw))
    refused = attempted(lake, spec)
    assert refused is None, str(refused)
    # of wal2json's types beside the values one that says text makes text of a column
    shown = {str(row["id"]): row["b"] for row in lake.rows(spec) if str(row["id"]) in map(str, GOOD)}
    assert shown == dict.fromkeys(map(str, GOOD), "new")
    waiting = {held.path.rpartition("/")[2] for held in quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))}
    for name in landed:
        places = [place for place in ("incremental", "archive", "quarantine") if [*(Path(spec.root) / place).rglob(name)]]
        assert places in (["archive"], ["quarantine"], ["incremental"]), name
        assert places != ["quarantine"] or name in waiting
        assert places != ["incremental"] or name.endswith((".parquet", ".avro", ".gz")), name
    assert [] == lake.problems(spec)


@pytest.mark.parametrize("name", ["bad.bin", "bad"])
def test_a_name_that_tells_no_format_is_refused_by_its_name(lake: Lake, name: str) -> None:
    """Nothing is absorbed, nothing moves."""
    spec = lake.spec()
    path = lake.land(spec, 1, [flat(1, 1, "x")], file=name)
    refused = attempted(lake, spec)
    assert refused is not None
    assert name in str(refused)
    assert [path.name] == lake.landed(spec)
