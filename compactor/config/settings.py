"""Read compactor.yaml and the environment into Settings, and each table into a TableSpec. Every error names file, line, table and key.

Settings are the keys of the file, with the environment's overrides, and with `defaults:` merged into every table. A TableSpec is the complete
description of one table.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from compactor.config import rules
from compactor.config import text as config_text
from compactor.config.keys import Keys, Settings, Table
from compactor.config.reference import FORMER, FORMER_VALUES, names, path_of, section_at
from compactor.config.rules import SMALLEST, Problem, landing, shared
from compactor.config.text import Place
from compactor.config.values import absolute, is_s3, shown
from compactor.core.model.envelopes import ENVELOPES
from compactor.core.model.errors import ConfigError
from compactor.core.model.layout import join
from compactor.core.model.spec import SUBJECT, TableKeys, TableSpec
from compactor.core.results.phrases import counted
from compactor.core.settings.forms import alike, listed
from compactor.core.sources.increment import shard_column

_SAME_MAX, _NAMED_MAX = 3, 10
"""Tables with the same mistake that have a line of their own, and others that are named."""

__all__ = ["Settings", "load"]

PREFIX = "COMPACTOR_"
OVERRIDABLE = ("warehouse", "region", "catalog", "registry", "kafka", "s3", "defaults")
"""Keys that the environment may override: COMPACTOR_WAREHOUSE, COMPACTOR_CATALOG__URI, COMPACTOR_DEFAULTS__SETTLE, ..."""


@cache
def _keys() -> TypeAdapter[Keys]:
    return TypeAdapter(Keys)


@cache
def _table() -> TypeAdapter[Table]:
    return TypeAdapter(Table)


def load(path: str | Path, environment: Mapping[str, str] | None = None, more: Mapping[str, str] = MappingProxyType({})) -> Settings:
    """Read, merge and check a configuration file, with the tables in the local folder `discovered:`. Raises a ConfigError that lists all errors.

    `environment`: the variables that override the file; default os.environ. `more`: other files with tables, by name.
    """
    file = Path(path)
    if is_s3(str(path)):
        raise ConfigError(f"{path}: expected a local file; copy it, for example by `aws s3 cp {path} compactor.yaml`")
    text = config_text.read(_content(file), str(path))
    if not isinstance(text.values, dict):
        raise ConfigError(f"{file}: expected keys such as `tables:`, found {shown(text.values)}. {SMALLEST}")
    overridden = _override(text.values, os.environ if environment is None else environment)
    folder = absolute(str(text.values.get("discovered") or Keys.discovered), str(file.absolute().parent))
    here = not is_s3(folder) and os.path.isdir(folder)
    beside = {str(each): _content(each) for each in sorted(Path(folder).glob("*.yaml"))} if here else {}
    for name, content in {**beside, **more}.items():
        text.add_tables(config_text.read(content, name))
    merged, inherited = _merged(text.values)
    try:
        keys = _keys().validate_python(merged)
    except ValidationError as error:
        raise _config_error(text, overridden, _problems(error, inherited, text.values)) from None
    settings = Settings(**{field.name: getattr(keys, field.name) for field in fields(Keys)}, file=Path(os.path.abspath(file)))
    if problems := [*rules.problems(settings), *_discover_problems(settings)] or [*_add_specs(settings)]:
        raise _config_error(text, overridden, problems)
    return settings


def _discover_problems(settings: Settings) -> Iterator[Problem]:
    """Return the problems of the keys that the entries of `discover:` give their tables."""
    for entry in settings.discover:
        if unusable := {"increments", "evidence", "view"} & entry.keys.keys():
            yield ("discover", min(unusable)), "each table has its own; remove it"
            continue
        try:
            _table().validate_python(dict(entry.keys))
        except ValidationError as error:
            values = {"tables": {"discover": dict(entry.keys)}}
            for each in error.errors(include_url=False):
                place = ("tables", "discover", *(part for part in each["loc"] if isinstance(part, str)))
                yield ("discover", *place[2:]), _sentence(each, place, values)


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        close = [other for other in (file.with_suffix(".yml"), file.with_suffix(".yaml")) if other.is_file()]
        hint = f"{close[0]} is there: set --config {close[0]}." if close else f"Set --config PATH, or write one: `compactor init`. {SMALLEST}"
        raise ConfigError(f"{file}: no such file. {hint}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: expected UTF-8 text, found another encoding at byte {error.start}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None


def _override(values: dict[str, Any], environment: Mapping[str, str]) -> dict[Place, str]:
    """Override the file's values by the environment's. Return place → variable. Raises ConfigError for variables of other keys."""
    overridden: dict[Place, str] = {}
    ineffective = []
    for variable, value in sorted(environment.items()):
        place = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        if not variable.startswith(PREFIX) or not value:
            continue
        if place[0] not in OVERRIDABLE:
            # variables of one word, such as COMPACTOR_JARS, are no keys of the file, unless they are misspelt ones
            meant = _misspelt(place[0]) if len(place) == 1 else None
            if len(place) > 1 or place[0] in names(Keys) or meant:
                hint = f"; did you mean {PREFIX}{meant.upper()}?" if meant else alike(place[0], OVERRIDABLE) or "; set it in the file"
                ineffective.append(f"environment {variable}: `{place[0]}` is none of the keys that variables override{hint}")
            continue
        inside = values
        for part in place[:-1]:
            if not isinstance(inside.get(part), dict):
                inside[part] = {}
            inside = inside[part]
        # the value may be a flow list or mapping; a path is never parsed as YAML
        inside[place[-1]] = value if place == ("warehouse",) else config_text.read(value, "environment").values
        overridden[place] = variable
    if ineffective:
        raise ConfigError("\n".join(ineffective))
    return overridden


def _misspelt(word: str) -> str | None:
    """Return what a variable most likely means: a key that it nearly is, or a key and its part with one underscore between them. Else None.

    >>> _misspelt("warehose"), _misspelt("catalog_database"), _misspelt("registry_service_host"), _misspelt("image")
    ('warehouse', 'catalog__database', None, None)
    """
    key, _, rest = word.partition("_")
    name = next(iter(get_close_matches(key, OVERRIDABLE, 1, 0.8)), None)
    if name is None or not rest:
        return name
    section = section_at((name, rest))
    return f"{name}__{rest}" if section is not Keys and rest in names(section) else None


def _merged(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """Return the values with `defaults` merged into every table, and for each table the keys that come from `defaults`."""
    defaults, tables = values.get("defaults"), values.get("tables")
    if values.get("defaults", 0) is None:
        values = {name: value for name, value in values.items() if name != "defaults"}
    if not isinstance(tables, dict):
        return values, {}
    defaults = defaults if isinstance(defaults, dict) else {}
    merged, inherited = {}, {}
    for name, own in tables.items():
        own = {} if own is None else own
        if isinstance(own, dict):
            inherited[name] = set(defaults) - set(own)
            both = {key: {**defaults[key], **own[key]} for key in own if isinstance(own[key], dict) and isinstance(defaults.get(key), dict)}
            own = {**defaults, **own, **both}
            if isinstance(own.get("csv"), dict) and "types" in own["csv"] and "types" not in own:
                # people look for the types of CSV columns beside their names
                own = {**own, "types": own["csv"]["types"], "csv": {key: value for key, value in own["csv"].items() if key != "types"}}
        merged[name] = own
    return {**values, "tables": merged}, inherited


# ---- errors of one key -----------------------------------------------------------------------------------------------


def _problems(error: ValidationError, inherited: Mapping[str, set[str]], values: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for entry in error.errors(include_url=False):
        # list indices, and the marks of a mapping's keys and of the types that were tried, are no part of a key
        place: Place = tuple(part for part in entry["loc"] if isinstance(part, str) and not re.search(r"[\[\]{}(,]", part))
        # an error of `defaults:` is reported once, there
        if place[0] == "tables" and len(place) > 2 and str(place[2]) in inherited.get(str(place[1]), ()):
            continue
        problems.append((place, _sentence(entry, place, values)))
    return problems


def _sentence(entry: Mapping[str, Any], place: Place, values: Mapping[str, Any]) -> str:
    kind, value = entry["type"], entry.get("input")
    if kind == "unexpected_keyword_argument":
        return _unknown(place, values)
    if place == ("tables",):
        return f"expected at least one table, found {shown(value)}. {SMALLEST}"
    if kind == "value_error":
        sentence = str(entry["ctx"]["error"])
        return sentence if "found" in sentence or ";" in sentence else f"{sentence}, found {shown(value)}"
    if kind == "hidden":
        return f"expected {entry['ctx']['expected']}, found something else (not shown: it may be the secret)"
    hint = FORMER_VALUES.get(path_of(place), "")
    if kind == "literal_error":
        words = [word for word in re.findall("'([^']*)'", entry["ctx"]["expected"]) if word]
        return f"expected {listed(words)}, found {shown(value)}{alike(str(value), words) or hint}"
    if kind == "form":
        return f"expected {entry['ctx']['expected']}, found {shown(value)}{hint}"
    expected = {"dataclass_type": "a mapping of keys", "tuple_type": "a list", "list_type": "a list", "dict_type": "a mapping", "string_type": "text"}
    if kind == "tuple_type" and isinstance(value, str):
        hint = f"; write [{value}]"
    if kind == "dataclass_type" and len(place) == 2:
        hint = "; write `key: [..]` and the others below the name"
    return f"expected {expected.get(kind, entry['msg'])}, found {shown(value)}{hint}"


def _unknown(place: Place, values: Mapping[str, Any]) -> str:
    name = str(place[-1])
    if len(place) == 1:
        below = "; tables belong below `tables:`" if isinstance(values.get(name), dict) else ""
        return f"unknown key{alike(name, names(Keys)) or below}"
    if name in names(Keys):
        return "unknown key; it belongs at the top of the file"
    former = FORMER.get(path_of(place))
    return f"unknown key{f'; {former}' if former else alike(name, names(section_at(place)))}"


def _config_error(text: config_text.Text, overridden: Mapping[Place, str], problems: list[Problem]) -> ConfigError:
    same: dict[tuple[Place, str], list[Place]] = {}
    for place, sentence in problems:
        same.setdefault((("", *place[2:]) if place[0] == "tables" and len(place) > 1 else place, sentence), []).append(place)
    lines = []
    for (_, sentence), places in same.items():
        # of a mistake in every table a few are enough
        first = places if len(places) <= _SAME_MAX + 1 else places[:_SAME_MAX]
        lines += [f"{_where(text, overridden, place)}: {_label(place)}: {sentence}" for place in first]
        if left := [str(place[1]) for place in places[len(first) :]]:
            more = ", .." if len(left) > _NAMED_MAX else ""
            lines.append(f"{text.file}: the same in {counted(len(left), 'more table')}: {', '.join(left[:_NAMED_MAX])}{more}")
    return ConfigError("\n".join(dict.fromkeys(lines)))


def _where(text: config_text.Text, overridden: Mapping[Place, str], place: Place) -> str:
    for end in range(len(place), 0, -1):
        if place[:end] in overridden:
            return f"environment {overridden[place[:end]]}"
        if place[:end] in text.lines:
            break
        if place[0] == "tables" and ("defaults", *place[2:end]) in text.lines and end > 2:
            return text.where(("defaults", *place[2:end]))
    return text.where(place)


def _label(place: Place) -> str:
    if place[0] == "tables" and len(place) > 1:
        key = ".".join(map(str, place[2:]))
        return f"table {place[1]}" + (f", key {key}" if key else "")
    return f"key {'.'.join(map(str, place))}"


# ---- specs -----------------------------------------------------------------------------------------------------------


def _add_specs(settings: Settings) -> Iterator[Problem]:
    """Make the TableSpecs, and return their problems."""
    others = shared({name: landing(settings, name, table)[0] for name, table in settings.tables.items()})
    for name, table in settings.tables.items():
        try:
            settings.specs[name] = _spec(settings, name, table, others.get(name))
        except ConfigError as error:
            yield ("tables", name, "schema"), str(error)
    yield from rules.collisions(settings.specs)


def _spec(settings: Settings, name: str, table: Table, shares: str | None) -> TableSpec:
    place, pattern = landing(settings, name, table)
    subject = table.schema_.removeprefix(SUBJECT) if table.schema_.startswith(SUBJECT) else ""
    envelope, database = ENVELOPES[table.envelope], settings.catalog.database
    keys: dict[str, Any] = {field.name: getattr(table, field.name) for field in fields(TableKeys)}
    return TableSpec(
        **{
            **keys,
            "name": name,
            "root": join(settings.warehouse_dir, name),
            "landing": place,
            "pattern": pattern,
            "shard": shard_column(pattern),
            "database": database,
            "view": table.view or name,
            "tables_in": table.tables_in or database,
            "key": table.key or (),
            "registered_key": table.key is None,
            "container": table.container or ("kafka" if table.topic else "value"),
            "avro_schema": None if subject else _avro_schema(table.schema_, str(settings.file.parent)),
            "subject": subject or None,
            "tombstone_retention": 0.0 if table.delete == "hard" else table.tombstone_retention,
            "max_gone": envelope.max_gone if table.max_gone is None else table.max_gone,
            "quarantine_rows": table.quarantine[0],
            "quarantine_share": table.quarantine[1],
            "archive": table.archive or ("keep" if table.live_view or shares or table.source_table else "move"),
            "archive_kms_key": table.archive_kms_key or "",
            "hash_secret": table.hash_secret or "",
            "athena": settings.catalog.type == "glue",
            "feed_retention": table.keep,
            "policy": replace(table.policy, patch_rows=table.patch_rows),
            "notify": table.notify,
        }
    )


def _avro_schema(value: str, base: str) -> str | None:
    if value == "infer":
        return None
    path = absolute(value, base)
    try:
        text = Path(path).read_text(encoding="utf-8")
        parsed = json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not a JSON document: {error}") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ConfigError(f"{path}: expected an Avro record schema, found {shown(text.strip())}")
    return text
