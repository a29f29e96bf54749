"""Implementations of the `Runner` port, which executes a command line: as a local process (`local.py`) or on EMR (`emr.py`)."""
