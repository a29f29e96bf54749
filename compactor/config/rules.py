"""Checks of several keys of compactor.yaml together, and of its paths. A problem is a value: (place, sentence)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from compactor.config.keys import Settings, Table
from compactor.config.text import Place
from compactor.config.values import absolute, is_s3, is_zone, shown
from compactor.core.catalog import objects
from compactor.core.model.envelopes import ENVELOPES, SPECIAL_SETTINGS, accepting
from compactor.core.model.errors import ConfigError
from compactor.core.model.layout import join
from compactor.core.model.spec import SUBJECT, TableSpec
from compactor.core.planning.folders import upwards
from compactor.core.results.notice import IN_VARIABLES
from compactor.core.schema import column_types, protection
from compactor.core.schema.policy import CHOOSABLE
from compactor.core.settings import s3
from compactor.core.settings.forms import alike, listed
from compactor.core.settings.variables import USER_INFO
from compactor.core.sources.increment import GLOB, landed, pattern_problem, shard_column, split_pattern

NAME_CHARS_MAX = 110
"""Hive 2 stores 128 characters of a table's name, and compactor appends suffixes such as `_incremental` and `_base_g2`."""

_MANAGED = ("base", "delta", "archive", "quarantine", "history", "feed", "_iceberg", "_iceberg_current", "_compactor")

_NEED_KEYS = {
    "delete_when": "needs rows with a key, which says what is deleted; set `key: [..]`, or remove this key",
    "patch_rows": "needs rows with a key, because values of the earlier row are kept; remove it",
    "live_view": "needs rows with a key; remove it",
    "history": "needs rows with a key; remove it",
    "columns": "needs rows with a key: rows without one are recognised by all their values",
}
"""Keys that a table with `key: []` cannot have → why."""

SMALLEST = "The smallest file is\ntables:\n  student:\n    key: [id]\n    envelope: debezium"

Problem = tuple[Place, str]


def problems(keys: Settings) -> Iterator[Problem]:
    """Return all problems of the top of the file and of each table, in the file's order."""
    if not keys.tables and not keys.discover:
        yield ("tables",), f"expected at least one table, found nothing. {SMALLEST}"
    yield from _top_problems(keys)
    others = shared({name: landing(keys, name, table)[0] for name, table in keys.tables.items()})
    for name, table in keys.tables.items():
        for place, sentence in _table_problems(keys, name, table):
            yield ("tables", name, *place), sentence
        moved = table.archive_kms_key and not table.source_table and name not in others
        if table.columns and table.archive is None and not moved:
            yield (
                ("tables", name, "columns"),
                "landed files hold the values as they are; set `archive_kms_key:`, so that only identities that may use this key can read their "
                "archive, or `archive:` (move, copy or keep) to say that they may stay, best with `archive_retention`",
            )
        if name in others and table.archive == "move":
            sentence = f"table {others[name]} reads the same landing files and would lose the files that this one moves; set `archive: keep`"
            yield ("tables", name, "archive"), sentence


def _top_problems(keys: Settings) -> Iterator[Problem]:
    if problem := _location_problem(keys.warehouse):
        yield ("warehouse",), problem
    try:
        keys.s3_keys.within({})
    except ConfigError as error:
        name, _, reason = str(error).partition(": ")
        yield tuple(name.split(".")), reason
    catalog = keys.catalog
    if catalog.uri is not None and not all(re.fullmatch(r"thrift://[^/:]+(:\d+)?", uri.strip()) for uri in catalog.uri.split(",")):
        yield ("catalog", "uri"), f"expected thrift://host:9083, found {shown(catalog.uri)}"
    for entry in keys.discoveries:
        # a glob's sign in braces is a placeholder
        if problem := _location_problem(re.sub(r"\{\w+\}", "x", entry.place)) or pattern_problem(entry.pattern):
            yield ("discover",), problem
    yield from _glue_problems(keys)
    if problem := _name_problem(catalog.database):
        yield ("catalog", "database"), problem
    for name in keys.airflow.groups:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
            yield ("airflow", "groups", name), f"expected a name of letters, digits, _, . and -, found {shown(name)}"
    yield from _connection_problems(keys)
    kinds = {table.parquet: name for name, table in keys.tables.items()}
    if len(kinds) > 1:
        yield ("tables", kinds["standard"], "parquet"), f"table {kinds['hive']} has hive; all tables of one file need the same form"


