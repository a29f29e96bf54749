"""Implementations of the `Storage` port: the local file system, memory for tests, S3 in `s3/`, and `routed.py`, which chooses by location."""
