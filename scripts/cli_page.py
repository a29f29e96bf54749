"""Write docs/cli.md from the command line: Typer's reference, with the options that most commands share in one place. `make docs` calls it."""

from __future__ import annotations

import collections
import re

import typer
from typer.cli import get_docs_for_click

from compactor.cli.main import app

PAGE = "docs/cli.md"
COMMON = 6
"""An option that so many commands have, word for word, is explained once."""
_OPTION = re.compile(r"^\* `(?:-\w, )?(--[\w-]+|[A-Z]+)[^`]*`: .*\n", re.MULTILINE)
_SECTION = re.compile(r"^(?=##+ `)", re.MULTILINE)
_EXAMPLE = re.compile(r"^Example:\n((?:  .*\n)+)", re.MULTILINE)
_USAGE = re.compile(r"\*\*Usage\*\*:\n\n```console\n\$ (.*)\n```\n")
_COMMAND = re.compile(r"^\* `([a-z][\w-]*)`: .*\n", re.MULTILINE)
_HELP = "* `--help`: Show this message and exit.\n"


def page() -> str:
    """Return the page."""
    command = typer.main.get_command(app)
    written = get_docs_for_click(obj=command, ctx=typer.Context(command), name="compactor")
    written = _USAGE.sub(r"Usage: `\1`\n", _EXAMPLE.sub(_example, written.strip() + "\n").replace(_HELP, ""))
    # Click marks a paragraph that keeps its lines with a backspace
    head, *sections = _SECTION.split(re.sub(r"\n[\x08\n]*\n", "\n\n", written))
    summaries = {found[1]: found[2] for section in sections for found in re.finditer(r"## `compactor ([\w-]+)`\n\n(.*)", section)}
    head = _COMMAND.sub(lambda found: f"* [`{found[1]}`](#compactor-{found[1]}): {summaries[found[1]]}\n", head)
    uses = collections.Counter(found[0] for section in sections for found in _OPTION.finditer(section))
    common = {line for line, count in uses.items() if count >= COMMON}
    shared = "".join(sorted(common, key=lambda line: (_OPTION.sub(r"\1", line), line)))
    explained = f"## Options of many commands\n\nAfter *Also*, a command names those that it has. All have `--help`.\n\n{shared}\n"
    return head + explained + "".join(_shortened(section, common) for section in sections)


def _example(found: re.Match[str]) -> str:
    return "```\n" + re.sub("^  ", "", found[1], flags=re.MULTILINE) + "```\n"


def _shortened(section: str, common: set[str]) -> str:
    """Return the section with names instead of the texts of common options."""
    names = [found[1] for found in _OPTION.finditer(section) if found[0] in common and found[1].startswith("-")]
    section = _OPTION.sub(lambda found: "" if found[0] in common else found[0], section)
    section = re.sub(r"\*\*(Arguments|Options)\*\*:\n\n(?!\* )\n*", "", section).rstrip("\n") + "\n\n"
    return section + (f"Also: {', '.join(f'`{name}`' for name in names)}.\n\n" if names else "")


FILES = {PAGE: lambda: page().rstrip("\n") + "\n"}
"""File → function that returns its content."""
