"""Restore: bring back the state of an older, kept version as a new Snapshot. Undoable: the version before is a version like others.

State and barriers come from the old Snapshot, the ledger from the newest: what was absorbed between is marked `undone`, so that no run takes
it again by itself, and later increments go on top. `reabsorb` takes it again from where it lies. Going back to a version before an
undoing marks what was undone then as `redone`.

What a crash leaves: before the put, a ledger file that nothing names; after it, a catalog that is behind, which the next run publishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime

from compactor.core.catalog import history_views
from compactor.core.catalog.feed import begun_anew
from compactor.core.model import times
from compactor.core.model.edit import Edit, NewestIs
from compactor.core.model.errors import InputRefused, Refused, RequirementFailed
from compactor.core.model.history import brought_back
from compactor.core.model.inputs import LATER, Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning import retention
from compactor.core.planning.landing import replaces_epochs
from compactor.core.results.phrases import counted
from compactor.core.results.record import TableReport
from compactor.flows import ledger
from compactor.flows.publish import archive, publish
from compactor.flows.publish.sync import resume, show_and_archive
from compactor.flows.table import Table
from compactor.flows.transact import transact
from compactor.flows.write import commit, state
from compactor.flows.write.compact import with_values


def at_version(table: Table, version: int) -> Snapshot:
    """A version that can be restored or pinned. Raises Refused, naming those that can."""
    layout = table.layout
    head, snapshot = table.newest(), table.snapshot(version)
    if head is not None:
        _check_erased(table, head, version)
    if head is not None and snapshot is not None and not retention.is_pending_deletion(snapshot, layout, head):
        return snapshot
    raise Refused(f"table {table.name}: there is no version {version} any more, or yet; {_listed(table)}")


def named(table: Table, text: str | None) -> Snapshot | None:
    """The Snapshot of a version's number, or as of a time (ISO 8601, UTC without zone); None for None."""
    if text is None:
        return None
    return at_version(table, int(text)) if text.isdecimal() else as_of(table, text)


def as_of(table: Table, moment: str) -> Snapshot:
    """The newest version committed at or before `moment` (ISO 8601; UTC where it names no zone). Raises Refused."""
    limit = _time(moment)
    for snapshot in table.history():
        if _time(snapshot.time) <= limit:
            return at_version(table, snapshot.version)
    raise Refused(f"table {table.name}: nothing was committed by {moment}; {_listed(table)}")


def restore(table: Table, target: Snapshot) -> TableReport:
    """Make the State of `target` the newest. Raises RequirementFailed when another writer commits meanwhile: the request may be wrong by then."""
    head = table.newest()
    if head is not None and head.version == target.version:
        resume(table, head)
        return TableReport(table.name, "idle", head.version, notes=(f"version {head.version} is the newest already",))
    # who slept since it read the target asks again: a stub is not among what is pending any more
    if head is None or retention.is_pending_deletion(target, table.layout, head) or table.vacuumed(target):
        raise Refused(f"table {table.name}: version {target.version} was vacuumed; {_listed(table)}")
    _check_erased(table, head, target.version)
    # raises if a view shows a newer version, which is gone
    publish.shown_version(table, head)
    head_version = head.version

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        try:
            return _edit(table, target, parent, head_version) if parent is not None else None
        except Exception as error:
            # the feed reads the rows of both versions
            if parent is None or table.files_exist(parent, target.data_files):
                raise
            raise RequirementFailed(f"table {table.name}: version {target.version} was vacuumed while it was being restored") from error

    made = table.existing(transact(table, planned))
    show_and_archive(table, with_values(table, made))
    undone = sum(item.outcome == "undone" for item in made.inputs)
    waiting = sum(item.in_quarantine for item in made.inputs)
    redone = sum(item.outcome != "undone" and not item.in_quarantine for item in made.inputs)
    notes = [f"the state of version {target.version}; `compactor versions restore {table.name} --as-of {head_version}` goes back"]
    notes += [f"{counted(undone, 'file')} undone: left in place; `--reabsorb` takes them again"] if undone else []
    notes += [f"{counted(waiting, 'file')} in quarantine as then: `compactor quarantine {table.name}`"] if waiting else []
    if head.history is not None and made.history is None:
        view = f"{table.spec.database}.{history_views.name(table.spec)}"
        notes += [f"version {target.version} has no history: drop {view}, which shows what was undone; the next commit begins a history"]
    notes += [f"{redone} files that an earlier restore had undone are in the table again"] if redone else []
    return TableReport(table.name, "committed", made.version, (f"restore {made.version}",), len(made.inputs), rows=made.rows, notes=tuple(notes))


