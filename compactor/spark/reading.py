"""Read a batch: open landed files, decode them, survey them, evolve the schema, and make Changes.

In: inputs. Out: a SparkBatch with Changes (`rows/conform.py`) and a BatchSummary.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog import landed as landed_files
from compactor.core.catalog.feed import OFF
from compactor.core.erasure.keys import check_key
from compactor.core.model import types
from compactor.core.model.errors import CompactorError, InputRefused, NoRowsYet, Refused, SchemaRefused
from compactor.core.model.inputs import Input
from compactor.core.model.position import NO_STARTS, OFFSETS, Order, Starts, earliest, latest
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import BatchSummary
from compactor.core.schema import column_types, nested_types, protection
from compactor.core.schema.adoption import FIRST, ForeignBase
from compactor.core.schema.evolution import Evolved, evolve
from compactor.core.schema.undecided import decided
from compactor.core.schema.writer import WriterField, WriterSchema, from_avro
from compactor.core.sources.kafka_files import sink_name
from compactor.core.sources.quarantine import LISTED_MAX, Unusable
from compactor.ports import Entries
from compactor.spark import failures, measured
from compactor.spark.checks import misfits
from compactor.spark.columns import LINK
from compactor.spark.decode import flat, foreign_base, named, repair
from compactor.spark.decode.decoder import DECODERS
from compactor.spark.decode.frame import Frame
from compactor.spark.full_loads import FullLoads
from compactor.spark.input import files, kafka
from compactor.spark.input.inputs import Inputs, LoadSetAside
from compactor.spark.input.limits import TooManyColumns
from compactor.spark.keys import link_key_changes, row_key
from compactor.spark.rows import batch_order, deletions, erase, json_writers, keyless, protect, survey
from compactor.spark.rows.conform import conform, payload_writers, shard, writer_positions
from compactor.spark.rows.position import with_position
from compactor.spark.rows.survey import unusable_records, without_invalid

PARSED_ONCE_MAX = 1 << 30
"""Bytes of files up to which the parts of JSON records are kept, so that no later pass parses them again. They need three times the bytes."""
KEPT_MAX = 4 << 20
"""Bytes of Parquet files up to which the changes of a first load are kept. Kept rows need twenty times the bytes, and are not read by column."""
Columns = tuple[tuple[str, str], ...]
"""(name, type) of columns."""


@failures.translated
@dataclass(frozen=True)
class SparkBatch:
    """A batch of inputs as Changes. Spark caches them until `close`."""

    summary: BatchSummary
    """The counts and bounds of the batch."""
    spec: TableSpec
    """The table."""
    parent: Snapshot | None
    """The version that the batch continues."""
    version: int
    """The version that is being made."""
    changes: DataFrame
    """One row for each event, in the table's columns and `columns.CHANGE`."""
    raws: tuple[DataFrame, ...] = ()
    """The raw rows that the changes were decoded from (`survey.record_numbers`)."""
    unpacked: tuple[files.RawFrame, ...] = ()
    """The raw frames as the decoder got them, with the columns of the container."""
    frames: tuple[Frame, ...] = ()
    """The decoded frames."""
    scratch: ExitStack = field(default_factory=ExitStack)
    """Cached rows and unpacked copies, freed by `close`."""

    @property
    def session(self) -> SparkSession:
        """Return the session that reads the batch. What belongs to it is read in the same session."""
        return self.changes.sparkSession

    def close(self) -> None:
        measured.release(self.changes)
        self.scratch.close()


@dataclass(frozen=True)
class _Decoded:
    frames: tuple[Frame, ...]
    landed: Columns
    """The columns of the files, with names in lower case; () for text files."""
    format: str
    """The format of these files; of several parquet, which is the last by name."""
    unpacked: tuple[files.RawFrame, ...]
    """The raw frames of the records."""


@dataclass(frozen=True)
class _Surveyed:
    """Decoded records with their places in the order, and what was counted of them."""

    frames: tuple[Frame, ...]
    order: Order
    counts: survey.SurveyResult
    unusable: tuple[Unusable, ...]
    """The first invalid records."""
    starts: Starts = NO_STARTS
    """`State.starts` with the batch."""


