"""The S3 server of the tests, and a table below a local folder or in a bucket."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from compactor.core.model import times
from compactor.core.settings.s3 import S3Settings
from compactor.storage.local import LocalStorage
from compactor.storage.s3.storage import S3Storage
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.parts.s3_fixtures import s3_endpoint, server
from tests.read.parquet_lake import export

__all__ = ["s3_endpoint", "server"]


@dataclass(frozen=True)
class Place:
    """A configuration with the table `t`."""

    config: Path
    lake: Lake


@pytest.fixture(scope="module", params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Version 1 has the keys 1 to 40 in a base, version 2 deletes 2, changes 3 and adds 41 in a Delta, version 3 adds a column."""
    folder = tmp_path_factory.mktemp("read")
    if request.param == "s3":
        request.getfixturevalue("s3_endpoint")
        warehouse = f"s3://lake/{folder.name}"
        storage = S3Storage(warehouse, S3Settings(path_style=True).within(os.environ))
    else:
        warehouse, storage = str(folder / "w 'x"), LocalStorage()  # type: ignore[assignment]
    lake = Lake(table(compact_every=1e9))
    lake.deliver("increment_2026010100/a.json", [line("c", [at], [at], {"a": at * 10, "b": f"n{at}"}) for at in range(1, 41)])
    lake.run()
    lake.deliver(
        "increment_2026010101/b.json", [line("d", [2], [50]), line("u", [3], [51], {"a": None, "b": "x'\"\\"}), line("c", [41], [52], {"a": 1})]
    )
    lake.run()
    last = {**json.loads(line("u", [4], [60], {"a": 7, "b": "n", "later": "y"})), "partition": 0, "time": times.to_micros("2026-01-01T02:40:00Z")}
    lake.deliver("increment_2026010102/c.json", [json.dumps(last)])
    lake.run()
    export(lake, storage, f"{warehouse}/t")
    config = folder / "compactor.yaml"
    tables = "tables:\n  t: {key: [id], order_by: [seq]}\n  empty: {key: [id], order_by: [seq]}\n"
    config.write_text(f'warehouse: "{warehouse}"\ncatalog: {{database: school}}\ns3: {{path_style: true}}\n{tables}')
    return Place(config, lake)
