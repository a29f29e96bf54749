"""Restore: bring back the state of an older, kept version as a new Snapshot (H19). Undoable: the version before is a version like others.

State and barriers come from the old Snapshot, the ledger from the newest: what was absorbed between is marked `undone`, so that no run takes
it again by itself, and later increments go on top. `reabsorb` takes it again from where it lies. Going back to a version before an
undoing marks what was undone then as `redone`.

What a crash leaves: before the put, a ledger file that nothing names; after it, a catalog that is behind, which the next run publishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timezone

from compactor.core.model.errors import InputRefused, Refused
from compactor.core.model.history import brought_back
from compactor.core.model.layout import commit_id
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import AGAIN, LATER, Input, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import retention
from compactor.core.results.reports import Progress, TableReport, silent
from compactor.flows import ledger, snapshots
from compactor.flows.environment import World
from compactor.flows.publish import archive, publish
from compactor.flows.write import commit, feed
from compactor.flows.write.commit import Committed


def at_version(world: World, spec: TableSpec, version: int) -> Snapshot:
    """A version that can be restored or pinned. Raises Refused, naming those that can."""
    layout = snapshots.layout_of(spec)
    head, found = snapshots.newest(world, layout), snapshots.read(world, layout, version)
    if head is not None and found is not None and not retention.condemned(found, layout, head):
        return found
    raise Refused(f"table {spec.name}: there is no version {version} any more, or yet; {_told(_available(world, spec))}")


def named(world: World, spec: TableSpec, said: str | None) -> Snapshot | None:
    """The Snapshot of a version's number, or as of a time (ISO 8601, UTC without zone); None for None."""
    if said is None:
        return None
    return at_version(world, spec, int(said)) if said.isdecimal() else as_of(world, spec, said)


def as_of(world: World, spec: TableSpec, moment: str) -> Snapshot:
    """The newest version committed at or before `moment` (ISO 8601; UTC where it names no zone). Raises Refused."""
    limit = _time(moment)
    for snapshot in snapshots.history(world, snapshots.layout_of(spec)):
        if _time(snapshot.time) <= limit:
            return at_version(world, spec, snapshot.version)
    raise Refused(f"table {spec.name}: nothing was committed by {moment}; {_told(_available(world, spec))}")


def restore(world: World, spec: TableSpec, target: Snapshot, label: str = "") -> TableReport:
    """Make the state of `target` the newest. Raises Conflict when another writer commits meanwhile: what was asked for may be wrong then."""
    layout = snapshots.layout_of(spec)
    head = snapshots.newest(world, layout)
    if head is not None and head.version == target.version:
        return TableReport(spec.name, "idle", head.version, notes=(f"version {head.version} is the newest already",))
    if head is None or retention.condemned(target, layout, head):
        raise Refused(f"table {spec.name}: version {target.version} was vacuumed; {_told(_available(world, spec))}")
    writer = commit_id(head.version + 1, world.nonce())
    made = dataclasses.replace(
        snapshots.child(world, head, writer, "restore", label),
        schema=_schema(head.schema, target.schema),
        order=target.order,
        base_id=target.base_id,
        segments=target.segments,
        delta=target.delta,
        inputs=changed(ledger.everything(world, layout, target), ledger.everything(world, layout, head)),
        pending=archive.unfinished(world, spec, head.pending),
        hour=target.hour,
        position=target.position,
        source_time=target.source_time,
        truncated_to=target.truncated_to,
        purged_to=target.purged_to,
        epoch=target.epoch,
        folded_at=target.folded_at,
        raw=target.raw,
        offsets=target.offsets,
        publish=target.publish,
        history=brought_back(target.history, writer),
        restored=target.version,
    )
    made = dataclasses.replace(made, ledger=ledger.carried(world, layout, head, made.writer))
    made = feed.with_changes(world, spec, head, made)
    snapshots.put(world, layout, made)
    publish.publish(world, spec, made)
    archive.archive(world, spec, made)
    undone = sum(item.outcome == "undone" for item in made.inputs)
    redone = len(made.inputs) - undone
    notes = [f"the state of version {target.version}; `compactor restore {spec.name} --version {head.version}` goes back"]
    notes += [f"{undone} files are undone: they stay where they are, and `--reabsorb` takes them again"] if undone else []
    notes += [f"{redone} files that an earlier restore had undone are in the table again"] if redone else []
    return TableReport(spec.name, "committed", made.version, (f"restore {made.version}",), len(made.inputs), rows=made.rows, notes=tuple(notes))


