"""sources.yml for dbt: the views with their descriptions, tests from keys and `checks:`, and freshness from the whole hour.

The form is that of dbt 1.10 and later (docs.getdbt.com, "Source properties"). What dbt has no test for stays with compactor, which looks at it before
readers see a version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from compactor.core.catalog import base_views, history_views, views
from compactor.core.catalog.ddl import Column
from compactor.core.model import times
from compactor.core.model.policy import ACCEPTED, FRESH, NULL_SHARE, UNIQUE
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

FRESH_HOURS = 3
"""Hours behind its source after which a table without `checks: {fresh: ..}` is a warning."""

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PART = "replace(cast({} as varchar(65535)), '|', '||')"
"""SQL of Spark, Hive, Trino and Athena: a value as text. Every | is doubled, so that `|,` between values cannot be part of one."""
_NUMBERS = ("bigint", "int", "smallint", "tinyint", "double", "float", "boolean")


def sources(tables: Sequence[tuple[TableSpec, Snapshot]]) -> str:
    """Return the content of sources.yml for tables that have rows: a source for each database of the catalog, in the order of the tables."""
    by_database: dict[str, list[dict[str, Any]]] = {}
    for spec, snapshot in tables:
        by_database.setdefault(spec.database, []).extend(_views(spec, snapshot))
    made = [{"name": name, "schema": name, "description": "Views kept by compactor", "tables": each} for name, each in by_database.items()]
    head = "# Written by `compactor schema --dbt`. Write it again after runs: columns and whole hours change."
    return "\n".join([head, "version: 2", "sources:", *_listed(made, "  ")]) + "\n"


def _views(spec: TableSpec, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    view = views.view(spec, snapshot)
    yield {
        "name": spec.view,
        "description": view.properties["comment"],
        **_freshness(spec, snapshot),
        **({"data_tests": several} if (several := _tests_of_several(spec, snapshot)) else {}),
        "columns": [_column(spec, snapshot, column) for column in view.columns],
    }
    for module, text in ((history_views, "every version of every row of"), (base_views, "rows as of the last compaction of")):
        for other in module.published(spec, snapshot):
            if not other.name.endswith(f"_{views.ATHENA}"):
                yield {"name": other.name, "description": f"{text} {spec.view}", "columns": [_described(column) for column in other.columns]}


def _described(column: Column) -> dict[str, Any]:
    # dbt renders Jinja in every text
    text = {"description": column.comment.replace("{", "{ ")} if column.comment else {}
    return {"name": column.name, **({} if _PLAIN.fullmatch(column.name) else {"quote": True}), "data_type": column.type, **text}


def _column(spec: TableSpec, snapshot: Snapshot, column: Column) -> dict[str, Any]:
    """Return a column with its tests. Stored keys are never null and, alone, unique: a table without key has none."""
    key = _key(spec, snapshot)
    tests: list[Any] = ["not_null"] if column.name in key else []
    tests += ["unique"] if key == (column.name,) else []
    for rule in spec.rules:
        if rule.columns != (column.name,):
            continue
        if rule.kind == UNIQUE and "unique" not in tests:
            tests.append("unique")
        elif rule.kind == NULL_SHARE and not rule.limit and "not_null" not in tests:
            tests.append("not_null")
        elif rule.kind == ACCEPTED and "{" not in "".join(rule.values):
            quoted = {} if column.type not in _NUMBERS else {"quote": False}
            tests.append({"accepted_values": {"arguments": {"values": [*rule.values], **quoted}}})
    return {**_described(column), **({"data_tests": tests} if tests else {})}


def _key(spec: TableSpec, snapshot: Snapshot) -> tuple[str, ...]:
    names = {field.name: snapshot.schema.view_name(field) for field in snapshot.schema.payload}
    # soft-deleted rows stay, one a key
    return () if spec.keyless else tuple(names[name] for name in snapshot.schema.key if name in names)


def _tests_of_several(spec: TableSpec, snapshot: Snapshot) -> list[Any]:
    """Return the tests of columns that are unique together. dbt's own test takes an expression; rows with a null in it do not count."""
    groups = [_key(spec, snapshot), *(rule.columns for rule in spec.rules if rule.kind == UNIQUE)]
    groups = [group for group in groups if len(group) > 1 and all(map(_PLAIN.fullmatch, group))]
    texts = [" || '|,' || ".join(_PART.format(name) for name in group) for group in groups]
    return [{"unique": {"arguments": {"column_name": f"({text})"}}} for text in dict.fromkeys(texts)]


def _freshness(spec: TableSpec, snapshot: Snapshot) -> dict[str, Any]:
    """Return the freshness: the end of the newest whole hour, else the newest source time, against `checks: {fresh: ..}`."""
    moment = snapshot.watermark.whole_to or snapshot.source_time
    if moment is None:
        return {}
    limit = next((rule.limit for rule in spec.rules if rule.kind == FRESH), 0.0)
    period, seconds = ("hour", 3600) if limit % 3600 == 0 else ("minute", 60)
    after = {"count": max(1, int(limit // seconds)) if limit else FRESH_HOURS, "period": period}
    loaded = times.parse(moment).replace(tzinfo=None).isoformat(" ", "seconds")
    return {"config": {"freshness": {"error_after" if limit else "warn_after": after}, "loaded_at_query": f"select cast('{loaded}' as timestamp)"}}


def _listed(values: Sequence[Any], indent: str) -> Iterator[str]:
    for value in values:
        first, *rest = _lines(value, indent + "  ")
        yield f"{indent}- {first.strip()}"
        yield from rest


def _lines(value: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a value in YAML. What has no mapping in it is written as JSON."""
    if not isinstance(value, dict):
        yield f"{indent}{_json(value)}"
        return
    for name, each in value.items():
        if isinstance(each, dict) or (isinstance(each, list) and any(isinstance(item, dict) for item in each)):
            yield f"{indent}{name}:"
            yield from _listed(each, f"{indent}  ") if isinstance(each, list) else _lines(each, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_json(each)}"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # what YAML would take for a line break, such as U+0085, is escaped
    return text if text.isprintable() else json.dumps(value)
