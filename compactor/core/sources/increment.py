"""Increment: a landed folder of raw change files with a strftime pattern as its name, and the rules for which files count as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from functools import lru_cache

from compactor.core.model import times
from compactor.core.model.envelopes import BESIDE_VALUES

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
"""strftime code → regular expression. Codes with a minus sign (GNU) have no leading zeros."""

_CODE = r"%-?."
_SHARD = r"\{[A-Za-z_]\w*\}"
_LOAD = re.compile(r"LOAD[_0-9A-Fa-f]+\.[^/]*")
_CHANGES = re.compile(r"\d{8}-\d{6,}\.[^/]*")
_REPAIR = re.compile(r"_repair-(.+)-[0-9a-f]+\.json")
_UNFINISHED = (".tmp", ".inprogress", ".crc", "._COPYING_")
_MARKERS = ("_$folder$",)
SUFFIXES = {".parquet": "parquet", ".avro": "avro", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}


def split_pattern(path: str) -> tuple[str, str]:
    """Split a landing path into (root, pattern).

    >>> split_pattern("student/incremental/increment_%Y%m%d%H")
    ('student/incremental', 'increment_%Y%m%d%H')
    >>> split_pattern("raw/{region}/student_%Y%m%d"), split_pattern("raw/student")
    (('raw', '{region}/student_%Y%m%d'), ('raw/student', ''))
    """
    parts = path.rstrip("/").split("/")
    for at, part in enumerate(parts):
        if "%" in part or "{" in part:
            return "/".join(parts[:at]), "/".join(parts[at:])
    return "/".join(parts), ""


GLOB = re.compile(r"[*?{}\[\]\\]")
"""What Spark interprets as a pattern in a location."""


def pattern_problem(pattern: str) -> str | None:
    """Return the problem with a folder pattern, or None."""
    unknown = sorted(set(re.findall(_CODE, pattern)) - set(_PARTS))
    if unknown:
        return f"expected codes out of {', '.join(_PARTS)}, found {', '.join(unknown)}"
    if re.search(r"[{}]", re.sub(_SHARD, "", pattern, count=1)):
        return "expected one {name} at most, the column with the shard, such as {region}/increment_%Y%m%d%H"
    codes = [code[-1] for code in re.findall(_CODE, pattern)]
    if len(codes) != len(set(codes)):
        return "a part of the date occurs twice"
    return None


@lru_cache(maxsize=256)
def folder_regex(pattern: str) -> re.Pattern[str]:
    """Return an expression for paths below the landing root whose leading folders fit the pattern. Group `folder` is that part."""
    parts = {**_PARTS, f"{{{shard_column(pattern)}}}": "(?P<shard>[^/]+?)"}
    out = "".join(parts.get(piece, re.escape(piece)) for piece in re.split(f"({_CODE}|{_SHARD})", pattern))
    return re.compile(f"(?P<folder>{out})/" if pattern else "(?P<folder>)")


@lru_cache(maxsize=256)
def _loose_regex(pattern: str) -> re.Pattern[str]:
    pieces = re.split(f"((?:{_CODE})+|{_SHARD})", pattern)
    return re.compile("".join({"{": "[^/]+?", "%": r"\d+"}.get(piece[:1], re.escape(piece)) for piece in pieces) + "/")


@lru_cache(maxsize=256)
def shard_column(pattern: str) -> str:
    """Return the name in braces of a folder pattern: the column with the shard. "" without one.

    >>> shard_column("{region}/increment_%Y%m%d%H")
    'region'
    """
    match = re.search(_SHARD, pattern)
    return match[0][1:-1] if match else ""


def shard_of(pattern: str, relative: str) -> str:
    """Return the shard of a landed file; "" if the pattern has none."""
    place = landed(pattern, relative)
    return place.shard if place else ""


def java_regex(pattern: str) -> str:
    """Return a regular expression of Java with the shard as its only group.

    >>> java_regex("{region}/increment_%Y")
    '^(?:([^/]+?)/increment_(?:\\\\d{4}))/'
    """
    inside = folder_regex(pattern).pattern.replace("(?P<folder>", "(?:", 1)
    return "^" + re.sub(r"\(\?P<shard>", "(", re.sub(r"\(\?P<(?!shard)\w>", "(?:", inside))


def folder_at(pattern: str, seconds: float, zone: str = "UTC") -> str:
    """Return the folder of a time (epoch seconds): the inverse of `landed`. "" for a flat folder.

    >>> folder_at("increment_%Y%m%d%H", 0.0)
    'increment_1970010100'
    """
    moment = datetime.fromtimestamp(seconds, times.zone_of(zone))
    return _filled(pattern, moment)


def _filled(pattern: str, moment: datetime) -> str:
    written = {"Y": f"{moment.year:04}", "m": f"{moment.month:02}", "d": f"{moment.day:02}", "H": f"{moment.hour:02}", "M": f"{moment.minute:02}"}
    return re.sub(_CODE, lambda code: str(int(written[code[0][-1]])) if "-" in code[0] else written[code[0][-1]], pattern)


@dataclass(frozen=True)
class Landed:
    folder: str
    """Path of the increment's folder below the landing root; "" for a flat landing."""
    hour: str | None
    """The hour that the folder names, UTC, as `YYYY-MM-DDTHH:MM`; None without one."""
    shard: str = ""
    """What the path has for the shard; "" if the pattern has none."""


