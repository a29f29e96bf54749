"""Writers of JSON text: with the schema of the records, or with types inferred from the values where records carry none.

Connect's JSON has no numbers that are not finite: it writes `"NaN"`, `"Infinity"` and `"-Infinity"` as texts. A column of numbers and of such texts
is a double. A column of such texts alone is one if the table or other records have numbers in it; else it is text.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from compactor.core.model import types
from compactor.core.model.inputs import InputLimits
from compactor.core.schema import column_types, nested_types, writer
from compactor.core.schema.semantic_types import DECIMAL, DIGITS, NUMBER_OR_BYTES
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.spark.columns import AFTER, BEFORE, BLOCK, FILE, ROW, WRITER
from compactor.spark.decode import pg_text
from compactor.spark.decode.conversions import BASE64, NUMBER, PLACEHOLDER
from compactor.spark.decode.frame import Frame, ddl, image_names, some
from compactor.spark.input.files import from_spark
from compactor.spark.input.limits import check_columns, row_columns
from compactor.spark.jvm.private import json_schema
from compactor.spark.sql import JSON_OPTIONS, from_json, literal, named

INFERRED_HERE = 4 << 20
"""Bytes of landed files up to which the driver infers types from the values of JSON records. For more a Spark job does."""
_NOT_FINITE = r':\s*"(?:NaN|[+-]?Infinity)"'
"""A member of a JSON object. No text can look like it, because its quotes would be escaped."""
_NO_MEMBERS, _NO_ITEMS = r"(?<=[:\[,])\s*\{\s*\}", r"(?<=[:\[,])\s*\[\s*\]"
"""An empty object, and an empty array. Text may look like it."""
_EMPTY = r'[:\[,]\s*(?:\{(?:\s*"(?:[^"\\]++|\\.)*+"\s*:\s*null\s*,?)*+\s*\}|\[[\s\[\]{},nul]*\])'
"""A value that is an object without other members than nulls, or an array of such and of nulls. Text may look like it."""
_BLANK = r'(?<=[\[,:])\s*""(?!\s*:)'
"""An empty text as a value. Inside texts quotes are escaped, so that none can look like it."""
_STRING = r'"((?:[^"\\]|\\.)*)"\s*(:?)'
"""A string in JSON, with a colon if it is the name of a member. What looks for names alone would look at each quote inside of the others."""
_WHOLE_STRING = rf"{pg_text.STRING}\s*+:?+"
"""The same for Java, whose other quantifiers need a stack."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def writers_of(
    frame: Frame,
    key: Sequence[str],
    stored: Sequence[WriterField] = (),
    schema: WriterSchema | None = None,
    typed: WriterSchema | None = None,
    bare: bool = False,
    few: bool = False,
    limits: InputLimits | None = None,
) -> list[WriterSchema]:
    """Return the writers of JSON text, one for each schema that occurs, and one for each set of column names without schema.

    `stored`: the table's columns. `bare`: the records are rows without envelope. Unless a connector added columns to them (`__op`), they are taken as
    hand-made, and a type that differs never makes a second column. `schema` gives the types and meanings of declared columns, for records that carry
    no schema; `typed` for those that carry one. A writer that wrote only deletes gives the types of the key columns alone, if there are any: its
    other values are fillers. With `few` records the driver infers types. Raises TooManyColumns before it infers more types than the limit allows.
    """
    images = frame.rows.where("_writer IS NOT NULL AND _op IS NOT NULL").selectExpr("*", "coalesce(_after, _before) AS _image")
    images = images.selectExpr("*", f"_image RLIKE {literal(pg_text.UNUSUAL)} AS _unusual")
    # not of any record: twins such as `A` and `a` get their names in this order
    after, before, either = (
        f"min_by({image}, CASE WHEN _schema IS NULL THEN struct({FILE}, {BLOCK}, {ROW}) END)" for image in (AFTER, BEFORE, "_image")
    )
    rows = (
        images.selectExpr("*", f"_unusual AND _image RLIKE {literal(pg_text.SPECIAL_NUMBER)} AS _special", "_unusual AND _schema IS NULL AS _untyped")
        .groupBy(WRITER)
        .agg(
            named("first(_schema)", "text"),
            named("max(_op IN ('c', 'u', 'r'))", "rows"),
            named(f"json_object_keys({either})" if key or frame.one_image else image_names(after, before), "names"),
            named(f"max(_special AND _image RLIKE {literal(pg_text.FRACTION)})", "fractions"),
            named(f"max(_untyped AND _special AND _image RLIKE {literal(pg_text.LARGE_NUMBER)})", "large"),
            named(f"max(_untyped AND _special AND _image RLIKE {literal(pg_text.LONG_NUMBER)})", "long"),
            named(f"max(_untyped AND _image RLIKE {literal(_NOT_FINITE)})", "not_finite"),
            named(f"max(_untyped AND _image RLIKE {literal(_EMPTY)})", "empties"),
            named("max(_untyped AND contains(_image, '\"\"'))", "blank"),
            named(f"max(_untyped AND _image RLIKE {literal(pg_text.BLANK_ELEMENT)})", "blanks"),
            *(named(f"collect_list(CASE WHEN {few and '_schema IS NULL'} THEN {column} END)", column) for column in (AFTER, BEFORE)),
        )
        .collect()
    )
    names_of = {row[WRITER]: [*dict.fromkeys(row.names or ())] if not row.text else [] for row in rows}
    limits = limits or InputLimits()
    check_columns(len({name for names in names_of.values() for name in names}), limits)
    connect = {row[WRITER]: dataclasses.replace(writer.from_connect(row.text, bare=frame.one_image), id=row[WRITER]) for row in rows if row.text}
    forms = _forms(frame, connect.values())
    out = []
    not_finite: dict[str, set[str]] = {}
    spelled: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: str(row[WRITER])):
        if row.text:
            described = _with_numeric_decimals(connect[row[WRITER]], forms.get(row[WRITER]), bool(row.fractions))
            described = column_types.as_declared(described, typed) if typed else described
        else:
            described, not_finite[row[WRITER]] = _from_values(frame, row, names_of[row[WRITER]], stored, bare, not key, spelled)
            described = column_types.as_declared(described, schema, text=True) if schema else described
        if key and not row.rows and not row.text:
            others = tuple(field.name for field in described.fields if field.name not in key)
            fields = tuple(field for field in described.fields if field.name in key)
            described = dataclasses.replace(described, fields=fields, undecided=(*described.undecided, *others))
        check_columns(row_columns([(field.name, field.raw) for field in described.fields]), limits, row[WRITER])
        out.append(described)
    check_columns(row_columns([(field.name, field.raw) for each in out for field in each.fields]), limits)
    numbers = {field.name for field in (*stored, *(field for each in out for field in each.fields)) if field.type[0] in _NUMBERS}
    return [_as_doubles(each, not_finite.get(each.id, set()) & numbers) for each in out]


