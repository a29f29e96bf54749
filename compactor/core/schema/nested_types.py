"""How the type of one column follows another: walked member by member, so that what changes inside is told and decided by its path. Pure.

A path below a column is `.zip` for a struct's member, `[]` for an array's items, `{}` for a map's values, `{key}` for its keys: `tags[].name`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from compactor.core.model import types
from compactor.core.model.types import Type
from compactor.core.schema.diff import Change

Follows = Callable[[Change], bool]
"""Told of a change; gives back whether the table follows it. Only for an added member the answer counts: without it the member is left out."""


def joined(stored: Type, given: Type, path: str, numbers: bool, also: Collection[str], follows: Follows) -> Type | None:
    """The type that holds what is stored and what is given, each difference told on the way; None where none does, told last.

    Members that `given` lacks are no difference: see `lacking`. `numbers` and `also` as in `types.widest`.

    >>> joined(types.parse("struct<a:int>"), types.parse("struct<a:bigint,b:date>"), "s", False, (), lambda change: change.kind != "added")
    ('struct', (('a', ('bigint',)),))
    """
    if stored == given:
        return stored
    if stored[0] == given[0] == "struct":
        return _struct(stored, given, path, numbers, also, follows)
    if stored[0] == given[0] == "array":
        item = joined(stored[1], given[1], f"{path}[]", numbers, also, follows)
        return ("array", item) if item else None
    if stored[0] == given[0] == "map":
        key = joined(stored[1], given[1], f"{path}{{key}}", numbers, also, follows)
        value = joined(stored[2], given[2], f"{path}{{}}", numbers, also, follows) if key else None
        return ("map", key, value) if key and value else None
    wide, request = types.widest(stored, given, numbers, also), types.on_request(stored, given)
    if wide is None:
        follows(Change("incompatible", path, types.text(stored), types.text(given)))
    elif request:
        follows(Change(request, path, types.text(stored), types.text(given)))
    elif wide != stored:
        more = "" if wide == given else f", to hold {types.text(given)} too"
        follows(Change("widened", path, types.text(stored), types.text(wide), more))
    return wide


def _struct(stored: Type, given: Type, path: str, numbers: bool, also: Collection[str], follows: Follows) -> Type | None:
    found = dict(stored[1])
    for name, kind in given[1]:
        here = f"{path}.{name}"
        if name not in found:
            if follows(Change("added", here, after=types.text(kind), detail="null in older rows")):
                found[name] = kind
            continue
        both = joined(found[name], kind, here, numbers, also, follows)
        if both is None:
            return None
        found[name] = both
    return ("struct", tuple(found.items()))


def paths(kind: Type) -> dict[str, Type]:
    """Every member of the structs in a type, by its path below the column, outer ones first.

    >>> list(paths(types.parse("array<struct<a:int,b:struct<c:int>>>")))
    ['[].a', '[].b', '[].b.c']
    """
    if kind[0] == "array":
        return {f"[]{path}": found for path, found in paths(kind[1]).items()}
    if kind[0] == "map":
        return {f"{{}}{path}": found for path, found in paths(kind[2]).items()}
    found: dict[str, Type] = {}
    for name, member in kind[1] if kind[0] == "struct" else ():
        found[f".{name}"] = member
        found.update({f".{name}{path}": inner for path, inner in paths(member).items()})
    return found


def lacking(stored: Type, given: Type) -> tuple[str, ...]:
    """Paths of stored members that a writer of the type `given` does not have; of those inside one another the outermost."""
    has, found = paths(given), list[str]()
    for path in paths(stored):
        if path not in has and not any(path.startswith((f"{outer}.", f"{outer}[", f"{outer}{{")) for outer in found):
            found.append(path)
    return tuple(found)
