"""A table with protected columns and `archive_kms_key`, by the real engine on an S3 server: every raw file has the key from run to erase."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.config import Config

from compactor.app.app import App
from compactor.flows.keep import raw_files
from compactor.flows.keep.raw_files import RawFile
from compactor.flows.table import Table
from tests.parts.s3 import CREDENTIALS, Server, s3_server

pytestmark = [pytest.mark.engines, pytest.mark.spark]
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CONFIG = f"""
warehouse: s3://lake/w
s3: {{path_style: true}}
defaults: {{archive_kms_key: "{KEY}"}}
tables:
  t: {{key: [id], order_by: [seq], columns: {{ssn: exclude}}, grace: 0s}}
"""


def keys(server: Server, raw: bool) -> dict[str, str]:
    """Object → KMS key, of raw files or of everything else below the table."""
    inside = {key.removeprefix("w/t/"): arn for key, arn in server.keys("lake").items() if key.startswith("w/t/")}
    return {name: arn for name, arn in inside.items() if name.startswith("archive/") is raw}


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """A file of rows."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def test_raw_files_have_their_own_key_from_run_to_erase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON lines and Parquet are archived, read by a rebuild and a verification, rewritten by an erase; one archived before is encrypted again."""
    for name, value in {**CREDENTIALS, "COMPACTOR_HASH_KEY": "a secret of some length"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    file = tmp_path / "compactor.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    with s3_server(tmp_path / "s3.log") as server:
        server.bucket("lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        sink = boto3.session.Session().client("s3", endpoint_url=server.url, region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))
        people = [{"id": key, "seq": key, "name": f"n{key}", "ssn": f"078-{key}"} for key in range(1, 5)]
        lines = "\n".join(json.dumps({**row, "seq": row["seq"] + 10}) for row in people[:2]).encode()
        landed = {"increment_2026112013/a.parquet": parquet(people), "increment_2026112014/b.json": lines}
        copies: list[str] = []

        def rewrite(table: Table, raw: RawFile, real: Any = raw_files.rewrite) -> None:
            """What Spark wrote is looked at before it takes its place."""
            copies.extend([keys(server, raw=False)[raw.copy.path.removeprefix("s3://lake/w/t/")]] if raw.copy else [])
            real(table, raw)

        monkeypatch.setattr(raw_files, "rewrite", rewrite)
        with App.open(file) as app:
            for name, data in landed.items():
                sink.put_object(Bucket="lake", Key=f"w/t/incremental/{name}", Body=data)
                assert [report.outcome for report in app.run()] == ["committed"]
            assert keys(server, raw=True) == {f"archive/{name}": KEY for name in landed}
            assert set(keys(server, raw=False).values()) == {""}
            assert app.rebuild("t").outcome == "published"
            assert [check.name for check in app.verify(["t"]) if not check.ok] == []
            report = app.erase("t", ["2"], now=True)
            assert report.left == ()
            assert {item.path for item in report.rewritten} == set(landed)
            assert copies == [KEY] * len(landed)
            assert keys(server, raw=True) == {f"archive/{name}": KEY for name in landed}
            assert set(keys(server, raw=False).values()) == {""}
            assert [check.name for check in app.verify(["t"], deep=True) if not check.ok] == []
            assert app.rebuild("t").outcome == "published"
            assert sorted(json.loads(row)["id"] for row in app.sql("select id from t", engine="spark")) == [1, 3, 4]
        content = {name: data for name, (_, _, data) in server.objects("lake").items() if name.startswith("w/t/archive/")}
        assert [name for name, data in content.items() if b"078-2" in data] == []
        # as if it had been archived before there was a key
        old = "w/t/archive/increment_2026112014/b.json"
        sink.put_object(Bucket="lake", Key=old, Body=content[old])
        for changed in (1, 0):
            command = [sys.executable, "-m", "compactor", "reencrypt", "--output", "json", "--config", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == [{"table": "t", "key": KEY, "files": 2, "changed": changed}]
        assert keys(server, raw=True) == {f"archive/{name}": KEY for name in landed}
        with App.open(file) as app:
            assert [check.name for check in app.verify(["t"], files_only=True) if not check.ok] == []
