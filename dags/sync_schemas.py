"""Checks every 15 minutes whether the declared schema of a table has changed, before rows with the new schema land.

`notify_changes` notifies the targets in the table's `notify:`, once for each change. If `on_schema_change` does not allow a change, the table is
blocked and `confirm_repair` asks you under *Required actions*. Repair the producer or the configuration, then approve: the tables run. Without
an answer nothing happens, and new files stay in landing. Meanwhile the schemas are still checked; the next question follows the answer.
"""

from compactor.airflow import dags

globals().update(dags.sync_schemas(dags.settings(__file__), doc=__doc__))
