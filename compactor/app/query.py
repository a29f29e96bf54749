"""SQL statements on Spark: their rows as JSON texts, their errors in one sentence, and time travel for one statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from compactor.core.catalog import base_views, feed, history_views, live, objects, statements
from compactor.core.catalog.ddl import quoted
from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    from compactor.spark.failures import reason

    if getattr(error, "java_exception", None) is not None:
        return reason(error).removeprefix("java.lang.RuntimeException: ")
    # keep the position in the statement, drop the query plan that Spark appends
    kept = [line for line in str(error).partition("\n\nJVM stacktrace")[0].split(";\n'")[0].splitlines() if line.strip()]
    return "\n".join(kept)[:2000]


GENERATION = re.compile(r"_g\d+$")


def micros(text: str) -> int:
    """Return a time as microseconds since 1970. Without a zone it is UTC. Raises Refused.

    >>> micros("1970-01-01 00:00:01")
    1000000
    """
    try:
        return times.to_micros(text)
    except ValueError:
        raise Refused(f"expected a time such as 2026-11-20T14:00:00Z or '2026-11-20 14:00', got {text!r}") from None


def check_names(specs: Sequence[TableSpec], text: str, escapes: bool) -> None:
    """Raise Refused for a statement with names that --as-of does not apply to. `escapes`: see `statements.split`."""
    places = {(spec.database.lower(), spec.view.lower()) for spec in specs}
    for database, view in places & statements.qualified(text, escapes):
        raise Refused(f"--as-of shows tables that are named without their database; write {view} instead of {database}.{view}")
    names = statements.mentioned(text, escapes)
    for spec in specs:
        shown = {f"{spec.name}_{feed.TABLE}": spec.feed != "off", base_views.called(spec): spec.read_optimized, live.name(spec): spec.live_view}
        for name in names:
            if shown.get(GENERATION.sub("", name)):
                raise Refused(f"--as-of does not apply to {name}; read {spec.view} with it, or omit --as-of")


@contextmanager
def as_of_views(spark: SparkSession, specs: Sequence[TableSpec], moment: int | None, since: Callable[[TableSpec], str | None]) -> Iterator[None]:
    """Create temporary views under the names of these tables' views while a statement is analysed. Spark prefers them to the catalog's views.

    `moment`: microseconds since 1970; None creates no views. `since` returns a table's `History.since`.
    """

    def value(query: str) -> int | None:
        row = spark.sql(query).first()
        return None if row is None else row[0]

    made = []
    try:
        for spec in specs if moment is not None else ():
            table = f"{quoted(spec.database)}.{quoted(spec.view)}"
            if not spark.catalog.tableExists(table):
                continue
            why: str | None = f"table {spec.name} has no history: set `history: true`, or omit --as-of"
            if spec.history and spark.catalog.tableExists(f"{quoted(spec.database)}.{quoted(history_views.name(spec))}"):
                why = history_views.not_begun(spec, since(spec), moment or 0, value)
            if why is None:
                text = history_views.as_of_text(spec, spark.table(table).columns, moment or 0)
            else:
                # fails only if the statement reads this table: only Spark knows which tables it reads. It may be empty now
                text = f"SELECT t.* FROM (SELECT 1) LEFT JOIN {table} t ON false WHERE CAST(raise_error('{why}') AS STRING) IS NULL"
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {quoted(spec.view)} AS {text}")
            made.append(spec.view)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(name)
