"""Folders: where the landing folders of tables that are not configured may be, by those of the configured tables and by `discover:`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from compactor.core.sources.path_inference import GENERIC

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Discovery:
    """Where landing folders are: an entry of `discover:`, or (`beside`) a directory in which tables have theirs."""

    place: str
    """Full path of the folders, with placeholders such as `{table}`."""
    pattern: str = ""
    """strftime pattern of the folders below; "" if the files show it."""
    name: str = "{table}"
    """Name of a table, with the same placeholders."""
    exclude: tuple[str, ...] = ()
    """Shell patterns of folders, as paths below the part of `place` without placeholders, that are left alone."""
    at_most: int = 50
    """The largest number of tables that these folders may have."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Keys of each table, as they are written in compactor.yaml."""
    inherited: Mapping[str, Any] = field(default_factory=dict)
    """Keys that each table has from `defaults:`."""

    @property
    def top(self) -> str:
        """The directory above the first name that differs from table to table."""
        return self.place.partition("{")[0].rpartition("/")[0]

    @property
    def levels(self) -> list[str]:
        """The names below `top`, with placeholders."""
        return self.place[len(self.top) + 1 :].split("/")

    def match(self, level: int, name: str) -> dict[str, str] | None:
        """Return the values of the placeholders in a name at a level, or None if the name does not fit."""
        parts = _PLACEHOLDER.split(self.levels[level])
        text = "".join(f"(?P<{part}>.+?)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
        match = re.fullmatch(text, name)
        return None if match is None or name.startswith((".", "_")) else match.groupdict()

    def table_name(self, values: Mapping[str, str]) -> str:
        """Return the name of the table of a folder whose placeholders have these values."""
        name = _PLACEHOLDER.sub(lambda match: values[match[1]], self.name)
        return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "t"

    def excludes(self, folder: str) -> bool:
        below = folder[len(self.top) :].strip("/")
        return folder.startswith(f"{self.top}/") and any(fnmatchcase(below, each) for each in self.exclude)

    def fits(self, place: str) -> bool:
        """Return whether a landing folder is one of these, or lies below one."""
        names = place[len(self.top) + 1 :].split("/") if place.startswith(self.top + "/") else []
        return len(names) >= len(self.levels) and all(self.match(at, names[at]) is not None for at in range(len(self.levels)))


@dataclass(frozen=True)
class Folder:
    """A landed folder that no table takes."""

    path: str
    example: str
    """Path of a file below it."""
    discovery: Discovery
    """What it fits."""
    name: str
    """The name of its table, if it becomes one."""


def beside(landings: Iterable[str], warehouse: str) -> Iterator[Discovery]:
    """Return where the landing folders of tables have others beside them: in the warehouse, and where at least two tables have theirs.

    The name that differs is the last one that is not as general as `incremental`.
    """
    counts: dict[tuple[str, str], int] = {}
    for landing in landings:
        names = landing.split("/")
        at = next((at for at in range(len(names) - 1, 0, -1) if names[at].lower() not in GENERIC), 0)
        # a brace would be read as a placeholder
        if at and "{" not in landing:
            place = ("/".join(names[:at]), "/".join(["{table}", *names[at + 1 :]]))
            counts[place] = counts.get(place, 0) + 1
    yield from (Discovery(f"{top}/{below}") for (top, below), count in counts.items() if count > 1 or top == warehouse)


def upwards(place: str) -> Iterator[str]:
    """Yield a directory and its parents."""
    while place:
        yield place
        place = place.rpartition("/")[0].rstrip("/")
