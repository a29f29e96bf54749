"""Reencrypt: encrypt raw files under the table's `archive_kms_key` that were archived before it was set.

Each file is looked at and changed by itself, so the verb may be interrupted and repeated at any time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from compactor.core.model.errors import Refused
from compactor.core.results.phrases import counted
from compactor.core.results.reports import ReencryptReport
from compactor.flows import logs
from compactor.flows.table import Table

AT_ONCE = 8
"""Files at a time: looking at one is a request without content."""


@logs.of_table
def reencrypt(table: Table) -> ReencryptReport:
    """Encrypt the table's raw files that have another key, copies of an interrupted erase among them. Raises Refused without `archive_kms_key`."""
    key, layout = table.spec.archive_kms_key, table.layout
    if not key:
        raise Refused(f"table {table.name}: `archive_kms_key` is not set, so its raw files have the key of all other files. Nothing was changed.")
    listed = [info.path for part in ("archive", "quarantine", "_compactor/rewriting") for info in table.storage.list(layout.inside(part))]
    paths = [path for path in listed if layout.raw_file(path)]
    with logs.phase(table, "encrypting") as phase, ThreadPoolExecutor(AT_ONCE) as pool:
        changed = sum(pool.map(table.storage.encrypt, paths))
        phase.did(f"encrypted {changed:,} of {counted(len(paths), 'raw file')}", files=changed)
    return ReencryptReport(table.name, key, len(paths), changed)
