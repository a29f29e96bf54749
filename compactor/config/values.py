"""Parsers of single values in compactor.yaml: each function takes a YAML value and returns the value that the program uses.

An invalid value is a ValueError with one sentence. `Read` turns a parser into a pydantic annotation.
"""

from __future__ import annotations

import difflib
import os
import re
import zoneinfo
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from compactor.core.model.spec import ALWAYS, NEVER

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


@dataclass(frozen=True, eq=False)
class Read:
    """Metadata of a pydantic field."""

    check: Callable[[Any], Any]
    """The parser."""
    schema: dict[str, Any]
    """The value's part of the JSON schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(self.schema)


# ---- words of messages -----------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """Return a value as an error message quotes it, an address without user and password."""
    if value is None:
        return "nothing"
    text = repr(value)
    # up to the last @, because a password may have / ? and # that are not percent-encoded
    return re.sub(r"://.*@" if "://" in text else r"[^\s'\"]+@", lambda user: f"{user[0][:3] if user[0][0] == ':' else ''}***@", text)[:80]


def listed(names: Iterable[Any]) -> str:
    """Return `a, b or c`."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else str(last)


def alike(name: str, valid: Iterable[str]) -> str:
    """Return `; did you mean x?` if a valid name is similar, else an empty string."""
    close = difflib.get_close_matches(name.lower(), list(valid), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


# ---- paths -----------------------------------------------------------------------------------------------------------


def is_s3(location: str) -> bool:
    """Return whether a location is in S3."""
    return re.match("s3[an]?://", location) is not None


def absolute(path: str, base: str) -> str:
    """Return a local path or file: URI as an absolute path, and an S3 location as `s3://bucket/key`. Relative paths start at `base`."""
    if is_s3(path) or (is_s3(base) and not path.startswith(("/", "~", "file:"))):
        whole = path if is_s3(path) else f"{base.rstrip('/')}/{'' if path == '.' else path}"
        bucket, _, key = re.sub("^s3[an]?://", "", whole).partition("/")
        return f"s3://{bucket}/{key}".rstrip("/")
    bare = re.sub(r"^file:(//(localhost)?(?=/))?", "", path)
    return os.path.normpath(os.path.join(base, os.path.expanduser(bare)))


def s3_folder(value: Any) -> str | None:
    """Parse a folder in S3."""
    if value is not None and (not isinstance(value, str) or not re.fullmatch(r"s3[an]?://[A-Za-z0-9][A-Za-z0-9._-]{1,254}(/[^/?#]+)*/?", value)):
        raise ValueError(f"expected a folder in S3 such as s3://bucket/folder, found {shown(value)}")
    return None if value is None else absolute(value, "")


def kms_key(value: Any) -> str:
    """Parse the ARN of a KMS key; None is no key.

    An alias is refused: S3 reports the key of an object by its ARN, and so it could not be compared.
    """
    if value is not None and not re.fullmatch(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+", str(value)):
        raise ValueError(f"expected the ARN of a KMS key, such as arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd, found {shown(value)}")
    return str(value or "")


def secret(value: Any) -> str:
    """Parse the ARN of a secret in AWS Secrets Manager; None is no secret. Anything else may be the secret itself, and is not shown."""
    if value is not None and not re.fullmatch(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+", str(value)):
        raise ValueError(
            "expected the ARN of a secret in AWS Secrets Manager, such as arn:aws:secretsmanager:eu-central-1:123456789012:secret:hashes-AbCdEf, "
            "found something else (not shown: it may be the secret)"
        )
    return str(value or "")


# ---- times and sizes -------------------------------------------------------------------------------------------------


def duration(value: Any) -> float:
    """Parse `7d`, `24h`, `10min`, `1h 30min`, `0s` into seconds.

    >>> duration("1h 30min")
    5400.0
    """
    text = str(value).strip()
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text)
    if text in ("0", "0.0") or (parts and re.fullmatch(r"(\s*\d+(\.\d+)?\s*[a-z]+)+", text) and all(unit in _SECONDS for _, unit in parts)):
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    raise ValueError(f"expected a duration such as 7d, 24h, 10min or 0s, found {shown(value)}")


def deadline(value: Any) -> float | None:
    """Parse a duration or `none`."""
    return None if value in (None, "none") else duration(value)


def retention(value: Any) -> float | None:
    """Parse a duration or `forever`."""
    return None if value is None or value == "forever" else duration(value)


def size(value: Any) -> int:
    """Parse `256 MB`, `1GiB`, `1048576` into bytes. Every unit is a power of 1024.

    >>> size("256 MB")
    268435456
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(value).strip())
    unit = match[2].upper().replace("IB", "B") if match else "?"
    if match is None or unit not in _BYTES:
        raise ValueError(f"expected a size such as 256 MB or 1 GB, found {shown(value)}")
    return int(float(match[1]) * _BYTES[unit])


OPTIONAL_SIZE = {"type": ["string", "integer", "null"], "examples": ["2 GB", "20 GB"]}


def optional_size(value: Any) -> int | None:
    """Parse a size as `size` does, or null for no limit. A limit of 0 would allow nothing."""
    parsed = None if value is None else size(value)
    if parsed == 0:
        raise ValueError(f"expected a size such as 20 GB, or null for no limit, found {shown(value)}")
    return parsed


_CLOCK = r"([01]\d|2[0-3]):([0-5]\d)"
WINDOW = {"anyOf": [{"enum": ["always", "never", None]}, {"type": "string", "pattern": f"^{_CLOCK}-{_CLOCK}$"}], "examples": ["22:00-05:30"]}


def window(value: Any) -> tuple[int, int]:
    """Parse hours of the day into minutes since midnight: (first, last)."""
    if value in (None, "always", "never"):
        return NEVER if value == "never" else ALWAYS
    match = re.fullmatch(f"{_CLOCK}-{_CLOCK}", str(value))
    first, last = (int(match[at]) * 60 + int(match[at + 1]) for at in (1, 3)) if match else (0, 0)
    if first == last:
        raise ValueError(f"expected always, never, or hours of the day in UTC such as 22:00-05:30, found {shown(value)}")
    return first, last


def open_end(value: Any) -> str:
    """Parse the end of an interval that is still open: `null` or `9999-12-31`."""
    # YAML parses 9999-12-31 as a date
    text = "null" if value is None else str(value)[:10]
    if text not in ("null", "9999-12-31"):
        raise ValueError(f"expected null or 9999-12-31, found {shown(value)}")
    return text


# ---- numbers ---------------------------------------------------------------------------------------------------------


def share(value: Any) -> float:
    """Parse `0.1` or `10%` into a number from 0 to 1."""
    try:
        share = float(str(value).rstrip("% ")) / (100 if str(value).strip().endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"expected a share such as 0.1 or 10%, found {shown(value)}")
    return share


def rows(value: Any) -> int | None:
    """Parse a number of records, or null."""
    if value is not None and (isinstance(value, bool) or not re.fullmatch(r"\d{1,12}", str(value))):
        raise ValueError(f"expected a number of records, found {shown(value)}")
    return None if value is None else int(value)


def count(value: Any) -> int:
    """Parse a whole number from 1 on."""
    number = rows(value)
    if not number:
        raise ValueError(f"expected a whole number from 1 on, found {shown(value)}")
    return number


# ---- words and texts -------------------------------------------------------------------------------------------------


def flag(value: Any) -> bool:
    """Parse true or false."""
    flags = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if str(value).lower() not in flags:
        raise ValueError(f"expected true or false, found {shown(value)}")
    return flags[str(value).lower()]


def choice(*options: str) -> Read:
    """Return the annotation of a value that is one of these words."""

    def check(value: Any) -> str:
        # `unresolved: null` is YAML's null, and means the word
        text = "null" if value is None and "null" in options else str(value).lower() if isinstance(value, (str, bool)) else value
        if text in options:
            return str(text)
        raise ValueError(f"expected {listed(options)}, found {shown(value)}{alike(str(value), options)}")

    return Read(check, {"enum": [*options, None] if "null" in options else [*options]})


def feed(value: Any) -> str:
    """Parse the mode of the change feed into off, net or all."""
    mode = {"true": "net", "net": "net", "all": "all", "false": "off", "off": "off", "none": "off"}.get(str(value).lower())
    if mode is None:
        raise ValueError(f"expected true, false, net or all, found {shown(value)}{alike(str(value), ('true', 'false', 'net', 'all'))}")
    return mode


def text(value: Any) -> str:
    """Parse a text that is not empty."""
    if not isinstance(value, (str, int)) or isinstance(value, bool) or value == "":
        raise ValueError(f"expected text, found {shown(value)}")
    return str(value)


def null_value(value: Any) -> str:
    """Parse the text that means null in a CSV file. YAML's null is the word NULL."""
    return "NULL" if value is None else str(value)


def character(value: Any) -> str:
    """Parse one character."""
    text = "\t" if value == "\\t" else str(value)
    if len(text) != 1 or text in "\r\n":
        raise ValueError(f"expected one character, found {shown(value)}")
    return text


def quote(value: Any) -> str:
    """Parse one character, or an empty text for none."""
    return "" if value == "" else character(value)


def dag_prefix(value: Any) -> str:
    """Parse the prefix of DAG names."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{0,50}", str(value)):
        raise ValueError(f"expected at most 50 letters, digits, _, . and -, found {shown(value)}")
    return str(value)


def account(value: Any) -> str | None:
    """Parse the id of an AWS account."""
    if value is not None and not re.fullmatch(r"\d{12}", str(value)):
        raise ValueError(f"expected an AWS account id (12 digits, in quotes), found {shown(value)}")
    return None if value is None else str(value)


# ---- lists -----------------------------------------------------------------------------------------------------------


def names(value: Any) -> tuple[str, ...]:
    """Parse a list of distinct column names."""
    if isinstance(value, str):
        raise ValueError(f"expected a list, found {value!r}; write [{value}]")
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) and name for name in value):
        raise ValueError(f"expected a list of column names, found {shown(value)}")
    twice = sorted({name for name in value if list(value).count(name) > 1})
    if twice:
        raise ValueError(f"the column {twice[0]} is listed twice; remove one")
    return tuple(value)


def patterns(value: Any) -> tuple[str, ...]:
    """Parse a list of shell patterns."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(pattern, str) and pattern for pattern in value):
        raise ValueError(f"expected a list of patterns such as ['*.keys.*'], found {shown(value)}")
    return tuple(value)


def engines(value: Any) -> tuple[str, ...]:
    """Parse a list of query engines."""
    engines = names(value)
    unknown = [name for name in engines if name not in ("spark", "hive", "athena")]
    if unknown:
        raise ValueError(f"expected spark, hive or athena, found {unknown[0]!r}")
    return engines


def words(value: Any) -> tuple[str, ...]:
    """Parse a program with its arguments."""
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ValueError(f"expected a program and its arguments, such as [python3, -m, compactor], found {shown(value)}")
    return tuple(value)


def urls(value: Any) -> tuple[str, ...]:
    """Parse one address, or a list."""
    addresses = [value] if isinstance(value, str) else value
    if not isinstance(addresses, list) or not addresses or not all(isinstance(url, str) and url for url in addresses):
        raise ValueError(f"expected an address such as http://registry:8081, or a list of addresses, found {shown(value)}")
    return tuple(addresses)


NAMES = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
Text = Annotated[str, Read(text, {"type": "string", "minLength": 1})]
Flag = Annotated[bool, Read(flag, {"type": "boolean"})]
Count = Annotated[int, Read(count, {"type": "integer", "minimum": 1})]
Names = Annotated[tuple[str, ...], Read(names, NAMES)]
Duration = Annotated[float, Read(duration, {"type": "string", "examples": ["7d", "24h", "10min", "0s"]})]
Size = Annotated[int, Read(size, {"type": ["string", "integer"], "examples": ["256 MB", "1 GB"]})]


def is_zone(name: str) -> bool:
    """Return whether this is the name of a time zone. UTC is one on machines without any."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return name == "UTC"
    return True
