"""Native: describe a table's files as Iceberg tables (`iceberg:`), after the views show a version (docs/design/iceberg.md).

Forms: `base`, the last compaction, and `current`, what the view shows.

| step | a crash after it leaves |
|---|---|
| 1. read the newest metadata file; nothing to do if it shows these rows and columns | nothing |
| 2. read the footers of files that no manifest lists; write new manifests and the manifest list | files that nothing names, until vacuum |
| 3. put v<N+1>.metadata.json, if nobody else has | an export that the next run points to |
| 4. point the catalog's table to it | a hint that is behind, so the next run repeats step 4 |
| 5. write version-hint.text | nothing |

Names follow from content, so a repetition writes the same files. Readers see one metadata file, and with it one committed version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from compactor.core.catalog import objects
from compactor.core.catalog.ddl import NativeDef
from compactor.core.formats import parquet
from compactor.core.formats.parquet import Footer
from compactor.core.iceberg import manifests, metadata, schema, vectors
from compactor.core.iceberg.manifests import Entries, Manifest
from compactor.core.iceberg.metadata import Exported, Part
from compactor.core.iceberg.schema import Columns
from compactor.core.model.errors import CatalogRefused, Conflict, StateRefused
from compactor.core.model.files import DataFile, FileInfo
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.phrases import counted
from compactor.flows import logs
from compactor.flows.table import Table
from compactor.flows.transact import ATTEMPTS


class _Misread(Exception):
    """A file is in a form that readers of Iceberg misread; the text says which, and what to do."""


_NUMBER = re.compile(r"/v(\d+)\.metadata\.json$")


def export(table: Table, snapshot: Snapshot, advance: bool = True) -> None:
    """Make the Iceberg tables show a version that the views show. If one cannot, the report of the run says why, and the older one stays.

    `advance`: if not, only Iceberg snapshots that vacuum has given up are dropped. Raises CatalogRefused if a table of its name is not ours.
    """
    for form in () if table.env.dry else table.spec.iceberg:
        _export(table, form, snapshot, advance)


def _export(table: Table, form: str, snapshot: Snapshot, advance: bool) -> None:
    for _ in range(ATTEMPTS):
        hint, newest = _newest(table, form)
        if newest is not None and newest.uuid != snapshot.uuid:
            raise StateRefused(
                f"table {table.name}: {table.layout.iceberg(form)} holds the Iceberg table of another life of this table (uuid {newest.uuid}, ours "
                f"is {snapshot.uuid}). Delete this folder if that life is over. Nothing was exported."
            )
        # an export from before the warehouse was moved or copied names the files of that place
        before = newest if newest is not None and newest.raw["location"] == metadata.address(table.layout.iceberg(form)) else None
        made = _next(table, form, snapshot, before, advance)
        if made is not None and newest is not None:
            made = dataclasses.replace(made, number=newest.number + 1)
        if made is None and (before is None or (before.number == hint and not advance)):
            return
        content = b"" if made is None else json.dumps(made.raw, ensure_ascii=False).encode()
        if made is None or table.storage.put_if_absent(table.layout.iceberg_metadata(form, made.number), content):
            # also if nothing is new: the catalog, or the name of the table in it, may be
            _point(table, form, snapshot, made or before, hint)  # type: ignore[arg-type]
            return
    raise Conflict(f"table {table.name}: other runs exported to Iceberg at the same moment in {ATTEMPTS} attempts. Run again.")


def current(table: Table, form: str) -> Exported | None:
    return _newest(table, form)[1]


def shown(table: Table, snapshots: Sequence[Snapshot], newest: Snapshot) -> set[int]:
    """Return the versions among these whose files an Iceberg table shows, if it does not show those of the newest."""
    versions = set()
    for form in table.spec.iceberg:
        exported = current(table, form)
        if exported is not None and exported.base != metadata.state_id(newest, form):
            versions |= {snapshot.version for snapshot in snapshots if metadata.state_id(snapshot, form) == exported.base}
    return versions


def unused(table: Table, files: Sequence[FileInfo], now: float) -> list[str]:
    """Return the files of Iceberg tables that may be deleted at `now`: of no use to readers of a metadata file that was the newest within `grace`.

    Of a form that is not in `iceberg:` that is all of that age.
    """
    out = []
    for form in metadata.FORMATS:
        folder = table.layout.iceberg(form) + "/"
        old = [info for info in files if info.path.startswith(folder) and info.modified <= now - table.spec.grace]
        if old and form in table.spec.iceberg:
            number, modified = max(_numbered(old), default=(0, -math.inf))
            needed = _needed(table, form, current(table, form))
            # what its metadata file names was deleted while `grace` was shorter
            with contextlib.suppress(FileNotFoundError):
                needed |= _needed(table, form, _read(table, form, number))
            # later files are those of later metadata files
            old = [info for info in old if info.modified <= modified and info.path not in needed]
        out += [info.path for info in old]
    return out


def replaced(table: Table, since: float) -> Iterator[float]:
    """Yield for each Iceberg table when the first metadata file was written that names no file from up to `since`: older files are of use until
    `grace` after it.
    """
    for form in table.spec.iceberg:
        infos = [*table.storage.list(table.layout.iceberg(form))]
        old = {info.path for info in infos if info.modified <= since} - {table.layout.iceberg_hint(form)}
        later = ((number, modified) for number, modified in sorted(_numbered(infos)) if modified > since)
        yield from islice((modified for number, modified in later if old.isdisjoint(_needed(table, form, _read(table, form, number)))), 1)


def _numbered(infos: Iterable[FileInfo]) -> list[tuple[int, float]]:
    """Return number and time of the metadata files among these."""
    return [(int(match[1]), info.modified) for info in infos if (match := _NUMBER.search(info.path))]


def listed(table: Table) -> list[FileInfo]:
    return [info for form in metadata.FORMATS for info in table.storage.list(table.layout.iceberg(form))]


def _needed(table: Table, form: str, exported: Exported | None) -> set[str]:
    folder = table.layout.iceberg(form, "metadata")
    if exported is None:
        return set()
    lists = [entry["manifest-list"] for entry in exported.raw["snapshots"]]
    named = [each.path for path in lists for each in manifests.read_list(table.storage.read(_location(table, form, path)))]
    hiding = [entry["summary"][metadata.VECTORS] for entry in exported.raw["snapshots"] if metadata.VECTORS in entry["summary"]]
    own = {table.layout.iceberg_metadata(form, exported.number), table.layout.iceberg_hint(form)}
    return own | {f"{folder}/{path.rpartition('/')[2]}" for path in (*lists, *named, *hiding)}


def _newest(table: Table, form: str) -> tuple[int, Exported | None]:
    """Return the number in the hint, and the newest metadata file; 0 and None without any."""
    layout, storage = table.layout, table.storage
    try:
        hint = number = int(storage.read(layout.iceberg_hint(form)))
    except (FileNotFoundError, ValueError):
        hint, (number, _) = 0, max(_numbered(storage.list(layout.iceberg(form, "metadata"))), default=(0, 0.0))
    while storage.stat(layout.iceberg_metadata(form, number + 1)) is not None:
        number += 1
    return hint, _read(table, form, number)


def _read(table: Table, form: str, number: int) -> Exported | None:
    return Exported(number, json.loads(table.storage.read(table.layout.iceberg_metadata(form, number)))) if number else None


def _next(table: Table, form: str, snapshot: Snapshot, before: Exported | None, advance: bool) -> Exported | None:
    """Write what the next metadata file names and return that file; None if the one there is right, or newer."""
    if before is not None and before.version > snapshot.version:
        return None
    columns = schema.columns_of(snapshot, before.ids if before else {})
    if before is not None and before.shows(snapshot, form, columns):
        return None
    parts, entry = metadata.parts_of(snapshot, form), None
    if advance and not isinstance(parts, str):
        try:
            entry = before.snapshot_of(metadata.state_id(snapshot, form)) if before else None
            entry = entry or _written(table, form, snapshot, before, columns, parts)
        except _Misread as error:
            parts = str(error)
    if isinstance(parts, str):
        there = f"version {before.current['summary'][metadata.STATE_VERSION]}" if before else "nothing yet"
        table.notes.append(f"Iceberg ({form}) shows {there}: {parts}")
    if entry is None:
        if before is None or not before.outdated(snapshot):
            return None
        columns, entry = _same_columns(before, columns), before.current
    bases = {each["summary"][metadata.BASE] for each in before.raw["snapshots"]} if before else set()
    if before and before.outdated(snapshot):
        bases = {metadata.state_id(each, form) for each in table.kept(snapshot)}
    return metadata.following(before, snapshot, form, columns, entry, bases, table.layout, table.env.now())


def _same_columns(before: Exported, columns: Columns) -> Columns:
    return Columns(columns.ids, {name: value for name, value in before.schema.items() if name != "schema-id"}, columns.bounded)


def _written(table: Table, form: str, snapshot: Snapshot, before: Exported | None, columns: Columns, parts: Sequence[Part]) -> dict[str, object]:
    """Write the manifests that are not there and their list, and return the Iceberg snapshot."""
    layout, storage, version = table.layout, table.storage, metadata.FORMATS[form]
    folder = metadata.address(layout.iceberg(form, "metadata"))
    identity, sequence = metadata.snapshot_id(snapshot, form), metadata.next_sequence(before)
    shown = metadata.schema_of(before, columns)

    def put(name: str, content: bytes) -> str:
        storage.write(f"{layout.iceberg(form, 'metadata')}/{name}", content)
        return f"{folder}/{name}"

    with logs.phase(table, f"exporting to Iceberg ({form})") as phase:
        earlier = manifests.read_list(storage.read(_location(table, form, before.current["manifest-list"]))) if before else []
        kept = manifests.reusable(earlier, [part.segment for part in parts])
        entries = [*_entries(table, form, parts, earlier, kept, columns, identity)]
        new, row_id = [], metadata.next_row_id(before) if version == 3 else None
        for manifest, name, content in manifests.written(entries, folder, shown, identity, sequence, snapshot.uuid, row_id):
            put(name, content)
            new.append(manifest)
        hiding, puffin = [], {}
        hidden = table.engine().hidden(table.spec, snapshot) if form == "current" and snapshot.delta else {}
        if hidden:
            content, placed = vectors.puffin({metadata.address(layout.inside(path)): positions for path, positions in hidden.items()})
            puffin = {metadata.VECTORS: put(f"{manifests.digest(content)}-dv.puffin", content)}
            records = [*vectors.records(placed, puffin[metadata.VECTORS], len(content))]
            manifest, name, content = manifests.vectors(records, folder, shown, identity, sequence, snapshot.uuid)
            put(name, content)
            hiding.append(manifest)
        listed = [*kept, *new, *hiding]
        content = manifests.list_file(listed, identity, before.raw["current-snapshot-id"] if before else None, sequence, version)
        place = put(f"snap-{identity}-{manifests.digest(content)}.avro", content)
        files = sum(len(each.files) for each in entries)
        phase.did(f"wrote {counted(len(new), 'manifest')} with {counted(files, 'file')}", files=files)
    size = sum(file.size for part in parts for file in part.files)
    made = metadata.snapshot_entry(snapshot, form, before, shown["schema-id"], listed, size, place, sum(each.rows for each in new))
    return {**made, "summary": {**made["summary"], **puffin}}


def _entries(
    table: Table, form: str, parts: Sequence[Part], earlier: Sequence[Manifest], kept: Sequence[Manifest], columns: Columns, snapshot: int
) -> Iterator[Entries]:
    """Yield the entries of what no manifest in use lists: copied from an earlier manifest, or made from the footers of the files."""
    left = {part.segment: part for part in parts}
    for segment in (segment for manifest in kept for segment in manifest.segments):
        del left[segment]
    for manifest in earlier:
        if manifest not in kept and not left.keys().isdisjoint(manifest.segments):
            folders = {segment: f"{part.path}/{part.files[0].name}".rpartition("/")[0] for segment, part in left.items()}
            places = {metadata.address(table.layout.inside(folder)): segment for segment, folder in folders.items()}
            for entries in manifests.existing(table.storage.read(_location(table, form, manifest.path)), manifest, places):
                del left[entries.segment]
                yield entries
    for part in left.values():
        paths = [(table.layout.inside(f"{part.path}/{file.name}"), file) for file in part.files]
        files = [manifests.data_file(metadata.address(path), file.size, read_footer(table, path, file, columns), columns.ids) for path, file in paths]
        yield manifests.added(part.segment, files, snapshot)


def read_footer(table: Table, path: str, file: DataFile, columns: Columns) -> Footer:
    """Return the footer of a file: one request, two for a long footer. Raises _Misread for a file that engines would misread."""
    first = min(parquet.TAIL, file.size)
    tail = table.storage.read_range(path, file.size - first, first)
    length = parquet.length(tail)
    if length > first:
        tail = table.storage.read_range(path, file.size - length, length)
    read = parquet.parse(tail, columns.bounded)
    if read.legacy:
        raise _Misread(f"{path} holds {read.legacy} in the form for Hive 2 and 3; `compactor rebuild {table.name}` writes all files anew")
    return read


def _point(table: Table, form: str, snapshot: Snapshot, made: Exported, hint: int) -> None:
    """Point the catalog's table and the hint, which is `hint`, to a metadata file. Where others have pointed to a newer one, leave it."""
    layout = table.layout
    definition = objects.iceberg_table(table.spec, form, snapshot.schema, made.uuid, layout.iceberg(form), layout.iceberg_metadata(form, made.number))
    catalog = table.catalog()
    for _ in range(ATTEMPTS):
        there = catalog.native(definition.database, definition.name)
        if there is not None:
            _check_ours(table, there, definition)
            match = _NUMBER.search(there.metadata)
            if match and int(match[1]) >= made.number:
                break
        if catalog.point(definition, there.metadata if there else None):
            break
    else:
        raise Conflict(f"{definition.database}.{definition.name}: other runs moved its pointer at the same moment in {ATTEMPTS} attempts. Run again.")
    # others may have written a newer one, and its hint, meanwhile
    if hint != made.number and table.storage.stat(layout.iceberg_metadata(form, made.number + 1)) is None:
        table.storage.write(layout.iceberg_hint(form), str(made.number).encode())


def _check_ours(table: Table, there: NativeDef, ours: NativeDef) -> None:
    """Raise CatalogRefused unless an Iceberg table in the catalog is the table's own."""
    if there.properties.get(metadata.UUID) != ours.properties[metadata.UUID] or there.location != ours.location:
        raise CatalogRefused(
            f"table {table.name}: the Iceberg table {there.database}.{there.name} at {there.location} is not ours, which is at {ours.location}. "
            "Drop it in the catalog if nobody uses it, or choose another name with `view:`. The views are published; nothing else was changed."
        )


def _location(table: Table, form: str, address: str) -> str:
    """Return the location of a file beside the metadata that readers get as `address`."""
    return f"{table.layout.iceberg(form, 'metadata')}/{address.rpartition('/')[2]}"
