"""Propose: from a registry's subjects, or from files that have landed, to tables for a configuration. Reads only, starts no Spark."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compactor.core import avro, increment, parquet, places, sighting
from compactor.core.errors import Refused, RegistryRefused, SchemaRefused
from compactor.core.layout import join, relative
from compactor.core.places import Place
from compactor.core.proposal import STANDARD, Found, Proposal
from compactor.core.sighting import Sighting
from compactor.core.spec import ROW_ID
from compactor.ports import FileInfo, Registry, Storage

LINES_MAX = 300
"""Lines of a text file that are looked at in a folder of one table."""

STREAM_LINES_MAX = 50_000
"""The same where several tables share a folder: a table that is not seen is not proposed."""

FILES_MAX = 3
GZIP = b"\x1f\x8b"

_ORDERED = ("__source_sequence", "__sequence", "__source_lsn", "__lsn", "__source_pos", "__pos", "__file", "__source_file")
_PERHAPS = ("__source_ts_us", "__source_ts_ms", "__ts_us", "__ts_ms", "AR_H_CHANGE_SEQ", "transact_id", "seq", "lsn", "version", "updated_at")
_CONNECTORS = ("", "postgresql", "mysql", "mariadb", "sqlserver", "oracle")


@dataclass(frozen=True)
class Topic:
    """What a registry has of one topic: the columns and the envelope of its values, its key."""

    name: str
    subject: str
    seen: Sighting


def topics(registry: Registry) -> tuple[dict[str, Topic], list[tuple[str, str]]]:
    """Every topic with a `-value` subject that holds rows, by name; and what was left out, with the reason."""
    subjects = registry.subjects()
    found: dict[str, Topic] = {}
    left: list[tuple[str, str]] = []
    for subject in subjects:
        if not subject.endswith("-value"):
            if not subject.endswith("-key"):
                left.append((subject, "a subject that ends neither in -value nor in -key belongs to no topic"))
            continue
        topic = subject[: -len("-value")]
        try:
            told = registry.latest(subject)
            seen = sighting.of_avro(told.text) if told else None
        except (SchemaRefused, RegistryRefused) as error:
            # Protobuf, JSON Schema, or broken: one topic's matter
            left.append((topic, str(error)))
            continue
        if seen is None:
            left.append((topic, "holds no rows: heartbeats, transactions or messages"))
        elif sighting.is_signal(seen.columns):
            left.append((topic, "has the columns of Debezium's signal table; add it when it is one of yours"))
        else:
            found[topic] = Topic(topic, subject, _keyed(registry, topic, seen, f"{topic}-key" in subjects))
    return found, left


def _keyed(registry: Registry, topic: str, seen: Sighting, has_key: bool) -> Sighting:
    if not has_key:
        # Debezium registers no key for a table that has none; of others nobody knows
        debezium = seen.source.from_connector
        return replace(seen, topic=topic, key=() if debezium else None, key_from=f"no subject {topic}-key" if debezium else "")
    said = registry.latest(f"{topic}-key")
    key = sighting.key_of(said.text) if said else None
    return replace(seen, topic=topic, key=key, key_from=f"{topic}-key" if key is not None else "")


def from_registry(registry: Registry, increments: str = "") -> Found:
    """A table for each topic. `increments`: where files land, with `{table}` or `{topic}` in it."""
    found, left = topics(registry)
    if not found:
        raise Refused(f"{registry}: no topic with rows; subjects found: {', '.join(registry.subjects()[:10]) or 'none'}")
    names = places.table_names([*found])
    tables = []
    for name, topic in zip(names, found.values()):
        settings = [*_envelope(topic.seen), ("schema", {"subject": topic.subject})]
        place = "" if not increments or increments == STANDARD else increments.replace("{table}", name).replace("{topic}", topic.name)
        tables.append(_proposal(name, f"topic {topic.name}", topic.seen, place, settings, _order_notes(topic.seen)))
    return Found(tuple(tables), tuple(left))


def from_files(storage: Storage, top: str, warehouse: str, registry: Registry | None = None) -> Found:
    """A table for each landing root below `top`, or for each source table where several share one. A registry, when there is one, tells keys."""
    infos = {relative(info.path, top): info for info in storage.list(top)}
    roots = places.found(infos)
    if not roots:
        raise Refused(f"{top}: no landed files there" + (f", only {len(infos)} markers or unfinished ones" if infos else ""))
    known, left = topics(registry) if registry else ({}, [])
    seen: list[tuple[Place, Sighting, bool, str]] = []
    for place in roots:
        try:
            looked = _look(storage, place, infos)
        except (SchemaRefused, ValueError) as error:
            left.append((place.root or top, str(error)))
            continue
        rows = [table for table in looked.values() if not sighting.is_signal(table.columns)]
        if len(rows) < len(looked):
            left.append((place.root or top, "has the columns of Debezium's signal table; add it when it is one of yours"))
        if not looked:
            left.append((place.root or top, "no rows in the files that were looked at"))
        shared = len(rows) > 1
        seen += [(place, _told(table, place, known), shared, top.rstrip("/").rpartition("/")[2]) for table in rows]
    if not seen:
        raise Refused(f"{top}: no rows in the files that were looked at: " + "; ".join(f"{source}: {why}" for source, why in left[:5]))
    names = places.table_names([(table.table or table.topic) if shared else places.called(place, base) for place, table, shared, base in seen])
    tables = []
    for name, (place, table, shared, _) in zip(names, seen):
        where = join(top, place.root) if place.root else top
        landing = f"{where}/{place.pattern}" if place.pattern else where
        standard = join(warehouse, STANDARD.replace("{table}", name))
        settings = [*_envelope(table), *_format(place)]
        if shared and table.table:
            settings.append(("source_table", table.table))
        topic = known.get(table.topic)
        if topic:
            settings.append(("schema", {"subject": topic.subject}))
        notes = [*_order_notes(table), *_opaque(table, shared)]
        source = f"{table.table or table.topic} in {place.root or top}" if shared else place.root or top
        tables.append(_proposal(name, source, table, "" if landing == standard else landing, settings, notes))
    return Found(tuple(tables), tuple(left))


def _told(seen: Sighting, place: Place, known: Mapping[str, Topic]) -> Sighting:
    """What was seen, with what the registry says of its topic: the one named in the records or files, else the one that the folder is called."""
    if seen.topic not in known:
        folder = place.root.rpartition("/")[2]
        near = [topic for topic in known if topic == folder or (folder and topic.endswith(f".{folder}"))]
        near = near or [topic for topic in known if seen.table and topic.endswith(f".{seen.table}")]
        if len(near) != 1:
            return seen
        seen = replace(seen, topic=near[0])
    topic = known[seen.topic].seen
    return seen if seen.key is not None or topic.key is None else replace(seen, key=_spelled(topic.key, seen.columns), key_from=topic.key_from)


def _spelled(key: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The key as the files spell it: Connect's Avro converter writes `a_b` for `a.b`."""
    plain = {"".join(char if char.isalnum() and char.isascii() else "_" for char in column): column for column in columns}
    return tuple(name if name in columns else plain.get(name, name) for name in key)


