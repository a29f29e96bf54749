"""CSV files become raw frames whose values are text; `csv_types` gives the values types. `docs/sources.md` has the dialect.

A line ends with LF or CRLF, each as it likes. One task reads each file whole, because a line break may stand inside a value.

A quote that is not doubled (`\\"`, as MySQL writes it) makes the file unreadable: what follows could belong to any value. So do those of `csv_ends`.
Spark reads the bytes as Latin-1, which loses none, and `_text` makes UTF-8 of them, so that a record with other bytes is noticed.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from compactor.core.formats.csv_dialect import DELIMITERS, columns_of_file, settings
from compactor.core.model.errors import InputRefused
from compactor.core.model.names import of_header
from compactor.core.model.spec import Csv, TableSpec
from compactor.core.results.phrases import csv_delimiter
from compactor.core.sources import increment
from compactor.spark import failures
from compactor.spark.columns import BLOCK, FILE, ROW, TEXT, UNREADABLE, VALUE
from compactor.spark.consistency import ConsistentReads, together
from compactor.spark.input import csv_ends, files
from compactor.spark.input.csv_ends import RETURN
from compactor.spark.input.files import Origins, RawFrame
from compactor.spark.sql import literal, not_utf8, quoted

_EMPTY = "\u0001empty\u0001"
"""The text that Spark gives for an unquoted empty value, to distinguish it from the null marker and from a quoted empty value."""
_OPERATIONS = ("I", "U", "D")
_CORRUPT = "_corrupt_line"
_BYTES = "ISO-8859-1"
_NO_QUOTE = "\uffff"
"""A character that no text in Latin-1 has. Without one Spark takes the null character, in which MySQL writes a bit."""
_ESCAPE, _ESCAPE_KEPT = "\\", "\u0001escape\u0001"
"""The character that begins an escape, and what stands for an escaped one while the others are replaced."""
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_OPEN = r"(^|[^\\])(\\\\)*\\$"
"""A value that ends within an escape."""
_NOT_ONLY_NULL = r"^(?!\\N$)(?s).*\\"
"""A value with a backslash that is not `\\N`."""
_ESCAPED_END = (
    "has a value that ends in a backslash, so that the next value or line belongs to it. Have the source write \\t and \\n, as PostgreSQL's COPY "
    "does, or quote its values"
)
_BACKSLASH = (
    "has a backslash, and nothing says what it means: set `csv: {escape: '\\'}` if it begins \\t, \\n and the like (COPY, mysqldump, ClickHouse), or "
    "`csv: {escape: ''}` if it is text (Hive)"
)
_LINE = "_line"
"""string: a line with more or fewer values than columns, else null."""
_HEAD_BYTES = (1 << 16, 16 << 20)
"""How many bytes to read to find the end of the first record: first few, then many."""

csv.field_size_limit(_HEAD_BYTES[-1])


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The layout of files that can be read together."""

    names: tuple[str, ...]
    header: bool
    """Whether the first line holds the names."""
    marked: bool
    """Whether a byte order mark stands before the first value of a row."""
    returns: bool = False
    """Whether a carriage return at the end of the last value belongs to it."""


def read(
    spark: SparkSession, spec: TableSpec, origins: Origins, paths: Mapping[str, Sequence[str]], reads: ConsistentReads
) -> tuple[list[RawFrame], files.Unreadable]:
    """Return one raw frame for each layout (VALUE is a struct of text, UNREADABLE is set for lines that do not fit), and the files that have none.

    `paths`: location → the columns by which records of the file were ingested, () for none.
    """
    used = settings(spec)
    groups: dict[_Layout, list[str]] = {}
    unreadable: files.Unreadable = {}
    for path, columns in paths.items():
        try:
            groups.setdefault(_layout(spark, spec, used, path, columns), []).append(path)
        except InputRefused as error:
            unreadable[path] = files.Problem(str(error).removesuffix("."))
    return [_frame(spark, used, layout, origins, part, reads) for layout, group in groups.items() for part in together(group)], unreadable


