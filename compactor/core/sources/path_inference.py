"""Infer landing roots, folder patterns and table names from the paths of landed files: the inverse of `core/sources/increment.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compactor.core.model import names
from compactor.core.sources import increment

PARTS = ("base", "delta", "incremental", "live", "schema")
"""Suffixes of a table's catalog objects. No other table may have such a name."""

_NAME_CHARS_MAX = 105
_UNITS = {"Y": ("year", "yyyy", "y"), "m": ("month", "mm"), "d": ("day", "dd"), "H": ("hour", "hh", "h", "hr"), "M": ("minute", "min")}
_Y, _M, _D, _H = r"(?P<Y>(?:19|20)\d\d)", "(?P<m>0[1-9]|1[0-2])", r"(?P<d>0[1-9]|[12]\d|3[01])", r"(?P<H>[01]\d|2[0-3])"
_DATES = tuple(
    re.compile(rf"(?<!\d){date}(?!\d)")
    for date in (
        # day first where both numbers could be a month
        rf"{_D}[-_.]{_M}[-_.]{_Y}(?:[-_.T]{_H})?",
        rf"{_M}[-_.]{_D}[-_.]{_Y}(?:[-_.T]{_H})?",
        rf"{_Y}(?:[-_.]?{_M}(?:[-_.]?{_D}(?:[-_.T]?{_H}(?:[-_.:]?(?P<M>[0-5]\d))?)?)?)?",
    )
)
_KAFKA_PARTITION = re.compile(r"partition=\d+|part=\d+")
GENERIC = frozenset("incremental increments increment landing landed raw data cdc files changes in input inbox incoming out export".split())
"""Names of folders that say nothing about the table."""


@dataclass(frozen=True)
class LandingFolder:
    """A folder in which the files of a table, or of a stream of tables, land."""

    root: str
    """Path below the scanned folder; "" is that folder itself."""
    pattern: str
    """strftime pattern of the folders below the root; "" when the files lie in the root."""
    files: tuple[str, ...]
    """Paths of its files below the scanned folder, sorted."""

    def name(self, scanned: str) -> str:
        """Return the last folder with a specific name (`incremental` and `raw` are generic), or `scanned`, the name of the scanned folder."""
        return next((part for part in reversed(self.root.split("/")) if part and part.lower() not in GENERIC), scanned)


def landing_folders(paths: Iterable[str]) -> list[LandingFolder]:
    """Group files by landing root. `paths` are relative to the scanned folder; markers and unfinished files (`increment.ignored`) are left out.

    >>> [(at.root, at.pattern) for at in landing_folders(["t/incremental/increment_2026112014/a.json", "u/dt=2026-11-20/hour=14/b.avro"])]
    [('t/incremental', 'increment_%Y%m%d%H'), ('u', 'dt=%Y-%m-%d/hour=%H')]
    """
    roots: dict[str, dict[str, list[str]]] = {}
    for path in paths:
        if not increment.ignored(path):
            root, pattern = split(path.split("/")[:-1])
            roots.setdefault(root, {}).setdefault(pattern, []).append(path)
    folders = []
    for root, patterns in sorted(roots.items()):
        # DMS writes its full load beside the dated folders
        undated = patterns.pop("", [])
        for pattern in [*patterns]:
            # 2026/9/1 and 2026/10/11 have one pattern: the unpadded one reads both
            if "%-" in pattern:
                patterns[pattern] += patterns.pop(pattern.replace("%-", "%"), [])
            # a month of at most 12 days in: 03-04-2026 alone reads as a day first
            elif pattern.find("%m") < pattern.find("%d") < pattern.find("%Y"):
                patterns[pattern] += patterns.pop(pattern.replace("%m", "%!").replace("%d", "%m").replace("%!", "%d"), [])
        most = max(patterns, key=lambda pattern: len(patterns[pattern]), default="")
        folders.append(LandingFolder(root, most, tuple(sorted([*patterns.get(most, []), *undated]))))
    return folders


def split(folders: Sequence[str]) -> tuple[str, str]:
    """Split a path into (landing root, pattern). The root ends before the first folder that names a time or a Kafka partition."""
    for at, folder in enumerate(folders):
        if _KAFKA_PARTITION.fullmatch(folder):
            return "/".join(folders[:at]), ""
        pattern = _pattern(folders[at:])
        # in `measure_20240105/dt=2026-11-20` the later date is the time and the earlier one belongs to a name
        if pattern and not any("%Y" in _pattern(folders[later:]) for later in range(at + 1, len(folders))):
            return "/".join(folders[:at]), pattern
    return "/".join(folders), ""


def _pattern(folders: Sequence[str]) -> str:
    """Return the pattern of the leading folders that name a time; "" when the first one does not."""
    out: list[str] = []
    for folder in folders:
        if not (pattern := _folder_pattern(folder, re.findall("%-?([YmdHM])", "/".join(out)))):
            break
        out.append(pattern)
    return "/".join(out)


def _folder_pattern(folder: str, above: Sequence[str]) -> str:
    """Return the pattern of one folder, "" when it names no time. `above`: the strftime codes of the folders above."""
    word, equals, value = folder.rpartition("=")
    if re.fullmatch(r"\d{1,2}|\d{4}", value):
        if equals:
            code = next((code for code, units in _UNITS.items() if word.lower() in units and code not in above), "")
        else:
            # in 2026/11/20 each folder continues the one above
            code = "".join(_UNITS).partition(above[-1])[2][:1] if above else ""
        if code and (code == "Y") == (len(value) == 4):
            return f"{word}{equals}%{'-' if len(value) == 1 else ''}{code}"
    match = next((match for date in _DATES if (match := date.search(folder))), None)
    if match is None or above:
        return ""
    # a % in the folder's own name would be read as a code, and no pattern can spell it
    before, dated, after = folder[: match.start()].replace("%", "_"), match[0], folder[match.end() :].replace("%", "_")
    # `measure_2024_01` is a table's name; `2024`, `2024-01`, `month=2024-01` and `increment_20240105` are times
    if match["d"] is None and ((before and not before.endswith("=")) or after):
        return ""
    for start, code in sorted(((match.start(code), code) for code, part in match.groupdict().items() if part), reverse=True):
        at = start - match.start()
        dated = dated[:at] + f"%{code}" + dated[at + len(match[code]) :]
    return before + dated + after


def table_names(sources: Sequence[str]) -> list[str]:
    """Return a table name for each topic, folder or `schema.table`: its last part. Two equal ones get the part before it too.

    >>> table_names(["shop.public.orders", "shop.sales.orders", "shop.public.Mixed Case", "shop.public.orders_base"])
    ['public_orders', 'sales_orders', 'mixed_case', 'orders_base']
    """
    parts = [source.split(".") for source in sources]
    last = [part[-1].lower() for part in parts]
    plain = ["_".join(part[-2:] if last.count(part[-1].lower()) > 1 else part[-1:]).lower() for part in parts]
    made: dict[int, str] = {}
    taken: list[str] = []
    # the shortest first: `orders_base` must not take the name of an object of `orders`
    for at in sorted(range(len(plain)), key=lambda at: (len(plain[at]), at)):
        made[at] = names.unique(re.sub(r"[^a-z0-9_]", "_", plain[at]).lstrip("_")[:_NAME_CHARS_MAX] or "t", taken)
        taken += [made[at], *(f"{made[at]}_{part}" for part in PARTS)]
    return [made[at] for at in range(len(plain))]
