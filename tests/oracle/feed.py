"""A consumer of the change feed that knows no keys: a copy of the table as a bag of rows, changed line by line as `compactor changes` prints them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

OWN = ("_change_type", "_commit_version", "_commit_timestamp", "_deleted", "_row_id")


def text(row: Mapping[str, Any]) -> str:
    """A row as one text; a null is the same as a column that is not there."""
    return json.dumps({name: value for name, value in sorted(row.items()) if value is not None}, default=str)


def applied(lines: Iterable[str], copy: Counter[str] | None = None) -> Counter[str]:
    """The copy (default: of an empty table) after these changes. One that does not fit is an AssertionError."""
    rows = Counter(copy or {})
    for line in lines:
        change = json.loads(line, parse_float=Decimal)
        row = text({name: value for name, value in change.items() if name not in OWN})
        if change["_change_type"] in ("insert", "update_postimage"):
            rows[row] += 1
        else:
            assert rows[row] > 0, f"{line}: there is no such row"
            rows[row] -= 1
    return +rows
