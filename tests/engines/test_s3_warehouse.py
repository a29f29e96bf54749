"""The main job on an S3 server, through the command line: nothing but the warehouse's location is another."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
import sqlglot

from compactor.app.app import App
from compactor.catalog.glue import shapes
from compactor.core.catalog.ddl import TableDef
from compactor.core.model.errors import Refused
from compactor.core.settings.s3 import S3Settings
from compactor.storage.s3.storage import S3Storage
from tests.capture import config, landing, truth
from tests.oracle.sizes import FULL
from tests.parts import any_text
from tests.parts.odd_names import ODD, random_names
from tests.parts.s3 import CREDENTIALS, s3_server

pytestmark = [pytest.mark.engines, pytest.mark.spark]

FORM, TABLES = "debezium_json_value", ["enrollment", "trunc_solo"] if FULL else ["student"]


def called(file: Path, *words: str) -> str:
    """What a command of compactor prints, which must succeed, for the warehouse of the bucket."""
    environment = {**os.environ, "COMPACTOR_WAREHOUSE": "s3://lake/w"}
    command = [sys.executable, "-m", "compactor", *words, "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_a_warehouse_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Increments land in a bucket, run after run; the views are PostgreSQL's rows; nothing is left in landing; a second run does nothing."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with s3_server(tmp_path / "s3.log") as server:
        server.bucket("lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
        file = tmp_path / "compactor.yaml"
        file.write_text(config.config_text(FORM, TABLES) + "\ns3: {path_style: true}\n", encoding="utf-8")

        compactor = functools.partial(called, file)

        for hours in ([0, 1, 2, 3, 4], [5, 6, 7, 8]):
            deliver(store, tmp_path / f"landing-{hours[0]}", hours)
            reports = json.loads(compactor("run", "--output", "json"))
            # not every table has changes in every hour
            assert "committed" in {report["outcome"] for report in reports} <= {"committed", "idle"}
            for table in TABLES:
                for engine in ("spark", "duckdb"):
                    rows = json.loads(compactor("sql", f"select * from {table}", "--engine", engine, "--output", "json"), parse_float=Decimal)
                    found = truth.differences(rows, truth.truth(hours[-1])[table], FORM)
                    assert [] == truth.unexpected(found, FORM, hours[-1])
        landed = [info.path for table in TABLES for info in store.list(f"s3://lake/w/{table}/incremental")]
        assert [] == [path for path in landed if "/_compactor/" not in path]
        assert [report["outcome"] for report in json.loads(compactor("run", "--output", "json"))] == ["idle"] * len(TABLES)
        compactor("verify")
        assert TABLES[0] in compactor("status")


def test_a_warehouse_in_s3_and_a_catalog_in_glue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No metastore anywhere: Spark computes, boto3 publishes. What Glue holds is all that a reader needs: tables and views are carried over to
    another metastore as Glue tells them, and Spark reads the rows of PostgreSQL there, run after run, from both views."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server(tmp_path / "s3.log") as server:
        server.bucket("lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
        file = tmp_path / "compactor.yaml"
        extra = {"s3": {"path_style": True}}
        file.write_text(config.config_text(FORM, TABLES, extra=extra).replace('"school"', '"school", "type": "glue"'), encoding="utf-8")
        monkeypatch.setenv("COMPACTOR_WAREHOUSE", "s3://lake/w")
        for hours in ([0, 1], [2]):
            deliver(store, tmp_path / f"landing-{hours[0]}", hours)
            with App.open(file) as app:
                assert {report.outcome for report in app.run()} <= {"committed", "idle"}
                assert not app.runtime.spark().conf.get("spark.sql.catalogImplementation") == "hive"  # type: ignore[union-attr]
                with pytest.raises(Refused, match="query it with Athena"):
                    app.sql("select 1", engine="spark")
                assert ['{"n":1}'] == list(app.sql("select 1 as n"))
                with pytest.raises(Refused, match="--files-only"):
                    app.verify()
                assert all(check.ok for check in app.verify(files_only=True))
            for table, rows in read_elsewhere(file, tmp_path / f"reader-{hours[0]}").items():
                found = truth.differences(rows, truth.truth(hours[-1])[table], FORM)
                assert [] == truth.unexpected(found, FORM, hours[-1])


def read_elsewhere(file: Path, folder: Path) -> dict[str, Any]:
    """Each table's rows, read by a Spark on an embedded metastore that holds what Glue holds."""
    folder.mkdir()
    # the embedded metastore lies beside the file, as the warehouse is in S3
    other = folder / "reader.yaml"
    other.write_text(file.read_text().replace('"type": "glue"', '"type": "hive"'), encoding="utf-8")
    rows = {}
    with App.open(file) as from_, App.open(other) as to:
        database = from_.settings.catalog.database
        glue, hive = from_.runtime.environment().catalog(), to.runtime.environment().catalog()
        client = boto3.session.Session().client("glue", region_name="us-east-1")
        hive.ensure_database(database, str(folder))
        for entry in client.get_tables(DatabaseName=database)["TableList"]:
            name = entry["Name"]
            if entry["TableType"] == "VIRTUAL_VIEW":
                view = glue.view(database, name)
                assert view is not None
                assert (view.dialect == "presto") is name.endswith("_athena")
                plain = sqlglot.parse_one(view.text, read="athena").sql("spark") if view.dialect == "presto" else view.text
                hive.replace_view(dataclasses.replace(view, text=plain, dialect="hive"))
            else:
                kind = {"Parquet": "parquet", "LazySi": "json"}[
                    entry["StorageDescriptor"]["SerdeInfo"]["SerializationLibrary"].rpartition(".")[2][:7].removesuffix("m")
                ]
                columns, keys = shapes.columns(entry["StorageDescriptor"]["Columns"]), shapes.columns(entry["PartitionKeys"])
                hive.ensure_table(TableDef(database, name, columns, keys, entry["StorageDescriptor"]["Location"], format=kind))
                hive.ensure_partitions(database, name, glue.partitions(database, name))
        for table in from_.settings.tables:
            shown, athena = (
                [json.loads(row, parse_float=Decimal) for row in to.sql(f"select * from {name}", engine="spark")]
                for name in (table, f"{table}_athena")
            )
            assert sorted(map(str, shown)) == sorted(map(str, athena))
            rows[table] = shown
    return rows


