"""Brings tables up to date: a DAG `compact_<group>` for each group of `compactor.yaml`.

For each table: `wait` until something of the hour has landed (or the group's `wait` is over), `run` = `compactor run TABLE`, `verify` = its
files, counts and inputs, after which the table's asset is told what happened. Clear or run again whatever you like: a run takes what is new
and nothing twice.
"""

from compactor.airflow import dags  # Airflow looks for the words "airflow" and "dag" in a file before it reads it

globals().update(dags.compact(dags.settings(__file__), doc=__doc__))
