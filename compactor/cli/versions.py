"""`compactor versions`: protect, restore and delete versions. `compactor rebuild`, `adopt`: build versions; `reencrypt`, `erase`: private data."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import AsOf, Call, DryRun, OneTable, Tables
from compactor.core.model.errors import TryLater
from compactor.core.results.phrases import counted
from compactor.core.results.record import DAYS_KEPT
from compactor.core.results.reports import AdoptReport, RebuildReport, VacuumReport
from compactor.core.settings import command_line as declared
from compactor.flows.keep import pin as flow

_WHY = {
    "orphan": "no version references it",
    "expired": "only expired versions reference it",
    "discarded": "older than archive_retention",
    "record": f"older than {DAYS_KEPT} days",
}
_Keys = Annotated[list[str] | None, typer.Option("--key", metavar="KEY", help='A key: its value, or JSON: {"id": 7}. Repeat it.', show_default=False)]

commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Protect, restore and delete versions. `compactor log` lists them.

\b
Example:
  compactor versions pin student 41 --name before-migration
  compactor versions restore student --as-of 41
  compactor versions vacuum --run
""",
)


@commands.command()
@options.command(label=True)
def vacuum(call: Call, tables: Tables = None, run: Annotated[bool, options.option(declared.DELETE)] = False) -> int:
    """Delete files that no kept version references.

    Lists the files with their size and the reason; deletes only with --run. Versions are kept if they are younger than `keep`, among
    the two newest, pinned, or shown by the catalog (and all newer versions). Files of expired versions are first
    unregistered from the catalog and deleted by a later vacuum, at least `grace` later. Files of killed runs are deleted when they are
    older than `grace`. Stops at any file that it does not recognise. Starts no Spark where nothing may go. The dry run never starts
    it, so it does not know which version the catalog shows.

    \b
    Example:
      compactor versions vacuum
      compactor versions vacuum student --run
      compactor versions vacuum --run --output json --config compactor.yaml
    """
    results, code = call.each(tables, lambda names: call.app.vacuum(names, dry=not run, label=call.label))
    call.answer(results, lambda: _show(results))
    return code


@commands.command()
@options.command(label=True)
def restore(
    call: Call,
    table: OneTable,
    as_of: AsOf = None,
    reabsorb: Annotated[bool, typer.Option("--reabsorb", help="Then ingest again, from the archive, the files whose changes were undone.")] = False,
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help="Go on from version --as-of although newer ones were deleted by hand.")] = False,
) -> None:
    """Restore an older version.

    Commits the rows of the older version as a new version; undo it by restoring the version before. Files that were ingested in between
    are marked as undone: runs do not ingest them again, and continue with later files. With --reabsorb they are ingested again, with the
    current settings. --reabsorb alone ingests the files that earlier restores have undone. Exits 75 if another process commits at the
    same time: check the result, then try again.

    --accept-loss is for a table whose newest Snapshots somebody deleted, if no backup has them: the newest version that is there is committed
    again. What was ingested in the lost versions is missing until the files that `compactor verify` names are moved from the archive to landing.

    \b
    Example:
      compactor versions restore student --as-of 41
      compactor versions restore student --as-of 2026-11-20T14:00:00Z
      compactor versions restore student --as-of 41 --reabsorb --config compactor.yaml
    """
    if as_of is None and (accept_loss or not reabsorb):
        raise typer.BadParameter("set --as-of to a version or a time, or --reabsorb alone")
    with console.progress(1, quiet=call.json or not reabsorb) as progress:
        reports = call.app.restore(table, as_of, reabsorb=reabsorb, progress=progress, label=call.label, accept_loss=accept_loss)
    call.answer(reports, lambda: console.reports(reports))


@commands.command()
@options.command(label=True)
def pin(
    call: Call,
    table: OneTable,
    version: Annotated[int | None, typer.Argument(metavar="[VERSION]", min=1, help="Version to keep.", show_default=False)] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the pin (default: v and the version).")] = "",
    remove: Annotated[str | None, typer.Option("--remove", metavar="NAME", help="Remove the pin with that name.", show_default=False)] = None,
) -> None:
    """Protect a version from vacuum.

    The version is kept until the pin is removed, whatever its age. Shows the pins of the table; without a version it does nothing else.
    Reads and writes files only, starts no Spark.

    \b
    Example:
      compactor versions pin student 41 --name before-migration
      compactor versions pin student
      compactor versions pin student --remove before-migration --config compactor.yaml
    """
    if version is not None and remove is not None:
        raise typer.BadParameter("give a version to pin, or --remove NAME")
    opened = call.app.table(table, call.label)
    if version is not None:
        flow.pin(opened, version, name)
    elif remove is not None:
        flow.unpin(opened, remove)
    pins = flow.pins(opened)
    rows = [(item.name, item.version, grid.moment(item.time)) for item in pins]
    call.answer(
        [dataclasses.asdict(item) for item in pins],
        lambda: grid.table(("name", "version", "since"), rows, right=("version",), empty="no version is pinned"),
    )


