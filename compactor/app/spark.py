"""Spark for a configuration: which packages it needs, and a session with them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.aws.emr import glue_conf, on_emr
from compactor.config.settings import Settings
from compactor.core.model.errors import ConfigError, Refused
from compactor.core.model.spec import TableSpec
from compactor.core.settings.s3a import s3a_properties
from compactor.ports import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = "COMPACTOR_JARS"
"""Comma list of local jars for Spark, used instead of fetching anything."""


def opened(settings: Settings, packages: frozenset[str], verbose: bool, wait: float, conf: Mapping[str, str]) -> SparkSession:
    from compactor.spark.session import SessionSettings, open_session

    jars = local_jars(os.environ.get(JARS, ""))
    fetched = packages if not jars else frozenset()
    more = {"spark.jars": ",".join(jars), "spark.jars.packages": ",".join(sorted(fetched))}
    reached = s3a_properties(settings.s3_settings, 1 if pyspark_major() == 3 else 2) if settings.uses_s3 and not on_emr() else {}
    conf = {**_glue_conf(settings), **reached, **{key: value for key, value in more.items() if value}, **conf}
    timestamps = {settings.spec(name).timestamps for name in settings.names}
    try:
        return open_session(
            SessionSettings(
                metastore_uri=settings.catalog.uri,
                metastore_dir=settings.metastore_dir,
                warehouse_dir=settings.warehouse_dir,
                verbose=verbose,
                conf=tuple(conf.items()),
                wait_seconds=wait,
                timestamps={"int96": "INT96", "int64": "TIMESTAMP_MICROS"}[timestamps.pop()],
            )
        )
    except Refused as error:
        if not fetched or not str(error).startswith("Spark did not start"):
            raise
        raise Refused(
            f"This needs {', '.join(sorted(fetched))}, which Spark could not fetch from Maven Central. Download the jars "
            f"and say {JARS}=/path/to/one.jar,/path/to/another.jar. Spark said: {_unresolved(str(error))}"
        ) from None


def _glue_conf(settings: Settings) -> dict[str, str]:
    """What lets Spark see Glue as its metastore where it can: EMR's Spark has a client for it, nobody else's does."""
    if settings.catalog.type != "glue" or not on_emr():
        return {}
    return glue_conf(settings.catalog.catalog_id)


def check_reader(settings: Settings, instead: str) -> None:
    """Refuse to query views through a Spark that cannot see them."""
    if settings.catalog.type == "glue" and not on_emr():
        raise Refused(f"the views are in Glue, and Spark outside EMR has no client for it; {instead}")


def _unresolved(said: str) -> str:
    found = re.search(r"Server access error.*|unresolved dependency: [^\]]*", said)
    return found[0] if found else said[-500:]


def local_jars(said: str) -> list[str]:
    """The jars of COMPACTOR_JARS. Raises ConfigError for one that is not there."""
    jars = [os.path.abspath(os.path.expanduser(part.strip())) for part in said.split(",") if part.strip()]
    for jar in jars:
        if not os.path.isfile(jar):
            raise ConfigError(f"environment {JARS}: expected jar files, found nothing at {jar}")
    return jars


def avro_package(storage: Storage, specs: Sequence[TableSpec], archived: bool) -> Iterator[str]:
    """Maven coordinates of what reading Avro files takes beyond Spark itself, when there are any."""
    places = [place for spec in specs if spec.format == "auto" for place in (spec.landing, *([spec.root] if archived else []))]
    if any(spec.format == "avro" for spec in specs) or any(info.path.endswith(".avro") for place in places for info in storage.list(place)):
        yield from coordinates("spark-avro")


def s3_packages(settings: Settings) -> Iterator[str]:
    """Maven coordinates of Spark's way to S3, unless this is EMR, which has its own. They bring hadoop-aws of Spark's own Hadoop version."""
    if settings.uses_s3 and not on_emr():
        yield from coordinates("spark-hadoop-cloud")


def coordinates(artifact: str) -> Iterator[str]:
    """Maven coordinates of a part of Spark, unless its jar lies beside Spark's others."""
    import pyspark

    if not [*(Path(pyspark.__file__).parent / "jars").glob(f"{artifact}_*.jar")]:
        yield f"org.apache.spark:{artifact}_{'2.12' if pyspark_major() == 3 else '2.13'}:{pyspark.__version__}"


def pyspark_major() -> int:
    """3 or 4."""
    import pyspark

    return int(pyspark.__version__.split(".")[0])
