"""Parsers of the rules in `checks:`. Like `config/values.py`: an invalid value is a ValueError with one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactor.config.values import duration, names, share, shown


def change(value: Any) -> float | None:
    """Parse a share that may be larger than 1, such as `50%` or `2`."""
    if value is None:
        return None
    try:
        number = float(str(value).rstrip("% ")) / (100 if str(value).strip().endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"expected a share such as 0.5 or 200%, found {shown(value)}")
    return number


def fresh(value: Any) -> float | None:
    """Parse a duration, or null."""
    return None if value is None else duration(value)


def unique(value: Any) -> tuple[tuple[str, ...], ...]:
    """Parse a list of columns and of lists of columns."""
    if not isinstance(value, list):
        raise ValueError(f"expected a list such as [email, [school, number]], found {shown(value)}")
    return tuple(names(item if isinstance(item, list) else [item]) for item in value)


def null_share(value: Any) -> tuple[tuple[str, float], ...]:
    """Parse a mapping of columns to shares."""
    return tuple((column, share(limit)) for column, limit in _mapping(value, "{email: 5%}").items())


def accepted(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Parse a mapping of columns to lists of values."""
    parsed = []
    for column, values in _mapping(value, "{status: [active, left]}").items():
        if not isinstance(values, list) or not values or any(isinstance(item, (dict, list)) or item is None for item in values):
            raise ValueError(f"{column}: expected a list of values, found {shown(values)}")
        parsed.append((column, tuple(str(item).lower() if isinstance(item, bool) else str(item) for item in values)))
    return tuple(parsed)


def queries(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse a mapping of names to queries."""
    parsed = _mapping(value, "{no_orphans: select ..}")
    for name, text in parsed.items():
        if not isinstance(text, str) or text.strip().split(None, 1)[:1] not in (["select"], ["SELECT"], ["with"], ["WITH"]):
            raise ValueError(f"{name}: expected a query that begins with SELECT or WITH, found {shown(text)}")
    return tuple((name, text.strip().rstrip(";")) for name, text in parsed.items())


def _mapping(value: Any, example: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or any(not isinstance(name, str) or not name for name in value):
        raise ValueError(f"expected a mapping such as {example}, found {shown(value)}")
    return value
