"""Schemas for an App: open the configured registry, read keys and schemas of tables from it, show what a declared schema changes, and synchronise the
catalog."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compactor.catalog.recorded import RecordedCatalog
from compactor.config.settings import Settings
from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import Refused, RegistryRefused
from compactor.core.model.spec import TableSpec
from compactor.core.results.plain import Plain
from compactor.core.schema import avro, protection
from compactor.core.schema.policy import Decision
from compactor.core.schema.schema_history import expected
from compactor.flows.publish import audit, notices
from compactor.flows.publish.sync import sync_table, with_days
from compactor.flows.table import Table
from compactor.ports import Registry, Storage
from compactor.registry.files import FileRegistry
from compactor.runtime import with_catalog

if TYPE_CHECKING:
    from compactor.registry.confluent import ConfluentRegistry


def open_registry(settings: Settings, storage: Storage) -> ConfluentRegistry | FileRegistry:
    here, keys = str(settings.file.parent), settings.registry
    plain = {name: value for name, value in dataclasses.asdict(keys).items() if value and name != "url"}
    files = {name: absolute(value, here) for name, value in plain.items() if name.endswith("_file")}
    return opened(keys.url, {**plain, **files}, storage, here)


def is_folder(url: str) -> bool:
    """Return whether this names a folder of .avsc files, local or in S3, and no server."""
    return "://" not in url or is_s3(url)


def opened(urls: tuple[str, ...], options: Mapping[str, Any], storage: Storage, here: str) -> ConfluentRegistry | FileRegistry:
    """Return a folder of .avsc files, relative to `here`, or a server with Confluent's API. `options`: its other keys."""
    if urls and is_folder(urls[0]):
        return FileRegistry(storage, absolute(urls[0], here))
    from compactor.registry.confluent import ConfluentRegistry
    from compactor.registry.http import RegistrySettings

    return ConfluentRegistry(RegistrySettings(urls=urls, **options))


