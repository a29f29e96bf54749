"""Ports: everything outside of the process that the flows use, as Protocols with contracts. Adapters are in `storage/`, `catalog/`, `registry/`,
`spark/` and `runners/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from compactor.core.catalog.ddl import NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model.files import FeedPart, FileInfo, Segment
from compactor.core.model.history import History
from compactor.core.model.inputs import Input
from compactor.core.model.policy import Rule
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.audit import Measured
from compactor.core.results.batch import BatchSummary, ErasedRecords, InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.results.explained import CompactionDue, Explained
from compactor.core.results.record import JobUsage
from compactor.core.results.reports import Ended
from compactor.core.schema.adoption import ForeignBase
from compactor.core.sources.kafka_files import Bounds, Fetched, Offsets


class Storage(Protocol):
    """An object store. A location is a full path (`/lake/x`) or URI (`s3://bucket/x`); directories exist only as prefixes.

    All calls raise `Unavailable` if the store does not answer. No call leaves an incomplete object.
    """

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Yield every object below the directory `prefix`, recursively, in path order. A missing prefix yields nothing.

        Objects with a name that no other call takes are among them, with the `problem`.
        """

    def folders(self, prefix: str) -> Iterable[str]:
        """Return the names of the directories directly below the directory `prefix`, sorted: what lies in them is not listed."""

    def read(self, path: str) -> bytes:
        """Return the content. Raises FileNotFoundError."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start` on, which lies inside the object; fewer at its end. Raises FileNotFoundError."""

    def stat(self, path: str) -> FileInfo | None:
        """Return the object at this location, or None if there is none."""

    def checksum(self, file: FileInfo) -> str:
        """Return the checksum of an object (`core/formats/checksum.py`) in the cheapest way that the store has. Raises FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None:
        """Create or replace an object atomically."""

    def replace(self, file: FileInfo, data: bytes) -> bool:
        """Replace an object atomically if it is still `file` (same etag). Return False, and write nothing, if it has changed or is gone."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object durably and atomically. Return False if the name is taken. Of concurrent callers exactly one gets True."""

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Move one object if it is still `source` (same etag). The source is deleted after the target is complete and compared with it.

        `keep`: copy the object and leave the source.

        Returns True if `target` now has the content of `source`, also after an earlier, interrupted move. Returns False, and moves nothing, if the
        source has changed. Raises FileExistsError if `target` has other content, and FileNotFoundError if neither side has the content.
        """

    def encrypt(self, path: str) -> bool:
        """Encrypt a raw file with the key that its table has for raw files, unless it has that key already. Content and name stay.

        Returns whether it was changed: False for a missing or any other object, and where a store encrypts nothing.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects. Missing ones are ignored. On a local file system, directories that become empty are deleted too."""

    def now(self) -> float:
        """Return the time of the store's clock, in epoch seconds."""


class Catalog(Protocol):
    """A Hive metastore or a compatible catalog.

    All calls are idempotent. They raise `CatalogRefused` for objects that are not ours, and `Unavailable` if the catalog does not answer.
    """

    def ensure_database(self, name: str, location: str) -> None:
        """Create the database if it is missing. An existing one stays as it is."""

    def has_database(self, name: str) -> bool:
        """Return whether the database exists."""

    def table(self, database: str, name: str) -> TableDef | None:
        """Return the registered external table with our properties. None if it is missing, a view, or another kind of table."""

    def ensure_table(self, table: TableDef) -> None:
        """Create the external table, or update its columns, its comments and our properties.

        Raises CatalogRefused if the existing object is no external table, or has another location.
        """

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register the missing partitions with statistics and the table's columns. Raises CatalogRefused for one with another location."""

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """Return the registered partitions, ordered by values. A missing table has none."""

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """Unregister partitions. Their files stay. Missing ones are ignored."""

    def view(self, database: str, name: str) -> ViewDef | None:
        """Return the view, or None if it is missing. Raises CatalogRefused if the name is a table's."""

    def replace_view(self, view: ViewDef) -> None:
        """Create or replace the view. Readers see the old or the new one, because ONE metastore transaction replaces its text.

        If columns change, the catalog may list only the common columns for a moment.
        """

    def native(self, database: str, name: str) -> NativeDef | None:
        """Return the Iceberg table, or None if it is missing. Raises CatalogRefused if the name is another kind of object's."""

    def point(self, table: NativeDef, expected: str | None) -> bool:
        """Create the Iceberg table (`expected` None), or move its pointer if it is `expected`. Return False if others have created or moved it."""


@dataclass(frozen=True)
class RegisteredSchema:
    """One version of a registry's subject."""

    subject: str
    version: int
    id: int | None
    """The schema id in Kafka records; None if the registry has no ids."""
    text: str
    """Self-contained Avro JSON: references are resolved."""


