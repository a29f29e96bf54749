"""The canonical forms in Spark's SQL."""

from __future__ import annotations

from compactor.core.catalog.ddl import quoted, text_literal
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

_TRIMMED = "0." + "#" * 38


def _without_zeros(value: str) -> str:
    """Return a text without the zeros, and the point, that end its fraction."""
    return f"regexp_replace(regexp_replace({value}, '([.][0-9]*?)0+$', '$1'), '[.]$', '')"


def _direct(pair: Pair) -> bool:
    """Return whether the column itself can be compared with a value."""
    return pair.form in DIRECT and (base(pair.type) != "string" or pair.form == TEXT)


class SparkSql:
    """See `canonical.Sql`."""

    def name(self, pair: Pair) -> str:
        """Return the view's column."""
        return quoted(pair.name)

    def text(self, pair: Pair) -> str:
        """Return the canonical text."""
        value, stored = self.name(pair), base(pair.type)
        if pair.form in (INTEGER, NUMBER):
            if stored == "decimal":
                return f"format_number({value}, '{_TRIMMED}')"
            number = f"(CASE WHEN {value} RLIKE '^-?[0-9]+([.][0-9]+)?$' THEN {_without_zeros(value)} END)"
            return number if stored == "string" else f"cast({value} AS string)"
        if pair.form in (DOUBLE, SINGLE):
            wide = f"try_cast(try_cast({value} AS float) AS double)" if pair.form == SINGLE else f"try_cast({value} AS double)"
            # Spark has no function for the bits of a double; adding zero makes 0 of -0
            return f"(CASE WHEN {wide} IS NOT NULL THEN reflect('java.lang.Double', 'doubleToLongBits', {wide} + 0D) END)"
        if pair.form == BOOLEAN:
            return f"lower(cast({value} AS string))"
        if pair.form == DATE:
            return f"cast(datediff(try_cast({value} AS date), DATE'1970-01-01') AS string)"
        if pair.form == MOMENT:
            return f"cast(unix_micros(try_cast({value} AS timestamp)) AS string)"
        if pair.form == TIME:
            return _without_zeros(value)
        if pair.form == BYTES:
            return f"lower(hex({value}))"
        if pair.form == UUID:
            return f"lower({value})"
        return f"rtrim(' ', {value})" if pair.form == PADDED else value

    def operand(self, pair: Pair) -> str:
        """Return the column, so that the files of other keys are skipped, unless its text is not the canonical one."""
        return self.name(pair) if _direct(pair) else self.text(pair)

    def value(self, pair: Pair, text: str) -> str:
        """Return a value of the type of `operand`."""
        given, stored = text_literal(text), base(pair.type)
        if not _direct(pair) or stored == "string":
            return given
        if stored == "date":
            return f"date_add(DATE'1970-01-01', cast({given} AS int))"
        if stored == "timestamp":
            return f"timestamp_micros(cast({given} AS bigint))"
        return f"unhex({given})" if stored == "binary" else f"try_cast({given} AS {pair.type})"

    def characters(self, text: str) -> str:
        """Return the number of characters."""
        return f"cast(length({text}) as varchar(10))"

    def digest(self, text: str) -> str:
        """Return the MD5."""
        return f"md5({text})"

    def number(self, digits: str) -> str:
        """Return a decimal."""
        return f"cast(conv({digits}, 16, 10) AS decimal(20, 0))"

    def piece(self, value: str, origin: int, width: int) -> str:
        """Return the number of the range."""
        return f"((cast({value} AS decimal(38, 0)) - cast('{origin}' AS decimal(38, 0))) div cast('{width}' AS decimal(38, 0)))"
