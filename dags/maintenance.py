"""Verifies every table in full: its view against its definition, and against one resolve of everything ever absorbed; every kept file is read.

It reads the whole archive of each table, two tables at a time. Beside that `look_for_waste` tells what `compactor vacuum` would delete, a
person is asked, and only after a yes `vacuum` deletes it. Nothing else is changed.
"""

from compactor.airflow import dags

globals().update(dags.maintenance(dags.settings(__file__), doc=__doc__))
