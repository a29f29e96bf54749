"""Archive: take absorbed files out of landing (or copy them), and those that cannot be opened into quarantine.

Works from the stored Snapshot; every step may be interrupted and repeated.

What a crash leaves: a file in landing, or in both places (the next run finishes), never in none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from compactor.core.model.errors import Refused
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import AGAIN, GIVEN_UP, LATER, ORIGINAL, Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.parallel import in_parallel
from compactor.core.results.phrases import counted
from compactor.core.schema.adoption import ADOPTED
from compactor.flows import ledger, logs, owner
from compactor.flows.table import Table


def archive(table: Table, snapshot: Snapshot) -> int:
    """Move the Snapshot's pending inputs to where they belong; gives back how many had not been moved yet."""
    with logs.phase(table, "archiving") as phase:
        moved = sum(in_parallel(partial(_archived, table), snapshot.pending))
        if moved:
            phase.did(f"archived {counted(moved, 'file')}", files=moved)
    return moved


def unfinished(table: Table, pending: Sequence[Input]) -> tuple[Input, ...]:
    """Those of `pending` that are not where they belong yet: what the next Snapshot has to carry on."""
    return tuple(item for item, left in zip(pending, in_parallel(partial(_to_move, table), pending)) if left)


def still_landed(table: Table, item: Input) -> bool:
    """Whether landing still holds this input, and not what the sink has written over it since."""
    return _same(table.storage.stat(table.layout.landed(item.path)), item)


def place(table: Table, item: Input) -> str | None:
    """Where an input that was taken lies now, None when it is gone. Of a repaired one the copy."""
    return _first(table, [table.layout.repaired(item.path, item.etag)]) or original(table, item)


def original(table: Table, item: Input) -> str | None:
    """Where an input lies as it landed, None when it is gone."""
    layout = table.layout
    places = _places(item, layout.archived)
    if item.outcome == "quarantined":
        places = [*_places(item, layout.quarantined), *places]
    return _first(table, places) or (layout.landed(item.path) if still_landed(table, item) else None)


def _places(item: Input, located: Callable[..., str]) -> list[str]:
    """Return the locations that an input may have in archive or quarantine: the plain name is that of the first content of a path."""
    return [located(item.path, item.etag), *([located(item.path)] if item.content == 1 else [])]


def places(table: Table, item: Input) -> list[str]:
    """Return all locations that an input and its repaired copy may have in the archive."""
    return [*_places(item, table.layout.archived), table.layout.repaired(item.path, item.etag)]


def _first(table: Table, locations: Iterable[str]) -> str | None:
    return next((location for location in locations if table.storage.stat(location) is not None), None)


def repaired(table: Table, item: Input) -> tuple[str, str] | None:
    """The original of an input and its repaired copy in the archive, where both lie there."""
    there, copy = original(table, item), _first(table, [table.layout.repaired(item.path, item.etag)])
    return (there, copy) if there and copy else None


Ways = dict[tuple[str, str], tuple[str, ...]]
"""(path, etag) → how an input was taken from quarantine again."""


def again(entries: Iterable[Input]) -> Ways:
    """Return how inputs were taken from quarantine again, without what a restore has undone.

    A copy in whose place a restore has brought back the file as it landed stays in the archive, and is not read.
    """
    out: Ways = {}
    for item in entries:
        name = item.id
        if item.outcome == "replayed":
            out[name] = ("replayed",)
        elif item.outcome == "reread":
            out[name] = (*out.get(name, ()), "reread")
        elif item.outcome == "redone" and item.waiting:
            out[name] = tuple(each for each in out.get(name, ()) if each != "reread")
    return out


def content(table: Table, item: Input, taken_again: Ways) -> str | None:
    """Where the content lies that a version has absorbed, None when it is gone: the original, or what was ingested again from quarantine."""
    etag = item.etag.removesuffix(ORIGINAL)
    ways = taken_again.get((item.path, etag), ())
    if "reread" in ways and etag == item.etag:
        return place(table, item)
    there = original(table, dataclasses.replace(item, etag=etag))
    info = table.storage.stat(there) if there else None
    # somebody may have put another file into its place
    return info.path if info and ("replayed" in ways or info.size in (item.size, item.was or item.size)) else None


def overwritten(table: Table, item: Input, entries: Iterable[Input]) -> bool:
    """Return whether the sink has written another content under an input's name: absorbed after it, or in landing now."""
    first = [entry.etag for entry in entries if entry.path == item.path and entry.outcome not in LATER]
    there = table.storage.stat(table.layout.landed(item.path))
    return first[-1:] != [item.etag] or (there is not None and there.etag != item.etag)


