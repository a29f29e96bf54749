"""What the flows need from the world, as Protocols with their contracts. Adapters live in `storage/`, `catalog/`, `registry/`, `spark/`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compactor.core.catalog.ddl import PartitionDef, TableDef, ViewDef
from compactor.core.model.files import FileInfo
from compactor.core.model.history import History
from compactor.core.model.snapshot import FeedPart, Input, Segment, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import BatchSummary, InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.results.reports import Ended
from compactor.core.schema.adoption import ForeignBase
from compactor.core.schema.registered import RegisteredSchema
from compactor.core.sources.kafka_files import Fetched, Offsets


class Storage(Protocol):
    """An object store. A location is a full path (`/lake/x`) or URI (`s3://bucket/x`); directories exist only as prefixes.

    All calls raise `Unavailable` when the store does not answer and leave nothing half-visible: an object is there whole or not at all.
    """

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Every object below the directory `prefix`, recursively, in path order. A missing prefix yields nothing."""

    def read(self, path: str) -> bytes:
        """The content. Raises FileNotFoundError."""

    def stat(self, path: str) -> FileInfo | None:
        """What is there, or None."""

    def checksum(self, file: FileInfo) -> str:
        """The checksum of an object's content as `core/model/checksum.py` words it, as cheaply as this store can tell. Raises FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None:
        """Create or replace, atomically."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create durably and atomically between processes; False when the name is taken. Exactly one of many racing callers gets True."""

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Move one object, only if it still is `source` (same etag). The target is complete, and compared with the source, before that goes.
        With `keep` the source stays: a copy of its own.

        True when `target` now holds the content of `source` - also when an earlier, interrupted move left it there, and when the
        source is gone but the target holds it. False when the source changed: nothing moved. Raises FileExistsError when `target`
        holds other content, FileNotFoundError when neither side has it.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; those already gone are fine. Locally, directories left empty go too."""

    def now(self) -> float:
        """Epoch seconds by the store's own clock."""


class Catalog(Protocol):
    """A Hive metastore. Every call is idempotent; raises `CatalogRefused` for what is not ours and `Unavailable` when nobody answers."""

    def ensure_database(self, name: str, location: str) -> None:
        """Create the database when it is missing; an existing one is left as it is."""

    def has_database(self, name: str) -> bool:
        """Whether it is there."""

    def table(self, database: str, name: str) -> TableDef | None:
        """An external table as it is registered, ours of the properties among them, or None: also for a view and another kind of table."""

    def ensure_table(self, table: TableDef) -> None:
        """Create the external table, or bring columns, comments and properties of ours up to date.

        Refused when an object of that name is no external table or lies at another location.
        """

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register those that are missing, with statistics, columns equal to the table's. One registered elsewhere is refused."""

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """What is registered, by values. A missing table has none."""

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """Unregister; files stay. Missing ones are fine."""

    def view(self, database: str, name: str) -> ViewDef | None:
        """The view as it is, or None. Refused when the name is a table."""

    def replace_view(self, view: ViewDef) -> None:
        """Create the view or replace it: a reader sees the old one or the new one, by a text that is replaced in ONE metastore transaction.

        Where columns change, those that both have may be all that is listed for a moment.
        """


class Registry(Protocol):
    """A schema registry: subjects with numbered versions of Avro schemas. What a version or an id holds never changes.

    All calls raise `Unavailable` when nobody answers, `RegistryRefused` when the answer is no or makes no sense (both name address and
    subject, never a secret), and `SchemaRefused` for schemas that are not Avro, or whose references form a circle.
    """

    def subjects(self) -> list[str]:
        """Return all names, sorted."""

    def versions(self, subject: str) -> list[int]:
        """Ascending; none for an unknown subject."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest version, or None for an unknown subject."""

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """That version. Raises RegistryRefused when there is none."""

    def by_id(self, schema_id: int) -> str:
        """The self-contained text of the schema with that id. Raises RegistryRefused when there is none."""

    def compatibility(self, subject: str) -> str:
        """The level that new versions are held to, one of `compatibility.LEVELS`: the subject's own, else the registry's."""

    def check(self, subject: str, text: str) -> list[str]:
        """Why `text` could not become the subject's next version, as sentences; empty when it could. Registers nothing."""


class Topics(Protocol):
    """A Kafka cluster. All calls raise `Unavailable` when no broker answers, `Refused` for topics that are not there or not to be read."""

    def bounds(self, topics: Sequence[str]) -> Mapping[tuple[str, int], tuple[int, int]]:
        """(topic, partition) → (first offset still there, offset the next record will get)."""

    def fetch(self, wanted: Sequence[Offsets], staging: str) -> list[Fetched]:
        """Write these records below the directory `staging`, a file for each of `wanted`; at most one of a partition."""


