"""The S3 and Glue server, and the proxy before it."""

from tests.parts.s3_fixtures import proxy, server

__all__ = ["proxy", "server"]
