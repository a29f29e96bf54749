"""Appeared: make a table of a landed folder that fits an entry of `discover:`, if its source names the key. Values are never a reason for a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from compactor.core.model.files import FileInfo
from compactor.core.model.layout import join, relative
from compactor.core.planning.folders import Folder
from compactor.core.results.phrases import counted
from compactor.core.sources import increment, path_inference, records
from compactor.core.sources.path_inference import LandingFolder
from compactor.core.sources.proposal import Question, TableProposal
from compactor.core.sources.source_profile import Profiles, ReadSample, SourceProfile
from compactor.flows.land.propose import profiles_of, propose_table
from compactor.ports import Storage

_FILES_MAX = 5_000
"""Files of a new folder that are looked at."""

_KEY_RECORDS = 1_000
"""Records of a file of keys that are compared."""

_SURE = ("key", "order_by", "csv", "op")
"""Settings without which no run takes the files, or deletes become rows. Other questions are comments in the file of the table."""


def appeared(storage: Storage, read: ReadSample, folder: Folder, topics: Profiles) -> TableProposal:
    """Return the table that a folder becomes, or why that is not certain. `topics`: those of the registry, with their keys."""
    entry, infos = folder.discovery, {relative(info.path, folder.path): info for info in islice(storage.list(folder.path), _FILES_MAX)}
    waiting = TableProposal(folder.name, folder.path)
    landed = _landed(folder.path, infos, entry.pattern)
    if landed is None:
        below = f"lies in folders that fit {entry.pattern!r}" if entry.pattern else "lies in folders of one form"
        return replace(waiting, waits=f"no file {below}; correct `from:` of the entry in `discover:`")
    profiles, reason = profiles_of(storage, read, landed, infos, topics)
    if len(profiles) != 1:
        tables = ", ".join(profile.table or "no table" for profile in profiles[:5])
        several = f"its records are of several source tables ({tables}); write a table with `source_table:` for each"
        return replace(waiting, waits=several if profiles else reason)
    (profile,) = profiles
    given = {**entry.inherited, **entry.keys}
    if "key" in entry.keys:
        profile.key, profile.key_from = tuple(entry.keys["key"]), "the entry of `discover:`"
    elif not profile.subject:
        _add_certain_key(storage, infos, profile)
    if not profile.key and entry.inherited.get("key"):
        profile.key, profile.key_from = tuple(entry.inherited["key"]), "`defaults:`"
    table = propose_table(folder.name, folder.path, profile, join(landed.root, landed.pattern), guess=False)
    return replace(
        table,
        settings={**table.settings, **entry.keys},
        questions=tuple(each for each in table.questions if not {*each.settings} & {*given}),
        key_from=f"{profile.key_from} ({counted(max(profile.sample.rows, 1), 'row')} sampled)",
        waits=_uncertain(profile, table, given, entry.keys),
    )


def _uncertain(profile: SourceProfile, table: TableProposal, given: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Return why the table is not certain, and what to write; "" if it is. `given`: its keys, `own`: those of the entry."""
    if profile.opaque and not profile.topic:
        return "only Spark can unpack its files; write the table below `tables:`"
    envelope = str(own.get("envelope", profile.envelope))
    if envelope != profile.envelope and not profile.opaque:
        return f"its records look like `envelope: {profile.envelope}`, and the entry of `discover:` has {envelope}"
    sure = {*_SURE} - {*given} - (set() if profile.certain_operation else {"op"})
    open_questions = [each for each in table.questions if {*each.settings} & sure]
    if not profile.key and "key" not in given and not any("key" in each.settings for each in open_questions):
        text = "Its source has no key. `key: []` is a table without one: only inserts and rows with a before image can be followed."
        open_questions.insert(0, Question(text, {"key": []}))
    if profile.keys_differ and "key" not in given:
        open_questions.insert(0, Question("Its records have keys of different columns.", {"key": list(profile.key or ())}))
    if not open_questions:
        return ""
    settings = {**table.settings, **own, **{name: value for each in reversed(open_questions) for name, value in each.settings.items()}}
    line = json.dumps({table.name: settings}, ensure_ascii=False)[1:-1]
    return f"{' '.join(each.question for each in open_questions)} Write below `tables:`, and correct it: {line}"


def _landed(folder: str, infos: Iterable[str], pattern: str) -> LandingFolder | None:
    """Return the one place of the files below a folder, with its full path; None if they have none or several."""
    if pattern:
        files = tuple(sorted(path for path in infos if not increment.ignored(path) and increment.landed(pattern, path, load_files=True)))
        return LandingFolder(folder, pattern, files) if files else None
    folders = path_inference.landing_folders(infos)
    return replace(folders[0], root=join(folder, folders[0].root)) if len(folders) == 1 else None


def _add_certain_key(storage: Storage, infos: Mapping[str, FileInfo], profile: SourceProfile) -> None:
    """Keep the key of Kafka records or of a primary key that the events name. Else look for one beside the files; without any there is none."""
    if profile.key is not None and (profile.container == "kafka" or profile.key_from == records.PRIMARY_KEY):
        return
    profile.key, profile.key_from, profile.keys_differ = None, "", False
    for source, names in (*_of_key_files(storage, infos), *_of_definitions(storage, infos)):
        profile.keys_differ = profile.keys_differ or (profile.key is not None and names != profile.key)
        profile.key, profile.key_from = names, source


def _of_key_files(storage: Storage, infos: Mapping[str, FileInfo]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the keys with schemas in the newest file of keys that Kafka Connect's S3 sink has written beside the values."""
    path = max((path for path in infos if re.search(r"\.keys\.json$", path)), default=None)
    for line in storage.read(infos[path].path).splitlines()[:_KEY_RECORDS] if path else ():
        document = records.parsed(line.decode(errors="replace"))
        name, payload = records.without_schema(document)
        if name and isinstance(payload, dict):
            yield f"the keys of its records in {path}", records.key_columns(payload)


def _of_definitions(storage: Storage, infos: Mapping[str, FileInfo]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the primary keys of DMS's table definitions in files such as `_definition.json`, which are no data (`TableColumns`, `ColumnIsPk`)."""
    for path in infos:
        if re.fullmatch(r"(?:.*/)?_[^/]*\.json", path) is None:
            continue
        content = records.parsed(storage.read(infos[path].path).decode(errors="replace"))
        tables = content.get("Tables", [content]) if isinstance(content, dict) else []
        for table in tables if isinstance(tables, list) and len(tables) == 1 else ():
            columns = table.get("TableColumns") if isinstance(table, dict) else None
            named = [each for each in columns or () if isinstance(each, dict) and str(each.get("ColumnIsPk")).lower() == "true"]
            if named:
                yield f"the table definition {path}", tuple(str(each.get("ColumnName")) for each in named)
