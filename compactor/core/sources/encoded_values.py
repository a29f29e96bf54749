"""Notice values of JSON without schema whose meaning only a schema shows: base64 of decimals, and numbers that are days or times since 1970.

Kafka Connect's JSON converter writes them so, unless `schemas.enable` is set.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DECIMAL = "decimal(10,2)"
"""What is proposed for base64: the source's precision and scale are not in the values."""

_MOMENTS = {f"timestamp_{unit}": range(10**digits, 23 * 10 ** (digits - 1)) for unit, digits in (("millis", 12), ("micros", 15), ("nanos", 18))}
"""Word of `types:` → numbers that are moments from 2001 to 2042. Hardly anything else is as large."""

_DAYS, _DAYS_SURE = range(-25_567, 30_000), 3_000
"""Days from 1900 to 2052. Small numbers are more often counts, so one value must be as far from 1970 as the second number."""

_DATED = re.compile(r"(?:^|_)(?:date|day|born|birth|birthday|dob)(?:$|_)|(?:date|birth|_on)$", re.IGNORECASE)
_NAMED = re.compile(r"(?:^|_)(?:id|uuid|guid|key|no|nr|number|code|phone|hash)$|I[Dd]$|^[iI][dD]$")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)")
_NO_WORD = re.compile(r"=|[a-z0-9+/][A-Z]|[A-Z]{2}[a-z]")
_CHARS_MAX, _UNPADDED_MIN = 24, 5


@dataclass
class Values:
    """The values of one column, summarized."""

    count: int = 0
    """Values that are not null."""
    words: tuple[str, ...] = (*_MOMENTS, "date_days", DECIMAL)
    """What all values may be."""
    far: bool = False
    """Whether a number is too far from zero to be a count of something."""
    padded: bool = False
    """Whether a text ends with the sign that fills up base64, as no word does."""
    unlike_words: int = 0
    """Texts with the letters of no language's words."""
    example: Any = None
    """The first value."""

    def add(self, value: Any) -> None:
        """Add a value."""
        if value is None or value == "":
            return
        self.count, self.example = self.count + 1, value if self.count == 0 else self.example
        self.words = tuple(word for word in self.words if _may_be(value, word))
        if isinstance(value, str):
            self.padded, self.unlike_words = self.padded or value.endswith("="), self.unlike_words + bool(_NO_WORD.search(value))
        else:
            self.far = self.far or (isinstance(value, int) and abs(value) >= _DAYS_SURE)

    def word(self, column: str) -> str | None:
        """Return what the values most likely are, as a word of `types:`; None if it is what they look like."""
        if not self.count or not self.words or _NAMED.search(column):
            return None
        word = self.words[0]
        if word == "date_days":
            return word if self.far and _DATED.search(column) else None
        sure = self.padded or (self.count >= _UNPADDED_MIN and 2 * self.unlike_words >= self.count)
        return word if word != DECIMAL or sure else None


@dataclass
class EncodedValues:
    """The values of the columns of a source."""

    columns: dict[str, Values] = field(default_factory=dict)
    """By column."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the values of a row. Columns that a connector added have a known meaning."""
        for name, value in row.items():
            if not name.startswith("__"):
                self.columns.setdefault(name, Values()).add(value)

    @property
    def types(self) -> dict[str, str]:
        """Return column → word of `types:`, for columns whose values most likely stand for something else."""
        return {name: word for name, values in self.columns.items() if (word := values.word(name))}

    def sentence(self, named: Mapping[str, str]) -> str:
        """Return what these columns (→ word) look like."""
        packed = [f"{name} ({self.columns[name].example})" for name, word in named.items() if word == DECIMAL]
        numbers = [f"{name} ({self.columns[name].example})" for name, word in named.items() if word != DECIMAL]
        texts = f"{', '.join(packed)} looks like base64 of a decimal, with the precision and scale of the source, or of bytes (binary)"
        times = f"{', '.join(numbers)} looks like days or times since 1970 as whole numbers (else bigint)"
        return "; ".join([*([texts] if packed else []), *([times] if numbers else [])])


def _may_be(value: Any, word: str) -> bool:
    if word == DECIMAL:
        return isinstance(value, str) and len(value) <= _CHARS_MAX and bool(_BASE64.fullmatch(value)) and _is_shortest(base64.b64decode(value))
    numbers = _MOMENTS.get(word, _DAYS)
    return isinstance(value, int) and not isinstance(value, bool) and value in numbers


def _is_shortest(data: bytes) -> bool:
    """Return whether no byte of a number (two's complement) is superfluous, as Java writes it."""
    return len(data) < 2 or not ((data[0] == 0 and data[1] < 128) or (data[0] == 255 and data[1] >= 128))
