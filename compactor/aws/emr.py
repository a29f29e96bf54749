"""Features of EMR's own Spark: its connector for s3:// and its clients for Glue and for a metastore service."""

from __future__ import annotations

import os

_CLIENT = "spark.hadoop.hive.metastore.client.factory.class"
_GLUE = "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"
_SERVICE = "org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClientFactory"


def on_emr() -> bool:
    return os.path.isdir("/usr/share/aws/emr") or "EMR_RELEASE_LABEL" in os.environ


def metastore_conf(catalog: str, catalog_id: str | None, uri: str | None) -> dict[str, str]:
    """Return the settings that make EMR's Spark use this catalog; none outside EMR, whose Spark has no choice of clients.

    An application or cluster may name Glue's client for all its jobs. It ignores `uri`, so a job with a metastore service names that client.
    """
    if not on_emr():
        return {}
    if catalog == "glue":
        account = {"spark.hadoop.hive.metastore.glue.catalogid": catalog_id} if catalog_id else {}
        return {"spark.sql.catalogImplementation": "hive", _CLIENT: _GLUE, **account}
    return {_CLIENT: _SERVICE} if uri else {}
