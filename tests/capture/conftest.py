"""App on the shared Spark session."""

from tests.parts.one_spark import app_on_one_spark

__all__ = ["app_on_one_spark"]
