"""Watermark: the value that says which hours are whole. It imports nothing, so that a Snapshot may hold it; `whole_hours` computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

IN_QUARANTINE = "records wait in quarantine, or were undone by a restore"
"""A value of `Watermark.incomplete` that stays until the ledger has no such input."""

LEFT_OUT = "files that had landed wait for the next run"
"""A value of `Watermark.incomplete` for one version."""


@dataclass(frozen=True)
class Brought:
    """What a stream brought in one commit."""

    stream: str
    """Its name, as `whole_hours.stream_of` returns it."""
    time: int | None
    """The newest source time of its changes, also of other tables, in microseconds since 1970; None without any."""
    own: bool
    """Whether a record of this table was among them."""


@dataclass(frozen=True)
class Watermark:
    """Up to when everything has been ingested."""

    partitions: tuple[tuple[str, str | None], ...] = ()
    """Stream → the newest source time of its changes, ISO 8601; None if it has brought only reads of a snapshot so far."""
    whole_to: str | None = None
    """The end of the newest whole hour, ISO 8601; None if no hour is known to be whole."""
    incomplete: str = ""
    """Why `whole_to` stays as it is although changes come: IN_QUARANTINE or LEFT_OUT; "" otherwise."""

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Watermark:
        """Return the Watermark of a JSON object."""
        return cls(**{**raw, "partitions": tuple((name, time) for name, time in raw["partitions"])})


NOTHING_KNOWN = Watermark()
"""The watermark of a table without changes that have a source time."""
