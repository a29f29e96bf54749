"""Names of the files that `ingest` writes, `<topic>+<partition>+<first offset>-<last offset>+<id of the topic>.parquet`, and their inverse.

`ingest` keeps no other state: records in a file with such a name in landing, archive or quarantine are done. Offsets are inclusive, and padded so
that names sort in their order. Topics have no plus sign (Kafka allows letters, digits, `.`, `_`, `-`). A topic that is created anew has another id;
brokers before 2.8 give none, and then the name has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from compactor.core.model.files import FileInfo

_NAME = re.compile(r"(?:[0-9A-Za-z]+~)?(?P<topic>[A-Za-z0-9._-]+)\+(?P<partition>\d+)\+(?P<first>\d+)-(?P<last>\d+)(?:\+(?P<id>[\w-]+))?\.parquet")

SINK = "+"
"""The sign between the parts of a name of a sink; no other identity of a file has it."""

SINK_FILE = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)\+(?P<partition>\d+)\+\d+")
"""What a name begins with that Kafka Connect's S3 sink or `ingest` gave."""


@dataclass(frozen=True)
class Offsets:
    """A range of records of one partition."""

    topic: str
    partition: int
    first: int
    last: int
    """Offset of the last record (inclusive)."""
    topic_id: str = ""
    """Kafka's id of the topic; "" if the broker gives none."""

    def name(self) -> str:
        identity = f"+{self.topic_id}" if self.topic_id else ""
        return f"{self.topic}+{self.partition}+{self.first:019d}-{self.last:019d}{identity}.parquet"


def sink_name(path: str) -> str | None:
    """Return what the S3 sink of Kafka Connect calls the records from one offset on, or None for another file.

    A sink that is started again writes the name again, with the same records and perhaps more. What follows the offset may be a copy's.

    >>> sink_name("increment_2026112014/pg.public.student+0+0000000007.json.gz")
    'pg.public.student+0+0000000007'
    >>> sink_name("increment_2026112014/pg.public.student+0+0000000007 (1).json.gz")
    'pg.public.student+0+0000000007'
    >>> sink_name("increment_2026112014/part-0.json")
    """
    match = SINK_FILE.match(path.rsplit("/", 1)[-1])
    return match[0] if match else None


@dataclass(frozen=True)
class Bounds:
    """What Kafka has of a partition."""

    begin: int
    """The first offset still there."""
    end: int
    topic_id: str = ""


def offsets_of(path: str) -> Offsets | None:
    """Return the range of a file by its name, or None if `ingest` did not write it. In the archive the name may have a prefix.

    >>> offsets_of("increment_2026112014/pg.public.student+0+0000000000000000007-0000000000000000011.parquet")
    Offsets(topic='pg.public.student', partition=0, first=7, last=11, topic_id='')
    """
    match = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    return Offsets(match["topic"], int(match["partition"]), int(match["first"]), int(match["last"]), match["id"] or "") if match else None


@dataclass(frozen=True)
class Fetched:
    """A staged Parquet file with Kafka records (key, value, topic, partition, offset, timestamp, headers)."""

    offsets: Offsets
    """The range that was read."""
    file: FileInfo
    records: int
    """Records in it. It may be 0, after aborted transactions."""
    until: float | None
    """The time of the newest record, in epoch seconds; None if no record has one."""
