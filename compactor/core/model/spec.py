"""TableSpec: what the operator declares for one table, with all defaults filled in. Compactor never changes it.

Each field of `TableKeys` declares one key of compactor.yaml: its name, form, default, and below it the text for users. The checks of the file, its
JSON schema and the reference in docs/configuration.md come from here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from compactor.core.model import policy as policies
from compactor.core.model.envelopes import BESIDE_VALUES, ENVELOPES, Envelope
from compactor.core.model.inputs import LIMITED, UNLIMITED, InputLimits
from compactor.core.model.layout import Layout
from compactor.core.model.policy import EVOLVE, Checks, Daily, Policy, Protection, Rule
from compactor.core.settings.forms import (
    ALWAYS,
    Character,
    Count,
    Duration,
    Flag,
    Form,
    Names,
    Number,
    Section,
    Share,
    Size,
    Text,
    Window,
    matching,
    pairs,
    some_of,
    tolerance,
)

ROW_ID = "_row_id"
"""The key column of a table without key: a non-null string that identifies the event that inserted the row."""

OPERATIONS = {
    **dict.fromkeys(("c", "i", "insert", "create"), "c"),
    **dict.fromkeys(("u", "update", "upsert"), "u"),
    **dict.fromkeys(("d", "delete"), "d"),
    **dict.fromkeys(("r", "read", "snapshot"), "r"),
    **dict.fromkeys(("t", "truncate"), "t"),
}
"""Operation codes of sources, in lower case → c (create), u (update), d (delete), r (snapshot read), t (truncate). Others are refused."""

SUBJECT = "subject:"
"""Prefix of a `schema` that is a subject of the registry."""


def declared_schema(value: str | dict[str, str]) -> str:
    """Return the source of a table's schema as text: `infer`, the path of an .avsc file, or SUBJECT and the subject's name."""
    if isinstance(value, dict):
        if set(value) != {"subject"} or not value["subject"]:
            raise ValueError(value)
        return SUBJECT + value["subject"]
    if value != "infer" and not value.endswith(".avsc"):
        raise ValueError(value)
    return value


@dataclass(frozen=True)
class Csv(Section):
    """The dialect of CSV files and the names of their columns."""

    header: Flag | None = None
    """Whether each file begins with its column names. Default: false for dms and if `columns` is set, else true."""
    columns: Names = ()
    """Column names of files without header, in the files' order, without DMS's Op column. Default: those of `schema`."""
    null_value: Annotated[str | None, Form(source=str | None, convert=lambda text: "NULL" if text is None else text)] = None
    """Text that means null (DMS: CsvNullValue), such as \\N. Default: NULL for dms, else the empty value."""
    delimiter: Character = ","
    """Character between values; \\t is a tab."""
    quote: Annotated[str, Form("one character, or '' for none", limits=(("max_length", 1),))] = '"'
    """Character around values that contain delimiters; '' for none."""
    escape: Annotated[str | None, Form("\\\\, or '' for none", source=Literal["\\", ""] | None)] = None
    """(quote: '') \\\\ if it begins \\t, \\n and the like (COPY, MySQL), '' if it is text (Hive). Unset: text; with null_value \\N unusable."""


@dataclass(frozen=True)
class TableLocation:
    """The name of a table, and where it is. Locations are full paths or URIs."""

    name: str
    root: str
    """Directory of the table's own files."""
    landing: str
    """Directory into which the sink writes."""
    pattern: str
    """strftime pattern of the folders below `landing`; "" if all files lie in one folder."""
    database: str
    """Catalog database of the view."""
    view: str
    tables_in: str
    """Catalog database of the tables below the view."""
    key: tuple[str, ...]
    """Key columns in the source's spelling; () for a table without key."""

    @property
    def layout(self) -> Layout:
        return Layout(self.root, self.landing)


