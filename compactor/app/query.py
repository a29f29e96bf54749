"""A statement's answer as JSON, and what is said when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from compactor.core.model.errors import Refused

_T = TypeVar("_T")
_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"
_OPTIONS = f"'ignoreNullFields', 'false', 'timestampFormat', \"{_TIMESTAMP}'Z'\", 'timestampNTZFormat', \"{_TIMESTAMP}\""
AS_JSON = f"to_json(struct(*), map({_OPTIONS})) AS row"
"""SQL: a row as JSON text."""


@dataclass(frozen=True)
class Rows:
    """The answer to a query: iterating gives one JSON object per row, as text. Written in the JVM: it knows years beyond 9999."""

    columns: list[str]
    texts: Iterable[str] = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def texts(answer: Any) -> Iterator[str]:
    rows = in_words(lambda: answer.toLocalIterator(prefetchPartitions=True))
    while (row := in_words(lambda: next(rows, None))) is not None:
        yield row[0]


def in_words(call: Callable[[], _T]) -> _T:
    """A call into Spark; what the statement did wrong becomes one sentence."""
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
        return reason(error)
    # The plan that Spark adds says nothing to who wrote the statement; the place in it does.
    kept = [line for line in str(error).partition("\n\nJVM stacktrace")[0].split(";\n'")[0].splitlines() if line.strip()]
    return "\n".join(kept)[:2000]
