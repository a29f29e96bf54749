"""The canonical forms in the SQL of MySQL and MariaDB.

The session has the SQL modes PIPES_AS_CONCAT and NO_BACKSLASH_ESCAPES, and the time zone UTC (`compactor/reconcile/mysql.py`).
"""

from __future__ import annotations

import re

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
    Pair,
)

_FORMS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), INTEGER),
    "decimal": NUMBER,
    "double": DOUBLE,
    "float": SINGLE,
    "bit": BOOLEAN,
    "date": DATE,
    **dict.fromkeys(("datetime", "timestamp"), MOMENT),
    "time": TIME,
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), BYTES),
    "char": PADDED,
    **dict.fromkeys(("varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"), TEXT),
}
_WORD = re.compile(r"[a-z]+")
_CHARSET = re.compile(r" character set (\w+)$")
_FRACTION = re.compile(r"\((?:\d+,)?[1-9]\d*\)")


def form(type_text: str) -> str | None:
    """Return the form of a type, or None. `type_text`: `column_type` in information_schema, and ` character set X` behind it for text.

    None: several bits, geometries, and MySQL's `json`, whose text is another one in the binlog. (MariaDB's JSON is a longtext.)

    >>> form("decimal(12,2) unsigned"), form("bit(8)"), form("json")
    ('number', None, None)
    """
    word = _WORD.match(type_text)
    kind = word[0] if word else ""
    return None if kind == "bit" and type_text != "bit(1)" else _FORMS.get(kind)


def quoted(name: str) -> str:
    """Return an identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a text literal."""
    return "'" + text.replace("'", "''") + "'"


def _without_zeros(text: str) -> str:
    return f"trim(trailing '.' from trim(trailing '0' from {text}))"


class MysqlSql:
    """See `canonical.Sql`."""

    def name(self, pair: Pair) -> str:
        """Return the source's column."""
        return quoted(pair.source)

    def text(self, pair: Pair) -> str:
        """Return the canonical text. A date with a zero month or day is null, as it is in the lake."""
        value = self.name(pair)
        if pair.form == INTEGER:
            # adding zero removes the zeros of ZEROFILL
            return f"cast({value} + 0 as char)"
        if pair.form == NUMBER:
            return _without_zeros(f"cast({value} + 0 as char)") if _has_fraction(pair.source_type) else f"cast({value} + 0 as char)"
        if pair.form in (DOUBLE, SINGLE):
            # no function returns the bits of a double, but those of a point end with them, the last byte first; adding zero makes 0 of -0
            return f"conv(hex(reverse(substr(st_asbinary(point({value} + 0e0, 0)), 6, 8))), 16, -10)"
        if pair.form == BOOLEAN:
            return f"(case {value} + 0 <> 0 when 1 then 'true' when 0 then 'false' end)"
        if pair.form == DATE:
            return f"cast(datediff({value}, '1970-01-01') as char)"
        if pair.form == MOMENT:
            return f"cast(timestampdiff(microsecond, '1970-01-01', {value}) as char)"
        if pair.form == TIME:
            text = f"cast({value} as char)"
            return _without_zeros(text) if _has_fraction(pair.source_type) else text
        if pair.form == BYTES:
            return f"lower(hex({value}))"
        text = f"convert({value} using utf8mb4)"
        return f"rtrim({text})" if pair.form == PADDED else text

    def operand(self, pair: Pair) -> str:
        """Return the column, so that an index on the key is used."""
        return self.name(pair) if pair.form in DIRECT else self.text(pair)

    def value(self, pair: Pair, text: str) -> str:
        """Return a value of the column's type. A collation may find other keys too; the caller asks for keys by their text."""
        if pair.form in (INTEGER, NUMBER):
            return text
        if pair.form == DATE:
            return f"(date '1970-01-01' + interval {text} day)"
        if pair.form == MOMENT:
            # the time zone of the session is UTC, so this is a `timestamp`, too
            return f"(timestamp '1970-01-01 00:00:00' + interval {text} microsecond)"
        if pair.form == BYTES:
            return f"x'{text}'"
        charset = _CHARSET.search(pair.source_type)
        # the server refuses to compare a column with a character that its character set does not have
        return literal(text) if text.isascii() or not charset else f"convert({literal(text)} using {charset[1]})"

    def characters(self, text: str) -> str:
        """Return the number of characters."""
        return f"cast(char_length({text}) as char)"

    def digest(self, text: str) -> str:
        """Return the MD5. The canonical texts are UTF-8."""
        return f"md5({text})"

    def number(self, digits: str) -> str:
        """Return a bigint. The sum of many is a decimal."""
        return f"cast(conv({digits}, 16, 10) as unsigned)"

    def piece(self, value: str, origin: int, width: int) -> str:
        """Return the number of the range. The difference of two unsigned numbers would not be negative, that of decimals is."""
        return f"((cast({value} as decimal(40, 0)) - ({origin})) div {width})"


def _has_fraction(type_text: str) -> bool:
    """Return whether a decimal or a time has digits after the point.

    >>> [_has_fraction(text) for text in ("decimal(12,2)", "decimal(12,0) unsigned", "time(3)", "time")]
    [True, False, True, False]
    """
    return bool(_FRACTION.search(type_text))
