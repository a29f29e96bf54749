"""Adopt: take over a base that others made, plain Parquet files in one folder, as the first Snapshot of a table (H28).

Its rows are copied into a base of ours, because what absorbing needs (Positions, operation, key ranges, checksums) is in none of its files; the
folder itself is only read. What landed up to a folder enters the ledger as `adopted`, unread: the rows hold what it tells.

What a crash leaves: before the put, a directory that nothing names (garbage for vacuum): adopt again. After it, a catalog that is behind and files in
landing, which the next run finishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack

from compactor.core.catalog import views
from compactor.core.model.edit import Edit, NewestIs
from compactor.core.model.errors import CatalogRefused, NoRowsYet, Refused, RequirementFailed
from compactor.core.model.files import FileInfo
from compactor.core.model.layout import commit_id, join, relative
from compactor.core.model.position import latest
from compactor.core.model.snapshot import Input, Snapshot, State
from compactor.core.planning.plan import Landing
from compactor.core.results.batch import BatchSummary
from compactor.core.results.reports import AdoptReport, Progress, silent
from compactor.core.schema.adoption import ADOPTED, OPERATION, Adoption, adoption, check_plain, refused_paths
from compactor.core.schema.adoption import told as difference
from compactor.core.sources import increment
from compactor.flows.land import discover
from compactor.flows.publish import archive, publish
from compactor.flows.table import Table
from compactor.flows.transact import transact
from compactor.flows.write import feed
from compactor.flows.write.state import newest_hour, registered

SAMPLES = (24, 240)
"""Landed files, the newest, that are read to learn how changes look; more when none of them has a row, at last all."""


def adopt(
    table: Table,
    path: str,
    order_by: Sequence[str] = (),
    through: str | None = None,
    dry: bool = False,
    progress: Progress = silent,
    label: str = "",
) -> AdoptReport:
    """Make the rows below `path` version 1 of the table; when `dry`, only check that they can be.

    `order_by`: columns that hold the Position of each row's last change; `through`: the last folder of landing that is in the rows.
    Raises Refused for what cannot be adopted, NoRowsYet while no landed change tells how they look, Conflict when somebody commits meanwhile.
    """
    _check(table, path, order_by, through)
    reports: list[AdoptReport] = []

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        if parent is not None:
            raise RequirementFailed(f"table {table.name}: a run committed version {parent.version} meanwhile; nothing was adopted")
        report, edit = _adopted(table, path, order_by, through, dry, progress)
        reports.append(report)
        return edit

    made = transact(table, planned, label)
    if made is None:
        return reports[-1]
    progress(table.name, "publish", 0.85)
    publish.publish(table, made)
    progress(table.name, "archive", 0.95)
    archive.archive(table, made)
    progress(table.name, "done", 1.0)
    return dataclasses.replace(reports[-1], outcome="adopted", version=1)


def _adopted(table: Table, path: str, order_by: Sequence[str], through: str | None, dry: bool, progress: Progress) -> tuple[AdoptReport, Edit | None]:
    progress(table.name, "discover", 0.0)
    base = _files(table, path)
    landed = discover.landing(dataclasses.replace(table, spec=dataclasses.replace(table.spec, settle=0.0, first_folder=None)), None)
    absorbed = _until(table, landed, through) if through is not None else ()
    progress(table.name, "read", 0.1)
    summary = _changes(table, landed)
    engine, files = table.engine(), [file.path for file in base]
    found = engine.columns(table.spec, path, files)
    how = adoption(table.spec, path, found, summary.evolved.schema, summary.order, order_by, unplaced=through is not None)
    progress(table.name, "check", 0.3)
    writer = commit_id(1, table.env.nonce())
    staged = engine.adopt(table.spec, how, path, files, None if dry else writer)
    told = _report(table, path, base, landed, absorbed, how, staged.counts)
    if dry:
        return told, None
    state = State(
        schema=registered(table, how.schema),
        order=how.order,
        base_id=writer,
        segments=staged.segments,
        delta=None,
        hour=newest_hour(absorbed),
        position=latest([segment.position_max for segment in staged.segments]) if order_by else None,
        epoch=table.spec.epoch,
        compacted_at=table.env.now(),
        raw=summary.raw,
    )
    edit = Edit(OPERATION, writer, state, inputs=absorbed, pending=absorbed if table.spec.archive != "keep" else (), requires=(NewestIs(0),))
    return told, feed.with_changes(table, None, edit)


def _check(table: Table, path: str, order_by: Sequence[str], through: str | None) -> None:
    """Everything that can be refused before a file is read."""
    if not order_by and through is None:
        raise Refused(
            f"table {table.name}: which changes are in {path} already? As it stands every old one in landing would win over its rows. Say "
            "--absorbed-through FOLDER, the last folder of landing that is in it; or --order-by COLUMN, where rows keep their last change's position."
        )
    if table.spec.keyless:
        raise Refused(
            f"table {table.name}: it has no key, so nothing tells which of the rows of {path} a change concerns. Say `key:`, or load it anew."
        )
    if through is not None and not table.spec.pattern:
        raise Refused(f"table {table.name}: {table.spec.landing} is one flat folder, of which --absorbed-through cannot name a part; say --order-by")
    if through is not None and increment.landed(table.spec.pattern, f"{join(through)}/", table.spec.hours_in) is None:
        raise Refused(f"table {table.name}: --absorbed-through {through!r} is no folder like {table.spec.pattern!r}")
    newest = table.newest()
    if newest is not None:
        began = "it was adopted before" if table.adopted() else "a base is adopted as a table's first version"
        raise Refused(
            f"table {table.name}: it has {newest.version} versions, and {began}; `compactor run {table.name}` goes on with it. To begin anew, "
            "name another table, or remove this one's files and view."
        )
    shown = table.catalog().view(table.spec.database, table.spec.view)
    if shown is not None and (shown.properties.get(views.UUID), shown.properties.get(views.ROOT)) != (views.NOBODY, table.spec.root):
        raise CatalogRefused(f"table {table.name}: the view {table.spec.database}.{table.spec.view} exists and is not ours; say `view:` or rename it")
    for name in (views.table_name(table.spec, part, 1) for part in ("base", "delta")):
        there = table.catalog().table(table.spec.tables_in, name)
        if there is not None and (there.properties.get(views.UUID) is None or not there.location.startswith(join(table.spec.root) + "/")):
            raise CatalogRefused(
                f"table {table.name}: a table {table.spec.tables_in}.{name} exists at {there.location} and is not ours; rename it, or say `tables_in:`"
            )


def _files(table: Table, path: str) -> list[FileInfo]:
    """The files of the base. What is ours and what has landed does not count, should they lie below it."""
    layout = table.layout
    every = [info for info in table.storage.list(path) if layout.kind(info.path) is None and not info.path.startswith(join(table.spec.landing) + "/")]
    foreign = refused_paths(path, [relative(info.path, path) for info in every])
    if foreign is not None:
        raise Refused(f"table {table.name}: {foreign}")
    data = [info for info in every if info.size and not increment.ignored(relative(info.path, path))]
    check_plain(table.name, path, [relative(info.path, path) for info in data])
    return data


def _until(table: Table, landed: Landing, through: str) -> tuple[Input, ...]:
    """What has landed up to a folder, as entries of the ledger."""
    last = increment.landed(table.spec.pattern, f"{join(through)}/", table.spec.hours_in) or increment.Landed(join(through), None)

    def inside(item: Input) -> bool:
        # by the hour that folders name, where they name one: `05-03-2024` sorts badly as text
        return item.hour <= last.hour if item.hour and last.hour else item.folder <= last.folder

    return tuple(dataclasses.replace(item, outcome=ADOPTED) for item in landed.new if inside(item))


def _changes(table: Table, landed: Landing) -> BatchSummary:
    """How the changes of this table look: columns, types, order. Some of them are read for it, the newest first; none is absorbed."""
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
        f"table {table.name}: no change has landed below {table.spec.landing} yet. One is needed to know their columns and how they are ordered: adopt "
        "when the sink has written the first"
    )


def _report(
    table: Table, path: str, base: Sequence[FileInfo], landed: Landing, absorbed: Sequence[Input], how: Adoption, counts: dict[str, int]
) -> AdoptReport:
    columns = tuple((name, column, how.schema.field(name).type) for name, column in how.columns)
    waiting = len(landed.new) - len(absorbed)
    notes = [difference(decision) for decision in how.decisions]
    if how.left_out:
        notes.append(f"not stored: {', '.join(how.left_out)}")
    if counts["unplaced"]:
        notes.append(f"{counts['unplaced']:,} rows keep no position: every change that is absorbed from now on is newer")
    if how.order_by and not absorbed:
        notes.append("deleted rows keep no position: an old change of one brings it back, unless its delete is in landing too")
    notes.append(f"`compactor pin {table.name} 1` keeps the adopted rows for `rebuild` and `verify`: no landed file holds them")
    return AdoptReport(
        table.name,
        "would be adopted",
        None,
        path,
        len(base),
        sum(file.size for file in base),
        counts["adopted"],
        how.order,
        columns,
        len(absorbed),
        waiting,
        tuple(notes),
    )
