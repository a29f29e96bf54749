"""The S3 server and the proxy."""

from tests.parts.s3_fixtures import proxy, server

__all__ = ["proxy", "server"]
