"""JSON records that hold several changes, without some of them: wal2json's transactions (format 1), alone or as the value of a Kafka record.

A change that goes leaves a logical message without content in its place, which wal2json writes too and no table takes. So the numbers of the
others stay, and with them their Positions. All other text stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection

_LIST, _VALUES = "change", ("value", "payload")
_PLACEHOLDER = '{"kind":"message"}'
_DECODER = json.JSONDecoder(strict=False)
_SPACE = " \t\r\n"


def without(text: str, numbers: Collection[int]) -> str:
    """Return a record without the changes of these numbers, which begin at 0. Raises ValueError if it has no such changes.

    >>> without('{"xid": 7, "change": [{"kind": "insert", "table": "t"}, {"kind": "delete"}]}', [0])
    '{"xid": 7, "change": [{"kind":"message"}, {"kind": "delete"}]}'
    """
    members = _members(text)
    if _LIST in members:
        elements = _elements(text, members[_LIST][0])
        if not set(numbers) <= set(range(len(elements))):
            raise ValueError(f"expected a change with the number {max(numbers)}, found {len(elements)} changes")
        for number in sorted(set(numbers), reverse=True):
            start, end = elements[number]
            text = text[:start] + _PLACEHOLDER + text[end:]
        return text
    inner = next((members[name] for name in _VALUES if name in members and text[slice(*members[name])] != "null"), None)
    if inner is None:
        raise ValueError(f"expected a list of changes (`{_LIST}`), found {', '.join(members)}")
    start, end = inner
    value = text[start:end]
    cut = json.dumps(without(_DECODER.decode(value), numbers), ensure_ascii=False) if value.startswith('"') else without(value, numbers)
    return text[:start] + cut + text[end:]


def _members(text: str) -> dict[str, tuple[int, int]]:
    """Return where the value of each member of a JSON object begins and ends."""
    members: dict[str, tuple[int, int]] = {}
    at = _expect(text, 0, "{")
    while not text.startswith("}", at):
        name, at = _DECODER.raw_decode(text, at)
        if not isinstance(name, str) or name in members:
            raise ValueError(f"expected a new member at {at}, found {name!r}")
        start = _expect(text, at, ":")
        _, end = _DECODER.raw_decode(text, start)
        members[name] = (start, end)
        at = _next(text, end, "}")
    if text[at + 1 :].strip(_SPACE):
        raise ValueError(f"expected one JSON object, found more text at {at + 1}")
    return members


def _elements(text: str, at: int) -> list[tuple[int, int]]:
    """Return where each element of the JSON array that begins at `at` begins and ends."""
    elements = []
    at = _expect(text, at, "[")
    while not text.startswith("]", at):
        _, end = _DECODER.raw_decode(text, at)
        elements.append((at, end))
        at = _next(text, end, "]")
    return elements


def _expect(text: str, at: int, char: str) -> int:
    """Return where the text after `char` and its white space begins."""
    at = _after_space(text, at)
    if not text.startswith(char, at):
        raise ValueError(f"expected {char} at {at}, found {text[at : at + 1]!r}")
    return _after_space(text, at + 1)


def _next(text: str, at: int, last: str) -> int:
    """Return where the next member begins, or the end of the object or array."""
    at = _after_space(text, at)
    return at if text.startswith(last, at) else _expect(text, at, ",")


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
