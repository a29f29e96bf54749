"""YAML text → values and the line each stands on. Scalars stay text as written: `key: [no]` is the column `no`, not False.

Raises ConfigError for text that is no YAML, for a key given twice in one mapping, and for keys that are not plain text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from compactor.core.model.errors import ConfigError

Place = tuple[str | int, ...]
"""Keys and list indices from the top of the file, such as ("tables", "student", "key", 0)."""


class _Loader(yaml.SafeLoader):
    """Knows null and the merge key; leaves what is a number, a date or a boolean to the field that wants one."""


_Loader.yaml_implicit_resolvers = {
    first: kept
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    if (kept := [(tag, regexp) for tag, regexp in resolvers if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")])
}


@dataclass
class Text:
    """A file's values, and the line of every place in it (counted from 1)."""

    file: str
    values: Any = None
    lines: dict[Place, int] = field(default_factory=dict)

    def where(self, place: Place) -> str:
        """`file:line` of a place, or of the nearest one around it."""
        for end in range(len(place), 0, -1):
            if place[:end] in self.lines:
                return f"{self.file}:{self.lines[place[:end]]}"
        return self.file


def read(text: str, file: str) -> Text:
    """The values of a YAML document."""
    found = Text(file)
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            found.values = None if node is None else _value(loader, node, (), found, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ConfigError(_told(error, file)) from None
    return found


def scalar(text: str) -> Any:
    """One value out of the environment; flow lists and mappings are read too."""
    return read(text, "environment").values


def _value(loader: _Loader, node: yaml.Node, place: Place, found: Text, around: tuple[int, ...]) -> Any:
    found.lines.setdefault(place, node.start_mark.line + 1)
    if id(node) in around:
        raise ConfigError(f"{found.where(place)}: an alias stands inside the value it names; write the value out")
    inside = (*around, id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, place, found, inside)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, child, (*place, at), found, inside) for at, child in enumerate(node.value)]
    if node.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:null"):
        raise ConfigError(f"{found.where(place)}: the tag {node.tag!r} is not read here; write a plain value")
    return None if node.tag.endswith(":null") else str(node.value)


def _mapping(loader: _Loader, node: yaml.MappingNode, place: Place, found: Text, around: tuple[int, ...]) -> dict[str, Any]:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{found.file}:{line}: expected a name, found a list or a mapping as a key")
        if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
            what = ".".join(map(str, (*place, key.value)))
            raise ConfigError(f"{found.file}:{line}: {what} is given twice, first in line {seen[key.value]}; keep one of them")
        seen[key.value] = line
    # Anchors merged with `<<` come first, so that the mapping's own keys win.
    loader.flatten_mapping(node)
    values = {}
    for key, child in node.value:
        inner = (*place, key.value)
        values[key.value] = _value(loader, child, inner, found, around)
        found.lines[inner] = key.start_mark.line + 1
    return values


def _told(error: yaml.YAMLError, file: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    where = f"{file}:{mark.line + 1}" if mark is not None else file
    hint = "; indent with blanks" if "\\t" in problem else ""
    return f"{where}: not readable as YAML: {problem}{hint}"
