"""Repaired copies of files in quarantine: what was ingested of them is what is read ever after, whatever becomes of landed files."""

from __future__ import annotations

import pytest

from compactor.core.results.reports import silent
from compactor.flows.read import quarantine
from compactor.flows.write import rebuild as rewrite
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

ARCHIVES = ("move", "copy", "keep")
PATH = "increment_2026010101/bad.json"


def repaired(archive: str, whole: bool) -> Lake:
    """Version 1: a file, of which a record or nothing can be used; version 2: its repaired copy is replayed."""
    lake = Lake(table(archive=archive))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.deliver(PATH, [line("c", [2], [2], {"a": 2}), *([] if whole else ["{oops"])], damaged=whole)
    lake.run()
    (held,) = quarantine.waiting(lake.table(), lake.newest())
    lake.storage.write(held.repaired, "\n".join([line("c", [2], [2], {"a": 2}), line("c", [3], [3], {"a": 3})]).encode())
    lake.replay()
    return lake


def keys(lake: Lake) -> list[int]:
    """The keys of the shown rows."""
    return sorted(row[0] for row in lake.look().rows)  # type: ignore[union-attr]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_repaired_copy_stays_in_the_table_through_every_rebuild(archive: str, whole: bool) -> None:
    """Also through the rebuild of a run that makes numbers text, which compares nothing; nothing of it is left in quarantine."""
    lake = repaired(archive, whole)
    assert list(lake.storage.list(f"{lake.spec.root}/quarantine")) == []
    assert (keys(lake), lake.failed_checks()) == ([1, 2, 3], [])
    assert lake.rebuild(dry=True).outcome == "equal"
    rewrite.as_text(lake.table(), ["a"], silent, "")
    assert (keys(lake), quarantine.waiting(lake.table(), lake.newest())) == ([1, 2, 3], [])
    assert lake.failed_checks() == []
