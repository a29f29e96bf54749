"""Rebuild: a new base from everything the ledger names, read again from archive and landing, in place of base and Delta.

Schema, order and rows come from the files and from the present settings, which makes it the way to another key or order. The result is compared
with what it replaces before it is committed. What others ingest meanwhile is found in the ledger and read too.

What a crash leaves: data directories that no Snapshot names, or a commit that the next run publishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

from compactor.core.erasure.keys import check_key
from compactor.core.model import types
from compactor.core.model.edit import Edit, NewestIs, NotReplaced, Requirement, unmet
from compactor.core.model.errors import Conflict, InputRefused, NoRowsYet, Refused, RequirementFailed
from compactor.core.model.inputs import GIVEN_UP, LATER, ORIGINAL, REBUILT, Input
from compactor.core.model.policy import TO_STRING
from compactor.core.model.position import same_order
from compactor.core.model.schema import Schema, schema_differences
from compactor.core.model.snapshot import Snapshot, State
from compactor.core.model.spec import ROW_ID
from compactor.core.results.batch import BatchSummary
from compactor.core.results.checks import Difference
from compactor.core.results.phrases import counted
from compactor.core.results.reports import RebuildReport
from compactor.core.schema import protection
from compactor.core.schema.schema_history import became_text
from compactor.core.sources.quarantine import Limits, newly_invalid
from compactor.flows import ledger, logs
from compactor.flows.keep.raw_files import DISCARDED
from compactor.flows.publish import archive
from compactor.flows.publish.sync import show_and_archive
from compactor.flows.read import quarantine
from compactor.flows.table import Table, listed
from compactor.flows.transact import preview, transact
from compactor.flows.write import restore, state
from compactor.flows.write.commit import why_new_base
from compactor.ports import Batch

Locations = dict[tuple[str, str], str]

FEWER = 0.5
"""The share of the rows that `--accept-differences` alone lets go, unless `max_gone` is less."""


def rebuild(table: Table, target: Snapshot | None, accept: bool, dry: bool, fewer: bool) -> RebuildReport:
    """Build the newest version again, or `target`, and publish it if its rows are those of that version, or if `accept`. Never publish when `dry`.

    `fewer`: also if far fewer rows are left. Records that are invalid now count against the limits of the quarantine, and go there.

    Raises InputRefused naming the files that are gone or cannot be read, or the first of too many invalid records; RequirementFailed when others
    restore or rebuild meanwhile, Conflict when they go on committing.
    """
    work = _Rebuild(table, target, accept, dry, {}, fewer)
    made = transact(table, work.edit, moved=work.files_moved)
    if made is None:
        return work.report
    show_and_archive(table, made)
    note = f"`compactor versions restore {table.name} --as-of {work.report.version}` goes back"
    invalid = sum(each.quarantined for each in work.set_aside)
    return dataclasses.replace(work.report, outcome="published", version=made.version, rows=made.rows, invalid=invalid, notes=(note,))


def as_text(table: Table, columns: Mapping[str, str]) -> Snapshot | None:
    """Build the table again with text in these stored columns (name → type), as the source wrote it. Return the new version, to be published.

    Raises InputRefused naming the files that are gone, Refused if other columns or rows would change.
    """
    work = _Rebuild(table, None, True, False, columns)
    return transact(table, work.edit, moved=work.files_moved)


class _Rebuild:
    """The rebuild of one table. It builds once, and catches up with what others commit."""

    def __init__(self, table: Table, target: Snapshot | None, accept: bool, dry: bool, texts: Mapping[str, str], fewer: bool = False) -> None:
        self.table, self.target, self.accept, self.fewer, self.dry = table, target, accept, fewer, dry
        self.texts = texts
        """Stored columns with values, or members, that become text → their new type."""
        self.inputs: Sequence[Input] = ()
        self.locations: Locations = {}
        self.head: Snapshot | None = None
        """The version that `built` is on top of."""
        self.built: Snapshot | None = None
        """The result so far, as the Snapshot it would be."""
        self.set_aside: list[BatchSummary] = []
        """The batches with records that were ingested and are invalid now; their inputs are the entries for the ledger."""
        self.usable_now = 0
        """The number of records that are in quarantine and fit now."""
        self.report: RebuildReport

    def edit(self, parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        """Return the rebuilt State as an Edit of `parent`; None if it must not be committed."""
        parent = self.table.existing(parent)
        if self.head is None or self.built is None:
            edit = self._build(parent)
            built = preview(self.table, parent, edit)
            if not self._equal_or_accepted(parent, built):
                return None
            self.table.step("publish", 0.85)
        else:
            edit = self._caught_up(self.head, self.built, parent)
            built = preview(self.table, parent, edit)
        # only what was compared is caught up with; a comparison that failed is made again
        self.head, self.built = parent, built
        for summary in self.set_aside:
            quarantine.describe(self.table, edit.writer, summary)
            edit = dataclasses.replace(edit, inputs=(*edit.inputs, *summary.inputs))
        if self.set_aside and edit.state is not None:
            edit = dataclasses.replace(edit, state=dataclasses.replace(edit.state, watermark=state.watermark_set_aside(edit.state.watermark)))
        return state.with_changes(self.table, parent, edit)

    def files_moved(self) -> bool:
        """Return whether files that were being read were archived, or written again by their sink."""
        if self.built is not None or not self.inputs:
            return False
        newest = self.target or self.table.newest()
        there = _sources(self.table, newest, not self.texts)[1] if newest else None
        return self.locations != there or not _steady(self.table, self.inputs, self.locations)

    def _build(self, parent: Snapshot) -> Edit:
        table, target = self.table, self.target
        self.set_aside.clear()
        if target is not None and table.vacuumed(target):
            raise RequirementFailed(f"table {table.name}: version {target.version} was vacuumed while it was being rebuilt")
        _check_origin(table, parent)
        protection.check(table.name, parent.schema, table.spec.columns)
        self.inputs, self.locations = _sources(table, target or parent, not self.texts)
        writer = table.next_commit(parent)
        table.step("read", 0.1)
        try:
            with logs.phase(table, "decoding") as phase:
                batch = self._read(parent)
                files, events = len(self.inputs), batch.summary.read
                phase.did(f"decoded {counted(events, 'event')} from {counted(files, 'file')}", events=events, files=files)
        except NoRowsYet as error:
            raise Refused(str(error)) from error
        before = ledger.everything(table, parent) if target else []
        then = restore.changed(ledger.everything(table, target), before) if target else ()
        edit = self._written(batch, parent, None, writer, True, self.inputs, self.locations)
        requires: Requirement = NewestIs(parent.version) if target else NotReplaced(parent.version)
        if target is not None and edit.state is not None:
            edit = dataclasses.replace(edit, state=dataclasses.replace(edit.state, watermark=state.watermark_restored(target, [*before, *then])))
        return dataclasses.replace(edit, inputs=then, restored=target.version if target else None, requires=(requires,))

    def _read(self, parent: Snapshot) -> Batch:
        """Read the files. Columns that are text because the table follows `to_string` stay text: the file that brought the text may still wait."""

        then = self.target or parent

        def read(texts: Mapping[str, str]) -> Batch:
            return self.table.engine().read(
                self.table.spec.unguarded, _origin(self.table, then, texts), self.inputs, parent.version + 1, self.locations, erased=parent.erased
            )

        batch = read(self.texts)
        if self.texts or self.table.spec.policy.of(TO_STRING) != "evolve" or not _same_rows(self.table, then):
            return batch
        texts = became_text(batch.summary.evolved.schema, then.schema)
        if not texts:
            return batch
        batch.close()
        return read(texts)

    def _equal_or_accepted(self, parent: Snapshot, built: Snapshot) -> bool:
        """Compare the result with what it is to replace, and make the report."""
        against = self.target or parent
        self.table.step("check", 0.7)
        if self.texts:
            self._check_other_columns(parent, built)
            return True
        difference = self._difference(against, built)
        undone, size = sum(item.outcome == "undone" for item in built.inputs), sum(item.size for item in self.inputs)
        self.report = RebuildReport(self.table.name, "equal", None, against.version, len(self.inputs), size, built.rows, difference, undone)
        if self.set_aside:
            first = next((str(each) for each in self.set_aside[0].unusable), "")
            self.report = dataclasses.replace(self.report, invalid=sum(each.quarantined for each in self.set_aside), invalid_first=first)
        before = against.rows if self.report.rows_before is None else self.report.rows_before
        few = built.rows < before * (1.0 - min(self.table.spec.max_gone, FEWER))
        if not self.dry and (not difference or (self.accept and (self.fewer or not few))):
            self.report = dataclasses.replace(self.report, version=parent.version)
            return True
        self._discard(built)
        self.report = dataclasses.replace(self.report, outcome="equal" if not difference else "fewer" if few else "differs")
        return False

    def _check_other_columns(self, parent: Snapshot, built: Snapshot) -> None:
        """Raise Refused if more differs than the columns that become text: nobody has asked for what present settings would change."""
        others = (dataclasses.replace(each, schema=each.schema.without(self.texts)) for each in (parent, built))
        difference = dataclasses.replace(self._difference(*others), columns=())
        # a record in quarantine that fits a column of text changes a row
        if difference.unreadable or difference.rows > self.usable_now:
            self._discard(built)
            name, differs = self.table.name, "; ".join(difference.sentences(parent.version))
            raise Refused(
                f"table {name}: {', '.join(self.texts)} becomes text, for which the raw files are read again. With the present settings they make "
                f"other rows: {differs}. Nothing was committed. Undo the changed settings, or accept: compactor rebuild {name} --accept-differences"
            )

    def _discard(self, built: Snapshot) -> None:
        # nobody has seen the files: the nonce in their names is ours alone
        self.table.storage.delete(f"{self.table.layout.inside(path)}/{file.name}" for path, file in built.data_files)

    def _difference(self, against: Snapshot, made: Snapshot) -> Difference:
        """Raises RequirementFailed when vacuum has taken one of the two meanwhile: the rebuild slept longer than `grace`."""
        table = self.table
        try:
            with logs.phase(table, "comparing") as phase:
                difference = table.engine().difference(table.spec, against, made)
                phase.did(f"compared {counted(made.rows, 'row')} with version {against.version}", rows=made.rows)
        except Exception as error:
            newest = table.newest()
            if newest is None or table.files_exist(newest, made.data_files):
                raise
            raise RequirementFailed(f"table {table.name}: vacuum deleted the rebuilt files before they were compared; rebuild again") from error
        if difference.unreadable and table.vacuumed(against):
            raise RequirementFailed(f"table {table.name}: version {against.version} was vacuumed before it could be compared; rebuild again")
        return dataclasses.replace(difference, columns=schema_differences(against.schema, made.schema))

    def _caught_up(self, head: Snapshot, built: Snapshot, parent: Snapshot) -> Edit:
        """Return the result on top of `parent`: what was ingested since `head` is read from the raw files."""
        table = self.table
        requires: Requirement = NewestIs(head.version) if self.target else NotReplaced(head.version)
        problem = unmet((requires,), parent)
        if problem is None and not table.files_exist(parent, built.data_files):
            problem = "expected the rebuilt files, found that vacuum has taken them for orphans"
        if problem is not None:
            raise RequirementFailed(f"table {table.name}: {problem}; look at `compactor log {table.name}`, then rebuild again")
        inputs, locations = self._since(head, parent)
        writer = table.next_commit(parent)
        if inputs:
            batch = table.engine().read(
                table.spec.unguarded, built, inputs, parent.version + 1, locations, lambda: ledger.newest_entries(table, head)
            )
            edit = self._written(batch, parent, built, writer, False, inputs, locations)
        else:
            edit = self._edit(parent, built.state, writer, dict(built.counts), built.ties, built.unresolved)
        return dataclasses.replace(edit, requires=(requires,))

    def _since(self, head: Snapshot, parent: Snapshot) -> tuple[list[Input], Locations]:
        before = ledger.latest(ledger.everything(self.table, head))
        inputs, locations = _sources(self.table, parent, not self.texts)
        now = ledger.latest(ledger.everything(self.table, parent))
        since = {name for name, item in now.items() if before.get(name) != item and item.outcome != "discarded"}
        return [item for item in inputs if (item.path, item.etag.removesuffix(ORIGINAL)) in since], locations

    def _written(
        self, batch: Batch, parent: Snapshot, before: Snapshot | None, writer: str, whole: bool, inputs: Sequence[Input], locations: Locations
    ) -> Edit:
        """Write the batch on top of `before`; None: on nothing. Tombstones are never purged: no event is too old for a rebuild."""
        table, summary = self.table, batch.summary
        with ExitStack() as scratch:
            scratch.callback(batch.close)
            _check_read(table, summary, inputs, locations)
            self._look_for_invalid(parent, summary, inputs)
            whole = whole or bool(why_new_base(table, before, summary))
            table.step("resolve", 0.3)
            written = state.write(table, batch, before, writer, whole, 0, scratch)
            counts, ties = written.counts, written.staged.ties
            if before is not None:
                counts = {name: before.counts.get(name, 0) + number for name, number in counts.items()}
                ties += before.ties
            return self._edit(parent, written.state, writer, counts, ties, written.staged.unresolved)

    def _look_for_invalid(self, parent: Snapshot, summary: BatchSummary, inputs: Sequence[Input]) -> None:
        """Remember the records that were ingested and are invalid now. Raises InputRefused if they are more than the table allows."""
        table, more = self.table, newly_invalid(inputs, summary.inputs)
        self.usable_now = sum(newly_invalid(summary.inputs, inputs).values())
        if not more:
            return
        invalid = tuple(each for each in summary.unusable if each.file in more)
        limits = Limits(table.spec.quarantine_rows, table.spec.quarantine_share, rebuilt=True)
        if problem := limits.problem(invalid, sum(more.values()), summary.read, 0, len(inputs)):
            raise InputRefused(f"table {table.name}: {problem}")
        changed = [item for item in summary.inputs if item.name in more]
        repaired = next((item for item in changed if item.etag.endswith(ORIGINAL)), None)
        if repaired is not None:
            first = next((each for each in invalid if each.file == repaired.name), repaired.path)
            raise InputRefused(
                f"table {table.name}: {first}. The file was repaired, and its original and its copy are both in the archive: join them in one "
                "file, and rebuild again"
            )
        before = ledger.everything(table, parent)
        then = restore.changed(ledger.everything(table, self.target), before) if self.target else ()
        latest = ledger.latest([*before, *then])
        entries = []
        for item in changed:
            entry = latest[item.id]
            outcome = entry.outcome if entry.outcome in LATER and entry.outcome != GIVEN_UP else REBUILT
            entries.append(dataclasses.replace(entry, outcome=outcome, quarantined=item.quarantined))
        self.set_aside.append(dataclasses.replace(summary, inputs=tuple(entries), unusable=invalid, quarantined=sum(more.values())))

    def _edit(self, parent: Snapshot, made: State, writer: str, counts: dict[str, int], ties: int, unresolved: int) -> Edit:
        made = dataclasses.replace(made, schema=_placed(parent, made), raw=parent.raw, raw_format=parent.raw_format, watermark=parent.watermark)
        if parent.erased is not None:
            check_key(self.table.name, parent.schema, made.schema)
        pending = archive.unfinished(self.table, parent.pending)
        return Edit("rebuild", writer, made, True, pending=pending, counts=counts, ties=ties, unresolved=unresolved, files=tuple(made.data_files))


def _sources(table: Table, snapshot: Snapshot, compared: bool) -> tuple[list[Input], dict[tuple[str, str], str]]:
    """What to read: the inputs whose rows are in a version, and where they lie. Raises InputRefused naming those that are gone.

    Of a name that its sink wrote again before it was archived the first content is lost. Only a comparison shows whether the second holds what it
    did, so unless the rows are `compared` it is gone.
    """
    entries = ledger.everything(table, snapshot)
    table, discarded = listed(table), ledger.with_outcome(entries, DISCARDED)
    (inputs, _), again = archive.taken(table, entries), archive.again(entries)
    chosen: dict[str, Input] = {}
    gone, chosen_paths = [], set()
    for item in reversed(inputs):
        there = archive.content(table, item, again) if item.id not in discarded else None
        if there is not None:
            # of two inputs in one place one is read
            chosen.setdefault(there, item)
            chosen_paths.add(item.path)
        elif not compared or item.path not in chosen_paths:
            gone.append(item.path)
    if gone:
        more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
        raise InputRefused(
            f"table {table.name}: {len(gone)} files that version {snapshot.version} was made of are neither in landing nor archived as they were: "
            f"{', '.join(gone[:3])}{more} (`archive_retention`? deleted? written again by its sink?). Restore them from a "
            f"backup, or copy what other `increments:` left in its folder to {table.layout.inside('archive')}: without them their rows would be lost."
        )
    if not chosen:
        raise Refused(
            f"table {table.name}: no file that version {snapshot.version} has ingested has rows; `compactor log {table.name} --inputs` lists them"
        )
    kept = [(dataclasses.replace(item, outcome="absorbed", reason=""), there) for there, item in chosen.items()]
    kept.sort(key=lambda each: each[0].path)
    return [item for item, _ in kept], {item.id: there for item, there in kept}


def _steady(table: Table, inputs: Iterable[Input], places: dict[tuple[str, str], str]) -> bool:
    """Whether those that were read in landing are still what the ledger names."""
    table = listed(table)
    return all(archive.still_landed(table, item) for item in inputs if places[item.id] == table.layout.landed(item.path))


def _check_origin(table: Table, head: Snapshot) -> None:
    """Raises Refused for an adopted table whose first version is not kept: nothing else holds the rows it began with."""
    lost = table.origin_lost(head)
    if lost:
        raise Refused(
            f"table {table.name}: it was {lost} (`compactor versions pin {table.name} 1` would have kept it). To mend it go back to a version that "
            "is kept (`compactor versions restore`), or adopt a base anew: docs/operations.md."
        )


def _origin(table: Table, head: Snapshot, texts: Mapping[str, str]) -> Snapshot | None:
    """What the first file meets: nothing; in a table that was adopted, what it began with.

    Where `on_schema_change` keeps columns out or hides them, a table with the columns of `head` and no rows: then they stay so. The same with erased
    keys, whose records may have brought columns. Not with another key or order: these ask for a table made anew. `texts`: columns
    of that table → types that they have from the start.
    """
    adopted = table.origin(head)
    if adopted is not None:
        return adopted
    # a column or its type may be known from erased records only
    anew = table.spec.policy.follows_everything and head.erased is None
    if not texts and (not _same_rows(table, head) or anew):
        return None
    fields = [
        dataclasses.replace(each, type=kind, default=types.constant(each.default, types.parse(kind))) if (kind := texts.get(each.name)) else each
        for each in head.schema.fields
    ]
    return dataclasses.replace(head.emptied(), schema=dataclasses.replace(head.schema, fields=tuple(fields)))


def _same_rows(table: Table, head: Snapshot) -> bool:
    """Return whether the present settings name the key and the order of the table."""
    key = {head.schema.field(name).source for name in head.schema.key}
    same = key == {*table.spec.row_key} or (table.spec.keyless and head.schema.key == (ROW_ID,))
    return same and same_order(table.spec.order_by, [name for name, _ in head.order])


def _check_read(table: Table, summary: BatchSummary, inputs: Sequence[Input], places: dict[tuple[str, str], str]) -> None:
    """Raises Conflict when files changed while they were read, InputRefused naming one that could be read once and cannot any more."""
    if not _steady(table, inputs, places):
        raise Conflict(f"table {table.name}: files changed in landing while they were read")
    unreadable = [item for item in summary.inputs if item.reason]
    if unreadable:
        raise InputRefused(
            f"table {table.name}: {places[unreadable[0].path, unreadable[0].etag]} was ingested and cannot be read now ({unreadable[0].reason}); "
            f"{counted(len(unreadable), 'file')} in all. Restore them from a backup, or restore the settings with which they were read."
        )


def _placed(parent: Snapshot, built: State) -> Schema:
    """Return the new columns, those that the table has in its order; in a new generation when the columns or the form of the rows differ."""
    order = {field.name: at for at, field in enumerate(parent.schema.fields)}
    fields = tuple(sorted(built.schema.fields, key=lambda field: order.get(field.name, len(order))))
    schema = dataclasses.replace(built.schema, fields=fields)
    return dataclasses.replace(schema, generation=parent.generation_of(schema, built.order))
