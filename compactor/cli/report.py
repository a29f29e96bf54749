"""`compactor report`: write the HTML page about tables."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, ConfigFile, Tables, Verbose


def report(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    out: Annotated[str, typer.Option("--out", metavar="PATH", help="File or folder, local or s3://..; a folder gets index.html.")] = "report.html",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Show the tables as of a past time: ISO 8601, UTC unless it has a zone.", show_default=False),
    ] = None,
    versions: Annotated[int, typer.Option("--versions", min=1, help="Newest versions and run records shown of each table.")] = 50,
    verbose: Verbose = False,
) -> None:
    """Write a page about the tables.

    One HTML file that needs no server: whether everything is all right, what to do if not, and for each table its commits, freshness,
    sizes, bytes written, schema changes, quarantine and runs. Made from Snapshots and run records, so --at shows any past day. Starts no
    Spark.

    \b
    Example:
      compactor report
      compactor report student --at 2026-11-20T18:00 --out student.html
      compactor report --out s3://bucket/compactor/ --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        place = app.write_report(out, tables or (), at, versions)
    console.console().print(place, soft_wrap=True)
