"""Snapshot: the complete, immutable state of a table at a version, stored as JSON with a format number (docs/design/protocol.md)."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

from compactor.core.model.errors import StateRefused
from compactor.core.model.files import DataFile, Delta, Directory, FeedPart, Segment
from compactor.core.model.history import History
from compactor.core.model.inputs import NOTHING_KNOWN, Input, LedgerFile, Watermark
from compactor.core.model.position import NO_STARTS, Partitions, Position, Span, Starts, latest, spanned
from compactor.core.model.schema import Schema

FORMAT = 3
"""Number of the stored form. A Snapshot of another one is refused."""

COUNTS = ("applied", "superseded", "duplicate", "late", "ignored", "beyond_retention", "quarantined")
"""What can become of an event. `read` is the sum of these."""


_T = TypeVar("_T")


class _Form(NamedTuple):
    """The form of a field whose values are arrays, or have fields themselves."""

    kind: Any
    """The dataclass of its values; None for plain values."""
    depth: int
    """How many arrays are around each other, at least."""
    optional: bool


@cache
def _forms(kind: Any) -> dict[str, _Form]:
    """Return the form of such fields. Annotations are read as text, because Python 3.9 cannot evaluate `Delta | None`.

    How the configuration writes a field (`Form(..)`) says nothing about its values.
    """
    module, forms = vars(sys.modules[kind.__module__]), {}
    for each in dataclasses.fields(kind):
        text = str(each.type).partition("Form(")[0]
        classes = filter(dataclasses.is_dataclass, map(module.get, re.findall(r"\w+", text)))
        arrays = len(text) - len(re.sub(r"^(tuple\[)+", "", text))
        form = _Form(next(classes, None), arrays // len("tuple["), "None" in text)
        if form.kind is not None or form.depth:
            forms[each.name] = form
    return forms


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, for `json.dumps`. A Schema has computed values beside them."""
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def of_json(kind: Callable[..., _T], raw: dict[str, Any]) -> _T:
    """Return the dataclass of a JSON object: arrays become tuples, and objects the dataclasses that its fields declare.

    Raises TypeError or ValueError for an object of another form.
    """
    declared: Any = kind
    forms = _forms(declared)
    return kind(**{name: _value(value, *forms[name]) if name in forms else _tupled(value) for name, value in raw.items()})


def _value(value: Any, kind: Any, depth: int, optional: bool) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_value(each, kind, depth - 1, optional) for each in value]) if kind or depth > 1 else _tupled(value)
    if value is None and optional:
        return None
    if depth > 0 or (kind is not None and not isinstance(value, dict)):
        raise ValueError(f"expected {'an array' if depth > 0 else 'an object'}, found {value!r}")
    return of_json(kind, value) if kind is not None else value


def _tupled(value: Any) -> Any:
    return tuple([_tupled(each) if isinstance(each, list) else each for each in value]) if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Feed:
    """The change feed as of a version."""

    mode: str
    """`net` (one change per key and version), or `off` after it was switched off."""
    began: int
    """The feed has the changes of all versions above this one."""
    kept: int
    """The feed parts of versions up to this one were given up."""
    soft: bool = False
    """Whether deleted rows stay rows, marked as deleted (`delete: soft`)."""
    part: FeedPart | None = None
    """The changes of this version; None if it changed no row."""

    @property
    def first(self) -> int:
        """Return the oldest version from which a reader can follow the feed."""
        return max(self.began, self.kept)

    def idle(self) -> Feed:
        """Return the feed of a next version that changes no row."""
        return dataclasses.replace(self, part=None)


@dataclass(frozen=True)
class PendingDeletion:
    """A directory of data, a ledger file or an expired Snapshot that vacuum will delete. No later Snapshot may name it."""

    path: str
    since: float
    """When vacuum gave it up, in epoch seconds of the store's clock."""
    reason: str
    """`expired`: only expired Snapshots name it, and it stays for one grace period more. `orphan`: no Snapshot ever named it."""


@dataclass(frozen=True)
class Pin:
    """A version that vacuum keeps until the pin is removed."""

    name: str
    version: int
    time: str
    """When it was pinned, ISO 8601."""


@dataclass(frozen=True)
class Day:
    day: str
    version: int
    """The last version before the midnight at its end."""
    form: str
    """A digest of that version's columns (`core/catalog/daily_views.py`)."""
    shown: bool = True
    """Whether readers see the day. False: vacuum expires its version, and removes the day from the list when only the stub is left."""


Days = tuple[Day, ...]


@dataclass(frozen=True)
class Erased:
    """The erased keys of a table."""

    secret: str
    """A hash that only the secret of `keys` gives. With another secret no erased key would be recognised."""
    keys: tuple[str, ...]
    """HMAC-SHA256 of each key as text, in hexadecimal digits, sorted."""
    version: int = 0
    """The newest version that an erase made. Every older version may have rows of the keys and is deleted."""
    since: float = 0.0
    """When that version was made, in epoch seconds of the store's clock."""
    rows: int = 0
    """Number of stored rows that all erases have removed, tombstones included."""
    events: int = 0
    """Number of events of the history that all erases have removed."""


