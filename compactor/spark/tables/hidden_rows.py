"""The base rows that the Delta replaces, by file and place, for the deletion vectors of an Iceberg table."""

from __future__ import annotations

from pyspark.sql import SparkSession

from compactor.core.model.files import LIVE
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.spark.sql import named, quoted
from compactor.spark.tables import table_writer


def hidden(spark: SparkSession, spec: TableSpec, snapshot: Snapshot) -> dict[str, list[int]]:
    """Return path below the root of a base file → places of those rows with a key of the Delta, sorted.

    One pass over the key columns of the Segments that own keys of the Delta. It is computed anew for each version: a compaction can take rows out of
    a Delta without writing their Segment again, so that the rows of an earlier vector are not always hidden later.
    """
    delta, layout = snapshot.delta, spec.layout
    segments = [segment for segment in snapshot.segments if delta and segment.id not in delta.untouched]
    folders = {layout.inside(folder.path): folder.size for segment in segments for folder in segment.folders if folder.state == LIVE}
    if delta is None or not folders:
        return {}
    schema, key = snapshot.schema, [quoted(name) for name in snapshot.schema.key]
    columns = [(name, schema.field(name).type) for name in schema.key]
    changed = table_writer.parquet(spark, columns, {layout.inside(folder.path): folder.size for folder in delta.folders})
    base = table_writer.parquet(spark, columns, folders).select(*key, "_metadata")
    # after the join, which nearly no row passes
    rows = base.join(changed, [*schema.key], "left_semi").selectExpr("_metadata.file_path AS _path", "_metadata.row_index AS _at")
    # an address of Spark's may be encoded; the names below the root are plain
    places = rows.groupBy("_path").agg(named("sort_array(collect_list(_at))", "_places"))
    return {"/".join(row._path.rsplit("/", 5)[1:]): row._places for row in places.collect()}
