"""Text for a terminal or a log: characters of names and values that a terminal obeys, or that hide what stands there, are escaped."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, separators of lines and paragraphs, marks that turn the direction of text, and halves of a character."""


def visible(text: str, keep: str = "") -> str:
    """Return the text with such characters as Python writes them in a string. Those in `keep` stay.

    >>> visible("a\\x1b[2Jb\\u202ec\\n", keep="\\n")
    'a\\\\x1b[2Jb\\\\u202ec\\n'
    """
    return _UNSEEN.sub(lambda each: each[0] if each[0] in keep else repr(each[0])[1:-1], text)
