"""Raw files in the archive: which of them go when `archive_retention` is over (a part of vacuum), and which have records of erased keys.

First vacuum's Snapshot notes `discarded` entries in the ledger, then the files are deleted. A crash in between leaves files that the next vacuum
deletes. A file with records in quarantine, or whose rows a restore undid, stays: it is the only place where they are. So does the newest file of
each Kafka partition, because `ingest` continues after it.

A copy of a file without the records of erased keys is written before the erase is committed, because the ledger has its size, and put into its place
after. If the erase is interrupted, vacuum deletes the copy, and the records are found again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from compactor.core.formats.csv_dialect import columns_of_file, columns_of_lines
from compactor.core.model.errors import InputRefused, Refused, TryLater
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input, other_events
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.parallel import in_parallel
from compactor.core.results.batch import ErasedRecords
from compactor.core.results.phrases import counted
from compactor.core.results.reports import ReencryptReport
from compactor.core.sources.kafka_files import offsets_of
from compactor.flows import ledger, logs
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
        places = dict.fromkeys(place for item in inputs for place in archive.places(table, item))
        files_of_name = [there[place] for place in places if place in there]
        # all that they can give is in the table
        spent = not any(item.unabsorbed or item.in_quarantine for item in inputs)
        if files_of_name and spent and all(now - info.modified >= table.spec.archive_retention for info in files_of_name):
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


@dataclass(frozen=True)
class RawFile:
    """A file in the archive with records of erased keys."""

    info: FileInfo
    inputs: tuple[Input, ...]
    """The newest ledger entries of the inputs that it holds."""
    records: ErasedRecords
    copy: FileInfo | None = None
    """A copy without the records; None if there is none yet, or if the file is deleted as a whole."""


def find(table: Table, snapshot: Snapshot, erased: Erased) -> list[RawFile]:
    """Return the files in the archive that have records of erased keys.

    Raises Refused for a file that no version ingested, TryLater if a run may have ingested it since `snapshot`.
    """
    layout = table.layout
    owners: dict[str, list[Input]] = {}
    for item in ledger.latest(ledger.everything(table, snapshot)).values():
        for place in archive.places(table, item):
            owners.setdefault(place, []).append(item)
    there = {info.path: info for info in table.storage.list(layout.inside("archive"))}
    if unaccounted := [location for location in there if location not in owners]:
        if table.superseded_since(snapshot):
            raise TryLater(f"table {table.name}: version {snapshot.version + 1} was committed meanwhile; erase again")
        raise Refused(f"table {table.name}: no version ingested {unaccounted[0]}, so nobody knows what is in it. Nothing was erased. Move it.")
    chosen = []
    # an empty one stands for a file that was given up in quarantine, of any format
    for group in _one_of_a_name({location: owners[location][0] for location, info in there.items() if info.size}):
        # with rows, a file of CSV is read by the columns that it was ingested with
        rows = {item: item.rows - item.quarantined if item.columns else 0 for item in group.values()}
        inputs = [dataclasses.replace(item, rows=rows[item], outcome="absorbed", quarantined=0, reason="") for item in group.values()]
        locations = {item.id: location for location, item in group.items()}
        with logs.phase(table, "searching") as phase:
            try:
                results = table.engine().records_of(table.spec, snapshot, inputs, locations, erased)
            except InputRefused as error:
                both = next((both for item in group.values() if item.path in str(error) and (both := archive.repaired(table, item))), None)
                if both is None:
                    raise
                raise InputRefused(f"{error} Its repaired copy is {both[1]}: remove {both[0]} if all of its records are in the copy.") from error
            phase.did(f"searched {counted(len(group), 'raw file')}", files=len(group))
        for location, item in group.items():
            info, records = there[location], results[item.path]
            ingested = [each for each in owners[location] if each.size == info.size]
            if problem := _other_columns(table, location, item) or other_events(location, ingested, records.events):
                # nobody knows whose the other events are
                raise Refused(f"table {table.name}: {problem}. Nothing was erased. Restore the file, or the settings with which it was read.")
            if records.numbers:
                chosen.append(RawFile(info, tuple(each for each in owners[location] if archive.place(table, each) == location), records))
    return chosen


def _other_columns(table: Table, location: str, item: Input) -> str | None:
    """Return that a file of CSV is read by other columns than when it was ingested, or None."""
    named = columns_of_lines(table.spec)
    if not (named and item.columns) or columns_of_file(named, item.columns) == item.columns:
        return None
    return f"{location}: was read as CSV with the columns {', '.join(item.columns)}, and `csv:` names {', '.join(named)}"


def _one_of_a_name(inputs: dict[str, Input]) -> list[dict[str, Input]]:
    """Return location → input in groups without two inputs of one path: two contents may have had one name."""
    groups: list[dict[str, Input]] = []
    for location, item in inputs.items():
        fitting = next((group for group in groups if item.path not in {each.path for each in group.values()}), None)
        if fitting is None:
            groups.append(fitting := {})
        fitting[location] = item
    return groups


def prepared(table: Table, file: RawFile, staging: str, delete_files: bool) -> RawFile:
    """Return the file with a copy without the records, which the engine writes into the new directory `staging`.

    `delete_files`: a file that cannot be rewritten is deleted as a whole. Raises InputRefused for such a file otherwise.
    """
    try:
        copy = table.engine().write_without(table.spec, file.info.path, file.records, staging)
    except InputRefused as error:
        if delete_files:
            return file
        raise InputRefused(
            f"table {table.name}: {file.info.path} has {counted(len(file.records.numbers), 'record')} of erased keys, and {error}. Nothing "
            "was erased. With --delete-files such files are deleted as a whole; the table keeps the rows of all other keys, and cannot be rebuilt."
        ) from None
    # the engine writes all files with one key, and these records belong to the archive
    table.storage.encrypt(copy.path)
    return dataclasses.replace(file, copy=copy)


def rewrite(table: Table, file: RawFile) -> None:
    """Put the copy without the records into the file's place, or delete the file.

    Raises TryLater if another command has changed it since it was searched: another erase may have taken more out of it than the copy lacks.
    """
    if file.copy is None:
        table.storage.delete([file.info.path])
        return
    try:
        content = table.storage.read(file.copy.path)
    except FileNotFoundError:
        # for vacuum it is an orphan
        raise TryLater(f"table {table.name}: another command removed {file.copy.path}; erase again, without keys, to finish") from None
    if not table.storage.replace(file.info, content):
        raise TryLater(f"table {table.name}: another command changed {file.info.path}; erase again, without keys, to finish")
    table.storage.delete([info.path for info in table.storage.list(file.copy.path.rpartition("/")[0])])


@logs.of_table
def reencrypt(table: Table) -> ReencryptReport:
    """Encrypt the table's raw files that have another key, copies of an interrupted erase among them. Raises Refused without `archive_kms_key`.

    Each file is looked at and changed by itself, so the verb may be interrupted and repeated at any time.
    """
    key, layout = table.spec.archive_kms_key, table.layout
    if not key:
        raise Refused(f"table {table.name}: `archive_kms_key` is not set, so its raw files have the key of all other files. Nothing was changed.")
    listed = [info.path for part in ("archive", "quarantine", "_compactor/rewriting") for info in table.storage.list(layout.inside(part))]
    paths = [path for path in listed if layout.raw_file(path)]
    with logs.phase(table, "encrypting") as phase:
        changed = sum(in_parallel(table.storage.encrypt, paths))
        phase.did(f"encrypted {changed:,} of {counted(len(paths), 'raw file')}", files=changed)
    return ReencryptReport(table.name, key, len(paths), changed)
