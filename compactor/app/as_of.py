"""Tables as they were at a time: in the session of one statement, names of tables stand for queries of their histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from compactor.core.catalog import history_views
from compactor.core.catalog.ddl import quoted
from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def micros(text: str) -> int:
    """A time as microseconds since 1970; UTC where it names no zone. Raises Refused.

    >>> micros("1970-01-01 00:00:01")
    1000000
    """
    try:
        return times.to_micros(text)
    except ValueError:
        raise Refused(f"expected a time such as 2026-11-20T14:00:00Z or '2026-11-20 14:00', found {text!r}") from None


@contextmanager
def as_of_views(spark: SparkSession, specs: Sequence[TableSpec], moment: int | None) -> Iterator[None]:
    """While a statement is analysed: temporary views, which come before the catalog's, under the names of these tables' views."""
    made = []
    try:
        for spec in specs if moment is not None else ():
            table = f"{quoted(spec.database)}.{quoted(spec.view)}"
            if not spark.catalog.tableExists(table):
                continue
            if spec.history and spark.catalog.tableExists(f"{quoted(spec.database)}.{quoted(history_views.name(spec))}"):
                text = history_views.as_of_text(spec, spark.table(table).columns, moment or 0)
            else:
                why = f"table {spec.name} has no history: say `history: true`, or leave --as-of out"
                # fails where it is read, and only there: which tables a statement reads only Spark knows
                text = f"SELECT * FROM {table} WHERE CAST(raise_error('{why}') AS STRING) IS NULL"
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {quoted(spec.view)} AS {text}")
            made.append(spec.view)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(name)
