"""OpenLineage's published model, as its own Python client has it: classes generated from the JSON schemas of the specification.

`problems` builds the client's object from an event, member by member. Whatever the schemas do not allow (a missing or unknown member, a value of
another type, another version of a facet) is a problem.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import types
import typing
from typing import Any

import attr
from openlineage.client import generated
from openlineage.client.generated import base

RUN_EVENT = base.RunEvent


def facets() -> dict[str, type[Any]]:
    """Address of a facet's schema → the client's class."""
    modules = [importlib.import_module(f"{generated.__name__}.{each.name}") for each in pkgutil.iter_modules(generated.__path__)]
    classes = {
        kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass) if attr.has(kind) and issubclass(kind, base.BaseFacet)
    }
    return {kind._get_schema(): kind for kind in classes}


FACETS = facets()


def problems(value: Any, kind: Any, place: str = "event") -> list[str]:
    """Why a JSON value is not an instance of one of the client's classes."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return []
    if origin in (typing.Union, types.UnionType):
        found = [problems(value, each, place) for each in inside]
        return [] if [] in found else min(found, key=len)
    if kind is type(None):
        return [] if value is None else [f"{place}: expected null"]
    if origin is list:
        return (
            [f"{place}: no array"]
            if not isinstance(value, list)
            else [one for n, each in enumerate(value) for one in problems(each, inside[0], f"{place}[{n}]")]
        )
    if origin is dict:
        return (
            [f"{place}: no object"]
            if not isinstance(value, dict)
            else [one for name, each in value.items() for one in problems(each, inside[1], f"{place}.{name}")]
        )
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return [] if value in {each.value for each in kind} else [f"{place}: {value!r} is no {kind.__name__}"]
    if inspect.isclass(kind) and attr.has(kind):
        return _members(value, kind, place)
    expected = (int, float) if kind is float else kind
    return [] if isinstance(value, expected) and not (isinstance(value, bool) and kind is not bool) else [f"{place}: {value!r} is no {kind}"]


def _members(value: Any, kind: type[Any], place: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{place}: no object"]
    if issubclass(kind, base.BaseFacet):
        if value.get("_schemaURL") not in FACETS:
            return [f"{place}: the client has no schema {value.get('_schemaURL')}"]
        if not issubclass(FACETS[value["_schemaURL"]], kind):
            return [f"{place}: {value['_schemaURL']} is not allowed here"]
        kind = FACETS[value["_schemaURL"]]
    hints = typing.get_type_hints(kind)
    members = {each.name: each for each in attr.fields(kind)}
    found = [f"{place}.{name}: unknown" for name in value if name not in members]
    found += [f"{place}.{name}: missing" for name, each in members.items() if each.default is attr.NOTHING and name not in value]
    found += [f"{place}.{name}: missing" for name in ("_producer", "_schemaURL", "schemaURL", "producer") if name in members and not value.get(name)]
    for name, each in value.items():
        found += problems(each, hints[name], f"{place}.{name}") if name in members else []
    if not found:
        try:
            # the client's own validators
            kind(**{members[name].alias: each for name, each in value.items() if members[name].init})
        except (TypeError, ValueError) as error:
            found.append(f"{place}: {error}")
    return found
