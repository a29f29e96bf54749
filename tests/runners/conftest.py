"""The AWS server."""

from tests.parts.s3_fixtures import server

__all__ = ["server"]
