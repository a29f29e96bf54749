"""TableSpec: what the operator declares for one table, resolved and complete. We never write it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from compactor.core.model.policy import EVOLVE, Policy
from compactor.core.sources.envelopes import ENVELOPES, Envelope

ALWAYS, NEVER = (0, 24 * 60), (0, 0)
"""Windows of the day in minutes of UTC: (the first, the one after the last); one that begins later than it ends goes over midnight."""

ROW_ID = "_row_id"
"""The key column of keyless tables (H13): one non-null string, the identity of the event that brought the row."""

OPERATIONS = {
    "c": "c",
    "i": "c",
    "insert": "c",
    "create": "c",
    "u": "u",
    "update": "u",
    "upsert": "u",
    "d": "d",
    "delete": "d",
    "r": "r",
    "read": "r",
    "snapshot": "r",
    "t": "t",
    "truncate": "t",
}
"""Operation codes in lower case → c, u, d, r, t. An unknown code is refused, never guessed."""


@dataclass(frozen=True)
class Csv:
    """How CSV files are written.

    `header`: whether each file begins with its column names; None: as the envelope has it (DMS: no). `columns` are the names in files without
    header, in order, without DMS's `Op`. `null_value` is the unquoted text that stands for null; None: as the envelope has it (DMS: `NULL`, else
    empty). `quote` empty: nothing is quoted.
    """

    header: bool | None = None
    columns: tuple[str, ...] = ()
    null_value: str | None = None
    delimiter: str = ","
    quote: str = '"'


@dataclass(frozen=True)
class TableSpec:
    """One table. Locations are full paths or URIs; durations seconds; sizes bytes.

    `key` is in the source's spelling, `()` for a keyless table. `order_by` names Position columns (`()` = the envelope's default). `subject` names
    the schema in the registry, which `app/app.py` asks before a run; `registered_key`: the key is asked there too. `registered` is what was found:
    (version, id or None). `pattern` is the strftime folder pattern below `landing` (empty = one flat
    folder). `feed`: `net`, `all` or `off`. `complete`: the marker in the folder of a full load.
    """

    name: str
    root: str
    landing: str
    pattern: str
    database: str
    view: str
    tables_in: str
    key: tuple[str, ...]
    envelope: str = "flat"
    format: str = "auto"
    container: str = "value"
    source_table: str | None = None
    topic: str | None = None
    avro_schema: str | None = None
    subject: str | None = None
    registered: tuple[int, int | None] | None = None
    registered_key: bool = False
    order_by: tuple[str, ...] = ()
    op: str | None = None
    op_map: tuple[tuple[str, str], ...] = ()
    metadata_columns: tuple[str, ...] = ()
    csv: Csv = Csv()
    delete: str = "hide"
    tombstone_retention: float = 7 * 86400.0
    truncate: str = "apply"
    unresolved: str = "null"
    beyond_retention: str = "quarantine"
    patch_rows: bool = False
    max_gone: float = 1.0
    quarantine_rows: int | None = None
    quarantine_share: float = 0.5
    write_mode: str = "auto"
    live_view: bool = False
    timestamps: str = "int96"
    target_file_bytes: int = 256 << 20
    compact_every: float = 6 * 3600.0
    compact_window: tuple[int, int] = ALWAYS
    settle: float = 0.0
    complete: str | None = None
    hours_in: str = "UTC"
    first_folder: str | None = None
    epoch: int = 0
    epoch_from: str | None = None
    epoch_replaces: bool = False
    archive: str = "move"
    archive_retention: float | None = None
    publish_window: float = 600.0
    feed: str = "off"
    feed_retention: float = 7 * 86400.0
    history: bool = False
    track: tuple[str, ...] = ()
    track_except: tuple[str, ...] = ()
    history_end: str = "null"
    history_zero_length: str = "keep"
    keep: float = 7 * 86400.0
    keep_versions: int = 2
    grace: float = 86400.0
    comment: str = ""
    engines: tuple[str, ...] = ("spark", "hive")
    policy: Policy = EVOLVE
    notify: tuple[tuple[str, ...], ...] = (("log",),)

    @property
    def source(self) -> Envelope:
        """What the table's source can do, by its envelope."""
        return ENVELOPES[self.envelope]

    @property
    def soft(self) -> bool:
        """Whether deleted rows stay in the view, marked."""
        return self.delete == "soft"

    @property
    def registry_version(self) -> tuple[str, int, int | None] | None:
        """(subject, version, id or None) of the schema that the registry has now; None where it was not asked."""
        return None if self.subject is None or self.registered is None else (self.subject, *self.registered)

    @property
    def keyless(self) -> bool:
        """Whether rows have no key of their own."""
        return not self.key

    @property
    def max_gone_in_run(self) -> float:
        """The share of rows that may go in one run. Full loads are compared one by one instead: a run may hold a month of them."""
        return 1.0 if self.source.full_loads else self.max_gone

    @property
    def unguarded(self) -> TableSpec:
        """For reading absorbed increments again: what runs have left out is left out again, however much it is; what they let go goes."""
        return dataclasses.replace(self, quarantine_rows=None, quarantine_share=1.0, max_gone=1.0)

    @property
    def compacting_now(self) -> TableSpec:
        """With folds due at any time: what is worth a fold is folded by the next run."""
        return dataclasses.replace(self, compact_every=0.0, compact_window=ALWAYS)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, for the job that runs on a cluster."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableSpec:
        """The inverse of `to_json`."""
        values = dict(data)
        for name in ("key", "order_by", "metadata_columns", "engines", "track", "track_except", "compact_window"):
            values[name] = tuple(values[name])
        values["registered"] = tuple(values["registered"]) if values.get("registered") else None
        said = values.get("policy") or {}
        kinds = tuple((kind, policy) for kind, policy in said.get("kinds", ()))
        values["policy"] = Policy(said.get("standard", "evolve"), kinds, said.get("drop", "keep"), said.get("patch_rows", False))
        values["notify"] = tuple(tuple(target) for target in values["notify"])
        values["csv"] = Csv(**{**values.get("csv", {}), "columns": tuple(values.get("csv", {}).get("columns", ()))})
        values["op_map"] = tuple((code, op) for code, op in values["op_map"])
        return cls(**values)
