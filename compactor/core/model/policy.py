"""What a table's declaration says about its rows: Policy (`on_schema_change:`), Rule (`checks:`) and Protection (`columns:`).

`core/schema/policy.py` has the table that turns a Policy and a kind of change into an action, `core/planning/audit.py` the SQL of Rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from compactor.core.model import names, types
from compactor.core.settings.forms import Count, Duration, Form, Ratio, Section, Share, Text, alike, distinct, listed, pairs

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
        """Return whether no change leaves out values, or hides a column: every kind has the policy `evolve`."""
        return not self.hides and all(policy == "evolve" for policy in (self.standard, *dict(self.kinds).values()))

    def of(self, kind: str) -> str:
        return dict(self.kinds).get(kind, "fail" if kind in EXPLICIT else self.standard)


EVOLVE = Policy()
"""The default policy."""


def policy(value: Any) -> Policy:
    """Return one policy for all kinds of change, or that of a mapping: `fail`, `{default: evolve, widened: fail, drop: hide}`."""
    policies = {"default": value} if isinstance(value, str) else value
    if not isinstance(policies, dict):
        raise ValueError(f"expected {listed(POLICIES)}, or a mapping of kinds of change, found {value!r}")
    for name, chosen in policies.items():
        valid = DROPS if name == "drop" else POLICIES
        if chosen not in valid:
            where = "" if isinstance(value, str) else f"{name}: "
            raise ValueError(f"{where}expected {listed(valid)}, found {chosen!r}{alike(str(chosen), valid)}")
    kinds = tuple((kind, chosen) for kind, chosen in policies.items() if kind not in ("default", "drop"))
    return Policy(policies.get("default", "evolve"), kinds, policies.get("drop", "keep"))


@dataclass(frozen=True)
class Rule:
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
        return " ".join((self.kind, ", ".join(self.columns))).strip()


def query(text: str) -> str:
    """Return a query without the semicolon at its end. Raises ValueError for other statements."""
    if text.split(None, 1)[:1] not in (["select"], ["SELECT"], ["with"], ["WITH"]):
        raise ValueError(text)
    return text.strip().rstrip(";")


def unique_together(columns: list[str | list[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the lists of columns whose values are unique together; a column alone is a list of one. Raises ValueError for an empty list."""
    if [] in columns:
        raise ValueError("expected lists of columns, found an empty one")
    return tuple(distinct(tuple(column) if isinstance(column, list) else (column,)) for column in columns)


_Accepted = Annotated[tuple[str, ...], Form("a list of values", limits=(("min_length", 1),))]
_Query = Annotated[str, Form("a query that begins with SELECT or WITH", str, query)]


@dataclass(frozen=True)
class Checks(Section):
    """What must hold for a version before readers see it. A version that breaks a rule is committed and not shown."""

    row_change: Ratio | None = None
    """Maximum change of the number of rows against the version that readers see, as a share of it, such as 50%."""
    unique: Annotated[tuple[tuple[str, ...], ...], Form(source=list[str | list[str]], convert=unique_together)] = ()
    """Columns of the view, or lists of columns, whose values are unique: [email, [school, number]]. Rows with a null in them are left out."""
    null_share: Annotated[tuple[tuple[str, float], ...], pairs(Share, "{email: 5%}")] = ()
    """Column of the view: maximum share of nulls, such as {email: 5%, name: 0}."""
    accepted: Annotated[tuple[tuple[str, tuple[str, ...]], ...], pairs(_Accepted, "{status: [active, left]}")] = ()
    """Column of the view: list of its values, such as {status: [active, left]}. Null is always accepted."""
    fresh: Duration | None = None
    """Maximum age of the newest change, by the source's time, such as 6h."""
    sql: Annotated[tuple[tuple[str, str], ...], pairs(_Query, "{no_orphans: select ..}")] = ()
    """Name: a query that returns offending rows. The view's name means the new version, a name with a database what readers see."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        rules = [Rule(ROW_CHANGE, (), self.row_change)] if self.row_change is not None else []
        rules += [Rule(UNIQUE, columns) for columns in self.unique]
        rules += [Rule(NULL_SHARE, (column,), limit) for column, limit in self.null_share]
        rules += [Rule(ACCEPTED, (column,), values=accepted) for column, accepted in self.accepted]
        rules += [Rule(FRESH, (), self.fresh)] if self.fresh is not None else []
        return (*rules, *(Rule(SQL, (name,), values=(text,)) for name, text in self.sql))


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


def protections(value: dict[str, str | None]) -> tuple[Protection, ...]:
    """Return the rules of a mapping such as `{ssn: exclude, mail: hash, card: mask(4), note: null}`."""
    parsed = []
    for column, rule in value.items():
        match = re.fullmatch(r"(exclude|hash|null)|mask\((\d{1,3})\)", rule or NULL)
        if match is None:
            raise ValueError(f"{column}: expected exclude, hash, mask(4) or null, found {rule!r}")
        parsed.append(Protection(column, match[1] or MASK, int(match[2] or 0)))
    return tuple(parsed)


@dataclass(frozen=True)
class Daily(Section):
    """Which days are frozen."""

    keep: Count = 400
    """Number of days to keep. Vacuum deletes files that only older days need."""
    time_zone: Text = "UTC"
    """Time zone whose midnights end the days, such as Europe/Berlin."""
