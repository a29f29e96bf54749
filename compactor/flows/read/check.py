"""Check: compare a table's configuration with the files that have landed. A part of `plan`. Reads files only, starts no JVM.

A mistyped folder looks like a source without changes, and a mistyped key like a row without value. Both are reported here by name.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from compactor.core.catalog import objects
from compactor.core.iceberg import metadata
from compactor.core.model import position
from compactor.core.model.errors import Refused
from compactor.core.model.files import FileInfo
from compactor.core.model.layout import Layout, join, relative
from compactor.core.model.policy import HASH, HASH_KEY
from compactor.core.model.schema import called
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.landing import Landing
from compactor.core.results.checks import DELETED, UNCERTAIN, Check
from compactor.core.results.phrases import absent_key, counted, csv_delimiter
from compactor.core.schema import column_types, evolution, protection
from compactor.core.sources import flat_rows, increment, key_inference, proposal, shared_stream, value_forms
from compactor.core.sources.source_profile import SourceProfile, other_envelope, several_tables
from compactor.flows import owner
from compactor.flows.land.propose import sample
from compactor.flows.table import Table

_SIBLINGS_MAX = 1000
"""Files beside a missing landing folder that are looked at for a folder with a similar name."""


_OF_TABLE = ("hint", "ledger", "shown", "snapshot")
"""Kinds of files (`Layout.kind`) that only the root of a table with versions has."""


@dataclass(frozen=True)
class Looked:
    """What a plan has found out about a table."""

    snapshot: Snapshot | None
    infos: Sequence[FileInfo]
    landing: Landing | Refused
    """Which of them are new, or why they are refused."""
    others: Sequence[TableSpec] = ()
    """All tables of the configuration, for folders that two tables read."""
    samples: bool = True
    """Whether to read files of landing: a few small ones, and the owner's mark."""


def check(table: Table, looked: Looked) -> list[Check]:
    """Compare a table's configuration with the files in landing."""
    return [Check(table.name, name, not problem, problem or detail) for name, problem, detail in _results(table, looked)]


def missing(table: Table) -> str:
    """Return why a table without Snapshot has no files in landing, with what may be meant instead; "" if it has files."""
    if next(iter(table.storage.list(table.spec.landing)), None) is not None:
        return ""
    parent, _, name = table.spec.landing.rpartition("/")
    while not (listed := [*islice(table.storage.list(parent), _SIBLINGS_MAX)]) and parent.count("/") > 1:
        parent, _, name = parent.rpartition("/")
    beside = [relative(info.path, parent) for info in listed]
    tables = {folder for path in beside if Layout(folder := path.split("/")[0], "").kind(path) in _OF_TABLE}
    roots = {spec.root for spec in table.env.tables}
    former = difflib.get_close_matches(name, [folder for folder in tables if roots and join(parent, folder) not in roots], 1, 0.0)
    close = difflib.get_close_matches(name, {path.split("/")[0] for path in beside} - {name, *tables}, 1, 0.6)
    hint = f"did you mean {parent}/{close[0]}?" if close else "correct `increments:`, or wait for the first files."
    if former:
        hint = (
            f"{parent}/{former[0]} has the versions of a table that is not configured. If {table.name} is its new name: call it {former[0]} again "
            f"and set `view: {table.name}`. Otherwise {hint}"
        )
    return f"no file has ever landed below {table.spec.landing}; {hint}"


def _results(table: Table, looked: Looked) -> Iterator[tuple[str, str, str]]:
    """Yield (check, problem or "", what was found)."""
    spec, landing = table.spec, looked.landing
    if any(rule.kind == HASH for rule in spec.columns):
        there = spec.hash_secret or os.environ.get(HASH_KEY)
        problem = "" if there else f"`columns:` hashes a column, which needs a secret; set `hash_secret`, or the environment variable {HASH_KEY}"
        yield "secret of `columns`", problem, spec.hash_secret or HASH_KEY
    yield "landing folder of its own", _shared(spec, looked.others), f"no other table reads {spec.landing}"
    if looked.samples:
        yield "environment of its own", owner.foreign(table), f"database {spec.database}"
    if looked.snapshot is not None:
        if looked.samples:
            yield "settings of the stored rows", _stored(spec, looked.snapshot), f"as in version {looked.snapshot.version}"
        for form in spec.iceberg:
            parts = metadata.parts_of(looked.snapshot, form)
            newest = "as of the last compaction" if form == "base" else "those of the view"
            shown = f"readers see an older version: {parts}" if isinstance(parts, str) else newest
            yield f"rows of {objects.iceberg_name(spec, form)}", "", shown
    if looked.snapshot is None and not looked.infos:
        yield "files in landing", missing(table), ""
        return
    if isinstance(landing, Refused):
        yield "files in landing", str(landing), ""
        return
    counts = f"{len(landing.new):,} new, {landing.absorbed:,} ingested before, {landing.waiting:,} may not be complete"
    yield "files in landing", "".join(landing.notes), counts
    infos = {relative(info.path, spec.landing): info for info in looked.infos if not info.problem}
    if problem := _formats(spec, infos):
        yield "formats", problem, ""
    files = [
        path
        for path, info in infos.items()
        if info.size and not increment.ignored(path, spec.ignore) and increment.landed(spec.pattern, path, load_files=spec.source.load_files)
    ]
    if files and looked.samples:
        yield from _contents(spec, table, files, infos, looked.snapshot is not None)


