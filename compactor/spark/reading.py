"""Reading: landed files → a batch of Changes and the facts about it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core import increment, types
from compactor.core.errors import CompactorError, InputRefused, NoRowsYet, OrderRefused, Refused
from compactor.core.evolution import Evolved, evolve
from compactor.core.layout import join
from compactor.core.position import earliest, latest
from compactor.core.snapshot import Input, Snapshot
from compactor.core.spec import TableSpec
from compactor.core.writer import WriterField, WriterSchema, decided, declared, from_avro
from compactor.ports import Facts, Storage
from compactor.spark import files, keyless, position, signatures, store, survey
from compactor.spark.conform import conform, linked, with_position, writer_positions
from compactor.spark.decode import change_event, debezium, flat, kafka, named, wal2json
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import default_order, expression, flat_connector, flat_source

ENVELOPES = {"debezium": debezium.decode, "flat": flat.decode, "wal2json": wal2json.decode, "change-event": change_event.decode}
"""Where another envelope joins: one module under `decode/`, one entry here."""

Columns = tuple[tuple[str, str], ...]


@dataclass
class SparkBatch:
    """A batch of inputs as Changes, kept in Spark's cache until `close`."""

    facts: Facts
    spec: TableSpec
    parent: Snapshot | None
    version: int
    changes: DataFrame

    def close(self) -> None:
        """Let the cache go."""
        self.changes.unpersist()


@dataclass(frozen=True)
class Reader:
    """Opens inputs. `storage` is only asked for the content of files whose rows nothing else identifies (keyless tables)."""

    spark: SparkSession
    storage: Storage

    def read(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], version: int) -> SparkBatch:
        """Open, decode, survey, evolve, conform. A failure of Spark's is reported with the file that caused it."""
        try:
            return self._read(spec, parent, inputs, version)
        except CompactorError:
            raise
        except Exception as error:
            raise self._blamed(spec, inputs, error) from error

    def _read(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], version: int) -> SparkBatch:
        frames, landed = self._frames(spec, parent, inputs)
        order = _order(spec, parent, frames)
        placed = [with_position(frame, spec, order) for frame in frames]
        found = survey.counted(placed, spec, order)
        if found.truncate and spec.truncate == "fail":
            raise InputRefused(f"table {spec.name}: a TRUNCATE arrived and `truncate: fail` is set. Its increment stays in landing.")
        writers = writer_positions(found.writers, _payload_writers(spec, placed))
        if parent is None and not writers:
            raise NoRowsYet(f"table {spec.name}: {found.read} records landed, none with a row; they wait for the first that has one")
        evolved = evolve(parent.schema if parent else None, writers, spec.key, version, spec.name)
        if spec.keyless:
            numbered = any(name == "offset" for name, _ in order)
            contents = {} if numbered else {item.path: self._digest(spec, item) for item in inputs}
            placed = [keyless.identified(frame, order, spec.epoch, contents) for frame in placed]
        changes = conform(placed, evolved, spec, order, bool(found.partial))
        if found.unlinked and not spec.keyless:
            changes = linked(changes, evolved.schema)
        facts = _facts(spec, inputs, found, evolved, order, landed)
        return SparkBatch(facts, spec, parent, version, store.held(changes))

    def _frames(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input]) -> tuple[list[Frame], Columns]:
        """The decoded frames, and the columns of the files as they lie there."""
        decode = ENVELOPES.get(spec.envelope)
        if decode is None:
            raise Refused(f"table {spec.name}: envelope {spec.envelope!r} is not supported yet; known are {', '.join(ENVELOPES)}")
        frames = []
        schema = from_avro(spec.avro_schema) if spec.avro_schema else None
        landed: dict[str, types.Type] = {}
        for kind, paths in _by_format(spec, inputs).items():
            for raw in files.read(self.spark, kind, spec.landing, paths):
                for name, found in raw.schema[1] if raw.schema else ():
                    landed[name.lower()] = types.widest(landed.get(name.lower(), found), found) or ("string",)
                frame = decode(kafka.unpacked(raw, spec.container), spec)
                if frame.omits:
                    stored = _stored_fields(parent)
                    writers = signatures.writers_of(frame, stored, schema, spec)
                    frame = named.with_columns(frame, writers, [field.name for field in stored])
                elif frame.images is None:
                    writers = survey.writers_of(self.spark, frame, spec.key, schema)
                    frame = frame.parsed(decided(writers, _stored_fields(parent)))
                elif schema and raw.avro is None:
                    frame = dataclasses.replace(frame, writers=tuple(declared(known, schema) for known in frame.writers))
                frames.append(flat.settled(frame, spec) if spec.envelope == "flat" else frame)
        return frames, tuple((name, types.text(types.lower_names(found))) for name, found in landed.items())

    def _digest(self, spec: TableSpec, item: Input) -> str:
        return hashlib.sha256(self.storage.read(join(spec.landing, item.path))).hexdigest()[:32]

    def _blamed(self, spec: TableSpec, inputs: Sequence[Input], error: Exception) -> CompactorError:
        """Which file made Spark fail: read each half alone until one file is left (H29)."""
        culprit = self._culprit(spec, [join(spec.landing, item.path) for item in inputs])
        if culprit is None:
            return Refused(f"table {spec.name}: Spark failed: {files.reason(error)}")
        path, why = culprit
        return InputRefused(f"table {spec.name}: {path}: cannot be read ({why}). Nothing of this increment was absorbed. Repair or remove the file.")

    def _culprit(self, spec: TableSpec, paths: list[str]) -> tuple[str, str] | None:
        try:
            kind = spec.format if spec.format != "auto" else increment.file_format(paths[0]) or "json"
            for raw in files.read(self.spark, kind, spec.landing, paths):
                raw.rows.write.format("noop").mode("overwrite").save()
        except Exception as error:
            if len(paths) == 1:
                return paths[0], files.reason(error)
            half = len(paths) // 2
            return self._culprit(spec, paths[:half]) or self._culprit(spec, paths[half:])
        return None