def _connection_problems(keys: Settings) -> Iterator[Problem]:
    """Return Airflow connections that nothing uses."""
    targets = [target for table in (keys.defaults, *keys.tables.values()) for target in table.notify]
    named = sorted({variable for kind, *words in targets if kind in IN_VARIABLES for variable in words})
    valid = (*named, *([keys.registry.token_env] if keys.registry.token_env else []), USER_INFO)
    for variable in keys.airflow.conn_ids:
        if variable not in valid:
            yield ("airflow", "conn_ids", variable), f"expected {listed(valid)}, the variables that `notify` and `registry` use"


def _glue_problems(keys: Settings) -> Iterator[Problem]:
    catalog = keys.catalog
    if catalog.type != "glue":
        if catalog.catalog_id is not None:
            yield ("catalog", "catalog_id"), "only `type: glue` has this key; remove it"
        return
    if catalog.uri is not None:
        yield ("catalog", "uri"), "Glue is the metastore; remove this key"
    if not is_s3(keys.warehouse_dir):
        yield ("catalog", "type"), f"readers of Glue need files in S3, but the warehouse is {keys.warehouse_dir}; set `warehouse: s3://bucket/prefix`"


def _table_problems(keys: Settings, name: str, table: Table) -> Iterator[Problem]:
    for key, value in ((None, name), ("view", table.view), ("tables_in", table.tables_in)):
        if value is not None and (problem := _name_problem(value)):
            yield ((key,) if key else ()), problem
    if join(keys.warehouse_dir, name) == keys.metastore_dir:
        yield (), "the embedded metastore uses this folder; choose another name"
    if table.key is None and not table.schema_.startswith(SUBJECT):
        yield ("key",), "expected the key columns, found nothing; set `key: [id]`, or `key: []` if rows have no key"
    yield from _envelope_problems(table)
    if not table.timeout:
        yield ("timeout",), "expected a time, found 0s, which ends every task at once"
    if problem := objects.iceberg_problem(table):
        yield ("iceberg",), problem
    if table.key == ():
        yield from (((key,), sentence) for key, sentence in _NEED_KEYS.items() if getattr(table, key))
        if table.delete == "soft":
            yield ("delete",), "`soft` needs rows with a key: without one, the old values of every update would be a deleted row; remove it"
    if table.track and not table.history:
        yield ("track",), "the table has no history; set `history: true`, or remove this key"
    if table.schema_.startswith(SUBJECT) and not keys.registry.url:
        yield ("schema",), "there is no registry; set `registry: {url: ..}` to an address or a folder of .avsc files, at the top of the file"
    if table.topic:
        yield from _topic_problems(keys, table)
    if ENVELOPES[table.envelope].full_loads:
        yield from _full_load_problems(keys, name, table)
    yield from _runner_problems(keys, name)
    if table.group != "hourly" and table.group not in keys.airflow.groups:
        groups = ("hourly", *keys.airflow.groups)
        yield ("group",), f"no group {shown(table.group)}{alike(table.group, groups)}; define it below `airflow: {{groups: ..}}`"
    yield from _file_problems(table)
    if table.archive == "keep" and table.archive_retention is not None:
        yield ("archive_retention",), "with `archive: keep` there is no archive, and vacuum deletes nothing from landing; remove one of the two"
    if table.archive_kms_key and not is_s3(keys.warehouse_dir):
        yield (
            ("archive_kms_key",),
            f"local disks have no KMS keys, and the warehouse is {keys.warehouse_dir}; set `warehouse: s3://bucket/prefix`, or remove this key",
        )
    if table.live_view:
        yield from _live_problems(table)
    for key in [key for key, used in {"epoch_from": table.epoch_from, "epoch_replaces": table.epoch_replaces}.items() if used and not table.epoch]:
        yield (key,), "`epoch` is 0, and every table begins with that one; set `epoch: 1` or more, or remove this key"
    shard = shard_column(landing(keys, name, table)[1])
    yield from _column_problems(table, shard)
    for kind, _ in table.policy.kinds:
        if kind not in CHOOSABLE:
            yield ("on_schema_change", kind), f"expected default, {', '.join(CHOOSABLE)} or drop, found {kind!r}{alike(kind, CHOOSABLE)}"
    zones: dict[Place, str] = {("hours_in",): table.hours_in, **({("daily", "time_zone"): table.daily.time_zone} if table.daily else {})}
    yield from ((place, f"expected a time zone such as Europe/Berlin, found {shown(zone)}") for place, zone in zones.items() if not is_zone(zone))
    yield from _shard_problems(table, shard)
    yield from ((("increments",), problem) for problem in _landing_problems(keys, name, table))


