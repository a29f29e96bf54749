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

Names are equal if their last parts are, or if the reader has the writer's name as an alias. Logical types are ignored, as in Confluent's server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def problems(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Return why `reader` cannot read what `writer` wrote, each reason with its place in the reader's schema; [] if it can."""
    # pairs of records under comparison count as readable, so that recursive types end
    under_way: set[tuple[str, str]] = set()

    def compare(read: Any, written: Any, path: str) -> Iterator[str]:
        into, out_of = reader.of(read), writer.of(written)
        target, source, at = into["type"], out_of["type"], f"{path}: " if path else ""
        if source == "union":
            for branch in out_of["branches"]:
                reasons = list(compare(read, branch, path))
                lacking = f"{at}no branch of the reader's union can read the written {_name(writer.of(branch))}"
                yield from [lacking] if reasons and target == "union" else reasons
        elif target == "union":
            if not any(fits(branch, written) for branch in into["branches"]):
                yield f"{at}no branch of the reader's union can read the written {_name(out_of)}"
        elif target != source:
            if (source, target) not in _PROMOTED:
                yield f"{at}written as {_name(out_of)}, read as {_name(into)}"
        elif target in ("array", "map"):
            part, mark = ("items", "[]") if target == "array" else ("values", "{}")
            yield from compare(into[part], out_of[part], path + mark)
        elif target in ("record", "enum", "fixed"):
            yield from named(into, out_of, path, at)

    def fits(read: Any, written: Any) -> bool:
        before = set(under_way)
        if next(compare(read, written, ""), None) is None:
            return True
        # pairs that counted as readable on the way are not proven
        under_way.intersection_update(before)
        return False

    def named(into: dict[str, Any], out_of: dict[str, Any], path: str, at: str) -> Iterator[str]:
        pair = into["name"], out_of["name"]
        if pair[0].rpartition(".")[2] != pair[1].rpartition(".")[2] and pair[1] not in into.get("aliases", ()):
            yield f"{at}the writer's {into['type']} has the name {pair[1]}, the reader's {pair[0]}"
        elif into["type"] == "fixed" and into["size"] != out_of["size"]:
            yield f"{at}written as fixed of {out_of['size']} bytes, read as fixed of {into['size']}"
        elif into["type"] == "enum":
            missing = [symbol for symbol in out_of["symbols"] if symbol not in into["symbols"]]
            if missing and "default" not in into:
                yield f"{at}the reader's enum lacks {', '.join(missing)} and has no default"
        elif into["type"] == "record" and pair not in under_way:
            under_way.add(pair)
            fields = {member["name"]: member for member in out_of["fields"]}
            for member in into["fields"]:
                below = f"{path}.{member['name']}" if path else member["name"]
                names = [name for name in (member["name"], *member.get("aliases", ())) if name in fields]
                if names:
                    yield from compare(member["type"], fields[names[0]]["type"], below)
                elif "default" not in member:
                    yield f"{below}: the field is not written and has no default"

    return list(compare(reader.root, writer.root, ""))


def _name(definition: dict[str, Any]) -> str:
    return f"{definition['type']} {definition['name']}" if "name" in definition else str(definition["type"])
