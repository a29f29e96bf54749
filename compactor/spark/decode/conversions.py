"""Convert raw values to the values that Hive stores: one SQL expression for each semantic type. No UDFs, and no expression that can fail.

A value that no engine can hold (`infinity`, a timestamp after the year 279999, more digits than the declared precision) becomes null,
never a wrong value.
"""

from __future__ import annotations

from dataclasses import replace

from compactor.core.model import types
from compactor.core.schema.semantic_types import DECIMAL, NUMBER_OR_BYTES, VARIABLE_DECIMAL
from compactor.core.schema.writer import WriterField
from compactor.core.sources.postgres import HEX, TEXT
from compactor.core.sources.postgres import NUMBER as EXACT_NUMBER
from compactor.spark.decode import decimals, pg_text
from compactor.spark.sql import END, cast, from_json, is_utf8, let, literal, member, null, struct

PLACEHOLDER = "__debezium_unavailable_value"
_PACKED = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_MAPPED = f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'
_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""The placeholder in an array of uuids: Java's `UUID.nameUUIDFromBytes` of it."""
_CODES = ",".join(map(str, PLACEHOLDER.encode()))
"""The placeholder in an array of numbers that is read as text: a column may have become text."""
_TEXTS = (PLACEHOLDER, _PACKED, PLACEHOLDER.encode().hex(), _MAPPED, f'["{PLACEHOLDER}"]', f"[{_CODES}]")
UNAVAILABLE_TEXTS = f"({', '.join(map(literal, _TEXTS))})"
"""SQL: the forms of the placeholder in a text."""
UNAVAILABLE_NUMBERS = f"array({', '.join(f'{code}L' for code in PLACEHOLDER.encode())})"
"""SQL: the placeholder in an array of numbers."""
_DAY_MIN, _DAY_MAX = -2440588, 2145042905
"""4714-11-24 BC and 5874897-12-31 in days since 1970-01-01: the range of a source's dates. The numbers that stand for infinity lie outside."""
_MICROS_MIN = -2440588 * 86_400_000_000
"""The least timestamp; the greatest is `pg_text.MICROS_MAX`. The ends of a long stand for infinity."""


def floor_micros(nanos: str) -> str:
    """SQL: nanoseconds as microseconds, cut, not rounded to zero."""
    return f"{nanos} div 1000L - CASE WHEN {nanos} % 1000L < 0 THEN 1L ELSE 0L END"


_MICROS = {
    # milliseconds near the ends of a long overflow on their way to microseconds
    **dict.fromkeys(("Timestamp", "Time"), "try_multiply({0}, 1000L)"),
    **dict.fromkeys(("NanoTimestamp", "NanoTime"), floor_micros("({0})")),
}
"""Semantic type → its number as microseconds. Types not listed are microseconds already."""
_INFINITE_DAY = "^[+-]5877611-"
"""Begins the dates that stand for infinity under `time.precision.mode=isostring`."""
_NUMBERED = ("Date", "Timestamp", "MicroTimestamp", "NanoTimestamp", "Time", "MicroTime", "NanoTime")
"""Semantic types whose values are whole numbers."""
NUMBER = f"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?{END}"
BASE64 = f"^([A-Za-z0-9+/]{{4}})*([A-Za-z0-9+/]{{4}}|[A-Za-z0-9+/]{{3}}=|[A-Za-z0-9+/]{{2}}==){END}"
"""Texts of numbers, and of bytes as Connect's JSON writes a decimal. `1234` is both."""
_JAVA_ARRAY = r"^\\[Ljava[.]lang[.][A-Za-z]+;@[0-9a-f]+$"
"""What Debezium sends as an element of a two-dimensional array of texts: the address of an object in its memory."""


