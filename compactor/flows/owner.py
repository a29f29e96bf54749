"""Owner: the marks that keep two environments from changing one table, or from taking the files out of one landing folder.

<root>/_compactor/owner.json       the database that shows the table
<landing>/_compactor/owner.json    the root of the table that moves ingested files out of the folder; only with `archive: move`. In a folder
                                   below the root it is relative (`..`), so that a table whose root is moved as a whole still owns it

The first run that needs a mark creates it, if it is absent: of two first runs one owns. Nothing replaces a mark. Whoever moves a table to another
environment deletes it, and the next run creates another.

What a crash leaves: a mark of a table without a version, which the next run of the same environment takes for its own.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from compactor.core.model.errors import Refused
from compactor.core.model.layout import relative
from compactor.flows.table import Table


def check(table: Table) -> None:
    """Raise Refused if another environment owns the table. Asked before anything is committed or shown."""
    # what is only looked at, or tried out, belongs to nobody
    if table.env.catalog_name is None:
        return
    owner = _claimed(table, table.layout.owner(), table.spec.database)
    if owner != table.spec.database:
        raise Refused(_of_another(table, owner))


def check_landing(table: Table) -> None:
    """Raise Refused if another table moves files out of this landing folder, or if nobody may. Asked before files are ingested or moved."""
    spec = table.spec
    if spec.archive != "move":
        return
    try:
        landing, root = _real(spec.landing), _real(spec.root)
        # below the root the mark names it relatively
        ours = "/".join([".."] * len(relative(landing, root).split("/"))) if landing.startswith(f"{root}/") else root
        owner = _claimed(table, _real(table.layout.landing_owner()), ours)
    except Refused as error:
        raise Refused(
            f"table {table.name}: {spec.landing} cannot be marked as this table's, which `archive: move` needs to take ingested files out of it. "
            f"Nothing was changed. Allow it, or set `archive: keep` (files stay where they are) or `archive: copy`: {error}"
        ) from error
    if owner != _real(spec.root):
        raise Refused(_landing_of_another(table, owner))


def foreign(table: Table) -> str:
    """Return why a run would be refused by the marks that are there; "" if it would not. Creates none."""
    spec, layout = table.spec, table.layout
    marks = [(layout.owner(), spec.database, _of_another)]
    if spec.archive == "move":
        marks.append((_real(layout.landing_owner()), _real(spec.root), _landing_of_another))
    for path, ours, sentence in marks:
        with suppress(FileNotFoundError):
            owner = _named(path, table.storage.read(path))
            if owner != ours:
                return sentence(table, owner)
    return ""


def _of_another(table: Table, owner: str) -> str:
    path, spec = table.layout.owner(), table.spec
    return (
        f"table {table.name}: {spec.root} belongs to the database {owner} ({path}), and this configuration has {spec.database}: two environments "
        f"cannot share a warehouse. Nothing was changed. Give this one its own `warehouse:`. If {owner} has given the table up, delete {path} and "
        "run again."
    )


def _landing_of_another(table: Table, owner: str) -> str:
    path, spec = table.layout.landing_owner(), table.spec
    return (
        f"table {table.name}: {spec.landing} belongs to the table {owner} ({path}), whose runs move its files to their archive, and this table would "
        f"take them away. Nothing was changed. If that is the former name of {table.name}, call it so again and set `view: {table.name}`: its rows "
        "stay. If both are to read the folder, set `archive: keep` here: this table begins with the files that are there now, and leaves them there "
        f"(`archive: copy` keeps copies). If {owner} has given the folder up or was moved here, delete {path} and run again."
    )


def _claimed(table: Table, path: str, ours: str) -> str:
    """Return whom a mark names. Create it for `ours` if it is absent. It is read once."""
    if path not in table.owners:
        try:
            data = table.storage.read(path)
        except FileNotFoundError:
            if table.env.dry:
                return ours
            table.storage.put_if_absent(path, json.dumps({"owner": ours, "since": table.env.now()}).encode())
            # perhaps another's, who came first
            data = table.storage.read(path)
        table.owners[path] = _named(path, data)
    return table.owners[path]


def _real(path: str) -> str:
    """Return a local path without symbolic links: two folders may be one."""
    return path if "://" in path else os.path.realpath(path)


def _named(path: str, data: bytes) -> str:
    """Return whom the mark at `path` names: a database, or a root."""
    try:
        owner = str(json.loads(data)["owner"])
    except (ValueError, KeyError, TypeError):
        return "of a mark that cannot be read"
    steps = owner.split("/")
    if set(steps) == {".."}:
        # below the folder of a mark are `_compactor` and its name
        return path.rsplit("/", len(steps) + 2)[0]
    return owner if len(steps) == 1 else _real(owner)
