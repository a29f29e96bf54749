"""`compactor run` and `ingest`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from compactor.cli import console, options
from compactor.cli.options import Call, Every, Parallel, Tables
from compactor.core.model.errors import exit_code
from compactor.core.results.record import TableReport
from compactor.core.settings import command_line as declared


@options.command(label=True)
def run(
    call: Call,
    tables: Tables = None,
    parallel: Parallel = None,
    compact: Annotated[bool, options.option(declared.COMPACT)] = False,
    every: Every = None,
) -> int:
    """Bring tables up to date.

    Ingests what has landed, commits it, compacts if due, publishes the view, and archives the files. If one table fails, the others are
    still done. Exits 1 if a table failed, 75 if tables only have to be tried again later.

    --compact rewrites the parts of the base for which merging the Delta pays off. If it rewrites nothing,
    the report has the reason. With --every, Spark stays started, only tables that had work are shown, and Ctrl-C or SIGTERM ends with 0.

    \b
    Example:
      compactor run
      compactor run student ledger --config compactor.yaml
      compactor run --compact big_table
      compactor run --every 60 --log-format json
      compactor run --output json | jq '.[] | select(.outcome == "failed")'
    """
    more: dict[str, Any] = {} if parallel is None else {"parallel": parallel}
    names = [spec.name for spec in call.app.specs(tables or ())]

    def once() -> list[TableReport]:
        with console.progress(len(names), quiet=every is not None or call.json) as progress:
            reports: list[TableReport] = call.app.run(tables or (), progress=progress, label=call.label, compact=compact, **more)
        return reports

    def show(reports: list[TableReport]) -> None:
        call.answer(reports, lambda: console.reports(reports, call.verbose))

    def show_work() -> None:
        if busy := [report for report in once() if report.outcome != "idle"]:
            show(busy)

    if every is not None:
        call.app.repeat(show_work, every)
        return 0
    reports = once()
    show(reports)
    return exit_code(report.exit_code for report in reports)


@options.command()
def ingest(
    call: Call,
    tables: Tables = None,
    every: Every = None,
    max_records: Annotated[int, typer.Option("--max-records", metavar="N", min=1, help="Maximum number of records in a file.")] = 500_000,
    skip_lost: Annotated[bool, typer.Option("--skip-lost", help="Continue after records that Kafka no longer has, instead of failing.")] = False,
) -> None:
    """Write Kafka topics into landing folders.

    For sources without a sink. Writes the records of each table that has a `topic:` as Parquet files into the folder of their hour. Set the
    cluster with `kafka: host:9092`. The file names contain the offsets, so a restart neither loses nor repeats a record. Lands the records
    that are there and ends; with --every it continues, and each round writes new files.

    \b
    Example:
      compactor ingest
      compactor ingest student course --every 600 --config compactor.yaml
    """

    def land() -> None:
        topics = call.app.ingest(tables or (), max_records=max_records, skip_lost=skip_lost)
        call.answer([vars(item) for item in topics], lambda: console.ingested(topics))

    options.repeated(land, every)
