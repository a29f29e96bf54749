"""`compactor vacuum`, `restore`, `rebuild`, `pin`: versions that are kept, brought back, built again, given up; and how the ledger is shown."""

from __future__ import annotations

import csv
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Format, Label, OneTable, Output, OutputForm, Tables, Verbose, Wait
from compactor.core.model.inputs import Input
from compactor.core.results.reports import RebuildReport, Swept, VacuumReport

_WHY = {"orphan": "no version names it", "expired": "only expired versions name it", "discarded": "past archive_retention"}


def vacuum(
    tables: Tables = None,
    run: Annotated[bool, typer.Option("--run", help="Do it; without this it is only told.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Delete what no kept version needs.

    Tells what would go, how large it is and why; deletes with --run only. Kept are versions younger than `keep`, the last
    `keep_versions`, pinned ones, and what the catalog shows or newer. What only expired versions name is unregistered first and
    goes one `grace` later, with the next vacuum; the work of runs that died goes when it is older than `grace`. Stops at anything
    unknown. The dry run starts no Spark, so it does not know what the catalog shows.

    \b
    Example:
      compactor vacuum
      compactor vacuum student --run
      compactor vacuum --run --output json --config compactor.yaml
    """
    with options.opened(config, verbose, wait) as here:
        found, code = options.each(here.specs(tables or ()), lambda names: here.vacuum(names, dry=not run, label=label))
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        _show(found)
    raise typer.Exit(code)


def restore(
    table: OneTable,
    version: Annotated[int | None, typer.Option("--version", min=1, metavar="N", help="The version to go back to.", show_default=False)] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="The newest version of that time, ISO 8601; UTC without zone.", show_default=False)
    ] = None,
    reabsorb: Annotated[bool, typer.Option("--reabsorb", help="Then take again, from the archive, what was undone.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Bring back an older version.

    As a new version, so it can be undone by restoring the one before. Files absorbed in between are marked undone: no run takes
    them by itself, later increments go on top. With --reabsorb they are read again, with the settings of now; alone, it takes what
    earlier restores have undone. Exits 75 when somebody else commits meanwhile: look again, then repeat.

    \b
    Example:
      compactor log student
      compactor restore student --version 41
      compactor restore student --as-of 2026-11-20T14:00:00Z
      compactor restore student --version 41 --reabsorb --config compactor.yaml
    """
    if (version is None) == (as_of is None) and not (reabsorb and version is None):
        raise typer.BadParameter("say either --version or --as-of" + ("" if version else ", or --reabsorb alone"))
    with options.opened(config, verbose, wait) as here:
        with console.progress(1, quiet=output is Output.json or not reabsorb) as told:
            found = here.restore(table, version=version, as_of=as_of, reabsorb=reabsorb, progress=told, label=label)
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        console.reports(found)


def rebuild(
    table: OneTable,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="VERSION|TIME", help="Build that version again; ISO 8601, UTC without zone.", show_default=False)
    ] = None,
    accept: Annotated[bool, typer.Option("--accept-differences", help="Publish it although its rows are others.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Build and compare; publish nothing.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Build a table again, from its archive.

    Reads every file that the ledger names once more, where it lies now, with the settings of now, into a new base; compares its rows with
    those of the version it is to replace; publishes it in one step when they are the same. Otherwise it tells what differs, changes nothing
    and exits 1; --accept-differences publishes it all the same: after a damaged base, another key or order, another reading of the files.
    What others commit meanwhile is in it. Refused when files are gone. Undone by restoring the version before it.

    \b
    Example:
      compactor rebuild student --dry-run
      compactor rebuild student --accept-differences
      compactor rebuild student --as-of 2026-11-20T14:00:00Z --output json --config compactor.yaml
    """
    with options.opened(config, verbose, wait) as here:
        with console.progress(1, quiet=output is Output.json) as told:
            found = here.rebuild(table, as_of=as_of, accept=accept, dry=dry_run, progress=told, label=label)
    if output is Output.json:
        console.as_json(found.to_json())
        if found.exit_code:
            print(f"compactor: {table}: {'; '.join(found.sentences)}", file=sys.stderr)
    else:
        _show_rebuilt(found)
    raise typer.Exit(found.exit_code)


def pin(
    table: OneTable,
    version: Annotated[int | None, typer.Argument(metavar="[VERSION]", min=1, help="The version to keep.", show_default=False)] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call the pin; default v and the version.")] = "",
    list_: Annotated[bool, typer.Option("--list", help="Show the pins.")] = False,
    remove: Annotated[str | None, typer.Option("--remove", metavar="NAME", help="Remove the pin of that name.", show_default=False)] = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    label: Label = "",
    verbose: Verbose = False,
) -> None:
    """Keep a version from vacuum.

    Until the pin is removed, whatever its age. Reads and writes files only, starts no Spark.

    \b
    Example:
      compactor pin student 41 --name before-migration
      compactor pin student --list
      compactor pin student --remove before-migration --config compactor.yaml
    """
    if [version is not None, list_, remove is not None].count(True) != 1:
        raise typer.BadParameter("say a version to pin, or --list, or --remove NAME")
    with options.opened(config, verbose) as here:
        if version is not None:
            here.pin(table, version, name, label=label)
        elif remove is not None:
            here.unpin(table, remove, label=label)
        found = here.pins(table)
    if output is Output.json:
        console.as_json([dataclasses.asdict(item) for item in found])
    else:
        rows = [(item.name, item.version, console.moment(item.time)) for item in found]
        console.table(("name", "version", "since"), rows, right=("version",))


def _show(found: Sequence[VacuumReport]) -> None:
    """What vacuum took, or would take, and what it keeps."""
    out = console.console()
    for item in found:
        out.print(f"{item.table} ({item.notes[0] if item.version is None else f'version {item.version}'})", style="bold")
        if item.version is None:
            continue
        given_up = ", ".join(map(str, item.expired)) or "none"
        out.print(f"  versions given up: {given_up}; kept: {_spans(item.kept)}", soft_wrap=True)
        verb = "would go" if item.dry else "gone"
        rows = [(unit.path, unit.files, unit.bytes, _WHY[unit.reason], _when(unit) or verb) for unit in item.swept]
        if rows:
            console.table(("path", "files", "bytes", "why", "when"), rows, right=("files", "bytes"))
        waits = sum(unit.bytes for unit in item.swept if unit.goes)
        out.print(f"  {item.bytes_gone:,} bytes {verb}, {waits:,} wait for their grace period", soft_wrap=True)
    if any(item.dry for item in found):
        out.print("nothing was deleted (--run does it); what the catalog shows, which a dry run does not ask, is kept too", soft_wrap=True)


def _show_rebuilt(found: RebuildReport) -> None:
    first, *more = found.sentences
    out = console.console()
    out.print(f"{found.table}: {first}", soft_wrap=True)
    for sentence in more:
        out.print(f"  {sentence}", soft_wrap=True)


def _when(unit: Swept) -> str:
    return f"not before {console.moment(unit.goes)}" if unit.goes else ""


def _spans(kept: dict[int, str]) -> str:
    """Versions with their reasons, neighbours of one reason together: `3 (pinned as audit), 7-9 (the newest)`."""
    spans: list[tuple[int, int, str]] = []
    for version, why in kept.items():
        if spans and spans[-1][1:] == (version - 1, why):
            spans[-1] = (spans[-1][0], version, why)
        else:
            spans.append((version, version, why))
    return ", ".join(f"{first if first == last else f'{first}-{last}'} ({why})" for first, last, why in spans)


def show_inputs(found: Sequence[Input], output: Format) -> None:
    """The ledger: a table for people, all fields for programs; Positions are JSON lists in CSV."""
    if output is Format.json:
        console.as_json([dataclasses.asdict(item) for item in found])
    elif output is Format.csv:
        names = [field.name for field in dataclasses.fields(Input)]
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        for item in found:
            values = [getattr(item, name) for name in names]
            writer.writerow([json.dumps(value) if isinstance(value, tuple) else value for value in values])
    else:
        columns = ("path", "hour", "bytes", "rows", "outcome", "unusable", "reason")
        rows = [(item.path, item.hour, item.size, item.rows, item.outcome, item.quarantined, item.reason) for item in found]
        console.table(columns, rows, right=("bytes", "rows", "unusable"))
