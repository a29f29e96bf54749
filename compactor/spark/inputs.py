"""The inputs of a batch while they are read: where each lies, what opens as which raw frames, and which cannot be opened."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from compactor.core import increment
from compactor.core.errors import Doubt, InputRefused, InputUnfinished
from compactor.core.layout import Layout, join
from compactor.core.quarantine import Limits, Unusable
from compactor.core.snapshot import Input
from compactor.core.spec import TableSpec
from compactor.core.writer import WriterField, WriterSchema
from compactor.ports import Elsewhere, Storage
from compactor.spark import csv_files, doubt, failures, files, store, text_types, zstandard

FORMATS = ("parquet", "avro", "json", "csv")

_MISSING = re.compile(r"FileNotFoundException|No such file or directory|PATH_NOT_FOUND")


class Inputs:
    """Opens files and remembers which were `broken` (location → why). `scratch` holds what is unpacked on the way, until it is closed.

    `storage` is asked for the size of files that Spark has another one of.
    """

    def __init__(
        self, spark: SparkSession, storage: Storage, spec: TableSpec, inputs: Sequence[Input], elsewhere: Elsewhere, scratch: ExitStack
    ) -> None:
        layout = Layout(spec.root, spec.landing)
        self._spark, self._storage, self.spec, self.inputs, self._scratch = spark, storage, spec, inputs, scratch
        self.places = {item: elsewhere.get((item.path, item.etag)) or layout.landed(item.path) for item in inputs}
        roots = files.Origins((spec.landing, layout.archived(""), layout.quarantined("")))
        odd = tuple((place, item.path) for item, place in self.places.items() if place in elsewhere.values() and roots.path(place) != item.path)
        self.origins = dataclasses.replace(roots, named=odd)
        self._sizes = {place: item.size for item, place in self.places.items()}
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
        """The raw frames of files of one format, with typed values; `known` are the stored columns, `schema` what is declared.

        Raises Doubt where the store's answers to Spark do not fit together.
        """
        found = self._opened(kind, paths)
        if kind == "parquet":
            return found
        found = [doubt.once(raw, self.held) for raw in found]
        if kind != "csv":
            return found
        operation = self.spec.op or self.spec.source.operation_column
        return text_types.typed(found, known, schema, (operation,) if operation else (), self.spec.source.before_prefix)

    def held(self, rows: DataFrame) -> DataFrame:
        """Rows computed once and kept until the batch is closed."""
        kept = store.held(rows)
        self._scratch.callback(kept.unpersist)
        return kept

    def find_broken(self) -> bool:
        """Find the files that make Spark fail: read each half alone until single files are left (H29). Whether there are any."""
        before = len(self.broken)
        for kind, paths in self.by_format().items():
            self._read_halves(kind, paths)
        return len(self.broken) > before

    @property
    def remote(self) -> bool:
        """Whether any of the files comes from far."""
        return any(doubt.remote(place) for place in self._sizes)

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
        found = self._opened_now(kind, paths)
        suspects = [path for path in paths if path in self.broken and doubt.remote(path)]
        if not suspects:
            return found
        # it may be the answer that is broken, not the file
        for path in suspects:
            del self.broken[path]
        found = self._opened_now(kind, paths)
        for path in suspects:
            if path in self.broken:
                self._check_missing(path, self.broken[path].text)
        return found

    def _opened_now(self, kind: str, paths: list[str]) -> list[files.RawFrame]:
        packed = [path for path in paths if kind in ("csv", "json") and zstandard.needed(self._spark, path)]
        plain = [path for path in paths if path not in packed]
        out = self._read(kind, self.origins, plain) if plain else []
        if packed:
            place = self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="compactor-"))
            copies = []
            for path in packed:
                try:
                    copies.append(zstandard.copied(self._spark, path, join(place, self.origins.path(path))))
                except InputRefused as error:
                    self.broken[path] = files.Why(str(error))
            out += [zstandard.renamed(raw) for raw in self._read(kind, files.Origins((place,)), copies)] if copies else []
        return out

    def _read(self, kind: str, origins: files.Origins, paths: list[str]) -> list[files.RawFrame]:
        if kind != "csv":
            found, broken = files.read(self._spark, kind, origins, paths, self._listed)
            self.broken.update(broken)
            return found
        try:
            return csv_files.read(self._spark, self.spec, origins, paths, self._listed)
        except InputRefused as error:
            if len(paths) == 1:
                self.broken[paths[0]] = files.Why(str(error))
                return []
            return [raw for path in paths for raw in self._read(kind, origins, [path])]

    def _listed(self, opened: Callable[[], DataFrame], paths: Sequence[str]) -> DataFrame:
        if not all(path in self._sizes for path in paths):
            # copies of our own
            return opened()
        what = f"table {self.spec.name}: {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        return doubt.listed(opened, sum(self._sizes[path] for path in paths), what, lambda: sum(self._size_now(path) for path in paths))

    def _size_now(self, path: str) -> int:
        info = self._storage.stat(path)
        return info.size if info is not None else 0

    def _check_missing(self, path: str, reason: str) -> None:
        """Raises Doubt for a file that is there and, as Spark was told, is not. One that is gone has been archived by another run."""
        if _MISSING.search(reason) and doubt.remote(path) and self._storage.stat(path) is not None:
            raise Doubt(f"table {self.spec.name}: {path} is there, and the store told Spark that it is not ({reason}). Run again")

    def _read_halves(self, kind: str, paths: list[str], last: bool = False) -> None:
        try:
            for raw in self._opened(kind, paths):
                raw.rows.write.format("noop").mode("overwrite").save()
        except Exception as error:
            failures.spare_the_data(error)
            if len(paths) == 1 and doubt.remote(paths[0]) and not last:
                self._read_halves(kind, paths, last=True)
                return
            if len(paths) == 1:
                self._check_missing(paths[0], files.reason(error))
                self.broken[paths[0]] = files.Why(f"cannot be read ({files.reason(error)})")
                return
            half = len(paths) // 2
            self._read_halves(kind, paths[:half])
            self._read_halves(kind, paths[half:])
