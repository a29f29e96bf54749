"""`compactor plan`, `status`, `explain`, `log`, `changes`, `report`, `verify`: look at tables without changing them."""

from __future__ import annotations

import csv
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import AsOf, Call, Every, Format, Limit, OneTable, Tables
from compactor.core.model.inputs import Input
from compactor.core.results import summary
from compactor.core.results.phrases import counted
from compactor.core.settings import command_line as declared
from compactor.flows import ledger, record


@options.command()
def status(
    call: Call,
    tables: Tables = None,
    every: Every = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="STATES", help=f"Show the tables in these states: {', '.join(summary.STATES)}.", show_default=False),
    ] = None,
) -> int:
    """Show the state of tables.

    Version, rows, size of the Delta, and files that wait in landing; below, late tables and landed folders that no table takes. A table is
    `failed` (its last run, or a rule of `checks:`), `late` (no file for longer than usual, or files wait), `waiting` (for a run) or `idle`. Of
    many tables only those that need somebody are shown. Times are UTC. Reads files only, starts no Spark.

    \b
    Example:
      compactor status
      compactor status --verbose
      compactor status --every 10
      compactor status --only failed,late
      compactor status student --output json --config compactor.yaml
    """
    if call.json and every is not None:
        raise typer.BadParameter("--every shows text; take --output json in a loop of your own")
    states = [word.strip() for word in only.split(",")] if only else [*summary.STATES]
    if unknown := {*states} - {*summary.STATES}:
        raise typer.BadParameter(f"--only: expected some of {', '.join(summary.STATES)}, found {min(unknown)}")
    code = 0

    def look() -> None:
        nonlocal code
        results, code = call.each(tables, call.app.status, reads=True)
        results = [item for item in results if summary.state(item) in states]
        folders = [] if tables or only or call.json else call.app.folders()
        call.answer(results, lambda: console.statuses(results, call.verbose or bool(only), folders))

    options.repeated(look, every, title=True)
    return code


@options.command()
def plan(
    call: Call,
    tables: Tables = None,
    no_samples: Annotated[
        bool, typer.Option("--no-samples", help="Look at names and sizes alone, as a role that may not read landed files.")
    ] = False,
) -> int:
    """Show what a run would do, and what is wrong.

    Lists the steps with their files and bytes, and compares the configuration with the files in landing. Finds folders without files, two
    tables on one folder, key and order columns that no sampled file has, a key that different inserted rows have, values that need
    `types:`, another envelope, and another CSV dialect. Changes nothing, reads a few small files, starts no Spark. Exits 1 if the
    configuration contradicts the files. `compactor check` is another name for it.

    \b
    Example:
      compactor plan
      compactor plan student --verbose
      compactor plan student --output json --config compactor.yaml
    """
    results, code = call.each(tables, lambda names: call.app.plan(names, samples=not no_samples), reads=True)
    results += [] if tables else call.app.plan_of_folders(samples=not no_samples)
    call.answer(results, lambda: console.plans(results, call.verbose))
    return code or (1 if any(item.problems for item in results) else 0)


@options.command()
def explain(call: Call, table: OneTable) -> None:
    """Show how a batch becomes a version.

    For what waits in landing, or else for the files of the newest version: the steps and why each is needed, the SQL of every pass, also of a
    compaction that is due, and where each number of a run's report comes from. Writes nothing.

    \b
    Example:
      compactor explain student
      compactor explain student --output json | jq -r '.passes[].sql'
    """
    made = call.app.explain(table)
    call.answer(dataclasses.asdict(made), lambda: console.explained(made))