def _runner_problems(keys: Settings, name: str) -> Iterator[Problem]:
    """Return the problems of a table that runs on EMR."""
    runner = keys.tables[name].runner
    if runner == "local":
        return
    needed = ("job", "logs", *(("application", "role") if runner == "emr-serverless" else ("cluster",)))
    missing = [key for key in needed if getattr(keys.emr, key) is None]
    if missing:
        yield ("runner",), f"{runner} needs `emr: {{{missing[0]}: ..}}` at the top of the file, found nothing"
    if not is_s3(keys.warehouse_dir):
        yield ("runner",), f"{runner} reads from S3 only, but the warehouse is {keys.warehouse_dir}; set `warehouse: s3://bucket/prefix`"
    if keys.metastore_dir is not None:
        yield ("runner",), f"{runner} cannot reach an embedded metastore; set `catalog: {{type: glue}}` or `catalog: {{uri: thrift://host:9083}}`"


def _topic_problems(keys: Settings, table: Table) -> Iterator[Problem]:
    if not keys.kafka:
        yield ("topic",), "the Kafka servers are not set; set `kafka: host:9092` at the top of the file"
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", str(table.topic)):
        yield ("topic",), f"expected the name of one topic (letters, digits, . _ -), found {shown(table.topic)}"
    if table.format not in ("auto", "parquet"):
        yield ("format",), f"`compactor ingest` writes parquet, found {table.format}; remove it"
    if table.container == "value":
        yield ("container",), "`compactor ingest` writes whole Kafka records; remove it"


def _envelope_problems(table: Table) -> Iterator[Problem]:
    """Return settings and formats that the table's envelope does not support."""
    envelope, default = ENVELOPES[table.envelope], {field.name: field.default for field in dataclasses.fields(Table)}
    for key in SPECIAL_SETTINGS:
        if getattr(table, key) != default[key] and key not in envelope.own_settings:
            yield (key,), f"only `envelope: {accepting(key)}` has this key, but the envelope is {envelope.name}; remove it"
    for key, reason in envelope.refused_settings:
        if getattr(table, key) != default[key]:
            yield (key,), reason
    if table.format not in envelope.formats:
        possible = " or ".join(name for name in envelope.formats if name != "auto")
        yield ("format",), f"expected {possible} with `envelope: {envelope.name}`, found {table.format}"


def _full_load_problems(keys: Settings, name: str, table: Table) -> Iterator[Problem]:
    """Return the problems of a table of full loads."""
    if table.key == ():
        yield ("key",), "rows without a key cannot be compared from one load to the next; set `key: [..]` to the columns that identify a row"
    _, pattern = landing(keys, name, table)
    if "%Y" not in pattern:
        yield (("increments",), f"each full load needs its own folder, named by its day or hour; for example {name}/incremental/increment_%Y%m%d%H")
    if table.complete is None and table.settle <= 0:
        yield (
            ("complete",),
            "without `complete` or `settle` half a load could be read, which would delete the other half of the table; set `complete: _SUCCESS`, the "
            "file that the source writes last, or `settle: 10min`",
        )
    if table.complete is not None and "/" in table.complete:
        yield ("complete",), f"expected a file's name such as _SUCCESS, found {shown(table.complete)}"


