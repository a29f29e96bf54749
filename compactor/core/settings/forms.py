"""Forms: how the values of compactor.yaml are written, as annotations of the fields that declare its keys.

A dataclass whose fields are keys is a `Section`. pydantic validates it on the machine that has compactor.yaml; Forms are annotations that
pydantic understands. A cluster
has no pydantic, and needs none: there the same dataclasses come from a JobConfig, and nothing evaluates their annotations.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, ClassVar, Literal, Union

ALIASES = {"schema_": "schema", "json_": "json", "first_folder": "from", "feed": "change_feed", "policy": "on_schema_change", "rules": "checks"}
"""Field → its key in compactor.yaml, where both differ."""


class Section:
    """A mapping of keys in compactor.yaml. Subclasses are frozen dataclasses; the text below a field describes the key for users."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": lambda name: ALIASES.get(name, name),
    }


@dataclass(frozen=True, eq=False)
class Form:
    """How a value is written."""

    expected: str = ""
    """What an error message expects. Without it, messages are those of `convert` or of the type."""
    source: Any = None
    """The type as which pydantic validates the value of the file; None for the annotated type."""
    convert: Callable[[Any], Any] | None = None
    """Makes the field's value of it. Raises ValueError with a sentence."""
    limits: tuple[tuple[str, Any], ...] = ()
    """Constraints of pydantic's type, such as ("ge", 1) or ("pattern", "a+")."""
    mapping: str = ""
    """An example, for a mapping."""
    hidden: bool = False
    """Whether messages leave the value out, because it may be a secret."""
    text: Callable[[Any], str] = str
    """Returns a value of the field as one would write it."""
    json: dict[str, Any] | None = None
    """Keywords of the JSON schema that replace those of the type."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """Return what pydantic does with the value (docs.pydantic.dev, "Custom types")."""
        inner = handler(source) if self.source is None else handler.generate_schema(self.source)
        schema: dict[str, Any] = {**inner, **dict(self.limits)}
        if self.convert is not None:
            schema = {"type": "function-after", "function": {"type": "no-info", "function": self.convert}, "schema": schema}
        if self.mapping:
            schema = {"type": "function-before", "function": {"type": "no-info", "function": self._mapping}, "schema": schema}
        if self.expected:
            kind = "hidden" if self.hidden else "form"
            error = {"custom_error_type": kind, "custom_error_message": kind, "custom_error_context": {"expected": self.expected}}
            schema = {"type": "custom-error", "schema": schema, **error}
        return schema

    def _mapping(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"expected a mapping such as {self.mapping}")
        return value

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), **(self.json or {})}


def matching(pattern: str, expected: str, hidden: bool = False) -> Form:
    """Return the form of a text that matches a pattern as a whole."""
    return Form(expected, limits=(("pattern", f"^(?:{pattern})$"),), hidden=hidden)


def some_of(*values: str) -> Form:
    """Return the form of one of these values, or of a list of them."""
    return Form(f"{' or '.join(values)}, or a list", source=Union[Literal[values], GenericAlias(list, Literal[values])], convert=several)


def pairs(value: Any, example: str) -> Form:
    """Return the form of a mapping from names to values of a type, which becomes a tuple of pairs."""
    return Form(source=GenericAlias(dict, (str, value)), convert=lambda mapping: tuple(mapping.items()), mapping=example)


# ---- words of messages -----------------------------------------------------------------------------------------------


def listed(names: Iterable[Any]) -> str:
    """Return `a, b or c`."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else str(last)


def alike(name: str, valid: Iterable[str]) -> str:
    """Return `; did you mean x?` if a valid name is similar, else an empty string."""
    close = difflib.get_close_matches(name.lower(), list(valid), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


# ---- times and sizes -------------------------------------------------------------------------------------------------

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_CLOCK = r"([01]\d|2[0-3]):([0-5]\d)"

ALWAYS, NEVER = (0, 24 * 60), (0, 0)
"""Daily windows as minutes of the day, UTC: (first minute, minute after the last one). A window that begins after its end spans midnight."""


def seconds(text: str) -> float:
    """Parse `7d`, `24h`, `10min`, `1h 30min`, `0s` into seconds.

    >>> seconds("1h 30min")
    5400.0
    """
    if text in ("0", "0.0"):
        return 0.0
    if not re.fullmatch(r"(\s*\d+(\.\d+)?\s*[a-z]+)+\s*", text):
        raise ValueError(text)
    try:
        return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text))
    except KeyError:
        raise ValueError(text) from None


