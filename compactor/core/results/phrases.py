"""Phrases that several messages use, and text for a terminal or a log."""

from __future__ import annotations

import re


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, for messages.

    >>> counted(1, "file"), counted(1200, "file"), counted(2, "entry")
    ('1 file', '1,200 files', '2 entries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def size(count: float) -> str:
    """Return a number of bytes with a unit, in powers of 1024, as the configuration reads them.

    >>> [size(each) for each in (0, 1023, 40594, 1048575, 5 << 30)]
    ['0 B', '1023 B', '39.6 KB', '1.0 MB', '5.0 GB']
    """
    units = ["B", "KB", "MB", "GB", "TB", "PB"]
    while units[1:] and round(count, 1) >= 1024:
        count /= 1024
        del units[0]
    return f"{count:.0f} B" if units[0] == "B" else f"{count:,.1f} {units[0]}"


def moment(text: str) -> str:
    """Return an ISO time, which is UTC, without fractions of a second, for people.

    >>> moment("2024-03-05T03:10:00.123Z"), minute("2024-03-05T03:10:00.123Z")
    ('2024-03-05 03:10:00', '2024-03-05 03:10')
    """
    return text[:19].replace("T", " ")


def minute(text: str) -> str:
    return moment(text)[:16]


def csv_delimiter(delimiter: str) -> str:
    """Return what to do about files whose values are separated by something else."""
    return f"set `csv: {{delimiter: {delimiter!r}}}` if the files ingested before have it too; otherwise have the source write as before"


def absent_key(name: str, around: str | None) -> str:
    """Return what to do about a column of the key that no row has. `around`: a column whose objects have it."""
    if around:
        return f"{around} has it, so that the rows may be wrapped in an envelope that is not read; land the members of {around} as columns"
    metadata = "name it in `metadata_columns` if the rows are plain, to store a column that begins with __; else correct `key:`"
    return metadata if name.startswith("__") else "correct `key:`"


def without_table(table: str, message: str) -> str:
    """Return an error's message without the table's name in front, for lines that begin with it.

    >>> without_table("t", "table t, column age: too long")
    'column age: too long'
    """
    for start in (f"table {table}: ", f"table {table}, ", f"{table}: "):
        if message.startswith(start):
            return message[len(start) :]
    return message


_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, separators of lines and paragraphs, marks that turn the direction of text, and halves of a character."""


def visible(text: str, keep: str = "") -> str:
    """Return the text with characters that a terminal obeys, or that hide what stands there, as Python writes them. Those in `keep` stay.

    >>> visible("a\\x1b[2Jb\\u202ec\\n", keep="\\n")
    'a\\\\x1b[2Jb\\\\u202ec\\n'
    """
    return _UNSEEN.sub(lambda each: each[0] if each[0] in keep else repr(each[0])[1:-1], text)