def _stored(spec: TableSpec, snapshot: Snapshot) -> str:
    """Return why the next run would refuse settings that stored rows were written under; "" if it would not."""
    schema, order = snapshot.schema, [name for name, _ in snapshot.order if not name.startswith("dms.")]
    try:
        # a column that is not stored may come with the next files, as another name of one that is
        if all(called(name, schema.fields) for name in spec.row_key):
            evolution.key_columns(schema.fields, spec.row_key, spec.name, schema)
        position.check_order(spec.name, spec.order_by, order)
        column_types.check(spec.name, schema, column_types.declared(spec.types))
        protection.check(spec.name, schema, spec.columns)
    except Refused as error:
        return str(error).removeprefix(f"table {spec.name}: ")
    return ""


def _formats(spec: TableSpec, paths: Iterable[str]) -> str:
    odd = [path for path in paths if not increment.ignored(path, spec.ignore) and spec.format == "auto" and not increment.file_format(path)]
    if not odd or spec.container == "kafka":
        return ""
    suffixes, has = ", ".join(increment.SUFFIXES), "has" if len(odd) == 1 else "have"
    return f"{counted(len(odd), 'file')} ({odd[0]}) {has} none of the suffixes {suffixes}; remove them, or set `format:`"


def _contents(spec: TableSpec, table: Table, files: Sequence[str], infos: Mapping[str, FileInfo], committed: bool) -> Iterator[tuple[str, str, str]]:
    unreadable: list[str] = []
    profiles_by_source = sample(table.storage, table.env.read_sample, files, infos, unreadable, spec)
    profiles = [profile for profile in profiles_by_source.values() if profile.columns or profile.csv or profile.opaque]
    if unreadable or not profiles:
        yield "records", "; ".join(unreadable) or f"the sampled files of {spec.landing} have no rows", ""
    if not profiles:
        return
    names = [profile.table for profile in profiles if profile.table]
    if several := several_tables(spec, profiles):
        yield "source table", several, ""
    if spec.source_table:
        profiles = [profile for profile in profiles if not profile.table or shared_stream.selects(spec.source_table, profile.table)]
        problem = "" if profiles else f"`source_table: {spec.source_table}` is none of the tables in the sampled files: {', '.join(names[:10])}"
        if spec.source.order_columns and not (names or committed) and any(profile.columns for profile in profiles):
            problem = flat_rows.NO_TABLE
        bare = [name for name in names if "." not in name] if "." in spec.source_table else []
        compared = f"; the rows name no schema, so that only the table is compared ({', '.join(bare[:10])})" if bare else ""
        yield "source table", problem, f"{spec.source_table}{compared}"
    if profiles and not any(profile.opaque for profile in profiles):
        other = other_envelope(spec, profiles)
        yield "envelope", other, spec.envelope
        if not other:
            yield from _columns(spec, profiles, committed)


