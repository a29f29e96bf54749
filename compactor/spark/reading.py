"""Reading: landed files → a batch of Changes and the facts about it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model import types
from compactor.core.model.errors import CompactorError, InputRefused, NoRowsYet, OrderRefused, Refused
from compactor.core.model.position import OFFSETS, Position, earliest, latest, offsets_problem
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Input, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import BatchSummary, InputLocations
from compactor.core.schema.adoption import EPOCH, FIRST, ForeignBase
from compactor.core.schema.evolution import Evolved, evolve
from compactor.core.schema.writer import WriterField, WriterSchema, decided, declared, from_avro
from compactor.core.sources.quarantine import LISTED_MAX, Unusable
from compactor.ports import Entries, Storage
from compactor.spark import failures
from compactor.spark.decode import change_event, debezium, dms, flat, foreign_base, full_load, kafka, named, signatures, wal2json, wire
from compactor.spark.decode.decoder import Decoder
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import expression, payload_column
from compactor.spark.full_loads import FullLoads
from compactor.spark.input import files
from compactor.spark.input.inputs import Inputs, LoadSetAside
from compactor.spark.rows import keyless, position, survey
from compactor.spark.rows.conform import EVENTS_MAX, conform, linked, with_position, writer_positions
from compactor.spark.sql import literal, quoted
from compactor.spark.tables import table_writer

ENVELOPES = {
    "change-event": Decoder(change_event.decode),
    "debezium": Decoder(debezium.decode),
    "dms": Decoder(dms.decode, order=dms.order, declared_order=dms.declared_order, check_names=dms.check_names, file_identity=dms.file_identity),
    "flat": Decoder(flat.decode, settle=flat.settled, order=flat.order),
    "full-load": Decoder(flat.decode, settle=full_load.settle, order=full_load.order, declared_order=full_load.order),
    "wal2json": Decoder(wal2json.decode),
}
"""The decoder of each envelope in `core/sources/envelopes.py`."""

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SparkBatch:
    """A batch of inputs as Changes. Spark's cache holds them until `close`."""

    summary: BatchSummary
    """What reading told."""
    spec: TableSpec
    """The table."""
    parent: Snapshot | None
    """The version that the batch continues."""
    version: int
    """The version that is being made."""
    changes: DataFrame
    """One row per event, in the table's columns."""
    scratch: ExitStack = field(default_factory=ExitStack)
    """What was unpacked on the way."""

    def close(self) -> None:
        """Let the cache go, and what was unpacked beside it."""
        self.changes.unpersist()
        self.scratch.close()