def _stored_fields(parent: Snapshot | None) -> list[WriterField]:
    """The table's visible columns, as a writer of plain values would describe them."""
    fields = parent.schema.payload if parent else ()
    return [WriterField(field.source, types.parse(field.type), types.parse(field.type)) for field in fields]


def _by_format(spec: TableSpec, inputs: Sequence[Input]) -> dict[str, list[str]]:
    """Locations by file format, told by the configuration or by the file's name. Raises InputRefused."""
    found: dict[str, list[str]] = {}
    for item in inputs:
        kind = spec.format if spec.format != "auto" else increment.file_format(item.path)
        location = join(spec.landing, item.path)
        if kind is None:
            raise InputRefused(f"table {spec.name}: {location}: the name tells no format; say `format: parquet|avro|json`.")
        found.setdefault(kind, []).append(location)
    return found


def _order(spec: TableSpec, parent: Snapshot | None, frames: Sequence[Frame]) -> Columns:
    """The order columns and their types: the table's own, else as declared, else the connector's. Raises OrderRefused."""
    images = frames[0].images or ("struct", ())
    if parent is not None:
        names = tuple(name for name, _ in parent.order)
        if spec.order_by and spec.order_by != names:
            raise OrderRefused(
                f"table {spec.name}: order_by is {', '.join(spec.order_by)}, the table was built with {', '.join(names)}. "
                "Positions of different orders cannot be compared: restore the setting, or build the table anew under another name."
            )
        return parent.order
    names = spec.order_by
    if not names:
        connector, offsets = survey.connector(frames)
        if spec.envelope == "flat":
            connector = flat_connector(flat_source(dict(images[1])))
        names = default_order(connector, offsets, spec.name)
        # a flattened row has no transaction block
        names = tuple(name for name in names if spec.envelope != "flat" or name != "total_order")
    return tuple((name, str(expression(name, images, spec.name, spec.envelope)[1][0])) for name in names)


def _payload_writers(spec: TableSpec, frames: Sequence[Frame]) -> list[WriterSchema]:
    """The writers of all frames without metadata columns."""
    writers = {}
    for frame in frames:
        op = flat.operation_column(spec, dict((frame.images or ("struct", ()))[1])) if spec.envelope == "flat" else None
        for known in frame.writers:
            fields = known.fields
            if spec.envelope == "flat":
                fields = tuple(field for field in fields if not flat.is_metadata(field.name, spec, op))
            writers[known.id] = dataclasses.replace(known, fields=fields)
    return list(writers.values())


def _facts(spec: TableSpec, inputs: Sequence[Input], found: survey.Found, evolved: Evolved, order: position.Order, landed: Columns) -> Facts:
    held = found.files
    counted = tuple(
        dataclasses.replace(item, rows=held[item.path].rows, position_min=held[item.path].first, position_max=held[item.path].last)
        if item.path in held
        else item
        for item in inputs
    )
    shown = {field.source: field.name for field in evolved.schema.payload}
    # a column that a record leaves out is none of its writer's
    partial = {evolved.columns.get(writer, {}).get(name, shown.get(name)) for writer, name in found.partial} - {None}
    return Facts(
        evolved=evolved,
        order=tuple(order),
        inputs=counted,
        read=found.read,
        ignored=found.ignored,
        changes=found.read - found.ignored,
        partial=tuple(sorted(str(name) for name in partial)),
        moves=found.moves + found.unlinked,
        truncates=found.truncates,
        first=earliest([file.first for file in held.values()]),
        last=latest([file.last for file in held.values()]),
        truncate=found.truncate if spec.truncate == "apply" else None,
        source_time=found.source_time,
        raw=landed,
    )
