"""`delete_when`: a SQL condition on the columns of a flat row that makes it a delete, such as `status = 'deleted'`.

The condition names columns as the source spells them, and sees them in the types of the view. A column that these rows lack and the table has is
null, and so is a member of a struct. A column that neither the rows of a run nor the table have is refused, because a mistyped name would keep every
deleted row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, NullType

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import TableSpec
from compactor.core.schema import nested_types
from compactor.core.schema.writer import WriterField
from compactor.spark.columns import DELETES
from compactor.spark.decode import conversions
from compactor.spark.decode.frame import Frame
from compactor.spark.sql import member, null, quoted, struct

_WHOLE = "__compactor_row"
_COLUMNS_MAX = 100


def marked(frame: Frame, spec: TableSpec, stored: Sequence[WriterField]) -> Frame:
    """Return the frame with DELETES if the table has `delete_when`. `stored` are the table's columns.

    Raises InputRefused for a condition that Spark cannot evaluate.
    """
    if not spec.delete_when or frame.images is None:
        return frame
    there = {field.name: field.type for field in stored}
    columns = {name: f"{_value(frame, name, kind, there.get(name))} AS {quoted(name)}" for name, kind in frame.columns.items()}
    low = {name.lower() for name in columns}
    columns |= {field.name: f"CAST(NULL AS {types.text(field.type)}) AS {quoted(field.name)}" for field in stored if field.name.lower() not in low}
    absent: set[str] = set()
    while len(absent) < _COLUMNS_MAX:
        try:
            rows = _rows(frame, spec, [*columns.values(), *(f"NULL AS {quoted(name)}" for name in sorted(absent))])
            return dataclasses.replace(frame, rows=rows, undecided_deletes=frozenset(absent))
        except ParseException as error:
            raise _refused(spec, str(error)) from None
        except AnalysisException as error:
            name = _unresolved(error)
            if name is None or name in absent:
                raise _refused(spec, str(error)) from None
            absent.add(name)
    raise _refused(spec, f"it names more than {_COLUMNS_MAX} columns that do not exist")


def check_columns(spec: TableSpec, frames: Sequence[Frame]) -> None:
    """Raise InputRefused if the condition names a column that no row and not the table has."""
    described = [frame for frame in frames if frame.columns]
    nowhere = frozenset.intersection(*(frame.undecided_deletes for frame in described)) if described else frozenset()
    # of a column with nulls only nobody knows the type yet, but it is there
    nulls = {name.lower() for frame in described for writer in frame.writers for name in writer.undecided}
    nowhere = frozenset(name for name in nowhere if name.lower() not in nulls)
    if nowhere:
        columns = [name for frame in described for name in frame.columns]
        shown = ", ".join([*dict.fromkeys(columns)][:20])
        raise InputRefused(
            f"table {spec.name}: `delete_when: {spec.delete_when}` names {', '.join(sorted(nowhere))}, which neither the landed rows nor the table "
            f"have. The columns are {shown}. Correct the condition."
        )


def _value(frame: Frame, name: str, kind: types.Type, stored: types.Type | None) -> str:
    """SQL for a column as the condition sees it: in the type of the view, null where a value is not of that type."""
    value, fields = frame.value(name), {field for writer in frame.writers for field in writer.fields if field.name == name}
    if stored is not None and _lacks(kind, stored):
        return _with_members(value, kind, stored)
    if len(fields) != 1:
        return value
    (field,) = fields
    value = value if field.inferred else conversions.to_stored(value, kind, field)
    if field.type != ("string",) or stored is None or stored == ("string",) or not types.is_scalar(stored):
        return value
    return conversions.exact(value, stored)


def _lacks(kind: types.Type, stored: types.Type) -> bool:
    """Whether a column of these rows lacks members that the table has. In text no row shows them."""
    return stored[0] == "struct" and (kind == ("string",) or (kind[0] == "struct" and bool(nested_types.lacking(stored, types.stored_names(kind)))))


def _with_members(value: str, kind: types.Type, stored: types.Type) -> str:
    """SQL for a struct with the members that these rows lack and the table has, as null."""
    if not _lacks(kind, stored):
        return value
    if kind == ("string",):
        return conversions.plain(value, kind, stored)
    has, missing, members = dict(stored[1]), dict(stored[1]), list[tuple[str, str]]()
    for (low, _), (name, inner) in zip(types.stored_names(kind)[1], kind[1]):
        missing.pop(low, None)
        members.append((name, _with_members(member(value, name), inner, has.get(low, inner))))
    members += [(name, null(inner)) for name, inner in missing.items()]
    return f"CASE WHEN {value} IS NOT NULL THEN {struct(members)} END"


def _rows(frame: Frame, spec: TableSpec, columns: Sequence[str]) -> DataFrame:
    # the row's own columns may be called like ours, so ours wait in a struct
    apart = frame.rows.selectExpr(f"struct(*) AS {_WHOLE}", *columns)
    (result,) = apart.selectExpr(f"({spec.delete_when}) AS {DELETES}").schema
    if not isinstance(result.dataType, (BooleanType, NullType)):
        raise _refused(spec, f"expected true or false, found a {result.dataType.simpleString()}")
    return apart.selectExpr(f"{_WHOLE}.*", f"coalesce(({spec.delete_when}), false) AS {DELETES}")


def _unresolved(error: AnalysisException) -> str | None:
    # the name of Spark 4, in which that of Spark 3 warns
    error_class = getattr(error, "getCondition", None) or error.getErrorClass
    if not str(error_class() or "").startswith("UNRESOLVED_COLUMN"):
        return None
    name = str((error.getMessageParameters() or {}).get("objectName", ""))
    return name.strip("`").split("`.`")[0] or None


def _refused(spec: TableSpec, reason: str) -> InputRefused:
    return InputRefused(
        f"table {spec.name}: `delete_when: {spec.delete_when}` is no SQL condition on a row: {reason.strip().splitlines()[0][:300]}. Correct it."
    )
