"""`compactor changes`: print a table's change feed."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from compactor.cli import grid, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, OneTable, Output, OutputForm, Verbose, Wait
from compactor.core.results.phrases import counted


def changes(
    table: OneTable,
    start: Annotated[
        int, typer.Option("--from", min=0, metavar="N", help="Show changes after this version; 0: from the beginning.", show_default=False)
    ],
    to: Annotated[int | None, typer.Option("--to", min=1, metavar="N", help="Last version (default: the newest).", show_default=False)] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new versions, until --to or Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="With --follow: interval between two looks for new versions.")] = 10.0,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Show what changed since a version.

    Prints the changes of every version after N, oldest first. Applied in this order to a copy of version N they produce the last version.
    With --output json each change is one JSON object on one line. Needs `change_feed: true`. Fails for versions before the change feed was
    switched on and for versions older than `keep`.

    \b
    Example:
      compactor changes student --from 41
      compactor changes student --from 41 --to 43 --output json > changes.jsonl
      compactor changes student --from 41 --follow --output json --config compactor.yaml
    """
    with options.opened(config, verbose, wait) as app:
        for snapshot, rows in app.changes(table, start, to, (lambda: time.sleep(every)) if follow else None):
            if output is Output.json:
                for row in rows:
                    print(row)
            else:
                part = snapshot.feed.part
                version = f"version {snapshot.version} ({snapshot.operation}, {grid.moment(snapshot.time)})"
                counts = (counted(part.inserts, "insert"), counted(part.updates, "update"), counted(part.deletes, "delete"))
                print(f"{version}: {', '.join(counts)}")
                grid.objects_as_text(rows)
            sys.stdout.flush()
