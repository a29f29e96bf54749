"""Features of EMR's own Spark: its connector for s3:// and its client for Glue."""

from __future__ import annotations

import os

GLUE_CLIENT = "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"


def on_emr() -> bool:
    """Whether this process runs on EMR."""
    return os.path.isdir("/usr/share/aws/emr") or "EMR_RELEASE_LABEL" in os.environ


def glue_conf(catalog_id: str | None) -> dict[str, str]:
    """Return the Spark settings that make Glue the metastore of EMR's Spark."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.client.factory.class": GLUE_CLIENT,
        **({"spark.hadoop.hive.metastore.glue.catalogid": catalog_id} if catalog_id else {}),
    }