@dataclass(frozen=True)
class TableKeys(Section):
    """The keys of a table in compactor.yaml that its runs need. Durations are seconds, sizes are bytes."""

    key: Names | None = None
    """Key columns as the source spells them, in order; [] if rows have no key. Cannot be changed later without a rebuild. Required, unless `schema`
    names a subject <topic>-value: then the default is the newest schema of <topic>-key."""
    envelope: Literal["flat", "debezium", "wal2json", "dms", "change-event", "full-load"] = "flat"
    """Format of a change: flat rows, Debezium, wal2json, files of AWS DMS, change events; full-load: each folder contains the whole table
    (docs/sources.md)."""
    format: Literal["auto", "parquet", "avro", "json", "csv"] = "auto"
    """File format; auto: by the file's suffix."""
    container: Literal["value", "kafka"] | None = None
    """What the files contain: record values, or whole Kafka records. Default: value; with `topic` kafka."""
    topic: Text | None = None
    """Kafka topic that `compactor ingest` writes into `increments`, for sources without a sink (docs/sources.md#kafka-without-a-sink)."""
    partitions: Count | None = None
    """Number of Kafka partitions (or other ordered streams) that the changes come from. An hour is whole after each of them has brought a later
    change (docs/semantics.md#whole-hours). Default: those that have brought changes; 1 for dms."""
    source_table: Text | None = None
    """schema.table to read from a shared stream; several by commas, * matches any text. Keep former names for old files. Default: all."""
    schema_: Annotated[str, Form("`infer`, the path of an .avsc file, or {subject: name}", str | dict[str, str], declared_schema)] = "infer"
    """infer: the widest compatible type in the files; the path of an .avsc file; or {subject: name} in the `registry`."""
    order_by: Names = ()
    """Columns that order the changes, most significant first. Cannot be changed after the first commit. Default: by envelope and connector
    (docs/sources.md#the-order-of-events)."""
    op: Annotated[str | None, Form("the name of a column, or '' for none")] = None
    """(flat) Column with the operation; '' for none, so that a column op is stored. Default: __op, else op or Op; if there is none, every row is an
    upsert."""
    op_map: Annotated[tuple[tuple[str, str], ...], pairs(Literal["c", "u", "d", "r", "t", "ignore"], "{I: c, U: u, D: d}")] = ()
    """(flat) The source's operation codes, each to c, u, d, r, t or ignore: {I: c, UB: ignore, UA: u, D: d}."""
    delete_when: Text | None = None
    """(flat) SQL condition on a row that makes it a delete, such as status = 'deleted'. Its columns stay visible; rows for which it is false or null
    are what their operation says, else upserts (docs/sources.md#deletes-without-an-operation)."""
    metadata_columns: Names = ()
    """(flat, dms) Columns such as __op or Op to store and show in the view."""
    types: Annotated[tuple[tuple[str, str], ...], pairs(str, "{born: date}")] = ()
    """Column: its type, where values do not show it (CSV, JSON), such as {balance: decimal(10,2), born: date}; for numbers date_days,
    timestamp_millis, timestamp_micros, timestamp_nanos, time_millis, time_micros, time_nanos. Records with other values go to quarantine
    (docs/sources.md#declared-types)."""
    csv: Csv = Csv()
    """Dialect of CSV files (docs/sources.md#csv)."""
    patch_rows: Flag = False
    """(flat) A column that a change does not have keeps its value. If false, it becomes null."""
    increments: Text | None = None
    """Where the sink writes: a path below the warehouse, or an absolute path. The folder pattern begins with the first part that has a %: %Y, %m, %d,
    %H, %M; without leading zeros %-m, %-d, %-H. Without a pattern it is one flat folder. {region}, or another name: several sources of one shape;
    what stands there is a column, part of the key (docs/sources.md#shards). Default: <table>/incremental/increment_%Y%m%d%H."""
    ignore: Annotated[tuple[Text, ...], Form("a list of patterns such as ['*.keys.*']")] = BESIDE_VALUES
    """Landed files that are no data: shell patterns of the path below the landing root; * stands for any text. The list replaces the default, the
    files of keys and headers that Kafka Connect's S3 sink writes."""
    settle: Duration = 0.0
    """Minimum age of a landed file, for sinks that write files in place."""
    complete: Text | None = None
    """(full-load) Name of the file, such as _SUCCESS, that the source writes last: then the load is complete. Without it a load is complete when
    nothing was written into its folder for `settle`."""
    hours_in: Text = "UTC"
    """Time zone in the names of hour folders, such as Europe/Berlin. The names never order changes."""
    first_folder: Text | None = None
    """First folder to ingest, such as increment_2026112014; older folders are skipped."""
    archive: Literal["move", "copy", "keep"] | None = None
    """Ingested files: move them to <table>/archive, copy them there, or keep them in landing only. With copy and keep nothing in landing is changed,
    also not in that of another environment. Default: move; keep with live_view, with source_table, and if tables share landing files."""
    archive_retention: Duration | None = None
    """Age at which vacuum deletes ingested files from the archive. Then the table cannot be rebuilt from it any more. Default: never."""
    archive_kms_key: (
        Annotated[
            str,
            matching(
                r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+", "the ARN of a KMS key, such as arn:aws:kms:eu-central-1:123456789012:key/1234abcd"
            ),
        ]
        | None
    ) = None
    """(S3) ARN of a KMS key for ingested files in the archive and for files in quarantine. Then only identities that may use this key can read them
    (docs/design/privacy.md). Files that were archived before: `compactor reencrypt`. Default: the key of all other files."""
    tombstone_retention: Duration = 7 * 86400.0
    """How long a tombstone keeps older events that arrive late from restoring the row (docs/semantics.md#deletes-and-tombstones)."""
    beyond_retention: Literal["quarantine", "refuse", "apply"] = "quarantine"
    """A change that is older than the purged tombstones and whose row is not stored: quarantine it, stop the run, or insert it."""
    quarantine: Annotated[
        tuple[int | None, float],
        Form(
            "a number of records or a share, such as 100 or 10%",
            str,
            tolerance,
            text=lambda limit: f"{limit[1]:.0%}",
            json={"type": ["integer", "string"]},
        ),
    ] = (None, 0.5)
    """How many invalid records one run may quarantine while it ingests the rest: a number (an unreadable file counts as one), or a share of the run's
    records and of its files, which counts from ten of them on. With more, the table stops and all files stay in landing. 0: none. A run whose input
    is all invalid always stops."""
    limits: Annotated[InputLimits, Form("true or false", bool, lambda on: LIMITED if on else UNLIMITED, text=lambda limits: "true")] = LIMITED
    """Whether a file with more than 5,000 columns, a record of more than 64 MB of text, or a .zst file that unpacks to more than 4 GB is unusable and
    goes to quarantine. Without limits, Spark's driver needs the memory and the disk (docs/sources.md#limits)."""
    delete: Literal["hide", "soft", "hard"] = "hide"
    """Deleted rows. hide: remove the row and keep a tombstone for tombstone_retention. soft: show the row with _deleted = true. hard: keep the
    tombstone only until its part of the base is rewritten."""
    columns: Annotated[
        tuple[Protection, ...], Form(source=dict[str, str | None], convert=policies.protections, mapping="{ssn: exclude, card: mask(4)}")
    ] = ()
    """Column: what happens to its values before anything is written (docs/design/privacy.md). exclude: no such column; hash: HMAC-SHA256 with the
    secret in `hash_secret`; mask(4): all but the last 4 characters are *; null. Needs `archive_kms_key` or an explicit `archive`, as raw files hold
    the values."""
    hash_secret: (
        Annotated[
            str,
            matching(
                r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+",
                "the ARN of a secret in AWS Secrets Manager, such as arn:aws:secretsmanager:eu-central-1:123456789012:secret:hashes-AbCdEf",
                hidden=True,
            ),
        ]
        | None
    ) = None
    """ARN of a secret in AWS Secrets Manager: the text that keys the hashes of `columns` and of erased keys, read where Spark runs, with the role
    there. Default: the environment variable COMPACTOR_HASH_KEY."""
    max_gone: Share | None = None
    """Maximum share of the table's rows that one run may delete, by deletes or a TRUNCATE. With more, the table stops before the commit. Default:
    no limit; for full loads 30%."""
    rules: Annotated[tuple[Rule, ...], Form(source=Checks, convert=lambda checks: checks.rules)] = ()
    """What must hold for a version before readers see it (docs/design/proofs.md). A version that breaks a rule is committed and not shown."""
    truncate: Literal["apply", "ignore", "fail"] = "apply"
    """What a TRUNCATE does: remove all rows, nothing, or stop the run."""
    epoch: Number = 0
    """Increase it by one after the source's positions have started again."""
    epoch_from: Text | None = None
    """First folder of the epoch, such as increment_2026112014. Default: the files of the next run."""
    epoch_replaces: Flag = False
    """Whether the new epoch, a new full load, removes the rows of earlier epochs."""
    write_mode: Literal["auto", "merge-on-read", "copy-on-write"] = "auto"
    """What a commit writes. auto: a Delta, or a new base if half of the table changes; merge-on-read: a Delta, except for the first load, a truncate,
    or a changed type; copy-on-write: a new base, so that the view reads no Delta."""
    compact_every: Duration = 6 * 3600.0
    """Minimum time between two compactions of the Delta into the base. A Delta that is too large for a broadcast is compacted sooner."""
    compact_window: Window = ALWAYS
    """When runs may compact: always; never (only `compactor run --compact`, which the DAG `maintenance` runs too); or hours of the day in UTC, such
    as 22:00-05:30. Outside the window the Delta grows and reads get slower."""
    compact_budget: Size | None = None
    """Bytes that the compactions of one run may rewrite, over all its tables, such as 20 GB; the largest Deltas come first
    (docs/operations.md#a-budget-for-compactions). `compactor run --compact` has no limit. Default: no limit."""
    cluster_by: Names = ()
    """Columns that readers filter by, as the source spells them: files are sorted by them, then by the key, so that such filters skip data
    (docs/readers.md#filters-on-other-columns-than-the-key)."""
    parquet: Literal["hive", "standard"] = "hive"
    """Form of new Parquet files. hive: what Hive 2 and 3 can read (timestamps as INT96, lists, maps and decimals in Hive's layout, snappy). standard:
    the format's own types, by which filters on timestamps skip data, and zstd, which needs half of the bytes. All tables of a file have the same."""
    keep: Duration = 7 * 86400.0
    """How long `vacuum` keeps a Snapshot after a newer one was published, and its changes in the change feed. The two newest are kept at any age."""
    grace: Duration = 86400.0
    """Delay before files are deleted that no kept Snapshot references. Longer than any query of the view and any run."""
    policy: Annotated[
        Policy,
        Form(
            source=Any,
            convert=policies.policy,
            text=lambda policy: policy.standard,
            json={"anyOf": [{"enum": [*policies.POLICIES]}, {"type": "object"}]},
        ),
    ] = EVOLVE
    """What a changed schema does (docs/sources.md#when-a-schema-changes): evolve (change the columns if no value is lost), freeze (keep the
    columns), fail (stop the table); or a mapping of `default` and the kinds added, removed, renamed, replaced, widened, date_to_timestamp,
    string_to_bytes and to_string to these, and `drop: hide` for removed columns. The last three kinds are followed only if they are set to evolve."""
    view: Text | None = None
    """Name of the view; default: the table's name."""
    tables_in: Text | None = None
    """Database of <table>_base and <table>_delta; default: the view's."""
    feed: Annotated[str, Form("true or false", bool, lambda on: "net" if on else "off", text=lambda feed: str(feed != "off").lower())] = "off"
    """Also create <table>_changes with the changes of every version, one for each row that differs (docs/readers.md#the-change-feed)."""
    live_view: Flag = False
    """(flat; parquet or avro) Also create <view>_live: the rows as the next run will leave them (docs/semantics.md#live-view)."""
    read_optimized: Flag = False
    """Also create <view>_ro: the rows as of the last compaction, at the cost of a bare scan (docs/readers.md#the-base-alone). Then a compaction
    rewrites every Segment with changes, not only those for which it pays off."""
    iceberg: Annotated[tuple[Literal["base", "current"], ...], some_of("base", "current")] = ()
    r"""Also create \<view>_iceberg with the rows of `read_optimized` (base), or \<view>_iceberg_current with those of the view (docs/native.md)."""
    daily: Daily | None = None
    """Also create <view>_daily: the rows as they were at the end of each day (docs/readers.md#frozen-days). `daily: {}` has the defaults."""
    history: Flag = False
    """Also create <view>_history: every version of every row with its begin and end time (docs/readers.md#history)."""
    track: Names = ()
    """(history) Columns whose changes begin a new version, as the source spells them. Other columns are updated in the version. Default: all."""
    evidence: Text | None = None
    """(written by runs) Why `discover` made the table, and where its key comes from."""


