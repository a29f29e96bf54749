"""What a commit adds to an Edit: the written batch and the State after it, its watermark (docs/design/input.md#whole-hours), and its part of the
change feed. And which tombstones may be purged.

What a crash leaves: directories that no Snapshot names; after the commit, partitions of the feed that the next publish registers.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

from compactor.core.catalog import feed
from compactor.core.model import times
from compactor.core.model.edit import Edit
from compactor.core.model.errors import InconsistentRead, TryLater
from compactor.core.model.history import History
from compactor.core.model.inputs import IN_QUARANTINE, LEFT_OUT, NOTHING_KNOWN, Input, Watermark
from compactor.core.model.position import KEY, PARTITION, TABLE, Partitions, latest, scope
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Feed, Snapshot, State
from compactor.core.results.batch import BatchSummary, Staged
from compactor.core.results.phrases import counted
from compactor.core.schema import clustering
from compactor.core.sources.whole_hours import advanced
from compactor.flows import ledger, logs
from compactor.flows.table import Table
from compactor.flows.transact import preview
from compactor.ports import Batch, Resolution

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """A batch that was resolved and written, and is not committed."""

    resolution: Resolution
    """The resolved batch, open until the scratch is closed."""
    staged: Staged
    state: State

    @property
    def counts(self) -> dict[str, int]:
        """What became of the events, as `Snapshot.counts`."""
        return {"read": self.resolution.summary.read, **self.staged.counts}


def write(table: Table, batch: Batch, parent: Snapshot | None, commit: str, whole: bool, purge_through: int, scratch: ExitStack) -> Written:
    """Resolve a batch with `parent` and write base or Delta, and the history if the table has one. `scratch` closes the resolution."""
    _check_clustering(table, batch.summary.evolved.schema)
    with logs.phase(table, "resolving") as phase:
        resolution = table.engine().resolve(batch, whole)
        changes = resolution.summary.changes
        phase.did(f"resolved {counted(changes, 'change')}", changes=changes)
    scratch.callback(resolution.close)
    with logs.phase(table, "writing") as phase:
        staged = table.engine().write(resolution, commit, purge_through)
        history = table.engine().write_history(resolution, commit, staged) if table.spec.history else None
        parts = staged.segments or ((staged.delta,) if staged.delta else ())
        rows, size = sum(part.rows for part in parts), sum(part.size for part in parts)
        phase.did(f"wrote a {'base' if whole else 'Delta'} of {counted(rows, 'row')}, {size:,} bytes,", rows=rows, bytes=size)
    made = after(table, parent, resolution.summary, staged, history, commit, whole)
    return Written(resolution, staged, with_purge(table, made, parent, staged, purge_through))


def _check_clustering(table: Table, schema: Schema) -> None:
    """Raise Refused if the next compaction could not write files in the order of `cluster_by:`. It would be too late to learn it there."""
    clustering.of_segments(table.spec, schema)
    if absent := clustering.absent(table.spec, schema):
        log.warning("%s: sorts its files without %s: `cluster_by` names it, and the table has no such column yet", table.name, ", ".join(absent))


def after(table: Table, parent: Snapshot | None, summary: BatchSummary, staged: Staged, history: History | None, commit: str, whole: bool) -> State:
    """Return the State that continues `parent` with a batch. `whole`: a new base was written, else a new Delta."""
    schema = registered(table, summary.evolved.schema)
    before = parent.state if parent else State(schema, summary.order, commit, staged.segments, None)
    made = dataclasses.replace(
        before,
        schema=schema,
        order=summary.order,
        delta=staged.delta,
        hour=_greatest([before.hour, newest_hour(summary.inputs)]),
        position=latest([summary.last, before.position]),
        source_time=_greatest([before.source_time, summary.source_time]),
        truncated_to=None if table.spec.shard else latest([summary.truncate, before.truncated_to]),
        shards_truncated_to=summary.barriers(before.shards_truncated_to),
        starts=summary.starts,
        epoch=table.spec.epoch,
        envelope=table.spec.envelope,
        # a commit that brought nothing new says nothing about what the next one will bring
        brought=sum(staged.counts.get(name, 0) for name in ("applied", "superseded")) or before.brought,
        raw=summary.raw or before.raw,
        raw_format=summary.raw_format or before.raw_format,
        offsets=_offsets(parent, summary, table.spec.epoch),
        history=history,
    )
    if whole:
        made = dataclasses.replace(made, base_id=commit, segments=staged.segments, compacted_at=table.env.now())
    return dataclasses.replace(made, base_source_time=made.source_time) if whole or parent is None else made


def with_purge(table: Table, made: State, parent: State | None, staged: Staged, through: int) -> State:
    """Return `made` with the memory of the tombstones of versions ≤ `through` that were purged, if any were.

    Offsets of different partitions cannot be compared. A purged tombstone lies at or below the offset that its partition had at version `through`.
    """
    compares = KEY if table.spec.shard else scope(made.order)
    if staged.purged_to is None or parent is None or compares == KEY:
        return made
    if compares == TABLE:
        return dataclasses.replace(made, purged_to=latest([staged.purged_to, made.purged_to]))
    then = table.committed(through)
    # a restore may have taken back what version `through` had
    epoch, offsets = min(then.epoch, parent.epoch), dict(parent.offsets)
    if then.epoch == epoch:
        offsets = {name: min(offset, offsets.get(name, offset)) for name, offset in then.offsets} if parent.epoch == epoch else dict(then.offsets)
    before = dict(made.purged_offsets) if made.purged_to and made.purged_to[0] == epoch else {}
    bounds = {name: max(offset, before.get(name, offset)) for name, offset in offsets.items()}
    return dataclasses.replace(
        made, purged_to=(epoch, *(None for _ in made.order), None, None, None), purged_offsets=tuple(sorted({**before, **bounds}.items()))
    )


def registered(table: Table, schema: Schema) -> Schema:
    """Return the schema with the registry's version as it was before this run; without one, with what an earlier run noted."""
    version = table.spec.registry_version
    return schema if version is None else dataclasses.replace(schema, registered=version)


