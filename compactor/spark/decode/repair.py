"""Files of `compactor reconcile --repair` become frames of rows that name their columns (`core/reconcile/repair.py` has their lines)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.spec import TableSpec
from compactor.core.reconcile.dialects import SPARK
from compactor.core.schema.writer import WriterField, WriterSchema, signature
from compactor.core.sources.increment import repaired_table
from compactor.core.sources.postgres import TEXT
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.named import ANY
from compactor.spark.decode.order import TEXTUAL, OrderNames
from compactor.spark.input.files import Problem
from compactor.spark.input.inputs import Inputs
from compactor.spark.sql import literal

_RECORD = (
    "_file STRING, _row BIGINT, _op STRING, _order MAP<STRING, STRING>, _time BIGINT, _named ARRAY<STRING>, _values ARRAY<STRING>, "
    "_own ARRAY<STRING>, _writer STRING"
)


def frames(opened: Inputs, others: Sequence[Frame], stored: Sequence[WriterField]) -> list[Frame]:
    """Return a frame for each list of columns. Columns of the table, or of `others` in the batch, that a row leaves out keep their values."""
    records = []
    writers: dict[str, tuple[WriterSchema, Sequence[str]]] = {}
    for item, place in opened.places.items():
        if not repaired_table(item.path) or place in opened.unreadable:
            continue
        try:
            for at, line in enumerate(opened.storage.read(place).decode().removesuffix("\n").split("\n")):
                record = json.loads(line)
                names, kinds = record["names"], record["types"]
                writer = signature(f"repair {names} {kinds} {record['forms']}")
                fields = tuple(WriterField(name, ("string",), types.parse(kind), TEXT) for name, kind in zip(names, kinds))
                writers[writer] = WriterSchema(writer, fields, whole=False), record["forms"]
                records.append((item.name, at, *(record[part] for part in ("op", "position", "time", "names", "values", "own")), writer))
        except (ValueError, KeyError, TypeError) as error:
            opened.unreadable[place] = Problem(f"is no file of `compactor reconcile --repair`: {error}")
    if not records:
        return []
    rows = opened.spark.createDataFrame(records, _RECORD)
    values = {name: f"try_element_at(_source.position, {literal(name)})" for record in records for name in record[3]}
    order = OrderNames({name: value if name in TEXTUAL else f"try_cast({value} AS BIGINT)" for name, value in values.items()})
    columns = [*(field for frame in others for writer in frame.writers for field in writer.fields), *stored]
    return [
        _frame(rows.where(f"_writer = {literal(name)}"), *described, opened.spec, order, [field.name for field in columns])
        for name, described in sorted(writers.items())
    ]


def text(form: str, value: str) -> str:
    """SQL: the text of a value, from its canonical text."""
    if form in ("double", "single"):
        bits = f"try_cast({value} AS BIGINT)"
        return f"CASE WHEN {bits} IS NOT NULL THEN reflect('java.lang.Double', 'longBitsToDouble', {bits}) END"
    if form == "date":
        return f"CAST({SPARK.values[form].format(t=value)} AS STRING)"
    if form == "moment":
        return f"concat(replace(CAST({SPARK.values[form].format(t=value)} AS STRING), ' ', 'T'), 'Z')"
    return f"concat('\\\\x', {value})" if form == "bytes" else value


def _frame(rows: DataFrame, writer: WriterSchema, forms: Sequence[str], spec: TableSpec, order: OrderNames, others: Sequence[str]) -> Frame:
    names = [field.name for field in writer.fields]
    # members by number: names may differ in case only
    members = {name: f"c{at}" for at, name in enumerate(names)}
    texts = [f"coalesce(_own[{at}], {text(form, f'_values[{at}]')})" for at, form in enumerate(forms)]
    image = f"named_struct({', '.join(f'{literal(members[name])}, {value}' for name, value in zip(names, texts))})"
    made = rows.selectExpr(
        *("_file", "0L AS _block", "_row", "0L AS _offset", "CAST(NULL AS INT) AS _partition"),
        *(["0 AS _event"] if spec.source.several_events else []),
        *("_op", "CAST(NULL AS STRING) AS _invalid", "_writer", "CAST(NULL AS STRING) AS _schema"),
        *(f"CASE WHEN _op = 'u' THEN {image} END AS _after", f"CASE WHEN _op = 'd' THEN {image} END AS _before"),
        *("_named", "CAST(NULL AS STRING) AS _record_key", "CAST(NULL AS STRING) AS _old_key"),
        # the fields that the order of a new table is decided by: a rebuild reads all files as one
        "struct(_order AS position, CAST(NULL AS INT) AS phase, CAST(NULL AS STRING) AS connector) AS _source",
        # only a history needs the time of the read, which is no time of the source
        "_time" if spec.history else "CAST(NULL AS BIGINT) AS _time",
    )
    images: types.Type = ("struct", tuple((name, ("string",)) for name in names))
    absent = tuple(name for name in dict.fromkeys(others) if name not in members)
    return Frame(made, images, (writer,), ANY, absent, order, members=members)
