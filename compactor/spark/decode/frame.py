"""Frame: what decoding returns. Rows without envelope, still in the writer's types; `rows/conform.py` makes Changes of them.

A record is a raw row of a file. An event is what a record says about one row of the table; some envelopes have several events in one record.

Columns of `Frame.rows` (types and meanings: `spark/columns.py`): FILE, BLOCK, ROW, OFFSET, PARTITION, OP, INVALID, WRITER, SCHEMA, AFTER, BEFORE,
RECORD_KEY, OLD_KEY, SOURCE, TIME. Records that are text also have TEXT. Records that can hold several events also have EVENT, and records that name
their columns also have NAMED.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import names, types
from compactor.core.model.errors import SchemaRefused
from compactor.core.schema import nested_types
from compactor.core.schema.nested_types import BLANK, unmarked
from compactor.core.schema.semantic_types import VARIABLE_DECIMAL
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import shared_stream
from compactor.spark.columns import AFTER, BEFORE, INVALID, OP
from compactor.spark.decode import conversions, pg_text
from compactor.spark.decode.order import WRAPPED, OrderNames, of_snapshot
from compactor.spark.sql import as_column, from_json, let, literal, member, once, quoted, struct

PARTIAL = "partial "
"""The beginning of the ids of writers whose nulls may be values that did not change: Scylla's instead of a cell `{value: ..}`, Spanner's in an update
whose before image has none either."""


@dataclass(frozen=True)
class Frame:
    """Decoded rows and what is needed to read them."""

    rows: DataFrame
    """The columns that the module lists."""
    images: types.Type | None
    """The struct type of AFTER and BEFORE. None while they are JSON text."""
    writers: tuple[WriterSchema, ...] = ()
    """The writers of the rows. Empty until they are determined."""
    omits: str | None = None
    """For records that name their columns: what an update may leave out (`named.TOAST` or `named.ANY`). None for others, which use a placeholder."""
    absent: tuple[str, ...] | None = None
    """For records that name their columns: the columns whose value is unavailable in updates that do not name them."""
    order_names: OrderNames = WRAPPED
    """What the names of `order_by` mean in these rows."""
    metadata: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    """Writer id → columns of its rows that the table does not store. They may still order the changes."""
    members: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Source name → member of AFTER and BEFORE, for columns whose member has another name: Spark finds members without regard to case."""
    fillers: bool = False
    """Whether Debezium wrote the rows: a delete may have fillers in columns outside of the key."""
    one_image: bool = False
    """Whether BEFORE is a copy of AFTER, because a record holds one image of the row."""
    undecided_deletes: frozenset[str] = frozenset()
    """Columns of `delete_when` that neither these rows nor the table have. They are null."""

    @property
    def columns(self) -> dict[str, types.Type]:
        """Return source column → its type in AFTER and BEFORE; {} while they are JSON text."""
        return dict(self.images[1]) if self.images else {}

    def value(self, name: str, image: str = AFTER) -> str:
        """SQL for the value of a source column in a row image."""
        return member(image, self.members.get(name, name))

    def parsed(self, writers: Sequence[WriterSchema], stored: Sequence[WriterField] = ()) -> Frame:
        """Return the frame with JSON images parsed into a struct of all columns of these writers. Columns whose types clash are read as text.

        Values of records without schema are the text that the source wrote, where a column is text here or in `stored` (the table's columns).
        """
        if self.images is not None:
            return dataclasses.replace(self, writers=tuple(writers))
        merged: dict[str, types.Type] = {}
        for writer in writers:
            for field in writer.fields:
                kind = conversions.json_type(field.raw)
                merged[field.name] = _joined(merged.get(field.name, kind), kind, field.inferred)
        numbers = {field.name for writer in writers for field in writer.fields if (field.inferred or writer.fractions) and types.is_scalar(field.raw)}
        free = numbers | {field.name for writer in writers for field in writer.fields if field.inferred}
        merged.update({field.name: nested_types.with_text(merged[field.name], field.marked or field.type) for field in stored if field.name in free})
        for writer in writers:
            for field in writer.fields:
                _check_members(field.name, merged[field.name], conversions.json_type(field.raw))
        images: types.Type = ("struct", tuple((name, distinct(kind)) for name, kind in merged.items()))
        members = members_of([*merged])
        # a number among text loses its form in a JSON reader: 7.50 would be 7.5
        numbers |= {field.name for writer in writers for field in writer.fields if field.item and field.single.raw == ("string",)}
        fractions, large = any(writer.fractions for writer in writers), any(writer.large for writer in writers)
        written = {name for name in numbers if fractions and types.single(merged[name]) == ("string",)}
        blanks = {name for name, kind in merged.items() if _of_others(kind)} if any(writer.blanks for writer in writers) else set[str]()
        doubles = {name: part for name, kind in merged.items() if large and (part := _parts(kind, lambda one, _: one[0] in ("float", "double")))}
        packed = _packed_inside(writers)
        rows = self.rows.selectExpr("*", f"{_spelled(AFTER, writers)} AS _json") if doubles or packed else self.rows
        images_of = [AFTER] if self.one_image else [AFTER, BEFORE]
        parsed = {name: _parse(name, merged, members, written, blanks, _spelled(name, writers)) for name in images_of}
        rows = once(rows.selectExpr(*[parsed.get(name, name) for name in rows.columns]))
        rows = rows.withColumn(BEFORE, as_column(AFTER)) if self.one_image else rows
        reasons = [*([_not_exact(doubles, members)] if doubles else []), *(_not_packed(columns, ids) for columns, ids in packed.items())]
        if reasons:
            # what is ignored may be a row of another table, with columns of the same names
            invalid = f"coalesce({INVALID}, CASE WHEN {OP} IS NOT NULL THEN coalesce({', '.join(reasons)}) END) AS {INVALID}"
            rows = rows.selectExpr(*[invalid if column == INVALID else column for column in self.rows.columns])
        return dataclasses.replace(self, rows=rows, images=images, writers=tuple(writers), members=members)


