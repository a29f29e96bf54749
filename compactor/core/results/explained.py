"""What `compactor explain` shows: the passes over a batch, why each is needed, their SQL, and where the numbers of a report come from."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.core.model.files import Segment
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

PASSES = {
    "survey": "counts the records and finds their first and last Positions: by file, writer (the columns of a record) and Kafka partition",
    "states": "turns each change into a state: what it says of its key, with the Position of everything it says",
    "carry": "makes a state of the values that a key change takes along from the old key to the new one",
    "reduce": "merges all states of a key into its row: the greatest Position of each clock wins",
    "feed": "compares the rows that the version changed before and after it",
    "history": "computes the versions of the keys of the batch: when each begins and ends, and which event shows it",
    "history survey": "finds truncates, key changes and changes without a time, where not all events come after the stored ones",
    "history keys": "finds the first new event of each key: stored events before it stay as they are",
    "history stored": "reads the last events of these keys",
    "history closed": "reads the earlier events of these keys that a late event may change",
    "history begins": "makes events of the rows that the table has when its history begins",
    "history events": "finds each event once",
    "history carry": "passes values on from the old key to the new one, a step of a chain each time",
    "history parts": "finds the closed parts with an event that changed",
    "history write": "adds the other events of the parts that are written anew",
    "compact": "merges the Delta's share of the chosen Segments with their rows",
}
"""What each pass is for."""

FRAMES = {
    "records": "the decoded records of the files, one row each",
    "changes": "the usable records in the columns of the table, with operation, Position and old key",
    "states": "the states of the changes, with the rows of the Delta and those rows of the base that they may change",
    "base": "the rows of the chosen Segments",
    "delta": "the rows of the Delta that belong to them",
    "before": "the rows of the version before, of the keys that changed",
    "after": "the rows that the version wrote",
    "keys": "the keys of the batch, with `__first`, the place of their first new event",
    "table": "the rows of the table, deleted ones included",
    "open": "the open parts of the history: the last event of each key",
    "newer": "the open Delta of the history: the last events of keys that changed since the open parts were written",
    "closed": "closed parts of the history: events with a later event",
    "stored": "the stored events of these keys",
    "rows": "the events of these keys, each once",
    "made": "the result of the pass history",
    "removed": "the closed parts that are written anew",
    "unavailable": "the texts that Debezium sends in place of a value that it did not read",
    "unavailable_numbers": "the same in an array of numbers",
    "position": "the type of a Position: epoch, order columns, file, block, row",
    "own": "the type of `_own`: column → Position, and whether a value is known: null if a key change carried it",
}
"""What each name in braces in the SQL of a pass stands for: rows, and texts that would be repeated."""

SHORT = {
    "place": "the place of a Position at its source, without file and record: struct(p.epoch, p.o1, ..)",
    "content": "a hash of the values that share the clock of the row, and of the places of nulls",
    "clock": "the Position that a column's value comes from: its entry in `_own`, else `_at`",
    "carried": "whether a key change carried the column's value: its entry in `_own` says neither true nor false",
    "known": "whether a value of the column is known at that Position: its entry in `_own` says so, or it has none",
}
"""What stands for a long text that depends on the table, written as a function."""

COLUMNS = {
    "_at": "Position of the newest event that is no delete",
    "_gone": "Position of the newest delete; a row whose `_gone` is above its `_at` is a tombstone, which the view hides or marks as deleted",
    "_own": "columns whose value is not of `_at`",
    "_origin": "0 a change of the batch, 1 and -1 what a key change makes, 2 a row of the Delta, 3 a row of the base",
    "_moved": "of a tombstone, the key under which its row lives on; # and `_link` (transaction and LSN) while that is not known",
    "_missing": "columns without a value in a change",
    "_behind": "whether a change is older than a purged tombstone may be",
    "_was_": "what was stored of the key before",
    "_row": "all columns that share the clock of the row",
    "_r_": "value and clock of a column with a clock of its own; `_c_` orders them, `_f_` is what counts, `_w_` what was stored",
    "get(array(": "the version, which is no constant in the code that Spark generates",
}
"""Columns of states and reduced rows → their meaning."""

NUMBERS = (
    ("read", "survey, n: all records; the sum of the next seven"),
    ("ignored", "survey, ignored: records without a row of the table"),
    ("quarantined", "survey, invalid; and changes without a key, or with a value of another type than their column's"),
    ("beyond retention", "reduce, _behind: changes of keys without a row that are older than purged tombstones; they wait in quarantine"),
    ("late", "reduce, _late: events of a key whose stored row stays the newest; they may still change single columns, or what a tombstone hides"),
    ("duplicate", "reduce, _duplicate: of those, one that has the place of the stored row"),
    ("applied", "reduce, _applied: the newest event of a key whose row it replaces; and every truncate"),
    ("superseded", "reduce, _superseded: all other events of such a key; and changes at or below a truncate, which are counted before"),
    ("ties", "reduce, _ties: keys whose newest events have one place and differ; the one in the later file or line wins"),
    ("purged", "compact, _gone and _version: tombstones older than `tombstone_retention`, which the pass that writes leaves out"),
    ("versions", "history, __shown: events that represent a version for readers"),
    ("unresolved", "the written files, _own: values of shown rows that are not known"),
)
"""(number of a run's report, where it comes from)."""


@dataclass(frozen=True)
class CompactionDue:
    spec: TableSpec
    snapshot: Snapshot
    targets: tuple[Segment, ...]
    why: str


@dataclass(frozen=True)
class ExplainedPass:
    name: str
    sql: str
    """Its text. Names in braces are keys of FRAMES."""


@dataclass(frozen=True)
class Explained:
    """How a batch becomes a version."""

    table: str
    version: int
    """The version that the batch makes or made."""
    committed: bool
    """Whether the version exists: then these are its own files, read again from the archive."""
    files: int
    size: int
    """Their bytes."""
    read: int
    """Events in them."""
    steps: tuple[tuple[str, str], ...]
    """(step, why), in the order in which they run."""
    passes: tuple[ExplainedPass, ...]
    numbers: tuple[tuple[str, str], ...] = NUMBERS
