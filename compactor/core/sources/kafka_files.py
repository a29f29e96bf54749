"""Names of the files that `ingest` writes, `<topic>+<partition>+<first offset>-<last offset>.parquet`, and their inverse.

The names are the whole memory of `ingest`: what lies in landing, archive or quarantine under such a name has been taken.
Offsets are inclusive, padded so that names sort as they do; topics hold no plus sign (Kafka: letters, digits, `.`, `_`, `-`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from compactor.core.model.files import FileInfo

_NAME = re.compile(r"(?:[0-9A-Za-z]+~)?(?P<topic>[A-Za-z0-9._-]+)\+(?P<partition>\d+)\+(?P<first>\d+)-(?P<last>\d+)\.parquet")


@dataclass(frozen=True)
class Offsets:
    """Records `first`..`last` (inclusive) of one partition of a topic."""

    topic: str
    partition: int
    first: int
    last: int

    def name(self) -> str:
        """The file's name."""
        return f"{self.topic}+{self.partition}+{self.first:019d}-{self.last:019d}.parquet"


def offsets_of(path: str) -> Offsets | None:
    """What a file holds by its name (in the archive it may carry a prefix), or None: `ingest` did not write it.

    >>> offsets_of("increment_2026112014/pg.public.student+0+0000000000000000007-0000000000000000011.parquet")
    Offsets(topic='pg.public.student', partition=0, first=7, last=11)
    """
    match = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    return Offsets(match["topic"], int(match["partition"]), int(match["first"]), int(match["last"])) if match else None


@dataclass(frozen=True)
class Fetched:
    """A staged Parquet file with Kafka records (key, value, topic, partition, offset, timestamp, headers).

    `records` of them lie in `offsets`; `until` is the newest one's time, epoch seconds, None when there is none (aborted transactions).
    """

    offsets: Offsets
    file: FileInfo
    records: int
    until: float | None
