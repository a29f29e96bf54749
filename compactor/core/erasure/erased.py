"""Erased: the keys whose rows were erased for good, as keyed hashes, so that their events change nothing when they come again."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Erased:
    """The erased keys of a table."""

    secret: str
    """A hash that only the secret of `keys` gives. With another secret no erased key would be recognised."""
    keys: tuple[str, ...]
    """HMAC-SHA256 of each key as text, in hexadecimal digits, sorted."""
    version: int = 0
    """The newest version that an erase made. Every older version may have rows of the keys and is deleted."""
    since: float = 0.0
    """When that version was made, in epoch seconds of the store's clock."""
    rows: int = 0
    """Number of stored rows that all erases have removed, tombstones included."""
    events: int = 0
    """Number of events of the history that all erases have removed."""

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Erased:
        """Return the Erased of a JSON object."""
        return cls(**{**raw, "keys": tuple(raw["keys"])})


def hashed(text: str, secret: bytes) -> str:
    """Return the keyed hash of a key as text."""
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
