"""`python -m benchmarks.dags`: CPU seconds that Airflow needs to read `dags/compact_hourly.py` with many tables. Needs Airflow (`make test-airflow`)."""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "dags" / "compact_hourly.py"


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dags", description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AIRFLOW_HOME"] = folder
        config = Path(folder) / "compactor.yaml"
        config.write_text("tables:\n" + "".join(f"  table_{n}:\n    key: [id]\n    owner: team\n" for n in range(given.tables)), encoding="utf-8")
        os.environ["COMPACTOR_CONFIG"] = str(config)
        import airflow.sdk
        from airflow.serialization.serialized_objects import DagSerialization

        read()  # modules are loaded: the DAG processor forks with them
        from compactor.config.settings import load

        dag: airflow.sdk.DAG = read().compact_hourly
        figures = {
            "configuration": lambda: load(config),
            "DAG file, configuration included": read,
            "to JSON for Airflow's database": lambda: DagSerialization.to_dict(dag),
        }
        print(f"{given.tables} tables, {len(dag.tasks)} tasks; CPU seconds, median of {given.repeat}")
        for name, call in figures.items():
            print(f"{statistics.median(cpu(call) for _ in range(given.repeat)):8.3f}  {name}")
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f}  MB at most")


def read() -> Any:
    """The DAG file as a fresh module."""
    spec = importlib.util.spec_from_file_location("compact_hourly", FILE)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cpu(call: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


if __name__ == "__main__":
    main()
