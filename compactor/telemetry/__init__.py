"""Adapters that write the measures and records of runs to files (`files`), and read the CPU time of this process (`process`). CloudWatch's own client
is in `compactor/aws/metrics.py`. Only the standard library is needed.
"""
