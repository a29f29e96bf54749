"""Quarantine: files and records that cannot be used. What of them is written down, and when there are so many that the table has to stop.

A file that cannot be opened moves to `quarantine/<path>`. Of a file of which some records cannot be used the rest is absorbed, and it goes to
the archive like any other. Both are in the ledger, and have a `.reason.json` in quarantine:

    {"path": "increment_2026112014/part-0.json", "etag": "...", "commit": "v00000042-...", "records": 2,
     "unusable": [{"record": 7, "reason": "is not a JSON object", "text": "{oops"}]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LISTED_MAX = 1000
"""Records that are described one by one, of one commit; all are counted."""

TEXT_MAX = 2000
"""Characters of a record that are quoted."""


@dataclass(frozen=True)
class Unusable:
    """A record, or with `record` None a whole file, that cannot be used. `record` counts from 1; `block` is where its part of the file begins."""

    path: str
    reason: str
    record: int | None = None
    block: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}{f', record {self.record}' if self.record else ''}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, without the path."""
        if self.record is None:
            return {"reason": self.reason}
        block = {"block": self.block} if self.block else {}
        return {"record": self.record, **block, "reason": self.reason, "text": self.text}


BEYOND_RETENTION = (
    "is older than tombstones that were purged (tombstone_retention): whether its row was deleted since cannot be known; "
    "replay it under `beyond_retention: apply` to insert it"
)


@dataclass(frozen=True)
class Limits:
    """How much may be unusable in one run before the table stops: records (a file counts as one) in all, and the share of records or of files."""

    rows: int | None = None
    share: float = 0.5

    def problem(self, unusable: Sequence[Unusable], records: int, read: int, files: int, inputs: int) -> str | None:
        """Why a run with this much unusable input stops, or None. `records` of `read` and `files` of `inputs` cannot be used."""
        if not unusable:
            return None
        first = f"{unusable[0]}" + (f" (and {records + files - 1:,} more)" if records + files > 1 else "")
        todo = "Nothing was absorbed, all of it stays in landing. Repair or remove it, correct the table's settings, or raise the limit."
        if self.rows is not None and records + files > self.rows:
            return f"{records + files:,} records or files cannot be used, `quarantine: {{max_rows: {self.rows}}}` allows fewer: {first}. {todo}"
        if files == inputs or (read and records == read):
            return f"nothing that landed can be used: {first}. {todo}"
        if records > self.share * read or files > self.share * inputs:
            what = f"{records:,} of {read:,} records" if records > self.share * read else f"{files:,} of {inputs:,} files"
            return f"{what} cannot be used, `quarantine: {{max_share: {self.share:g}}}` allows fewer: {first}. {todo}"
        return None


def reason_file(path: str, etag: str, commit: str, records: int, unusable: Sequence[Unusable]) -> bytes:
    """The text of a reason file. Its size is bounded by `LISTED_MAX`."""
    listed = [item.to_json() for item in unusable if item.path == path]
    what = {"path": path, "etag": etag, "commit": commit, "records": records, "unusable": listed}
    return (json.dumps(what, ensure_ascii=False, indent=1) + "\n").encode()