def duration(value: float) -> str:
    """Return seconds as one would write them.

    >>> duration(7 * 86400.0), duration(5400.0), duration(0.0)
    ('7d', '90min', '0s')
    """
    unit = next(unit for unit in ("d", "h", "min", "s") if value % _SECONDS[unit] == 0 and (value or unit == "s"))
    return f"{value / _SECONDS[unit]:g}{unit}"


def size(text: str) -> int:
    """Parse `256 MB`, `1GiB`, `1048576` into bytes. Every unit is a power of 1024.

    >>> size("256 MB")
    268435456
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = match[2].upper().replace("IB", "B") if match else "?"
    if match is None or unit not in _BYTES or not float(match[1]):
        raise ValueError(text)
    return int(float(match[1]) * _BYTES[unit])


def share(text: str) -> float:
    """Parse `0.1` or `10%` into a number from 0 on.

    >>> share("10%")
    0.1
    """
    number = float(text.rstrip("% ")) / (100 if text.strip().endswith("%") else 1)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return number


def part(text: str) -> float:
    """Parse a share that is at most 1."""
    if share(text) > 1:
        raise ValueError(text)
    return share(text)


def tolerance(text: str) -> tuple[int | None, float]:
    """Parse the largest number, or share, of records: (number or None, share).

    >>> tolerance("100"), tolerance("5%")
    ((100, 1.0), (None, 0.05))
    """
    if text.isdigit():
        return int(text), 1.0
    if not text.endswith("%"):
        raise ValueError(text)
    return None, part(text)


def window(text: str) -> tuple[int, int]:
    """Parse hours of the day into minutes since midnight, as ALWAYS and NEVER.

    >>> window("22:00-05:30")
    (1320, 330)
    """
    if text in ("always", "never"):
        return NEVER if text == "never" else ALWAYS
    match = re.fullmatch(f"{_CLOCK}-{_CLOCK}", text)
    first, last = (int(match[at]) * 60 + int(match[at + 1]) for at in (1, 3)) if match else (0, 0)
    if first == last:
        raise ValueError(text)
    return first, last


def hours(value: tuple[int, int]) -> str:
    """Return a window as one would write it.

    >>> hours((1320, 330)), hours(NEVER)
    ('22:00-05:30', 'never')
    """
    names = {ALWAYS: "always", NEVER: "never"}
    return names.get(value) or "-".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in value)


# ---- texts and lists -------------------------------------------------------------------------------------------------


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return column names. Raises ValueError if one is listed twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the column {twice[0]} is listed twice; remove one")
    return names


def several(value: str | list[str]) -> tuple[str, ...]:
    """Return one value, or those of a list, each once."""
    return (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))


def character(text: str) -> str:
    """Return one character. Raises ValueError for any other text."""
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or text in "\r\n":
        raise ValueError(text)
    return text


Text = Annotated[str, Form("text", limits=(("min_length", 1),))]
Flag = Annotated[bool, Form("true or false", text=lambda value: str(value).lower())]
Count = Annotated[int, Form("a whole number from 1 on", limits=(("ge", 1),))]
Number = Annotated[int, Form("a whole number from 0 on", limits=(("ge", 0),))]
Names = Annotated[tuple[Text, ...], Form(convert=distinct)]
Duration = Annotated[
    float, Form("a duration such as 7d, 24h, 10min or 0s", str, seconds, text=duration, json={"examples": ["7d", "24h", "10min", "0s"]})
]
Size = Annotated[int, Form("a size such as 256 MB or 20 GB", str, size, json={"type": ["string", "integer"], "examples": ["256 MB", "20 GB"]})]
Share = Annotated[float, Form("a share such as 0.1 or 10%", str, part, text="{:.0%}".format, json={"type": ["string", "number"]})]
Ratio = Annotated[float, Form("a share such as 0.5 or 200%", str, share, json={"type": ["string", "number"]})]
Window = Annotated[
    tuple[int, int],
    Form("always, never, or hours of the day in UTC such as 22:00-05:30", str, window, text=hours, json={"examples": ["22:00-05:30"]}),
]
Character = Annotated[str, Form("one character", str, character)]