@dataclass(frozen=True)
class Reader:
    """Reads one batch."""

    opened: Inputs
    parent: Snapshot | None
    version: int
    """The version that is being made."""
    schemas: kafka.Schemas
    """Returns the schema text for an id, for Kafka records that carry only the id."""
    entries: Entries
    """Reads the ledger."""
    base: ForeignBase | None
    """Set for files of a foreign base."""
    erased: Erased | None
    """Keys whose events are ignored, instead of those of `parent`."""

    @functools.cached_property
    def _stored(self) -> list[WriterField]:
        """The table's visible columns, as a writer of plain values would describe them."""
        out = []
        for column in self.parent.schema.payload if self.parent else ():
            kind = types.parse(column.type)
            out.append(WriterField(column.source, kind, kind, marked=nested_types.marked(kind, column.undecided) if column.undecided else None))
        return out

    def read(self) -> SparkBatch:
        """Read the inputs, without files on which Spark fails."""
        opened, spec = self.opened, self.opened.spec
        while True:
            try:
                return self._read_base(self.base) if self.base else self._read()
            except LoadSetAside:
                continue
            except CompactorError:
                raise
            except Exception as error:
                failures.raise_environment_error(error)
                # a truncated response can cause an error that no single file causes
                reason = opened.reason(error)
                if not opened.find_unreadable() and opened.reads.confirmed({spec.name: reason}):
                    raise Refused(f"table {spec.name}: Spark failed: {reason}") from (error if spec.quotes_records else None)

    def _read(self) -> SparkBatch:
        opened, parent, spec = self.opened, self.parent, self.opened.spec
        erased = self.erased or (parent.erased if parent else None)
        stored = parent.schema if parent else None
        protection.check(spec.name, stored, spec.columns, protect.fingerprint(spec, stored))
        column_types.check(spec.name, stored, column_types.declared(spec.types))
        decoded = self._decoded()
        surveyed = _surveyed(opened, parent, decoded.frames)
        evolved = self._evolved(surveyed)
        lacking = _lacking(surveyed.frames, evolved, parent) if spec.patch_rows else set()
        changes, judged = self._changes(surveyed, evolved, bool(lacking))
        if erased is not None:
            check_key(spec.name, parent.schema if parent else evolved.schema, evolved.schema)
            changes, left_out = erase.without_erased(changes, evolved.schema, erased, spec)
            judged = dataclasses.replace(judged, counts=dataclasses.replace(judged.counts, ignored=judged.counts.ignored + left_out))
        summary = _summary(opened, parent, judged, evolved)
        missing = tuple(sorted({*summary.unavailable_columns, *lacking}))
        summary = dataclasses.replace(summary, unavailable_columns=missing, raw=decoded.landed, raw_format=decoded.format)
        if spec.source.full_loads:
            changes, summary = FullLoads(opened, parent, summary, self.version, self.entries).changes(changes)
        return SparkBatch(summary, spec, parent, self.version, changes, opened.raws, decoded.unpacked, decoded.frames)

    def _changes(self, surveyed: _Surveyed, evolved: Evolved, lacking: bool) -> tuple[DataFrame, _Surveyed]:
        """Return the Changes of surveyed records in the table's columns, and the survey with those that turn out to be invalid there.

        `lacking`: whether some writer lacks a stored column whose value then stays (`patch_rows: true`).
        """
        opened, parent, spec = self.opened, self.parent, self.opened.spec
        frames, order, counts = surveyed.frames, surveyed.order, surveyed.counts
        if spec.keyless:
            numbered = any(name in OFFSETS for name, _ in order)
            contents = {} if numbered else {item.name: _identity(opened, item, place) for item, place in opened.places.items()}
            frames = tuple(keyless.identify(frame, order, contents, shard(spec), spec.container) for frame in frames)
        across = batch_order.across(parent, order, counts)
        changes = conform(frames, evolved, spec, order, bool(counts.unavailable_columns or lacking), across, not counts.ignored + counts.invalid)
        if counts.unlinked and not spec.keyless and not across:
            deletes = changes.where("_op = 'd' AND _link IS NOT NULL").selectExpr(LINK, f"{row_key(evolved.schema)} AS _key")
            changes = link_key_changes(changes, evolved.schema, deletes)
        changes = protect.protect(changes, evolved.schema, spec)
        changes = changes.coalesce(1) if opened.small and len(frames) > 1 else changes
        changes, mistyped, listed, moves = without_invalid(opened, changes, evolved.schema, parent is not None or not _read_again(opened))
        unusable = (*surveyed.unusable, *listed)
        if mistyped:
            counts = counts.with_invalid(mistyped)
            opened.within_limits(counts.invalid, counts.read, unusable)
        counts = dataclasses.replace(counts, moves=batch_order.checked_moves(spec, moves, across))
        return changes, dataclasses.replace(surveyed, counts=counts, unusable=unusable)

    def _evolved(self, surveyed: _Surveyed) -> Evolved:
        """Return the schema with the columns of the records. Raises SchemaRefused, with the first record that the policy refuses."""
        opened, parent, spec = self.opened, self.parent, self.opened.spec
        writers = writer_positions(surveyed.counts.writers, payload_writers(surveyed.frames, spec), spec.keyless)
        if parent is None and not writers:
            of = f" of `source_table: {spec.source_table}` (`compactor plan {spec.name}` names their tables)" if spec.source_table else ""
            landed = f"{surveyed.counts.read} records landed, none of them with a row{of}"
            raise NoRowsYet(f"table {spec.name}: {landed}; they wait for the first that has one")
        try:
            evolved = evolve(parent.schema if parent else None, writers, spec.row_key, self.version, spec.name, spec.policy)
        except SchemaRefused as error:
            raise misfits.located(error, surveyed.frames, opened) from None
        evolved = dataclasses.replace(evolved, schema=protection.marked(evolved.schema, spec.columns, protect.fingerprint(spec, evolved.schema)))
        if parent is not None and evolved.retyped:
            misfits.check_exact(opened.spark, spec, parent, evolved)
        return evolved

    def _read_base(self, base: ForeignBase) -> SparkBatch:
        """Read the files of a foreign base as the first load of a table. Refuses everything that `_read` would put into quarantine."""
        opened, spec = self.opened, self.opened.spec
        frames = foreign_base.frames(opened, base)
        counts = survey.count_records(frames, spec, raws=opened.raws)
        opened.check_names(counts.files)
        foreign_base.check_usable(spec, [item for frame in frames if counts.invalid for item in unusable_records(frame, opened)], counts.invalid)
        evolved = base.evolved(payload_writers(frames, spec), spec)
        summary = _summary(opened, None, _Surveyed(tuple(frames), base.order, counts, ()), evolved)
        changes = measured.materialize(conform(frames, evolved, spec, base.order, False))
        foreign_base.check_keys(changes, spec, evolved.schema)
        return SparkBatch(summary, spec, None, FIRST, changes)

    def _decoded(self) -> _Decoded:
        """Decode the records of the files. A file that cannot be decoded is set aside."""
        opened, spec, stored = self.opened, self.opened.spec, self._stored
        decode = DECODERS[spec.envelope].decode
        frames, unpacked = [], []
        typed = column_types.declared(spec.types)
        schema = column_types.over(typed, from_avro(spec.avro_schema) if spec.avro_schema else None)
        landed, formats = dict[str, types.Type](), set[str]()
        for kind, paths in opened.by_format().items():
            for raw in opened.raw(kind, paths, stored, schema):
                try:
                    # a file whose records name several schemas is one frame for each schema: take all frames or none
                    decoded = [(part, decode(part, spec)) for part in kafka.unpack(raw, spec.container, self.schemas, opened.materialize)]
                    decoded = [(part, keyless.with_digest(frame)) for part, frame in decoded] if spec.keyless else decoded
                except InputRefused as error:
                    opened.refuse(raw.paths, files.Problem(str(error)))
                    continue
                undecided = {name for name, marked in raw.marked[1] if nested_types.unmarked(marked)[0] != marked} if raw.marked else set()
                of_avro = from_avro(raw.avro) if raw.avro and kind == "avro" else None
                for name, sparks in raw.columns.items() if kind != "csv" else ():
                    if name in undecided:
                        continue
                    formats.add(kind)
                    column_type = landed_files.column_type(sparks, of_avro.field(name), raw.avro or "") if of_avro else sparks
                    landed[name.lower()] = landed_files.common_type(landed.get(name.lower(), column_type), column_type)
                # An Avro schema says all but what `types:` does. That in a Parquet footer may lack what numbers mean (`connect.meta.data=false`).
                for part, frame in decoded:
                    says_all = part.avro and (part.by_id or kind == "avro" or '"connect.name"' in part.avro)
                    frames.append(self._described(frame, typed if says_all else schema, typed))
                unpacked += [part for part, _ in decoded]
        deletions.check_columns(spec, frames)
        frames += repair.frames(opened, frames, stored)
        columns = tuple((name, types.text(types.lower_names(column_type))) for name, column_type in landed.items())
        return _Decoded(tuple(frames), columns, max(formats, default=""), tuple(unpacked))

    def _described(self, frame: Frame, schema: WriterSchema | None, typed: WriterSchema | None) -> Frame:
        """Return the frame with its writers, and with images that are structs. `schema`: the declared columns; `typed`: those of `types:` alone."""
        opened, spec, stored = self.opened, self.opened.spec, self._stored
        if frame.images is None and opened.size <= PARSED_ONCE_MAX:
            frame = dataclasses.replace(frame, rows=opened.materialize(frame.rows))
        if frame.omits:
            writers = named.writers_of(frame, stored, schema, spec)
            frame = named.with_columns(frame, writers, [field.name for field in stored])
        elif frame.images is None:
            bare, small = spec.source.plain_rows, opened.size <= json_writers.INFERRED_HERE
            try:
                writers = json_writers.writers_of(frame, spec.key, stored, schema, typed, bare, small, spec.limits)
            except TooManyColumns as error:
                opened.without_too_wide(error, frame.rows)
                raise
            frame = frame.parsed(decided(writers, stored), [*protection.as_text(writers, spec.columns), *stored])
        elif schema:
            frame = dataclasses.replace(frame, writers=tuple(column_types.as_declared(writer, schema) for writer in frame.writers))
        frame = json_writers.with_decimals(frame)
        frame = DECODERS[spec.envelope].settle(deletions.marked(frame, spec, stored), spec, opened.inputs)
        return dataclasses.replace(frame, writers=tuple(protection.protected(writer, spec.columns) for writer in frame.writers))


