"""Another form of `increments:` over the same files: none is taken again, whatever became of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from compactor.flows.write.adopt import adopt
from tests.oracle.lake import Lake, table
from tests.oracle.model import line


def undone() -> Lake:
    """A restore has undone the second file."""
    lake = Lake(table(pattern="%Y/%m/%d", archive="keep"))
    lake.deliver("2026/01/01/00/a.json", [line("c", [key], [1], {"a": 1}) for key in range(40)])
    lake.run()
    lake.deliver("2026/01/01/01/b.json", [line("u", [1], [5], {"a": 666})])
    lake.run()
    lake.restore(1)
    return lake


def adopted() -> Lake:
    """An adopted base has the changes of the first file already."""
    lake = Lake(table(pattern="%Y/%m/%d", archive="keep"))
    lake.storage.write("/old/t/part-1.parquet", "\n".join(json.dumps({"id": key, "a": 1000 + key, "at": 1}) for key in range(8)).encode())
    lake.deliver("2026/01/01/00/a.json", [line("u", [1], [110], {"a": -1})])
    lake.deliver("2026/01/02/00/b.json", [line("u", [3], [500], {"a": 3})])
    adopt(lake.table(), "/old/t", "2026/01/01")
    return lake


def of_another_epoch() -> Lake:
    """The first file belongs to the epoch before."""
    lake = Lake(table(pattern="%Y/%m/%d", archive="keep"))
    lake.deliver("2026/01/01/00/a.json", [line("c", [1], [100], {"a": 100})])
    lake.run()
    lake.spec = dataclasses.replace(lake.spec, epoch=1)
    lake.deliver("2026/01/02/00/b.json", [line("u", [1], [5], {"a": 5})])
    return lake


@pytest.mark.parametrize("begun", [undone, adopted, of_another_epoch])
@pytest.mark.parametrize(("before", "after"), [("%Y/%m/%d", "%Y/%m/%d/%H"), ("%Y/%m/%d/%H", "%Y/%m/%d"), ("%Y/%m/%d", "")])
def test_no_file_is_taken_again(begun: Callable[[], Lake], before: str, after: str) -> None:
    """The ledger is asked for the files, not for the folders that the pattern names now."""
    lake = begun()
    lake.spec = dataclasses.replace(lake.spec, pattern=before)
    # more versions, so that the entries are in the ledger's own files
    for hour, key in enumerate((2, 4)):
        lake.deliver(f"2026/01/03/0{hour}/c.json", [line("u", [key], [600 + key], {"a": key})])
        lake.run()
    shown = lake.look()
    assert shown is not None
    assert lake.run().outcome == "idle"
    lake.spec = dataclasses.replace(lake.spec, pattern=after)
    assert lake.run().outcome == "idle"
    assert lake.look().rows == shown.rows  # type: ignore[union-attr]
    lake.deliver("2026/01/04/00/d.json", [line("u", [5], [700], {"a": 5})])
    assert lake.run().files == 1
