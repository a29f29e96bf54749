"""Results of verifying a table and of comparing two versions."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.core.results.plain import Plain

UNCERTAIN = "values without a schema"
"""The check of values that may be more than they look like."""

DELETED = "deleted rows"
"""The check of rows that may be deletes, while no setting says so."""

SILENT = "arrival of files"
"""The check of a table in whose folder nothing has landed for longer than usual. Others have no such check."""

UNTAKEN = "folders of no table"
"""The checks of landed folders that no table takes. Their table is "", as that of everything that concerns all tables."""

REMARKS = (UNCERTAIN, DELETED, SILENT, UNTAKEN)
"""The checks whose details are worth reading although they passed."""


@dataclass(frozen=True)
class Check(Plain):
    table: str
    name: str
    """What was checked, such as `segments tile the keys`."""
    ok: bool
    detail: str


@dataclass(frozen=True)
class Difference:
    """How the visible rows of two Snapshots differ, by key."""

    missing: int = 0
    """Rows of the first that the second does not have."""
    added: int = 0
    """Rows of the second that the first does not have."""
    changed: int = 0
    """Rows of both with different values."""
    samples: tuple[str, ...] = ()
    """Some of these keys, as JSON."""
    columns: tuple[str, ...] = ()
    """A sentence for each column that differs or is in one of them only. Values of the other columns are compared."""
    unreadable: str = ""
    """Why the first Snapshot could not be read; "" if it could."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.columns or self.unreadable)

    @property
    def rows(self) -> int:
        """Return the number of rows that differ."""
        return self.missing + self.added + self.changed

    def sentences(self, version: int) -> list[str]:
        """Return what differs. `version`: that of the first Snapshot."""
        out = [f"version {version} cannot be read: {self.unreadable}"] if self.unreadable else []
        out += self.columns
        if self.rows:
            counts = f"{self.missing:,} rows of version {version} are missing, {self.added:,} are new, {self.changed:,} have other values"
            out.append(f"{counts}; such as {', '.join(self.samples)}")
        return out
