"""`python -m benchmarks.scheduling`: what a run of `compact_hourly` with many tables costs Airflow's scheduler, apart from the tasks themselves.

The scheduler's own calls on a run in SQLite: every task is made to succeed as soon as it may start. Needs Airflow (`make test-airflow`).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

FILE = Path(__file__).parents[1] / "dags" / "compact_hourly.py"


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling", description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, dags = Path(folder) / "compactor.yaml", Path(folder) / "dags"
        config.write_text("tables:\n" + "".join(f"  table_{n}:\n    key: [id]\n    owner: team\n" for n in range(given.tables)), encoding="utf-8")
        dags.mkdir()
        shutil.copy(FILE, dags)
        os.environ.update(
            AIRFLOW_HOME=folder, AIRFLOW__CORE__DAGS_FOLDER=str(dags), AIRFLOW__CORE__LOAD_EXAMPLES="False", COMPACTOR_CONFIG=str(config)
        )
        measure(given.tables)


def measure(tables: int) -> None:
    """One run, look by look."""
    from airflow.utils.db import initdb

    initdb()
    from airflow import settings
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    session = settings.Session()
    manager = DagBundlesManager()
    manager.sync_bundles_to_db(session=session)
    session.commit()
    (bundle,) = manager.get_all_dag_bundles()
    bundle.initialize()
    began = time.process_time()
    sync_bag_to_db(BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name), bundle.name, bundle.version)
    print(f"{time.process_time() - began:8.2f}  CPU s: the file read and stored by the DAG processor ({tables} tables)")
    began = time.process_time()
    dag = SerializedDagModel.get_dag("compact_hourly", session=session)
    from airflow._shared.timezones import timezone

    now = timezone.utcnow()
    run = dag.create_dagrun(
        run_id="bench",
        run_after=now,
        logical_date=None,
        data_interval=None,
        run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.TEST,
        state=DagRunState.RUNNING,
        start_date=now,
        session=session,
    )
    session.commit()
    print(f"{time.process_time() - began:8.2f}  CPU s: the run made, {len(dag.task_dict)} tasks")
    run.dag = dag
    look, looks, whole = 0.0, 0, time.process_time()
    while run.state == DagRunState.RUNNING:
        session.expire_all()
        run.dag = dag
        began = time.process_time()
        ready, _ = run.update_state(session=session)
        run.schedule_tis(ready, session=session)
        session.commit()
        look, looks = max(look, time.process_time() - began), looks + 1
        for ti in run.get_task_instances(session=session):
            if ti.state == TaskInstanceState.SCHEDULED:
                ti.set_state(TaskInstanceState.SUCCESS, session=session)
        session.commit()
    print(f"{look:8.2f}  CPU s: one look of the scheduler at the run, the longest of {looks}")
    print(f"{time.process_time() - whole:8.2f}  CPU s: all of them, with the tasks' states written one by one")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f}  MB at most")


if __name__ == "__main__":
    main()
