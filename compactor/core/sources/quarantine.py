"""Quarantine: files and records that cannot be used, how they are described, and how many of them stop the table.

A file that cannot be opened moves to `quarantine/<path>`. A file with some invalid records goes to the archive, and its other records go into the
table. Both are in the ledger and have a `.reason.json` in quarantine:

    {"path": "increment_2026112014/part-0.json", "etag": "...", "commit": "v00000042-...", "records": 2,
     "unusable": [{"record": 7, "reason": "is not a JSON object", "text": "{oops"}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model.inputs import Input, path_of
from compactor.core.results.phrases import counted

LISTED_MAX = 1000
"""The largest number of records that are described for one commit. All are counted."""

SHARE_MIN = 10
"""Unusable records or files from which on their share counts. Two of three files are no share: a README and a cut file stop no table."""

TEXT_MAX = 2000
"""Characters of a record that its description quotes."""


@dataclass(frozen=True)
class Unusable:
    """A record or a whole file that cannot be used."""

    file: str
    """Name of the file (`Input.name`)."""
    reason: str
    record: int | None = None
    """Number of the record in the file, from 1; None for the whole file."""
    text: str = ""

    def __str__(self) -> str:
        return f"{path_of(self.file)}{f', record {self.record}' if self.record else ''}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, without the file."""
        if self.record is None:
            return {"reason": self.reason}
        return {"record": self.record, "reason": self.reason, "text": self.text}


BEYOND_RETENTION = (
    "is older than purged tombstones (tombstone_retention), so that its row may have been deleted since; "
    "replay it with `beyond_retention: apply` to insert it"
)


@dataclass(frozen=True)
class Limits:
    """How much input of one run may be unusable before the table stops."""

    rows: int | None = None
    """The largest number of records; a file counts as one. None for no limit."""
    share: float = 0.5
    """The largest share of the records, and of the files. It counts from SHARE_MIN of them on, unless it is 0."""
    again: bool = False
    """Whether the files come from quarantine."""
    rebuilt: bool = False
    """Whether the records were ingested before, and a rebuild reads them again."""

    def problem(self, unusable: Sequence[Unusable], records: int, read: int, files: int, inputs: int) -> str | None:
        """Return why a run stops, or None. `records` of `read` records and `files` of `inputs` files cannot be used."""
        if not unusable:
            return None
        first = f"{unusable[0]}" + (f" (and {records + files - 1:,} more)" if records + files > 1 else "")
        todo = "Nothing was committed; all files stay in landing. Repair or remove them, correct the table's settings, or raise the limit."
        if self.again:
            todo = (
                "Nothing was committed; the files stay in quarantine. Repair them (`compactor quarantine TABLE` names the place for a copy), replay "
                "others by their paths, or give a file up with `compactor quarantine TABLE PATH --discard`."
            )
        if self.rebuilt:
            todo = "Nothing was published. Correct the table's settings, such as `types:`, or raise the limit for this rebuild."
        if self.rows is not None and records + files > self.rows:
            return f"{records + files:,} records or files are unusable; the limit is {self.rows:,} (`quarantine`): {first}. {todo}"
        if files == inputs or (read and records == read):
            which = "files or records from quarantine" if self.again else "landed files or records"
            return f"all {which} are unusable: {first}. {todo}"
        too_many = [
            f"{count:,} of {whole:,} {what}"
            for count, whole, what in ((records, read, "records"), (files, inputs, "files"))
            if count > self.share * whole and (count >= SHARE_MIN or self.share == 0)
        ]
        if too_many:
            what = too_many[0]
            return f"{what} are unusable; the limit is {self.share * 100:g} % (`quarantine`): {first}. {todo}"
        return None


def newly_invalid(before: Iterable[Input], now: Iterable[Input]) -> dict[str, int]:
    """Return the number of records that were ingested and are invalid now, by the names of the files that have any.

    `before`: the inputs as the ledger has them; `now`: as they were read again.
    """
    then = {(item.path, item.etag): item.quarantined for item in before}
    more = {item.name: item.quarantined - then.get((item.path, item.etag), 0) for item in now}
    return {name: number for name, number in more.items() if number > 0}


def not_usable_now(before: Iterable[Input], now: Sequence[Input], unusable: Sequence[Unusable]) -> str | None:
    """Return a sentence about ingested files and records that cannot be used now; None without any."""
    more = newly_invalid(before, now)
    unreadable = {item.name for item in now if item.reason}
    parts = [f"{counted(sum(more.values()), 'record')} of {counted(len(more), 'file')}"] if more else []
    parts += [counted(len(unreadable), "unreadable file")] if unreadable else []
    first = next((f", such as {each}" for each in unusable if each.file in more or each.file in unreadable), "")
    if not parts:
        return None
    return f"{' and '.join(parts)} cannot be used with the present settings any more{first}. Correct the settings, or rebuild the table"


def reason_file(item: Input, commit: str, unusable: Sequence[Unusable]) -> bytes:
    """Return the content of an input's reason file. LISTED_MAX limits its size."""
    listed = [each.to_json() for each in unusable if each.file == item.name]
    what = {"path": item.path, "etag": item.etag, "commit": commit, "records": item.quarantined, "unusable": listed}
    return (json.dumps(what, ensure_ascii=False, indent=1) + "\n").encode()
