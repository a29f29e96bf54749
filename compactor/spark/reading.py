"""Reading: landed files → a batch of Changes and the facts about it."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

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
from compactor.spark import csv_files, files, keyless, position, store, survey, text_types, zstandard
from compactor.spark.conform import conform, linked, with_position, writer_positions
from compactor.spark.decode import debezium, dms, flat, kafka
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import default_order, expression, flat_connector, flat_source

ENVELOPES = {"debezium": debezium.decode, "dms": dms.decode, "flat": flat.decode}
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
    scratch: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Let the cache go, and what was unpacked beside it."""
        self.changes.unpersist()
        self.scratch.close()


@dataclass(frozen=True)
class Reader:
    """Opens inputs. `storage` is only asked for the content of files whose rows nothing else identifies (keyless tables)."""

    spark: SparkSession
    storage: Storage

    def read(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], version: int) -> SparkBatch:
        """Open, decode, survey, evolve, conform. A failure of Spark's is reported with the file that caused it."""
        with ExitStack() as scratch:
            try:
                batch = self._read(spec, parent, inputs, version, scratch)
            except CompactorError:
                raise
            except Exception as error:
                raise self._blamed(spec, inputs, error) from error
            batch.scratch = scratch.pop_all()
            return batch

    def _read(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], version: int, scratch: ExitStack) -> SparkBatch:
        frames, landed = self._frames(spec, parent, inputs, scratch)
        order = _order(spec, parent, frames)
        if spec.envelope == "dms":
            dms.check_names(spec, [name for name, _ in order], [item.path for item in inputs])
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
            contents = {} if numbered else {item.path: self._identity(spec, item) for item in inputs}
            placed = [keyless.identified(frame, order, spec.epoch, contents) for frame in placed]
        changes = conform(placed, evolved, spec, order, bool(found.partial))
        if found.unlinked and not spec.keyless:
            changes = linked(changes, evolved.schema)
        facts = _facts(spec, inputs, found, evolved, order, landed)
        return SparkBatch(facts, spec, parent, version, store.held(changes))

    def _frames(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], scratch: ExitStack) -> tuple[list[Frame], Columns]:
        """The decoded frames, and the columns of the files as they lie there."""
        decode = ENVELOPES.get(spec.envelope)
        if decode is None:
            raise Refused(f"table {spec.name}: envelope {spec.envelope!r} is not supported yet; known are {', '.join(ENVELOPES)}")
        frames = []
        schema = from_avro(spec.avro_schema) if spec.avro_schema else None
        landed: dict[str, types.Type] = {}
        for kind, paths in _by_format(spec, inputs).items():
            for raw in self._raw(spec, kind, paths, parent, schema, scratch):
                for name, found in raw.schema[1] if raw.schema and kind != "csv" else ():
                    landed[name.lower()] = types.widest(landed.get(name.lower(), found), found) or ("string",)
                frame = decode(kafka.unpacked(raw, spec.container), spec)
                if frame.images is None:
                    writers = survey.writers_of(self.spark, frame, spec.key, schema)
                    frame = frame.parsed(decided(writers, _stored_fields(parent)))
                elif schema and raw.avro is None:
                    frame = dataclasses.replace(frame, writers=tuple(declared(known, schema) for known in frame.writers))
                frames.append(flat.settled(frame, spec) if spec.envelope == "flat" else frame)
        return frames, tuple((name, types.text(types.lower_names(found))) for name, found in landed.items())

    def _raw(
        self, spec: TableSpec, kind: str, paths: list[str], parent: Snapshot | None, schema: WriterSchema | None, scratch: ExitStack
    ) -> list[files.RawFrame]:
        found = self._opened(spec, kind, spec.landing, paths, scratch)
        if kind != "csv":
            return found
        words = (spec.op or csv_files.OPERATION,)
        return text_types.typed(found, _stored_fields(parent), schema, words, dms.BEFORE if spec.envelope == "dms" else "")

    def _opened(self, spec: TableSpec, kind: str, root: str, paths: list[str], scratch: ExitStack) -> list[files.RawFrame]:
        packed = [path for path in paths if kind in ("csv", "json") and zstandard.needed(self.spark, path)]
        plain = [path for path in paths if path not in packed]
        out = []
        if plain:
            out += csv_files.read(self.spark, spec, root, plain) if kind == "csv" else files.read(self.spark, kind, root, plain)
        if packed:
            place = scratch.enter_context(tempfile.TemporaryDirectory(prefix="compactor-"))
            copies = zstandard.copied(self.spark, root, packed, place)
            raws = csv_files.read(self.spark, spec, place, copies) if kind == "csv" else files.read(self.spark, kind, place, copies)
            out += [zstandard.renamed(raw) for raw in raws]
        return out

    def _identity(self, spec: TableSpec, item: Input) -> str:
        """What tells a file's rows from another file's. DMS never writes a file twice: equal content is another event there."""
        if spec.envelope == "dms":
            return item.path.rsplit("/", 1)[-1]
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
            with ExitStack() as scratch:
                for raw in self._opened(spec, kind, spec.landing, paths, scratch):
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
            raise InputRefused(f"table {spec.name}: {location}: the name tells no format; say `format: parquet|avro|json|csv`.")
        found.setdefault(kind, []).append(location)
    return found


def _order(spec: TableSpec, parent: Snapshot | None, frames: Sequence[Frame]) -> Columns:
    """The order columns and their types: the table's own, else as declared, else the connector's. Raises OrderRefused."""
    images = frames[0].images or ("struct", ())
    if parent is not None:
        names = tuple(name for name, _ in parent.order)
        wanted = dms.order(spec, ()) if spec.envelope == "dms" else spec.order_by
        if spec.order_by and wanted != names:
            raise OrderRefused(
                f"table {spec.name}: order_by is {', '.join(spec.order_by)}, the table was built with {', '.join(names)}. "
                "Positions of different orders cannot be compared: restore the setting, or build the table anew under another name."
            )
        return parent.order
    if spec.envelope == "dms":
        return _typed_order(dms.order(spec, (name for frame in frames for name, _ in (frame.images or images)[1])), images, spec)
    names = spec.order_by
    if not names:
        connector, offsets = survey.connector(frames)
        if spec.envelope == "flat":
            connector = flat_connector(flat_source(dict(images[1])))
        names = default_order(connector, offsets, spec.name)
        # a flattened row has no transaction block
        names = tuple(name for name in names if spec.envelope != "flat" or name != "total_order")
    return _typed_order(names, images, spec)


def _typed_order(names: Sequence[str], images: types.Type, spec: TableSpec) -> Columns:
    return tuple((name, str(expression(name, images, spec.name)[1][0])) for name in names)


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
    partial = {evolved.columns[writer][name] for writer, name in found.partial if name in evolved.columns.get(writer, {})}
    return Facts(
        evolved=evolved,
        order=tuple(order),
        inputs=counted,
        read=found.read,
        ignored=found.ignored,
        changes=found.read - found.ignored,
        partial=tuple(sorted(partial)),
        moves=found.moves + found.unlinked,
        truncates=found.truncates,
        first=earliest([file.first for file in held.values()]),
        last=latest([file.last for file in held.values()]),
        truncate=found.truncate if spec.truncate == "apply" else None,
        source_time=found.source_time,
        raw=landed,
    )
