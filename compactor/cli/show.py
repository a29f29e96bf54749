"""`compactor status`, `plan`, `log`, `verify`: look at tables without changing them."""

from __future__ import annotations

import csv
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Format, LogForm, LogFormat, OneTable, Output, OutputForm, Tables, Verbose, Wait
from compactor.core.model.inputs import Input


def status(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Show the state of tables.

    Version, rows, size of the Delta, and files that wait in landing. Reads files only, starts no Spark.

    \b
    Example:
      compactor status
      compactor status student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as app:
        results, code = options.each(app.specs(tables or ()), app.status)
    if output is Output.json:
        console.as_json([item.to_json() for item in results])
    elif results:
        console.statuses(results)
    raise typer.Exit(code)


def plan(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Show what a run would do.

    Lists the steps with their files and bytes. Changes nothing, reads files only, starts no Spark.

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
        console.plans(results)
    raise typer.Exit(code)


def log(
    table: OneTable,
    config: ConfigFile = DEFAULT,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format; csv only with --inputs.")] = Format.text,
    inputs: Annotated[bool, typer.Option("--inputs", help="Show the ledger instead: every ingested file, oldest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show the N newest; 0 = all.")] = 20,
    verbose: Verbose = False,
) -> None:
    """Show a table's Snapshots, newest first.

    With --inputs: the whole ledger, with each file's number of rows and outcome. Reads files only, starts no Spark.

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
        snapshots, failure = app.log(table), app.last_failure(table)
    snapshots = snapshots[:limit] if limit else snapshots
    if output is Format.json:
        console.as_json([console.snapshot_json(snapshot) for snapshot in snapshots])
    else:
        console.snapshots(snapshots)
        console.last_failure(table, failure)


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
        console.table(columns, rows, right=("bytes", "rows", "invalid"))


def verify(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    files_only: Annotated[bool, typer.Option("--files-only", help="Only checks that need no Spark.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every file of every kept version, and compare the size of every raw file.")] = False,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
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
        console.checks(results)
    raise typer.Exit(code or (0 if all(item.ok for item in results) else 1))
