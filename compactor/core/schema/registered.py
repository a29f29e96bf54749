"""RegisteredSchema: one version of a registry's subject."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RegisteredSchema:
    """One version of a subject."""

    subject: str
    version: int
    id: int | None
    """The schema id in Kafka records; None if the registry has no ids."""
    text: str
    """Self-contained Avro JSON: references are resolved."""
