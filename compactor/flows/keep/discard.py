"""Discard: delete ingested raw files from the archive when `archive_retention` is over. A part of vacuum.

First vacuum's Snapshot notes `discarded` entries in the ledger, then the files are deleted. A crash in between leaves files that the next vacuum
deletes. A file with records in quarantine, or whose rows a restore undid, stays: it is the only place where they are. So does the newest file of
each Kafka partition, because `ingest` continues after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.sources.kafka_files import offsets_of
from compactor.flows import ledger
from compactor.flows.publish import archive
from compactor.flows.table import Table

DISCARDED = "discarded"


@dataclass(frozen=True)
class Discards:
    """Raw files past `archive_retention`."""

    entries: tuple[Input, ...] = ()
    """Entries for the ledger, about inputs whose files go now for the first time."""
    files: tuple[FileInfo, ...] = ()
    """Files that go, also those that an interrupted vacuum left."""


def due(table: Table, newest: Snapshot, now: float) -> Discards:
    """What may go at `now`, epoch seconds of the store's clock; a file's age counts from its Last-Modified."""
    if table.spec.archive_retention is None:
        return Discards()
    layout = table.layout
    there = {info.path: info for info in table.storage.list(layout.inside("archive"))}
    by_path: dict[str, list[Input]] = {}
    for item in ledger.latest(ledger.everything(table, newest)).values():
        by_path.setdefault(item.path, []).append(item)
    entries: list[Input] = []
    files: list[FileInfo] = []
    kept = _newest_of_partitions(by_path)
    for path, inputs in by_path.items():
        if path in kept:
            continue
        # inputs of one name may have each other's places: they go together or not at all
        files_of_name = _files(table, inputs, there)
        if (
            files_of_name
            and all(_spent(item) for item in inputs)
            and all(now - info.modified >= table.spec.archive_retention for info in files_of_name)
        ):
            files += files_of_name
            entries += [dataclasses.replace(item, outcome=DISCARDED, quarantined=0) for item in inputs if item.outcome != DISCARDED]
    return Discards(tuple(entries), tuple(files))


def _newest_of_partitions(paths: Iterable[str]) -> set[str]:
    """Return the newest file of `ingest` for each partition: the names of files are its memory."""
    newest: dict[tuple[str, int, str], tuple[int, str]] = {}
    for path in paths:
        item = offsets_of(path)
        if item is not None:
            place = (item.topic, item.partition, item.topic_id)
            newest[place] = max(newest.get(place, (-1, "")), (item.last, path))
    return {path for _, path in newest.values()}


def _spent(item: Input) -> bool:
    """Whether all that an input can give is in the table."""
    return not item.unabsorbed and not item.in_quarantine


def _files(table: Table, inputs: Sequence[Input], there: Mapping[str, FileInfo]) -> list[FileInfo]:
    places = dict.fromkeys(place for item in inputs for place in archive.places(table, item))
    return [there[place] for place in places if place in there]