def _packed(described: WriterSchema) -> list[WriterField]:
    """Return the columns of decimals, and of arrays of such, that are bytes in the schema."""
    return [field for field in described.fields if field.single.semantic == DECIMAL and field.single.raw == ("binary",)]


def _forms(frame: Frame, writers: Iterable[WriterSchema]) -> dict[str, str]:
    """Return the writers with numbers where the schema has bytes (`decimal.format=NUMERIC`) → how to read these columns: "" or NUMBER_OR_BYTES.

    One Spark job if there are such columns, and one more for writers with numbers, which may have base64 in other records.
    """
    packed = {each.id: fields for each in writers if (fields := _packed(each))}
    # a reader of doubles takes the texts "NaN" and "Infinity", too
    numbers = _beginning(frame, packed, "-?[0-9]", "double", lambda value: f"abs({value}) < double('Infinity')")
    texts = _beginning(frame, {each: packed[each] for each in numbers}, '"', "binary", lambda value: f"{value} IS NOT NULL")
    return {each: NUMBER_OR_BYTES if each in texts else "" for each in numbers}


def _beginning(frame: Frame, columns: Mapping[str, Sequence[WriterField]], begin: str, kind: str, test: Callable[[str], str]) -> list[str]:
    """Return the writers with a value in one of their `columns`, or in an array there, that begins so and that passes the test as this type."""
    tests: list[Column] = []
    for writer_id, fields in columns.items():
        # an object inside of the row may have members of these names, which the parser distinguishes
        member = rf"(?:{'|'.join(re.escape(json.dumps(field.name, ensure_ascii=False)) for field in fields)})\s*:[\s\[\],nul]*{begin}"
        kinds = [field.of_single((kind,), "").raw for field in fields]
        parser = f"'{ddl(('struct', tuple((field.name, each) for field, each in zip(fields, kinds))))}'"
        # names that differ in case only are one for Spark
        by_place = types.text(("struct", tuple((f"_{at}", each) for at, each in enumerate(kinds))))
        passed = " OR ".join(some(f"_v._{at}", each, test) for at, each in enumerate(kinds))
        parsed = {image: f"CAST({from_json(image, parser)} AS {by_place})" for image in ([AFTER] if frame.one_image else [AFTER, BEFORE])}
        has = " OR ".join(f"({image} RLIKE {literal(member)} AND exists(array({made}), _v -> {passed}))" for image, made in parsed.items())
        tests.append(named(f"coalesce(max({WRITER} = {literal(writer_id)} AND ({has})), false)", f"w{len(tests)}"))
    row = frame.rows.where("_op IS NOT NULL").agg(*tests).collect()[0] if tests else ()
    return [writer_id for writer_id, has in zip(columns, row) if has]