def _spelled(image: str, writers: Sequence[WriterSchema]) -> str:
    """SQL: a JSON image in which members have one spelling (`WriterSchema.spellings`); `image` itself if they have."""
    cases = []
    for writer in (each for each in writers if each.spellings):
        text = image
        for name, other in writer.spellings:
            pattern, replacement = rf'"{re.escape(name)}"(?=\s*:)', re.sub(r"([\\$])", r"\\\1", f'"{other}"')
            text = f"regexp_replace({text}, {literal(pattern)}, {literal(replacement)})"
        cases.append(f"WHEN _writer = {literal(writer.id)} THEN {text} ")
    return f"CASE {''.join(cases)}ELSE {image} END" if cases else image


def _has_members(kind: types.Type) -> bool:
    """Return whether a type has structs."""
    return kind[0] == "struct" or (kind[0] in ("array", "map") and _has_members(kind[-1]))


def is_cell(kind: types.Type) -> bool:
    """Return whether values of a type are Scylla's, such as `{value: 7}`."""
    return kind[0] == "struct" and [name for name, _ in kind[1]] == ["value"]


def _parts(kind: types.Type, test: Callable[[types.Type, bool], bool], inside: bool = False) -> types.Type | None:
    """Return the parts of a type that a test chooses, as text; None without any. `test` gets a single type, and whether it is inside of an object."""
    if kind[0] == "array" or (kind[0] == "map" and kind[1] == ("string",)):
        below = _parts(kind[-1], test, inside or kind[0] == "map")
        return (*kind[:-1], below) if below else None
    if kind[0] == "struct":
        inner = tuple((name, below) for name, each in kind[1] if (below := _parts(each, test, True)))
        return ("struct", inner) if inner else None
    return ("string",) if test(kind, inside) else None


