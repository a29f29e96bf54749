"""The `Catalog` port on AWS Glue: the catalog with its requests (`catalog.py`), and the conversion to Glue's objects and Athena's views
(`shapes.py`)."""
