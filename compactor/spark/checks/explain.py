"""Explain a batch: read and plan it as a commit does, write nothing, and return the queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack

from compactor.core.catalog.feed import OFF, continued
from compactor.core.model import times
from compactor.core.model.position import TIE_BREAKERS, members
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.batch import BatchSummary
from compactor.core.results.explained import Explained, ExplainedPass
from compactor.spark import sql
from compactor.spark.decode.conversions import UNAVAILABLE_NUMBERS, UNAVAILABLE_TEXTS
from compactor.spark.history import commit
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import position
from compactor.spark.rows.reduce import Reducer, register
from compactor.spark.rows.resolution import Resolution, resolve
from compactor.spark.sql import quoted
from compactor.spark.tables import feed


def explain(
    read: Callable[[], SparkBatch],
    whole: Callable[[BatchSummary], str | None],
    committed: bool,
    compacted: Callable[[], tuple[str, str] | None],
) -> Explained:
    """Return how the batch that `read` returns becomes a version. Runs the survey and the look-ups, and writes nothing.

    `whole` returns why it is a new base. `compacted` makes the query of a compaction that is due, and returns its step and why.
    """
    with sql.recorded() as queries, ExitStack() as scratch:
        batch = read()
        scratch.callback(batch.close)
        summary = batch.summary
        reason = whole(summary)
        work = resolve(batch, reason is not None)
        scratch.callback(work.close)
        more = [commit.explain(work)] if batch.spec.history else []
        more += [_feed(work)] if (kept := continued(batch.spec, batch.parent)) and kept.mode != OFF else []
        due = compacted()
    base, *steps = work.plan.reasons
    steps += [*more, *([due] if due else [])]
    passes = dict.fromkeys((label, _shortened(text, work.reducer)) for label, text in queries)
    files, size, reasons = len(summary.inputs), sum(item.size for item in summary.inputs), ((base[0], reason or base[1]), *steps)
    shown = tuple(ExplainedPass(*each) for each in passes)
    return Explained(batch.spec.name, batch.version, committed, files, size, summary.read, reasons, shown)


def _feed(work: Resolution) -> tuple[str, str]:
    """Make the query of the change feed. Its files are not there, so it reads none of them."""
    batch, parent, spec = work.batch, work.batch.parent, work.batch.spec
    made = Snapshot(
        schema=work.schema,
        order=tuple(work.order),
        base_id="",
        segments=(),
        delta=None,
        table=spec.name,
        uuid="",
        version=batch.version,
        parent=parent.version if parent else None,
        writer="",
        run="",
        # the commit has no time yet
        time=times.from_micros(0),
        operation="commit",
        position=batch.summary.last,
        truncated_to=work.plan.barrier,
        shards_truncated_to=work.plan.barriers,
    )
    feed.net_changes(batch.session, spec, parent, made, work.plan.small)
    return "change feed", "`change_feed: true`: the rows that the version changed, before and after"


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
            for long, name in ((clock.at, "clock"), (clock.has_value, "known"), (clock.carried, "carried")):
                text = text.replace(f"({long})", long).replace(long, f"{name}({state}{quoted(column)})")
    first, *others = [name for name, _ in members(reducer.order)][: -len(TIE_BREAKERS)]
    rest = "".join(rf", \1\.{name}" for name in others)
    return re.sub(rf"struct\(((?:(?! struct).)+?)\.{first}{rest}\)", r"place(\1)", text)