def some(value: str, kind: types.Type, test: Callable[[str], str]) -> str:
    """SQL: whether some single value inside passes a test."""
    if kind[0] in ("array", "map"):
        return f"coalesce(exists({value if kind[0] == 'array' else f'map_values({value})'}, _x -> {some('_x', kind[-1], test)}), false)"
    inside = [some(member(value, name), inner, test) for name, inner in kind[1]] if kind[0] == "struct" else []
    return " OR ".join(inside) if inside else f"coalesce({test(value)}, false)"


def _why(text: str, columns: Mapping[str, types.Type], members: Mapping[str, str], test: Callable[[str], str], reason: str) -> str:
    """SQL: the reason with the first of these columns of a JSON text in which some single value passes a test, or null."""
    tests = ((name, some(member("_t", members.get(name, name)), distinct(kind), test)) for name, kind in columns.items())
    cases = " ".join(f"WHEN {passed} THEN {literal(f'column {name}: {reason}')}" for name, passed in tests)
    return let(_struct(text, columns, members), "_t", f"CASE {cases} END")


def _not_exact(doubles: Mapping[str, types.Type], members: Mapping[str, str]) -> str:
    """SQL: why a double cannot hold a number of the image `_json`, or null. `doubles`: columns and their parts that are doubles, as text."""
    reason = "has a number that a double cannot hold. Declare a type that holds it, or correct it"
    may_be = f"_json RLIKE {literal(f'{pg_text.LARGE_NUMBER}|{pg_text.LONG_NUMBER}')}"
    why = _why(pg_text.exact_numbers("_json"), doubles, members, lambda value: conversions.not_exact(value, ("double",)), reason)
    return f"CASE WHEN {may_be} THEN {why} END"


def _packed_inside(writers: Sequence[WriterSchema]) -> dict[tuple[tuple[str, types.Type], ...], list[str]]:
    """Return (column, its parts that are bytes inside of objects, as text) of JSON with a schema → ids of its writers."""
    out: dict[tuple[tuple[str, types.Type], ...], list[str]] = {}
    for writer in writers:
        fields = (field for field in writer.fields if not field.inferred and field.semantic != VARIABLE_DECIMAL)
        parts = ((field.name, _parts(field.raw, lambda one, inside: one[0] == "binary" and inside)) for field in fields)
        if columns := tuple((name, kind) for name, kind in parts if kind):
            out.setdefault(columns, []).append(writer.id)
    return out


def _not_packed(columns: tuple[tuple[str, types.Type], ...], ids: Sequence[str]) -> str:
    """SQL: why bytes inside of an object of the image `_json` cannot be read, or null. With `decimal.format=NUMERIC` those of a decimal are a number.

    Such a number has the form of base64, too, if it has four digits.
    """
    reason = "decimals inside of objects are read as base64 only, and this one is a number (decimal.format). Write BASE64"
    members = members_of([name for name, _ in columns])
    before = {before for name, kind in columns for before in _before(kind, json.dumps(name, ensure_ascii=False))}
    pattern = rf"(?:{'|'.join(map(re.escape, sorted(before)))})\s*:[\s\[\],nul]*-?[0-9]"
    may_be = f"_writer IN ({', '.join(map(literal, ids))}) AND _json RLIKE {literal(pattern)}"
    why = _why(pg_text.exact_numbers("_json", pg_text.MARK), dict(columns), members, lambda value: f"startswith({value}, '{pg_text.MARK}')", reason)
    return f"CASE WHEN {may_be} THEN {why} END"


def _before(kind: types.Type, name: str) -> Iterator[str]:
    """Yield what stands before the single values of a type in JSON, if `name` is before the type: names of members, and the end of a map's keys."""
    if kind[0] == "struct":
        for inner, below in kind[1]:
            yield from _before(below, json.dumps(inner, ensure_ascii=False))
    elif kind[0] in ("array", "map"):
        yield from _before(kind[-1], name if kind[0] == "array" else '"')
    else:
        yield name


