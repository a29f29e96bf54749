"""Brings tables up to date. There is one DAG `compact_<group>` for each group in `compactor.yaml`.

`wait` waits until a file of the hour has landed for every table, at most for the group's `wait`. `find_work` looks which tables have work. `run` is
one `compactor run` for all of them. Each table has a task of its own below `tables`: skipped (pink) if there was no work, green if its files were
verified and its asset event was sent, red with the table's error if it failed. Clear a table's task to run the table alone. You can clear and rerun
any task: a run ingests each file only once.
"""

from compactor.airflow import dags  # Airflow only parses files that contain the words "airflow" and "dag"

globals().update(dags.compact(dags.settings(__file__), doc=__doc__))
