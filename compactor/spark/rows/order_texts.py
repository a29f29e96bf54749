"""Text of order columns: which values sort otherwise than what they mean. The first run refuses them, later ones make their records invalid."""

from __future__ import annotations

from compactor.core.model.position import payload_column
from compactor.spark.sql import END, cited, let, literal

_NUMBER = "[+-]?([0-9]+[.,][0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-][0-9]+|[0-9][eE][0-9]{1,3})"
"""A number with a fraction (9.5 and 10.5) or an exponent."""
_PADDED = "[+]([1-9][0-9]*|0)|([1-9][0-9]{0,6}|0) +| ([1-9][0-9]{0,6}|0)"
"""A whole number with a sign, with blanks behind it, or with one before it, as after a comma. Longer ones may be times, all of one width."""
_DAY_FIRST = "[0-9]{1,2}[-/.]([0-9]{1,2}|[A-Za-z]{3})[-/.][0-9]{2,4}([^0-9].*)?"
_DAY_UNPADDED = "[0-9]{4}[-/]([0-9][-/].*|[0-9]{2}[-/][0-9]([^0-9].*)?)"
_HOUR_UNPADDED = "(.*[T ])?[0-9]:[0-5][0-9](:[0-5][0-9])?([^0-9:].*)?"
_HALF_DAY = ".*[0-9]:[0-5][0-9](:[0-9]{2}([.,][0-9]+)?)? ?(?i:[AP][.]?M)([ .].*)?"
_WEEKDAY = "(?i:(mon|tues?|wed(nes)?|thu(rs?)?|fri|sat(ur)?|sun)(day)?)[.,]? +[0-9].*"
_MONTHS = "jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?"
_MONTH = f"(?=.*[0-9])(.*[0-9](st|nd|rd|th)?[.,]?[ /-]+|([A-Za-z]+[., ]+)?)(?i:{_MONTHS})([^A-Za-z0-9].*)?"
"""The name of a month first, after a word (Fri Nov 20), or after a number (20 Nov, 2026-Nov-20)."""
_ZONE = r"([A-Z]{2,5}|[A-Za-z]+/[A-Za-z_/+-]+[0-9]*|(UTC|GMT) ?[+-].*|\[.*\])"
_ZONED = f".*[0-9]:[0-5][0-9](:[0-9]{{2}}([.,][0-9]+)?)?(Z| ?[+-][0-9:]+)? ?(?!(UTC|GMT){END}){_ZONE}"
"""A time with the name of a zone. Offsets have been applied (`decode/order.py`); UTC alone sorts."""
_FAR = "[0-9]{4,}-[0-9]{2}-[0-9]{2}.* BC|([+-][0-9]{4,}|[1-9][0-9]{4,})-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])([T ].*)?"
"""A date before the year 0 or after 9999."""
_OFFSET = " ?[+-](?!00(:?00)?$)[0-9:]+"
_BASIC = f"[0-9]{{8}}[Tt][0-9]{{4,6}}([.,][0-9]+)?{_OFFSET}"
_OTHER_TIMES = f"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ Tt]([0-9]{{2}}|[0-9:]+[.,][0-9]{{10,}}|24:[0-9:.,]+){_OFFSET}"
"""Moments with an offset in forms in which `decode/order.py` does not apply it: basic, without minutes, with more than nine digits of a second, at
24:00.
"""
_BINLOG = "[A-Za-z][A-Za-z0-9_-]*[.][0-9]{6}[:/,; ]+[1-9][0-9]{0,8}"
"""A file of MySQL's binlog and a place in it, whose digits grow. With ten of them all may have one width."""
_BASE64 = "([A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(==|[A-Za-z0-9+/]=)"
_NUMBERS = r'\[ *(null|"?[0-9]+"?)( *, *(null|"?[0-9]+"?))* *\]'
_DATES = (_DAY_FIRST, _DAY_UNPADDED, _HOUR_UNPADDED, _HALF_DAY, _WEEKDAY, _MONTH, _ZONED, _FAR, _BASIC, _OTHER_TIMES)
_FORMS = (_NUMBER, _PADDED, *_DATES, _BINLOG, _BASE64, _NUMBERS)
_MISORDERED = f"^({'|'.join(_FORMS)}){END}"
_EPOCH = f"^1[0-9]{{9}}([0-9]{{3}}){{0,3}}{END}"
"""A time as a number of seconds since 1970, or of parts of them. Other digits may be hexadecimal."""
ADVICE = (
    "numbers in `types:`, such as {{{0}: decimal(18,6)}}, have the source write dates as 2026-01-31, times with 24 hours, UTC or an offset, "
    "and bytes as hexadecimal, or set another column"
)


def column_of(name: str) -> str | None:
    """Return the source's column that holds the text of an order column; None if the connector itself writes it."""
    return name if name.startswith("source.") else payload_column(name)


def is_number(value: str) -> str:
    """SQL: whether text is a whole number that a decimal holds."""
    return f"({value}) RLIKE '^-?[0-9]{{1,38}}{END}'"


def is_hexadecimal(value: str) -> tuple[str, str]:
    """SQL: whether text is hexadecimal with small letters, if any, and with large ones. With as many digits each, such texts sort as numbers do."""
    small, large = (f"({value}) RLIKE '^[0-9{letters}]{{8,}}{END}'" for letters in ("a-f", "A-F"))
    return small, large


def is_misordered(value: str) -> str:
    """SQL: whether text sorts otherwise than what it means."""
    return f"({value}) RLIKE {literal(_MISORDERED)}"


def problem(name: str, value: str, may_be_null: str) -> str:
    """SQL: why a record of a table that compares the order column `name` as text is invalid, or null: it is empty, a time as a number, or misordered.

    `value` is SQL for the text, `may_be_null` for whether it may be empty.
    """
    begins, ends = (
        literal(f"order_by column {name} holds '"),
        literal(f"', expected text that sorts as in earlier runs. Declare {ADVICE.format(name)}"),
    )
    test = f"(trim(_o) = '' AND NOT ({may_be_null})) OR _o RLIKE {literal(_EPOCH)} OR {is_misordered('_o')}"
    return let(value, "_o", f"CASE WHEN _op IS NOT NULL AND ({test}) THEN concat({begins}, {cited('_o')}, {ends}) END")
