"""The ledger: which input went into which Snapshot. A Snapshot holds its own inputs and names immutable files with those of its ancestors."""

from __future__ import annotations

import dataclasses
import gzip
import json
import zlib
from collections.abc import Iterable

from compactor.core.model.errors import Conflict, StateRefused
from compactor.core.model.inputs import Input, LedgerFile
from compactor.core.model.layout import join, relative
from compactor.core.model.snapshot import Snapshot, of_json
from compactor.core.planning.folders import upwards
from compactor.flows.table import Table

_MERGE_AT = 16
_FOLDERS_MAX = 200
"""A ledger file of more folders than this names none: it is always read."""


def absorbed(table: Table, snapshot: Snapshot | None, paths: Iterable[str]) -> frozenset[tuple[str, str]]:
    """(path, etag) of the inputs already taken, as far as these paths below the landing root are concerned."""
    if snapshot is None:
        return frozenset()
    return frozenset(item.id for item in (*snapshot.pending, *of_paths(table, snapshot, paths)))


def of_paths(table: Table, snapshot: Snapshot, paths: Iterable[str]) -> list[Input]:
    """Return the entries about inputs with these paths below the landing root, oldest first, and some about others."""
    # an input's folder is that of the pattern by which it was taken, which may have been another one
    chosen = {folder for below in {path.rpartition("/")[0] for path in paths} for folder in (*upwards(below), "")}
    files = [file for file in snapshot.ledger if chosen and (not file.folders or chosen & set(file.folders))]
    return [*(item for file in files for item in entries(table, file)), *snapshot.inputs]


def entries(table: Table, file: LedgerFile) -> list[Input]:
    """The inputs that a ledger file records. Raises Conflict when it is gone, StateRefused when it is damaged."""
    place = table.layout.inside(file.path)
    try:
        text = gzip.decompress(table.storage.read(place)).decode()
        # a name may have other line ends than ours
        made = [of_json(Input, json.loads(line)) for line in text.split("\n") if line]
        if len(made) != file.entries:
            raise ValueError(f"expected {file.entries} entries, found {len(made)}")
        return made
    except FileNotFoundError:
        raise Conflict(
            f"{place} is gone: others committed, merged it and vacuumed since this run began. Run again; if it is still gone then, somebody deletes "
            f"files below {table.layout.root}: restore it from a backup"
        ) from None
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        raise StateRefused(f"{place} cannot be read: {error}. It is written once and never changed: restore it from a backup.") from error


def everything(table: Table, snapshot: Snapshot | None) -> list[Input]:
    """Return every entry, oldest first: each file that was taken, and what later attempts, restores and replays made of it."""
    return [*(item for file in snapshot.ledger for item in entries(table, file)), *snapshot.inputs] if snapshot else []


def newest_entries(table: Table, snapshot: Snapshot | None) -> list[Input]:
    """Return the newest entry of each input that ever went into the table."""
    return [*latest(everything(table, snapshot)).values()]


def with_outcome(entries: Iterable[Input], outcome: str) -> set[tuple[str, str]]:
    """Return (path, etag) of the inputs that ever had an outcome."""
    return {item.id for item in entries if item.outcome == outcome}


def latest(entries: Iterable[Input]) -> dict[tuple[str, str], Input]:
    """What the ledger says of each input last, by (path, etag)."""
    return {item.id: item for item in entries}


ERASED_REASON = "(removed by `compactor erase`)"
"""What stands for the reason of an older attempt, which may quote a record."""


def carried(table: Table, parent: Snapshot | None, commit: str, erases: bool = False) -> tuple[LedgerFile, ...]:
    """The ledger files that a child of `parent` names: the parent's, and a new one with its own inputs. Small ones are merged at times.

    `erases`: one new file has all inputs, without the reasons why files could not be opened.
    """
    if parent is None or not (parent.inputs or (erases and parent.ledger)):
        return parent.ledger if parent else ()
    files, inputs = list(parent.ledger), list(parent.inputs)
    if len(files) >= _MERGE_AT or erases:
        inputs = [item for file in files for item in entries(table, file)] + inputs
        files = []
    if erases:
        inputs = [dataclasses.replace(item, reason=ERASED_REASON) if item.reason else item for item in inputs]
    path = table.layout.ledger(commit)
    lines = "\n".join(json.dumps(dataclasses.asdict(item), ensure_ascii=False) for item in inputs)
    table.storage.write(path, gzip.compress(lines.encode(), mtime=0))
    folders = tuple(sorted({item.folder for item in inputs}))
    named = () if len(folders) > _FOLDERS_MAX else folders
    return (*files, LedgerFile(relative(path, join(table.layout.root)), len(inputs), named))