Entries = Callable[[], Iterable[Input]]
"""Reads the newest ledger entry of each input."""


class Batch(Protocol):
    """Inputs that were opened and understood. Valid until `close`."""

    @property
    def summary(self) -> BatchSummary:
        """What reading told."""

    def close(self) -> None:
        """Release what the engine keeps for it."""


class Resolution(Protocol):
    """A batch resolved with what is stored: one row per key. Valid until `close`, and as long as its batch is."""

    @property
    def summary(self) -> BatchSummary:
        """The batch's facts, with what turned out to be beyond retention."""

    def close(self) -> None:
        """Release what the engine keeps for it."""


class Engine(Protocol):
    """The thing that computes. It writes only below the directories of the `commit` id it is given, and never a Snapshot.

    Everything it returns it has read back and checked: rows, one row per key, no null key. Raises InputRefused naming the file,
    SchemaRefused, OrderRefused, CheckFailed.
    """

    def read(
        self,
        spec: TableSpec,
        parent: Snapshot | None,
        inputs: Sequence[Input],
        version: int,
        locations: InputLocations,
        entries: Entries = tuple,
        base: ForeignBase | None = None,
    ) -> Batch:
        """Open, decode and conform these inputs. Unusable ones are left out and reported; more than `quarantine` allows are refused.

        `entries` reads the newest ledger entry of each input that the parent has. Full loads need it to refuse files that come to a load after it
        was ingested, and to place late loads.
        `base`: the inputs are the files of a foreign base, and `spec` is `base.spec(..)`. Anything unusable in them is refused, as are
        two rows with one key. The summary has the `adoption`.
        """

    def resolve(self, batch: Any, whole: bool) -> Resolution:
        """Resolve the batch with the parent's Delta and the base: all of it if `whole`, else only the rows that must be compared."""

    def write(self, resolution: Any, commit: str, purge_through: int) -> Staged:
        """Write a `whole` resolution as a new base without tombstones of versions ≤ `purge_through`, another one as a new Delta."""

    def write_history(self, resolution: Any, commit: str) -> History:
        """Return the parent's history with what the batch tells (`core/model/history.py`). Called when `spec.history` is set."""

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Segment id → Delta rows in its range that are not yet compacted into it."""

    def compact(self, spec: TableSpec, snapshot: Snapshot, segments: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """New Segments in place of these: their rows and their share of the Delta, over the same ranges."""

    def write_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot, resolution: Any) -> FeedPart | None:
        """What `made`, whose data is written and which is not committed yet, changes in the rows of `parent`; None when that is nothing.

        `resolution`: what it ingested, None for a restore. Under `feed: all` its other events are written too.
        """

    def read_feed(self, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
        """The part that a Snapshot names, as JSON objects: by key, of a key the older image first, the payload under the view's names."""

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        """Whether the part of `made` is exactly the difference of the rows of both. Writes nothing."""

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        """Whether the view equals its reference definition, and one resolve of all inputs on top of what `origin` holds. Writes nothing."""

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        """What the visible rows of two Snapshots differ in, read from their files; keys are those of `after`, where `before` has them.

        Writes nothing, `after` need not be committed. Files of `before` that are gone or damaged are a difference, no error.
        """


class Runner(Protocol):
    """Starts one command line of ours (`run student --output json`), here or on a cluster, and stays with it to its end.

    The same arguments mean the same everywhere. Starting the same command line twice is harmless: the commit protocol sees to that.
    """

    def run(self, arguments: Sequence[str], told: Callable[[str], None]) -> Ended:
        """Run to the end; `told` gets each line of the log as it comes. When this call is left by an exception, nothing of it goes on.

        Raises Unavailable when it cannot be started or nobody knows how it ended, Refused when the place to run it is wrong.
        """

    def cancel(self) -> None:
        """End what runs, with everything it started; harmless when nothing does. May be called from a signal's handler while `run` waits."""


@dataclass(frozen=True)
class Submitted:
    """A command line on its way elsewhere: the `job` there, the directory of its `report`, and `until` when it must have ended (epoch seconds)."""

    job: str
    report: str
    until: float


class RemoteRunner(Runner, Protocol):
    """A Runner whose command line goes on without this process, which may leave it and come back, or let another one."""

    def submit(self, arguments: Sequence[str]) -> Submitted:
        """Send it. The same arguments of the same attempt again: the same job."""

    def ended(self, submitted: Submitted) -> bool:
        """Whether it has ended. Raises Unavailable when its time is over; then it is cancelled."""

    def result(self, submitted: Submitted, told: Callable[[str], None], since: int = 0) -> Ended:
        """How it ended; `told` gets its log from line `since` on. Raises Unavailable when nobody knows."""

    def stop(self, submitted: Submitted) -> None:
        """Cancel it; harmless when it has ended."""
