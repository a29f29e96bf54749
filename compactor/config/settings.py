"""Read compactor.yaml and the environment into Settings, and each table into a TableSpec. Every error names file, line, table and key.

Settings are the keys of the file, with the environment's overrides, and with `defaults:` merged into every table. A TableSpec is the complete
description of one table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PrivateAttr, ValidationError

from compactor.config import rules
from compactor.config import text as config_text
from compactor.config.compound import SUBJECT
from compactor.config.keys import Keys, Table
from compactor.config.rules import Problem, landing, shared
from compactor.config.sections import S3, Airflow, Catalog, Checks, Compaction, Emr, Group, Kafka, Limits, Metrics, Prices, Quarantine, Registry
from compactor.config.sections import Csv as CsvKeys
from compactor.config.sections import Daily as DailyKeys
from compactor.config.text import Place
from compactor.config.values import absolute, alike, shown
from compactor.core.model.errors import ConfigError
from compactor.core.model.layout import join
from compactor.core.model.spec import Csv, InputLimits, TableSpec
from compactor.core.planning.daily import Daily
from compactor.core.sources.envelopes import ENVELOPES

PREFIX = "COMPACTOR_"
OVERRIDABLE = ("warehouse", "catalog", "registry", "kafka", "s3", "defaults")
"""Keys that the environment may override: COMPACTOR_WAREHOUSE, COMPACTOR_CATALOG__URI, COMPACTOR_DEFAULTS__SETTLE, ..."""

_SMALLEST = "The smallest file is\ntables:\n  student:\n    key: [id]\n    envelope: debezium"


class Settings(Keys):
    """The checked configuration. Relative paths start at the folder of `file`."""

    _specs: dict[str, TableSpec] = PrivateAttr(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tables, in the file's order."""
        return tuple(self.tables)

    def spec(self, name: str) -> TableSpec:
        """Return the spec of a table. Raises ConfigError for an unknown table."""
        if name not in self._specs:
            raise ConfigError(f"{self._file}: no table {name!r}{alike(name, self.names)}; the tables are {', '.join(self.names)}")
        return self._specs[name]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors and docs."""
    schema = Settings.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "compactor.yaml"}


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Read, merge and check a configuration file. Raises a ConfigError that lists all errors.

    `environment`: the variables that override the file; default os.environ.
    """
    file = Path(path)
    try:
        content = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file. Set --config PATH, or write one: `compactor init`. {_SMALLEST}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: expected UTF-8 text, found another encoding at byte {error.start}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    text = config_text.read(content, str(path))
    if not isinstance(text.values, dict):
        raise ConfigError(f"{file}: expected keys such as `tables:`, found {shown(text.values)}. {_SMALLEST}")
    overridden = _override(text.values, os.environ if environment is None else environment)
    merged, inherited = _merged(text.values)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        raise _config_error(text, overridden, _problems(error, inherited, text.values)) from None
    settings._file = Path(os.path.abspath(file))
    if problems := [*rules.problems(settings)] or [*_add_specs(settings)]:
        raise _config_error(text, overridden, problems)
    return settings


def _override(values: dict[str, Any], environment: Mapping[str, str]) -> dict[Place, str]:
    """Override the file's values by the environment's. Return place → variable."""
    overridden: dict[Place, str] = {}
    for variable, value in sorted(environment.items()):
        place = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        if not variable.startswith(PREFIX) or place[0] not in OVERRIDABLE or not value:
            continue
        inside = values
        for part in place[:-1]:
            if not isinstance(inside.get(part), dict):
                inside[part] = {}
            inside = inside[part]
        # never parse a path as YAML
        inside[place[-1]] = value if place == ("warehouse",) else config_text.scalar(value)
        overridden[place] = variable
    return overridden


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
        merged[name] = own
    return {**values, "tables": merged}, inherited


# ---- errors of one key -----------------------------------------------------------------------------------------------


