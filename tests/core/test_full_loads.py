"""Full copies as increments: when a folder is whole, and what belongs together."""

from __future__ import annotations

import dataclasses

import pytest

from compactor.core.model.snapshot import Input
from compactor.core.model.spec import TableSpec
from compactor.core.planning import plan
from compactor.core.planning.plan import LandedFile
from compactor.core.sources import full_loads

SPEC = TableSpec("t", "/lake/t", "/lake/t/in", "d_%Y%m%d", "d", "t", "d", ("id",), envelope="full-load")
MARKED = dataclasses.replace(SPEC, complete="_SUCCESS")
SETTLED = dataclasses.replace(SPEC, settle=10.0)
ONE, TWO = "d_20260101", "d_20260102"
NOW = 1000.0


@pytest.mark.parametrize(
    ("spec", "files", "taken"),
    [
        (MARKED, {f"{ONE}/a": 5}, []),
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/_SUCCESS": 5}, [f"{ONE}/a"]),
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/p=1/b": 6, f"{ONE}/_SUCCESS": 7}, [f"{ONE}/a", f"{ONE}/p=1/b"]),
        # a file newer than the marker: the copy is being written again
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/b": 8, f"{ONE}/_SUCCESS": 7}, []),
        # what is no data may be newer
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/_SUCCESS": 7, f"{ONE}/._SUCCESS.crc": 8}, [f"{ONE}/a"]),
        # a marker counts for its folder, and there only
        (MARKED, {f"{ONE}/a": 5, f"{TWO}/_SUCCESS": 7, "_SUCCESS": 9}, []),
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/p=1/_SUCCESS": 7}, []),
        # a copy that never gets its marker holds no other one back
        (MARKED, {f"{ONE}/a": 5, f"{TWO}/a": 6, f"{TWO}/_SUCCESS": 7}, [f"{TWO}/a"]),
        (SETTLED, {f"{ONE}/a": 990}, [f"{ONE}/a"]),
        (SETTLED, {f"{ONE}/a": 5, f"{ONE}/b": 991}, []),
        # somebody is at work there still
        (SETTLED, {f"{ONE}/a": 5, f"{ONE}/_temporary/0/b": 991}, []),
        (SETTLED, {f"{ONE}/a": 5, f"{TWO}/a": 991}, [f"{ONE}/a"]),
    ],
)
def test_a_folder_is_taken_when_it_is_whole(spec: TableSpec, files: dict[str, float], taken: list[str]) -> None:
    """All of its files or none."""
    found = plan.discover(spec, [LandedFile(path, 5, "e", modified) for path, modified in files.items()], frozenset(), NOW)
    assert taken == [item.path for item in found.new]
    assert len(found.new) + found.waiting == sum(not path.rsplit("/", 1)[-1].startswith(("_", ".")) and "/_" not in path for path in files)


def test_a_file_that_cannot_be_finished_yet_holds_its_copy_back() -> None:
    """A Parquet file without a byte may still be being written, whatever the marker says."""
    files = [LandedFile(f"{ONE}/a.parquet", 5, "e", 990), LandedFile(f"{ONE}/b.parquet", 0, "e", 990), LandedFile(f"{ONE}/_SUCCESS", 0, "e", 995)]
    assert ((), 2) == (plan.discover(MARKED, files, frozenset(), NOW).new, plan.discover(MARKED, files, frozenset(), NOW).waiting)
    assert 2 == len(plan.discover(MARKED, files, frozenset(), NOW + plan.UNFINISHED_GRACE).new)


def item(path: str, outcome: str = "absorbed", reason: str = "") -> Input:
    return Input(path, 5, "e", path.partition("/")[0], None, outcome=outcome, reason=reason)


def test_nothing_is_kept_of_a_copy_without_the_rest_of_it() -> None:
    """Of other envelopes each file stands for itself."""
    inputs = [item(f"{ONE}/a"), item(f"{ONE}/b"), item(f"{TWO}/a")]
    assert inputs[2:] == full_loads.kept(SPEC, inputs, [f"{ONE}/b"])
    assert [inputs[0], inputs[2]] == full_loads.kept(dataclasses.replace(SPEC, envelope="flat"), inputs, [f"{ONE}/b"])


@pytest.mark.parametrize(
    ("entry", "there"),
    [
        (item(f"{ONE}/x"), True),
        (item(f"{ONE}/x", "undone"), True),
        (item(f"{ONE}/x", "replayed"), True),
        (item(f"{ONE}/x", "quarantined", "broken"), False),
        (item(f"{TWO}/x"), False),
        (item(f"{ONE}/own"), False),
    ],
)
def test_a_copy_is_taken_once(entry: Input, there: bool) -> None:
    """Unless all that was taken of it is in quarantine."""
    assert there == (full_loads.other_delivery([entry], [ONE], [(f"{ONE}/own", "e")]) is not None)
