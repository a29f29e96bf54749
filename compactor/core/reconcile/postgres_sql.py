"""The canonical forms in PostgreSQL's SQL (13 or newer)."""

from __future__ import annotations

from compactor.core.reconcile.canonical import (
    BOOLEAN,
    BYTES,
    DATE,
    DIRECT,
    DOUBLE,
    INTEGER,
    MOMENT,
    NUMBER,
    PADDED,
    SINGLE,
    TEXT,
    TIME,
    UUID,
    Pair,
    base,
)

_FORMS = {
    **dict.fromkeys(("smallint", "integer", "bigint", "oid"), INTEGER),
    "numeric": NUMBER,
    "double precision": DOUBLE,
    "real": SINGLE,
    "boolean": BOOLEAN,
    "date": DATE,
    **dict.fromkeys(("timestamp", "timestamp without time zone", "timestamp with time zone"), MOMENT),
    **dict.fromkeys(("time", "time without time zone"), TIME),
    "bytea": BYTES,
    "uuid": UUID,
    **dict.fromkeys(("character", "bpchar"), PADDED),
    **dict.fromkeys(("text", "character varying", "json", "jsonb", "xml", "citext", "inet", "cidr", "macaddr", "name"), TEXT),
}


def form(type_text: str, is_enum: bool = False) -> str | None:
    """Return the form of a type as `format_type()` prints it, or None: arrays, intervals, time with time zone, money, ranges, composite types.

    >>> form("numeric(12,2)"), form("timestamp(3) with time zone"), form("integer[]")
    ('number', 'moment', None)
    """
    if is_enum:
        return TEXT
    if type_text.endswith("]") or (base(type_text) == "time" and type_text.endswith("with time zone")):
        return None
    return _FORMS.get(base(type_text))


def quoted(name: str) -> str:
    """Return an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text literal. PostgreSQL's standard_conforming_strings is on."""
    return "'" + text.replace("'", "''") + "'"


class PostgresSql:
    """See `canonical.Sql`."""

    def name(self, pair: Pair) -> str:
        """Return the source's column."""
        return quoted(pair.source)

    def text(self, pair: Pair) -> str:
        """Return the canonical text. What no type of the lake holds (infinity, a number that is none) is null, as it is there."""
        value = self.name(pair)
        if pair.form == NUMBER:
            return f"(case when {value}::text not in ('NaN', 'Infinity', '-Infinity') then trim_scale({value})::text end)"
        if pair.form in (DOUBLE, SINGLE):
            # adding zero makes 0 of -0; a real is widened, which is exact
            number = f"{value}::real::double precision" if pair.form == SINGLE else f"{value}::double precision"
            return f"(('x' || encode(float8send({number} + 0), 'hex'))::bit(64)::bigint::text)"
        if pair.form == BOOLEAN:
            return f"({value}::int <> 0)::text"
        if pair.form == DATE:
            return f"(case when isfinite({value}) then ({value} - date '1970-01-01')::text end)"
        if pair.form == MOMENT:
            return f"(case when isfinite({value}) then round(extract(epoch from {value}) * 1000000)::bigint::text end)"
        if pair.form == BYTES:
            return f"encode({value}, 'hex')"
        if pair.form == PADDED:
            return f"rtrim({value}::text, ' ')"
        # as PostgreSQL prints an address: the cast to text adds /32 to a host
        return f"abbrev({value})" if pair.source_type == "inet" else f"{value}::text"

    def operand(self, pair: Pair) -> str:
        """Return the column, so that an index on the key is used."""
        return self.name(pair) if pair.form in DIRECT else self.text(pair)

    def value(self, pair: Pair, text: str) -> str:
        """Return a value of the column's type."""
        given = literal(text)
        if pair.form not in DIRECT:
            return given
        if pair.form == INTEGER:
            return f"{given}::bigint"
        if pair.form == DATE:
            return f"(date '1970-01-01' + {given}::int)"
        if pair.form == MOMENT:
            kind = "timestamptz" if pair.source_type.endswith("with time zone") else "timestamp"
            # the time zone of the session is UTC, so the epoch is the same for both types
            return f"({kind} '1970-01-01 00:00:00' + {given}::bigint * interval '1 microsecond')"
        if pair.form == BYTES:
            return f"decode({given}, 'hex')"
        return f"{given}::{pair.source_type}"

    def characters(self, text: str) -> str:
        """Return the number of characters."""
        return f"cast(length({text}) as varchar(10))"

    def digest(self, text: str) -> str:
        """Return the MD5 of the UTF-8 bytes, whatever the encoding of the database is."""
        return f"md5(convert_to({text}, 'UTF8'))"

    def number(self, digits: str) -> str:
        """Return a bigint. PostgreSQL sums bigints as numeric."""
        return f"('x' || {digits})::bit(60)::bigint"

    def piece(self, value: str, origin: int, width: int) -> str:
        """Return the number of the range."""
        return f"div({value}::numeric - ({origin}), {width})"
