"""Propose tables for a configuration, from a registry's subjects or from landed files. Reads only and starts no Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from compactor.core.model.errors import Refused, RegistryRefused, SchemaRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.layout import join, relative
from compactor.core.model.position import DEFAULTS
from compactor.core.model.spec import ROW_ID, TableSpec
from compactor.core.results.phrases import counted
from compactor.core.schema import avro
from compactor.core.sources import flat_rows, increment, key_inference, path_inference, records, source_profile, value_forms
from compactor.core.sources.flat_rows import DELETED, OPERATION, PLAIN_OPERATION
from compactor.core.sources.key_inference import ProposedKey
from compactor.core.sources.path_inference import LandingFolder
from compactor.core.sources.proposal import Proposal, Question, TableProposal
from compactor.core.sources.source_profile import Profiles, ReadSample, SourceProfile
from compactor.ports import Registry, Storage

SIGNAL = "has the columns of Debezium's signal table; add it if it is one of your tables"

ROWLESS = "holds no rows: heartbeats, transactions or messages"

_LIKELY_ORDER = ("__source_ts_us", "__source_ts_ms", "__ts_us", "__ts_ms", "AR_H_CHANGE_SEQ", "transact_id", "seq", "lsn", "version", "updated_at")
_POSITION = re.compile(r"_(?:lsn|scn|csn|cursor|sequence|change_seq)$", re.IGNORECASE)
_CHANGED = re.compile(r"(?:^|_)(?:changed|updated|modified|last_?update|last_?modified)", re.IGNORECASE)

_SIGN = re.compile(f"%|{increment.GLOB.pattern}")
"""What no folder of `increments:` may have in its name."""

LeftOut = list[tuple[str, str]]


RECORDS_MAX = 300
"""Records read from a file in a folder of one table."""
STREAM_RECORDS_MAX = 50_000
"""Records read from each file where several tables share a folder: a table that is not seen is not proposed."""
SIZE_MAX = 1 << 20
"""Bytes of a sampled file. Larger ones are read only where there is no smaller one."""
TRIES_MAX = 3
"""Files of a folder that are tried until one can be read."""


def from_registry(registry: Registry, increments: str) -> Proposal:
    """Propose a table for each topic. `increments`: where files land, with `{table}` or `{topic}` in it."""
    registered, left_out = topics_of(registry)
    topics = {topic: profile for topic, profile in registered.items() if not profile.is_signal_table}
    if not topics:
        raise Refused(
            f"{registry}: expected subjects <topic>-value of topics with rows, found {', '.join(registry.subjects()[:10]) or 'no subjects'}"
        )
    tables = []
    for name, (topic, profile) in zip(path_inference.table_names([*topics]), topics.items()):
        place = increments.replace("{table}", name).replace("{topic}", topic)
        tables.append(propose_table(name, f"topic {topic}", profile, place))
    return Proposal(tuple(tables), tuple(left_out))


def topics_of(registry: Registry) -> tuple[Profiles, LeftOut]:
    """Return the profile of every topic with a `-value` subject that holds rows, and the subjects left out: the signal table is in both."""
    subjects = registry.subjects()
    topics: Profiles = {}
    left_out: LeftOut = []
    for subject in subjects:
        topic, _, kind = subject.rpartition("-")
        if kind == "value":
            try:
                latest = registry.latest(subject)
                profile = source_profile.of_avro(latest.text) if latest else None
            except (SchemaRefused, RegistryRefused) as error:
                # Protobuf, JSON Schema or an invalid schema concerns one topic only
                left_out.append((topic, str(error)))
                continue
            if profile is None:
                left_out.append((topic, ROWLESS))
                continue
            if profile.is_signal_table:
                left_out.append((topic, SIGNAL))
            profile.topic, profile.subject, topics[topic] = topic, subject, profile
            _add_registered_key(registry, f"{topic}-key", profile, subjects)
        elif kind != "key":
            left_out.append((subject, "a subject that ends neither in -value nor in -key belongs to no topic"))
    return topics, left_out


def _add_registered_key(registry: Registry, subject: str, profile: SourceProfile, subjects: list[str]) -> None:
    profile.key_from = subject
    if subject not in subjects and profile.source.from_connector:
        # Debezium registers no key for a table without one; other producers may just not register it
        profile.key, profile.key_from = (), f"no subject {subject}"
    elif subject in subjects and (latest := registry.latest(subject)):
        with contextlib.suppress(SchemaRefused):
            profile.key = avro.key_fields(latest.text)


def from_files(storage: Storage, read: ReadSample, top: str, registry: Registry | None = None) -> Proposal:
    """Propose a table for each landing root below `top`, or for each source table where several share one. `registry` supplies keys and schemas."""
    infos = {relative(info.path, top): info for info in storage.list(top) if not info.problem}
    folders = path_inference.landing_folders(infos)
    if not folders:
        raise Refused(f"{top}: no landed files there" + (f", only {counted(len(infos), 'marker or unfinished file')}" if infos else ""))
    topics, left_out = topics_of(registry) if registry else ({}, [])
    rowless = {topic for topic, reason in left_out if reason == ROWLESS}
    empty: LeftOut = []
    landings: list[tuple[LandingFolder, SourceProfile, bool]] = []
    for folder in folders:
        if sign := _SIGN.search(folder.root):
            empty.append((folder.root, f"a name with {sign[0]!r}, which means something else in `increments:`; rename the folder"))
            continue
        profiles, reason = profiles_of(storage, read, folder, infos, topics)
        profiles = [profile for profile in profiles if not (profile.opaque and profile.topic in rowless)]
        if reason:
            empty.append((folder.root or top, reason))
        landings += [(folder, profile, len(profiles) > 1) for profile in profiles]
    if not landings:
        reasons = [reason if source == top else f"{source}: {reason}" for source, reason in empty[:5]]
        raise Refused(f"{top}: no table found; {'; '.join(reasons)}")
    base = top.rstrip("/").rpartition("/")[2]
    names = path_inference.table_names([(profile.table or profile.topic) if shared else folder.name(base) for folder, profile, shared in landings])
    tables = []
    for name, (folder, profile, shared) in zip(names, landings):
        place = folder.root or top
        source = f"{profile.table or profile.topic or 'records without a table'} in {place}" if shared else place
        tables.append(propose_table(name, source, profile, join(top, folder.root, folder.pattern), shared))
    return Proposal(tuple(tables), (*left_out, *empty))


def profiles_of(
    storage: Storage, read: ReadSample, folder: LandingFolder, infos: Mapping[str, FileInfo], topics: Profiles
) -> tuple[list[SourceProfile], str]:
    """Sample the files of a folder. Return the tables whose rows they have, with the registry's keys, and why they show none or what is left out.

    `infos`: the files by the paths of `folder.files`; `topics`: the registry's.
    """
    unreadable: list[str] = []
    profiles = [*sample(storage, read, folder.files, infos, unreadable).values()]
    rows = [row for profile in profiles if not (row := _with_topic(profile, folder, topics)).is_signal_table]
    if not profiles:
        return [], "; ".join(["no rows in the sampled files", *unreadable])
    return rows, SIGNAL if len(rows) < len(profiles) else ""


def _with_topic(profile: SourceProfile, folder: LandingFolder, topics: Profiles) -> SourceProfile:
    """Add what the registry says of a topic: its key, and of values that cannot be read here all else.

    The topic is the one that the records or files name, else the one that the folder is named after.
    """
    if profile.topic not in topics:
        last = folder.name("")
        alike = [topic for topic in topics if last and (topic == last or topic.endswith(f".{last}"))]
        alike = alike or [topic for topic in topics if profile.table and topic.endswith(f".{profile.table}")]
        if len(alike) != 1:
            return profile
        profile.topic = alike[0]
    topic = topics[profile.topic]
    profile.subject = topic.subject
    if profile.opaque:
        profile.envelope, profile.connector, profile.columns, profile.opaque = topic.envelope, topic.connector, topic.columns, False
    if profile.key is None and topic.key is not None:
        # as the files spell it: Connect's Avro converter writes `a_b` for `a.b`
        spelled = {re.sub(r"[^A-Za-z0-9]", "_", column): column for column in profile.columns}
        profile.key = tuple(name if name in profile.columns else spelled.get(name, name) for name in topic.key)
        profile.key_from = topic.key_from
    return profile


def propose_table(name: str, source: str, profile: SourceProfile, increments: str, shared: bool = False, guess: bool = True) -> TableProposal:
    """Assemble a table: known settings without those that are the default, and questions about the others.

    `shared`: several sources share its folder; `guess`: whether values may give it its key.
    """
    key, key_from, operation = profile.key, profile.key_from, profile.likely_operation
    unnamed, columns = "columns" in profile.csv, profile.row_columns or tuple(profile.csv.get("columns", ()))
    columns = tuple(name for name in columns if name != operation.get("op"))
    if (key == () and not profile.source.before_image) or ROW_ID in (key or ()):
        # an update of a flat row could not find its row; a key that names compactor's own column is none
        key = None
    if profile.key_from == records.OLD_KEYS and profile.keys_differ:
        # whole rows, each without its nulls
        key = None
    # a router adds the name of a table or shard to the key alone
    absent = tuple(each for each in key or () if columns and each not in columns) if profile.key_from == records.RECORD_KEYS else ()
    refuted = f"no sampled row has {', '.join(absent)}" if absent else _refuted(profile, columns, name) if key else ""
    if refuted:
        refused = absent or key or ()
        rest = dataclasses.replace(profile.sample, old=tuple(each for each in profile.sample.old if each not in refused))
        columns, profile, key = tuple(each for each in columns if each not in refused), dataclasses.replace(profile, sample=rest), None
    proposed = key_inference.propose(profile.sample, columns, name) if key is None and not profile.opaque else None
    if guess and not refuted and proposed and proposed.likely and not unnamed:
        key, key_from = proposed.columns, f"inferred, verify it: {proposed.reason}"
    questions: list[Question] = []
    if profile.foreign:
        questions.append(Question(f"These records look like {profile.foreign}'s, which are not read. Land one row a record, or Debezium's records."))
    if operation:
        questions.append(Question(f"The values of {operation['op']} look like operations; without `op:` a delete is one more row.", operation))
    if unnamed:
        end = f", without {profile.source.operation_column}." if profile.source.unnamed_operation else "."
        questions.append(Question(f"The files have no header; name their columns in order{end}", {"csv": profile.csv}))
    if key is None:
        named = [column for column in columns if key_inference.is_named_like_a_key(column, name)]
        questions.append(_key_question(profile, proposed, named, columns, refuted))
    questions += [*_order_questions(profile), *_value_questions(profile, key or ())]
    if profile.opaque:
        questions.append(Question("Values such as Avro bytes and files in .snappy cannot be read here. Check `envelope:` and set `key:`."))
    if shared and not profile.table:
        questions.append(Question("Several sources share this folder, and these records name no table: they cannot be separated."))
    given: dict[str, Any] = {
        "key": None if key is None else list(key),
        "increments": increments,
        "envelope": profile.envelope,
        "container": profile.container,
        "format": profile.format,
        "schema": {"subject": profile.subject} if profile.subject else {},
        "source_table": profile.table if shared else "",
        "order_by": ["offset"] if profile.has_offsets and profile.would_lose_deletes(operation.get("op"), ()) else [],
    }
    if not unnamed:
        # dates and times in CSV are text unless they are declared
        given |= {"csv": profile.csv, "types": profile.likely(value_forms.DATED)}
    kept = {item: value for item, value in given.items() if (value or (item, value) == ("key", [])) and (item, value) != ("container", "value")}
    return TableProposal(name, source, kept, f"no key: {key_from}" if key == () else key_from if key else "", tuple(questions))


def _refuted(profile: SourceProfile, columns: Sequence[str], table: str) -> str:
    """Return why the key of the Kafka records does not identify the rows, "" if it may. A row without an operation may be another state of a row."""
    marked = profile.source.from_connector or {OPERATION, DELETED, *PLAIN_OPERATION} & {*profile.columns}
    if profile.key_from != records.RECORD_KEYS or not marked:
        return ""
    return key_inference.contradicted(profile.sample, columns, profile.key or (), table)


def _key_question(profile: SourceProfile, guess: ProposedKey | None, named: Sequence[str], columns: Sequence[str], refuted: str) -> Question:
    reason = "The records have no key; without one only inserts can be followed. " if profile.key == () else ""
    if refuted:
        reason = f"{profile.key_from[:1].upper()}{profile.key_from[1:]} ({', '.join(profile.key or ())}) do not identify the rows: {refuted}. "
    evidence = "The sampled rows do not show it."
    if guess:
        evidence = f"A guess: {', '.join(guess.columns)} ({guess.reason})."
    elif profile.sample.rows < key_inference.ROWS_MIN:
        evidence = "A guess by its name; too few rows were read." if named else "Too few rows were read."
    proposed = guess.columns if guess else (*named, *columns)[:1]
    return Question(f"{reason}Which columns identify a row? {evidence} `key: []` if rows have none.", {"key": proposed})


def _order_questions(profile: SourceProfile) -> Iterator[Question]:
    if profile.source.from_connector and profile.connector not in ("", *DEFAULTS) and not profile.has_offsets:
        unknown = f"The connector {profile.connector} has no default order; set the fields that order the changes of a row."
        yield Question(unknown, {"order_by": ["source.ts_ms"]})
    if not profile.ordered:
        lists = {column for column in profile.columns for value in profile.values(column) if str(value).startswith("[")}
        columns = [column for column in profile.columns if column not in lists or column.endswith("sequence")]
        named = [column for column in _LIKELY_ORDER if column in columns]
        named += [column for column in columns if _POSITION.search(column)]
        named += [column for column in columns if _CHANGED.search(column)]
        typed = [column for column, kind in profile.likely(value_forms.DATED).items() if kind == "timestamp"]
        hint = "A guess by its name." if named else "A guess: its values are times." if typed else "No sampled column looks like it."
        none = "" if named or typed else " If there is none and each folder has the whole table: `envelope: full-load`."
        order = (named or typed or ["changed_at"])[:1]
        yield Question(f"Which columns order the changes of a row, the most significant first? {hint}{none}", {"order_by": order})


def _value_questions(profile: SourceProfile, key: Sequence[str]) -> Iterator[Question]:
    # a registry's schema shows what they are
    if (encoded := {name: word for name, word in profile.likely(value_forms.JSON_FORMS).items() if name not in key}) and not profile.subject:
        yield Question(f"{value_forms.sentence(encoded, profile.example)}. Without a schema the values do not say.", {"types": encoded})
    if deletes := profile.likely_deletes:
        yield Question(f'{deletes.split()[0]} may mark deleted rows: then add `delete_when: "{deletes}"`.')
    for column, form in profile.likely(value_forms.FOREIGN).items():
        yield Question(f"{column} has {form} ({profile.example(column)}). It becomes text; convert it at the source, or in queries.")


def sample(
    storage: Storage,
    read: ReadSample,
    files: Sequence[str],
    infos: Mapping[str, FileInfo],
    unreadable: list[str],
    spec: TableSpec | None = None,
) -> Profiles:
    """Profile a file of the first, the middle and the last folder, the largest one below SIZE_MAX; all files when these show several tables.

    `files` are keys of `infos`. Files that cannot be read are left out, and added to `unreadable` with the reason; the next file of their folder is
    read instead. `spec`: their table, if it is configured.
    """
    plain = partial(records.flat, column=spec.op, codes=flat_rows.operations(spec)) if spec else records.flat
    # a README beside CSV files is no data
    data = [path for path in files if increment.file_format(path)] or list(files)
    full = [path for path in data if infos[path].size > 0] or data
    parents = sorted({path.rpartition("/")[0] for path in full})
    profiles: Profiles = {}
    empty: list[str] = []

    def add(path: str, records_max: int) -> str:
        """Add what a file shows to `profiles`. Return why it cannot be read."""
        try:
            source_profile.of_file(path, read(path, storage.read(infos[path].path), records_max, spec), profiles, plain)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            return f"{path} cannot be read ({error})"
        return ""

    def worth(path: str) -> tuple[bool, int]:
        # the largest of moderate size shows most rows; else the smallest
        size = infos[path].size
        return (True, size) if size <= SIZE_MAX else (False, -size)

    for parent in dict.fromkeys((parents[0], parents[len(parents) // 2], parents[-1])):
        for path in sorted((path for path in full if path.rpartition("/")[0] == parent), key=worth, reverse=True)[:TRIES_MAX]:
            if problem := add(path, RECORDS_MAX):
                unreadable.append(problem)
            elif profiles:
                break
            else:
                empty.append(path)
    if len(profiles) > 1:
        profiles.clear()
        for path in data:
            add(path, STREAM_RECORDS_MAX)
    if not profiles:
        no_suffix = f"; its name has none of the suffixes {', '.join(increment.SUFFIXES)}: set `format:`"
        unnamed = [path for path in empty if (spec is None or spec.format == "auto") and not increment.file_format(path)]
        unreadable += [f"{path} has no record that could be a row{no_suffix if path in unnamed else ''}" for path in empty]
    return profiles
