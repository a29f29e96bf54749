"""Arrived: whether anything of an hour has landed, absorbed already or not."""

from __future__ import annotations

from datetime import datetime

from compactor.core.model.layout import join, relative
from compactor.core.sources import increment
from compactor.flows.table import Table


def arrived(table: Table, hour: datetime) -> bool:
    """Whether a data file of this hour (UTC) lies in landing, archive or quarantine. Always True where folders name no hours.

    It lists the hour's own folder; all of landing where folders hold less than an hour. That a file is there does not mean that all are.
    """
    place = increment.hour_place(table.spec.pattern, hour, table.spec.hours_in)
    if place is None:
        return True
    directory, prefix = place
    layout = table.layout
    for root in (table.spec.landing, layout.archived(""), layout.quarantined("")):
        for info in table.storage.list(join(root, directory)):
            path = relative(info.path, root)
            landed = increment.landed(table.spec.pattern, path, table.spec.hours_in, table.spec.source.load_files)
            if landed is not None and (landed.hour or "").startswith(prefix) and not increment.ignored(path):
                return True
    return False
