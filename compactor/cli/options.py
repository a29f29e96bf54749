"""Options that several commands have, and the App that a command calls."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from compactor.cli import console
from compactor.core.model.errors import CompactorError, ConfigError
from compactor.core.model.spec import TableSpec

_T = TypeVar("_T")


class Output(str, Enum):
    """Forms of an answer."""

    text = "text"
    json = "json"


class Format(str, Enum):
    """Forms of rows."""

    text = "text"
    json = "json"
    csv = "csv"


ConfigFile = Annotated[Path, typer.Option("--config", "-c", metavar="PATH", envvar="COMPACTOR_CONFIG", help="Configuration file.", show_default=True)]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show log lines, Spark's log, and tracebacks.")]
Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait if another process uses the embedded metastore.")]
Tables = Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="Tables (default: all).", show_default=False)]
Wide = Annotated[bool, typer.Option("--wide", "-w", help="Show all columns, also if lines are longer than the terminal.")]
Label = Annotated[str, typer.Option(help="A name for this run, kept in its Snapshots.")]
OneTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", show_default=False)]
DEFAULT = Path("compactor.yaml")
WAIT_SECONDS = 60.0


def opened(config: Path, verbose: bool = False, wait: float = 0.0) -> Any:
    """Return the App of a command. Tests replace this function."""
    from compactor.app import App

    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    app = App.open(config, verbose=verbose, wait=wait)
    app.starting = console.starting
    return app


def each(specs: Iterable[TableSpec], call: Callable[[list[str]], list[_T]], harmless: tuple[type[CompactorError], ...] = ()) -> tuple[list[_T], int]:
    """Call a function for each table. Return all results and the exit code.

    An error of one table is printed on stderr, and the other tables are still done. Errors of the kinds in `harmless` do not change the exit
    code. Raises ConfigError, which does not belong to one table.
    """
    results: list[_T] = []
    errors, codes = [], set()
    for spec in specs:
        try:
            results += call([spec.name])
        except ConfigError:
            raise
        except CompactorError as error:
            errors.append((spec.name, type(error).__name__, str(error)))
            codes |= set() if isinstance(error, harmless) else {error.exit_code}
    console.print_errors(errors)
    return results, 1 if 1 in codes else max(codes, default=0)
