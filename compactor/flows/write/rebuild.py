"""Rebuild: a new base out of everything the ledger names, read again from archive and landing, in place of base and Delta (H20).

Schema, order and rows come from the files and from the settings of now, which is why it is the way to another key or order.
It is compared with what it is to replace before it is committed. What others absorb meanwhile is read again too, by ledger, at the end.

What a crash leaves: before the put, directories that nothing names (garbage for vacuum); after it, a catalog that is behind, which the
next run publishes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from compactor.core.model.errors import Conflict, InputRefused, NoRowsYet, Refused
from compactor.core.model.layout import commit_id
from compactor.core.model.position import latest
from compactor.core.model.schema import Schema, schema_differences
from compactor.core.model.snapshot import AGAIN, Input, Snapshot
from compactor.core.model.spec import ROW_ID, TableSpec
from compactor.core.planning import plan
from compactor.core.results.reports import Progress, RebuildReport, silent
from compactor.core.sources import full_loads
from compactor.flows import ledger, snapshots
from compactor.flows.environment import World
from compactor.flows.keep import discard
from compactor.flows.publish import archive, publish
from compactor.flows.write import commit, feed, restore
from compactor.ports import Difference, Facts, Staged

ATTEMPTS = 5
"""How often what others commit meanwhile is caught up with, and how often files that are moved under us are looked for again."""

_APART = ("restore", "rebuild")
"""Operations of others after which a rebuild begun before them is not what was asked for."""


def rebuild(
    world: World,
    spec: TableSpec,
    target: Snapshot | None = None,
    accept: bool = False,
    dry: bool = False,
    progress: Progress = silent,
    label: str = "",
) -> RebuildReport:
    """Build the newest version again, or `target`, and publish it if its rows are those of that version, or `accept` is said; never when `dry`.

    Raises InputRefused naming the files that are gone or cannot be read, Conflict when others restore or rebuild meanwhile, or go on committing.
    """
    head, made, inputs = _built(world, spec, target, progress, label)
    against = target or head
    progress(spec.name, "check", 0.7)
    difference = _difference(world, spec, against, made)
    undone, size = sum(item.outcome == "undone" for item in made.inputs), sum(item.size for item in inputs)
    told = RebuildReport(spec.name, "equal", None, against.version, len(inputs), size, made.rows, difference, undone)
    if dry or (difference and not accept):
        # nobody has seen them: the nonce in their names is ours alone
        layout = snapshots.layout_of(spec)
        world.storage.delete(f"{layout.inside(path)}/{file.name}" for path, file in made.data_files)
        return dataclasses.replace(told, outcome="differs" if difference else "equal")
    progress(spec.name, "publish", 0.85)
    made = _put(world, spec, head, made, target is None, label)
    publish.publish(world, spec, made)
    archive.archive(world, spec, made)
    note = f"`compactor restore {spec.name} --version {head.version}` goes back"
    return dataclasses.replace(told, outcome="published", version=made.version, rows=made.rows, notes=(note,))


def _difference(world: World, spec: TableSpec, against: Snapshot, made: Snapshot) -> Difference:
    """Raises Conflict when vacuum has taken one of the two meanwhile: the rebuild slept longer than `grace`."""
    layout = snapshots.layout_of(spec)
    try:
        found = world.engine().difference(spec, against, made)
    except Exception as error:
        newest = snapshots.newest(world, layout)
        if newest is None or snapshots.standing(world, layout, newest, made.data_files):
            raise
        raise Conflict(f"table {spec.name}: vacuum took the rebuilt files for an orphan's before they were compared; rebuild again") from error
    if found.unreadable and snapshots.overtaken(world, layout, against):
        raise Conflict(f"table {spec.name}: version {against.version} was vacuumed before it could be compared with; rebuild again")
    return dataclasses.replace(found, columns=schema_differences(against.schema, made.schema))


def _built(world: World, spec: TableSpec, target: Snapshot | None, progress: Progress, label: str) -> tuple[Snapshot, Snapshot, list[Input]]:
    """The newest Snapshot, its child with the new base, written and not committed, and what that was made of."""
    layout = snapshots.layout_of(spec)
    places: dict[tuple[str, str], str] = {}
    inputs: list[Input] = []
    for attempt in range(ATTEMPTS):
        head = snapshots.newest(world, layout)
        if head is None:
            raise Refused(f"table {spec.name}: nothing is committed yet, so there is nothing to build again; `compactor run {spec.name}` builds it")
        _check_origin(world, spec, head)
        try:
            inputs, places = _sources(world, spec, target or head)
            return head, _from_nothing(world, spec, head, target, inputs, places, progress, label), inputs
        except Exception as error:
            overtaken = snapshots.overtaken(world, layout, target or head)
            swept = any(each.operation == "vacuum" for each in _since(world, spec, head))
            if not overtaken and not swept and not isinstance(error, Conflict):
                # a run beside us archives what we are reading, or its sink writes it again
                if places == _sources(world, spec, target or head)[1] and _steady(world, spec, inputs, places):
                    raise
            if attempt == ATTEMPTS - 1 or (overtaken and target):
                raise Conflict(f"table {spec.name}: others vacuum or move files while they are read; the last error: {error}") from error
    raise Conflict(f"table {spec.name}: files go on changing while they are read")


def _sources(world: World, spec: TableSpec, snapshot: Snapshot) -> tuple[list[Input], dict[tuple[str, str], str]]:
    """What to read: the inputs whose rows are in a version, and where they lie. Raises InputRefused naming those that are gone.

    Of a name that its sink wrote again before it was archived the first content is lost; the second, absorbed later, holds what it did.
    """
    entries = ledger.everything(world, snapshots.layout_of(spec), snapshot)
    inputs, places = archive.taken(world, spec, entries)
    again = {(item.path, item.etag) for item in entries if item.outcome in AGAIN}
    discarded = discard.ever(entries)
    chosen: dict[str, Input] = {}
    gone, held = [], set()
    for item in reversed(inputs):
        name = (item.path, item.etag)
        there = archive.content(world, spec, item, places.get(name), name in again) if name not in discarded else None
        if there is not None:
            # of two inputs in one place one is read
            chosen.setdefault(there, item)
            held.add(item.path)
        elif item.path not in held:
            gone.append(item.path)
    if gone:
        more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
        raise InputRefused(
            f"table {spec.name}: {len(gone)} files that version {snapshot.version} was made of are neither in landing nor archived as they were: "
            f"{', '.join(gone[:3])}{more} (`archive_retention`? deleted by hand?). Restore them from a backup: without them their rows would be lost."
        )
    if not chosen:
        raise Refused(f"table {spec.name}: nothing that was absorbed by version {snapshot.version} has rows in it")
    kept = [(dataclasses.replace(item, outcome="absorbed", quarantined=0, reason=""), there) for there, item in chosen.items()]
    kept.sort(key=lambda each: each[0].path)
    return [item for item, _ in kept], {(item.path, item.etag): there for item, there in kept}


def _steady(world: World, spec: TableSpec, inputs: Iterable[Input], places: dict[tuple[str, str], str]) -> bool:
    """Whether those that were read in landing are still what the ledger names (H1)."""
    layout = snapshots.layout_of(spec)
    landed = [item for item in inputs if places[item.path, item.etag] == layout.landed(item.path)]
    return all(archive.still_landed(world, spec, item) for item in landed)


def _from_nothing(
    world: World,
    spec: TableSpec,
    head: Snapshot,
    target: Snapshot | None,
    inputs: Sequence[Input],
    places: dict[tuple[str, str], str],
    progress: Progress,
    label: str,
) -> Snapshot:
    version = head.version + 1
    writer = commit_id(version, world.nonce())
    progress(spec.name, "read", 0.1)
    try:
        batch = world.engine().read(spec.unguarded, _origin(world, spec, head), inputs, version, places)
    except NoRowsYet as error:
        raise Refused(str(error)) from error
    try:
        _check_read(world, spec, batch.facts, inputs, places)
        progress(spec.name, "resolve", 0.3)
        # every tombstone stays: with no event left out there is nothing that one of them could be too old for
        staged = world.engine().write_base(batch, writer, 0)
        state = _state(spec, batch.facts, staged, writer)
        state.update(history=world.engine().write_history(batch, writer) if spec.history else None)
    finally:
        batch.close()
    then = restore.changed(ledger.everything(world, snapshots.layout_of(spec), target), _entries(world, spec, head)) if target else ()
    first = dataclasses.replace(head, **state, base_id=writer, delta=None, folded_at=world.now(), hour=_hour(inputs), restored=None)
    return _child(world, spec, head, first, label, inputs=then, restored=target.version if target else None)


def _check_origin(world: World, spec: TableSpec, head: Snapshot) -> None:
    """Raises Refused for an adopted table whose first version is not kept: nothing else holds the rows it began with."""
    lost = snapshots.origin_lost(world, snapshots.layout_of(spec), head)
    if lost:
        raise Refused(
            f"table {spec.name}: it was {lost} (`compactor pin {spec.name} 1` would have kept it). To mend it go back to a version that is kept "
            "(`compactor restore`), or adopt a base anew: docs/operations.md."
        )


def _origin(world: World, spec: TableSpec, head: Snapshot) -> Snapshot | None:
    """What the first file meets: nothing; in a table that was adopted, what it began with.

    Where `on_schema_change` keeps columns out, a table with the columns of now and no rows: then what was left out stays out. Not with another key
    or order: these ask for a table made anew.
    """
    adopted = snapshots.origin(world, snapshots.layout_of(spec), head)
    if adopted is not None:
        return adopted
    same = {head.schema.field(name).source for name in head.schema.key} == {*spec.key} or (spec.keyless and head.schema.key == (ROW_ID,))
    same = same and (not spec.order_by or spec.order_by == tuple(name for name, _ in head.order))
    if not same or spec.policy.whole:
        return None
    nothing: dict[str, Any] = dict.fromkeys(("delta", "position", "source_time", "truncated_to", "purged_to", "history"))
    return dataclasses.replace(head, **nothing, segments=(), offsets=())


def _check_read(world: World, spec: TableSpec, facts: Facts, inputs: Sequence[Input], places: dict[tuple[str, str], str]) -> None:
    """Raises Conflict when files changed while they were read, InputRefused naming one that could be read once and cannot any more."""
    if not _steady(world, spec, inputs, places):
        raise Conflict(f"table {spec.name}: files changed in landing while they were read")
    broken = [item for item in facts.inputs if item.reason]
    if broken:
        raise InputRefused(
            f"table {spec.name}: {places[broken[0].path, broken[0].etag]} was absorbed once and cannot be read now ({broken[0].reason}); "
            f"{len(broken)} files in all. Restore them from a backup."
        )


def _state(spec: TableSpec, facts: Facts, staged: Staged, writer: str) -> dict[str, Any]:
    """What of a Snapshot comes from reading alone."""
    return {
        "schema": commit.registered(spec, facts.evolved.schema),
        "order": facts.order,
        "segments": staged.segments,
        "counts": {"read": facts.read, **staged.counts},
        "ties": staged.ties,
        "unresolved": staged.unresolved,
        "position": facts.last,
        "source_time": facts.source_time,
        "truncated_to": facts.truncate,
        "purged_to": None,
        "epoch": spec.epoch,
        "offsets": facts.offsets,
        "writer": writer,
    }


_CARRIED = (
    *("schema", "order", "base_id", "segments", "delta", "counts", "ties", "unresolved", "hour", "position", "source_time", "truncated_to"),
    *("purged_to", "epoch", "offsets", "folded_at", "history"),
)
"""What a rebuilt Snapshot has of its own; the rest is its parent's."""


