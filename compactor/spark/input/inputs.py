"""The inputs of a batch while they are read: the location of each, their raw frames, and the files that Spark cannot read.

Text files that are packed with zstd are unpacked into a scratch directory, for a Spark whose Hadoop has no native library (the one on PyPI). Hadoop
reads `.gz`, `.bz2` and `.snappy` with Java alone, and `.zst` only with its native library, which EMR has. Parquet and Avro files are packed inside,
and Spark unpacks those itself.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from compactor.core.formats import csv_dialect
from compactor.core.model.errors import InconsistentRead, InputRefused, InputUnfinished, SchemaRefused
from compactor.core.model.inputs import AGAIN, Input, work
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import InputLocations
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import increment
from compactor.core.sources.quarantine import Limits, Unusable
from compactor.ports import Storage
from compactor.spark import failures, measured
from compactor.spark.columns import FILE, TEXT
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input import csv_ends, csv_files, csv_types, files, json_text, kafka, limits, parquet_files
from compactor.spark.jvm import hadoop
from compactor.spark.jvm.private import jvm

FORMATS = ("parquet", "avro", "json", "csv")
"""The file formats that a table can set."""
_PLAIN = "/plain"
"""The name of an unpacked copy, in a folder called like the file. With `.zst` at its end Hadoop would unpack it again."""


class LoadSetAside(Exception):
    """Files were set aside, because something of them or of their full load cannot be used. Read again without them."""


class Inputs:
    """Opens the files of a batch.

    `places` has the location of each input. `unreadable` collects files that cannot be read (location → problem). `reads` checks what Spark reads of
    the files and raises InconsistentRead. `scratch` frees cached rows and unpacked copies when it is closed.
    """

    def __init__(
        self, spark: SparkSession, storage: Storage, spec: TableSpec, inputs: Sequence[Input], locations: InputLocations, scratch: ExitStack
    ) -> None:
        layout = spec.layout
        self.spark, self.storage, self.spec, self.inputs, self._scratch = spark, storage, spec, inputs, scratch
        self.places = {item: locations.get((item.path, item.etag)) or layout.landed(item.path) for item in inputs}
        roots = files.Origins((spec.landing, layout.archived(""), layout.quarantined("")))
        renamed = tuple((place, item.name) for item, place in self.places.items() if roots.path(place) != item.name)
        self.origins = dataclasses.replace(roots, named=renamed, encoded=not all(map(files.is_plain, self.places.values())))
        self.reads = ConsistentReads({place: item.size for item, place in self.places.items()}, spec.name, storage)
        self.unreadable: files.Unreadable = {}
        # unpacked copy → file
        self._copies: dict[str, str] = {}
        # an empty copy stands for a file in quarantine that was given up: it has no events, whatever its format
        located = [(item, place) for item, place in self.places.items() if (item.path, item.etag) in locations]
        may_be_empty = [place for item, place in located if item.outcome in AGAIN or not item.rows]
        self._given_up = {place for place in may_be_empty if (info := storage.stat(place)) is not None and info.size == 0}
        self._raws: dict[str, list[DataFrame]] = {}

    def by_format(self) -> dict[str, list[str]]:
        """Return the locations by file format, without unreadable files. The format comes from the settings, else from the file's name."""
        by_format: dict[str, list[str]] = {}
        for item, place in self.places.items():
            if place in self._given_up or increment.repaired_table(item.path):
                continue
            kind = self.spec.format if self.spec.format != "auto" else increment.file_format(item.path)
            if kind is None:
                self.unreadable[place] = files.Problem(f"the file name has no known suffix; set `format: {'|'.join(FORMATS)}`")
            if place not in self.unreadable:
                by_format.setdefault(str(kind), []).append(place)
        return by_format

    def raw(self, kind: str, paths: list[str], stored: Sequence[WriterField], schema: WriterSchema | None) -> list[files.RawFrame]:
        """Return the raw frames of files of one format. CSV values get types: `stored` are the table's columns, `schema` declares columns."""
        raws = self._opened(kind, paths)
        if kind == "json" and len(raws) > 1:
            # one frame: of records without schema, the values in all files show the types
            rows = functools.reduce(DataFrame.unionByName, [raw.rows for raw in raws])
            raws = [files.RawFrame(rows, paths=tuple(path for raw in raws for path in raw.paths))]
        if self.small:
            raws = [dataclasses.replace(raw, rows=raw.rows.coalesce(1)) for raw in raws]
        if kind == "parquet":
            return raws
        raws = [dataclasses.replace(raw, rows=self.reads.materialize(raw.rows, self.materialize)) for raw in raws]
        if kind == "json":
            too_long = limits.too_long(TEXT, self.spec.limits)
            no_document = kafka.wire_problem(TEXT) if self.spec.container == "value" else "CAST(NULL AS STRING)"
            raws = [dataclasses.replace(raw, rows=json_text.documents(raw.rows, too_long, no_document)) for raw in raws]
        self._raws[kind] = [csv_files.with_text(raw.rows, self.spec) if kind == "csv" else raw.rows for raw in raws]
        if kind != "csv":
            return raws
        self._check_ends(raws)
        return csv_types.add_types(raws, stored, schema, self.spec)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(item.size for item in self.inputs)

    @property
    def small(self) -> bool:
        """Return whether one task reads all files, so that their rows are never exchanged (`small_batch`)."""
        return self.spec.in_one_task(work(self.inputs))

    @property
    def raws(self) -> tuple[DataFrame, ...]:
        return tuple(rows for frames in self._raws.values() for rows in frames)

    def materialize(self, rows: DataFrame) -> DataFrame:
        """Return the rows computed once. They are freed when the batch is closed."""
        kept = measured.materialize(rows)
        self._scratch.callback(measured.release, kept)
        return kept

    def find_unreadable(self) -> bool:
        """Find the files that make Spark fail by reading each half alone until single files are left. Returns whether there are any."""
        before = len(self.unreadable)
        for kind, paths in self.by_format().items():
            self._read_halves(kind, paths)
        return len(self.unreadable) > before

    def unusable(self) -> list[Unusable]:
        return [Unusable(item.name, self.unreadable[place].text) for item, place in self.places.items() if place in self.unreadable]

    @property
    def unfinished(self) -> frozenset[str]:
        """Return the paths of unreadable files whose end is missing, which a sink may still be writing."""
        return frozenset(item.path for item, place in self.places.items() if place in self.unreadable and self.unreadable[place].unfinished)

    def check_names(self, files: Iterable[str]) -> None:
        """Raise InconsistentRead if rows come from a file that is none of the inputs. `files`: what the rows call their files."""
        others = sorted(set(files) - {item.name for item in self.inputs})
        if others:
            raise InconsistentRead(f"table {self.spec.name}: Spark read rows of {others[0]}, which is none of the files that it was asked for")

    def within_limits(self, invalid: int, read: int, records: Sequence[Unusable] = ()) -> None:
        """Check the limits of the quarantine. `invalid` of `read` records are invalid; `records` are the first of them.

        Raises InputRefused if more is unusable than the table allows, InputUnfinished if no file is readable and some may be complete later.
        """
        self.set_aside(records)
        unreadable = self.unusable()
        unfinished = {item.name for item in self.inputs if item.path in self.unfinished}
        judged = [each for each in unreadable if each.file not in unfinished]
        again = all(item.outcome in AGAIN for item in self.inputs)
        accepted = Limits(self.spec.quarantine_rows, self.spec.quarantine_share, again)
        where = f"table {self.spec.name}: {join(self.spec.landing)}"
        if problem := accepted.problem([*judged, *records], invalid, read, len(judged), len(self.inputs)):
            raise InputRefused(f"{where}: {problem}")
        if unreadable and len(unreadable) == len(self.inputs):
            problem = accepted.problem(unreadable, invalid, read, len(unreadable), len(self.inputs))
            raise InputUnfinished(self.unfinished, f"{where}: {problem}")

    def set_aside(self, records: Sequence[Unusable]) -> None:
        """Set full loads aside that have an unusable file or one of these records: a row left out would look like a deleted one.

        Raises LoadSetAside if there are any. With other envelopes each file stands for itself.
        """
        if not self.spec.source.full_loads:
            return
        why = {item.name: self.unreadable[place] for item, place in self.places.items() if place in self.unreadable}
        for record in records:
            why.setdefault(record.file, files.Problem(f"record {record.record}: {record.reason}" if record.record else record.reason))
        folders: dict[str, tuple[str, files.Problem]] = {}
        for item in self.inputs:
            # where one file is unusable for good, waiting for the end of another would not help
            if item.name in why and (item.folder not in folders or not why[item.name].unfinished):
                folders[item.folder] = (item.path, why[item.name])
        others = {}
        for item, place in self.places.items():
            if item.folder in folders and place not in self.unreadable:
                path, reason = folders[item.folder]
                others[place] = why.get(item.name) or files.Problem(
                    f"belongs to a full load that is not usable: {path}: {reason.text}", reason.unfinished
                )
        if others:
            self.unreadable.update(others)
            raise LoadSetAside

    def reason(self, error: Exception) -> str:
        """Return why Spark failed, for reports."""
        return failures.plain_reason(error) if self.spec.quotes_records else failures.kind(error)

    def _opened(self, kind: str, paths: list[str]) -> list[files.RawFrame]:
        raws, unreadable = self._read(kind, paths)
        while not self.reads.confirmed({path: why.text for path, why in unreadable.items()}):
            raws, unreadable = self._read(kind, paths)
        narrow = []
        for raw in raws:
            if (width := limits.width(raw, self.spec.source.plain_rows)) > self.spec.limits.columns:
                self.refuse(raw.paths, limits.too_wide(width, self.spec.limits))
            else:
                narrow.append(raw)
        self.unreadable.update(unreadable)
        return narrow

    def refuse(self, paths: Iterable[str], problem: files.Problem) -> None:
        """Record that these files of a raw frame cannot be used. An unpacked copy stands for its file."""
        self.unreadable.update({self._copies.get(path, path): problem for path in paths})

    def _check_ends(self, raws: Sequence[files.RawFrame]) -> None:
        """Raise LoadSetAside if a quoted value in some file does not end where Spark ends it."""
        before = len(self.unreadable)
        for raw in raws:
            paths = {self.origins.path(self._copies.get(path, path)): path for path in raw.paths}
            for path, problem in csv_ends.unclear(self.spark, csv_dialect.settings(self.spec), raw, paths, self.reads).items():
                self.refuse([path], problem)
        if len(self.unreadable) > before:
            raise LoadSetAside

    def without_too_wide(self, error: limits.TooManyColumns, decoded: DataFrame) -> None:
        """Set the files aside that have too many columns. Raises LoadSetAside, or SchemaRefused if only all files together have too many."""
        files_ = limits.files_of(error, decoded, self.spec.limits)
        if not files_:
            raise SchemaRefused(
                f"table {self.spec.name}: the new files below {self.spec.landing} together: {limits.too_wide(error.number, self.spec.limits).text}"
            )
        self.unreadable.update({place: files_[item.name] for item, place in self.places.items() if item.name in files_})
        raise LoadSetAside

    def _read(self, kind: str, paths: list[str]) -> tuple[list[files.RawFrame], files.Unreadable]:
        """Return the raw frames of the files, and the files that cannot be opened. Packs that Hadoop cannot read are unpacked first."""
        texts = [*paths] if kind in ("csv", "json") else []
        packed = {path for path in texts if _must_unpack(self.spark, path)}
        sizes = {place: item.size for item, place in self.places.items()}
        bombs = limits.bombs(self.spark, {path: sizes[path] for path in texts if path not in packed}, self.spec.limits)
        plain = [path for path in paths if path not in packed and path not in bombs]
        out, unreadable = self._read_plain(kind, self.origins, plain) if plain else ([], {})
        unreadable.update(bombs)
        if packed:
            place = self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="compactor-"))
            copies = []
            for path in sorted(packed):
                try:
                    copy = _unpack(self.spark, path, join(place, self.origins.path(path)), self.spec.limits.unpacked_bytes)
                except InputRefused as error:
                    unreadable[path] = files.Problem(str(error))
                    continue
                long = limits.bombs(self.spark, {copy: os.path.getsize(copy)}, self.spec.limits)
                if long:
                    unreadable[path] = long[copy]
                else:
                    copies.append(copy)
                    self._copies[copy] = path
            frames, refused = self._read_plain(kind, files.Origins((place,)), copies) if copies else ([], {})
            out += [_with_original_names(raw) for raw in frames]
            unreadable.update({self._copies[copy]: problem for copy, problem in refused.items()})
        return out, unreadable

    def _read_plain(self, kind: str, origins: files.Origins, paths: list[str]) -> tuple[list[files.RawFrame], files.Unreadable]:
        if kind == "csv":
            columns = {place: item.columns if item.rows > item.quarantined else () for item, place in self.places.items()}
            return csv_files.read(self.spark, self.spec, origins, {path: columns[self._copies.get(path, path)] for path in paths}, self.reads)
        return files.read(self.spark, kind, origins, paths, self.reads, self.spec.key)

    def _read_halves(self, kind: str, paths: list[str]) -> None:
        try:
            for raw in self._opened(kind, paths):
                raw.rows.write.format("noop").mode("overwrite").save()
        except InconsistentRead:
            raise
        except Exception as error:
            failures.raise_environment_error(error)
            half = len(paths) // 2
            if half:
                self._read_halves(kind, paths[:half])
                self._read_halves(kind, paths[half:])
                return
            reason = (csv_files.reason(error) if kind == "csv" else None) or self.reason(error)
            if not self.reads.confirmed({paths[0]: reason}):
                self._read_halves(kind, paths)
                return
            lacking = parquet_files.unreadable(self.spark, paths[0]) if kind == "parquet" else None
            self.unreadable[paths[0]] = files.Problem(lacking or f"cannot be read ({reason})")


