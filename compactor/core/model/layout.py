"""Layout: every path below a table's root, and what a path is. No other module joins path strings.

base/<commit id>/segment=<n>/row_state=<s>/*.parquet   a Segment: one key range; rows that are shown (live) and tombstones (deleted) apart
delta/<commit id>/row_state=<s>/*.parquet   a Delta
feed/<commit id>/*.parquet                  the changes of a version
history/<commit id>/history_part=<name>/*.parquet   a part of the history: a day (d2026-11-20), the open Delta (delta), an open key range (open-<n>)
archive/<folder>/<file>                     raw files whose rows are in the table
quarantine/<folder>/<file>                  unreadable raw files, and <file>.reason.json for every file with invalid records
_iceberg/metadata/<name>.avro, v<N>.metadata.json, version-hint.text   the Iceberg table over the base (`iceberg:`)
_iceberg_current/metadata/..                the one over base and Delta; <name>.puffin has deletion vectors
_compactor/snapshots/<20 digits>.json       Snapshots; the number is the version
_compactor/snapshots/latest                 the number of some version that existed; a hint only
_compactor/ledger/<commit id>.jsonl.gz      inputs of older Snapshots
_compactor/runs/<time>-<id>.json            run records; the time is the beginning of the run, such as 20261120T140500Z
_compactor/notices/<digest>.json            schema changes that people were notified of
_compactor/notices/failed.json              since when a reported failure lasts
_compactor/shown.json                       what was published; an idle run and readers of files need not ask the catalog
_compactor/audit.json                       the verdict of `checks:` on the newest audited version
_compactor/last_run.json                    a copy of the newest run record, for `status`; nothing decides by it
_compactor/last_comparison.json             a copy of the run record of the last comparison with the source
_compactor/publishing/<id>                  a publication that has begun
_compactor/erased/<20 digits>.json, .txt    the certificate of an erase; the number is the version that it was written for
_compactor/rewriting/<commit id>/<n>/*.parquet   a raw file without records of erased keys, before it takes its place in the archive
_compactor/owner.json                       the database that shows the table; below landing: the table that moves ingested files out of it
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_SNAPSHOT = re.compile(r"_compactor/snapshots/(\d{20})\.json")
_KINDS = (
    ("segment", re.compile(r"base/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>segment=[0-9-]+/row_state=(?:live|deleted))/(?P<file>[^/]+)")),
    ("delta", re.compile(r"delta/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>row_state=(?:live|deleted))/(?P<file>[^/]+)")),
    ("feed", re.compile(r"feed/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>)(?P<file>[^/]+)")),
    ("history", re.compile(r"history/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>history_part=[a-z0-9-]+)/(?P<file>[^/]+)")),
    ("iceberg", re.compile(r"_iceberg(?:_current)?/metadata/([^/]+\.(?:avro|puffin)|v\d+\.metadata\.json|version-hint\.text)")),
    ("snapshot", _SNAPSHOT),
    ("hint", re.compile(r"_compactor/snapshots/latest")),
    ("ledger", re.compile(r"_compactor/ledger/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})\.jsonl\.gz")),
    ("run", re.compile(r"_compactor/runs/(?P<time>\d{8}T\d{6}Z)-(?P<id>[0-9a-f]+)\.json")),
    ("notice", re.compile(r"_compactor/notices/(?P<digest>[0-9a-f]{32}|failed)\.json")),
    ("shown", re.compile(r"_compactor/shown\.json")),
    ("audit", re.compile(r"_compactor/audit\.json")),
    ("last_run", re.compile(r"_compactor/last_run\.json")),
    ("last_comparison", re.compile(r"_compactor/last_comparison\.json")),
    ("certificate", re.compile(r"_compactor/erased/\d{20}\.(json|txt)")),
    ("copy", re.compile(r"_compactor/rewriting/(?P<commit>[a-z]\d{8}-[0-9a-f]{8})/(?P<part>\d+)/(?P<file>[^/]+)")),
    ("owner", re.compile(r"_compactor/owner\.json")),
    ("publishing", re.compile(r"_compactor/publishing/(?P<id>[^/]+)")),
    # a name may hold a line break
    ("archive", re.compile(r"archive/(?P<part>.+)", re.DOTALL)),
    ("quarantine", re.compile(r"quarantine/(?P<part>.+)", re.DOTALL)),
)
_UNIT = re.compile(
    r"(?P<base_unit>base/(?P<base>[a-z]\d{8}-[0-9a-f]{8})/[^/]+)(/.+)?"
    r"|(?P<delta_unit>delta/(?P<delta>[a-z]\d{8}-[0-9a-f]{8}))/.+"
    r"|(?P<feed_unit>feed/(?P<feed>[a-z]\d{8}-[0-9a-f]{8}))/.+"
    r"|(?P<history_unit>history/(?P<history>[a-z]\d{8}-[0-9a-f]{8})/(history_part=|[_.])[^/]+)(/.+)?"
    r"|(?P<copy_unit>_compactor/rewriting/(?P<copy>[a-z]\d{8}-[0-9a-f]{8}))/.+"
    r"|(?P<ledger_unit>_compactor/ledger/(?P<ledger>[a-z]\d{8}-[0-9a-f]{8})\.jsonl\.gz)"
)


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


@dataclass(frozen=True)
class Layout:
    """The paths of one table."""

    root: str
    """The table's own directory."""
    landing: str
    """The directory into which the table's sink writes."""

    def snapshots(self) -> str:
        """Return the directory of the Snapshots."""
        return join(self.root, "_compactor/snapshots")

    def snapshot(self, version: int) -> str:
        """Return the file of one Snapshot."""
        return join(self.root, f"_compactor/snapshots/{version:020d}.json")

    def hint(self) -> str:
        """Return the file with the number of some version that existed."""
        return join(self.root, "_compactor/snapshots/latest")

    def ledger(self, commit: str) -> str:
        """Return a ledger file."""
        return join(self.root, f"_compactor/ledger/{commit}.jsonl.gz")

    def runs(self) -> str:
        """Return the directory of the run records."""
        return join(self.root, "_compactor/runs")

    def run(self, began: str, record: str) -> str:
        """Return the file of one run record. `began`: ISO 8601, UTC; `record`: its id. Names sort by time."""
        return join(self.root, f"_compactor/runs/{re.sub(r'[-:]|[.][0-9]+', '', began)}-{record}.json")

    def notice(self, digest: str) -> str:
        """Return the file that marks a notice as sent."""
        return join(self.root, f"_compactor/notices/{digest}.json")

    def failed(self) -> str:
        """Return the file that marks a failure as reported."""
        return self.notice("failed")

    def shown(self) -> str:
        """Return the file that remembers what the catalog shows."""
        return join(self.root, "_compactor/shown.json")

    def audit(self) -> str:
        """Return the file with the verdict on a version."""
        return join(self.root, "_compactor/audit.json")

    def last_run(self) -> str:
        """Return the file with a copy of the newest run record."""
        return join(self.root, "_compactor/last_run.json")

    def last_comparison(self) -> str:
        """Return the file with a copy of the record of the last comparison with the source."""
        return join(self.root, "_compactor/last_comparison.json")

    def owner(self) -> str:
        """Return the mark of the environment that the table belongs to."""
        return join(self.root, "_compactor/owner.json")

    def landing_owner(self) -> str:
        """Return the mark of the table that moves ingested files out of landing. It is no landed file: its folder's name begins with `_`."""
        return join(self.landing, "_compactor/owner.json")

    def publications(self) -> str:
        """Return the directory of the marks of publications that have begun."""
        return join(self.root, "_compactor/publishing")

    def publishing(self, attempt: str) -> str:
        """Return the mark of one publication. `attempt`: 8 random hex digits."""
        return join(self.root, "_compactor/publishing", attempt)

    def certificate(self, version: int, suffix: str) -> str:
        """Return the certificate of an erase, as `json` or `txt`."""
        return join(self.root, f"_compactor/erased/{version:020d}.{suffix}")

    def rewriting(self, commit: str, number: int) -> str:
        """Return the directory with a rewritten raw file, before it takes its place in the archive."""
        return join(self.root, "_compactor/rewriting", commit, str(number))

    def delta(self, commit: str) -> str:
        """Return the directory of a Delta, whose children `row_state=<s>` hold the files."""
        return join(self.root, "delta", commit)

    def base(self, commit: str) -> str:
        """Return the directory whose children `segment=<n>` are the Segments of one commit."""
        return join(self.root, "base", commit)

    def feed(self, commit: str) -> str:
        """Return the directory with the changes of a version."""
        return join(self.root, "feed", commit)

    def history(self, commit: str) -> str:
        """Return the directory whose children `history_part=<name>` are the history parts of one commit."""
        return join(self.root, "history", commit)

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
        try:
            match = _SNAPSHOT.fullmatch(relative(location, self.root))
        except ValueError:
            return None
        return int(match[1]) if match else None

    def unit(self, location: str) -> tuple[str, str] | None:
        """Return the unit that a stored object belongs to, as (path below the root, id of the commit that wrote it), or None.

        A unit is deleted as a whole: a Segment, a Delta, a part of the feed or the history, a ledger file, the copies of a rewrite, or what a dead
        engine left beside them.
        """
        try:
            match = _UNIT.fullmatch(relative(location, self.root))
        except ValueError:
            return None
        if match is None:
            return None
        kinds = ("base", "delta", "feed", "history", "copy", "ledger")
        return next((match[f"{kind}_unit"], match[kind]) for kind in kinds if match[f"{kind}_unit"])

    def kind(self, location: str) -> str | None:
        """Return the kind of a location (`segment`, `snapshot`, ...; see `_KINDS`), or None if it is not ours."""
        try:
            inside = relative(location, self.root)
        except ValueError:
            return None
        return next((kind for kind, pattern in _KINDS if pattern.fullmatch(inside)), None)
