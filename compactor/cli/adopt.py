"""`compactor adopt`: a base that others made becomes a table's first version."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Label, OneTable, Output, OutputForm, Verbose, Wait
from compactor.core.results.reports import AdoptReport


def adopt(
    table: OneTable,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The folder with the base's Parquet files: local, or s3://...", show_default=False)],
    order_by: Annotated[
        str, typer.Option("--order-by", metavar="COLUMNS", help="Where each row keeps its last change's position; with commas.", show_default=False)
    ] = "",
    through: Annotated[
        str | None, typer.Option("--absorbed-through", metavar="FOLDER", help="The last landed folder that the rows hold.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check everything; change nothing.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Take over a base that others made.

    Checks the plain Parquet files in PATH (columns against what the changes tell, one row per key), copies their rows into version 1 of the
    table, and shows it. PATH itself is only read. --absorbed-through names the last landed folder whose changes are in the rows: files up to
    it are archived unread. With --order-by rows compete with all that has landed. One of them is needed, both are possible.

    \b
    Example:
      compactor adopt student /lake/old/student --absorbed-through increment_2026112014 --dry-run
      compactor adopt student s3://lake/old/student --absorbed-through increment_2026112014
      compactor adopt student /lake/old/student --order-by updated_at --config compactor.yaml
    """
    names = tuple(name.strip() for name in order_by.split(",") if name.strip())
    with options.opened(config, verbose, wait) as here:
        with console.progress(1, quiet=output is Output.json) as told:
            found = here.adopt(table, path, order_by=names, through=through, dry=dry_run, progress=told, label=label)
    if output is Output.json:
        console.as_json(found.to_json())
    else:
        _show(found)


def _show(found: AdoptReport) -> None:
    out = console.console()
    out.print(f"{found.table}: {found.files} files ({found.bytes:,} bytes) hold {found.rows:,} rows", soft_wrap=True)
    console.table(("column", "in the base", "type"), found.columns)
    out.print(f"  ordered by {', '.join(f'{name} ({kind})' for name, kind in found.order)}", soft_wrap=True)
    out.print(f"  {found.absorbed} landed files are in it and were not read, {found.waiting} wait for the next run", soft_wrap=True)
    for note in found.notes:
        out.print(f"  {note}", soft_wrap=True)
    out.print(f"  {'adopted as version 1' if found.version else 'nothing was changed (a dry run)'}", soft_wrap=True)
