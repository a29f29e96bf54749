"""`compactor demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import LogForm, Output, Verbose
from compactor.core.model.errors import Refused, Stopped
from compactor.core.results.phrases import counted
from compactor.core.results.record import TableReport
from compactor.demo import ABOUT, SPARK, STEPS, commands, deliver, prepare


def demo(
    directory: Annotated[Path, typer.Option("--dir", metavar="PATH", help="Folder of the demo.")] = Path("compactor-demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Continue with the existing folder. Without this option: start again.")] = False,
    verbose: Verbose = False,
    log_format: LogForm = Output.text,
) -> None:
    """Try it with captured changes.

    Runs the normal job on nine hours of a captured PostgreSQL database, hour by hour, in a local folder.

    \b
    Example:
      compactor demo
      compactor demo --dir /tmp/compactor-demo --keep
    """
    options.log_to_stderr(verbose, log_format)
    raise typer.Exit(_play(directory, fresh=not keep, verbose=verbose))


def _play(directory: Path, fresh: bool, verbose: bool) -> int:
    """Play the demo. Return the exit code."""
    from compactor.app import App  # here, because help texts need none of it

    began = time.monotonic()
    out = grid.console()
    directory = directory.absolute()
    prepare(directory, fresh)
    out.print(f"Six tables of a PostgreSQL database as Debezium captured them, nine hours, in {directory}\n", soft_wrap=True)
    config = directory / "compactor.yaml"
    failed: list[TableReport] = []
    with App.open(config, verbose=verbose, conf=SPARK) as app:
        out.print("Starting Spark ...", soft_wrap=True)
        for name, hours in STEPS:
            files = deliver(directory, hours)
            out.print(f"\nHour {name}: {ABOUT[name]} ({counted(files, 'file')})", style="bold", soft_wrap=True)
            with console.progress(len(app.settings.names)) as progress:
                reports = app.run(progress=progress, label=f"demo hour {name}")
            busy = [report for report in reports if report.outcome != "idle"]
            if busy:
                console.reports(busy)
            idle = ", ".join(report.table for report in reports if report.outcome == "idle")
            if idle:
                out.print(f"nothing to do for {idle}", soft_wrap=True)
            failed += [report for report in reports if report.exit_code]
            if any(report.outcome == "stopped" for report in reports):
                return Stopped.exit_code
        query = "select id, full_name, birth_date, tuition, email from student order by id limit 5"
        out.print(f"\nThe view `student`:  {query}", style="bold", soft_wrap=True)
        rows = app.sql(query)
        grid.rows_as_text(rows.columns, rows)
        out.print("\nThe state of the tables:", style="bold")
        console.statuses(app.status())
        try:
            page, plot = app.write_report(str(directory / "report.html")), app.write_plot(str(directory / "bytes.svg"))
            pages = f"A page about these tables, with what rewriting them would have written: {page}\nThe bytes of each hour as one plot: {plot}"
        except Refused as error:
            # the extra `report` is not installed
            pages = f"There is no page about these tables: {error}"
    out.print(f"\n{pages}", style="bold", soft_wrap=True)
    out.print(f"\nDone in {time.monotonic() - began:.0f} s. Try next:", style="bold")
    for command in commands(config):
        out.print(f"  {command}", soft_wrap=True)
    return 1 if failed else 0
