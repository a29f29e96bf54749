"""The reference of keys in docs/configuration.md, made from their declarations. `make docs` writes it between the two marks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compactor.config.reference import json_schema

PAGE = "docs/configuration.md"
BEGIN, END = "<!-- keys: written by `make docs` -->\n", "<!-- end of the keys -->\n"

HEADINGS = {
    "key": "Rows and their order",
    "increments": "Landing",
    "tombstone_retention": "Late events, deletes and invalid records",
    "write_mode": "Base, Delta and compaction",
    "keep": "How long versions are kept",
    "policy": "Schema changes",
    "on_schema_change": "Schema changes",
    "view": "Catalog objects",
    "daily": "History",
    "notify": "Notices",
    "group": "Airflow",
}
"""First key of a part of a table's keys → heading."""


def page() -> str:
    """Return the page with the reference of today."""
    text = (Path(__file__).parents[1] / PAGE).read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    return head + BEGIN + "\n" + reference() + "\n" + END + rest.split(END)[1]


def reference() -> str:
    """Return a table of keys for each section."""
    schema = json_schema()
    parts, top = schema["$defs"], schema["properties"]
    lines = ["## Top of the file", "", *_table(parts, {name: top[name] for name in top})]
    for name, described in top.items():
        if (section := _section(described)) and section != "Table":
            lines += ["", f"### `{name}`", "", *_table(parts, parts[section]["properties"], f"{name}.")]
    lines += ["", "## A table"]
    keys = parts["Table"]["properties"]
    starts = [name for name in keys if name in HEADINGS]
    names = list(keys)
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        part = names[names.index(start) : names.index(end) if end else None]
        lines += ["", f"### {HEADINGS[start]}", "", *_table(parts, {name: keys[name] for name in part}, below=True)]
    return "\n".join(lines) + "\n"


def _table(parts: dict[str, Any], keys: dict[str, Any], prefix: str = "", below: bool = False) -> list[str]:
    """Return the rows of some keys. `below`: those of their sections too."""
    lines = ["| key | meaning | default |", "|---|---|---|"]
    for name, described in keys.items():
        lines.append(f"| `{prefix}{name}` | {_linked(described['description'])} | {_default(described)} |")
        section = _section(described)
        if section and (below or section == "Group"):
            inner = "group" if section == "Group" else name
            lines += _table(parts, parts[section]["properties"], f"{inner}.")[2:]
    return lines


def _section(described: dict[str, Any]) -> str | None:
    """Return the name of the section that a key has."""
    match: Iterator[str] = (reference.rpartition("/")[2] for reference in re.findall(r'"\$ref": "([^"]+)"', json.dumps(described)))
    return next(match, None)


def _default(described: dict[str, Any]) -> str:
    default = described.get("default")
    if default is None:
        return "-"
    return f"`{json.dumps(default)}`" if isinstance(default, (bool, list)) else f"`{default}`"


def _linked(text: str) -> str:
    """Return a text for a cell: names of pages are links, and signs that would end it are escaped."""
    escaped = re.sub(r"<(?=[a-z])", r"\\<", text.replace("|", "\\|").replace("\n", " "))
    return re.sub(
        r"\(docs/((?:design/)?(\w[\w-]*)\.md(?:#([\w-]+))?)\)", lambda match: f"([{(match[3] or match[2]).replace('-', ' ')}]({match[1]}))", escaped
    )


FILES = {PAGE: page}
"""The page → what makes it."""
