"""How the values of compactor.yaml are read: each function takes what the YAML says and gives what the program computes with.

What cannot be read is a ValueError with a sentence.

`Read` makes an annotation of such a function, together with what the JSON schema says of the value.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from compactor.core.model.policy import DROPS, POLICIES, Policy
from compactor.core.model.spec import ALWAYS, NEVER
from compactor.core.schema.policy import CHOOSABLE

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def duration(value: Any) -> float:
    """`7d`, `24h`, `10min`, `1h 30min`, `0s` → seconds.

    >>> duration("1h 30min")
    5400.0
    """
    text = str(value).strip()
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text)
    if text in ("0", "0.0") or (parts and re.fullmatch(r"(\s*\d+(\.\d+)?\s*[a-z]+)+", text) and all(unit in _SECONDS for _, unit in parts)):
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    raise ValueError(f"expected a duration such as 7d, 24h, 10min or 0s, found {shown(value)}")


def deadline(value: Any) -> float | None:
    return None if value in (None, "none") else duration(value)


def retention(value: Any) -> float | None:
    return None if value is None or value == "forever" else duration(value)


def feed(value: Any) -> str:
    """Off, every version's net changes, or all events."""
    said = {"true": "net", "net": "net", "all": "all", "false": "off", "off": "off", "none": "off"}.get(str(value).lower())
    if said is None:
        raise ValueError(f"expected true, false, net or all, found {shown(value)}{alike(str(value), ('true', 'false', 'net', 'all'))}")
    return said


def size(value: Any) -> int:
    """`256 MB`, `1GiB`, `1048576` → bytes; every unit is a power of 1024.

    >>> size("256 MB")
    268435456
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(value).strip())
    unit = found[2].upper().replace("IB", "B") if found else "?"
    if found is None or unit not in _BYTES:
        raise ValueError(f"expected a size such as 256 MB or 1 GB, found {shown(value)}")
    return int(float(found[1]) * _BYTES[unit])


def shown(value: Any) -> str:
    """A value as it is quoted back to who wrote it."""
    return "nothing" if value is None else repr(value)[:80]


def listed(names: Any) -> str:
    """`a, b or c`."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else str(last)


def alike(name: str, known: Any) -> str:
    """`; did you mean x?` when something known is written nearly like it."""
    close = difflib.get_close_matches(name.lower(), list(known), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


@dataclass(frozen=True, eq=False)
class Read:
    """Metadata of a field: how its value is read, and what the JSON schema says of it."""

    check: Callable[[Any], Any]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(self.schema)


def is_s3(location: str) -> bool:
    """Whether a location is in S3."""
    return re.match("s3[an]?://", location) is not None


def absolute(path: str, base: str) -> str:
    """A local path or file: URI as an absolute path, from `base` when relative; an S3 location in its one spelling, `s3://bucket/key`."""
    if is_s3(path) or (is_s3(base) and not path.startswith(("/", "~", "file:"))):
        whole = path if is_s3(path) else f"{base.rstrip('/')}/{'' if path == '.' else path}"
        bucket, _, key = re.sub("^s3[an]?://", "", whole).partition("/")
        return f"s3://{bucket}/{key}".rstrip("/")
    bare = re.sub(r"^file:(//(localhost)?(?=/))?", "", path)
    return os.path.normpath(os.path.join(base, os.path.expanduser(bare)))


def choice(*now: str) -> Read:
    def check(value: Any) -> str:
        # `unresolved: null` is YAML's null, and meant as the word.
        text = "null" if value is None and "null" in now else str(value).lower() if isinstance(value, (str, bool)) else value
        if text in now:
            return str(text)
        raise ValueError(f"expected {listed(now)}, found {shown(value)}{alike(str(value), now)}")

    return Read(check, {"enum": [*now, None] if "null" in now else [*now]})


def open_end(value: Any) -> str:
    # YAML reads 9999-12-31 as a day
    text = "null" if value is None else str(value)[:10]
    if text not in ("null", "9999-12-31"):
        raise ValueError(f"expected null or 9999-12-31, found {shown(value)}")
    return text


_CLOCK = r"([01]\d|2[0-3]):([0-5]\d)"
WINDOW = {"anyOf": [{"enum": ["always", "never", None]}, {"type": "string", "pattern": f"^{_CLOCK}-{_CLOCK}$"}], "examples": ["22:00-05:30"]}


def window(value: Any) -> tuple[int, int]:
    if value in (None, "always", "never"):
        return NEVER if value == "never" else ALWAYS
    found = re.fullmatch(f"{_CLOCK}-{_CLOCK}", str(value))
    first, last = (int(found[at]) * 60 + int(found[at + 1]) for at in (1, 3)) if found else (0, 0)
    if first == last:
        raise ValueError(f"expected always, never, or hours of the day in UTC such as 22:00-05:30, found {shown(value)}")
    return first, last


def names(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"expected a list, found {value!r}; write [{value}]")
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) and name for name in value):
        raise ValueError(f"expected a list of column names, found {shown(value)}")
    twice = sorted({name for name in value if list(value).count(name) > 1})
    if twice:
        raise ValueError(f"the column {twice[0]} is listed twice; once is enough")
    return tuple(value)