def _file_problems(table: Table) -> Iterator[Problem]:
    """Return contradictions in the settings of CSV files."""
    if table.format == "csv":
        if table.container == "kafka":
            yield ("container",), "expected value: CSV files contain rows; remove it"
        named = table.csv.header or table.csv.columns or table.schema_ != "infer"
        if not named and (table.csv.header is False or not ENVELOPES[table.envelope].csv_header):
            yield (
                ("csv",),
                "the column names are unknown: set `csv: {columns: [..]}` in the files' order; or `schema:` with an .avsc file; or, if the first "
                "line of each file has the names (DMS: AddColumnName), `csv: {header: true}`",
            )
    for name, word in table.types:
        try:
            column_types.column(name, word)
        except ValueError:
            words = column_types.WORDS
            yield ("types", name), f"expected {listed(words)} or decimal(12,2), of at most 38 digits, found {shown(word)}{alike(word, words)}"
    unnamed = [name for name, _ in table.types if table.csv.columns and name not in table.csv.columns]
    if unnamed:
        yield ("types",), f"{unnamed[0]} is none of `csv: {{columns: ..}}`{alike(unnamed[0], table.csv.columns)}"
    if table.csv.escape and table.csv.quote:
        yield ("csv", "escape"), "only values without quotes are escaped so: set `quote: ''`"
    if table.csv.header and table.csv.columns:
        yield ("csv", "columns"), "the header of the files has the column names; remove one of the two"


def _live_problems(table: Table) -> Iterator[Problem]:
    if not ENVELOPES[table.envelope].live_view or table.format in ("json", "csv"):
        yield (("live_view",), f"expected flat rows in parquet or avro files, found {table.envelope} in {table.format}; remove it")
    unmerged = {"delete": table.delete == "soft", "delete_when": table.delete_when, "patch_rows": table.patch_rows}
    for key in [key for key, used in {**unmerged, "container": table.container == "kafka"}.items() if used][:1]:
        yield (key,), "the live view cannot merge such rows; remove `live_view`, or this key"
    if table.archive == "move":
        yield ("archive",), "the live view reads files after they were ingested; set `archive: keep`, or remove this key"


def _column_problems(table: Table, shard: str) -> Iterator[Problem]:
    """Return the problems of a table with protected columns. `shard`: "" without shards."""
    if not table.columns:
        return
    if problem := protection.needed(table.columns, (*(table.key or ()), *([shard] if shard else ())), table.order_by):
        yield ("columns",), f"{problem}; remove one of the two"
    if table.live_view:
        yield ("columns",), "excludes `live_view`, which shows landed files as they are; remove one of the two"


def _shard_problems(table: Table, shard: str) -> Iterator[Problem]:
    """Return the problems of a table of several shards: what compares Positions of different rows cannot be used with it. `shard`: "" without any."""
    if not shard:
        return
    if table.envelope in ("full-load", "dms"):
        yield ("envelope",), f"{table.envelope} has files of a whole table, not of a shard ({{{shard}}}); use a table for each shard"
    for name in ("epoch_replaces", "topic", "history", "live_view"):
        if getattr(table, name):
            yield (name,), f"excludes shards ({{{shard}}} in `increments`), whose positions do not compare; remove one of the two"
    if shard in (table.key or ()):
        yield ("key",), f"{shard} is the shard, which belongs to the key without being named; remove it"


def _landing_problems(keys: Settings, name: str, table: Table) -> Iterator[str]:
    written = table.increments
    place, pattern = landing(keys, name, table)
    # relative to a warehouse in S3 a location may have parts that S3 takes for names
    parts = (written.removesuffix(pattern) if shard_column(pattern) else written, place) if written is not None else ()
    if problem := next((problem for part in parts if (problem := _location_problem(part))), None):
        yield problem
        return
    if is_s3(place) != is_s3(keys.warehouse_dir):
        yield f"{place} and the warehouse {keys.warehouse_dir} must be in the same kind of store, because files are moved between them"
    if problem := pattern_problem(pattern) or ("a single % at the end" if pattern.endswith("%") else None):
        yield f"{shown(written)}: {problem}"
        return
    for setting, folder in (("from", table.first_folder), ("epoch_from", table.epoch_from)):
        if folder is not None and not pattern:
            yield f"`{setting}` is {shown(folder)}, and {shown(written)} names no dated folders; remove `{setting}`, or correct `increments`"
        elif folder is not None and "%Y" in pattern and landed(pattern, f"{folder}/") is None:
            yield f"`{setting}` is {shown(folder)}, which is no folder like {shown(pattern)}; correct one of them"
    if conflict := _stored_there(keys, place):
        other, part = conflict
        what = f"the folder `{part}` of" if part else "the files of"
        yield f"{place} also contains {what} table {other}; use a separate landing folder, such as {name}/incremental"


