"""The inputs of a batch while they are read: where each lies, what opens as which raw frames, and which cannot be opened."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.errors import InconsistentRead, InputRefused, InputUnfinished
from compactor.core.model.layout import Layout, join
from compactor.core.model.snapshot import Input
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import InputLocations
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import increment
from compactor.core.sources.quarantine import Limits, Unusable
from compactor.ports import Storage
from compactor.spark import failures
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input import csv_files, csv_types, files, zstandard
from compactor.spark.tables import table_writer

FORMATS = ("parquet", "avro", "json", "csv")


class Inputs:
    """Opens files and remembers which were `broken` (location → why). `scratch` holds what is unpacked on the way, until it is closed.

    `reads` checks what Spark reads of the files; it raises InconsistentRead. `storage` is for its questions.
    """

    def __init__(
        self, spark: SparkSession, storage: Storage, spec: TableSpec, inputs: Sequence[Input], locations: InputLocations, scratch: ExitStack
    ) -> None:
        layout = Layout(spec.root, spec.landing)
        self._spark, self.spec, self.inputs, self._scratch = spark, spec, inputs, scratch
        self.places = {item: locations.get((item.path, item.etag)) or layout.landed(item.path) for item in inputs}
        roots = files.Origins((spec.landing, layout.archived(""), layout.quarantined("")))
        odd = tuple((place, item.path) for item, place in self.places.items() if place in locations.values() and roots.path(place) != item.path)
        self.origins = dataclasses.replace(roots, named=odd)
        self.reads = ConsistentReads({place: item.size for item, place in self.places.items()}, spec.name, storage)
        self.broken: files.Broken = {}

    def by_format(self) -> dict[str, list[str]]:
        """Locations by file format, told by the configuration or by the file's name, without the broken ones."""
        found: dict[str, list[str]] = {}
        for item, place in self.places.items():
            kind = self.spec.format if self.spec.format != "auto" else increment.file_format(item.path)
            if kind is None:
                self.broken[place] = files.Why(f"the name tells no format; say `format: {'|'.join(FORMATS)}`")
            if place not in self.broken:
                found.setdefault(str(kind), []).append(place)
        return found

    def raw(self, kind: str, paths: list[str], known: Sequence[WriterField], schema: WriterSchema | None) -> list[files.RawFrame]:
        """The raw frames of files of one format, with typed values; `known` are the stored columns, `schema` what is declared."""
        found = self._opened(kind, paths)
        if kind == "parquet":
            return found
        found = [dataclasses.replace(raw, rows=self.reads.materialize(raw.rows, self.held)) for raw in found]
        if kind != "csv":
            return found
        operation = self.spec.op or self.spec.source.operation_column
        return csv_types.typed(found, known, schema, (operation,) if operation else (), self.spec.source.before_prefix)

    def held(self, rows: DataFrame) -> DataFrame:
        """Rows computed once and kept until the batch is closed."""
        kept = table_writer.held(rows)
        self._scratch.callback(kept.unpersist)
        return kept

    def find_broken(self) -> bool:
        """Find the files that make Spark fail: read each half alone until single files are left (H29). Whether there are any."""
        before = len(self.broken)
        for kind, paths in self.by_format().items():
            self._read_halves(kind, paths)
        return len(self.broken) > before

    def unusable(self) -> list[Unusable]:
        """The broken files."""
        return [Unusable(item.path, self.broken[place].text) for item, place in self.places.items() if place in self.broken]

    @property
    def unfinished(self) -> frozenset[str]:
        """Paths of the broken files that lack their end."""
        return frozenset(item.path for item, place in self.places.items() if place in self.broken and self.broken[place].unfinished)

    def within_limits(self, bad: int, read: int, records: Sequence[Unusable] = ()) -> None:
        """Raises InputRefused when more of the inputs cannot be used than the table allows; InputUnfinished when all that is wrong may pass."""
        broken = self.unusable()
        judged = [item for item in broken if item.path not in self.unfinished]
        limits = Limits(self.spec.quarantine_rows, self.spec.quarantine_share)
        where = f"table {self.spec.name}: {join(self.spec.landing)}"
        if problem := limits.problem([*judged, *records], bad, read, len(judged), len(self.inputs)):
            raise InputRefused(f"{where}: {problem}")
        if broken and len(broken) == len(self.inputs):
            problem = limits.problem(broken, bad, read, len(broken), len(self.inputs))
            raise InputUnfinished(self.unfinished, f"{where}: {problem}")

    def _opened(self, kind: str, paths: list[str]) -> list[files.RawFrame]:
        found, broken = self._read(kind, paths)
        while not self.reads.confirmed({path: why.text for path, why in broken.items()}):
            found, broken = self._read(kind, paths)
        self.broken.update(broken)
        return found

    def _read(self, kind: str, paths: list[str]) -> tuple[list[files.RawFrame], files.Broken]:
        """The raw frames of the files, and those that cannot be opened."""
        packed = [path for path in paths if kind in ("csv", "json") and zstandard.needed(self._spark, path)]
        plain = [path for path in paths if path not in packed]
        out, broken = self._read_plain(kind, self.origins, plain) if plain else ([], {})
        if packed:
            place = self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="compactor-"))
            copies = {}
            for path in packed:
                try:
                    copies[zstandard.copied(self._spark, path, join(place, self.origins.path(path)))] = path
                except InputRefused as error:
                    broken[path] = files.Why(str(error))
            frames, refused = self._read_plain(kind, files.Origins((place,)), [*copies]) if copies else ([], {})
            out += [zstandard.renamed(raw) for raw in frames]
            broken.update({copies[copy]: why for copy, why in refused.items()})
        return out, broken

    def _read_plain(self, kind: str, origins: files.Origins, paths: list[str]) -> tuple[list[files.RawFrame], files.Broken]:
        if kind != "csv":
            return files.read(self._spark, kind, origins, paths, self.reads)
        try:
            return csv_files.read(self._spark, self.spec, origins, paths, self.reads), {}
        except InputRefused as error:
            if len(paths) == 1:
                return [], {paths[0]: files.Why(str(error))}
            alone = [self._read_plain(kind, origins, [path]) for path in paths]
            return [raw for frames, _ in alone for raw in frames], {path: why for _, broken in alone for path, why in broken.items()}

    def _read_halves(self, kind: str, paths: list[str]) -> None:
        try:
            for raw in self._opened(kind, paths):
                raw.rows.write.format("noop").mode("overwrite").save()
        except InconsistentRead:
            raise
        except Exception as error:
            failures.spare_the_data(error)
            half = len(paths) // 2
            if half:
                self._read_halves(kind, paths[:half])
                self._read_halves(kind, paths[half:])
                return
            reason = files.reason(error)
            if not self.reads.confirmed({paths[0]: reason}):
                self._read_halves(kind, paths)
                return
            self.broken[paths[0]] = files.Why(f"cannot be read ({reason})")
