"""Verifies every table in full: its view against its definition, and against one resolve of everything that was ever absorbed.

It reads the whole archive of each table, two tables at a time. Nothing is changed.
"""

from compactor.airflow import dags

globals().update(dags.maintenance(dags.settings(__file__), doc=__doc__))
