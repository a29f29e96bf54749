"""RegisteredSchema: one version of a registry's subject."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RegisteredSchema:
    """One version of a subject. `text` is Avro JSON that needs no other: its references are part of it. `id` is the number that stands in
    Kafka records, None where the registry has none.
    """

    subject: str
    version: int
    id: int | None
    text: str
