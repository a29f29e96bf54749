"""Tables for people: columns that fit the terminal, sizes with units, times in UTC, colours; and rows of queries as text, JSON and CSV."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compactor.core.results import phrases
from compactor.core.results.phrases import visible

PLAIN_WIDTH = 250
"""Width in characters if the output is a file or a pipe."""

_GAP = 2
"""Blanks between two columns."""


class _Console(Console):
    """A console that escapes what a terminal would obey. Lines and tabs of messages stay."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print. Only our own tables and styles have control characters."""
        super().print(*(visible(each, "\n\t") if isinstance(each, str) else each for each in objects), **options)


def print_message(text: str, stream: TextIO | None = None) -> None:
    """Print a message as it is, but for characters that a terminal would obey."""
    print(visible(text, "\n\t"), file=stream or sys.stdout)


def console(stream: TextIO | None = None, wide: bool = False) -> Console:
    """Return a console that prints text without interpreting markup. `wide`: lines may be longer than the terminal."""
    stream = stream or sys.stdout
    width = None if stream.isatty() and not wide else PLAIN_WIDTH
    # a dumb terminal is 80 columns wide to rich, unless both are given
    height = None if width is None else 100
    return _Console(file=stream, markup=False, highlight=False, emoji=False, width=width, height=height)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    right: Sequence[str] = (),
    optional: Sequence[str] = (),
    wide: bool | None = None,
    empty: str = "",
) -> None:
    """Print a table on stdout. Columns in `right` contain numbers.

    On a terminal that is too narrow, columns in `optional` are left out, the first ones first, until the table fits, and a line says so.
    `wide`: leave nothing out; None: the command has no such option. `empty`: the sentence to print if there are no rows.
    """
    out = console(wide=bool(wide))
    columns, right, optional = ([visible(name) for name in names] for names in (columns, right, optional))
    lines = [tuple(map(_cell, row)) for row in rows]
    if empty and not lines:
        out.print(empty, soft_wrap=True)
        return
    widths = _widths(columns, lines)
    if not sys.stdout.isatty():
        # what a program reads is never wrapped
        out.width = max(out.width, sum(widths.values()) + _GAP * len(columns))
    shown = list(columns)
    for name in optional:
        if wide or sum(widths[each] + _GAP for each in shown) - _GAP <= out.width:
            break
        if name in shown:
            shown.remove(name)
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for name in shown:
        grid.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for line in lines:
        grid.add_row(*(cell for name, cell in zip(columns, line) if name in shown))
    with out.capture() as captured:
        out.print(grid)
    # columns are padded to their width, the last one too
    out.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    hidden = [name for name in columns if name not in shown]
    if hidden:
        option = "--output json" if wide is None else "--verbose"
        out.print(f"not shown: {', '.join(hidden)} ({option})", style="dim", soft_wrap=True)


def _cell(value: Any) -> str | Text:
    return value if isinstance(value, Text) else "" if value is None else f"{value:,}" if type(value) is int else visible(str(value))


def rest(line: str) -> None:
    """Print a line about rows that are not shown, if there is one."""
    if line:
        console().print(f"{line} (--verbose shows all)", soft_wrap=True)


OUTCOMES = {"failed": "bold red", "FAILED": "bold red", "later": "yellow", "stopped": "yellow"}
"""Colours of outcomes that need attention."""


def coloured(word: str) -> Text:
    return Text(visible(word), style=OUTCOMES.get(word, ""))


def warned(value: Any) -> Any:
    """Return a number or a text; in yellow unless it is zero or empty."""
    return Text(str(_cell(value)), style="yellow") if value else value


def size(count: int | None) -> str | None:
    """Return a number of bytes with a unit."""
    return None if count is None else phrases.size(count)


def moment(text: str | None) -> str:
    """Return an ISO time, which is UTC, without fractions of a second; "" if there is none."""
    return "" if text is None else phrases.moment(text)


# ---- rows of a query -------------------------------------------------------------------------------------------------


def cells(row: str) -> list[tuple[str, str | None]]:
    """Return a JSON object as (column, text) pairs: strings without quotes, null as None, everything else as written.

    Numbers are not converted, so no digit is lost. Two columns with the same name stay two.

    >>> cells('{"a":1.50,"a":null,"b":[1,"x"],"c":"y"}')
    [('a', '1.50'), ('a', None), ('b', '[1,"x"]'), ('c', 'y')]
    """
    decode = json.JSONDecoder().raw_decode
    pairs: list[tuple[str, str | None]] = []
    at = 1
    while row[at] != "}":
        at += row[at] == ","
        name, at = decode(row, at)
        value, end = decode(row, at + 1)
        pairs.append((name, value if isinstance(value, str) or value is None else row[at + 1 : end]))
        at = end
    return pairs


def rows_as_json(rows: Iterable[str]) -> None:
    before = "[\n"
    # nothing is written before the first row is there: an error leaves no half of a document
    for row in rows:
        sys.stdout.write(before + row)
        before = ",\n"
    sys.stdout.write("\n]\n" if before == ",\n" else "[]\n")


def rows_as_csv(columns: Sequence[str], rows: Iterable[str]) -> None:
    """Print a header, then one line a row. Null is an empty field, an empty text is quoted. Control characters but line ends and tabs are escaped."""
    if not columns:
        return
    sys.stdout.write(",".join(map(_csv_cell, columns)) + "\n")
    for row in rows:
        sys.stdout.write(",".join(_csv_cell(cell) for _, cell in cells(row)) + "\n")


def _csv_cell(cell: str | None) -> str:
    # Python's csv module writes null and "" the same way
    if cell is None:
        return ""
    cell = visible(cell, "\r\n\t")
    quote = cell == "" or any(char in cell for char in ',"\r\n') or cell != cell.strip()
    return '"' + cell.replace('"', '""') + '"' if quote else cell


def rows_as_text(columns: Sequence[str], rows: Iterable[str]) -> None:
    """Print a table of all rows."""
    lines = [["null" if cell is None else cell for _, cell in cells(row)] for row in rows]
    if columns:
        _rows(columns, lines)


def _rows(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print rows as a table, or below each other, a column a line, on a terminal that is too narrow for them."""
    columns, lines = [visible(name) for name in columns], [[visible(cell) for cell in line] for line in lines]
    if not sys.stdout.isatty() or sum(_widths(columns, lines).values()) + _GAP * (len(columns) - 1) <= console().width:
        table(columns, lines)
        return
    width = max(map(cell_len, columns))
    for number, line in enumerate(lines, 1):
        print(f"-- row {number}")
        for name, value in zip(columns, line):
            print(name + " " * (width - cell_len(name) + _GAP) + value)


def _widths(columns: Sequence[str], lines: Sequence[Sequence[Any]]) -> dict[str, int]:
    return {name: max([cell_len(name), *(cell_len(str(line[at])) for line in lines)]) for at, name in enumerate(columns)}


def objects_as_text(rows: Iterable[str]) -> None:
    """Print a table of JSON objects that all have the same names."""
    lines = [*rows]
    rows_as_text([name for name, _ in cells(lines[0])] if lines else [], lines)
