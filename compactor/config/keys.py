"""The keys of compactor.yaml: the sections at the top of the file, and the keys of a table that only Airflow, the runners and notices read.

The keys of a table that its runs need are declared in `core/model/spec.py`. The text below a field is what users read about the key.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from compactor.config import values
from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import ConfigError
from compactor.core.model.layout import join
from compactor.core.model.spec import TableKeys, TableSpec
from compactor.core.planning.folders import Discovery
from compactor.core.settings.forms import Count, Duration, Flag, Form, Number, Section, Text, alike, matching
from compactor.core.settings.s3 import S3, S3Settings

RunnerName = Literal["local", "emr-serverless", "emr-steps"]
Cron = Annotated[str | None, Form(source=str | None, convert=values.cron)]
Folder = Annotated[
    str,
    Form(
        "a folder in S3 such as s3://bucket/folder",
        convert=lambda location: absolute(location, ""),
        limits=(("pattern", r"^s3[an]?://[A-Za-z0-9][A-Za-z0-9._-]{1,254}(/[^/?#]+)*/?$"),),
    ),
]
SparkConf = Annotated[dict[str, str], Form(convert=values.spark_conf, mapping="{spark.executor.memory: 8g}")]


@dataclass(frozen=True)
class Table(TableKeys):
    """One table. Every key except `key` has a default."""

    notify: Annotated[tuple[tuple[str, ...], ...], Form(source=Any, convert=values.notify, text=lambda targets: "log", json=values.NOTIFY)] = (
        ("log",),
    )
    """Targets of notices about a changed schema before its first use, and of Airflow's alerts about failed and late tables; one or a list: log,
    {command: [program, argument]} (JSON on its standard input), {webhook: https://..}, {sns: topic ARN}, {apprise: [slack://..]} (all that
    Apprise knows); or, with the addresses in the named variable, {webhook_env: NAME}, {apprise_env: NAME} (docs/operations.md#messages)."""
    group: Text = "hourly"
    """The Airflow DAG that runs the table, `compact_<group>`. Define groups other than hourly below `airflow.groups`."""
    runner: RunnerName = "local"
    """Where Airflow runs Spark. local: in a process on the worker; emr-serverless, emr-steps: see `emr`."""
    spark: SparkConf = field(default_factory=dict)
    """(EMR) Spark settings of this table's jobs, such as {spark.executor.memory: 8g}."""
    pool: Text = "default_pool"
    """Airflow pool of the table's runs; it must exist."""
    timeout: Duration = 2 * 3600.0
    """Time limit of a run. Airflow ends a run that takes longer."""
    retries: Number = 5
    """How often Airflow retries a run after something was unavailable. Other errors are never retried. Delays: Airflow's `default_task_retry_delay`,
    doubled with each retry, up to 30 minutes."""
    deadline: Duration | None = None
    """(Airflow 3.2 or later) Send an alert to `notify` if files of the table still wait this long after the start of a run."""


@dataclass(frozen=True)
class Catalog(Section):
    """Where tables and views are registered."""

    database: Text = "default"
    """Database of the views; `compactor sql` runs in it. It is created if it does not exist."""
    uri: Text | None = None
    """Hive metastore, thrift://host:9083; several, separated by commas, for failover. Without it an embedded metastore is used, in
    <warehouse>/metastore; if the warehouse is in S3, in metastore beside this file."""
    type: Literal["hive", "glue"] = "hive"
    """Kind of catalog: a Hive metastore, or AWS Glue. With Glue there is also <view>_athena in Athena's dialect (docs/aws.md)."""
    catalog_id: Annotated[str, matching(r"\d{12}", "an AWS account id (12 digits, in quotes)")] | None = None
    """(glue) Account (12 digits, in quotes) of the catalog; default the caller's account."""


@dataclass(frozen=True)
class Registry(Section):
    """The schema registry. Passwords and tokens come from environment variables, never from this file."""

    url: Annotated[tuple[Text, ...], Form("an address such as http://registry:8081, or a list", source=str | list[Text], convert=values.urls)] = ()
    """Address of a registry with Confluent's API; several addresses of the same registry are tried in turn. Or a folder of .avsc files, relative to
    this file. Credentials are in the variable SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO (user:password), the proxy in HTTPS_PROXY,
    trusted authorities in REQUESTS_CA_BUNDLE (docs/sources.md#schema-registries)."""
    context: Text | None = None
    """Schema context of a Confluent server."""
    token_env: Text | None = None
    """Environment variable with a bearer token instead."""
    cert_file: Text | None = None
    """Client certificate with its private key, in one PEM file."""


@dataclass(frozen=True)
class Metrics(Section):
    """Where the measures and records of runs are sent. Without any of these keys they are not sent anywhere."""

    deployment: Text | None = None
    """Name of this deployment: the dimension in CloudWatch, a label in Prometheus."""
    cloudwatch: Flag = True
    """Send to CloudWatch, if `deployment` is set."""
    namespace: Text = "Compactor"
    """Namespace in CloudWatch."""
    prometheus: Text | None = None
    """Folder that Prometheus's node exporter reads (textfile collector): one .prom file a table."""
    json_: Text | None = None
    """File that gets each run record as a line of JSON."""


@dataclass(frozen=True)
class Group(Section):
    """One Airflow DAG, `compact_<group>`, for the tables that name it."""

    schedule: Cron = "10 * * * *"
    """When the DAG runs: a cron line in UTC, or none for manual runs only."""
    wait: Duration = 1200.0
    """How long after the end of an hour the DAG waits for the hour's first files. Files that land later are ingested by the next run."""
    at_once: Count = 4
    """Number of tables that the group's job runs at the same time."""
    queue: Text | None = None
    """Queue of the group's tasks, for Airflow's CeleryExecutor."""
    executor_config: Annotated[dict[str, Any], Form(convert=values.executor_config, mapping="{cpu: 1024}")] = field(default_factory=dict)
    """Settings of the group's tasks for Airflow's executor, passed on to it, such as {cpu: 1024} (ECS) or {pod_template_file: pods/large.yaml}
    (Kubernetes; relative to this file)."""


@dataclass(frozen=True)
class Airflow(Section):
    """How Airflow runs the tables."""

    command: Annotated[tuple[Text, ...], Form("a program and its arguments, such as [python3, -m, compactor]", limits=(("min_length", 1),))] = ()
    """Program of the local runner, such as [/opt/compactor/bin/python, -m, compactor]. Default: Airflow's own Python."""
    aws_conn_id: Text | None = None
    """Airflow connection with the AWS credentials of tasks and triggers. Default: AWS's standard chain on workers and triggerer."""
    conn_ids: Annotated[dict[str, str], Form(source=Any, convert=values.connections, json={"type": "object"})] = field(default_factory=dict)
    """Environment variable: Airflow connection that fills it, such as {SCHEMA_HOOK: chat, SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO: registry}. With the
    address, for a variable that `notify` names; with login and password, or the token, for the registry (docs/airflow.md#connections)."""
    prefix: Annotated[str, matching(r"[A-Za-z0-9_.-]{0,50}", "at most 50 letters, digits, _, . and -")] = ""
    """Prefix of the names of DAGs and assets, such as school_, if one Airflow runs several configurations."""
    groups: dict[str, Group] = field(default_factory=dict)
    """Groups of tables by name. The group `hourly` exists without an entry."""
    maintenance: Cron = "30 2 * * *"
    """When the DAG `maintenance` compacts, verifies and vacuums all tables: a cron line in UTC; none: manual runs only."""
    vacuum: Literal["ask", "auto"] = "ask"
    """Whether the DAG `maintenance` asks a person before it deletes the files that no kept version needs, or deletes them itself. It deletes only
    from tables whose verification passed."""


@dataclass(frozen=True)
class Emr(Section):
    """Where the runners emr-serverless and emr-steps send their jobs."""

    job: Folder | None = None
    """(EMR) Folder in S3 with the output of `compactor package`. The configuration of each job is written into `plans` below it."""
    logs: Folder | None = None
    """(EMR) Folder in S3 for the reports of jobs, and for EMR's own logs."""
    application: Text | None = None
    """(emr-serverless) Id of the application."""
    role: Text | None = None
    """(emr-serverless) ARN of the job role."""
    cluster: Text | None = None
    """(emr-steps) Id of the cluster, j-..."""


@dataclass(frozen=True)
class Keys(Section):
    """The top of the file."""

    warehouse: Text = "warehouse"
    """Folder of the tables: a path, relative to this file, or s3://bucket/prefix. Table <t> is stored in <warehouse>/<t>."""
    region: Text | None = None
    """AWS region of S3, Glue, EMR and CloudWatch; default AWS_REGION, AWS_DEFAULT_REGION, else the profile's."""
    catalog: Catalog = Catalog()
    """Where tables and views are registered."""
    registry: Registry = Registry()
    """Schema registry, for tables whose `schema` names a subject."""
    kafka: Text | None = None
    """The Kafka cluster for `compactor ingest`: host:9092, several separated by commas; or a file of client settings, one name=value a line, with
    bootstrap.servers, security.protocol and the like, relative to this file. Keep such a file out of git (docs/sources.md#kafka-without-a-sink)."""
    s3: S3 = field(default_factory=S3)
    """Access to S3 (docs/aws.md)."""
    airflow: Airflow = Airflow()
    """How Airflow runs the tables (docs/airflow.md)."""
    emr: Emr = Emr()
    """Where EMR jobs are sent (docs/airflow.md#on-emr)."""
    metrics: Metrics = Metrics()
    """Where the measures and records of runs are sent (docs/operations.md#run-records-and-measures)."""
    defaults: Table = Table()
    """Keys of every table that does not set them itself; mappings are merged."""
    discover: Annotated[tuple[Discovery, ...], Form(source=list[dict[str, Any]], convert=values.discover, json=values.DISCOVER)] = ()
    """Folders that become tables by themselves (docs/operations.md#tables-that-appear-and-fall-silent): a list of
    {from: 'topics/pg.{schema}.{table}', name: '{schema}_{table}'}, with the folder pattern of `increments` at the end of `from` where files do not
    show it. Optional: exclude, a list of shell patterns of folders, at_most (50), the number of tables of the entry, and keys of its tables, such as
    envelope: debezium."""
    discovered: Text = "tables.d"
    """Folder of the tables that `discover` adds, one file a table, read like `tables`: relative to this file, or s3://bucket/prefix where nobody may
    write beside this file. People may edit these files."""
    tables: dict[str, Table] = field(default_factory=dict)
    """The tables, by name: a-z, 0-9, _, at most 110 characters."""


@dataclass(frozen=True)
class Settings(Keys):
    """The checked configuration."""

    file: Path = Path()
    """The configuration file. Relative paths start at its folder."""
    specs: dict[str, TableSpec] = field(default_factory=dict)
    """The specs of the tables, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def spec(self, name: str) -> TableSpec:
        """Return the spec of a table. Raises ConfigError for an unknown table."""
        if name not in self.specs:
            raise ConfigError(f"{self.file}: no table {name!r}{alike(name, self.names)}; the tables are {', '.join(self.names)}")
        return self.specs[name]

    @property
    def warehouse_dir(self) -> str:
        return absolute(self.warehouse, str(self.file.parent))

    @property
    def discovered_dir(self) -> str:
        """Return the folder of the tables that were discovered, as an absolute path."""
        return absolute(self.discovered, str(self.file.parent))

    @property
    def discoveries(self) -> tuple[Discovery, ...]:
        """Return the entries of `discover:` with absolute paths and the keys of `defaults:`."""
        plain = Table()
        given = {each.name: getattr(self.defaults, each.name) for each in dataclasses.fields(Table)}
        inherited = {name: value for name, value in given.items() if value != getattr(plain, name)}
        return tuple(dataclasses.replace(entry, place=absolute(entry.place, self.warehouse_dir), inherited=inherited) for entry in self.discover)

    @property
    def uses_s3(self) -> bool:
        """Return whether the warehouse or any landing folder is in S3."""
        return is_s3(self.warehouse_dir) or any(is_s3(table.increments or "") for table in self.tables.values())

    @property
    def s3_keys(self) -> S3Settings:
        """Return the access to S3 as the file declares it, for machines with another environment. Raises ConfigError naming the key."""
        return S3Settings(**dataclasses.asdict(self.s3), region=self.region)

    def kafka_properties(self) -> dict[str, str]:
        """Return Kafka's client settings. Raises ConfigError for a file that cannot be read."""
        if self.kafka is None or re.fullmatch(values.SERVERS, self.kafka):
            return {"bootstrap.servers": self.kafka or ""}
        path = Path(absolute(self.kafka, str(self.file.parent)))
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.file}: key kafka: {path} cannot be read: {error}") from None
        pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
        properties = {name.strip(): value.strip() for name, _, value in pairs}
        if any(not mark for _, mark, _ in pairs) or "bootstrap.servers" not in properties:
            # the lines are not shown: they may contain a secret
            raise ConfigError(f"{self.file}: key kafka: {path}: expected one name=value a line, with bootstrap.servers")
        return properties

    @property
    def metastore_dir(self) -> str | None:
        """Return the folder of the embedded metastore, or None if a thrift:// metastore or Glue is used."""
        if self.catalog.uri is not None or self.catalog.type == "glue":
            return None
        # Derby needs a local disk
        return absolute("metastore", str(self.file.parent)) if is_s3(self.warehouse_dir) else join(self.warehouse_dir, "metastore")
