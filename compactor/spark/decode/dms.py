"""AWS Database Migration Service's S3 target: one record is one row, as Parquet or CSV, in files that DMS names. `docs/sources.md` has the rules.

Source: AWS DMS user guide, "Using Amazon S3 as a target", and the S3Settings of its API.

Files of the full load are named `LOAD` and a hexadecimal counter; files of changes are named by the time they were written
(`20260101-120000123.csv`). The full load comes first, whatever its columns say. `AR_H_CHANGE_SEQ` and `transact_id` are the same when DMS sends a
change again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from compactor.core.model import types
from compactor.core.model.envelopes import ENVELOPES
from compactor.core.model.errors import InputRefused, OrderRefused
from compactor.core.model.inputs import NAME_ENDING
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterField, signature
from compactor.core.sources import flat_rows, increment
from compactor.spark.columns import OLD_KEY, PLACE
from compactor.spark.decode.conversions import plain
from compactor.spark.decode.frame import Frame, plain_writer
from compactor.spark.decode.frame import declared_order as frame_order
from compactor.spark.decode.order import PLAIN_ROWS
from compactor.spark.input.files import RawFrame
from compactor.spark.sql import cited, literal, mapped, null, quoted, struct

_ENVELOPE = ENVELOPES["dms"]
_OPERATION = "op"
_BEFORE = _ENVELOPE.before_prefix
_SEQUENCE, _STREAM = "ar_h_change_seq", "transact_id"
_OPERATIONS = {"i": "c", "u": "u", "d": "d"}

_NAME = f"regexp_replace(element_at(split(_file, '/'), -1), {literal(NAME_ENDING)}, '')"
_LOADED = f"{_NAME} RLIKE '^LOAD[_0-9A-Fa-f]+[.]'"

_RUNS = "regexp_extract_all(lower(trim({0})), '([0-9a-f]+|[^0-9a-f]+)', 1)"
_PADDED = "array_join(transform(" + _RUNS + ", _p -> CASE WHEN _p RLIKE '^[0-9a-f]' THEN lpad(_p, greatest(length(_p), {1}), '0') ELSE _p END), '')"
"""SQL template: a position whose numbers (decimal or hexadecimal, between other characters) are padded to one width, so that its text sorts right."""


def declared_order(spec: TableSpec) -> tuple[str, ...]:
    """Return the order columns that the settings give: the full load first, then `order_by`; () without `order_by`."""
    return ("dms.phase", *spec.order_by, "dms.file") if spec.order_by else ()


def order(spec: TableSpec, frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the order columns of a new table: the full load first, then the columns of these files that order the changes."""
    if spec.order_by:
        return ("dms.phase", *frame_order(spec.order_by, frames), "dms.file")
    columns = {name.lower() for frame in frames for name in frame.columns}
    if _SEQUENCE in columns:
        return ("dms.phase", "dms.change_seq")
    return ("dms.phase", "dms.stream_position", "dms.file") if _STREAM in columns else ("dms.phase", "dms.file")


def file_identity(path: str) -> str:
    """Return the file's name: DMS never writes a file twice, so equal content under another name holds other events."""
    return path.rsplit("/", 1)[-1]


def check_names(spec: TableSpec, order_names: Iterable[str], paths: Iterable[str]) -> None:
    """Raise OrderRefused if only the names of the files order the changes and a name is not DMS's own."""
    if tuple(order_names) != ("dms.phase", "dms.file"):
        return
    for path in paths:
        if not (increment.is_full_load(path) or increment.is_dated_changes(path)):
            raise OrderRefused(
                f"table {spec.name}: {path}: only the file names order the changes of this table, and this is not a name that DMS gives (such as "
                "LOAD00000001.csv or 20260101-120000123.csv). Restore the name, or set `order_by:` to columns that order the changes."
            )


