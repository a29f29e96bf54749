"""Deciding: what to take from landing, how to write it, what to fold. Pure functions over values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compactor.core.model.errors import InputRefused
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Input, Segment, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.sources import full_loads, increment

DELTA_LIMIT = 8 << 20
"""Bytes of Spark's own estimate up to which readers get a broadcast join; its threshold is 10 MB (E2)."""

UNFINISHED_GRACE = 900.0
"""Seconds for which a file that cannot hold data yet (empty, or without the end its format asks for) may still be being written."""

_NEVER_EMPTY = ("parquet", "avro")
"""Formats whose smallest file has a header or footer: an empty one was never finished."""

_WIDTHS = {"string": 20, "binary": 100, "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "date": 4, "float": 4}


@dataclass(frozen=True)
class LandedFile:
    """A file in landing: `path` below the landing root, `size` bytes, `modified` epoch seconds."""

    path: str
    size: int
    etag: str
    modified: float


@dataclass(frozen=True)
class Landing:
    """What lies in landing: `new` inputs to absorb; `waiting` are younger than `settle` or still being written; `skipped` are before `from`;
    `ignored` are no data."""

    new: tuple[Input, ...]
    waiting: int = 0
    skipped: int = 0
    ignored: int = 0
    absorbed: int = 0

    @property
    def size(self) -> int:
        """Bytes of new inputs."""
        return sum(item.size for item in self.new)


def discover(spec: TableSpec, found: Iterable[LandedFile], absorbed: frozenset[tuple[str, str]], now: float) -> Landing:
    """New inputs = landing − ledger. `absorbed` holds (path, etag).

    A Parquet or Avro file that has stayed empty is taken, and will be found unusable.
    Of full copies (`core/sources/full_loads.py`) only whole ones are taken. Raises InputRefused when files lie there and none fits the
    pattern.
    """
    new, waiting, skipped, ignored, known = [], 0, 0, 0, 0
    strange: list[str] = []
    unfinished: set[str] = set()
    found = list(found)
    first = increment.landed(spec.pattern, f"{spec.first_folder}/", spec.hours_in) if spec.first_folder else None
    for item in found:
        if increment.ignored(item.path):
            ignored += 1
            continue
        place = increment.landed(spec.pattern, item.path, spec.hours_in, spec.source.load_files)
        if place is None:
            strange.append(item.path)
        elif (item.path, item.etag) in absorbed:
            known += 1
        elif spec.first_folder and _before(place, spec.first_folder, first):
            skipped += 1
        elif now - item.modified < spec.settle:
            waiting += 1
            unfinished.add(place.folder)
        elif item.size == 0:
            if _format(spec, item.path) not in _NEVER_EMPTY:
                ignored += 1
            elif now - item.modified < UNFINISHED_GRACE:
                waiting += 1
                unfinished.add(place.folder)
            else:
                new.append(Input(item.path, item.size, item.etag, place.folder, place.hour))
        else:
            new.append(Input(item.path, item.size, item.etag, place.folder, place.hour))
    if strange and not (new or waiting or known or skipped):
        raise InputRefused(
            f"table {spec.name}: {len(strange)} files below {spec.landing}, none in a folder named like {spec.pattern!r} "
            f"(found {strange[0]}). Correct `increments:`."
        )
    if spec.source.full_loads and new:
        whole = full_loads.whole(spec, ((item.path, item.modified) for item in found), now) - unfinished
        waiting += sum(item.folder not in whole for item in new)
        new = [item for item in new if item.folder in whole]
    return Landing(tuple(sorted(new, key=lambda item: item.path)), waiting, skipped, ignored + len(strange), known)


def _before(place: increment.Landed, folder: str, first: increment.Landed | None) -> bool:
    """Whether an increment comes before the first to take: by the hour that the folders name (`05-03-2024` sorts badly as text)."""
    if first is not None and first.hour and place.hour:
        return place.hour < first.hour
    return place.folder < folder


def _format(spec: TableSpec, path: str) -> str | None:
    return spec.format if spec.format != "auto" else increment.file_format(path)


def row_width(schema: Schema) -> int:
    """Bytes Spark assumes for a row."""
    return 8 + sum(_WIDTHS.get(field.type, 8) for field in schema.fields)


def delta_estimate(snapshot: Snapshot) -> int:
    """What Spark takes the Delta's keys for when it decides about a broadcast: files × key widths / all widths (E2)."""
    if snapshot.delta is None:
        return 0
    keys = 8 + sum(_WIDTHS.get(snapshot.schema.field(name).type, 8) for name in snapshot.schema.key)
    return snapshot.delta.size * keys // (row_width(snapshot.schema) + 150)


def whole_base(spec: TableSpec, parent: Snapshot | None, changes: int, retyped: bool, truncated: bool) -> bool:
    """Whether this commit writes a whole new base instead of a Delta.

    The first load, a changed column type (H14), a truncate (its barrier may cut through segments), `write_mode: copy-on-write`, and a table of
    which so much changes at once that a Delta would only be folded again. A small table is cheaper to rewrite than to join.
    """
    if parent is None or not parent.segments or retyped or truncated or spec.write_mode == "copy-on-write":
        return True
    if spec.write_mode == "merge-on-read":
        return False
    rows = sum(segment.rows for segment in parent.segments)
    return changes >= max(rows, 1) // 2


def compaction_allowed(window: tuple[int, int], seconds: float) -> bool:
    """Whether a time (seconds since 1970) lies in a window of the day, in minutes of UTC: the first one of it, the first one after it.

    >>> [fold_allowed((22 * 60, 5 * 60 + 30), hour * 3600.0) for hour in (21, 22, 5, 6)]
    [False, True, True, False]
    """
    first, last = window
    minute = int(seconds // 60) % (24 * 60)
    return first <= minute < last if first <= last else minute >= first or minute < last


def compaction_threshold(changes: int, base_rows: int) -> float:
    """The share of Delta rows from which a segment is worth rewriting: sqrt(2C/N), where waiting costs as much as folding (design.md section 8)."""
    return min(1.0, math.sqrt(2.0 * max(changes, 1) / max(base_rows, 1)))


def compaction_targets(snapshot: Snapshot, shares: dict[str, int], changes: int) -> tuple[Segment, ...]:
    """The segments worth folding now, those with the largest share first. `changes`: rows a run brings; `shares`: Delta rows per segment."""
    if snapshot.delta is None:
        return ()
    rows = sum(segment.rows for segment in snapshot.segments)
    threshold = compaction_threshold(changes, rows)
    ranked = sorted(snapshot.segments, key=lambda segment: -shares.get(segment.id, 0) / max(segment.rows, 1))
    # not "more than": where most rows change in every run the threshold is 1, and a Delta of updates never holds more rows than the base
    worth = [segment for segment in ranked if shares.get(segment.id, 0) >= threshold * max(segment.rows, 1)]
    if not worth and delta_estimate(snapshot) > DELTA_LIMIT:
        # readers pay for a Delta that is no longer broadcast: fold the fullest quarter of the segments
        worth = [segment for segment in ranked[: max(1, len(ranked) // 4)] if shares.get(segment.id, 0)]
    return tuple(worth)


def can_rebase(fold_parent: Snapshot, newer: Snapshot, replaced: Sequence[Segment]) -> bool:
    """Whether a fold made on `fold_parent` still holds on `newer` (H16): its segments are there and no barrier moved."""
    ids = {segment.id for segment in newer.segments}
    same = (
        fold_parent.truncated_to == newer.truncated_to
        and fold_parent.epoch == newer.epoch
        and fold_parent.schema.generation == newer.schema.generation
        and fold_parent.uuid == newer.uuid
    )
    return same and all(segment.id in ids for segment in replaced)


def tiling_problem(segments: Sequence[Segment]) -> str | None:
    """Why these segments do not tile the key space, or None."""
    if not segments:
        return None
    if segments[0].low is not None or segments[-1].high is not None:
        return "the first range must begin at -∞ and the last end at +∞"
    for left, right in zip(segments, segments[1:]):
        if left.high is None or left.high != right.low:
            return f"{left.id} ends at {left.high}, {right.id} begins at {right.low}"
    return None
