"""`compactor ingest` from a real Kafka that wants TLS and a login, into a bucket: a warehouse that never touches a disk of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from compactor.core.settings.s3 import S3Settings
from compactor.core.sources.kafka_files import offsets_of
from compactor.storage.s3.storage import S3Storage
from tests.oracle.sizes import FULL
from tests.parts.s3 import CREDENTIALS, s3_server

if FULL:
    from tests.parts.stack import broker

pytestmark = [pytest.mark.engines, pytest.mark.slow, pytest.mark.spark]

TOPIC = "pg.public.student"


def record(lsn: int, op: str, key: int, name: str | None) -> tuple[str, str]:
    """A change as Debezium's JSON converter without schema writes it."""
    row = None if name is None else {"id": key, "name": name}
    source = {
        "connector": "postgresql",
        "lsn": lsn,
        "sequence": f'["{lsn}","{lsn}"]',
        "ts_ms": 1709640000000 + lsn,
        "schema": "public",
        "table": "student",
    }
    value = {"before": {"id": key, "name": None} if op == "d" else None, "after": row, "source": source, "op": op, "ts_ms": 1709640000000 + lsn}
    return json.dumps({"id": key}), json.dumps(value)


class Program:
    """The program as a user types it, on one configuration."""

    def __init__(self, folder: Path, properties: Path) -> None:
        self.file = folder / "compactor.yaml"
        self.file.write_text(
            "warehouse: s3://lake/w\ncatalog: {database: school}\ns3: {path_style: true}\n"
            f"kafka: {properties}\n"
            f"tables: {{student: {{key: [id], envelope: debezium, topic: {TOPIC}}}}}\n"
        )

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "compactor", *words, "--config", str(self.file)]

    def said(self, *words: str, code: int = 0) -> str:
        """stdout; stderr where it is to end with another code."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=600, check=False)
        assert code == done.returncode, done.stderr
        return done.stderr if code else done.stdout

    def rows(self) -> dict[int, str]:
        found = json.loads(self.said("sql", "select id, name from student", "--engine", "spark", "--output", "json"))
        return {row["id"]: row["name"] for row in found}


def landed(store: S3Storage) -> list[int]:
    """Every offset that files of landing and archive hold, by their names; sorted, as often as it is there."""
    infos = [info for place in ("incremental", "archive") for info in store.list(f"s3://lake/w/student/{place}") if "/_compactor/" not in info.path]
    named = [offsets for info in infos for offsets in [offsets_of(info.path)] if offsets]
    return sorted(offset for item in named for offset in range(item.first, item.last + 1))


def killed(program: Program, seconds: float) -> None:
    """An ingest that is killed after so many seconds, with the JVM it has started."""
    process = subprocess.Popen(program.command("ingest"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if FULL:

    def test_a_kafka_with_tls_and_a_login_lands_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each record once, whatever is killed; refusals name the cause and no password."""
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        with s3_server(tmp_path / "s3.log") as server, broker(tmp_path) as kafka:
            server.bucket("lake")
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
            store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
            program = Program(tmp_path, kafka.client(tmp_path / "client.properties"))
            kafka.send(TOPIC, [record(at, "c", at, f"student {at}") for at in range(200)])

            (first,) = json.loads(program.said("ingest", "--output", "json"))
            assert (200, 0) == (first["records"], first["behind"])
            assert list(range(200)) == landed(store)
            (again,) = json.loads(program.said("ingest", "--output", "json"))
            assert 0 == again["records"]
            program.said("run")
            assert {at: f"student {at}" for at in range(200)} == program.rows()

            more: list[tuple[str, str | None]] = [record(200 + at, "u", at, f"changed {at}") for at in range(0, 200, 2)]
            more += [one for at in range(0, 200, 10) for one in (record(400 + at, "d", at, None), (json.dumps({"id": at}), None))]
            kafka.send(TOPIC, more)
            for seconds in (4, 7, 9, 11, 13, 15):
                killed(program, seconds)
                known = landed(store)
                assert list(range(len(known))) == known
            program.said("ingest")
            assert list(range(200 + len(more))) == landed(store)
            assert [] == list(store.list("s3://lake/w/_ingest"))
            program.said("run")
            changed = {at: f"changed {at}" if at % 2 == 0 else f"student {at}" for at in range(200) if at % 10}
            assert changed == program.rows()
            program.said("verify")

            refusals: list[tuple[dict[str, Any], str]] = [({"password": "wrong"}, "[Aa]uthentication"), ({"trust": False}, "SSL|certification path")]
            for at, (harm, words) in enumerate(refusals):
                properties = kafka.client(tmp_path / f"other{at}.properties", **harm)
                said = Program(tmp_path, properties).said("ingest", code=1)
                assert re.search(words, said), said
                assert kafka.password not in said
                assert "Traceback" not in said
