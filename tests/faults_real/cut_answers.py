"""Run by test_cut_answers.py in a process of its own: a Spark application whose every request for a landed file is cut among its headers, once each.

    python -m tests.faults_real.cut_answers FOLDER NAMES KINDS METHODS DEEP

Each case lands two files, has one request for one of them cut (or what else KINDS say), and runs the table; then once more with nothing cut, if that
run has left anything.
Prints a JSON object a case.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro

from compactor.app.app import App
from compactor.core.settings.s3 import S3Settings
from compactor.demo import SPARK
from compactor.storage.s3.storage import S3Storage
from tests.parts.proxy import Fault, Proxy
from tests.parts.s3 import CREDENTIALS, s3_server

ROWS = 50
WAREHOUSE = "s3://lake/w"
NAMES = ("json", "json.gz", "json.bz2", "json.zst", "csv", "csv.gz", "avro", "parquet")
_AVRO = {"type": "record", "name": "row", "fields": [{"name": name, "type": "long"} for name in ("id", "seq")] + [{"name": "name", "type": "string"}]}


class Cases:
    """The servers, and an application that goes on."""

    def __init__(self, folder: Path, store: S3Storage, proxy: Proxy, app: App) -> None:
        self._folder, self._store, self._proxy, self._app = folder, store, proxy, app
        self._hours = 0

    def every(self, names: list[str], kinds: list[str], methods: list[str], deep: int) -> Iterator[dict[str, Any]]:
        """All of these, and of each the first, second, .. request, `deep` of them or until there are no more."""
        landed = dict.fromkeys(names, 0)
        for name in names:
            for kind in kinds:
                for method in methods:
                    for at in range(1, deep + 1):
                        self._land(name)
                        landed[name] += 1
                        told = {
                            "name": name,
                            "kind": kind,
                            "method": method,
                            "at": at,
                            **self._case(name, Fault(kind, at, method=method, path=r"/a\.")),
                        }
                        yield {**told, "expected": [landed[name] * 2 * ROWS] * 2}
                        if not told["fired"]:
                            break

    def _case(self, name: str, fault: Fault) -> dict[str, Any]:
        table = name.replace(".", "_")
        self._proxy.plan(fault)
        (first,) = self._app.run([table])
        fired = self._proxy.fired
        self._proxy.plan()
        whole = not [info for info in self._store.list(f"{WAREHOUSE}/{table}/incremental") if "/_compactor/" not in info.path]
        last = first if whole else self._app.run([table])[0]
        (text,) = self._app.sql(f"select count(*) as n, count(distinct name) as names from {table}", engine="spark")
        shown = [*json.loads(text).values()]
        held = [item.path for item in self._app.quarantined([table])]
        return {"fired": fired, "outcomes": [first.outcome, last.outcome], "error": first.error, "shown": shown, "quarantined": held}

    def _land(self, name: str) -> None:
        for file in ("a", "b"):
            first = self._hours * ROWS
            rows = [{"id": first + at, "seq": first + at, "name": f"row {first + at}"} for at in range(ROWS)]
            place = f"{WAREHOUSE}/{name.replace('.', '_')}/incremental/increment_{2024010100 + self._hours // 24 * 100 + self._hours % 24}"
            self._store.write(f"{place}/{file}.{name}", self._content(name, rows))
            self._hours += 1

    def _content(self, name: str, rows: list[dict[str, Any]]) -> bytes:
        if name == "parquet":
            return self._parquet(rows)
        if name == "avro":
            out = io.BytesIO()
            fastavro.writer(out, _AVRO, rows)
            return out.getvalue()
        lines = [json.dumps(row) for row in rows] if name.startswith("json") else ["id,seq,name", *(",".join(map(str, row.values())) for row in rows)]
        packed: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "zst": self._zstd}
        return packed.get(name.rpartition(".")[2], bytes)("".join(f"{line}\n" for line in lines).encode())

    def _zstd(self, data: bytes) -> bytes:
        jvm: Any = self._app.runtime.spark()._jvm
        return bytes(jvm.com.github.luben.zstd.Zstd.compress(data))

    def _parquet(self, rows: list[dict[str, Any]]) -> bytes:
        place = self._folder / f"parquet{self._hours}"
        values = [tuple(row.values()) for row in rows]
        self._app.runtime.spark().createDataFrame(values, "id BIGINT, seq BIGINT, name STRING").coalesce(1).write.parquet(f"file://{place}")
        return next(place.glob("*.parquet")).read_bytes()


def main(folder: Path, names: list[str], kinds: list[str], methods: list[str], deep: int) -> None:
    """Start all of it, and tell."""
    os.environ.update({**CREDENTIALS, "COMPACTOR_DRIVER_MEMORY": "1g"})
    with s3_server(folder / "s3.log") as server, Proxy(server) as proxy:
        server.bucket("lake")
        os.environ["AWS_ENDPOINT_URL_S3"] = proxy.url
        tables = "".join(f"  {name.replace('.', '_')}: {{key: [id], order_by: [seq], write_mode: merge-on-read, envelope: flat}}\n" for name in NAMES)
        text = f"warehouse: {WAREHOUSE}\ncatalog: {{database: cut}}\ns3: {{path_style: true}}\ntables:\n{tables}"
        (folder / "compactor.yaml").write_text(text, encoding="utf-8")
        store = S3Storage(WAREHOUSE, S3Settings(path_style=True, endpoint=server.url, region="us-east-1"))
        with App.open(folder / "compactor.yaml", conf=SPARK) as app:
            for told in Cases(folder, store, proxy, app).every(names, kinds, methods, deep):
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *[word.split(",") for word in sys.argv[2:5]], int(sys.argv[5]))
