"""Lays the capture out in landing folders as a sink would have left it.

`land` writes any hours of any tables in one of FORMS under a warehouse directory. Hour HH goes to the folder
`<table>/incremental/increment_20240305HH`. Nothing here reads or imports the compactor.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"
HOURS: tuple[int, ...] = tuple(range(9))

DEBEZIUM_JSON = ("debezium_json_value", "debezium_json_kafka", "debezium_json_noschema_value")
FLAT = ("flat_value", "flat_kafka")
WAL2JSON = ("wal2json_v1", "wal2json_v2")
WIRE = ("debezium_avro_kafka", "debezium_avro_parquet")
"""Kafka records whose Avro names its schema by id: JSON lines with base64 in them, and what Spark's Kafka source writes as Parquet."""
CONNECT = "debezium_avro_connect"
"""Parquet by way of Avro, as Kafka Connect's S3 sink writes it. Of the tables in `data/files_connect` only."""
FORMS = (*DEBEZIUM_JSON, *FLAT, "debezium_avro_files", "debezium_parquet", *WAL2JSON, *WIRE)

PARTITIONED = {"public.measure": ("public.measure_2024_01", "public.measure_2024_02", "public.measure_rest")}
"""wal2json names the partition a row is in, never the partitioned table."""

# Topics of the capture that are no table here: the signal table, and what is left of a table dropped before any checkpoint.
# The partitions of measure appear in the initial snapshot only, and PostgreSQL's own answer for them was not taken.
NOT_TABLES = frozenset({"public.dbz_signal", "public.short_lived", "public.measure_2024_01", "public.measure_2024_02", "public.measure_rest"})


def table_name(source: str) -> str:
    """The configured name of a source table: `public.Mixed_Case` is `mixed_case`, `sales.order` is `sales_order`."""
    schema, name = source.split(".", 1)
    name = re.sub(r"[^a-z0-9_]", "_", name.lower())
    return name if schema == "public" else f"{schema}_{name}"


def topic_suffix(source: str) -> str:
    """What Debezium calls a source table in its topic: `public.Mixed Case` is `public.Mixed_Case`."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", source)


@cache
def tables() -> dict[str, str]:
    """Every captured table with a ground truth: configured name -> `schema.table` as PostgreSQL spells it."""
    found = {source for hour in HOURS for source in json.loads((DATA / f"truth/hour={hour:02}/_tables.json").read_text())}
    return {table_name(source): source for source in sorted(found - NOT_TABLES)}


@cache
def records(stream: str, hour: int) -> dict[str, list[dict[str, Any]]]:
    """The Kafka records of an hour of `debezium_json`, `debezium_flat` or `debezium_avro`: topic without prefix -> records in offset order."""
    found: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(DATA / stream / f"hour={hour:02}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if not record["topic"].startswith("__"):
                found.setdefault(record["topic"].split(".", 1)[1], []).append(record)
    for rows in found.values():
        rows.sort(key=lambda record: (record["partition"], record["offset"]))
    return found


@cache
def documents(form: str, hour: int) -> tuple[str, ...]:
    """The lines of an hour of wal2json, as they came from the slot. (Not `splitlines`: a text may hold U+2028.)"""
    with gzip.open(DATA / form / f"hour={hour:02}.json.gz", "rt", encoding="utf-8", newline="") as content:
        return tuple(line for line in content.read().split("\n") if line)


def source_tables(name: str) -> str:
    """`source_table` of a configured table, for a stream that all tables share."""
    source = tables()[name]
    return ",".join(PARTITIONED.get(source, (source,)))


def folder(warehouse: Path, table: str, hour: int) -> Path:
    """The landing folder of a table's hour."""
    return warehouse / table / "incremental" / f"increment_20240305{hour:02}"


def line_of(record: Mapping[str, Any], form: str) -> str | None:
    """One line of a landed file, without its newline; None where the sink writes nothing (the value of a tombstone)."""
    if form.endswith("_kafka"):
        kept = {name: record[name] for name in ("topic", "partition", "offset")}
        kept |= {"timestamp": record["ts"], "headers": record["headers"], "key": record["key"], "value": record["value"]}
        return json.dumps(kept, ensure_ascii=False)
    if record["value"] is None:
        return None
    if form == "debezium_json_noschema_value":
        return _payload(record["value"])
    return str(record["value"])


def _payload(value: str) -> str:
    """The text of a JsonConverter value without its schema, numbers as they were written (no schema has a key payload)."""
    marker = '"payload":'
    return value[value.index(marker) + len(marker) : -1]