def _layout(spark: SparkSession, spec: TableSpec, used: Csv, path: str, earlier: Sequence[str]) -> _Layout:
    """Return the layout of a file, by its first record. Raises InputRefused if it has none that can be read.

    `earlier`: the columns by which records of the file were ingested, () for none. It lacks those that the settings name since.
    """
    if not used.header and not used.columns:
        raise InputRefused(
            "this CSV file has no header, and nothing else names its columns. Set `csv: {columns: [..]}` to the "
            "names in the file's order, or `schema:` to an .avsc file. If the first line of each file holds the names (DMS: AddColumnName), set "
            "`csv: {header: true}`."
        )
    first, marked, returns = _first_record(spark, path, used)
    _check_delimiter(spec, used, first)
    if used.header:
        needed = dict.fromkeys((*spec.key, *spec.order_by))
        if not first:
            # a blank file has no rows, and so any columns
            return _Layout(tuple(needed) or ("blank",), True, False)
        names = of_header(first)
        if needed and {name.lower() for name in needed}.isdisjoint(name.lower() for name in names):
            begins = _quoted(spec, used.delimiter.join(first)[:100])
            raise InputRefused(
                f"expected a header with {', '.join(needed)}, found {begins}. Have the source write one, correct `key:` "
                "and `order_by:`, or, if no file has a header, set `csv: {columns: [..]}`."
            )
        lower = [name.lower() for name in names]
        twice = sorted({name for name in lower if lower.count(name) > 1})
        if twice:
            alike = dict.fromkeys(_quoted(spec, name) for name in names if name.lower() == twice[0])
            raise InputRefused(f"the header names {' and '.join(alike)} twice; expected names that differ in more than case. Repair the file.")
        return _Layout(tuple(names), True, False, returns)
    columns = columns_of_file(used.columns, tuple(earlier))
    if len(columns) > 1 and [name.lower() for name in columns] == [value.lower() for value in first[-len(columns) :]]:
        raise InputRefused("the first line has the names in `csv: {columns: [..]}`: expected a row. Set `header: true` instead.")
    operation = spec.source.operation_column
    if spec.source.unnamed_operation and operation and operation not in columns and _has_operation(spec, path, first, len(columns)):
        columns = (operation, *columns)
    return _Layout(columns, False, marked, returns)


def _check_delimiter(spec: TableSpec, used: Csv, first: Sequence[str]) -> None:
    """Raise InputRefused if the first record is one value that another delimiter would divide, while more are expected."""
    if len(first) != 1 or (not used.header and len(used.columns) < 2) or (used.header and spec.key == (first[0],)):
        return
    other = max((char for char in DELIMITERS if char != used.delimiter), key=first[0].count)
    if other in first[0]:
        values = f"the first line has one value with the delimiter {used.delimiter!r}, and {first[0].count(other) + 1} with {other!r}"
        raise InputRefused(f"{values}: {_quoted(spec, first[0][:100])}; {csv_delimiter(other)}.")


def _quoted(spec: TableSpec, text: str) -> str:
    """Return a part of the first line for a message. It may be a row."""
    return repr(text) if spec.quotes_records else "(not shown)"


def _has_operation(spec: TableSpec, path: str, first: Sequence[str], columns: int) -> bool:
    """Whether a file without header begins with the operation, by its first line. Raises InputRefused if it may be one or the value of a column."""
    is_one, more = bool(first) and first[0].upper() in _OPERATIONS, len(first) - columns
    if increment.is_full_load(path):
        # with another operation it is a row of one column more
        return is_one and more == 1 and first[0].upper() == "I"
    if is_one and more == 0:
        raise InputRefused(
            f"the first line has {len(first)} values, as many as `csv: {{columns: [..]}}`, and begins with {first[0]!r}: "
            "with the operation before them one column is missing. Name the columns that the files have now, or let the files name them (DMS: "
            "AddColumnName)."
        )
    return more != 0


