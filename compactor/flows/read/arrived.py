"""Arrived: whether anything of an hour has landed, absorbed already or not."""

from __future__ import annotations

from datetime import datetime

from compactor.core.model.layout import join, relative
from compactor.core.model.spec import TableSpec
from compactor.core.sources import increment
from compactor.flows.environment import World
from compactor.flows.snapshots import layout_of


def arrived(world: World, spec: TableSpec, hour: datetime) -> bool:
    """Whether a data file of this hour (UTC) lies in landing, archive or quarantine. Always True where folders name no hours.

    It lists the hour's own folder; all of landing where folders hold less than an hour. That a file is there does not mean that all are.
    """
    place = increment.hour_place(spec.pattern, hour, spec.hours_in)
    if place is None:
        return True
    directory, told = place
    layout = layout_of(spec)
    for root in (spec.landing, layout.archived(""), layout.quarantined("")):
        for info in world.storage.list(join(root, directory)):
            path = relative(info.path, root)
            found = increment.landed(spec.pattern, path, spec.hours_in, spec.source.load_files)
            if found is not None and (found.hour or "").startswith(told) and not increment.ignored(path):
                return True
    return False