def json_type(raw: types.Type) -> types.Type:
    """Return the type as which a raw value is read out of JSON. Connect writes bytes as base64 text, so they are text."""
    if raw[0] == "binary":
        return ("string",)
    if raw[0] == "array":
        return ("array", json_type(raw[1]))
    if raw[0] == "map" and raw[1] != ("string",):
        # JSON has no such keys: Connect writes a list of pairs
        return ("array", ("array", ("string",)))
    if raw[0] == "map":
        return ("map", json_type(raw[1]), json_type(raw[2]))
    if raw[0] == "struct":
        return ("struct", tuple((name, json_type(kind)) for name, kind in raw[1]))
    return raw


def to_stored(value: str, kind: types.Type, field: WriterField) -> str:
    """SQL: `value`, read as type `kind` and meant as `field` says, in the type `field.type`."""
    if field.semantic in (TEXT, HEX, NUMBER):
        return pg_text.to_stored(value, field)
    if kind == ("array", ("string",)):
        value = f"CASE WHEN NOT coalesce(get({value}, 0) RLIKE '{_JAVA_ARRAY}', false) THEN {value} END"
    if field.item is not None and kind[0] == "array":
        return f"transform({value}, _e -> {to_stored('_e', kind[1], field.item)})"
    if kind == ("string",) and field.single.members:
        # another writer of the batch has the column as text
        return let(_from_json(value, json_type(field.raw)), "_v", to_stored("_v", json_type(field.raw), field))
    if field.members:
        return _with_members(value, kind, field)
    if kind == ("string",) and is_numbered(field):
        # a declared column, or one of numbers under whose name another writer of the batch wrote text
        return numbered(value, field, pg_text.to_stored(value, field))
    if (special := _decimal(value, kind, field) or _time(value, kind, field)) is not None:
        return special
    if (kind, field.type) == (("binary",), ("string",)):
        # declared as text; bytes that are none are invalid
        return let(f"CAST({value} AS STRING)", "_t", f"CASE WHEN {is_utf8('_t')} THEN _t END")
    return exact(value, field.type) if kind == ("string",) else plain(value, kind, field.type)


def _decimal(value: str, kind: types.Type, field: WriterField) -> str | None:
    """SQL: a decimal as Connect writes it, bytes with a scale beside them or in the schema. None if the column has none."""
    if field.semantic == NUMBER_OR_BYTES:
        as_number, as_bytes = (to_stored(value, kind, replace(field, semantic=semantic)) for semantic in ("", DECIMAL))
        is_number, is_bytes = f"{value} RLIKE '{NUMBER}'", f"{value} RLIKE '{BASE64}'"
        return f"CASE WHEN {is_number} AND {is_bytes} THEN NULL WHEN {is_number} THEN {as_number} ELSE {as_bytes} END"
    if field.semantic == DECIMAL and kind[0] in ("string", "binary"):
        # the decoder of base64 takes texts that are none; those of a schema's bytes always are
        packed = f"CASE WHEN {value} RLIKE '{BASE64}' THEN {value} END" if field.raw == ("string",) else value
        digits = decimals.unscaled(packed, kind)
        return decimals.point(digits, str(field.scale)) if field.type[0] == "string" else cast(f"concat({digits}, 'E{-field.scale}')", field.type)
    if field.semantic == VARIABLE_DECIMAL and kind == ("string",) and field.raw[0] == "struct":
        # another writer of the batch has the column as text, such as the base64 of a decimal with a scale
        parsed = ("struct", (("scale", ("int",)), ("value", ("string",))))
        return let(from_json(value, "'scale INT, value STRING'"), "_v", to_stored("_v", parsed, field))
    if field.semantic == VARIABLE_DECIMAL and kind[0] == "struct":
        digits = decimals.unscaled(member(value, "value"), dict(kind[1])["value"])
        return exact(decimals.point(digits, cast(member(value, "scale"), ("int",))), field.type)
    return None


