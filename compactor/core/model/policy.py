"""Policy: what a table does about a change of its source's schema, as the configuration declares it (`on_schema_change:`).

`core/schema/policy.py` has the table that turns a policy and a kind of change into an action.
"""

from __future__ import annotations

from dataclasses import dataclass

from compactor.core.model import types

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