def _identity(opened: Inputs, item: Input, location: str) -> str:
    """Return what identifies the rows of a file: its name if only one stream writes it, in its epoch, else a hash of the content."""
    own = DECODERS[opened.spec.envelope].file_identity(item.path) or sink_name(item.path)
    if own is None:
        return hashlib.sha256(opened.storage.read(location)).hexdigest()[:32]
    return f"{own}:{item.epoch}" if item.epoch else own


def _surveyed(opened: Inputs, parent: Snapshot | None, frames: Sequence[Frame]) -> _Surveyed:
    """Place decoded records in the order and count them. Raises what refuses the batch: too many invalid records, or what its order cannot order."""
    spec = opened.spec
    if not frames:
        opened.within_limits(0, 0)
    if not any(frame.writers for frame in frames):
        # no record has a column: either nothing has happened yet, or the files are not what the table expects. Tombstones and heartbeats beside
        # invalid records do not count for them.
        records = [item for frame in frames for item in unusable_records(frame, opened)]
        invalid = sum(frame.rows.where("_invalid IS NOT NULL").count() for frame in frames) if records else 0
        opened.within_limits(invalid, invalid, records)
    batch_order.check_epoch(spec, parent, opened.inputs)
    order = batch_order.order_columns(opened, parent, frames)
    epoch = batch_order.epoch(opened)
    since = parent.source_time if parent and parent.epoch == spec.epoch else None
    own, starts = shard(spec) or "''", parent.starts if parent else NO_STARTS
    placed = [with_position(frame, spec, order, epoch, False, starts, own) for frame in frames]
    counts = survey.count_records(placed, spec, since, opened.raws)
    before, starts = starts, batch_order.starts(opened, parent, order, counts)
    if starts != before and starts.transactions:
        placed = [with_position(frame, spec, order, epoch, False, starts, own) for frame in frames]
        counts = survey.count_records(placed, spec, since, opened.raws)
    opened.check_names(counts.files)
    unusable = tuple(item for frame in placed if counts.invalid for item in unusable_records(frame, opened))
    opened.within_limits(counts.invalid, counts.read, unusable)
    if counts.truncate and spec.truncate == "fail":
        raise InputRefused(f"table {spec.name}: a TRUNCATE arrived, and `truncate: fail` is set. Its increment stays in landing.")
    batch_order.check_offsets(spec, parent, order, counts)
    flat.check_deletes(spec, counts, parent)
    # that each record can be used is not computed again
    placed = placed if counts.invalid else [with_position(frame, spec, order, epoch, True, starts, own) for frame in frames]
    return _Surveyed(tuple(placed), order, counts, unusable, starts)


