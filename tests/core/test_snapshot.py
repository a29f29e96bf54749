"""Snapshot: JSON and back, and what is no Snapshot of this format is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.errors import StateRefused
from compactor.core.model.files import DataFile, Delta, FeedPart, Segment
from compactor.core.model.inputs import Input, LedgerFile, Watermark
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import COUNTS, FORMAT, Feed, PendingDeletion, Pin, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.settings.job_config import JobConfig
from tests.oracle.sizes import sized

TEXT = st.text(max_size=6)
NUMBERS = st.integers(0, 2**70)
POSITIONS = st.none() | st.tuples(st.integers(-1, 3), st.none() | st.integers(), st.none() | TEXT, TEXT, NUMBERS, NUMBERS)
BOUNDS = st.none() | st.tuples(TEXT, st.integers())
NAMES = st.lists(TEXT, max_size=2).map(tuple)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple)
FIELDS = st.builds(Field, TEXT, TEXT, TEXT, NUMBERS, POSITIONS, POSITIONS, st.none() | st.integers() | TEXT | st.booleans(), st.booleans(), TEXT)
SCHEMAS = st.builds(Schema, st.lists(FIELDS, max_size=3).map(tuple), NAMES, NUMBERS)
FILES = st.lists(st.builds(DataFile, TEXT, NUMBERS), max_size=2).map(tuple)
SEGMENTS = st.builds(Segment, TEXT, TEXT, NUMBERS, NUMBERS, FILES, BOUNDS, BOUNDS, POSITIONS, POSITIONS, NUMBERS, NAMES)
DELTAS = st.builds(Delta, TEXT, TEXT, NUMBERS, NUMBERS, FILES, POSITIONS, POSITIONS, NAMES)
PARTS = st.none() | st.builds(FeedPart, TEXT, NUMBERS, FILES, NUMBERS, NUMBERS, NUMBERS)
FEEDS = st.none() | st.builds(Feed, st.sampled_from(("net", "off")), NUMBERS, NUMBERS, st.booleans(), PARTS)
INPUTS = st.lists(st.builds(Input, TEXT, NUMBERS, TEXT, TEXT, st.none() | TEXT, NUMBERS, POSITIONS, POSITIONS, TEXT), max_size=2).map(tuple)
SNAPSHOTS = st.builds(
    Snapshot, table=TEXT, uuid=TEXT, version=NUMBERS, parent=st.none() | NUMBERS, writer=TEXT, run=TEXT, time=TEXT, operation=TEXT, schema=SCHEMAS,
    order=PAIRS, base_id=TEXT, segments=st.lists(SEGMENTS, max_size=2).map(tuple), delta=st.none() | DELTAS, inputs=INPUTS, pending=INPUTS,
    ledger=st.lists(st.builds(LedgerFile, TEXT, NUMBERS, NAMES), max_size=2).map(tuple), counts=st.dictionaries(st.sampled_from(COUNTS), NUMBERS),
    ties=NUMBERS, unresolved=NUMBERS, hour=st.none() | TEXT, position=POSITIONS, source_time=st.none() | TEXT, truncated_to=POSITIONS,
    purged_to=POSITIONS, epoch=NUMBERS, compacted_at=st.none() | TEXT, base_source_time=st.none() | TEXT, envelope=TEXT, brought=NUMBERS, raw=PAIRS, raw_format=TEXT,
    pending_deletions=st.lists(st.builds(PendingDeletion, TEXT, st.floats(0, 1e10), TEXT), max_size=2).map(tuple),
    pins=st.lists(st.builds(Pin, TEXT, NUMBERS, TEXT), max_size=2).map(tuple), restored=st.none() | NUMBERS, oldest=NUMBERS, expired=st.booleans(),
    feed=FEEDS, watermark=st.builds(Watermark, st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=2).map(tuple), st.none() | TEXT, TEXT),
)  # fmt: skip


def one() -> Snapshot:
    """A Snapshot with something in every part."""
    position = (0, 5, "f", 0, 1)
    files = (DataFile("p", 7),)
    schema = Schema((Field("id", "ID", "bigint"), Field("a", "a", "int", 2, position, position, 5)), ("id",))
    segment = Segment("s", "base/s", 10, 2, files, None, None, position, position, 3, ("a",))
    delta = Delta("d", "delta/d", 4, 1, files, position, (0, 9, "f", 0, 1), ("b",))
    given = (Input("f/a", 1, "e", "f", "2026-01-01T00:00", 3, position, position),)
    return Snapshot(
        "t", "u", 2, 1, "w", "", "2026-01-01T00:00:00Z", "commit", schema, (("seq", "bigint"),), "b", (segment,), delta, position=position,
        truncated_to=(0, 7, "f", 0, 1), inputs=given, pending=given, ledger=(LedgerFile("l", 1, ("f",)),), counts={"read": 1, "applied": 1},
    )  # fmt: skip


def test_the_documents_show_every_field_that_is_stored() -> None:
    """In its order, also inside of lists. What the example leaves out is "..."."""
    page = (Path(__file__).parents[2] / "docs" / "design" / "protocol.md").read_text(encoding="utf-8")
    example = json.loads(page.partition("A Snapshot as a run wrote it")[2].partition("```json")[2].partition("```")[0])
    stored = json.loads(dataclasses.replace(one(), pins=(Pin("p", 1, "t"),)).to_bytes())
    parts: list[tuple[object, object]] = [(example, stored)]
    for shown, there in parts:
        if isinstance(shown, dict) and isinstance(there, dict):
            assert [*shown] == [*there] or {*there} == {"read", "applied"}
            parts += [(value, there[name]) for name, value in shown.items() if name in there]
        elif isinstance(shown, list) and isinstance(there, list):
            parts += [*zip(shown, there)]


@sized(150)
@given(snapshot=SNAPSHOTS)
def test_a_snapshot_reads_back_equal(snapshot: Snapshot) -> None:
    """Every value, tuples as tuples, and the same bytes again: a writer recognises its own."""
    data = snapshot.to_bytes()
    again = Snapshot.from_bytes(data)
    assert again == snapshot
    assert again.to_bytes() == data


@sized(50)
@given(snapshot=SNAPSHOTS)
def test_a_stub_remembers_what_happened_and_names_nothing(snapshot: Snapshot) -> None:
    """It reads back like any other, and a stub of a stub is the same."""
    stub = Snapshot.from_bytes(snapshot.stub().to_bytes())
    assert (stub.expired, stub.named) == (True, frozenset())
    assert (stub.version, stub.writer, stub.time, stub.counts) == (snapshot.version, snapshot.writer, snapshot.time, snapshot.counts)
    assert stub.stub() == stub


def test_a_snapshot_names_what_it_needs() -> None:
    """Its Segments, its Delta and its ledger files."""
    assert one().named == {"base/s", "delta/d", "l"}


def test_a_snapshot_is_readable_json_with_its_format_number() -> None:
    """People look at it; versions of this program tell it apart."""
    raw = json.loads(one().to_bytes())
    assert raw["format"] == FORMAT == 3
    assert raw["segments"][0]["position_min"] == [0, 5, "f", 0, 1]


@pytest.mark.parametrize("result", [0, 1, 2, 99, None, "3"])
def test_another_format_is_refused(result: object) -> None:
    """With what was found, what is read, and what to do."""
    data = json.dumps({**json.loads(one().to_bytes()), "format": result}).encode()
    with pytest.raises(StateRefused, match=r"/s/2\.json: expected format 3, found "):
        Snapshot.from_bytes(data, "/s/2.json")


def damaged() -> list[bytes]:
    """Texts that are no Snapshot."""
    raw = json.loads(one().to_bytes())
    bad = [{name: value for name, value in raw.items() if name != gone} for gone in ("schema", "segments", "inputs", "version")]
    bad += [{**raw, "unknown": 1}, {**raw, "segments": [{}]}, {**raw, "delta": {"id": "d"}}, {**raw, "schema": None}, {**raw, "order": [1]}]
    return [json.dumps(each).encode() for each in bad] + [b"", b"{", b"[]", b"null", b"\xff\xfe", one().to_bytes()[:-20], b'{"format": 1}']


@pytest.mark.parametrize("data", damaged(), ids=range(len(damaged())))
def test_a_damaged_text_is_refused(data: bytes) -> None:
    """Never a half-understood state."""
    with pytest.raises(StateRefused):
        Snapshot.from_bytes(data, "/s/2.json")


def test_what_a_snapshot_tells_about_itself() -> None:
    """Live rows at most, bytes, unavailable columns, and the Position below which Changes must be compared."""
    snapshot = one()
    assert snapshot.rows == 10 - 2 + 4 - 1
    assert snapshot.size == 14
    assert snapshot.unavailable_columns == ("a", "b")
    assert snapshot.position_max == (0, 9, "f", 0, 1)
    bare = dataclasses.replace(snapshot, delta=None, segments=(), truncated_to=None)
    assert (bare.rows, bare.size, bare.unavailable_columns, bare.position_max) == (0, 0, (), None)


def test_tables_of_another_generation_are_needed_where_columns_key_or_order_differ() -> None:
    """A Position in them has a member for each order column."""
    snapshot = one()
    schema, order = snapshot.schema, snapshot.order
    assert snapshot.generation_of(dataclasses.replace(schema, generation=7), order) == schema.generation
    others = [
        (schema, (*order, ("sub", "string"))),
        (dataclasses.replace(schema, key=("a",)), order),
        (dataclasses.replace(schema, fields=schema.fields[:1]), order),
    ]
    assert {snapshot.generation_of(*each) for each in others} == {schema.generation + 1}


def test_a_spec_reads_back_equal() -> None:
    """What travels to a cluster."""
    spec = TableSpec("t", "/r", "/l", "", "d", "v", "d", ("a", "b"), order_by=("x",), op_map=(("I", "c"),), metadata_columns=("m",))
    assert JobConfig.read(JobConfig((spec,), "/lake").written()).specs[0] == spec
    assert not spec.keyless
