"""Implementations of the `Catalog` port: a Hive metastore (`hive.py`, its client in `hive_client.py`), AWS Glue in `glue/`, and `recorded.py`,
which shows changes as statements. `rules.py` has the rules that all of them share, and the names of file formats."""
