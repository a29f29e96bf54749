"""Adopt: take over a base that others built, plain Parquet files in one folder, as the first Snapshot of a table.

Its files are read as the inputs of a first load, in the columns and the order of the table's changes, and written as a base of the table: they lack
what a run needs (Positions, operation, key ranges, checksums). The folder itself is only read. Files that landed up to a given folder enter the
ledger as `adopted`. They are not read, because their changes are in the rows.

What a crash leaves: before the put, a directory that nothing names (garbage for vacuum): adopt again. After it, a catalog that is behind and files in
landing, which the next run finishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack

from compactor.core.catalog import views
from compactor.core.model.edit import Edit, NewestIs
from compactor.core.model.errors import CatalogRefused, NoRowsYet, Refused
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input
from compactor.core.model.layout import join, relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.landing import Landing
from compactor.core.results.batch import BatchSummary
from compactor.core.results.phrases import counted
from compactor.core.results.reports import AdoptReport
from compactor.core.schema.adoption import ADOPTED, FIRST, OPERATION, ForeignBase, check_plain, refused_paths
from compactor.core.sources import increment
from compactor.flows.land import discover
from compactor.flows.publish import archive, landing, publish
from compactor.flows.table import Table
from compactor.flows.transact import transact
from compactor.flows.write import state

SAMPLES = (24, 240)
"""Landed files, the newest, that are read to learn how changes look; more when none of them has a row, at last all."""


def adopt(table: Table, path: str, through: str, dry: bool = False) -> AdoptReport:
    """Make the rows below `path` version 1 of the table; when `dry`, only check that they can be.

    `through`: the last folder of landing that is in the rows.
    Raises Refused for what cannot be adopted, NoRowsYet while no landed change shows their columns, Conflict when somebody commits meanwhile.
    """
    check(table, path, through)
    _check_catalog(table)
    reports: list[AdoptReport] = []

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        if parent is not None:
            raise _has_versions(table, parent)
        report, edit = _adopted(table, path, through, dry, scratch)
        reports.append(report)
        return edit

    made = transact(table, planned)
    if made is None:
        return reports[-1]
    table.step("publish", 0.85)
    publish.publish(table, made)
    landing.show_live(table, made)
    table.step("archive", 0.95)
    archive.archive(table, made)
    table.step("done", 1.0)
    return dataclasses.replace(reports[-1], outcome="adopted", version=1)


def _adopted(table: Table, path: str, through: str, dry: bool, scratch: ExitStack) -> tuple[AdoptReport, Edit | None]:
    table.step("discover", 0.0)
    base = _files(table, path)
    landed = discover.landing(dataclasses.replace(table, spec=dataclasses.replace(table.spec, settle=0.0, first_folder=None)), None)
    absorbed = _until(table, landed, through)
    table.step("read", 0.1)
    changes = _changes(table, landed)
    foreign = ForeignBase(changes.evolved.schema, changes.order)
    inputs = [Input(relative(file.path, path), file.size, file.etag, "", None) for file in base]
    table.step("check", 0.3)
    engine = table.engine()
    batch = engine.read(foreign.spec(table.spec, path), None, inputs, FIRST, {}, base=foreign)
    scratch.callback(batch.close)
    report = _report(table, path, base, len(landed.new) - len(absorbed), absorbed, batch.summary)
    if dry:
        return report, None
    writer = table.next_commit(None)
    resolution = engine.resolve(batch, whole=True)
    scratch.callback(resolution.close)
    staged = engine.write(resolution, writer, 0)
    # the inputs of the version are landed files, not those of the base
    summary = dataclasses.replace(resolution.summary, inputs=absorbed, raw=changes.raw, raw_format=changes.raw_format, last=None)
    made = state.after(table, None, summary, staged, None, writer, whole=True)
    edit = Edit(OPERATION, writer, made, inputs=absorbed, pending=absorbed if table.spec.archive != "keep" else (), requires=(NewestIs(0),))
    return report, state.with_changes(table, None, edit)


def check(table: Table, path: str, through: str) -> None:
    """Raise Refused for everything that settings, names and listings show. Asks neither engine nor catalog."""
    if table.spec.columns:
        raise Refused(f"table {table.name}: rows of another table cannot be adopted under `columns:`; they would be stored as they are")
    if table.spec.keyless:
        raise Refused(f"table {table.name}: it has no key, so nothing connects a change with a row of {path}. Set `key:`, or load it anew.")
    if not table.spec.pattern:
        raise Refused(f"table {table.name}: {table.spec.landing} is one flat folder, and --ingested-through cannot name a part of it")
    if increment.landed(table.spec.pattern, f"{join(through)}/", table.spec.hours_in) is None:
        raise Refused(f"table {table.name}: --ingested-through {through!r} is no folder like {table.spec.pattern!r}")
    newest = table.newest()
    if newest is not None:
        raise _has_versions(table, newest)
    _files(table, path)


def _has_versions(table: Table, newest: Snapshot) -> Refused:
    began = "it was adopted before" if table.adopted() else "a base is adopted as a table's first version"
    return Refused(
        f"table {table.name}: it has {counted(newest.version, 'version')}, and {began}; nothing was adopted. `compactor run {table.name}` goes "
        "on with it. To begin anew, name another table, or remove this one's files and view."
    )


def _check_catalog(table: Table) -> None:
    """Raise CatalogRefused for views and tables of others."""
    shown = table.catalog().view(table.spec.database, table.spec.view)
    if shown is not None and not publish.is_declared(table, shown):
        raise CatalogRefused(f"table {table.name}: the view {table.spec.database}.{table.spec.view} exists and is not ours; set `view:` or rename it")
    for name in (views.table_name(table.spec, part, 1) for part in ("base", "delta")):
        there = table.catalog().table(table.spec.tables_in, name)
        if there is not None and (there.properties.get(views.UUID) is None or not there.location.startswith(join(table.spec.root) + "/")):
            raise CatalogRefused(
                f"table {table.name}: a table {table.spec.tables_in}.{name} exists at {there.location} and is not ours; rename it, or set "
                "`tables_in:`"
            )


def _files(table: Table, path: str) -> list[FileInfo]:
    """Return the files of the base, without the table's own files and landed files, should they lie below it."""
    layout = table.layout
    every = [info for info in table.storage.list(path) if layout.kind(info.path) is None and not info.path.startswith(join(table.spec.landing) + "/")]
    foreign = refused_paths(path, [relative(info.path, path) for info in every])
    if foreign is not None:
        raise Refused(f"table {table.name}: {foreign}")
    data = [info for info in every if info.size and not increment.ignored(relative(info.path, path))]
    check_plain(table.name, path, [relative(info.path, path) for info in data])
    return data


