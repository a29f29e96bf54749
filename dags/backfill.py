"""Brings chosen tables up to date by hand. **With `dry_run` (the default) nothing is changed: look at the log of `plan` first.**

A run absorbs everything that has landed and is new, in whatever order it landed; the hours say which ones you expect. `plan` tells, for each
table, which of them wait in landing, which were absorbed before, and of which there is nothing. With `complete`, an hour of which there is
nothing stops the table before its run. May be started while `compact_hourly` runs, and again after it broke.
"""

from compactor.airflow import dags

globals().update(dags.backfill(dags.settings(__file__), doc=__doc__))