def _time(value: str, kind: types.Type, field: WriterField) -> str | None:
    """SQL: a date, a timestamp or a time of day, from a number or from text. None if the column has none."""
    number, short = kind[0] in ("int", "bigint"), field.semantic.rsplit(".", 1)[-1]
    micros = _MICROS.get(short, "{0}").format(f"CAST({value} AS BIGINT)")
    if field.type[0] == "date" and number:
        return f"CASE WHEN {value} BETWEEN {_DAY_MIN} AND {_DAY_MAX} THEN date_add(DATE'1970-01-01', CAST({value} AS INT)) END"
    if field.type[0] == "date" and kind[0] == "string":
        day = cast(f"nullif(regexp_extract({pg_text.iso(value)}, '^([+-]?[0-9]{{4,}}-[0-9]{{2}}-[0-9]{{2}})Z?$', 1), '')", ("date",))
        return f"CASE WHEN NOT {value} RLIKE '{_INFINITE_DAY}' THEN {day} END"
    if field.type[0] == "timestamp" and number:
        return _moment(micros)
    if kind == field.type == ("timestamp",):
        return f"CASE WHEN unix_micros({value}) BETWEEN {_MICROS_MIN}L AND {pg_text.MICROS_MAX}L THEN {value} END"
    if kind == field.type == ("date",):
        return f"CASE WHEN unix_date({value}) BETWEEN {_DAY_MIN} AND {_DAY_MAX} THEN {value} END"
    if field.type[0] == "timestamp" and kind[0] == "string":
        return _from_iso(value)
    if short in ("Time", "MicroTime", "NanoTime") and number:
        return time_of_day(micros)
    if short == "IsoTime" and kind == ("string",):
        # as the other times of day are stored
        return f"rtrim('Z', {value})"
    return None


def _with_members(value: str, kind: types.Type, field: WriterField) -> str:
    """SQL: a struct or a map, whose members are converted each as the field says."""
    if kind[0] == "struct":
        has = _stored_members(kind)
        pairs = ((low, stored, inner) for (low, stored), inner in zip(field.type[1], field.members))
        members = [(low, to_stored(member(value, has[low][0]), has[low][1], inner) if low in has else null(stored)) for low, stored, inner in pairs]
        return f"CASE WHEN {value} IS NOT NULL THEN {struct(members)} END"
    (inner,) = field.members
    if kind[0] == "array":
        return _pairs(value, field.type, to_stored("get(_p, 1)", ("string",), inner))
    return f"transform_values({plain(value, kind, ('map', field.type[1], kind[2]))}, (_k, _i) -> {to_stored('_i', kind[2], inner)})"


def exact(value: str, kind: types.Type) -> str:
    """SQL: text as a value of a type, null where a digit would be lost. `5.0` is a whole number, and `1.0E7`, as Java writes it."""
    if kind[0] in types.INTEGERS:
        whole, power = f"regexp_replace({value}, '[.]0+$', '')", pg_text.exact_decimal(value, ("decimal", 38, 0))
        return f"CASE WHEN {value} RLIKE '[eE]' THEN {cast(power, kind)} ELSE {cast(whole, kind)} END"
    if kind[0] == "decimal":
        return pg_text.exact_decimal(value, kind)
    return plain(value, ("string",), kind)


def not_exact(text: str, kind: types.Type) -> str:
    """SQL: whether a text is a number that the float or double `kind` makes infinite, or a whole number that it makes another one.

    JavaScript and Go write 17 digits of a double at most, and zeros after these: 1152921504606847000 is the double 1152921504606846976.
    """
    made, whole = cast(text, kind), ("bigint",)
    equal = f"coalesce({cast(made, whole)} = {cast(text, whole)}, false) OR {text} RLIKE '^-?(?=[0-9]{{18}})[0-9]{{1,17}}0+$'"
    other = f"{text} RLIKE '^-?[0-9]{{8,38}}$' AND NOT ({equal})"
    return f"(({text} RLIKE '[0-9]' AND abs({made}) = double('Infinity')) OR ({other}))"


def is_numbered(field: WriterField) -> bool:
    """Return whether the values of a column are days or times as whole numbers."""
    return field.semantic.rsplit(".", 1)[-1] in _NUMBERED


