"""Text that orders changes: it is compared as numbers if it holds whole numbers, and refused where it sorts otherwise than what it means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compactor.core.model.errors import OrderRefused
from compactor.spark.checks import misfits
from compactor.spark.decode.frame import Frame
from compactor.spark.input.inputs import Inputs
from compactor.spark.sql import literal, named


def kind(table: str, name: str, column: str, frames: Sequence[Frame], values: Sequence[str], opened: Inputs) -> str:
    """Return the type as which a text column is compared, bigint or string. Raises OrderRefused if neither puts its values in order.

    `name` is the column in `order_by`, `column` the source's; `values` is SQL for its text, one for each frame. One Spark job a frame.
    """
    count, digits, misordered = _counts(frames, values)

    def first(test: Callable[[str], str]) -> str:
        places = (misfits.first(frame, test(value), value, column, opened) for frame, value in zip(frames, values))
        return next(filter(None, places), "")

    if 0 < digits < count:
        raise OrderRefused(
            f"table {table}: order_by column {name!r} holds whole numbers in {digits:,} records and other text in {count - digits:,}, which have "
            f"no order in common. The first text is {first(lambda value: f'({value}) IS NOT NULL AND NOT {_is_number(value)}')}. Declare "
            f"`types: {{{column}: bigint}}` (other values then go to quarantine), or set another column."
        )
    if misordered:
        raise OrderRefused(
            f"table {table}: order_by column {name!r} is text that does not sort as what it means. The first is {first(_is_misordered)}. Declare "
            f"numbers in `types:`, such as {{{column}: decimal(18,6)}}, have dates written as 2026-01-31, or set another column."
        )
    return "bigint" if digits else "string"


def _counts(frames: Sequence[Frame], values: Sequence[str]) -> tuple[int, int, int]:
    """Count the rows that have a value, those with a whole number, and those with text that sorts otherwise than what it means."""
    counts = (0, 0, 0)
    for frame, value in zip(frames, values):
        rows = frame.rows.where(f"_op IS NOT NULL AND _invalid IS NULL AND ({value}) IS NOT NULL")
        row = rows.agg(
            named("count(1)", "n"), named(f"count_if({_is_number(value)})", "d"), named(f"count_if({_is_misordered(value)})", "m")
        ).collect()[0]
        counts = (counts[0] + row.n, counts[1] + row.d, counts[2] + row.m)
    return counts


def _is_number(value: str) -> str:
    """SQL: whether text is a whole number of at most 18 digits."""
    return f"({value}) RLIKE '^-?[0-9]{{1,18}}$'"


def _is_misordered(value: str) -> str:
    """SQL: whether text is a number with a fraction (9.5 and 10.5), a date that begins with its day or month, or one without leading zeros."""
    number, day = "[+-]?[0-9]+[.,][0-9]+", "[0-9]{1,2}[-/.]([0-9]{1,2}|[A-Za-z]{3})[-/.][0-9]{2,4}([^0-9].*)?"
    unpadded = "[0-9]{4}[-/]([0-9][-/].*|[0-9]{2}[-/][0-9]([^0-9].*)?)"
    return f"({value}) RLIKE {literal(f'^({number}|{day}|{unpadded})$')}"
