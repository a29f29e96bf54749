"""`compactor init`: open storage and registry, and write paths relative to the new file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import Refused
from compactor.core.settings.s3 import S3Settings
from compactor.core.sources.proposal import Proposal, TableProposal
from compactor.duckdb import sample
from compactor.flows.land import propose as flow
from compactor.ports import Storage
from compactor.registry.settings import RegistrySettings, addresses, shown
from compactor.storage.local import LocalStorage
from compactor.storage.routed import RoutedStorage


def propose(top: str | None, registry: str | None, warehouse: str, increments: str, options: Mapping[str, str]) -> Proposal:
    """Propose tables from files below `top`, from a registry (URL or folder of .avsc files), or from files with the registry's keys.

    `options` are keys of `registry:` in compactor.yaml. Raises Refused when nothing is found, RegistryRefused, Unavailable.
    """
    scanned = _existing(top, "path") if top else ""
    storage = RoutedStorage(LocalStorage(), _s3)
    opened = _registry(registry, storage, options) if registry else None
    try:
        if opened is not None and not scanned:
            return flow.from_registry(opened, increments)
        return flow.from_files(storage, sample.read, scanned, absolute(warehouse, os.getcwd()), opened)
    finally:
        if opened is not None:
            opened.close()


def _existing(folder: str, noun: str) -> str:
    """Return a folder's absolute path. Raises Refused if it is none."""
    path = absolute(folder, os.getcwd())
    if not is_s3(path) and not os.path.isdir(path):
        raise Refused(f"{noun} {path} {'is a file; give its folder' if os.path.exists(path) else 'does not exist'}")
    return path


def _registry(place: str, storage: Storage, options: Mapping[str, Any]) -> Any:
    if "://" not in place or is_s3(place):
        from compactor.registry.files import FileRegistry

        return FileRegistry(storage, _existing(place, "schema folder"))
    from compactor.registry.confluent import ConfluentRegistry

    return ConfluentRegistry(RegistrySettings(urls=(place,), **options))


def _s3(location: str) -> Storage:
    from compactor.storage.s3.storage import S3Storage

    return S3Storage(location, S3Settings().within(os.environ))


def registry_keys(registry: str | None, options: Mapping[str, str], base: str) -> dict[str, Any]:
    """Return the mapping below `registry:` for a URL or folder, without user and password."""
    if registry is None:
        return {}
    if "://" not in registry:
        return {"url": os.path.relpath(os.path.abspath(os.path.expanduser(registry)), base)}
    return {"url": addresses(RegistrySettings(urls=(registry,)))[0], **options}


def warehouse_in_file(warehouse: str | None, top: str | None, proposal: Proposal, base: str) -> str:
    """Return the warehouse as a file in the folder `base` writes it: a relative path if it is inside `base`.

    Default: the scanned folder if the landing folders are where tables expect them; else a folder of the same bucket, or beside the file.
    """
    if warehouse is None and top is not None and any("increments" not in table.settings for table in proposal.tables):
        warehouse = top
    elif warehouse is None:
        warehouse = f"s3://{top.partition('://')[2].partition('/')[0]}/warehouse" if top and is_s3(top) else os.path.join(base, "warehouse")
    whole = absolute(warehouse, os.getcwd())
    return os.path.relpath(whole, base) if _inside(whole, base) else whole


def _inside(path: str, base: str) -> bool:
    return not is_s3(path) and not os.path.relpath(path, base).startswith("..")


def relative_increments(proposal: Proposal, warehouse: str, base: str) -> Proposal:
    """Return the proposal with landing folders relative to the warehouse, where both are in the folder `base` of the new file.

    Then the folder can be moved, and the file can be shared. `warehouse` is written as in the file.
    """
    home = absolute(warehouse, base)

    def relative(table: TableProposal) -> TableProposal:
        landing = str(table.settings.get("increments", ""))
        if not landing.startswith("/") or not _inside(landing, base) or not _inside(home, base):
            return table
        return replace(table, settings={**table.settings, "increments": os.path.relpath(landing, home)})

    return replace(proposal, tables=tuple(map(relative, proposal.tables)))


def without_secrets(word: str) -> str:
    """Return a word of the command line; an address without its password."""
    return shown(word) if word.startswith(("http://", "https://")) else word
