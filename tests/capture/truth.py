"""PostgreSQL's own rows at the end of each captured hour, and the comparison of a view's rows with them.

`truth(hour)` reads them, `differences` compares, `IMPOSSIBLE` lists the cells that the stream itself loses. A view's rows come as
`compactor sql --output json` prints them, parsed with `parse_float=decimal.Decimal` (a float loses digits of a decimal).

Both sides become comparable values by the PostgreSQL type of the column. No type is skipped; where an encoding keeps less than
PostgreSQL does, the comparison keeps that much and no more: interval as microseconds (a month is 30.4375 days, as for Debezium),
time with time zone in UTC, point as its two numbers, money as a number, bit strings as the number they write.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import Any, NamedTuple

from . import config, landing

ROW_MISSING = "(row missing)"
ROW_EXTRA = "(row extra)"
ROW_DOUBLED = "(row doubled)"

# PostgreSQL types that are not compared at all, with the reason: none.
SKIPPED: dict[str, str] = {}

_DAY = 86_400_000_000  # microseconds
_MONTH_DAYS = Decimal("30.4375")
_WIDE = Context(prec=1000)


class TableTruth(NamedTuple):
    """One table at the end of an hour: columns are (name, PostgreSQL type), key is empty where rows have none."""

    table: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    rows: tuple[Mapping[str, str | None], ...]


class Difference(NamedTuple):
    """One cell or row that differs. key holds comparable key values; of a keyless table it is the whole row.

    column may be ROW_MISSING, ROW_EXTRA or ROW_DOUBLED: expected and found are then numbers of rows.
    """

    table: str
    key: tuple[Any, ...]
    column: str
    expected: Any
    found: Any


@cache
def truth(hour: int) -> dict[str, TableTruth]:
    """Every table's rows at the end of an hour, by configured name. A table not yet created is not there."""
    home = landing.DATA / f"truth/hour={hour:02}"
    described = json.loads((home / "_tables.json").read_text(encoding="utf-8"))
    rows: dict[str, list[Mapping[str, str | None]]] = {}
    with gzip.open(home / "_all.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            rows.setdefault(found["table"], []).append(found["row"])
    return {
        name: TableTruth(
            name,
            tuple((column["name"], column["type"]) for column in described[source]["columns"]),
            config.keys()[name],
            tuple(rows.get(source, ())),
        )
        for name, source in landing.tables().items()
        if source in described
    }


def family(form: str) -> str:
    """The group of forms that lose the same cells."""
    if form.startswith("debezium_json_noschema"):
        return "debezium_json_noschema"
    for name in ("debezium_json", "flat", "debezium_avro", "debezium_parquet", "dms", "wal2json_v1", "wal2json_v2"):
        if form.startswith(name):
            return name
    raise ValueError(f"unknown form {form!r}")


def view_column(column: str, form: str) -> str:
    """The name a column has in the view, in the Avro forms that of Avro's spelling."""
    return config.stored_name(config.avro_name(column) if family(form) in ("debezium_avro", "debezium_parquet") else column)


# ---- comparing -------------------------------------------------------------------------------------------------------


def differences(rows: Iterable[Mapping[str, Any]], table: TableTruth, form: str) -> list[Difference]:
    """What differs between a view's rows and PostgreSQL's. Columns that PostgreSQL does not have (any more) are ignored."""
    expected = [tuple(from_truth(row[name], kind) for name, kind in table.columns) for row in table.rows]
    names = [(view_column(name, form), kind) for name, kind in table.columns]
    found = [tuple(from_view(row.get(name), kind, form) for name, kind in names) for row in rows]
    if not table.key:
        return _bags(expected, found, table.table)
    places = [[name for name, _ in table.columns].index(column) for column in table.key]
    return _keyed(_by_key(expected, places), _by_key(found, places), table)


def _by_key(rows: list[tuple[Any, ...]], places: list[int]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(tuple(row[place] for place in places), []).append(row)
    return found


def _bags(expected: list[tuple[Any, ...]], found: list[tuple[Any, ...]], table: str) -> list[Difference]:
    left, right = Counter(expected), Counter(found)
    rows = sorted(left.keys() | right.keys(), key=repr)
    return [
        Difference(table, row, ROW_MISSING if left[row] > right[row] else ROW_EXTRA, left[row], right[row]) for row in rows if left[row] != right[row]
    ]


def _keyed(expected: dict[Any, list[Any]], found: dict[Any, list[Any]], table: TableTruth) -> list[Difference]:
    differing = []
    for key in sorted(expected.keys() | found.keys(), key=repr):
        left, right = expected.get(key, []), found.get(key, [])
        if not right:
            differing.append(Difference(table.table, key, ROW_MISSING, len(left), 0))
        elif not left:
            differing.append(Difference(table.table, key, ROW_EXTRA, 0, len(right)))
        else:
            if len(right) > 1:
                differing.append(Difference(table.table, key, ROW_DOUBLED, 1, len(right)))
            differing += [
                Difference(table.table, key, name, wanted, got)
                for (name, _), wanted, got in zip(table.columns, left[0], right[0], strict=True)
                if wanted != got
            ]
    return differing


# ---- PostgreSQL's text -> comparable ---------------------------------------------------------------------------------


def from_truth(text: str | None, kind: str) -> Any:
    """PostgreSQL's text of a value of this type as a comparable, hashable value."""
    if text is None:
        return None
    if kind.endswith("[]"):
        return _array(text, lambda member: from_truth(member, kind[:-2]))
    if kind in ("bit(1)", "bit(5)") or kind.startswith("bit varying"):
        return int(text or "0", 2)
    if kind == "point":
        x, y = text.strip("()").split(",")
        return float(x), float(y)
    if kind == "hstore":
        pairs = re.findall(r'"((?:[^"\\]|\\.)*)"=>(NULL|"((?:[^"\\]|\\.)*)")', text)
        return frozenset((_unescape(key), None if value == "NULL" else _unescape(inner)) for key, value, inner in pairs)
    if kind == "bytea":
        return bytes.fromhex(text.removeprefix("\\x"))
    return _scalar(text, kind)


def _array(text: str, member: Callable[[str | None], Any]) -> tuple[Any, ...]:
    """PostgreSQL's array text, of any depth; a lower bound (`[0:1]={..}`) is not part of the value."""
    tokens = iter(re.findall(r'\{|\}|"(?:[^"\\]|\\.)*"|[^{},"]+', text[text.index("{") :]))
    next(tokens)

    def members() -> tuple[Any, ...]:
        found: list[Any] = []
        for token in tokens:
            if token == "}":
                break
            if token == "{":
                found.append(members())
            elif token.startswith('"'):
                found.append(member(_unescape(token[1:-1])))
            else:
                found.append(member(None if token == "NULL" else token))
        return tuple(found)

    return members()


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


# ---- a view's value -> comparable ------------------------------------------------------------------------------------


def from_view(value: Any, kind: str, form: str) -> Any:
    """A value as `sql --output json` prints it as a comparable, hashable value of this PostgreSQL type.

    What cannot be read as that type becomes a value that equals nothing PostgreSQL has.
    """
    if value is None:
        return None
    try:
        return _view(value, kind, form)
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError):
        return "unreadable", kind, repr(value)


def _view(value: Any, kind: str, form: str) -> Any:
    if family(form) == "dms" and isinstance(value, str):
        if kind.endswith("[]") or kind == "point":  # JSON there
            value = json.loads(value, parse_float=Decimal)
        elif kind == "bit(1)":
            return int(value == "true")
    if kind.endswith("[]"):
        if not isinstance(value, list):
            raise TypeError("not an array")
        return tuple(from_view(member, kind if isinstance(member, list) else kind[:-2], form) for member in value)
    if form in landing.WAL2JSON and isinstance(value, str) and (kind.startswith("bit") or kind in ("point", "hstore", "addr")):
        return from_truth(value, kind)  # PostgreSQL's own text
    if kind.startswith("bit"):
        if isinstance(value, str):
            return int.from_bytes(base64.b64decode(value, validate=True), "little")
        return int(value)
    if kind == "point":
        return float(value["x"]), float(value["y"])
    if kind == "hstore":
        pairs = json.loads(value) if isinstance(value, str) else value
        return frozenset(pairs.items())
    if kind == "bytea":
        return base64.b64decode(value, validate=True)
    if kind == "addr":  # a composite type: Debezium sends the bytes of its text
        return base64.b64decode(value, validate=True).decode()
    if kind.startswith(("numeric", "money")):
        return _view_number(value, kind, form)
    if isinstance(value, bool) and kind != "boolean":
        return str(value).lower()
    if isinstance(value, int) and not isinstance(value, bool):
        return _view_integer(value, kind)
    return _scalar(value if isinstance(value, str) else value if kind == "boolean" else str(value), kind)


def _view_number(value: Any, kind: str, form: str) -> Any:
    if isinstance(value, Mapping):  # Debezium's VariableScaleDecimal, kept as it is
        return _unscaled(value["value"], int(value["scale"]))
    if isinstance(value, str) and family(form) == "debezium_json_noschema":  # base64 whose scale only the source's type has
        scale = re.search(r",(\d+)\)", kind)
        return _unscaled(value, int(scale[1]) if scale else 2 if kind == "money" else 0)
    return _number(str(value))


def _unscaled(text: str, scale: int) -> Decimal:
    whole = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    return Decimal(whole).scaleb(-scale, _WIDE)


def _view_integer(value: int, kind: str) -> Any:
    """An integer may count days, milliseconds or microseconds, as Debezium's adaptive times do."""
    if kind == "date":
        return value
    if kind.startswith("time"):
        return value * 1000 if re.match(r"\w+\([0-3]\)", kind) else value
    if kind == "interval":
        return value
    return _scalar(str(value), kind)


# ---- both ------------------------------------------------------------------------------------------------------------


def _scalar(value: Any, kind: str) -> Any:
    if kind in ("integer", "bigint", "smallint", "oid"):
        return int(value)
    if kind.startswith(("numeric", "money")):
        return _number(value)
    if kind == "real":
        return _float(value, single=True)
    if kind == "double precision":
        return _float(value, single=False)
    if kind == "boolean":
        return {"t": True, "true": True, "f": False, "false": False}[str(value).lower()]
    if kind == "date":
        return _date(value)
    if kind.startswith("timestamp"):
        return _timestamp(value)
    if kind.startswith("time"):
        return _time(value)
    if kind == "interval":
        return _interval(value)
    return str(value)


_SPECIAL = {"nan": "NaN", "infinity": "Infinity", "-infinity": "-Infinity"}
_SPECIAL |= {"positive_infinity": "Infinity", "negative_infinity": "-Infinity"}  # Debezium's decimals as text


def _number(text: str) -> Decimal | str:
    return _SPECIAL.get(text.lower()) or Decimal(text.replace("$", "").replace(",", ""))


def _float(text: str, *, single: bool) -> float | str:
    special = _SPECIAL.get(text.lower())
    if special:
        return special
    return float(struct.unpack("f", struct.pack("f", float(text)))[0]) if single else float(text)


def epoch_days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the proleptic Gregorian calendar with a year 0; Python's own dates end at the years 1 and 9999."""
    shifted = year - (month <= 2)
    era, within = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + within * 365 + within // 4 - within // 100 + day_of_year - 719_468


def _date(text: str) -> int | str:
    return _SPECIAL.get(text.lower()) or _calendar_day(text)


def _calendar_day(text: str) -> int:
    found = re.fullmatch(r"([+-]?\d+)-(\d\d)-(\d\d)Z?( BC)?", text)
    if not found:
        raise ValueError(f"not a date: {text!r}")
    year = int(found[1])
    return epoch_days(1 - year if found[4] else year, int(found[2]), int(found[3]))


def _timestamp(text: str) -> int | str:
    if text.lower() in _SPECIAL:
        return _SPECIAL[text.lower()]
    era = " BC" if text.endswith(" BC") else ""
    day, clock = re.split("[T ]", text.removesuffix(" BC"), maxsplit=1)
    micros, offset = _clock(clock)
    return _calendar_day(day + era) * _DAY + micros - offset


def _time(text: str) -> int:
    micros, offset = _clock(text)
    return (micros - offset) % _DAY if offset else micros


def _clock(text: str) -> tuple[int, int]:
    """A time of day and its offset from UTC, in microseconds."""
    found = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?", text)
    if not found:
        raise ValueError(f"not a time: {text!r}")
    seconds = (int(found[1]) * 60 + int(found[2])) * 60 + int(found[3] or 0)
    offset = (int(found[6] or 0) * 60 + int(found[7] or 0)) * 60_000_000
    return seconds * 1_000_000 + int((found[4] or "").ljust(6, "0")[:6]), -offset if found[5] == "-" else offset


def _interval(text: str) -> int:
    found = re.fullmatch(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?", text)
    if not found:
        raise ValueError(f"not an interval: {text!r}")
    years, months, days, hours, minutes, seconds = (Decimal(part or 0) for part in found.groups())
    whole_days = (years * 12 + months) * _MONTH_DAYS + days
    return int((((whole_days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000)


# ---- what no merger can get right ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Impossible:
    """Cells of one column that differ because the stream does not carry them.

    keys: exactly these rows; None: any row for which `where` holds. hours: at the end of which it differs.
    certain: False where a merger with another policy or type may be right, so `missing` does not ask for the difference.
    """

    table: str
    column: str
    keys: frozenset[tuple[Any, ...]] | None
    hours: range
    reason: str
    certain: bool = True
    where: Callable[[Difference], bool] | None = None

    def covers(self, difference: Difference, hour: int) -> bool:
        """Whether this entry explains a difference found at the end of an hour."""
        return (
            difference.table == self.table
            and difference.column == self.column
            and hour in self.hours
            and (self.keys is None or difference.key in self.keys)
            and (self.where is None or self.where(difference))
        )


def unexpected(found: Iterable[Difference], form: str, hour: int) -> list[Difference]:
    """The differences that no entry of IMPOSSIBLE explains: faults of the merger."""
    listed = IMPOSSIBLE[family(form)]
    return [difference for difference in found if not any(entry.covers(difference, hour) for entry in listed)]


def missing(found: Iterable[Difference], form: str, hour: int, tables: Iterable[str] | None = None) -> list[tuple[str, str, tuple[Any, ...]]]:
    """The (table, column, key) that IMPOSSIBLE lists as certain and that are right; tables: those compared (default: all)."""
    seen = {(difference.table, difference.column, difference.key) for difference in found}
    compared = None if tables is None else set(tables)
    return [
        (entry.table, entry.column, key)
        for entry in IMPOSSIBLE[family(form)]
        if entry.certain and entry.keys is not None and hour in entry.hours and (compared is None or entry.table in compared)
        for key in sorted(entry.keys, key=repr)
        if (entry.table, entry.column, key) not in seen
    ]


def _ids(*numbers: int) -> frozenset[tuple[Any, ...]]:
    return frozenset((number,) for number in numbers)


def _from(first: int, last: int = 8) -> range:
    return range(first, last + 1)


_NO_DEFAULT = "ADD COLUMN ... DEFAULT makes no events and this form carries no schema with the default: old rows read null"
_SCORE_OLD = _ids(1, 2, 3, 18, 19, 20)  # rows of evolve that no event touches after score was added
# Students that no event touches between the column email and the incremental snapshot; 6 is touched in hour 05.
_EMAIL_TOUCHED = {4, 5, 10, 11, 12, 14, 15, *range(25, 100, 10)}  # or deleted
_EMAIL_OLD = _ids(*(set(range(1, 101)) - _EMAIL_TOUCHED - {6}), 10010, 10011, 10012, 3_000_000_000)

# In every form.
_ALWAYS = (
    Impossible("type_zoo", "arr2d", _ids(1), _from(0), "a two-dimensional array is sent as [null, null]"),
    Impossible("type_zoo", "moods", _ids(1), _from(0, 0), "an array of an enum is sent as null"),
    Impossible("type_zoo", "gen", _ids(3), _from(1), "a generated column is in the snapshot and absent from the stream"),
    Impossible("type_zoo", "gen", _ids(1), _from(1), "as above; an absent column may keep its old value", certain=False),
    Impossible("time_edge", "d", _ids(5), _from(0), "dates before 1582-10-15 come 10 days off in the snapshot"),
    Impossible("time_edge", "d", _ids(1, 20, 21), _from(5), "an infinite date is sent as a day no date type has", certain=False),
    Impossible("student", "birth_date", _ids(6), _from(5), "an infinite date is sent as a day no date type has", certain=False),
    Impossible(
        "time_edge",
        "ts",
        _ids(20, 21),
        _from(5),
        "infinity is sent as a moment no timestamp type has",
        certain=False,
    ),
    Impossible("evolve", "remark", _ids(1, 2, 3), _from(4, 7), "RENAME COLUMN makes no events and looks like DROP and ADD"),
    Impossible("evolve_volatile", "tok", _ids(2, 3, 4, 5, 6), _from(4, 7), "the values of a volatile default make no events"),
    Impossible("evolve_volatile", "at", _ids(2, 3, 4, 5, 6), _from(4, 7), "the values of a volatile default make no events"),
    Impossible("toast_def", "body", _ids(4), _from(3), "the text equals the placeholder of an unchanged value"),
    Impossible("toast_full", "body", _ids(4), _from(3), "as above; right if told that no placeholders come", certain=False),
)
_OVERFLOW = (Impossible("time_edge", "ts", _ids(24), _from(5), "294276-12-31 overflows the microseconds sent"),)
_NO_NAN = (
    Impossible("num_special", "n20", _ids(1), _from(5), "NaN of a numeric is sent as null"),
    Impossible("num_special", "n", _ids(2, 3, 4), _from(5), "NaN and infinity of a numeric are sent as null"),
)
_TYPED_RANGE = (
    Impossible("time_edge", "tstz", _ids(1, 20, 21, 24), _from(5), "sent as text, but beyond a timestamp type", certain=False),
    Impossible("student", "enrolled_at", _ids(6), _from(5), "sent as text, but beyond a timestamp type", certain=False),
)
_NO_DEFAULTS = (
    Impossible("evolve", "score", _SCORE_OLD, _from(4, 7), _NO_DEFAULT),
    Impossible("student", "email", _EMAIL_OLD, _from(4, 7), _NO_DEFAULT),
    Impossible("student", "email", _ids(6), _from(4, 4), _NO_DEFAULT),
)
_NULL_AS_DEFAULT = (Impossible("evolve", "score", _ids(15), _from(4), "the converter sends the default in place of NULL"),)

_SCALE_GONE = (
    Impossible(
        "evolve",
        "price",
        _ids(1, 2, 3, 4, 5, 18, 19, 20, 21, 22),
        _from(4, 7),
        "a decimal without schema has no scale: rows written at scale 2 are not to be told from those at scale 4",
    ),
)


def _audit(second: int, actor: str, amount: str | None, payload: str | None = None) -> tuple[Any, ...]:
    """A row of audit_log as comparable values."""
    return (_timestamp(f"2024-03-05T09:00:{second:02}Z"), actor, "login", None if amount is None else Decimal(amount), payload)


_AUDIT_BEFORE = frozenset(_audit(second, "u1", {2: "4", 8: "16"}.get(second)) for second in (0, 2, 3, 5, 6, 8, 9))
_AUDIT_AFTER = frozenset(_audit(second, "u1", "2") for second in (0, 2, 3, 5, 6, 8, 9))
_DUP, _DUP2 = _audit(0, "dup", "1", "{}"), _audit(0, "dup2", "1", "{}")
_NO_BEFORE = "a flattened update does not say which row of a table without key it replaced: the old row stays"
_LOST = "as above; what becomes of the new row, and of a delete, is the merger's policy"
_TRUNCATED = "ExtractNewRecordState drops TRUNCATE, and format 1 of wal2json writes nothing for it"
_NO_TRUNCATE = (
    Impossible("trunc_child", ROW_EXTRA, _ids(2, 3, 4, 5), _from(5), _TRUNCATED),
    Impossible("trunc_parent", ROW_EXTRA, _ids(2, 3, 4, 5), _from(5), _TRUNCATED),
    Impossible("trunc_solo", ROW_EXTRA, _ids(1, 2, 3, 6, 7, 8), _from(5), _TRUNCATED),
)
_FLAT_ONLY = (
    Impossible("time_edge", "t", _ids(8), _from(0), "24:00:00 is sent as 00:00:00"),
    Impossible("toast_def", "blob", _ids(106), _from(2), "an unchanged bytea is sent as null"),
    Impossible("toast_def", "blob", _ids(1, 2, 4), _from(3), "an unchanged bytea is sent as null"),
    *_NO_TRUNCATE,
    Impossible("audit_log", ROW_EXTRA, _AUDIT_BEFORE, _from(1), _NO_BEFORE),
    Impossible("audit_log", ROW_MISSING, _AUDIT_AFTER, _from(1), _LOST, certain=False),
    Impossible("audit_log", ROW_EXTRA, frozenset({_DUP}), _from(2), _NO_BEFORE),
    Impossible("audit_log", ROW_EXTRA, frozenset({_DUP}), _from(1, 1), _LOST, certain=False),
    Impossible("audit_log", ROW_EXTRA, frozenset({_DUP2}), _from(2), _LOST, certain=False),
    Impossible("audit_log", ROW_MISSING, frozenset({_DUP2}), _from(2), _LOST, certain=False),
    Impossible("copied_nopk", ROW_EXTRA, frozenset({("same", 1)}), _from(1), _NO_BEFORE),
    Impossible("copied_nopk", ROW_MISSING, frozenset({("same", 2)}), _from(1), _LOST, certain=False),
    Impossible(
        "audit_log",
        ROW_EXTRA,
        None,
        _from(7),
        "re-delivered after the crash; a flattened row without key has no identity (the rows of one COPY share lsn and content)",
        certain=False,
        where=lambda difference: difference.key[1] == "crash" and (difference.expected, difference.found) == (1, 2),
    ),
)

_FLOAT_NULL = "JSON has no NaN and no infinity: wal2json writes null"
_STUDENT_NAN = _ids(2, 8, 20, 26, 32, 38, 44, 50, 56)
_SNAPSHOT_TOUCHED = set(range(1, 61))  # students that the workload updated between its hours 7 and 8
_WAL2JSON = (
    Impossible("num_edge", "f4", _ids(6, 7), _from(0), _FLOAT_NULL),
    Impossible("num_edge", "f8", _ids(6, 7), _from(0), _FLOAT_NULL),
    *(Impossible("student", column, _STUDENT_NAN, _from(1), _FLOAT_NULL) for column in ("gpa", "ratio")),
    *(Impossible("student", column, _ids(14), _from(1, 3), _FLOAT_NULL) for column in ("gpa", "ratio")),
    *_NO_NAN,
    Impossible("evolve", "remark", _ids(1, 2, 3), _from(4), "RENAME COLUMN makes no events, and nothing reads the table again"),
    Impossible("evolve", "score", _SCORE_OLD, _from(4), _NO_DEFAULT),
    Impossible("evolve_volatile", "tok", _ids(2, 3, 4, 5, 6), _from(4), "the values of a volatile default make no events"),
    Impossible("evolve_volatile", "at", _ids(2, 3, 4, 5, 6), _from(4), "the values of a volatile default make no events"),
    Impossible("student", "email", _EMAIL_OLD, _from(4, 7), _NO_DEFAULT),
    Impossible("student", "email", frozenset(key for key in _EMAIL_OLD if key[0] not in _SNAPSHOT_TOUCHED), _from(8), _NO_DEFAULT),
    Impossible("student", "email", _ids(6), _from(4, 4), _NO_DEFAULT),
    Impossible("student", "birth_date", _ids(6), _from(5), "infinity is sent as text, and no date type has it", certain=False),
    Impossible("student", "enrolled_at", _ids(6), _from(5), "sent as text, but beyond a timestamp type", certain=False),
    Impossible("time_edge", "d", _ids(1, 20, 21), _from(5), "infinity is sent as text, and no date type has it", certain=False),
    Impossible("time_edge", "ts", _ids(20, 21, 24), _from(5), "sent as text, but beyond a timestamp type", certain=False),
    Impossible("time_edge", "tstz", _ids(1, 20, 21, 24), _from(5), "sent as text, but beyond a timestamp type", certain=False),
)

IMPOSSIBLE: dict[str, tuple[Impossible, ...]] = {
    "debezium_json": (*_ALWAYS, *_OVERFLOW, *_NO_NAN, *_TYPED_RANGE),
    "debezium_avro": (*_ALWAYS, *_OVERFLOW, *_NO_NAN, *_TYPED_RANGE, *_NULL_AS_DEFAULT),
    "debezium_parquet": (*_ALWAYS, *_OVERFLOW, *_NO_NAN, *_TYPED_RANGE, *_NULL_AS_DEFAULT, *_NO_DEFAULTS),
    "debezium_json_noschema": (*_ALWAYS, *_OVERFLOW, *_NO_NAN, *_NO_DEFAULTS, *_SCALE_GONE),
    "flat": (*_ALWAYS, *_NULL_AS_DEFAULT, *_NO_DEFAULTS, *_FLAT_ONLY),
    "wal2json_v1": (*_WAL2JSON, *_NO_TRUNCATE),
    "wal2json_v2": _WAL2JSON,
}
