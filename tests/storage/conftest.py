"""The S3 server and the proxy."""

from tests.parts.s3_fixtures import proxy, s3_endpoint, server

__all__ = ["proxy", "s3_endpoint", "server"]
