"""Landing: which landed files the next commit takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.spec import TableSpec
from compactor.core.planning import landing

SPEC = TableSpec("t", "/lake/t", "/lake/t/in", "h_%Y%m%d%H", "d", "t", "d", ("id",))


def file(path: str, etag: str = "e", size: int = 5, modified: float = 0.0) -> FileInfo:
    """A file in landing."""
    return FileInfo(path, size, etag, modified)


@pytest.mark.parametrize(
    ("files", "changes", "expected"),
    [
        ([], {}, {}),
        ([file("h_2026010100/a")], {}, {"new": ["h_2026010100/a"]}),
        ([file("h_2026010101/b"), file("h_2026010100/a")], {}, {"new": ["h_2026010100/a", "h_2026010101/b"]}),
        ([file("h_2026010100/a", "ingested")], {}, {"absorbed": 1}),
        ([file("h_2026010100/a", "changed")], {}, {"new": ["h_2026010100/a"]}),
        ([file("h_2026010100/_SUCCESS"), file("h_2026010100/a", size=0)], {}, {"ignored": 2}),
        (
            [file(f"h_2026010100/shop.keys.v1+0+0000000042{part}.json") for part in ("", ".keys", ".headers")],
            {},
            {"new": ["h_2026010100/shop.keys.v1+0+0000000042.json"], "ignored": 2},
        ),
        ([file("h_2026010100/a.json"), file("h_2026010100/sub/x.key")], {"ignore": ("*.key",)}, {"new": ["h_2026010100/a.json"], "ignored": 1}),
        ([file("h_2026010100/t+0+1.keys.json")], {"ignore": ()}, {"new": ["h_2026010100/t+0+1.keys.json"]}),
        ([file("h_2026010100/a", modified=95.0)], {"settle": 10.0}, {"waiting": 1}),
        ([file("h_2026010100/a", modified=90.0)], {"settle": 10.0}, {"new": ["h_2026010100/a"]}),
        ([file("h_2026010100/a"), file("h_2026010105/b")], {"first_folder": "h_2026010102"}, {"skipped": 1, "new": ["h_2026010105/b"]}),
        ([file("h_2026010102/a")], {"first_folder": "h_2026010102"}, {"new": ["h_2026010102/a"]}),
        ([file("notes.txt"), file("h_2026010100/a")], {}, {"new": ["h_2026010100/a"], "ignored": 1}),
        ([file("notes.txt"), file("h_2026010100/a", "ingested")], {}, {"absorbed": 1, "ignored": 1}),
        (
            [file("05-03-2026/b"), file("31-12-2025/a")],
            {"pattern": "%d-%m-%Y", "first_folder": "01-01-2026"},
            {"skipped": 1, "new": ["05-03-2026/b"]},
        ),
        ([file("LOAD1.csv"), file("h_2026010100/a")], {"envelope": "dms"}, {"new": ["LOAD1.csv", "h_2026010100/a"]}),
        (
            [file("LOAD1.csv"), file("h_2026010100/a")],
            {},
            {"new": ["h_2026010100/a"], "unusable": ("LOAD1.csv lies in no folder that fits 'h_%Y%m%d%H'",)},
        ),
        ([file("h_2026010100/a.parquet", size=0, modified=99.0)], {}, {"waiting": 1}),
        ([file("h_2026010100/a.avro", size=0, modified=99.0)], {}, {"waiting": 1}),
        ([file("h_2026010100/a", size=0, modified=99.0)], {"format": "parquet"}, {"waiting": 1}),
        ([file("h_2026010100/a.csv", size=0), file("h_2026010100/a.json.gz", size=0)], {}, {"ignored": 2}),
        ([file("h_2026010100/", size=0), file("h_2026010100_$folder$", size=0)], {"format": "parquet"}, {"ignored": 2}),
        ([file("any/name"), file("x")], {"pattern": ""}, {"new": ["any/name", "x"]}),
        ([file("_SUCCESS")], {}, {"ignored": 1}),
        # a clock that is wrong by more than `settle` must not keep a file in landing until it is right
        ([file("h_2026010100/a", modified=105.0)], {"settle": 10.0}, {"waiting": 1}),
        ([file("h_2026010100/a", modified=1e10)], {"settle": 10.0}, {"new": ["h_2026010100/a"]}),
        ([file("h_2026010100/a.parquet", size=0, modified=1e10)], {}, {"new": ["h_2026010100/a.parquet"]}),
        # what no run can take is named
        ([file("h_2026023100/a")], {}, {"unusable": ("h_2026023100/a lies in a folder that names no date",)}),
        ([file("h_2026010124/a"), file("other/a")], {}, {"unusable": ("h_2026010124/a lies in a folder that names no date",), "ignored": 1}),
        (
            [file("h_202601015/a.json"), file("h_2026010100/a", "ingested")],
            {},
            {"unusable": ("h_202601015/a.json lies in no folder that fits 'h_%Y%m%d%H'",), "absorbed": 1},
        ),
        ([FileInfo("h_2026010100/l", 5, "e", 0.0, "is a link")], {}, {"unusable": ("h_2026010100/l is a link",)}),
        ([FileInfo("h_2026010100/_l", 5, "e", 0.0, "is a link"), file("h_2026010100/_x")], {}, {"ignored": 2}),
    ],
)
def test_discover(files: list[FileInfo], changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """New inputs are the files in landing that are not in the ledger, in path order."""
    result = landing.discover(dataclasses.replace(SPEC, **changes), files, frozenset({("h_2026010100/a", "ingested")}), 100.0)
    assert [item.path for item in result.new] == expected.get("new", [])
    for name in ("waiting", "skipped", "ignored", "absorbed"):
        assert getattr(result, name) == expected.get(name, 0), name
    assert result.unusable == expected.get("unusable", ())
    assert result.size == sum(item.size for item in result.new)


def test_a_parquet_file_that_stays_empty_is_taken_and_goes_to_quarantine() -> None:
    """No writer will finish it. Quarantine names it, and it does not wait for ever."""
    result = landing.discover(SPEC, [file("h_2026010100/a.parquet", size=0)], frozenset(), landing.UNFINISHED_GRACE)
    assert [item.path for item in result.new] == ["h_2026010100/a.parquet"]


def test_discover_refuses_a_landing_where_nothing_fits() -> None:
    """A wrong pattern would otherwise look like an idle table for ever; the error names pattern and a file."""
    with pytest.raises(InputRefused, match=r"h_%Y%m%d%H.*2 files, such as increment_1/a"):
        landing.discover(SPEC, [file("increment_1/a"), file("x")], frozenset(), 0.0)


def test_a_file_astray_stops_no_table_that_runs() -> None:
    """Its folders are archived, and the file stays until somebody moves it. In a first run it is a pattern that fits nothing."""
    assert landing.discover(SPEC, [file("x.json")], frozenset(), 0.0, first=False).unusable == ("x.json lies in no folder that fits 'h_%Y%m%d%H'",)
    with pytest.raises(InputRefused, match=r"There is 1 file, such as x\.json"):
        landing.discover(SPEC, [file("x.json")], frozenset(), 0.0)


def test_a_file_that_is_no_data_beside_the_folders_stops_no_table_that_runs() -> None:
    """All its folders are archived, and a README stays. Data in folders of another form still stop it."""
    found = landing.discover(SPEC, [file("README.txt")], frozenset(), 0.0, first=False)
    assert (found.new, found.ignored) == ((), 1)
    with pytest.raises(InputRefused, match=r"There is 1 file, such as dt=2026-01-01/a\.json"):
        landing.discover(SPEC, [file("README.txt"), file("dt=2026-01-01/a.json")], frozenset(), 0.0, first=False)


DATED = [file("31-12-2025/a"), file("05-03-2026/b"), file("01-04-2026/c")]


@pytest.mark.parametrize(
    ("files", "changes", "epochs"),
    [
        (DATED, {"pattern": "%d-%m-%Y", "epoch": 2}, {"31-12-2025/a": 2, "05-03-2026/b": 2, "01-04-2026/c": 2}),
        (DATED, {"pattern": "%d-%m-%Y", "epoch": 2, "epoch_from": "05-03-2026"}, {"31-12-2025/a": 1, "05-03-2026/b": 2, "01-04-2026/c": 2}),
        (
            [file("LOAD1.csv"), file("h_2026010100/a")],
            {"envelope": "dms", "epoch": 1, "epoch_from": "h_2026010101"},
            {"LOAD1.csv": 1, "h_2026010100/a": 0},
        ),
    ],
)
def test_the_epoch_of_a_file_follows_the_date_of_its_folder(files: list[FileInfo], changes: dict[str, Any], epochs: dict[str, int]) -> None:
    """Not the text of the name. A full load beside the dated folders belongs to the epoch in which it is taken."""
    result = landing.discover(dataclasses.replace(SPEC, **changes), files, frozenset(), 100.0)
    assert {item.path: item.epoch for item in result.new} == epochs
