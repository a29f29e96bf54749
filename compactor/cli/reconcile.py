"""`compactor reconcile`: compare a table with its source."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import grid, options
from compactor.cli.options import Call, OneTable
from compactor.core.model.errors import Refused
from compactor.core.reconcile.report import TOO_MANY, ReconcileReport, RepairReport
from compactor.flows.read.reconcile import Options

_VARIABLE = "COMPACTOR_SOURCE"


@options.command()
def reconcile(
    call: Call,
    table: OneTable,
    source: Annotated[
        str,
        typer.Option(
            "--source",
            metavar="URL",
            envvar=_VARIABLE,
            help="postgresql:// or mysql://user@host/database. Keep the password in PGPASSWORD or MYSQL_PWD.",
        ),
    ] = "",
    source_table: Annotated[
        str | None, typer.Option(metavar="SCHEMA.TABLE", help="The table in the source; default from `source_table:`, `topic:` or the name.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Compare only these rows of the source; its SQL. Default: rows that `delete_when` does not delete."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="POSITION", help="First wait until the lake has reached this LSN, or file:byte of the binlog, or `now`."),
    ] = None,
    wait_lake: Annotated[float, typer.Option("--wait-lake", metavar="SECONDS", min=0, help="How long to wait for the lake, in all.")] = 600.0,
    parallel: Annotated[int, typer.Option("--parallel", "-p", metavar="N", min=1, help="Statements at a time on the source.")] = 2,
    chunk: Annotated[int, typer.Option(min=1000, metavar="ROWS", help="Rows that one statement on the source should read.")] = 100_000,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="How long one statement on the source may take.")] = 300.0,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Show, or repair, N differences.")] = 100,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the rows that differ, and compare again.")] = False,
    run: Annotated[bool, typer.Option("--run", help="With --repair: repair. Without this option: dry run.")] = False,
    signal: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="With --repair: write a row into this signal table of Debezium, which then reads the rows again."),
    ] = None,
) -> int:
    """Compare a table with its source.

    Names the rows and columns that differ. Both sides compute counts and checksums of key ranges; ranges that differ are divided down to
    single rows. Each differing row is then looked at again: the source's row, the lake's row when the lake has reached the source's
    position, and the source's row once more. So a row that changes meanwhile, or that the lake does not have yet, is not reported. Changes
    neither side; the result is recorded for `compactor status`. Exits 0 if nothing differs, 1 if rows differ, 75 if rows differ and the lake
    has not reached the source's position within --wait-lake.

    With --repair --run the rows of keys that differ are read from the source, landed as a file, and ingested by a run of the table; keys that only
    the lake has are deleted there. Then both are compared again, and the exit code is that of the second comparison. With --signal the
    connector reads the rows instead; nothing else ever writes to the source.

    \b
    Example:
      compactor reconcile student --source postgresql://reader@standby/school
      compactor reconcile student --source postgresql://reader@standby/school --repair --run --limit 1000
      compactor reconcile student --source mysql://reader@db/school
      compactor reconcile student --source postgresql://reader@standby/school --at now --wait-lake 3600 --output json
    """
    if not source:
        raise Refused(f"reconcile needs the source: --source postgresql://user@host/database or mysql://.., or the environment variable {_VARIABLE}")
    if (run or signal) and not repair:
        raise typer.BadParameter("--run and --signal belong to --repair")
    chosen = Options(parallel, chunk, timeout, limit, at=at, wait=wait_lake, source_table=source_table, where=where)
    if repair:
        done = call.app.repair(table, source, chosen, run=run, signal=signal)
        call.answer(done, lambda: _show_repair(done))
        return int(done.exit_code)
    result = call.app.reconcile(table, source, chosen)
    call.answer(result, lambda: _show(result))
    return int(result.exit_code)


def _show_repair(done: RepairReport) -> None:
    _show(done.before)
    what = f"{done.rows:,} rows from the source, {done.deletes:,} deletes"
    left = f"; {done.left:,} rows that differ are left" if done.left else ""
    if done.left_null:
        left += f"; rows that only the source has get null in columns that are not compared ({', '.join(done.left_null)}), with --signal all values"
    if done.after is None:
        grid.print_message(f"dry run: a repair would bring {what}{left}; use --run to repair" if done.rows + done.deletes else "nothing to repair")
        return
    grid.print_message(f"repaired by {done.written}: {what}{left}. Compared again:")
    _show(done.after)


def _show(result: ReconcileReport) -> None:
    differing = [
        (
            ", ".join(f"{name}={text}" for name, text in item.key.items()),
            item.kind if item.kind != "repeated" else f"{item.rows[0]} rows in the source, {item.rows[1]} in the lake",
            "; ".join(f"{cell.column}: source {_value(cell.source)}, lake {_value(cell.lake)}" for cell in item.cells),
            item.proof or "the lake has not come that far",
        )
        for item in result.differences
    ]
    if differing:
        grid.table(("key", "difference", "columns", "why it is no delay"), differing)
    rows = f"{result.source_rows:,} rows in the source, {result.lake_rows:,} in the lake (version {result.version})"
    differ, again = f"{result.different:,} rows differ", f"; {result.suspects:,} rows looked at again"
    if result.outcome == TOO_MANY:
        differ, again = f"{result.suspects:,} rows differ at first, or more", ""
    grid.print_message(f"{result.table}: {result.outcome}. {rows}; {differ}")
    grid.print_message(f"compared {len(result.columns)} columns in {result.parts:,} key ranges with {result.source} in {result.seconds:.1f} s")
    grid.print_message(f"positions: source {result.source_position}, lake {result.lake_position}{again}")
    if result.changing:
        grid.print_message(f"{result.changing:,} rows changed in every look and are not judged")
    if result.outcome == TOO_MANY:
        print("that is too many to look at each: the lake is far behind (try --at now), or another table was compared")
    for name, reason in result.skipped:
        grid.print_message(f"not compared: {name}: {reason}")


def _value(text: str | None) -> str:
    if text is None:
        return "null"
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
