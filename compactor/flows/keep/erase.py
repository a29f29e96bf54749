"""Erase: remove everything that belongs to some keys from a table for good. docs/design/privacy.md has the reasons.

| step | a crash after it leaves |
|---|---|
| 1. refuse what cannot be erased; find the records of the keys in the archive | nothing |
| 2. commit a version without the rows, with hashes of the keys and the new sizes of raw files; publish it | the rows are gone for readers and runs |
| 3. rewrite the raw files, one after the other | some of them; their records are chosen again |
| 4. remove the texts of older runs; vacuum every version before step 2 | the rest, still pending |
| 5. look whether anything is left; if not, write the certificate | nothing |

Each step looks at what is there. So `erase` without keys finishes what an earlier one began.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from compactor.core.catalog import feed
from compactor.core.model import times
from compactor.core.model.edit import Edit
from compactor.core.model.errors import CheckFailed, Refused, TryLater
from compactor.core.model.inputs import LATER
from compactor.core.model.layout import relative
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.planning import retention
from compactor.core.results.phrases import counted
from compactor.core.results.reports import ErasureReport, Rewritten
from compactor.flows import ledger, logs
from compactor.flows.keep import raw_files
from compactor.flows.keep.raw_files import DISCARDED, RawFile
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.publish import archive, audit, native, publish
from compactor.flows.publish.sync import resume
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.transact import transact


@dataclass(frozen=True)
class Request:
    keys: tuple[tuple[str, ...], ...] = ()
    """A text for each key column of each key; () to finish an earlier erase."""
    now: bool = False
    """Whether to delete older versions without waiting for their readers (`grace`)."""
    delete_files: bool = False
    """Whether raw files that cannot be rewritten are deleted as a whole."""
    leave_landing: bool = False
    """Whether to go on although files lie in landing, which are not searched."""


@logs.of_table
def erase(table: Table, request: Request) -> ErasureReport:
    """Erase keys, or finish an earlier erase. The report says what is left; without anything left it is stored as the certificate.

    Raises Refused for what cannot be erased, Conflict as `transact` does.
    """
    newest = table.existing(table.newest())
    _check(table, newest, request)
    resume(table, newest)
    chosen: list[RawFile] = []

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        parent = table.existing(parent)
        _check(table, parent, request)
        if archive.unfinished(table, parent.pending):
            raise TryLater(f"table {table.name}: files of version {parent.version} are being archived; erase again when the run has ended")
        erased = table.engine().erased_with(table.spec, parent, request.keys) if request.keys else _erased(table, parent)
        writer = table.next_commit(parent)
        files = enumerate(raw_files.find(table, parent, erased))
        chosen[:] = [raw_files.prepared(table, file, table.layout.rewriting(writer, number), request.delete_files) for number, file in files]
        return _edit(table, parent, erased, chosen, writer)

    transact(table, planned)
    newest = table.existing(table.newest())
    erased = _erased(table, newest)
    blocked = ""
    try:
        publish.publish(table, newest)
    except audit.Blocked as error:
        blocked = str(error)
    with logs.phase(table, "erasing") as phase:
        for file in chosen:
            raw_files.rewrite(table, file)
        if chosen:
            phase.did(f"rewrote or deleted {counted(len(chosen), 'raw file')}", files=len(chosen))
    if chosen:
        _check_rewritten(table, erased, {file.info.path for file in chosen})
    _remove_texts(table, erased)
    spec = dataclasses.replace(table.spec, keep=0.0, keep_versions=1, grace=0.0 if request.now else table.spec.grace)
    vacuum(dataclasses.replace(table, spec=spec), False)
    return _report(table, request, erased, chosen, blocked)


def _check_rewritten(table: Table, erased: Erased, rewritten: Collection[str]) -> None:
    """Raise CheckFailed if a rewritten file still has records of the keys, TryLater if another one has: a run has archived it meanwhile."""
    left = [file.info.path for file in raw_files.find(table, table.existing(table.newest()), erased)]
    if any(path in rewritten for path in left):
        raise CheckFailed(f"table {table.name}: the rewritten raw files still have records of erased keys; do not rely on this erase, and report it")
    if left:
        raise TryLater(f"table {table.name}: a run archived {left[0]} meanwhile, with records of erased keys; erase again, without keys, to finish")


def _erased(table: Table, snapshot: Snapshot) -> Erased:
    if snapshot.erased is None:
        raise Refused(f"table {table.name}: no key was ever erased; name the keys to erase")
    return snapshot.erased


def _check(table: Table, newest: Snapshot, request: Request) -> None:
    """Raise Refused, naming everything that keeps the table from being erased."""
    spec, layout = table.spec, table.layout
    problems = []
    if spec.keyless:
        problems.append("it has no key")
    if spec.live_view:
        problems.append("its live view would show records of erased keys that wait in landing (`live_view: true`)")
    if spec.source.full_loads:
        problems.append("a row that is missing in a full load counts as deleted, so no load can be changed (`envelope: full-load`)")
    if table.adopted() is not None:
        problems.append("it was adopted, and a rebuild needs version 1, which has the rows it began with")
    waits = quarantine.waiting(table, newest)
    if waits or next(iter(table.storage.list(layout.inside("quarantine"))), None) is not None:
        problems.append(
            "files or records are in quarantine, and nobody knows whose they are; replay or discard them (`compactor quarantine`), or "
            "have what a restore has undone ingested again (`--reabsorb`)"
        )
    before = newest.version + 1 if request.keys or newest.erased is None else newest.erased.version
    pinned = [pin.name for pin in newest.pins if pin.version < before]
    if pinned:
        problems.append(f"pins keep older versions: remove them with `compactor versions pin {table.name} --remove {pinned[0]}`")
    landed = _landing(table)
    if landed and not request.leave_landing:
        # ingested files may hold the keys, too
        way = "run the table, and remove what is ingested and stays (`archive: keep` or `copy`, also if it was set before)"
        problems.append(f"{counted(len(landed), 'file')} in landing, such as {landed[0]}: {way}, or leave them there (--leave-landing)")
    if problems:
        raise Refused(f"table {table.name} cannot be erased from: {'; '.join(problems)}. Nothing was changed.")


def _landing(table: Table) -> list[str]:
    # a marker such as `_SUCCESS` is never taken, and has nothing of a key
    infos = (info for info in table.storage.list(table.spec.landing) if info.size and info.path != table.layout.landing_owner())
    return [relative(info.path, table.spec.landing) for info in infos]


def _edit(table: Table, parent: Snapshot, erased: Erased, chosen: Sequence[RawFile], writer: str) -> Edit | None:
    """Return the Edit that erases; None if all its parts are committed."""
    entries = []
    for file in chosen:
        was, size = file.info.size, file.copy.size if file.copy else None
        for item in file.inputs:
            if size is None and item.unabsorbed:
                raise Refused(f"table {table.name}: {item.path} was undone by a restore, and its file cannot be deleted: reabsorb it first")
            if size is None:
                entries.append(dataclasses.replace(item, outcome=DISCARDED))
            elif (item.size, item.was) != (size, was) and was in (item.size, item.was):
                outcome = item.outcome if item.outcome in LATER else "erased"
                entries.append(dataclasses.replace(item, outcome=outcome, size=size, was=was))
    if parent.erased is not None and parent.erased.keys == erased.keys:
        return Edit("erase", writer, inputs=tuple(entries), pending=()) if entries else None
    with logs.phase(table, "erasing") as phase:
        staged, rows = table.engine().without(table.spec, parent, erased, writer)
        history, events = parent.history, 0
        if parent.history is not None:
            history, events = table.engine().history_without(table.spec, parent, erased, writer)
        phase.did(f"wrote a base without {counted(rows, 'row')} of {counted(len(erased.keys), 'erased key')}", rows=rows)
    version = parent.version + 1
    base = dataclasses.replace(parent.state, base_id=writer, segments=staged.segments, delta=None, history=history)
    state = dataclasses.replace(base, compacted_at=table.env.now(), base_source_time=parent.source_time)
    erased = dataclasses.replace(erased, version=version, since=table.storage.now(), rows=erased.rows + rows, events=erased.events + events)
    # the images of the erased rows would be in its part
    begun = feed.begun_anew(parent.feed, version)
    return Edit("erase", writer, state, replaces=True, inputs=tuple(entries), pending=(), feed=begun, erased=erased)


def _remove_texts(table: Table, erased: Erased) -> None:
    """Remove what older runs wrote down for people: errors, notes and verdicts may quote records."""
    for info in table.storage.list(table.layout.runs()):
        if info.modified > erased.since:
            continue
        record = json.loads(table.storage.read(info.path))
        if record.get("error") or record.get("notes"):
            record.update(error=ledger.ERASED_REASON if record.get("error") else None, notes=[])
            table.storage.write(info.path, json.dumps(record).encode())
    for place in (table.layout.last_run(), table.layout.audit()):
        there = table.storage.stat(place)
        if there is not None and there.modified <= erased.since:
            table.storage.delete([place])


def _report(table: Table, request: Request, searched: Erased, chosen: Sequence[RawFile], blocked: str = "") -> ErasureReport:
    """Return what was done and what is left, by looking. Write the certificate if nothing is.

    `searched`: the keys whose records the raw files have no more; `chosen`: the files that were rewritten now; `blocked`: why readers see an older
    version, or "". Raises TryLater if there are others by now.
    """
    newest = table.existing(table.newest())
    erased = _erased(table, newest)
    if erased.keys != searched.keys:
        raise TryLater(f"table {table.name}: another erase began meanwhile, in version {erased.version}; erase again, without keys, to finish")
    entries = ledger.newest_entries(table, newest)
    left = [*([f"what readers see ({blocked.removesuffix('.')})"] if blocked else []), *_left(table, newest, erased, request)]
    due = [retention.deletable_at(item, table.spec.grace) for item in newest.pending_deletions]
    due += [time + table.spec.grace for time in native.replaced(table, erased.since)]
    rewritten = [Rewritten(item.path, item.was, item.size) for item in entries if item.was]
    # the ledger has no size of a repaired copy
    for file in chosen:
        was, own = file.info.size, {item.path for item in file.inputs}
        if file.copy and (was, file.copy.size) not in [(item.was, item.size) for item in entries if item.path in own]:
            rewritten.append(Rewritten(relative(file.info.path, table.layout.root), was, file.copy.size))
    # vacuum discards raw files too, by age
    deleted = tuple(item.path for item in entries if item.outcome == DISCARDED)
    report = ErasureReport(
        table=table.name,
        uuid=newest.uuid,
        root=table.layout.root,
        version=newest.version,
        erased_in=erased.version,
        time=table.env.now(),
        program=table.env.program,
        keys=erased.keys,
        rows=erased.rows,
        events=erased.events,
        feed_from=newest.feed.first if newest.feed and newest.feed.mode != feed.OFF else None,
        rewritten=tuple(rewritten),
        deleted=deleted,
        landing=tuple(_landing(table)),
        objects=sum(1 for _ in table.storage.list(table.spec.root)),
        left=tuple(left),
        goes=times.from_seconds(max([*due, erased.since + table.spec.grace])) if left and not blocked else None,
    )
    if report.finished:
        table.storage.write(table.layout.certificate(newest.version, "txt"), f"{report.to_text()}\n".encode())
        table.storage.write(table.layout.certificate(newest.version, "json"), json.dumps(report.to_json(), indent=1).encode())
    return report


def _left(table: Table, newest: Snapshot, erased: Erased, request: Request) -> list[str]:
    """Return what may still hold values of erased keys: versions, files of older attempts, and attempts that may still write."""
    layout = table.layout
    versions = [table.committed(number) for number in sorted(retention.possibly_kept(newest))]
    left = [f"version {snapshot.version}" for snapshot in versions if snapshot.version < erased.version and not snapshot.expired]
    named = {path for snapshot in versions if snapshot.version >= erased.version for path in snapshot.named}
    for info in table.storage.list(table.spec.root):
        unit = layout.unit(info.path)
        # the id of an attempt begins with the version that it tried to make
        if unit is not None and unit[0] not in named and int(unit[1][1:9]) <= erased.version:
            left.append(relative(info.path, layout.root))
    # the bounds in manifests are values of rows
    left += [relative(path, layout.root) for path in native.unused(table, native.listed(table), math.inf)]
    if not request.now and table.storage.now() < erased.since + table.spec.grace:
        left.append("files that a run may still write which began before the erase")
    return left
