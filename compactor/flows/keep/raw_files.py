"""Raw files in the archive: which of them have records of erased keys, and each of these without the records.

A copy of a file without the records is written before the erase is committed, because the ledger has its size, and put into its place after. If the
erase is interrupted, vacuum deletes the copy, and the records are found again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from compactor.core.model.errors import InputRefused, Refused, TryLater
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input, other_events
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.results.batch import ErasedRecords
from compactor.core.results.phrases import counted
from compactor.flows import ledger, logs
from compactor.flows.publish import archive
from compactor.flows.table import Table


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
        inputs = [dataclasses.replace(item, rows=0, outcome="absorbed", quarantined=0, reason="") for item in group.values()]
        locations = {item.id: location for location, item in group.items()}
        with logs.phase(table, "searching") as phase:
            results = table.engine().records_of(table.spec, snapshot, inputs, locations, erased)
            phase.did(f"searched {counted(len(group), 'raw file')}", files=len(group))
        for location, item in group.items():
            info, records = there[location], results[item.path]
            if problem := other_events(location, [each for each in owners[location] if each.size == info.size], records.events):
                # nobody knows whose the other events are
                raise Refused(f"table {table.name}: {problem}. Nothing was erased. Restore the file, or the settings with which it was read.")
            if records.numbers:
                chosen.append(RawFile(info, tuple(each for each in owners[location] if archive.place(table, each) == location), records))
    return chosen


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
