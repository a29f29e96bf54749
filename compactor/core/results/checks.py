"""What verifying and comparing return."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One thing verified."""

    table: str
    name: str
    ok: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Difference:
    """What the rows that two Snapshots show differ in, by key: `missing` from the second, `added` in it, `changed`; some of these keys as JSON.

    `columns`: sentences about columns that only one of them shows, or shows as another type; only the others are compared. `unreadable`: why
    the first could not be read, "" when it could.
    """

    missing: int = 0
    added: int = 0
    changed: int = 0
    samples: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    unreadable: str = ""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.missing or self.added or self.changed or self.columns or self.unreadable)
