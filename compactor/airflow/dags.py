"""compactor.yaml → DAGs. Read at every parse: nothing here looks at anything but the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, TaskGroup

from compactor.airflow.hours import KEY_FORMAT
from compactor.airflow.tasks import Run, Verify, WaitForHour
from compactor.config import Settings, load
from compactor.config_keys import Group, Table
from compactor.config_values import is_s3

START = datetime(2020, 1, 1, tzinfo=timezone.utc)
"""Before every run; DAGs do not catch up by themselves."""

CONFIG = "COMPACTOR_CONFIG"
TAG = "compactor"


def settings(dag_file: str) -> Settings:
    """The configuration: COMPACTOR_CONFIG, else compactor.yaml beside the DAG file. Raises ConfigError, which Airflow shows as an import error."""
    return load(os.environ.get(CONFIG) or Path(dag_file).parent / "compactor.yaml")


def asset(configured: Settings, name: str) -> Asset:
    """The asset of a table's view: `<database>.<view>`, with the table's location as its address."""
    spec = configured.spec(name)
    return Asset(name=f"{spec.database}.{spec.view}", uri=spec.root if is_s3(spec.root) else f"file://{spec.root}")


def compact(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """A DAG `compact_<group>` for each group that has tables: for each table a task group of wait, run, verify."""
    members: dict[str, list[str]] = {}
    for name, table in configured.tables.items():
        members.setdefault(table.group, []).append(name)
    dags = {}
    for group, names in members.items():
        said = configured.airflow.groups.get(group, Group())
        with _dag(f"compact_{group}", doc, **_timing(said), max_active_tasks=said.at_once, max_active_runs=1, tags=[TAG, group]) as dag:
            for name in names:
                _compact_table(configured, name, said)
        dags[dag.dag_id] = dag
    return dags


def _compact_table(configured: Settings, name: str, group: Group) -> None:
    config, table, shown = str(configured.file), configured.tables[name], asset(configured, name)
    common: dict[str, Any] = {"config": config, "table": name, **task_settings(table)}
    with TaskGroup(name, tooltip=table.comment or ""):
        wait = WaitForHour(task_id="wait", wait=group.wait, **common)
        run = Run(task_id="run", pool=table.pool, execution_timeout=timedelta(seconds=table.timeout), **common)
        verify = Verify(task_id="verify", files_only=True, asset=shown, reported=f"{name}.run", **common)
        wait >> run >> verify


def maintenance(configured: Settings, doc: str | None = None) -> dict[str, DAG]:
    """A DAG that compares every table's view with all that was ever absorbed, one table after another of the same priority."""
    with _dag("maintenance", doc, schedule=configured.airflow.maintenance, max_active_runs=1, max_active_tasks=2, tags=[TAG]) as dag:
        for name, table in configured.tables.items():
            limit = timedelta(seconds=table.timeout)
            Verify(
                task_id=f"verify_{name}",
                **{"files_only": False, "config": str(configured.file), "table": name, "pool": table.pool, "execution_timeout": limit},
                **task_settings(table),
            )
    return {dag.dag_id: dag}


def task_settings(table: Table) -> dict[str, Any]:
    """What the table's keys say to each of its tasks."""
    return {
        "owner": table.owner,
        "priority_weight": table.priority,
        "weight_rule": "absolute",
        "retries": table.retries,
        "retry_delay": timedelta(seconds=table.retry_delay),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(minutes=30),
    }


def _timing(group: Group) -> dict[str, Any]:
    """Schedule and deadline of a group's DAG."""
    timing: dict[str, Any] = {"schedule": group.schedule}
    if group.partitioned and group.schedule:
        # Airflow 3.2 on
        from airflow.sdk import CronPartitionTimetable

        timing["schedule"] = CronPartitionTimetable(group.schedule, timezone="UTC", run_offset=timedelta(hours=-1), key_format=KEY_FORMAT)
    return timing


def _dag(name: str, doc: str | None, **more: Any) -> DAG:
    return DAG(name, start_date=START, catchup=False, doc_md=doc, **more)
