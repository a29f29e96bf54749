"""Time travel for one statement: temporary views replace each table's view by a query of its history."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compactor.core.catalog import base_views, feed, history_views, live, statements
from compactor.core.catalog.ddl import quoted
from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
