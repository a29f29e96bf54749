"""The CSV settings of a table, completed by the defaults of its envelope and by its schema."""

from __future__ import annotations

import dataclasses

from compactor.core.model.spec import Csv, TableSpec
from compactor.core.schema import avro

DELIMITERS = ("\t", ";", "|", ",")
"""What usually stands between values; text least often has the first."""


def settings(spec: TableSpec) -> Csv:
    """Return the table's CSV settings with everything set but `escape`. `columns` are those of files without header; they may come from `schema:`."""
    given = spec.csv
    header = given.header if given.header is not None else (spec.source.csv_header and not given.columns)
    columns = given.columns
    if not columns and not header and spec.avro_schema:
        columns = tuple(str(member["name"]) for member in avro.parse(spec.avro_schema).row()["fields"])
    null_value = given.null_value if given.null_value is not None else spec.source.csv_null
    return dataclasses.replace(given, header=header, columns=columns, null_value=null_value)


def columns_of_lines(spec: TableSpec) -> tuple[str, ...]:
    """Return the columns that `csv: {columns: ..}` or the schema names for files without header; () if the files are no such ones."""
    used = settings(spec)
    return () if used.header or spec.format not in ("auto", "csv") else used.columns


def columns_of_file(named: tuple[str, ...], ingested: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns by which a file without header is read.

    `named`: those of the settings; `ingested`: those by which its records were ingested, () for none. It lacks what was inserted since.
    """
    return ingested if ingested and {*ingested} < {*named} else named