def _proposal(name: str, source: str, seen: Sighting, increments: str, settings: Iterable[tuple[str, Any]], notes: Iterable[str]) -> Proposal:
    key, notes = seen.key, [*notes]
    key_from = seen.key_from if key else f"no key: {seen.key_from}" if key is not None else ""
    if key == () and not seen.source.before_image:
        # updates could not find their row: better asked than refused in the first run
        key, key_from = None, ""
        notes.append("The records have no key. Without one only inserts can be followed.")
    if ROW_ID in (key or ()):
        key = None
    return Proposal(name, source, key, key_from, increments, tuple(settings), seen.candidates, tuple(notes))


def _envelope(seen: Sighting) -> Iterator[tuple[str, Any]]:
    yield "envelope", seen.envelope
    if seen.container != "value":
        yield "container", seen.container


def _format(place: Place) -> Iterator[tuple[str, Any]]:
    if any(increment.file_format(path) is None for path in place.files):
        # names without a suffix tell no format
        yield "format", "json"


def _order_notes(seen: Sighting) -> Iterator[str]:
    if seen.source.from_connector and seen.connector not in _CONNECTORS and not seen.offsets:
        yield f"order_by: the connector {seen.connector} has no default order; say which fields order the changes of a row."
    if seen.source.order_columns and not seen.offsets and not {*_ORDERED} & {*seen.columns}:
        near = [name for name in _PERHAPS if name in seen.columns]
        yield f"order_by: [{near[0] if near else '..'}]   which columns order the changes of a row, the most significant first?"
    if not seen.names_columns:
        yield "csv: {columns: [..]}   the files have no header; name their columns, in order" + (
            ", without Op." if seen.source.unnamed_operation else "."
        )


