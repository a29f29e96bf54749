"""The keys of compactor.yaml as pydantic models: names, meanings, defaults, and what one value alone can get wrong.

`config/rules.py` finds what several keys together get wrong.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from compactor.config import values
from compactor.config.values import Duration, Epoch, Names, Read, Size, Text, absolute, is_s3
from compactor.core.model.errors import ConfigError
from compactor.core.model.layout import join
from compactor.core.model.policy import EVOLVE, Policy
from compactor.core.model.spec import ALWAYS
from compactor.core.settings.s3 import S3Settings
from compactor.core.sources.envelopes import ENVELOPES


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)


def _key(default: Any, description: str, *, written: str | int | bool | None = None, alias: str | None = None) -> Any:
    """A field. `written`: its default as the file would say it, where that is not how it is computed with."""
    extra: dict[str, Any] = {} if written is None else {"default": written}
    return Field(default, description=description, alias=alias, json_schema_extra=extra)


class Compaction(_Keys):
    """When the base takes in what the Delta has gathered."""

    every: Duration = _key(6 * 3600.0, "Least time between two folds of a table.", written="6h")
    window: Annotated[tuple[int, int], Read(values.window, values.WINDOW)] = _key(
        ALWAYS,
        "When runs may fold: always; never (only `compactor run --compact`, which the DAG `maintenance` runs); or hours of the day in UTC, 22:00-05:30.",
        written="always",
    )


class Checks(_Keys):
    """What stops a table before a commit."""

    max_gone: Annotated[float, Read(values.share, {"type": ["number", "string"], "examples": [0.5, "50%"]})] = _key(
        1.0, "Share of the table's rows that may go in one run, by deletes or a TRUNCATE; with full loads, 0.3 from one to the next."
    )


class S3(_Keys):
    """How S3 is reached; what is not said comes from where every AWS tool takes it. Credentials are never here."""

    endpoint: Text | None = _key(None, "URL of a store that speaks S3; default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's.")
    region: Text | None = _key(None, "Region; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    path_style: Annotated[bool, Read(values.flag, {"type": "boolean"})] = _key(False, "Bucket in the path and not in the host name.")
    sse: Annotated[str, values.choice("", "sse-s3", "sse-kms", "dsse-kms")] = _key(
        "", "Encryption asked for with every object; default what the bucket says."
    )
    kms_key: Text | None = _key(None, "ARN of the key for sse-kms and dsse-kms; default the account's.")
    bucket_owner: Text | None = _key(None, "Account (12 digits, in quotes) that every bucket must belong to.")
    requester_pays: Annotated[bool, Read(values.flag, {"type": "boolean"})] = _key(False, "Whether we pay for requests to others' buckets.")


class Registry(_Keys):
    """Where schemas are registered. Passwords and tokens are named by environment variables, never written here."""

    url: Annotated[tuple[str, ...], Read(values.urls, {"type": ["string", "array"], "items": {"type": "string"}})] = _key(
        (), "Address of a registry that speaks Confluent's API; several of the same contents are tried in turn."
    )
    folder: Text | None = _key(None, "Folder of .avsc files instead, relative to this file.")
    context: Text | None = _key(None, "Context of Confluent's server.")
    username: Text | None = _key(None, "User; or username_env.")
    username_env: Text | None = _key(None, "Environment variable that holds the user.")
    password_env: Text | None = _key(None, "Environment variable that holds the password.")
    token_env: Text | None = _key(None, "Environment variable that holds a bearer token.")
    ca_file: Text | None = _key(None, "Certificates of the authorities to trust.")
    cert_file: Text | None = _key(None, "Our certificate.")
    key_file: Text | None = _key(None, "Its key.")
    proxy: Text | None = _key(None, "Proxy; default HTTPS_PROXY and its like.")


class Kafka(_Keys):
    """The cluster that `compactor ingest` reads."""

    servers: Text | None = _key(None, "Brokers to ask first: host:9092, several with commas.")
    properties: Text | None = _key(
        None, "File of Kafka's client settings (security.protocol and the like, one name=value a line), relative to this file. Keep it out of git."
    )


class Quarantine(_Keys):
    """How much of what landed may be unusable."""

    max_rows: Annotated[int | None, Read(values.rows, {"type": ["integer", "null"], "minimum": 0})] = _key(
        None, "Records (a file that cannot be opened counts as one) that one run puts aside at most; 0: none; default no limit."
    )
    max_share: Annotated[float, Read(values.share, {"type": ["number", "string"], "examples": [0.1, "10%"]})] = _key(
        0.5, "Share of a run's records, or of its files, that is put aside at most. A run of nothing but unusable input is always refused."
    )


class Csv(_Keys):
    """The dialect of CSV files, and where the names of their columns are."""

    header: Annotated[bool, Read(values.flag, {"type": "boolean"})] | None = _key(
        None, "Whether each file begins with its column names. Default: no for dms and where `columns` are given, else yes."
    )
    columns: Names = _key((), "Column names of files without header, in the files' order, without DMS's Op. Default: those of `schema`.")
    null_value: Annotated[Any, Read(values.null_value, {"type": ["string", "null"]})] = _key(
        None, "Text that stands for null (DMS: CsvNullValue). Default NULL for dms, else the empty value."
    )
    delimiter: Annotated[str, Read(values.character, {"type": "string"})] = _key(",", "Character between values; `\\t` is a tabulator.", written=",")
    quote: Annotated[str, Read(values.quote, {"type": "string"})] = _key('"', "Character around values with delimiters; '' for none.", written='"')


class Catalog(_Keys):
    """Where tables and views are registered."""

    database: Text = _key("default", "Database of the views; `compactor sql` runs in it.")
    uri: Text | None = _key(None, "Hive metastore, thrift://host:9083; without one, an embedded metastore.")
    metastore_dir: Text | None = _key(
        None, "Folder of the embedded metastore; default <warehouse>/metastore, with a warehouse in S3 metastore beside this file."
    )
    type: Annotated[str, values.choice("hive", "glue")] = _key("hive", "Kind of catalog: a Hive metastore, or AWS Glue.")
    region: Text | None = _key(None, "(glue) Region of the catalog; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    catalog_id: Annotated[str | None, Read(values.account, {"type": ["string", "null"], "pattern": r"^\d{12}$"})] = _key(
        None, "(glue) Account (12 digits, in quotes) whose catalog it is; default our own."
    )


class Metrics(_Keys):
    """Numbers for alarms, into CloudWatch after each run."""

    deployment: Text | None = _key(None, "Name of this deployment, the metrics' dimension; nothing is measured without it.")
    namespace: Text = _key("Compactor", "Namespace of the metrics.")
    region: Text | None = _key(None, "Region of CloudWatch; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")


RunnerName = Annotated[str, values.choice("local", "emr-serverless", "emr-steps")]


class Group(_Keys):
    """One DAG of Airflow's, `compact_<group>`, for the tables that name it."""

    schedule: Annotated[str | None, Read(values.cron, {"type": ["string", "null"]})] = _key(
        "10 * * * *", "When its tables are brought up to date: a cron line in UTC; none: only by hand."
    )
    wait: Duration = _key(
        1200.0, "How long after its end an hour of which nothing has landed is waited for; what comes later is the next run's.", written="20min"
    )
    partitioned: Annotated[bool, Read(values.flag, {"type": "boolean"})] = _key(
        False,
        "(hourly schedules; Airflow 3.2 on) Runs and asset events carry the hour as partition key; only partitioned DAGs can follow the assets then.",
    )
    runner: RunnerName | None = _key(None, "Where Spark runs for those of its tables that do not say themselves; default local.")
    at_once: Annotated[int, Read(values.count, {"type": "integer", "minimum": 1})] = _key(16, "Tasks of the DAG that run at the same time.")


