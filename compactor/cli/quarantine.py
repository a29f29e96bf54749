"""`compactor quarantine`: what could not be used, and taking it again."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Label, OneTable, Output, OutputForm, Tables, Verbose, Wait

commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Look at what could not be used, and take it again.

A file that cannot be opened, and a record that cannot be decoded, do not stop a table: they wait here, the rest is absorbed.

\b
Example:
  compactor quarantine list
  compactor quarantine show student increment_2026112014/part-0.json
  compactor quarantine replay student
""",
)

Paths = Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Paths as `list` tells them; all without.", show_default=False)]


@commands.command("list")
def list_(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """List files of which something waits.

    Reads files only, starts no Spark.

    \b
    Example:
      compactor quarantine list
      compactor quarantine list student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        found = here.quarantined(tables or ())
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        console.held(found)


@commands.command()
def show(
    table: OneTable,
    paths: Paths = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    verbose: Verbose = False,
) -> None:
    """Show which records cannot be used, and why.

    Reads files only, starts no Spark.

    \b
    Example:
      compactor quarantine show student
      compactor quarantine show student increment_2026112014/part-0.json --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        found = here.quarantine_reasons(table, paths or ())
    if output is Output.json:
        console.as_json([{**item.to_json(), **reasons} for item, reasons in found])
    else:
        console.reasons(found)


@commands.command()
def replay(
    table: OneTable,
    paths: Paths = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Take again what waits.

    After the cause is repaired: a setting, the file in quarantine, or a repaired copy where `show` says. The files are read whole and
    under their old names, so the table becomes what a run that never broke would have made; what was absorbed before is a duplicate.

    \b
    Example:
      compactor quarantine replay student
      compactor quarantine replay student increment_2026112014/part-0.json --config compactor.yaml
    """
    with options.opened(config, verbose, wait) as here:
        with console.progress(1, quiet=output is Output.json) as told:
            found = here.replay(table, paths or (), progress=told, label=label)
    if output is Output.json:
        console.as_json(found.to_json())
    else:
        console.reports([found])
