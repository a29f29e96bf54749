"""The part of `terraform fmt` that can be checked without terraform: white space, and equals signs under each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEM = re.compile(r'^(?P<indent> *)(?P<key>[\w"().-]+)(?P<space> *)= ')


def unformatted(text: str) -> Iterator[str]:
    """What `terraform fmt` would change, a line each; heredocs are left alone."""
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield "the file should end with one newline"
    end = ""
    group: tuple[int, int] | None = None  # indentation and column of the equals sign of the line before
    for number, line in enumerate(text.splitlines(), 1):
        if end:
            end = "" if line.strip() == end else end
            continue
        if line != line.rstrip() or "\t" in line:
            yield f"{number}: white space at the end, or a tab"
        if (len(line) - len(line.lstrip(" "))) % 2:
            yield f"{number}: indented by an odd number of spaces"
        opened = re.search(r"<<-?(\w+)$", line)
        end = opened[1] if opened else ""
        found = _ITEM.match(line)
        if not found or opened or not _whole(line):
            group = None
            continue
        here = (len(found["indent"]), found.end() - 2)
        if group and group[0] == here[0] and group[1] != here[1]:
            yield f"{number}: its = stands under no other"
        if not group and len(found["space"]) > 1 and not _followed(text.splitlines()[number:], here):
            yield f"{number}: more than one space before ="
        group = here


def _whole(line: str) -> bool:
    """Whether a line opens as many brackets as it closes; those in strings do not count."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", line)
    return sum(bare.count(mark) for mark in "([{") == sum(bare.count(mark) for mark in ")]}")


def _followed(lines: list[str], here: tuple[int, int]) -> bool:
    """Whether the next line's equals sign explains the space before this one."""
    found = _ITEM.match(lines[0]) if lines else None
    return found is not None and (len(found["indent"]), found.end() - 2) == here