def _read_again(opened: Inputs) -> bool:
    """Whether the changes of a first load are decoded anew where they are used, and not kept: they are many, used once, and cheap to read."""
    spec = opened.spec
    used_once = not (spec.feed != OFF or spec.history or spec.keyless or spec.source.full_loads)
    return used_once and spec.container == "value" and opened.size > KEPT_MAX and set(opened.by_format()) == {"parquet"}


def _lacking(frames: Sequence[Frame], evolved: Evolved, parent: Snapshot | None) -> set[str]:
    """Return the stored columns that some writer of rows, or some stored row, does not have (`patch_rows: true`)."""
    names = set(evolved.schema.values)
    writers = {writer.id for frame in frames for writer in frame.writers if writer.id in evolved.columns}
    later = {field.name for field in evolved.schema.later if parent is not None}
    return (names & later) | {name for writer in writers for name in names - set(evolved.columns[writer].values())}


def _summary(opened: Inputs, parent: Snapshot | None, surveyed: _Surveyed, evolved: Evolved) -> BatchSummary:
    """Return the counts and bounds of the batch, with those of each input."""
    spec, order, counts, counted = opened.spec, surveyed.order, surveyed.counts, surveyed.counts.files
    unreadable = {each.file: each.reason for each in opened.unusable()}
    inputs = []
    for item in opened.inputs:
        if item.name in unreadable:
            item = item.as_unreadable(unreadable[item.name])
        elif item.name in counted:
            file = counted[item.name]
            item = dataclasses.replace(item, rows=file.rows, position_min=file.first, position_max=file.last, quarantined=file.invalid)
        inputs.append(item)
    shown = {field.source: field.name for field in evolved.schema.payload}
    # where records name their columns, a writer may lack the column that a record leaves out
    unavailable = {evolved.columns.get(writer, {}).get(name, shown.get(name)) for writer, name in counts.unavailable_columns} - {None}
    return BatchSummary(
        evolved=evolved,
        order=tuple(order),
        inputs=tuple(inputs),
        read=counts.read,
        ignored=counts.ignored,
        changes=counts.read - counts.ignored - counts.invalid,
        unavailable_columns=tuple(sorted(str(name) for name in unavailable)),
        inserts=counts.inserts,
        deletes=counts.deletes,
        moves=counts.moves + counts.unlinked,
        truncates=counts.truncates,
        first=earliest([file.first for file in counted.values()]),
        last=latest([file.last for file in counted.values()]),
        truncate=batch_order.barrier(opened, parent, counts, order),
        shard_truncates=counts.shard_truncates,
        starts=surveyed.starts,
        source_time=counts.source_time,
        offsets=counts.offsets if order and order[0][0] in OFFSETS else (),
        least_offsets=counts.least_offsets if order and order[0][0] in OFFSETS else (),
        streams=() if spec.source.full_loads else counts.streams,
        quarantined=counts.invalid,
        unfinished=opened.unfinished,
        unusable=(*opened.unusable(), *surveyed.unusable)[:LISTED_MAX],
    )
