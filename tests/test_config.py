"""compactor.yaml: what is understood, and that whatever is refused names file, line, table and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.config.keys import Keys, Table
from compactor.config.reference import FORMER, json_schema, names
from compactor.config.rules import shared, within
from compactor.config.settings import Settings, load
from compactor.config.text import read
from compactor.core.model.errors import ConfigError
from compactor.core.model.policy import Daily
from compactor.core.model.snapshot import fields_of, of_json
from compactor.core.model.spec import Csv, TableSpec
from compactor.core.settings.forms import seconds as duration
from compactor.core.settings.forms import size


def written(folder: Path, text: str) -> Path:
    file = folder / "compactor.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def loaded(folder: Path, text: str, environment: dict[str, str] | None = None) -> Settings:
    return load(written(folder, text), environment or {})


def aliases_of_aliases(form: str, first: str = "[x, x, x, x, x, x, x, x, x, x]") -> str:
    """YAML whose line n refers ten times to line n - 1. `form` surrounds the references."""
    return f"a0: &a0 {first}\n" + "".join(f"a{n}: &a{n} {form.format(', '.join([f'*a{n - 1}'] * 10))}\n" for n in range(1, 9))


def table(keys: str) -> str:
    return f"tables:\n  student: {{key: [id], {keys}}}\n"


def test_three_lines_are_a_table(tmp_path: Path) -> None:
    """Everything but the key has a default; paths begin at the file's folder."""
    spec = loaded(tmp_path, "tables:\n  student:\n    key: [id]\n    envelope: debezium\n").spec("student")
    root = f"{tmp_path}/warehouse/student"
    assert spec == TableSpec(
        *("student", root, f"{root}/incremental", "increment_%Y%m%d%H", "default", "student", "default", ("id",)),
        envelope="debezium",
    )


def test_every_value_arrives(tmp_path: Path) -> None:
    """All keys of a table that do something."""
    (tmp_path / "s.avsc").write_text('{"type": "record", "name": "s", "fields": []}')
    text = """
warehouse: ../lake
catalog: {database: school, uri: "thrift://a:9083,thrift://b"}
tables:
  student:
    key: [id, no]
    increments: /landing/student/year=%Y/month=%m/day=%d/hour=%H
    format: parquet
    container: kafka
    source_table: public.student
    schema: s.avsc
    order_by: [ts, seq]
    op: operation
    op_map: {I: c, UB: ignore, N: d}
    metadata_columns: [__op]
    tombstone_retention: 1w 2d
    truncate: fail
    beyond_retention: apply
    write_mode: merge-on-read
    compact_every: 90min
    settle: 1.5min
    hours_in: Europe/Berlin
    from: year=2026/month=11/day=20/hour=14
    epoch: 2
    archive: keep
    view: students
    tables_in: raw
    parquet: standard
    cluster_by: [region, born]
    change_feed: true
    history: true
    track: [name]
    keep: 168h
    grace: 12h
"""
    spec = loaded(tmp_path, text).spec("student")
    expected = {
        "name": "student",
        "root": f"{tmp_path.parent}/lake/student",
        "landing": "/landing/student",
        "database": "school",
        "pattern": "year=%Y/month=%m/day=%d/hour=%H",
        "view": "students",
        "tables_in": "raw",
        "key": ("id", "no"),
        "format": "parquet",
        "container": "kafka",
        "source_table": "public.student",
        "order_by": ("ts", "seq"),
        "avro_schema": (tmp_path / "s.avsc").read_text(),
        "op": "operation",
        "metadata_columns": ("__op",),
        "op_map": (("I", "c"), ("UB", "ignore"), ("N", "d")),
        "tombstone_retention": 9 * 86400.0,
        "truncate": "fail",
        "beyond_retention": "apply",
        "write_mode": "merge-on-read",
        "compact_every": 5400.0,
        "settle": 90.0,
        "hours_in": "Europe/Berlin",
        "first_folder": "year=2026/month=11/day=20/hour=14",
        "epoch": 2,
        "archive": "keep",
        "parquet": "standard",
        "cluster_by": ("region", "born"),
        "keep": 604800.0,
        "grace": 43200.0,
        "feed": "net",
        "history": True,
        "increments": "/landing/student/year=%Y/month=%m/day=%d/hour=%H",
        "schema_": "s.avsc",
        "track": ("name",),
    }
    assert spec == TableSpec(**expected)  # type: ignore[arg-type]
    assert loaded(tmp_path, text).metastore_dir is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", Csv()),
        ("csv: {header: true}", Csv(header=True)),
        ("csv: {columns: [id, no], null_value: NULL}", Csv(columns=("id", "no"), null_value="NULL")),
        ("csv: {header: no, columns: [id], null_value: '', delimiter: '\\t', quote: ''}", Csv(False, ("id",), "", "\t", "")),
        ("csv: {columns: [id], quote: '', escape: \\}", Csv(columns=("id",), quote="", escape="\\")),
        ('csv: {columns: [id], null_value: "\\\\N", delimiter: ";", quote: "\'"}', Csv(None, ("id",), "\\N", ";", "'")),
    ],
)
def test_csv(tmp_path: Path, said: str, expected: Csv) -> None:
    """What is not said is the envelope's affair."""
    spec = loaded(tmp_path, f"tables:\n  t:\n    key: [id]\n    format: csv\n    {said}\n").spec("t")
    assert spec.csv == expected
    assert of_json(TableSpec, json.loads(json.dumps(fields_of(spec), default=fields_of))) == spec