def _of_others(kind: types.Type) -> bool:
    """Return whether a type has an array of other values than text."""
    if kind[0] == "struct":
        return any(_of_others(inner) for _, inner in kind[1])
    return bool(kind[0] == "array" and kind[1] != ("string",))


def _without_blanks(value: str, other: str, kind: types.Type) -> str:
    """SQL: a value with the arrays of other values than text from `other`, the same value where empty texts in arrays are null."""
    if kind[0] == "struct" and _of_others(kind):
        parts = [(name, _without_blanks(member(value, name), member(other, name), inner)) for name, inner in kind[1]]
        return f"CASE WHEN {value} IS NOT NULL THEN {struct(parts)} END"
    return other if _of_others(kind) else value


def _joined(left: types.Type, right: types.Type, text: bool) -> types.Type:
    """Return the type as which the values of two writers are read. `text`: whether text inside of it keeps what only text can hold."""
    # text keeps the value of any scalar, and a number in it its form
    wide = types.widest(left, right) or (None if types.is_scalar(left) else nested_types.joined(left, right, "", True, (), text=text)[0])
    return wide or ("string",)


def members_of(source_names: Sequence[str]) -> dict[str, str]:
    """Return source name → member, for the names that are equal to an earlier one in all but case."""
    members: dict[str, str] = {}
    for at, name in enumerate(source_names):
        if names.unique(name, source_names[:at]) != name:
            members[name] = names.unique(name, [*source_names, *members.values()])
    return members


def _check_members(column: str, merged: types.Type, written: types.Type) -> None:
    """Raise SchemaRefused if a struct member of one writer has another stored name in the type of all writers, as with `x` here and `X` there."""
    stored = dict(_member_names(merged))
    for exact, name in _member_names(written):
        if stored.get(exact, name) != name:
            raise SchemaRefused(
                f"column {column}{exact}: some records have another member whose name differs from this one in case only. The increments stay in "
                "landing. Repair the producer."
            )


def _member_names(kind: types.Type, exact: str = "", stored: str = "") -> Iterator[tuple[str, str]]:
    """Return (path, path under stored names) of all members of the structs in a type."""
    if kind[0] in ("array", "map"):
        yield from _member_names(kind[-1], f"{exact}[]", f"{stored}[]")
    if kind[0] == "struct":
        for (name, inner), (low, _) in zip(kind[1], types.stored_names(kind)[1]):
            yield f"{exact}.{name}", f"{stored}.{low}"
            yield from _member_names(inner, f"{exact}.{name}", f"{stored}.{low}")


def distinct(kind: types.Type) -> types.Type:
    """Return the type with other names for struct members that are equal in all but case: those under which they are stored."""

    def stored(own: list[str]) -> list[str]:
        return [name for name, _ in types.stored_names(("struct", tuple((name, ("string",)) for name in own)))[1]] if members_of(own) else own

    return types.renamed(kind, stored)