@options.command(form=Format)
def log(
    call: Call,
    table: OneTable,
    inputs: Annotated[bool, typer.Option("--inputs", help="Show the ledger instead: every ingested file, oldest first.")] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Show the Parquet files of a version instead (default: the newest that readers see).")
    ] = False,
    query: Annotated[bool, typer.Option("--sql", help="Print one query over these files that shows the rows, for DuckDB without compactor.")] = False,
    as_of: AsOf = None,
    limit: Limit = 20,
) -> None:
    """Show a table's versions, its ledger, or its files.

    By default its Snapshots, newest first. Times are UTC. With --inputs: the whole ledger, with each file's number of rows and outcome; this may
    be CSV. With --files: the Parquet files which, and no others, are the version. A row of the delta replaces the row of the base with its
    key, and files in a folder `row_state=deleted` have keys of deleted rows. Tools that read only the base miss what came since. The files
    stay for `grace` after a newer version has replaced theirs; `compactor versions pin` keeps them. Reads files only, starts no Spark.

    \b
    Example:
      compactor log student
      compactor log student -n 3 --output json --config compactor.yaml
      compactor log student --inputs --output csv > ledger.csv
      compactor log student --files --as-of 41
      duckdb -c "$(compactor log student --sql)"
    """
    if call.output is Format.csv and not inputs:
        raise typer.BadParameter("--output csv needs --inputs")
    if (inputs and (files or query)) or (as_of is not None and not (files or query)):
        raise typer.BadParameter("--as-of goes with --files or --sql, and these do not go with --inputs")
    if query:
        text = call.app.files_sql(table, as_of)
        call.answer({"table": table, "sql": text}, lambda: print(text))
    elif files:
        _show_files(call, table, as_of)
    elif inputs:
        opened = call.app.table(table)
        _show_inputs(ledger.everything(opened, opened.newest()), call)
    else:
        opened = call.app.table(table)
        snapshots, (last,) = call.app.log(table, limit), record.healed([opened], [record.last_run(opened)])
        evidence = call.app.settings.tables[table].evidence

        def show() -> None:
            console.snapshots(snapshots, last, call.verbose)
            if evidence:
                grid.print_message(f"{table}: made by `discover:`: {evidence}")

        call.answer([console.snapshot_json(snapshot) for snapshot in snapshots], show)


def _show_files(call: Call, table: str, as_of: str | None) -> None:
    snapshot, listed = call.app.files(table, as_of)

    def show() -> None:
        grid.table(("part", "bytes", "file"), [(file.part, f"{file.size:,}", file.location) for file in listed], right=("bytes",))
        print(f"version {snapshot.version} of {table}, {counted(len(listed), 'file')}")

    call.answer({"table": table, "version": snapshot.version, "files": [dataclasses.asdict(file) for file in listed]}, show)


def _show_inputs(inputs: Sequence[Input], call: Call) -> None:
    """Print the ledger. CSV contains Positions as JSON lists."""
    if call.output is Format.csv:
        names = [field.name for field in dataclasses.fields(Input)]
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        for item in inputs:
            values = [getattr(item, name) for name in names]
            writer.writerow([json.dumps(value) if isinstance(value, tuple) else value for value in values])
        return
    columns = ("path", "folder time", "bytes", "rows", "outcome", "invalid", "reason")
    rows = [(item.path, item.hour, item.size, item.rows, item.outcome, item.quarantined, item.reason) for item in inputs]
    call.answer(
        [dataclasses.asdict(item) for item in inputs],
        lambda: grid.table(columns, rows, right=("bytes", "rows", "invalid"), empty="nothing ingested yet"),
    )


@options.command()
def verify(
    call: Call,
    tables: Tables = None,
    files_only: Annotated[bool, options.option(declared.FILES_ONLY)] = False,
    deep: Annotated[bool, options.option(declared.DEEP)] = False,
) -> int:
    """Check that tables are consistent.

    Checks files, counts and the ledger, and compares the view with a full recompute from all archived changes. Changes nothing. Exits 1 if
    a check fails.

    \b
    Example:
      compactor verify
      compactor verify student --files-only --deep --config compactor.yaml
    """
    results, code = call.each(tables, lambda names: call.app.verify(names, files_only=files_only, deep=deep))
    call.answer(results, lambda: console.checks(results, call.verbose))
    return code or (0 if all(item.ok for item in results) else 1)


@options.command()
def report(
    call: Call,
    tables: Tables = None,
    out: Annotated[str, typer.Option("--out", metavar="PATH", help="File or folder, local or s3://..; a folder gets index.html.")] = "report.html",
    as_of: Annotated[str | None, options.option(declared.AS_OF, "Show the tables as of a past time: ISO 8601, UTC unless it has a zone.")] = None,
    limit: Limit = 50,
) -> None:
    """Write a page about the tables.

    One HTML file that needs no server: whether everything is all right, what to do if not, and for each table its commits, freshness,
    sizes, bytes written, schema changes, quarantine and runs; the newest --limit versions and run records of each. Made from Snapshots,
    run records and names of folders; --as-of: any past day. Starts no Spark.

    \b
    Example:
      compactor report
      compactor report student --as-of 2026-11-20T18:00 --out student.html
      compactor report --out s3://bucket/compactor/ --config compactor.yaml
    """
    place = call.app.write_report(out, tables or (), as_of, limit)
    call.answer({"file": place}, lambda: grid.console().print(place, soft_wrap=True))


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