def _first_record(spark: SparkSession, path: str, used: Csv) -> tuple[list[str], bool, bool]:
    """Return the values of the first record, whether a byte order mark is before them, and `_Layout.returns`. Values longer than the head are cut.

    A blank file has no values, and a blank line before others is one value.
    """
    for size in _HEAD_BYTES:
        try:
            head = files.head(spark, path, size, unpack=True)
        except Exception as error:
            failures.raise_environment_error(error)
            raise InputRefused(f"cannot be read ({failures.plain_reason(error)}). Have the sink write it again, or remove it.") from None
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputRefused("is UTF-16, as its first bytes say. Have the source write UTF-8, or convert the file")
        text = head.decode("utf-8-sig", errors="surrogateescape")
        lines = io.StringIO(text, newline="\n")
        records = (
            csv.reader(lines, delimiter=used.delimiter, quotechar=used.quote)
            if used.quote
            else csv.reader(lines, delimiter=used.delimiter, quoting=csv.QUOTE_NONE)
        )
        try:
            # blank lines are no rows of several columns
            first = next((each for each in records if each or used.header or len(used.columns) < 2), [])
        except csv.Error as error:
            if "\n" not in text and "\r" in text:
                raise InputRefused("its lines end in carriage returns alone. Have the source end them with line feeds") from None
            raise InputRefused(f"the first line is not CSV ({error}). Correct `csv:`, or repair the file.") from None
        if len(head) < size or lines.tell() < len(text):
            break
    marked = head.startswith(codecs.BOM_UTF8)
    ends = ("\n",) if used.header else ("\n", used.delimiter)
    if marked and used.quote and text.startswith(used.quote) and any(end in first[0] for end in ends):
        raise InputRefused(
            "a byte order mark stands before a quoted value with a delimiter or a line break, which Spark divides there. Have the source "
            "write UTF-8 without a byte order mark."
        )
    if used.header and any("\udc80" <= char <= "\udcff" for name in first for char in name):
        shown = ", ".join(first).encode("ascii", "backslashreplace").decode()
        raise InputRefused(f"the header is not UTF-8: {shown[:100]}. Have the source write UTF-8, or convert the file.")
    if not first and text.strip("\r\n"):
        first = [""]
    return first, marked, len(head) < size and csv_ends.check(text, used)


def _frame(spark: SparkSession, used: Csv, layout: _Layout, origins: Origins, paths: list[str], reads: ConsistentReads) -> RawFrame:
    # numbers instead of names: Spark compares names without regard to case
    places = [f"_c{at}" for at in range(len(layout.names))]
    struct = T.StructType([T.StructField(name, T.StringType()) for name in (*places, _CORRUPT)])
    reader = (
        spark.read.schema(struct)
        .format("csv")
        .options(
            header=layout.header,
            multiLine=True,
            lineSep="\n",
            encoding=_BYTES,
            sep=used.delimiter.encode().decode(_BYTES),
            quote=used.quote or _NO_QUOTE,
            escape=used.quote or "",
            nullValue=_EMPTY,
            emptyValue="",
            mode="PERMISSIVE",
            columnNameOfCorruptRecord=_CORRUPT,
            enforceSchema=True,
            maxCharsPerColumn=-1,
            unescapedQuoteHandling="RAISE_ERROR",
            columnPruning=False,
        )
    )
    rows = reads.open(reader, paths)
    return dataclasses.replace(_named(rows, used, layout, origins), paths=tuple(paths))


def _named(rows: DataFrame, used: Csv, layout: _Layout, origins: Origins) -> RawFrame:
    last = len(layout.names) - 1
    if not layout.returns:
        # an empty line that ends with CRLF; those that end with LF are no records either
        rows = rows.where("NOT (_c0 <=> '\\r')" if last == 0 else f"NOT (_c0 <=> '\\r' AND {_CORRUPT} <=> '')")
    places = [f"_c{at}" for at in range(last + 1)]
    read = [_unmarked("_c0", used) if layout.marked else "_c0", *places[1:]]
    texts = [f"{_text(value)} AS {name}" for name, value in zip(places[:last], read)]
    ended, returns = read[last], "false"
    if not layout.returns:
        # the rest of the line's end; alone it stands for an unquoted empty value
        ended, returns = f"CASE WHEN {ended} <> '\\r' THEN regexp_replace({ended}, '\\\\r$', '') END", f"endswith({ended}, '\r')"
    texts += [f"{_text(ended)} AS _c{last}", f"{returns} AS {RETURN}"]
    rows = rows.selectExpr(*files.origin(origins), *texts, f"{_text(_CORRUPT)} AS {_CORRUPT}")
    values = []
    for name, value in zip(layout.names, places):
        # an unquoted empty value arrives as null
        empty = "NULL" if used.null_value == "" else "''"
        marked = "" if used.null_value == "" else f"WHEN {value} = {literal(used.null_value)} THEN NULL "
        values.append(f"{literal(name)}, CASE WHEN {value} IS NULL THEN {empty} {marked}ELSE {_unescaped(value) if used.escape else value} END")
    shown = ", ".join(layout.names[:12]) + (", .." if len(layout.names) > 12 else "")
    why = f"does not have {len(layout.names)} values, one for each column ({shown})"
    bytes_of_all = f"concat_ws({literal(used.delimiter)}, {', '.join(places)})"
    unreadable_line = f"CASE {_unclear(used, places)}WHEN {quoted(_CORRUPT)} IS NOT NULL THEN {literal(why)} ELSE {not_utf8(bytes_of_all)} END"
    schema = ("struct", tuple((name, ("string",)) for name in layout.names))
    value = f"named_struct({', '.join(values)}) AS _value"
    columns = (FILE, BLOCK, ROW, value, f"{unreadable_line} AS {UNREADABLE}", f"{quoted(_CORRUPT)} AS {_LINE}", RETURN)
    return RawFrame(rows.selectExpr(*columns), schema)