@dataclass(frozen=True)
class Reader:
    """Opens inputs. `storage` is only asked for the content of files whose rows nothing else identifies (keyless tables), and for the size of
    those that Spark has another one of; `schemas` for those that Kafka records name by id."""

    spark: SparkSession
    storage: Storage
    schemas: wire.Schemas = None

    def read(
        self,
        spec: TableSpec,
        parent: Snapshot | None,
        inputs: Sequence[Input],
        version: int,
        locations: InputLocations,
        entries: Entries = tuple,
        base: ForeignBase | None = None,
    ) -> SparkBatch:
        """Open, decode, survey, evolve, conform. Files on which Spark fails are found and left out."""
        with ExitStack() as scratch:
            opened = Inputs(self.spark, self.storage, spec, inputs, locations, scratch)
            batch = None
            while batch is None:
                try:
                    batch = self._read_base(opened, base) if base else self._read(opened, parent, version, entries)
                except LoadSetAside:
                    continue
                except CompactorError:
                    raise
                except Exception as error:
                    failures.spare_the_data(error)
                    # an error that no single file causes may come from a truncated response
                    if not opened.find_broken() and opened.reads.confirmed({spec.name: files.reason(error)}):
                        raise Refused(f"table {spec.name}: Spark failed: {files.reason(error)}") from error
            return dataclasses.replace(batch, scratch=scratch.pop_all())

    def _read(self, opened: Inputs, parent: Snapshot | None, version: int, entries: Entries) -> SparkBatch:
        spec = opened.spec
        frames, landed = self._frames(opened, parent)
        if not frames:
            opened.within_limits(0, 0)
        if not any(frame.writers for frame in frames):
            # no record tells a column: either nothing has happened yet, or nothing here is what the table expects
            rubbish = [item for frame in frames for item in _unusable(frame)]
            bad = sum(frame.rows.where("_bad IS NOT NULL").count() for frame in frames) if rubbish else 0
            opened.within_limits(bad, sum(frame.rows.count() for frame in frames) if rubbish else 0, rubbish)
        order = _order(spec, parent, frames)
        ENVELOPES[spec.envelope].check_names(spec, [name for name, _ in order], [item.path for item in opened.inputs])
        epoch = _epoch(opened)
        placed = [with_position(frame, spec, order, epoch) for frame in frames]
        found = survey.counted(placed, spec)
        unusable = tuple(item for frame in placed if found.bad for item in _unusable(frame))
        opened.within_limits(found.bad, found.read, unusable)
        if found.truncate and spec.truncate == "fail":
            raise InputRefused(f"table {spec.name}: a TRUNCATE arrived and `truncate: fail` is set. Its increment stays in landing.")
        _comparable(spec, parent, order, found)
        writers = writer_positions(found.writers, _payload_writers(placed))
        if parent is None and not writers:
            raise NoRowsYet(f"table {spec.name}: {found.read} records landed, none with a row; they wait for the first that has one")
        evolved = evolve(parent.schema if parent else None, writers, spec.key, version, spec.name, spec.policy)
        if spec.keyless:
            numbered = any(name == "offset" for name, _ in order)
            contents = {} if numbered else {item.path: self._identity(spec, item, place) for item, place in opened.places.items()}
            placed = [keyless.identified(frame, order, contents) for frame in placed]
        untold = _untold(placed, evolved) if spec.partial else set()
        changes = conform(placed, evolved, spec, order, bool(found.partial or untold))
        if found.unlinked and not spec.keyless:
            changes = linked(changes, evolved.schema)
        changes = table_writer.held(changes)
        changes, unfit, told = _fitting(spec, changes, evolved.schema)
        if unfit:
            found, unusable = found.without(unfit), (*unusable, *told)
            opened.within_limits(found.bad, found.read, unusable)
        summary = _facts(opened, found, evolved, order, landed, unusable)
        summary = dataclasses.replace(summary, partial=tuple(sorted({*summary.partial, *untold})))
        if spec.source.full_loads:
            changes, summary = FullLoads(self.spark, opened, parent, summary, version, entries).changes(changes)
        return SparkBatch(summary, spec, parent, version, changes)

    def _read_base(self, opened: Inputs, base: ForeignBase) -> SparkBatch:
        """Read the files of a foreign base as the first load of a table. Refuses everything that `_read` would put into quarantine."""
        spec = opened.spec
        frames, adopted = foreign_base.frames(opened, base)
        found = survey.counted(frames, spec)
        foreign_base.check_usable(spec, [item for frame in frames if found.bad for item in _unusable(frame)], found.bad)
        evolved = foreign_base.evolved(frames, adopted)
        summary = dataclasses.replace(_facts(opened, found, evolved, base.order, (), ()), adoption=adopted)
        unplaced = [item.path for item in summary.inputs if item.position_min is not None and item.position_min[0] == EPOCH]
        if unplaced and not base.unplaced:
            raise OrderRefused(
                f"table {spec.name}: in rows of {spec.landing}, such as in {unplaced[0]}, {', '.join(base.order_by)} is null or does not have the "
                "changes' type. Any change in landing, however old, would win over them: use --absorbed-through FOLDER too, or other columns."
            )
        changes = table_writer.held(conform(frames, evolved, spec, base.order, False))
        foreign_base.check_keys(changes, spec, adopted.schema)
        return SparkBatch(summary, spec, None, FIRST, changes)

    def _frames(self, opened: Inputs, parent: Snapshot | None) -> tuple[list[Frame], Columns]:
        """The decoded frames, and the columns of the files as they lie there."""
        spec = opened.spec
        decode = ENVELOPES[spec.envelope].decode
        frames = []
        schema = from_avro(spec.avro_schema) if spec.avro_schema else None
        landed: dict[str, types.Type] = {}
        for kind, paths in opened.by_format().items():
            for raw in opened.raw(kind, paths, _stored_fields(parent), schema):
                try:
                    # all or none: a file whose records name several schemas is one frame for each
                    decoded = [(part, decode(part, spec)) for part in kafka.unpacked(raw, spec.container, self.schemas, opened.held)]
                except InputRefused as error:
                    opened.broken.update(dict.fromkeys(raw.paths, files.Why(str(error))))
                    continue
                for name, found in raw.schema[1] if raw.schema and kind != "csv" else ():
                    landed[name.lower()] = types.widest(landed.get(name.lower(), found), found) or ("string",)
                frames += [self._described(frame, part, opened, parent, schema) for part, frame in decoded]
        return frames, tuple((name, types.text(types.lower_names(found))) for name, found in landed.items())

    def _described(self, frame: Frame, raw: files.RawFrame, opened: Inputs, parent: Snapshot | None, schema: WriterSchema | None) -> Frame:
        """The frame with its writers, and with images that are structs."""
        spec = opened.spec
        if frame.omits:
            stored = _stored_fields(parent)
            writers = signatures.writers_of(frame, stored, schema, spec)
            frame = named.with_columns(frame, writers, [field.name for field in stored])
        elif frame.images is None:
            writers = survey.writers_of(self.spark, frame, spec.key, schema, bare=spec.source.plain_rows)
            frame = frame.parsed(decided(writers, _stored_fields(parent)))
        elif schema and raw.avro is None:
            frame = dataclasses.replace(frame, writers=tuple(declared(known, schema) for known in frame.writers))
        return ENVELOPES[spec.envelope].settle(frame, spec, opened.inputs)

    def _identity(self, spec: TableSpec, item: Input, location: str) -> str:
        """Return what tells the rows of one file from those of another."""
        return ENVELOPES[spec.envelope].file_identity(item.path) or hashlib.sha256(self.storage.read(location)).hexdigest()[:32]


