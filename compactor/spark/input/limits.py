"""Limits of what one file may cost (`limits:`). A small file may hold a record that no heap holds, or more columns than Spark can plan.

- The first two lines of a text file that may hold a long one are measured before Spark reads the file: a bomb is one line, perhaps below a header.
  Longer records of JSON behind them are cut when they have been read, and are invalid (`json_text`).
- Columns are counted before types are inferred from values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model import types
from compactor.core.model.inputs import InputLimits
from compactor.core.parallel import in_parallel
from compactor.spark.input.files import Problem, RawFrame, Unreadable, head
from compactor.spark.jvm import hadoop
from compactor.spark.jvm.private import jvm
from compactor.spark.sql import literal, named

_GZIP_RATIO = 1032
"""The largest number of bytes that a byte of gzip unpacks to."""
_PACKED = (".bz2", ".deflate", ".lz4", ".snappy", ".zst")
"""Suffixes of Hadoop's other codecs."""
_IN_BLOCKS = (".lz4", ".snappy")
_NO_BLOCKS = Problem("is not in Hadoop's block form of snappy or LZ4, which Spark reads: have the writer use gzip or zstd")
_BUFFER = 1 << 16


class TooManyColumns(Exception):
    """The records of a frame have more columns than the table may have."""

    def __init__(self, number: int, writer: str | None = None) -> None:
        super().__init__(f"{number:,} columns")
        self.number = number
        """How many there are, with members of structs."""
        self.writer = writer
        """The id of the writer that alone has as many, if one has."""


def check_columns(number: int, limits: InputLimits, writer: str | None = None) -> None:
    """Raise TooManyColumns if this is more than the limit."""
    if number > limits.columns:
        raise TooManyColumns(number, writer)


def too_wide(number: int, limits: InputLimits) -> Problem:
    """Return why a file with so many columns is not read."""
    return Problem(
        f"has {number:,} columns and members of structs, and the limit is {limits.columns:,}: set `limits: false` and raise the memory of "
        "Spark's driver, or have the source write keys that are values as an array"
    )


def files_of(error: TooManyColumns, decoded: DataFrame, limits: InputLimits) -> dict[str, Problem]:
    """Return the files (`_file`) of decoded JSON that have too many columns alone. Empty if only all of them together have."""
    rows = decoded.where("_writer IS NOT NULL AND _op IS NOT NULL")
    if error.writer is not None:
        listed = rows.where(f"_writer = {literal(error.writer)}").select("_file").distinct().collect()
        return {row[0]: too_wide(error.number, limits) for row in listed}
    keys = rows.selectExpr("_file", "explode(json_object_keys(coalesce(_after, _before))) AS name")
    counted = keys.groupBy("_file").agg(named("count(DISTINCT name)", "n")).where(f"n > {limits.columns}").collect()
    return {row[0]: too_wide(row.n, limits) for row in counted}


def width(raw: RawFrame, plain_rows: bool) -> int:
    """Return the number of columns in the rows of a typed frame, with members of structs; 0 for text."""
    kind = raw.schema or ("struct", ())
    return types.members(kind if plain_rows else dict(kind[1]).get("after", kind))


def too_long(text: str, limits: InputLimits) -> str:
    """SQL: why a record of text is beyond the limit, or null."""
    size, most = f"octet_length({text})", limits.record_bytes
    advice = literal(f" bytes, and the limit is {most:,}: set `limits: false`")
    return f"CASE WHEN {size} > {most} THEN concat('has ', format_number({size}, 0), {advice}) END"


def bombs(spark: SparkSession, sizes: Mapping[str, int], limits: InputLimits) -> Unreadable:
    """Return the text files (location → bytes) that begin with a line longer than the limit, or for which Hadoop would reserve too much memory."""
    most = limits.record_bytes
    suspects = [path for path, size in sizes.items() if size > most or path.endswith(_PACKED) or (path.endswith(".gz") and size * _GZIP_RATIO > most)]
    long_line = Problem(f"begins with a line of more than {most:,} bytes: set `limits: false` and raise Spark's memory")

    def problem(path: str) -> Problem | None:
        if path.endswith(_IN_BLOCKS) and not _has_blocks(spark, path, sizes[path]):
            return _NO_BLOCKS
        return long_line if _begins_long(spark, path, most) else None

    return {path: why for path, why in zip(suspects, in_parallel(problem, suspects)) if why}


def _has_blocks(spark: SparkSession, path: str, size: int) -> bool:
    """Whether the first block of a file may be one of Hadoop's: after its size comes that of its first part, for which Hadoop reserves memory."""
    try:
        return int.from_bytes(head(spark, path, 8)[4:], "big") <= size
    except Exception:
        # whoever reads the whole file reports it
        return True


def _begins_long(spark: SparkSession, path: str, most: int) -> bool:
    """Whether one of the first two lines is longer than `most` bytes. Whoever reads the whole file finds what is unreadable."""
    codec = hadoop.codec(spark, path)
    try:
        with hadoop.opened(spark, path) as stream:
            reader = jvm(spark).org.apache.hadoop.util.LineReader(codec.createInputStream(stream) if codec is not None else stream, _BUFFER)
            text = jvm(spark).org.apache.hadoop.io.Text()
            return any(int(reader.readLine(text, 1, most + 1)) > most + 1 for _ in range(2))
    except Exception:
        return False


def row_columns(fields: Sequence[tuple[str, types.Type]]) -> int:
    """Return the number of columns and of their members. Columns of one name count once, as the widest."""
    widest: dict[str, int] = {}
    for name, kind in fields:
        widest[name] = max(widest.get(name, 0), 1 + types.members(kind))
    return sum(widest.values())
