"""Shown: remember beside the Snapshots what the catalog shows, so that neither a run with nothing to do nor a reader of files need ask the catalog.

_compactor/shown.json         the version that was published, its views, and a digest of them and the catalog; written after they were published
_compactor/publishing/<id>    one file for each publication that has begun; removed when the publication ends

A publisher that is overtaken may replace a view with an older one before it shows the newest again. If it dies in between, its file stays,
and the digest counts for nothing until a run has asked the catalog again.

What a crash leaves: such a file. The next run publishes what is missing and removes it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from compactor.core.catalog import base_views, daily_views, history_views, landed, live, objects, views
from compactor.core.catalog.ddl import ViewDef
from compactor.core.model.errors import CatalogRefused
from compactor.core.model.layout import relative
from compactor.core.model.snapshot import Snapshot
from compactor.flows.publish import daily
from compactor.flows.table import Table


def published_views(table: Table, snapshot: Snapshot) -> list[ViewDef]:
    """Return every view that shows a version, the table's own last."""
    days = daily_views.published(table.spec, snapshot, daily.forms(table, snapshot)) if snapshot.days is not None else []
    return [*days, *_of_version(table, snapshot)]


def _of_version(table: Table, snapshot: Snapshot) -> list[ViewDef]:
    """Return the views that need no other Snapshot."""
    published = (module.published(table.spec, snapshot) for module in (history_views, base_views, views))
    return [view for each in published for view in each]


@contextmanager
def publication(table: Table, ended: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Mark that views are being replaced. The mark stays if the block fails, and if after it `ended` returns that a newer version may be hidden."""
    if table.env.catalog_name is None:
        yield
        return
    path = table.layout.publishing(table.env.nonce())
    table.storage.write(path, table.env.now().encode())
    yield
    if ended():
        table.storage.delete([path])


def landed_folders(table: Table) -> list[str]:
    """Return the partitions that the live view needs now; none for a table without one."""
    if not table.spec.live_view:
        return []
    paths = (relative(info.path, table.spec.landing) for info in table.storage.list(table.spec.landing))
    return [partition.values[0] for partition in landed.partitions(table.spec, paths)]


@dataclass(frozen=True)
class Shown:
    """What the last run of a table found out, as `_compactor/shown.json` keeps it."""

    digest: str = ""
    """A digest of the version, its views, the landing folders of a live view, and the catalog."""
    compacted: int = 0
    """The newest version in which no Segment is worth compacting; 0 if none is known."""
    version: int = 0
    """The newest version that was published; 0 if none is known."""
    views: list[str] = field(default_factory=list)
    """The views and Iceberg tables (`database.name`) that were published, with those of earlier settings that still exist."""


def recall(table: Table, snapshot: Snapshot) -> Shown | None:
    """Return what is remembered, or None if the catalog may show something else than `snapshot`. Asks no catalog."""
    if table.env.catalog_name is None or any(True for _ in table.storage.list(table.layout.publications())):
        return None
    stored = remembered(table)
    # of two publishers the one that came first may have written its version last
    same = stored.version == snapshot.version and stored.digest == _digest(table, snapshot, landed_folders(table))
    return stored if same else None


def remember_published(table: Table, snapshot: Snapshot) -> None:
    """Remember that readers may see `snapshot`. What else is remembered stays."""
    if table.env.catalog_name is None:
        return
    stored = remembered(table)
    if stored.version < snapshot.version:
        _store(table, dataclasses.replace(stored, version=snapshot.version))


def remember(table: Table, snapshot: Snapshot, folders: Sequence[str], compacted: bool = False) -> tuple[str, ...]:
    """Remember that the catalog shows `snapshot` and these folders, unless a newer version is remembered. Remove the marks of publishers that must
    have ended.

    `compacted`: no Segment of it is worth compacting. Returns notes about what still exists of earlier settings: nothing updates it.
    """
    if table.env.catalog_name is None:
        return ()
    over = table.storage.now() - 2 * table.spec.publish_window
    left = [info.path for info in table.storage.list(table.layout.publications()) if info.modified < over]
    if left:
        table.storage.delete(left)
    stored = remembered(table)
    through = snapshot.version if compacted else stored.compacted
    names = sorted(f"{view.database}.{view.name}" for view in _of_version(table, snapshot))
    names += [f"{table.spec.database}.{live.name(table.spec)}"] if table.spec.live_view else []
    names += [f"{table.spec.database}.{objects.iceberg_name(table.spec, form)}" for form in table.spec.iceberg]
    earlier = {name: _note(table, snapshot, name) for name in stored.views if name not in names}
    former = {name: note for name, note in earlier.items() if note}
    made = Shown(_digest(table, snapshot, folders), through, snapshot.version, [*names, *former])
    # others may have published a newer one meanwhile
    if made != stored and made.version >= stored.version:
        _store(table, made)
    return (*former.values(),)


def _note(table: Table, snapshot: Snapshot, name: str) -> str:
    """Return what to do about a view or an Iceberg table (`database.name`) that still shows this table in the catalog; "" if there is none."""
    catalog = table.catalog()
    notes = {
        catalog.view: f"the view {name} is of earlier settings, and nothing updates it: DROP VIEW {name}",
        # other engines' statement deletes files that another name may show
        catalog.native: f"{name} is an Iceberg table of earlier settings, whose files vacuum deletes: DROP TABLE {name} in Hive or Spark",
    }
    for look, note in notes.items():
        # refused: the name is of something else now
        with suppress(CatalogRefused):
            there = look(*name.split(".", 1))
            return note if there is not None and there.properties.get(views.UUID) == snapshot.uuid else ""
    return ""


def remembered(table: Table) -> Shown:
    """Return what is remembered, whatever the catalog shows by now. Asks no catalog."""
    try:
        made: Any = Shown(**json.loads(table.storage.read(table.layout.shown())))
        whole = isinstance(made.views, list) and isinstance(made.version, int) and isinstance(made.compacted, int)
    except (FileNotFoundError, ValueError, TypeError):
        whole = False
    # nothing is lost with it: the next run writes it again
    return made if whole else Shown()


def _store(table: Table, made: Shown) -> None:
    table.storage.write(table.layout.shown(), json.dumps(dataclasses.asdict(made)).encode())


def _digest(table: Table, snapshot: Snapshot, folders: Sequence[str]) -> str:
    """Return what the run that published `snapshot` with these settings would write."""
    catalog = table.env.catalog_name and table.env.catalog_name()
    shown_views = [dataclasses.asdict(view) for view in _of_version(table, snapshot)]
    shown_folders = sorted(folders) if table.spec.live_view else None
    text = json.dumps([catalog, snapshot.version, shown_views, shown_folders, *table.spec.iceberg], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
