"""Parsers of values in compactor.yaml that have parts: schemas, epochs, policies, notification targets, cron lines and mappings.

Like `config/values.py`: an invalid value is a ValueError with one sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from compactor.config.values import alike, flag, listed, shown, text
from compactor.core.model import types
from compactor.core.model.policy import DROPS, MASK, POLICIES, Policy, Protection
from compactor.core.results.notice import IN_VARIABLES
from compactor.core.schema import column_types
from compactor.core.schema.policy import CHOOSABLE

SUBJECT = "subject:"
"""Prefix of a parsed `schema` that is a subject of the registry."""


def schema(value: Any) -> str:
    """Parse `infer`, the path of an .avsc file, or `{subject: name}`, which becomes `subject:name`."""
    if isinstance(value, dict):
        if set(value) != {"subject"} or not isinstance(value["subject"], str) or not value["subject"]:
            raise ValueError(f"expected {{subject: name}}, found {shown(value)}")
        return SUBJECT + value["subject"]
    if not isinstance(value, str) or not (value == "infer" or value.endswith(".avsc")):
        raise ValueError(f"expected `infer`, the path of an .avsc file, or {{subject: name}}, found {shown(value)}")
    return value


@dataclass(frozen=True)
class Epoch:
    """One generation of a source's positions: after the source's positions start again, the epoch is one higher."""

    number: int = 0
    """The number of the epoch."""
    first: str | None = None
    """The first landed folder of the epoch."""
    replace: bool = False
    """Whether the rows of earlier epochs are removed."""


def epoch(value: Any) -> Epoch:
    """Parse a number, or `{number: 1, from: folder, replace: true}`."""
    parts = value if isinstance(value, dict) else {"number": value}
    unknown = sorted(set(parts) - {"number", "from", "replace"})
    if unknown:
        raise ValueError(f"expected number, from, replace; found {unknown[0]!r}")
    if not re.fullmatch(r"\d{1,9}", str(parts.get("number"))):
        raise ValueError(f"expected a whole number{' as `number`' if isinstance(value, dict) else ''}, found {shown(parts.get('number'))}")
    first = parts.get("from")
    return Epoch(int(parts["number"]), None if first is None else text(first), flag(parts.get("replace", False)))


def protections(value: Any) -> tuple[Protection, ...]:
    """Parse a mapping such as `{ssn: exclude, mail: hash, card: mask(4), note: null}`."""
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping such as {{ssn: exclude, card: mask(4)}}, found {shown(value)}")
    parsed = []
    for column, rule in value.items():
        match = re.fullmatch(r"(exclude|hash|null)|mask\((\d{1,3})\)", "null" if rule is None else str(rule))
        if match is None:
            raise ValueError(f"{column}: expected exclude, hash, mask(4) or null, found {shown(rule)}")
        parsed.append(Protection(str(column), match[1] or MASK, int(match[2] or 0)))
    return tuple(parsed)


def schema_change(value: Any) -> Policy:
    """Parse one policy for all kinds of change, or a mapping: `fail`, `{default: evolve, widened: fail, drop: hide}`."""
    policies = {"default": value} if isinstance(value, str) else value
    if not isinstance(policies, dict):
        raise ValueError(f"expected {listed(POLICIES)}, or a mapping such as {{widened: fail, drop: hide}}; found {shown(value)}")
    for name, policy in policies.items():
        if name not in ("default", "drop", *CHOOSABLE):
            raise ValueError(f"expected default, {', '.join(CHOOSABLE)} or drop, found {name!r}{alike(name, CHOOSABLE)}")
        valid = DROPS if name == "drop" else POLICIES
        if policy not in valid:
            raise ValueError(
                f"{'' if isinstance(value, str) else f'{name}: '}expected {listed(valid)}, found {shown(policy)}{alike(str(policy), valid)}"
            )
    kinds = tuple((kind, policies[kind]) for kind in CHOOSABLE if kind in policies)
    return Policy(policies.get("default", "evolve"), kinds, policies.get("drop", "keep"))


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


OPERATIONS = ("c", "u", "d", "r", "t", "ignore")


def op_map(value: Any) -> Any:
    """Parse a mapping from the source's operation codes to ours."""
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping such as {{I: c, U: u, D: d}}, found {shown(value)}")
    invalid = [(code, op) for code, op in value.items() if op not in OPERATIONS]
    if invalid:
        raise ValueError(f"{invalid[0][0]}: expected {listed(OPERATIONS)}, found {shown(invalid[0][1])}")
    return value