class Registry(Protocol):
    """A schema registry: subjects with numbered versions of Avro schemas. The schema of a version or an id never changes.

    All calls raise `Unavailable` if the registry does not answer, and `RegistryRefused` if it refuses the request or its answer is invalid. Both name
    address and subject, never a secret. They raise `SchemaRefused` for schemas that are not Avro, or have circular references.
    """

    def subjects(self) -> list[str]:
        """Return the names of all subjects, sorted."""

    def versions(self, subject: str) -> list[int]:
        """Return the version numbers of a subject in ascending order; [] for an unknown subject."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest version, or None for an unknown subject."""

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """Return one version. Raises RegistryRefused if it does not exist."""

    def by_id(self, schema_id: int) -> str:
        """Return the self-contained text of the schema with this id. Raises RegistryRefused if it does not exist."""

    def compatibility(self, subject: str) -> str:
        """Return the compatibility level for new versions (`compatibility.LEVELS`): the subject's, else the registry's default."""

    def check(self, subject: str, text: str) -> list[str]:
        """Return why `text` cannot become the subject's next version, as sentences; [] if it can. Registers nothing."""


class Topics(Protocol):
    """A Kafka cluster. All calls raise `Unavailable` if no broker answers, and `Refused` for topics that are missing or must not be read."""

    def bounds(self, topics: Sequence[str]) -> Mapping[tuple[str, int], Bounds]:
        """Return (topic, partition) → what Kafka has of it."""

    def fetch(self, ranges: Sequence[Offsets], staging: str) -> list[Fetched]:
        """Write the records of these ranges below the directory `staging`, one file each. At most one range per partition."""


Entries = Callable[[], Iterable[Input]]
"""Reads the newest ledger entry of each input."""


class Batch(Protocol):
    """Inputs that the engine has opened and decoded. Valid until `close`."""

    @property
    def summary(self) -> BatchSummary:
        """Return what reading showed."""

    def close(self) -> None:
        """Release the engine's resources for it."""


class Resolution(Protocol):
    """A batch resolved against the stored rows: one row per key. Valid until `close` of itself or of its batch."""

    @property
    def summary(self) -> BatchSummary:
        """Return the summary of the batch, with the number of changes beyond retention."""

    def close(self) -> None:
        """Release the engine's resources for it."""


