"""Derived from the declarations of keys: the JSON schema of compactor.yaml, and the names of each section. And what replaces former keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from compactor.config.keys import Keys
from compactor.config.text import Place
from compactor.core.settings.forms import ALIASES, Form, Section

FORMER = {
    "compaction": "set `compact_every`, `compact_window` and `compact_budget`",
    "comment": "it is a standard text now",
    "checks.max_gone": "set `max_gone` of the table",
    "engines": "with `catalog: {type: glue}` there is a view for Athena",
    "feed_retention": "set `keep`, which is for the change feed too",
    "history_end": "`__end_time` of the current version is null",
    "history_zero_length": "versions that end when they begin are kept",
    "track_except": "set `track` to the other columns",
    "unresolved": "values that the source never sent are null, and counted in the run's report",
    "timestamps": "set `parquet`: hive for int96, standard for int64",
    "keep_versions": "the two newest versions are always kept",
    "publish_window": "it is ten minutes",
    "target_file_bytes": "it is 256 MB",
    "small_batch": "it is 64 MB",
    "partition_by": "set `cluster_by: [..]`, so that filters on these columns skip data (docs/design/view.md#files-sorted-by-other-columns)",
    "owner": "the tasks belong to compactor",
    "priority": "set `pool`",
    "retry_delay": "set `default_task_retry_delay` of Airflow's `[core]`",
    "catalog.metastore_dir": "the embedded metastore lies in <warehouse>/metastore",
    **dict.fromkeys(
        ("registry.username", "registry.username_env", "registry.password_env"),
        "set the environment variable SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO to user:password",
    ),
    "registry.folder": "set `url` to the folder",
    "registry.key_file": "put the key into `cert_file`",
    "registry.ca_file": "set the environment variable REQUESTS_CA_BUNDLE",
    "registry.proxy": "set the environment variable HTTPS_PROXY",
    "s3.requester_pays": "copy the files into a bucket of your own",
    **dict.fromkeys(("airflow.registry_conn_id", "airflow.webhook_conn_ids"), "set `conn_ids: {VARIABLE: connection}`"),
    "airflow.schemas": "`sync_schemas` runs every 15 minutes; pause it in Airflow",
    "airflow.quarantine": "`quarantine_alert` runs at 06:45 UTC; pause it in Airflow",
    "airflow.answer_within": "it is 20 hours",
    "airflow.status_page": "`compactor report` writes a page about the tables",
    "airflow.groups.partitioned": "events have the hour in `extra`",
    "airflow.groups.runner": "set `runner` of the tables, or in `defaults`",
    "airflow.groups.pod_template": "set `executor_config: {pod_template_file: ..}`",
    "metrics.emf": "set `deployment`, and the run sends to CloudWatch itself",
    "metrics.openlineage": "run records have what a run did (`json`)",
    "metrics.prices": "run records have the vCPU-hours and memory-hours of a job, to multiply with your prices",
    "metrics.pushgateway": "set `prometheus`, a folder of Prometheus's node exporter",
    "emr.plans": "the configuration of each job is written into `plans` below `job`",
    "emr.spark": "set `spark` in `defaults`",
    "emr.studio": "Airflow links the job's page in the AWS console",
    "emr.tags": "jobs have the tags compactor-group and compactor-table",
}
"""Keys of earlier versions and of other tools, by their path → what is there instead."""

FORMER_VALUES = {
    "change_feed": "; true has one change for each row that differs",
    "epoch": "; set `epoch_from` and `epoch_replaces` beside it",
    "archive_retention": "; without the key they are kept",
    "deadline": "; without the key there is none",
    "limits": "; there are limits or none",
    "kafka": "; write the servers, or the name of the file of properties that has them",
}
"""Keys whose values were others → what to write."""


def path_of(place: Place) -> str:
    """Return the path of a key without the names of tables and groups.

    >>> path_of(("tables", "student", "csv", "header")), path_of(("airflow", "groups", "daily", "wait"))
    ('csv.header', 'airflow.groups.wait')
    """
    parts = [str(part) for part in place]
    if parts[:2] == ["airflow", "groups"]:
        parts[2:3] = []
    return ".".join(parts[2:] if parts[0] == "tables" else parts[1:] if parts[0] == "defaults" else parts)


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
