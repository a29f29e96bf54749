"""Options that several commands have, and the App that a command calls."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer

from compactor.cli import console
from compactor.core.model.errors import CompactorError, ConfigError
from compactor.core.model.spec import TableSpec
from compactor.flows import logs

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


class LogFormat(str, Enum):
    """Forms of log lines."""

    text = "text"
    json = "json"


ConfigFile = Annotated[Path, typer.Option("--config", "-c", metavar="PATH", envvar="COMPACTOR_CONFIG", help="Configuration file.", show_default=True)]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show log lines, Spark's log, and tracebacks.")]
ManyVerbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every row, also of more than ten tables, log lines, Spark's log, and tracebacks.")
]
Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait if another process uses the embedded metastore.")]
Tables = Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="Tables (default: all).", show_default=False)]
Wide = Annotated[bool, typer.Option("--wide", "-w", help="Show all columns, also if lines are longer than the terminal.")]
Label = Annotated[str, typer.Option(help="A name for this run, kept in its Snapshots.")]
LogForm = Annotated[LogFormat, typer.Option("--log-format", envvar=logs.VARIABLE, help="Format of log lines, on standard error.")]
OneTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", show_default=False)]
DEFAULT = Path("compactor.yaml")
WAIT_SECONDS = 60.0


def opened(config: Path, verbose: bool = False, wait: float = 0.0, log_format: str = "", run: str = "") -> Any:
    """Return the App of a command, and begin to log. `run`: the label of the run. Tests replace this function."""
    from compactor.app import App

    log_to_stderr(verbose, log_format, run)
    app = App.open(config, verbose=verbose, wait=wait)
    app.starting = console.starting
    return app


def log_to_stderr(verbose: bool = False, form: str = "", run: str = "") -> None:
    """Log to standard error: on a terminal warnings only, because progress is shown there; else what each phase did. `run`: the label of the run."""
    form = form or os.environ.get(logs.VARIABLE) or logs.TEXT
    quiet = sys.stderr.isatty() and not verbose and form != logs.JSON
    logs.configure(_Stderr(), form, logging.WARNING if quiet else logging.INFO, run, bare=quiet)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at the moment: while bars are shown, lines go above them."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Return standard error."""
        return sys.stderr


def each(specs: Iterable[TableSpec], call: Callable[[list[str]], list[_T]], harmless: tuple[type[CompactorError], ...] = ()) -> tuple[list[_T], int]:
    """Call a function for each table. Return all results and the exit code.

    An error of one table is printed on stderr, and the other tables are still done. Errors of the kinds in `harmless` do not change the exit
    code. Raises ConfigError, which does not belong to one table.
    """
    results: list[_T] = []
    errors: list[console.TableError] = []
    codes: set[int] = set()
    for spec in specs:
        try:
            results += call([spec.name])
        except ConfigError:
            raise
        except CompactorError as error:
            errors.append(console.TableError(spec.name, "failed", str(error), error.id))
            codes |= set() if isinstance(error, harmless) else {error.exit_code}
    console.print_errors(errors)
    return results, 1 if 1 in codes else max(codes, default=0)