def _child(world: World, spec: TableSpec, parent: Snapshot, built: Snapshot, label: str, **changes: object) -> Snapshot:
    """What was built, as the Snapshot after `parent`."""
    child = snapshots.child(
        world, parent, built.writer, "rebuild", label, **{name: getattr(built, name) for name in _CARRIED}, publish="yes", **changes
    )
    return dataclasses.replace(
        child,
        schema=_placed(parent, built),
        pending=archive.unfinished(world, spec, parent.pending),
        ledger=ledger.carried(world, snapshots.layout_of(spec), parent, built.writer),
    )


def _placed(parent: Snapshot, built: Snapshot) -> Schema:
    """The new columns, those that the table has in its order; in tables of a new generation when these have others, or rows of another form (H14)."""
    order = {field.name: at for at, field in enumerate(parent.schema.fields)}
    fields = tuple(sorted(built.schema.fields, key=lambda field: order.get(field.name, len(order))))
    same = [(field.name, field.type) for field in fields] == [(field.name, field.type) for field in parent.schema.fields]
    same = same and parent.order == built.order and parent.schema.key == built.schema.key
    return dataclasses.replace(built.schema, fields=fields, generation=parent.schema.generation + (0 if same else 1))


def _hour(inputs: Iterable[Input]) -> str | None:
    return max((item.hour for item in inputs if item.hour), default=None)


