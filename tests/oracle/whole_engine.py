"""WholeEngine: the list engine with what few flows need: adopted bases, live views, whole hours, erased keys, histories, the change feed, rules."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from compactor.core.erasure.keys import with_keys
from compactor.core.model.files import DataFile, FeedPart, FileInfo
from compactor.core.model.history import History
from compactor.core.model.inputs import Brought, Input
from compactor.core.model.layout import relative
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.audit import Measured, Rule, query
from compactor.core.results.batch import ErasedRecords, InputLocations, Staged
from compactor.core.results.checks import Check
from compactor.core.schema.adoption import ForeignBase
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import flat_rows
from compactor.core.sources.whole_hours import brought_by_stream
from compactor.ports import Storage
from compactor.spark.input import rewrite
from tests.oracle import erased_keys, history_engine, list_files
from tests.oracle.engine import ListBatch, ListEngine, ListResolution, conformed, summary_of
from tests.oracle.model import Change


class WholeEngine(ListEngine):
    """The whole Engine port."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._timed: dict[tuple[str, str], list[dict[str, Any]]] = {}

    # reading ------------------------------------------------------------------------------------------------------

    def read(
        self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], *others: Any, base: ForeignBase | None = None, **named: Any
    ) -> ListBatch:
        """Read foreign bases too; the summary has the columns of landed files, and what each stream brought."""
        batch = self._read_base(spec, inputs, base) if base else super().read(spec, parent, inputs, *others, **named)
        raw = _raw_columns(spec, batch.summary.evolved.schema) if spec.live_view else ()
        streams = self._streams(inputs)
        return replace(batch, summary=replace(batch.summary, raw=raw, raw_format="parquet" if raw else "", streams=streams))

    def _read_base(self, spec: TableSpec, inputs: Sequence[Input], base: ForeignBase) -> ListBatch:
        """Files with a JSON object of numbers in each line: each row as if one event had made it, before all others."""
        rows = [json.loads(line) for item in inputs for line in self._storage.read(spec.layout.landed(item.path)).decode().splitlines()]
        names = dict.fromkeys(name for row in rows for name in row)
        evolved = base.evolved([WriterSchema("base", tuple(WriterField(name, ("bigint",), ("bigint",)) for name in names))], spec)
        stored = evolved.columns["base"]
        changes = []
        for row in rows:
            values = {stored[name]: value for name, value in row.items() if value is not None}
            key = tuple(values.pop(name) for name in evolved.schema.key)
            changes.append(Change("c", key, values, base.position))
        return ListBatch(summary_of(spec, None, evolved, base.order, tuple(inputs), len(rows), 0, changes), spec, None, 1, tuple(changes))

    def _landed(self, spec: TableSpec, item: Input, locations: InputLocations) -> bytes:
        data = super()._landed(spec, item, locations)
        self._timed[item.path, item.etag] = [json.loads(line) for line in data.decode().splitlines() if '"time": ' in line]
        return data

    def _streams(self, inputs: Sequence[Input]) -> tuple[Brought, ...]:
        """The newest `time` of each stream's records that are no reads of a snapshot; records of other tables (`-`) have one too."""
        records = ((item.path, raw) for item in inputs for raw in self._timed.get((item.path, item.etag), ()))
        return brought_by_stream((path, raw.get("partition"), raw["time"] if raw["op"] != "r" else None, raw["op"] != "-") for path, raw in records)

    # erasing ------------------------------------------------------------------------------------------------------

    def erased_with(self, spec: TableSpec, snapshot: Snapshot, keys: Sequence[Sequence[str]]) -> Erased:
        """Their texts, hashed."""
        return with_keys(snapshot.erased, [json.dumps(list(key)) for key in keys], erased_keys.SECRET, spec.name)

    def without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[Staged, int]:
        """A new base of the other rows."""
        stored = self._stored(spec, snapshot, snapshot.schema)
        kept = [state for key, state in stored.items() if not erased_keys.gone(erased, key)]
        segments = list_files.write_base(self._storage, spec, snapshot.schema, commit, kept, snapshot.version)
        return Staged(None, segments, {}), len(stored) - len(kept)

    def records_of(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, erased: Erased
    ) -> dict[str, ErasedRecords]:
        """The lines of the files."""
        assert len({item.path for item in inputs}) == len(inputs)
        out = {}
        for item in inputs:
            events, rows, _ = self._events(spec, item, locations)
            numbers = {event.position[-1] + 1 for event in events if erased_keys.gone(erased, conformed(event, {}, snapshot.schema).key)}
            out[item.path] = ErasedRecords(tuple(sorted(numbers)), rows, events=rows)
        return out

    def write_without(self, spec: TableSpec, location: str, records: ErasedRecords, staging: str) -> FileInfo:
        """The other lines, whatever the name of the file says about its format."""
        self._storage.write(f"{staging}/part-00000.json", rewrite.bytes_without(location, "json", self._storage.read(location), records))
        (info,) = self._storage.list(staging)
        return info

    # histories ----------------------------------------------------------------------------------------------------

    def write_history(self, resolution: ListResolution, commit: str, staged: Staged) -> History:
        """Every event played back."""
        resolution.check_open()
        batch = resolution.batch
        before = batch.parent.history if batch.parent else None
        return history_engine.written(self._storage, batch.spec, batch.summary.evolved.schema, before, batch.changes, commit)

    def history_without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[History, int]:
        """All events of the other keys again."""
        assert snapshot.history is not None
        return history_engine.without(self._storage, spec, snapshot.schema, snapshot.history, erased, commit)

    # the change feed ----------------------------------------------------------------------------------------------

    def _changed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> list[dict[str, Any]]:
        """What makes the rows of `made` out of those of `parent`, by looking at all of them."""
        before, after = self.rows(spec, parent, made.schema), self.rows(spec, made, made.schema)
        out = []
        for key in sorted({*before, *after}, key=repr):
            old, new = before.get(key), after.get(key)
            kinds = [("insert", new)] if old is None else [("delete", old)] if new is None else [("update_preimage", old), ("update_postimage", new)]
            named = dict(zip(made.schema.key, key))
            out += [{"_change_type": kind, "_commit_version": made.version, **(row or {}), **named} for kind, row in kinds if old != new]
        return out

    def write_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot, resolution: ListResolution | None) -> FeedPart | None:
        """The whole difference, in one file."""
        rows = self._changed(spec, parent, made)
        if not rows:
            return None
        directory, data = spec.layout.feed(made.writer), json.dumps(rows).encode()
        self._storage.write(f"{directory}/part-00000.json", data)
        kinds, files = Counter(row["_change_type"] for row in rows), (DataFile("part-00000.json", len(data)),)
        path = relative(directory, spec.layout.root)
        return FeedPart(path, len(rows), files, kinds["insert"], kinds["update_postimage"], kinds["delete"])

    def read_feed(self, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
        """The rows as they were written."""
        assert snapshot.feed is not None
        assert snapshot.feed.part is not None
        place = spec.layout.inside(snapshot.feed.part.path)
        for file in snapshot.feed.part.files:
            yield from map(json.dumps, json.loads(self._storage.read(f"{place}/{file.name}")))

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        """The part against the difference."""
        part = [json.loads(line) for line in self.read_feed(spec, made)] if made.feed and made.feed.part else []
        same = part == self._changed(spec, parent, made)
        return Check(spec.name, "feed = difference", same, f"version {made.version}: {'equal' if same else 'they differ'}")

    # rules --------------------------------------------------------------------------------------------------------

    def audit(self, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
        """The queries, as SQLite answers them."""
        rows = [{**values, **dict(zip(snapshot.schema.key, key))} for key, values in self.rows(spec, snapshot, snapshot.schema).items()]
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"CREATE TABLE `{spec.view}` ({', '.join(f'`{name}`' for name in snapshot.schema.names)})")
            marks = ", ".join("?" * len(snapshot.schema.names))
            values = [[row.get(name) for name in snapshot.schema.names] for row in rows]
            database.executemany(f"INSERT INTO `{spec.view}` VALUES ({marks})", values)
            answers = [database.execute(query(rule, f"`{spec.view}`")).fetchall() for rule in measured]
        return Measured(len(rows), tuple((len(answer), str(answer[0]) if answer else "") for answer in answers))


def _raw_columns(spec: TableSpec, schema: Schema) -> tuple[tuple[str, str], ...]:
    """The columns of the landed files, as a live view has them (`tests.oracle.live`)."""
    columns = {field.source.lower(): field.type for field in schema.payload}
    operation = flat_rows.OPERATION if "op" in columns else "op"
    return (*columns.items(), *((name, "bigint") for name in spec.order_by if name not in columns), (operation, "string"))
