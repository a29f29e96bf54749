"""Requests to Glue, its settings, and the error messages for responses that no retry can change.

Retryable errors: `aws/retry.py`. docs/aws.md describes both for users.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.core.model.errors import CatalogRefused

_FINAL = (
    (
        {"AccessDeniedException", "AccessDenied", "403"},
        "not allowed to glue:{action}: grant this identity what docs/aws.md lists for the database, its tables and the catalog; where Lake Formation"
        " manages permissions, also there (DESCRIBE, ALTER, CREATE_TABLE on the database)",
    ),
    ({"EntityNotFoundException"}, "the database or table does not exist: create the database, or correct catalog.database and tables_in"),
    (
        {"GlueEncryptionException"},
        "the catalog is encrypted with a key that this identity may not use: grant kms:Decrypt and kms:GenerateDataKey on it",
    ),
    ({"ResourceNumberLimitExceededException", "LimitExceededException"}, "a quota of Glue is used up: have it raised, or delete unused objects"),
    ({"InvalidInputException", "ValidationException"}, "Glue rejects the definition: a name, type or text exceeds a limit of Glue"),
)


@dataclass(frozen=True)
class GlueSettings:
    """Settings of the Glue catalog."""

    catalog_id: str = ""
    """Account that owns the catalog; empty: the account of the credentials."""

    client: ClientConfig = field(default_factory=ClientConfig)
    """Region, endpoint, timeouts and retries."""


class GlueClient(AwsClient):
    """Requests to Glue that contain the catalog's id."""

    refused = CatalogRefused

    def __init__(self, settings: GlueSettings) -> None:
        super().__init__("glue", settings.client, _FINAL, "{host} refused glue:{action}")
        self._catalog_id = settings.catalog_id or None

    def request(self, operation: str, what: str, expect: Any = (), **parameters: Any) -> dict[str, Any]:
        """Send a request like `AwsClient.request`."""
        return super().request(operation, what, expect, CatalogId=self._catalog_id, **parameters)
