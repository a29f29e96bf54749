"""`compactor init` and tables that appear: open storage and registry, write paths relative to the new file, and add tables to `discovered:`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compactor.app.registry import is_folder, opened
from compactor.config.settings import load
from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import CompactorError, Refused
from compactor.core.model.layout import join
from compactor.core.planning.folders import Discovery, Folder, beside
from compactor.core.settings.s3 import S3Settings
from compactor.core.sources import proposal as proposal_text
from compactor.core.sources.proposal import Proposal, TableProposal
from compactor.core.sources.source_profile import Profiles
from compactor.duckdb import sample
from compactor.flows.land import discover as flow_folders
from compactor.flows.land import propose as flow
from compactor.flows.land.appeared import appeared
from compactor.flows.read.status import plan
from compactor.storage.routed import any_storage

if TYPE_CHECKING:
    from compactor.app.base import AppBase

log = logging.getLogger(__name__)


def propose(
    top: str | None, registry: str | None, warehouse: str | None, increments: str, options: Mapping[str, str], base: str
) -> tuple[Proposal, str]:
    """Propose tables from files below `top`, from a registry (URL or folder of .avsc files), or from files with the registry's keys.

    `options` are keys of `registry:` in compactor.yaml. Returns also the warehouse. Paths in the folder `base`, in which the new file will be, are
    relative: then it can be moved. Raises Refused when nothing is found, RegistryRefused, Unavailable.
    """
    scanned = _existing(top, "path") if top else ""
    storage = any_storage(S3Settings())
    if registry and is_folder(registry):
        registry = _existing(registry, "schema folder")
    source = opened((registry,), options, storage, os.getcwd()) if registry else None
    try:
        if source is not None and not scanned:
            proposal = flow.from_registry(source, increments or proposal_text.STANDARD)
        else:
            proposal = flow.from_files(storage, sample.read, scanned, source)
    finally:
        if source is not None:
            source.close()
    home = _warehouse(warehouse, scanned, proposal, base)
    return replace(proposal, tables=tuple(_placed(table, home, base) for table in proposal.tables)), _shortened(home, base, base)


def _warehouse(warehouse: str | None, scanned: str, proposal: Proposal, base: str) -> str:
    """Return the warehouse as an absolute path.

    Default: the scanned folder if landing folders are where tables expect them; else a folder of the same bucket, or beside the file.
    """
    if warehouse is not None:
        return absolute(warehouse, os.getcwd())
    if scanned and any(_is_standard(table, scanned) for table in proposal.tables):
        return scanned
    return f"s3://{scanned.partition('://')[2].partition('/')[0]}/warehouse" if is_s3(scanned) else os.path.join(base, "warehouse")


def _is_standard(table: TableProposal, warehouse: str) -> bool:
    return absolute(table.settings["increments"], warehouse) == join(warehouse, proposal_text.STANDARD.replace("{table}", table.name))


def _placed(table: TableProposal, warehouse: str, base: str) -> TableProposal:
    """Return a table with its landing folder relative to the warehouse, where both are in `base`, and without it where it is the default."""
    settings = dict(table.settings)
    if _is_standard(table, warehouse):
        del settings["increments"]
    elif _inside(warehouse, base):
        settings["increments"] = _shortened(settings["increments"], base, warehouse)
    return replace(table, settings=settings)


def _inside(path: str, base: str) -> bool:
    return path.startswith("/") and not os.path.relpath(path, base).startswith("..")


def _shortened(path: str, base: str, start: str) -> str:
    """Return an absolute path in the folder `base` relative to `start`, any other path as it is."""
    return os.path.relpath(path, start) if _inside(path, base) else path


def _existing(folder: str, noun: str) -> str:
    """Return a folder's absolute path. Raises Refused if it is none."""
    path = absolute(folder, os.getcwd())
    if not is_s3(path) and not os.path.isdir(path):
        raise Refused(f"{noun} {path} {'is a file; give its folder' if os.path.exists(path) else 'does not exist'}")
    return path


def registry_keys(registry: str | None, options: Mapping[str, str], base: str) -> dict[str, Any]:
    """Return the mapping below `registry:` for a URL or folder, without user and password. A folder in `base` is relative."""
    if registry is None:
        return {}
    if is_folder(registry):
        return {"url": _shortened(absolute(registry, os.getcwd()), base, base)}
    # with requests, which `status` and `plan` do without
    from compactor.registry.http import RegistrySettings, addresses

    return {"url": addresses(RegistrySettings(urls=(registry,)))[0], **options}


# ---- tables that appear -----------------------------------------------------------------------------------------------


def look_for_tables(app: AppBase, entries: Sequence[Discovery]) -> list[TableProposal]:
    """Return the tables that folders which fit these entries become, by path. Writes nothing, starts no JVM.

    A table that is not certain waits. So does an entry whose folders cannot be listed, and so do all folders while the registry does not answer:
    the configured tables need none of them.
    """
    folders, unlisted = flow_folders.untaken(app.runtime.storage, app.specs(), entries)
    return [*_not_listed(unlisted), *_tables_of(app, folders)]


