"""Nested types: the common type of a stored column and a new one, compared member by member.

Each difference has a path below the column: `.zip` for a struct's member, `[]` for an array's items, `{}` for a map's values, `{key}` for its
keys, for example `tags[].name`. The caller decides about each difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from compactor.core.model import types
from compactor.core.model.types import Type
from compactor.core.schema.change import Change

Follows = Callable[[Change], bool]
"""A callback that receives each change and returns whether the table follows it. Only the answer for an added member counts: False leaves it out."""


def joined(stored: Type, given: Type, path: str, numbers: bool, also: Collection[str], follows: Follows) -> Type | None:
    """Return the type that can store both, or None if none can. Calls `follows` for each difference; without a common type the last call names it.

    Members that `given` lacks are no difference: see `lacking`. `numbers` and `also` are those of `types.widest`.

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
        more = "" if wide == given else f", so that it can store {types.text(given)} too"
        follows(Change("widened", path, types.text(stored), types.text(wide), more))
    return wide


def _struct(stored: Type, given: Type, path: str, numbers: bool, also: Collection[str], follows: Follows) -> Type | None:
    members = dict(stored[1])
    for name, kind in given[1]:
        here = f"{path}.{name}"
        if name not in members:
            if follows(Change("added", here, after=types.text(kind), detail="null in older rows")):
                members[name] = kind
            continue
        both = joined(members[name], kind, here, numbers, also, follows)
        if both is None:
            return None
        members[name] = both
    return ("struct", tuple(members.items()))


def paths(kind: Type) -> dict[str, Type]:
    """Return the type of every struct member in a type by its path below the column, outer members first.

    >>> list(paths(types.parse("array<struct<a:int,b:struct<c:int>>>")))
    ['[].a', '[].b', '[].b.c']
    """
    if kind[0] == "array":
        return {f"[]{path}": member for path, member in paths(kind[1]).items()}
    if kind[0] == "map":
        return {f"{{}}{path}": member for path, member in paths(kind[2]).items()}
    members: dict[str, Type] = {}
    for name, member in kind[1] if kind[0] == "struct" else ():
        members[f".{name}"] = member
        members.update({f".{name}{path}": inner for path, inner in paths(member).items()})
    return members


def lacking(stored: Type, given: Type) -> tuple[str, ...]:
    """Return the paths of stored members that the type `given` does not have. Members below such a member are left out."""
    has, missing = paths(given), list[str]()
    for path in paths(stored):
        if path not in has and not any(path.startswith((f"{outer}.", f"{outer}[", f"{outer}{{")) for outer in missing):
            missing.append(path)
    return tuple(missing)