def _untold(frames: Sequence[Frame], evolved: Evolved) -> set[str]:
    """Stored columns that some writer of rows does not have (`partial: true`)."""
    names = set(evolved.schema.values)
    writers = {writer.id for frame in frames for writer in frame.writers if writer.id in evolved.columns}
    return {name for writer in writers for name in names - set(evolved.columns[writer].values())}


def _unusable(frame: Frame) -> list[Unusable]:
    """What is wrong with the records of a frame, with their text as it is quoted to people."""
    text = "_text" if "_text" in frame.rows.columns else "to_json(struct(_after AS after, _before AS before))"
    return survey.unusable(frame.rows.where("_bad IS NOT NULL"), "_bad", text)


def record_place(spec: TableSpec) -> tuple[str, str]:
    """SQL for where the record of a Change stands."""
    row = f"_position.row div {EVENTS_MAX}L" if spec.source.several_events else "_position.row"
    return "_position.block AS _block", f"{row} AS _row"


def _fitting(spec: TableSpec, changes: DataFrame, schema: Schema) -> tuple[DataFrame, dict[str, int], tuple[Unusable, ...]]:
    """The changes whose key is known (H27) and whose values are of their types, and of the others their number in each file and what is wrong."""
    nameless = f"(_op <> 't' AND ({' OR '.join(f'{quoted(name)} IS NULL' for name in schema.key)}))"
    unfit = f"(_unfit IS NOT NULL OR {nameless})"
    rows = changes.where(unfit).selectExpr("*", *record_place(spec))
    counts = {row["_file"]: row["count"] for row in rows.groupBy("_file").count().collect()}
    if not counts:
        return changes, {}, ()
    kinds = ", ".join(f"{literal(field.name)}, {literal(field.type)}" for field in schema.fields)
    nameless_told = literal(f"a column of the key ({', '.join(schema.key)}) is null or cannot be read as its type")
    told = f"CASE WHEN {nameless} THEN {nameless_told} ELSE concat('the value of ', _unfit, ' is no ', try_element_at(map({kinds}), _unfit)) END"
    return changes.where(f"NOT {unfit}"), counts, tuple(survey.unusable(rows, told, "to_json(struct(*))"))


def _stored_fields(parent: Snapshot | None) -> list[WriterField]:
    """The table's visible columns, as a writer of plain values would describe them."""
    fields = parent.schema.payload if parent else ()
    return [WriterField(field.source, types.parse(field.type), types.parse(field.type)) for field in fields]


def _order(spec: TableSpec, parent: Snapshot | None, frames: Sequence[Frame]) -> Columns:
    """The order columns and their types: the table's own, else as declared, else the connector's. Raises OrderRefused."""
    decoder = ENVELOPES[spec.envelope]
    if parent is not None:
        names, wanted = tuple(name for name, _ in parent.order), decoder.declared_order(spec)
        if wanted and wanted != names:
            raise OrderRefused(
                f"table {spec.name}: order_by is {', '.join(wanted)}, the table was built with {', '.join(names)}. "
                "Positions of different orders cannot be compared: restore the setting, or build the table anew from its archive with this order: "
                f"compactor rebuild {spec.name}"
            )
        return parent.order
    return tuple((name, _order_type(name, spec, frames)) for name in decoder.order(spec, frames))


def _order_type(name: str, spec: TableSpec, frames: Sequence[Frame]) -> str:
    """The type that values of an order column are compared as. Text that writes numbers, or is declared as one, is a number: as text 9 follows 10.

    Raises OrderRefused for numbers among other text: nothing orders these.
    """
    found = [expression(name, frame.images or ("struct", ()), spec.name, frame.order_names) for frame in frames]
    kind = str(found[0][1][0])
    column = payload_column(name)
    declared = {field.type[0] for frame in frames for writer in frame.writers for field in writer.fields if field.name == column}
    if kind != "string" or not declared:
        return kind
    if declared <= {"tinyint", "smallint", "int", "bigint"}:
        return "bigint"
    told, digits = survey.numbers(frames, [value for value, _ in found])
    if 0 < digits < told:
        raise OrderRefused(
            f"table {spec.name}: order_by column {name!r} holds whole numbers in {digits:,} records and other text in {told - digits:,}, which have "
            "no order in common. Declare its type with `schema:` (what is no number then waits in quarantine), or name another column."
        )
    return "bigint" if digits else kind