def land(
    warehouse: Path,
    form: str,
    *,
    hours: Iterable[int] = HOURS,
    only: Iterable[str] | None = None,
    files: int = 1,
    seed: int | None = None,
    duplicate: int | None = None,
    late: Mapping[int, int] | None = None,
    compress: bool = False,
    spark: SparkSession | None = None,
) -> list[Path]:
    """Land these hours, in the order given, and return the files written.

    only: configured table names (default: all of `tables()`).
    files: each hour's records of a table go to so many files; seed: shuffles which record goes to which file (without one,
        consecutive records share a file). Records inside one file keep their order.
    duplicate: every file again under another name, so many hours later (0: in the same hour's folder).
    late: hour of the capture -> hour in whose folder it lands.
    Avro and Parquet come one file per schema, as the sink closed them: `files` and `seed` do not apply to them.
    wal2json is one stream for all tables, landed once in the folder `wal2json`; `only` does not matter.
    """
    if form not in (*FORMS, CONNECT):
        raise ValueError(f"unknown form {form!r}; one of {', '.join(FORMS)}, {CONNECT}")
    if form in ("debezium_avro_files", "debezium_parquet", "debezium_avro_parquet", CONNECT) and (files != 1 or seed is not None):
        raise ValueError(f"{form} cannot be split")
    written: list[Path] = []
    sources = tables()
    names = ["wal2json"] if form in WAL2JSON else list(sources if only is None else only)
    for hour in hours:
        for name in names:
            target = folder(warehouse, name, (late or {}).get(hour, hour))
            if form == "debezium_avro_files":
                made = _copied(avro_files(sources[name], hour), target)
            elif form == CONNECT:
                made = _copied(sorted((DATA / f"files_connect/{name}/hour={hour:02}").glob("*.parquet")), target)
            elif form == "debezium_parquet":
                if spark is None:
                    raise ValueError("debezium_parquet needs a Spark session")
                made = to_parquet(spark, avro_files(sources[name], hour), target)
            elif form == "debezium_avro_parquet":
                if spark is None:
                    raise ValueError("debezium_avro_parquet needs a Spark session")
                made = _kafka_source(spark, records("debezium_avro", hour).get(topic_suffix(sources[name]), []), target)
            elif form in WAL2JSON:
                made = _write_stream(form, hour, target, files, seed, compress)
            else:
                made = _write_json(sources[name], hour, form, target, files, seed, compress)
            written += made
            if duplicate is not None:
                written += _again(made, folder(warehouse, name, (late or {}).get(hour, hour) + duplicate))
    return written


def _write_json(source: str, hour: int, form: str, target: Path, files: int, seed: int | None, compress: bool) -> list[Path]:
    stream = "debezium_flat" if form in FLAT else "debezium_avro" if form in WIRE else "debezium_json"
    pairs = [(record, line_of(record, form)) for record in records(stream, hour).get(topic_suffix(source), [])]
    lines = [(record, line) for record, line in pairs if line is not None]
    written = []
    for share in _shares(lines, files, seed):
        first = share[0][0]
        path = target / f"{first['topic']}+{first['partition']}+{first['offset']:010}.json{'.gz' if compress else ''}"
        target.mkdir(parents=True, exist_ok=True)
        content = "".join(line + "\n" for _, line in share).encode()
        path.write_bytes(gzip.compress(content, mtime=0) if compress else content)
        written.append(path)
    return written


def _write_stream(form: str, hour: int, target: Path, files: int, seed: int | None, compress: bool) -> list[Path]:
    written = []
    for number, share in enumerate(_shares(list(documents(form, hour)), files, seed)):
        path = target / f"stream-{number:03}.json{'.gz' if compress else ''}"
        target.mkdir(parents=True, exist_ok=True)
        content = "".join(line + "\n" for line in share).encode()
        path.write_bytes(gzip.compress(content, mtime=0) if compress else content)
        written.append(path)
    return written


