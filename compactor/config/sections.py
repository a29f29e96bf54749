"""The nested mappings of compactor.yaml as pydantic models: names, meanings and defaults of their keys.

`config/keys.py` has the tables and the top of the file.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from compactor.config import compound, values
from compactor.config.values import Count, Duration, Flag, Names, Read, Text
from compactor.core.model.spec import ALWAYS


class Section(BaseModel):
    """A mapping of keys. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)


def setting(default: Any, description: str, *, written: str | int | bool | None = None, alias: str | None = None) -> Any:
    """Return a field. `written`: the default as one would write it in the file, if the parsed value looks different."""
    extra: dict[str, Any] = {} if written is None else {"default": written}
    return Field(default, description=description, alias=alias, json_schema_extra=extra)


class Compaction(Section):
    """When and how often the Delta is compacted into the base."""

    every: Duration = setting(6 * 3600.0, "Minimum time between two compactions of a table.", written="6h")
    window: Annotated[tuple[int, int], Read(values.window, values.WINDOW)] = setting(
        ALWAYS,
        "When runs may compact: always; never (only `compactor compact`, which the DAG `maintenance` runs too); or hours of the day in UTC, "
        "22:00-05:30.",
        written="always",
    )


class Checks(Section):
    """Checks before each commit."""

    max_gone: Annotated[float, Read(values.share, {"type": ["number", "string"], "examples": [0.5, "50%"]})] = setting(
        1.0, "Maximum share of the table's rows that one run may delete, by deletes or a TRUNCATE. Default 1.0; for full loads 0.3."
    )


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
    types: Annotated[dict[str, str], Read(compound.column_types, compound.COLUMN_TYPES)] = setting(
        {}, "Types of columns, such as {signup_date: date}. Other columns: whole numbers and decimals are recognized, the rest is text."
    )


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
    """CloudWatch metrics after each run."""

    deployment: Text | None = setting(None, "Name of this deployment, the dimension of the metrics. Without it no metrics are sent.")
    namespace: Text = setting("Compactor", "Namespace of the metrics.")
    region: Text | None = setting(None, "Region of CloudWatch; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")


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
    at_once: Count = setting(16, "Maximum number of tasks of the DAG that run at the same time.")


Folder = Annotated[str | None, Read(values.s3_folder, {"type": ["string", "null"], "pattern": "^s3[an]?://"})]
"""A folder in S3."""

SparkConf = Annotated[dict[str, str], Read(compound.spark_conf, compound.SPARK_CONF)]


class Emr(Section):
    """Where the runners emr-serverless and emr-steps send their jobs."""

    job: Folder = setting(None, "(EMR) Folder in S3 with the output of `compactor package`.")
    plans: Folder = setting(None, "(EMR) Folder in S3 for the configuration of each job.")
    logs: Folder = setting(None, "(EMR) Folder in S3 for the reports of jobs, and for EMR's own logs.")
    application: Text | None = setting(None, "(emr-serverless) Id of the application.")
    role: Text | None = setting(None, "(emr-serverless) ARN of the job role.")
    cluster: Text | None = setting(None, "(emr-steps) Id of the cluster, j-...")
    region: Text | None = setting(None, "(EMR) Region; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's.")
    spark: SparkConf = setting({}, "(EMR) Spark settings of every job.")


class Airflow(Section):
    """How Airflow runs the tables."""

    command: Annotated[tuple[str, ...], Read(values.words, {"type": "array", "items": {"type": "string"}})] = setting(
        (), "Program of the local runner, such as [/opt/compactor/bin/python, -m, compactor]. Default: Airflow's own Python."
    )
    prefix: Annotated[str, Read(values.dag_prefix, {"type": "string"})] = setting(
        "", "Prefix of every DAG's name, if one Airflow runs several configurations."
    )
    groups: dict[str, Group] = setting({}, "Groups of tables by name. The group `hourly` exists without an entry.")
    maintenance: Cron = setting(
        "30 2 * * *", "When the DAG `maintenance` verifies all tables in full and reports what vacuum would delete; none: manual runs only."
    )
    schemas: Cron = setting("*/15 * * * *", "When the DAG `sync_schemas` asks the registry for new schemas; none: manual runs only.")
    status_page: Text | None = setting(None, "Address of a page about the tables, for people. The DAGs' documentation and alerts link to it.")
    answer_within: Duration = setting(72000.0, "How long a question to a person stays open in Airflow. After that the answer is no.", written="20h")
    quarantine: Cron = setting("45 6 * * *", "When the DAG `quarantine_alert` looks for files in quarantine; none: manual runs only.")
