"""Compacts and verifies every table, and deletes unneeded files, by default after approval.

`compact_<group>` ingests new files of the group's tables and merges the Delta into the base where that is worthwhile. `verify_<group>` compares the
views with a full recompute from the archive and reads every file. Both fail with the errors of the tables that failed. Tables with a job of their own
have it here too, as `compact.<table>` and `verify.<table>`.

`vacuum_dry_run` lists what `compactor versions vacuum` would delete. `anything_to_delete` leaves out tables that were not verified.
`approve_deletion` then asks you under *Required actions*, and `vacuum` deletes the files after *Approve*.
With `airflow: {vacuum: auto}` nobody is asked.
"""

from compactor.airflow import dags

globals().update(dags.maintenance(dags.settings(__file__), doc=__doc__))
