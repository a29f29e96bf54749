"""`compactor sync` and `compactor schema`: tables and views from schemas, and what changed in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, OneTable, Output, OutputForm, Tables, Verbose, Wait
from compactor.core.model.errors import NoRowsYet

_WAITING = (NoRowsYet,)
"""Nothing is wrong with a table that waits for its first rows."""


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
    with options.opened(config, verbose, wait) as here:
        found, code = options.each(here.specs(tables or ()), lambda names: here.sync(names, dry_run=dry_run), _WAITING)
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        console.synced(found)
    raise typer.Exit(code)


commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""See how schemas changed, and what the next change will do.

\b
Example:
  compactor schema history student
  compactor schema diff student
  compactor schema check student next.avsc
""",
)


@commands.command()
def history(table: OneTable, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Show when and how a table's columns changed.

    Newest first, with the registry's version. Reads files only, starts no Spark.

    \b
    Example:
      compactor schema history student
      compactor schema history student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        found = here.schema_history(table)
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        console.schema_steps(found)


@commands.command()
def diff(table: OneTable, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Show what the newest declared schema changes.

    Between the registry's newest version (or the .avsc file) and what is stored: every difference, and what a run would do about
    it. Exits 1 when the table would stop. Reads files only, starts no Spark.

    \b
    Example:
      compactor schema diff student
      compactor schema diff student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        found = here.schema_diff(table)
    if output is Output.json:
        console.as_json(found.to_json())
    else:
        console.schema_foreseen(found)
    raise typer.Exit(1 if any(item.action == "refuse" for item in found.decisions) else 0)


@commands.command()
def check(
    table: OneTable,
    file: Annotated[Path, typer.Argument(help="The Avro schema that is to come, an .avsc file.", exists=True, dir_okay=False)],
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    verbose: Verbose = False,
) -> None:
    """Ask whether a schema may come next, before a producer has it.

    The registry by the subject's compatibility level, and the table by its on_schema_change. Registers nothing, starts no Spark.
    Exits 1 when the registry would not take it, or the table would stop.

    \b
    Example:
      compactor schema check student student.avsc
      compactor schema check student student.avsc --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        found = here.schema_check(table, file.read_text(encoding="utf-8"))
    if output is Output.json:
        console.as_json(found.to_json())
    else:
        console.schema_checked(found)
    raise typer.Exit(0 if found.passed else 1)


@commands.command()
def notify(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Tell of new schemas before a run uses them.

    Looks whether the registry's newest version (or the .avsc file) changes a table, and tells those whom `notify` names, each
    once. Without names all tables that declare a schema. A run does it too, when the first rows of the schema have landed.

    \b
    Example:
      compactor schema notify
      compactor schema notify student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        declared = [spec for spec in here.specs(tables or ()) if tables or spec.subject or spec.avro_schema]
        found, code = options.each(declared, here.schema_notify, _WAITING)
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        for item in found:
            for change in item.changes:
                print(f"{item.table}: {change}")
    raise typer.Exit(code)
