"""Verbs of one table beside the run: what they do is in `write/` and `read/`; here they get a run record, also when they fail."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from compactor.core.model.errors import CompactorError, InputRefused
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.record import TableReport
from compactor.core.results.reports import AdoptReport, RebuildReport
from compactor.flows import logs
from compactor.flows.publish import audit
from compactor.flows.publish.landing import show_live
from compactor.flows.publish.sync import resume
from compactor.flows.read import quarantine
from compactor.flows.record import Recorder
from compactor.flows.run import Ingest, blocked_report, failure, ingested, publish_and_archive, report_of
from compactor.flows.table import Table
from compactor.flows.write import adopt, commit, rebuild, restore

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def _recorded(operation: str, one_version: bool = False) -> Callable[[_Verb], _Verb]:
    """Decorate a verb (table, ...) → report, so that each call writes a run record.

    `one_version`: the record is about the version that the report names. A call that made none, such as a dry run, leaves no record unless it fails.
    """

    def decorate(verb: _Verb) -> _Verb:
        @logs.of_table
        @functools.wraps(verb)
        def call(table: Table, *arguments: Any, **options: Any) -> Any:
            recorder = Recorder(table, operation)
            table = recorder.table
            try:
                before = table.newest() if one_version else None
                report = verb(table, *arguments, **options)
                if not one_version:
                    return recorder.recorded(report)
                recorder.recorded(_of_version(table, before, report))
                return report
            except CompactorError as error:
                recorder.recorded(failure(table.name, error))
                raise

        return cast(_Verb, call)

    return decorate


def _of_version(table: Table, before: Snapshot | None, report: TableReport | RebuildReport | AdoptReport) -> TableReport:
    if report.version is None or (before is not None and report.version == before.version):
        return TableReport(table.name, "idle")
    made = table.committed(report.version)
    return report_of(table, before, made, [made], False, report.notes)


@_recorded("replay")
def replay_table(table: Table, paths: Sequence[str] = ()) -> TableReport:
    """Ingest what waits in quarantine again, all or these paths. Raises InputRefused when it still cannot be used."""
    return _ingested_again(table, lambda _: commit.replay(table, paths))


@_recorded("discard")
def discard_table(table: Table, paths: Sequence[str], records: bool = False) -> TableReport:
    """Give files in quarantine up: ingest each as if it were empty, and delete it there. Raises InputRefused for a file that is partly ingested.

    `records`: give up the invalid records of partly ingested files instead.
    """
    if records:
        return _ingested_again(table, lambda _: commit.give_up_records(table, paths))
    copies = quarantine.give_up(table, quarantine.waiting(table, table.newest()), paths)
    try:
        return _ingested_again(table, lambda _: commit.replay(table, paths, given_up=True))
    except InputRefused:
        # a replay was faster
        quarantine.take_back(table, copies)
        raise


@_recorded("reabsorb")
def reabsorb_table(table: Table) -> TableReport:
    """Ingest what restores have undone again. Raises InputRefused when it is gone or still cannot be used."""
    return _ingested_again(table, lambda _: restore.reabsorb(table))


def _ingested_again(table: Table, ingest: Ingest) -> TableReport:
    current = table.newest()
    if current is not None:
        current, _ = resume(table, current)
    made: list[Snapshot] = []
    committed = ingested(table, current, ingest, made)
    if committed:
        made.append(committed)
        publish_and_archive(table, committed)
    blocked = audit.blocked(table, committed) if committed else None
    if committed and blocked is None:
        show_live(table, committed)
    table.step("done", 1.0)
    report = report_of(table, current, committed or current, made, False, ())
    return report if blocked is None else blocked_report(report, blocked)


restore_table = _recorded("restore", one_version=True)(restore.restore)
go_on_table = _recorded("restore")(restore.without_lost)
adopt_table = _recorded("adopt", one_version=True)(adopt.adopt)


@_recorded("rebuild", one_version=True)
def rebuild_table(table: Table, target: Snapshot | None = None, accept: bool = False, dry: bool = False, fewer: bool = False) -> RebuildReport:
    """Rebuild the table, or an older version of it, from its raw files; what an earlier run left undone is finished first."""
    current = table.newest()
    if current is not None and not dry:
        resume(table, current)
    report = rebuild.rebuild(table, target, accept, dry, fewer)
    table.step("done", 1.0)
    return report