def numbered(text: str, field: WriterField, otherwise: str) -> str:
    """SQL: text of such a number in the type of its column; other text as `otherwise` (SQL)."""
    return f"CASE WHEN {text} RLIKE '^-?[0-9]+$' THEN {to_stored(cast(text, ('bigint',)), ('bigint',), field)} ELSE {otherwise} END"


def key_to_stored(value: str, kind: types.Type, field: WriterField) -> str:
    """SQL: the same for a column of the key. Numbers that are text have one form there: to the source 1.5 and 1.50 are the same key.

    A time finer than a microsecond is null, because as it is stored it would be another key, or that of several rows.
    """
    stored = to_stored(value, kind, field)
    if kind == ("string",) and field.type == ("timestamp",):
        return f"CASE WHEN NOT {value} RLIKE '[.][0-9]{{6}}[0-9]*[1-9]' THEN {stored} END"
    if kind == ("bigint",) and field.semantic.rsplit(".", 1)[-1] in ("NanoTimestamp", "NanoTime"):
        return f"CASE WHEN {value} % 1000L = 0L THEN {stored} END"
    if field.type != ("string",) or field.semantic not in (VARIABLE_DECIMAL, EXACT_NUMBER):
        return stored
    return let(stored, "_k", "CASE WHEN _k LIKE '%.%' THEN rtrim('.', rtrim('0', _k)) ELSE _k END")


def from_text(value: str, kind: types.Type) -> str:
    """SQL: a value of a CSV file in a type.

    Bytes are hexadecimal, as AWS DMS writes them, or PostgreSQL with `\\x`. A date may be followed by midnight (Oracle).
    """
    if kind[0] == "string":
        return value
    if kind[0] == "binary":
        return pg_text.from_hex(value)
    if kind[0] == "date":
        day = f"regexp_extract({pg_text.iso(value)}, '^([+-]?[0-9]{{4,}}-[0-9]{{2}}-[0-9]{{2}})(Z|[ T]00:00:00([.]0+)?)?$', 1)"
        return cast(f"nullif({day}, '')", kind)
    if kind[0] == "timestamp":
        return _from_iso(value)
    if kind[0] == "decimal":
        return pg_text.exact_decimal(value, kind)
    return _from_digits(value, kind) if types.is_scalar(kind) else _from_json(value, kind)


def _from_iso(value: str) -> str:
    """SQL: text as a timestamp. A cast alone would take a time of day for one of today."""
    return cast(f"CASE WHEN {value} RLIKE '{pg_text.MOMENT_YEAR}' THEN {pg_text.iso(value)} END", ("timestamp",))


def _from_json(value: str, kind: types.Type) -> str:
    """SQL: JSON text as an array, map or struct. As a member of an object, because Spark fails on an array whose elements have another type."""
    return from_json(f"concat('{{\"v\":', {value}, '}}')", literal(f"v {types.text(kind, quote=True)}")) + ".v"


def _from_digits(value: str, kind: types.Type) -> str:
    """SQL: a text as a value of a type. For Java, and so for a cast, `1d` and `0x1p3` are numbers too."""
    number = f"CASE WHEN NOT {value} RLIKE '[0-9][dDfF]\\\\s*$|[xX]' THEN {value} END" if kind[0] in ("float", "double") else value
    return cast(number, kind)


