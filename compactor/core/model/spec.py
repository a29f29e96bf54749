"""TableSpec: what the operator declares for one table, with all defaults filled in. Compactor never changes it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from compactor.core.model.policy import EVOLVE, Policy, Protection, Rule
from compactor.core.planning.daily import Daily
from compactor.core.sources.envelopes import BESIDE_VALUES, ENVELOPES, Envelope

ALWAYS, NEVER = (0, 24 * 60), (0, 0)
"""Daily windows as minutes of the day, UTC: (first minute, minute after the last one). A window that begins after its end spans midnight."""

ROW_ID = "_row_id"
"""The key column of a table without key: a non-null string that identifies the event that inserted the row."""

OPERATIONS = {
    "c": "c",
    "i": "c",
    "insert": "c",
    "create": "c",
    "u": "u",
    "update": "u",
    "upsert": "u",
    "d": "d",
    "delete": "d",
    "r": "r",
    "read": "r",
    "snapshot": "r",
    "t": "t",
    "truncate": "t",
}
"""Operation codes of sources, in lower case → c (create), u (update), d (delete), r (snapshot read), t (truncate). Others are refused."""


@dataclass(frozen=True)
class Csv:
    """The dialect of CSV files."""

    header: bool | None = None
    """Whether each file begins with the names of its columns. None: the envelope decides (DMS: no)."""
    columns: tuple[str, ...] = ()
    """The columns of files without header, in order, without DMS's `Op`."""
    null_value: str | None = None
    """The unquoted text that stands for null. None: the envelope decides (DMS: `NULL`, others: empty)."""
    delimiter: str = ","
    """The character between values."""
    quote: str = '"'
    """The character around quoted values; "" if no value is quoted."""


@dataclass(frozen=True)
class InputLimits:
    """What a landed file may cost. A file or record beyond them is unusable."""

    columns: int = 5000
    """The largest number of columns, with members of structs."""
    record_bytes: int = 64 << 20
    """The largest record of a text file, unpacked."""
    unpacked_bytes: int = 4 << 30
    """The largest size of what a file unpacks to that is unpacked on a disk of the driver (zstd)."""


