"""Declared decimals whose values are text: numbers (`"12.34"`), or base64 of bytes, as Connect's JSON converter writes them (`"BH4="`).

A text such as `1234` is both. The other values of its column in the batch decide; if they do not, the value is not used and its record is invalid.
"""

from __future__ import annotations

from dataclasses import replace

from compactor.core.schema.writer import DECIMAL, NUMBER_OR_BYTES, WriterField
from compactor.spark.columns import AFTER, BEFORE
from compactor.spark.decode.conversions import BASE64, NUMBER
from compactor.spark.decode.frame import Frame
from compactor.spark.sql import named


def decided(frame: Frame) -> Frame:
    """Return the frame with the encoding of its declared decimals, where their values show it. One Spark job if there are any."""
    columns = list({field.name: None for writer in frame.writers for field in writer.fields if field.semantic == NUMBER_OR_BYTES})
    if not columns:
        return frame
    only = {"numbers": (NUMBER, BASE64), "bytes": (BASE64, NUMBER)}
    counts = []
    for at, name in enumerate(columns):
        for form, (is_, is_not) in only.items():
            tests = (f"({value} RLIKE '{is_}' AND NOT {value} RLIKE '{is_not}')" for value in (frame.value(name, AFTER), frame.value(name, BEFORE)))
            counts.append(named(f"coalesce(max({' OR '.join(f'coalesce({test}, false)' for test in tests)}), false)", f"{form}{at}"))
    row = frame.rows.where("_op IS NOT NULL").agg(*counts).collect()[0]
    semantics = {(True, False): "", (False, True): DECIMAL}
    shown = {name: semantics.get((row[f"numbers{at}"], row[f"bytes{at}"]), NUMBER_OR_BYTES) for at, name in enumerate(columns)}

    def settled(field: WriterField) -> WriterField:
        return replace(field, semantic=shown[field.name]) if field.semantic == NUMBER_OR_BYTES else field

    return replace(frame, writers=tuple(replace(writer, fields=tuple(map(settled, writer.fields))) for writer in frame.writers))
