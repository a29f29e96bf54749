"""Hive type text (`bigint`, `decimal(10,2)`, `array<struct<a:int>>`): parsing, printing, and the widest type of two.

A type is a plain tuple: `("bigint",)`, `("decimal", 10, 2)`, `("array", item)`, `("map", key, value)`, `("struct", ((name, type), ...))`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from compactor.core.model import names

Type = tuple[Any, ...]

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_RANK = {"tinyint": 0, "smallint": 0, "int": 0, "bigint": 0, "decimal": 1, "float": 2, "double": 3}
"""The order in which `widest` compares two numeric types. The result does not depend on it."""
_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "text": "string",
    "timestamp_ltz": "timestamp",
}
_BREAKING = re.compile(r"[`:,<>]|^\s|\s$|^$")
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
ON_REQUEST: dict[str, tuple[frozenset[str], Type]] = {
    "date_to_timestamp": (frozenset({"date", "timestamp"}), ("timestamp",)),
    "string_to_bytes": (frozenset({"string", "binary"}), ("binary",)),
}
"""Pairs of types with a common type only on request: a date as its midnight, text as its UTF-8 bytes (as in Avro's promotion)."""

SCALARS = (*INTEGERS, "float", "double", "boolean", "string", "binary", "date", "timestamp")


def parse(text: str) -> Type:
    """Parse a type text. Raises ValueError naming the text."""
    result, rest = _parse(text.strip(), text)
    if rest.strip():
        raise ValueError(f"not a type: {text!r} (left over: {rest!r})")
    return result


def _parse(rest: str, whole: str) -> tuple[Type, str]:
    word = ""
    while rest and (rest[0].isalnum() or rest[0] == "_"):
        word, rest = word + rest[0], rest[1:]
    word = _ALIASES.get(word.lower(), word.lower())
    if word == "decimal":
        if not rest.startswith("("):
            return ("decimal", 10, 0), rest
        inside, _, rest = rest[1:].partition(")")
        precision, _, scale = inside.partition(",")
        return ("decimal", int(precision), int(scale or 0)), rest
    if word in ("array", "map") and rest.startswith("<"):
        first, rest = _parse(rest[1:].lstrip(), whole)
        if word == "array" and rest.startswith(">"):
            return ("array", first), rest[1:]
        if word == "map" and rest.startswith(","):
            second, rest = _parse(rest[1:].lstrip(), whole)
            if rest.startswith(">"):
                return ("map", first, second), rest[1:]
    if word == "struct" and rest.startswith("<"):
        return _parse_struct(rest[1:], whole)
    if word in SCALARS:
        return (word,), rest
    raise ValueError(f"not a type: {whole!r} (at {word + rest!r})")


def _parse_struct(rest: str, whole: str) -> tuple[Type, str]:
    members: list[tuple[str, Type]] = []
    while rest and not rest.startswith(">"):
        rest = rest.lstrip(", ")
        quoted = _QUOTED.match(rest)
        if quoted:
            name, rest = quoted[1].replace("``", "`"), rest[quoted.end() :].lstrip()[1:]
        else:
            name, _, rest = rest.partition(":")
        kind, rest = _parse(rest.lstrip(), whole)
        members.append((name if quoted else name.strip(), kind))
        rest = rest.lstrip()
    if not rest:
        raise ValueError(f"not a type: {whole!r} (struct not closed)")
    return ("struct", tuple(members)), rest[1:]


def text(kind: Type, quote: bool = False) -> str:
    """Return a type as Hive's text. `quote`: put names of struct members into back-quotes, as Spark's DDL parser needs it for unusual names.

    Names that would make the text ambiguous are always quoted.
    """
    if kind[0] == "decimal":
        return f"decimal({kind[1]},{kind[2]})"
    if kind[0] == "array":
        return f"array<{text(kind[1], quote)}>"
    if kind[0] == "map":
        return f"map<{text(kind[1], quote)},{text(kind[2], quote)}>"
    if kind[0] == "struct":
        inside = ",".join(f"{_member(name, quote)}:{text(member, quote)}" for name, member in kind[1])
        return f"struct<{inside}>"
    return str(kind[0])


def _member(name: str, quote: bool) -> str:
    return "`" + name.replace("`", "``") + "`" if quote or _BREAKING.search(name) else name


def widest(left: Type, right: Type, numbers: bool = False, also: Collection[str] = ()) -> Type | None:
    """Return the narrowest type that holds every value of both without loss, or None without one.

    int < bigint < decimal; int < double; float < double (int and float: double). Decimals grow up to 38 digits. Arrays, maps and structs are compared
    member by member, and a struct gains members. `numbers`: a whole number and a fraction are a double; whoever stores the values must check them.
    `also`: the requested kinds of ON_REQUEST.
    """
    if left == right:
        return left
    if numbers and {left[0], right[0]} & {"float", "double"} and all(is_whole(kind) or kind[0] in ("float", "double") for kind in (left, right)):
        return ("double",)
    if left[0] in INTEGERS and right[0] in INTEGERS:
        return max(left, right, key=lambda kind: INTEGERS.index(kind[0]))
    if left[0] == right[0] == "array":
        item = widest(left[1], right[1], numbers, also)
        return ("array", item) if item else None
    if left[0] == right[0] == "map":
        key, value = widest(left[1], right[1], numbers, also), widest(left[2], right[2], numbers, also)
        return ("map", key, value) if key and value else None
    if left[0] == right[0] == "struct":
        return _widest_struct(left, right, numbers, also)
    request = on_request(left, right)
    if request:
        return ON_REQUEST[request][1] if request in also else None
    if _RANK.get(left[0], 9) > _RANK.get(right[0], 9):
        left, right = right, left
    if right[0] == "decimal" and (left[0] in INTEGERS or left[0] == "decimal"):
        whole, scale = (_DIGITS[left[0]], 0) if left[0] in INTEGERS else (left[1] - left[2], left[2])
        whole, scale = max(whole, right[1] - right[2]), max(scale, right[2])
        return ("decimal", whole + scale, scale) if whole + scale <= 38 else None
    if (left[0], right[0]) in (("float", "double"), ("int", "double"), ("smallint", "double"), ("tinyint", "double"), ("int", "float")):
        return ("double",)
    if (left[0], right[0]) in (("tinyint", "float"), ("smallint", "float")):
        return ("float",)
    return None


def on_request(left: Type, right: Type) -> str | None:
    """Return the kind in ON_REQUEST for two different types, or None.

    >>> on_request(("timestamp",), ("date",))
    'date_to_timestamp'
    """
    return next((name for name, (pair, _) in ON_REQUEST.items() if {left[0], right[0]} == pair), None)


def is_whole(kind: Type) -> bool:
    return kind[0] in INTEGERS or (kind[0] == "decimal" and kind[2] == 0)


def _widest_struct(left: Type, right: Type, numbers: bool, also: Collection[str]) -> Type | None:
    members = dict(left[1])
    for name, kind in right[1]:
        joined = widest(members[name], kind, numbers, also) if name in members else kind
        if joined is None:
            return None
        members[name] = joined
    return ("struct", tuple(members.items()))


def constant(value: Any, kind: Type) -> Any:
    """Return a JSON scalar as a value of a type: text for string and decimal, true or false for boolean, else a number. Bytes have none: None.

    >>> constant(False, ("string",)), constant(7, ("string",)), constant(7, ("decimal", 10, 2)), constant("x", ("binary",))
    ('false', '7', '7', None)
    """
    if value is None or kind[0] == "binary":
        return None
    if kind[0] in ("string", "decimal"):
        return value if isinstance(value, str) else json.dumps(value)
    return value


def members(kind: Type) -> int:
    """Return the number of struct members in a type, those of nested structs too.

    >>> members(parse("struct<a:int,b:array<struct<c:int>>>"))
    3
    """
    if kind[0] == "struct":
        return sum(1 + members(member) for _, member in kind[1])
    return members(kind[-1]) if kind[0] in ("array", "map") else 0


def is_scalar(kind: Type) -> bool:
    """Return whether values of this type have one text form (no array, map, struct, binary)."""
    return kind[0] not in ("array", "map", "struct", "binary")


def depth(kind: Type) -> int:
    """Return how many arrays are around each other; 0 for any other type."""
    return 1 + depth(kind[1]) if kind[0] == "array" else 0


def single(kind: Type) -> Type:
    """Return the type of the elements of an array, or of arrays of arrays; any other type as it is."""
    return single(kind[1]) if kind[0] == "array" else kind


def renamed(kind: Type, names_of: Callable[[list[str]], list[str]]) -> Type:
    """Return the type with other names of struct members. `names_of` returns those of one struct, in the order of its own."""
    if kind[0] in ("array", "map"):
        return (kind[0], *(renamed(part, names_of) for part in kind[1:]))
    if kind[0] == "struct":
        names_ = names_of([name for name, _ in kind[1]])
        return ("struct", tuple((name, renamed(member, names_of)) for name, (_, member) in zip(names_, kind[1])))
    return kind


def lower_names(kind: Type) -> Type:
    """Return the type with struct member names in lower case, as in Hive. Equal names get `_2`, `_3`."""

    def lower(own: list[str]) -> list[str]:
        taken: list[str] = []
        for name in own:
            taken.append(names.unique(name.lower(), taken))
        return taken

    return renamed(kind, lower)


_KEYS = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
"""Kinds of keys of a map. Others have several forms as text: JSON of a map with such keys differs by engine, and in Spark by run."""


def _with_plain_keys(kind: Type) -> Type:
    if kind[0] == "map":
        return ("map", kind[1] if kind[1][0] in _KEYS else ("string",), _with_plain_keys(kind[2]))
    if kind[0] == "array":
        return ("array", _with_plain_keys(kind[1]))
    if kind[0] == "struct":
        return ("struct", tuple((name, _with_plain_keys(member)) for name, member in kind[1]))
    return kind


def stored_names(kind: Type) -> Type:
    """Return the type with stored struct member names (`names.member_name`). Equal names get `_2`, `_3`, whatever the order of the members: that of
    their spellings counts, and a name that is stored as it is comes first. Keys of maps that are dates, times, bytes or nested become text.

    >>> text(stored_names(parse("map<date,struct<A:map<binary,int>>>")))
    'map<string,struct<a:map<string,int>>>'
    """

    def stored(own: list[str]) -> list[str]:
        named: dict[str, str] = {}
        for name in sorted(own, key=lambda name: (names.member_name(name) != name, name)):
            named[name] = names.unique(names.member_name(name), named.values())
        return [named[name] for name in own]

    return _with_plain_keys(renamed(kind, stored))