def with_newest_schema(registry: Registry, spec: TableSpec) -> TableSpec:
    """Return the spec with the newest schema of its subject, and with the registered key if the file gives none.

    Raises RegistryRefused, and Refused if `columns:` would hide a column of that key.
    """
    subject = str(spec.subject)
    newest = registry.latest(subject)
    if newest is None:
        near = difflib.get_close_matches(subject, registry.subjects(), 1, 0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise RegistryRefused(f"table {spec.name}: {registry} has no subject {subject}{hint}")
    key = registered_key(registry, spec) if spec.registered_key else spec.key
    made = dataclasses.replace(spec, avro_schema=newest.text, key=key, registered=(newest.version, newest.id))
    if problem := protection.needed(made.columns, made.row_key, made.order_by):
        raise Refused(f"table {spec.name}: {problem}; remove it from `columns:`")
    return made


def registered_key(registry: Registry, spec: TableSpec) -> tuple[str, ...]:
    """Return the key columns from the key subject: `<topic>-key` for the value subject `<topic>-value`.

    Raises RegistryRefused if there is no key subject, SchemaRefused if its schema is no key.
    """
    subject = str(spec.subject)
    key_subject = f"{subject[: -len('-value')]}-key" if subject.endswith("-value") else ""
    newest = registry.latest(key_subject) if key_subject else None
    if newest is None:
        why = f"{registry} has no subject {key_subject}" if key_subject else f"the subject {subject} does not end in -value"
        raise RegistryRefused(f"table {spec.name}: the key is not in the registry: {why}. Set `key: [..]`, or `key: []` if rows have no key.")
    return avro.key_fields(newest.text)


def schemas_by_id(registry: Registry, specs: Sequence[TableSpec]) -> dict[int, str]:
    """Return the schemas that Kafka records of these tables may reference: id → text."""
    texts: dict[int, str] = {}
    for subject in dict.fromkeys(subject for spec in specs if spec.container == "kafka" for subject in _subjects(registry, spec)):
        for number in registry.versions(subject):
            version = registry.version(subject, number)
            if version.id is not None:
                texts[version.id] = version.text
    return texts


def _subjects(registry: Registry, spec: TableSpec) -> Iterator[str]:
    """Return the subjects of a table's topic. A table without subject and topic may reference any subject."""
    value = spec.subject or (f"{spec.topic}-value" if spec.topic else None)
    if value is None:
        yield from registry.subjects()
        return
    yield value
    if value.endswith("-value"):
        yield f"{value[: -len('-value')]}-key"


@dataclass(frozen=True)
class Synced(Plain):
    """What `compactor publish` did for one table."""

    table: str
    state: str
    """The state of the table's view, as a sentence."""
    statements: tuple[str, ...]
    applied: bool
    """Whether the statements were run; False after a dry run."""


def sync(table: Table, dry_run: bool, accept: bool = False) -> Synced:
    """Create or alter a table's database, tables and view. `accept`: show what `checks:` have blocked.

    Raises CatalogRefused, CheckFailed, NoRowsYet, Unavailable.
    """
    newest, notes = table.newest(), ""
    if newest is not None and not dry_run:
        newest = with_days(table, newest)
        if table.spec.rules and (accept or audit.blocked(table, newest)):
            failures = (audit.accept(table, newest) if accept else audit.again(table, newest)).failures
            notes = f", although: {'; '.join(failures)}" if accept and failures else ""
    recorded = RecordedCatalog(table.catalog(), apply=not dry_run)
    state = sync_table(with_catalog(table, recorded, applied=not dry_run), applied=not dry_run)
    return Synced(table.name, state + notes, tuple(recorded.statements), not dry_run)


@dataclass(frozen=True)
class SchemaReport(Plain):
    """What a schema changes in a table."""

    also = ("refused",)

    table: str
    before: tuple[str, int, int | None] | None
    """(subject, version, id) of the schema that the newest Snapshot used; None if it was not from a registry."""
    after: tuple[str, int, int | None] | None
    """The same of the declared schema; None if it is a file."""
    decisions: tuple[Decision, ...]
    """What a run would do about the stored columns; empty before the table's first commit."""
    level: str = ""
    """The compatibility level of the subject, if a schema was given that is to come."""
    problems: tuple[str, ...] = ()
    """Why the registry would reject that schema."""

    @property
    def refused(self) -> bool:
        """Whether the registry would reject the schema, or a run would stop at it."""
        return bool(self.problems) or any(decision.action == "refuse" for decision in self.decisions)


def schema_report(table: Table, registry: Registry | None, next_schema: str | None = None, notify: bool = False) -> SchemaReport:
    """Compare a table's declared schema, or an Avro schema that is to be its subject's next version, with the stored columns. Registers nothing.

    `notify`: send the changes to the targets of `notify:`, each once. Raises Refused without a declared schema or subject, SchemaRefused, and
    NoRowsYet before the first commit.
    """
    spec, snapshot = table.spec, table.newest()
    level, problems = "", list[str]()
    if next_schema is not None:
        if spec.subject is None or registry is None:
            raise Refused(f"table {table.name}: no subject is declared to check against; set `schema: {{subject: ..}}`")
        problems, level = registry.check(spec.subject, next_schema), registry.compatibility(spec.subject)
        spec = dataclasses.replace(spec, avro_schema=next_schema)
    elif spec.avro_schema is None:
        raise Refused(f"table {table.name}: no schema is declared; set `schema: {{subject: ..}}` or the path of an .avsc file")
    elif snapshot is None:
        raise table.no_version()
    decisions, after = expected(spec, snapshot) if snapshot else ((), None)
    if notify and snapshot:
        notices.notify(table, snapshot, decisions, after)
    used = snapshot.schema.registered if snapshot else None
    return SchemaReport(table.name, used, None if next_schema else spec.registry_version, decisions, level, tuple(problems))
