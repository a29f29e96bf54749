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
_UNITS = {"%Y": ("year", "yyyy", "y"), "%m": ("month", "mm"), "%d": ("day", "dd"), "%H": ("hour", "hh", "h", "hr"), "%M": ("minute", "min")}
_ORDER = tuple(_UNITS)
_DATE = re.compile(
    r"(?P<Y>(?<!\d)(?:19|20)\d\d)(?:(?P<s1>[-_.]?)(?P<m>0[1-9]|1[0-2])(?:(?P<s2>[-_.]?)(?P<d>0[1-9]|[12]\d|3[01])"
    r"(?:(?P<s3>[-_.T]?)(?P<H>[01]\d|2[0-3])(?:(?P<s4>[-_.:]?)(?P<M>[0-5]\d))?)?)?)?(?!\d)"
)
_DAY_FIRST = re.compile(r"(?<!\d)(?P<a>\d\d)(?P<s1>[-_.])(?P<b>\d\d)(?P<s2>[-_.])(?P<Y>(?:19|20)\d\d)(?:(?P<s3>[-_.T])(?P<H>[01]\d|2[0-3]))?(?!\d)")
_KAFKA_PARTITION = re.compile(r"partition=\d+|part=\d+")
_GENERIC = frozenset(
    {
        "incremental",
        "increments",
        "increment",
        "landing",
        "landed",
        "raw",
        "data",
        "cdc",
        "files",
        "changes",
        "in",
        "input",
        "inbox",
        "incoming",
        "out",
        "export",
    }
)


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
        return next((part for part in reversed(self.root.split("/")) if part and part.lower() not in _GENERIC), scanned)


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
        for pattern in [pattern for pattern in patterns if "%-" in pattern]:
            # 2026/9/1 and 2026/10/11 have one pattern: the unpadded one reads both
            patterns[pattern] += patterns.pop(pattern.replace("%-", "%"), [])
        for pattern in [pattern for pattern in patterns if pattern.find("%m") < pattern.find("%d") < pattern.find("%Y")]:
            # a month of at most 12 days in: 03-04-2026 alone reads as a day first
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
    codes: list[str] = []
    for folder in folders:
        pattern, more = _folder_pattern(folder, codes)
        if not more:
            break
        out.append(pattern)
        codes += more
    return "/".join(out)


def _folder_pattern(folder: str, above: Sequence[str]) -> tuple[str, list[str]]:
    """Return the pattern of one folder and its strftime codes, none when it names no time. `above`: the codes of the folders above."""
    word, equals, value = folder.partition("=")
    if equals and re.fullmatch(r"\d{1,2}|\d{4}", value):
        code = next((code for code, units in _UNITS.items() if word.lower() in units), "")
        if code and code not in above and (code == "%Y") == (len(value) == 4):
            return f"{word}={_padded(code, value)}", [code]
    if above and above[-1] != "%M" and re.fullmatch(r"\d{1,2}", folder):
        code = _ORDER[_ORDER.index(above[-1]) + 1]
        return _padded(code, folder), [code]
    if not above and (day_first := _day_first(folder)):
        return day_first
    match = None if above else _DATE.search(folder)
    if match is None:
        return "", []
    # a % in the folder's own name would be read as a code, and no pattern can spell it
    before, after = folder[: match.start()].replace("%", "_"), folder[match.end() :].replace("%", "_")
    # `measure_2024_01` is a table's name; `2024`, `2024-01`, `month=2024-01` and `increment_20240105` are times
    if match["d"] is None and ((before and not before.endswith("=")) or after):
        return "", []
    codes = [code for code in _ORDER if match[code[1]] is not None]
    separators = ["", *(match[f"s{at}"] or "" for at in range(1, len(codes)))]
    return before + "".join(map("".join, zip(separators, codes))) + after, codes


def _day_first(folder: str) -> tuple[str, list[str]] | None:
    """Return the pattern of a folder such as 20-11-2026 or 11-20-2026. Day first where both numbers could be a month."""
    match = _DAY_FIRST.search(folder)
    if match is None or not (1 <= min(int(match["a"]), int(match["b"])) <= 12 and max(int(match["a"]), int(match["b"])) <= 31):
        return None
    first, second = ("%m", "%d") if int(match["b"]) > 12 else ("%d", "%m")
    hour = [match["s3"] + "%H"] if match["H"] else []
    before, after = folder[: match.start()].replace("%", "_"), folder[match.end() :].replace("%", "_")
    pattern = "".join([before, first, match["s1"], second, match["s2"], "%Y", *hour, after])
    return pattern, [first, second, "%Y", *(["%H"] if hour else [])]


def _padded(code: str, value: str) -> str:
    return f"%-{code[1]}" if len(value) == 1 else code


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
