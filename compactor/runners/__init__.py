"""Implementations of the `Runner` port, which executes a command line: as a local process (`local.py`) or on EMR (`emr.py`), as a job run of EMR
Serverless (`emr_serverless.py`) or a step of a cluster (`emr_steps.py`)."""