def _columns(spec: TableSpec, profiles: Sequence[SourceProfile], committed: bool) -> Iterator[tuple[str, str, str]]:
    dialect = next((problem for profile in profiles if (problem := _dialect(spec, profile))), "")
    if any(profile.csv_width for profile in profiles):
        yield "CSV dialect", dialect, f"values separated by {spec.csv.delimiter!r}"
    columns = [*dict.fromkeys(name for profile in profiles for name in profile.columns), *spec.csv.columns]
    if dialect or not columns or spec.avro_schema:
        return
    if problem := flat_rows.unsent(spec, columns) or _never_null(spec, profiles):
        yield "columns with a meaning", problem, ""
    if spec.key and not spec.delete_when and any(profile.loses_deletes(spec.op, spec.order_by) for profile in profiles):
        yield "deletes", flat_rows.LOST_DELETES, ""
    if spec.op is None:
        yield from [*_deletes(spec, profiles, committed)][:1]
    present = {name.lower() for name in columns}
    configured: dict[str, tuple[str, ...]] = {"key": spec.key, "cluster_by": spec.cluster_by, "track": spec.track}
    if spec.source.plain_rows and spec.container == "value":
        configured.update(order_by=tuple(name.removeprefix("after.") for name in spec.order_by), op=(spec.op,) if spec.op else ())
        configured.update(metadata_columns=spec.metadata_columns)
    configured.update(types=tuple(name for name, _ in spec.types))
    if spec.source.order_columns and not spec.order_by and not all(profile.ordered for profile in profiles):
        yield "columns of `order_by`", f"`order_by` is not set, and the rows carry no order; set it to columns out of {', '.join(columns[:20])}", ""
    if unprotected := [rule.column for rule in spec.columns if not rule.covers(*columns)]:
        yield "columns of `columns`", f"{_absent(unprotected, columns)}. A mistyped name protects nothing", ""
    unstored = [name for name in spec.key if spec.source.order_columns and flat_rows.is_metadata(spec, name, None)]
    problems = {
        "key": f"{unstored[0]} is not stored; {absent_key(unstored[0], None)}"
        if unstored
        else next((problem for profile in profiles if (problem := _repeated(spec, profile, committed))), ""),
        "order_by": next((f"{name} has objects, which have no order" for name in spec.order_by for each in profiles if name in each.members), ""),
        "types": next((problem for name, kind in spec.types for profile in profiles if (problem := _misfit(spec, profile, name, kind))), ""),
    }
    if not spec.subject and (encoded := {name: word for profile in profiles for name, word in _encoded(spec, profile).items()}):
        looks = "; ".join(value_forms.sentence(own, profile.example) for profile in profiles if (own := _encoded(spec, profile)))
        written = ", ".join(f"{name}: {json.dumps(word) if '(' in word else word}" for name, word in encoded.items())
        hint = f"{looks}. Without a schema the values do not say; write `types: {{{written}}}`"
        # a number in hand-made rows may well be what it looks like
        certain = any(map(value_forms.is_decimal, encoded.values())) or spec.source.from_connector or any(name.startswith("__") for name in columns)
        yield UNCERTAIN, hint if certain else "", hint
    for setting, names in configured.items():
        absent = [name for name in names if name.lower() not in present]
        if names:
            around = next((name for each in profiles for name in each.members if {*map(str.lower, absent)} <= each.members[name]), None)
            wrapped = f"; {absent_key(absent[0], around)}" if absent and around and setting == "key" else ""
            yield f"columns of `{setting}`", f"{_absent(absent, columns)}{wrapped}" if absent else problems.get(setting, ""), ", ".join(names)


def _never_null(spec: TableSpec, profiles: Sequence[SourceProfile]) -> str:
    """Return the column of `delete_when` that is empty text where it is compared with null. In a declared type empty text is null."""
    named = {name.lower() for name in re.findall(r"(\w+)`? +IS +NOT +NULL", spec.delete_when or "", re.IGNORECASE)}
    named -= {name.lower() for name, kind in spec.types if kind != "string"}
    named -= {name.lower() for name in re.findall(r"(\w+)`? *(?:<>|!=|=) *''", spec.delete_when or "")}
    rows = (row for profile in profiles if profile.quoted for rows in profile.sample.files for row in rows)
    column = next((name for row in rows for name, value in row.items() if value is None and name.lower() in named), "")
    looks = f'{column} has `""`, which is text and no null, so that each row would be a delete'
    return column and f"{looks}; declare its type in `types:`, or compare it with '' in `delete_when`"


