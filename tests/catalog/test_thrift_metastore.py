"""Publishing on a real metastore server on PostgreSQL, while another server's client reads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor.catalog.hive import HiveCatalog
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused, Unavailable
from compactor.spark.session import SessionSettings, close_session, open_session
from tests.parts.metastore import free_port, metastore, thrift_server

pytestmark = [pytest.mark.engines, pytest.mark.spark]

COLUMNS = (Column("id", "bigint", "the key"), Column("version", "bigint"))
QUICK = (("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"), ("spark.driver.memory", "1g"))


@contextlib.contextmanager
def session(uri: str, root: Path) -> Iterator[Any]:
    """A Spark session on that metastore."""
    spark = open_session(SessionSettings(uri, None, str(root / "warehouse"), master="local[2]", conf=QUICK))
    try:
        yield spark
    finally:
        close_session(spark)


def view(version: int) -> ViewDef:
    """One that tells its version twice: in the text and in the data it pins."""
    text = f"SELECT `id`, {version}L AS `version` FROM `shop`.`t_base` WHERE `base_version` = 'v{version}'"
    return ViewDef("shop", "t", text, COLUMNS, {"compactor.version": str(version)})


def publish(catalog: HiveCatalog, root: Path, version: int) -> None:
    """As the flows do it: partitions first, then the view."""
    catalog.ensure_partitions("shop", "t_base", [PartitionDef((f"v{version}",), str(root / f"b{version}"), version, 999, 1)])
    catalog.replace_view(view(version))


def read_on(port: int, stop: threading.Event, seen: list[tuple[int, int]], errors: list[BaseException]) -> None:
    """Count through the Thrift server until told to stop."""
    from pyhive import hive

    try:
        with contextlib.closing(hive.connect("127.0.0.1", port, username="x", auth="NONE")) as connection:
            while not stop.is_set():
                cursor = connection.cursor()
                cursor.execute("SELECT count(*), max(version) FROM shop.t")
                seen.append(cursor.fetchall()[0])
                cursor.close()
    except BaseException as error:
        errors.append(error)


def test_readers_see_one_version_or_the_next(tmp_path: Path) -> None:
    with metastore(tmp_path, "postgres") as uri, session(uri, tmp_path) as spark:
        catalog = HiveCatalog(spark)
        catalog.ensure_database("shop", str(tmp_path / "shop"))
        keys = (Column("base_version", "string"),)
        catalog.ensure_table(TableDef("shop", "t_base", (COLUMNS[0],), keys, str(tmp_path / "base")))
        for version in range(1, 22):
            spark.range(version).coalesce(1).write.parquet(str(tmp_path / f"b{version}"))
        publish(catalog, tmp_path, 1)
        assert spark.table("shop.t").collect() == [(0, 1)]
        with thrift_server(tmp_path, uri) as port:
            stop, seen, errors = threading.Event(), [], []  # type: ignore[var-annotated]
            reader = threading.Thread(target=read_on, args=(port, stop, seen, errors))
            reader.start()
            for version in range(2, 22):
                known = len(seen)
                publish(catalog, tmp_path, version)
                while len(seen) < known + 2 and not errors:
                    time.sleep(0.01)
            stop.set()
            reader.join(60)
        assert errors == []
        assert all(count == version for count, version in seen)
        assert [version for _, version in seen] == sorted(version for _, version in seen)
        assert seen[-1] == (21, 21)
        assert len(catalog.partitions("shop", "t_base")) == 21
        assert catalog.view("shop", "t") == view(21)


def test_a_metastore_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with session(f"thrift://127.0.0.1:{free_port()}", tmp_path) as spark, pytest.raises(Unavailable, match="refused"):
        HiveCatalog(spark)


def test_a_metastore_or_a_jvm_that_goes_away_is_unavailable(tmp_path: Path) -> None:
    with contextlib.ExitStack() as server, contextlib.ExitStack() as client:
        uri = server.enter_context(metastore(tmp_path))
        spark = client.enter_context(session(uri, tmp_path))
        catalog = HiveCatalog(spark)
        catalog.ensure_database("shop", str(tmp_path / "shop"))
        with pytest.raises(CatalogRefused, match=r"none\.t: the metastore rejected the call"):
            catalog.ensure_table(TableDef("none", "t", COLUMNS, (), str(tmp_path / "t")))
        catalog.replace_view(view(1))
        server.close()
        with pytest.raises(Unavailable, match="the metastore does not answer") as caught:
            catalog.view("shop", "t")
        assert len(str(caught.value)) < 300
        # a gateway that is only told to shut down may take one more connection and never answer it
        jvm = spark.sparkContext._gateway.proc
        jvm.kill()
        jvm.wait()
        with pytest.raises(Unavailable, match="JVM does not answer"):
            catalog.view("shop", "t")


def test_a_metastore_that_could_compare_and_is_not_allowed_to_is_told_of_and_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its code is newer than its defaults (distributions mix jars): views are replaced all the same."""
    with metastore(tmp_path, version="2.3.10") as uri, session(uri, tmp_path) as spark:
        catalog = HiveCatalog(spark)
        catalog.ensure_database("shop", str(tmp_path / "shop"))
        for version in (1, 2, 3):
            catalog.replace_view(view(version))
            assert catalog.view("shop", "t") == view(version)
    assert [record.getMessage() for record in caplog.records if "allowAll" in record.getMessage()] == [
        "shop.t: the metastore cannot compare and set: set datanucleus.query.sql.allowAll to true there"
    ]