@dataclass(frozen=True)
class TableSpec(TableKeys, TableLocation):
    """One table: its keys, and what follows from them, from other keys and from the registry."""

    # keys whose defaults depend on other keys are filled in
    key: tuple[str, ...] = ()
    container: Literal["value", "kafka"] = "value"
    archive: Literal["move", "copy", "keep"] = "move"
    archive_kms_key: str = ""
    hash_secret: str = ""
    max_gone: float = 1.0
    view: str = ""
    tables_in: str = ""
    shard: str = ""
    """The column with the shard that a row comes from, out of `pattern`; "" without shards."""
    avro_schema: str | None = None
    """The declared Avro schema of the rows."""
    subject: str | None = None
    """Subject in the schema registry. The command line asks the registry before a run."""
    registered: tuple[int, int | None] | None = None
    """The newest schema of `subject` in the registry: (version, id or None)."""
    registered_key: bool = False
    """Whether the key columns come from the registry too."""
    athena: bool = False
    """Whether Athena gets each view in its dialect, too: with Glue."""
    quarantine_rows: int | None = None
    """The largest number of invalid records in one run; None for no limit."""
    quarantine_share: float = 0.5
    """The largest share of invalid records, or of unreadable files, in one run."""
    notify: tuple[tuple[str, ...], ...] = (("log",),)
    """Who is notified of schema changes (`core/results/notice.py`, Target)."""
    compact_now: bool = False
    """Whether somebody asked for a compaction: the report of a run without one has the reason."""
    feed_retention: float = 7 * 86400.0
    """Seconds that feed parts stay: as `keep`."""
    keep_versions: int = 2
    """Number of the newest Snapshots that vacuum keeps at any age."""
    target_file_bytes: int = 256 << 20
    """Bytes that a Segment should have."""
    small_batch: int = 64 << 20
    """Bytes of landed files up to which one task computes a batch: for few rows, exchanging them between tasks costs more than it gains."""
    publish_window: float = 600.0
    """Seconds after which a publish that is not finished is left to the next run."""

    def in_one_task(self, *sizes: int) -> bool:
        """Return whether one task computes what is read from files of these bytes. The one meaning of "small"."""
        return all(size <= self.small_batch for size in sizes)

    @property
    def source(self) -> Envelope:
        """Return the envelope, which has the capabilities of the table's source."""
        return ENVELOPES[self.envelope]

    @property
    def row_key(self) -> tuple[str, ...]:
        """Return the key columns with that of the shard, in the source's spelling: what identifies a row."""
        return (self.shard, *self.key) if self.shard and self.key else self.key

    @property
    def streams(self) -> int | None:
        """Return the number of ordered streams that the changes come from; None if unknown."""
        # files that name no partition come from a stream of each shard
        return None if self.shard and self.partitions == 1 else self.partitions or (1 if self.source.one_stream else None)

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
