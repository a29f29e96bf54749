"""Reports: results of the flows as plain values, which the command line prints as tables or JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.landing import Landing
from compactor.core.results.checks import SILENT, UNTAKEN, Check, Difference
from compactor.core.results.phrases import counted
from compactor.core.results.plain import Plain
from compactor.core.results.record import RunRecord

Progress = Callable[[str, str, float], None]
"""A callback for (table, step, share done from 0 to 1). Steps: `discover`, `read`, `resolve`, `check`, `publish`, `archive`, `compact`, `done`."""


def silent(table: str, step: str, share: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Tasks:
    """Tasks of the computations that go on for a table."""

    done: int
    """Tasks that have ended."""
    running: int
    all: int
    """All tasks, also those that wait."""


@dataclass(frozen=True)
class TableStatus(Plain):
    """The state of a table: its newest version, and what waits in landing."""

    table: str
    version: int | None
    newest_folder: str | None
    """The newest landing folder in the table, as the hour that it names."""
    source_time: str | None
    committed: str | None
    rows: int
    """Live rows, at most."""
    segments: int
    bytes: int
    """Bytes of base and Delta."""
    delta_rows: int
    delta_tombstones: int
    delta_estimate: int
    """Bytes that Spark's planner expects for the Delta when it chooses a join (docs/design/view.md)."""
    delta_limit: int
    """Bytes of `delta_estimate` up to which readers get a broadcast join."""
    read_strategy: str
    """How readers join base and Delta: `base-only` (no Delta), `broadcast` or `sort-merge`."""
    waiting_files: int
    waiting_bytes: int
    oldest_waiting: str | None
    """The oldest hour of the new files; None without any."""
    pending_archive: int
    """Raw files in the table that are not archived yet."""
    quarantined: int
    """Files that are in quarantine, or have records there."""
    feed: str = "off"
    """The change feed: `off` or `net`."""
    feed_from: int | None = None
    """The oldest version from which a reader can follow the feed."""
    history_events: int = 0
    history_bytes: int = 0
    history_since: str | None = None
    """When the history was switched on for a table with rows; None if it is complete."""
    delta_bytes: int = 0
    late: str | None = None
    """Why the table is behind: no file for longer than usual, or files that wait for longer than three hours; None if it is not."""
    unusable_files: str | None = None
    """A sentence about the files in landing that no run will take; None without any."""
    blocked: str | None = None
    """Why readers do not see the newest version (`checks:`); None if nothing blocks it."""
    last_run: RunRecord | None = None
    """The record of the last run that was not idle, with `failures` 0 if a later run was idle; None if none is known."""
    last_comparison: RunRecord | None = None
    """The record of the last comparison with the source; None if none is known."""
    whole_to: str | None = None
    """The end of the newest hour that is known to be whole, ISO 8601; None if none is."""
    whole_note: str | None = None
    """What later hours wait for; None without a version."""
    compaction: str | None = None
    """Why a compaction that is needed has not happened: it waits for a time of day, or for a run with enough budget; None if none is needed."""
    ro_version: int | None = None
    """The version that `<view>_ro` shows; None without `read_optimized`."""
    ro_source_time: str | None = None
    """The newest source time in `<view>_ro`, ISO 8601; None if it is not known."""


@dataclass(frozen=True)
class Swept:
    """A unit or raw file that vacuum deletes now or later."""

    table: str
    path: str
    reason: str
    """`orphan`, `expired`, `discarded` for a raw file, or `record` for old run records."""
    files: int
    bytes: int
    goes: str | None
    """The time from which it may be deleted, ISO 8601; None for now."""


