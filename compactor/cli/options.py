"""What the commands share: their options, and the App they work on."""

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
    """For people or for programs."""

    text = "text"
    json = "json"


class Format(str, Enum):
    """How rows are printed."""

    text = "text"
    json = "json"
    csv = "csv"


ConfigFile = Annotated[Path, typer.Option("--config", "-c", metavar="PATH", envvar="COMPACTOR_CONFIG", help="Configuration file.", show_default=True)]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="For people, or JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's logs, and tracebacks.")]
Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for an embedded metastore in use.")]
Tables = Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="Tables; all without.", show_default=False)]
Label = Annotated[str, typer.Option(help="A name for this run, kept in its Snapshots.")]
OneTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", show_default=False)]
DEFAULT = Path("compactor.yaml")
WAIT_SECONDS = 60.0


def opened(config: Path, verbose: bool = False, wait: float = 0.0) -> Any:
    """The App of a command (tests put another here)."""
    from compactor.app.app import App

    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    return App.open(config, verbose=verbose, wait=wait)


def each(specs: Iterable[TableSpec], call: Callable[[list[str]], list[_T]], harmless: tuple[type[CompactorError], ...] = ()) -> tuple[list[_T], int]:
    """What `call` finds, one table at a time, and the exit code: what goes wrong with one is told on stderr and does not hide the others.

    `harmless` errors are told and do not count. Raises ConfigError: it is not one table's.
    """
    found: list[_T] = []
    told, codes = [], set()
    for spec in specs:
        try:
            found += call([spec.name])
        except ConfigError:
            raise
        except CompactorError as error:
            told.append((spec.name, type(error).__name__, str(error)))
            codes |= set() if isinstance(error, harmless) else {error.exit_code}
    console.complain(told)
    return found, 1 if 1 in codes else max(codes, default=0)