def _must_unpack(spark: SparkSession, path: str) -> bool:
    """Whether a text file must be unpacked before Spark can read it: zstd without a native library, and any suffix in upper case."""
    if _in_upper_case(path):
        return hadoop.codec(spark, path.lower()) is not None
    if not path.endswith(".zst"):
        return False
    try:
        jvm(spark).org.apache.hadoop.io.compress.ZStandardCodec.checkNativeCodeLoaded()
    except Exception:
        return True
    return False


def _in_upper_case(path: str) -> bool:
    """Whether the suffix of a file has a capital letter. Hadoop finds no codec for it."""
    suffix = path.rpartition(".")[2]
    return suffix != suffix.lower()


def _unpack(spark: SparkSession, path: str, copy: str, most: int) -> str:
    """Unpack a file of at most `most` bytes into the folder `copy`, and return the location of the copy.

    Raises InputRefused, naming the file, if it cannot be unpacked or is larger.
    """
    if not str(spark.sparkContext.master).startswith("local"):
        if _in_upper_case(path):
            raise InputRefused(
                f"{path}: Spark on a cluster does not unpack a file whose suffix is in upper case. Have the sink write it in lower case."
            )
        raise InputRefused(
            f"{path}: this cluster's Hadoop cannot unpack zstd (no native library). Have the sink write gzip, or install libhadoop with zstd."
        )
    target = copy + _PLAIN
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if ConsistentReads.again_if_empty(lambda: _copy_unpacked(spark, path, target, most)) > most:
        os.remove(target)
        raise InputRefused(f"{path}: unpacks to more than {most:,} bytes: set `limits: false` where the driver's disk has the space")
    return target


def _copy_unpacked(spark: SparkSession, path: str, target: str, most: int) -> int:
    """Unpack a file and return the size of its content in bytes. No more than `most` and one byte are written."""
    java = jvm(spark)
    try:
        with hadoop.opened(spark, path) as stream:
            codec = None if path.lower().endswith(".zst") else hadoop.codec(spark, path.lower())
            unpacked = codec.createInputStream(stream) if codec is not None else java.com.github.luben.zstd.ZstdInputStream(stream)
            content = java.org.apache.commons.io.input.BoundedInputStream(unpacked, most + 1)
            java.org.apache.commons.io.FileUtils.copyInputStreamToFile(content, java.java.io.File(target))
    except Exception as error:
        failures.raise_environment_error(error)
        raise InputRefused(f"{path}: cannot be unpacked ({failures.plain_reason(error)}). Have the sink write it again, or remove it.") from None
    return os.path.getsize(target)


def _with_original_names(raw: files.RawFrame) -> files.RawFrame:
    """Return a frame of copies with the names of the original files."""
    rows = raw.rows.selectExpr(*[f"substr(_file, 1, length(_file) - {len(_PLAIN)}) AS _file" if name == FILE else name for name in raw.rows.columns])
    return dataclasses.replace(raw, rows=rows)