def _deletes(spec: TableSpec, profiles: Sequence[SourceProfile], committed: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what looks like an operation, or else like a mark of deleted rows, and is not set."""
    marks = {*flat_rows.operation_names(None), flat_rows.DELETED}
    for profile in profiles:
        if (operation := profile.likely_operation) and operation["op"] not in (spec.delete_when or ""):
            settings = " and ".join(f"`{name}: {proposal.flow(value)}`" for name, value in operation.items())
            hint = f"the values of {operation['op']} look like operations; set {settings}, or each delete is one more row"
            yield ("operation", hint, "") if profile.certain_operation else (DELETED, "", hint)
        elif spec.envelope != "flat" or operation or committed or spec.delete_when or marks & {*profile.columns}:
            continue
        elif deletes := profile.likely_deletes:
            yield DELETED, "", f'{deletes.split()[0]} may mark deleted rows; then set `delete_when: "{deletes}"`'


def _repeated(spec: TableSpec, profile: SourceProfile, committed: bool) -> str:
    """Return why the key cannot be the rows' key, by the sampled rows. `committed`: a few repeated keys do not speak against one in use."""
    names = {name.lower(): name for name in (*spec.csv.columns, *profile.columns)}
    key, order = ([names.get(name.lower(), name) for name in columns] for columns in (spec.key, spec.order_by))
    evidence = key_inference.repeated(profile.sample, [*names.values()], key, spec.name, order) if key else None
    own = profile.key is not None and {*map(str.lower, profile.key)} == {*map(str.lower, spec.key)}
    # two shards may have equal keys, and two snapshots in one file have
    if evidence is None or own or spec.shard or (committed and 2 * evidence.values > evidence.rows):
        return ""
    without_operation = spec.source.order_columns and not {*flat_rows.operation_names(spec.op), flat_rows.DELETED} & {*profile.columns}
    if without_operation:
        # each row may be another state of the same one: only a column that is named like a key speaks against it, and many rows of few keys
        named = [name for name in evidence.unique if key_inference.is_named_like_a_key(name, spec.name)]
        if evidence.together or not named or evidence.rows < key_inference.ROWS_SURE or 2 * evidence.values > evidence.rows:
            return ""
    return f"{evidence.sentence}. Correct `key:`, or rows are lost"


def _encoded(spec: TableSpec, profile: SourceProfile) -> dict[str, str]:
    """Return column → word of `types:`, for columns that most likely need one and have none."""
    settled = {name for name, _ in spec.types} | {*spec.key}
    encoded = profile.likely(value_forms.JSON_FORMS)
    return {name: word for name, word in encoded.items() if name not in settled and not any(rule.covers(name) for rule in spec.columns)}


def _misfit(spec: TableSpec, profile: SourceProfile, column: str, kind: str) -> str:
    """Return a sampled value that does not have its column's declared type, if most have not. A few go to quarantine."""
    values = [value for name in profile.columns if name.lower() == column.lower() for value in profile.values(name)]
    # a decimal may be bytes, or have its scale beside it
    given = [value for value in values if not (value_forms.is_decimal(kind) and isinstance(value, (bytes, dict)))]
    unlike = [value for value in given if not value_forms.has_type(str(value), kind, not profile.csv_width)]
    if 2 * len(unlike) <= len(values):
        return ""
    shown = repr(unlike[0]) if spec.quotes_records else "of another type"
    return f"a sampled value of {column} is {shown}, expected {kind}; correct `types:`, or leave {column} out"


def _absent(absent: Sequence[str], columns: Sequence[str]) -> str:
    close = difflib.get_close_matches(absent[0], columns, 1, 0.6)
    hint = f"; did you mean {close[0]}?" if close else ""
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    return f"no sampled file has {', '.join(absent)}; the columns are {', '.join(columns[:20])}{more}{hint}"


def _dialect(spec: TableSpec, profile: SourceProfile) -> str:
    """Return how the CSV files differ from the dialect in the configuration."""
    if not profile.csv_width:
        return ""
    delimiter = profile.csv.get("delimiter", ",")
    if delimiter != spec.csv.delimiter and profile.csv_width > 1:
        return f"the values are separated by {delimiter!r}, expected {spec.csv.delimiter!r}; {csv_delimiter(delimiter)}"
    header = spec.csv.header if spec.csv.header is not None else spec.source.csv_header and not spec.csv.columns
    if header and not profile.columns:
        return "the files seem to have no header; set `csv: {columns: [..]}` to their columns in order"
    if not header and profile.columns and not spec.csv.columns:
        return "the files begin with a header; set `csv: {header: true}`"
    if not header and not spec.csv.columns and not spec.avro_schema:
        return "the files have no header, and nothing names their columns; set `csv: {columns: [..]}` to the columns in their order"
    if spec.csv.columns and not profile.columns and profile.csv_width != len(spec.csv.columns):
        return f"the rows have {profile.csv_width} values, expected {len(spec.csv.columns)} as in `csv: {{columns: ..}}`"
    return ""


def _shared(spec: TableSpec, others: Sequence[TableSpec]) -> str:
    """Return which other table reads the same landing files, unless both select their source table from a stream."""
    for other in others:
        if other.name == spec.name or (spec.source_table and other.source_table):
            continue
        below = not other.pattern and spec.landing.startswith(other.landing + "/")
        above = not spec.pattern and other.landing.startswith(spec.landing + "/")
        if below or above or (spec.landing, spec.pattern) == (other.landing, other.pattern):
            return f"table {other.name} reads the same files ({other.landing}); give each its own folder, or set `source_table:` in both"
    return ""