def deliver(store: S3Storage, folder: Path, hours: list[int], tables: Sequence[str] = TABLES) -> None:
    """What a sink does: the increments of these hours as objects."""
    landing.land(folder, FORM, only=tables, hours=hours)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.write(f"s3://lake/w/{path.relative_to(folder).as_posix()}", path.read_bytes())


def test_any_name_and_any_text_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects with glob signs, colons, quotes, blanks and letters of every language go all the way; one whose name no file system takes stays in
    landing and is named."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    chance = random.Random(seed := random.randrange(1 << 30))
    print("seed", seed)
    names = [*(f"{name}.json" for name in ODD), *random_names(chance, 200 if FULL else 10, ".json"), *random_names(chance, 5, ".json.gz")]
    # XML 1.0 has no control characters, and no list of S3 without `encoding-type` either
    names = sorted({name for name in names if not any(unicodedata.category(char) in ("Cc", "Cn") for char in name)})
    with s3_server(tmp_path / "s3.log") as server:
        server.bucket("lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
        boto3.client("s3", endpoint_url=server.url).put_object(Bucket="lake", Key=f"w/in/{any_text.FOLDER}//a.json", Body=b"{}\n")
        (report,) = any_text.travel(store, "s3://lake/w", tmp_path, chance, names, "s3: {path_style: true}\n", ["--leave-landing"])
        assert any("2026112014//a.json has a name that Spark cannot open" in note for note in report["notes"])
