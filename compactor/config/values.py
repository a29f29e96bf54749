"""Values of compactor.yaml that only its reader needs: paths, cron lines, targets of notices, settings that are passed on. And words of messages.

A function that parses a value raises ValueError with one sentence. `core/settings/forms.py` has the forms of all other values.
"""

from __future__ import annotations

import os
import re
import zoneinfo
from typing import Any

from compactor.core.planning.folders import Discovery
from compactor.core.results.notice import IN_VARIABLES
from compactor.core.settings.forms import several


def shown(value: Any) -> str:
    """Return a value as an error message quotes it, an address without user and password."""
    if value is None:
        return "nothing"
    text = repr(value)
    # up to the last @, because a password may have / ? and # that are not percent-encoded
    return re.sub(r"://.*@" if "://" in text else r"[^\s'\"]+@", lambda user: f"{user[0][:3] if user[0][0] == ':' else ''}***@", text)[:80]


# ---- paths -----------------------------------------------------------------------------------------------------------


def is_s3(location: str) -> bool:
    return re.match("s3[an]?://", location) is not None


def absolute(path: str, base: str) -> str:
    """Return a local path or file: URI as an absolute path, and an S3 location as `s3://bucket/key`. Relative paths start at `base`."""
    if is_s3(path) or (is_s3(base) and not path.startswith(("/", "~", "file:"))):
        whole = path if is_s3(path) else f"{base.rstrip('/')}/{'' if path == '.' else path}"
        bucket, _, key = re.sub("^s3[an]?://", "", whole).partition("/")
        return f"s3://{bucket}/{key}".rstrip("/")
    bare = re.sub(r"^file:(//(localhost)?(?=/))?", "", path)
    return os.path.normpath(os.path.join(base, os.path.expanduser(bare)))


def is_zone(name: str) -> bool:
    """Return whether this is the name of a time zone. UTC is one on machines without any."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return name == "UTC"
    return True


# ---- times and settings that are passed on ---------------------------------------------------------------------------


_CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))


def cron(value: str | None) -> str | None:
    """Parse a cron line of five numeric fields. None and `none` mean never.

    >>> cron("10 */2 * * 1-5")
    '10 */2 * * 1-5'
    """
    if value is None or value == "none":
        return None
    fields = value.split()
    if len(fields) != len(_CRON):
        raise ValueError(f"expected a cron line of five fields such as 10 * * * *, or none; found {shown(value)}")
    for written, (name, low, high) in zip(fields, _CRON, strict=True):
        for part in written.split(","):
            match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
            numbers = [int(number) for number in match.groups()[:2] if number is not None] if match else [-1]
            if any(not low <= number <= high for number in numbers) or sorted(numbers) != numbers:
                raise ValueError(f"expected {name} {low} to {high}, * or */n in a cron line, found {part!r}")
    return " ".join(fields)


def urls(value: str | list[str]) -> tuple[str, ...]:
    addresses = several(value)
    if not all(addresses) or not addresses:
        raise ValueError(value)
    return addresses


SERVERS = r"[^\s:/,]+:\d+(\s*,\s*[^\s:/,]+:\d+)*"


def spark_conf(value: dict[str, str]) -> dict[str, str]:
    if not all(name.startswith("spark.") for name in value):
        raise ValueError(f"expected settings such as {{spark.executor.memory: 8g}}, found {shown(value)}")
    return value


def connections(value: Any) -> dict[str, str]:
    """Parse a mapping of environment variables to Airflow connections."""
    if not isinstance(value, dict) or not all(
        re.fullmatch(r"[A-Za-z_]\w*", str(name)) and re.fullmatch(r"[\w.:-]{1,250}", str(connection)) for name, connection in value.items()
    ):
        raise ValueError("expected variables and connections such as {SCHEMA_HOOK: chat}, found something else (not shown: it may contain a token)")
    return {str(name): str(connection) for name, connection in value.items()}


def executor_config(value: Any) -> Any:
    """Return settings for Airflow's executor. Whole numbers, true and false become values of these types, as far down as it goes."""
    if isinstance(value, dict):
        return {name: executor_config(each) for name, each in value.items()}
    if isinstance(value, list):
        return [executor_config(each) for each in value]
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}|true|false", value):
        return int(value) if value[-1].isdigit() else value == "true"
    return value


# ---- discover --------------------------------------------------------------------------------------------------------

DISCOVER = {
    "items": {
        "type": "object",
        "properties": {
            "from": {"type": "string"},
            "name": {"type": "string"},
            "exclude": {"type": "array", "items": {"type": "string"}},
            "at_most": {"type": ["integer", "string"]},
        },
        "required": ["from"],
    }
}


def discover(entries: list[dict[str, Any]]) -> tuple[Discovery, ...]:
    """Parse the entries of `discover:`. The keys of their tables stay as they are written."""
    return tuple(map(_discovery, entries))


