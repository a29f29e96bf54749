"""Parse YAML into values and their line numbers. Scalars stay text as written: `key: [no]` is the column `no`, not False.

Raises ConfigError for invalid YAML, for a key given twice in one mapping, for keys that are not plain text, and for a file whose aliases or nesting
make more of it than a configuration can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from compactor.core.model.errors import ConfigError

Place = tuple[str | int, ...]
"""The path of a value: keys and list indices from the top of the file, such as ("tables", "student", "key", 0)."""


VALUES_MAX = 500_000
"""The largest number of values in a file. A few lines of aliases of aliases would otherwise make billions."""

_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "seq", "map"))


class _Loader(yaml.SafeLoader):
    """Resolves null and the merge key only. Numbers, dates and booleans stay text; the parser of the key converts them."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace `<<` by the values of the mappings that it names; of equal keys the last is kept, so that merges of merges do not multiply."""
        super().flatten_mapping(node)
        node.value = list({key.value if isinstance(key, yaml.ScalarNode) else id(key): (key, value) for key, value in node.value}.values())


_Loader.yaml_implicit_resolvers = {
    first: kept
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    if (kept := [(tag, regexp) for tag, regexp in resolvers if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")])
}


@dataclass
class Text:
    """A parsed file."""

    file: str
    """The file's name, for messages."""
    values: Any = None
    """The top value: mappings, lists, texts and None."""
    lines: dict[Place, int] = field(default_factory=dict)
    """The line of every value, counted from 1."""
    files: dict[Place, str] = field(default_factory=dict)
    """The files of tables that have one of their own, by ("tables", name)."""

    def where(self, place: Place) -> str:
        """Return `file:line` of a value, or of the nearest value around it."""
        for end in range(len(place), 0, -1):
            if place[:end] in self.lines:
                return f"{self.files.get(place[:2], self.file)}:{self.lines[place[:end]]}"
        return self.file

    def add_tables(self, other: Text) -> None:
        """Add the tables of another file. Raises ConfigError for a file with anything else, and for a table that is there already."""
        tables = other.values.get("tables") if isinstance(other.values, dict) else None
        if not isinstance(tables, dict) or other.values.keys() != {"tables"}:
            raise ConfigError(f"{other.file}: expected `tables:` with the tables below it, and nothing else")
        own = self.values.get("tables")
        own = self.values["tables"] = own if isinstance(own, dict) else {}
        for name, table in tables.items():
            place = ("tables", name)
            if name in own:
                raise ConfigError(f"{other.where(place)}: table {name} is also in {self.where(place)}; remove one of them")
            own[name], self.files[place] = table, other.file
        self.lines.update((place, line) for place, line in other.lines.items() if len(place) > 1)


def read(text: str, file: str) -> Text:
    parsed = Text(file)
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            parsed.values = None if node is None else _value(loader, node, (), parsed, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ConfigError(_message(error, file)) from None
    except RecursionError:
        raise ConfigError(f"{file}: the values are nested too deeply; a configuration has a few levels") from None
    return parsed


def _value(loader: _Loader, node: yaml.Node, place: Place, parsed: Text, around: tuple[int, ...]) -> Any:
    parsed.lines.setdefault(place, node.start_mark.line + 1)
    if len(parsed.lines) > VALUES_MAX:
        raise ConfigError(f"{parsed.where(place)}: expected at most {VALUES_MAX:,} values; aliases of aliases make more. Write the values out")
    if id(node) in around:
        raise ConfigError(f"{parsed.where(place)}: an alias refers to a value that contains it; write the value out")
    if node.tag not in _TAGS:
        raise ConfigError(f"{parsed.where(place)}: the tag {node.tag!r} is not supported; write a plain value")
    inside = (*around, id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, place, parsed, inside)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, child, (*place, at), parsed, inside) for at, child in enumerate(node.value)]
    return None if node.tag.endswith(":null") else str(node.value)


def _mapping(loader: _Loader, node: yaml.MappingNode, place: Place, parsed: Text, around: tuple[int, ...]) -> dict[str, Any]:
    first_lines: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{parsed.file}:{line}: expected a name, found a list or a mapping as a key")
        if key.value in first_lines and key.tag != "tag:yaml.org,2002:merge":
            what = ".".join(map(str, (*place, key.value)))
            raise ConfigError(f"{parsed.file}:{line}: {what} is given twice, first in line {first_lines[key.value]}; keep one of them")
        first_lines[key.value] = line
    # values merged with `<<` come first, so that the mapping's own keys override them
    loader.flatten_mapping(node)
    values = {}
    for key, child in node.value:
        inner = (*place, key.value)
        values[key.value] = _value(loader, child, inner, parsed, around)
        parsed.lines[inner] = key.start_mark.line + 1
    return values


def _message(error: yaml.YAMLError, file: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    where = f"{file}:{mark.line + 1}" if mark is not None else file
    hint = "; indent with spaces" if "\\t" in problem else ""
    return f"{where}: invalid YAML: {problem}{hint}"
