"""The order of a batch: its order columns, its epochs and barriers, and which batches may follow a version.

A text column is compared as numbers if it holds whole numbers, because '9' > '10' as text, and refused where it sorts otherwise than what it means.
Hexadecimal numbers of one width sort as text, also those without letters beside others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from compactor.core.model import types
from compactor.core.model.errors import OrderRefused
from compactor.core.model.inputs import Input, path_of
from compactor.core.model.position import NO_STARTS, OFFSETS, Order, Position, Starts, at_or_below, check_order, latest, offsets_problem
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.phrases import counted
from compactor.core.sources.increment import shard_of
from compactor.spark.checks import misfits
from compactor.spark.decode.decoder import DECODERS
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import joined
from compactor.spark.input.inputs import Inputs
from compactor.spark.rows import position, survey
from compactor.spark.rows.order_texts import ADVICE, column_of, is_hexadecimal, is_misordered, is_number
from compactor.spark.sql import cast, literal, named


def order_columns(opened: Inputs, parent: Snapshot | None, frames: Sequence[Frame]) -> Order:
    """Return the order columns and their types: the table's own, else the declared ones, else the connector's. Raises OrderRefused."""
    spec, paths = opened.spec, [item.path for item in opened.inputs]
    decoder = DECODERS[spec.envelope]
    if parent is None:
        names = decoder.order(spec, frames)
        decoder.check_names(spec, names, paths)
        return tuple((name, _type(name, opened, frames)) for name in names)
    names, declared_names = tuple(name for name, _ in parent.order), decoder.declared_order(spec)
    check_order(spec.name, declared_names, names)
    if not declared_names and parent.envelope not in ("", spec.envelope) and decoder.order(spec, frames) != names:
        raise OrderRefused(
            f"table {spec.name}: the envelope is {spec.envelope}, but the table was built with {parent.envelope}, whose order is "
            f"{', '.join(names)}. Positions of different orders cannot be compared. Restore the setting, or begin a new table with the new "
            f"files."
        )
    decoder.check_names(spec, names, paths)
    return parent.order


def _type(name: str, opened: Inputs, frames: Sequence[Frame]) -> str:
    """Return the type that an order column is compared as. Raises OrderRefused if its values have no order."""
    spec = opened.spec
    # files without a valid record have no columns
    frames = [frame for frame in frames if frame.columns] or frames
    parts = [position.order_part(frame, spec, name, ("string",)) for frame in frames]
    kind, column = joined(kind for _, kind in parts), column_of(name)
    declared = column == name or any(writer.declared(str(column), ()) for frame in frames for writer in frame.writers)
    if kind != ("string",) or column is None or not declared:
        return types.text(kind)
    return _type_of_text(spec.name, name, column, frames, [cast(sql, kind) for sql, _ in parts], opened)


def _type_of_text(table: str, name: str, column: str, frames: Sequence[Frame], values: Sequence[str], opened: Inputs) -> str:
    """Return the type as which a text column is compared: bigint, decimal or string. Raises OrderRefused if neither puts its values in order.

    `name` is the column in `order_by`, `column` the source's; `values` is SQL for its text, one for each frame. One Spark job a frame.
    """
    (count, digits, long, misordered, *hexadecimal), widths = _counts(frames, values)

    def first(test: Callable[[str], str]) -> str:
        places = (misfits.first(frame, test(value), value, opened) for frame, value in zip(frames, values))
        return next(filter(None, places), "")

    if count in hexadecimal and digits < count and len(widths) == 1:
        return "string"
    if 0 < digits < count:
        raise OrderRefused(
            f"table {table}: order_by column {name!r} holds whole numbers in {digits:,} records and other text in {count - digits:,}, which have "
            f"no order in common. The first text is {first(lambda value: f'({value}) IS NOT NULL AND NOT {is_number(value)}')}. Declare "
            f"`types: {{{column}: bigint}}` (other values then go to quarantine), or set another column."
        )
    if misordered:
        raise OrderRefused(
            f"table {table}: order_by column {name!r} is text that does not sort as what it means. The first is {first(is_misordered)}. Declare "
            f"{ADVICE.format(column)}."
        )
    return "decimal(38,0)" if long else "bigint" if digits else "string"


def _counts(frames: Sequence[Frame], values: Sequence[str]) -> tuple[list[int], set[int]]:
    """Count the rows with a text, those with a whole number, with one of more than 18 digits, with misordered text, and with hexadecimal.

    Also return the least and the greatest length of a text, which may be one.
    """
    counts, widths = [0] * 6, set[int]()
    for frame, value in zip(frames, values):
        tests = (is_number(value), f"{is_number(value)} AND length({value}) > 18", is_misordered(value), *is_hexadecimal(value))
        rows = frame.rows.where(f"_op IS NOT NULL AND _invalid IS NULL AND trim({value}) <> ''")
        counted_ = [named("count(1)", "n"), *(named(f"count_if({test})", f"c{at}") for at, test in enumerate(tests))]
        *row, least, greatest = rows.agg(*counted_, *(named(f"{end}(length({value}))", end) for end in ("min", "max"))).collect()[0]
        counts = [total + more for total, more in zip(counts, row)]
        widths |= {least, greatest} if row[0] else set()
    return counts, widths


def check_epoch(spec: TableSpec, parent: Snapshot | None, inputs: Iterable[Input]) -> None:
    """Raise OrderRefused if the epoch is lower than the table's, or than an input's. All new changes would be older than the rows of these."""
    epoch, whose = max([(item.epoch, item.path) for item in inputs], default=(0, ""))
    if parent is not None and parent.epoch >= epoch:
        epoch, whose = parent.epoch, "the table"
    if spec.epoch < epoch:
        raise OrderRefused(
            f"table {spec.name}: `epoch` is {spec.epoch}, and {whose} is in epoch {epoch}: every change would be older than the stored rows. Nothing "
            f"was ingested. Set `epoch: {epoch}` again."
        )


def epoch(opened: Inputs) -> str:
    """SQL for the epoch of a row: that of its file."""
    files: dict[int, list[str]] = {}
    for item in opened.inputs:
        files.setdefault(item.epoch, []).append(literal(item.name))
    most, *others = sorted(files, key=lambda epoch: -len(files[epoch]))
    cases = "".join(f" WHEN _file IN ({', '.join(files[epoch])}) THEN {epoch}" for epoch in others)
    return f"CASE{cases} ELSE {most} END" if cases else str(most)


_FIRST_MAX = 20
"""First transactions of one shard that are kept: a connector begins seldom."""


def starts(opened: Inputs, parent: Snapshot | None, order: Order, counts: survey.SurveyResult) -> Starts:
    """Return the first initial snapshot of each shard, and the first transactions, of the table and the batch."""
    before = parent.starts if parent else NO_STARTS
    if [name for name, _ in order[:2]] != ["commit_lsn", "lsn"]:
        return before
    epochs, pattern = {item.name: item.epoch for item in opened.inputs}, opened.spec.pattern if opened.spec.shard else ""

    def kept(earlier: Iterable[tuple[int, str, int]], arrived: Iterable[tuple[str, int]], which: slice) -> tuple[tuple[int, str, int], ...]:
        more = ((epochs.get(file, opened.spec.epoch), shard_of(pattern, path_of(file)), number) for file, number in arrived)
        by_shard = groupby(sorted({*earlier, *more}), key=lambda start: start[:2])
        return tuple(start for _, group in by_shard for start in [*group][which])

    snapshots = kept(before.snapshots, counts.snapshot_lsns, slice(1))
    return Starts(snapshots, kept(before.transactions, counts.first_transactions, slice(-_FIRST_MAX, None)))


def barrier(opened: Inputs, parent: Snapshot | None, counts: survey.SurveyResult, order: position.Order) -> Position | None:
    """Return the newest truncate, or the beginning of the newest epoch that replaces those before it, when a record of it has come."""
    truncate = counts.truncate if opened.spec.truncate == "apply" else None
    replacing = {item.epoch for item in opened.inputs if item.replaces_epochs}
    begun = replacing & {file.last[0] for file in counts.files.values() if file.last is not None}
    if not begun:
        return truncate
    begins: Position = (max(begun), *(None for _ in order), None, None, None)
    # a later batch has it in its parent: the key may stay in the configuration
    return truncate if at_or_below(begins, parent.truncated_to if parent else None) else latest([truncate, begins])


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