def _stored_there(keys: Settings, place: str) -> tuple[str, str] | None:
    """Return (table, part of it) that is stored in a landing folder, or None; the part is "" for the whole table."""
    # one lookup a table, not a loop over all: there may be hundreds
    warehouse = keys.warehouse_dir
    if within(warehouse, place):
        return next(iter(keys.tables)), ""
    table, _, below = place.removeprefix(join(warehouse, "") + "/").partition("/") if within(place, warehouse) else ("", "", "")
    part = below.partition("/")[0]
    return (table, part) if table in keys.tables and part in ("", *_MANAGED) else None


def collisions(specs: Mapping[str, TableSpec]) -> Iterator[Problem]:
    """Return the objects of the catalog that two tables would share. The problem belongs to the later table."""
    owners: dict[str, list[str]] = {}
    for name, spec in specs.items():
        for item in _objects(spec):
            owners.setdefault(item, []).append(name)
    for name, spec in specs.items():
        for item in _objects(spec):
            # a type change creates `student_base_g2`
            later = owners.get(re.sub(r"_(base|delta|incremental|changes|history_rows|daily_rows)_g\d+$", r"_\1", item), [])
            first = owners[item] if len(owners[item]) > 1 else later
            if (len(first) > 1 and first[-1] == name) or (first and name not in first):
                whose = "the table itself" if first[0] == name else f"table {first[0]}"
                sentence = f"{item} is also a name of {whose}; set another `view:`, or rename the table"
                yield ("tables", name, "view"), sentence
                break


def _objects(spec: TableSpec) -> list[str]:
    return [*objects.views_of(spec), *objects.tables_of(spec), f"{spec.tables_in}.{spec.name}_schema"]


def landing(keys: Settings, name: str, table: Table) -> tuple[str, str]:
    """Return (root, pattern) of a table's landing folders."""
    root, pattern = split_pattern(table.increments or f"{name}/incremental/increment_%Y%m%d%H")
    return absolute(root or ("/" if (table.increments or "").startswith("/") else "."), keys.warehouse_dir), pattern


def _location_problem(location: str) -> str | None:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", location)
    if is_s3(location):
        bucket, _, key = re.sub("^s3[an]?://", "", location).partition("/")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", bucket):
            return f"expected s3://bucket/prefix, found {shown(location)}"
        if bucket.endswith("--x-s3"):
            return f"expected a general purpose bucket, found the directory bucket {bucket}"
        return s3.key_problem(key.rstrip("/")) if key.rstrip("/") else None
    if scheme and scheme[1].lower() != "file":
        return f"{scheme[1]}: locations are not supported, found {shown(location)}; use a local folder or s3://bucket/prefix"
    if glob := GLOB.search(location):
        return f"{shown(location)} contains {glob[0]!r}, which Spark interprets as a pattern; rename the folder"
    return None


def _name_problem(name: str) -> str | None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
        better = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        return f"{name!r} is not a valid name in Hive; use a-z, 0-9 and _" + (f", such as {better}" if better else "")
    if len(name) > NAME_CHARS_MAX:
        return f"the name has {len(name)} characters, Hive allows {NAME_CHARS_MAX}"
    return None


def within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def shared(landings: Mapping[str, str]) -> dict[str, str]:
    """Return table → the first other table (in the file's order) that reads the same landing files: from the same directory, above or below it."""
    here: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for name, place in landings.items():
        here.setdefault(place, []).append(name)
        for directory in upwards(place):
            names = below.setdefault(directory, [])
            if len(names) < 2:  # two are enough: one of them is another table
                names.append(name)
    order = {name: at for at, name in enumerate(landings)}
    result = {}
    for name, place in landings.items():
        near = [*below[place], *(other for directory in upwards(place) for other in here.get(directory, ())[:2])]
        if others := [other for other in near if other != name]:
            result[name] = min(others, key=order.__getitem__)
    return result
