"""Proposed tables, and the commented compactor.yaml made of them.

The file is written as text, because its comments say where each value comes from. A line that begins with `#` and no space is a setting to
complete: the file stays valid without the mark. Prose begins with `# `. A flow value of YAML is JSON, so `json.dumps` quotes whatever is no
plain word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from textwrap import wrap
from typing import Any

from compactor.core.results.phrases import counted

STANDARD = "{table}/incremental/increment_%Y%m%d%H"
"""Default of `increments:`."""


@dataclass(frozen=True)
class Question:
    """What could not be inferred."""

    question: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The setting to complete with a placeholder; empty when no single setting answers it."""


@dataclass(frozen=True)
class TableProposal:
    name: str
    source: str
    """Topic or folder it comes from."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its keys in compactor.yaml, in order."""
    key_from: str = ""
    questions: tuple[Question, ...] = ()
    waits: str = ""
    """Why `discover:` does not add the table yet, and what to write; "" if it does."""

    @property
    def evidence(self) -> str:
        """Why `discover:` adds the table, and where its key comes from, as a sentence."""
        return f"{self.source} landed; key {', '.join(self.settings['key']) or 'none'} by {self.key_from}"

    @property
    def open(self) -> tuple[str, ...]:
        """The settings to complete before the first run."""
        return tuple(name for question in self.questions for name in question.settings)


@dataclass(frozen=True)
class Proposal:
    """All proposed tables, in order of their sources."""

    tables: tuple[TableProposal, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """Topics and folders without a table, each with the reason."""

    @property
    def todo(self) -> str:
        """What to complete before the first run, such as "set `key:` for student"; "" for nothing."""
        groups = {names: [table.name for table in self.tables if table.open == names] for names in (table.open for table in self.tables) if names}
        return "; ".join(f"set {' and '.join(f'`{name}:`' for name in names)} for {', '.join(tables)}" for names, tables in groups.items())

    def to_json(self) -> dict[str, Any]:
        tables = [{**asdict(table), "complete": "key" in table.settings} for table in self.tables]
        for table in tables:
            # a table of `init` is in the file, whatever it lacks
            del table["waits"]
        return {"tables": tables, "left_out": [{"source": source, "reason": reason} for source, reason in self.left_out]}


def text(proposal: Proposal, warehouse: str, database: str, registry: Mapping[str, Any], hive: bool) -> str:
    """Return the content of compactor.yaml.

    `registry` is the mapping below that key, `hive` whether Hive 2 or 3 reads the tables.
    """
    todo = f"Before the first run: {proposal.todo}." if proposal.todo else "Review it, then `compactor plan`, `compactor run`."
    shared = _shared(proposal)
    lines = [
        *_prose(f"Written by `compactor init`: {counted(len(proposal.tables), 'table')}. All keys and defaults: docs/configuration.md."),
        *_prose(f"{todo} Remove the # of a setting such as `#key:` to use it."),
        "",
        _noted(f"warehouse: {flow(warehouse)}", "table <t> is stored in <warehouse>/<t>"),
        "catalog:",
        _noted(f"  database: {flow(database)}", "embedded metastore; set `uri: thrift://host:9083` to use yours"),
        *(["registry:", *_settings(registry, "  ")] if registry else []),
        "",
        "defaults:",
        _noted(f"  parquet: {'hive' if hive else 'standard'}", "Hive 2 and 3 read the form `hive` only; standard files are half as large"),
        *_settings(shared, "  "),
        "",
        "tables:",
    ]
    for table in proposal.tables:
        lines += _table(table, shared)
    if proposal.left_out:
        lines += ["", "# Left out:", *(f"#   {_printable(source)}: {_printable(reason)}" for source, reason in proposal.left_out)]
    return "\n".join(lines) + "\n"


def of_table(table: TableProposal, now: str) -> str:
    """Return the content of a file that has only this table, as `discover:` writes it. `now`: the time, as ISO 8601."""
    comment = "Edit it as you like. Without this file the next file that lands makes the table again, unless `exclude:` names the folder."
    evidence = {"evidence": f"{table.evidence}; added {now}"}
    return "\n".join([*_prose(comment), "tables:", *_table(replace(table, settings={**table.settings, **evidence}))]) + "\n"


def _table(table: TableProposal, shared: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines of a table. `shared`: settings that `defaults:` has."""
    yield _noted(f"  {table.name}:", table.source)
    landing = str(table.settings.get("increments", "/"))
    notes = {
        "key": table.key_from,
        "increments": "" if landing.startswith("/") or "://" in landing else "relative to the warehouse",
        "order_by": "by other columns the deletes, which have no value, would be lost",
    }
    for name, value in table.settings.items():
        if name not in shared:
            yield _noted(f"    {name}: {flow(value)}", notes.get(name, ""))
    for question in table.questions:
        yield from _prose(question.question, "    ")
        yield from _settings(question.settings, "    #")


def _shared(proposal: Proposal) -> dict[str, Any]:
    """Return the settings that are the same in all tables and go below `defaults:`."""
    first = proposal.tables[0].settings if len(proposal.tables) > 1 else {}
    alike = {name for name in ("envelope", "format", "container") if len({table.settings.get(name) for table in proposal.tables}) == 1}
    return {name: value for name, value in first.items() if name in alike}


def _settings(settings: Mapping[str, Any], indent: str) -> list[str]:
    return [f"{indent}{name}: {flow(value)}" for name, value in settings.items()]


def _noted(line: str, comment: str) -> str:
    return f"{line:<29} # {_printable(comment)}" if comment else line


def _prose(sentence: str, indent: str = "") -> Iterator[str]:
    return (f"{indent}# {line}" for line in wrap(_printable(sentence), 108, break_long_words=False, break_on_hyphens=False))


def flow(value: Any) -> str:
    """Return a YAML flow value on one line; plain words without quotes."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{flow(name)}: {flow(inner)}' for name, inner in value.items())}}}"
    word = str(value)
    if re.fullmatch(r"[A-Za-z_./][\w./-]*", word, re.ASCII) and word.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n"):
        return word
    # what YAML would not print, such as U+0085, is escaped
    return json.dumps(word, ensure_ascii=not word.isprintable())


def _printable(comment: str) -> str:
    """Return text for a comment: a line break in a name would end it."""
    return "".join(char if char.isprintable() else "?" for char in comment)
