"""What a table does about a change of its source's schema: the table of (kind of change, policy) → action, in one place. Pure.

Policies: `evolve` follows whatever loses nothing; `freeze` keeps the table's columns as they are, and refuses what would put values at risk;
`fail` stops the table at anything that would show in it. Kinds are those of `core/schema/diff.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.schema.diff import Change

POLICIES = ("evolve", "freeze", "fail")
DROPS = ("keep", "hide")

ACTIONS = {
    "add": "a column is added; older rows read its default as it was when it came, else null",
    "leave out": "the column is left out; its values stay in the archive",
    "keep": "the table stays as it is",
    "hide": "the view does not show it any more; its values stay stored",
    "rename": "the view shows it under its new name; it stays stored under the old one",
    "widen": "its values are rewritten in the wider type, in tables of a new generation",
    "refuse": "refused; the table stops, its increments stay in landing",
}
"""Every action, in words."""

_KEEP = ("keep", "keep", "keep")
_REFUSE = ("refuse", "refuse", "refuse")
TABLE = {
    #               evolve   freeze       fail
    "added": ("add", "leave out", "refuse"),
    "removed": ("keep", "keep", "refuse"),
    "renamed": ("rename", "keep", "refuse"),
    "replaced": ("add", "refuse", "refuse"),
    "widened": ("widen", "refuse", "refuse"),
    "date_to_timestamp": ("widen", "refuse", "refuse"),
    "string_to_bytes": ("widen", "refuse", "refuse"),
    "incompatible": _REFUSE,
    # what a wider column holds, and what only the source's own schema knows
    "narrowed": _KEEP,
    "encoded": _KEEP,
    "nullable": _KEEP,
    "required": _KEEP,
    "symbols added": _KEEP,
    "symbols removed": _KEEP,
    "default": _KEEP,
    "comment": _KEEP,
    "reordered": _KEEP,
}
"""Kind → action under evolve, freeze, fail."""

CHOOSABLE = tuple(kind for kind, actions in TABLE.items() if len(set(actions)) > 1)
"""The kinds for which policies differ."""

ASKED = tuple(types.ON_REQUEST)
"""The kinds that are followed only where a policy names them, because no schema says whether they keep the meaning: a date its midnight, and where;
text its own bytes, or, when a connector was told to write bytes in another way, their hexadecimal digits."""


@dataclass(frozen=True)
class Policy:
    """A table's answer to every kind: `standard` for those that `kinds` does not name. `drop`: whether removed columns are kept shown or hidden.

    `partial`: rows leave out columns at will, so that none is ever taken for removed.
    """

    standard: str = "evolve"
    kinds: tuple[tuple[str, str], ...] = ()
    drop: str = "keep"
    partial: bool = False

    @property
    def hides(self) -> bool:
        """Whether columns that are gone from the source go from the view."""
        return self.drop == "hide" and not self.partial

    def of(self, kind: str) -> str:
        """The policy for a kind."""
        return dict(self.kinds).get(kind, "fail" if kind in ASKED else self.standard)

    @property
    def whole(self) -> bool:
        """Whether nothing is left out, whatever comes."""
        return all(policy == "evolve" for policy in (self.standard, *dict(self.kinds).values()))

    def action(self, kind: str) -> str:
        """What is done about a kind.

        >>> Policy("freeze", (("added", "evolve"),)).action("added"), Policy(drop="hide").action("removed")
        ('add', 'hide')
        """
        action = TABLE[kind][POLICIES.index(self.of(kind))]
        return "hide" if (kind, action, self.drop) == ("removed", "keep", "hide") else action


EVOLVE = Policy()


@dataclass(frozen=True)
class Decision:
    """A change, and what the table does about it. `stored` is the column's stored name, "" for one that has none."""

    change: Change
    action: str
    stored: str = ""

    @property
    def sentence(self) -> str:
        """The change and the action in words."""
        return f"{self.change.sentence}: {ACTIONS[self.action]}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self.change.to_json(), "action": self.action, "stored": self.stored, "decision": self.sentence}


def check(table: str, decisions: Sequence[Decision], policy: Policy) -> None:
    """Raises SchemaRefused, which carries all decisions, when one of them is to refuse."""
    refused = [decision.change for decision in decisions if decision.action == "refuse"]
    if refused:
        said = "/".join(sorted({policy.of(change.kind) for change in refused if change.kind not in ASKED}))
        why = f"`on_schema_change: {said}` does not follow that." if said else "That is followed only where `on_schema_change` names it."
        wanted = ", ".join(f"{kind}: evolve" for kind in dict.fromkeys(change.kind for change in refused))
        raise SchemaRefused(
            f"table {table}: {'; '.join(change.sentence for change in refused)}. {why} The "
            f"increments stay in landing. Say `on_schema_change: {{{wanted}}}` to follow it, or repair the producer.",
            tuple(decisions),
        )
