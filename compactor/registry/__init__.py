"""Implementations of the `Registry` port: servers with Confluent's API (`confluent.py`, over `http.py`), and a folder of schema files
(`files.py`)."""
