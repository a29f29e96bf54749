"""Full loads as increments: when a folder is complete, what belongs together, and where late loads belong."""

from __future__ import annotations

import dataclasses

import pytest

from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input
from compactor.core.model.spec import TableSpec
from compactor.core.planning import landing
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
        # a file newer than the marker: the load is being written again
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/b": 8, f"{ONE}/_SUCCESS": 7}, []),
        # what is no data may be newer
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/_SUCCESS": 7, f"{ONE}/._SUCCESS.crc": 8}, [f"{ONE}/a"]),
        # a marker counts for its folder, and there only
        (MARKED, {f"{ONE}/a": 5, f"{TWO}/_SUCCESS": 7, "_SUCCESS": 9}, []),
        (MARKED, {f"{ONE}/a": 5, f"{ONE}/p=1/_SUCCESS": 7}, []),
        # a load that never gets its marker holds no other one back
        (MARKED, {f"{ONE}/a": 5, f"{TWO}/a": 6, f"{TWO}/_SUCCESS": 7}, [f"{TWO}/a"]),
        (SETTLED, {f"{ONE}/a": 990}, [f"{ONE}/a"]),
        (SETTLED, {f"{ONE}/a": 5, f"{ONE}/b": 991}, []),
        # somebody is at work there still
        (SETTLED, {f"{ONE}/a": 5, f"{ONE}/_temporary/0/b": 991}, []),
        (SETTLED, {f"{ONE}/a": 5, f"{TWO}/a": 991}, [f"{ONE}/a"]),
    ],
)
def test_a_folder_is_taken_when_it_is_complete(spec: TableSpec, files: dict[str, float], taken: list[str]) -> None:
    """All of its files or none."""
    result = landing.discover(spec, [FileInfo(path, 5, "e", modified) for path, modified in files.items()], frozenset(), NOW)
    assert taken == [item.path for item in result.new]
    assert len(result.new) + result.waiting == sum(not path.rsplit("/", 1)[-1].startswith(("_", ".")) and "/_" not in path for path in files)


def test_a_marker_may_have_any_name() -> None:
    """It is no file of the load."""
    spec = dataclasses.replace(MARKED, complete="manifest.json")
    files = [FileInfo(f"{ONE}/{name}", 5, "e", modified) for name, modified in (("a.json", 5), ("manifest.json", 6))]
    result = landing.discover(spec, files, frozenset(), NOW)
    assert ([item.path for item in result.new], result.ignored) == ([f"{ONE}/a.json"], 1)


def test_a_file_that_cannot_be_finished_yet_holds_its_load_back() -> None:
    """A Parquet file without a byte may still be being written, whatever the marker says."""
    files = [FileInfo(f"{ONE}/a.parquet", 5, "e", 990), FileInfo(f"{ONE}/b.parquet", 0, "e", 990), FileInfo(f"{ONE}/_SUCCESS", 0, "e", 995)]
    assert ((), 2) == (landing.discover(MARKED, files, frozenset(), NOW).new, landing.discover(MARKED, files, frozenset(), NOW).waiting)
    assert 2 == len(landing.discover(MARKED, files, frozenset(), NOW + landing.UNFINISHED_GRACE).new)


def item(path: str, outcome: str = "absorbed", reason: str = "") -> Input:
    return Input(path, 5, "e", path.partition("/")[0], None, outcome=outcome, reason=reason)


def test_the_files_of_a_load_belong_together() -> None:
    """With other envelopes each file stands for itself."""
    paths = [f"{ONE}/a", f"{ONE}/p=1/b", f"{TWO}/a"]
    assert {*paths[:2]} == full_loads.together(SPEC, paths, [f"{ONE}/p=1/b"])
    assert {f"{ONE}/a"} == full_loads.together(dataclasses.replace(SPEC, envelope="flat"), paths, [f"{ONE}/a"])


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
def test_a_load_is_taken_once(entry: Input, there: bool) -> None:
    """Unless all that was taken of it is in quarantine."""
    assert there == (full_loads.other_file([entry], [item(f"{ONE}/own")]) is not None)


def test_late_loads_belong_between_the_absorbed_ones_around_them() -> None:
    """Also several; none where a load of the hour is absorbed, and none behind the newest one."""
    entries = [dataclasses.replace(item(f"{ONE}/{hour}"), hour=hour) for hour in ("01", "04", "06")]
    entries.append(dataclasses.replace(item(f"{ONE}/x", "quarantined", "broken"), hour="05"))
    expected = [(None, ["00"], "01"), ("01", ["02", "03"], "04"), ("04", ["05"], "06")]
    assert expected == full_loads.gaps(["02", "05", "03", "01", "00", "07"], entries)
