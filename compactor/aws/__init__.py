"""Shared code for AWS services: the client with its connection (`client.py`), the retry policy (`retry.py`), CloudWatch metrics (`metrics.py`)
and what is special about Spark on EMR (`emr.py`). The S3, Glue and EMR adapters build on it."""
