"""Whole hours: which hours are whole, as far as pure values decide it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model import times
from compactor.core.model.inputs import IN_QUARANTINE, LEFT_OUT, NOTHING_KNOWN, Brought, Watermark
from compactor.core.model.snapshot import of_json
from compactor.core.sources import whole_hours
from compactor.core.sources.whole_hours import HOUR, UNNAMED, advanced, stream_of
from tests.oracle.sizes import sized

NOW = times.to_micros("2026-11-23T00:00:00Z")


def by(newest: dict[str, int]) -> list[Brought]:
    """Own changes of these streams."""
    return [Brought(name, time, True) for name, time in newest.items()]


def micros(text: str) -> int:
    """A time of 2026-11-20."""
    return times.to_micros(f"2026-11-20T{text}Z")


@pytest.mark.parametrize(
    ("brought", "expected", "incomplete", "whole_to", "note"),
    [
        ({"0": "14:59:59.999999"}, None, "", "14:00", "partition 0 has brought no change after 2026-11-20T14:59:59.999999Z"),
        ({"0": "15:00:00"}, None, "", "15:00", "partition 0 has brought no change after 2026-11-20T15:00:00Z"),
        ({"0": "15:20:00", "1": "12:10:00"}, None, "", "12:00", "partition 1 has brought no change after 2026-11-20T12:10:00Z"),
        ({"0": "15:20:00"}, 2, "", None, "1 of 2 partitions have brought changes"),
        ({"0": "15:20:00", "1": "15:10:00"}, 2, "", "15:00", "partition 1 has brought no change after 2026-11-20T15:10:00Z"),
        ({}, None, "", None, "no change with a source time has been ingested"),
        ({}, 1, "", None, "no change with a source time has been ingested"),
        ({UNNAMED: "15:20:00"}, None, "", None, "the files name no Kafka partition (`partitions: 1` if they come from one ordered stream)"),
        ({UNNAMED: "15:20:00"}, 1, "", "15:00", "the source has brought no change after 2026-11-20T15:20:00Z"),
        ({"0": "15:20:00"}, None, IN_QUARANTINE, None, IN_QUARANTINE),
        ({"0": "15:20:00"}, None, LEFT_OUT, None, LEFT_OUT),
    ],
)
def test_an_hour_is_whole_when_every_stream_has_brought_a_change_from_after_it(
    brought: dict[str, str], expected: int | None, incomplete: str, whole_to: str | None, note: str
) -> None:
    """Else it is not known, and the note says why."""
    made = advanced(NOTHING_KNOWN, by({name: micros(time) for name, time in brought.items()}), NOW, expected, incomplete)
    assert made.whole_to == (whole_to and f"2026-11-20T{whole_to}:00Z")
    assert whole_hours.note(made, expected) == note


def test_a_clock_that_is_ahead_makes_no_hour_whole_that_has_not_ended() -> None:
    """The source says 2099; the commit knows better, and the next change counts again."""
    ahead = advanced(NOTHING_KNOWN, by({"0": times.to_micros("2099-01-01T00:00:00Z")}), micros("14:20:00"), None)
    assert ahead.whole_to == "2026-11-20T14:00:00Z"
    assert advanced(ahead, by({"0": micros("15:30:00")}), micros("15:31:00"), None).whole_to == "2026-11-20T15:00:00Z"


def test_what_was_called_whole_stays_so_when_a_new_partition_is_behind() -> None:
    """And nothing newer is whole until that partition has caught up."""
    before = advanced(NOTHING_KNOWN, by({"0": micros("14:20:00")}), NOW, None)
    behind = advanced(before, by({"0": micros("16:20:00"), "1": micros("11:00:00")}), NOW, None)
    assert (before.whole_to, behind.whole_to) == ("2026-11-20T14:00:00Z", "2026-11-20T14:00:00Z")
    assert advanced(behind, by({"1": micros("15:00:00")}), NOW, None).whole_to == "2026-11-20T15:00:00Z"


def test_a_stream_counts_from_its_first_record_of_the_table_on() -> None:
    """Topics of other tables in the same folder, and heartbeats, are not missed; a change of another table in a known stream is as good as ours."""
    first = advanced(NOTHING_KNOWN, [Brought("a-0", micros("14:20:00"), True), Brought("b-0", micros("11:20:00"), False)], NOW, None)
    assert (first.partitions, first.whole_to) == ((("a-0", "2026-11-20T14:20:00Z"),), "2026-11-20T14:00:00Z")
    second = advanced(first, [Brought("a-0", micros("15:20:00"), False), Brought("heartbeat-0", None, False)], NOW, None)
    assert (len(second.partitions), second.whole_to) == (1, "2026-11-20T15:00:00Z")
    assert advanced(NOTHING_KNOWN, [Brought("a-0", micros("14:20:00"), True), Brought("b-0", 1, False)], NOW, 2).whole_to is None


@pytest.mark.parametrize(
    ("path", "partition", "stream"),
    [
        ("increment_2026112014/pg.public.student+3+0000000042.avro", None, "pg.public.student-3"),
        ("topics/t/partition=3/t+3+0000000042.snappy.parquet", 9, "t-3"),
        ("increment_2026112014/t+0+0000000000000000007-0000000000000000011+Xa_b-1.parquet", 0, "t-0"),
        ("increment_2026112014/part-0.json", 7, "7"),
        ("increment_2026112014/part-0.json", None, UNNAMED),
        ("a+1+2/part-0.json", None, UNNAMED),
    ],
)
def test_streams_are_named_by_the_file_or_by_its_records(path: str, partition: int | None, stream: str) -> None:
    """Two topics in one table have partitions of the same number."""
    assert stream_of(path, partition) == stream


BATCHES = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 30 * HOUR), max_size=3), max_size=8)


@sized(200)
@given(batches=BATCHES, expected=st.sampled_from([None, 1, 3]))
def test_batches_in_any_grouping_end_alike_and_never_go_back(batches: list[dict[str, int]], expected: int | None) -> None:
    """With a fixed number of streams; the text of a watermark is what the next commit continues from."""
    one, steps = NOTHING_KNOWN, []
    for batch in batches:
        one = of_json(Watermark, {"partitions": [list(each) for each in one.partitions], "whole_to": one.whole_to, "incomplete": one.incomplete})
        one = advanced(one, by(batch), 40 * HOUR, expected)
        steps.append(times.to_micros(one.whole_to) if one.whole_to else -1)
    assert steps == sorted(steps)
    if expected == 3:
        together: dict[str, int] = {}
        for batch in batches:
            together = {name: max(batch.get(name, 0), together.get(name, 0)) for name in {*batch, *together}}
        assert advanced(NOTHING_KNOWN, by(together), 40 * HOUR, expected) == one
