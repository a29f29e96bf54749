"""The nested mappings of compactor.yaml as pydantic models: names, meanings and defaults of their keys.

`config/keys.py` has the tables and the top of the file.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from compactor.config import compound, rule_values, values
from compactor.config.values import Count, Duration, Flag, Names, Read, Size, Text
from compactor.core.model import policy
from compactor.core.model.policy import Rule
from compactor.core.model.spec import ALWAYS


class Section(BaseModel):
    """A mapping of keys. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)


def setting(default: Any, description: str, *, written: str | int | bool | list[str] | None = None, alias: str | None = None) -> Any:
    """Return a field. `written`: the default as one would write it in the file, if the parsed value looks different."""
    extra: dict[str, Any] = {} if written is None else {"default": written}
    return Field(default, description=description, alias=alias, json_schema_extra=extra)


class Compaction(Section):
    """When and how often the Delta is compacted into the base."""

    every: Duration = setting(6 * 3600.0, "Minimum time between two compactions of a table.", written="6h")
    window: Annotated[tuple[int, int], Read(values.window, values.WINDOW)] = setting(
        ALWAYS,
        "When runs may compact: always; never (only `compactor run --compact`, which the DAG `maintenance` runs too); or hours of the day in UTC, "
        "22:00-05:30.",
        written="always",
    )
    max_delta: Annotated[int | None, Read(values.optional_size, values.OPTIONAL_SIZE)] = setting(
        None, "Size of a Delta that is compacted outside of `window` too, such as 2 GB. Default: none is."
    )
    budget: Annotated[int | None, Read(values.optional_size, values.OPTIONAL_SIZE)] = setting(
        None,
        "Bytes that the compactions of one run may rewrite, over all tables of the run, such as 20 GB. The largest Deltas come first, the rest waits "
        "for the next run. Default: no limit. `compactor run --compact` has none.",
    )


class Daily(Section):
    """Which days are frozen."""

    keep: Count = setting(400, "Number of days to keep. Vacuum deletes files that only older days need.")
    time_zone: Text = setting("UTC", "Time zone whose midnights end the days, such as Europe/Berlin.")


