"""Archive: take absorbed files out of landing (or copy them), and those that cannot be opened into quarantine.

Works from the stored Snapshot; every step may be interrupted and repeated.

What a crash leaves: a file in landing, or in both places (the next run finishes), never in none.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence

from compactor.core.model.errors import Refused
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import AGAIN, GIVEN_UP, ORIGINAL, Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.phrases import counted
from compactor.core.schema.adoption import ADOPTED
from compactor.flows import logs, owner
from compactor.flows.table import Table


def archive(table: Table, snapshot: Snapshot) -> int:
    """Move the Snapshot's pending inputs to where they belong; gives back how many had not been moved yet."""
    moved = 0
    with logs.phase(table, "archiving") as phase:
        for item in snapshot.pending:
            moved += _archived(table, item)
        if moved:
            phase.did(f"archived {counted(moved, 'file')}", files=moved)
    return moved


def unfinished(table: Table, pending: Sequence[Input]) -> tuple[Input, ...]:
    """Those of `pending` that are not where they belong yet: what the next Snapshot has to carry on."""
    return tuple(item for item in pending if _to_move(table, item))


def still_landed(table: Table, item: Input) -> bool:
    """Whether landing still holds this input, and not what the sink has written over it since."""
    return _same(table.storage.stat(table.layout.landed(item.path)), item)


def place(table: Table, item: Input) -> str | None:
    """Where an input that was taken lies now, None when it is gone."""
    layout = table.layout
    places = [layout.archived(item.path, item.etag), layout.archived(item.path)]
    if item.outcome == "quarantined":
        places = [layout.quarantined(item.path, item.etag), layout.quarantined(item.path), *places]
    location = next((place for place in places if table.storage.stat(place) is not None), None)
    return location or (layout.landed(item.path) if still_landed(table, item) else None)


def repaired(table: Table, item: Input) -> tuple[str, str] | None:
    """The original of an input and its repaired copy in the archive, where both lie there.

    Under the name with the etag may also lie an original, whose plain name another input has: that one has the size that was read first.
    """
    layout = table.layout
    both = (layout.archived(item.path), layout.archived(item.path, item.etag))
    original, copy = (table.storage.stat(place) for place in both)
    return both if original and copy and original.size in (item.size, item.was) and copy.size not in (item.size, item.was) else None


def content(table: Table, item: Input, there: str | None, again: bool) -> str | None:
    """Where the very content of an input lies, None when it is gone; `there` is where a file of its name does, which may hold another's.

    An input that was ingested `again` from quarantine may have been repaired and may have any size.
    """
    info = table.storage.stat(there) if there else None
    if info is None:
        return None
    if info.size in (item.size, item.was or item.size) or again or item.etag.endswith(ORIGINAL):
        return info.path
    # repaired after this version: what that absorbed is in the original
    both = repaired(table, item)
    return both[0] if both else None


def unread(entries: Iterable[Input]) -> set[tuple[str, str]]:
    """Return (path, etag) of the files that had landed before the table was adopted. The adopted rows already contain their changes."""
    return {(item.path, item.etag) for item in entries if item.outcome == ADOPTED}


def taken(table: Table, entries: Iterable[Input]) -> tuple[list[Input], dict[tuple[str, str], str]]:
    """The inputs whose rows are in the table by these entries of the ledger, each once, and where they lie; what is gone has no place.

    Inputs from before an adoption are left out: the adopted rows contain their changes.
    A repaired copy may hold the repaired records only: then the original is an input beside it, with `~original` in its etag.
    """
    every = list(entries)
    reread = {(item.path, item.etag) for item in every if item.outcome == "reread"}
    before = unread(every)
    latest = {name: item for item in every if (name := (item.path, item.etag)) not in before}
    inputs = [item for item in latest.values() if not item.unabsorbed]
    locations = {(item.path, item.etag): place(table, item) for item in inputs}
    places = {name: there for name, there in locations.items() if there}
    for item in [item for item in inputs if (item.path, item.etag) in reread and (item.path, item.etag) in places]:
        both = repaired(table, item)
        if both and places[item.path, item.etag] == both[1]:
            # the records that its copy repairs are invalid in it still
            invalid = max(each.quarantined for each in every if (each.path, each.etag) == (item.path, item.etag))
            inputs.append(dataclasses.replace(item, etag=item.etag + ORIGINAL, quarantined=invalid))
            places[item.path, item.etag + ORIGINAL] = both[0]
    return inputs, places


