"""Adopt: take over a base that others made, plain Parquet files in one folder, as the first Snapshot of a table (H28).

Its rows are copied into a base of ours, because what absorbing needs (Positions, operation, key ranges, checksums) is in none of its files; the
folder itself is only read. What landed up to a folder enters the ledger as `adopted`, unread: the rows hold what it tells.

What a crash leaves: before the put, a directory that nothing names (garbage for vacuum): adopt again. After it, a catalog that is behind and files in
landing, which the next run finishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from compactor.core.catalog import views
from compactor.core.model.errors import CatalogRefused, Conflict, NoRowsYet, Refused, TryLater
from compactor.core.model.layout import Layout, commit_id, join, relative
from compactor.core.model.position import latest
from compactor.core.model.snapshot import Input, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.plan import Landing
from compactor.core.results.reports import AdoptReport, Progress, silent
from compactor.core.schema.adoption import ADOPTED, OPERATION, Adoption, adoption, check_plain, refused_paths
from compactor.core.schema.adoption import told as difference
from compactor.core.sources import increment
from compactor.flows import snapshots
from compactor.flows.environment import World
from compactor.flows.land import discover
from compactor.flows.publish import archive, publish
from compactor.flows.write import commit, feed
from compactor.ports import Facts, FileInfo

SAMPLES = (24, 240)
"""Landed files, the newest, that are read to learn how changes look; more when none of them has a row, at last all."""


def adopt(
    world: World,
    spec: TableSpec,
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
    _check(world, spec, path, order_by, through)
    try:
        return _adopted(world, spec, path, order_by, through, dry, progress, label)
    except TryLater:
        raise
    except Exception as error:
        newest = snapshots.newest(world, snapshots.layout_of(spec))
        if newest is None or newest.operation == OPERATION:
            raise
        # a run beside us has archived what we were reading
        raise Conflict(f"table {spec.name}: a run committed its first version meanwhile; nothing was adopted. The last error: {error}") from error


def _adopted(
    world: World, spec: TableSpec, path: str, order_by: Sequence[str], through: str | None, dry: bool, progress: Progress, label: str
) -> AdoptReport:
    layout = snapshots.layout_of(spec)
    progress(spec.name, "discover", 0.0)
    base = _files(world, spec, path)
    landed = discover.landing(world, dataclasses.replace(spec, settle=0.0, first_folder=None), None)
    absorbed = _until(spec, landed, through) if through is not None else ()
    progress(spec.name, "read", 0.1)
    facts = _changes(world, spec, landed)
    engine, files = world.engine(), [file.path for file in base]
    found = engine.columns(spec, path, files)
    how = adoption(spec, path, found, facts.evolved.schema, facts.order, order_by, unplaced=through is not None)
    progress(spec.name, "check", 0.3)
    writer = commit_id(1, world.nonce())
    staged = engine.adopt(spec, how, path, files, None if dry else writer)
    told = _report(spec, path, base, landed, absorbed, how, staged.counts)
    if dry:
        return told
    made = Snapshot(
        table=spec.name,
        uuid=snapshots.new_uuid(),
        version=1,
        parent=None,
        writer=writer,
        run=label,
        time=world.now(),
        operation=OPERATION,
        schema=commit.registered(spec, how.schema),
        order=how.order,
        base_id=writer,
        segments=staged.segments,
        delta=None,
        inputs=absorbed,
        pending=absorbed if spec.archive != "keep" else (),
        hour=max((item.hour for item in absorbed if item.hour), default=None),
        position=latest([segment.position_max for segment in staged.segments]) if order_by else None,
        epoch=spec.epoch,
        folded_at=world.now(),
        raw=facts.raw,
    )
    made = feed.with_changes(world, spec, None, made)
    snapshots.put(world, layout, made)
    progress(spec.name, "publish", 0.85)
    publish.publish(world, spec, made)
    progress(spec.name, "archive", 0.95)
    archive.archive(world, spec, made)
    progress(spec.name, "done", 1.0)
    return dataclasses.replace(told, outcome="adopted", version=1)


def _check(world: World, spec: TableSpec, path: str, order_by: Sequence[str], through: str | None) -> None:
    """Everything that can be refused before a file is read."""
    if not order_by and through is None:
        raise Refused(
            f"table {spec.name}: which changes are in {path} already? As it stands every old one in landing would win over its rows. Say "
            "--absorbed-through FOLDER, the last folder of landing that is in it; or --order-by COLUMN, where rows keep their last change's position."
        )
    if spec.keyless:
        raise Refused(
            f"table {spec.name}: it has no key, so nothing tells which of the rows of {path} a change concerns. Say `key:`, or load it anew."
        )
    if through is not None and not spec.pattern:
        raise Refused(f"table {spec.name}: {spec.landing} is one flat folder, of which --absorbed-through cannot name a part; say --order-by")
    if through is not None and increment.landed(spec.pattern, f"{join(through)}/", spec.hours_in) is None:
        raise Refused(f"table {spec.name}: --absorbed-through {through!r} is no folder like {spec.pattern!r}")
    newest = snapshots.newest(world, snapshots.layout_of(spec))
    if newest is not None:
        began = "it was adopted before" if snapshots.adopted(world, snapshots.layout_of(spec)) else "a base is adopted as a table's first version"
        raise Refused(
            f"table {spec.name}: it has {newest.version} versions, and {began}; `compactor run {spec.name}` goes on with it. To begin anew, "
            "name another table, or remove this one's files and view."
        )
    shown = world.catalog().view(spec.database, spec.view)
    if shown is not None and (shown.properties.get(views.UUID), shown.properties.get(views.ROOT)) != (views.NOBODY, spec.root):
        raise CatalogRefused(f"table {spec.name}: the view {spec.database}.{spec.view} exists and is not ours; say `view:` or rename it")
    for name in (views.table_name(spec, part, 1) for part in ("base", "delta")):
        there = world.catalog().table(spec.tables_in, name)
        if there is not None and (there.properties.get(views.UUID) is None or not there.location.startswith(join(spec.root) + "/")):
            raise CatalogRefused(
                f"table {spec.name}: a table {spec.tables_in}.{name} exists at {there.location} and is not ours; rename it, or say `tables_in:`"
            )


def _files(world: World, spec: TableSpec, path: str) -> list[FileInfo]:
    """The files of the base. What is ours and what has landed does not count, should they lie below it."""
    layout: Layout = snapshots.layout_of(spec)
    every = [info for info in world.storage.list(path) if layout.kind(info.path) is None and not info.path.startswith(join(spec.landing) + "/")]
    foreign = refused_paths(path, [relative(info.path, path) for info in every])
    if foreign is not None:
        raise Refused(f"table {spec.name}: {foreign}")
    data = [info for info in every if info.size and not increment.ignored(relative(info.path, path))]
    check_plain(spec.name, path, [relative(info.path, path) for info in data])
    return data


def _until(spec: TableSpec, landed: Landing, through: str) -> tuple[Input, ...]:
    """What has landed up to a folder, as entries of the ledger."""
    last = increment.landed(spec.pattern, f"{join(through)}/", spec.hours_in) or increment.Landed(join(through), None)

    def inside(item: Input) -> bool:
        # by the hour that folders name, where they name one: `05-03-2024` sorts badly as text
        return item.hour <= last.hour if item.hour and last.hour else item.folder <= last.folder

    return tuple(dataclasses.replace(item, outcome=ADOPTED) for item in landed.new if inside(item))


def _changes(world: World, spec: TableSpec, landed: Landing) -> Facts:
    """How the changes of this table look: columns, types, order. Some of them are read for it, the newest first; none is absorbed."""
    newest = sorted(landed.new, key=lambda item: (item.hour or "", item.path), reverse=True)
    # one truncate or a few unusable records say nothing against the base
    relaxed = dataclasses.replace(spec.unguarded, truncate="apply")
    for count in dict.fromkeys(min(size, len(newest)) for size in (*SAMPLES, len(newest))):
        if not count:
            break
        try:
            batch = world.engine().read(relaxed, None, newest[:count], 1, {})
        except NoRowsYet:
            continue
        try:
            return batch.facts
        finally:
            batch.close()
    raise NoRowsYet(
        f"table {spec.name}: no change has landed below {spec.landing} yet. One is needed to know their columns and how they are ordered: adopt "
        "when the sink has written the first"
    )


def _report(
    spec: TableSpec, path: str, base: Sequence[FileInfo], landed: Landing, absorbed: Sequence[Input], how: Adoption, counts: dict[str, int]
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
    notes.append(f"`compactor pin {spec.name} 1` keeps the adopted rows for `rebuild` and `verify`: no landed file holds them")
    return AdoptReport(
        spec.name,
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
