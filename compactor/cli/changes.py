"""`compactor changes`: a table's change feed, for people and for programs."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, OneTable, Output, OutputForm, Verbose, Wait


def changes(
    table: OneTable,
    start: Annotated[int, typer.Option("--from", min=0, metavar="N", help="The version you have; 0: nothing yet.", show_default=False)],
    to: Annotated[int | None, typer.Option("--to", min=1, metavar="N", help="The last version; default the newest.", show_default=False)] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with versions as they are committed, until --to or Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="(--follow) How often to look for a new version.")] = 10.0,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Show what changed since a version.

    The changes of every version after N, oldest first; applied in this order to a copy of version N they give the last one. JSON is one object
    a line, written version by version. Needs `change_feed: true`; versions before it was switched on, or past `feed_retention`, are refused.

    \b
    Example:
      compactor changes student --from 41
      compactor changes student --from 41 --to 43 --output json > changes.jsonl
      compactor changes student --from 41 --follow --output json --config compactor.yaml
    """
    with options.opened(config, verbose, wait) as here:
        for snapshot, rows in here.changes(table, start, to, (lambda: time.sleep(every)) if follow else None):
            if output is Output.json:
                for row in rows:
                    print(row)
            else:
                part = snapshot.feed.part
                told = f"version {snapshot.version} ({snapshot.operation}, {console.moment(snapshot.time)})"
                print(f"{told}: {part.inserts:,} inserts, {part.updates:,} updates, {part.deletes:,} deletes")
                console.objects_as_text(rows)
            sys.stdout.flush()
