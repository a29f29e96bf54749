"""`compactor sync` and `compactor schema`: tables and views from schemas, and what changed in them."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor import cli_options, console
from compactor.cli_options import DEFAULT, WAIT_SECONDS, ConfigFile, Output, OutputForm, Tables, Verbose, Wait
from compactor.core.errors import CompactorError, ConfigError, NoRowsYet


def sync(
    tables: Tables = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the statements, change nothing.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Create or alter database, tables and views.

    As the newest Snapshot, the registry and the landing folder say. A table without rows is shown empty when its schema is declared.
    Doing it again changes nothing. A run does it too.

    \b
    Example:
      compactor sync --dry-run
      compactor sync student --config compactor.yaml
    """
    found, errors = [], []
    with cli_options.opened(config, verbose, wait) as here:
        for spec in here.specs(tables or ()):
            try:
                found += here.sync([spec.name], dry_run=dry_run)
            except ConfigError:
                raise
            except CompactorError as error:
                errors.append((spec.name, error))
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        console.synced(found)
    console.complain([(name, type(error).__name__, str(error)) for name, error in errors])
    # nothing is wrong with a table that waits for its first rows
    codes = {error.exit_code for _, error in errors if not isinstance(error, NoRowsYet)}
    raise typer.Exit(1 if 1 in codes else max(codes, default=0))