class Checks(Section):
    """What must hold before a commit (`max_gone`), and for a version before readers see it (all others)."""

    max_gone: Annotated[float, Read(values.share, {"type": ["number", "string"], "examples": [0.5, "50%"]})] = setting(
        1.0, "Maximum share of the table's rows that one run may delete, by deletes or a TRUNCATE. Default 1.0; for full loads 0.3."
    )
    row_change: Annotated[float | None, Read(rule_values.change, {"type": ["number", "string", "null"], "examples": [0.5, "200%"]})] = setting(
        None, "Maximum change of the number of rows against the version that readers see, as a share of it."
    )
    unique: Annotated[tuple[tuple[str, ...], ...], Read(rule_values.unique, {"type": "array", "items": {"type": ["string", "array"]}})] = setting(
        (), "Columns of the view, or lists of columns, whose values are unique. Rows with a null in them are left out."
    )
    null_share: Annotated[tuple[tuple[str, float], ...], Read(rule_values.null_share, {"type": "object"})] = setting(
        (), "Column of the view: maximum share of nulls, such as {email: 5%, name: 0}."
    )
    accepted: Annotated[tuple[tuple[str, tuple[str, ...]], ...], Read(rule_values.accepted, {"type": "object"})] = setting(
        (), "Column of the view: list of its values, such as {status: [active, left]}. Null is always accepted."
    )
    fresh: Annotated[float | None, Read(rule_values.fresh, {"type": ["string", "null"], "examples": ["6h"]})] = setting(
        None, "Maximum age of the newest change, by the source's time."
    )
    sql: Annotated[tuple[tuple[str, str], ...], Read(rule_values.queries, {"type": "object"})] = setting(
        (), "Name: a query that returns offending rows. The view's name means the new version, a name with a database what readers see."
    )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return what must hold for a version before readers see it."""
        rules = [Rule(policy.ROW_CHANGE, (), self.row_change)] if self.row_change is not None else []
        rules += [Rule(policy.UNIQUE, columns) for columns in self.unique]
        rules += [Rule(policy.NULL_SHARE, (column,), limit) for column, limit in self.null_share]
        rules += [Rule(policy.ACCEPTED, (column,), values=accepted) for column, accepted in self.accepted]
        rules += [Rule(policy.FRESH, (), self.fresh)] if self.fresh is not None else []
        return (*rules, *(Rule(policy.SQL, (name,), values=(query,)) for name, query in self.sql))


class S3(Section):
    """Access to S3. Credentials come from AWS's standard chain, never from this file."""

    endpoint: Text | None = setting(None, "URL of an S3-compatible store; default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's.")
    region: Text | None = setting(None, "Region; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    path_style: Flag = setting(False, "Put the bucket into the path instead of the host name.")
    sse: Annotated[str, values.choice("", "sse-s3", "sse-kms", "dsse-kms")] = setting("", "Server-side encryption of objects; default the bucket's.")
    kms_key: Text | None = setting(None, "ARN of the key for sse-kms and dsse-kms; default the account's.")
    bucket_owner: Text | None = setting(None, "Account (12 digits, in quotes) that must own every bucket.")
    requester_pays: Flag = setting(False, "Pay for requests to buckets of other accounts.")


class Registry(Section):
    """The schema registry. Passwords and tokens come from environment variables, never from this file."""

    url: Annotated[tuple[str, ...], Read(values.urls, {"type": ["string", "array"], "items": {"type": "string"}})] = setting(
        (), "Address of a registry with Confluent's API. Several addresses of the same registry are tried in turn."
    )
    folder: Text | None = setting(None, "Folder of .avsc files instead of a server, relative to this file.")
    context: Text | None = setting(None, "Schema context of a Confluent server.")
    username: Text | None = setting(None, "User name; or use username_env.")
    username_env: Text | None = setting(None, "Environment variable with the user name.")
    password_env: Text | None = setting(None, "Environment variable with the password.")
    token_env: Text | None = setting(None, "Environment variable with a bearer token.")
    ca_file: Text | None = setting(None, "File of trusted CA certificates.")
    cert_file: Text | None = setting(None, "Client certificate.")
    key_file: Text | None = setting(None, "Private key of the client certificate.")
    proxy: Text | None = setting(None, "Proxy; default HTTPS_PROXY and similar variables.")


class Kafka(Section):
    """The Kafka cluster for `compactor ingest`."""

    servers: Text | None = setting(None, "Bootstrap servers: host:9092, separated by commas.")
    properties: Text | None = setting(
        None, "File of Kafka client settings (such as security.protocol), one name=value a line, relative to this file. Keep it out of git."
    )


class Quarantine(Section):
    """How many landed records may be invalid."""

    max_rows: Annotated[int | None, Read(values.rows, {"type": ["integer", "null"], "minimum": 0})] = setting(
        None, "Maximum number of records that one run may quarantine (an unreadable file counts as one). 0: none; default: no limit."
    )
    max_share: Annotated[float, Read(values.share, {"type": ["number", "string"], "examples": [0.1, "10%"]})] = setting(
        0.5,
        "Maximum share of a run's records, or of its files, that it may quarantine; counts from ten of them on, 0 from the first. A run whose input "
        "is all invalid always stops.",
    )


class Limits(Section):
    """The size of landed files, before any memory is spent on them."""

    columns: Count = setting(
        5000, "Maximum number of columns, with members of structs. More need more memory than the file's size shows, up to all of it."
    )
    record_bytes: Size = setting(64 << 20, "Maximum size of a record in a text file, unpacked.", written="64 MB")
    unpacked_bytes: Size = setting(
        4 << 30, "Maximum size of what a .zst file unpacks to, where it has to be unpacked on a disk of the driver.", written="4 GB"
    )


class Csv(Section):
    """The dialect of CSV files and the names of their columns."""

    header: Flag | None = setting(None, "Whether each file begins with its column names. Default: false for dms and if `columns` is set, else true.")
    columns: Names = setting((), "Column names of files without header, in the files' order, without DMS's Op column. Default: those of `schema`.")
    null_value: Annotated[Any, Read(values.null_value, {"type": ["string", "null"]})] = setting(
        None, "Text that means null (DMS: CsvNullValue). Default: NULL for dms, else the empty value."
    )
    delimiter: Annotated[str, Read(values.character, {"type": "string"})] = setting(",", "Character between values; `\\t` is a tab.", written=",")
    quote: Annotated[str, Read(values.quote, {"type": "string"})] = setting(
        '"', "Character around values that contain delimiters; '' for none.", written='"'
    )
    types: Annotated[dict[str, str], Read(compound.declared_types, compound.COLUMN_TYPES)] = setting({}, "The same as the table's `types`.")


class Catalog(Section):
    """Where tables and views are registered."""

    database: Text = setting("default", "Database of the views; `compactor sql` runs in it.")
    uri: Text | None = setting(None, "Hive metastore, thrift://host:9083. Without it an embedded metastore is used.")
    metastore_dir: Text | None = setting(
        None, "Folder of the embedded metastore. Default: <warehouse>/metastore; if the warehouse is in S3, metastore beside this file."
    )
    type: Annotated[str, values.choice("hive", "glue")] = setting("hive", "Kind of catalog: a Hive metastore, or AWS Glue.")
    region: Text | None = setting(None, "(glue) Region of the catalog; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    catalog_id: Annotated[str | None, Read(values.account, {"type": ["string", "null"], "pattern": r"^\d{12}$"})] = setting(
        None, "(glue) Account (12 digits, in quotes) of the catalog; default the caller's account."
    )


class Metrics(Section):
    """Where the measures and records of runs are sent. Without any of these keys they are not sent anywhere."""

    deployment: Text | None = setting(None, "Name of this deployment: the dimension in CloudWatch, a label in Prometheus.")
    cloudwatch: Flag = setting(True, "Send to CloudWatch, if `deployment` is set.")
    namespace: Text = setting("Compactor", "Namespace in CloudWatch.")
    region: Text | None = setting(None, "Region of CloudWatch; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    prometheus: Text | None = setting(None, "Folder that Prometheus's node exporter reads (textfile collector): one .prom file a table.")
    json_: Text | None = setting(None, "File that gets each run record as a line of JSON.", alias="json")


RunnerName = Annotated[str, values.choice("local", "emr-serverless", "emr-steps")]
Cron = Annotated[str | None, Read(compound.cron, {"type": ["string", "null"]})]


class Group(Section):
    """One Airflow DAG, `compact_<group>`, for the tables that name it."""

    schedule: Cron = setting("10 * * * *", "When the DAG runs: a cron line in UTC, or none for manual runs only.")
    wait: Duration = setting(
        1200.0,
        "How long after the end of an hour the DAG waits for the hour's first files. Files that land later are ingested by the next run.",
        written="20min",
    )
    partitioned: Flag = setting(
        False,
        "(hourly schedules; Airflow 3.2 or later) Runs and asset events carry the hour as partition key. Then only partitioned DAGs can follow "
        "the assets.",
    )
    runner: RunnerName | None = setting(None, "Where Spark runs for tables that do not set `runner`; default local.")
    at_once: Count = setting(4, "Number of tables that the group's job runs at the same time.")
    queue: Text | None = setting(None, "Queue of the group's tasks, for Airflow's CeleryExecutor.")
    pod_template: Text | None = setting(None, "File with the pod template of the group's tasks, for Airflow's KubernetesExecutor.")
    executor_config: Annotated[dict[str, Any], Read(compound.executor_config, compound.EXECUTOR_CONFIG)] = setting(
        {}, "Settings of the group's tasks for Airflow's executor, passed on to it, for example for the ECS executor."
    )


Folder = Annotated[str | None, Read(values.s3_folder, {"type": ["string", "null"], "pattern": "^s3[an]?://"})]
"""A folder in S3."""

SparkConf = Annotated[dict[str, str], Read(compound.spark_conf, compound.SPARK_CONF)]
Tags = Annotated[dict[str, str], Read(compound.tags, compound.TAGS)]


class Emr(Section):
    """Where the runners emr-serverless and emr-steps send their jobs."""

    job: Folder = setting(None, "(EMR) Folder in S3 with the output of `compactor package`.")
    plans: Folder = setting(None, "(EMR) Folder in S3 for the configuration of each job.")
    logs: Folder = setting(None, "(EMR) Folder in S3 for the reports of jobs, and for EMR's own logs.")
    application: Text | None = setting(None, "(emr-serverless) Id of the application.")
    role: Text | None = setting(None, "(emr-serverless) ARN of the job role.")
    cluster: Text | None = setting(None, "(emr-steps) Id of the cluster, j-...")
    studio: Text | None = setting(None, "(emr-serverless) Address of an EMR Studio, to whose page of a job the Airflow tasks link.")
    region: Text | None = setting(None, "(EMR) Region; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    spark: SparkConf = setting({}, "(EMR) Spark settings of every job.")
    tags: Tags = setting({}, "(emr-serverless) Tags of every job, for cost allocation. The tags compactor-group and compactor-table are added.")


class Airflow(Section):
    """How Airflow runs the tables."""

    command: Annotated[tuple[str, ...], Read(values.words, {"type": "array", "items": {"type": "string"}})] = setting(
        (), "Program of the local runner, such as [/opt/compactor/bin/python, -m, compactor]. Default: Airflow's own Python."
    )
    aws_conn_id: Text | None = setting(
        None, "Airflow connection with the AWS credentials of tasks and triggers. Default: AWS's standard chain on workers and triggerer."
    )
    registry_conn_id: Text | None = setting(
        None, "Airflow connection with the registry's credentials. Its login and password fill the variables that `registry` names."
    )
    webhook_conn_ids: Annotated[dict[str, str], Read(compound.connections, compound.CONNECTIONS)] = setting(
        {}, "Variable that a target of `notify` names: Airflow connection with the address or key, such as {SCHEMA_HOOK: chat}."
    )
    prefix: Annotated[str, Read(values.dag_prefix, {"type": "string"})] = setting(
        "", "Prefix of every DAG's name, if one Airflow runs several configurations."
    )
    groups: dict[str, Group] = setting({}, "Groups of tables by name. The group `hourly` exists without an entry.")
    maintenance: Cron = setting("30 2 * * *", "When the DAG `maintenance` compacts, verifies and vacuums all tables; none: manual runs only.")
    vacuum: Annotated[str, values.choice("ask", "auto")] = setting(
        "ask",
        "Whether the DAG `maintenance` asks a person before it deletes the files that no kept version needs, or deletes them itself. It deletes only "
        "from tables whose verification passed.",
    )
    schemas: Cron = setting("*/15 * * * *", "When the DAG `sync_schemas` asks the registry for new schemas; none: manual runs only.")
    status_page: Text | None = setting(None, "Address of a page about the tables, for people. The DAGs' documentation and alerts link to it.")
    answer_within: Duration = setting(72000.0, "How long a question to a person stays open in Airflow. After that the answer is no.", written="20h")
    quarantine: Cron = setting("45 6 * * *", "When the DAG `quarantine_alert` looks for files in quarantine; none: manual runs only.")
