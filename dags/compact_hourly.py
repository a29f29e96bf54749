"""Brings tables up to date. There is one DAG `compact_<group>` for each group in `compactor.yaml`.

Each table has three tasks. `wait` waits until a file of the hour has landed, at most for the group's `wait`. `run` is `compactor run TABLE`.
`verify` checks files, counts and inputs, and then emits an event of the table's asset. You can clear and rerun any task: a run ingests each file
only once.
"""

from compactor.airflow import dags  # Airflow only parses files that contain the words "airflow" and "dag"

globals().update(dags.compact(dags.settings(__file__), doc=__doc__))
