"""Quarantine: write down what a commit could not use, list what waits there, and take it again once its cause is repaired.

A replay reads the whole file again under its old name, so every event has the Position it would have had; what was absorbed before is then
a duplicate. That gives the table a never-broken run would have given, as long as the events are inside the tombstone retention.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.formats.csv_dialect import columns_of_lines
from compactor.core.model.errors import InputRefused
from compactor.core.model.inputs import GIVEN_UP, Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.batch import BatchSummary
from compactor.core.results.plain import Plain
from compactor.core.sources import full_loads
from compactor.core.sources.quarantine import reason_file
from compactor.flows import ledger
from compactor.flows.publish import archive
from compactor.flows.table import Table

_NO_REASON = "is invalid; the reason was deleted by what a restore has undone"


@dataclass(frozen=True)
class QuarantinedFile(Plain):
    """An input that waits in quarantine: the whole file, or some of its records."""

    table: str
    path: str
    """Path below the landing root."""
    etag: str
    hour: str | None
    """The hour of its folder; None if folders name none."""
    records: int | None
    """Number of its records in quarantine; None for the whole file."""
    reason: str
    location: str | None
    """The file that a replay would read; None if it is gone."""
    repaired: str
    """Where a replay looks for a repaired copy first."""


def describe(table: Table, commit: str, summary: BatchSummary) -> None:
    """Write the reason files of a commit, before its Snapshot. One that is never committed is written again by the next attempt."""
    for item in summary.inputs:
        if item.in_quarantine:
            text = reason_file(item, commit, summary.unusable)
            table.storage.write(table.layout.reason(item.path, item.etag), text)


def waiting(table: Table, snapshot: Snapshot | None) -> list[QuarantinedFile]:
    """Return the inputs that wait in quarantine, oldest first, by the ledger, not by the folder's content.

    The watermark of a Snapshot says whether there can be any. Most tables have none, and the ledger of years is long.
    """
    if snapshot is None or not snapshot.watermark.incomplete:
        return []
    entries_by_input = ledger.latest(ledger.everything(table, snapshot))
    return [_quarantined(table, item) for item in entries_by_input.values() if item.in_quarantine]


def with_reasons(table: Table, files: Sequence[QuarantinedFile]) -> list[QuarantinedFile]:
    """Return the files with a reason for those with invalid records too: that of the first record, out of the reason file.

    The ledger has the reasons of whole files only. Reads one small file for each of the others.
    """
    return [item if item.reason else dataclasses.replace(item, reason=_first_reason(reasons(table, item))) for item in files]


def _first_reason(content: dict[str, Any]) -> str:
    first: dict[str, Any] = next(iter(content["unusable"]), {})
    more = content["records"] - 1
    where = f"record {first['record']}: " if "record" in first else ""
    return where + str(first.get("reason", "")) + (f" (and {more:,} more)" if more > 0 else "")


def reasons(table: Table, item: QuarantinedFile) -> dict[str, Any]:
    """The reason file of one input; without one (a replay that a restore has undone removed it) what the ledger knows."""
    try:
        content: dict[str, Any] = json.loads(table.storage.read(table.layout.reason(item.path, item.etag)))
    except FileNotFoundError:
        content = {"path": item.path, "etag": item.etag, "records": item.records or 0, "unusable": [{"reason": item.reason or _NO_REASON}]}
    return content


def chosen(table: Table, waiting_files: Sequence[QuarantinedFile], paths: Sequence[str]) -> list[QuarantinedFile]:
    """Return the inputs to ingest again: all, or those of these paths; of a full load all its files or none.

    Raises InputRefused for a path that does not wait, and for a file that is gone.
    """
    unknown = [path for path in paths if path not in {item.path for item in waiting_files}]
    if unknown:
        raise InputRefused(f"table {table.name}: {unknown[0]} is not in quarantine; `compactor quarantine {table.name}` lists what is")
    taken = full_loads.together(table.spec, [item.path for item in waiting_files], paths or [item.path for item in waiting_files])
    selected = [item for item in waiting_files if item.path in taken]
    gone = [item.path for item in selected if item.location is None]
    if gone:
        raise InputRefused(
            f"table {table.name}: {gone[0]} is neither in quarantine nor in the archive; restore it, or replay the other paths by name"
        )
    return selected


def give_up(table: Table, waiting_files: Sequence[QuarantinedFile], paths: Sequence[str]) -> list[str]:
    """Put an empty copy beside each of these files, which a replay reads in its place. Return where.

    Raises InputRefused for a file that is partly ingested, and for one with a repaired copy: a replay may be reading it.
    """
    selected = chosen(table, waiting_files, paths)
    if table.spec.source.full_loads:
        raise InputRefused(f"table {table.name}: a full load is not whole without {paths[0]}; land the load again in the folder of a later hour")
    partly = next((item for item in selected if item.records is not None), None)
    if partly is not None:
        raise InputRefused(
            f"table {table.name}: the other records of {partly.path} are in the table. `compactor quarantine {table.name} {partly.path} "
            "--discard --records` gives its invalid records up"
        )
    for item in selected:
        if not table.storage.put_if_absent(item.repaired, b"") and not _is_empty(table, item.repaired):
            raise InputRefused(f"table {table.name}: a repaired copy lies at {item.repaired}: replay {item.path}, or remove the copy")
    return [item.repaired for item in selected]


def take_back(table: Table, copies: Sequence[str]) -> None:
    table.storage.delete([copy for copy in copies if _is_empty(table, copy)])


def _is_empty(table: Table, location: str) -> bool:
    info = table.storage.stat(location)
    return info is not None and not info.size


def check_not_empty(table: Table, chosen_files: Sequence[QuarantinedFile]) -> None:
    """Raise InputRefused for an empty copy, which an interrupted `give_up` leaves: replayed, it would give the file up."""
    for item in chosen_files:
        if _is_empty(table, item.repaired):
            raise InputRefused(
                f"table {table.name}: {item.repaired} is empty, and a replay reads it in place of {item.path}; an interrupted --discard left it. "
                "Delete it and replay again, or discard again"
            )


def records_given_up(table: Table, snapshot: Snapshot, paths: Sequence[str]) -> tuple[list[Input], dict[tuple[str, str], str]]:
    """Return the entries that give up the invalid records of these partly ingested files, and where the files lie. Raises InputRefused."""
    selected = chosen(table, waiting(table, snapshot), paths)
    for item in selected:
        if item.records is None:
            raise InputRefused(f"table {table.name}: no record of {item.path} could be read; leave out --records to give the whole file up")
        if item.location == item.repaired:
            raise InputRefused(f"table {table.name}: a repaired copy lies at {item.repaired}: replay {item.path}, or remove the copy")
    places = {(item.path, item.etag): item.location or "" for item in selected}
    entries = ledger.latest(ledger.everything(table, snapshot))
    return [dataclasses.replace(entries[name], outcome=GIVEN_UP) for name in places], places


def again(table: Table, waiting_files: Sequence[QuarantinedFile], snapshot: Snapshot) -> tuple[list[Input], dict[tuple[str, str], str]]:
    """Return the inputs of a replay, and where they lie. Raises InputRefused for a repaired copy that cannot be used."""
    for copy in [item for item in waiting_files if item.records is not None and item.location == item.repaired]:
        if table.spec.keyless:
            raise InputRefused(
                f"table {table.name}: rows of a table without key are known by their line, and {copy.repaired} may have other lines than "
                f"{copy.path}. Let the repaired records land in a file of their own, remove the copy, and give these up: `compactor quarantine "
                f"{table.name} {copy.path} --discard --records`"
            )
        earlier = table.layout.repaired(copy.path, copy.etag)
        if table.storage.stat(earlier):
            raise InputRefused(
                f"table {table.name}: {copy.path} was repaired before, by {earlier}. Put the records of {copy.repaired} into that file too, remove "
                "the copy, and replay again"
            )
    ids = {(item.path, item.etag): item.location or "" for item in waiting_files}
    inputs, columns = {}, columns_of_lines(table.spec)
    for item in ledger.everything(table, snapshot):
        if item.id in ids:
            outcome = "replayed" if _whole(item) else "reread"
            inputs[item.id] = dataclasses.replace(item, outcome=outcome, quarantined=0, reason="", columns=columns)
    return list(inputs.values()), ids


def _whole(item: Input) -> bool:
    """Return whether no row of an input was ever ingested."""
    return bool(item.reason) and item.outcome != "reread"


def _quarantined(table: Table, item: Input) -> QuarantinedFile:
    whole = _whole(item)
    # a repaired copy of a partly ingested file may lie in quarantine, under a name with the etag of the content it repairs
    copy = table.layout.quarantined(item.path, item.etag)
    location = copy if table.storage.stat(copy) else archive.place(table, dataclasses.replace(item, outcome="quarantined") if whole else item)
    return QuarantinedFile(table.name, item.path, item.etag, item.hour, None if whole else item.quarantined, item.reason, location, copy)
