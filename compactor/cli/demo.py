"""`compactor demo`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from compactor.cli.options import Verbose


def demo(
    directory: Annotated[Path, typer.Option("--dir", metavar="PATH", help="Folder of the demo.")] = Path("compactor-demo"),
    fresh: Annotated[bool, typer.Option("--fresh/--keep", help="Start again, or continue with the existing folder.")] = True,
    verbose: Verbose = False,
) -> None:
    """Try it with captured changes.

    Runs the normal job on nine hours of a captured PostgreSQL database, hour by hour, in a local folder.

    \b
    Example:
      compactor demo
      compactor demo --dir /tmp/compactor-demo --keep
    """
    from compactor.demo import show

    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    raise typer.Exit(show(directory, fresh=fresh, verbose=verbose))
