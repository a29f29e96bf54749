"""Audit rules: what must hold for the rows of a version before readers see it (`checks:`), as SQL and as verdicts.

The model is write-audit-publish: a version is committed, audited, and shown only if it passes. docs/design/proofs.md has the reasons.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactor.core.catalog.ddl import quoted, text_literal
from compactor.core.model import times
from compactor.core.model.policy import ACCEPTED, FRESH, NULL_SHARE, ROW_CHANGE, SQL, UNIQUE, Rule
from compactor.core.model.snapshot import of_json
from compactor.core.results import phrases


@dataclass(frozen=True)
class Measured:
    """What an engine has counted for an audit."""

    rows: int
    offending: tuple[tuple[int, str] | str, ...]
    """For each rule that is measured: (offending rows, one of them as text); or why its query cannot be answered, as where a column is gone."""


@dataclass(frozen=True)
class Audit:
    """The verdict on a version, as `_compactor/audit.json` keeps it."""

    version: int
    digest: str
    failures: tuple[str, ...]
    """A sentence for each rule that does not hold."""
    rows: int
    accepted: bool
    passed_rows: int | None
    """Rows of the newest version that passed or was accepted; None before the first."""

    @property
    def shows(self) -> bool:
        return self.accepted or not self.failures

    def to_bytes(self) -> bytes:
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Audit:
        """Return the value of a stored text. Raises ValueError, KeyError and TypeError for another one."""
        return of_json(cls, json.loads(data))


def digest(rules: Sequence[Rule]) -> str:
    """Return a digest of rules. Other rules ask for another audit."""
    return hashlib.sha256(json.dumps([dataclasses.astuple(rule) for rule in rules]).encode()).hexdigest()


def measured(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules that an engine has to count rows for."""
    return [rule for rule in rules if rule.kind in (UNIQUE, NULL_SHARE, ACCEPTED, SQL)]


def query(rule: Rule, table: str) -> str:
    """Return a query for the offending rows of a rule. `table`: the name under which the version can be read.

    >>> query(Rule("null_share", ("email",)), "t")
    'SELECT * FROM t WHERE `email` IS NULL'
    """
    if rule.kind == SQL:
        return rule.values[0]
    names = ", ".join(quoted(name) for name in rule.columns)
    if rule.kind == UNIQUE:
        present = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in rule.columns)
        return f"SELECT {names}, count(*) AS `rows` FROM {table} WHERE {present} GROUP BY {names} HAVING count(*) > 1"
    if rule.kind == NULL_SHARE:
        return f"SELECT * FROM {table} WHERE {names} IS NULL"
    accepted = ", ".join(map(text_literal, rule.values))
    return f"SELECT {names} FROM {table} WHERE {names} IS NOT NULL AND cast({names} AS string) NOT IN ({accepted})"


def failures(rules: Sequence[Rule], counted: Measured, before: int | None, source_time: str | None, now: float) -> tuple[str, ...]:
    """Return a sentence for each rule that does not hold. `before`: rows of the last version that was shown; `now`: epoch seconds."""
    offending: Mapping[Rule, tuple[int, str] | str] = dict(zip(measured(rules), counted.offending))
    sentences = []
    for rule in rules:
        answer = offending.get(rule, (0, ""))
        if isinstance(answer, str):
            sentences.append(f"{rule.name}: the query is refused: {_cut(answer)}")
            continue
        number, example = answer
        if rule.kind == ROW_CHANGE:
            change = abs(counted.rows - before) / before if before else 0.0
            if change > rule.limit:
                sentences.append(f"row_change: expected at most {rule.limit:.0%}, found {change:.0%}: {before:,} rows before, {counted.rows:,} now")
        elif rule.kind == FRESH:
            age = now - times.to_seconds(source_time) if source_time else None
            if age is None or age > rule.limit:
                found_age = "no source time" if age is None else f"{age / 3600:.1f} h"
                sentences.append(f"fresh: expected changes of the last {rule.limit / 3600:.1f} h, found {found_age}")
        elif rule.kind == NULL_SHARE:
            share = number / counted.rows if counted.rows else 0.0
            if share > rule.limit:
                sentences.append(f"{rule.name}: expected at most {rule.limit:.1%} nulls, found {share:.1%} ({number:,} rows)")
        elif number:
            what = f"{phrases.counted(number, 'key')} with several rows" if rule.kind == UNIQUE else phrases.counted(number, "offending row")
            sentences.append(f"{rule.name}: expected none, found {what}, such as {_cut(example)}")
    return tuple(sentences)


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}.."
