"""The canonical forms in SQL: one table of expressions for each system.

In an expression `{v}` is the column; `{t}` is a canonical text as a literal, `{raw}` the text itself, `{type}` the type of the column. A key of the
tables is a form, or (form, variant) where the expression depends on more than the form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from compactor.core.catalog.ddl import text_literal
from compactor.core.catalog.dialect import PRESTO
from compactor.core.reconcile.canonical import Pair, base

_INDIRECT = frozenset({"double", "single", "boolean"})
"""The forms whose text SQL cannot turn into a value of the column's type again: the text of a double is its bits."""

_CHARSET = re.compile(r" character set (\w+) collate (\w+)$")
_FRACTION = re.compile(r"\((?:\d+,)?[1-9]\d*\)")

Expressions = Mapping["str | tuple[str, str]", str]

literal = PRESTO.text
"""Returns a text literal of standard SQL."""


@dataclass(frozen=True, eq=False)
class Dialect:
    """How one system writes what a comparison needs."""

    mark: str
    """The character around names."""
    texts: Expressions
    """The canonical text of a column's value; null for null."""
    values: Expressions
    """The value that has a canonical text, so that an index or file statistics find a key."""
    variant: Callable[[Pair], str]
    digest: str
    """The 32 hexadecimal digits of the MD5 of a text's UTF-8 bytes."""
    number: str
    """The number that 15 hexadecimal digits stand for, so that a sum of many does not overflow."""
    own: Expressions = field(default_factory=dict)
    """The text of a value as it is stored, or as its change stream has it, where equal values may have another text than the canonical one."""
    lake: bool = False
    literal: Callable[[str], str] = literal

    def quoted(self, name: str) -> str:
        return self.mark + name.replace(self.mark, self.mark * 2) + self.mark

    def name(self, pair: Pair) -> str:
        return self.quoted(pair.name if self.lake else pair.source)

    def text(self, pair: Pair) -> str:
        """Return an expression for the canonical text of a column's value."""
        return self._expression(self.texts, pair).format(v=self.name(pair))

    def own_text(self, pair: Pair) -> str | None:
        """Return an expression for a value's own text, or None where the lake keeps no text or the canonical one is the only one."""
        if base(pair.type) != "string" or pair.form == "text":
            return None
        expression = self.own.get((pair.form, self.variant(pair))) or self.own.get(pair.form) or self.own.get("")
        return expression and expression.format(v=self.name(pair))

    def operand(self, pair: Pair) -> str:
        """Return what is compared with `value` to look a key up: the column, or its text where its value cannot be made of the text."""
        return self.name(pair) if self._direct(pair) else self.text(pair)

    def value(self, pair: Pair, text: str) -> str:
        """Return an expression for the value that has this canonical text."""
        given = self.literal(text)
        charset = _CHARSET.search(pair.source_type)
        if charset and not self.lake and ("\\" in text or not text.isascii()):
            # MySQL refuses to compare a column with a character that its character set does not have, and with a text of another collation
            given = f"convert({given} using {charset[1]}) collate {charset[2]}"
        kind = pair.type if self.lake else pair.source_type
        return self._expression(self.values, pair).format(t=given, raw=text, type=kind) if self._direct(pair) else given

    def _direct(self, pair: Pair) -> bool:
        # a string in the lake may have other text than the canonical one
        return pair.form not in _INDIRECT and not (self.lake and base(pair.type) == "string" and pair.form != "text")

    def _expression(self, expressions: Expressions, pair: Pair) -> str:
        return expressions.get((pair.form, self.variant(pair))) or expressions.get(pair.form) or expressions[""]


# What no type of the lake holds (infinity, a number that is none) is null, as it is there. The session's time zone is UTC.
_PG_HOUR = "3600000000"
# hours apart from the rest, because a factor of an interval is a double; not days, which in some zones have 23 hours
_PG_MOMENT = f"('epoch'::%s + ({{t}}::bigint / {_PG_HOUR}) * interval '1 hour' + ({{t}}::bigint %% {_PG_HOUR}) * interval '1 microsecond')"
_PG_DOUBLE = "(('x' || encode(float8send({v}::%sdouble precision + 0), 'hex'))::bit(64)::bigint::text)"
POSTGRES = Dialect(
    mark='"',
    texts={
        "number": "(case when {v}::text not in ('NaN', 'Infinity', '-Infinity') then trim_scale({v})::text end)",
        # adding zero makes 0 of -0; a real is widened, which is exact
        "double": _PG_DOUBLE % "",
        "single": _PG_DOUBLE % "real::",
        "boolean": "({v}::int <> 0)::text",
        "date": "(case when isfinite({v}) then ({v} - date '1970-01-01')::text end)",
        # each part by itself: in PostgreSQL 13 the seconds with their fraction are a double
        "moment": "(case when isfinite({v}) then (extract(epoch from date_trunc('second', {v}))::bigint * 1000000 "
        "+ extract(microseconds from {v})::bigint % 1000000)::text end)",
        "bytes": "encode({v}, 'hex')",
        "padded": "rtrim({v}::text, ' ')",
        # as PostgreSQL prints an address: the cast to text adds /32 to a host
        ("text", "inet"): "abbrev({v})",
        "": "{v}::text",
    },
    values={
        "integer": "{t}::bigint",
        "date": "(date '1970-01-01' + {t}::int)",
        ("moment", "with time zone"): _PG_MOMENT % "timestamptz",
        "moment": _PG_MOMENT % "timestamp",
        "bytes": "decode({t}, 'hex')",
        "": "{t}::{type}",
    },
    variant=lambda pair: "with time zone" if pair.source_type.endswith("with time zone") else pair.source_type,
    # whatever the encoding of the database is
    digest="md5(convert_to({}, 'UTF8'))",
    # PostgreSQL sums bigints as numeric
    number="('x' || {})::bit(60)::bigint",
    # the cast of a char(n) to text takes its blanks off
    own={"number": "{v}::text", "padded": "textin(bpcharout({v}))"},
)

