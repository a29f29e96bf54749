"""Edits: what the next Snapshot keeps of its parent, and what an Edit requires of the version that it is applied to."""

from __future__ import annotations

import dataclasses

import pytest

from compactor.core.model.edit import ContinuesState, Edit, HasSegments, NewestIs, NotReplaced, Requirement, Stamp, apply, unmet
from compactor.core.model.files import DataFile, Delta, FeedPart, Segment
from compactor.core.model.inputs import Input, Watermark
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Feed, PendingDeletion, Pin, Snapshot, State

SCHEMA = Schema((Field("id", "id", "bigint"),), ("id",))
STAMP = Stamp("t", "new-uuid", "hourly", "2026-01-01T00:00:00.000Z")
INPUT = Input("f/a", 1, "e", "f", None)


def segment(name: str) -> Segment:
    """A Segment over all keys."""
    return Segment(name, f"base/{name}", 1, 0, (DataFile("p", 1),), None, None, None, None, 0)


WATERMARK = Watermark((("0", "2026-01-01T00:00:00Z"), ("1", None)), "2026-01-01T00:00:00Z", "why")
STATE = State(SCHEMA, (("seq", "bigint"),), "b", (segment("s"),), None, hour="2026-01-01T00:00", epoch=2)
PARENT = Snapshot(
    *("t", "u", 7, 6, "w", "", "", "commit"),
    **{each.name: getattr(STATE, each.name) for each in dataclasses.fields(State)},
    inputs=(INPUT,),
    pending=(INPUT,),
    counts={"read": 3},
    ties=4,
    unresolved=5,
    pending_deletions=(PendingDeletion("base/x", 1.0, "expired"),),
    pins=(Pin("p", 3, ""),),
    restored=2,
    replaced=4,
    oldest=3,
    feed=Feed("net", 0, 0, part=FeedPart("feed/w", 1, (), 1, 0, 0)),
)


def test_what_an_edit_does_not_name_stays_as_the_parent_has_it() -> None:
    """State, files that are not archived, pins and pending deletions are carried; what concerns one version only is not."""
    made = apply(PARENT, Edit("pin", "w8"), STAMP)
    assert made.state == PARENT.state
    assert (made.version, made.parent, made.uuid, made.writer, made.run) == (8, 7, "u", "w8", "hourly")
    assert (made.pending, made.pins, made.pending_deletions, made.oldest) == (PARENT.pending, PARENT.pins, PARENT.pending_deletions, 3)
    assert (made.inputs, made.counts, made.ties, made.unresolved, made.restored) == ((), {}, 0, 0, None)
    assert made.feed == dataclasses.replace(PARENT.feed, part=None)  # type: ignore[type-var]
    assert made.replaced == 4


def test_every_field_of_a_state_comes_from_the_edit() -> None:
    """A field that is added to State needs no line in `apply`."""
    other = State(
        Schema((), ()), (("lsn", "string"),), "c", (), None, "h", (1,), "s", (2,), (3,), ((4, 4),), 9, "f", "b", "dms", 5, (("a", "int"),), "avro", ((0, 1),), None,
        WATERMARK, (("eu", (1,)),), ((0, "eu", 7),),
    )  # fmt: skip
    assert all(getattr(other, each.name) != getattr(STATE, each.name) or each.name in ("delta", "history") for each in dataclasses.fields(State))
    assert apply(PARENT, Edit("restore", "w", other, replaces=True), STAMP).state == other


def test_the_first_version_draws_the_uuid_of_the_stamp_and_needs_a_state() -> None:
    """Later ones keep their parent's."""
    made = apply(None, Edit("commit", "w", STATE), STAMP)
    assert (made.version, made.parent, made.uuid, made.replaced) == (1, None, "new-uuid", 1)
    with pytest.raises(ValueError, match="needs a State"):
        apply(None, Edit("pin", "w"), STAMP)


@pytest.mark.parametrize(("replaces", "expected"), [(True, 8), (False, 4)])
def test_a_version_notes_when_the_state_was_last_replaced(replaces: bool, expected: int) -> None:
    """Restores and rebuilds replace it; commits, compactions, pins and vacuums continue it."""
    assert apply(PARENT, Edit("x", "w", STATE, replaces=replaces), STAMP).replaced == expected


def newer(**changes: object) -> Snapshot:
    """A later version."""
    return dataclasses.replace(PARENT, **{"version": 9, **changes})


@pytest.mark.parametrize(
    ("requirement", "newest", "problem"),
    [
        (NewestIs(7), PARENT, None),
        (NewestIs(7), newer(), "expected version 7 to be the newest, found 9"),
        (NewestIs(0), None, None),
        (NewestIs(0), PARENT, "expected version 0 to be the newest, found 7"),
        (NotReplaced(7), newer(), None),
        (NotReplaced(7), newer(replaced=8), "expected no restore or rebuild since version 7, found version 8"),
        (HasSegments(("s",)), newer(), None),
        (HasSegments(("s",)), newer(segments=(segment("other"),)), "expected segment s in the base, found it replaced"),
        (HasSegments(("s",)), newer(segments=(segment("other"), segment("s"))), None),
        (HasSegments(("s",)), newer(segments=()), "expected segment s in the base, found it replaced"),
        (ContinuesState(PARENT), newer(), None),
        (ContinuesState(PARENT), newer(delta=Delta("d", "delta/d", 1, 0, (), None, None)), None),
        (ContinuesState(PARENT), newer(replaced=9), "expected no restore or rebuild since version 7, found version 9"),
        (ContinuesState(PARENT), newer(truncated_to=(1,)), "expected truncated_to None, found (1,)"),
        (ContinuesState(PARENT), newer(epoch=3), "expected epoch 2, found 3"),
        (ContinuesState(PARENT), newer(uuid="v"), "expected the table u, found v"),
        (ContinuesState(PARENT), newer(schema=dataclasses.replace(SCHEMA, generation=2)), "expected schema generation 1, found 2"),
        (ContinuesState(PARENT), None, "expected the table u, found none"),
    ],
)
def test_a_requirement_says_what_it_expected_and_found(requirement: Requirement, newest: Snapshot | None, problem: str | None) -> None:
    """Or nothing, when it is met."""
    assert requirement.problem(newest) == problem
    assert unmet((NewestIs(newest.version if newest else 0), requirement), newest) == problem
