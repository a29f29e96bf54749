"""Run by test_s3_processes.py in processes of their own: one runner of the table on S3 with its catalog in Glue, run after run, until somebody kills it.

    python -m tests.faults_real.runner ENDPOINT ROOT [PAUSE]

The flows, the storage and the catalog are the real ones; what computes is the list engine, so that a process starts in a moment and no JVM dies
with it. Prints `ready`, then a line a run. PAUSE: seconds after a run that found nothing to do.
"""

from __future__ import annotations

import os
import sys
import time

from compactor.aws.client import ClientConfig
from compactor.catalog.glue.catalog import GlueCatalog
from compactor.core.model.errors import TryLater
from compactor.core.model.spec import TableSpec
from compactor.flows.environment import Environment
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.storage.s3.storage import S3Storage
from tests.oracle.engine import ListEngine
from tests.oracle.lake import table
from tests.oracle.s3_lake import SETTINGS


def spec_at(root: str) -> TableSpec:
    """The table of a test: its root is its own. A handful of Segments: each is two requests of whoever reads."""
    return table(
        target_file_bytes=6000,
        root=root,
        landing=f"{root}/incremental",
        database=root.rpartition("/")[2],
        tables_in=root.rpartition("/")[2],
    )


def world_at(url: str, root: str, read_seconds: float = 20.0) -> Environment:
    """What a process sees: the store and the catalog at an endpoint."""
    storage = S3Storage(root, type(SETTINGS)(**{**vars(SETTINGS), "endpoint": url, "operation_seconds": 60.0, "read_seconds": read_seconds}))
    engine, catalog = ListEngine(storage), GlueCatalog(ClientConfig("us-east-1", url, read_seconds=read_seconds))
    return Environment(storage, lambda: engine, lambda: catalog)


def main(url: str, root: str, pause: str = "0.02") -> None:
    """The caller decides when it is over; only when the caller itself is gone it ends by itself."""
    caller, env, spec = os.getppid(), world_at(url, root), spec_at(root)
    print("ready", flush=True)
    while os.getppid() == caller:
        try:
            report = run_table(Table(env, spec))
        except TryLater as error:
            print("later", error, flush=True)
            time.sleep(float(pause))
            continue
        print(report.outcome, report.version, flush=True)
        if report.outcome == "idle":
            time.sleep(float(pause))


if __name__ == "__main__":
    main(*sys.argv[1:])
