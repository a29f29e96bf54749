"""The change feed: the difference between the rows of two Snapshots, as images.

    before: id 1 v a | id 2 v b          after: id 1 v A | id 3 v c
    →  update_preimage 1 a · update_postimage 1 A · delete 2 b · insert 3 c

A commit marks the rows that it writes with its version, so its own files hold what it changed. The images before are looked up by key, in the
Segments that own these keys. A truncate, a restore and a rebuild take rows without writing any, so for them more is compared; and all rows where
older ones read another default now. Rows are read in the columns of the newer Snapshot: images before have its types, and the defaults of
columns that came with it.

In: states. Out: the columns OWN, then the table's stored columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from compactor.core.catalog.feed import AFTER, BEFORE, DELETE, INSERT
from compactor.core.model import times
from compactor.core.model.errors import CheckFailed
from compactor.core.model.files import DataFile, FeedPart
from compactor.core.model.layout import join, relative
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import ROW_ID, TableSpec
from compactor.core.results.checks import Check
from compactor.core.schema import shards
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import POSITION
from compactor.spark.measured import Numbers
from compactor.spark.rows import position
from compactor.spark.rows.reduce import NEWEST, Reducer, union
from compactor.spark.sql import listed, literal, query, quoted, unless
from compactor.spark.tables import compare, table_writer
from compactor.spark.tables.table_reader import TableReader

OWN = ("_change_type", "_commit_version", "_commit_timestamp", "_deleted", POSITION)
"""The feed's own columns, before the payload."""
_JSON = "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]'Z'\")"


def write(spark: SparkSession, storage: Storage, spec: TableSpec, parent: Snapshot | None, made: Snapshot, one_task: bool = False) -> FeedPart | None:
    """Write the feed of `made` and check it. Returns None if `made` changed no row.

    `one_task`: one task computes it, so that rows are not exchanged.
    """
    rows = net_changes(spark, spec, parent, made, one_task)
    directory = spec.layout.feed(made.writer)
    counted = measured.observe(rows.select(*[quoted(name) for name, _ in columns(made)]), "feed", _COUNTS)
    done = measured.write_parquet(counted.sortWithinPartitions(*_order(made.schema)), directory)
    numbers = done.numbers("feed")
    if numbers is None or numbers["rows"] != done.rows:
        # Spark counts twice what it computes twice, and nothing where it sees before that there are no rows
        numbers = measured.compute(rows, _COUNTS) if done.rows else dict.fromkeys(_COUNTS, 0)
    return _written(spark, storage, spec, directory, numbers)


_COUNTS = {"rows": "count(1)", **{kind: f"count_if(_change_type = '{kind}')" for kind in (INSERT, BEFORE, AFTER, DELETE)}}
"""Aggregates of the feed's rows: their number, and the number of images of each kind."""


