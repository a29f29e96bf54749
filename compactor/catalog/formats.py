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