def _opaque(seen: Sighting, shared: bool) -> Iterator[str]:
    if seen.opaque:
        yield "The values of these Kafka records could not be looked into. Say `envelope:` and `key:`; Avro's bytes cannot be read from there."
    if shared and not seen.table:
        yield "Several sources share this folder, and these records name no table: they cannot be told apart."


def _look(storage: Storage, place: Place, infos: Mapping[str, FileInfo]) -> dict[str, Sighting]:
    """What a few files of a landing root show, by source table: the smallest with content of the first, the middle and the last folder."""
    seen: dict[str, Sighting] = {}
    for path in _chosen(place, infos):
        for table, told in _file(storage, infos[path].path, LINES_MAX).items():
            seen[table] = _joined(seen.get(table), told)
    if len(seen) > 1:
        # a stream of many tables: every file, to miss none
        seen = {}
        for path in place.files:
            for table, told in _file(storage, infos[path].path, STREAM_LINES_MAX).items():
                seen[table] = _joined(seen.get(table), told)
    return {table: told for table, told in seen.items() if told.rows or told.columns or told.opaque or not told.names_columns}


def _chosen(place: Place, infos: Mapping[str, FileInfo]) -> list[str]:
    full = [path for path in place.files if infos[path].size > 0] or list(place.files)
    folders = sorted({path.rpartition("/")[0] for path in full})
    wanted = dict.fromkeys(folders[at] for at in (0, len(folders) // 2, len(folders) - 1))
    return [min((path for path in full if path.rpartition("/")[0] == folder), key=lambda path: infos[path].size) for folder in wanted][:FILES_MAX]


def _joined(first: Sighting | None, second: Sighting) -> Sighting:
    if first is None:
        return second
    longest = max((first, second), key=lambda seen: -1 if seen.key is None else len(seen.key))
    both = tuple(dict.fromkeys([*first.columns, *second.columns]))
    values = {name: _merged(first.values.get(name), second.values.get(name)) for name in both}
    more = first if first.rows or not second.rows else second
    return replace(more, key=longest.key, key_from=longest.key_from, columns=both, values=values, rows=first.rows + second.rows)


def _merged(first: set[str] | None, second: set[str] | None) -> set[str] | None:
    return first | second if first is not None and second is not None and not first & second else None


def _file(storage: Storage, path: str, lines: int) -> dict[str, Sighting]:
    """What one file shows. A file that cannot be opened is passed over here: a run says what is wrong with it."""
    kind = increment.file_format(path) or "json"
    try:
        data = storage.read(path)
        if kind == "parquet":
            found = {"": sighting.of_parquet(parquet.columns(data))}
        elif kind == "avro":
            told = sighting.of_avro(avro.container_schema(data))
            found = {"": told} if told else {}
        elif kind == "csv":
            found = {"": sighting.of_csv(_text(path, data, 1 << 16), path)}
        else:
            found = sighting.of_documents(_documents(_text(path, data, 1 << 26), lines))
    except (OSError, EOFError, zlib.error, ValueError):
        return {}
    for seen in found.values():
        name = path.rpartition("/")[2]
        if seen.source.plain_rows and (increment.is_full_load(name) or increment.is_dated_changes(name)):
            seen.envelope = "dms"
        # Kafka Connect's sinks name files <topic>+<partition>+<offset>
        seen.topic = seen.topic or (name.split("+")[0] if name.count("+") >= 2 else "")
    return found


def _text(path: str, data: bytes, size: int) -> str:
    """The first `size` bytes of a text file, unpacked. Raises ValueError for a packing that only Spark reads."""
    if path.lower().endswith((".zst", ".snappy")):
        raise ValueError(f"{path}: its packing is not read here")
    if data[:2] == GZIP:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as content:
            data = content.read(size)
    elif path.lower().endswith(".bz2"):
        data = bz2.BZ2Decompressor().decompress(data, size)
    return data[:size].decode("utf-8", "replace").lstrip("\ufeff")


def _documents(text: str, lines: int) -> Iterator[Any]:
    # not `splitlines`: a value may hold U+2028
    for line in text.split("\n")[:lines]:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            # empty, cut, or unusable: for the run to say
            continue
