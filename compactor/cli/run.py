"""`compactor run` and `compactor compact`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Label, LogForm, LogFormat, ManyVerbose, Output, OutputForm, Tables, Wait
from compactor.core.results.record import TableReport

Parallel = Annotated[int | None, typer.Option("--parallel", "-p", min=1, help="Number of tables at a time (default: by the number of cores).")]


def run(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    parallel: Parallel = None,
    compact: Annotated[bool, typer.Option("--compact", help="Also compact now, whatever `compaction:` is set to.")] = False,
    loop: Annotated[
        float | None, typer.Option("--loop", metavar="SECONDS", min=1, help="Run again every so many seconds, until Ctrl-C or SIGTERM.")
    ] = None,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: ManyVerbose = False,
    log_format: LogForm = LogFormat.text,
) -> None:
    """Bring tables up to date.

    Ingests what has landed, commits it, compacts if due, publishes the view, and archives the files. If one table fails, the others are
    still done. Exits 1 if a table failed, 75 if tables only have to be tried again later.

    With --loop, Spark stays started, only tables that had work are shown, and a stop exits 0.

    \b
    Example:
      compactor run
      compactor run student ledger --config compactor.yaml
      compactor run --compact big_table
      compactor run --loop 60 --log-format json
      compactor run --output json | jq '.[] | select(.outcome == "failed")'
    """
    _run(tables, config, output, parallel, compact, label, wait, verbose, log_format, loop)


def compact(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    parallel: Parallel = None,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: ManyVerbose = False,
    log_format: LogForm = LogFormat.text,
) -> None:
    """Bring tables up to date and compact them now.

    Like `compactor run --compact`: rewrites the parts of the base for which merging the Delta pays off, whatever `compaction:` is set to.
    If it rewrites nothing, the report has the reason.

    \b
    Example:
      compactor compact
      compactor compact big_table --config compactor.yaml
    """
    _run(tables, config, output, parallel, True, label, wait, verbose, log_format)


def _run(
    tables: list[str] | None,
    config: Path,
    output: Output,
    parallel: int | None,
    compact: bool,
    label: str,
    wait: float,
    verbose: bool,
    log_format: LogFormat,
    loop: float | None = None,
) -> None:
    more: dict[str, Any] = {} if parallel is None else {"parallel": parallel}
    with options.opened(config, verbose, wait, log_format, label) as app:
        names = [spec.name for spec in app.specs(tables or ())]

        quiet = loop is not None or output is Output.json

        def once() -> list[TableReport]:
            with console.progress(len(names), quiet=quiet) as progress:
                reports: list[TableReport] = app.run(names, progress=progress, label=label, compact=compact, **more)
            return reports

        def show_work() -> None:
            if busy := [report for report in once() if report.outcome != "idle"]:
                _show(busy, output, verbose)

        if loop is not None:
            app.repeat(show_work, loop)
            return
        reports = once()
    _show(reports, output, verbose)
    codes = {report.exit_code for report in reports}
    raise typer.Exit(130 if 130 in codes else 1 if codes - {0, 75} else 75 if 75 in codes else 0)


def _show(reports: list[TableReport], output: Output, verbose: bool) -> None:
    if output is Output.json:
        console.as_json([report.to_json() for report in reports])
    else:
        console.reports(reports, verbose)
