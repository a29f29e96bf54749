"""Semantic types: what a producer says of a value beside its type, such as that a number is a day. Here is how each is stored, and which default of a
column is a constant.

The names are those of Debezium (https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-data-types) and Kafka
Connect; Avro's logical types have an equivalent among them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from compactor.core.model import types
from compactor.core.model.position import decimal_text

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
DIGITS = "decimal"
"""CockroachDB's name of a decimal: the schema says float64, and the JSON number has all digits."""
NUMBER_OR_BYTES = "text of a decimal, or base64 of its bytes"
"""Semantic type of a declared decimal in JSON text, until the column's values show which of both it is (`spark/rows/json_writers.py`)."""

TARGETS = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "timestamp",
    "org.apache.kafka.connect.data.Timestamp": "timestamp",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.NanoTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoTimestamp": "timestamp",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.Time": "string",
    "org.apache.kafka.connect.data.Time": "string",
    "io.debezium.time.MicroTime": "string",
    "io.debezium.time.NanoTime": "string",
    VARIABLE_DECIMAL: "string",
}
"""Semantic type → Hive type of the stored values. Hive has no time of day, so that it is stored as text `HH:MM:SS[.ffffff]`."""

_SECOND = {
    "io.debezium.time.Time": 10**3,
    "org.apache.kafka.connect.data.Time": 10**3,
    "io.debezium.time.MicroTime": 10**6,
    "io.debezium.time.NanoTime": 10**9,
}
"""Semantic type of a time of day → its units in a second."""
_DAY_ZERO, _FIRST_DAY = date(1970, 1, 1), date(1582, 10, 15)
"""Engines count days before the second one in different calendars."""
_DIGITS_MAX = 1000
"""Longer numbers are no defaults: to write the digits of 1E+999999999 takes the driver's memory."""
_UUID, _NO_UUID = "io.debezium.data.Uuid", "00000000-0000-0000-0000-000000000000"

_PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), (int,)),
    **dict.fromkeys(("float", "double"), (int, float, Decimal)),
}
"""Stored type → Python's types of a default in the schema's JSON."""


def constant(default: Any, stored: types.Type, semantic: str, scale: int, packed: Callable[[str], bytes]) -> Any:
    """Return a column's default as a value of its stored type, or None if it is no constant.

    Zero stands for a function in days, times and uuids: Debezium sends it for now() and gen_random_uuid(). A timestamp has no constant, because no
    SQL that Spark, Hive and Trino all read has one. `packed` decodes bytes in the schema's text: Connect uses base64, Avro one character per byte.
    """
    if semantic == DECIMAL:
        return _decimal(default, scale, packed)
    if stored == ("date",):
        return _day(default)
    if semantic in _SECOND:
        return _time_of_day(default, _SECOND[semantic])
    if semantic in TARGETS or (semantic == _UUID and default == _NO_UUID) or type(default) not in _PLAIN.get(stored[0], ()):
        return None
    try:
        # what rows with the value have, in the double that stores both
        default = struct.unpack("f", struct.pack("f", default))[0] if stored == ("float",) else default
    except (OverflowError, struct.error):
        return None
    return float(default) if isinstance(default, Decimal) else default


def _decimal(default: Any, scale: int, packed: Callable[[str], bytes]) -> str | None:
    places = max(scale, 0)
    if isinstance(default, str) and default:
        return decimal_text(int.from_bytes(packed(default), "big", signed=True) * 10 ** max(-scale, 0), places)
    if type(default) not in (int, Decimal) or max(abs(Decimal(default).adjusted()), places) > _DIGITS_MAX:
        return None
    # `decimal.format: NUMERIC` of Connect's JSON
    digits = Fraction(default) * 10**places
    return decimal_text(int(digits), places) if digits.denominator == 1 else None


def _day(default: Any) -> str | None:
    """Return a day, given as a number since 1970-01-01 or as ISO text, as ISO text."""
    if isinstance(default, str):
        day = default.removesuffix("Z")
        return day if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", day) and _FIRST_DAY.isoformat() <= day != _DAY_ZERO.isoformat() else None
    if type(default) is not int or default == 0:
        return None
    return (_DAY_ZERO + timedelta(default)).isoformat() if (_FIRST_DAY - _DAY_ZERO).days <= default <= (date.max - _DAY_ZERO).days else None


def _time_of_day(default: Any, second: int) -> str | None:
    """Return a time of day, in parts of a second, as it is stored (`spark/decode/conversions.py`)."""
    if type(default) is not int or default == 0:
        return None
    micros = default * 10**6 // second
    seconds, fraction = divmod(abs(micros), 10**6)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text