def _with_numeric_decimals(described: WriterSchema, semantic: str | None, fractions: bool) -> WriterSchema:
    """Return a writer whose decimals are not all base64. `semantic`: how to read them; None if they are."""
    if semantic is None and not any(field.semantic == DIGITS for field in described.fields):
        return described
    packed = _packed(described) if semantic is not None else []
    fields = (field.of_single(("string",), semantic or "") if field in packed else field for field in described.fields)
    return dataclasses.replace(described, fields=tuple(fields), fractions=fractions)


def _from_values(
    frame: Frame, row: T.Row, names: list[str], stored: Sequence[WriterField], bare: bool, keyless: bool, spelled: dict[str, str]
) -> tuple[WriterSchema, set[str]]:
    """Return a writer with types inferred from its values, and its columns without other values than `"NaN"`. `row` is the one of `writers_of`.

    `spelled`: of `_spellings`.
    """
    spark = frame.rows.sparkSession
    columns = [AFTER, BEFORE] if keyless and not frame.one_image else [AFTER if row.rows else BEFORE]
    texts = [] if row.large else _alone([text for column in columns for text in row[column]])

    def inferred(pattern: str = "", text: str = "", nulls: bool = False) -> T.StructType:
        """Infer the type of the records, with another text in the place of `pattern`. It has no quotes where that may be inside of a text."""
        if here := _inferred_here(spark, [re.sub(pattern, text, each) for each in texts] if pattern else texts, nulls):
            return here
        # a number that only a double could hold, and not exactly, is text
        sql = pg_text.long_numbers("_image") if row.large else "_image"
        images = frame.rows.where(f"_writer = {literal(row[WRITER])}").selectExpr(f"explode(array_compact(array({', '.join(columns)}))) AS _image")
        return _inferred(spark, images.selectExpr(f"regexp_replace({sql}, {literal(pattern)}, {literal(text)})" if pattern else sql), nulls)

    # an empty array is no array to those who write one for an empty object
    struct, words = inferred(_NO_ITEMS, "null") if row.empties else inferred(), set[str]()
    spellings = _spellings(struct, names, texts, frame, row[WRITER], columns, spelled)
    respelled = {json.loads(f'"{name}"'): json.loads(f'"{other}"') for name, other in spellings}

    def kind_of(struct: T.StructType) -> types.Type:
        return types.renamed(from_spark(struct), lambda own: [respelled.get(name, name) for name in own])

    if row.not_finite:
        struct, words = _with_doubles(struct, inferred(_NOT_FINITE, ":null"))
    marked: types.Type = _number(kind_of(struct))
    scalars = {field.name for field in stored if types.is_scalar(field.type)}
    if row.blank and _may_lack(struct, {*names} - scalars):
        marked = _marked(marked, kind_of(inferred(_BLANK, '"_"')), nested_types.BLANK) or marked
    if row.empties and _may_lack(struct, names):
        marked = _marked(marked, kind_of(inferred(_NO_MEMBERS, "{_:null}", nulls=True)), nested_types.UNDECIDED) or marked
    described = _described(row[WRITER], dict(marked[1]), names, bare, {field.name: field.type for field in stored})
    described = dataclasses.replace(described, spellings=spellings, blanks=bool(row.blanks))
    return dataclasses.replace(described, fractions=bool(row.fractions), large=bool(row.large or row.long)), words