class Engine(Protocol):
    """Computes the rows of tables. It writes only below the directories of the given `commit` id, and never a Snapshot.

    It checks everything that it has written: the number of rows in the files that the store lists, and that no key is null. One row per key holds by
    construction (docs/design/spark.md#few-jobs). Raises InputRefused naming the file, SchemaRefused, OrderRefused and CheckFailed.
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
        erased: Erased | None = None,
    ) -> Batch:
        """Open and decode these inputs, and convert them to the stored schema.

        Records that cannot be used are left out and are in the summary. Raises InputRefused if they exceed the limit of `quarantine`.
        `entries` reads the newest ledger entry of each input in the parent. Full loads need it to refuse files that come to a load after it was
        ingested, and to place late loads. `base`: the inputs are the files of a foreign base, and `spec` is `base.spec(..)`. Anything unusable in
        them is refused, as are two rows with one key. `erased`: keys whose events are ignored (default: those of the
        parent).
        """

    def resolve(self, batch: Any, whole: bool) -> Resolution:
        """Resolve the batch against the parent's Delta and base. `whole`: against the whole base; else against the rows that must be compared."""

    def explain(
        self, read: Callable[[], Batch], whole: Callable[[BatchSummary], str | None], committed: bool, compacted: CompactionDue | None = None
    ) -> Explained:
        """Return the passes over a batch, with their SQL. Writes nothing.

        `read` calls `Engine.read`; `whole` returns why a commit of the batch writes a new base, or None; `committed`: the version exists already;
        `compacted`: the compaction that is due beside it.
        """

    def write(self, resolution: Any, commit: str, purge_through: int) -> Staged:
        """Write a `whole` resolution as a new base, without tombstones of versions up to `purge_through`; any other as a new Delta."""

    def write_history(self, resolution: Any, commit: str, staged: Staged) -> History:
        """Write the history of the batch and return the new one. `staged` is what `write` returned. Called only if `spec.history` is set."""

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Return Segment id → number of Delta rows in its range that are not compacted into it yet."""

    def hidden(self, spec: TableSpec, snapshot: Snapshot) -> Mapping[str, Sequence[int]]:
        """Return path below the root of a base file → places of those rows with a key of the Delta, sorted, for all files that have any.

        Files of tombstones are not among them.
        """

    def compact(self, spec: TableSpec, snapshot: Snapshot, targets: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """Write new Segments with the rows of these and of the Delta in their key ranges, over the same ranges."""

    def erased_with(self, spec: TableSpec, snapshot: Snapshot, keys: Sequence[Sequence[str]]) -> Erased:
        """Return the erased keys of a version and these, each with a text for each key column. Raises Refused for a text of another type."""

    def without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[Staged, int]:
        """Write a new base with all rows of a version but those of erased keys. Return it, and the number of rows left out.

        Raises Refused if the source changed a row's key from or to an erased key, and not both are erased.
        """

    def history_without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[History, int]:
        """Write all parts of the history anew without the events of erased keys. Return the new history, and the number of events left out.

        Raises Refused as `without` does, for key changes of all times. Called only if the version has a history.
        """

    def records_of(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, erased: Erased
    ) -> Mapping[str, ErasedRecords]:
        """Return path → the records of erased keys in a raw file. No two of the inputs have one path. Raises InputRefused for unusable records.

        Records without a value, whose Kafka key is erased, are among them. Raises InputRefused too if such a key cannot be read.
        """

    def write_without(self, spec: TableSpec, location: str, records: ErasedRecords, staging: str) -> FileInfo:
        """Write a raw file again without these records, in the new directory `staging`, and return the new file.

        Raises InputRefused if the file has another number of records, or cannot be rewritten record by record.
        """

    def write_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot, resolution: Any) -> FeedPart | None:
        """Write the changes from `parent` to `made` and return their feed part; None without any change.

        The data of `made` is written, and `made` is not committed yet. `resolution`: the batch behind it; None for a restore.
        """

    def read_feed(self, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
        """Yield the rows of a Snapshot's feed part as JSON objects, ordered by key, older image first. Columns have the view's names."""

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        """Check that the feed part of `made` is exactly the difference between the rows of both. Writes nothing."""

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        """Check that the view equals its reference definition, and a resolve of all inputs on top of `origin`. Writes nothing.

        With a history, check its view too.
        """

    def compare_live(self, spec: TableSpec, snapshot: Snapshot, waiting: Sequence[Input], locations: InputLocations) -> Check:
        """Check that the live view equals the view after a run with the files that wait in landing. Writes nothing."""

    def check_view(self, view: ViewDef, tables: Sequence[TableDef]) -> None:
        """Raise CheckFailed unless the text of a view over these tables is valid SQL in its dialect and gives exactly the view's columns."""

    def audit(self, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
        """Count the rows of a committed Snapshot, and for each rule the rows that break it. The catalog need not have the Snapshot."""

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        """Compare the visible rows of two Snapshots by the key of `after`.

        Writes nothing. `after` need not be committed. Missing or damaged files of `before` are a difference, not an error.
        """


class Runner(Protocol):
    """Runs a command line of compactor (such as `run student --output json`) on this machine, and waits for its end.

    The same arguments mean the same everywhere. The commit protocol makes it harmless to start the same command line twice.
    """

    def run(self, arguments: Sequence[str], log: Callable[[str], None]) -> Ended:
        """Run to the end. `log` is called with each line of the log as it comes. An exception in this call ends the command line.

        Raises Unavailable if it cannot be started or its result is unknown, and Refused if the place to run it is misconfigured.
        """

    def cancel(self) -> None:
        """End the running command line with all its processes. Harmless if none runs. A signal handler may call it while `run` waits."""


@dataclass(frozen=True)
class Submitted:
    """A command line that was sent to a cluster."""

    job: str
    report: str
    """The directory into which the job writes its report."""
    until: float
    """When the job must have ended, even if it waited for resources; in epoch seconds."""
    seconds: float = 7200.0
    """How long it may run after that wait."""
    runner: str = ""
    """The `runner` of its tables at that time."""
    emr: Mapping[str, Any] = field(default_factory=dict)
    """The keys of `emr:` at that time."""


class RemoteRunner(Protocol):
    """Sends a command line of compactor to a cluster, where it continues without this process. Any process can come back to it later."""

    def submit(self, arguments: Sequence[str]) -> Submitted:
        """Send a command line. Sending the same arguments again in the same attempt returns the same job."""

    def ended(self, submitted: Submitted) -> bool:
        """Return whether the job has ended. Raises Unavailable, and cancels the job, if its time is over."""

    def result(self, submitted: Submitted, log: Callable[[str], None]) -> Ended:
        """Return how the job ended. `log` is called with the lines of its log. Raises Unavailable if the result is unknown."""

    def links(self, submitted: Submitted) -> dict[str, str]:
        """Return pages about the job for people: name → address."""

    def usage(self, submitted: Submitted) -> JobUsage | None:
        """Return what a job that has ended used, as billed; None if the cluster does not report it."""

    def stop(self, submitted: Submitted) -> None:
        """Cancel the job. Harmless if it has ended."""

    def cancel(self) -> None:
        """Cancel the job that this object submitted, if any."""
