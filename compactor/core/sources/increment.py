"""Increment: one landed folder of raw change files, named by a strftime pattern; and the rules for what counts as a landed file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

_PARTS = {
    "%Y": r"(?P<Y>\d{4})",
    "%m": r"(?P<m>\d{2})",
    "%d": r"(?P<d>\d{2})",
    "%H": r"(?P<H>\d{2})",
    "%M": r"(?P<M>\d{2})",
    "%-m": r"(?P<m>\d{1,2})",
    "%-d": r"(?P<d>\d{1,2})",
    "%-H": r"(?P<H>\d{1,2})",
}
"""strftime codes; those with a minus sign (GNU's) are written without leading zeros."""

_CODE = r"%-?."
_LOAD = re.compile(r"LOAD[_0-9A-Fa-f]+\.[^/]*")
_CHANGES = re.compile(r"\d{8}-\d{6,}\.[^/]*")
_UNFINISHED = (".tmp", ".inprogress", ".crc", "._COPYING_")
_MARKERS = ("_$folder$",)
SUFFIXES = {".parquet": "parquet", ".avro": "avro", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}


def split_pattern(path: str) -> tuple[str, str]:
    """A landing path with a pattern → (root, pattern).

    >>> split_pattern("student/incremental/increment_%Y%m%d%H")
    ('student/incremental', 'increment_%Y%m%d%H')
    >>> split_pattern("raw/student")
    ('raw/student', '')
    """
    parts = path.rstrip("/").split("/")
    for at, part in enumerate(parts):
        if "%" in part:
            return "/".join(parts[:at]), "/".join(parts[at:])
    return "/".join(parts), ""


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a folder pattern, or None."""
    unknown = sorted(set(re.findall(_CODE, pattern)) - set(_PARTS))
    if unknown:
        return f"unknown {', '.join(unknown)}; known are {', '.join(_PARTS)}"
    codes = [code[-1] for code in re.findall(_CODE, pattern)]
    if len(codes) != len(set(codes)):
        return "a part of the date occurs twice"
    return None


def folder_regex(pattern: str) -> re.Pattern[str]:
    """Matches a path below the landing root whose leading folders fit the pattern; group `folder` is that part."""
    out = "".join(_PARTS.get(piece, re.escape(piece)) for piece in re.split(f"({_CODE})", pattern))
    return re.compile(f"(?P<folder>{out})/" if pattern else "(?P<folder>)")


def folder_at(pattern: str, seconds: float, zone: str = "UTC") -> str:
    """The folder of a moment (epoch seconds), the inverse of `landed`; "" for a flat folder.

    >>> folder_at("increment_%Y%m%d%H", 0.0)
    'increment_1970010100'
    """
    moment = datetime.fromtimestamp(seconds, ZoneInfo(zone))
    return _filled(pattern, moment)


def _filled(pattern: str, moment: datetime) -> str:
    written = {"Y": f"{moment.year:04}", "m": f"{moment.month:02}", "d": f"{moment.day:02}", "H": f"{moment.hour:02}", "M": f"{moment.minute:02}"}
    return re.sub(_CODE, lambda code: str(int(written[code[0][-1]])) if "-" in code[0] else written[code[0][-1]], pattern)


@dataclass(frozen=True)
class Landed:
    """Where a file below the landing root belongs: `folder` (the increment's, "" when flat), `hour` text `YYYY-MM-DDTHH:MM` or None."""

    folder: str
    hour: str | None


def landed(pattern: str, relative: str, zone: str = "UTC", load_files: bool = False) -> Landed | None:
    """The increment of a file, by its path below the landing root; None when it does not fit the pattern or is no date.

    `zone` is where the folder's hour was told; `Landed.hour` is UTC (H5: hours name folders, never an order).
    `load_files`: files of a full load lie beside the dated folders (AWS DMS); they belong to the folder "".
    """
    match = folder_regex(pattern).match(relative)
    if match is None:
        return Landed("", None) if load_files and is_full_load(relative) and "/" not in relative else None
    parts = match.groupdict()
    if "Y" not in parts:
        return Landed(match["folder"], None)
    try:
        moment = datetime(int(parts["Y"]), int(parts.get("m") or 1), int(parts.get("d") or 1), int(parts.get("H") or 0), int(parts.get("M") or 0))
    except ValueError:
        return None
    if zone != "UTC":
        moment = moment.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
    return Landed(match["folder"], moment.strftime("%Y-%m-%dT%H:%M"))


def hour_place(pattern: str, hour: datetime, zone: str = "UTC") -> tuple[str, str] | None:
    """(directory below the landing root that holds the files of an hour, how their `Landed.hour` begins); None for a flat folder.

    A folder that holds more than an hour (a day's) is the place of each of its hours; one that holds less (`%M`) is not named by the directory.

    >>> hour_place("%Y/%m/%d/%H", datetime(2026, 11, 20, 14, tzinfo=timezone.utc))
    ('2026/11/20/14', '2026-11-20T14:00')
    """
    if "%Y" not in pattern:
        return None
    local = hour.astimezone(timezone.utc if zone == "UTC" else ZoneInfo(zone)).replace(minute=0)
    told = landed(pattern, _filled(pattern, local) + "/", zone)
    if told is None or told.hour is None:
        return None
    parts = pattern.split("/")
    whole = next((at for at, part in enumerate(parts) if "%M" in part), len(parts))
    return _filled("/".join(parts[:whole]), local), told.hour[:13] if "%M" in pattern else told.hour


def is_full_load(relative: str) -> bool:
    """Whether DMS names the files of a full load so: `LOAD` and a hexadecimal counter (`LOAD_<segment>_<counter>` of a parallel load)."""
    return _LOAD.fullmatch(relative.rsplit("/", 1)[-1]) is not None


def is_dated_changes(relative: str) -> bool:
    """Whether DMS names its files of changes so: `20260101-120000123.csv`, the time at which they were written."""
    return _CHANGES.fullmatch(relative.rsplit("/", 1)[-1]) is not None


def ignored(relative: str) -> bool:
    """Whether a file is no data: hidden, a marker, or still being written (`_SUCCESS`, `.crc`, `x.tmp`, `_temporary/...`)."""
    parts = relative.split("/")
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in parts)
    return hidden or parts[-1].endswith((*_UNFINISHED, *_MARKERS)) or not parts[-1]


def file_format(relative: str) -> str | None:
    """The format that a file's name tells, compression suffixes taken off; None when it tells none."""
    name = relative.rsplit("/", 1)[-1].lower()
    for packed in (".gz", ".zst", ".snappy", ".bz2"):
        name = name[: -len(packed)] if name.endswith(packed) else name
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)
