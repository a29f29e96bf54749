"""Segments without a Delta row: which they are, and the branch of the view that reads them bare."""

from __future__ import annotations

import dataclasses

import pytest

from compactor.core.catalog import views
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.spark import keys
from tests.core.test_compaction import segment, snapshot

SPEC = TableSpec("t", "/lake/t", "/lake/t/in", "h_%Y%m%d%H", "d", "t", "d", ("id",))


def table(count: int, *untouched: int, rows: int = 10) -> Snapshot:
    """A table of `count` Segments, with a Delta that these do not own a row of."""
    made = snapshot(tuple(segment(at, rows, at or None, at + 1 if at + 1 < count else None) for at in range(count)), 5)
    assert made.delta is not None
    return dataclasses.replace(made, delta=dataclasses.replace(made.delta, untouched=tuple(f"s{at}" for at in untouched)))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (table(4, 0, 1, 2), ("s3",)),
        (table(4, 0, 2), ("s1", "s3")),
        (table(4, 0), None),
        (table(4), None),
        (table(1), None),
        (table(20, *range(8, 20)), tuple(f"s{at}" for at in range(8))),
        (table(20, *range(9, 20)), None),
        (table(4, 0, 1, 7), ("s2", "s3")),
        (table(2, 0, rows=0), None),
        (dataclasses.replace(table(4, 0, 1, 2), delta=None), None),
    ],
)
def test_which_segments_are_compared(made: Snapshot, expected: tuple[str, ...] | None) -> None:
    """Those that may own a row of the Delta, if they are few and hold at most half of the rows."""
    assert views.compared(made) == expected


def test_the_text_names_the_segments_that_are_compared() -> None:
    """Three branches; without names it is the plain text."""
    made = table(3, 0, 2)
    bare, joined, changed = views.view_text(SPEC, made).split(" UNION ALL ")
    assert bare.endswith("`__b`.`row_state` = 'live' AND `__b`.`segment` <> 's1'")
    assert "NOT EXISTS" not in bare
    assert "`__b`.`row_state` = 'live' AND (`__b`.`segment` = 's1') AND NOT EXISTS (SELECT 1" in joined
    assert "delta_version" in changed
    assert views.view_text(SPEC, table(3)).count("UNION ALL") == 1


def test_the_segments_that_own_no_row() -> None:
    """A pass that did not compute it tells nothing."""
    made = table(4)
    assert [*keys.owners(made.segments, made.schema)] == ["owners"]
    assert keys.not_owning(made.segments, {"owners": [0, 3]}) == ("s1", "s2")
    assert keys.not_owning(made.segments, {}) == ()