def flag(value: Any) -> bool:
    flags = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if str(value).lower() not in flags:
        raise ValueError(f"expected true or false, found {shown(value)}")
    return flags[str(value).lower()]


def engines(value: Any) -> tuple[str, ...]:
    found = names(value)
    unknown = [name for name in found if name not in ("spark", "hive", "athena")]
    if unknown:
        raise ValueError(f"expected spark, hive or athena, found {unknown[0]!r}")
    return tuple(found)


def text(value: Any) -> str:
    if not isinstance(value, (str, int)) or isinstance(value, bool) or value == "":
        raise ValueError(f"expected text, found {shown(value)}")
    return str(value)


SUBJECT = "subject:"
"""Begins a `schema` that the registry holds."""


def schema(value: Any) -> str:
    if isinstance(value, dict):
        if set(value) != {"subject"} or not isinstance(value["subject"], str) or not value["subject"]:
            raise ValueError(f"expected {{subject: name}}, found {shown(value)}")
        return SUBJECT + value["subject"]
    if not isinstance(value, str) or not (value == "infer" or value.endswith(".avsc")):
        raise ValueError(f"expected `infer`, the path of an .avsc file, or {{subject: name}}, found {shown(value)}")
    return value


@dataclass(frozen=True)
class Epoch:
    """A count of Positions: its number, the first folder that belongs to it, and whether what was before goes."""

    number: int = 0
    first: str | None = None
    replace: bool = False


def schema_change(value: Any) -> Policy:
    """A policy for all kinds of change, or one for each: `fail`, `{default: evolve, widened: fail, drop: hide}`."""
    said = {"default": value} if isinstance(value, str) else value
    if not isinstance(said, dict):
        raise ValueError(f"expected {listed(POLICIES)}, or a mapping such as {{widened: fail, drop: hide}}; found {shown(value)}")
    for name, policy in said.items():
        if name not in ("default", "drop", *CHOOSABLE):
            raise ValueError(f"expected default, {', '.join(CHOOSABLE)} or drop, found {name!r}{alike(name, CHOOSABLE)}")
        known = DROPS if name == "drop" else POLICIES
        if policy not in known:
            raise ValueError(
                f"{'' if isinstance(value, str) else f'{name}: '}expected {listed(known)}, found {shown(policy)}{alike(str(policy), known)}"
            )
    kinds = tuple((kind, said[kind]) for kind in CHOOSABLE if kind in said)
    return Policy(said.get("default", "evolve"), kinds, said.get("drop", "keep"))


def notify(value: Any) -> tuple[tuple[str, ...], ...]:
    """Who is told, one or a list: `log`, `{command: [program, argument]}`, `{webhook: https://..}`, `{webhook_env: NAME}`, `{sns: arn:..}`."""
    return tuple(_target(target) for target in (value if isinstance(value, list) else [] if value is None else [value]))


def _target(said: Any) -> tuple[str, ...]:
    if said == "log":
        return ("log",)
    kinds = ("command", "webhook", "webhook_env", "sns")
    if not isinstance(said, dict) or len(said) != 1 or next(iter(said)) not in kinds:
        # only names are shown: a value may hold a token
        found = ", ".join(map(str, said)) if isinstance(said, dict) else shown(said)
        raise ValueError(f"expected log, or one of {{command: [..]}}, {{webhook: https://..}}, {{webhook_env: NAME}}, {{sns: arn:..}}; found {found}")
    ((kind, what),) = said.items()
    if kind == "command":
        words = [what] if isinstance(what, str) else what
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise ValueError(f"command: expected a program and its arguments, [program, argument], found {shown(what)}")
        return (kind, *words)
    form = {"webhook": r"https?://[^\s/]+\S*", "webhook_env": r"[A-Za-z_]\w*", "sns": r"arn:[\w-]+:sns:[a-z0-9-]+:\d{12}:[\w-]{1,256}(\.fifo)?"}[kind]
    if not isinstance(what, str) or not re.fullmatch(form, what):
        told = "something else (not shown: it may hold a token)" if kind == "webhook" else shown(what)
        examples = {"webhook": "https://host/path", "webhook_env": "the name of a variable", "sns": "arn:aws:sns:region:account:topic"}
        raise ValueError(f"{kind}: expected {examples[kind]}, found {told}")
    return (kind, what)


def epoch(value: Any) -> Epoch:
    said = value if isinstance(value, dict) else {"number": value}
    unknown = sorted(set(said) - {"number", "from", "replace"})
    if unknown:
        raise ValueError(f"expected number, from, replace; found {unknown[0]!r}")
    if not re.fullmatch(r"\d{1,9}", str(said.get("number"))):
        raise ValueError(f"expected a whole number{' as `number`' if isinstance(value, dict) else ''}, found {shown(said.get('number'))}")
    first = said.get("from")
    return Epoch(int(said["number"]), None if first is None else text(first), flag(said.get("replace", False)))