def _spellings(
    struct: T.StructType,
    names: Sequence[str],
    texts: Sequence[str],
    frame: Frame,
    writer_id: str,
    columns: Sequence[str],
    spelled: dict[str, str],
) -> tuple[tuple[str, str], ...]:
    """Return `WriterSchema.spellings` of a writer with an inferred type: Spark infers one member for `{"A": 1}` and `{"a": 1}`, and reads one only.

    `names`: its columns; `columns`: those with its images. `spelled`: member in small letters → its spelling in earlier writers, and in this one.
    One Spark job if there are objects inside, and the driver does not have the `texts`.
    """
    objects = [_written(members) for field in struct.fields for members in _objects(field.dataType)]
    own, inside = {*_written(names)}, {name for members in objects for name in members}
    if not inside:
        return ()
    if texts:
        all_names = {name for text in texts for name, colon in re.findall(_STRING, text) if colon}
    else:
        rows = frame.rows.where(f"_writer = {literal(writer_id)}")
        images = rows.selectExpr(f"explode(array_compact(array({', '.join(columns)}))) AS _image")
        strings = f"explode(array_distinct(regexp_extract_all(_image, {literal(_WHOLE_STRING)}, 0))) AS name"
        with_colon = images.selectExpr(strings).where("endswith(name, ':')").distinct()
        all_names = {row.name[:-1].rstrip()[1:-1] for row in with_colon.collect()}
    # an object may have both
    both = {low for each in objects for low, count in Counter(name.lower() for name in each).items() if count > 1}
    twins = {name for name in inside if name.lower() in both}
    for name in sorted(inside - twins):
        spelled.setdefault(name.lower(), name)
    others = {**spelled, **{name.lower(): name for name in twins}}
    return tuple((name, other) for name in sorted(all_names - own - twins) if (other := others.get(name.lower(), name)) != name)


def _written(names: Iterable[str]) -> list[str]:
    """Return names as JSON writes them between quotes."""
    return [json.dumps(name, ensure_ascii=False)[1:-1] for name in names]


def _objects(kind: T.DataType) -> Iterator[list[str]]:
    """Yield the names of the members of each struct in a type."""
    if isinstance(kind, T.ArrayType):
        yield from _objects(kind.elementType)
    if isinstance(kind, T.StructType):
        yield kind.names
        for field in kind.fields:
            yield from _objects(field.dataType)