def test_types(tmp_path: Path) -> None:
    """Hive types under any of their names, and words for numbers; a job on a cluster gets the same."""
    spec = loaded(tmp_path, "tables: {t: {key: [id], types: {no: long, fee: 'decimal(10,2)', at: timestamp_millis}}}").spec("t")
    assert spec.types == (("no", "long"), ("fee", "decimal(10,2)"), ("at", "timestamp_millis"))
    assert of_json(TableSpec, json.loads(json.dumps(fields_of(spec), default=fields_of))) == spec


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", Daily(30, "Asia/Tokyo")),
        ("daily: {}", Daily(30, "Asia/Tokyo")),
        ("daily: {keep: 7}", Daily(7, "Asia/Tokyo")),
        ("daily: {time_zone: UTC}", Daily(30, "UTC")),
        ("daily: null", None),
    ],
)
def test_daily(tmp_path: Path, written: str, expected: Daily | None) -> None:
    """Without the key of the table the defaults hold; null switches them off."""
    spec = loaded(tmp_path, f"defaults: {{daily: {{keep: 30, time_zone: Asia/Tokyo}}}}\ntables:\n  t:\n    key: [id]\n    {written}\n").spec("t")
    assert spec.daily == expected
    assert of_json(TableSpec, json.loads(json.dumps(fields_of(spec), default=fields_of))) == spec


@pytest.mark.parametrize(
    ("increments", "landing", "pattern"),
    [
        ("raw/%Y/%m/%d/%H", "{w}/raw", "%Y/%m/%d/%H"),
        ("raw/student", "{w}/raw/student", ""),
        ("../raw/student/", "{up}/raw/student", ""),
        ("file:///raw/student/h=%H", "/raw/student", "h=%H"),
        ("student/landing/increment_%Y%m%d%H%M", "{w}/student/landing", "increment_%Y%m%d%H%M"),
    ],
)
def test_increments(tmp_path: Path, increments: str, landing: str, pattern: str) -> None:
    """A path below the warehouse, an absolute one or a URI, split where the first strftime code stands."""
    spec = loaded(tmp_path, table(f'increments: "{increments}"')).spec("student")
    assert (spec.landing, spec.pattern) == (landing.format(w=tmp_path / "warehouse", up=tmp_path), pattern)


def test_defaults_reach_every_table_and_yield_to_it(tmp_path: Path) -> None:
    """Mappings are merged key by key."""
    settings = loaded(
        tmp_path,
        "defaults: {envelope: debezium, key: [id], csv: {delimiter: ';'}, settle: 5s}\n"
        "tables: {a: , b: {key: [x], settle: 0, csv: {}}, c: {csv: {quote: ''}}}\n",
    )
    found = [(spec.key, spec.settle, spec.csv) for spec in map(settings.spec, settings.names)]
    assert found == [(("id",), 5.0, Csv(delimiter=";")), (("x",), 0.0, Csv(delimiter=";")), (("id",), 5.0, Csv(delimiter=";", quote=""))]


def test_merges_of_merges_do_not_multiply(tmp_path: Path) -> None:
    """Nine lines that would be 10^8 entries; what is merged twice is there once, and a mapping's own keys win."""
    assert read(aliases_of_aliases("{{<<: [{}]}}", "{k: v}"), "c.yaml").values["a8"] == {"k": "v"}
    twice = read("a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: [*b, *b, {<<: [*b, *a]}, {<<: *b, x: 3}]", "c.yaml").values["c"]
    assert [each["x"] for each in twice] == ["2", "2", "2", "3"]


def test_yaml_does_not_guess(tmp_path: Path) -> None:
    """`no`, dates and numbers stay the names that were written; anchors and merges work."""
    text = "tables:\n  no: &t {key: [no, 1e3, 2024-01-01, 010], view: on}\n  b:\n    <<: *t\n    view: y\n"
    settings = loaded(tmp_path, text)
    assert settings.names == ("no", "b")
    assert settings.spec("no").key == ("no", "1e3", "2024-01-01", "010")
    assert (settings.spec("no").view, settings.spec("b").view) == ("on", "y")


@pytest.mark.parametrize(
    ("extra", "archive"),
    [
        ("a: {key: [id]}", "move"),
        ("a: {key: [id], source_table: s.a}", "keep"),
        ("a: {key: [id], source_table: s.a, archive: move}", "move"),
        ("a: {key: [id], live_view: yes, format: parquet}", "keep"),
        ("a: {key: [id], increments: all}, b: {key: [id], increments: all}", "keep"),
        ("a: {key: [id], increments: all}, b: {key: [id], increments: all/b/%Y}", "keep"),
        ("a: {key: [id], increments: all/a}, b: {key: [id], increments: all/ab}", "move"),
    ],
)
def test_archive_by_default(tmp_path: Path, extra: str, archive: str) -> None:
    """Files are moved only when nobody else has to read them."""
    assert loaded(tmp_path, f"tables: {{{extra}}}").spec("a").archive == archive