def _not_listed(unlisted: flow_folders.Unlisted) -> list[TableProposal]:
    return [TableProposal("", entry.place, waits=f"it cannot be listed: {error}") for entry, error in unlisted]


def _tables_of(app: AppBase, folders: Sequence[Folder]) -> list[TableProposal]:
    """Return the tables that folders of `discover:` become, those that wait among them."""
    landings = [spec.landing for spec in app.specs()]
    try:
        topics = flow.topics_of(app.registry())[0] if folders and app.settings.registry.url else {}
    except CompactorError as error:
        return [TableProposal(each.name, each.path, waits=f"its key may be in the registry: {error}") for each in folders]
    room = {folder.discovery.place: folder.discovery.at_most - sum(map(folder.discovery.fits, landings)) for folder in folders}
    tables: list[TableProposal] = []
    for folder in folders:
        entry = folder.discovery
        if room[entry.place] > 0:
            table = _table_of(app, folder, topics, [each for each in tables if not each.waits])
            room[entry.place] -= not table.waits
        else:
            full = f"the entry of `discover:` has `at_most: {entry.at_most}` tables already; raise it, or name the folder in `exclude`"
            table = TableProposal(folder.name, folder.path, waits=full)
        tables.append(table)
    return tables


def _table_of(app: AppBase, folder: Folder, topics: Profiles, others: Sequence[TableProposal]) -> TableProposal:
    try:
        table = appeared(app.runtime.storage, sample.read, folder, topics)
    except CompactorError as error:
        return TableProposal(folder.name, folder.path, waits=str(error))
    return table if table.waits else replace(table, waits=_refusal(app, table, others))


def _refusal(app: AppBase, table: TableProposal, others: Sequence[TableProposal]) -> str:
    """Return why the configuration would be refused with a table and `others`, or does not fit its files; "" if neither."""
    if table.name in {*app.settings.tables, *(each.name for each in others)}:
        return f"table {table.name} is there already; set another `name:` in the entry of `discover:`"
    texts = {each.name: proposal_text.of_table(each, "") for each in (*others, table)}
    try:
        spec = load(app.settings.file, more={**app.more, **texts}).spec(table.name)
        problems = plan(app.runtime.table(app.with_schema(spec), files_only=True)).problems
    except CompactorError as error:
        return str(error)
    return f"{'; '.join(problems)}. Correct the entry of `discover:`" if problems else ""


def add_tables(app: AppBase, entries: Sequence[Discovery]) -> list[TableProposal]:
    """Write a file for each table that is certain, and use it from now on. Return all tables, also those that wait. Starts no JVM."""
    result, folder = [], app.settings.discovered_dir
    for table in look_for_tables(app, entries):
        if not table.waits:
            try:
                text = proposal_text.of_table(table, app.runtime.environment().now())
                app.runtime.storage.put_if_absent(join(folder, f"{table.name}.yaml"), text.encode())
                log.info("%s: new table: %s", table.name, table.evidence)
            except CompactorError as error:
                table = replace(table, waits=f"{folder} cannot be written, see `discovered:`: {error}")
        if table.waits:
            log.warning("%s", sentence(table))
        result.append(table)
    if any(not table.waits for table in result):
        app.read_again()
    return result


def sentence(table: TableProposal) -> str:
    """Return a line about a folder: the table that the next run makes, or what it waits for."""
    return f"{table.source} waits: {table.waits}" if table.waits else f"the next run makes table {table.name}: {table.evidence}"


def untaken(app: AppBase, samples: bool) -> list[str]:
    """Return a line for each landed folder that no table takes. `samples`: whether to read files of those that fit `discover:`."""
    entries, storage = app.settings.discoveries, app.runtime.storage
    landings = [spec.landing for spec in app.specs()]
    # whether more lies beside the tables is a courtesy: nobody need be allowed to list there
    folders, unlisted = flow_folders.untaken(storage, app.specs(), [*entries, *beside(landings, app.settings.warehouse_dir)])
    unlisted = [(entry, error) for entry, error in unlisted if entry in entries]
    tables = _not_listed(unlisted)
    tables += _tables_of(app, [folder for folder in folders if folder.discovery in entries]) if samples else []
    # what needs a person first
    lines = {table.source: sentence(table) for table in sorted(tables, key=lambda table: not table.waits)}
    there = [*landings, *(folder.path for folder in folders)]
    closed = [entry for entry, _ in unlisted]
    listed = [entry for entry in entries if entry not in closed]
    places = [entry.place for entry in listed if not any(map(entry.fits, there)) and not flow_folders.exist(storage, entry)]
    nothing = [f"no folder fits {place} of `discover:`; correct `from:`, which is relative to the warehouse" for place in places]
    return [*nothing, *lines.values(), *flow_folders.sentences([folder for folder in folders if folder.path not in lines])]
