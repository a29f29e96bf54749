"""Read the first records of a landed file as JSON-like documents: Parquet and CSV with DuckDB, Avro with fastavro, JSON by lines."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

from compactor.core.formats import avro, parquet
from compactor.core.formats.csv_dialect import DELIMITERS
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.names import of_header
from compactor.core.model.spec import Csv, TableSpec
from compactor.core.sources import increment, source_profile
from compactor.core.sources.records import parsed
from compactor.core.sources.source_profile import FileSample

_LINES = """
SELECT line FROM read_csv(?, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', header = false, auto_detect = false,
  strict_mode = false, null_padding = true, compression = 'zstd')
LIMIT 10000"""
"""The first lines of a text file that is packed with zstd."""
_TEXT_BYTES = 1 << 26
"""Bytes of a JSON file, unpacked, that are looked at."""
_CSV_BYTES, _CSV_ROWS = 1 << 16, 300
_DECODER = json.JSONDecoder()
_OURS = re.compile(r"""^[\w ]+ Error: |(?: (?:in|from|of) )?[Ff]ile ['"]{2} ?""")
"""The parts of DuckDB's message that name our copy of a file."""
_NAME = re.compile(r"[^\W\d][\w $#]*")
_MAGIC = {parquet.MAGIC: "parquet", avro.MAGIC: "avro"}
_DMS_OPERATIONS = ("I", "U", "D")
_NULL = "\\N"
"""Null in the files of COPY, MySQL and Hive. It is no text that anybody writes."""


def read(path: str, data: bytes, rows_max: int, spec: TableSpec | None = None) -> FileSample:
    """Return at most `rows_max` records of a file. Raises ValueError, OSError, EOFError or zlib.error when it cannot be read."""
    kind = spec.format if spec and spec.format != "auto" else increment.file_format(path) or _MAGIC.get(data[:4], "")
    if path.lower().endswith(".snappy") and kind not in ("avro", "parquet"):
        return FileSample([], format=kind or "json", opaque=True)
    try:
        if kind == "avro":
            return FileSample(_avro(data, rows_max), format=kind)
        if kind == "parquet":
            # a column with the name of the table would stand for it
            sql = "SELECT to_json(_compactor_row) FROM read_parquet(?) AS _compactor_row LIMIT ?"
            return FileSample([json.loads(text) for (text,) in _query(sql, data, rows_max)], format=kind)
        # not `splitlines`: a value may hold U+2028. An invalid line is for the run to report.
        lines = [] if kind == "csv" else _text(path, data, _TEXT_BYTES).split("\n")[:rows_max]
        documents = [document for line in lines for document in _documents(line)]
        if kind == "csv" or (not kind and not any(isinstance(document, dict) for document in documents) and _is_csv(lines)):
            return _csv(_text(path, data, _CSV_BYTES), increment.is_dms(path), spec.csv if spec else Csv())
        return FileSample(documents)
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _documents(line: str) -> Iterator[Any]:
    """Yield the documents of a line as `spark/input/json_text` reads it: several, or one of an array with an object a line.

    Raises ValueError for a line with several elements of an array, which a run refuses.
    """
    text = line.strip()
    text = (text[:-1] if text.endswith((",", "]")) else text).removeprefix("[").lstrip()
    while text:
        try:
            document, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return
        # a JSON string with a document in it
        yield parsed(document) if isinstance(document, str) and document.lstrip().startswith("{") else document
        text = text[end:].lstrip()
        if text.startswith(",") and line.lstrip().startswith("["):
            raise ValueError("a line is a JSON array of several values; have the source write one object a line")


def _text(path: str, data: bytes, size: int) -> str:
    """Return the first `size` bytes of a text file, unpacked."""
    if path.lower().endswith(".zst"):
        data = "\n".join(line or "" for (line,) in _query(_LINES, data)).encode()
    if data[:2] == b"\x1f\x8b":
        data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(size)
    elif path.lower().endswith(".bz2"):
        data = bz2.BZ2Decompressor().decompress(data, size)
    return data[:size].decode("utf-8", "replace").lstrip("\ufeff")


def _avro(data: bytes, rows_max: int) -> list[Any]:
    import fastavro

    try:
        reader = fastavro.reader(io.BytesIO(data))
        text = reader.metadata["avro.schema"]
        header = source_profile.example(text)
        with suppress(ValueError, OverflowError):
            return [{"schema": header["schema"], "payload": record} for record in islice(reader, rows_max)]
        # the numbers as they are: some value is none of Python's, such as a time of 24:00, or a date beyond the year 9999
        plain = data.replace(text.encode(), text.replace('"logicalType"', '"logicalTypX"').encode(), 1)
        with suppress(ValueError, OverflowError):
            return [{"schema": header["schema"], "payload": record} for record in islice(fastavro.reader(io.BytesIO(plain)), rows_max)]
        # a compression whose package is not installed, such as Snappy: the header still shows the columns
        return [header]
    except (LookupError, TypeError, AttributeError, SchemaRefused, fastavro.schema.SchemaParseException) as error:
        raise ValueError(f"no Avro file of records ({type(error).__name__})") from None


def _query(sql: str, data: bytes, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run a query over a file with this content, whose path is the first parameter."""
    import duckdb

    handle, path = tempfile.mkstemp(prefix="compactor-sample-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return duckdb.connect(":memory:").execute(sql, [path, *parameters]).fetchall()
    except duckdb.Error as error:
        reason = _OURS.sub("", str(error).replace(path, "").splitlines()[0])
        raise ValueError(reason) from None
    finally:
        os.remove(path)


def _csv(text: str, dms: bool, configured: Csv) -> FileSample:
    """Return the head of a CSV file: its dialect and its rows by column."""
    # the last line may be cut
    head = text if len(text) < _CSV_BYTES else text.rpartition("\n")[0]
    line = head.partition("\n")[0]
    # a comma may be the default; another one was chosen
    chosen = configured.delimiter if configured.delimiter != Csv.delimiter and configured.delimiter in line else None
    delimiter, header = _sniffed(head, chosen)
    if delimiter not in line and (others := [char for char in DELIMITERS if char in line]):
        # some sign is more frequent in the values
        delimiter, header = _sniffed(head, max(others, key=line.count))
    file = io.StringIO(head, newline="")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if configured.quote else csv.QUOTE_NONE
    lines = csv.reader(file, delimiter=delimiter, quotechar=configured.quote or None, quoting=quoting)
    rows = [[None if cell in ("", _NULL) else cell for cell in row] for row in islice(lines, _CSV_ROWS) if row]
    first = of_header([name or "" for name in rows[0]]) if rows else []
    between = re.escape(delimiter)
    quoted = bool(re.search(f'(?m)(?:^|{between})""(?:{between}|\r?$)', head)) and not re.search(f"(?m){between}(?:{between}|\r?$)", head)
    dialect = {} if delimiter == "," else {"delimiter": delimiter}
    if re.search(rf"(?m)(?:^|{between}){re.escape(_NULL)}(?:{between}|\r?$)", head):
        dialect["null_value"] = _NULL
    if rows and header and _is_header(rows, dms):
        return FileSample(
            [dict(zip(first, row)) for row in rows[1:]],
            columns=first,
            csv={"header": "true", **dialect} if dms else dialect,
            quoted=quoted,
            format="csv",
        )
    # DMS writes the operation first; its full load may leave it out
    coded = bool(rows) and dms and all(row[0] in _DMS_OPERATIONS for row in rows)
    columns = [f"column_{at + 1}" for at in range(max(len(first) - coded, 1))]
    inserted = [dict(zip(columns, row[coded:])) for row in rows if not coded or row[0] == "I"]
    return FileSample(inserted, columns=columns, csv={"columns": columns, **dialect}, format="csv")


def _is_csv(lines: Sequence[str]) -> bool:
    """Return whether a file without suffix seems to be CSV: text in at least two lines of as many values."""
    head = [line for line in lines[:_CSV_ROWS] if line.strip()]
    text = "".join(head)
    if len(head) < 2 or head[0].lstrip()[:1] in "{[<" or re.search("[\ufffd\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]", text):
        return False
    widths = ({len(row) for row in csv.reader(head, delimiter=char)} for char in DELIMITERS if char in head[0])
    return any(len(width) == 1 for width in widths)


def _sniffed(head: str, delimiter: str | None) -> tuple[str, bool]:
    """Return the delimiter of the head of a CSV file, the given one if there is one, and whether it seems to begin with a header."""
    options = f"null_padding = true, ignore_errors = true, strict_mode = false{', delim = ?' if delimiter else ''}"
    return _query(f"SELECT Delimiter, HasHeader FROM sniff_csv(?, {options})", head.encode(), *filter(None, [delimiter]))[0]


def _is_header(rows: Sequence[Sequence[Any]], dms: bool) -> bool:
    """Return whether the first row holds names. DMS writes them only when asked: then the second row has a digit where the first has none."""
    first, second = rows[0], (rows[1:2] or [()])[0]
    if not dms:
        # the index of pandas, and columns behind the last, have no names
        first = first[first[0] is None : max((at + 1 for at, cell in enumerate(first) if cell), default=0)]
    if not first or None in first or len({*first}) < len(first):
        return False
    names = all(_NAME.fullmatch(cell) for cell in first)
    if not dms:
        return names or len(first) == len(rows[0])
    return "Op" in first or (names and any(_has_digit(cell) and not _has_digit(name) for name, cell in zip(first, second)))


def _has_digit(cell: str | None) -> bool:
    return any(char.isdigit() for char in cell or "")
