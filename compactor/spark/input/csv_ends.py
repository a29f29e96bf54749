"""Quoted CSV values that do not end where Spark ends them. Their files are unreadable, because whatever follows could belong to another value.

- One that never ends: Spark takes it for one that ends with the file, and it has the lines after it.
- The last of a line, if it ends in a carriage return: Spark does not say whether a value was quoted, so that the return counts as one of the line's
  end. Where all lines of a small file end with LF it belongs to the value.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import Csv
from compactor.spark import measured
from compactor.spark.columns import FILE, ROW, VALUE
from compactor.spark.consistency import ConsistentReads, together
from compactor.spark.input import files
from compactor.spark.sql import literal, named, quoted

QUOTES = (
    "Have the source write CSV as RFC 4180 says, or without quotes (MySQL: no ENCLOSED BY), and set `csv: {quote: ''}`, with `escape: '\\'` for MySQL"
)
RETURN = "_return"
"""boolean: whether Spark's last value of a line ends in a carriage return."""

_RETURNS = (
    "has a quoted value that ends in a carriage return at the end of a line, where it looks like a part of the line's end. Have the source end lines "
    "with LF, or write another column last"
)


def check(text: str, used: Csv) -> bool:
    """Return whether carriage returns at the ends of lines belong to values, in a file that is `text`. Raises InputRefused if it is unreadable."""
    if not used.quote:
        return False
    number = 1
    try:
        for values in csv.reader(io.StringIO(text, newline="\n"), delimiter=used.delimiter, quotechar=used.quote, strict=True):
            number += bool(values)
    except csv.Error as error:
        # Spark says what else it cannot read
        if "unexpected end of data" in str(error):
            raise InputRefused(_never_ends(number)) from None
    returns = re.search(_return_in_quotes(used.quote), text) is not None
    if returns and "\r\n" in text:
        raise InputRefused(_RETURNS)
    return returns


def unclear(spark: SparkSession, used: Csv, raw: files.RawFrame, paths: Mapping[str, str], reads: ConsistentReads) -> files.Unreadable:
    """Return the unreadable files of a frame (VALUE, RETURN). `paths`: FILE → location."""
    if not used.quote:
        return {}
    last = f"{VALUE}.{quoted([*raw.columns][-1])}"
    trimmed = f"rtrim('\r\n', {last})"
    one_line = f"CASE WHEN NOT contains({trimmed}, '\n') THEN replace({trimmed}, {literal(used.quote)}, {literal(used.quote * 2)}) END"
    at_end = named(f"max_by(contains({last}, '\n'), {ROW})", "lines"), named(f"max_by({one_line}, {ROW})", "one_line")
    ends = raw.rows.groupBy(FILE).agg(*at_end, named("count(1)", "records"), named(f"bool_or({RETURN})", "returns")).where("lines OR returns")
    out, returning = {}, []
    for row in ends.collect():
        path = paths[row[FILE]]
        if row.lines and _is_open(spark, used, path, row.one_line, reads):
            out[path] = files.Problem(_never_ends(row.records + (1 if used.header else 0)))
        elif row.returns:
            returning.append(path)
    # nearly all end lines with CRLF, and have no such value: not a job for each
    if any(_has_returns(spark, used.quote, group, reads) for group in together(returning)):
        out.update({path: files.Problem(_RETURNS) for path in returning if _has_returns(spark, used.quote, [path], reads)})
    return out


def record(number: int | None) -> str:
    """Return the name of a record in a message."""
    return f"record {number or '?'} (a header counts)"


def _never_ends(number: int) -> str:
    return f"cannot be read ({record(number)}: a quoted value does not end. {QUOTES})"


def _return_in_quotes(quote: str) -> str:
    return rf"\r{re.escape(quote)}\r?(?:\n|\Z)"


def _lines(spark: SparkSession, paths: Sequence[str], reads: ConsistentReads) -> DataFrame:
    return reads.open(spark.read.format("text").options(lineSep="\n"), paths)


def _has_returns(spark: SparkSession, quote: str, paths: Sequence[str], reads: ConsistentReads) -> bool:
    return not _lines(spark, paths, reads).where(f"value RLIKE {literal(_return_in_quotes(quote))}").isEmpty()


def _is_open(spark: SparkSession, used: Csv, path: str, one_line: str | None, reads: ConsistentReads) -> bool:
    """Whether a file's last line is inside of a value: all its quotes are doubled, but for the one that ends the value, or the value begins there.

    `one_line`: the last value as it stands in the file, if it is of one line.
    """
    quotes = f"octet_length(value) - octet_length(replace(value, {literal(used.quote)}, ''))"
    lines = _lines(spark, [path], reads).where("trim(value) NOT IN ('', '\r')")
    begins = "false" if one_line is None else f"endswith(rtrim('\r', value), {literal(used.delimiter + used.quote + one_line)})"
    inside = f"({quotes}) % 2 = 0 OR {begins} AS inside"
    counted = lines.selectExpr(inside, "struct(_metadata.file_block_start, monotonically_increasing_id()) AS place")
    return bool(measured.compute(counted, {"inside": "max_by(inside, place)"})["inside"])
