"""`compactor sql`: run SQL statements."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, Any

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Format, Verbose, Wait
from compactor.core.catalog import statements


class Engine(str, Enum):
    """What runs a statement."""

    auto = "auto"
    duckdb = "duckdb"
    spark = "spark"


EngineName = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="duckdb answers at once and reads the tables of the configuration; spark reads and changes everything in the catalog. "
        "auto: duckdb for queries of these tables, spark for anything else and for names in back-quotes.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="Read the tables as of a source time; UTC unless it has a zone. Needs `history: true`."),
]
OutputFormat = Annotated[Format, typer.Option("--output", "-o", help="Output format: a table, one JSON array, or CSV with a header.")]


def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="SQL statements, separated by `;`, in quotes.", show_default=False)],
    config: ConfigFile = DEFAULT,
    output: OutputFormat = Format.text,
    as_of: AsOf = None,
    engine: EngineName = Engine.auto,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Run SQL statements.

    They run in the configured database, one after the other, until one fails. Queries show the newest committed versions. In JSON, decimals are
    numbers, timestamps are ISO 8601 in UTC, and binary values are base64. In CSV, null is an empty field and "" an empty text.

    \b
    Example:
      compactor sql "select * from student limit 5"
      compactor sql "select id, email from student" --output csv --config compactor.yaml > students.csv
      compactor sql "describe student; select count(*) from student" --output json
      compactor sql --as-of "2026-11-20 14:00" "select count(*) from student"
      compactor sql --engine spark "create view adults as select * from student where age >= 18"
    """
    with options.opened(config, verbose, wait) as app:
        for at, text in enumerate(statements.split(statement) or [statement]):
            if at and output is not Format.json:
                print()
            show(app.sql(text, as_of, engine.value), output)
            sys.stdout.flush()


def show(rows: Any, output: Format) -> None:
    """Print rows."""
    if output is Format.json:
        console.rows_as_json(rows)
    elif output is Format.csv:
        console.rows_as_csv(rows.columns, rows)
    else:
        console.rows_as_text(rows.columns, rows)
