"""DuckDB's rows beside Spark's: every view that a test reads through Spark is read through DuckDB too."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from compactor.core.catalog import base_views, daily_views, history_views, views
from compactor.core.catalog.ddl import Column, ViewDef
from compactor.core.catalog.dialect import DUCKDB
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.duckdb import queries
from compactor.duckdb.session import Session
from compactor.flows.environment import Environment
from compactor.flows.publish import daily
from compactor.flows.table import Table
from compactor.storage.local import LocalStorage


@functools.cache
def session() -> Session:
    """One DuckDB for all tests of a process."""
    return Session(LocalStorage(), ["main"], remote=False)


def defined(spec: TableSpec, snapshot: Snapshot, name: str) -> ViewDef | None:
    """The view of this name; None for one that DuckDB does not know, such as `<t>_live`."""
    if name == spec.view:
        return queries.rows(session().connection, spec, snapshot)
    if name == base_views.called(spec):
        return queries.compacted_rows(session().connection, spec, snapshot)
    if name == history_views.name(spec):
        return queries.history(session().connection, spec, snapshot)
    if name == daily_views.called(spec):
        table = Table(Environment(LocalStorage(), _none, _none), spec)
        return queries.days(session().connection, spec, snapshot, daily.forms(table, snapshot), daily.versions(table, snapshot))
    return None


def _none() -> Any:
    """No engine and no catalog."""
    raise AssertionError


def check(view: ViewDef, expected: Sequence[dict[str, Any]]) -> None:
    """DuckDB gives the same columns, types of columns and rows as Spark. `expected`: parsed JSON, fractions as Decimal."""
    session().define(view)
    columns, texts = session().query(f"select * from {DUCKDB.name(view.database)}.{DUCKDB.name(view.name)}")
    assert columns == [column.name for column in view.columns]
    found = [json.loads(text, parse_float=Decimal) for text in texts]
    left, right = (sorted((plain(row, view.columns) for row in rows), key=repr) for rows in (found, expected))
    different = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
    assert len(left) == len(right), f"{view.name}: DuckDB has {len(left)} rows, Spark {len(right)}"
    assert not different, f"{view.name}: DuckDB shows {different[0][0]}, Spark {different[0][1]}"


def plain(row: dict[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """The row with floating-point numbers as such: the engines write them in two notations, and Java before 19 not always the shortest."""
    kinds = {column.name: column.type for column in columns}
    return {name: _floats(value, kinds[name]) if "double" in kinds[name] or "float" in kinds[name] else value for name, value in row.items()}


def _floats(value: Any, kind: str) -> Any:
    if isinstance(value, dict):
        return {name: _floats(each, kind) for name, each in value.items()}
    if isinstance(value, list):
        return [_floats(each, kind) for each in value]
    if not isinstance(value, (Decimal, int)) or isinstance(value, bool):
        return value
    return repr(float(value)) if "double" in kind else repr(struct.unpack("f", struct.pack("f", value))[0])


def version_shown(view: ViewDef) -> int:
    """The version that a view of the catalog shows."""
    return int(view.properties[views.VERSION])
