"""The `Catalog` port on AWS Glue: the catalog, its requests and error texts (`client.py`), the conversion to Glue's objects (`shapes.py`) and the
form of Athena's views (`presto.py`)."""
