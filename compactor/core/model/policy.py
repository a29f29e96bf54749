"""What a table's declaration says about its rows: Policy (`on_schema_change:`), Rule (`checks:`) and Protection (`columns:`).

`core/schema/policy.py` has the table that turns a Policy and a kind of change into an action, `core/planning/audit.py` the SQL of Rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compactor.core.model import names, types

POLICIES = ("evolve", "freeze", "fail")
"""`evolve` follows every change that loses nothing. `freeze` keeps the columns as they are and refuses what would put values at risk. `fail` stops
the table at every change that would be visible in it."""

DROPS = ("keep", "hide")
"""Whether the view still shows columns that the source has removed."""

TO_STRING = "to_string"
"""The kind of change that only text can follow."""

EXPLICIT = (*types.ON_REQUEST, TO_STRING)
"""Kinds of change that are followed only if the policy names them. No schema shows whether they keep the meaning: a date becomes its midnight, in an
unknown time zone; text becomes its own bytes, or, if the connector writes bytes as hexadecimal digits, something else; numbers that become text
cannot be added up any more, and sort differently."""

ROW_CHANGE, UNIQUE, NULL_SHARE, ACCEPTED, FRESH, SQL = "row_change", "unique", "null_share", "accepted", "fresh", "sql"
"""Kinds of rules."""

EXCLUDE, HASH, MASK, NULL = "exclude", "hash", "mask", "null"
"""Kinds of protection."""


@dataclass(frozen=True)
class Policy:
    """A table's policy for every kind of schema change."""

    standard: str = "evolve"
    """The policy for kinds that `kinds` does not name: one of POLICIES."""
    kinds: tuple[tuple[str, str], ...] = ()
    """(kind, policy) for single kinds of change."""
    drop: str = "keep"
    """What happens to columns that the source has removed: one of DROPS."""
    patch_rows: bool = False
    """Whether rows contain only some of the columns. Then no column ever counts as removed."""

    @property
    def hides(self) -> bool:
        """Return whether the view hides columns that the source has removed."""
        return self.drop == "hide" and not self.patch_rows

    @property
    def follows_everything(self) -> bool:
        """Return whether no change leaves out values: every kind has the policy `evolve`."""
        return all(policy == "evolve" for policy in (self.standard, *dict(self.kinds).values()))

    def of(self, kind: str) -> str:
        """Return the policy for a kind of change."""
        return dict(self.kinds).get(kind, "fail" if kind in EXPLICIT else self.standard)


EVOLVE = Policy()
"""The default policy."""


@dataclass(frozen=True)
class Rule:
    """One rule of a table."""

    kind: str
    """A name such as `unique`."""
    columns: tuple[str, ...] = ()
    """Columns of the view; for `sql` the name of the query."""
    limit: float = 0.0
    """A share (`row_change`, `null_share`) or seconds (`fresh`)."""
    values: tuple[str, ...] = ()
    """The accepted values as text; for `sql` the query."""

    @property
    def name(self) -> str:
        """Return the name in messages."""
        return " ".join((self.kind, ", ".join(self.columns))).strip()

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Rule:
        """Return the rule of a JSON object."""
        return cls(raw["kind"], tuple(raw["columns"]), raw["limit"], tuple(raw["values"]))


HASH_KEY = "COMPACTOR_HASH_KEY"
"""Environment variable: the secret of `hash` columns and erased keys. The same secret gives the same hash, so that tables can be joined."""


@dataclass(frozen=True)
class Protection:
    """What happens to the values of one column."""

    column: str
    """The column in the source's spelling; upper and lower case count as equal."""
    kind: str
    """`exclude` (there is no such column), `hash` (HMAC-SHA256 as text), `mask` (text with its end alone readable), or `null`."""
    keep: int = 0
    """(mask) Characters at the end that stay readable."""

    @property
    def text(self) -> str:
        """Return the rule as the configuration writes it."""
        return f"{self.kind}({self.keep})" if self.kind == MASK else self.kind

    def covers(self, *spellings: str) -> bool:
        """Return whether one of these source names is the column."""
        return names.stored_name(self.column) in map(names.stored_name, spellings)