def _as_doubles(described: WriterSchema, names: Collection[str]) -> WriterSchema:
    """Return the writer with doubles instead of text for these columns."""
    double: types.Type = ("double",)
    fields = (
        dataclasses.replace(field, raw=double, type=double) if field.name in names and field.type == ("string",) else field
        for field in described.fields
    )
    return dataclasses.replace(described, fields=tuple(fields))


def _inferred(spark: SparkSession, texts: DataFrame, nulls: bool = False) -> T.StructType:
    """Infer the type of JSON objects in a Spark job. With `nulls` what has no other values than nulls is text."""
    return T.StructType.fromJson(json.loads(json_schema(spark, texts, _options(nulls))))


def _options(nulls: bool) -> dict[str, str]:
    """Return the options of the JSON reader. Not prefersDecimal: it takes text that looks like a number for a number."""
    return {"dropFieldIfAllNull": str(not nulls).lower(), "allowUnquotedFieldNames": str(nulls).lower(), **JSON_OPTIONS}


def _alone(texts: list[str]) -> list[str]:
    """Return these texts; none if some is more than one document, which would be more than one element of an array."""
    decoder = json.JSONDecoder()
    try:
        ends = [decoder.raw_decode(text.lstrip())[1] + len(text) - len(text.lstrip()) for text in texts]
    except (ValueError, RecursionError):
        return []
    return [] if any(text[end:].strip() for text, end in zip(texts, ends)) else texts


def _inferred_here(spark: SparkSession, texts: Sequence[str], nulls: bool = False) -> T.StructType | None:
    """Infer the same type as `_inferred` without a Spark job: that of the elements of one array. None if these texts do not make an array."""
    if not texts:
        return None
    try:
        # constant over a row that the driver has: the optimizer computes it
        kind = F.schema_of_json(F.lit(f"[{','.join(texts)}]"), _options(nulls)).alias("kind")
        (row,) = spark.sql("SELECT 1 FROM VALUES (1)").select(kind).collect()
        array = spark.sql(f"SELECT CAST(NULL AS {row.kind}) AS texts").schema["texts"].dataType
    except (ValueError, RecursionError, PySparkException, Py4JJavaError):
        return None
    element = array.elementType if isinstance(array, T.ArrayType) else None
    return element if isinstance(element, T.StructType) else None


def _with_doubles(struct: T.StructType, finite: T.StructType) -> tuple[T.StructType, set[str]]:
    """Return the inferred type with doubles for columns of numbers that are not all finite, and the columns without other values than such texts.

    `finite`: the type that is inferred without them.
    """
    others = {field.name: field.dataType for field in finite.fields}
    texts = {field.name for field in struct.fields if isinstance(field.dataType, T.StringType)}
    doubles = {name for name in texts if isinstance(others.get(name), T.NumericType)}
    fields = [T.StructField(field.name, T.DoubleType()) if field.name in doubles else field for field in struct.fields]
    return T.StructType(fields), texts - {*others}


def _may_lack(struct: T.StructType, names: Collection[str]) -> bool:
    """Whether an inferred type lacks some of these columns, or may lack members."""
    return not {*struct.names} >= {*names} or any(isinstance(field.dataType, (T.StructType, T.ArrayType)) for field in struct.fields)


def _marked(kind: types.Type | None, other: types.Type, mark: types.Type) -> types.Type | None:
    """Return an inferred type with a mark where the values show none.

    `other`: what is inferred with other texts in the place of empty ones (BLANK), or with all members, also those of nulls (UNDECIDED).
    """
    # an object or array without anything inside that shows a type
    nothing = nested_types.UNDECIDED if mark == nested_types.UNDECIDED else None
    if other[0] == "struct" and (kind is None or kind[0] == "struct"):
        own = dict(kind[1]) if kind else {}
        members = {**own, **{name: inside for name, each in other[1] if (inside := _marked(own.get(name), each, mark))}}
        return ("struct", tuple(members.items())) if members or kind else nothing
    if other[0] == "array" and (kind is None or kind[0] == "array"):
        item = _marked(kind[1] if kind else None, other[1], mark)
        return nothing if item in (None, nested_types.UNDECIDED) else ("array", item)
    return nested_types.BLANK if kind is None and mark == nested_types.BLANK else kind


