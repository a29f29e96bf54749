"""`compactor sql`: run one SQL statement."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Format, Verbose, Wait


def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="One SQL statement, in quotes.", show_default=False)],
    config: ConfigFile = DEFAULT,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format: a table, one JSON array, or CSV with a header.")] = Format.text,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="TIME", help="Read the tables as of a source time; UTC unless it has a zone. Needs `history: true`."),
    ] = None,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Run a SQL statement.

    Spark runs it in the configured database. In JSON, decimals are numbers, timestamps are ISO 8601 in UTC, and binary values are
    base64. In CSV, null is an empty field and "" an empty text.

    \b
    Example:
      compactor sql "select * from student limit 5"
      compactor sql "select id, email from student" --output csv --config compactor.yaml > students.csv
      compactor sql "describe student" --output json
      compactor sql --as-of "2026-11-20 14:00" "select count(*) from student"
    """
    with options.opened(config, verbose, wait) as app:
        rows = app.sql(statement, as_of)
        if output is Format.json:
            console.rows_as_json(rows)
        elif output is Format.csv:
            console.rows_as_csv(rows.columns, rows)
        else:
            console.rows_as_text(rows.columns, rows)
        sys.stdout.flush()