@dataclass(frozen=True)
class Commit:
    """The identity of a Snapshot: its table and version, its parent, and the run that made it."""

    table: str
    uuid: str
    """A random id from the first commit. It distinguishes two tables that had the same name one after the other."""
    version: int
    """1 for the first Snapshot."""
    parent: int | None
    """The version that this one was made from; None for the first."""
    writer: str
    """The random id of the attempt. After a put with an unclear result it shows whether the stored Snapshot is ours."""
    run: str
    """The scheduler's label of the run; empty without one."""
    time: str
    """When the Snapshot was made, ISO 8601, UTC."""
    operation: str
    """The verb: `commit`, `compact`, `restore`, ..."""


@dataclass(frozen=True)
class State:
    """The rows of a table at a version, and what the next commit needs to know about them.

    A restore brings a whole State back and a rebuild makes a new one. Everything else in a Snapshot is bookkeeping and stays with the newest version.
    """

    schema: Schema
    order: tuple[tuple[str, str], ...]
    """The Position columns: (name, type)."""
    base_id: str
    """The partition value under which the Segments are registered."""
    segments: tuple[Segment, ...]
    """The base. The key ranges tile the key space."""
    delta: Delta | None
    hour: str | None = None
    """The newest landing hour ingested."""
    position: Position | None = None
    """The greatest Position ingested."""
    source_time: str | None = None
    """The newest source time ingested, ISO 8601."""
    truncated_to: Position | None = None
    """The truncate barrier: rows at or below it are gone."""
    purged_to: Position | None = None
    """The greatest Position of a purged tombstone. Where Kafka offsets order the table: everything before the epoch in `purged_offsets`."""
    purged_offsets: Partitions = ()
    """Where Kafka offsets order the table: per partition, an offset that no purged tombstone of the epoch lies above."""
    epoch: int = 0
    """The first member of every new Position; an operator raises it when the source's positions start again."""
    compacted_at: str | None = None
    """When the base was last written, ISO 8601."""
    base_source_time: str | None = None
    """The newest source time in the base, ISO 8601; None if it is not known."""
    envelope: str = ""
    """The envelope of the newest events: which one a default order belongs to. "" if none is known."""
    brought: int = 0
    """Number of events that the newest commit with a new event ingested. Compaction weighs the Delta against it."""
    raw: tuple[tuple[str, str], ...] = ()
    """The columns of the landed files (name, Hive type), for `<table>_incremental`."""
    raw_format: str = ""
    """The format of these files, parquet or avro."""
    offsets: Partitions = ()
    """The greatest Kafka offset per partition, where offsets come first in the order."""
    history: History | None = None
    """The parts that hold row versions; None without `history:`."""
    watermark: Watermark = NOTHING_KNOWN
    shards_truncated_to: tuple[tuple[str, Position], ...] = ()
    """The truncate barrier of each shard that had a truncate; then `truncated_to` is None."""
    starts: Starts = NO_STARTS

    @property
    def data_files(self) -> list[tuple[str, DataFile]]:
        """Return every file of base, Delta and history as (directory below the table's root, file)."""
        parts: list[Directory] = [*self.segments, *([self.delta] if self.delta else []), *(self.history.parts if self.history else ())]
        return [(part.path, file) for part in parts for file in part.files]