def columns(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return name and Hive type of every column of the feed's files."""
    kinds = ("string", "bigint", "timestamp", "boolean", position.ddl(snapshot.order))
    return [*zip(OWN, kinds), *((field.name, field.type) for field in snapshot.schema.fields)]


def read(spark: SparkSession, spec: TableSpec, snapshot: Snapshot) -> DataFrame:
    """Read a Snapshot's own part of the feed. The Snapshot must have one."""
    assert snapshot.feed is not None
    assert snapshot.feed.part is not None
    part = snapshot.feed.part
    return table_writer.parquet(spark, columns(snapshot), {spec.layout.inside(part.path): part.size})


def json_lines(spark: SparkSession, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
    """Yield the part as JSON objects in the order of keys, images of one key together, the older first. Columns have the names of the view.

    Columns that carry nothing in this table are left out: `_deleted` without `delete: soft`, `_row_id` with a key.
    """
    schema, feed = snapshot.schema, snapshot.feed
    assert feed is not None
    own = [*OWN[:3], *(["_deleted"] if feed.soft else []), *([ROW_ID] if spec.keyless else [])]
    shown = [f"{quoted(field.name)} AS {quoted(schema.view_name(field))}" for field in schema.payload]
    rows = read(spark, spec, snapshot).orderBy(*_order(schema))
    for row in rows.selectExpr(f"to_json(struct({', '.join(own)}, {', '.join(shown)}), {_JSON}) AS row").toLocalIterator():
        yield row[0]


def _order(schema: Schema) -> list[Column]:
    """Sort by key, then the older image first (`update_preimage` > `update_postimage`)."""
    return [*(F.col(quoted(name)) for name in schema.key), F.col("_change_type").desc()]


def net_changes(spark: SparkSession, spec: TableSpec, parent: Snapshot | None, made: Snapshot, one_task: bool) -> DataFrame:
    """Return the changes from `parent` to `made`: one insert, one delete or a pair of images for each key that differs."""
    if parent is None or made.schema.defaults_moved(parent.schema, parent.position_max):
        return difference(spark, spec, parent, made)
    new, old = TableReader(spark, spec.layout, made, made.schema), _before(spark, spec, parent, made)
    if made.operation in ("restore", "rebuild"):
        return _images(*_between(old, new), spec, made, "true")
    after = _in_one_task(_fresh(new, parent), one_task)
    if (made.truncated_to, made.shards_truncated_to) != (parent.truncated_to, parent.shards_truncated_to):
        # the rows that a truncate takes leave no trace among the new rows
        return _images(old.live(soft=True), after, spec, made, _ended(made, spec))
    return _images(_in_one_task(_of_keys(old, after, one_task), one_task), after, spec, made, "false", one_task)


def _before(spark: SparkSession, spec: TableSpec, parent: Snapshot, made: Snapshot) -> TableReader:
    """Read the parent in the columns of its successor. Its own columns have the defaults that its readers saw."""
    return TableReader(spark, spec.layout, parent, made.schema.with_defaults_of(parent.schema))


def _fresh(new: TableReader, parent: Snapshot) -> DataFrame:
    """Return the rows that this version wrote, tombstones included."""
    made = new.snapshot
    if made.base_id != parent.base_id:
        # a constant, by which the reader skips Segments that were not written
        return new.rows(made.segments).where(f"_version = {made.version}")
    delta = new.delta()
    return (new.rows([]) if delta is None else delta).where(f"_version = {unless('_version IS NULL', made.version)}")


def _in_one_task(rows: DataFrame, one_task: bool) -> DataFrame:
    return rows.coalesce(1) if one_task else rows


def _joined(left: DataFrame, right: DataFrame, key: list[str], how: str, one_task: bool) -> DataFrame:
    """Join rows with one row for each key. In one task nothing is broadcast, which would be a job of its own."""
    if not one_task:
        return left.join(right, key, how)
    if how in ("full", "left_semi"):
        return left.join(right.hint("merge"), key, "full" if how == "full" else "inner")
    # Spark would move a join that only filters below the step that puts all rows into one task
    return left.join(right.selectExpr("*", "true AS __there").hint("merge"), key, "left").where("__there IS NULL").drop("__there")


def _of_keys(stored: TableReader, rows: DataFrame, one_task: bool = False) -> DataFrame:
    """Return the stored rows with the keys of `rows`, one for each key. The base is read only for keys that the Delta does not have."""
    key, delta = list(stored.schema.key), stored.delta()
    if delta is None:
        base = stored.rows_with_keys_of(rows)
        return stored.rows([]) if base is None else base
    delta = _in_one_task(delta, one_task)
    base = stored.rows_with_keys_of(_joined(_keys(rows, stored.schema), _keys(delta, stored.schema), key, "left_anti", one_task))
    delta_rows = _joined(delta, _keys(rows, stored.schema), key, "left_semi", one_task)
    return delta_rows if base is None else union([base, delta_rows])


def _keys(rows: DataFrame, schema: Schema) -> DataFrame:
    return rows.select(*[quoted(name) for name in schema.key])


def _between(old: TableReader, new: TableReader) -> tuple[DataFrame, DataFrame]:
    """Return the rows of both in which they can differ: those of Segments that only one has, and those with a key of either Delta."""
    both = {segment.id for segment in old.snapshot.segments} & {segment.id for segment in new.snapshot.segments}
    apart = [each.rows([segment for segment in each.snapshot.segments if segment.id not in both]) for each in (old, new)]
    apart += [delta for delta in (old.delta(), new.delta()) if delta is not None]
    keys = measured.materialize(union([_keys(rows, new.schema) for rows in apart]).distinct())
    return _of_keys(old, keys), _of_keys(new, keys)


def _images(before: DataFrame | None, after: DataFrame, spec: TableSpec, made: Snapshot, gone: str, one_task: bool = False) -> DataFrame:
    """Compare two sides, one row for each key and tombstones included, and return the feed's rows.

    `gone` is SQL: whether an `_old` row that `after` lacks was deleted.
    """
    schema = made.schema
    shown = "(_new IS NOT NULL)" if spec.soft else "(_new IS NOT NULL AND NOT _new._deleted)"
    compared = ["_deleted", *(field.name for field in schema.payload if field.name not in schema.key)]
    kinds = {"_deleted": "boolean", **{field.name: field.type for field in schema.fields}}

    def compared_as(side: str, name: str) -> str:
        return compare.comparable(f"{side}.{quoted(name)}", kinds[name])

    same = " AND ".join(f"{compared_as('_old', name)} <=> {compared_as('_new', name)}" for name in compared)
    images = (
        f"CASE WHEN _old IS NULL AND {shown} THEN {_array((INSERT, '_new'))} "
        f"WHEN _old IS NOT NULL AND {shown} AND NOT ({same}) THEN {_array((BEFORE, '_old'), (AFTER, '_new'))} "
        f"WHEN _old IS NOT NULL AND _new IS NOT NULL AND NOT {shown} THEN {_array((DELETE, '_old'))} "
        f"WHEN _old IS NOT NULL AND _new IS NULL AND {gone} THEN {_array((DELETE, '_old'))} END"
    )
    # for a delete the image is the old row, and the Position is that of the tombstone
    at = f"CASE WHEN _image.kind = '{DELETE}' THEN _new._position ELSE _image.row._position END"
    keys = listed([quoted(name) for name in schema.key])
    new, old = _side("after", "_new", schema), _side("before", "_old", schema) + ("" if spec.soft else " WHERE _gone IS NULL")
    if before is None:
        frames, both = {"after": after}, f"SELECT *, CASE WHEN false THEN _new END AS _old FROM ({new})"
    else:
        frames = {"before": before, "after": after}
        both = f"SELECT {'/*+ MERGE(n) */ ' if one_task else ''}{keys}, _old, _new\nFROM ({old}) o\nFULL JOIN ({new}) n USING ({keys})"
    values = [quoted(name) if name in schema.key else f"_image.row.{quoted(name)} AS {quoted(name)}" for name in schema.names]
    own = _own("_image.kind", made, "_image.row._deleted", at)
    return query("feed", f"SELECT {listed([*own, *values])}\nFROM (SELECT {keys}, _new, explode({images}) AS _image\nFROM ({both}))", **frames)


def _side(rows: str, name: str, schema: Schema) -> str:
    """SQL: the key columns, and one struct `name` of `_deleted`, POSITION and the other stored columns. `rows`: the name of a frame."""
    members = listed(["_gone IS NOT NULL AS _deleted", f"{NEWEST} AS _position", *map(quoted, schema.values)])
    return f"SELECT {listed([quoted(name) for name in schema.key])}, struct({members}) AS {name} FROM {{{rows}}}"


def _array(*images: tuple[str, str]) -> str:
    return "array(" + ", ".join(f"named_struct('kind', {literal(kind)}, 'row', {row})" for kind, row in images) + ")"


def _own(kind: str, made: Snapshot, deleted: str, at: str) -> list[str]:
    version, time = (unless(f"{kind} = ''", number) for number in (made.version, times.to_micros(made.time)))
    values = (kind, version, f"timestamp_micros({time})", deleted, at)
    return [f"{value} AS {name}" for name, value in zip(OWN, values)]


def _ended(made: Snapshot, spec: TableSpec) -> str:
    """SQL: whether a truncate has ended an `_old` row."""
    shard = shards.stored(spec, made.schema)
    reducer = Reducer(made.schema, made.order, made.version, barrier=made.truncated_to, shard=shard, barriers=made.shards_truncated_to)
    return f"_old._position <= {reducer.bound('' if shard in made.schema.key else '_old.')}" if reducer.bounded else "false"


def _written(spark: SparkSession, storage: Storage, spec: TableSpec, directory: str, numbers: Numbers) -> FeedPart | None:
    """Check what was written by its footers. Raises CheckFailed unless all rows are there, and each update has both of its images.

    Each key has one image, or two for an update: `_images` returns them from one row of each key on either side.
    """
    files = tuple(DataFile(path, info.size) for path, info in table_writer.listed(storage, directory))
    rows = sum(table_writer.count_rows(spark, {join(directory, file.name): file.size for file in files}).values())
    table_writer.check_complete(rows, numbers["rows"], "changes", directory, spec.name)
    if numbers[BEFORE] != numbers[AFTER]:
        raise CheckFailed(
            f"table {spec.name}: staged changes in {directory}: expected the rows before and after each update, found {numbers[BEFORE]} before and "
            f"{numbers[AFTER]} after. Nothing was committed."
        )
    if not rows:
        storage.delete([info.path for info in storage.list(directory)])
        return None
    return FeedPart(relative(directory, spec.root), rows, files, numbers[INSERT], numbers[AFTER], numbers[DELETE])


def difference(spark: SparkSession, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> DataFrame:
    """Return the same as `net_changes`, computed by comparing all rows of both Snapshots."""
    new = TableReader(spark, spec.layout, made, made.schema)
    old = _before(spark, spec, parent, made) if parent else None
    return _images(old.live(soft=True) if old else None, new.live(soft=True), spec, made, "true")


def check(spark: SparkSession, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
    """Check that the feed of `made` equals the difference of all rows of both Snapshots."""
    again = difference(spark, spec, parent, made)
    shown = [("_change_type", "string"), ("_deleted", "boolean"), *((field.name, field.type) for field in made.schema.fields)]
    written = read(spark, spec, made) if made.feed and made.feed.part else again.where("false")
    sides = compare.as_text(written, shown), compare.as_text(again, shown)
    return compare.compared(spec, "feed = difference", *sides, ("the feed", "the difference of its Snapshots"), about=f"version {made.version}: ")
