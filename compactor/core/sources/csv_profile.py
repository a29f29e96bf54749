"""Infer the dialect of a CSV file, its columns, and which of them hold dates, from the head of the file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

BYTES = 1 << 16
"""Bytes of a file that are looked at."""

_ROWS = 300
_DELIMITERS = ",;\t|"
_NAME = re.compile(r"[^\W\d][^\n\r]*")
_OPERATIONS = ("I", "U", "D")
_FORMS = {
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "timestamp": re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}([.]\d+)?)?(Z|[+-]\d{2}:?\d{2})?"),
}
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_COMMA = re.compile(r"[+-]?\d{1,3}(\.?\d{3})*,\d+")
_TYPED = {**_FORMS, **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE), "decimal": _NUMBER}
_FOREIGN = {"numbers with a decimal comma": _COMMA, "dates as day.month.year": re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}")}


@dataclass(frozen=True)
class Head:
    """What the first lines of a file show."""

    delimiter: str
    """The character between values."""
    header: bool
    """Whether the first line holds the names of the columns."""
    columns: tuple[str, ...]
    """The columns, without DMS's operation in files without header; `column_1` and so on where nothing names them."""
    rows: tuple[Mapping[str, str | None], ...]
    """Inserted rows by column. An empty value is None."""


def head(text: str, dms: bool) -> Head:
    """Return what a file's head shows. `dms`: the file has a name as AWS DMS gives it, which writes a header only when asked."""
    delimiter, rows = max(((char, _rows(text, char)) for char in _DELIMITERS), key=lambda parsed: _fit(parsed[1]))
    first: Sequence[str] = rows[0] if rows else []
    if _has_header(rows, dms):
        body = rows[1:]
        return Head(delimiter, True, tuple(first), tuple(dict(zip(first, (cell or None for cell in row))) for row in body if _inserted(row, first)))
    coded = dms and all(row[0] in _OPERATIONS for row in rows)
    columns = tuple(f"column_{at + 1}" for at in range(max(len(first) - coded, 1)))
    inserted = [row[1:] if coded else row for row in rows if not coded or row[0] == "I"]
    return Head(delimiter, False, columns, tuple(dict(zip(columns, (cell or None for cell in row))) for row in inserted))


def _inserted(row: Sequence[str], columns: Sequence[str]) -> bool:
    return columns[0] not in ("Op", "op", "__op") or row[0].strip().lower() in ("", "i", "c", "r", "insert", "create")


def _has_header(rows: Sequence[Sequence[str]], dms: bool) -> bool:
    first = rows[0] if rows else []
    names = all(_NAME.fullmatch(name.strip()) for name in first) and len({*first}) == len(first) > 0
    if not names or not dms or "Op" in first:
        return names
    # DMS writes a header only when asked; a first row of words differs from the second one, which holds a digit
    return first[0] not in _OPERATIONS and any(re.search(r"\d", cell) for cell in (rows[1:2] or [[]])[0])


def _rows(text: str, delimiter: str) -> list[list[str]]:
    try:
        return [row for row in islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), _ROWS) if row]
    except csv.Error:
        return []


def _fit(rows: Sequence[Sequence[str]]) -> tuple[bool, float, int]:
    """Rate a delimiter: several columns, then the share of rows as wide as the first, then the number of columns."""
    width = len(rows[0]) if rows else 0
    return width > 1, sum(len(row) == width for row in rows) / max(len(rows), 1), width


def types(parsed: Head) -> dict[str, str]:
    """Return column → `date` or `timestamp` if all its values have that form, else "". Columns without a value are left out."""
    by_column = {}
    for name in parsed.columns:
        values = [value for row in parsed.rows if (value := row.get(name)) is not None]
        if values:
            by_column[name] = next((kind for kind, form in _FORMS.items() if all(form.fullmatch(value) for value in values)), "")
    return by_column


def has_type(value: str, kind: str) -> bool:
    """Return whether a value has the form of a type. Types whose forms are many (booleans, floats) accept every value.

    >>> [has_type("2019-03-12", kind) for kind in ("int", "decimal(10,2)", "date", "double")]
    [False, False, True, True]
    """
    form = _TYPED.get(kind.partition("(")[0])
    return form is None or bool(form.fullmatch(value))


def foreign(parsed: Head) -> dict[str, tuple[str, str]]:
    """Return column → (form, example) for columns whose values are numbers or dates in a form that stays text."""
    forms = {}
    for name in parsed.columns:
        values = [value for row in parsed.rows if (value := row.get(name)) is not None]
        for form, pattern in _FOREIGN.items():
            if values and all(pattern.fullmatch(value) for value in values):
                forms[name] = (form, values[0])
    return forms