@dataclass(frozen=True)
class VacuumReport(Plain):
    """What vacuum did, or would do in a dry run."""

    also = ("bytes_gone",)

    table: str
    version: int | None
    dry: bool
    expired: tuple[int, ...] = ()
    """Versions that it gives up."""
    kept: dict[int, str] = field(default_factory=dict)
    """Version → why it is kept."""
    swept: tuple[Swept, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bytes_gone(self) -> int:
        return sum(item.bytes for item in self.swept if item.goes is None)


@dataclass(frozen=True)
class RebuildReport(Plain):
    """What a rebuild did."""

    table: str
    outcome: str
    """`published`; `equal` (a dry run); `differs` (not published, because the result differs and nobody accepted that); `fewer` (not published,
    because far fewer rows would be left and nobody accepted that)."""
    version: int | None
    against: int
    """The version that `difference` compares with."""
    files: int
    """Raw files read."""
    bytes: int
    rows: int
    difference: Difference
    undone: int = 0
    """Raw files left out, because a restore removed their rows."""
    invalid: int = 0
    """Records that were ingested, are invalid now, and go to quarantine."""
    invalid_first: str = ""
    """One of them: its file, its number, and why it is invalid."""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return 1 if self.outcome in ("differs", "fewer") else 0

    @property
    def rows_before(self) -> int | None:
        """Return how many rows version `against` has; None if it cannot be read."""
        gap = self.difference
        return None if gap.unreadable else self.rows + gap.missing - gap.added

    @property
    def sentences(self) -> list[str]:
        sentences = [f"{counted(self.files, 'file')} ({self.bytes:,} bytes) give {self.rows:,} rows"]
        if self.undone:
            sentences.append(
                f"{self.undone} files ingested after version {self.against} are left out; `compactor versions restore --reabsorb` takes them"
            )
        if self.invalid:
            goes = "are in quarantine" if self.outcome == "published" else "would go to quarantine"
            what = counted(self.invalid, "record")
            sentences.append(f"{what} that were ingested cannot be used with the present settings and {goes}, such as {self.invalid_first}")
        sentences += self.difference.sentences(self.against) or [f"the same rows as version {self.against}"]
        before = "the" if self.rows_before is None else f"{self.rows_before:,}"
        done = {
            "published": f"published as version {self.version}",
            "equal": "nothing was published (a dry run)",
            "differs": "nothing was published; --accept-differences publishes it",
            "fewer": f"nothing was published: of {before} rows {self.rows:,} would be left; --accept-differences together with --accept-fewer-rows "
            "publishes it",
        }
        return [*sentences, done[self.outcome], *self.notes]


@dataclass(frozen=True)
class ReencryptReport(Plain):
    table: str
    key: str
    """ARN of the KMS key that all of them have now."""
    files: int
    """Raw files in archive and quarantine."""
    changed: int
    """Number of files that had another key."""


@dataclass(frozen=True)
class AdoptReport(Plain):
    """The result of adopting a base that another tool wrote."""

    table: str
    outcome: str
    """`adopted`, or `would be adopted` after a dry run."""
    version: int | None
    path: str
    files: int
    bytes: int
    rows: int
    order: tuple[tuple[str, str], ...]
    """The order columns of Positions: (name, type)."""
    columns: tuple[tuple[str, str, str], ...]
    """(stored name, column of the base, type) for each column."""
    ingested: int
    """Landed files that entered the ledger unread, because the base has their rows."""
    waiting: int
    """Landed files that are left for the next run."""
    notes: tuple[str, ...] = ()
    """Differences between the columns of the base and those of the changes."""


@dataclass(frozen=True)
class TablePlan(Plain):
    also = ("problems",)

    table: str
    version: int | None
    landing: Landing
    steps: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    """Results of comparing the configuration with the files."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Return where the configuration contradicts the files, such as a folder in which nothing has ever landed."""
        return tuple(item.detail for item in self.checks if not item.ok)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what is no mistake of the configuration and still needs somebody: a silent table, folders that no table takes."""
        return tuple(item.detail for item in self.checks if item.ok and item.name in (SILENT, UNTAKEN))


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    """Exit code; a negative one is the signal that killed the process."""
    output: str
    errors: str = ""
    """The last lines of standard error."""


@dataclass(frozen=True)
class Rewritten:
    """A raw file in the archive from which records were removed."""

    path: str
    before: int
    """Bytes."""
    after: int


@dataclass(frozen=True)
class ErasureReport(Plain):
    """The state of the erases of a table. Once `left` is empty, it is the certificate."""

    also = ("finished",)

    table: str
    uuid: str
    root: str
    version: int
    erased_in: int
    """The version that erased keys last. No older version can be read any more."""
    time: str
    """When it was written, ISO 8601, UTC."""
    program: str
    keys: tuple[str, ...]
    rows: int
    """Stored rows of these keys that were removed."""
    events: int
    """Events of these keys that were removed from the history."""
    feed_from: int | None
    """The version from which the change feed can be read; None for a table without one."""
    rewritten: tuple[Rewritten, ...]
    deleted: tuple[str, ...]
    landing: tuple[str, ...]
    """Files in landing. They were not searched."""
    objects: int
    """Number of objects in the table's folder."""
    left: tuple[str, ...] = ()
    """What may still hold values of erased keys."""
    goes: str | None = None
    """When the last of `left` may be deleted, ISO 8601; None if unknown."""
    format: int = 1
    """The version of this JSON format."""

    @property
    def finished(self) -> bool:
        return not self.left

    def to_text(self) -> str:
        lines = [
            f"table {self.table} ({self.uuid}) in {self.root}, version {self.version}, {self.time}",
            f"  {counted(len(self.keys), 'key')} erased, {counted(self.rows, 'stored row')} removed in version {self.erased_in}",
            *([f"  {counted(self.events, 'event')} removed from the history"] if self.events else []),
            *([f"  the change feed begins anew: it can be read from version {self.feed_from} on"] if self.feed_from is not None else []),
            f"  {counted(len(self.rewritten), 'raw file')} rewritten, {len(self.deleted):,} deleted as a whole",
            *(f"    {item.path}: {item.before:,} bytes before, {item.after:,} now" for item in self.rewritten),
            *(f"    {path}: deleted" for path in self.deleted),
        ]
        if self.landing:
            lines.append(f"  not searched: {counted(len(self.landing), 'file')} in landing, such as {self.landing[0]}")
        if self.finished:
            lines.append(
                f"  finished: older versions are deleted; {counted(self.objects, 'object')} left in the table's folder, none with an erased key"
            )
        else:
            when = f", not before {self.goes} (`grace`)" if self.goes else ""
            lines.append(f"  NOT FINISHED: {len(self.left):,} left, such as {self.left[0]}. Run `compactor erase {self.table}` again{when}")
        return "\n".join(lines)


@dataclass(frozen=True)
class TableFile:
    part: str
    """`base`, `delta`, `history`, or `changes` (of this version only)."""
    location: str
    """Path or URI."""
    size: int


def table_files(spec: TableSpec, snapshot: Snapshot) -> list[TableFile]:
    """Return the files that a version reads.

    A Delta row replaces the base row with its key, and the keys in files below `row_state=deleted` are deleted. So the base alone is the table only
    if there is no Delta.
    """
    # the folder of a part is called like it
    listed = [(path.partition("/")[0], path, file) for path, file in snapshot.data_files]
    changes = snapshot.feed.part if snapshot.feed else None
    listed += [("changes", changes.path, file) for file in changes.files] if changes else []
    return [TableFile(part, spec.layout.inside(f"{path}/{file.name}"), file.size) for part, path, file in listed]
