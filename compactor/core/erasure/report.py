"""What `compactor erase` did and found, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.core.results.phrases import counted
from compactor.core.results.plain import Plain

FORMAT = 1


@dataclass(frozen=True)
class Rewritten:
    """A raw file in the archive from which records were removed."""

    path: str
    """Path below the landing root."""
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
    format: int = FORMAT

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