def _problems(error: ValidationError, inherited: Mapping[str, set[str]], values: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for entry in error.errors(include_url=False):
        place: Place = entry["loc"]
        # an error of `defaults:` is reported once, there
        if place[0] == "tables" and len(place) > 2 and str(place[2]) in inherited.get(str(place[1]), ()):
            continue
        problems.append((place, _sentence(entry, place, values)))
    return problems


def _sentence(entry: Mapping[str, Any], place: Place, values: Mapping[str, Any]) -> str:
    kind = entry["type"]
    if kind == "value_error":
        return str(entry["ctx"]["error"])
    if kind == "missing" or place == ("tables",):
        value = None if kind == "missing" else entry["input"]
        return f"expected at least one table, found {shown(value)}. {_SMALLEST}"
    if kind != "extra_forbidden":
        hint = "; write `key: [..]` and the others below the name" if len(place) == 2 else ""
        return f"expected a mapping of keys, found {shown(entry['input'])}{hint}"
    name = str(place[-1])
    if len(place) == 1:
        below = "; tables belong below `tables:`" if isinstance(values.get(name), dict) else ""
        return f"unknown key{alike(name, _key_names(Keys)) or below}"
    models: dict[str, type[BaseModel]] = {
        "airflow": Airflow,
        "catalog": Catalog,
        "checks": Checks,
        "csv": CsvKeys,
        "emr": Emr,
        "compaction": Compaction,
        "daily": DailyKeys,
        "kafka": Kafka,
        "limits": Limits,
        "metrics": Metrics,
        "prices": Prices,
        "quarantine": Quarantine,
        "registry": Registry,
        "s3": S3,
    }
    above = "; it belongs at the top of the file" if name in _key_names(Keys) else ""
    model = Group if place[:2] == ("airflow", "groups") else models.get(str(place[-2]), Table)
    return f"unknown key{above or _INSTEAD.get(name) or alike(name, _key_names(model))}"


_INSTEAD = {"partition_by": "; set `cluster_by: [..]`, so that filters on these columns skip data (docs/design/view.md)"}
"""Keys that other tools have, and what to write here."""


def _key_names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _config_error(text: config_text.Text, overridden: Mapping[Place, str], problems: list[Problem]) -> ConfigError:
    lines = [f"{_where(text, overridden, place)}: {_label(place)}: {sentence}" for place, sentence in problems]
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
            settings._specs[name] = _spec(settings, name, table, others.get(name))
        except ConfigError as error:
            yield ("tables", name, "schema"), str(error)
    yield from rules.collisions(settings._specs)


def _spec(settings: Settings, name: str, table: Table, shares: str | None) -> TableSpec:
    place, pattern = landing(settings, name, table)
    subject = table.schema_.removeprefix(SUBJECT) if table.schema_.startswith(SUBJECT) else ""
    database = settings.catalog.database
    return TableSpec(
        name=name,
        root=join(settings.warehouse_dir, name),
        landing=place,
        pattern=pattern,
        database=database,
        view=table.view or name,
        tables_in=table.tables_in or database,
        key=table.key or (),
        container="kafka" if table.topic and "container" not in table.model_fields_set else table.container,
        registered_key=table.key is None,
        avro_schema=None if subject else _avro_schema(table.schema_, str(settings.file.parent)),
        subject=subject or None,
        op_map=tuple(table.op_map.items()),
        tombstone_retention=0.0 if table.delete == "hard" else table.tombstone_retention,
        epoch=table.epoch.number,
        epoch_from=table.epoch.first,
        epoch_replaces=table.epoch.replace,
        csv=Csv(**{name: value for name, value in table.csv if name != "types"}),
        types=tuple({**table.csv.types, **table.types}.items()),
        compact_every=table.compaction.every,
        compact_window=table.compaction.window,
        compact_budget=table.compaction.budget,
        compact_max_delta=table.compaction.max_delta,
        max_gone=table.checks.max_gone if "max_gone" in table.checks.model_fields_set else ENVELOPES[table.envelope].max_gone,
        rules=table.checks.rules,
        quarantine_rows=table.quarantine.max_rows,
        quarantine_share=table.quarantine.max_share,
        limits=InputLimits(**table.limits.model_dump()),
        first_folder=table.from_,
        archive=table.archive or ("keep" if table.live_view or shares or table.source_table else "move"),
        comment=table.comment or "",
        feed=table.change_feed,
        daily=Daily(**table.daily.model_dump()) if table.daily else None,
        policy=replace(table.on_schema_change, patch_rows=table.patch_rows),
        **{key: getattr(table, key) for key in _SAME},
    )


_SAME = (
    *("envelope", "format", "source_table", "topic", "partitions", "order_by", "op", "delete_when", "metadata_columns", "delete", "patch_rows"),
    *("truncate", "unresolved", "beyond_retention", "write_mode", "live_view", "read_optimized", "timestamps", "cluster_by"),
    *("target_file_bytes", "small_batch", "ignore", "settle", "complete", "hours_in", "publish_window", "keep", "keep_versions", "grace", "engines"),
    *("archive_retention", "archive_kms_key", "hash_secret", "notify", "feed_retention", "columns"),
    *("history", "track", "track_except", "history_end", "history_zero_length"),
)
"""Fields of a TableSpec that equal the key of the same name."""


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
