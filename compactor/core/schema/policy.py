"""Changes of a table's columns, as values with a sentence, and the table (kind of change, policy) → action. Columns have the source's names."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import EXPLICIT, POLICIES, TO_STRING, Policy
from compactor.core.results.plain import Plain

KINDS = {
    "added": "`{column}` was added: {after}, {detail}",
    "removed": "`{column}` was removed; it was {before}",
    "renamed": "`{before}` was renamed to `{column}`",
    "widened": "`{column}` was widened from {before} to {after}{detail}",
    "replaced": "`{column}` was removed and came back as {after}; its values as {before} stay in a column of their own",
    "date_to_timestamp": "`{column}` changed from {before} to {after}; a date becomes its midnight",
    "string_to_bytes": "`{column}` changed from {before} to {after}; text becomes its UTF-8 bytes",
    "to_string": "`{column}` changed from {before} to {after}, and only text can hold the values of both",
    "incompatible": "`{column}` changed from {before} to {after}, and no type can store both",
    "comment": "the documentation of `{column}` changed from {before} to {after}",
}


@dataclass(frozen=True)
class Change(Plain):
    also = ("sentence",)

    kind: str
    column: str
    """The path in the source's names (`address.zip`, `tags[]`, `scores{}`)."""
    before: str = ""
    """The type or value before."""
    after: str = ""
    detail: str = ""
    """More text for the sentence."""

    @property
    def sentence(self) -> str:
        return KINDS[self.kind].format(**dataclasses.asdict(self))


ACTIONS = {
    "add": "the column is added; older rows read its default at that time, else null",
    "leave out": "the column is left out; its values stay in the archive",
    "keep": "the table stays as it is",
    "hide": "the view hides the column; its values stay stored",
    "rename": "the view shows the new name; the column stays stored under the old one",
    "widen": "the values are rewritten in the wider type, in tables of a new generation",
    "refuse": "refused; the table stops and its increments stay in landing",
}

STAYS = "the column stays, null in new rows"
"""What `keep` means for a removed column."""

TABLE = {
    #               evolve   freeze       fail
    "added": ("add", "leave out", "refuse"),
    "removed": ("keep", "keep", "refuse"),
    "renamed": ("rename", "keep", "refuse"),
    "replaced": ("add", "refuse", "refuse"),
    "widened": ("widen", "refuse", "refuse"),
    "date_to_timestamp": ("widen", "refuse", "refuse"),
    "string_to_bytes": ("widen", "refuse", "refuse"),
    TO_STRING: ("widen", "refuse", "refuse"),
    "incompatible": ("refuse", "refuse", "refuse"),
    "comment": ("keep", "keep", "keep"),
}
"""Kind → action under evolve, freeze, fail."""

CHOOSABLE = tuple(kind for kind, actions in TABLE.items() if len(set(actions)) > 1)
"""Kinds of change whose action depends on the policy."""


def action(policy: Policy, kind: str) -> str:
    """Return what a policy does about a kind of change: a key of ACTIONS.

    >>> action(Policy("freeze", (("added", "evolve"),)), "added"), action(Policy(drop="hide"), "removed")
    ('add', 'hide')
    """
    chosen = TABLE[kind][POLICIES.index(policy.of(kind))]
    return "hide" if (kind, chosen, policy.drop) == ("removed", "keep", "hide") else chosen


@dataclass(frozen=True)
class Decision(Plain):
    """A schema change, and what the table does about it."""

    change: Change
    action: str
    """What the table does: a key of ACTIONS."""
    stored: str = ""
    """The stored name of the column; "" if it has none."""

    @property
    def sentence(self) -> str:
        return f"{self.change.sentence}: {STAYS if (self.change.kind, self.action) == ('removed', 'keep') else ACTIONS[self.action]}"

    def to_json(self) -> dict[str, Any]:
        return {**self.change.to_json(), "action": self.action, "stored": self.stored, "decision": self.sentence}


def check(table: str, decisions: Sequence[Decision], policy: Policy) -> None:
    """Raise SchemaRefused if the action of a decision is `refuse`. The error carries all decisions."""
    refused = [decision.change for decision in decisions if decision.action == "refuse"]
    if refused:
        policies = "/".join(sorted({policy.of(change.kind) for change in refused if change.kind not in EXPLICIT}))
        why = f"`on_schema_change: {policies}` does not follow this." if policies else "This is followed only if `on_schema_change` names it."
        settings = ", ".join(f"{kind}: evolve" for kind in dict.fromkeys(change.kind for change in refused))
        raise SchemaRefused(
            f"table {table}: {'; '.join(change.sentence for change in refused)}. {why} The increments stay in landing. "
            f"{declare(refused)}Set `on_schema_change: {{{settings}}}` to follow the change, or repair the producer.",
            tuple(decisions),
        )


def declare(changes: Sequence[Change]) -> str:
    """Return the advice to declare the types that columns have, for changes of whole columns to types that cannot hold the same values; else ""."""
    whole = [change for change in changes if change.kind in (TO_STRING, "incompatible") and not any(inside in change.column for inside in ".[{")]
    unlike = [change for change in whole if types.is_scalar(types.parse(change.before))]
    if not unlike:
        return ""
    declared = ", ".join(f"{change.column}: {json.dumps(change.before) if '(' in change.before else change.before}" for change in unlike)
    return f"If such values are mistakes, declare `types: {{{declared}}}`, and their records go to quarantine. "