def newest_hour(inputs: Iterable[Input]) -> str | None:
    return _greatest(item.hour for item in inputs)


def purge_through(table: Table, parent: Snapshot | None) -> int:
    """Return the newest version whose tombstones are past their retention; 0 for none. Age counts from the commit that ingested them."""
    if parent is None or table.spec.soft or not parent.tombstones:
        return 0
    limit = table.env.clock() - table.spec.tombstone_retention
    for snapshot in table.history():
        if snapshot.version <= parent.version and times.to_seconds(snapshot.time) < limit:
            # its offsets are what is remembered of the purge: without them nobody would know later which changes are older
            forgotten = scope(parent.order) == PARTITION and parent.offsets and not snapshot.offsets
            return 0 if forgotten else snapshot.version
    return 0


def _offsets(parent: Snapshot | None, summary: BatchSummary, epoch: int) -> Partitions:
    """The greatest offset per partition since the epoch began."""
    offsets = dict(parent.offsets) if parent and parent.epoch == epoch else {}
    return tuple(sorted({**offsets, **{name: max(offset, offsets.get(name, offset)) for name, offset in summary.offsets}}.items()))


def _greatest(values: Iterable[str | None]) -> str | None:
    # by time: a fraction of a second makes a text greater than one with Z in its place
    return max((value for value in values if value), key=times.to_micros, default=None)


def watermark_after(table: Table, parent: Snapshot | None, summary: BatchSummary, left_out: bool, landing: bool) -> Watermark:
    """Return the watermark after a commit on top of `parent`.

    `landing`: it takes files from landing, not from quarantine or the archive. `left_out`: some files that had landed are not in it, and newer ones
    may be.
    """
    before = parent.watermark if parent else NOTHING_KNOWN
    left_out = left_out or (not landing and before.incomplete == LEFT_OUT)
    if parent is not None and parent.epoch != table.spec.epoch:
        # partitions of a topic that was created anew are other ones
        before = dataclasses.replace(before, partitions=())
    taken = {item.id for item in summary.inputs}
    lacking = _lacks_rows(summary.inputs) or (before.incomplete != "" and parent is not None and _others_lack_rows(table, parent, taken))
    incomplete = LEFT_OUT if left_out else IN_QUARANTINE if lacking else ""
    return advanced(before, summary.streams, int(table.env.clock() * 1_000_000), table.spec.streams, incomplete)


