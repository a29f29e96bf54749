"""What is measured: `measures` is the one list of figures, `record` the run record of one table and run, `price` its cost. The other modules write
both in the format of a monitoring system: `prometheus`, `emf` (CloudWatch), `lineage` (OpenLineage), and `dashboards` draws the list for CloudWatch
and Grafana.
"""
