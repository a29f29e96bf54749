"""Verify: does what is stored, shown and recorded agree?

Without a JVM: the files of the Snapshot exist with the right sizes and no others lie beside them, the key ranges of the segments are complete, the
counts of every commit add up, no input is both ingested and new, every ingested input is in the archive or in landing. With a JVM: the rows of the
view equal the reference definition (union, newest row per key), and equal one resolve of everything ever ingested. So do the versions of the history
view. The live view equals the view after a run with the files that wait. The newest part of a change feed (deep: every part) equals the difference of
its versions, and its table has the partitions of all parts. Deep: every file of every version that can be restored is read, and the size of every raw
file compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from compactor.core.catalog import feed, landed, live
from compactor.core.formats import checksum, parquet
from compactor.core.model.errors import Conflict, InconsistentRead, Refused, StateRefused
from compactor.core.model.files import DataFile
from compactor.core.model.inputs import AGAIN, LATER, Input
from compactor.core.model.layout import commit_id, join, relative
from compactor.core.model.snapshot import COUNTS, Snapshot
from compactor.core.planning import compaction
from compactor.core.results.checks import Check
from compactor.core.results.phrases import counted
from compactor.core.schema.adoption import ADOPTED
from compactor.core.sources import increment
from compactor.flows import ledger
from compactor.flows.keep.raw_files import DISCARDED
from compactor.flows.land import discover
from compactor.flows.publish import archive, audit, publish
from compactor.flows.publish.landing import pending
from compactor.flows.table import Table, listed


def verify(table: Table, deep: bool = False) -> list[Check]:
    """All checks that can be made; a table without a Snapshot has one that says so. `deep`: every file of every kept version is read."""
    snapshot = table.newest()
    if snapshot is None:
        return [Check(table.name, "snapshot", True, "nothing committed yet")]
    if not table.env.files_only:
        # raises if a view shows a newer version, which is gone
        publish.shown_version(table, snapshot)
    tiling = [*filter(None, [compaction.tiling_problem(snapshot.segments)])]
    checks = [
        _twice(_files, table, snapshot),
        _check(table, "key ranges complete", tiling, f"{len(snapshot.segments)} segments"),
        _counts(table, snapshot),
    ]
    try:
        entries = ledger.everything(table, snapshot)
    except (Conflict, StateRefused) as error:
        return [*checks, Check(table.name, "ledger", False, str(error))]
    checks += [_twice(partial(_inputs, entries), table, snapshot), _archive(entries, table)]
    if snapshot.feed is not None and snapshot.feed.mode != feed.OFF:
        checks += _feed(table, snapshot, deep)
    if deep:
        checks += [_kept_versions(table, snapshot), _twice(partial(_raw_files, entries), table, snapshot)]
    if not table.env.files_only:
        checks += _rows(table, snapshot, entries)
    return checks


def _rows(table: Table, newest: Snapshot, entries: Sequence[Input]) -> list[Check]:
    """Compare what readers see. While the newest version is blocked that is an older one."""
    snapshot, name = newest, "view equals full recompute"
    shown = audit.last_shown(table, newest)
    if shown is None or shown.version != newest.version:
        version = publish.shown_version(table, newest)
        if not version:
            return [Check(table.name, name, True, f"cannot be compared: version {newest.version} is blocked, and readers see none")]
        snapshot = table.committed(version)
        entries = ledger.everything(table, snapshot)
    missing = _not_comparable(table, snapshot, entries)
    if missing:
        # not a failure, but nothing to compare with either
        detail = Check(table.name, name, True, f"cannot be compared: {missing}")
        compared = _compared(table, lambda: table.engine().compare(table.spec, snapshot, (), {}))
        checks = [*(check for check in compared if check.name != detail.name), detail]
    else:
        inputs, places = archive.taken(table, entries)
        there = [item for item in inputs if item.id in places]
        checks = _compared(table, lambda: table.engine().compare(table.spec, snapshot, there, places, table.origin(snapshot)))
    if snapshot.version != newest.version:
        return [*checks, Check(table.name, "compared version", True, f"{snapshot.version}, which readers see: version {newest.version} is blocked")]
    return checks + _compared(table, lambda: _live(table, snapshot))


def _compared(table: Table, compare: Callable[[], list[Check]]) -> list[Check]:
    """Return the checks of the engine. Files of other sizes than were written fail a check of their own, so that the other checks are made too."""
    try:
        return compare()
    except InconsistentRead as error:
        return [Check(table.name, "files as Spark reads them", False, str(error))]


def _twice(check: Callable[[Table, Snapshot], Check], table: Table, snapshot: Snapshot) -> Check:
    """By listings; between two of them a run may have moved a file, which is in neither then, so what fails is looked at once more."""
    result = check(listed(table), snapshot)
    return result if result.ok else check(listed(table), snapshot)


def _check(table: Table, name: str, problems: Sequence[str], detail: str) -> Check:
    """Return the check that there is no problem: with the first ones, or with this detail."""
    return Check(table.name, name, not problems, "; ".join(problems[:3]) or detail)


def _files(table: Table, snapshot: Snapshot) -> Check:
    problems = _file_problems(table, snapshot.data_files)
    return _check(table, "files", problems, f"{counted(len(snapshot.data_files), 'file')}, {snapshot.size:,} bytes")


def _file_problems(table: Table, named: Sequence[tuple[str, DataFile]]) -> list[str]:
    """Return which of these files (directory below the table's root, file) are not as they were written, and what else engines would read there."""
    folders: dict[str, dict[str, int]] = {}
    for path, file in named:
        folder, _, name = f"{table.layout.inside(path)}/{file.name}".rpartition("/")
        folders.setdefault(folder, {})[name] = file.size
    problems = []
    for folder, expected in sorted(folders.items()):
        present = {info.path.rpartition("/")[2]: info.size for info in table.storage.list(folder) if info.path.rpartition("/")[0] == folder}
        for name in sorted({*expected, *present}):
            # engines do not read hidden files
            if expected.get(name) != present.get(name) and (name in expected or not name.startswith(("_", "."))):
                sizes = [f"{side[name]} bytes" if name in side else "nothing" for side in (expected, present)]
                problems.append(f"{relative(folder, table.layout.root)}/{name}: expected {sizes[0]}, found {sizes[1]}")
    return problems


def _feed(table: Table, newest: Snapshot, deep: bool) -> list[Check]:
    """The parts are there; the newest one (deep: each whose two versions can be read still) is the difference of its versions."""
    versions = list(table.after(0, newest))
    named = [(each.feed.part.path, file) for each in versions if each.feed and each.feed.part for file in each.feed.part.files]
    problems = _file_problems(table, named)
    checks = [_check(table, "feed", problems, f"{counted(len(named), 'file')}, from version {newest.feed.first if newest.feed else 0} on")]
    if not table.env.files_only:
        checks.append(_feed_table(table, newest, versions))
    if table.env.files_only or problems:
        return checks
    whole = {each.version: each for each in table.restorable(newest)}
    pairs = [(whole.get(each.version - 1), each) for each in versions if each.version in whole and (each.version == 1 or each.version - 1 in whole)]
    if not deep:
        pairs = [pair for pair in pairs if pair[1].feed and pair[1].feed.part][-1:]
    for parent, made in pairs:
        checks += _compared(table, partial(_difference, table, parent, made))
    return checks


def _difference(table: Table, parent: Snapshot | None, made: Snapshot) -> list[Check]:
    return [table.engine().check_feed(table.spec, parent, made)]


def _feed_table(table: Table, newest: Snapshot, versions: Sequence[Snapshot]) -> Check:
    """Check that the tables of the feed have one partition for each part, and no other since the feed's first version."""
    first = newest.feed.first if newest.feed else 0
    problems = []
    for definition, partitions in feed.registrations(table.spec, versions):
        partitions_there = table.catalog().partitions(definition.database, definition.name)
        registered = {each.values: join(each.location) for each in partitions_there if each.values > (commit_id(first + 1, ""),)}
        expected = {each.values: join(each.location) for each in partitions}
        problems += [
            f"{definition.name}, partition {'/'.join(values)}: expected {expected.get(values, 'none')}, found {registered.get(values, 'none')}"
            for values in sorted({*expected, *registered})
            if expected.get(values) != registered.get(values)
        ]
    return _check(table, "feed table", problems, f"{sum(each.feed is not None and each.feed.part is not None for each in versions)} partitions")


def _live(table: Table, snapshot: Snapshot) -> list[Check]:
    """Check that the live view equals the view after a run, if it is up to date and the files that it shows can be read."""
    if not table.spec.live_view:
        return []
    name = "live view equals the next version"
    files = landed.table(table.spec, snapshot, lambda each: table.catalog().table(table.spec.tables_in, each))
    shown = table.catalog().view(table.spec.database, live.name(table.spec))
    text = shown.text if shown is not None else ""
    folders, _ = pending(table, snapshot, list(table.storage.list(table.spec.landing)))
    # folders that have landed since the last run or sync are not in the view yet
    folders = {folder: epoch for folder, epoch in folders.items() if f"'{landed.partition(table.spec, folder).values[0]}'" in text}
    if shown is None or text != live.live_view(table.spec, snapshot, files, folders).text:
        problem = "there is none" if shown is None else "it has another text than this version's"
        return [Check(table.name, name, False, f"{problem}; `compactor publish {table.name}` makes it")]
    landing = discover.landing(table, snapshot)
    if landing.waiting:
        return [Check(table.name, name, True, f"cannot be compared: {landing.waiting} landed files may not be complete yet")]
    readable = [item for item in landing.new if item.folder in folders]
    try:
        return [table.engine().compare_live(table.spec, snapshot, readable, {})]
    except Refused as error:
        return [Check(table.name, name, True, f"cannot be compared: a run would be refused: {error}")]


def _kept_versions(table: Table, newest: Snapshot) -> Check:
    """Check that every file of a restorable version exists, has its size, and begins and ends as its format requires."""
    layout = table.layout
    kept = table.restorable(newest)
    files = {f"{layout.inside(path)}/{file.name}": (file, each.version) for each in kept for path, file in each.data_files}
    problems = [problem for path, (file, version) in files.items() for problem in [_damage(table, path, file, version)] if problem]
    for file in {file.path: file for each in kept for file in each.ledger}.values():
        try:
            ledger.entries(table, file)
        except (Conflict, StateRefused) as error:
            problems.append(str(error))
    detail = f"{counted(len(kept), 'version')}, {counted(len(files), 'file')}, {sum(file.size for file, _ in files.values()):,} bytes read"
    unsummed = sum(not file.checksum for file, _ in files.values())
    detail += f"; {counted(unsummed, 'file')} without a checksum" if unsummed else ""
    return _check(table, "kept versions", problems, detail)


def _damage(table: Table, path: str, file: DataFile, version: int) -> str | None:
    try:
        data = table.storage.read(path)
    except FileNotFoundError:
        return f"{path}: version {version} names it, it is gone"
    if len(data) != file.size:
        return f"{path}: expected {file.size} bytes, found {len(data)}"
    if file.checksum:
        now = None if checksum.by_content(file.checksum) else table.storage.stat(path)
        if not checksum.agrees(file.checksum, data, now.etag if now else ""):
            return f"{path}: holds other bytes than were written ({file.checksum})"
    # MAGIC, pages, footer, length of the footer in 4 bytes, MAGIC (apache/parquet-format, File format)
    whole = data[:4] == data[-4:] == parquet.MAGIC and 0 < int.from_bytes(data[-8:-4], "little") <= file.size - 12
    return f"{path}: is no whole Parquet file" if path.endswith(".parquet") and not whole else None


def _raw_files(entries: Sequence[Input], table: Table, snapshot: Snapshot) -> Check:
    """Every input of the ledger lies in landing, archive or quarantine with the size it had when it was read, or that `erase` gave it."""
    repaired = {item.id for item in entries if item.outcome in AGAIN}
    latest_entries = ledger.latest(entries)
    problems, size = [], 0
    discarded = ledger.with_outcome(entries, DISCARDED)
    for name, item in latest_entries.items():
        if name in discarded:
            continue
        place = archive.place(table, item)
        info = table.storage.stat(place) if place else None
        size += item.size
        if info is None and archive.overwritten(table, item, entries):
            # its content is in the rows, and in what the sink wrote then
            continue
        if info is None or (info.size not in (item.size, item.was or item.size) and name not in repaired):
            problems.append(f"{item.path}: expected {item.size} bytes, found {f'{info.size} in {place}' if info else 'nothing'}")
    return _check(table, "raw files", problems, f"{counted(len(latest_entries), 'file')}, {size:,} bytes")


def _counts(table: Table, newest: Snapshot) -> Check:
    """Check the counts of kept versions; they were checked in all others while these were kept."""
    wrong, read = [], 0
    for snapshot in table.kept(newest):
        total = sum(snapshot.counts.get(name, 0) for name in COUNTS)
        read += snapshot.counts.get("read", 0)
        if snapshot.counts and total != snapshot.counts["read"]:
            wrong.append(f"version {snapshot.version}: read {snapshot.counts['read']}, accounted for {total}")
    return _check(table, "counts", wrong, f"{read:,} events accounted for")


def _inputs(entries: Sequence[Input], table: Table, snapshot: Snapshot) -> Check:
    landing = discover.landing(table, snapshot)
    first = [item for item in entries if item.outcome not in LATER]
    twice = len(first) - len({item.id for item in first})
    discarded = ledger.with_outcome(entries, DISCARDED)
    kept = [item for item in first if item.id not in discarded]
    lost = [item.path for item in kept if archive.place(table, item) is None and not archive.overwritten(table, item, entries)]
    problems = [f"{twice} inputs are in the ledger twice"] if twice else []
    problems += [f"{len(lost)} ingested files are neither in landing nor in archive or quarantine, such as {lost[0]}"] if lost else []
    return _check(table, "inputs", problems, f"{len(first)} ingested, {len(landing.new)} waiting")


def _archive(entries: Sequence[Input], table: Table) -> Check:
    """Check that the ledger names every archived file. Another one belongs to a version that is lost, or somebody has put it there."""
    root = table.layout.archived("")
    there = [path for path in (relative(info.path, root) for info in table.storage.list(root)) if not increment.ignored(path)]
    unnamed = _unnamed(table, there, entries)
    if unnamed and (newest := table.newest()):
        # a file moves after the commit that ingested it, so a newer ledger names what a run has archived meanwhile
        unnamed = _unnamed(table, unnamed, ledger.everything(table, newest))
    problem = f"no version has ingested {counted(len(unnamed), 'archived file')}: {', '.join(unnamed[:3])}{', ...' if len(unnamed) > 3 else ''}"
    what = "of a version that was lost? Move such files back to landing, and run"
    return Check(table.name, "archive", not unnamed, f"{problem} ({what})" if unnamed else counted(len(there), "file"))


def _unnamed(table: Table, paths: Sequence[str], entries: Sequence[Input]) -> list[str]:
    """Return those of the paths below the archive that no entry of the ledger has."""
    root = table.layout.archived("")
    named = {relative(place, root) for item in entries for place in archive.places(table, item)}
    return [path for path in paths if path not in named]


def _not_comparable(table: Table, snapshot: Snapshot, entries: Sequence[Input]) -> str | None:
    """Why the archive lacks something that is in the table, or None.

    The rows that a table began with when it was adopted are in its version 1, as long as that is kept.
    A sink that writes a file again between its absorption and its archiving takes the first content with it. That shows only when a restore has
    undone the second, which holds what the first did.
    """
    lost = table.origin_lost(snapshot)
    if lost:
        return f"the table was {lost}"
    discarded = ledger.with_outcome(entries, DISCARDED) - ledger.with_outcome(entries, ADOPTED)
    if discarded:
        return f"{len(discarded)} raw files are past `archive_retention`"
    latest_entries = ledger.latest(entries)
    undone = {path for (path, _), item in latest_entries.items() if item.outcome == "undone"}
    repaired = {name for name, item in latest_entries.items() if item.outcome in AGAIN}
    for name, item in latest_entries.items():
        if item.path in undone and not item.unabsorbed and name not in repaired:
            if archive.place(table, item) is None and archive.overwritten(table, item, entries):
                return f"{item.path} was written again by its sink before it was archived, and what it held then is undone"
    return None