def test_environment_overrides(tmp_path: Path) -> None:
    """COMPACTOR_<KEY>, COMPACTOR_<KEY>__<KEY>; other variables of the project are left alone."""
    environment = {
        "COMPACTOR_WAREHOUSE": "/lake: 1",
        "COMPACTOR_CATALOG__URI": "thrift://h:1",
        "COMPACTOR_CATALOG__DATABASE": "d",
        "COMPACTOR_DEFAULTS__KEY": "[a, b]",
        "COMPACTOR_CONFIG": "x",
        "COMPACTOR_TESTS": "full",
        "COMPACTOR_REGISTRY": "",
    }
    settings = loaded(tmp_path, "catalog: {database: school}\ntables: {student: {}}", environment)
    assert settings.spec("student").root == "/lake: 1/student"
    assert (settings.catalog.uri, settings.catalog.database, settings.spec("student").key) == ("thrift://h:1", "d", ("a", "b"))
    with pytest.raises(ConfigError, match=r"^environment COMPACTOR_CATALOG__URL: key catalog.url: unknown key; did you mean uri\?"):
        loaded(tmp_path, table(""), {"COMPACTOR_CATALOG__URL": "thrift://h:1"})
    ineffective = {"COMPACTOR_DEFAULT__ARCHIVE": "copy", "COMPACTOR_TABLES__STUDENT__KEY": "[id]", "COMPACTOR_DISCOVERED": "/x", "COMPACTOR_A__B": ""}
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, table(""), ineffective)
    for variable, (name, hint) in zip(
        ineffective, [("default", "did you mean defaults?"), ("tables", "set it in the file"), ("discovered", "set it in the file")]
    ):
        assert f"environment {variable}: `{name}` is none of the keys that variables override; {hint}" in str(refused.value).splitlines()
    # else a test environment would be production
    misspelt = {
        "COMPACTOR_WAREHOSE": "WAREHOUSE",
        "COMPACTOR_CATALOG_DATABASE": "CATALOG__DATABASE",
        "COMPACTOR_DEFAULT_ARCHIVE": "DEFAULTS__ARCHIVE",
    }
    for variable, right in misspelt.items():
        with pytest.raises(ConfigError, match=rf"^environment {variable}: .*; did you mean COMPACTOR_{right}\?$"):
            loaded(tmp_path, table(""), {variable: "test"})
    # Kubernetes adds such variables for a service beside, and companies have their own
    others = ("REGISTRY_TOKEN", "VERSION", "REGISTRY_SERVICE_HOST", "REGISTRY_PORT", "S3_BUCKET", "KAFKA_PASSWORD", "WAREHOUSE_BUCKET", "LEGION_2")
    assert loaded(tmp_path, table(""), {f"COMPACTOR_{name}": "x" for name in others}).registry.url == ()
    assert len(str(refused.value).splitlines()) == 3


def test_metastore_beside_the_tables(tmp_path: Path) -> None:
    """Embedded unless there is a uri."""
    assert loaded(tmp_path, table("")).metastore_dir == f"{tmp_path}/warehouse/metastore"
    assert loaded(tmp_path, "warehouse: s3://lake\n" + table("")).metastore_dir == f"{tmp_path}/metastore"