Place = Annotated[str | None, Read(values.s3_place, {"type": ["string", "null"], "pattern": "^s3[an]?://"})]
"""A folder in S3."""


class Emr(_Keys):
    """Where the runners emr-serverless and emr-steps send their jobs."""

    job: Place = _key(None, "(EMR) Folder in S3 with what `compactor package` wrote.")
    plans: Place = _key(None, "(EMR) Folder in S3 for what each job is told.")
    logs: Place = _key(None, "(EMR) Folder in S3 for the reports of jobs, and EMR's own logs.")
    application: Text | None = _key(None, "(emr-serverless) Id of the application.")
    role: Text | None = _key(None, "(emr-serverless) ARN of the role that jobs run as.")
    cluster: Text | None = _key(None, "(emr-steps) Id of the cluster, j-...")
    region: Text | None = _key(None, "(EMR) Region; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    spark: Annotated[dict[str, str], Read(values.spark_conf, values.SPARK_CONF)] = _key({}, "(EMR) Settings of Spark's for every job.")


class Airflow(_Keys):
    """How Airflow runs the tables."""

    command: Annotated[tuple[str, ...], Read(values.words, {"type": "array", "items": {"type": "string"}})] = _key(
        (), "Program of the local runner, such as [/opt/compactor/bin/python, -m, compactor]. Default: the Python that Airflow runs in."
    )
    prefix: Annotated[str, Read(values.dag_prefix, {"type": "string"})] = _key(
        "", "Put before the name of every DAG, where one Airflow runs several configurations."
    )
    groups: dict[str, Group] = _key({}, "The groups of tables by name. The group `hourly` needs not be written.")
    maintenance: Annotated[str | None, Read(values.cron, {"type": ["string", "null"]})] = _key(
        "30 2 * * *", "When the DAG `maintenance` verifies all tables in full, and looks what vacuum would delete; none: only by hand."
    )
    schemas: Annotated[str | None, Read(values.cron, {"type": ["string", "null"]})] = _key(
        "*/15 * * * *", "When the DAG `sync_schemas` asks the registry for new schemas; none: only by hand."
    )
    status_page: Text | None = _key(None, "Address of a page about the tables, for people: the DAGs' documentation and alerts link to it.")
    answer_within: Duration = _key(72000.0, "How long a question to a person stays open in Airflow; then the answer is no.", written="20h")
    quarantine: Annotated[str | None, Read(values.cron, {"type": ["string", "null"]})] = _key(
        "45 6 * * *", "When the DAG `quarantine_alert` looks for what waits in quarantine; none: only by hand."
    )


Envelope = Annotated[str, values.choice(*ENVELOPES)]
Format = Annotated[str, values.choice("auto", "parquet", "avro", "json", "csv")]


class Table(_Keys):
    """One table. Everything but `key` has a default."""

    key: Names | None = _key(
        None,
        "Key columns as the source spells them; [] for a table whose rows have no key. Required, but for a table whose `schema` names a "
        "subject <topic>-value: then the newest schema of <topic>-key tells them.",
    )
    increments: Text | None = _key(
        None,
        "Where the sink writes: below the warehouse, or an absolute path. strftime codes (%Y %m %d %H %M) name the folder of "
        "an hour, none mean one flat folder. Default <table>/incremental/increment_%Y%m%d%H.",
    )
    envelope: Envelope = _key(
        "flat",
        "How a change is wrapped: flat rows, Debezium, wal2json, AWS DMS's files, change events; full-load: each folder holds the whole table.",
    )
    format: Format = _key("auto", "File format; auto tells it by the file's suffix.")
    container: Annotated[str, values.choice("value", "kafka")] = _key(
        "value", "What the sink wrote: values, or whole Kafka records. With `topic` the default is kafka."
    )
    topic: Text | None = _key(None, "Kafka topic that `compactor ingest` lands in `increments`, for those who have no sink.")
    source_table: Text | None = _key(
        None, "schema.table to take from a stream that several tables share; several with commas, * for any part of a name. Default all."
    )
    schema_: Annotated[str, Read(values.schema, {"type": ["string", "object"]})] = _key(
        "infer", "infer (from the files, widest compatible type), the path of an .avsc file, or {subject: name} in the registry.", alias="schema"
    )
    order_by: Names = _key((), "Columns that order the changes, most significant first; default per envelope and connector.")
    op: Text | None = _key(None, "(flat) Column with the operation. Default op, else __op, else Op; none: every row is an upsert.")
    op_map: Annotated[dict[str, str], Read(values.op_map, values.OP_MAP)] = _key({}, "(flat) Own operation codes: each to c, u, d, r, t, ignore.")
    metadata_columns: Names = _key((), "(flat, dms) Columns such as __op or Op that shall show in the view.")
    csv: Csv = _key(Csv(), "How CSV files are written.")
    delete: Annotated[str, values.choice("hide", "soft", "hard")] = _key(
        "hide",
        "Deleted rows: hide them and remember the delete for tombstone_retention; soft: show them with _deleted = true; hard: forget "
        "them as soon as their part of the base is rewritten.",
    )
    tombstone_retention: Duration = _key(
        7 * 86400.0, "How long a delete is remembered, so that a late older event cannot bring its row back.", written="7d"
    )
    truncate: Annotated[str, values.choice("apply", "ignore", "fail")] = _key("apply", "What a TRUNCATE does.")
    unresolved: Annotated[str, values.choice("null", "fail")] = _key(
        "null", "A value that the source did not send and nothing earlier tells: null and counted, or an error."
    )
    beyond_retention: Annotated[str, values.choice("quarantine", "refuse", "apply")] = _key(
        "quarantine", "A change older than purged tombstones, whose row is not stored: put it aside, refuse the run, or insert it."
    )
    write_mode: Annotated[str, values.choice("auto", "merge-on-read", "copy-on-write")] = _key(
        "auto", "What a commit writes: a Delta or a new base by size, always a Delta, always a base."
    )
    compaction: Compaction = _key(Compaction(), "When the base takes in the Delta.")
    settle: Duration = _key(0.0, "Least age of a landed file, for sinks that write files in place.", written="0s")
    complete: Text | None = _key(
        None,
        "(full-load) Name of the file, such as _SUCCESS, that is written into a folder last: the load is whole then. Without it a load is whole when "
        "nothing was written into its folder for `settle`.",
    )
    hours_in: Text = _key("UTC", "Time zone of the hour folders' names. They name folders, never an order.")
    from_: Text | None = _key(None, "First folder to take, such as increment_2026112014; older ones are skipped.", alias="from")
    epoch: Annotated[Epoch, Read(values.epoch, {"type": ["integer", "object"], "minimum": 0})] = _key(
        Epoch(),
        "Raise it by one when the source's positions have started again; or {number, from: first folder of it, replace: true when what was "
        "before shall go}.",
        written=0,
    )
    archive: Annotated[str, values.choice("move", "copy", "keep")] | None = _key(
        None,
        "Absorbed files: move to <table>/archive, copy there and leave the original, or keep in landing only. Default move; keep with "
        "live_view, with source_table, and where tables share landing files.",
    )
    archive_retention: Annotated[float | None, Read(values.retention, {"type": ["string", "null"], "examples": ["90d", "forever"]})] = _key(
        None, "Age at which vacuum deletes absorbed files from the archive; then the table can no longer be built again from it.", written="forever"
    )
    publish_window: Duration = _key(600.0, "A publish that takes longer is left to the next run.", written="10min")
    view: Text | None = _key(None, "Name of the view; default the table's.")
    tables_in: Text | None = _key(None, "Database of <table>_base and <table>_delta; default the view's.")
    live_view: Annotated[bool, Read(values.flag, {"type": "boolean"})] = _key(
        False, "(flat; parquet or avro) Also <view>_live, with what has landed and is not yet absorbed."
    )
    timestamps: Annotated[str, values.choice("int96", "int64")] = _key(
        "int96", "Parquet type of timestamps; Hive 2 and 3 read int96 only. One for all tables."
    )
    target_file_bytes: Size = _key(256 << 20, "Size a Segment grows to.", written="256 MB")
    comment: Text | None = _key(None, "Comment of the view.")
    engines: Annotated[tuple[str, ...], Read(values.engines, values.NAMES)] = _key(
        ("spark", "hive"), "Who reads the view; athena (with Glue) gets <view>_athena, in the form that it reads."
    )
    change_feed: Annotated[str, Read(values.feed, {"type": ["boolean", "string"], "enum": [True, False, "net", "all"]})] = _key(
        "off",
        "Also <table>_changes, with every version's changes: true or net: one change for each row that differs; all: the events that were "
        "superseded or came late too.",
        written=False,
    )
    feed_retention: Duration = _key(7 * 86400.0, "Age to which `vacuum` keeps the changes of a version.", written="7d")
    history: Annotated[bool, Read(values.flag, {"type": "boolean"})] = _key(
        False, "Also <view>_history: every version of every row, from when until when it was so (docs/history.md)."
    )
    track: Names = _key(
        (), "(history) Columns whose changes make a version, in the source's spelling; others are kept up to date in it. Default all."
    )
    track_except: Names = _key((), "(history) All columns but these.")
    history_end: Annotated[str, Read(values.open_end, {"enum": ["null", "9999-12-31", None]})] = _key(
        "null", "(history) __end_time of what is so still."
    )
    history_zero_length: Annotated[str, values.choice("keep", "drop")] = _key(
        "keep", "(history) Versions that ended at the time at which they began: of several changes in one transaction, all but the last."
    )
    patch_rows: Annotated[bool, Read(values.flag, {"type": "boolean"})] = _key(
        False, "(flat) A column that a row does not have keeps its value; without it, it becomes null."
    )
    keep: Duration = _key(7 * 86400.0, "Age to which `vacuum` keeps Snapshots, from when a newer one was shown.", written="7d")
    keep_versions: Annotated[int, Read(values.count, {"type": "integer", "minimum": 1})] = _key(
        2, "The newest so many Snapshots are kept whatever their age."
    )
    grace: Duration = _key(
        86400.0, "Delay before files go that no kept Snapshot names; longer than any query of the view and any run.", written="24h"
    )
    on_schema_change: Annotated[Policy, Read(values.schema_change, values.SCHEMA_CHANGE)] = _key(
        EVOLVE,
        "What a changed schema does: evolve (follow it), freeze (keep the columns as they are), fail (stop the table); or a mapping of kinds to "
        "these, with drop: keep or hide for removed columns. Only where date_to_timestamp or string_to_bytes is named do dates become timestamps, "
        "text bytes.",
        written="evolve",
    )
    quarantine: Quarantine = _key(Quarantine(), "How much unusable input a run puts aside; with more of it the table stops and all stays in landing.")
    checks: Checks = _key(Checks(), "Checks before a commit.")
    notify: Annotated[tuple[tuple[str, ...], ...], Read(values.notify, values.NOTIFY)] = _key(
        (("log",),),
        "Who is told of a changed schema before its first use, and by Airflow of failed and late tables, one or a list: log, "
        "{command: [program, argument]} (JSON on its standard input), {webhook: https://..}, {webhook_env: variable with the address}, "
        "{sns: topic ARN}.",
        written="log",
    )
    runner: RunnerName | None = _key(
        None,
        "Where Airflow has Spark run: local: in a process on the worker; emr-serverless or emr-steps as `emr` says. Default the group's, else local.",
    )
    spark: Annotated[dict[str, str], Read(values.spark_conf, values.SPARK_CONF)] = _key({}, "(EMR) Settings of Spark's for this table's jobs.")
    group: Text = _key("hourly", "The DAG of Airflow's that runs the table, `compact_<group>`.")
    owner: Text = _key("compactor", "Owner of the table's tasks in Airflow.")
    pool: Text = _key("default_pool", "Pool of Airflow's that the table's runs take a slot of; it must exist.")
    priority: Annotated[int, Read(values.count, {"type": "integer", "minimum": 1})] = _key(1, "Weight in Airflow's queue; larger comes first.")
    retries: Annotated[int, Read(values.rows, {"type": "integer", "minimum": 0})] = _key(
        5, "How often Airflow tries a run again that something unavailable stopped; what is refused is never tried again."
    )
    retry_delay: Duration = _key(60.0, "Time before the first of these; it doubles with each, up to 30 minutes.", written="1min")
    timeout: Duration = _key(2 * 3600.0, "How long a run may take before Airflow ends it.", written="2h")
    deadline: Annotated[float | None, Read(values.deadline, {"type": ["string", "null"], "examples": ["50min", "none"]})] = _key(
        None, "(Airflow 3.2 on) Time from a run's start after which `notify` is told when files of the table still wait.", written="none"
    )


class Keys(_Keys):
    """The file's top."""

    warehouse: Text = _key("warehouse", "Directory of the tables: a path, relative to this file, or s3://bucket/prefix.")
    catalog: Catalog = _key(Catalog(), "Where tables and views are registered.")
    registry: Registry = _key(Registry(), "Schema registry, for tables whose `schema` names a subject.")
    kafka: Kafka = _key(Kafka(), "The Kafka cluster, for `compactor ingest`.")
    s3: S3 = _key(S3(), "How S3 is reached.")
    airflow: Airflow = _key(Airflow(), "How Airflow runs the tables.")
    emr: Emr = _key(Emr(), "Where jobs on EMR are sent.")
    metrics: Metrics = _key(Metrics(), "Numbers for alarms.")
    defaults: Table = _key(Table(), "Keys for every table that does not say them itself.")
    tables: dict[str, Table] = Field(description="The tables, by name.")

    _file: Path = PrivateAttr(default_factory=Path)

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self._file

    @property
    def warehouse_dir(self) -> str:
        """The warehouse as an absolute path."""
        return absolute(self.warehouse, str(self._file.parent))

    @property
    def uses_s3(self) -> bool:
        """Whether any table is in S3."""
        return is_s3(self.warehouse_dir) or any(is_s3(table.increments or "") for table in self.tables.values())

    @property
    def measured(self) -> tuple[str, str, str | None] | None:
        """Namespace, deployment and region of the metrics; None when nobody asked for them."""
        said = self.metrics
        return None if said.deployment is None else (said.namespace, said.deployment, said.region)

    def runner_of(self, name: str) -> str:
        """Where Spark runs for a table: local, emr-serverless or emr-steps."""
        table = self.tables[name]
        group = self.airflow.groups.get(table.group)
        return table.runner or (group.runner if group else None) or "local"

    @property
    def s3_said(self) -> dict[str, Any]:
        """What the file says of S3."""
        return {name: value for name, value in self.s3.model_dump().items() if value is not None}

    @property
    def s3_settings(self) -> S3Settings:
        """How S3 is reached, with what the environment says where the file says nothing."""
        return S3Settings(**self.s3_said).within(os.environ)

    def kafka_properties(self) -> dict[str, str]:
        """Kafka's client settings. Raises ConfigError for a file that is not there or no such file."""
        if self.kafka.properties is None:
            return {}
        path = Path(absolute(self.kafka.properties, str(self._file.parent)))
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._file}: key kafka.properties: {path} cannot be read: {error}") from None
        pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
        if any(not mark for _, mark, _ in pairs):
            # what stands in the line may be a secret
            raise ConfigError(f"{self._file}: key kafka.properties: {path}: expected one name=value a line")
        return {name.strip(): value.strip() for name, _, value in pairs}

    @property
    def metastore_dir(self) -> str | None:
        """Folder of the embedded metastore; None when a thrift:// one, or Glue, is used."""
        if self.catalog.uri is not None or self.catalog.type == "glue":
            return None
        named = self.catalog.metastore_dir
        if named or is_s3(self.warehouse_dir):
            # Derby needs a local disk
            return absolute(named or "metastore", str(self._file.parent))
        return join(self.warehouse_dir, "metastore")
