"""Layout: every path below a table's root, and what a path is. No other module joins path strings. docs/design/protocol.md#layout shows them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

_COMMIT = r"([a-z]\d{8}-[0-9a-f]{8})"
_LEDGER = rf"_compactor/ledger/{_COMMIT}\.jsonl\.gz"
_ONE = {
    "hint": "_compactor/snapshots/latest",
    "shown": "_compactor/shown.json",
    "audit": "_compactor/audit.json",
    "last_run": "_compactor/last_run.json",
    "last_comparison": "_compactor/last_comparison.json",
    "owner": "_compactor/owner.json",
}
"""Kind → the path of what a table has one of."""
_PATHS = {
    **{kind: re.escape(path) for kind, path in _ONE.items()},
    "segment": rf"base/{_COMMIT}/segment=[0-9-]+/row_state=(live|deleted)/[^/]+",
    "delta": rf"delta/{_COMMIT}/row_state=(live|deleted)/[^/]+",
    "feed": rf"feed/{_COMMIT}/[^/]+",
    "history": rf"history/{_COMMIT}/history_part=[a-z0-9-]+/[^/]+",
    "iceberg": r"_iceberg(_current)?/metadata/([^/]+\.(avro|puffin)|v\d+\.metadata\.json|version-hint\.text)",
    "snapshot": r"_compactor/snapshots/(\d{20})\.json",
    "ledger": _LEDGER,
    "run": r"_compactor/runs/\d{8}T\d{6}Z-[0-9a-f]+\.json",
    "notice": r"_compactor/notices/([0-9a-f]{32}|failed)\.json",
    "certificate": r"_compactor/erased/\d{20}\.(json|txt)",
    "copy": rf"_compactor/rewriting/{_COMMIT}/\d+/[^/]+",
    "publishing": r"_compactor/publishing/[^/]+",
    # a name may hold a line break
    "archive": r"archive/(?s:.+)",
    "quarantine": r"quarantine/(?s:.+)",
}
_KINDS = {kind: re.compile(path) for kind, path in _PATHS.items()}
_UNITS = [
    re.compile(path)
    for path in (
        rf"(base/{_COMMIT}/[^/]+)(/.+)?",
        rf"((?:delta|feed|_compactor/rewriting)/{_COMMIT})/.+",
        rf"(history/{_COMMIT}/(?:history_part=|[_.])[^/]+)(/.+)?",
        rf"({_LEDGER})",
    )
]
"""Patterns whose first group is the path of a unit, and whose second one is the id of its commit."""


def join(*parts: str) -> str:
    """Join parts of a location with single slashes. Empty parts are left out."""
    head, *rest = [part for part in parts if part]
    return "/".join([head.rstrip("/"), *(part.strip("/") for part in rest)]) if rest else head.rstrip("/")


def relative(location: str, root: str) -> str:
    """Return the path of a location below `root`. Raises ValueError if it lies elsewhere."""
    prefix = root.rstrip("/") + "/"
    if not location.startswith(prefix):
        raise ValueError(f"{location} does not lie below {root}")
    return location[len(prefix) :]


_REASON = ".reason.json"
_NAME_BYTES_MAX = 255
"""The longest name of a file that common file systems allow."""


def commit_id(version: int, nonce: str) -> str:
    """Return the id of an attempt at a version. `nonce`: 8 random hex digits. The letter makes it a string, as Athena prunes only strings."""
    return f"v{version:08d}-{nonce}"


def _other_name(path: str, etag: str) -> str:
    """Return the path with the etag before the name. A name that would become too long is cut at its beginning; its hash takes that place."""
    head, _, name = path.rpartition("/")
    safe = re.sub(r"[^0-9A-Za-z]", "", etag)[:24]
    if len(f"{safe}~{name}{_REASON}".encode()) > _NAME_BYTES_MAX:
        end = name.encode()[-100:].decode(errors="ignore")
        name = f"{hashlib.sha256(name.encode()).hexdigest()[:16]}~{end}"
    return join(head, f"{safe}~{name}") if head else f"{safe}~{name}"


def _below(path: str) -> Callable[[Layout], str]:
    """Return a method of Layout: the location of a path below the root."""
    return lambda layout: join(layout.root, path)


def _of_commit(directory: str) -> Callable[[Layout, str], str]:
    """Return a method of Layout: the directory of one commit below another directory."""
    return lambda layout, commit: join(layout.root, directory, commit)


@dataclass(frozen=True)
class Layout:
    """The paths of one table."""

    root: str
    """The table's own directory."""
    landing: str
    """The directory into which the table's sink writes."""

    snapshots = _below("_compactor/snapshots")
    runs = _below("_compactor/runs")
    publications = _below("_compactor/publishing")
    """The directory of the marks of publications that have begun."""

    hint = _below(_ONE["hint"])
    """The file with the number of some version that existed."""
    shown = _below(_ONE["shown"])
    """The file that remembers what the catalog shows."""
    audit = _below(_ONE["audit"])
    """The file with the verdict on a version."""
    last_run = _below(_ONE["last_run"])
    last_comparison = _below(_ONE["last_comparison"])
    """The file with a copy of the record of the last comparison with the source."""
    owner = _below(_ONE["owner"])
    """The mark of the environment that the table belongs to."""
    failed = _below("_compactor/notices/failed.json")
    """The file that marks a failure as reported."""

    delta = _of_commit("delta")
    """The directory of a Delta, whose children `row_state=<s>` hold the files."""
    base = _of_commit("base")
    """The directory whose children `segment=<n>` are the Segments of one commit."""
    feed = _of_commit("feed")
    history = _of_commit("history")
    """The directory whose children `history_part=<name>` are the history parts of one commit."""
    publishing = _of_commit("_compactor/publishing")
    """The mark of one publication, by 8 random hex digits."""

    def snapshot(self, version: int) -> str:
        """Return the file of one Snapshot."""
        return join(self.root, f"_compactor/snapshots/{version:020d}.json")

    def ledger(self, commit: str) -> str:
        """Return a ledger file."""
        return join(self.root, f"_compactor/ledger/{commit}.jsonl.gz")

    def run(self, began: str, record: str) -> str:
        """Return the file of one run record. `began`: ISO 8601, UTC; `record`: its id. Names sort by time."""
        return join(self.root, f"_compactor/runs/{re.sub(r'[-:]|[.][0-9]+', '', began)}-{record}.json")

    def notice(self, digest: str) -> str:
        """Return the file that marks a notice as sent."""
        return join(self.root, f"_compactor/notices/{digest}.json")

    def landing_owner(self) -> str:
        """Return the mark of the table that moves ingested files out of landing. It is no landed file: its folder's name begins with `_`."""
        return join(self.landing, _ONE["owner"])

    def certificate(self, version: int, suffix: str) -> str:
        """Return the certificate of an erase, as `json` or `txt`."""
        return join(self.root, f"_compactor/erased/{version:020d}.{suffix}")

    def rewriting(self, commit: str, number: int) -> str:
        """Return the directory with a rewritten raw file, before it takes its place in the archive."""
        return join(self.root, "_compactor/rewriting", commit, str(number))

    def iceberg(self, form: str, part: str = "") -> str:
        """Return the directory of an Iceberg table (`base`, `current`), or a part of it."""
        return join(self.root, "_iceberg" if form == "base" else f"_iceberg_{form}", part)

    def iceberg_metadata(self, form: str, number: int) -> str:
        """Return a metadata file of an Iceberg table."""
        return self.iceberg(form, f"metadata/v{number}.metadata.json")

    def iceberg_hint(self, form: str) -> str:
        """Return the file with the number of the newest metadata file."""
        return self.iceberg(form, "metadata/version-hint.text")

    def inside(self, path: str) -> str:
        """Return the location of a path below the root, as Snapshots store it."""
        return join(self.root, path)

    def landed(self, path: str) -> str:
        """Return the location of an input in landing. `path` is below the landing root."""
        return join(self.landing, path)

    def archived(self, path: str, etag: str = "") -> str:
        """Return the location of an input in the archive. With `etag` the name contains it, for a name that other content uses already."""
        return join(self.root, "archive", _other_name(path, etag) if etag else path)

    def repaired(self, path: str, etag: str) -> str:
        """Return the location of the repaired copy of a partly ingested input in the archive, beside its original."""
        return self.archived(path, f"R{etag}")

    def quarantined(self, path: str, etag: str = "") -> str:
        """Return the location of an unreadable input in quarantine. `etag` as in `archived`."""
        return join(self.root, "quarantine", _other_name(path, etag) if etag else path)

    def reason(self, path: str, etag: str) -> str:
        """Return the reason file of an input: its invalid records, and why they are invalid."""
        return join(self.root, "quarantine", f"{_other_name(path, etag)}{_REASON}")

    def raw_file(self, location: str) -> bool:
        """Return whether a location is that of an ingested or quarantined file, or of a rewritten one. Reason files are not raw."""
        kind = self.kind(location)
        return kind in ("archive", "copy") or (kind == "quarantine" and not location.endswith(_REASON))

    def version_of(self, location: str) -> int | None:
        """Return the version of a Snapshot by its location, or None for any other location."""
        match = _KINDS["snapshot"].fullmatch(self._inside(location))
        return int(match[1]) if match else None

    def unit(self, location: str) -> tuple[str, str] | None:
        """Return the unit that a stored object belongs to, as (path below the root, id of the commit that wrote it), or None.

        A unit is deleted as a whole: a Segment, a Delta, a part of the feed or the history, a ledger file, the copies of a rewrite, or what a dead
        engine left beside them.
        """
        matches = (pattern.fullmatch(self._inside(location)) for pattern in _UNITS)
        return next(((match[1], match[2]) for match in matches if match), None)

    def kind(self, location: str) -> str | None:
        """Return the kind of a location (`segment`, `snapshot`, ...; see `_PATHS`), or None if it is not ours."""
        inside = self._inside(location)
        return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(inside)), None)

    def _inside(self, location: str) -> str:
        """Return the path of a location below the root; "" if it lies elsewhere."""
        prefix = self.root.rstrip("/") + "/"
        return location[len(prefix) :] if location.startswith(prefix) else ""
