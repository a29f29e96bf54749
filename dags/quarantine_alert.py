"""Fails when records or files wait in quarantine, so that whoever watches failures learns of it. The log says which, and why.

What to do: repair the cause, then `compactor quarantine replay TABLE`. The table itself goes on meanwhile.
"""

from compactor.airflow import dags

globals().update(dags.quarantine_alert(dags.settings(__file__), doc=__doc__))
