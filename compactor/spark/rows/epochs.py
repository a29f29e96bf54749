"""Epochs and barriers: which batches may follow a version, the epoch of a row, and what ends all rows before it."""

from __future__ import annotations

from collections.abc import Collection

from compactor.core.model.errors import OrderRefused
from compactor.core.model.position import OFFSETS, Position, at_or_below, latest, offsets_problem
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.phrases import counted
from compactor.spark.input.inputs import Inputs
from compactor.spark.rows import position, survey
from compactor.spark.sql import literal


def check_epoch(spec: TableSpec, parent: Snapshot | None) -> None:
    """Raise OrderRefused if the epoch is lower than the table's. All new changes would be older than the stored rows."""
    if parent is not None and spec.epoch < parent.epoch:
        raise OrderRefused(
            f"table {spec.name}: `epoch` is {spec.epoch}, and the table is in epoch {parent.epoch}: every change would be older than the stored "
            "rows. Nothing was ingested. Restore the setting."
        )


def epoch(opened: Inputs) -> str:
    """SQL for the epoch of a row: that of its file."""
    files: dict[int, list[str]] = {}
    for item in opened.inputs:
        files.setdefault(item.epoch, []).append(literal(item.name))
    most, *others = sorted(files, key=lambda epoch: -len(files[epoch]))
    cases = "".join(f" WHEN _file IN ({', '.join(files[epoch])}) THEN {epoch}" for epoch in others)
    return f"CASE{cases} ELSE {most} END" if cases else str(most)


def snapshot_lsn(parent: Snapshot | None, order: position.Order, counts: survey.SurveyResult) -> int | None:
    """Return the LSN of PostgreSQL's initial snapshot that was taken while the first transaction of the stream was open; None if none was.

    The connector sends no commit LSN with that transaction. The transaction's changes are newer than the snapshot, whenever they were written. Where
    several snapshots are in one batch, nothing shows to which of them they belong.
    """
    if [name for name, _ in order[:2]] != ["commit_lsn", "lsn"] or counts.open_lsn is None:
        return None
    newest = parent.position if parent else None
    # the newest event of the table is a snapshot's row: no change has come after the snapshot
    stored = [newest[1]] if newest and newest[2] is None else []
    lsns: Collection[object] = counts.snapshot_lsns or stored
    lsn = next(iter(lsns)) if len(lsns) == 1 else None
    return lsn if isinstance(lsn, int) and counts.open_lsn <= lsn else None


def barrier(spec: TableSpec, parent: Snapshot | None, counts: survey.SurveyResult, order: position.Order) -> Position | None:
    """Return the newest truncate. Under `epoch_replaces: true` also the beginning of the epoch, when the first record of it has come."""
    truncate = counts.truncate if spec.truncate == "apply" else None
    newest = latest([file.last for file in counts.files.values()])
    if spec.epoch_replaces and newest is not None and newest[0] == spec.epoch:
        begins: Position = (spec.epoch, *(None for _ in order), None, None, None)
        # a later batch has it in its parent: the key may stay in the configuration
        begun = at_or_below(begins, parent.truncated_to if parent else None)
        return truncate if begun else latest([truncate, begins])
    return truncate


def across(parent: Snapshot | None, order: position.Order, counts: survey.SurveyResult) -> bool:
    """Return whether Kafka offsets of several partitions order the table. Then the places of changes of different keys do not compare."""
    offsets = (*counts.offsets, *(parent.offsets if parent else ()))
    return bool(order) and order[0][0] in OFFSETS and len({partition for partition, _ in offsets}) > 1


def checked_moves(spec: TableSpec, moves: int, across: bool) -> int:
    """Return the number of key changes. Raises OrderRefused for updates `across` partitions: no delete shows when the old key was left."""
    if moves and across:
        what = f"{counted(moves, 'update')} changed the key of its row, and the topic has several partitions, whose offsets cannot be compared"
        raise _refused(spec, what)
    return moves


def check_offsets(spec: TableSpec, parent: Snapshot | None, order: position.Order, counts: survey.SurveyResult) -> None:
    """Raise OrderRefused if Kafka offsets order the table and those of the batch do not compare with the table's."""
    if not order or order[0][0] not in OFFSETS:
        return
    if spec.shard:
        raise OrderRefused(
            f"table {spec.name}: Kafka offsets order the changes, and the partitions of all shards ({spec.shard}) have the same numbers. Nothing was "
            "ingested. Set `order_by:` to the source's own position, such as source.ts_us."
        )
    stored = parent if parent and parent.epoch == spec.epoch else None
    truncate = counts.truncate is not None and spec.truncate == "apply"
    problem = offsets_problem(stored.offsets if stored else (), counts.offsets, truncate, counts.newer_offsets)
    if problem:
        later = f"set `epoch: {spec.epoch + 1}`: what lands from then on counts as newer than everything before"
        raise _refused(spec, problem, f"Or, if each key stays in one partition from now on, {later}.")


def _refused(spec: TableSpec, problem: str, other: str = "") -> OrderRefused:
    own = f"Order by the source's own position (set `order_by:`, then run `compactor rebuild {spec.name}`)."
    return OrderRefused(f"table {spec.name}: {problem}. Nothing was ingested. {own} {other}".rstrip())