BAD_TABLES: list[tuple[str, str, str]] = [
    # keys of a table, key named, what is said
    ("envelop: debezium", "envelop", "unknown key; did you mean envelope?"),
    ("warehouse: x", "warehouse", "unknown key; it belongs at the top of the file"),
    ("zzz: 1", "zzz", "unknown key"),
    ("envelope: debezum", "envelope", "expected flat, debezium, wal2json, dms, change-event or full-load, found 'debezum'; did you mean debezium?"),
    ("envelope: [flat]", "envelope", "expected flat, debezium, wal2json, dms, change-event or full-load, found ['flat']"),
    ("envelope: dms, container: kafka", "container", "DMS writes rows, not Kafka records"),
    ("envelope: dms, format: json", "format", "expected parquet or csv with `envelope: dms`, found json"),
    ("envelope: dms, source_table: public.t", "source_table", "DMS has a folder for each table"),
    ("envelope: dms, op: kind", "op", "only `envelope: flat` has this key, but the envelope is dms"),
    ("envelope: dms, format: csv", "csv", "the column names are unknown: set `csv: {columns: [..]}`"),
    ("format: csv, csv: {header: false}", "csv", "the column names are unknown"),
    ("format: csv, csv: {header: true, columns: [a]}", "csv.columns", "remove one of the two"),
    ("format: csv, csv: {delimiter: '||'}", "csv.delimiter", "expected one character, found '||'"),
    ("format: csv, csv: {quote: ab}", "csv.quote", "expected one character"),
    ("format: csv, csv: {separator: ';'}", "csv.separator", "unknown key"),
    ("types: {a: timestmp}", "types.a", "time_nanos or decimal(12,2), of at most 38 digits, found 'timestmp'; did you mean timestamp?"),
    ("types: {a: 'decimal(39,2)'}", "types.a", "or decimal(12,2), of at most 38 digits, found 'decimal(39,2)'"),
    ("types: {b: date}, csv: {columns: [a]}", "types", "b is none of `csv: {columns: ..}`"),
    ("format: csv, envelope: debezium", "format", "expected parquet or avro or json with `envelope: debezium`, found csv"),
    ("format: csv, container: kafka", "container", "CSV files contain rows"),
    ("format: csv, csv: {escape: \\}", "csv.escape", "set `quote: ''`"),
    ("envelope: full-load", "complete", "without `complete` or `settle` half a load could be read"),
    ("envelope: full-load, complete: a/b", "complete", "expected a file's name"),
    ("envelope: full-load, settle: 1h, increments: s/in", "increments", "each full load needs its own folder"),
    ("envelope: full-load, settle: 1h, order_by: [ts]", "order_by", "in the order of their folders"),
    ("envelope: full-load, settle: 1h, epoch: 1", "epoch", "in the order of their folders"),
    ("envelope: full-load, settle: 1h, container: kafka", "container", "plain rows, not Kafka records"),
    ("envelope: full-load, settle: 1h, patch_rows: true", "patch_rows", "only `envelope: flat` has this key"),
    ("complete: _SUCCESS", "complete", "only `envelope: full-load` has this key, but the envelope is flat"),
    ("format: xml", "format", "expected auto, parquet, avro, json or csv, found 'xml'"),
    ("container: json", "container", "expected value or kafka"),
    ("delete: never", "delete", "expected hide, soft or hard"),
    ("beyond_retention: keep", "beyond_retention", "expected quarantine, refuse or apply"),
    ("truncate: yes", "truncate", "expected apply, ignore or fail"),
    ("tombstone_retention: 7", "tombstone_retention", "expected a duration such as 7d, 24h, 10min or 0s, found '7'"),
    ("tombstone_retention: 7 days", "tombstone_retention", "expected a duration"),
    ("settle: -1s", "settle", "expected a duration"),
    ("keep: for ever", "keep", "expected a duration"),
    ("partitions: 0", "partitions", "expected a whole number from 1 on, found '0'"),
    ("partitions: yes", "partitions", "expected a whole number"),
    ("archive_retention: 90", "archive_retention", "expected a duration"),
    ("archive: keep, archive_retention: 90d", "archive_retention", "there is no archive"),
    ("grace: 24", "grace", "expected a duration"),
    ("compact_every: soon", "compact_every", "expected a duration"),
    ("compact_window: 02-04", "compact_window", "expected always, never, or hours of the day in UTC such as 22:00-05:30, found"),
    ("compact_window: '04:00-04:00'", "compact_window", "expected always, never, or hours"),
    ("compact_window: '04:00-24:00'", "compact_window", "expected always, never, or hours"),
    ("compact_budget: lots", "compact_budget", "expected a size such as 256 MB or 20 GB, found 'lots'"),
    ("compact_budget: 0", "compact_budget", "expected a size such as 256 MB or 20 GB, found '0'"),
    ("compact_budget: 5 XB", "compact_budget", "expected a size such as 256 MB or 20 GB, found '5 XB'"),
    ("compact_evry: 1h", "compact_evry", "unknown key; did you mean compact_every?"),
    ("compaction: {every: 6h}", "compaction", "unknown key; set `compact_every`, `compact_window` and `compact_budget`"),
    ("csv: ;", "csv", "expected a mapping of keys, found ';'"),
    ("order_by: ts", "order_by", "expected a list, found 'ts'; write [ts]"),
    ("order_by: [ts, lsn, ts]", "order_by", "the column ts is listed twice"),
    ("order_by: [{ts: desc}]", "order_by", "expected text, found {'ts': 'desc'}"),
    ("op_map: {I: insert}", "op_map.I", "expected c, u, d, r, t or ignore, found 'insert'"),
    ("op_map: [I]", "op_map", "expected a mapping"),
    ("envelope: debezium, op: kind", "op", "only `envelope: flat` has this key"),
    ("envelope: debezium, op_map: {I: c}", "op_map", "only `envelope: flat` has this key"),
    ("envelope: debezium, metadata_columns: [__op]", "metadata_columns", "only `envelope: flat or dms` has this key"),
    ("hours_in: Mars/Phobos", "hours_in", "expected a time zone such as Europe/Berlin, found 'Mars/Phobos'"),
    ("hours_in: ../etc", "hours_in", "expected a time zone"),
    ("daily: {time_zone: Mars/Phobos}", "daily.time_zone", "expected a time zone such as Europe/Berlin, found 'Mars/Phobos'"),
    ("daily: {keep: 0}", "daily.keep", "expected a whole number from 1 on, found '0'"),
    ("daily: {days: 3}", "daily.days", "unknown key"),
    ("epoch: {number: 1, from: x}", "epoch", "found {'number': '1', 'from': 'x'}; set `epoch_from` and `epoch_replaces` beside it"),
    ("epoch_from: increment_2026112014", "epoch_from", "`epoch` is 0, and every table begins with that one"),
    ("epoch_replaces: true", "epoch_replaces", "`epoch` is 0, and every table begins with that one"),
    ("epoch: one", "epoch", "expected a whole number"),
    ("from: abc", "increments", "`from` is 'abc', which is no folder like 'increment_%Y%m%d%H'"),
    ("epoch: 1, epoch_from: 2026112014", "increments", "`epoch_from` is '2026112014', which is no folder like 'increment_%Y%m%d%H'"),
    ("live_view: maybe", "live_view", "expected true or false, found 'maybe'"),
    ("live_view: true, envelope: debezium", "live_view", "expected flat rows"),
    ("live_view: true, format: json", "live_view", "expected flat rows in parquet or avro"),
    ("live_view: true, archive: move", "archive", "set `archive: keep`"),
    ("schema: student.json", "schema", "expected `infer`, the path of an .avsc file"),
    ("schema: {subject: s-value}", "schema", "there is no registry"),
    ("schema: {topic: s}", "schema", "or {subject: name}, found {'topic': 's'}"),
    ("schema: none.avsc", "schema", "none.avsc cannot be read: No such file"),
    ("engines: [trino]", "engines", "unknown key; with `catalog: {type: glue}` there is a view for Athena"),
    ("change_feed: all", "change_feed", "expected true or false, found 'all'; true has one change for each row that differs"),
    ("feed_retention: 7d", "feed_retention", "unknown key; set `keep`, which is for the change feed too"),
    ("history: maybe", "history", "expected true or false"),
    ("history: true, track_except: [b]", "track_except", "unknown key; set `track` to the other columns"),
    ("cluster_by: {region: up}", "cluster_by", "expected "),
    ("partition_by: [region]", "partition_by", "unknown key; set `cluster_by: [..]`"),
    ("track: [name]", "track", "the table has no history; set `history: true`"),
    ("patch_rows: maybe", "patch_rows", "expected true or false"),
    ("on_schema_change: fial", "on_schema_change", "expected evolve, freeze or fail, found 'fial'; did you mean fail?"),
    ("on_schema_change: {widend: fail}", "on_schema_change.widend", "found 'widend'; did you mean widened?"),
    ("on_schema_change: {drop: fail}", "on_schema_change", "drop: expected keep or hide, found 'fail'"),
    ("on_schema_change: [fail]", "on_schema_change", "expected evolve, freeze or fail, or a mapping of kinds of change, found ['fail']"),
    ("quarantine: true", "quarantine", "expected a number of records or a share, such as 100 or 10%, found 'true'"),
    ("quarantine: 200%", "quarantine", "expected a number of records or a share"),
    ("quarantine: -1", "quarantine", "expected a number of records or a share"),
    ("quarantine: {max_rows: 1}", "quarantine", "expected a number of records or a share, such as 100 or 10%, found {'max_rows': '1'}"),
    ("limits: {columns: 9000}", "limits", "expected true or false, found {'columns': '9000'}; there are limits or none"),
    ("types: {a: date}, csv: {types: {a: date}}", "csv.types", "unknown key"),
    ("checks: {max_gone: 0.3}", "checks.max_gone", "unknown key; set `max_gone` of the table"),
    ("checks: [rows]", "checks", "expected a mapping"),
    ("max_gone: all", "max_gone", "expected a share"),
    (
        "notify: me",
        "notify",
        "expected log, {command: [..]}, {webhook: https://..}, {sns: arn:..}, {apprise: [slack://..]}, or the name of a variable: {webhook_env: NAME}",
    ),
    ("notify: {slack: CHAT}", "notify", "slack: expected {apprise_env: NAME}, with slack://.. in the variable; found {slack: ..}"),
    ("notify: {apprise: [slack://secret, secret]}", "notify", "apprise: expected addresses such as slack://token, found something else (not shown"),
    ("notify: {apprise: []}", "notify", "apprise: expected addresses such as slack://token, found something else (not shown"),
    ("notify: [{webhook: 'ftp://me:secret@x'}]", "notify", "found something else (not shown"),
    ("notify: 'https://chat.example/secret'", "notify", "found something else (not shown)"),
    ("notify: {webhook_env: 'https://chat.example/secret'}", "notify", "found something else (not shown"),
    ("notify: {sns: topic}", "notify", "sns: expected arn:aws:sns:region:account:topic, found 'topic'"),
    ("notify: {command: []}", "notify", "command: expected a program"),
    ("runner: emr", "runner", "expected local, emr-serverless or emr-steps, found 'emr'"),
    ("runner: emr-serverless", "runner", "emr-serverless needs `emr: {job: ..}` at the top of the file, found nothing"),
    ("spark: {executor.memory: 8g}", "spark", "expected settings such as {spark.executor.memory: 8g}"),
    ("group: hourli", "group", "no group 'hourli'; did you mean hourly?"),
    ("retries: often", "retries", "expected a whole number from 0 on, found 'often'"),
    ("timeout: 90", "timeout", "expected a duration"),
    ("increments: 's3://lake/student/%Y'", "increments", "must be in the same kind of store"),
    ("increments: 'hdfs://lake/student/%Y'", "increments", "hdfs: locations are not supported"),
    ("increments: 'x/increment_%y'", "increments", "expected codes out of %Y, %m, %d, %H, %M"),
    ("increments: 'x/%Y/%Y'", "increments", "a part of the date occurs twice"),
    ("increments: 'x/increment_%'", "increments", "a single % at the end"),
    ("increments: 'x[1]/{table}/%Y'", "increments", "contains '[', which Spark interprets as a pattern"),
    ("increments: 'x/{a}/{b}/%Y'", "increments", "expected one {name} at most, the column with the shard"),
    ("increments: '{region}/%Y', envelope: full-load, complete: _SUCCESS", "envelope", "files of a whole table, not of a shard ({region})"),
    ("increments: '{region}/%Y', history: true", "history", "excludes shards ({region} in `increments`)"),
    ("increments: student", "increments", "also contains the files of table student"),
    ("increments: .", "increments", "also contains the files of table student"),
    ("increments: 'student/increment_%Y'", "increments", "also contains the files of table student"),
    ("increments: 'student/archive/%Y'", "increments", "also contains the folder `archive` of table student"),
    ("view: ''", "view", "expected text, found ''"),
    ("view: Student-View", "view", "'Student-View' is not a valid name in Hive; use a-z, 0-9 and _, such as student_view"),
    ("tables_in: a.b", "tables_in", "'a.b' is not a valid name in Hive"),
]


