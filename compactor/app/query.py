"""Rows of a SQL statement as JSON texts, and errors of the statement in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from compactor.core.catalog import objects, statements
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec

_T = TypeVar("_T")
_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"
_OPTIONS = f"'ignoreNullFields', 'false', 'timestampFormat', \"{_TIMESTAMP}'Z'\", 'timestampNTZFormat', \"{_TIMESTAMP}\""
AS_JSON = f"to_json(struct(*), map({_OPTIONS})) AS row"
"""SQL: a row as JSON text."""


@dataclass(frozen=True)
class Rows:
    """The rows of a query. Iterating returns one JSON object a row, as text. The JVM writes it, because it supports years beyond 9999."""

    columns: list[str]
    texts: Iterable[str] = ()
    """One JSON object a row."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def check_tables(specs: Iterable[TableSpec], text: str) -> None:
    """Raise Refused for a query of an Iceberg table, which neither engine here reads."""
    for spec in specs if statements.first_word(text) in statements.READS else ():
        for name in (objects.iceberg_name(spec, form) for form in spec.iceberg):
            if re.search(rf"(?<!\w){name}(?!\w)", text, re.IGNORECASE):
                raise Refused(f"sql: {name} is an Iceberg table, for engines that read Iceberg; here {spec.view} has the rows")


def row_texts(frame: Any) -> Iterator[str]:
    """Return the only column of a DataFrame, row by row, without collecting it."""
    rows = with_sql_errors(lambda: frame.toLocalIterator(prefetchPartitions=True))
    while (row := with_sql_errors(lambda: next(rows, None))) is not None:
        yield row[0]


def with_sql_errors(call: Callable[[], _T]) -> _T:
    """Call Spark. Errors of the statement become Refused with one sentence."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from compactor.spark import failures

    try:
        return call()
    except (PySparkException, Py4JJavaError) as error:
        raise failures.environment_error(error, stored=True) or Refused(f"sql: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    from compactor.spark.input.files import reason

    if getattr(error, "java_exception", None) is not None:
        return reason(error).removeprefix("java.lang.RuntimeException: ")
    # keep the position in the statement, drop the query plan that Spark appends
    kept = [line for line in str(error).partition("\n\nJVM stacktrace")[0].split(";\n'")[0].splitlines() if line.strip()]
    return "\n".join(kept)[:2000]
