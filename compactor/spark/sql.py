"""Spark SQL text, built safely: names, literals, and the casts that cannot fail.

Expressions are text here, not Column objects: `try_cast` has no Column form in Spark 3.5, and text reads the same in 3.5 and 4.
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import pyspark
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from compactor.core.catalog.ddl import quoted as quoted
from compactor.core.catalog.ddl import text_literal
from compactor.core.model import types
from compactor.spark.jvm.private import activate_default_session

log = logging.getLogger(__name__)

EXACT_JSON = "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", 'ignoreNullFields', 'false')"
"""Options of `to_json` for text in which other values differ. By default it cuts timestamps to milliseconds, and leaves out nulls in structs."""
DIGEST = f"bit_xor(xxhash64(to_json(struct(*), {EXACT_JSON})))"
"""For an aggregation: a number that changes when any of the rows changes."""
END = "(?!(?s:.))"
"""The end of a text in a regular expression of Java and of Python, in which `$` also matches before a line break at the end."""
BY_HASH = "collect_set(CASE WHEN false THEN 1 END)"
"""SQL for an aggregation: always empty. Beside it Spark groups rows by hash; for the minimum of a struct alone it would sort all rows."""
JSON_OPTIONS = {"maxStringLen": str(2**31 - 1), "allowUnquotedControlChars": "true", "columnNameOfCorruptRecord": " corrupt"}
"""For every reader of records. By default Jackson refuses strings beyond 20 million characters, and only in queries that use the string; and a record
with a tab inside a text, from there on: the columns after it would be null. Spark's own name for what is no JSON may be that of a column."""


def literal(value: Any) -> str:
    """Return a Python scalar as a SQL literal. Text is escaped, whatever it contains."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}L" if abs(value) > 2**31 - 1 else str(value)
    if isinstance(value, float):
        return f"double('{value!r}')"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return text_literal(str(value))


def unless(test: str, number: int) -> str:
    """SQL: a number that differs from one commit to the next, or null where a test holds, which is never null.

    It is taken out of an array, which is no constant in the code that Spark generates: else the code of every commit is new, and compiled anew.
    """
    return f"get(array({number}L), CAST({test} AS INT))"


def cited(value: str, chars_max: int = 80) -> str:
    """Return the beginning of a value of a record for a reason why the record is invalid. `with_cited` shows or hides it."""
    return f"concat('\\u0002', translate(substr({value}, 1, {chars_max}), '\\u0002\\u0003', ''), '\\u0003')"


def with_cited(reason: str, shown: bool) -> str:
    """Return a reason with the values that `cited` put into it, or without them."""
    return re.sub("\x02([^\x03]*)\x03", r"\1" if shown else "(not shown)", reason)


def from_json(text: str, schema: str, **options: str) -> str:
    """Return JSON text of a record as the type `schema` (a SQL literal); null, or what `options` say, where it is no JSON."""
    given = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in {**JSON_OPTIONS, **options}.items())
    return f"from_json({text}, {schema}, map({given}))"


def cast(value: str, kind: types.Type) -> str:
    """Return a cast that gives null for a value that does not fit, with ANSI mode on or off."""
    return f"try_cast({value} AS {types.text(kind, quote=True)})"


def let(value: str, name: str, body: str) -> str:
    """Return SQL for `body` in which `name` stands for `value`, so that `value` is written and computed once. SQL that repeats parts grows without
    bound.
    """
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def null(kind: types.Type) -> str:
    return f"CAST(NULL AS {types.text(kind, quote=True)})"


def member(value: str, name: str) -> str:
    """Return a struct's member; the name may hold any character."""
    return f"{value}.{quoted(name)}"


def coalesce(values: Sequence[str]) -> str:
    """Return the first of the values that is not null."""
    return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"


def mapped(value: str, meanings: Mapping[str, str]) -> str:
    """SQL: what a text stands for; null for others. CASE would compute the value again for each WHEN."""
    return f"try_element_at(map({', '.join(literal(text) for pair in meanings.items() for text in pair)}), {value})"


