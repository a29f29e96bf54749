"""Explain a batch: read and plan it as a commit does, write nothing, and return the queries."""

from __future__ import annotations

import re
from collections.abc import Callable

from compactor.core.model.position import TIE_BREAKERS, members
from compactor.core.results.batch import BatchSummary
from compactor.core.results.explained import Explained, ExplainedPass
from compactor.spark import sql
from compactor.spark.decode.conversions import UNAVAILABLE_NUMBERS, UNAVAILABLE_TEXTS
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import position
from compactor.spark.rows.reduce import Reducer, register
from compactor.spark.rows.resolution import resolve
from compactor.spark.sql import quoted


def explain(read: Callable[[], SparkBatch], whole: Callable[[BatchSummary], str | None], committed: bool) -> Explained:
    """Return how the batch that `read` returns becomes a version. Runs the survey, and writes nothing. `whole` returns why it is a new base."""
    with sql.recorded() as queries:
        batch = read()
        try:
            summary = batch.summary
            reason = whole(summary)
            work = resolve(batch, reason is not None)
            work.close()
        finally:
            batch.close()
    base, *steps = work.plan.reasons
    passes = dict.fromkeys((label, _shortened(text, work.reducer)) for label, text in queries)
    return Explained(
        batch.spec.name,
        batch.version,
        committed,
        len(summary.inputs),
        sum(item.size for item in summary.inputs),
        summary.read,
        ((base[0], reason or base[1]), *steps),
        tuple(ExplainedPass(*each) for each in passes),
    )


def _shortened(text: str, reducer: Reducer) -> str:
    """Return a query for people: what depends on the table only and is long or repeated has a short name (FRAMES, SHORT)."""
    for long, name in ((UNAVAILABLE_TEXTS, "unavailable"), (UNAVAILABLE_NUMBERS, "unavailable_numbers")):
        text = text.replace(long, f"{{{name}}}")
    for long, name in ((position.own_ddl(reducer.order), "own"), (position.ddl(reducer.order), "position")):
        text = text.replace(long, f"{{{name}}}")
    for prefix, row in (("_row.", "_row"), ("", "*")):
        text = text.replace(reducer.content(prefix), f"content({row})")
    for column in reducer.partial:
        for state, at in (("", "_at"), ("s.", "s._at")):
            clock = register(column, state, at)
            for long, name in ((clock.at, "clock"), (clock.has_value, "known")):
                text = text.replace(f"({long})", long).replace(long, f"{name}({state}{quoted(column)})")
    first, *others = [name for name, _ in members(reducer.order)][: -len(TIE_BREAKERS)]
    rest = "".join(rf", \1\.{name}" for name in others)
    return re.sub(rf"struct\(((?:(?! struct).)+?)\.{first}{rest}\)", r"place(\1)", text)
