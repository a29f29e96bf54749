"""Names of columns: from the source's spelling to a name that every reader of a Hive table accepts.

Rules, in this order:

1. Unicode's compatibility form (NFKC), lower case: `userId` → `userid`, full-width and ligature letters become plain ones.
2. Every character except letters, their marks, digits and underscores becomes `_`: `a.b`, `a-b` and `a b` → `a_b`. Letters of every script stay.
   Kafka Connect's Avro converter does the same, so JSON and Avro of one source agree (except for letters beyond ASCII).
3. A leading digit gets a `_` before it: `2nd` → `_2nd`. An empty name becomes `_`.
4. A name of more than 128 characters becomes its first 115, `_`, and eight digits of the SHA-256 of the whole name.
5. A name that another column has already, in any case, or that compactor reserves gets `_2`, `_3`, ...

Members of structs have only ASCII letters and digits, because type texts such as `struct<a:int>` do not quote them. Any other character of ASCII
becomes `_`, and one beyond it `_u` with its code point, so that two names of another script stay two.
Reserved words of SQL (`order`, `date`, `user`) stay: every statement quotes every name.
The Snapshot keeps the source's spelling. The column's comment shows it if it differs.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

CHARS_MAX = 128
_CUT = 115  # leaves room for the digest and `_999`


def stored_name(source: str) -> str:
    """Return the name under which a column is stored and shown, by rules 1 to 4.

    >>> [stored_name(name) for name in ("userId", "a.b", "Größe", "2nd", "order", "`; drop table x --")]
    ['userid', 'a_b', 'größe', '_2nd', 'order', '___drop_table_x___']
    """
    # lower case can undo the compatibility form and vice versa; after two rounds nothing changes any more
    plain = source
    for _ in range(2):
        plain = unicodedata.normalize("NFKC", plain).lower()
    plain = "".join(char if char == "_" or unicodedata.category(char)[0] in "LNM" else "_" for char in plain)
    return _short(source, _with_leading_letter(plain))


def member_name(source: str) -> str:
    """Return the stored name of a struct's member: ASCII, because type texts do not quote it.

    >>> [member_name(name) for name in ("userId", "a.b", "größe", "1st")]
    ['userid', 'a_b', 'gr_u00f6_u00dfe', '_1st']
    """
    plain = re.sub(r"[^a-z0-9_]", lambda other: "_" if other[0].isascii() else f"_u{ord(other[0]):04x}", source.lower())
    return _short(source, _with_leading_letter(plain))


def unique(name: str, taken: Iterable[str]) -> str:
    """Return `name`, or the first of `name_2`, `name_3`, ... that no engine confuses with a name in `taken`.

    >>> unique("a", ["a", "a_2"]), unique("ſtraße", ["STRASSE"])
    ('a_3', 'ſtraße_2')
    """
    return Taken(taken).free(name)


def of_header(cells: Sequence[str]) -> list[str]:
    """Return the names in a CSV header, without blanks around them.

    Without a name, as pandas' index and a spreadsheet's columns behind the last are, a column has its number.

    >>> of_header(["", "id", " v", ""])
    ['_1', 'id', 'v', '_4']
    """
    names = [cell.strip() for cell in cells]
    return [name or unique(f"_{at}", names) for at, name in enumerate(names, 1)]


class Taken:
    """The names that columns have already."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._used = {_caseless(name) for name in names}

    def __contains__(self, name: str) -> bool:
        return _caseless(name) in self._used

    def add(self, name: str) -> None:
        self._used.add(_caseless(name))

    def free(self, name: str) -> str:
        """Return `name`, or the first of `name_2`, `name_3`, ... that is not taken."""
        candidate, number = name, 1
        while candidate in self:
            number += 1
            candidate = f"{name}_{number}"
        return candidate


def comment(text: str) -> str:
    """Return a text as a comment that every catalog can store: one line without control characters and lone surrogates."""
    visible = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join("".join(visible).split())


def _caseless(name: str) -> str:
    # some engines compare names in upper case: to them ı equals i, and ſ equals s
    return name.upper().lower()


def _with_leading_letter(name: str) -> str:
    return f"_{name}" if not name or unicodedata.category(name[0])[0] in "NM" else name


def _short(source: str, name: str) -> str:
    if len(name) <= CHARS_MAX:
        return name
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[:_CUT]}_{digest}"