def _parse(
    column: str,
    merged: Mapping[str, types.Type],
    members: Mapping[str, str],
    written: Collection[str],
    blanks: Collection[str],
    spelled: str,
) -> str:
    """SQL: a JSON image as a struct of the columns `merged`.

    `written`: columns whose numbers are read as the text that stands there. Numbers inside of objects and arrays are left as they are: the quotes
    would be part of the value. `blanks`: columns with arrays in which an empty text is null. Spark would make the array null. `spelled`: the image
    (SQL) from which structs are read; text that holds an object stays what it is.
    """
    if not merged:
        return f"CAST(NULL AS STRUCT<_none:STRING>) AS {column}"
    image = _struct(column, merged, members)
    structs = {name: kind for name, kind in merged.items() if _has_members(kind)} if spelled != column else {}
    if not written and not blanks and not structs:
        return f"{image} AS {column}"
    exact = _struct(pg_text.exact_numbers(column), {name: merged[name] for name in sorted(written)}, members)
    numbers = f"CASE WHEN {column} RLIKE {literal(pg_text.FRACTION)} THEN {exact} END"
    nulled = f"regexp_replace({spelled}, {literal(pg_text.BLANK_ELEMENT)}, 'null')"
    others = _struct(nulled, {name: kind for name, kind in merged.items() if name in blanks}, members)
    parts = [f"{image} AS a", *([f"{numbers} AS n"] if written else []), *([f"{others} AS b"] if blanks else [])]
    parts += [f"{_struct(spelled, structs, members)} AS s"] if structs else []
    values = []
    for name, kind in merged.items():
        value = quoted(members.get(name, name))
        own = f"_p.{'s' if name in structs else 'a'}.{value}"
        if name in written and kind[0] == "array":
            own = f"coalesce(_p.n.{value}, {own})"
        elif name in written:
            own = f"coalesce(CASE WHEN NOT left({own}, 1) IN ('{{', '[') THEN _p.n.{value} END, {own})"
        elif name in blanks:
            own = _without_blanks(own, f"_p.b.{value}", distinct(kind))
        values.append(f"{literal(members.get(name, name))}, {own}")
    whole = f"CASE WHEN _p.a IS NOT NULL THEN named_struct({', '.join(values)}) END"
    parsed = f"struct({', '.join(parts)})"
    return f"{let(parsed, '_p', whole)} AS {column}"


def _struct(text: str, written: Mapping[str, types.Type], members: Mapping[str, str]) -> str:
    """SQL: JSON text as a struct. JSON's names have a case; the cast, which goes by place, gives the members names that differ without it."""
    exact: types.Type = ("struct", tuple(written.items()))
    named: types.Type = ("struct", tuple((members.get(name, name), distinct(kind)) for name, kind in written.items()))
    parsed = from_json(text, f"'{ddl(exact)}'")
    return parsed if exact == named else f"CAST({parsed} AS {types.text(named, quote=True)})"


def ddl(images: types.Type) -> str:
    """Return the struct's members as Spark's `from_json` takes them, safe inside single quotes."""
    inside = ", ".join(f"`{name.replace('`', '``')}` {types.text(kind, quote=True)}" for name, kind in images[1])
    return "".join(f"\\u{ord(char):04x}" if char in "\\'" else char for char in inside)


def declared_order(names: Sequence[str], frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the order columns `names` of the settings as the Snapshot of a new table names them."""
    columns = {name for frame in frames for name in frame.columns}
    return of_snapshot(names, columns, frames[0].order_names) if frames else tuple(names)


def plain_writer(writer_id: str, struct: types.Type) -> WriterSchema:
    """Return a writer that is described only by its column types (Parquet's footer, inference). They may be marked (`nested_types`)."""
    fields, undecided = [], tuple(name for name, kind in struct[1] if kind == BLANK)
    for name, kind in (each for each in struct[1] if each[1] != BLANK):
        raw, _ = unmarked(kind)
        fields.append(WriterField(name, raw, types.stored_names(raw), marked=kind if kind != raw else None))
    return WriterSchema(writer_id, tuple(fields), undecided=undecided)


def image_names(after: str, before: str) -> str:
    """SQL for the names of the columns in both images of a JSON record. Without a key the one before the change names a row by all of its values."""
    one, other = (f"coalesce(json_object_keys({image}), array())" for image in (after, before))
    return f"array_union({one}, {other})"


def json_writer(keys: str) -> str:
    """SQL for the id of the writer of a JSON record: of its SCHEMA, else of the names of its columns. `keys`: SQL for these names."""
    return f"CASE WHEN _schema IS NOT NULL THEN hex(xxhash64(_schema)) ELSE concat('k', hex(xxhash64(sort_array({keys})))) END"


def of_other_table(table: str, above: Sequence[str], source_table: str | None) -> str:
    """SQL: whether an event belongs to none of the tables in `source_table`. `table` and `above` are SQL (`shared_stream.condition`)."""
    return f"NOT {shared_stream.condition(source_table, table, above, literal)}" if source_table else "false"
