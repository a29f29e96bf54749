"""Names of environment variables that have secrets."""

from __future__ import annotations

USER_INFO = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"
"""User and password of the schema registry, as Confluent's clients name it: `user:password`."""
