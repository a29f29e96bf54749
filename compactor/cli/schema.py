"""`compactor schema`: show how schemas change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from compactor.app.schema import SchemaCheck, SchemaDiff
from compactor.cli import console, grid, options
from compactor.cli.options import DEFAULT, ConfigFile, OneTable, Output, OutputForm, Tables, Verbose
from compactor.core.model.errors import NoRowsYet
from compactor.core.schema.policy import Decision
from compactor.core.schema.schema_history import Step

_WAITING = (NoRowsYet,)
"""Errors that do not change the exit code: a table may wait for its first rows."""


commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show how schemas changed, and what the next change will do.

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

    Newest first, with the version in the registry. Reads files only, starts no Spark.

    \b
    Example:
      compactor schema history student
      compactor schema history student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        steps = app.schema_history(table)
    if output is Output.json:
        console.as_json([item.to_json() for item in steps])
    else:
        _print_steps(steps)


@commands.command()
def diff(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Show what the newest declared schema changes.

    Compares the newest version in the registry (or the .avsc file) with the stored columns: every difference, and what a run would
    do about it. Default: all tables that declare a schema. Exits 1 if a run would stop. Reads files only, starts no Spark.

    \b
    Example:
      compactor schema diff
      compactor schema diff student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        declared = [spec for spec in app.specs(tables or ()) if tables or spec.subject or spec.avro_schema]
        results, code = options.each(declared, lambda names: [app.schema_diff(name) for name in names])
    if output is Output.json:
        console.as_json([item.to_json() for item in results])
    else:
        for item in results:
            _print_diff(item)
        if not declared:
            print("no table declares a schema (`schema:` in the configuration)")
    raise typer.Exit(code or (1 if any(step.action == "refuse" for item in results for step in item.decisions) else 0))


@commands.command()
def check(
    table: OneTable,
    file: Annotated[Path, typer.Argument(help="The next Avro schema, an .avsc file.", exists=True, dir_okay=False)],
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    verbose: Verbose = False,
) -> None:
    """Check whether a schema can be the next one.

    Use it before a producer deploys the schema. Checks the subject's compatibility level in the registry and the table's
    `on_schema_change`. Registers nothing, starts no Spark. Exits 1 if the registry would reject the schema or a run would stop.

    \b
    Example:
      compactor schema check student student.avsc
      compactor schema check student student.avsc --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        result = app.schema_check(table, file.read_text(encoding="utf-8"))
    if output is Output.json:
        console.as_json(result.to_json())
    else:
        _print_check(result)
    raise typer.Exit(0 if result.passed else 1)


@commands.command()
def notify(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Send notices about new schemas.

    If the newest version in the registry (or the .avsc file) changes a table, notifies the targets of `notify:`, each once. Default: all
    tables that declare a schema. Runs do this too, when the first rows of the schema have landed.

    \b
    Example:
      compactor schema notify
      compactor schema notify student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        declared = [spec for spec in app.specs(tables or ()) if tables or spec.subject or spec.avro_schema]
        results, code = options.each(declared, app.schema_notify, _WAITING)
    if output is Output.json:
        console.as_json([item.to_json() for item in results])
    else:
        for item in results:
            for change in item.changes:
                grid.print_message(f"{item.table}: {change}")
    raise typer.Exit(code)


def _print_steps(steps: Sequence[Step]) -> None:
    """Print the Snapshots that changed a schema."""
    out = grid.console()
    if not steps:
        out.print("nothing committed yet")
    for item in steps:
        registry = f", {item.registered[0]} version {item.registered[1]}" if item.registered else ""
        out.print(f"version {item.version}, {grid.moment(item.time)}{registry}", style="bold", soft_wrap=True)
        for change in item.changes:
            out.print(f"  {change.sentence}", soft_wrap=True)


def _print_diff(difference: SchemaDiff) -> None:
    """Print what a declared schema changes."""
    out = grid.console()
    versions = [f"{used[0]} version {used[1]}" if used else "an unknown version" for used in (difference.before, difference.after)]
    out.print(f"{difference.table}: from {versions[0]} to {versions[1]}", style="bold", soft_wrap=True)
    for change in difference.registry:
        out.print(f"  {change.sentence}", soft_wrap=True)
    _print_decisions(difference.decisions)


def _print_check(check: SchemaCheck) -> None:
    """Print whether a schema can be the next one."""
    out = grid.console()
    verdict = "cannot be" if check.problems else "can be"
    out.print(f"{check.table}: the schema {verdict} the next version of {check.subject} (compatibility {check.level})", style="bold", soft_wrap=True)
    for problem in check.problems:
        out.print(f"  {problem}", soft_wrap=True)
    _print_decisions(check.decisions)


def _print_decisions(decisions: Sequence[Decision]) -> None:
    out = grid.console()
    out.print("a run would:" if decisions else "a run would change no stored column", style="bold")
    for decision in decisions:
        out.print(f"  {decision.sentence}", soft_wrap=True)
