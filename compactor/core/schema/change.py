"""A change of a table's columns, as a value with a sentence. Columns have the source's names; `policy` decides what a table does about a change."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from compactor.core.results.plain import Plain

KINDS = {
    "added": "`{column}` was added: {after}, {detail}",
    "removed": "`{column}` was removed; it was {before}",
    "renamed": "`{before}` was renamed to `{column}`",
    "widened": "`{column}` was widened from {before} to {after}{detail}",
    "replaced": "`{column}` was removed and came back as {after}; its values as {before} stay in a column of their own",
    "date_to_timestamp": "`{column}` changed from {before} to {after}; a date becomes its midnight",
    "string_to_bytes": "`{column}` changed from {before} to {after}; text becomes its UTF-8 bytes",
    "to_string": "`{column}` changed from {before} to {after}, and only text can hold the values of both",
    "incompatible": "`{column}` changed from {before} to {after}, and no type can store both",
    "comment": "the documentation of `{column}` changed from {before} to {after}",
}
"""Every kind of change, with its sentence."""


@dataclass(frozen=True)
class Change(Plain):
    """One difference."""

    also = ("sentence",)

    kind: str
    """A key of KINDS."""
    column: str
    """The path in the source's names (`address.zip`, `tags[]`, `scores{}`)."""
    before: str = ""
    """The type or value before."""
    after: str = ""
    detail: str = ""
    """More text for the sentence."""

    @property
    def sentence(self) -> str:
        """Return the change in words."""
        return KINDS[self.kind].format(**dataclasses.asdict(self))