def declared_types(value: Any) -> dict[str, str]:
    """Parse a mapping from columns to types of single values."""
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping such as {{signup_date: date}}, found {shown(value)}")
    parsed = {}
    for name, kind in value.items():
        word = str(kind)
        try:
            declared = column_types.column(str(name), word)
        except ValueError:
            raise ValueError(
                f"{name}: expected {listed(column_types.WORDS)} or decimal(12,2), found {shown(kind)}{alike(word, column_types.WORDS)}"
            ) from None
        parsed[str(name)] = word if word in column_types.ENCODED else types.text(declared.type)
    return parsed


COLUMN_TYPES: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}

OP_MAP = {"type": "object", "additionalProperties": {"enum": list(OPERATIONS)}}


def spark_conf(value: Any) -> dict[str, str]:
    """Parse a mapping of Spark settings."""
    if not isinstance(value, dict) or not all(str(name).startswith("spark.") for name in value):
        raise ValueError(f"expected settings such as {{spark.executor.memory: 8g}}, found {shown(value)}")
    return {str(name): str(setting).lower() if isinstance(setting, bool) else str(setting) for name, setting in value.items()}


SPARK_CONF: dict[str, Any] = {
    "type": "object",
    "patternProperties": {r"^spark\.": {"type": ["string", "number", "boolean"]}},
    "additionalProperties": False,
}


def tags(value: Any) -> dict[str, str]:
    """Parse a mapping of AWS tags."""
    if not isinstance(value, dict) or not all(re.fullmatch(r"(?!aws:)[\w .:/=+@-]{1,128}", str(name)) for name in value):
        raise ValueError(f"expected tags such as {{cost-center: data}}, found {shown(value)}")
    return {str(name): str(text) for name, text in value.items()}


def connections(value: Any) -> dict[str, str]:
    """Parse a mapping of environment variables to Airflow connections."""
    if not isinstance(value, dict) or not all(
        re.fullmatch(r"[A-Za-z_]\w*", str(name)) and re.fullmatch(r"[\w.:-]{1,250}", str(connection)) for name, connection in value.items()
    ):
        raise ValueError("expected variables and connections such as {SCHEMA_HOOK: chat}, found something else (not shown: it may contain a token)")
    return {str(name): str(connection) for name, connection in value.items()}


CONNECTIONS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}

TAGS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}


def executor_config(value: Any) -> dict[str, Any]:
    """Parse a mapping for Airflow's executor. Whole numbers, true and false become values of these types, as far down as it goes."""
    if not isinstance(value, dict):
        raise ValueError(f"expected settings of the executor such as {{cpu: 1024}}, found {shown(value)}")
    return {str(name): _typed(each) for name, each in value.items()}


def _typed(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _typed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_typed(each) for each in value]
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}|true|false", value):
        return int(value) if value[-1].isdigit() else value == "true"
    return value


EXECUTOR_CONFIG: dict[str, Any] = {"type": "object"}


_CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))


def cron(value: Any) -> str | None:
    """Parse a cron line of five numeric fields. None and `none` mean never.

    >>> cron("10 */2 * * 1-5")
    '10 */2 * * 1-5'
    """
    if value is None or value == "none":
        return None
    fields = str(value).split()
    if len(fields) != len(_CRON):
        raise ValueError(f"expected a cron line of five fields such as 10 * * * *, or none; found {shown(value)}")
    for written, (name, low, high) in zip(fields, _CRON, strict=True):
        for part in written.split(","):
            match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
            numbers = [int(number) for number in match.groups()[:2] if number is not None] if match else [-1]
            if any(not low <= number <= high for number in numbers) or sorted(numbers) != numbers:
                raise ValueError(f"expected {name} {low} to {high}, * or */n in a cron line, found {part!r}")
    return " ".join(fields)
