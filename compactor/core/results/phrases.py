"""Phrases that several messages use."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, for messages.

    >>> counted(1, "file"), counted(1200, "file"), counted(2, "entry")
    ('1 file', '1,200 files', '2 entries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def csv_delimiter(delimiter: str) -> str:
    """Return what to do about files whose values are separated by something else."""
    return f"set `csv: {{delimiter: {delimiter!r}}}` if the files ingested before have it too; otherwise have the source write as before"


def absent_key(name: str, around: str | None) -> str:
    """Return what to do about a column of the key that no row has. `around`: a column whose objects have it."""
    if around:
        return f"{around} has it, so that the rows may be wrapped in an envelope that is not read; land the members of {around} as columns"
    return "name it in `metadata_columns` to store a column that begins with __" if name.startswith("__") else "correct `key:`"


def without_table(table: str, message: str) -> str:
    """Return an error's message without the table's name in front, for lines that begin with it.

    >>> without_table("t", "table t, column age: too long")
    'column age: too long'
    """
    for start in (f"table {table}: ", f"table {table}, ", f"{table}: "):
        if message.startswith(start):
            return message[len(start) :]
    return message
