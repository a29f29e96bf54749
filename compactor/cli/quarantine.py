"""`compactor quarantine`: list invalid input, show why it is invalid, read it again, or give it up."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Label, LogForm, LogFormat, OneTable, Output, OutputForm, Tables, Verbose, Wait

commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show invalid input, read it again, or give it up.

An unreadable file or an invalid record does not stop a table: it is put into quarantine, and the rest is ingested.

\b
Example:
  compactor quarantine list
  compactor quarantine show student increment_2026112014/part-0.json
  compactor quarantine replay student
  compactor quarantine discard student increment_2026112014/README.txt
""",
)

Paths = Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Paths as `list` shows them (default: all).", show_default=False)]


@commands.command("list")
def list_(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """List the files in quarantine.

    Reads files only, starts no Spark.

    \b
    Example:
      compactor quarantine list
      compactor quarantine list student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        files = app.quarantined(tables or ())
    if output is Output.json:
        console.as_json([item.to_json() for item in files])
    else:
        console.quarantined(files)


@commands.command()
def show(
    table: OneTable,
    paths: Paths = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    verbose: Verbose = False,
) -> None:
    """Show which records are invalid, and why.

    Reads files only, starts no Spark.

    \b
    Example:
      compactor quarantine show student
      compactor quarantine show student increment_2026112014/part-0.json --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        files = app.quarantine_reasons(table, paths or ())
    if output is Output.json:
        console.as_json([{**item.to_json(), **reasons} for item, reasons in files])
    else:
        console.reasons(files)
        if not files:
            grid.print_message(f"{table}: nothing is in quarantine")


@commands.command()
def replay(
    table: OneTable,
    paths: Paths = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
    log_format: LogForm = LogFormat.text,
) -> None:
    """Read files from quarantine again.

    Use it after you have repaired the cause: a setting, the file in quarantine, or a repaired copy at the path that `show` prints. The whole
    files are read under their old names, so the result is the same as if they had been valid from the start. Records that were ingested
    before count as duplicates.

    \b
    Example:
      compactor quarantine replay student
      compactor quarantine replay student increment_2026112014/part-0.json --config compactor.yaml
    """
    with options.opened(config, verbose, wait, log_format, label) as app:
        with console.progress(1, quiet=output is Output.json) as progress:
            report = app.replay(table, paths or (), progress=progress, label=label)
    if output is Output.json:
        console.as_json(report.to_json())
    else:
        console.reports([report])


@commands.command()
def discard(
    table: OneTable,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Paths as `list` shows them.", show_default=False)],
    records: Annotated[bool, typer.Option("--records", help="Give up the invalid records of files whose other records are in the table.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
    log_format: LogForm = LogFormat.text,
) -> None:
    """Give files in quarantine up, and delete them.

    For a file that has no events, such as a README, or that nobody can repair. It counts as read, without events. With --records, for a file whose
    other records are in the table: its invalid records wait no more, and the file stays in the archive as it is.

    \b
    Example:
      compactor quarantine discard student increment_2026112014/README.txt
      compactor quarantine discard student increment_2026112014/part-0.json --records --config compactor.yaml
    """
    with options.opened(config, verbose, wait, log_format, label) as app:
        with console.progress(1, quiet=output is Output.json) as progress:
            report = app.discard(table, paths, progress=progress, label=label, records=records)
    if output is Output.json:
        console.as_json(report.to_json())
    else:
        console.reports([report])
