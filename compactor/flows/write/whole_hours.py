"""Whole hours: the watermark of a new version (docs/design/input.md#whole-hours)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from compactor.core.model.inputs import IN_QUARANTINE, LEFT_OUT, NOTHING_KNOWN, Input, Watermark
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.batch import BatchSummary
from compactor.core.sources.whole_hours import advanced
from compactor.flows import ledger
from compactor.flows.table import Table


def after_commit(table: Table, parent: Snapshot | None, summary: BatchSummary, left_out: bool, landing: bool) -> Watermark:
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


def after_giving_up(table: Table, parent: Snapshot, inputs: Collection[Input]) -> Watermark:
    """Return the watermark after inputs in quarantine were given up on top of `parent`. They lack no rows then."""
    before = parent.watermark
    if before.incomplete != IN_QUARANTINE or _others_lack_rows(table, parent, {item.id for item in inputs}):
        return before
    return dataclasses.replace(before, incomplete="")


def after_setting_aside(before: Watermark) -> Watermark:
    """Return the watermark after records that were ingested went to quarantine. They may be of any hour."""
    return dataclasses.replace(before, whole_to=None, incomplete=before.incomplete or IN_QUARANTINE)


def brought_back(target: Snapshot, entries: Iterable[Input]) -> Watermark:
    """Return the watermark of a restore or rebuild to `target`. `entries`: the whole ledger after it."""
    lacking = _lacks_rows(ledger.latest(entries).values())
    return dataclasses.replace(target.watermark, incomplete=target.watermark.incomplete or (IN_QUARANTINE if lacking else ""))


def _others_lack_rows(table: Table, parent: Snapshot, taken: Collection[tuple[str, str]]) -> bool:
    """Return whether rows of inputs other than `taken` are not in the table. It reads the ledger."""
    return _lacks_rows(item for item in ledger.newest_entries(table, parent) if item.id not in taken)


def _lacks_rows(inputs: Iterable[Input]) -> bool:
    return any(item.in_quarantine or item.unabsorbed for item in inputs)
