"""How the Glue catalog is reached, and the answers that trying again does not change, in words that say what to do.

What is tried again: `aws/retry.py`. docs/glue.md says the same for people.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.aws.retry import access_problem, api_name, code_of, words
from compactor.core.model.errors import CatalogRefused

_FINAL = (
    (
        {"AccessDeniedException", "AccessDenied", "403"},
        "not allowed to {action}: grant this identity what docs/glue.md lists for the database, its tables and the catalog; where Lake Formation"
        " rules, also there (DESCRIBE, ALTER, CREATE_TABLE on the database)",
    ),
    ({"EntityNotFoundException"}, "the database or table is not there: create the database, or correct catalog.database and tables_in"),
    (
        {"GlueEncryptionException"},
        "the catalog is encrypted with a key that this identity may not use: grant kms:Decrypt and kms:GenerateDataKey on it",
    ),
    ({"ResourceNumberLimitExceededException", "LimitExceededException"}, "a quota of Glue is used up: have it raised, or remove what is over"),
    ({"InvalidInputException", "ValidationException"}, "Glue does not take it: a name, type or text is beyond what Glue holds"),
)


@dataclass(frozen=True)
class GlueSettings:
    """Which catalog: `catalog_id` is the account that owns it (empty: our own); where, and how long it is tried."""

    catalog_id: str = ""
    reach: ClientConfig = field(default_factory=ClientConfig)


def refusal(error: Exception, what: str, operation: str, host: str) -> CatalogRefused:
    """An answer that trying again does not change."""
    action = f"glue:{api_name(operation)}"
    problem = access_problem(error, host)
    if problem:
        return CatalogRefused(f"{what}: {problem}")
    told = next((text.format(action=action) for codes, text in _FINAL if code_of(error) in codes), f"{host} refused {action}")
    return CatalogRefused(f"{what}: {told} ({words(error)})")


class GlueClient(AwsClient):
    """Requests to Glue, each with the catalog's id."""

    def __init__(self, settings: GlueSettings) -> None:
        super().__init__("glue", settings.reach, refusal)
        self._catalog_id = settings.catalog_id or None

    def ask(self, operation: str, what: str, expect: Any = (), **parameters: Any) -> dict[str, Any]:
        """As `AwsClient.ask`."""
        return super().ask(operation, what, expect, CatalogId=self._catalog_id, **parameters)
