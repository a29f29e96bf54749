"""`compactor quarantine`: list invalid input, show why it is invalid, read it again, or give it up."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import Call
from compactor.core.settings import command_line as declared
from compactor.flows.read import quarantine as flow


@options.command(label=True)
def quarantine(
    call: Call,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="The table (default: list the files of all).", show_default=False)] = None,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Paths as the list shows them (default: all of the table).", show_default=False)
    ] = None,
    replay: Annotated[bool, options.option(declared.REPLAY)] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Give these files up: they leave quarantine.")] = False,
    records: Annotated[bool, typer.Option("--records", help="With --discard: give up invalid records of files that are in the table.")] = False,
) -> None:
    """Show invalid input, read it again, or give it up.

    An unreadable file or an invalid record does not stop a table: it is put into quarantine, and the rest is ingested. Without a table this
    lists the files; with one it shows which records are invalid, and why. Both read files only and start no Spark.

    --replay: use it after you have repaired the cause, which is a setting, the file in quarantine, or a repaired copy at the path that is shown.
    The whole files are read under their old names, so the result is the same as if they had been valid from the start. Records that were
    ingested before count as duplicates.

    --discard: for a file that has no events, such as a README, or that nobody can repair. It counts as read, without events. With --records,
    for a file whose other records are in the table: its invalid records wait no more, and the file stays in the archive as it is.

    \b
    Example:
      compactor quarantine
      compactor quarantine student increment_2026112014/part-0.json --output json
      compactor quarantine student --replay
      compactor quarantine student increment_2026112014/README.txt --discard
      compactor quarantine student increment_2026112014/part-0.json --discard --records --config compactor.yaml
    """
    if (replay and discard) or (records and not discard) or ((replay or discard) and table is None) or (discard and not paths):
        raise typer.BadParameter("give a table with --replay, or a table and paths with --discard")
    if replay or discard:
        with call.progress() as progress:
            if replay:
                report = call.app.replay(table, paths or (), progress=progress, label=call.label)
            else:
                report = call.app.discard(table, paths, progress=progress, label=call.label, records=records)
        call.answer(report, lambda: console.reports([report]))
    elif table is None:
        files = call.app.quarantined()
        call.answer(files, lambda: console.quarantined(files))
    else:
        chosen = [item for item in call.app.quarantined([table]) if not paths or item.path in paths]
        shown = [(item, flow.reasons(call.app.table(table), item)) for item in chosen]
        empty = f"{table}: nothing is in quarantine"
        call.answer(
            [{**item.to_json(), **content} for item, content in shown], lambda: console.reasons(shown) if shown else grid.print_message(empty)
        )
