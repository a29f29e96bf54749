"""Answers questions about Iceberg tables, one JSON line each, in an environment with PyIceberg, Polars and DuckDB's extension (pins.txt).

    {"reader": "pyiceberg", "metadata": "/lake/t/_iceberg/metadata/v1.metadata.json"}   → {"columns": [..], "rows": [[..], ..]}
    {"reader": "plan", "metadata": .., "filter": "a > 5"}                               → {"files": [..]}

Values are texts that are equal if and only if the values are. This file imports nothing of the project, which is not installed there.
"""

from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal
from typing import Any


def text(value: Any) -> Any:
    """Return a value as JSON in which only equal values are equal."""
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return "t" + str((moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return f"d{value.isoformat()}"
    if isinstance(value, (bytes, bytearray)):
        return f"b{bytes(value).hex()}"
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (float, Decimal)):
        return f"n{value!r}" if isinstance(value, float) else f"n{value:f}"
    if isinstance(value, dict):
        return {name: text(part) for name, part in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [text(part) for part in value]
    return value


def of_arrow(table: Any) -> dict[str, Any]:
    """Return the rows of an Arrow table."""
    columns = [[text(_plain(value)) for value in _values(column)] for column in table.columns]
    return {"columns": table.column_names, "rows": [list(row) for row in zip(*columns)]}


def _values(column: Any) -> list[Any]:
    """Return Python's values; of dates and times their numbers, because Python's years end with 9999."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_date(kind):
        return [None if day is None else f"d{day}" for day in column.cast("date32").cast("int32").to_pylist()]
    if pyarrow.types.is_timestamp(kind):
        return [None if at is None else f"t{at}" for at in column.cast(pyarrow.timestamp("us", kind.tz)).cast("int64").to_pylist()]
    return list(column.to_pylist())


def _plain(value: Any) -> Any:
    # a map is a list of pairs
    if isinstance(value, list) and value and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return {str(key): _plain(part) for key, part in value}
    if isinstance(value, list) and value and all(isinstance(pair, dict) and pair.keys() == {"key", "value"} for pair in value):
        return {str(pair["key"]): _plain(pair["value"]) for pair in value}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return {name: _plain(part) for name, part in value.items()} if isinstance(value, dict) else value


def pyiceberg(question: dict[str, Any]) -> dict[str, Any]:
    """PyIceberg's answer."""
    from pyiceberg.table import StaticTable

    options = {"snapshot_id": question["snapshot"]} if question.get("snapshot") else {}
    return of_arrow(StaticTable.from_metadata(question["metadata"]).scan(**options).to_arrow())


def parquet(question: dict[str, Any]) -> dict[str, Any]:
    """The rows of a directory of Parquet files that Spark wrote: what it shows."""
    import pyarrow.parquet

    return of_arrow(pyarrow.parquet.read_table(question["metadata"], coerce_int96_timestamp_unit="us"))


def plan(question: dict[str, Any]) -> dict[str, Any]:
    """The files that PyIceberg would open for a filter."""
    from pyiceberg.table import StaticTable

    tasks = StaticTable.from_metadata(question["metadata"]).scan(row_filter=question["filter"]).plan_files()
    return {"files": sorted(task.file.file_path for task in tasks)}


def polars(question: dict[str, Any]) -> dict[str, Any]:
    """Polars' answer."""
    import polars

    return of_arrow(polars.scan_iceberg(question["metadata"]).collect().to_arrow())


def duckdb(question: dict[str, Any]) -> dict[str, Any]:
    """DuckDB's answer."""
    return of_arrow(_connection().execute(f"SELECT * FROM iceberg_scan('{question['metadata']}')").to_arrow_table())


_open: list[Any] = []


def _connection() -> Any:
    if not _open:
        import duckdb
        from duckdb_extensions import import_extension

        for name in ("avro", "iceberg"):
            import_extension(name)
        _open.append(duckdb.connect())
        for setting in ("SET TimeZone = 'UTC'", "LOAD avro", "LOAD iceberg", "SET autoinstall_known_extensions = false"):
            _open[0].execute(setting)
    return _open[0]


READERS = {"parquet": parquet, "pyiceberg": pyiceberg, "plan": plan, "polars": polars, "duckdb": duckdb}


def main() -> None:
    """Answer line by line."""
    out = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = READERS[question["reader"]](question)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
