"""Native: describe the base as an Iceberg table (`iceberg: base`), after the views show a version (docs/design/iceberg.md).

| step | a crash after it leaves |
|---|---|
| 1. read the newest metadata file; nothing to do if it shows this base and these columns | nothing |
| 2. read the footers of files that no manifest lists; write new manifests and the manifest list | files that nothing names, until vacuum |
| 3. put v<N+1>.metadata.json, if nobody else has | an export that the next run points to |
| 4. point the catalog's table to it | a hint that is behind, so the next run repeats step 4 |
| 5. write version-hint.text | nothing |

Names follow from content, so a repetition writes the same files. Readers see one metadata file, and with it one committed version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence

from compactor.core.catalog import native_table
from compactor.core.catalog.ddl import NativeDef
from compactor.core.formats import parquet
from compactor.core.formats.parquet import Footer
from compactor.core.iceberg import manifests, metadata, schema
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
    """Make the Iceberg table show the base of a version that the views show. If it cannot, the report of the run says why, and the older one stays.

    `advance`: if not, only Iceberg snapshots that vacuum has given up are dropped. Raises CatalogRefused if a table of its name is not ours.
    """
    if table.spec.iceberg is None or table.env.dry:
        return
    for _ in range(ATTEMPTS):
        hint, before = _newest(table)
        if before is not None and before.uuid != snapshot.uuid:
            raise StateRefused(
                f"table {table.name}: {table.layout.iceberg()} holds the Iceberg table of another life of this table (uuid {before.uuid}, ours is "
                f"{snapshot.uuid}). Delete this folder if that life is over. Nothing was exported."
            )
        made = _next(table, snapshot, before, advance)
        if made is None and (before is None or before.number == hint):
            return
        if made is None or _put(table, made):
            _point(table, snapshot, made or before)  # type: ignore[arg-type]
            return
    raise Conflict(f"table {table.name}: other runs exported to Iceberg at the same moment in {ATTEMPTS} attempts. Run again.")


def current(table: Table) -> Exported | None:
    """Return the newest metadata file, or None without any."""
    return _newest(table)[1]


def unused(table: Table, files: Sequence[FileInfo], now: float) -> list[str]:
    """Return those of the Iceberg table's files that may be deleted: older than `grace` at `now`, and of no use to readers of the newest one.

    Without `iceberg:` that is all of them.
    """
    old = [info.path for info in files if info.modified <= now - table.spec.grace]
    exported = current(table) if old and table.spec.iceberg else None
    needed = _needed(table, exported) if exported else set()
    return [path for path in old if path not in needed]


def _needed(table: Table, exported: Exported) -> set[str]:
    folder = table.layout.iceberg("metadata")
    lists = [entry["manifest-list"] for entry in exported.raw["snapshots"]]
    named = [each.path for path in lists for each in manifests.read_list(table.storage.read(_location(table, path)))]
    own = {table.layout.iceberg_metadata(exported.number), table.layout.iceberg_hint()}
    return own | {f"{folder}/{path.rpartition('/')[2]}" for path in (*lists, *named)}


def _newest(table: Table) -> tuple[int, Exported | None]:
    """Return the number in the hint, and the newest metadata file; 0 and None without any."""
    layout, storage = table.layout, table.storage
    try:
        hint = number = int(storage.read(layout.iceberg_hint()))
    except (FileNotFoundError, ValueError):
        named = (_NUMBER.search(info.path) for info in storage.list(layout.iceberg("metadata")))
        hint, number = 0, max((int(match[1]) for match in named if match), default=0)
    while storage.stat(layout.iceberg_metadata(number + 1)) is not None:
        number += 1
    return hint, Exported(number, json.loads(storage.read(layout.iceberg_metadata(number)))) if number else None


def _next(table: Table, snapshot: Snapshot, before: Exported | None, advance: bool) -> Exported | None:
    """Write what the next metadata file names and return that file; None if the one there is right, or newer."""
    if before is not None and before.version > snapshot.version:
        return None
    columns = schema.columns_of(snapshot, before.ids if before else {})
    if before is not None and before.shows(snapshot, columns):
        return None
    parts, entry = metadata.parts_of(snapshot), None
    if advance and not isinstance(parts, str):
        try:
            entry = (before.snapshot_of(snapshot.base_id) if before else None) or _written(table, snapshot, before, columns, parts)
        except _Misread as error:
            parts = str(error)
    if isinstance(parts, str):
        table.notes.append(f"Iceberg shows {_shown(before)}: {parts}")
    if entry is None:
        if before is None or not before.outdated(snapshot):
            return None
        columns, entry = _same_columns(before, columns), before.current
    bases = {each.base_id for each in table.kept(snapshot)} if before and before.outdated(snapshot) else _bases(before)
    made = metadata.following(before, snapshot, columns, entry, bases, metadata.address(table.layout.iceberg()), table.env.now())
    return metadata.logged(made, before, metadata.address(table.layout.iceberg_metadata(before.number)) if before else "")


def _shown(before: Exported | None) -> str:
    return f"version {before.current['summary'][metadata.STATE_VERSION]}" if before else "nothing yet"


def _bases(before: Exported | None) -> Collection[str]:
    return {each["summary"][metadata.BASE] for each in before.raw["snapshots"]} if before else ()


def _same_columns(before: Exported, columns: Columns) -> Columns:
    shown = next(each for each in before.raw["schemas"] if each["schema-id"] == before.raw["current-schema-id"])
    return Columns(columns.ids, {name: value for name, value in shown.items() if name != "schema-id"}, columns.bounded)


def _written(table: Table, snapshot: Snapshot, before: Exported | None, columns: Columns, parts: Sequence[Part]) -> dict[str, object]:
    """Write the manifests of a base that are not there and their list, and return the Iceberg snapshot."""
    layout, storage = table.layout, table.storage
    folder = metadata.address(layout.iceberg("metadata"))
    identity, sequence = metadata.snapshot_id(snapshot), metadata.next_sequence(before)
    shown = metadata.schema_of(before, columns)
    with logs.phase(table, "exporting to Iceberg") as phase:
        earlier = manifests.read_list(storage.read(_location(table, before.current["manifest-list"]))) if before else []
        kept = manifests.reusable(earlier, [part.segment for part in parts])
        entries = [*_entries(table, parts, earlier, kept, columns, identity)]
        listed = [*kept]
        for manifest, name, content in manifests.written(entries, folder, shown, identity, sequence, snapshot.uuid):
            storage.write(f"{layout.iceberg('metadata')}/{name}", content)
            listed.append(manifest)
        content = manifests.list_file(listed, identity, before.raw["current-snapshot-id"] if before else None, sequence)
        name = f"snap-{identity}-{manifests.digest(content)}.avro"
        storage.write(f"{layout.iceberg('metadata')}/{name}", content)
        new = sum(len(each.files) for each in entries)
        phase.did(f"wrote {counted(len(listed) - len(kept), 'manifest')} with {counted(new, 'file')}", files=new)
    size = sum(file.size for part in parts for file in part.files)
    return metadata.snapshot_entry(snapshot, before, shown["schema-id"], listed, size, f"{folder}/{name}")


def _entries(
    table: Table, parts: Sequence[Part], earlier: Sequence[Manifest], kept: Sequence[Manifest], columns: Columns, snapshot: int
) -> Iterator[Entries]:
    """Yield the entries of what no manifest in use lists: copied from an earlier manifest, or made from the footers of the files."""
    left = {part.segment: part for part in parts}
    for segment in (segment for manifest in kept for segment in manifest.segments):
        del left[segment]
    for manifest in earlier:
        if manifest not in kept and not left.keys().isdisjoint(manifest.segments):
            folders = {segment: f"{part.path}/{part.files[0].name}".rpartition("/")[0] for segment, part in left.items()}
            places = {metadata.address(table.layout.inside(folder)): segment for segment, folder in folders.items()}
            for entries in manifests.existing(table.storage.read(_location(table, manifest.path)), manifest, places):
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


def _put(table: Table, made: Exported) -> bool:
    return table.storage.put_if_absent(table.layout.iceberg_metadata(made.number), json.dumps(made.raw, ensure_ascii=False).encode())


def _point(table: Table, snapshot: Snapshot, made: Exported) -> None:
    """Point the catalog's table and the hint to a metadata file. Where others have pointed to a newer one, leave it."""
    layout = table.layout
    definition = native_table.definition(table.spec, snapshot.schema, made.uuid, layout.iceberg(), layout.iceberg_metadata(made.number))
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
    table.storage.write(table.layout.iceberg_hint(), str(made.number).encode())


def _check_ours(table: Table, there: NativeDef, ours: NativeDef) -> None:
    """Raise CatalogRefused unless an Iceberg table in the catalog is the table's own."""
    if there.properties.get(metadata.UUID) != ours.properties[metadata.UUID] or there.location != ours.location:
        raise CatalogRefused(
            f"table {table.name}: the Iceberg table {there.database}.{there.name} at {there.location} is not ours, which is at {ours.location}. "
            "Drop it in the catalog if nobody uses it, or choose another name with `view:`. The views are published; nothing else was changed."
        )


def _location(table: Table, address: str) -> str:
    """Return the location of a file below `_iceberg/metadata` that readers get as `address`."""
    return f"{table.layout.iceberg('metadata')}/{address.rpartition('/')[2]}"