def _epoch(opened: Inputs) -> str:
    """SQL for the epoch of a row (H6): the one its file was absorbed in, else the table's, from the folder on with which that begins."""
    spec = opened.spec
    before: dict[int, list[str]] = {}
    for item in opened.inputs:
        if item.position_min is not None and item.position_min[0] != spec.epoch:
            before.setdefault(item.position_min[0], []).append(literal(item.path))
    cases = [f"WHEN _file IN ({', '.join(paths)}) THEN {epoch}" for epoch, paths in before.items()]
    known = [literal(item.path) for item in opened.inputs if item.position_min is not None and item.position_min[0] == spec.epoch]
    if spec.epoch_from:
        cases += [f"WHEN _file IN ({', '.join(known)}) THEN {spec.epoch}"] if known else []
        cases.append(f"WHEN _file < {literal(spec.epoch_from)} THEN {spec.epoch - 1}")
    return f"CASE {' '.join(cases)} ELSE {spec.epoch} END" if cases else str(spec.epoch)


def _barrier(spec: TableSpec, found: survey.SurveyResult, order: position.Order) -> Position | None:
    """The newest truncate; under `epoch: {replace: true}` the beginning of the epoch, once something of it has come."""
    told = found.truncate if spec.truncate == "apply" else None
    newest = latest([file.last for file in found.files.values()])
    if spec.epoch_replaces and newest is not None and newest[0] == spec.epoch:
        begins: Position = (spec.epoch, *(None for _ in order), None, None, None)
        return latest([told, begins])
    return told


def _comparable(spec: TableSpec, parent: Snapshot | None, order: position.Order, found: survey.SurveyResult) -> None:
    """Raises OrderRefused when the table is ordered by Kafka offsets and these cannot be compared with what it has (H6)."""
    if not order or order[0][0] not in OFFSETS:
        return
    known = parent if parent and parent.epoch == spec.epoch else None
    newer = known is not None and (found.source_time or "") > (known.source_time or "")
    problem = offsets_problem(known.offsets if known else (), found.offsets, found.truncate is not None and spec.truncate == "apply", newer)
    if problem:
        raise OrderRefused(
            f"table {spec.name}: {problem}. Nothing was absorbed. Order by the source's own position (`order_by:`, then `compactor rebuild "
            f"{spec.name}`), or, if keys have one partition each from here on, say `epoch: {spec.epoch + 1}`: what lands from then on counts as "
            "newer than all before."
        )


def _payload_writers(frames: Sequence[Frame]) -> list[WriterSchema]:
    """The writers of all frames without metadata columns."""
    writers = {}
    for frame in frames:
        for known in frame.writers:
            fields = tuple(field for field in known.fields if field.name not in frame.metadata)
            writers[known.id] = dataclasses.replace(known, fields=fields)
    return list(writers.values())


def _facts(
    opened: Inputs, found: survey.SurveyResult, evolved: Evolved, order: position.Order, landed: Columns, records: Sequence[Unusable]
) -> BatchSummary:
    spec, held = opened.spec, found.files
    broken = {item.path: item.reason for item in opened.unusable()}
    counted = []
    for item in opened.inputs:
        if item.path in broken:
            item = item.unopened(broken[item.path])
        elif item.path in held:
            file = held[item.path]
            item = dataclasses.replace(item, rows=file.rows, position_min=file.first, position_max=file.last, quarantined=file.bad)
        counted.append(item)
    shown = {field.source: field.name for field in evolved.schema.payload}
    # a column that a record leaves out is none of its writer's
    partial = {evolved.columns.get(writer, {}).get(name, shown.get(name)) for writer, name in found.partial} - {None}
    return BatchSummary(
        evolved=evolved,
        order=tuple(order),
        inputs=tuple(counted),
        read=found.read,
        ignored=found.ignored,
        changes=found.read - found.ignored - found.bad,
        partial=tuple(sorted(str(name) for name in partial)),
        moves=found.moves + found.unlinked,
        truncates=found.truncates,
        first=earliest([file.first for file in held.values()]),
        last=latest([file.last for file in held.values()]),
        truncate=_barrier(spec, found, order),
        source_time=found.source_time,
        raw=landed,
        offsets=found.offsets if order and order[0][0] in OFFSETS else (),
        quarantined=found.bad,
        unfinished=opened.unfinished,
        unusable=(*opened.unusable(), *records)[:LISTED_MAX],
    )
