"""The compactor.yaml that fits what `landing.land` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from . import landing

# Tables whose replica identity, not a primary key, names the row.
IDENTITY = {"public.uq_ident": ["email"]}

PARQUET = ("debezium_parquet", "debezium_avro_parquet", landing.CONNECT)

# Per key the order in which the connector handled the rows: `__ts_ms` is never null, `__lsn` breaks its ties (it is null in an
# incremental snapshot). `__source_sequence` is a JSON text and does not sort.
FLAT_ORDER = ("__ts_ms", "__lsn")


@cache
def keys() -> dict[str, tuple[str, ...]]:
    """The key columns of every table as the source spells them, by configured name; () where rows have no key."""
    found: dict[str, tuple[str, ...]] = {}
    for hour in landing.HOURS:
        described = json.loads((landing.DATA / f"truth/hour={hour:02}/_tables.json").read_text(encoding="utf-8"))
        for name, source in landing.tables().items():
            if source in described:
                found[name] = tuple(described[source]["pk"] or IDENTITY.get(source, ()))
    return found


def avro_name(column: str) -> str:
    """How the Avro converter spells a column: `größe` is `gr__e`."""
    return re.sub(r"[^A-Za-z0-9_]", "_", column)


def stored_name(column: str) -> str:
    """How the view spells a column: `Weird-Col name` is `weird_col_name`."""
    return re.sub(r"\W", "_", column.lower())


REFUSED = {form: {"audit_log", "copied_nopk"} for form in landing.FLAT}
"""Form → keyless tables whose flattened changes have no before image: refused, not guessed."""


def table_config(form: str, name: str, order_by: Iterable[str] | None = None) -> dict[str, Any]:
    """The settings of one table for a form."""
    if form not in (*landing.FORMS, landing.CONNECT):
        raise ValueError(f"unknown form {form!r}")
    # its column `flag` was a boolean and became text
    policy = {"on_schema_change": {"to_string": "evolve"}} if name == "evolve" else {}
    if form in landing.WAL2JSON:
        stream = {**policy, "envelope": "wal2json", "format": "json", "increments": "wal2json/incremental/increment_%Y%m%d%H"}
        return {**stream, "source_table": landing.source_tables(name), "key": list(keys()[name])}
    flat = form in landing.FLAT
    key = list(keys()[name])
    if form in ("debezium_avro_files", "debezium_parquet", landing.CONNECT, *landing.WIRE):
        key = [avro_name(column) for column in key]
    found: dict[str, Any] = {
        **policy,
        "envelope": "flat" if flat else "debezium",
        "format": "avro" if form == "debezium_avro_files" else "parquet" if form in PARQUET else "json",
        "container": "kafka" if form.endswith("_kafka") or form in landing.WIRE else "value",
        "key": key,
    }
    if order_by is not None:
        found["order_by"] = list(order_by)
    return found


def config_text(
    form: str,
    tables: Iterable[str] | None = None,
    *,
    warehouse: str | Path = ".",
    database: str = "school",
    order_by: Iterable[str] | None = None,
    table_extra: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """The compactor.yaml for these tables (default: all) landed in a form.

    order_by replaces the order of every table; table_extra is merged into every table, extra into the top of the file.
    """
    names = list(landing.tables() if tables is None else tables)
    top: dict[str, Any] = {"warehouse": str(warehouse), "catalog": {"database": database}, **(extra or {})}
    if form in landing.WIRE:
        top["registry"] = {"url": str(landing.DATA / "registry")}
    lines = [f"{key}: {_flow(value)}" for key, value in top.items()] + ["tables:"]
    lines += [f"  {name}: {_flow({**table_config(form, name, order_by), **(table_extra or {})})}" for name in names]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """A YAML flow value: JSON is one."""
    return json.dumps(value, ensure_ascii=False)
