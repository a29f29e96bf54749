"""`compactor erase`: remove the rows of keys from everything that a table stores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compactor.cli import grid, options
from compactor.cli.options import Call, OneTable
from compactor.core.model.errors import TryLater

_Keys = Annotated[list[str] | None, typer.Option("--key", metavar="KEY", help='A key: its value, or JSON: {"id": 7}. Repeat it.', show_default=False)]


@options.command(label=True)
def erase(
    call: Call,
    table: OneTable,
    keys: _Keys = None,
    keys_from: Annotated[
        Path | None, typer.Option("--keys-from", metavar="FILE", help="File with one key a line.", exists=True, dir_okay=False, show_default=False)
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Delete older versions at once. Queries that still read them fail or miss rows.")] = False,
    delete_files: Annotated[bool, typer.Option("--delete-files", help="Delete archived files that cannot be rewritten, like snappy Avro.")] = False,
    leave_landing: Annotated[bool, typer.Option("--leave-landing", help="Go on although files lie in landing. They are not searched.")] = False,
) -> int:
    """Erase keys for good.

    Removes the rows of these keys from the table, its history, its archived raw files and the texts of older runs, and deletes every older
    version. A change feed begins anew. Events of the keys that come again are ignored. Only keyed hashes of the keys are stored: set
    COMPACTOR_HASH_KEY, for all later runs too. Cannot be undone. Older versions go after `grace`, so that queries can end: exits 75 until then.
    Run it again without keys to finish. When nothing is left, it writes a certificate into the table's folder and prints it.

    \b
    Example:
      compactor erase student --key 4711
      compactor erase student
      compactor erase student --keys-from keys.txt --now --config compactor.yaml
    """
    named = [*(keys or ()), *([line.strip() for line in keys_from.read_text().splitlines() if line.strip()] if keys_from else ())]
    if keys_from and not named:
        raise typer.BadParameter(f"{keys_from} has no key")
    with call.progress():
        report = call.app.erase(table, named, now=now, delete_files=delete_files, leave_landing=leave_landing, label=call.label)
    call.answer(report, lambda: grid.console().print(report.to_text(), soft_wrap=True, highlight=False, markup=False))
    return 0 if report.finished else TryLater.exit_code