@pytest.mark.parametrize(("keys", "key", "said"), BAD_TABLES, ids=[entry[0] for entry in BAD_TABLES])
def test_a_bad_key_is_named(tmp_path: Path, keys: str, key: str, said: str) -> None:
    """File and line, table, key, and what was expected."""
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, table(keys))
    first = str(refused.value).splitlines()[0]
    assert first.startswith(f"{tmp_path}/compactor.yaml:2: table student, key {key}: ")
    assert said in first


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("envelope: flat", 1.0), ("envelope: full-load, complete: _SUCCESS", 0.3), ("envelope: full-load, settle: 1h, max_gone: 1", 1.0)],
)
def test_full_copies_are_guarded_unless_told_otherwise(tmp_path: Path, keys: str, expected: float) -> None:
    """A copy that was cut short would delete what it lacks."""
    assert expected == loaded(tmp_path, table(keys)).spec("student").max_gone


BAD_FILES: list[tuple[str, str]] = [
    ("", "expected keys such as `tables:`, found nothing"),
    ("- a", "expected keys such as `tables:`"),
    ("warehouse: x", "key tables: expected at least one table, found nothing"),
    ("tables:", "key tables: expected at least one table, found nothing"),
    ("tables: {}", "key tables: expected at least one table"),
    ("tables: [student]", "key tables: expected at least one table, found ['student']"),
    ("tables: {student: [id]}", ":1: table student: expected a mapping of keys, found ['id']; write `key: [..]`"),
    ("tables:\n  student:\n", ":2: table student, key key: expected the key columns, found nothing; set `key: [id]`, or `key: []`"),
    (
        "tables: {student: {key: [], envelope: full-load, settle: 1h}}",
        "table student, key key: rows without a key cannot be compared from one load to the next",
    ),
    ("tables: {student: {key: id}}", "table student, key key: expected a list, found 'id'; write [id]"),
    ("tables: {student: {key: [id, id]}}", "table student, key key: the column id is listed twice"),
    ("tables: {student: {key: [a, '']}}", "table student, key key: expected text, found ''"),
    ("tables:\n  a: {key: [x]}\n  a: {key: [x]}\n", ":3: tables.a is given twice, first in line 2"),
    ("tables:\n  a:\n    key: [x]\n    key: [y]\n", ":4: tables.a.key is given twice, first in line 3"),
    ("tables:\n\ta: 1", ":2: invalid YAML"),
    ("tables: {a: {key: [x}}", ":1: invalid YAML"),
    ("tables: &a {t: *a}", "an alias refers to a value that contains it"),
    ("tables: {a: {key: [!!python/name:os.system x]}}", "the tag 'tag:yaml.org,2002:python/name:os.system' is not supported"),
    ("warehouse: !!binary aGk=\n", "the tag 'tag:yaml.org,2002:binary' is not supported"),
    ("tables: !!python/object/apply:os.system ['id']\n", "the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not supported"),
    ("tables: " + "[" * 5000 + "]" * 5000, "the values are nested too deeply"),
    (aliases_of_aliases("[{}]"), "expected at most 500,000 values"),
    ("? [a]\n: b\n", "found a list or a mapping as a key"),
    (
        "tables: {a: {key: [x]}}\nairflow: {groups: {g: {executor_config: [1]}}}",
        "key airflow.groups.g.executor_config: expected a mapping such as {cpu: 1024}, found ['1']",
    ),
    ("student: {key: [id]}", ":1: key student: unknown key; tables belong below `tables:`"),
    ("warehous: x\ntables: {a: {key: [x]}}", ":1: key warehous: unknown key; did you mean warehouse?"),
    ("warehouse: s3://lake/x/../y\ntables: {a: {key: [x]}}", ":1: key warehouse: expected a name without"),
    (
        "warehouse: s3://x--x-s3/y\ntables: {a: {key: [x]}}",
        ":1: key warehouse: expected a general purpose bucket, found the directory bucket x--x-s3",
    ),
    *(
        (
            f"warehouse: s3://lake/w\ntables: {{a: {{key: [x], increments: '{place}'}}}}",
            "table a, key increments: expected a name without empty, '.' and",
        )
        for place in ("../landing/x_%Y", "./landing/..", "a//b")
    ),
    (
        "warehouse: s3://lake/w\ndiscover: [{from: '../x.{table}', envelope: debezium}]",
        "key discover: expected a name without empty, '.' and '..' parts",
    ),
    ("warehouse: gs://lake/x\ntables: {a: {key: [x]}}", ":1: key warehouse: gs: locations are not supported"),
    ("warehouse: '/lake/*'\ntables: {a: {key: [x]}}", "key warehouse: '/lake/*' contains '*'"),
    ("registry: {url: []}\ntables: {a: {key: [x]}}", "key registry.url: expected an address"),
    ("registry: {url: 'http://r:1', folder: x}\ntables: {a: {key: [x]}}", "key registry.folder: unknown key; set `url` to the folder"),
    (
        "kafka: {servers: 'h:9092'}\ntables: {a: {key: [x]}}",
        "key kafka: expected text, found {'servers': 'h:9092'}; write the servers, or the name of",
    ),
    ("registry: {uri: x}\ntables: {a: {key: [x]}}", "key registry.uri: unknown key"),
    ("s3: {endpoint: x}\ntables: {a: {key: [x]}}", "key s3.endpoint: expected a URL"),
    ("catalog: {type: glue}\ntables: {a: {key: [x]}}", "key catalog.type: readers of Glue need files in S3, but the warehouse is /"),
    ("warehouse: s3://lake\ncatalog: {type: glue, uri: 'thrift://x'}\ntables: {a: {key: [x]}}", "key catalog.uri: Glue is the metastore"),
    ("catalog: {metastore_dir: m}\ntables: {a: {key: [x]}}", "key catalog.metastore_dir: unknown key; the embedded metastore lies in <warehouse>"),
    ("warehouse: s3://lake\ncatalog: {type: glue, catalog_id: 12}\ntables: {a: {key: [x]}}", "key catalog.catalog_id: expected an AWS account id"),
    ("catalog: {region: eu-central-1}\ntables: {a: {key: [x]}}", "key catalog.region: unknown key; it belongs at the top of the file"),
    ("catalog: {catalog_id: '123456789012'}\ntables: {a: {key: [x]}}", "key catalog.catalog_id: only `type: glue` has this key"),
    ("catalog: {type: gleu}\ntables: {a: {key: [x]}}", "key catalog.type: expected hive or glue, found 'gleu'; did you mean glue?"),
    (
        "warehouse: s3://lake\ncatalog: {type: glue}\ntables: {a: {key: [x]}, a_athena: {key: [x]}}",
        "table a_athena, key view: default.a_athena is also a name of table a",
    ),
    ("catalog: {uri: 'http://x'}\ntables: {a: {key: [x]}}", "key catalog.uri: expected thrift://host:9083, found 'http://x'"),
    (
        "catalog: {uri: 'jdbc:mysql://me:secret@x'}\ntables: {a: {key: [x]}}",
        "key catalog.uri: expected thrift://host:9083, found 'jdbc:mysql://***@x'",
    ),
    ("catalog: {database: My-DB}\ntables: {a: {key: [x]}}", "key catalog.database: 'My-DB' is not a valid name in Hive"),
    ("catalog: school\ntables: {a: {key: [x]}}", "key catalog: expected a mapping of keys, found 'school'"),
    ("tables: {Student: {key: [x]}}", "table Student: 'Student' is not a valid name in Hive; use a-z, 0-9 and _, such as student"),
    ("tables: {a-b: {key: [x]}}", "table a-b: 'a-b' is not a valid name"),
    ("tables: {_a: {key: [x]}}", "table _a: '_a' is not a valid name"),
    (f"tables: {{{'a' * 111}: {{key: [x]}}}}", "the name has 111 characters, Hive allows 110"),
    ("tables: {metastore: {key: [x]}}", "table metastore: the embedded metastore uses this folder"),
    ("tables: {a: {key: [x], view: v}, b: {key: [x], view: v}}", "table b, key view: default.v is also a name of table a"),
    ("tables: {a: {key: [x]}, a_base: {key: [x]}}", "table a_base, key view: default.a_base is also a name of table a"),
    (
        "tables: {a_changes: {key: [x]}, a: {key: [x], change_feed: true}}",
        "table a, key view: default.a_changes is also a name of table a_changes",
    ),
    ("tables: {a_delta_g2: {key: [x]}, a: {key: [x]}}", "table a_delta_g2, key view: default.a_delta_g2 is also a name of table a"),
    ("tables: {a: {key: [x], view: a_delta}}", "table a, key view: default.a_delta is also a name of the table itself"),
    ("tables: {a: {key: [x], daily: {}}, a_daily: {key: [x]}}", "table a_daily, key view: default.a_daily is also a name of table a"),
    ("tables: {a: {key: [x], daily: {}}, b: {key: [x], view: a_daily_rows_g2}}", "default.a_daily_rows_g2 is also a name of table a"),
    ("tables: {a: {key: [x]}, b: {key: [x], view: a_incremental_g2}}", "default.a_incremental_g2 is also a name of table a"),
    ("tables: {a: {key: [x], read_optimized: on}, a_ro: {key: [x]}}", "table a_ro, key view: default.a_ro is also a name of table a"),
    (
        "tables: {a: {key: [x], iceberg: base, parquet: standard}, a_iceberg: {key: [x], parquet: standard}}",
        "default.a_iceberg is also a name of table a",
    ),
    (
        "tables: {a: {key: [x], iceberg: base}}",
        "table a, key iceberg: Iceberg's readers misread files in the form for Hive 2 and 3; set `parquet: standard`",
    ),
    ("tables: {a: {key: [x], iceberg: base, parquet: standard, delete: soft}}", "table a, key iceberg: `_deleted` is computed by the view"),
    ("tables: {a: {key: [x], live_view: on}, a_live: {key: [x]}}", "table a_live, key view: default.a_live is also a name of table a"),
    ("tables: {a: {key: [x]}, b: {key: [x], parquet: standard}}", "table b, key parquet: table a has hive"),
    ("tables: {a: {key: [x], increments: b/base}, b: {key: [x]}}", "table a, key increments: "),
    (
        "tables: {a: {key: [x], increments: all}, b: {key: [x], increments: all, archive: move}}",
        "table b, key archive: table a reads the same landing files and would lose the files that this one moves; set `archive: keep`",
    ),
    ("airflow: {groups: {daily: {schedule: hourly}}}", "key airflow.groups.daily.schedule: expected a cron line of five fields such as 10 * * * *"),
    (
        "airflow: {groups: {daily: {schedule: 5 24 * * *}}}",
        "key airflow.groups.daily.schedule: expected hour 0 to 23, * or */n in a cron line, found '24'",
    ),
    ("airflow: {groups: {daily: {schedule: 5 4-2 * * *}}}", "expected hour 0 to 23, * or */n in a cron line, found '4-2'"),
    ("airflow: {groups: {daily: {schedul: none}}}", "key airflow.groups.daily.schedul: unknown key; did you mean schedule?"),
    ("tables: {a: {key: [x], timeout: 0s}}", "table a, key timeout: expected a time, found 0s"),
    ("airflow: {groups: {daily: {at_once: 0}}}", "key airflow.groups.daily.at_once: expected a whole number from 1 on"),
    ("airflow: {groups: {a b: {}}}\ntables: {a: {key: [x]}}", "expected a name of letters, digits, _, . and -, found 'a b'"),
    ("airflow: {command: compactor}", "key airflow.command: expected a program and its arguments, such as [python3, -m, compactor]"),
    ("airflow: {vacuum: never}", "key airflow.vacuum: expected ask or auto, found 'never'"),
    (
        "airflow: {conn_ids: {HOOK: https://host/token}}",
        "expected variables and connections such as {SCHEMA_HOOK: chat}, found something else",
    ),
    (
        "airflow: {conn_ids: {HOOK: chat}}\ndefaults: {notify: {webhook_env: HOKK}}\ntables: {a: {key: [x]}}",
        "key airflow.conn_ids.HOOK: expected HOKK or SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO, the variables that `notify` and `registry` use",
    ),
    ("airflow: {conn_ids: {HOOK: chat}}\nregistry: {token_env: TOKEN}\ntables: {a: {key: [x]}}", "expected TOKEN or SCHEMA_REGISTRY_BASIC"),
    ("airflow: {comand: [x]}", "key airflow.comand: unknown key; did you mean command?"),
    ("tables: {a: {key: [], live_view: true}}", "table a, key live_view: needs rows with a key"),
    ("tables: {a: {key: [], history: true}}", "table a, key history: needs rows with a key"),
    ("defaults: {keys: [id]}\ntables: {a: {key: [x]}, b: {key: [x]}}", ":1: key defaults.keys: unknown key; did you mean key?"),
    ("defaults: {hours_in: X}\ntables:\n  a: {key: [x]}", ":1: table a, key hours_in: expected a time zone"),
]


