"""Whole hours: up to when all changes of a table's source have been ingested (docs/design/input.md#whole-hours).

A stream brings its changes in the order of their source times: a Kafka partition, a task of AWS DMS. When it has brought a change of 15:02, it has
brought everything before 15:00. An hour is whole when that is true of every stream that the table has seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from compactor.core.model import times
from compactor.core.model.inputs import Brought, Watermark
from compactor.core.sources.kafka_files import SINK_FILE

HOUR = 3600 * 1_000_000

UNNAMED = ""
"""The stream of files that name no Kafka partition. Nobody knows how many streams it is."""

_NEVER = "1970-01-01T00:00:00Z"


def obstacle(watermark: Watermark, expected: int | None) -> str:
    """Return why nothing is known of newer hours; "" if only newer changes are missing. `expected`: number of streams, None if unknown."""
    if watermark.incomplete:
        return watermark.incomplete
    names = [name for name, _ in watermark.partitions]
    if not names:
        return "no change with a source time has been ingested"
    if UNNAMED in names and expected != 1:
        return "the files name no Kafka partition (`partitions: 1` if they come from one ordered stream)"
    if len(names) < (expected or 1):
        return f"{len(names)} of {expected} partitions have brought changes"
    return ""


def note(watermark: Watermark, expected: int | None) -> str:
    """Return what the hours after `whole_to` wait for, as a phrase. `expected` as in `obstacle`."""
    problem = obstacle(watermark, expected)
    if problem:
        return problem
    name, time = min(watermark.partitions, key=lambda each: times.to_micros(each[1] or _NEVER))
    return f"{f'partition {name}' if name else 'the source'} has brought no change {f'after {time}' if time else 'with a source time'}"


def covers(watermark: Watermark, end: str) -> bool:
    """Return whether everything before a time (ISO 8601) has been ingested."""
    return watermark.whole_to is not None and times.to_micros(end) <= times.to_micros(watermark.whole_to)


def advanced(before: Watermark, brought: Iterable[Brought], now: int, expected: int | None, incomplete: str = "") -> Watermark:
    """Return the Watermark after a commit.

    A stream counts from its first record of the table on. `now`: the time of the commit in microseconds since 1970; a source whose clock is ahead
    must not make an hour whole that has not ended. `expected` as in `obstacle`.
    """
    newest = {name: times.to_micros(time or _NEVER) for name, time in before.partitions}
    for each in brought:
        if each.own or each.stream in newest:
            newest[each.stream] = max(newest.get(each.stream, 0), min(each.time or 0, now))
    partitions = tuple((name, times.from_micros(micros) if micros else None) for name, micros in sorted(newest.items()))
    made = Watermark(partitions, before.whole_to, incomplete)
    if obstacle(made, expected) or not min(newest.values()):
        return made
    end = times.from_micros(min(newest.values()) // HOUR * HOUR)
    # a stream that the table meets for the first time may be behind: what was called whole stays so
    return made if covers(made, end) else dataclasses.replace(made, whole_to=end)


def stream_of(path: str, partition: int | str | None) -> str:
    """Return the name of the stream that a file's records came from. `partition`: the Kafka partition in the records.

    File names as Kafka Connect's S3 sink and `compactor ingest` write them have topic and partition.

    >>> stream_of("increment_2026112014/pg.public.student+3+0000000042.avro", None)
    'pg.public.student-3'
    >>> stream_of("increment_2026112014/part-0.json", 3), stream_of("increment_2026112014/part-0.json", None)
    ('3', '')
    """
    match = SINK_FILE.match(path.rsplit("/", 1)[-1])
    if match:
        return f"{match['topic']}-{match['partition']}"
    return UNNAMED if partition is None else str(partition)


def brought_by_stream(records: Iterable[tuple[str, int | str | None, int | None, bool]]) -> tuple[Brought, ...]:
    """Return what each stream brought, for records of (path of the file, Kafka partition, source time in microseconds, whether they are the table's).

    The time of reads of a snapshot must be None: a snapshot is ahead of changes that are still to come. A partition that has brought nothing else
    counts, because its changes will come. Files without partition and without source times, such as those of a first load, do not.

    >>> brought_by_stream([("t+0+1.json", None, 7, True), ("t+0+2.json", None, 5, False), ("t+1+1.json", None, None, True), ("a", None, None, True)])
    (Brought(stream='t-0', time=7, own=True), Brought(stream='t-1', time=None, own=True))
    """
    streams: dict[str, Brought] = {}
    for path, partition, time, own in records:
        made = Brought(stream_of(path, partition), time, own)
        before = streams.get(made.stream, made)
        streams[made.stream] = Brought(made.stream, max((each for each in (before.time, time) if each is not None), default=None), before.own or own)
    return tuple(streams[name] for name in sorted(streams) if streams[name].time is not None or name != UNNAMED)