# The session has the SQL modes PIPES_AS_CONCAT and NO_BACKSLASH_ESCAPES, and the time zone UTC. A date with a zero month or day is null, as it is
# in the lake. A collation may find other keys too; the caller asks for keys by their text.
_MYSQL_TRIMMED = "trim(trailing '.' from trim(trailing '0' from cast({v} %sas char)))"
# no function returns the bits of a double, but those of a point end with them, the last byte first; adding zero makes 0 of -0
_MYSQL_DOUBLE = "conv(hex(reverse(substr(st_asbinary(point({v} + 0e0, 0)), 6, 8))), 16, -10)"


def _mysql_text(text: str) -> str:
    """Return a literal that means the same in a session with other SQL modes, such as Debezium's."""
    return f"convert(x'{text.encode().hex()}' using utf8mb4)" if "\\" in text else literal(text)


MYSQL = Dialect(
    mark="`",
    texts={
        # adding zero removes the zeros of ZEROFILL
        **dict.fromkeys(("integer", "number"), "cast({v} + 0 as char)"),
        ("number", "fraction"): _MYSQL_TRIMMED % "+ 0 ",
        **dict.fromkeys(("double", "single"), _MYSQL_DOUBLE),
        "boolean": "(case {v} + 0 <> 0 when 1 then 'true' when 0 then 'false' end)",
        "date": "cast(datediff({v}, '1970-01-01') as char)",
        "moment": "cast(timestampdiff(microsecond, '1970-01-01', {v}) as char)",
        "time": "cast({v} as char)",
        ("time", "fraction"): _MYSQL_TRIMMED % "",
        "bytes": "lower(hex({v}))",
        "padded": "rtrim(convert({v} using utf8mb4))",
        "": "convert({v} using utf8mb4)",
    },
    values={
        **dict.fromkeys(("integer", "number"), "{raw}"),
        "date": "(date '1970-01-01' + interval {raw} day)",
        "moment": "(timestamp '1970-01-01 00:00:00' + interval {raw} microsecond)",
        # in the session's zone, as the column is: Debezium's session has another
        ("moment", "zoned"): "from_unixtime({raw} * 0.000001)",
        "bytes": "x'{raw}'",
        "": "{t}",
    },
    variant=lambda pair: "zoned" if pair.source_type.startswith("timestamp") else "fraction" if _FRACTION.search(pair.source_type) else "",
    digest="md5({})",
    number="cast(conv({}, 16, 10) as unsigned)",
    literal=_mysql_text,
    own={("number", "fraction"): "cast({v} + 0 as char)", ("time", "fraction"): "cast({v} as char)"},
)

_SPARK_TRIMMED = "regexp_replace(regexp_replace({v}, '([.][0-9]*?)0+$', '$1'), '[.]$', '')"
# MySQL's ZEROFILL
_SPARK_DIGITS = f"regexp_replace({_SPARK_TRIMMED}, '^(-?)0+(?=[0-9])', '$1')"
# PostgreSQL's COPY writes t and f, MySQL a bit as a digit, or as its byte
_SPARK_BOOLEAN = (
    "CASE WHEN lower({v}) IN ('true', 't', '1', '\\u0001') THEN 'true' WHEN lower({v}) IN ('false', 'f', '0', '\\u0000') THEN 'false' ELSE {v} END"
)
# Spark has no function for the bits of a double; adding zero makes 0 of -0
_SPARK_DOUBLE = "(CASE WHEN {v} IS NOT NULL THEN reflect('java.lang.Double', 'doubleToLongBits', {v} + 0D) END)"
# text that is null in the source's form: none, no number, no moment, a day that no calendar has or that is too far
_SPARK_NULL = "(?i)^ *([+-]?inf(inity)?|nan|0000-.*|.*-00([- T].*)?|[+-]?[0-9]{{5,}}-.*)? *$"