def _discovery(entry: dict[str, Any]) -> Discovery:
    own = {name: entry.get(name) for name in ("from", "name", "exclude", "at_most")}
    where, name, exclude, at_most = own["from"], own["name"] or "{table}", own["exclude"] or [], str(own["at_most"] or Discovery.at_most)
    if not isinstance(where, str) or not isinstance(name, str):
        raise ValueError(f"expected entries such as {{from: 'topics/shop.{{schema}}.{{table}}', name: '{{table}}'}}, found {shown(entry)}")
    parts = where.removesuffix("/..").rstrip("/").split("/")
    dated = next((at for at, part in enumerate(parts) if "%" in part), len(parts))
    place, pattern = "/".join(parts[:dated]), "/".join(parts[dated:])
    names = re.findall(r"\{(\w+)\}", place)
    absent = [each for each in re.findall(r"\{(\w*)\}", name) if each not in names]
    if not names or len({*names}) < len(names) or "{" in pattern:
        raise ValueError(f"`from`: expected names in braces, each once and before the first %, such as topics/{{table}}, found {shown(where)}")
    if absent:
        raise ValueError(f"`name`: expected names of `from` in braces, such as {{{names[0]}}}, found {{{absent[0]}}}")
    if not isinstance(exclude, list) or not all(isinstance(each, str) and each for each in exclude):
        raise ValueError(f"`exclude`: expected a list of patterns such as ['pg.audit.*'], found {shown(exclude)}")
    if not re.fullmatch(r"[1-9]\d{0,5}", at_most):
        raise ValueError(f"`at_most`: expected a whole number from 1 on, found {at_most}")
    return Discovery(place, pattern, name, tuple(exclude), int(at_most), {key: value for key, value in entry.items() if key not in own})


# ---- targets of notices ----------------------------------------------------------------------------------------------


_ADDRESSES = {
    "apprise": (r"[A-Za-z][\w+-]*://\S+", "addresses such as slack://token"),
    "webhook": (r"https?://[^\s/]+\S*", "https://host/path"),
    "sns": (r"arn:[\w-]+:sns:[a-z0-9-]+:\d{12}:[\w-]{1,256}(\.fifo)?", "arn:aws:sns:region:account:topic"),
    **dict.fromkeys(IN_VARIABLES, (r"[A-Za-z_]\w*", "the name of a variable")),
}
"""Kinds of targets with an address: its form, and an example for people."""

_SERVICES = {"slack": "slack://..", "teams": "workflows://..", "pagerduty": "pagerduty://.."}
"""Kinds of earlier versions: the address by which Apprise knows the service."""


def notify(value: Any) -> tuple[tuple[str, ...], ...]:
    """Parse one target or a list: `log`, `{command: [program, argument]}`, or one of `_ADDRESSES` such as `{webhook_env: NAME}`."""
    return tuple(_target(target) for target in (value if isinstance(value, list) else [] if value is None else [value]))


def _target(value: Any) -> tuple[str, ...]:
    if value == "log":
        return ("log",)
    former = next(iter(_SERVICES.keys() & value), "") if isinstance(value, dict) else ""
    if former:
        raise ValueError(f"{former}: expected {{apprise_env: NAME}}, with {_SERVICES[former]} in the variable; found {{{former}: ..}}")
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in ("command", *_ADDRESSES):
        # show only names: a value may contain a token
        word = isinstance(value, str) and re.fullmatch(r"\w{1,20}", value)
        names = ", ".join(map(str, value)) if isinstance(value, dict) else shown(value) if word else "something else (not shown)"
        raise ValueError(
            "expected log, {command: [..]}, {webhook: https://..}, {sns: arn:..}, {apprise: [slack://..]}, "
            f"or the name of a variable: {', '.join(f'{{{kind}: NAME}}' for kind in IN_VARIABLES)}; found {names}"
        )
    ((kind, address),) = value.items()
    if kind == "command":
        words = [address] if isinstance(address, str) else address
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise ValueError(f"command: expected a program and its arguments, [program, argument], found {shown(address)}")
        return (kind, *words)
    form, example = _ADDRESSES[kind]
    addresses = address if kind == "apprise" and isinstance(address, list) and address else [address]
    if not all(isinstance(each, str) and re.fullmatch(form, each) for each in addresses):
        quoted = shown(address) if kind == "sns" else "something else (not shown: it may contain a token)"
        raise ValueError(f"{kind}: expected {example}, found {quoted}")
    return (kind, *addresses)


_TARGET = {
    "oneOf": [
        {"enum": ["log"]},
        *(
            {"type": "object", "properties": {kind: form}, "required": [kind], "additionalProperties": False}
            for kind, form in (
                *((kind, {"type": ["string", "array"], "items": {"type": "string"}}) for kind in ("command", "apprise")),
                *((kind, {"type": "string"}) for kind in _ADDRESSES if kind != "apprise"),
            )
        ),
    ]
}
NOTIFY = {"oneOf": [_TARGET, {"type": "array", "items": _TARGET}, {"type": "null"}]}