def reabsorb(world: World, spec: TableSpec, progress: Progress = silent, label: str = "") -> Committed | None:
    """Take again what restores have undone; None when nothing is. Raises Conflict as `commit` does, InputRefused when a file is gone."""

    def undone(parent: Snapshot | None) -> tuple[list[Input], dict[tuple[str, str], str]]:
        if parent is None:
            return [], {}
        entries = ledger.everything(world, snapshots.layout_of(spec), parent)
        known = ledger.latest(entries)
        inputs = [dataclasses.replace(item, outcome="redone", quarantined=0, reason="") for item in known.values() if item.outcome == "undone"]
        reread = {(item.path, item.etag) for item in entries if item.outcome == "reread"}
        again = {(item.path, item.etag) for item in entries if item.outcome in AGAIN}
        places = {
            (item.path, item.etag): archive.content(world, spec, item, archive.place(world, spec, item), (item.path, item.etag) in again)
            for item in inputs
        }
        # what its sink wrote again before it was archived is lost; what it wrote then holds it
        lost = [item for item in inputs if not places[item.path, item.etag] and _replaced(world, spec, item, entries)]
        inputs = [item for item in inputs if item not in lost]
        places = {(item.path, item.etag): places[item.path, item.etag] for item in inputs}
        gone = [path for (path, _), found in places.items() if found is None]
        if gone:
            raise InputRefused(
                f"table {spec.name}: {gone[0]} was undone and is neither in landing nor archived (`archive_retention`?): restore it from a backup"
            )
        _check_repaired(world, spec, [item for item in inputs if (item.path, item.etag) in reread])
        return inputs, {name: found for name, found in places.items() if found}

    return commit.again(world, spec, undone, label, progress, "reabsorb")


def _replaced(world: World, spec: TableSpec, item: Input, entries: Iterable[Input]) -> bool:
    """Whether the sink has written another content under an input's name: absorbed after it, or in landing now."""
    first = [entry.etag for entry in entries if entry.path == item.path and entry.outcome not in LATER]
    there = world.storage.stat(snapshots.layout_of(spec).landed(item.path))
    return first[-1:] != [item.etag] or (there is not None and there.etag != item.etag)


def _check_repaired(world: World, spec: TableSpec, inputs: Iterable[Input]) -> None:
    """A repaired copy may hold the repaired records only, the original the others: which of the two to read nobody can tell. Raises InputRefused."""
    for item in inputs:
        both = archive.repaired(world, spec, item)
        if both:
            raise InputRefused(
                f"table {spec.name}: {item.path} was repaired, its records are in {both[0]} and {both[1]}. "
                "Join them in the second, move the first away"
            )


def changed(target: Iterable[Input], head: Iterable[Input]) -> tuple[Input, ...]:
    """The entries that say what a restore does to inputs: rows of theirs go, or come back."""
    then, out = ledger.latest(target), []
    for name, item in ledger.latest(head).items():
        before = then.get(name)
        if before is None:
            out += [] if item.unabsorbed else [dataclasses.replace(item, outcome="undone")]
        elif (before.unabsorbed, before.quarantined, before.reason) != (item.unabsorbed, item.quarantined, item.reason):
            out.append(dataclasses.replace(before, outcome="undone" if before.unabsorbed else "redone"))
    return tuple(out)


def _schema(head: Schema, target: Schema) -> Schema:
    """The old columns; in tables of a new generation where the present tables have others, because tables only ever gain columns (H14)."""
    same = [(field.name, field.type) for field in head.fields] == [(field.name, field.type) for field in target.fields]
    return dataclasses.replace(target, generation=head.generation if same else head.generation + 1)


def _available(world: World, spec: TableSpec) -> list[Snapshot]:
    layout = snapshots.layout_of(spec)
    found = list(snapshots.history(world, layout))
    return [snapshot for snapshot in found if not retention.condemned(snapshot, layout, found[0])]


def _told(found: list[Snapshot]) -> str:
    if not found:
        return "nothing is committed yet"
    listed = ", ".join(f"{snapshot.version} ({snapshot.time})" for snapshot in found[:10])
    return f"there are {listed}{' and older ones' if len(found) > 10 else ''}"


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise Refused(f"expected a time such as 2026-11-20T14:00:00Z, found {text!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
