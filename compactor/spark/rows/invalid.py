"""Records that cannot be used: what reports say about them, and Changes without those that have no key or no value of their type."""

from __future__ import annotations

from pyspark.sql import DataFrame

from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.core.sources.quarantine import Unusable
from compactor.spark import measured
from compactor.spark.columns import FILE, INVALID, TEXT
from compactor.spark.decode.frame import Frame
from compactor.spark.input.inputs import Inputs
from compactor.spark.rows import survey
from compactor.spark.rows.position import EVENTS_MAX
from compactor.spark.sql import literal, quoted


def unusable_records(frame: Frame, opened: Inputs) -> list[Unusable]:
    """Return the invalid records of a frame, with the text that reports quote."""
    text = TEXT if TEXT in frame.rows.columns else "to_json(struct(_after AS after, _before AS before))"
    return survey.list_unusable(frame.rows.where("_invalid IS NOT NULL"), INVALID, text, opened.raws, opened.spec)


def record_place(spec: TableSpec) -> tuple[str, str]:
    """SQL for BLOCK and ROW of the record of a Change."""
    row = f"_position.row div {EVENTS_MAX}L" if spec.source.several_events else "_position.row"
    return "_position.block AS _block", f"{row} AS _row"


def without_invalid(opened: Inputs, changes: DataFrame, schema: Schema, kept: bool) -> tuple[DataFrame, dict[str, int], tuple[Unusable, ...], int]:
    """Separate the changes that cannot be used. One Spark job if there are none.

    `kept`: the changes are computed once. Otherwise the job reads what it judges by, the keys and the columns that can have another type, and
    whoever uses the changes reads the files again.

    Returns those with a key and values of their types, the number of others by file, the first others, and the number of all changes whose old
    key is known.
    """
    keyless = f"(_op <> 't' AND ({' OR '.join(f'{quoted(name)} IS NULL' for name in schema.key)}))"
    invalid = f"(_mistyped IS NOT NULL OR {keyless})"
    counted = {"invalid": f"count_if({invalid})", "moves": "count_if(_from IS NOT NULL)"}
    if not kept:
        numbers = measured.compute(changes, counted)
        if not numbers["invalid"]:
            return changes, {}, (), numbers["moves"]
    changes, numbers = measured.materialize_and_measure(changes, counted)
    if not numbers["invalid"]:
        return changes, {}, (), numbers["moves"]
    rows = changes.where(invalid).selectExpr("*", *record_place(opened.spec))
    counts = {row[FILE]: row["count"] for row in rows.groupBy(FILE).count().collect()}
    kinds = ", ".join(f"{literal(field.name)}, {literal(field.type)}" for field in schema.fields)
    nulls = ", ".join(f"CASE WHEN {quoted(name)} IS NULL THEN {literal(name)} END" for name in schema.key)
    no_key = f"concat('a column of the key (', concat_ws(', ', {nulls}), ') is null or cannot be read as its type')"
    why = (
        f"CASE WHEN {keyless} THEN {no_key} ELSE concat('the value of ', _mistyped, ' is not of type ', try_element_at(map({kinds}), _mistyped)) END"
    )
    listed = survey.list_unusable(rows, why, "to_json(struct(*))", opened.raws, opened.spec)
    return changes.where(f"NOT {invalid}"), counts, tuple(listed), numbers["moves"]
