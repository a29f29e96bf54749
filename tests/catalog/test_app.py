"""What `App` makes of a configuration that names AWS: the catalog without Spark, Spark's own view of it on EMR."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor import job
from compactor.app import spark as app_spark
from compactor.app.app import App
from compactor.catalog.glue.catalog import GlueCatalog
from compactor.core.model.errors import Refused
from compactor.spark import session
from tests.catalog.test_contract import NUMBERS, view
from tests.parts.s3 import Server

GLUE = "warehouse: s3://lake/cdc\ncatalog: {type: glue, database: school%s}\ns3: {path_style: true}\ntables: {t: {key: [id]}}\n"


def opened(folder: Path, catalog: str = "") -> App:
    """An App of such a file."""
    file = folder / "compactor.yaml"
    file.write_text(GLUE % catalog, encoding="utf-8")
    return App.open(file)


def test_the_catalog_is_reached_without_spark(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variables that every AWS tool reads."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", server.url)
    with opened(tmp_path) as app:
        catalog = app.runtime.environment().catalog()
        assert isinstance(catalog, GlueCatalog)
        assert app.runtime.environment().catalog() is catalog
        name = f"app{next(NUMBERS)}"
        catalog.ensure_database(name, "s3://lake/cdc")
        catalog.replace_view(view(name))
        assert catalog.view(name, "t") == view(name)
        assert not app.runtime.started


def test_what_reads_views_through_spark_is_refused_outside_emr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, before a JVM starts."""
    monkeypatch.delenv("EMR_RELEASE_LABEL", raising=False)
    with opened(tmp_path) as app:
        with pytest.raises(Refused, match="Spark outside EMR cannot read; query it with Athena"):
            app.sql("select 1", engine="spark")
        with pytest.raises(Refused, match="verify --files-only` compares"):
            app.verify()
        # DuckDB asks no catalog
        with pytest.raises(Refused, match="there is no table others"):
            app.sql("select * from others")
        assert list(app.sql("select 1 as n")) == ['{"n":1}']
        assert not app.runtime.started


CLIENT = "spark.hadoop.hive.metastore.client.factory.class"
GLUE_CLIENT = "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"
SERVICE_CLIENT = "org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClientFactory"
CATALOGS = [
    (
        "glue, another account",
        "{type: glue, database: school, catalog_id: '210987654321'}",
        GLUE_CLIENT,
        {"spark.hadoop.hive.metastore.glue.catalogid": "210987654321"},
    ),
    ("glue", "{type: glue, database: school}", GLUE_CLIENT, {}),
    (
        "a metastore service",
        "{type: hive, uri: 'thrift://metastore:9083'}",
        SERVICE_CLIENT,
        {"spark.hadoop.hive.metastore.uris": "thrift://metastore:9083"},
    ),
]


@pytest.mark.parametrize(("catalog", "client", "more"), [case[1:] for case in CATALOGS], ids=[case[0] for case in CATALOGS])
def test_on_emr_every_job_says_which_metastore_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: str, client: str, more: dict[str, str]
) -> None:
    """On the cluster and from a machine of EMR: an application whose default is Glue would otherwise send `uri: thrift://` to Glue."""
    monkeypatch.setenv("EMR_RELEASE_LABEL", "emr-7.13.0")
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(session, "open_session", lambda settings: seen.append(session.session_conf(settings)))
    file = tmp_path / "compactor.yaml"
    file.write_text(f"warehouse: s3://lake/cdc\ncatalog: {catalog}\ntables: {{t: {{key: [id]}}}}\n", encoding="utf-8")
    app = App.open(file)
    app.runtime.spark()
    job.runtime(app.job_config([])).spark()
    assert [(conf.get(CLIENT), conf["spark.sql.catalogImplementation"], {key: conf.get(key) for key in more}) for conf in seen] == [
        (client, "hive", more)
    ] * 2
    app_spark.check_reader(app.settings, "")
