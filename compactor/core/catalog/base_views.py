"""`<view>_ro`: the rows as of the last compaction, from the base alone, at the cost of a bare scan (docs/design/view.md#the-base-alone).

The view always shows one committed version. The base is one version if every Segment contains the changes up to the same version. A compaction of a
table with `read_optimized: true` takes every Segment with changes, so this holds after each of them. Where it does not hold, because compactions of
the time before the setting took some Segments only, the view reads the Delta too, and shows the newest version.
"""

from __future__ import annotations

import dataclasses

from compactor.core.catalog import views
from compactor.core.catalog.ddl import ViewDef
from compactor.core.catalog.dialect import HIVE, Dialect
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

STATE_VERSION, STATE_SOURCE_TIME, STATE_COMPACTED = "compactor.state_version", "compactor.state_source_time", "compactor.state_compacted"
"""Properties of the view: the version that it shows, the newest source time in it (or UNKNOWN), and when the base was written; ISO 8601."""


def called(spec: TableSpec) -> str:
    return f"{spec.view}_ro"


def shown(snapshot: Snapshot) -> Snapshot:
    """Return the Snapshot whose rows the view shows: without the Delta if the base is one version, else all of it."""
    return snapshot if _base_version(snapshot) is None else dataclasses.replace(snapshot, delta=None)


def state(snapshot: Snapshot) -> tuple[int, str | None]:
    """Return the version that the view shows, and the newest source time in it (ISO 8601, None if it is not known)."""
    version = _base_version(snapshot)
    return (snapshot.version, snapshot.source_time) if version is None else (version, snapshot.base_source_time)


def _base_version(snapshot: Snapshot) -> int | None:
    """Return the version that the base is without the Delta; None if there is no Delta, or if the Segments are of several versions."""
    versions = {segment.compacted_through for segment in snapshot.segments}
    return versions.pop() if snapshot.delta is not None and len(versions) == 1 else None


def view(spec: TableSpec, snapshot: Snapshot, dialect: Dialect = HIVE) -> ViewDef:
    """Return the view. `snapshot`: the newest, whose columns it has."""
    version, source_time = state(snapshot)
    whole = views.view(spec, shown(snapshot), dialect)
    properties = {
        views.UUID: snapshot.uuid,
        views.VERSION: str(snapshot.version),
        STATE_VERSION: str(version),
        STATE_SOURCE_TIME: source_time or views.UNKNOWN,
        STATE_COMPACTED: snapshot.compacted_at or views.UNKNOWN,
        "comment": f"rows of {spec.name} as of the last compaction, kept by compactor",
    }
    return dataclasses.replace(whole, name=views.in_dialect(called(spec), dialect), properties=properties)


def published(spec: TableSpec, snapshot: Snapshot) -> list[ViewDef]:
    """Return the view in the form of each engine; [] for a table without `read_optimized`."""
    return [view(spec, snapshot, dialect) for dialect in views.dialects(spec)] if spec.read_optimized else []