def watermark_given_up(table: Table, parent: Snapshot, inputs: Collection[Input]) -> Watermark:
    """Return the watermark after inputs in quarantine were given up on top of `parent`. They lack no rows then."""
    before = parent.watermark
    if before.incomplete != IN_QUARANTINE or _others_lack_rows(table, parent, {item.id for item in inputs}):
        return before
    return dataclasses.replace(before, incomplete="")


def watermark_set_aside(before: Watermark) -> Watermark:
    """Return the watermark after records that were ingested went to quarantine. They may be of any hour."""
    return dataclasses.replace(before, whole_to=None, incomplete=before.incomplete or IN_QUARANTINE)


def watermark_restored(target: Snapshot, entries: Iterable[Input]) -> Watermark:
    """Return the watermark of a restore or rebuild to `target`. `entries`: the whole ledger after it."""
    lacking = _lacks_rows(ledger.latest(entries).values())
    return dataclasses.replace(target.watermark, incomplete=target.watermark.incomplete or (IN_QUARANTINE if lacking else ""))


def _others_lack_rows(table: Table, parent: Snapshot, taken: Collection[tuple[str, str]]) -> bool:
    """Return whether rows of inputs other than `taken` are not in the table. It reads the ledger."""
    return _lacks_rows(item for item in ledger.newest_entries(table, parent) if item.id not in taken)


def _lacks_rows(inputs: Iterable[Input]) -> bool:
    return any(item.in_quarantine or item.unabsorbed for item in inputs)


def with_changes(table: Table, parent: Snapshot | None, edit: Edit, resolution: Resolution | None = None) -> Edit:
    """Return `edit` with its part of the change feed, if the table has one. The Edit's data is already written."""
    continued = feed.continued(table.spec, parent)
    if continued is None or continued.mode == feed.OFF:
        return dataclasses.replace(edit, feed=continued)
    made = preview(table, parent, edit)
    feed.check_names(table.name, made.schema)
    if parent is not None and not _comparable(parent, made, continued):
        return dataclasses.replace(edit, feed=dataclasses.replace(continued, began=made.version))
    try:
        part = table.engine().write_feed(table.spec, parent, made, resolution)
    except Exception as error:
        # files that are gone are an InconsistentRead, too
        passes = isinstance(error, TryLater) and not isinstance(error, InconsistentRead)
        if passes or parent is None or made.operation not in ("rebuild", "restore"):
            raise
        if not table.engine().difference(table.spec, parent, made).unreadable:
            raise
        # the ways out when the old rows cannot be read any more: then what changed is unknown
        return dataclasses.replace(edit, feed=dataclasses.replace(continued, began=made.version))
    return dataclasses.replace(edit, feed=dataclasses.replace(continued, part=part))


def _comparable(parent: Snapshot, made: Snapshot, continued: Feed) -> bool:
    """Return whether the rows that readers saw before and see after differ by changes of events alone.

    Not so after a rebuild with another key, where `delete: soft` was switched, where a restore has taken columns away, and where a hidden column is
    shown again: then rows appear, vanish, lose or regain values that no event has touched.
    """
    same_soft = parent.feed is None or parent.feed.soft == continued.soft
    keeps_columns = set(parent.schema.names) <= set(made.schema.names)
    hidden = {field.name for field in parent.schema.fields if not field.visible}
    shows_again = any(field.name in hidden for field in made.schema.payload)
    return same_soft and keeps_columns and not shows_again and (parent.schema.key, parent.order) == (made.schema.key, made.order)
