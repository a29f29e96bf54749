"""Timeline: read what Snapshots and run records show of tables up to a moment.

It never looks into landing, so the answer for a past moment is the same whenever it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from compactor.core.model import times
from compactor.core.model.errors import CompactorError
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.parallel import in_parallel
from compactor.core.planning import compaction
from compactor.core.results.record import RunRecord
from compactor.core.results.timeline import Timeline, version_of
from compactor.core.schema.schema_history import steps
from compactor.flows import ledger
from compactor.flows.environment import Environment
from compactor.flows.read import arrived
from compactor.flows.record import last_idle
from compactor.flows.table import Table


def timelines(env: Environment, specs: Sequence[TableSpec], at: float, count: int) -> list[Timeline]:
    """Return each table up to the moment `at` (epoch seconds): its `count` newest versions and run records."""
    moment = times.from_seconds(at, "milliseconds")
    idle = last_idle(env, specs, moment)
    return in_parallel(lambda spec: _timeline(Table(env, spec), moment, count, idle.get(spec.name)), specs)


def _timeline(table: Table, moment: str, count: int, idle: str | None) -> Timeline:
    view = f"{table.spec.database}.{table.spec.view}"
    try:
        runs = _runs(table, moment, count)
        snapshots = _snapshots(table, moment, count)
        if not snapshots:
            return Timeline(table.name, view, runs=runs, idle=idle)
        made = {int(each.split()[-1]): record for record in runs for each in record.operations}
        versions = tuple(version_of(snapshot, made.get(snapshot.version)) for snapshot in snapshots)
        newest = snapshots[-1]
        waiting = ledger.latest(ledger.everything(table, newest)).values() if not newest.expired else ()
        return Timeline(
            table.name,
            view,
            versions,
            runs,
            tuple(item for item in waiting if item.in_quarantine),
            tuple(step for step in steps(reversed(snapshots)) if step.changes and step.version > 1),
            compaction.delta_estimate(newest),
            compaction.DELTA_LIMIT,
            arrived.arrivals(table, newest, tuple(times.to_seconds(version.time) for version in versions if version.events.get("read"))),
            idle,
        )
    except CompactorError as error:
        return Timeline(table.name, view, problem=str(error))


def _snapshots(table: Table, moment: str, count: int) -> list[Snapshot]:
    """Return the `count` newest Snapshots of a moment, oldest first."""
    newest = table.newest()
    if newest is None:
        return []
    last = newest.version if newest.time <= moment else _version_at(table, newest.version, moment)
    return [newest if number == newest.version else table.committed(number) for number in range(max(1, last - count + 1), last + 1)]


def _version_at(table: Table, newest: int, moment: str) -> int:
    """Return the newest version of a moment; 0 if there was none. Times of Snapshots rise with their versions, so halving finds it."""
    low, high = 0, newest
    while low < high:
        middle = (low + high + 1) // 2
        if table.committed(middle).time <= moment:
            low = middle
        else:
            high = middle - 1
    return low


def _runs(table: Table, moment: str, count: int) -> tuple[RunRecord, ...]:
    """Return the newest run records of a moment, oldest first. Names sort by the time at which a run began."""
    until = table.layout.run(moment, "g")
    paths = sorted(info.path for info in table.storage.list(table.layout.runs()) if info.path < until)[-count:]
    records = [RunRecord.from_bytes(table.storage.read(path), path) for path in paths]
    return tuple(record for record in sorted(records, key=lambda record: record.ended) if record.ended <= moment)
