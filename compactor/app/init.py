"""`compactor init` and tables that appear: open storage and registry, write paths relative to the new file, and add tables to `discovered:`."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compactor.app.registry import is_folder, opened
from compactor.config.settings import load
from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import CompactorError, ConfigError, Refused
from compactor.core.model.layout import join
from compactor.core.planning.folders import Discovery, Folder, beside, discovered
from compactor.core.settings.s3 import S3Settings
from compactor.core.sources import proposal as proposal_text
from compactor.core.sources.proposal import Proposal, TableProposal
from compactor.duckdb import sample
from compactor.flows.land import folders as flow_folders
from compactor.flows.land import propose as flow
from compactor.flows.land.appeared import Appeared, appeared
from compactor.flows.read.plan import plan
from compactor.ports import Storage
from compactor.registry.settings import RegistrySettings, addresses, shown
from compactor.storage.local import LocalStorage
from compactor.storage.routed import RoutedStorage

if TYPE_CHECKING:
    from compactor.app.base import AppBase

log = logging.getLogger(__name__)


def propose(top: str | None, registry: str | None, warehouse: str, increments: str, options: Mapping[str, str]) -> Proposal:
    """Propose tables from files below `top`, from a registry (URL or folder of .avsc files), or from files with the registry's keys.

    `options` are keys of `registry:` in compactor.yaml. Raises Refused when nothing is found, RegistryRefused, Unavailable.
    """
    scanned = _existing(top, "path") if top else ""
    storage = RoutedStorage(LocalStorage(), _s3)
    if registry and is_folder(registry):
        registry = _existing(registry, "schema folder")
    source = opened((registry,), options, storage, os.getcwd()) if registry else None
    try:
        if source is not None and not scanned:
            return flow.from_registry(source, increments)
        return flow.from_files(storage, sample.read, scanned, absolute(warehouse, os.getcwd()), source)
    finally:
        if source is not None:
            source.close()


def _existing(folder: str, noun: str) -> str:
    """Return a folder's absolute path. Raises Refused if it is none."""
    path = absolute(folder, os.getcwd())
    if not is_s3(path) and not os.path.isdir(path):
        raise Refused(f"{noun} {path} {'is a file; give its folder' if os.path.exists(path) else 'does not exist'}")
    return path


def _s3(location: str) -> Storage:
    from compactor.storage.s3.storage import S3Storage

    return S3Storage(location, S3Settings().within(os.environ))


def registry_keys(registry: str | None, options: Mapping[str, str], base: str) -> dict[str, Any]:
    """Return the mapping below `registry:` for a URL or folder, without user and password."""
    if registry is None:
        return {}
    if is_s3(registry):
        return {"url": registry}
    if is_folder(registry):
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


# ---- tables that appear -----------------------------------------------------------------------------------------------


def look_for_tables(app: AppBase, entries: Sequence[Discovery]) -> list[Appeared]:
    """Return the folders that fit these entries, by path, and the tables that they become. Writes nothing, starts no JVM."""
    settings, storage = app.settings, app.runtime.storage
    landings = [spec.landing for spec in app.specs()]
    folders = flow_folders.untaken(storage, landings, [*discovered(entries)]) if entries else []
    if not folders:
        return []
    topics = flow.topics_of(app.open_registry())[0] if settings.registry.url else {}
    made: list[Appeared] = []
    for template in discovered(entries):
        room = template.discovery.at_most - sum(template.fits(landing) for landing in landings) if template.discovery else 0
        for folder in (folder for folder in folders if folder.template == template):
            if room <= 0:
                text = (
                    f"the entry of `discover:` has `at_most: {template.discovery.at_most}` tables already; raise it, or name the folder in `exclude`"
                    if template.discovery
                    else ""
                )
                made.append(Appeared(folder.path, TableProposal(folder.path, folder.path), waits=text))
                continue
            made.append(appeared(storage, sample.read, folder, _name(folder), topics))
            room -= not made[-1].waits
    return _without_refused(app, made)


def _name(folder: Folder) -> str:
    assert folder.template.discovery is not None  # noqa: S101 - the caller has chosen such folders
    name = re.sub(r"\{(\w+)\}", lambda match: folder.values[match[1]], folder.template.discovery.name)
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "t"


def _without_refused(app: AppBase, made: Sequence[Appeared]) -> list[Appeared]:
    """Return the tables; those with which the configuration would be refused, or does not fit the files, wait."""
    chosen: dict[str, str] = {}
    result = []
    for each in made:
        content = "" if each.waits else _content(each, "")
        try:
            if content:
                if each.table.name in chosen or each.table.name in app.settings.tables:
                    raise ConfigError(f"table {each.table.name} is there already; set another `name:` in the entry of `discover:`")
                spec = load(app.settings.file, more={**app.more, **chosen, each.table.name: content}).spec(each.table.name)
                if problems := plan(app.runtime.table(app.with_schema(spec), files_only=True)).problems:
                    raise ConfigError(f"{'; '.join(problems)}. Correct the entry of `discover:`")
                chosen[each.table.name] = content
        except CompactorError as error:
            each = replace(each, waits=str(error))
        result.append(each)
    return result


def add_tables(app: AppBase, entries: Sequence[Discovery]) -> list[Appeared]:
    """Write a file for each table that is certain, and use it from now on. Return all folders, also those that wait. Starts no JVM."""
    made = look_for_tables(app, entries)
    result, folder = [], app.settings.discovered_dir
    for each in made:
        if not each.waits:
            try:
                app.runtime.storage.put_if_absent(join(folder, f"{each.table.name}.yaml"), _content(each, app.runtime.environment().now()).encode())
                log.info("%s: new table: %s", each.table.name, each.evidence)
            except CompactorError as error:
                each = replace(each, waits=f"{folder} cannot be written, see `discovered:`: {error}")
        if each.waits:
            log.warning("%s", sentence(each))
        result.append(each)
    if any(not each.waits for each in result):
        app.read_again()
    return result


def sentence(item: Appeared) -> str:
    """Return a line about a folder: the table that the next run makes, or what it waits for."""
    return f"{item.folder} waits: {item.waits}" if item.waits else f"the next run makes table {item.table.name}: {item.evidence}"


def _content(item: Appeared, now: str) -> str:
    """Return the file of a table."""
    reason = f"{item.evidence}; added {now}"
    return proposal_text.of_table(replace(item.table, settings={**item.table.settings, "evidence": reason}), f"Added from {item.folder}.")


def untaken(app: AppBase, samples: bool) -> list[str]:
    """Return a line for each landed folder that no table takes. `samples`: whether to read files of those that fit `discover:`."""
    entries = app.settings.discoveries
    looked = look_for_tables(app, entries) if samples and entries else []
    # what needs a person first
    lines = {item.folder: sentence(item) for item in sorted(looked, key=lambda item: not item.waits)}
    landings = [spec.landing for spec in app.specs()]
    templates = [*discovered(entries), *beside(landings, app.settings.warehouse_dir)]
    folders = flow_folders.untaken(app.runtime.storage, landings, templates)
    there = [*landings, *(folder.path for folder in folders)]
    places = [
        each.discovery.place
        for each in discovered(entries)
        if each.discovery and not any(map(each.fits, there)) and not flow_folders.exist(app.runtime.storage, each)
    ]
    nothing = [f"no folder fits {place} of `discover:`; correct `from:`, which is relative to the warehouse" for place in places]
    return [*nothing, *lines.values(), *flow_folders.sentences([folder for folder in folders if folder.path not in lines])]