def decode(raw: RawFrame, spec: TableSpec) -> Frame:
    """Return one raw frame as a Frame. Raises InputRefused for files that DMS cannot have written."""
    if raw.schema is None or spec.container != "value":
        raise InputRefused(f"table {spec.name}: DMS writes Parquet or CSV, but these files are text. Set `envelope:` to another one.")
    columns = raw.columns
    by_low = {name.lower(): name for name in columns}
    op = by_low.get(_OPERATION)
    if op not in (None, "Op"):
        raise InputRefused(
            f"table {spec.name}: the column {op} has the name of DMS's own `Op`, and names have no case. Have a transformation rule of the task "
            "rename it (rename-column)."
        )
    if op and columns[op] not in (("string",), ("binary",)):
        raise InputRefused(
            f"table {spec.name}: the column Op has the type {types.text(columns[op])}; expected the text that DMS writes (I, U, D). If it is no "
            "column of DMS, have the task rename it."
        )
    # some writers of Parquet do not mark bytes as text
    code = f"lower(trim(CAST(_value.{quoted(op)} AS STRING)))" if op else "CAST(NULL AS STRING)"
    bare = f"CASE WHEN {_LOADED} THEN 'r' ELSE '{'u' if spec.key else 'c'}' END"
    meaning = f"CASE WHEN coalesce({code}, '') = '' THEN {bare} WHEN {code} = 'i' AND {_LOADED} THEN 'r' ELSE {mapped(code, _OPERATIONS)} END"
    codes = ", ".join(literal(text) for text in _OPERATIONS)
    invalid = f"coalesce({raw.unreadable}, CASE WHEN coalesce({code}, '') NOT IN ('', {codes}) THEN concat('has an unknown Op ', {cited(code)}) END)"
    payload = [name for name in columns if not _is_metadata(name, columns, spec)]
    before = _before(columns, payload, spec)
    described = plain_writer(signature("dms" + types.text(raw.described)), raw.described)
    fields: tuple[WriterField, ...] = described.fields if raw.fields is None else raw.fields
    undecided = tuple(name for name in payload if name not in {field.name for field in fields})
    writer = dataclasses.replace(described, fields=tuple(field for field in fields if field.name in payload), undecided=undecided)
    sequence, stream = (_text(by_low.get(name), columns) for name in (_SEQUENCE, _STREAM))
    moment = by_low.get("ar_h_commit_timestamp", by_low.get("ar_h_timestamp"))
    source = [
        ("phase", f"CASE WHEN {_LOADED} THEN 0L ELSE 1L END"),
        ("file", _NAME),
        ("change_seq", f"lpad({sequence}, 40, '0')"),
        ("stream_position", _PADDED.format(stream, 20)),
    ]
    rows = raw.rows.selectExpr(
        *PLACE,
        f"{invalid} AS _invalid",
        f"{meaning} AS _op",
        f"{literal(writer.id)} AS _writer",
        "CAST(NULL AS STRING) AS _schema",
        "_value AS _after",
        f"CASE WHEN {code} = 'd' THEN _value WHEN {code} = 'u' THEN {before} END AS _before",
        "_key AS _record_key",
        OLD_KEY,
        f"{struct(source)} AS _source",
        f"unix_micros(try_cast({_text(moment, columns)} AS TIMESTAMP)) AS _time",
    )
    return Frame(rows, raw.schema, (writer,), order_names=PLAIN_ROWS)


def _is_metadata(name: str, columns: dict[str, types.Type], spec: TableSpec) -> bool:
    low = name.lower()
    image = name.startswith(_BEFORE) and name[len(_BEFORE) :] in columns
    # TimestampColumnName: a delete has its own time, and a table without key finds the row that goes by all columns
    time = not spec.key and low in map(str.lower, spec.order_by)
    return (image or time or low in (_OPERATION, _STREAM) or low.startswith("ar_h_")) and not flat_rows.is_kept(spec, name)


def _before(columns: dict[str, types.Type], payload: list[str], spec: TableSpec) -> str:
    """SQL for the before image of an update, of the rows' type. Columns without a before image are null.

    A table without key finds a row by all its values, so it uses an image only if it has all columns.
    """
    imaged = [name for name in payload if _BEFORE + name in columns]
    kind: types.Type = ("struct", tuple(columns.items()))
    if not imaged or (not spec.key and len(imaged) < len(payload)):
        return null(kind)
    images = {name: plain(f"_value.{quoted(_BEFORE + name)}", columns[_BEFORE + name], columns[name]) for name in imaged}
    return struct([(name, images.get(name, null(column_type))) for name, column_type in columns.items()])


def _text(name: str | None, columns: dict[str, types.Type]) -> str:
    if name is None or not types.is_scalar(columns[name]):
        return "CAST(NULL AS STRING)"
    return f"nullif(trim(CAST(_value.{quoted(name)} AS STRING)), '')"