def _to_move(table: Table, item: Input) -> bool:
    if item.outcome == GIVEN_UP:
        return table.storage.stat(table.layout.reason(item.path, item.etag)) is not None
    if item.outcome in AGAIN:
        return not item.reason and _taken_again(table, item) is not None
    # also files that were to be moved before the setting was changed
    if table.spec.archive == "keep":
        return False
    return still_landed(table, item) and not (table.spec.archive == "copy" and table.storage.stat(_copied(table, item)))


def _archived(table: Table, item: Input) -> bool:
    layout = table.layout
    if item.outcome == GIVEN_UP:
        table.storage.delete([layout.reason(item.path, item.etag)])
        return False
    if item.outcome in AGAIN:
        return _left_quarantine(table, item)
    if table.spec.archive == "keep":
        return False
    goes_to = layout.quarantined if item.outcome == "quarantined" else layout.archived
    source = table.storage.stat(layout.landed(item.path))
    if source is None or not _same(source, item):
        # archived by an earlier attempt; or the sink wrote the name again: that is a new input, and this one's content is in the Snapshot's rows only
        return False
    if table.spec.archive == "copy":
        target = _copied(table, item)
        return table.storage.stat(target) is None and table.storage.move(source, target, keep=True)
    owner.check_landing(table)
    try:
        with contextlib.suppress(FileExistsError):
            return table.storage.move(source, goes_to(item.path))
        # another input of this name was archived before: a sink writes a name again with other content
        return table.storage.move(source, goes_to(item.path, item.etag))
    except Refused as error:
        raise Refused(
            f"table {table.name}: {item.path} is ingested and cannot be taken out of {table.spec.landing}. Until it can, runs ingest nothing more. "
            f"Allow it, or set `archive: keep` (files stay where they are) or `archive: copy`: {error}"
        ) from error


def _copied(table: Table, item: Input) -> str:
    """Return the location of a copy. Its name contains the etag, so the name alone shows whether this content was copied."""
    layout = table.layout
    return (layout.quarantined if item.outcome == "quarantined" else layout.archived)(item.path, item.etag)


def _left_quarantine(table: Table, item: Input) -> bool:
    """Move a file that was taken again out of quarantine into the archive, and its reasons away when nothing of it is left there."""
    layout = table.layout
    if item.reason:
        return False
    if not item.quarantined:
        table.storage.delete([layout.reason(item.path, item.etag)])
    source = _taken_again(table, item)
    if source is None:
        return False
    original = _replaced(table, item, source)
    if original is not None:
        # before the move: afterwards nothing shows that a copy was read in its place, and the archive would hold both
        table.storage.delete([original.path])
    for target in (layout.archived(item.path), layout.archived(item.path, item.etag)):
        with contextlib.suppress(FileExistsError):
            return table.storage.move(source, target)
    return table.storage.move(source, layout.archived(item.path, source.etag))


def _taken_again(table: Table, item: Input) -> FileInfo | None:
    """The file in quarantine that a replay has read, while it is there."""
    layout = table.layout
    info = table.storage.stat(layout.quarantined(item.path, item.etag))
    return info or (table.storage.stat(layout.quarantined(item.path)) if item.outcome == "replayed" else None)


def _replaced(table: Table, item: Input, source: FileInfo) -> FileInfo | None:
    """Return the unreadable file in quarantine in whose place `source`, its repaired copy, was read.

    Under the plain name may also lie another input of the same name, which has reasons of its own.
    """
    plain = table.layout.quarantined(item.path)
    info = table.storage.stat(plain) if item.outcome == "replayed" and source.path != plain else None
    if info is None or info.size != item.size:
        return None
    folder, _, name = plain.rpartition("/")
    ours = table.layout.reason(item.path, item.etag)
    others = [each for each in table.storage.list(folder) if each.path.endswith(f"~{name}.reason.json") and each.path != ours]
    return None if others else info


def _same(info: FileInfo | None, item: Input) -> bool:
    return info is not None and info.etag == item.etag
