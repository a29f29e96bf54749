"""File formats as a Hive metastore names them: input format, output format, serde."""

from __future__ import annotations

_TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
FORMATS = {
    "parquet": (
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    "avro": (
        "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat",
        "org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat",
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
    ),
    "json": ("org.apache.hadoop.mapred.TextInputFormat", _TEXT_OUTPUT, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
}
VIEW_FORMAT = ("org.apache.hadoop.mapred.TextInputFormat", _TEXT_OUTPUT, "")
NATIVE_FORMAT = (
    "org.apache.hadoop.mapred.FileInputFormat",
    "org.apache.hadoop.mapred.FileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
"""Those that Iceberg's own catalogs register: no engine reads the table by them."""


def serde_parameters(formats: tuple[str, str, str]) -> dict[str, str]:
    """Return the parameters of a serde.

    Spark takes those of a Parquet table as options of its own reader. Without the rebase modes it refuses dates before 1582, and timestamps before
    1900, in files that Spark has not written. Writers other than Hive and Spark 2 use the calendar of today for all dates (`CORRECTED`).
    """
    modes = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"} if formats == FORMATS["parquet"] else {}
    return {"serialization.format": "1", **modes}