@pytest.mark.parametrize(("text", "said"), BAD_FILES, ids=[entry[0][:60] for entry in BAD_FILES])
def test_a_bad_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """Before anything is done with it."""
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path}/compactor.yaml")
    assert said in str(refused.value)


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    """What `defaults:` says wrong is told once, not for every table."""
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, "defaults: {format: xml}\ntables:\n  a: {key: x}\n  b: {key: [x], topic: ''}\n")
    assert [line.split(": ")[1] for line in str(refused.value).splitlines()] == [
        "key defaults.format",
        "table a, key key",
        "table b, key topic",
    ]


def test_a_mistake_of_every_table_is_told_of_a_few(tmp_path: Path) -> None:
    """Of 65 tables that `init` left without a key. Other mistakes are not lost among them."""
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, "tables:\n  a: {key: [], delete_when: x IS NULL}\n" + "".join(f"  t{at}: {{}}\n" for at in range(65)))
    lines = str(refused.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "table a, key delete_when",
        *(f"table t{at}, key key" for at in range(3)),
        "the same in 62 more tables",
    ]
    assert lines[-1].endswith(": t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, ..")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda file: None, "no such file. Set --config PATH"),
        (lambda file: file.with_suffix(".yml").write_text("tables: {}"), r"compactor.yml is there: set --config .*compactor.yml"),
        (lambda file: file.mkdir(), "cannot be read: Is a directory"),
        (lambda file: file.write_bytes(b"tables: \xff"), "expected UTF-8 text"),
    ],
    ids=["missing", "another suffix", "directory", "bytes"],
)
def test_an_unreadable_file(tmp_path: Path, make: Any, said: str) -> None:
    """The file is named whatever is wrong with it."""
    file = tmp_path / "compactor.yaml"
    make(file)
    with pytest.raises(ConfigError, match=said) as refused:
        load(file, {})
    assert str(refused.value).startswith(str(file))


