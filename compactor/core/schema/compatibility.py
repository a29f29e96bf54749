"""Compatibility of schemas: Avro's rules of schema resolution, and Confluent's levels, which are built on them.

`problems(reader, writer)` returns why data written with `writer` cannot be read with `reader` (Avro 1.12 specification, "Schema Resolution"):

| writer | reader | can be read when |
|---|---|---|
| int | int, long, float, double | always |
| long | long, float, double | always |
| float | float, double | always |
| string, bytes | string, bytes | always |
| other primitives | the same | always |
| array, map | the same | the items can |
| enum | enum of the same name | the reader has every symbol, or a default symbol |
| fixed | fixed of the same name | the sizes are equal |
| record | record of the same name | each reader field is written (its name or an alias) and can be read, or has a default |
| union | anything | every branch can be read |
| anything | union | some branch can read it |

Names are equal if their last parts are, or if the reader has the writer's name as an alias. Logical types are ignored, as in Confluent's server;
`core/schema/diff.py` reports a changed scale of a decimal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model.errors import Refused
from compactor.core.schema.avro import AvroSchema, parse

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
"""BACKWARD: the new schema reads old data. FORWARD: old schemas read new data. FULL: both. TRANSITIVE: all old schemas, not only the newest one."""

_PROMOTED = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double"),
    ("string", "bytes"), ("bytes", "string"),
}  # fmt: skip
"""(written type, type it can be read as)."""


@dataclass(frozen=True)
class Problem:
    """A reason why one schema cannot read data of another."""

    path: str
    """The place in the reader's schema, such as `address.zip`; "" for the root."""
    text: str
    """The reason."""

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


def check(level: str, new: str, old: Sequence[str]) -> list[str]:
    """Return why a schema may not follow the `old` ones (oldest first) under a level, as sentences; [] if it may. Raises Refused, SchemaRefused."""
    if level not in LEVELS:
        raise Refused(f"expected a compatibility level ({', '.join(LEVELS)}), found {level!r}")
    if level == "NONE":
        return []
    candidate, sentences = parse(new), []
    compared = list(enumerate(old, 1))
    for number, text in compared if level.endswith("_TRANSITIVE") else compared[-1:]:
        before = parse(text)
        if level.startswith(("BACKWARD", "FULL")):
            sentences += [f"the new schema cannot read data of version {number}: {problem}" for problem in problems(candidate, before)]
        if level.startswith(("FORWARD", "FULL")):
            sentences += [f"version {number} cannot read data of the new schema: {problem}" for problem in problems(before, candidate)]
    return sentences


def problems(reader: AvroSchema, writer: AvroSchema) -> list[Problem]:
    """Return why `reader` cannot read what `writer` wrote; [] if it can."""
    return list(_Resolution(reader, writer).problems(reader.root, writer.root, ""))


class _Resolution:
    """Compares one reader with one writer. Pairs of records under comparison count as readable, so that recursive types end."""

    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._under_way: set[tuple[str, str]] = set()

    def problems(self, read: Any, written: Any, path: str) -> Iterator[Problem]:
        into, out_of = self._reader.of(read), self._writer.of(written)
        target, source = into["type"], out_of["type"]
        if source == "union":
            for branch in out_of["branches"]:
                why = list(self.problems(read, branch, path))
                if why and target == "union":
                    yield Problem(path, f"no branch of the reader's union can read the written {_name(self._writer.of(branch))}")
                else:
                    yield from why
        elif target == "union":
            if not any(self._fits(branch, written) for branch in into["branches"]):
                yield Problem(path, f"no branch of the reader's union can read the written {_name(out_of)}")
        elif target != source:
            if (source, target) not in _PROMOTED:
                yield Problem(path, f"written as {_name(out_of)}, read as {_name(into)}")
        elif target in ("array", "map"):
            part, mark = ("items", "[]") if target == "array" else ("values", "{}")
            yield from self.problems(into[part], out_of[part], path + mark)
        elif target in ("record", "enum", "fixed"):
            yield from self._named(into, out_of, path)

    def _fits(self, read: Any, written: Any) -> bool:
        before = set(self._under_way)
        fits = next(self.problems(read, written, ""), None) is None
        if not fits:
            # pairs that counted as readable on the way are not proven
            self._under_way = before
        return fits

    def _named(self, into: dict[str, Any], out_of: dict[str, Any], path: str) -> Iterator[Problem]:
        last = into["name"].rpartition(".")[2], out_of["name"].rpartition(".")[2]
        if last[0] != last[1] and out_of["name"] not in into.get("aliases", ()):
            yield Problem(path, f"the writer's {into['type']} has the name {out_of['name']}, the reader's {into['name']}")
        elif into["type"] == "fixed" and into["size"] != out_of["size"]:
            yield Problem(path, f"written as fixed of {out_of['size']} bytes, read as fixed of {into['size']}")
        elif into["type"] == "enum":
            missing = [symbol for symbol in out_of["symbols"] if symbol not in into["symbols"]]
            if missing and "default" not in into:
                yield Problem(path, f"the reader's enum lacks {', '.join(missing)} and has no default")
        elif into["type"] == "record" and (into["name"], out_of["name"]) not in self._under_way:
            self._under_way.add((into["name"], out_of["name"]))
            yield from self._fields(into, out_of, path)

    def _fields(self, into: dict[str, Any], out_of: dict[str, Any], path: str) -> Iterator[Problem]:
        written = {member["name"]: member for member in out_of["fields"]}
        for member in into["fields"]:
            below = f"{path}.{member['name']}" if path else member["name"]
            names = [name for name in (member["name"], *member.get("aliases", ())) if name in written]
            if names:
                yield from self.problems(member["type"], written[names[0]]["type"], below)
            elif "default" not in member:
                yield Problem(below, "the field is not written and has no default")


def _name(definition: dict[str, Any]) -> str:
    return f"{definition['type']} {definition['name']}" if "name" in definition else str(definition["type"])
