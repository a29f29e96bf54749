"""Nested types: the common type of a stored column and a new one, compared member by member.

Each difference has a path below the column: `.zip` for a struct's member, `[]` for an array's items, `{}` for a map's values, `{key}` for its
keys, for example `tags[].name`.

Some values of JSON show no type. A type that is marked has UNDECIDED where they are empty arrays and objects, and BLANK where they are empty texts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Optional

from compactor.core.model import types
from compactor.core.model.policy import TO_STRING
from compactor.core.model.types import Type
from compactor.core.schema.policy import Change

Joined = tuple[Optional[Type], list[Change]]
"""(the type that can store both or None, the differences). Without a common type the last difference is the one that no type can follow."""


UNDECIDED: Type = ("undecided",)
"""The type of empty arrays and objects. They are values of every array and struct; beside other values, and until one comes, they are their text."""

TEXT: Type = ("string",)

BLANK: Type = ("blank",)
"""The type of empty texts. They are null in every type but text; without another they are texts."""


def marked(kind: Type, undecided: Collection[str], path: str = "") -> Type:
    """Return a type with UNDECIDED at these paths.

    >>> marked(types.parse("struct<a:int,b:string>"), [".b"])
    ('struct', (('a', ('int',)), ('b', ('undecided',))))
    """
    if path in undecided:
        return UNDECIDED
    if kind[0] == "array":
        return ("array", marked(kind[1], undecided, f"{path}[]"))
    if kind[0] == "struct":
        return ("struct", tuple((name, marked(member, undecided, f"{path}.{name}")) for name, member in kind[1]))
    return kind


def unmarked(kind: Type) -> tuple[Type, tuple[str, ...]]:
    """Return the type with text instead of marks, and the paths of UNDECIDED."""
    if kind in (UNDECIDED, BLANK):
        return TEXT, ("",) if kind == UNDECIDED else ()
    if kind[0] == "array":
        item, undecided = unmarked(kind[1])
        return ("array", item), tuple(f"[]{path}" for path in undecided)
    if kind[0] == "struct":
        members = [(name, *unmarked(member)) for name, member in kind[1]]
        undecided = tuple(f".{name}{path}" for name, _, inside in members for path in inside)
        return ("struct", tuple((name, member) for name, member, _ in members)), undecided
    return kind, ()


def shown(kind: Type, other: Type) -> Type:
    """Return a marked type with what `other` shows where `kind` has marks."""
    if kind == BLANK or (kind == UNDECIDED and not types.is_scalar(other)):
        return other
    if kind[0] == other[0] == "array":
        return ("array", shown(kind[1], other[1]))
    if kind[0] == other[0] == "struct":
        has = {low: member for (low, _), (_, member) in zip(types.stored_names(other)[1], other[1])}
        members = zip(kind[1], types.stored_names(kind)[1])
        return ("struct", tuple((name, shown(member, has.get(low, member))) for (name, member), (low, _) in members))
    return kind


def with_text(kind: Type, stored: Type) -> Type:
    """Return a type with text wherever `stored`, which may be marked, has text.

    >>> with_text(types.parse("struct<aB:bigint,c:array<double>>"), types.parse("struct<ab:string,c:array<string>>"))
    ('struct', (('aB', ('string',)), ('c', ('array', ('string',)))))
    """
    if stored == TEXT:
        return TEXT
    if kind[0] == stored[0] == "array":
        return ("array", with_text(kind[1], stored[1]))
    if kind[0] == stored[0] == "struct":
        has = dict(stored[1])
        members = zip(kind[1], types.stored_names(kind)[1])
        return ("struct", tuple((name, with_text(member, has.get(low, member))) for (name, member), (low, _) in members))
    return kind


def joined(stored: Type, given: Type, path: str, numbers: bool, also: Collection[str], grows: bool = True, text: bool = True) -> Joined:
    """Compare two marked types. Members that `given` lacks are no difference: see `lacking`. `numbers` (not for a key) and `also` are those of
    `types.widest`; `grows`: whether the common type has the members that are new; `text`: whether what only text can hold becomes text.

    >>> joined(types.parse("struct<a:int>"), types.parse("struct<a:bigint,b:date>"), "s", False, (), grows=False)[0]
    ('struct', (('a', ('bigint',)),))
    """
    if stored == BLANK or given in (stored, BLANK, UNDECIDED):
        return given if stored == BLANK else stored, []
    if stored == UNDECIDED:
        return TEXT if types.is_scalar(given) else given, []
    if stored[0] == given[0] == "struct":
        return _struct(stored, given, path, numbers, also, grows, text)
    if stored[0] == given[0] == "array":
        item, changes = joined(stored[1], given[1], f"{path}[]", numbers, also, grows, text)
        return ("array", item) if item else None, changes
    if stored[0] == given[0] == "map":
        key, changes = joined(stored[1], given[1], f"{path}{{key}}", numbers, also, grows, text)
        value, more = joined(stored[2], given[2], f"{path}{{}}", numbers, also, grows, text) if key else (None, [])
        return ("map", key, value) if key and value else None, [*changes, *more]
    wide, request = types.widest(stored, given, numbers, also), types.on_request(stored, given)
    if wide is None:
        # of a key only whole numbers have one text
        of_text = "binary" not in (stored[0], given[0]) if numbers else all(kind == TEXT or types.is_whole(kind) for kind in (stored, given))
        if not (text and of_text):
            return None, [Change("incompatible", path, types.text(stored), types.text(given))]
        if stored == TEXT and types.is_scalar(given):
            return TEXT, []
        return TEXT, [Change(TO_STRING, path, types.text(stored), types.text(given))]
    if request:
        return wide, [Change(request, path, types.text(stored), types.text(given))]
    more_text = "" if wide == given else f", so that it can store {types.text(given)} too"
    return wide, [Change("widened", path, types.text(stored), types.text(wide), more_text)] if wide != stored else []


def _struct(stored: Type, given: Type, path: str, numbers: bool, also: Collection[str], grows: bool, text: bool) -> Joined:
    members, changes = dict(stored[1]), list[Change]()
    for name, kind in given[1]:
        here = f"{path}.{name}"
        if name not in members:
            changes.append(Change("added", here, after=types.text(kind), detail="null in older rows"))
            if grows:
                members[name] = kind
            continue
        both, more = joined(members[name], kind, here, numbers, also, grows, text)
        changes += more
        if both is None:
            return None, changes
        members[name] = both
    return ("struct", tuple(members.items())), changes


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
