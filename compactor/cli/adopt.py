"""`compactor adopt`: make existing Parquet files the first version of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Label, LogForm, LogFormat, OneTable, Output, OutputForm, Verbose, Wait
from compactor.core.results.phrases import counted
from compactor.core.results.reports import AdoptReport


def adopt(
    table: OneTable,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder with the Parquet files, local or s3://...", show_default=False)],
    order_by: Annotated[
        str,
        typer.Option(
            "--order-by", metavar="COLUMNS", help="Columns with the position of each row's last change, separated by commas.", show_default=False
        ),
    ] = "",
    through: Annotated[
        str | None,
        typer.Option("--ingested-through", metavar="FOLDER", help="Last landed folder whose changes the rows include.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check everything, change nothing.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
    log_format: LogForm = LogFormat.text,
) -> None:
    """Make existing Parquet files version 1 of a table.

    Checks the plain Parquet files in PATH (their columns against the landed changes, one row per key), copies their rows into version 1 of the
    table, and publishes it. Does not change PATH. Set --ingested-through to the last landed folder whose changes the rows include: files up to
    it are archived without being read. Or set --order-by: then each landed change is compared with the row by its position. You can set both.

    \b
    Example:
      compactor adopt student /lake/old/student --ingested-through increment_2026112014 --dry-run
      compactor adopt student s3://lake/old/student --ingested-through increment_2026112014
      compactor adopt student /lake/old/student --order-by updated_at --config compactor.yaml
    """
    names = tuple(name.strip() for name in order_by.split(",") if name.strip())
    with options.opened(config, verbose, wait, log_format, label) as app:
        with console.progress(1, quiet=output is Output.json) as progress:
            report = app.adopt(table, path, order_by=names, through=through, dry=dry_run, progress=progress, label=label)
    if output is Output.json:
        console.as_json(report.to_json())
    else:
        _show(report)


def _show(report: AdoptReport) -> None:
    out = console.console()
    out.print(f"{report.table}: {counted(report.files, 'file')} ({report.bytes:,} bytes) with {report.rows:,} rows", soft_wrap=True)
    console.table(("column", "in the files", "type"), report.columns)
    out.print(f"  ordered by {', '.join(f'{name} ({kind})' for name, kind in report.order)}", soft_wrap=True)
    out.print(f"  {report.ingested} landed files are already included and were not read, {report.waiting} wait for the next run", soft_wrap=True)
    for note in report.notes:
        out.print(f"  {note}", soft_wrap=True)
    out.print(f"  {'adopted as version 1' if report.version else 'nothing was changed (dry run)'}", soft_wrap=True)