def _described(writer_id: str, kinds: Mapping[str, types.Type], names: list[str], bare: bool, stored: Mapping[str, types.Type]) -> WriterSchema:
    """Return a writer of columns with these marked types. `names`: all columns; `stored`: the table's columns."""
    guessed = bare and not any(name.startswith("__") for name in names)
    fields = []
    for name in (name for name in names if name in kinds):
        raw, marked = nested_types.unmarked(kinds[name])[0], _sent(kinds[name])
        kind = nested_types.unmarked(marked)[0]
        # a placeholder alone shows no type
        typed = stored.get(name) if kind == ("struct", ()) else types.stored_names(kind)
        if typed:
            fields.append(WriterField(name, raw, typed, inferred=True, guessed=guessed, marked=marked if marked != kind else None))
    shown = [field.name for field in fields]
    return WriterSchema(writer_id, tuple(fields), undecided=tuple(name for name in names if name not in shown))


def _sent(kind: types.Type) -> types.Type:
    """Return the type of a column without the member that Debezium's placeholder for a map (`hstore.handling.mode=map`) makes."""
    return ("struct", tuple(each for each in kind[1] if each[0] != PLACEHOLDER)) if kind[0] == "struct" else kind


def _number(kind: types.Type) -> types.Type:
    """Return the type for an inferred one: fractions are doubles, as in all JSON readers; whole numbers beyond 64 bits stay exact. Of members with
    one name the last counts.
    """
    if kind[0] == "decimal":
        return ("double",) if kind[2] else ("decimal", 38, 0)
    if kind[0] == "array":
        return ("array", _number(kind[1]))
    if kind[0] == "struct":
        return ("struct", tuple({name: _number(member) for name, member in kind[1]}.items()))
    return kind


def _has_form(form: str, other: str) -> Callable[[str], str]:
    """Return SQL of a text: whether it has one form of decimals and not the other."""
    return lambda value: f"{value} RLIKE '{form}' AND NOT {value} RLIKE '{other}'"


def with_decimals(frame: Frame) -> Frame:
    """Return the frame with the encoding of declared decimals whose values are text: numbers (`"12.34"`), or base64 (`"BH4="`) of Connect.

    A text such as `1234` is both. The other values of its column decide; if they do not, it is not used, and its record is invalid. One Spark job if
    there are such columns.
    """
    columns = list({field.name: None for each in frame.writers for field in each.fields if field.single.semantic == NUMBER_OR_BYTES})
    if not columns:
        return frame
    images = dict((frame.images or ("struct", ()))[1])
    counts = []
    for at, name in enumerate(columns):
        values = [frame.value(name, image) for image in (AFTER, BEFORE)]
        for form, (is_, is_not) in {"numbers": (NUMBER, BASE64), "bytes": (BASE64, NUMBER)}.items():
            tests = (some(value, images.get(name, ("string",)), _has_form(is_, is_not)) for value in values)
            counts.append(named(f"coalesce(max({' OR '.join(tests)}), false)", f"{form}{at}"))
    row = frame.rows.where("_op IS NOT NULL").agg(*counts).collect()[0]
    semantics = {(True, False): "", (False, True): DECIMAL}
    shown = {name: semantics.get((row[f"numbers{at}"], row[f"bytes{at}"]), NUMBER_OR_BYTES) for at, name in enumerate(columns)}

    def settled(field: WriterField) -> WriterField:
        return field.of_single(field.single.raw, shown[field.name]) if field.single.semantic == NUMBER_OR_BYTES else field

    return dataclasses.replace(frame, writers=tuple(dataclasses.replace(each, fields=tuple(map(settled, each.fields))) for each in frame.writers))
