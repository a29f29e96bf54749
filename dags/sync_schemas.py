"""Looks every quarter of an hour whether the schema of a table has changed where it is declared, before rows of it land.

`tell` tells those whom the table's `notify` names, each once. Where a table would stop at the change (`on_schema_change`), a person is asked:
repair the producer or the configuration, then approve, and the tables run. Without an answer nothing happens; what lands stays in landing.
"""

from compactor.airflow import dags

globals().update(dags.sync_schemas(dags.settings(__file__), doc=__doc__))
