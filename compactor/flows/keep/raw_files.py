"""Raw files in the archive: which of them have records of erased keys, and each of these without the records.

A file is prepared before the erase is committed, because the ledger has its new size, and put into its place after. Text and Avro files are cut
again then; of a Parquet file the engine has written a copy, which vacuum deletes if the erase is interrupted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.core.erasure import raw_records
from compactor.core.erasure.erased import Erased
from compactor.core.model.errors import InputRefused, Refused
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.batch import ErasedRecords
from compactor.core.results.phrases import counted
from compactor.core.sources import increment
from compactor.flows import ledger, logs
from compactor.flows.publish import archive
from compactor.flows.table import Table


@dataclass(frozen=True)
class RawFile:
    """A file in the archive with records of erased keys."""

    info: FileInfo
    """The file."""
    inputs: tuple[Input, ...]
    """The newest ledger entries of the inputs that it holds."""
    records: ErasedRecords
    """The records."""
    size: int | None = None
    """Bytes without the records; None if it is not known yet, or if the file is deleted as a whole."""
    copy: str | None = None
    """The location of a copy without the records; None if the file is cut where it lies."""


def find(table: Table, snapshot: Snapshot, erased: Erased) -> list[RawFile]:
    """Return the files in the archive that have records of erased keys. Raises Refused for a file that no version ingested."""
    layout = table.layout
    owners: dict[str, list[Input]] = {}
    for item in ledger.latest(ledger.everything(table, snapshot)).values():
        for place in dict.fromkeys((layout.archived(item.path), layout.archived(item.path, item.etag))):
            owners.setdefault(place, []).append(item)
    there = {info.path: info for info in table.storage.list(layout.inside("archive"))}
    unaccounted = [location for location in there if location not in owners]
    if unaccounted:
        raise Refused(f"table {table.name}: no version ingested {unaccounted[0]}, so nobody knows what is in it. Nothing was erased. Move it.")
    chosen = []
    # an empty one stands for a file that was given up in quarantine, of any format
    for group in _one_of_a_name({location: owners[location] for location, info in there.items() if info.size}):
        inputs = [dataclasses.replace(item, rows=0, outcome="absorbed", quarantined=0, reason="") for _, item in group]
        locations = {(item.path, item.etag): location for location, item in group}
        with logs.phase(table, "searching") as phase:
            records = table.engine().records_of(table.spec, snapshot, inputs, locations, erased)
            phase.did(f"searched {counted(len(group), 'raw file')}", files=len(group))
        for location, item in group:
            _check_events(table, there[location], owners[location], records[item.path])
            if records[item.path].numbers:
                mine = tuple(each for each in owners[location] if archive.place(table, each) == location)
                chosen.append(RawFile(there[location], mine, records[item.path]))
    return chosen


def _check_events(table: Table, info: FileInfo, owners: Sequence[Input], records: ErasedRecords) -> None:
    """Raise Refused if another number of events was read than when the file was ingested: then nobody knows whose the others are."""
    ingested = {item.rows for item in owners if item.outcome == "absorbed" and item.size == info.size}
    if ingested and records.events not in ingested:
        raise Refused(
            f"table {table.name}: {info.path} had {', '.join(map(str, sorted(ingested)))} events when it was ingested, and {records.events} now. "
            "Nothing was erased. Restore the file, or the settings with which it was read."
        )


def _one_of_a_name(owners: dict[str, list[Input]]) -> list[list[tuple[str, Input]]]:
    """Return all (location, input) in groups without two inputs of one path: two contents may have had one name."""
    groups: list[list[tuple[str, Input]]] = []
    for location, inputs in owners.items():
        item = inputs[0]
        fitting = next((group for group in groups if item.path not in {each.path for _, each in group}), None)
        if fitting is None:
            groups.append([(location, item)])
        else:
            fitting.append((location, item))
    return groups


def prepared(table: Table, files: Sequence[RawFile], commit: str, delete_files: bool) -> list[RawFile]:
    """Return the files with their sizes without the records. The engine writes copies of Parquet files under this commit id.

    `delete_files`: a file that cannot be rewritten is deleted as a whole. Raises InputRefused for such a file otherwise.
    """
    return [_prepared(table, file, table.layout.rewriting(commit, number), delete_files) for number, file in enumerate(files)]


def _prepared(table: Table, file: RawFile, staging: str, delete_files: bool) -> RawFile:
    location = file.info.path
    kind = _kind(table, location)
    problem = raw_records.problem(location, kind)
    if problem is None:
        try:
            if kind == "parquet":
                copy = table.engine().write_without(location, file.records, staging)
                # the engine writes all files with one key, and these records belong to the archive
                table.storage.encrypt(copy.path)
                return dataclasses.replace(file, size=copy.size, copy=copy.path)
            return dataclasses.replace(file, size=len(_content(table, file)))
        except InputRefused as error:
            problem = str(error)
    if not delete_files:
        raise InputRefused(
            f"table {table.name}: {location} has {counted(len(file.records.numbers), 'record')} of erased keys, and {problem}. Nothing was erased. "
            "With --delete-files such files are deleted as a whole; the table keeps the rows of all other keys, and cannot be rebuilt any more."
        )
    return file


def rewrite(table: Table, file: RawFile) -> None:
    """Put the file without the records into its place, or delete it."""
    if file.size is None:
        table.storage.delete([file.info.path])
        return
    table.storage.write(file.info.path, _content(table, file))
    if file.copy is not None:
        directory = file.copy.rpartition("/")[0]
        table.storage.delete([info.path for info in table.storage.list(directory)])


def _content(table: Table, file: RawFile) -> bytes:
    """Return the content of a raw file without the records."""
    if file.copy is not None:
        return table.storage.read(file.copy)
    csv, location = table.spec.csv, file.info.path
    header = csv.header if csv.header is not None else table.spec.source.csv_header and not csv.columns
    data = table.storage.read(location)
    return raw_records.without(location, str(_kind(table, location)), data, file.records, header, csv.delimiter, csv.quote)


def _kind(table: Table, location: str) -> str | None:
    return table.spec.format if table.spec.format != "auto" else increment.file_format(location)