@options.command()
def reencrypt(call: Call, tables: Tables = None) -> int:
    """Encrypt archived files under `archive_kms_key`.

    Needed once after this key was set or changed: files that are archived later have it. Copies each ingested or quarantined file of
    these tables (default: all with `archive_kms_key`) onto itself if it has another key. Can be interrupted and repeated. A versioned
    bucket keeps the earlier contents under their earlier key until its lifecycle rule deletes them. Do not run it beside `erase`.

    \b
    Example:
      compactor reencrypt
      compactor reencrypt student --config compactor.yaml
    """
    specs = [spec for spec in call.app.specs(tables or ()) if tables or spec.archive_kms_key]
    reports, code = options.each(specs, call.app.reencrypt)
    rows = [(item.table, item.files, item.changed, item.key) for item in reports]
    empty = "" if code else "no table has `archive_kms_key`"
    columns = ("table", "files", "encrypted again", "key")
    call.answer(reports, lambda: grid.table(columns, rows, right=columns[1:3], empty=empty))
    return code


@options.command(label=True)
def rebuild(
    call: Call,
    table: OneTable,
    as_of: AsOf = None,
    accept: Annotated[bool, options.option(declared.ACCEPT_DIFFERENCES)] = False,
    fewer: Annotated[bool, options.option(declared.ACCEPT_FEWER)] = False,
    dry_run: DryRun = False,
) -> int:
    """Rebuild a table from its archive.

    Reads every file of the ledger again, with the current settings, into a new base. Compares its rows with the current version, or with that of
    --as-of. Publishes the new base if the rows are equal; otherwise shows the differences, changes nothing and exits 1. --accept-differences
    publishes it anyway: use it after a damaged base, or after a change of the key, of the order, or of how files are decoded. If less than half of
    the rows would be left (or fewer than `max_gone` allows), --accept-fewer-rows is needed too. Records that were ingested and are
    invalid now go to quarantine; too many of them stop the rebuild, as they stop a run. Commits of other runs in the meantime are included. Fails
    if files are missing. Undo it by restoring the version before.

    \b
    Example:
      compactor rebuild student --dry-run
      compactor rebuild student --accept-differences
      compactor rebuild student --as-of 2026-11-20T14:00:00Z --output json --config compactor.yaml
    """
    with call.progress() as progress:
        report = call.app.rebuild(table, as_of=as_of, accept=accept, dry=dry_run, progress=progress, label=call.label, fewer=fewer)
    call.answer(report, lambda: _show_rebuilt(report))
    if call.json and report.exit_code:
        grid.print_message(f"compactor: {table}: {'; '.join(report.sentences)}", sys.stderr)
    return int(report.exit_code)


@options.command(label=True)
def adopt(
    call: Call,
    table: OneTable,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder with the Parquet files, local or s3://...", show_default=False)],
    through: Annotated[
        str, typer.Option("--ingested-through", metavar="FOLDER", help="Last landed folder whose changes the rows include.", show_default=False)
    ],
    dry_run: DryRun = False,
) -> None:
    """Make existing Parquet files version 1 of a table.

    Checks the plain Parquet files in PATH (their columns against the landed changes, one row per key), copies their rows into version 1 of the
    table, and publishes it. Does not change PATH. Set --ingested-through to the last landed folder whose changes the rows include: files up to
    it are archived without being read, and every later change is newer than the rows.

    \b
    Example:
      compactor adopt student /lake/old/student --ingested-through increment_2026112014 --dry-run
      compactor adopt student s3://lake/old/student --ingested-through increment_2026112014
    """
    with call.progress() as progress:
        report = call.app.adopt(table, path, through=through, dry=dry_run, progress=progress, label=call.label)
    call.answer(report, lambda: _show_adopted(report))