def _entries(world: World, spec: TableSpec, snapshot: Snapshot) -> list[Input]:
    return ledger.everything(world, snapshots.layout_of(spec), snapshot)


def _put(world: World, spec: TableSpec, head: Snapshot, made: Snapshot, newest_wanted: bool, label: str) -> Snapshot:
    """Commit it, on top of whatever was committed since `head`; gives back what stands."""
    layout = snapshots.layout_of(spec)
    for _ in range(ATTEMPTS):
        made = feed.with_changes(world, spec, head, made)
        try:
            snapshots.put(world, layout, made)
            return made
        except Conflict:
            # an older state was asked for: as with a restore, it may not be what is wanted any more
            if not newest_wanted:
                raise
        newest = snapshots.newest(world, layout)
        if newest is None or newest.version < made.version:
            break
        made = _caught_up(world, spec, head, newest, made, label)
        head = newest
    raise Conflict(f"table {spec.name}: others go on committing; run the rebuild again when fewer do")


def _since(world: World, spec: TableSpec, head: Snapshot) -> list[Snapshot]:
    """What was committed after `head`, the newest first."""
    return list(itertools.takewhile(lambda each: each.version > head.version, snapshots.history(world, snapshots.layout_of(spec))))


def _caught_up(world: World, spec: TableSpec, head: Snapshot, newest: Snapshot, made: Snapshot, label: str) -> Snapshot:
    """What was built on `head`, on top of `newest`: what was absorbed between them is absorbed into it, from the raw files (H20)."""
    layout = snapshots.layout_of(spec)
    apart = [each.operation for each in _since(world, spec, head) if each.operation in _APART]
    if apart or not snapshots.standing(world, layout, newest, made.data_files):
        what = f"a {apart[0]} was committed" if apart else "vacuum took its files for an orphan's"
        raise Conflict(f"table {spec.name}: {what} while the rebuild went on; look at `compactor log {spec.name}`, then rebuild again")
    known = ledger.latest(_entries(world, spec, head))
    inputs, places = _sources(world, spec, newest)
    now = ledger.latest(_entries(world, spec, newest))
    since = {name for name, item in now.items() if known.get(name) != item and item.outcome != "discarded"}
    inputs = [item for item in inputs if (item.path, item.etag.removesuffix("~original")) in since]
    version = newest.version + 1
    # a name of its own: vacuum may have given up what was written under the last one
    writer = commit_id(version, world.nonce())
    if not inputs:
        return _child(world, spec, newest, dataclasses.replace(made, writer=writer), label)
    hours = full_loads.hours(known.values()) if spec.source.full_loads else ()
    batch = world.engine().read(spec.unguarded, made, inputs, version, places, hours)
    try:
        facts = batch.facts
        _check_read(world, spec, facts, inputs, places)
        whole = plan.whole_base(spec, made, facts.changes, bool(facts.evolved.retyped), facts.truncate is not None)
        engine = world.engine()
        staged = engine.write_base(batch, writer, 0) if whole else engine.write_delta(batch, writer)
        state = _state(spec, facts, staged, writer)
        state.update(history=engine.write_history(batch, writer) if spec.history else None)
    finally:
        batch.close()
    if whole:
        state.update(base_id=writer, delta=None)
    else:
        state.update(segments=made.segments, delta=staged.delta)
    counts = {name: made.counts.get(name, 0) + number for name, number in {"read": facts.read, **staged.counts}.items()}
    state.update(
        counts=counts,
        ties=made.ties + staged.ties,
        position=latest([made.position, facts.last]),
        source_time=max(filter(None, (made.source_time, facts.source_time)), default=None),
        truncated_to=latest([made.truncated_to, facts.truncate]),
        offsets=commit.offsets(made, facts, spec.epoch),
        hour=max(filter(None, (made.hour, _hour(inputs))), default=None),
    )
    return _child(world, spec, newest, dataclasses.replace(made, **state), label)
