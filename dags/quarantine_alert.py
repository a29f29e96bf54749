"""Fails while records or files are in quarantine, so that your monitoring of failed DAGs reports them. The log lists the files and the reasons.

What to do: repair the cause, then run `compactor quarantine TABLE --replay`. The other rows of the table are ingested meanwhile.
"""

from compactor.airflow import dags

globals().update(dags.quarantine_alert(dags.settings(__file__), doc=__doc__))
