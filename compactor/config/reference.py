"""Derived from the declarations of keys: the JSON schema of compactor.yaml, and the names of each section."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from compactor.config.keys import Keys
from compactor.config.text import Place
from compactor.core.settings.forms import ALIASES, Form, Section


@cache
def sections(model: Any) -> Mapping[str, type[Any]]:
    """Return the keys of a section that have sections, or mappings of sections: key → dataclass."""
    hints = get_type_hints(model, include_extras=True)
    pairs = ((field.name, next(_sections_in(hints[field.name]), None)) for field in dataclasses.fields(model))
    return {ALIASES.get(name, name): section for name, section in pairs if section is not None}


def _sections_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and issubclass(hint, Section):
        yield hint
    for part in (*get_args(hint), *([hint.source] if isinstance(hint, Form) else [])):
        yield from _sections_in(part)


def section_at(place: Place) -> Any:
    """Return the section whose key is at this place."""
    model: Any = Keys
    parts = iter(place[:-1])
    for part in parts:
        model = sections(model).get(str(part), model)
        if part in ("tables", "groups"):
            next(parts, None)
    return model


def names(model: type[Any]) -> list[str]:
    """Return the keys of a section."""
    return [ALIASES.get(field.name, field.name) for field in dataclasses.fields(model)]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors and docs. Defaults are as one would write them."""
    schema = TypeAdapter(Keys).json_schema()
    models: set[Any] = {Keys, *_below(Keys)}
    for model in models:
        properties = schema["$defs"].get(model.__name__, schema)["properties"]
        hints = get_type_hints(model, include_extras=True)
        inherited = {} if Section in model.__bases__ else TypeAdapter(model.__bases__[0]).json_schema()["properties"]
        for field in dataclasses.fields(model):
            described = properties[ALIASES.get(field.name, field.name)]
            described.pop("title", None)
            if "description" not in described:
                # pydantic describes fields in the class that declares them, and leaves out what a section's own text says
                name = ALIASES.get(field.name, field.name)
                described["description"] = inherited[name]["description"] if name in inherited else str(sections(model)[name].__doc__)
            described.pop("default", None)
            default = _written(field.default, hints[field.name])
            if default is not None:
                described["default"] = default
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "compactor.yaml"}


def _below(model: Any) -> Iterator[Any]:
    for section in sections(model).values():
        yield section
        yield from _below(section)


def _written(default: Any, hint: Any) -> Any:
    """Return a default as one would write it; None if there is none, or an empty one."""
    if default in (None, (), "") or default is dataclasses.MISSING or isinstance(default, Section):
        return None
    texts = [part.text for part in get_args(hint) if isinstance(part, Form) and part.text is not str]
    if isinstance(default, bool) or not texts:
        return [*default] if isinstance(default, tuple) else default
    return {"true": True, "false": False}.get(texts[0](default), texts[0](default))
