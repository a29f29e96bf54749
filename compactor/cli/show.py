"""`compactor status`, `plan`, `check`, `log`, `report`, `verify`: look at tables without changing them."""

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
from compactor.cli.options import (
    DEFAULT,
    WAIT_SECONDS,
    ConfigFile,
    Format,
    LogForm,
    LogFormat,
    ManyVerbose,
    OneTable,
    Output,
    OutputForm,
    Tables,
    Verbose,
    Wait,
    Wide,
)
from compactor.core.model.inputs import Input
from compactor.core.results.phrases import counted


def status(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=1, help="Seconds between two looks of --watch.")] = 5,
    wide: Wide = False,
    verbose: Verbose = False,
) -> None:
    """Show the state of tables.

    Version, rows, size of the Delta, and files that wait in landing. Times are UTC. Reads files only, starts no Spark.

    \b
    Example:
      compactor status
      compactor status --wide
      compactor status --watch --every 10
      compactor status student --output json --config compactor.yaml
    """
    if watch and output is Output.json:
        raise typer.BadParameter("--watch shows text; take --output json in a loop of your own")
    with options.opened(config, verbose) as app:
        while watch:
            results, _ = options.each(app.specs(tables or ()), app.status)
            console.clear(f"every {every:g} s; Ctrl-C ends")
            console.statuses(results, wide)
            time.sleep(every)
        results, code = options.each(app.specs(tables or ()), app.status)
    if output is Output.json:
        console.as_json([item.to_json() for item in results])
    elif results:
        console.statuses(results, wide)
    raise typer.Exit(code)


def plan(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: ManyVerbose = False) -> None:
    """Show what a run would do.

    Lists the steps with their files and bytes. A table without a first run is also compared with its files, like `compactor check`. Changes
    nothing, reads files only, starts no Spark. Exits 1 if the configuration contradicts the files.

    \b
    Example:
      compactor plan
      compactor plan student --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        results, code = options.each(app.specs(tables or ()), app.plan)
    if output is Output.json:
        console.as_json([item.to_json() for item in results])
    else:
        console.plans(results, verbose)
    raise typer.Exit(code or (1 if any(item.problems for item in results) else 0))


def check(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: ManyVerbose = False) -> None:
    """Compare the configuration with the files in landing.

    Finds folders without files, two tables on one folder, key and order columns that no sampled file has, a key that different inserted
    rows have, values that need `types:`, another envelope, and another CSV dialect. Changes nothing, reads a few small files, starts no
    Spark. Exits 1 if a check fails.

    \b
    Example:
      compactor check
      compactor check student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        results, code = options.each(app.specs(tables or ()), app.check)
    if output is Output.json:
        console.as_json([item.to_json() for item in results])
    elif results:
        console.checks(results, verbose)
    raise typer.Exit(code or (0 if all(item.ok for item in results) else 1))


def log(
    table: OneTable,
    config: ConfigFile = DEFAULT,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format; csv only with --inputs.")] = Format.text,
    inputs: Annotated[bool, typer.Option("--inputs", help="Show the ledger instead: every ingested file, oldest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show the N newest; 0 = all.")] = 20,
    wide: Wide = False,
    verbose: Verbose = False,
) -> None:
    """Show a table's Snapshots, newest first.

    Times are UTC. With --inputs: the whole ledger, with each file's number of rows and outcome. Reads files only, starts no Spark.

    \b
    Example:
      compactor log student
      compactor log student -n 3 --output json --config compactor.yaml
      compactor log student --inputs --output csv > ledger.csv
    """
    if output is Format.csv and not inputs:
        raise typer.BadParameter("--output csv needs --inputs")
    with options.opened(config, verbose) as app:
        if inputs:
            _show_inputs(app.inputs(table), output)
            return
        snapshots, last = app.log(table, limit), app.last_run(table)
    if output is Format.json:
        console.as_json([console.snapshot_json(snapshot) for snapshot in snapshots])
    else:
        console.snapshots(snapshots, wide)
        console.failing(last)


def _show_inputs(inputs: Sequence[Input], output: Format) -> None:
    """Print the ledger. CSV contains Positions as JSON lists."""
    if output is Format.json:
        console.as_json([dataclasses.asdict(item) for item in inputs])
    elif output is Format.csv:
        names = [field.name for field in dataclasses.fields(Input)]
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        for item in inputs:
            values = [getattr(item, name) for name in names]
            writer.writerow([json.dumps(value) if isinstance(value, tuple) else value for value in values])
    else:
        columns = ("path", "folder time", "bytes", "rows", "outcome", "invalid", "reason")
        rows = [(item.path, item.hour, item.size, item.rows, item.outcome, item.quarantined, item.reason) for item in inputs]
        grid.table(columns, rows, right=("bytes", "rows", "invalid"), empty="nothing ingested yet")


def verify(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    files_only: Annotated[bool, typer.Option("--files-only", help="Only checks that need no Spark.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every file of every kept version, and compare the size of every raw file.")] = False,
    wait: Wait = WAIT_SECONDS,
    verbose: ManyVerbose = False,
    log_format: LogForm = LogFormat.text,
) -> None:
    """Check that tables are consistent.

    Checks files, counts and the ledger, and compares the view with a full recompute from all archived changes. Changes nothing. Exits 1 if
    a check fails.

    \b
    Example:
      compactor verify
      compactor verify student --files-only --deep --config compactor.yaml
    """
    with options.opened(config, verbose, wait, log_format) as app:
        results, code = options.each(app.specs(tables or ()), lambda names: app.verify(names, files_only=files_only, deep=deep))
    if output is Output.json:
        console.as_json([item.to_json() for item in results])
    elif results:
        console.checks(results, verbose)
    raise typer.Exit(code or (0 if all(item.ok for item in results) else 1))


def files(
    table: OneTable,
    config: ConfigFile = DEFAULT,
    version: Annotated[
        int | None, typer.Option("--version", min=1, metavar="N", help="A version (default: the newest that readers see).", show_default=False)
    ] = None,
    query: Annotated[bool, typer.Option("--sql", help="Print one query over the files that shows the rows, for DuckDB without compactor.")] = False,
    output: OutputForm = Output.text,
    verbose: Verbose = False,
) -> None:
    """Show the Parquet files of a table.

    These files, and no others, are the version. A row of the delta replaces the row of the base with its key, and rows whose `_op` is `d` are
    deleted. Tools that read only the base miss what came since. The files stay for `grace` after a newer version has replaced theirs; `compactor
    pin` keeps them. Reads files only, starts no Spark.

    \b
    Example:
      compactor files student
      compactor files student --version 41 --output json
      duckdb -c "$(compactor files student --sql)"
    """
    with options.opened(config, verbose) as app:
        if query:
            print(app.files_sql(table, version))
            return
        snapshot, listed = app.files(table, version)
    if output is Output.json:
        console.as_json({"table": table, "version": snapshot.version, "files": [dataclasses.asdict(file) for file in listed]})
        return
    grid.table(("part", "bytes", "file"), [(file.part, f"{file.size:,}", file.location) for file in listed], right=("bytes",))
    print(f"version {snapshot.version} of {table}, {counted(len(listed), 'file')}")


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
    grid.console().print(place, soft_wrap=True)
