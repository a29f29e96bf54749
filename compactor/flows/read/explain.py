"""Explain: how what waits in landing becomes a version, or how the newest version with new files became one. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.core.model.errors import NoRowsYet, Refused
from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.explained import CompactionDue, Explained
from compactor.core.results.phrases import counted
from compactor.flows import ledger
from compactor.flows.land import discover
from compactor.flows.publish import archive
from compactor.flows.table import Table
from compactor.flows.write import compact
from compactor.flows.write.commit import FILES_MAX, why_new_base


def explain(table: Table) -> Explained:
    """Return the passes over what waits in landing, or over the files of the newest version that took some.

    Raises NoRowsYet if nothing has ever landed, Refused if the version before that one has expired or its files are gone.
    """
    newest, spec = table.newest(), table.spec
    parent, places = newest, dict[tuple[str, str], str]()
    inputs: Sequence[Input] = discover.landing(table, newest).new[:FILES_MAX]
    made = None if inputs else _newest_with_files(table, newest)
    if made is not None:
        parent, inputs, spec = _parent(table, made), made.inputs, spec.unguarded
        located = {item.id: archive.place(table, item) for item in inputs}
        gone = next((path for (path, _), place in located.items() if place is None), None)
        if gone is not None:
            raise Refused(f"table {table.name}: {gone}, which version {made.version} took, is neither in the archive nor in landing any more")
        places = {name: place for name, place in located.items() if place is not None}
    elif not inputs:
        raise NoRowsYet(
            f"table {table.name}: nothing waits in landing, and no kept version took files. Land some, or see `compactor log {table.name}`."
        )
    engine = table.engine()
    version = made.version if made else newest.version + 1 if newest else 1
    return engine.explain(
        lambda: engine.read(spec, parent, inputs, version, places, lambda: ledger.newest_entries(table, parent)),
        lambda summary: why_new_base(table, parent, summary),
        made is not None,
        _compaction(table, newest) if newest else None,
    )


def _compaction(table: Table, newest: Snapshot) -> CompactionDue | None:
    """Return the compaction of the newest version that is due, or None."""
    targets = compact.worth(table, newest, table.engine().shares(table.spec, newest)) if compact.due(table, newest) else ()
    why = f"{counted(len(targets), 'segment')} of {len(newest.segments):,} of version {newest.version}: their Delta rows are worth a rewrite"
    return CompactionDue(table.spec, newest, targets, why) if targets else None


def _newest_with_files(table: Table, newest: Snapshot | None) -> Snapshot | None:
    """Return the newest kept version that took files, or None."""
    for version in range(newest.version if newest else 0, 0, -1):
        snapshot = table.committed(version)
        if snapshot.expired or (snapshot.inputs and snapshot.operation in ("commit", "replay")):
            return None if snapshot.expired else snapshot
    return None


def _parent(table: Table, made: Snapshot) -> Snapshot | None:
    if made.parent is None:
        return None
    parent = table.committed(made.parent)
    if parent.expired:
        raise Refused(
            f"table {table.name}: nothing waits in landing, and version {parent.version}, which version {made.version} continues, has expired"
        )
    return parent
