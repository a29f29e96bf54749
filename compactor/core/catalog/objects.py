"""The views and tables in the catalog that a table has by its settings, as `database.name`. A type change adds `_g2` to the name of a table."""

from __future__ import annotations

from compactor.core.catalog import base_views, daily_views, feed, history_views, live, native_table, views
from compactor.core.model import history
from compactor.core.model.spec import TableSpec


def views_of(spec: TableSpec) -> list[str]:
    """Return the views and Iceberg tables that readers use, the view of the current rows first."""
    optional = ((history_views.name(spec), spec.history), (daily_views.called(spec), spec.daily), (base_views.called(spec), spec.read_optimized))
    shown = [spec.view, *(name for name, on in optional if on)]
    names = [views.in_dialect(name, dialect) for name in shown for dialect in views.dialects(spec)]
    names += [native_table.called(spec, form) for form in spec.iceberg] + ([live.name(spec)] if spec.live_view else [])
    return [f"{spec.database}.{name}" for name in names]


def tables_of(spec: TableSpec) -> list[str]:
    """Return the tables below the views. Landed files hold protected columns as they are, so no table shows those."""
    parts = {"incremental": not spec.columns, feed.TABLE: spec.feed != "off", history.ROWS: spec.history, daily_views.ROWS: spec.daily}
    return [f"{spec.tables_in}.{spec.name}_{part}" for part in ("base", "delta", *(part for part, on in parts.items() if on))]
