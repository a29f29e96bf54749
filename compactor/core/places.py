"""Where files have landed: from paths alone to landing roots, folder patterns and names of tables. Pure; the inverse of `core/increment.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compactor.core import increment, names

PARTS = ("base", "delta", "incremental", "live", "schema")
"""What follows a table's name in the names of its objects; no other table may be called so."""

_NAME_CHARS_MAX = 110
_YEAR = r"(?:19|20)\d\d"
_WORDS = {
    "%Y": ("year", "yyyy", "y"),
    "%m": ("month", "mm"),
    "%d": ("day", "dd"),
    "%H": ("hour", "hh", "h", "hr"),
    "%M": ("minute", "min"),
}
_ORDER = ("%Y", "%m", "%d", "%H", "%M")
_DATE = re.compile(
    rf"(?P<Y>(?<!\d){_YEAR})(?:(?P<s1>[-_.]?)(?P<m>0[1-9]|1[0-2])(?:(?P<s2>[-_.]?)(?P<d>0[1-9]|[12]\d|3[01])"
    r"(?:(?P<s3>[-_.T]?)(?P<H>[01]\d|2[0-3])(?:(?P<s4>[-_.:]?)(?P<M>[0-5]\d))?)?)?)?(?!\d)"
)
_INNER = re.compile(r"partition=\d+|part=\d+")
_NO_NAMES = frozenset({"incremental", "increments", "increment", "landing", "landed", "raw", "data", "cdc", "files", "changes"})


@dataclass(frozen=True)
class Place:
    """A landing root, as a path below what was looked at ("" is that itself), its folder pattern ("" = one flat folder) and its files."""

    root: str
    pattern: str
    files: tuple[str, ...]


def found(paths: Iterable[str]) -> list[Place]:
    """The landing roots of files, by their paths below a common folder. What is no data (`increment.ignored`) is left out.

    >>> [(place.root, place.pattern) for place in found(["t/incremental/increment_2026112014/a.json", "u/dt=2026-11-20/hour=14/b.avro"])]
    [('t/incremental', 'increment_%Y%m%d%H'), ('u', 'dt=%Y-%m-%d/hour=%H')]
    """
    roots: dict[str, dict[str, list[str]]] = {}
    for path in paths:
        if not increment.ignored(path):
            root, pattern = split(path.split("/")[:-1])
            roots.setdefault(root, {}).setdefault(pattern, []).append(path)
    places = []
    for root, patterns in sorted(roots.items()):
        # DMS's full load lies beside the dated folders
        beside = patterns.pop("", [])
        dated: dict[str, list[str]] = {}
        for pattern, files in patterns.items():
            # 2026/9/1 and 2026/10/11 are one pattern: the one that reads both
            plain = next((other for other in patterns if "%-" in other and other.replace("%-", "%") == pattern), pattern)
            dated.setdefault(plain, []).extend(files)
        pattern = max(dated, key=lambda name: len(dated[name])) if dated else ""
        places.append(Place(root, pattern, tuple(sorted([*dated.get(pattern, []), *beside]))))
    return places


def split(folders: Sequence[str]) -> tuple[str, str]:
    """Folders → (landing root, pattern): the root ends before the first folder that names a time, or Kafka's partition."""
    for at, folder in enumerate(folders):
        if _INNER.fullmatch(folder):
            return "/".join(folders[:at]), ""
        pattern = _pattern(folders[at:])
        # `measure_20240105/dt=2026-11-20`: the date that comes later is the time, the earlier one a name
        if pattern and not any("%Y" in "".join(_pattern(folders[later:])) for later in range(at + 1, len(folders))):
            return "/".join(folders[:at]), "/".join(pattern)
    return "/".join(folders), ""


def _pattern(folders: Sequence[str]) -> list[str]:
    """The folders that name a time, as codes, from the first on; empty when the first does not."""
    out: list[str] = []
    told: list[str] = []
    for folder in folders:
        said = _folder(folder, told)
        if said is None:
            break
        code, more = said
        told += more
        out.append(code)
    return out


def _folder(folder: str, told: Sequence[str]) -> tuple[str, list[str]] | None:
    """One folder as codes, and which they are; `told` were named by the folders above. None for one that names no time."""
    word, equals, value = folder.partition("=")
    if equals and re.fullmatch(r"\d{1,2}|\d{4}", value):
        code = next((code for code, words in _WORDS.items() if word.lower() in words), None)
        if code and code not in told and (code == "%Y") == (len(value) == 4):
            return f"{word}={_padded(code, value)}", [code]
    if told and told[-1] != "%M" and re.fullmatch(r"\d{1,2}", folder):
        code = _ORDER[_ORDER.index(told[-1]) + 1]
        return _padded(code, folder), [code]
    match = None if told else _DATE.search(folder)
    if match is None:
        return None
    named = folder[: match.start()]
    # `measure_2024_01` is a table's name; `2024`, `2024-01`, `month=2024-01` and `increment_20240105` are times
    if match["d"] is None and ((named and not named.endswith("=")) or folder[match.end() :]):
        return None
    parts = [part for part in ("Y", "m", "d", "H", "M") if match[part] is not None]
    seps = ["", *(match[f"s{at}"] or "" for at in range(1, len(parts)))]
    codes = "".join(f"{sep}%{part}" for sep, part in zip(seps, parts))
    return f"{_plain(folder[: match.start()])}{codes}{_plain(folder[match.end() :])}", [f"%{part}" for part in parts]


def _padded(code: str, value: str) -> str:
    return f"%-{code[1]}" if len(value) == 1 else code


def _plain(text: str) -> str:
    # a % of the folder's own name would be read as a code: such a folder cannot be spelled by a pattern
    return text.replace("%", "_")


def called(place: Place, top: str) -> str:
    """What a landing root is called: its last folder that is not one of the usual names for landing. `top` names what was looked at."""
    telling = [folder for folder in place.root.split("/") if folder and folder.lower() not in _NO_NAMES]
    return telling[-1] if telling else top


def table_names(sources: Sequence[str]) -> list[str]:
    """Names of tables for topics, folders or `schema.table`s, in the same order: the last part; two alike get the part before it too.

    >>> table_names(["shop.public.orders", "shop.sales.orders", "shop.public.Mixed Case", "shop.public.orders_base"])
    ['public_orders', 'sales_orders', 'mixed_case', 'orders_base']
    """
    last = [source.split(".")[-1].lower() for source in sources]
    wanted = [
        "_".join(source.split(".")[-2:]) if last.count(own) > 1 and "." in source else source.split(".")[-1] for source, own in zip(sources, last)
    ]
    made: dict[int, str] = {}
    taken: list[str] = []
    # the shortest first: `orders_base` has to make way for the objects of `orders`
    for at in sorted(range(len(wanted)), key=lambda at: (len(wanted[at]), at)):
        plain = re.sub(r"[^a-z0-9_]", "_", wanted[at].lower()).lstrip("_")[: _NAME_CHARS_MAX - 5] or "t"
        made[at] = names.unique(plain, taken)
        taken += [made[at], *(f"{made[at]}_{part}" for part in PARTS)]
    return [made[at] for at in range(len(wanted))]
