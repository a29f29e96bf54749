"""CSV files → raw frames whose values are text; `text_types` gives the values types.

Dialect (RFC 4180 as AWS DMS and most exporters write it): a value with delimiter, quote or line break stands in quotes, a quote inside is doubled;
a line ends with LF or CRLF. Each file is read whole by one task, because a line break may stand inside a value. An unquoted empty value and the
null marker are told from `""`; a quoted null marker is not told from an unquoted one.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import Csv, TableSpec
from compactor.core.schema.writer import from_avro
from compactor.core.sources import increment
from compactor.spark import failures
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input import files
from compactor.spark.input.files import Origins, RawFrame
from compactor.spark.sql import literal, quoted

_EMPTY = "\u0001empty\u0001"
"""What Spark gives for an unquoted empty value, so that it can be told from the null marker and from a quoted empty one."""

_BROKEN = "_broken_line"
_HEAD_BYTES = (1 << 16, 16 << 20)


@dataclasses.dataclass(frozen=True)
class _Layout:
    """What files that can be read together share: column names, whether the first line holds them, whether lines end with CRLF."""

    names: tuple[str, ...]
    header: bool
    crlf: bool


def settings(spec: TableSpec) -> Csv:
    """Return the table's CSV settings, completed by the defaults of its envelope. Names may come from `schema:`."""
    said = spec.csv
    columns = said.columns
    if not columns and not said.header and spec.avro_schema:
        columns = tuple(field.name for field in from_avro(spec.avro_schema).fields)
    header = said.header if said.header is not None else (spec.source.csv_header and not said.columns)
    null_value = said.null_value if said.null_value is not None else spec.source.csv_null
    return dataclasses.replace(said, header=header, columns=columns, null_value=null_value)


def read(spark: SparkSession, spec: TableSpec, origins: Origins, paths: Sequence[str], reads: ConsistentReads) -> list[RawFrame]:
    """Raw frames, one per layout: `_value` is a struct of text, `_broken` tells why a line cannot be used. Raises InputRefused naming a file."""
    used = settings(spec)
    if not used.header and not used.columns:
        raise InputRefused(
            f"table {spec.name}: {paths[0]}: nothing names the columns of this CSV file. Say `csv: {{columns: [..]}}` with the names in the "
            "file's order, or `schema:` with an .avsc file, or, when the first line of each file holds the names (DMS: AddColumnName), "
            "`csv: {header: true}`."
        )
    groups: dict[_Layout, list[str]] = {}
    for path in paths:
        groups.setdefault(_layout(spark, spec, used, path), []).append(path)
    return [_frame(spark, used, layout, origins, group, reads) for layout, group in groups.items()]


def _layout(spark: SparkSession, spec: TableSpec, used: Csv, path: str) -> _Layout:
    first, crlf = _first_record(spark, path, used)
    if used.header:
        names = tuple(first)
        twice = sorted({name for name in names if names.count(name) > 1 or not name})
        if twice:
            raise InputRefused(f"table {spec.name}: {path}: the header names {twice[0]!r} twice or not at all; names must differ. Repair the file.")
        return _Layout(names, True, crlf)
    columns = used.columns
    operation = spec.source.operation_column
    if spec.source.unnamed_operation and operation and operation not in columns and _has_operation(len(first) - len(columns), path):
        columns = (operation, *columns)
    return _Layout(columns, False, crlf)


def _has_operation(more: int, path: str) -> bool:
    """Whether a file without header begins with the operation, by how many more values than columns its first line has."""
    return more == 1 or (more != 0 and not increment.is_full_load(path))


def _first_record(spark: SparkSession, path: str, used: Csv) -> tuple[list[str], bool]:
    """The first record's values, and whether its line ends with CRLF. Values that are longer than the head are cut."""
    for size in _HEAD_BYTES:
        try:
            head = files.head(spark, path, size, unpack=True)
        except Exception as error:
            failures.spare_the_data(error)
            raise InputRefused(f"{path}: cannot be read ({files.reason(error)}). Have the sink write it again, or remove it.") from None
        text = head.decode("utf-8-sig", errors="replace")
        lines = io.StringIO(text, newline="\n")
        records = (
            csv.reader(lines, delimiter=used.delimiter, quotechar=used.quote)
            if used.quote
            else csv.reader(lines, delimiter=used.delimiter, quoting=csv.QUOTE_NONE)
        )
        try:
            first = next(records, [])
        except csv.Error as error:
            raise InputRefused(f"{path}: its first line is no CSV ({error}). Correct `csv:`, or repair the file.") from None
        if len(head) < size or lines.tell() < len(text):
            break
    return first, text[: lines.tell()].endswith("\r\n")


def _frame(spark: SparkSession, used: Csv, layout: _Layout, origins: Origins, paths: list[str], reads: ConsistentReads) -> RawFrame:
    # positions instead of names: Spark compares names without case
    places = [f"_c{at}" for at in range(len(layout.names))]
    struct = T.StructType([T.StructField(name, T.StringType()) for name in (*places, _BROKEN)])
    reader = spark.read.schema(struct).options(
        header=layout.header,
        multiLine=True,
        lineSep="\n",
        sep=used.delimiter,
        quote=used.quote or "",
        escape=used.quote or "",
        nullValue=_EMPTY,
        emptyValue="",
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=_BROKEN,
        enforceSchema=True,
        maxCharsPerColumn=-1,
        columnPruning=False,
    )
    rows = reads.open(lambda: reader.csv(list(paths)), paths)
    return dataclasses.replace(_named(rows, used, layout, origins), paths=tuple(paths))


def _named(rows: DataFrame, used: Csv, layout: _Layout, origins: Origins) -> RawFrame:
    values = []
    for at, name in enumerate(layout.names):
        value = f"_c{at}"
        if layout.crlf and at == len(layout.names) - 1:
            # what is left of the line's end; alone it stands for an unquoted empty value
            value = f"CASE WHEN {value} <> '\\r' THEN regexp_replace({value}, '\\\\r$', '') END"
        # an unquoted empty value arrives as null
        empty = "NULL" if used.null_value == "" else "''"
        marked = "" if used.null_value == "" else f"WHEN {value} = {literal(used.null_value)} THEN NULL "
        values.append(f"{literal(name)}, CASE WHEN {value} IS NULL THEN {empty} {marked}ELSE {value} END")
    shown = ", ".join(layout.names[:12]) + (", .." if len(layout.names) > 12 else "")
    why = f"has another number of values than there are columns ({len(layout.names)}: {shown})"
    broken = f"CASE WHEN {quoted(_BROKEN)} IS NOT NULL THEN {literal(why)} END"
    schema = ("struct", tuple((name, ("string",)) for name in layout.names))
    return RawFrame(rows.selectExpr(*files.origin(origins), f"named_struct({', '.join(values)}) AS _value", f"{broken} AS _broken"), schema)
