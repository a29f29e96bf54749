"""`compactor changes`: print a table's change feed."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from compactor.cli import grid, options
from compactor.cli.options import Call, Every, OneTable
from compactor.core.results.phrases import counted


@options.command()
def changes(
    call: Call,
    table: OneTable,
    start: Annotated[
        int, typer.Option("--after", min=0, metavar="N", help="Show changes after this version; 0: from the beginning.", show_default=False)
    ],
    to: Annotated[int | None, typer.Option("--to", min=1, metavar="N", help="Last version (default: the newest).", show_default=False)] = None,
    every: Every = None,
) -> None:
    """Show what changed since a version.

    Prints the changes of every version after N, oldest first. Applied in this order to a copy of version N they produce the last version.
    With --every it then looks for new versions so often, until --to or Ctrl-C. With --output json each change is one JSON object on one line.
    Needs `change_feed: true`. Fails for versions before the change feed was switched on and for versions older than `keep`.

    \b
    Example:
      compactor changes student --after 41
      compactor changes student --after 41 --to 43 --output json > changes.jsonl
      compactor changes student --after 41 --every 10 --output json --config compactor.yaml
    """
    for snapshot, rows in call.app.changes(table, start, to, None if every is None else lambda: time.sleep(every)):
        if call.json:
            for row in rows:
                print(row)
        else:
            part = snapshot.feed.part
            version = f"version {snapshot.version} ({snapshot.operation}, {grid.moment(snapshot.time)})"
            counts = (counted(part.inserts, "insert"), counted(part.updates, "update"), counted(part.deletes, "delete"))
            print(f"{version}: {', '.join(counts)}")
            grid.objects_as_text(rows)
        sys.stdout.flush()
