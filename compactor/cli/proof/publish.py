"""`compactor publish`: make the catalog show the newest versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from compactor.app.schema import Synced
from compactor.cli import grid, options
from compactor.cli.options import Call, DryRun, Tables
from compactor.core.model.errors import NoRowsYet
from compactor.core.results.phrases import counted


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
    call.answer(results, lambda: _show(results))
    return code


def _show(results: Sequence[Synced]) -> None:
    """Print the state of each table's view and the statements, which can be copied and run."""
    out = grid.console()
    for item in results:
        done = f"{counted(len(item.statements), 'statement')}" + ("" if item.applied else " would be run") if item.statements else "nothing to do"
        out.print(f"-- {item.table}: {item.state}, {done}", style="bold", soft_wrap=True)
        for statement in item.statements:
            out.print(f"{statement};\n", soft_wrap=True)
