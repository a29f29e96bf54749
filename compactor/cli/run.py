"""`compactor run`, `ingest` and `quarantine`: bring tables up to date, and show, read again or give up what cannot be used."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import Call, Every, Parallel, Tables
from compactor.core.model.errors import exit_code
from compactor.core.results.record import TableReport
from compactor.core.settings import command_line as declared
from compactor.flows.read import quarantine as flow


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


@options.command(label=True)
def quarantine(
    call: Call,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="The table (default: list the files of all).", show_default=False)] = None,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Paths as the list shows them (default: all of the table).", show_default=False)
    ] = None,
    replay: Annotated[bool, options.option(declared.REPLAY)] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Give these files up: they leave quarantine.")] = False,
    records: Annotated[bool, typer.Option("--records", help="With --discard: give up invalid records of files that are in the table.")] = False,
) -> None:
    """Show invalid input, read it again, or give it up.

    An unreadable file or an invalid record does not stop a table: it is put into quarantine, and the rest is ingested. Without a table this
    lists the files; with one it shows which records are invalid, and why. Both read files only and start no Spark.

    --replay: use it after you have repaired the cause, which is a setting, the file in quarantine, or a repaired copy at the path that is shown.
    The whole files are read under their old names, so the result is the same as if they had been valid from the start. Records that were
    ingested before count as duplicates.

    --discard: for a file that has no events, such as a README, or that nobody can repair. It counts as read, without events. With --records,
    for a file whose other records are in the table: its invalid records wait no more, and the file stays in the archive as it is.

    \b
    Example:
      compactor quarantine
      compactor quarantine student increment_2026112014/part-0.json --output json
      compactor quarantine student --replay
      compactor quarantine student increment_2026112014/README.txt --discard
      compactor quarantine student increment_2026112014/part-0.json --discard --records --config compactor.yaml
    """
    if (replay and discard) or (records and not discard) or ((replay or discard) and table is None) or (discard and not paths):
        raise typer.BadParameter("give a table with --replay, or a table and paths with --discard")
    if replay or discard:
        with call.progress() as progress:
            if replay:
                report = call.app.replay(table, paths or (), progress=progress, label=call.label)
            else:
                report = call.app.discard(table, paths, progress=progress, label=call.label, records=records)
        call.answer(report, lambda: console.reports([report]))
    elif table is None:
        files = call.app.quarantined()
        call.answer(files, lambda: console.quarantined(files))
    else:
        chosen = [item for item in call.app.quarantined([table]) if not paths or item.path in paths]
        shown = [(item, flow.reasons(call.app.table(table), item)) for item in chosen]
        empty = f"{table}: nothing is in quarantine"
        call.answer(
            [{**item.to_json(), **content} for item, content in shown], lambda: console.reasons(shown) if shown else grid.print_message(empty)
        )
