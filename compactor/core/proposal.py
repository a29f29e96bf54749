"""Proposals for tables, and the commented compactor.yaml made of them. Pure.

The file is text made here and not dumped from values, because its comments are half of it: they say where each answer came from, and ask
what nothing told. YAML's flow values are JSON's, so every name is written by `json.dumps` unless it is a plain word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STANDARD = "{table}/incremental/increment_%Y%m%d%H"
"""Where files are expected when a table says nothing."""

_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"})


@dataclass(frozen=True)
class Proposal:
    """One table. `settings` are its keys in compactor.yaml but `key` and `increments`, in order. `key` None: it has to be asked for.

    `source` is the topic or folder it came from, `key_from` what told the key, `notes` what else is to be known or decided, one sentence each.
    """

    name: str
    source: str
    key: tuple[str, ...] | None = None
    key_from: str = ""
    increments: str = ""
    settings: tuple[tuple[str, Any], ...] = ()
    candidates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `complete` is whether a run needs no more answers about the key."""
        said: dict[str, Any] = {"table": self.name, "source": self.source, "complete": self.key is not None}
        said.update({"key": None if self.key is None else list(self.key), "key_from": self.key_from, "increments": self.increments or None})
        return {**said, "settings": dict(self.settings), "candidates": list(self.candidates), "notes": list(self.notes)}


@dataclass(frozen=True)
class Found:
    """Everything that was found: tables, and what was left out, as (topic or folder, why)."""

    tables: tuple[Proposal, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"tables": [table.to_json() for table in self.tables], "left_out": [{"source": source, "why": why} for source, why in self.left_out]}


def text(found: Found, command: str, warehouse: str, database: str, registry: Mapping[str, Any], hive: bool) -> str:
    """The file. `command` is what made it; `registry` what stands under that key; `hive` whether Hive 2 or 3 reads the tables."""
    shared = _shared(found.tables)
    open_keys = [table.name for table in found.tables if table.key is None]
    lines = [
        *_wrapped(f"Proposed by `{_line(command)}`: {len(found.tables)} tables. Every key and its default: docs/configuration.md."),
        *_wrapped(
            f"Before the first run: say `key:` of {', '.join(open_keys)}."
            if open_keys
            else "Look through it, then: `compactor sync --dry-run`, `compactor run`."
        ),
        "",
        _said(f"warehouse: {_flow(warehouse)}", "a table <t> is stored in <warehouse>/<t>"),
        "catalog:",
        _said(f"  database: {_flow(database)}", "an embedded metastore; say `uri: thrift://host:9083` for yours"),
    ]
    if registry:
        lines += ["registry:", *(f"  {name}: {_flow(value)}" for name, value in registry.items())]
    lines += ["", "defaults:"]
    if hive:
        lines += [_said("  timestamps: int96", "what Hive 2 and 3 read")]
    else:
        lines += [_said("  timestamps: int64", "filters on time skip data; Hive 2 and 3 need int96")]
    lines += [f"  {name}: {_flow(value)}" for name, value in shared.items()]
    lines += ["", "tables:"]
    for table in found.tables:
        lines += _table(table, shared)
    if found.left_out:
        lines += ["", "# Left out:", *(f"#   {_line(source)}: {_line(why)}" for source, why in found.left_out)]
    return "\n".join(lines) + "\n"


def _shared(tables: Sequence[Proposal]) -> dict[str, Any]:
    """The settings that all tables have in common, and may therefore stand once."""
    if len(tables) < 2:
        return {}
    first = dict(tables[0].settings)
    common = {name: value for name, value in first.items() if all(dict(table.settings).get(name) == value for table in tables)}
    return {name: value for name, value in common.items() if name in ("envelope", "format", "container")}


def _table(table: Proposal, shared: Mapping[str, Any]) -> Iterator[str]:
    yield _said(f"  {table.name}:", table.source)
    if table.key is not None:
        yield _said(f"    key: {_flow(list(table.key))}", table.key_from)
    else:
        yield from _wrapped("key: which columns tell one row from another? Nothing told it. `key: []` when none do.", 4)
        if table.candidates:
            yield from _wrapped(f"Never null and always different in what was looked at: {', '.join(map(_line, table.candidates))}.", 4)
        yield f"    # key: {_flow(_likely(table))}"
    if table.increments:
        yield f"    increments: {_flow(table.increments)}"
    for name, value in table.settings:
        if name not in shared:
            yield f"    {name}: {_flow(value)}"
    for note in table.notes:
        yield from _wrapped(note, 4)


def _likely(table: Proposal) -> list[str]:
    """The candidate that is called like a key, if there is one: to be uncommented, not to be trusted."""
    alike = [name for name in table.candidates if re.fullmatch(rf"(?:{re.escape(table.name)}_?)?(?:id|uuid|guid)", name, re.IGNORECASE)]
    return alike[:1]


def _said(line: str, comment: str) -> str:
    return f"{line:<29} # {_line(comment)}"


def _flow(value: Any) -> str:
    """A YAML flow value on one line; plain words without quotes."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(name)}: {_flow(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, bool):
        return str(value).lower()
    said = str(value)
    plain = re.fullmatch(r"[A-Za-z_./][\w./-]*", said) and said.lower() not in _WORDS
    # ensure_ascii: what YAML would not print, such as U+0085, is escaped
    return said if plain and said.isascii() else json.dumps(said, ensure_ascii=not said.isprintable())


def _line(said: str) -> str:
    """Text inside a comment: a line break in a name would end it."""
    return "".join(char if char.isprintable() else "?" for char in said)


def _wrapped(said: str, indent: int = 0) -> Iterable[str]:
    lines = [""]
    for word in _line(said).split(" "):
        if lines[-1] and len(lines[-1]) + len(word) > 110 - indent:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [f"{' ' * indent}# {line}" for line in lines]