def _shares(lines: list[Any], files: int, seed: int | None) -> Iterator[list[Any]]:
    """Split lines into at most `files` non-empty lists: runs of neighbours, or dealt out by the seed."""
    if seed is None:
        size = max(1, -(-len(lines) // files))
        yield from (lines[start : start + size] for start in range(0, len(lines), size))
        return
    dealt: list[list[Any]] = [[] for _ in range(files)]
    chooser = random.Random(seed)
    for line in lines:
        dealt[chooser.randrange(files)].append(line)
    yield from (share for share in dealt if share)


def avro_files(source: str, hour: int) -> list[Path]:
    """The captured Avro container files of one table's hour, in offset order."""
    return sorted((DATA / "files_avro" / topic_suffix(source) / "dt=2024-03-05" / f"hour={hour:02}").glob("*.avro"))


def _copied(paths: Iterable[Path], target: Path) -> list[Path]:
    written = []
    for path in paths:
        target.mkdir(parents=True, exist_ok=True)
        written.append(Path(shutil.copyfile(path, target / path.name)))
    return written


def _again(paths: Iterable[Path], target: Path) -> list[Path]:
    """The same content under another name, as a sink leaves it that lost track of what it had written."""
    written = []
    for path in paths:
        target.mkdir(parents=True, exist_ok=True)
        stem, dot, suffix = re.split(r"(\.(?=avro$|parquet$|json))", path.name, maxsplit=1)
        written.append(Path(shutil.copyfile(path, target / f"{stem}+again{dot}{suffix}")))
    return written


def to_parquet(spark: SparkSession, paths: Iterable[Path], out: Path) -> list[Path]:
    """Avro files with the envelope -> Parquet files with the envelope as structs, one each, as Spark's or Flink's sinks write.

    Types are those of Spark's from_avro: decimals become decimals, Debezium's days and microseconds stay numbers.
    """
    import fastavro
    from pyspark.sql.types import StructType

    written = []
    for path in paths:
        with path.open("rb") as content:
            reader = fastavro.reader(content)
            schema = _spark_type(reader.writer_schema, {})
            rows = [_spark_value(record) for record in reader]
        assert isinstance(schema, StructType)
        made = out.parent / f".{out.name}.{path.stem}.tmp"
        spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").parquet(str(made))
        out.mkdir(parents=True, exist_ok=True)
        (part,) = made.glob("*.parquet")
        written.append(Path(shutil.move(part, out / f"{path.stem}.parquet")))
        shutil.rmtree(made)
    return written


def _kafka_source(spark: SparkSession, found: list[dict[str, Any]], out: Path) -> list[Path]:
    """One Parquet file with the columns of Spark's Kafka source (`includeHeaders`)."""
    if not found:
        return []
    columns = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    rows = [
        (_bytes(one["key"]), _bytes(one["value"]), one["topic"], one["partition"], one["offset"], [(n, _bytes(v)) for n, v in one["headers"]])
        for one in found
    ]
    made = out.parent / f".{out.name}.kafka.tmp"
    spark.createDataFrame(rows, columns).coalesce(1).write.mode("overwrite").parquet(str(made))
    out.mkdir(parents=True, exist_ok=True)
    (part,) = made.glob("*.parquet")
    target = Path(shutil.move(part, out / f"{found[0]['topic']}+{found[0]['offset']:010}.parquet"))
    shutil.rmtree(made)
    return [target]


def _bytes(value: Any) -> bytearray | None:
    """What was in Kafka: text stands for its bytes, `b64` for any others."""
    if value is None:
        return None
    return bytearray(base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode())


def _spark_type(schema: Any, named: dict[str, Any]) -> Any:
    """The Spark type of an Avro schema (nullability as Parquet sinks leave it: everything is nullable)."""
    from pyspark.sql import types as T

    if isinstance(schema, list):
        (schema,) = (branch for branch in schema if branch != "null")
    if isinstance(schema, str):
        plain = {"int": T.IntegerType, "long": T.LongType, "float": T.FloatType, "double": T.DoubleType, "boolean": T.BooleanType}
        plain |= {"string": T.StringType, "bytes": T.BinaryType}
        return plain[schema]() if schema in plain else named[schema]
    kind = schema["type"]
    if kind == "record":
        made = T.StructType([T.StructField(field["name"], _spark_type(field["type"], named)) for field in schema["fields"]])
        named[schema["name"]] = made
        return made
    if kind == "array":
        return T.ArrayType(_spark_type(schema["items"], named))
    if kind == "map":
        return T.MapType(T.StringType(), _spark_type(schema["values"], named))
    if kind == "enum":
        return T.StringType()
    if schema.get("logicalType") == "decimal":
        return T.DecimalType(min(int(schema["precision"]), 38), int(schema.get("scale", 0)))
    return _spark_type(kind, named)


def _spark_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(_spark_value(member) for member in value.values())
    if isinstance(value, list):
        return [_spark_value(member) for member in value]
    return bytearray(value) if isinstance(value, bytes) else value
