"""Every path this project writes below a table's root, and the inverse. No other module joins path strings.

base/<commit id>/segment=<n>/*.parquet      a Segment: one directory, one key range
delta/<commit id>/*.parquet                 a Delta
feed/<commit id>/*.parquet                  what a version changed
history/<commit id>/history_part=<name>/*.parquet   a part of the history: a day (d2026-11-20), the open Delta (delta), an open key range (open-<n>)
archive/<folder>/<file>                     absorbed raw files
quarantine/<folder>/<file>                  unusable ones, and <file>.reason.json for every file with something unusable
_compactor/snapshots/<20 digits>.json       Snapshots; the number is the version
_compactor/snapshots/latest                 a hint, never trusted
_compactor/ledger/<commit id>.jsonl.gz      absorbed inputs of older Snapshots
_compactor/notices/<digest>.json            schema changes that people were told of
_compactor/owner.json                       who the catalog objects belong to
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SNAPSHOT = re.compile(r"_compactor/snapshots/(\d{20})\.json")
_KINDS = (
    ("segment", re.compile(r"base/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>segment=[0-9-]+)/(?P<file>[^/]+)")),
    ("delta", re.compile(r"delta/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>)(?P<file>[^/]+)")),
    ("feed", re.compile(r"feed/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>)(?P<file>[^/]+)")),
    ("history", re.compile(r"history/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>history_part=[a-z0-9-]+)/(?P<file>[^/]+)")),
    ("snapshot", _SNAPSHOT),
    ("hint", re.compile(r"_compactor/snapshots/latest")),
    ("ledger", re.compile(r"_compactor/ledger/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})\.jsonl\.gz")),
    ("notice", re.compile(r"_compactor/notices/(?P<digest>[0-9a-f]{32})\.json")),
    ("archive", re.compile(r"archive/(?P<part>.+)")),
    ("quarantine", re.compile(r"quarantine/(?P<part>.+)")),
)
_UNIT = re.compile(
    r"(?P<unit>base/(?P<base>[a-z]\d{8}-[0-9a-f]{8})/[^/]+)(/.+)?"
    r"|(?P<delta_unit>delta/(?P<delta>[a-z]\d{8}-[0-9a-f]{8}))/.+"
    r"|(?P<feed_unit>feed/(?P<feed>[a-z]\d{8}-[0-9a-f]{8}))/.+"
    r"|(?P<history_unit>history/(?P<history>[a-z]\d{8}-[0-9a-f]{8})/(history_part=|[_.])[^/]+)(/.+)?"
    r"|(?P<ledger_unit>_compactor/ledger/(?P<ledger>[a-z]\d{8}-[0-9a-f]{8})\.jsonl\.gz)"
)


def join(*parts: str) -> str:
    """Parts of a location with single slashes between them; empty parts vanish."""
    head, *rest = [part for part in parts if part]
    return "/".join([head.rstrip("/"), *(part.strip("/") for part in rest)]) if rest else head.rstrip("/")


def relative(location: str, root: str) -> str:
    """The part of a location below `root`. Raises ValueError when it does not lie there."""
    prefix = root.rstrip("/") + "/"
    if not location.startswith(prefix):
        raise ValueError(f"{location} does not lie below {root}")
    return location[len(prefix) :]


def commit_id(version: int, nonce: str) -> str:
    """The id of an attempt at a version: starts with a letter (Athena prunes only strings), unique by `nonce` (8 hex digits)."""
    return f"v{version:08d}-{nonce}"


def _other_name(path: str, etag: str) -> str:
    head, _, name = path.rpartition("/")
    safe = re.sub(r"[^0-9A-Za-z]", "", etag)[:24]
    return join(head, f"{safe}~{name}") if head else f"{safe}~{name}"


@dataclass(frozen=True)
class Layout:
    """The paths of one table: `root` is its own directory, `landing` where its sink writes."""

    root: str
    landing: str

    def snapshots(self) -> str:
        """The directory of Snapshots."""
        return join(self.root, "_compactor/snapshots")

    def snapshot(self, version: int) -> str:
        """One Snapshot."""
        return join(self.root, f"_compactor/snapshots/{version:020d}.json")

    def hint(self) -> str:
        """The file that names a version which existed once."""
        return join(self.root, "_compactor/snapshots/latest")

    def ledger(self, commit: str) -> str:
        """A ledger file."""
        return join(self.root, f"_compactor/ledger/{commit}.jsonl.gz")

    def notice(self, digest: str) -> str:
        """The mark of what people were told."""
        return join(self.root, f"_compactor/notices/{digest}.json")

    def delta(self, commit: str) -> str:
        """The directory of a Delta."""
        return join(self.root, "delta", commit)

    def base(self, commit: str) -> str:
        """The directory whose children `segment=<n>` are the Segments written by one commit."""
        return join(self.root, "base", commit)

    def feed(self, commit: str) -> str:
        """The directory of what a version changed."""
        return join(self.root, "feed", commit)

    def history(self, commit: str) -> str:
        """The directory whose children `history_part=<name>` are the parts of the history written by one commit."""
        return join(self.root, "history", commit)

    def inside(self, path: str) -> str:
        """The location of a path that a Snapshot names (relative to the root)."""
        return join(self.root, path)

    def landed(self, path: str) -> str:
        """The location of an input in landing, by its path below the landing root."""
        return join(self.landing, path)

    def archived(self, path: str, etag: str = "") -> str:
        """Where an input goes; `etag` goes into the name when the plain one is taken by other content (H1)."""
        return join(self.root, "archive", _other_name(path, etag) if etag else path)

    def quarantined(self, path: str, etag: str = "") -> str:
        """Where an input goes that cannot be opened; `etag` as in `archived`."""
        return join(self.root, "quarantine", _other_name(path, etag) if etag else path)

    def reason(self, path: str, etag: str) -> str:
        """What could not be used of an input, and why."""
        return join(self.root, "quarantine", f"{_other_name(path, etag)}.reason.json")

    def version_of(self, location: str) -> int | None:
        """The version of a Snapshot's location, or None."""
        try:
            match = _SNAPSHOT.fullmatch(relative(location, self.root))
        except ValueError:
            return None
        return int(match[1]) if match else None

    def unit(self, location: str) -> tuple[str, str] | None:
        """What of ours an object belongs to that is deleted as a whole, by its path below the root, and the commit id that wrote it.

        A Segment, a Delta, a part of the feed or of the history, a ledger file, or what a dead engine left beside them. None for everything else.
        """
        try:
            match = _UNIT.fullmatch(relative(location, self.root))
        except ValueError:
            return None
        if match is None:
            return None
        kinds = (("unit", "base"), ("delta_unit", "delta"), ("feed_unit", "feed"), ("history_unit", "history"), ("ledger_unit", "ledger"))
        return next((match[unit], match[commit]) for unit, commit in kinds if match[unit])

    def kind(self, location: str) -> str | None:
        """What a location is, by the names of `_KINDS` (`segment`, `snapshot`, ...), or None: not ours."""
        try:
            inside = relative(location, self.root)
        except ValueError:
            return None
        return next((kind for kind, pattern in _KINDS if pattern.fullmatch(inside)), None)
