"""The Spark session of a configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from compactor.app.packages import fetch_error, fetch_properties, pyspark_major
from compactor.aws.emr import metastore_conf, on_emr
from compactor.config.settings import Settings
from compactor.core.model.errors import ConfigError, Refused
from compactor.core.settings.s3 import s3a_properties

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
    s3a = s3a_properties(settings.s3_settings, 1 if pyspark_major() == 3 else 2) if settings.uses_s3 and not on_emr() else {}
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
    """Return whether this Spark can read the views."""
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
