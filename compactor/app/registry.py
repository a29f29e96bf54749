"""Schema registries for an App: open the configured one, and read keys and schemas of tables from it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compactor.config.settings import Settings
from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import RegistryRefused
from compactor.core.model.spec import TableSpec
from compactor.core.schema import avro
from compactor.ports import Registry, Storage

if TYPE_CHECKING:
    from compactor.registry.confluent import ConfluentRegistry
    from compactor.registry.files import FileRegistry


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
        from compactor.registry.files import FileRegistry

        return FileRegistry(storage, absolute(urls[0], here))
    from compactor.registry.confluent import ConfluentRegistry
    from compactor.registry.http import RegistrySettings

    return ConfluentRegistry(RegistrySettings(urls=urls, **options))


def with_newest_schema(registry: Registry, spec: TableSpec) -> TableSpec:
    """Return the spec with the newest schema of its subject, and with the registered key if the file gives none. Raises RegistryRefused."""
    subject = str(spec.subject)
    newest = registry.latest(subject)
    if newest is None:
        near = difflib.get_close_matches(subject, registry.subjects(), 1, 0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise RegistryRefused(f"table {spec.name}: {registry} has no subject {subject}{hint}")
    key = registered_key(registry, spec) if spec.registered_key else spec.key
    return dataclasses.replace(spec, avro_schema=newest.text, key=key, registered=(newest.version, newest.id))


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