@options.command(label=True)
def erase(
    call: Call,
    table: OneTable,
    keys: _Keys = None,
    keys_from: Annotated[
        Path | None, typer.Option("--keys-from", metavar="FILE", help="File with one key a line.", exists=True, dir_okay=False, show_default=False)
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Delete older versions at once, while no job works. Queries that read them fail.")] = False,
    delete_files: Annotated[bool, typer.Option("--delete-files", help="Delete archived files that cannot be rewritten, like snappy Avro.")] = False,
    leave_landing: Annotated[bool, typer.Option("--leave-landing", help="Go on although files lie in landing. They are not searched.")] = False,
) -> int:
    """Erase keys for good.

    Removes the rows of these keys from the table, its history, its archived raw files and the texts of older runs, and deletes every older
    version. A change feed begins anew. Events of the keys that come again are ignored. Only keyed hashes of the keys are stored: set
    COMPACTOR_HASH_KEY, for all later runs too. Cannot be undone. Older versions go after `grace`, so that queries can end: exits 75 until then.
    Run it again without keys to finish. When nothing is left, it writes a certificate into the table's folder and prints it.

    \b
    Example:
      compactor erase student --key 4711
      compactor erase student
      compactor erase student --keys-from keys.txt --now --config compactor.yaml
    """
    named = [*(keys or ()), *(_lines(keys_from) if keys_from else ())]
    if keys_from and not named:
        raise typer.BadParameter(f"{keys_from} has no key")
    with call.progress():
        report = call.app.erase(table, named, now=now, delete_files=delete_files, leave_landing=leave_landing, label=call.label)
    call.answer(report, lambda: grid.console().print(report.to_text(), soft_wrap=True, highlight=False, markup=False))
    return 0 if report.finished else TryLater.exit_code


def _lines(path: Path) -> list[str]:
    """Return the lines of a file that are not blank. A key may have any character but a line break."""
    try:
        # some editors begin a file with a byte order mark
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{path} is not UTF-8 ({error}); save it as UTF-8") from None
    return [line for line in (line.removesuffix("\r") for line in text.split("\n")) if line.strip()]


def _show(reports: Sequence[VacuumReport]) -> None:
    """Print what vacuum deleted or would delete, and what it keeps."""
    out = grid.console()
    for item in reports:
        out.print(f"{item.table} ({item.notes[0] if item.version is None else f'version {item.version}'})", style="bold")
        if item.version is None:
            continue
        expired = ", ".join(map(str, item.expired)) or "none"
        out.print(f"  expired versions: {expired}; kept: {_spans(item.kept)}", soft_wrap=True)
        verb = "would be deleted" if item.dry else "deleted"
        rows = [
            (unit.path, unit.files, unit.bytes, _WHY[unit.reason], f"not before {grid.moment(unit.goes)}" if unit.goes else verb)
            for unit in item.swept
        ]
        if rows:
            grid.table(("path", "files", "bytes", "reason", "when"), rows, right=("files", "bytes"))
        pending = sum(unit.bytes for unit in item.swept if unit.goes)
        out.print(f"  {item.bytes_gone:,} bytes {verb}, {pending:,} bytes pending deletion after their grace period", soft_wrap=True)
    if any(item.dry for item in reports):
        out.print(
            "dry run: nothing was deleted; use --run to delete. A dry run does not ask the catalog; the version it shows is kept too", soft_wrap=True
        )


def _show_rebuilt(report: RebuildReport) -> None:
    first, *more = report.sentences
    out = grid.console()
    out.print(f"{report.table}: {first}", soft_wrap=True)
    for sentence in more:
        out.print(f"  {sentence}", soft_wrap=True)


def _spans(kept: dict[int, str]) -> str:
    """Return versions with their reasons, ranges with the same reason together: `3 (pinned as audit), 7-9 (the newest)`."""
    spans: list[tuple[int, int, str]] = []
    for version, why in kept.items():
        if spans and spans[-1][1:] == (version - 1, why):
            spans[-1] = (spans[-1][0], version, why)
        else:
            spans.append((version, version, why))
    return ", ".join(f"{first if first == last else f'{first}-{last}'} ({why})" for first, last, why in spans)


def _show_adopted(report: AdoptReport) -> None:
    out = grid.console()
    out.print(f"{report.table}: {counted(report.files, 'file')} ({report.bytes:,} bytes) with {report.rows:,} rows", soft_wrap=True)
    grid.table(("column", "in the files", "type"), report.columns)
    out.print(f"  ordered by {', '.join(f'{name} ({kind})' for name, kind in report.order)}", soft_wrap=True)
    out.print(f"  {report.ingested} landed files are already included and were not read, {report.waiting} wait for the next run", soft_wrap=True)
    for note in report.notes:
        out.print(f"  {note}", soft_wrap=True)
    out.print(f"  {'adopted as version 1' if report.version else 'nothing was changed (dry run)'}", soft_wrap=True)