def without_lost(table: Table, version: int) -> TableReport:
    """Go on from the newest version that is there although newer ones were committed and are gone.

    It is committed again under their numbers and under the next one, which no reader has seen: so views move on, and readers of the feed are refused.
    Raises Refused for another version, if its files are gone too, and if no version is lost.
    """
    there = table.newest_listed()
    snapshot = table.snapshot(version)
    if snapshot is None or there != version:
        raise Refused(f"table {table.name}: expected the newest version that is there, {there}, found {version}")
    lost = max(table.recorded() or 0, publish.newest_shown(table, snapshot))
    if lost <= version:
        raise Refused(f"table {table.name}: no version after {version} is lost; leave out --accept-loss")
    if snapshot.expired or not table.files_exist(snapshot, snapshot.data_files):
        raise Refused(
            f"table {table.name}: vacuum has taken files of version {version}: nothing is left to go on from. Restore a backup of the table."
        )
    made = snapshot
    while made.version <= lost:

        def planned(parent: Snapshot | None, scratch: ExitStack, target: Snapshot = made) -> Edit | None:
            edit = _edit(table, target, parent, target.version) if parent else None
            # readers of the feed may have followed it through the lost versions
            return dataclasses.replace(edit, feed=begun_anew(target.feed, target.version + 1)) if edit else None

        made = transact(table, planned, newest=made) or made
    show_and_archive(table, made)
    gone = f"version {lost} is lost" if lost == version + 1 else f"versions {version + 1} to {lost} are lost"
    note = (
        f"{gone}, and what was ingested in them: move the archived files that `compactor verify {table.name}` names (`archive`) back to landing, and "
        "run. Erase again what was erased in them."
    )
    return TableReport(table.name, "committed", made.version, (f"restore {made.version}",), rows=made.rows, notes=(note,))


def _check_erased(table: Table, head: Snapshot, version: int) -> None:
    """Raise Refused for a version that may have rows of erased keys."""
    if head.erased is not None and version < head.erased.version:
        raise Refused(f"table {table.name}: version {version} is older than version {head.erased.version}, which erased keys; it is being deleted")


def _edit(table: Table, target: Snapshot, parent: Snapshot, head_version: int) -> Edit:
    writer = table.next_commit(parent)
    before = ledger.everything(table, parent)
    inputs = changed(ledger.everything(table, target), before)
    made = dataclasses.replace(
        target.state,
        schema=dataclasses.replace(target.schema, generation=parent.generation_of(target.schema, target.order)),
        history=brought_back(target.history, writer),
        watermark=state.watermark_restored(target, [*before, *inputs]),
    )
    pending = archive.unfinished(table, parent.pending)
    edit = Edit("restore", writer, made, replaces=True, inputs=inputs, pending=pending, restored=target.version, requires=(NewestIs(head_version),))
    return state.with_changes(table, parent, edit)


def reabsorb(table: Table) -> Snapshot | None:
    """Take again what restores have undone; None when nothing is. Raises Conflict as `commit` does, InputRefused when a file is gone."""

    def undone(parent: Snapshot | None) -> tuple[list[Input], dict[tuple[str, str], str]]:
        if parent is None:
            return [], {}
        entries = ledger.everything(table, parent)
        latest_entries = ledger.latest(entries)
        inputs = [
            dataclasses.replace(item, outcome="redone", quarantined=0, reason="", replaces_epochs=replaces_epochs(table.spec, item.epoch))
            for item in latest_entries.values()
            if item.outcome == "undone"
        ]
        again = archive.again(entries)
        places = {item.id: archive.content(table, item, again) for item in inputs}
        # what its sink wrote again before it was archived is lost; what it wrote then holds it
        lost = [item for item in inputs if not places[item.id] and archive.overwritten(table, item, entries)]
        inputs = [item for item in inputs if item not in lost]
        places = {item.id: places[item.id] for item in inputs}
        gone = [path for (path, _), location in places.items() if location is None]
        if gone:
            raise InputRefused(
                f"table {table.name}: {gone[0]} was undone and is neither in landing nor archived (`archive_retention`?): restore it from a backup"
            )
        _check_repaired(table, [item for item in inputs if "reread" in again.get(item.id, ())])
        return inputs, {name: location for name, location in places.items() if location}

    return commit.ingest(table, undone, "reabsorb")


def _check_repaired(table: Table, inputs: Iterable[Input]) -> None:
    """Raises InputRefused for a repaired input: the copy may contain the repaired records only and the original the others."""
    for item in inputs:
        both = archive.repaired(table, item)
        if both:
            raise InputRefused(
                f"table {table.name}: {item.path} was repaired, its records are in {both[0]} and {both[1]}. "
                "Join them in the second, move the first away"
            )


def changed(target: Iterable[Input], head: Iterable[Input]) -> tuple[Input, ...]:
    """The entries that say what a restore does to inputs: rows of theirs go, or come back."""
    then, out = ledger.latest(target), []
    for name, item in ledger.latest(head).items():
        before = then.get(name)
        if before is None:
            out += [] if item.unabsorbed else [dataclasses.replace(item, outcome="undone")]
        elif (before.unabsorbed, before.waiting, before.reason) != (item.unabsorbed, item.waiting, item.reason):
            same = before.outcome if before.outcome in LATER else "redone"
            out.append(dataclasses.replace(before, outcome="undone" if before.unabsorbed else same))
    return tuple(out)


def _listed(table: Table) -> str:
    newest = table.newest()
    versions = table.restorable(newest) if newest else []
    if not versions:
        return "nothing is committed yet"
    listed = ", ".join(f"{snapshot.version} ({snapshot.time})" for snapshot in versions[:10])
    return f"the versions are {listed}{' and older ones' if len(versions) > 10 else ''}"


def _time(text: str) -> datetime:
    try:
        return times.parse(text)
    except ValueError:
        raise Refused(f"expected a time such as 2026-11-20T14:00:00Z, found {text!r}") from None
