"""Names of columns: from the source's spelling to one that every reader of a Hive table holds (E7).

Rules, in this order:

1. Unicode's compatibility form (NFKC), lower case: `userId` → `userid`, full-width and ligature letters become plain ones.
2. Whatever is no letter, digit, mark of a letter or underscore becomes `_`: `a.b`, `a-b` and `a b` → `a_b`. Letters of every script stay.
   It is what Kafka Connect's Avro converter makes of such names, so JSON and Avro of one source agree (but for letters beyond ASCII).
3. A digit in front gets `_` before it: `2nd` → `_2nd`. A name of nothing becomes `_`.
4. More than 128 characters: the first 115, `_`, and eight digits of the SHA-256 of the whole name.
5. Taken already (columns equal but for case too, and the columns compactor keeps beside the payload): `_2`, `_3`, ...

Members of structs keep ASCII letters and digits only: type texts such as `struct<a:int>` carry them unquoted.
Words that SQL reserves (`order`, `date`, `user`) stay: every statement quotes every name.
The source's own spelling stays in the Snapshot and, where it differs, in the column's comment.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

CHARS_MAX = 128
_CUT = 115  # leaves room for the digest and for `_999`


def stored_name(source: str) -> str:
    """The name under which a column is stored and shown, by rules 1 to 4.

    >>> [stored_name(name) for name in ("userId", "a.b", "Größe", "2nd", "order", "`; drop table x --")]
    ['userid', 'a_b', 'größe', '_2nd', 'order', '___drop_table_x___']
    """
    # lower-casing can undo the compatibility form, and the other way round: twice is enough to settle
    plain = source
    for _ in range(2):
        plain = unicodedata.normalize("NFKC", plain).lower()
    plain = "".join(char if char == "_" or unicodedata.category(char)[0] in "LNM" else "_" for char in plain)
    return _short(source, _led(plain))


def member_name(source: str) -> str:
    """The name of a struct's member: ASCII, because type texts carry it without quotes.

    >>> [member_name(name) for name in ("userId", "a.b", "größe", "1st")]
    ['userid', 'a_b', 'gr__e', '_1st']
    """
    return _short(source, _led(re.sub(r"[^a-z0-9_]", "_", source.lower())))


def unique(name: str, taken: Iterable[str]) -> str:
    """`name`, or `name_2`, `name_3`, ... - the first that no engine takes for one of `taken`.

    >>> unique("a", ["a", "a_2"]), unique("ſtraße", ["STRASSE"])
    ('a_3', 'ſtraße_2')
    """
    folded = {_folded(other) for other in taken}
    candidate, number = name, 1
    while _folded(candidate) in folded:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def comment(text: str) -> str:
    """A schema's documentation as a comment that every catalog can store: one line, no control characters, no halves of characters."""
    visible = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join("".join(visible).split())


def _folded(name: str) -> str:
    # engines compare some names by upper case: ı and i, ſ and s are one to them
    return name.upper().lower()


def _led(name: str) -> str:
    return f"_{name}" if not name or unicodedata.category(name[0])[0] in "NM" else name


def _short(source: str, name: str) -> str:
    if len(name) <= CHARS_MAX:
        return name
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[:_CUT]}_{digest}"
