"""Brings the chosen tables up to date when you start it by hand. **With `dry_run` on (the default) nothing changes: read the log of `plan` first.**

A run ingests every new file in landing, in any order. The hours in the form do not limit it; they are the hours that you expect. For each table,
`plan` shows which of them wait in landing, which were ingested before, and which are missing. With `complete` on, a missing hour stops the
backfill before anything changes. You can start it while other DAGs run, and again after a failure.
"""

from compactor.airflow import dags

globals().update(dags.backfill(dags.settings(__file__), doc=__doc__))