def _spark(form: str, expression: str) -> dict[str | tuple[str, str], str]:
    """Return the expressions of a form: of text that it does not understand the text itself, so that a comparison notices it."""
    return {form: expression, (form, "string"): f"coalesce({expression}, CASE WHEN NOT {{v}} RLIKE '{_SPARK_NULL}' THEN {{v}} END)"}


_SPARK_NUMBER = f"(CASE WHEN {{v}} RLIKE '^-?[0-9]+([.][0-9]+)?$' THEN {_SPARK_DIGITS} WHEN NOT {{v}} RLIKE '{_SPARK_NULL}' THEN {{v}} END)"
SPARK = Dialect(
    mark="`",
    texts={
        **dict.fromkeys((("integer", "decimal"), ("number", "decimal")), f"format_number({{v}}, '0.{'#' * 38}')"),
        **dict.fromkeys((("integer", "string"), ("number", "string")), _SPARK_NUMBER),
        **dict.fromkeys(("integer", "number"), "cast({v} AS string)"),
        **_spark("double", _SPARK_DOUBLE.replace("{v}", "try_cast({v} AS double)")),
        **_spark("single", _SPARK_DOUBLE.replace("{v}", "try_cast(try_cast({v} AS float) AS double)")),
        "boolean": "lower(cast({v} AS string))",
        ("boolean", "string"): _SPARK_BOOLEAN,
        **_spark("date", "cast(datediff(try_cast({v} AS date), DATE'1970-01-01') AS string)"),
        **_spark("moment", "cast(unix_micros(try_cast({v} AS timestamp)) AS string)"),
        # Debezium's IsoTime ends in Z
        "time": _SPARK_TRIMMED.replace("{v}", "rtrim('Z', {v})"),
        "bytes": "lower(hex({v}))",
        "uuid": "lower({v})",
        "padded": "rtrim(' ', {v})",
        "": "{v}",
    },
    values={
        "date": "date_add(DATE'1970-01-01', try_cast({t} AS int))",
        "moment": "timestamp_micros(try_cast({t} AS bigint))",
        "bytes": "unhex({t})",
        "text": "{t}",
        "": "try_cast({t} AS {type})",
    },
    variant=lambda pair: base(pair.type),
    digest="md5({})",
    number="cast(conv({}, 16, 10) AS decimal(20, 0))",
    own={"": "{v}"},
    lake=True,
    literal=text_literal,
)


def _kinds(**types: str) -> dict[str, str]:
    return {kind.strip(): form for form, kinds in types.items() for kind in kinds.split(",")}


_POSTGRES_FORMS = _kinds(
    integer="smallint, integer, bigint, oid",
    number="numeric",
    double="double precision",
    single="real",
    boolean="boolean",
    date="date",
    moment="timestamp, timestamp without time zone, timestamp with time zone",
    time="time, time without time zone",
    bytes="bytea",
    uuid="uuid",
    padded="character, bpchar",
    text="text, character varying, json, jsonb, xml, citext, inet, cidr, macaddr, name",
)
_MYSQL_FORMS = _kinds(
    integer="tinyint, smallint, mediumint, int, bigint, year",
    number="decimal",
    double="double",
    single="float",
    boolean="bit",
    date="date",
    moment="datetime, timestamp",
    time="time",
    bytes="binary, varbinary, tinyblob, blob, mediumblob, longblob",
    padded="char",
    uuid="uuid",
    text="varchar, tinytext, text, mediumtext, longtext, enum, set, inet4, inet6",
)


def postgres_form(type_text: str, is_enum: bool = False) -> str | None:
    """Return the form of a type as `format_type()` prints it, or None: arrays, intervals, time with time zone, money, ranges, composite types.

    >>> postgres_form("numeric(12,2)"), postgres_form("timestamp(3) with time zone"), postgres_form("integer[]")
    ('number', 'moment', None)
    """
    if is_enum:
        return "text"
    if type_text.endswith("]") or (base(type_text) == "time" and type_text.endswith("with time zone")):
        return None
    return _POSTGRES_FORMS.get(base(type_text))


def mysql_form(type_text: str) -> str | None:
    """Return the form of a type, or None. `type_text`: `column_type` in information_schema, and ` character set X collate Y` behind it for
    text.

    None: several bits, geometries, and MySQL's `json`, whose text is another one in the binlog. (MariaDB's JSON is a longtext.)

    >>> mysql_form("decimal(12,2) unsigned"), mysql_form("bit(8)"), mysql_form("json")
    ('number', None, None)
    """
    kind = type_text.split("(")[0].split(" ")[0]
    return None if kind == "bit" and type_text != "bit(1)" else _MYSQL_FORMS.get(kind)