def landed(pattern: str, relative: str, zone: str = "UTC", load_files: bool = False) -> Landed | None:
    """Return the increment of a file, or None if its folder does not fit the pattern or names no date.

    `relative`: path below the landing root. `zone`: time zone of the folder's hour; `Landed.hour` is UTC. Hours name folders, they never order
    events. `load_files`: files of a full load lie beside the dated folders (AWS DMS) and belong to the folder "".
    """
    match = folder_regex(pattern).match(relative)
    if match is None:
        return Landed("", None) if load_files and is_full_load(relative) and "/" not in relative else None
    parts = match.groupdict()
    shard = parts.get("shard") or ""
    if "Y" not in parts:
        return Landed(match["folder"], None, shard)
    try:
        moment = datetime(int(parts["Y"]), int(parts.get("m") or 1), int(parts.get("d") or 1), int(parts.get("H") or 0), int(parts.get("M") or 0))
        moment = moment.replace(tzinfo=times.zone_of(zone)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    # `strftime` writes years below 1000 with fewer digits
    return Landed(match["folder"], moment.replace(tzinfo=None).isoformat(timespec="minutes"), shard)


def names_no_date(pattern: str, relative: str, zone: str = "UTC") -> bool:
    """Return whether the folder of a file has the form of the pattern and names a day that does not exist, such as `2026-02-31`."""
    return folder_regex(pattern).match(relative) is not None and landed(pattern, relative, zone) is None


def resembles(pattern: str, relative: str) -> bool:
    """Return whether the folder of a file is written nearly as the pattern asks: with numbers of other lengths, or the file lies beside such folders.

    >>> [resembles("day=%Y-%m-%d", path) for path in ("day=2026-1-7/a.json", "a.json", "day=today/a.json", "other/a.json")]
    [True, True, False, False]
    """
    return "/" not in relative or _loose_regex(pattern).match(relative) is not None


def hour_place(pattern: str, hour: datetime, zone: str = "UTC") -> tuple[str, str] | None:
    """Return (directory below the landing root with the files of an hour, prefix of their `Landed.hour`), or None for a flat folder.

    A folder for more than an hour, such as a day, is the directory of each of its hours. For folders with minutes (`%M`) it is the one above.

    >>> hour_place("%Y/%m/%d/%H", datetime(2026, 11, 20, 14, tzinfo=timezone.utc))
    ('2026/11/20/14', '2026-11-20T14:00')
    """
    if "%Y" not in pattern:
        return None
    local = hour.astimezone(times.zone_of(zone)).replace(minute=0)
    place = landed(pattern, _filled(pattern, local) + "/", zone)
    if place is None or place.hour is None:
        return None
    parts = pattern.split("/")
    whole = next((at for at, part in enumerate(parts) if "%M" in part or "{" in part), len(parts))
    return _filled("/".join(parts[:whole]), local), place.hour[:13] if "%M" in pattern else place.hour


def folder_columns(inside: Iterable[str]) -> list[str]:
    """Return the names of values that stand in the names of folders (Hive's `region=eu`) of paths inside of an increment.

    >>> folder_columns(["region=eu/part-0.parquet", "region=us/year=2026/part-0.parquet", "part-1.parquet"])
    ['region', 'year']
    """
    folders = (folder for path in inside for folder in path.split("/")[:-1])
    return sorted({folder.partition("=")[0] for folder in folders if "=" in folder})


def is_full_load(relative: str) -> bool:
    """Return whether a file has DMS's name for full loads: `LOAD` and a hexadecimal counter, for a parallel load `LOAD_<segment>_<counter>`."""
    return _LOAD.fullmatch(relative.rsplit("/", 1)[-1]) is not None


def load_name(pattern: str, relative: str) -> str:
    """Return what a file of a full load is called in the next load, too: its path without dated folder and ending. "" for other files.

    >>> [load_name("%Y/%m", path) for path in ("LOAD00000001.csv", "2026/11/LOAD00000001.csv.gz", "2026/11/20261120-080000123.csv")]
    ['LOAD00000001', 'LOAD00000001', '']
    """
    if not is_full_load(relative):
        return ""
    place = landed(pattern, relative, load_files=True)
    inside = relative[len(place.folder) :].lstrip("/") if place else relative
    head, slash, name = inside.rpartition("/")
    return head + slash + name.partition(".")[0]


def repair_name(table: str, label: str) -> str:
    """Return the name of a file of `compactor reconcile --repair`. Engines that read the landing folders leave it out. `label`: hexadecimal.

    >>> repair_name("student", "0a1b")
    '_repair-student-0a1b.json'
    """
    return f"_repair-{table}-{label}.json"


def repaired_table(relative: str) -> str | None:
    """Return the table that a file of `compactor reconcile --repair` repairs; None for other files. Other tables may read the same folder."""
    match = _REPAIR.fullmatch(relative.rsplit("/", 1)[-1])
    return match[1] if match else None


def is_dated_changes(relative: str) -> bool:
    """Return whether a file has DMS's name for changes: the time at which it was written, as in `20260101-120000123.csv`."""
    return _CHANGES.fullmatch(relative.rsplit("/", 1)[-1]) is not None


def is_dms(relative: str) -> bool:
    return is_full_load(relative) or is_dated_changes(relative)


def ignored(relative: str, patterns: Sequence[str] = BESIDE_VALUES) -> bool:
    """Return whether a file has no data: hidden files, markers and files that are being written (`_SUCCESS`, `.crc`, `x.tmp`, `_temporary/...`).

    `patterns`: other files that are left out, as shell patterns of the path below the landing root (`ignore:`).

    >>> [ignored(f"hour=14/shop.orders+0+0000000042{suffix}") for suffix in (".json", ".keys.json", ".headers.json")]
    [False, True, True]
    """
    if any(fnmatchcase(relative, pattern) for pattern in patterns):
        return True
    name = relative.rpartition("/")[2]
    return hidden(relative) or name.endswith((*_UNFINISHED, *_MARKERS)) or not name


def hidden(relative: str) -> bool:
    """Return whether engines pass over a file, because its name or that of a folder begins with a dot, or with `_` and is no partition.

    >>> [hidden(path) for path in ("hour/_SUCCESS", "_temporary/0/part-0.json", "hour/.a=b.json", "_day=5/part-0.json", "hour/part-0.json.tmp")]
    [True, True, True, False, False]
    """
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in relative.split("/"))


def file_format(relative: str) -> str | None:
    """Return the format by the suffix of a file name, without compression suffixes; None for other suffixes."""
    name = relative.rsplit("/", 1)[-1].lower()
    for packed in (".gz", ".zst", ".snappy", ".bz2"):
        name = name[: -len(packed)] if name.endswith(packed) else name
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)
