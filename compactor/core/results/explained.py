"""What `compactor explain` shows: the passes over a batch, why each is needed, their SQL, and where the numbers of a report come from."""

from __future__ import annotations

from dataclasses import dataclass

FRAMES = {
    "records": "the decoded records of the files, one row each",
    "changes": "the usable records in the columns of the table, with operation, Position and old key (Changes)",
    "states": "Changes as states, with the rows of the Delta and those rows of the base that they may change",
    "unavailable": "the texts that Debezium sends in place of a value that it did not read",
    "unavailable_numbers": "the same in an array of numbers",
    "position": "the type of a Position: epoch, order columns, file, block, row",
    "own": "the type of `_own`: column → Position, and whether a value is known",
}
"""What each name in braces in the SQL of a pass stands for: rows, and texts that would be repeated."""

SHORT = {
    "event": "the place of a Position at its source, without file and record: struct(p.epoch, p.o1, ..)",
    "content": "a hash of all values of a row, and of the places of nulls",
    "clock": "the Position that a column's value comes from: its entry in `_own`, else `_at`",
    "known": "whether a value of the column is known at that Position: its entry in `_own` says so, or it has none",
}
"""What stands for a long text that depends on the table, written as a function."""

NUMBERS = (
    ("read", "pass survey, n: all records"),
    ("ignored", "pass survey, ignored: records without a row of the table"),
    ("quarantined", "pass survey, invalid, and values of another type than their column's"),
    ("applied", "pass reduce, _applied, and every truncate: the newest event of a key, if it is newer than the stored row"),
    ("superseded", "pass reduce, _superseded: an event below a newer one of the same batch, or below a truncate"),
    ("duplicate", "pass reduce, _duplicate: the event that made the stored row, delivered again"),
    ("late", "pass reduce, _late: an event below the stored row of its key"),
    ("beyond retention", "pass reduce, _behind: older than purged tombstones, without a stored row"),
    ("ties", "pass reduce, _ties: keys whose newest events share a place in the order and differ"),
    ("unresolved", "the written files, _own: values of shown rows that no event has carried"),
)
"""(number of a run's report, where it comes from). The report's `read` is the sum of the seven outcomes."""


@dataclass(frozen=True)
class ExplainedPass:
    """One query over the batch."""

    name: str
    """The name of the pass, such as `survey`."""
    sql: str
    """Its text. Names in braces are keys of FRAMES."""


@dataclass(frozen=True)
class Explained:
    """How a batch becomes a version."""

    table: str
    """The table's name."""
    version: int
    """The version that the batch makes or made."""
    committed: bool
    """Whether the version exists: then these are its own files, read again from the archive."""
    files: int
    """Number of files of the batch."""
    size: int
    """Their bytes."""
    read: int
    """Events in them."""
    steps: tuple[tuple[str, str], ...]
    """(step, why), in the order in which they run."""
    passes: tuple[ExplainedPass, ...]
    """The queries that ran or would run."""
    numbers: tuple[tuple[str, str], ...] = NUMBERS
    """(number of the report, where it comes from)."""