def test_a_configuration_on_s3_is_to_be_copied() -> None:
    """Its address is in the message as it was given."""
    with pytest.raises(ConfigError, match=r"^s3://lake/compactor\.yaml: expected a local file; copy it"):
        load("s3://lake/compactor.yaml", {})


def test_an_unknown_table(tmp_path: Path) -> None:
    """Near names are proposed, all are listed."""
    with pytest.raises(ConfigError, match=r"no table 'studnt'; did you mean student\?; the tables are student$"):
        loaded(tmp_path, table("")).spec("studnt")


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0.0), ("0", 0.0), ("10min", 600.0), ("24h", 86400.0), ("7d", 604800.0), ("1h 30m", 5400.0), ("1.5s", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    """A number and a unit, as often as wanted."""
    assert duration(text) == seconds


@pytest.mark.parametrize(("text", "size_bytes"), [("256 MB", 1 << 28), ("1GiB", 1 << 30), ("512", 512), ("1.5 kb", 1536)])
def test_sizes(text: str, size_bytes: int) -> None:
    """Every unit is a power of 1024."""
    assert size(text) == size_bytes


def test_json_schema_describes_every_key() -> None:
    """The schema is for editors: each key with a sentence, nothing else allowed."""
    schema = json_schema()
    json.dumps(schema)
    keys = schema["$defs"]["Table"]["properties"]
    assert list(keys) == names(Table)
    assert [name for name, described in keys.items() if not described.get("description")] == []
    assert schema["$defs"]["Table"]["additionalProperties"] is False
    assert (keys["settle"]["default"], keys["quarantine"]["default"], keys["csv"].get("default")) == ("0s", "50%", None)


@given(
    places=st.lists(
        st.tuples(st.sampled_from(["/lake", "s3://b"]), st.lists(st.sampled_from("ab"), max_size=3)).map(
            lambda place: "/".join([place[0], *place[1]])
        ),
        max_size=6,
    )
)
def test_tables_that_share_landing_files_are_found(places: list[str]) -> None:
    """As the plain definition finds them, one table against each: quick among hundreds must be the same."""
    landings = {f"t{number}": place for number, place in enumerate(places)}
    expected = {}
    for name, place in landings.items():
        others = [other for other, near in landings.items() if other != name and (within(place, near) or within(near, place))]
        if others:
            expected[name] = others[0]
    assert shared(landings) == expected


@pytest.mark.parametrize("path", FORMER)
def test_a_former_key_is_refused_with_what_replaces_it(tmp_path: Path, path: str) -> None:
    """At the top of the file or in a table, and no key of today is in the list."""
    *sections, name = path.split(".")
    if sections[:2] == ["airflow", "groups"]:
        sections.append("g")
    value = "{" + "".join(f"{part}: {{" for part in sections) + f"{name}: x" + "}" * (len(sections) + 1)
    top = sections and sections[0] in names(Keys)
    text = f"{value[1:-1]}\ntables: {{a: {{key: [x]}}}}" if top else f"tables: {{a: {{key: [x], {value[1:-1]}}}}}"
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)
    assert f"unknown key; {FORMER[path]}" in str(refused.value)
