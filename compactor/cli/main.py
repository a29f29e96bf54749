"""The command line: a command parses, makes one call, shows the answer. Exit codes: 0, 1 refused or failed, 2 usage, 75 try again later."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from compactor.cli import changes as cli_changes
from compactor.cli import console, lifecycle, options, quarantine
from compactor.cli import init as cli_init
from compactor.cli import schema as cli_schema
from compactor.cli.adopt import adopt
from compactor.cli.ingest import ingest
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Format, OneTable, Output, OutputForm, Tables, Verbose, Wait
from compactor.cli.package import package
from compactor.core.model.errors import CompactorError

app = typer.Typer(
    name="compactor",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Keeps plain-Parquet Hive tables up to date from change data capture files.

\b
Example:
  compactor demo                           see it work, on a captured PostgreSQL database
  compactor plan --config compactor.yaml   what would be done
  compactor run --config compactor.yaml    do it
  compactor sql "select count(*) from student" --config compactor.yaml
""",
)


_T = TypeVar("_T")


@app.command()
def run(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    parallel: Annotated[int | None, typer.Option("--parallel", "-p", min=1, help="Tables at a time; default by the cores.")] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Fold what is worth it now, whatever `compaction:` says.")] = False,
    label: Annotated[str, typer.Option(help="A name for this run, kept in its Snapshots; a scheduler's run id.")] = "",
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Bring tables up to date.

    Commits what has landed, folds if due, publishes, archives. A table that fails does not stop the others. Exits 1 when one failed,
    75 when some only have to be tried again later.

    \b
    Example:
      compactor run
      compactor run student ledger --config compactor.yaml
      compactor run --compact big_table
      compactor run --output json | jq '.[] | select(.outcome == "failed")'
    """
    more: dict[str, Any] = {} if parallel is None else {"parallel": parallel}
    with options.opened(config, verbose, wait) as here:
        specs = here.specs(tables or ())
        with console.progress(len(specs), quiet=output is Output.json) as told:
            found = here.run([spec.name for spec in specs], progress=told, label=label, compact=compact, **more)
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        console.reports(found)
    codes = {item.exit_code for item in found}
    raise typer.Exit(1 if codes - {0, 75} else 75 if 75 in codes else 0)


@app.command()
def status(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Show where tables stand.

    Version, rows, Delta, what waits in landing. Reads files only, starts no Spark.

    \b
    Example:
      compactor status
      compactor status student --output json --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        found, code = options.each(here.specs(tables or ()), here.status)
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    elif found:
        console.statuses(found)
    raise typer.Exit(code)


@app.command()
def plan(tables: Tables = None, config: ConfigFile = DEFAULT, output: OutputForm = Output.text, verbose: Verbose = False) -> None:
    """Show what a run would do.

    With files and bytes. Changes nothing, reads files only, starts no Spark.

    \b
    Example:
      compactor plan
      compactor plan student --config compactor.yaml
    """
    with options.opened(config, verbose) as here:
        found, code = options.each(here.specs(tables or ()), here.plan)
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    else:
        console.plans(found)
    raise typer.Exit(code)


@app.command()
def log(
    table: OneTable,
    config: ConfigFile = DEFAULT,
    output: Annotated[Format, typer.Option("--output", "-o", help="For people, JSON, or (--inputs) CSV with a header.")] = Format.text,
    inputs: Annotated[bool, typer.Option("--inputs", help="The ledger instead: every file taken, oldest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="The newest so many; 0 = all.")] = 20,
    verbose: Verbose = False,
) -> None:
    """Show a table's Snapshots, newest first.

    With --inputs all of its ledger: which file was taken, how many rows it had, what became of it. Reads files only, starts no Spark.

    \b
    Example:
      compactor log student
      compactor log student -n 3 --output json --config compactor.yaml
      compactor log student --inputs --output csv > ledger.csv
    """
    if output is Format.csv and not inputs:
        raise typer.BadParameter("only --inputs has CSV")
    with options.opened(config, verbose) as here:
        found = here.inputs(table) if inputs else here.log(table)
    if inputs:
        lifecycle.show_inputs(found, output)
        return
    found = found[:limit] if limit else found
    if output is Format.json:
        console.as_json([console.snapshot_json(item) for item in found])
    else:
        console.snapshots(found)


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="One SQL statement, in quotes.", show_default=False)],
    config: ConfigFile = DEFAULT,
    output: Annotated[Format, typer.Option("--output", "-o", help="For people, one JSON array, or CSV with a header.")] = Format.text,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="The tables (with `history: true`) as they were at a source time, UTC where it names no zone.")
    ] = None,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Run a SQL statement.

    In Spark, in the configured database. JSON has decimals as numbers, timestamps as ISO 8601 in UTC, bytes in base64.
    In CSV null is empty and "" an empty text.

    \b
    Example:
      compactor sql "select * from student limit 5"
      compactor sql "select id, email from student" --output csv --config compactor.yaml > students.csv
      compactor sql "describe student" --output json
      compactor sql --as-of "2026-11-20 14:00" "select count(*) from student"
    """
    with options.opened(config, verbose, wait) as here:
        rows = here.sql(statement, as_of)
        if output is Format.json:
            console.rows_as_json(rows)
        elif output is Format.csv:
            console.rows_as_csv(rows.columns, rows)
        else:
            console.rows_as_text(rows.columns, rows)
        sys.stdout.flush()


@app.command()
def verify(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    files_only: Annotated[bool, typer.Option("--files-only", help="Leave out what needs Spark.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file of every kept version, and compare every raw file's size.")] = False,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Check stored, shown and recorded data.

    Whether they agree: files, counts, inputs, and the view against every archived change. Changes nothing; exits 1 when a
    check fails.

    \b
    Example:
      compactor verify
      compactor verify student --files-only --deep --config compactor.yaml
    """
    with options.opened(config, verbose, wait) as here:
        found, code = options.each(here.specs(tables or ()), lambda names: here.verify(names, files_only=files_only, deep=deep))
    if output is Output.json:
        console.as_json([item.to_json() for item in found])
    elif found:
        console.checks(found)
    raise typer.Exit(code or (0 if all(item.ok for item in found) else 1))


@app.command()
def demo(
    directory: Annotated[Path, typer.Option("--dir", metavar="PATH", help="Where to put it.")] = Path("compactor-demo"),
    fresh: Annotated[bool, typer.Option("--fresh/--keep", help="Start over, or go on with what is there.")] = True,
    verbose: Verbose = False,
) -> None:
    """See it work on captured changes.

    Runs the main job on nine hours of a captured PostgreSQL database, hour by hour, in a local directory.

    \b
    Example:
      compactor demo
      compactor demo --dir /tmp/compactor-demo --keep
    """
    from compactor.demo import show

    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    raise typer.Exit(show(directory, fresh=fresh, verbose=verbose))


app.command()(ingest)
app.command()(cli_changes.changes)
app.command()(package)
app.command()(lifecycle.vacuum)
app.command()(lifecycle.restore)
app.command()(lifecycle.rebuild)
app.command()(lifecycle.pin)
app.command()(adopt)
app.command("init")(cli_init.init)
app.command("sync")(cli_schema.sync)
app.add_typer(cli_schema.commands, name="schema")
app.add_typer(quarantine.commands, name="quarantine")


def main() -> None:
    """The program: errors become one paragraph on stderr and an exit code."""
    verbose = bool({"-v", "--verbose"} & set(sys.argv[1:]))
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except CompactorError as error:
        _last_words(f"{error}", verbose)
        sys.exit(error.exit_code)
    except Exception as error:
        try:
            reason = (str(error).strip() or "no message").splitlines()[0]
        except Exception:
            # an error of the JVM's asks the JVM for its words, which may have ended
            reason = "no message"
        hint = "" if verbose else " (-v shows where)"
        _last_words(f"unexpected {type(error).__name__}: {reason[:500]}{hint}", verbose)
        sys.exit(1)


def _last_words(text: str, verbose: bool) -> None:
    if verbose:
        traceback.print_exc()
    print(f"compactor: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