def _until(table: Table, landed: Landing, through: str) -> tuple[Input, ...]:
    """Return the files that landed up to a folder, as entries of the ledger."""
    last = increment.landed(table.spec.pattern, f"{join(through)}/", table.spec.hours_in) or increment.Landed(join(through), None)

    def inside(item: Input) -> bool:
        # by the hour that folders name, where they name one: `05-03-2024` sorts badly as text
        return item.hour <= last.hour if item.hour and last.hour else item.folder <= last.folder

    return tuple(dataclasses.replace(item, outcome=ADOPTED) for item in landed.new if inside(item))


def _changes(table: Table, landed: Landing) -> BatchSummary:
    """Return the columns and the order of this table's changes. Reads some of them, the newest first; ingests none."""
    newest = sorted(landed.new, key=lambda item: (item.hour or "", item.path), reverse=True)
    # one truncate or a few unusable records say nothing against the base
    relaxed = dataclasses.replace(table.spec.unguarded, truncate="apply")
    for count in dict.fromkeys(min(size, len(newest)) for size in (*SAMPLES, len(newest))):
        if not count:
            break
        try:
            batch = table.engine().read(relaxed, None, newest[:count], 1, {})
        except NoRowsYet:
            continue
        try:
            return batch.summary
        finally:
            batch.close()
    raise NoRowsYet(
        f"table {table.name}: no change has landed below {table.spec.landing} yet. Changes show their columns and their order: adopt when the sink "
        "has written the first"
    )


def _report(table: Table, path: str, base: Sequence[FileInfo], waiting: int, absorbed: Sequence[Input], summary: BatchSummary) -> AdoptReport:
    schema = summary.evolved.schema
    origin = {stored: column for columns in summary.evolved.columns.values() for column, stored in columns.items()}
    columns = tuple((field.name, origin[field.name], field.type) for field in schema.payload if field.name in origin)
    notes = [
        *(decision.sentence for decision in summary.evolved.decisions),
        "every change that is ingested from now on is newer than the rows",
        f"`compactor versions pin {table.name} 1` keeps the adopted rows for `rebuild` and `verify`: no landed file holds them",
    ]
    size, order = sum(file.size for file in base), summary.order
    return AdoptReport(
        table.name, "would be adopted", None, path, len(base), size, summary.read, order, columns, len(absorbed), waiting, tuple(notes)
    )
