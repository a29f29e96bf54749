"""Names of landed files as other people's programs write them, and random ones out of every Unicode category."""

from __future__ import annotations

import random
import sys
import unicodedata
from functools import lru_cache

ODD = (
    *("export [1]", "{9b2d}", "what?", "all*", "a1", "a[1]", "[!a]1", "{a,b}1", "a,b", "back\\slash", "\\[1\\]", "${env:HOME}", "${x}"),
    *("orders 08:10:00", "orders [08:10:00]", "file:a", ":", "a%20b", "a b", " leading", "trailing ", "a+b", "a&b;c", "a#b", "x=y", "~2"),
    *("it's", '"quoted"', "tick`", "new\nline", "tab\t", "bell\x07", "escape\x1b[2J", "\u2028", "\u202eright", "é", "e\u0301", "日本", "😀"),
)
"""Names without suffix."""


@lru_cache(maxsize=1)
def _by_category() -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for code in range(1, sys.maxunicode + 1):
        char = chr(code)
        # no file system holds a slash in a name, and no UTF-8 half of a surrogate pair
        if char != "/" and (category := unicodedata.category(char)) != "Cs":
            out.setdefault(category, []).append(char)
    return out


def random_names(chance: random.Random, number: int, suffix: str) -> list[str]:
    """Return different names with this suffix, of up to 255 bytes; a third of them have a sign that means something to some program."""
    categories, out = _by_category(), set[str]()
    while len(out) < number:
        length = chance.choice((1, 3, 10, 60, 255))
        name = ""
        while len(name.encode()) < length:
            name += chance.choice(categories[chance.choice([*categories])]) if chance.random() < 0.6 else chance.choice("[]{}*?\\:$%'\"` a1")
        while len((name + suffix).encode()) > 255:
            name = name[1:]
        if name and not name.startswith((".", "_")):
            out.add(name + suffix)
    return sorted(out)


def random_texts(chance: random.Random, number: int) -> list[str]:
    """Return different texts: those of ODD first, then random ones that may be a single quote or hold what programs substitute. None has a NUL."""
    categories, out = _by_category(), dict.fromkeys(ODD[:number])
    signs = ("[", "{", "*", "'", '"', "`", "\\", "\\n", "${env:PLANTED}", "${PLANTED}", "%s", "<planted>", "&lt;", "--", "/*", ",", "null", " ")
    while len(out) < number:
        parts = [
            chance.choice(categories[chance.choice([*categories])]) if chance.random() < 0.5 else chance.choice(signs)
            for _ in range(chance.choice((1, 2, 8, 40)))
        ]
        out["".join(parts)] = None
    return [*out]