@dataclass(frozen=True)
class Snapshot(State, Commit):
    """A table at a version: its State, the Commit that made it, and the bookkeeping of files. Immutable; only `edit.apply` makes one."""

    inputs: tuple[Input, ...] = ()
    """The inputs that this version took or changed the outcome of."""
    pending: tuple[Input, ...] = ()
    """Inputs of this or an older version that were not yet archived."""
    ledger: tuple[LedgerFile, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """Number of events by what became of them (`COUNTS`), and `read`, their sum."""
    ties: int = 0
    """Events with the same key and the same order columns as another event."""
    unresolved: int = 0
    """Values of visible rows that no event contained."""
    pending_deletions: tuple[PendingDeletion, ...] = ()
    """What vacuum has given up and will delete. No later version may name it."""
    pins: tuple[Pin, ...] = ()
    restored: int | None = None
    """The version that a restore or rebuild brought back; None for other operations."""
    replaced: int = 0
    """The newest version whose State did not continue its parent's: the first one, a restore, a rebuild."""
    oldest: int = 1
    """Every version below it has expired, apart from pinned ones and those of `days`."""
    expired: bool = False
    """Whether this is the stub of an expired version, which names no data."""
    feed: Feed | None = None
    erased: Erased | None = None
    """The keys that were erased (`compactor erase`); None without any."""
    days: tuple[Day, ...] | None = None
    """The frozen days, oldest first; None if the table never had `daily:`."""
    format: int = FORMAT
    """The version of this JSON format."""

    @property
    def state(self) -> State:
        return State(**{each.name: getattr(self, each.name) for each in dataclasses.fields(State)})

    @property
    def named(self) -> frozenset[str]:
        """Return the paths below the root of all directories and ledger files that this Snapshot needs."""
        delta = [self.delta.path] if self.delta else []
        history = [part.path for part in self.history.parts] if self.history else []
        return frozenset([*(segment.path for segment in self.segments), *delta, *history, *(file.path for file in self.ledger)])

    def stub(self) -> Snapshot:
        """Return what replaces this Snapshot after it expired, so that its version number is never used again.

        The stub keeps the schema, for the history of the columns, the offsets, for the purge of tombstones, and its feed part, which has a retention
        of its own.
        """
        empty: dict[str, Any] = dict.fromkeys(("segments", "inputs", "pending", "ledger", "raw", "pending_deletions", "pins"), ())
        return dataclasses.replace(self, **empty, delta=None, history=None, days=None, erased=None, expired=True)

    def emptied(self) -> Snapshot:
        """Return a table of the same columns and order without rows, which nothing was ever ingested into."""
        nothing: dict[str, Any] = dict.fromkeys(("segments", "offsets", "purged_offsets", "shards_truncated_to"), ())
        nothing |= dict.fromkeys(("delta", "position", "source_time", "truncated_to", "purged_to", "history"))
        return dataclasses.replace(self, **nothing, starts=NO_STARTS)

    @property
    def never_ingested(self) -> bool:
        """Return whether nothing was ever ingested (`emptied`)."""
        return not self._parts and self.position is None and self.position_max is None

    @property
    def _parts(self) -> list[Segment | Delta]:
        return [*self.segments, *([self.delta] if self.delta else [])]

    @property
    def bytes_written(self) -> int:
        """Return the bytes of base, Delta, history and feed that the attempt behind this version wrote."""
        feed = [self.feed.part] if self.feed and self.feed.part else []
        return sum(part.size for part in (*self._parts, *(self.history.parts if self.history else ()), *feed) if self.writer in part.path)

    @property
    def rows(self) -> int:
        """Return the number of live rows. With a Delta it is an upper bound, as a Delta row may replace a base row."""
        return sum(part.rows for part in self._parts) - self.tombstones

    @property
    def tombstones(self) -> int:
        return sum(part.tombstones for part in self._parts)

    @property
    def size(self) -> int:
        """Return the bytes of base and Delta."""
        return sum(part.size for part in self._parts)

    @property
    def unavailable_columns(self) -> tuple[str, ...]:
        """Return the columns whose value comes from an older event in some stored row, or is unknown there."""
        return tuple(sorted({name for part in self._parts for name in part.unavailable_columns}))

    @property
    def position_max(self) -> Position | None:
        """Return the greatest Position of any stored row or barrier. Events above it are newer than everything stored."""
        barriers = [self.truncated_to, *(bound for _, bound in self.shards_truncated_to)]
        return latest([*(part.position_max for part in self._parts), *barriers, self.purged_to])

    @property
    def span(self) -> Span:
        """Return Positions that no stored row is below and above."""
        return spanned([part.span for part in self._parts])

    def generation_of(self, schema: Schema, order: Sequence[tuple[str, str]]) -> int:
        """Return the generation of the tables that a next version with these columns needs. The columns with Positions have one member for each
        order column, and catalogs only add columns.
        """
        then, now = ([(field.name, field.type) for field in each.fields] for each in (self.schema, schema))
        same = then == now and self.schema.key == schema.key and tuple(self.order) == tuple(order)
        return self.schema.generation + (0 if same else 1)

    def with_columns(self, newer: Snapshot | None) -> Snapshot:
        """Return a stub without columns with those of the version after it, and any other Snapshot as it is."""
        if self.schema.fields or newer is None:
            return self
        return dataclasses.replace(self, schema=dataclasses.replace(self.schema, fields=newer.schema.fields))

    def to_bytes(self) -> bytes:
        # a field a line: people read it, and Python indents ten times as slowly as it writes
        lines = (f'"{name}": {json.dumps(value, ensure_ascii=False, default=fields_of)}' for name, value in vars(self).items())
        return ("{\n" + ",\n".join(lines) + "\n}").encode()

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "") -> Snapshot:
        """Return the Snapshot of a stored JSON text. Raises StateRefused for another format and for damaged text; `path` is for the message."""
        try:
            return _parsed(data)
        except StateRefused as error:
            raise StateRefused(f"Snapshot {path}: {error}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateRefused(f"Snapshot {path} cannot be read: {error}. It is damaged: restore the file from a backup.") from error


# the steps of a run read the same versions again
@lru_cache(maxsize=8)
def _parsed(data: bytes) -> Snapshot:
    raw = json.loads(data)
    if raw.get("format") != FORMAT:
        raise StateRefused(f"expected format {FORMAT}, found {raw.get('format')!r}. Install the version of compactor that wrote it.")
    if missing := {"inputs", "pending", "ledger"} - raw.keys():
        raise KeyError(min(missing))
    return of_json(Snapshot, raw)
