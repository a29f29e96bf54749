"""`compactor publish`: audit and show the newest version of tables."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Output, OutputForm, Tables, Verbose, Wait


def publish(
    tables: Tables = None,
    accept: Annotated[bool, typer.Option("--accept", help="Show the version although rules of `checks:` do not hold for it.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Show versions that were blocked.

    Shows the newest version of tables, if the rules of `checks:` hold for it. A run does this by itself. Use the command after a run has
    reported a version as blocked: without --accept the version is audited again (a rule may read other tables or the time), with
    --accept readers see it as it is. The next version is audited again.

    \b
    Example:
      compactor publish student
      compactor publish student --accept
    """
    with options.opened(config, verbose, wait) as app:
        results, code = options.each(app.specs(tables or ()), lambda names: [(name, app.publish(name, accept)) for name in names])
    if output is Output.json:
        console.as_json([{"table": name, "result": text} for name, text in results])
    else:
        for name, text in results:
            grid.print_message(f"{name}: {text}")
    raise typer.Exit(code)
