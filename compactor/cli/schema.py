"""`compactor schema` and `publish`: show how schemas change, and make the catalog show the newest versions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compactor.cli import grid, options
from compactor.cli.options import Call, DryRun, Tables
from compactor.core.model.errors import NoRowsYet
from compactor.core.results.phrases import counted
from compactor.core.schema.schema_history import Step

if TYPE_CHECKING:
    from compactor.app.registry import SchemaReport, Synced


@options.command()
def schema(
    call: Call,
    tables: Tables = None,
    next_file: Annotated[
        Path | None, typer.Option("--next", metavar="FILE", help="Check this Avro schema as the table's next one.", exists=True, dir_okay=False)
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Show when and how columns changed, newest first.")] = False,
    notify: Annotated[bool, typer.Option("--notify", help="Send the changes to the targets of `notify:`, each once.")] = False,
    dbt: Annotated[
        Path | None,
        typer.Option("--dbt", metavar="FILE", help="Write dbt's sources.yml with the views instead; - for standard output.", show_default=False),
    ] = None,
) -> int:
    """Show what new schemas change, or describe the views to dbt.

    Compares the newest schema in the registry (or the .avsc file) with the stored columns, and shows what a run would do. Default: all
    tables that declare a schema. Exits 1 if a run would stop. Use --next before a producer deploys a schema: it also asks the registry
    whether it may follow, and registers nothing. With --notify it exits 0 also if a run would stop; runs send these notices too, when the
    first rows of the schema have landed. Reads files only, starts no Spark.

    With --dbt: the views with descriptions, tests from keys and `checks:`, and freshness from the whole hour, for dbt 1.10 or later. Write
    it again after runs.

    \b
    Example:
      compactor schema
      compactor schema student --history
      compactor schema student --next student.avsc --output json
      compactor schema --dbt models/sources.yml
    """
    if dbt is not None:
        if next_file is not None or history or notify or call.json:
            raise typer.BadParameter("--dbt goes with no other option")
        text = call.app.dbt(tables or ())
        if str(dbt) == "-":
            print(text, end="")
        else:
            options.write_file(dbt, text)
        return 0
    if (next_file is not None) + history + notify > 1 or (next_file is not None and len(tables or ()) != 1):
        raise typer.BadParameter("give one of --next, --history and --notify, and one table with --next")
    if history:
        steps, code = call.each(tables, lambda names: [(name, step) for name in names for step in call.app.schema_history(name)], NoRowsYet)
        call.answer([{"table": name, **step.to_json()} for name, step in steps], lambda: _print_steps(steps))
        return code
    names = tables or [spec.name for spec in call.app.specs(()) if spec.subject or spec.avro_schema]
    text = next_file.read_text(encoding="utf-8") if next_file else None
    results, code = call.each(names, lambda each: call.app.schema(each, text, notify), NoRowsYet) if names else ([], 0)
    call.answer(results, lambda: _print_reports(results))
    if not names and not call.json:
        print("no table declares a schema (`schema:` in the configuration)")
    return code or (1 if not notify and any(result.refused for result in results) else 0)


def _version(registered: tuple[str, int, int | None] | None) -> str:
    return f"{registered[0]} version {registered[1]}" if registered else "a schema without version"


def _print_steps(steps: Sequence[tuple[str, Step]]) -> None:
    out = grid.console()
    for table, step in steps:
        registry = f", {_version(step.registered)}" if step.registered else ""
        out.print(f"{table}: version {step.version}, {grid.moment(step.time)}{registry}", style="bold", soft_wrap=True)
        for change in step.changes:
            out.print(f"  {change.sentence}", soft_wrap=True)


def _print_reports(reports: Sequence[SchemaReport]) -> None:
    out = grid.console()
    for report in reports:
        title = f"from {_version(report.before)} to {_version(report.after)}"
        if report.level:
            title = f"the schema {'cannot' if report.problems else 'can'} be the next version of its subject (compatibility {report.level})"
        out.print(f"{report.table}: {title}", style="bold", soft_wrap=True)
        for problem in report.problems:
            out.print(f"  {problem}", soft_wrap=True)
        out.print("a run would:" if report.decisions else "a run would change no stored column", style="bold")
        for decision in report.decisions:
            out.print(f"  {decision.sentence}", soft_wrap=True)


@options.command()
def publish(
    call: Call,
    tables: Tables = None,
    dry_run: DryRun = False,
    accept: Annotated[bool, typer.Option("--accept", help="Show the version although rules of `checks:` do not hold for it.")] = False,
) -> int:
    """Show the newest versions in the catalog.

    Creates or alters database, tables and views, so that they match the newest Snapshot, the registry and the landing folder. A table without
    rows gets an empty view if its schema is declared. Runs do this too. Calling it again changes nothing. --dry-run shows the statements.

    If a run has reported a version as blocked: without --accept the version is audited again (a rule may read other tables or the time), with
    --accept readers see it as it is. The next version is audited again.

    \b
    Example:
      compactor publish --dry-run
      compactor publish student --config compactor.yaml
      compactor publish student --accept
    """
    # a table that waits for its first rows changes no exit code
    results, code = call.each(tables, lambda names: call.app.publish(names, dry_run=dry_run, accept=accept), NoRowsYet)
    call.answer(results, lambda: _print_synced(results))
    return code


def _print_synced(results: Sequence[Synced]) -> None:
    """Print the state of each table's view and the statements, which can be copied and run."""
    out = grid.console()
    for item in results:
        done = f"{counted(len(item.statements), 'statement')}" + ("" if item.applied else " would be run") if item.statements else "nothing to do"
        out.print(f"-- {item.table}: {item.state}, {done}", style="bold", soft_wrap=True)
        for statement in item.statements:
            out.print(f"{statement};\n", soft_wrap=True)
