"""compactor keeps plain-Parquet Hive tables up to date from change-data-capture files. docs/design/architecture.md shows the packages."""

__version__ = "0.1.0"
