"""The keys of a table and of the top of compactor.yaml as pydantic models: names, meanings, defaults.

`config/sections.py` has the nested mappings. Errors of one value are found here, errors of several keys together in `config/rules.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from compactor.config import compound, values
from compactor.config.compound import Epoch
from compactor.config.sections import (
    S3,
    Airflow,
    Catalog,
    Checks,
    Compaction,
    Csv,
    Daily,
    Emr,
    Kafka,
    Limits,
    Metrics,
    Quarantine,
    Registry,
    RunnerName,
    Section,
    SparkConf,
    setting,
)
from compactor.config.values import Count, Duration, Flag, Names, Read, Size, Text, absolute, is_s3
from compactor.core.measures import price
from compactor.core.model.errors import ConfigError
from compactor.core.model.layout import join
from compactor.core.model.policy import EVOLVE, Policy, Protection
from compactor.core.settings.metrics import LOG, MetricsSettings
from compactor.core.settings.s3 import S3Settings
from compactor.core.sources.envelopes import BESIDE_VALUES, ENVELOPES

Envelope = Annotated[str, values.choice(*ENVELOPES)]
Format = Annotated[str, values.choice("auto", "parquet", "avro", "json", "csv")]


class Table(Section):
    """One table. Every key except `key` has a default."""

    key: Names | None = setting(
        None,
        "Key columns as the source spells them; [] if rows have no key. Required, unless `schema` names a subject <topic>-value: then the "
        "default is the newest schema of <topic>-key.",
    )
    increments: Text | None = setting(
        None,
        "Where the sink writes: a path below the warehouse, or an absolute path. strftime codes (%Y %m %d %H %M) mark the folder of an hour; "
        "without them it is one flat folder. Default: <table>/incremental/increment_%Y%m%d%H.",
    )
    envelope: Envelope = setting(
        "flat",
        "Format of a change: flat rows, Debezium, wal2json, files of AWS DMS, change events; full-load: each folder contains the whole table.",
    )
    format: Format = setting("auto", "File format; auto: by the file's suffix.")
    container: Annotated[str, values.choice("value", "kafka")] = setting(
        "value", "What the files contain: record values, or whole Kafka records. With `topic` the default is kafka."
    )
    topic: Text | None = setting(None, "Kafka topic that `compactor ingest` writes into `increments`, for sources without a sink.")
    partitions: Count | None = setting(
        None,
        "Number of Kafka partitions (or other ordered streams) that the changes come from. An hour is whole after each of them has brought a later "
        "change. Default: those that have brought changes.",
    )
    source_table: Text | None = setting(
        None, "schema.table to read from a stream of several tables; separate several by commas, * matches any part of a name. Default: all."
    )
    schema_: Annotated[str, Read(compound.schema, {"type": ["string", "object"]})] = setting(
        "infer", "infer (widest compatible type in the files), the path of an .avsc file, or {subject: name} in the registry.", alias="schema"
    )
    order_by: Names = setting((), "Columns that order the changes, most significant first. Default: by envelope and connector.")
    op: Text | None = setting(None, "(flat) Column with the operation. Default: op, else __op, else Op; if there is none, every row is an upsert.")
    op_map: Annotated[dict[str, str], Read(compound.op_map, compound.OP_MAP)] = setting(
        {}, "(flat) The source's operation codes: each to c, u, d, r, t or ignore."
    )
    delete_when: Text | None = setting(
        None,
        "(flat) SQL condition on a row that makes it a delete, such as status = 'deleted' or deleted_at IS NOT NULL. Its columns stay visible; rows "
        "for which it is false or null are what their operation says, else upserts.",
    )
    metadata_columns: Names = setting((), "(flat, dms) Columns such as __op or Op to store and show in the view.")
    types: Annotated[dict[str, str], Read(compound.declared_types, compound.COLUMN_TYPES)] = setting(
        {},
        "Column: its type, where values do not show it (CSV, JSON), such as {balance: decimal(10,2), born: date}; for numbers date_days, "
        "timestamp_millis, timestamp_micros, timestamp_nanos, time_millis, time_micros, time_nanos. Records with other values go to quarantine.",
    )
    csv: Csv = setting(Csv(), "Dialect of CSV files.")
    delete: Annotated[str, values.choice("hide", "soft", "hard")] = setting(
        "hide",
        "Deleted rows. hide: remove the row and keep a tombstone for tombstone_retention. soft: show the row with _deleted = true. hard: keep the "
        "tombstone only until its part of the base is rewritten.",
    )
    tombstone_retention: Duration = setting(
        7 * 86400.0, "How long a tombstone is kept. While it is kept, an older event that arrives late cannot restore the row.", written="7d"
    )
    truncate: Annotated[str, values.choice("apply", "ignore", "fail")] = setting(
        "apply", "What a TRUNCATE does: remove all rows, nothing, or stop the run."
    )
    unresolved: Annotated[str, values.choice("null", "fail")] = setting(
        "null", "A value that the source did not send and that no earlier event has: store null and count it, or stop the run."
    )
    beyond_retention: Annotated[str, values.choice("quarantine", "refuse", "apply")] = setting(
        "quarantine", "A change that is older than the purged tombstones and whose row is not stored: quarantine it, stop the run, or insert it."
    )
    write_mode: Annotated[str, values.choice("auto", "merge-on-read", "copy-on-write")] = setting(
        "auto", "What a commit writes. auto: a Delta, or a new base if half of the table changes; merge-on-read: a Delta; copy-on-write: a base."
    )
    compaction: Compaction = setting(Compaction(), "When the Delta is compacted into the base.")
    ignore: Annotated[tuple[str, ...], Read(values.patterns, values.NAMES)] = setting(
        BESIDE_VALUES,
        "Landed files that are no data: shell patterns of the path below the landing root; * stands for any text. Default: the files of keys and "
        "headers that Kafka Connect's S3 sink writes.",
        written=list(BESIDE_VALUES),
    )
    settle: Duration = setting(0.0, "Minimum age of a landed file, for sinks that write files in place.", written="0s")
    complete: Text | None = setting(
        None,
        "(full-load) Name of the file, such as _SUCCESS, that the source writes last: then the load is complete. Without it a load is complete when "
        "nothing was written into its folder for `settle`.",
    )
    hours_in: Text = setting("UTC", "Time zone in the names of hour folders. The names never order changes.")
    from_: Text | None = setting(None, "First folder to ingest, such as increment_2026112014; older folders are skipped.", alias="from")
    epoch: Annotated[Epoch, Read(compound.epoch, {"type": ["integer", "object"], "minimum": 0})] = setting(
        Epoch(),
        "Increase it by one after the source's positions have started again; or {number: N, from: first folder of the epoch, replace: true to "
        "remove the rows of earlier epochs}.",
        written=0,
    )
    archive: Annotated[str, values.choice("move", "copy", "keep")] | None = setting(
        None,
        "Ingested files: move them to <table>/archive, copy them there, or keep them in landing only. With copy and keep nothing in landing is "
        "changed, also not in that of another environment. Default: move; keep with live_view, with source_table, and if tables share landing files.",
    )
    archive_retention: Annotated[float | None, Read(values.retention, {"type": ["string", "null"], "examples": ["90d", "forever"]})] = setting(
        None, "Age at which vacuum deletes ingested files from the archive. Then the table cannot be rebuilt from it any more.", written="forever"
    )
    archive_kms_key: Annotated[str, Read(values.kms_key, {"type": ["string", "null"]})] = setting(
        "",
        "(S3) ARN of a KMS key for ingested files in the archive and for files in quarantine. Then only identities that may use this key can read "
        "them. Default: the key of all other files.",
        written=None,
    )
    publish_window: Duration = setting(600.0, "Time limit of publishing. A publish that takes longer is finished by the next run.", written="10min")
    view: Text | None = setting(None, "Name of the view; default: the table's name.")
    tables_in: Text | None = setting(None, "Database of <table>_base and <table>_delta; default: the view's.")
    live_view: Flag = setting(False, "(flat; parquet or avro) Also create <view>_live: the rows as the next run will leave them.")
    read_optimized: Flag = setting(
        False,
        "Also create <view>_ro: the rows as of the last compaction, at the cost of a bare scan (docs/readers.md#the-base-alone). Then a compaction "
        "rewrites every Segment with changes, not only those for which it pays off.",
    )
    timestamps: Annotated[str, values.choice("int96", "int64")] = setting(
        "int96", "Parquet type of timestamps. Hive 2 and 3 read int96 only. All tables of a file have the same."
    )
    cluster_by: Names = setting(
        (),
        "Columns that readers filter by, as the source spells them, most significant first. The files of a Segment are sorted by them, then by the "
        "key, so such filters skip data (docs/readers.md#filters-on-other-columns-than-the-key).",
    )
    target_file_bytes: Size = setting(256 << 20, "Target size of a Segment.", written="256 MB")
    small_batch: Size = setting(
        64 << 20, "Landed files up to this size are computed by one task: for few rows, exchanging them costs more than it gains.", written="64 MB"
    )
    comment: Text | None = setting(None, "Comment of the view.")
    engines: Annotated[tuple[str, ...], Read(values.engines, values.NAMES)] = setting(
        ("spark", "hive"), "Engines that read the view. For athena (with Glue) there is also <view>_athena in Athena's dialect."
    )
    change_feed: Annotated[str, Read(values.feed, {"type": ["boolean", "string"], "enum": [True, False, "net", "all"]})] = setting(
        "off",
        "Also create <table>_changes with the changes of every version. true or net: one change for each row that differs; all: also superseded "
        "and late events.",
        written=False,
    )
    feed_retention: Duration = setting(7 * 86400.0, "How long `vacuum` keeps the changes of a version.", written="7d")
    daily: Daily | None = setting(
        None, "Also create <view>_daily: the rows as they were at the end of each day (docs/readers.md#frozen-days); `daily: {}` has the defaults."
    )
    history: Flag = setting(False, "Also create <view>_history: every version of every row with its begin and end time (docs/readers.md#history).")
    track: Names = setting(
        (), "(history) Columns whose changes begin a new version, as the source spells them. Other columns are updated in the version. Default: all."
    )
    track_except: Names = setting((), "(history) All columns except these.")
    history_end: Annotated[str, Read(values.open_end, {"enum": ["null", "9999-12-31", None]})] = setting(
        "null", "(history) __end_time of the current version."
    )
    history_zero_length: Annotated[str, values.choice("keep", "drop")] = setting(
        "keep", "(history) Versions that end at the time they begin, as all but the last change of a row in one transaction do."
    )
    patch_rows: Flag = setting(False, "(flat) A column that a change does not have keeps its value. If false, it becomes null.")
    keep: Duration = setting(7 * 86400.0, "How long `vacuum` keeps a Snapshot after a newer one was published.", written="7d")
    keep_versions: Count = setting(2, "How many of the newest Snapshots are kept, whatever their age.")
    grace: Duration = setting(
        86400.0, "Delay before files are deleted that no kept Snapshot references. Longer than any query of the view and any run.", written="24h"
    )
    on_schema_change: Annotated[Policy, Read(compound.schema_change, compound.SCHEMA_CHANGE)] = setting(
        EVOLVE,
        "What a changed schema does: evolve (change the columns), freeze (keep the columns), fail (stop the table); or a mapping of kinds of change "
        "to these, and drop: keep or hide for removed columns. Dates become timestamps, texts bytes, and other values text, only if "
        "date_to_timestamp, string_to_bytes or to_string is set to evolve.",
        written="evolve",
    )
    quarantine: Quarantine = setting(
        Quarantine(), "How many invalid records a run may quarantine. With more, the table stops and all files stay in landing."
    )
    limits: Limits = setting(Limits(), "What a landed file may cost. A file or record beyond a limit is unusable and goes to quarantine.")
    columns: Annotated[tuple[Protection, ...], Read(compound.protections, {"type": "object"})] = setting(
        (),
        "Column: what happens to its values before anything is written. exclude: no such column; hash: HMAC-SHA256 with the secret in "
        "`hash_secret`; mask(4): all but the last 4 characters are *; null. Needs `archive_kms_key` or an explicit `archive:`, as raw files "
        "hold the values.",
    )
    hash_secret: Annotated[str, Read(values.secret, {"type": ["string", "null"]})] = setting(
        "",
        "ARN of a secret in AWS Secrets Manager: the text that keys the hashes of `columns` and of erased keys, read where Spark runs, with the role "
        "there. Default: the environment variable COMPACTOR_HASH_KEY.",
        written=None,
    )
    checks: Checks = setting(Checks(), "Checks before a commit.")
    notify: Annotated[tuple[tuple[str, ...], ...], Read(compound.notify, compound.NOTIFY)] = setting(
        (("log",),),
        "Targets of notices about a changed schema before its first use, and of Airflow's alerts about failed and late tables; one or a list: log, "
        "{command: [program, argument]} (JSON on its standard input), {webhook: https://..}, {sns: topic ARN}; or, with the address in the named "
        "variable, {webhook_env: NAME}, {slack: NAME}, {teams: NAME}, and {pagerduty: NAME} with the integration key.",
        written="log",
    )
    runner: RunnerName | None = setting(
        None,
        "Where Airflow runs Spark. local: in a process on the worker; emr-serverless, emr-steps: see `emr`. Default: the group's, else local.",
    )
    spark: SparkConf = setting({}, "(EMR) Spark settings of this table's jobs.")
    group: Text = setting("hourly", "The Airflow DAG that runs the table, `compact_<group>`.")
    owner: Text = setting("compactor", "Owner of the table's tasks in Airflow.")
    pool: Text = setting("default_pool", "Airflow pool of the table's runs; it must exist.")
    priority: Count = setting(1, "Priority in Airflow's queue; higher runs first.")
    retries: Annotated[int, Read(values.rows, {"type": "integer", "minimum": 0})] = setting(
        5, "How often Airflow retries a run after something was unavailable. Other errors are never retried."
    )
    retry_delay: Duration = setting(60.0, "Delay before the first retry. It doubles with each retry, up to 30 minutes.", written="1min")
    timeout: Duration = setting(2 * 3600.0, "Time limit of a run. Airflow ends a run that takes longer.", written="2h")
    deadline: Annotated[float | None, Read(values.deadline, {"type": ["string", "null"], "examples": ["50min", "none"]})] = setting(
        None, "(Airflow 3.2 or later) Send an alert to `notify` if files of the table still wait this long after the start of a run.", written="none"
    )


class Keys(Section):
    """The top of the file."""

    warehouse: Text = setting("warehouse", "Folder of the tables: a path, relative to this file, or s3://bucket/prefix.")
    catalog: Catalog = setting(Catalog(), "Where tables and views are registered.")
    registry: Registry = setting(Registry(), "Schema registry, for tables whose `schema` names a subject.")
    kafka: Kafka = setting(Kafka(), "The Kafka cluster, for `compactor ingest`.")
    s3: S3 = setting(S3(), "Access to S3.")
    airflow: Airflow = setting(Airflow(), "How Airflow runs the tables.")
    emr: Emr = setting(Emr(), "Where EMR jobs are sent.")
    metrics: Metrics = setting(Metrics(), "Where the measures and records of runs are sent.")
    defaults: Table = setting(Table(), "Keys of every table that does not set them itself.")
    tables: dict[str, Table] = Field(description="The tables, by name.")

    _file: Path = PrivateAttr(default_factory=Path)

    @property
    def file(self) -> Path:
        """Return the path of the configuration file."""
        return self._file

    @property
    def warehouse_dir(self) -> str:
        """Return the warehouse as an absolute path."""
        return absolute(self.warehouse, str(self._file.parent))

    @property
    def uses_s3(self) -> bool:
        """Return whether the warehouse or any landing folder is in S3."""
        return is_s3(self.warehouse_dir) or any(is_s3(table.increments or "") for table in self.tables.values())

    @property
    def metrics_target(self) -> MetricsSettings | None:
        """Return where metrics are sent, or None if they are not sent anywhere."""
        keys, home = self.metrics, str(self._file.parent)
        places = {"emf": keys.emf, "json": keys.json_, "prometheus": keys.prometheus, "openlineage": keys.openlineage}
        if not (keys.deployment or keys.pushgateway or any(places.values())):
            return None
        paths = {name: place if not place or place == LOG or "://" in place else absolute(place, home) for name, place in places.items()}
        return MetricsSettings(
            keys.deployment or "compactor",
            keys.namespace,
            keys.region,
            cloudwatch=keys.cloudwatch and keys.deployment is not None,
            pushgateway=keys.pushgateway,
            prices=price.Prices(**keys.prices.model_dump()),
            **paths,
        )

    def runner_of(self, name: str) -> str:
        """Return where Spark runs for a table: local, emr-serverless or emr-steps."""
        table = self.tables[name]
        group = self.airflow.groups.get(table.group)
        return table.runner or (group.runner if group else None) or "local"

    @property
    def s3_keys(self) -> dict[str, Any]:
        """Return the keys of `s3:` that are set in the file."""
        return {name: value for name, value in self.s3.model_dump().items() if value is not None}

    @property
    def s3_settings(self) -> S3Settings:
        """Return the access to S3: the keys of the file, and the environment for keys that are not set."""
        return S3Settings(**self.s3_keys).within(os.environ)

    def kafka_properties(self) -> dict[str, str]:
        """Return Kafka's client settings. Raises ConfigError for a file that cannot be read."""
        if self.kafka.properties is None:
            return {}
        path = Path(absolute(self.kafka.properties, str(self._file.parent)))
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._file}: key kafka.properties: {path} cannot be read: {error}") from None
        pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
        if any(not mark for _, mark, _ in pairs):
            # the line is not shown: it may contain a secret
            raise ConfigError(f"{self._file}: key kafka.properties: {path}: expected one name=value a line")
        return {name.strip(): value.strip() for name, _, value in pairs}

    @property
    def metastore_dir(self) -> str | None:
        """Return the folder of the embedded metastore, or None if a thrift:// metastore or Glue is used."""
        if self.catalog.uri is not None or self.catalog.type == "glue":
            return None
        folder = self.catalog.metastore_dir
        if folder or is_s3(self.warehouse_dir):
            # Derby needs a local disk
            return absolute(folder or "metastore", str(self._file.parent))
        return join(self.warehouse_dir, "metastore")