def _unmarked(value: str, used: Csv) -> str:
    """SQL: the bytes of a value without the byte order mark before them. Spark takes what begins with one for unquoted."""
    mark = codecs.BOM_UTF8.decode(_BYTES)
    rest = f"substr({value}, {len(mark) + 1})"
    bare = f"nullif({rest}, '')"
    if used.quote:
        quote = re.escape(used.quote)
        inside = (
            f"replace(regexp_replace({rest}, {literal(f'^{quote}|{quote}({chr(92)}r?)$')}, '$1'), {literal(used.quote * 2)}, {literal(used.quote)})"
        )
        bare = f"CASE WHEN {rest} RLIKE {literal(f'^{quote}(?:[^{quote}]++|{quote * 2})*+{quote}{chr(92)}r?$')} THEN {inside} ELSE {bare} END"
    return f"CASE WHEN startswith({value}, {literal(mark)}) THEN {bare} ELSE {value} END"


def _unclear(used: Csv, values: Sequence[str]) -> str:
    """SQL for the case of a line with a backslash whose meaning is not known; "" if there is none. `values`: SQL for the values of the line."""
    if used.escape:
        test, reason = f"RLIKE {literal(_OPEN)}", _ESCAPED_END
    elif used.escape is None and not used.quote and used.null_value == "\\N":
        test, reason = f"RLIKE {literal(_NOT_ONLY_NULL)}", _BACKSLASH
    else:
        return ""
    return f"WHEN {' OR '.join(f'coalesce({value} {test}, false)' for value in values)} THEN {literal(reason)} "


def _unescaped(value: str) -> str:
    """SQL: a value without the escapes of PostgreSQL's COPY, which are those of MySQL and ClickHouse too. Any other character stands for itself."""
    text = f"replace({value}, {literal(_ESCAPE * 2)}, {literal(_ESCAPE_KEPT)})"
    for letter, char in _ESCAPED.items():
        text = f"replace({text}, {literal(_ESCAPE + letter)}, {literal(char)})"
    text = f"replace(replace({text}, {literal(_ESCAPE)}, ''), {literal(_ESCAPE_KEPT)}, {literal(_ESCAPE)})"
    return f"CASE WHEN contains({value}, {literal(_ESCAPE)}) THEN {text} ELSE {value} END"


def _text(value: str) -> str:
    """SQL: the bytes of a value, which Spark has read as characters of Latin-1, as text."""
    return f"CASE WHEN octet_length({value}) = char_length({value}) THEN {value} ELSE CAST(encode({value}, '{_BYTES}') AS STRING) END"


def reason(error: BaseException) -> str | None:
    """Return what a file has that this dialect does not allow; None if Spark failed for another reason."""
    text = str(error)
    if "Unescaped quote" not in text:
        return None
    place = re.search(r"\brecord=(\d+)", text)
    record = csv_ends.record(int(place[1]) + 1 if place else None)
    return f"{record}: a quote in a quoted value is not doubled; a backslash does not escape it. {csv_ends.QUOTES}"


def with_text(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Return the raw rows with TEXT: the line of the file. A line that could be read is written again from its values."""
    used = settings(spec)
    options = {"sep": used.delimiter, "quote": used.quote or "\u0000", "escape": used.quote or "\\", "nullValue": used.null_value or ""}
    pairs = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in options.items())
    return rows.selectExpr("*", f"coalesce({_LINE}, to_csv({VALUE}, map({pairs}))) AS {TEXT}")