def struct(members: Sequence[tuple[str, str]]) -> str:
    inside = ", ".join(f"{literal(name)}, {value}" for name, value in members)
    return f"named_struct({inside})"


_PLACES = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\{(\w+)\}", re.DOTALL)
"""Finds `{name}` in a text. A name or text of the data may contain it, too, in quotes."""
_recorded: ContextVar[list[tuple[str, str]] | None] = ContextVar("recorded", default=None)


@contextlib.contextmanager
def recorded() -> Iterator[list[tuple[str, str]]]:
    """Collect (label, text) of the queries that are made inside, for `compactor explain`."""
    queries: list[tuple[str, str]] = []
    token = _recorded.set(queries)
    try:
        yield queries
    finally:
        _recorded.reset(token)


def query(label: str, text: str, **frames: DataFrame) -> DataFrame:
    """Return the rows of a query. `{name}` in its text stands for the rows of that name. PySpark analyses the query once, not at every step.

    `label` names the pass in the log and in `compactor explain`.
    """
    session, views = next(iter(frames.values())).sparkSession, {}
    if (queries := _recorded.get()) is not None:
        queries.append((label, text.strip()))
    log.debug("%s:\n%s", label, text)
    try:
        for name, rows in frames.items():
            views[name] = f"compactor_{name}_{uuid.uuid4().hex}"
            rows.createOrReplaceTempView(views[name])
        return session.sql(_PLACES.sub(lambda match: views[match[1]] if match[1] else match[0], text))
    finally:
        for view in views.values():
            session.catalog.dropTempView(view)


def as_column(sql: str) -> Column:
    """Return SQL as a Column, for the few places that take no SQL. The only use of `F.expr`.

    `F.expr` parses with the settings of the thread's active session. A thread that has none gets Spark's defaults, with which the parser puts
    settings, system properties and environment variables for `${name}`, `${system:name}` and `${env:NAME}` in names and texts of the data.
    """
    activate_default_session()
    return F.expr(sql)


def listed(parts: Sequence[str]) -> str:
    """Return a list of columns for a query that people read: short ones share a line.

    >>> print(listed(["a", "b", "max(c) AS c"]))
    a, b, max(c) AS c
    """
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > 100:
            lines.append("")
        lines[-1] += f", {part}" if lines[-1] else part
    return ",\n  ".join(lines)


def named(sql: str, name: str) -> Any:
    """Return an expression with an alias, for `agg`."""
    return as_column(sql).alias(name)


_UTF8 = (
    r"^(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    r"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*+"
)
"""The bytes of a text, as characters of Latin-1, up to the first that is no UTF-8."""


def is_utf8(text: str) -> str:
    """SQL: whether the bytes of a text are UTF-8. Spark keeps any bytes, and makes U+FFFD of others only where a function needs characters."""
    # Spark 4 refuses to decode others
    return f"{text} = decode(CAST({text} AS BINARY), 'UTF-8')" if pyspark.__version__ < "4" else f"is_valid_utf8({text})"


def not_utf8(text: str) -> str:
    """SQL: why the bytes of a text cannot be used, or null if they are UTF-8."""
    data = f"CAST({text} AS BINARY)"
    before = f"length(regexp_extract(decode({data}, 'ISO-8859-1'), {literal(_UTF8)}, 0))"
    where = f"concat('is not UTF-8: byte ', {before} + 1, ' is 0x', hex(substring({data}, {before} + 1, 1)), {literal(_NOT_UTF8)})"
    return f"CASE WHEN NOT ({is_utf8(text)}) THEN {where} END"


_NOT_UTF8 = ". Have the source write UTF-8, or convert the file"


def once(rows: DataFrame) -> DataFrame:
    """Return the same rows, and make Spark compute each of their columns once.

    Spark copies an expression into every place that uses its column, so that steps on top of each other grow beyond what it can plan. It does not
    look through a generator (`inline`), which this puts between.
    """
    return rows.selectExpr(f"inline(array(struct({', '.join(quoted(name) for name in rows.columns)})))")