def plain(value: str, old: types.Type, kind: types.Type, packed: bool = True) -> str:
    """SQL: a value without special meaning, from the type it was read as (`old`) to the type it is stored as (`kind`).

    `packed`: text is base64 where bytes are expected, as in JSON. Between two types of a table, text is its own bytes (`change_type`).
    """
    if old == kind:
        return value
    if kind[0] == "binary" and old[0] == "string" and packed:
        # a connector may write the form of base64 that URLs have, and PostgreSQL's own JSON has its hexadecimal digits
        coded = f"try_to_binary(translate({value}, '-_', '+/'), 'base64')"
        return f"CASE WHEN {pg_text.is_hex(value)} THEN {pg_text.from_hex(value)} ELSE {coded} END"
    if kind[0] == "array" and old[0] == "array":
        return f"transform({value}, _i -> {plain('_i', old[1], kind[1], packed)})"
    if kind[0] == "map" and old[0] == "array":
        return _pairs(value, kind)
    if kind[0] == "map" and old[0] == "map":
        keyed = value if old[1] == kind[1] else f"transform_keys({value}, (_k, _i) -> {plain('_k', old[1], kind[1], packed)})"
        return f"transform_values({keyed}, (_k, _i) -> {plain('_i', old[2], kind[2], packed)})"
    if kind[0] == "struct" and old[0] == "struct":
        return _struct(value, old, kind, packed)
    if old[0] == "string" and kind[0] in ("array", "map", "struct"):
        # the text of an empty array or object, which came before the first value that shows its type
        return _from_json(value, kind)
    if kind[0] == "string" and not types.is_scalar(old):
        return f"base64({value})" if old[0] == "binary" else f"to_json({value})"
    return _from_digits(value, kind) if old[0] == "string" else cast(value, kind)


def change_type(value: str, old: types.Type, kind: types.Type) -> str:
    """SQL: a column's value in the type that the column has now."""
    return plain(value, old, kind, packed=False)


def is_inexact(value: str, old: types.Type, kind: types.Type) -> str | None:
    """SQL: whether a value of type `old` has a whole number that is another one as the double of type `kind`. None if that cannot be."""
    if kind[0] == "double" and old[0] in ("bigint", "decimal"):
        return f"coalesce({cast(cast(value, kind), old)} <> {value}, {value} IS NOT NULL)"
    if kind[0] == old[0] == "array":
        inside = is_inexact("_x", old[1], kind[1])
        return f"coalesce(exists({value}, _x -> {inside}), false)" if inside else None
    if kind[0] == old[0] == "map":
        inside = is_inexact("_x", old[2], kind[2])
        return f"coalesce(exists(map_values({value}), _x -> {inside}), false)" if inside else None
    if kind[0] == old[0] == "struct":
        new = dict(kind[1])
        named = ((low, member(value, name), member_type) for (low, _), (name, member_type) in zip(types.stored_names(old)[1], old[1]))
        tests = [is_inexact(inner, member_type, new[low]) for low, inner, member_type in named if low in new]
        return " OR ".join(f"({test})" for test in tests if test) or None
    return None


def _struct(value: str, old: types.Type, kind: types.Type, packed: bool) -> str:
    has, members = _stored_members(old), []
    for name, new in kind[1]:
        members.append((name, plain(member(value, has[name][0]), has[name][1], new, packed) if name in has else null(new)))
    return f"CASE WHEN {value} IS NOT NULL THEN {struct(members)} END"


def _stored_members(kind: types.Type) -> dict[str, tuple[str, types.Type]]:
    """Return the stored name of each member of a struct → its name and type."""
    # stored_names numbers names that would be equal in lower case; both at once keeps the pairs together
    return {low: member for (low, _), member in zip(types.stored_names(kind)[1], kind[1])}


def _pairs(value: str, kind: types.Type, inner: str = "") -> str:
    """SQL: a map of pairs that are text. Null if a key is none or comes twice, on which Spark would fail. `inner`: SQL for the value of a pair `_p`,
    where it has a meaning."""
    inner = inner or (plain("get(_p, 1)", ("string",), kind[2]) if types.is_scalar(kind[2]) else _from_json("get(_p, 1)", kind[2]))
    keys = f"transform({value}, _p -> {cast('get(_p, 0)', kind[1])})"
    distinct = "size(array_compact(array_distinct(_keys))) = size(_keys)"
    return let(keys, "_keys", f"CASE WHEN {distinct} THEN map_from_arrays(_keys, transform({value}, _p -> {inner})) END")


def _moment(micros: str) -> str:
    return f"CASE WHEN {micros} BETWEEN {_MICROS_MIN}L AND {pg_text.MICROS_MAX}L THEN timestamp_micros({micros}) END"