@dataclass(frozen=True)
class TableSpec:
    """One table. Locations are full paths or URIs, durations are seconds, sizes are bytes. docs/configuration.md has all details."""

    name: str
    """Name in the configuration."""
    root: str
    """Directory of the table's own files."""
    landing: str
    """Directory into which the sink writes."""
    pattern: str
    """strftime pattern of the folders below `landing`; "" if all files lie in one folder."""
    database: str
    """Catalog database of the view."""
    view: str
    """Name of the view."""
    tables_in: str
    """Catalog database of the tables below the view."""
    key: tuple[str, ...]
    """Key columns in the source's spelling; () for a table without key."""
    envelope: str = "flat"
    """How the source wraps rows: a name in ENVELOPES."""
    format: str = "auto"
    """File format; `auto` takes it from the file names."""
    container: str = "value"
    """What the sink wrote: the values of Kafka records (`value`), or whole records (`kafka`)."""
    source_table: str | None = None
    """The source tables (`schema.table`, with `*` as a wildcard) whose events are taken; None for all."""
    topic: str | None = None
    """The Kafka topic that `compactor ingest` copies to landing; None without one."""
    partitions: int | None = None
    """Number of ordered streams (Kafka partitions) that the changes come from; None if unknown."""
    avro_schema: str | None = None
    """The declared Avro schema of the rows."""
    subject: str | None = None
    """Subject in the schema registry. The command line asks the registry before a run."""
    registered: tuple[int, int | None] | None = None
    """The newest schema of `subject` in the registry: (version, id or None)."""
    registered_key: bool = False
    """Whether the key columns come from the registry too."""
    order_by: tuple[str, ...] = ()
    """Order columns of Positions, most significant first; () for the envelope's default."""
    op: str | None = None
    """The column with the operation code."""
    op_map: tuple[tuple[str, str], ...] = ()
    """(code, operation) for codes of this source, in addition to OPERATIONS."""
    delete_when: str | None = None
    """SQL condition on the columns of a flat row that makes it a delete. The columns stay columns of the table."""
    metadata_columns: tuple[str, ...] = ()
    """Metadata columns of the records, such as `__op`, that are stored and shown like columns of the row."""
    types: tuple[tuple[str, str], ...] = ()
    """Column, as the source spells it → type, in the words of `core/schema/column_types.py`."""
    csv: Csv = Csv()
    """The dialect of CSV files."""
    delete: str = "hide"
    """What the view does with deleted rows: `hide` them, or show them with a mark (`soft`). `hard`: see docs/configuration.md."""
    tombstone_retention: float = 7 * 86400.0
    """Seconds that tombstones stay stored."""
    truncate: str = "apply"
    """What a truncate does: `apply` (remove all rows), `ignore`, or `fail`."""
    unresolved: str = "null"
    """What to do about values that no event contained: show `null`, or `fail`."""
    beyond_retention: str = "quarantine"
    """What to do about events older than purged tombstones whose row is not stored: `quarantine`, `refuse` the run, or `apply` (insert)."""
    patch_rows: bool = False
    """Whether a column that a row does not have keeps its value, instead of becoming null."""
    max_gone: float = 1.0
    """The largest share of rows that one run may remove."""
    columns: tuple[Protection, ...] = ()
    """Columns whose values are left out, hashed, masked or made null."""
    rules: tuple[Rule, ...] = ()
    """What must hold for a version before readers see it (`checks:`)."""
    quarantine_rows: int | None = None
    """The largest number of invalid records in one run; None for no limit."""
    quarantine_share: float = 0.5
    """The largest share of invalid records, or of unreadable files, in one run."""
    limits: InputLimits = InputLimits()
    """What a landed file may cost."""
    write_mode: str = "auto"
    """`merge-on-read` (write a Delta), `copy-on-write` (write a new base), or `auto`."""
    live_view: bool = False
    """Whether there is a view that includes landed files."""
    read_optimized: bool = False
    """Whether there is a view of the base alone. Then each compaction makes the base one version."""
    timestamps: str = "int96"
    """Parquet type of timestamps: `int96` or `int64`."""
    cluster_by: tuple[str, ...] = ()
    """Columns that the files of a Segment are sorted by before the key, in the source's spelling; () for the key alone."""
    target_file_bytes: int = 256 << 20
    """Bytes that a Segment should have."""
    small_batch: int = 64 << 20
    """Bytes of landed files up to which one task computes a batch."""
    compact_every: float = 6 * 3600.0
    """Least seconds between two compactions."""
    compact_window: tuple[int, int] = ALWAYS
    """When compactions may run: a daily window such as ALWAYS."""
    compact_budget: int | None = None
    """Bytes of Segments that the compactions of one run may rewrite, over all its tables; None for no limit."""
    compact_max_delta: int | None = None
    """Bytes of a Delta that is compacted outside of `compact_window` too; None for no limit."""
    compact_now: bool = False
    """Whether somebody asked for a compaction: the report of a run without one has the reason."""
    ignore: tuple[str, ...] = BESIDE_VALUES
    """Shell patterns of paths below the landing root that are no data."""
    settle: float = 0.0
    """Seconds that a landed file must not have changed before it is taken."""
    complete: str | None = None
    """Name of the marker file that completes the folder of a full load."""
    hours_in: str = "UTC"
    """Time zone of the hours in folder names."""
    first_folder: str | None = None
    """The first folder to take; None for all."""
    epoch: int = 0
    """The first member of new Positions. A higher one makes all later events newer than everything stored."""
    epoch_from: str | None = None
    """The first folder that belongs to `epoch`."""
    epoch_replaces: bool = False
    """Whether the new epoch removes all rows from before."""
    archive: str = "move"
    """What happens to raw files after the commit: `move` to the archive, `copy` to the archive, or `keep` in landing only."""
    archive_retention: float | None = None
    """Seconds that raw files stay in the archive; None for ever."""
    archive_kms_key: str = ""
    """ARN of the KMS key for raw files in archive and quarantine; "" for the key of all other files."""
    hash_secret: str = ""
    """ARN of the secret in AWS Secrets Manager that keys the hashes of columns and erased keys; "" for the environment variable HASH_KEY."""
    publish_window: float = 600.0
    """Seconds after which a publish that is not finished is left to the next run."""
    feed: str = "off"
    """The change feed: `net` (one change per key and version), `all` (every event), or `off`."""
    feed_retention: float = 7 * 86400.0
    """Seconds that feed parts stay."""
    history: bool = False
    """Whether all versions of rows are kept (`<view>_history`)."""
    track: tuple[str, ...] = ()
    """Columns whose changes begin a new version of a row; () for all."""
    track_except: tuple[str, ...] = ()
    """Columns whose changes begin no new version."""
    history_end: str = "null"
    """`__end_time` of current versions: `null` or `9999-12-31`."""
    history_zero_length: str = "keep"
    """What to do with versions that end when they begin: `keep` or `drop`."""
    daily: Daily | None = None
    """Which days are frozen (`<view>_daily`); None for none."""
    keep: float = 7 * 86400.0
    """Seconds that vacuum keeps a Snapshot after readers had a newer one."""
    keep_versions: int = 2
    """Number of the newest Snapshots that vacuum keeps at any age."""
    grace: float = 86400.0
    """Seconds between giving a file up and deleting it. Longer than any query and any run."""
    comment: str = ""
    """Comment of the view."""
    engines: tuple[str, ...] = ("spark", "hive")
    """Engines that read the view."""
    policy: Policy = EVOLVE
    """What to do about schema changes."""
    notify: tuple[tuple[str, ...], ...] = (("log",),)
    """Who is notified of schema changes (`core/results/notice.py`, Target)."""

    @property
    def source(self) -> Envelope:
        """Return the envelope, which has the capabilities of the table's source."""
        return ENVELOPES[self.envelope]

    @property
    def streams(self) -> int | None:
        """Return the number of ordered streams that the changes come from; None if unknown."""
        return self.partitions or (1 if self.source.one_stream else None)

    @property
    def soft(self) -> bool:
        """Return whether deleted rows stay in the view, with a mark."""
        return self.delete == "soft"

    @property
    def registry_version(self) -> tuple[str, int, int | None] | None:
        """Return (subject, version, id or None) of the newest schema in the registry; None if the registry was not asked."""
        return None if self.subject is None or self.registered is None else (self.subject, *self.registered)

    @property
    def quotes_records(self) -> bool:
        """Return whether reports may quote landed records: not those with protected columns, nor those that have a key of their own."""
        return not self.columns and not self.archive_kms_key

    @property
    def keyless(self) -> bool:
        """Return whether the table has no key."""
        return not self.key

    @property
    def max_gone_in_run(self) -> float:
        """The share of rows that may go in one run. Full loads are compared one by one instead: a run may hold a month of them."""
        return 1.0 if self.source.full_loads else self.max_gone

    @property
    def unguarded(self) -> TableSpec:
        """Return the spec for reading increments again, with all limits off: records and deletions that were accepted before are accepted again."""
        return dataclasses.replace(self, quarantine_rows=None, quarantine_share=1.0, max_gone=1.0)

    @property
    def compacting_now(self) -> TableSpec:
        """Return the spec with compactions allowed at any time, of any size."""
        return dataclasses.replace(self, compact_now=True, compact_every=0.0, compact_window=ALWAYS, compact_budget=None)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for a job on a cluster."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableSpec:
        """Return the TableSpec of a JSON object made by `to_json`."""
        values = dict(data)
        for name in ("key", "order_by", "metadata_columns", "engines", "track", "track_except", "compact_window", "cluster_by", "ignore"):
            values[name] = tuple(values[name])
        values["registered"] = tuple(values["registered"]) if values["registered"] else None
        policy = values["policy"]
        values["policy"] = Policy(**{**policy, "kinds": tuple((kind, each) for kind, each in policy["kinds"])})
        values["notify"] = tuple(tuple(target) for target in values["notify"])
        values["daily"] = Daily(**values["daily"]) if values["daily"] else None
        values["limits"] = InputLimits(**values["limits"])
        csv = values["csv"]
        values["csv"] = Csv(**{**csv, "columns": tuple(csv["columns"])})
        values["types"] = tuple((name, kind) for name, kind in values["types"])
        values["columns"] = tuple(Protection(**rule) for rule in values["columns"])
        values["rules"] = tuple(Rule.from_json(rule) for rule in values["rules"])
        values["op_map"] = tuple((code, op) for code, op in values["op_map"])
        return cls(**values)