def taken(table: Table, entries: Iterable[Input]) -> tuple[list[Input], dict[tuple[str, str], str]]:
    """The inputs whose rows are in the table by these entries of the ledger, each once, and where they lie; what is gone has no place.

    Inputs from before an adoption are left out: the adopted rows contain their changes.
    A repaired copy may hold the repaired records only: then the original is an input beside it, with `~original` in its etag.
    """
    every = list(entries)
    reread = {name for name, ways in again(every).items() if "reread" in ways}
    before = ledger.with_outcome(every, ADOPTED)
    latest = {item.id: item for item in every if item.id not in before}
    inputs = [item for item in latest.values() if not item.unabsorbed]
    locations = {item.id: (place if item.id in reread else original)(table, item) for item in inputs}
    places = {name: there for name, there in locations.items() if there}
    for item in [item for item in inputs if item.id in reread and item.id in places]:
        both = repaired(table, item)
        if both and places[item.id] == both[1]:
            # the records that its copy repairs are invalid in it still
            invalid = max(each.quarantined for each in every if each.id == item.id)
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
    return still_landed(table, item) and not (table.spec.archive == "copy" and _first(table, _targets(table, item)))


def _archived(table: Table, item: Input) -> bool:
    layout = table.layout
    if item.outcome == GIVEN_UP:
        table.storage.delete([layout.reason(item.path, item.etag)])
        return False
    if item.outcome in AGAIN:
        return _left_quarantine(table, item)
    if table.spec.archive == "keep":
        return False
    targets = _targets(table, item)
    source = table.storage.stat(layout.landed(item.path))
    if source is None or not _same(source, item):
        # archived by an earlier attempt; or the sink wrote the name again: that is a new input, and this one's content is in the Snapshot's rows only
        return False
    if table.spec.archive == "copy":
        return _first(table, targets) is None and table.storage.move(source, targets[0], keep=True)
    owner.check_landing(table)
    try:
        try:
            return table.storage.move(source, targets[-1])
        except FileExistsError:
            # the file of a version that was lost
            return table.storage.move(source, targets[0])
    except FileNotFoundError:
        # since we looked another run has archived it, and an erase has rewritten or deleted it there
        return False
    except Refused as error:
        raise Refused(
            f"table {table.name}: {item.path} is ingested and cannot be taken out of {table.spec.landing}. Until it can, runs ingest nothing more. "
            f"Allow it, or set `archive: keep` (files stay where they are) or `archive: copy`: {error}"
        ) from error


def _targets(table: Table, item: Input) -> list[str]:
    """Return where an input may go. A copy goes to the first, whose name contains the etag, so the name shows whether this content was copied."""
    return _places(item, table.layout.quarantined if item.outcome == "quarantined" else table.layout.archived)


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
    copy = table.storage.stat(layout.quarantined(item.path, item.etag))
    if copy is not None and _is_unread(item, copy):
        table.storage.delete([copy.path])
    original = _replaced(table, item, source)
    if original is not None:
        # before the move: afterwards nothing shows that a copy was read in its place, and the archive would hold both
        table.storage.delete([original.path])
    targets = [layout.repaired(item.path, item.etag)] if item.outcome == "reread" else [*reversed(_places(item, layout.archived))]
    for target in targets:
        try:
            return table.storage.move(source, target)
        except FileExistsError:
            continue
        except FileNotFoundError:
            # as in `_archived`
            return False
    if item.outcome == "reread":
        # the archive has the copy that was read; this is another one, which nothing has read
        return False
    raise FileExistsError(targets[-1])


def _taken_again(table: Table, item: Input) -> FileInfo | None:
    """The file in quarantine that a replay has read, while it is there."""
    layout = table.layout
    located = _places(item, layout.quarantined) if item.outcome == "replayed" else [layout.quarantined(item.path, item.etag)]
    infos = (info for location in located if (info := table.storage.stat(location)) is not None)
    return next((info for info in infos if not _is_unread(item, info)), None)


def _is_unread(item: Input, info: FileInfo) -> bool:
    """Return whether nobody has read a copy in quarantine: an interrupted discard has put an empty one there meanwhile."""
    return bool(item.rows) and not info.size


def _replaced(table: Table, item: Input, source: FileInfo) -> FileInfo | None:
    """Return the unreadable file in quarantine in whose place `source`, its repaired copy, was read."""
    plain = table.layout.quarantined(item.path)
    return table.storage.stat(plain) if item.outcome == "replayed" and item.content == 1 and source.path != plain else None


def _same(info: FileInfo | None, item: Input) -> bool:
    return info is not None and info.etag == item.etag.removesuffix(ORIGINAL)