def null_value(value: Any) -> str:
    # YAML's null, and `NULL`, are meant as the word
    return "NULL" if value is None else str(value)


def character(value: Any) -> str:
    text = "\t" if value == "\\t" else str(value)
    if len(text) != 1 or text in "\r\n":
        raise ValueError(f"expected one character, found {shown(value)}")
    return text


def quote(value: Any) -> str:
    return "" if value == "" else character(value)


OPERATIONS = ("c", "u", "d", "r", "t", "ignore")


def op_map(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping such as {{I: c, U: u, D: d}}, found {shown(value)}")
    wrong = [(code, op) for code, op in value.items() if op not in OPERATIONS]
    if wrong:
        raise ValueError(f"{wrong[0][0]}: expected {listed(OPERATIONS)}, found {shown(wrong[0][1])}")
    return value


def share(value: Any) -> float:
    try:
        share = float(str(value).rstrip("% ")) / (100 if str(value).strip().endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"expected a share such as 0.1 or 10%, found {shown(value)}")
    return share


def rows(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not re.fullmatch(r"\d{1,12}", str(value))):
        raise ValueError(f"expected a number of records, found {shown(value)}")
    return None if value is None else int(value)


def count(value: Any) -> int:
    found = rows(value)
    if not found:
        raise ValueError(f"expected a number from 1 on, found {shown(value)}")
    return found


def words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ValueError(f"expected a program and its arguments, such as [python3, -m, compactor], found {shown(value)}")
    return tuple(value)


def s3_place(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not re.fullmatch(r"s3[an]?://[A-Za-z0-9][A-Za-z0-9._-]{1,254}(/[^/?#]+)*/?", value)):
        raise ValueError(f"expected a folder in S3 such as s3://bucket/folder, found {shown(value)}")
    return None if value is None else absolute(value, "")


def spark_conf(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(str(name).startswith("spark.") for name in value):
        raise ValueError(f"expected settings such as {{spark.executor.memory: 8g}}, found {shown(value)}")
    return {str(name): str(said).lower() if isinstance(said, bool) else str(said) for name, said in value.items()}


SPARK_CONF: dict[str, Any] = {
    "type": "object",
    "patternProperties": {r"^spark\.": {"type": ["string", "number", "boolean"]}},
    "additionalProperties": False,
}


def dag_prefix(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{0,50}", str(value)):
        raise ValueError(f"expected letters, digits, _, . and -, found {shown(value)}")
    return str(value)


_CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))


def cron(value: Any) -> str | None:
    """A cron line of five numeric fields; None and `none` for never.

    >>> cron("10 */2 * * 1-5")
    '10 */2 * * 1-5'
    """
    if value is None or value == "none":
        return None
    fields = str(value).split()
    if len(fields) != len(_CRON):
        raise ValueError(f"expected a cron line of five fields such as 10 * * * *, or none; found {shown(value)}")
    for said, (name, low, high) in zip(fields, _CRON, strict=True):
        for part in said.split(","):
            match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
            numbers = [int(number) for number in match.groups()[:2] if number is not None] if match else [-1]
            if any(not low <= number <= high for number in numbers) or sorted(numbers) != numbers:
                raise ValueError(f"expected {name} {low} to {high}, * or */n in a cron line, found {part!r}")
    return " ".join(fields)


def account(value: Any) -> str | None:
    if value is not None and not re.fullmatch(r"\d{12}", str(value)):
        raise ValueError(f"expected the 12 digits of an account, in quotes, found {shown(value)}")
    return None if value is None else str(value)


def urls(value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(url, str) and url for url in found):
        raise ValueError(f"expected an address such as http://registry:8081, or a list of them, found {shown(value)}")
    return tuple(found)


SCHEMA_CHANGE = {
    "oneOf": [
        {"enum": list(POLICIES)},
        {
            "type": "object",
            "properties": {**{name: {"enum": list(POLICIES)} for name in ("default", *CHOOSABLE)}, "drop": {"enum": list(DROPS)}},
            "additionalProperties": False,
        },
    ]
}
_TARGET = {
    "oneOf": [
        {"enum": ["log"]},
        *(
            {"type": "object", "properties": {kind: form}, "required": [kind], "additionalProperties": False}
            for kind, form in (
                ("command", {"type": ["string", "array"], "items": {"type": "string"}}),
                ("webhook", {"type": "string"}),
                ("webhook_env", {"type": "string"}),
                ("sns", {"type": "string"}),
            )
        ),
    ]
}
NOTIFY = {"oneOf": [_TARGET, {"type": "array", "items": _TARGET}, {"type": "null"}]}
NAMES = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
OP_MAP = {"type": "object", "additionalProperties": {"enum": list(OPERATIONS)}}
Text = Annotated[str, Read(text, {"type": "string", "minLength": 1})]
Names = Annotated[tuple[str, ...], Read(names, NAMES)]
Duration = Annotated[float, Read(duration, {"type": "string", "examples": ["7d", "24h", "10min", "0s"]})]
Size = Annotated[int, Read(size, {"type": ["string", "integer"], "examples": ["256 MB", "1 GB"]})]