def time_of_day(micros: str) -> str:
    """SQL: a time of day in microseconds as `HH:MM:SS`, with six digits of a fraction if it has one."""
    # MySQL's times may be negative, and longer than a day
    sign, seconds = "CASE WHEN _t < 0L THEN '-' ELSE '' END", "(abs(_t) div 1000000L)"
    whole = f"format_string('%s%02d:%02d:%02d', {sign}, {seconds} div 3600L, ({seconds} div 60L) % 60L, {seconds} % 60L)"
    fraction = f"concat({whole}, format_string('.%06d', abs(_t) % 1000000L))"
    return let(micros, "_t", f"CASE WHEN _t % 1000000L = 0L THEN {whole} WHEN _t IS NOT NULL THEN {fraction} END")


def is_mistyped(raw: str, old: types.Type, value: str, kind: types.Type) -> str | None:
    """SQL: whether text or a number (`raw`) is not a value of its column's type (`value` is its conversion). None if that cannot be.

    Values that a source can hold and no engine can are not mistyped but null, by policy: infinities, and dates and timestamps before year 0 or after
    9999.
    """
    whole = (*types.INTEGERS, "decimal")
    if old[0] in whole and kind[0] in whole and types.widest(old, kind) != kind:
        return f"({raw} IS NOT NULL AND ({value}) IS NULL)"
    if {old[0], kind[0]} == {"string", "binary"} or (old[0] == "struct" and kind[0] in whole):
        return f"({raw} IS NOT NULL AND ({value}) IS NULL)"
    if old[0] == kind[0] == "array" and types.single(old)[0] == "string" and types.single(kind)[0] == "decimal":
        inside = is_mistyped("_r", old[1], "_v", kind[1])
        return f"coalesce(exists(zip_with({raw}, {value}, (_r, _v) -> {inside}), _m -> _m), false)"
    if old[0] != "string" or kind[0] == "string" or not types.is_scalar(kind):
        return None
    far = "|[+-].*|[0-9]{5,}-.*|.*BC" if kind[0] in ("date", "timestamp") else ""
    wrong = f"({value}) IS NULL AND NOT {raw} RLIKE '(?i)^\\\\s*([+-]?(inf(inity)?|nan){far})?\\\\s*$'"
    wrong = f"({wrong} OR {not_exact(raw, kind)})" if kind[0] in ("float", "double") else wrong
    return f"({raw} IS NOT NULL AND {wrong})"


def is_placeholder(value: str, kind: types.Type) -> str | None:
    """SQL: whether a raw value is Debezium's placeholder for an unchanged value that was not sent. None if its type cannot carry one."""
    if kind[0] == "string":
        return f"{value} IN {UNAVAILABLE_TEXTS}"
    if kind[0] == "binary":
        return f"{value} = {literal(PLACEHOLDER.encode())}"
    if kind[0] == "array" and kind[1][0] == "binary":
        return f"size({value}) = 1 AND {is_placeholder(f'get({value}, 0)', kind[1])}"
    if kind[0] == "array" and kind[1][0] == "string":
        only = f"get({value}, 0)"
        as_numbers = f"size({value}) = {len(PLACEHOLDER)} AND array_join({value}, ',') = {literal(_CODES)}"
        return f"(size({value}) = 1 AND ({is_placeholder(only, kind[1])} OR {only} = {literal(_UUID)}) OR {as_numbers})"
    if kind[0] == "array" and kind[1][0] in ("smallint", "int", "bigint"):
        return f"CAST({value} AS ARRAY<BIGINT>) = {UNAVAILABLE_NUMBERS}"
    if kind[0] == "map" and kind[1][0] == "string":
        return f"size({value}) = 1 AND get(map_keys({value}), 0) = {literal(PLACEHOLDER)}"
    if kind[0] == "struct" and PLACEHOLDER in dict(kind[1]):
        return f"{member(value, PLACEHOLDER)} IS NOT NULL"
    return None
