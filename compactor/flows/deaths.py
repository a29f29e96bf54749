"""Deaths: a table on whose new files Spark's JVM has ended, and ended again in the next run, has failed. To try later would not help it.

The run record remembers the files. What a crash leaves: nothing more, and the next death counts as the first.
"""

from __future__ import annotations

import dataclasses
import hashlib

from compactor.core.model.errors import CompactorError, EngineEnded, Refused
from compactor.core.model.layout import join
from compactor.core.results.phrases import counted
from compactor.core.results.record import TableReport
from compactor.flows.land import discover
from compactor.flows.record import last_run
from compactor.flows.run import failure
from compactor.flows.table import Table


def judged(table: Table, report: TableReport) -> TableReport:
    """Return the report of a run that was alone with the engine. Where the engine has ended, as in the last run on the same files, it has failed."""
    if report.error_class != EngineEnded.__name__:
        return report
    try:
        new = discover.landing(table, table.newest()).new
    except CompactorError:
        return report
    if not new:
        return report
    ended_on = hashlib.sha256("\n".join(sorted(f"{item.path} {item.etag}" for item in new)).encode()).hexdigest()[:16]
    before = last_run(table)
    if before is not None and before.ended_on == ended_on:
        largest = max(new, key=lambda item: item.size)
        report = failure(
            table.name,
            Refused(
                f"table {table.name}: Spark's JVM has ended again on the same {counted(len(new), 'new file')} below {table.spec.landing}, the "
                f"largest of them {join(table.spec.landing, largest.path)} ({largest.size:,} bytes): {report.error}. Nothing was committed. Runs go "
                "on trying them: give Spark more memory, or move a file that no memory holds out of landing"
            ),
        )
    return dataclasses.replace(report, ended_on=ended_on)
