"""The Spark session of a configuration, and the Maven packages that it needs for Avro, Kafka and S3: how they are fetched, and why that failed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.aws.emr import metastore_conf, on_emr
from compactor.config.settings import Settings
from compactor.core.model.errors import ConfigError, Refused
from compactor.core.model.spec import TableSpec
from compactor.core.settings.s3 import s3a_properties
from compactor.ports import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JARS = "COMPACTOR_JARS"
"""Environment variable: local jars for Spark, separated by commas. With it Spark downloads nothing."""


def open_session(settings: Settings, packages: frozenset[str], verbose: bool, wait: float, conf: Mapping[str, str], brief: bool) -> SparkSession:
    """Start Spark. `packages`: Maven coordinates; `wait`: seconds to wait for an embedded metastore; `conf` overrides other settings.

    `brief`: for a run of little work.
    """
    from compactor.spark import session

    jars = local_jars(os.environ.get(JARS, ""))
    fetched = packages if not jars else frozenset()
    more = {"spark.jars": ",".join(jars), **fetch_properties(sorted(fetched))}
    s3a = s3a_properties(settings.s3_keys.within(os.environ), 1 if pyspark_major() == 3 else 2) if settings.uses_s3 and not on_emr() else {}
    catalog = metastore_conf(settings.catalog.type, settings.catalog.catalog_id, settings.catalog.uri)
    conf = {**catalog, **s3a, **{key: value for key, value in more.items() if value}, **conf}
    specs = [settings.spec(name) for name in settings.names]
    try:
        return session.open_session(
            session.SessionSettings(
                metastore_uri=settings.catalog.uri,
                metastore_dir=settings.metastore_dir,
                warehouse_dir=settings.warehouse_dir,
                verbose=verbose,
                conf=tuple(conf.items()),
                wait_seconds=wait,
                brief=brief,
                parquet=specs[0].parquet,
                encrypted=not all(spec.quotes_records for spec in specs),
            )
        )
    except Refused as error:
        if not fetched or not str(error).startswith("Spark did not start"):
            raise
        raise Refused(
            f"This needs {', '.join(sorted(fetched))}, which Spark could not download from Maven Central. Download the jars "
            f"and set {JARS}=/path/to/one.jar,/path/to/another.jar. Spark reported: {fetch_error(str(error))}"
        ) from None


def spark_reads(settings: Settings) -> bool:
    return settings.catalog.type != "glue" or on_emr()


def check_reader(settings: Settings, instead: str) -> None:
    """Raise Refused if this Spark cannot read the views. `instead`: what to do."""
    if not spark_reads(settings):
        raise Refused(f"the views are in Glue, which Spark outside EMR cannot read; {instead}")


def local_jars(value: str) -> list[str]:
    """Return the jars of COMPACTOR_JARS as absolute paths. Raises ConfigError for a jar that does not exist."""
    jars = [os.path.abspath(os.path.expanduser(part.strip())) for part in value.split(",") if part.strip()]
    for jar in jars:
        if not os.path.isfile(jar):
            raise ConfigError(f"environment {JARS}: {jar} does not exist; expected paths of jar files, separated by commas")
    return jars


REPOSITORY = "DEFAULT_ARTIFACT_REPOSITORY"
"""Environment variable: the address of a repository in place of Maven Central. The name is Spark's."""

_GROUPS = "com.aliyun com.fasterxml com.google com.microsoft commons- io.opentracing javax joda-time org.apache.hadoop.thirdparty \
org.apache.httpcomponents org.codehaus org.eclipse org.ini4j org.jdom org.slf4j org.xerial stax"
_HADOOP = "aliyun annotations azure* client* cloud-storage cos gcp huaweicloud openstack tos"
_NOT_S3 = (*(f"{group}*:*" for group in _GROUPS.split()), *(f"org.apache.hadoop:hadoop-{part}" for part in _HADOOP.split()))
"""What spark-hadoop-cloud brings beside S3's client: the clients of other clouds, and jars that Spark has. Sixty jars."""

_REASONS = re.compile(r"download failed: [^\],\n]*|unresolved dependency: [^\],\n]*|Server access error[^\n]*|UnknownHostException[^\n]*")
_LINES_QUOTED = 5


def fetch_properties(packages: Sequence[str]) -> dict[str, str]:
    """Return the Spark properties that fetch these packages, unless the user's spark-defaults.conf has Ivy settings of its own."""
    from compactor.spark import session

    if not packages:
        return {}
    properties = {"spark.jars.packages": ",".join(sorted(packages)), "spark.jars.excludes": ",".join(_NOT_S3)}
    if "spark.jars.ivySettings" not in session.defaults_file():
        properties["spark.jars.ivySettings"] = str(Path(session.__file__).parent / "ivysettings.xml")
        if REPOSITORY in os.environ:
            properties["spark.driver.defaultJavaOptions"] = shlex.quote(f"-Dcompactor.repository={os.environ[REPOSITORY]}")
    return properties


def fetch_error(text: str) -> str:
    """Return the lines of Spark's output that say why packages were not fetched; its end if there are none."""
    reasons = [*dict.fromkeys(reason.strip() for reason in _REASONS.findall(text))]
    more = f" and {len(reasons) - _LINES_QUOTED} more" if len(reasons) > _LINES_QUOTED else ""
    return "; ".join(reasons[:_LINES_QUOTED]) + more if reasons else text[-500:]


def avro_package(storage: Storage, specs: Sequence[TableSpec], archived: bool) -> Iterator[str]:
    """Return the Maven coordinates for reading Avro files, if these tables have any. `archived`: look into their archives too."""
    auto = [spec for spec in specs if spec.format == "auto"]
    # not all of the root: manifests of Iceberg tables are Avro files
    inside = [spec.layout.inside(name) for spec in auto for name in ("archive", "quarantine")] if archived else []
    folders = [*(spec.landing for spec in auto), *inside]
    if any(spec.format == "avro" for spec in specs) or any(info.path.endswith(".avro") for folder in folders for info in storage.list(folder)):
        yield from coordinates("spark-avro")


def s3_packages(settings: Settings) -> Iterator[str]:
    """Return the Maven coordinates of S3's client for Spark's Hadoop, and of Spark's committers for it; none on EMR, which has its own."""
    if not settings.uses_s3 or on_emr():
        return
    yield from coordinates("spark-hadoop-cloud")
    # a Spark without Hadoop has its jars elsewhere, S3's client among them
    for client in [] if [*jars_folder().glob("hadoop-aws-*.jar")] else jars_folder().glob("hadoop-client-api-*.jar"):
        yield f"org.apache.hadoop:hadoop-aws:{client.stem.removeprefix('hadoop-client-api-')}"


def coordinates(artifact: str) -> Iterator[str]:
    """Return the Maven coordinates of a part of Spark, unless its jar is installed with Spark."""
    import pyspark

    if not [*jars_folder().glob(f"{artifact}_*.jar")]:
        yield f"org.apache.spark:{artifact}_{'2.12' if pyspark_major() == 3 else '2.13'}:{pyspark.__version__}"


def pyspark_major() -> int:
    import pyspark

    return int(pyspark.__version__.split(".")[0])


def jars_folder() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"
