"""Adapters that send the measures and records of runs: `files` (Prometheus text files, lines of EMF and JSON) and `http` (pushgateway, OpenLineage).
CloudWatch's own client is in `compactor/aws/metrics.py`; `process` reads the CPU time of this process. Only the standard library is needed.
"""
