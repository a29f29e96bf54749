"""Every path is built by one module and taken apart by it again: a table of good names and a longer one of bad ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.layout import Layout, commit_id, join, relative

LAYOUT = Layout("/lake/t", "/lake/t/incremental")
COMMIT = commit_id(7, "0123abcd")

GOOD = [
    (LAYOUT.snapshot(1), "/lake/t/_compactor/snapshots/00000000000000000001.json", "snapshot"),
    (LAYOUT.snapshot(10**20 - 1), "/lake/t/_compactor/snapshots/99999999999999999999.json", "snapshot"),
    (LAYOUT.hint(), "/lake/t/_compactor/snapshots/latest", "hint"),
    (LAYOUT.notice("0" * 32), f"/lake/t/_compactor/notices/{'0' * 32}.json", "notice"),
    (LAYOUT.failed(), "/lake/t/_compactor/notices/failed.json", "notice"),
    (LAYOUT.ledger(COMMIT), "/lake/t/_compactor/ledger/v00000007-0123abcd.jsonl.gz", "ledger"),
    (join(LAYOUT.delta(COMMIT), "row_state=live/p"), "/lake/t/delta/v00000007-0123abcd/row_state=live/p", "delta"),
    (join(LAYOUT.rewriting(COMMIT, 3), "p"), "/lake/t/_compactor/rewriting/v00000007-0123abcd/3/p", "copy"),
    (
        join(LAYOUT.base(COMMIT), "segment=0-00001", "row_state=deleted", "p"),
        "/lake/t/base/v00000007-0123abcd/segment=0-00001/row_state=deleted/p",
        "segment",
    ),
    (join(LAYOUT.feed(COMMIT), "part-0.parquet"), "/lake/t/feed/v00000007-0123abcd/part-0.parquet", "feed"),
    (LAYOUT.archived("increment_2026010100/a.json"), "/lake/t/archive/increment_2026010100/a.json", "archive"),
    (LAYOUT.archived("f/a.json", '"ab-1/2"'), "/lake/t/archive/f/ab12~a.json", "archive"),
    (LAYOUT.archived("a.json", "12-34"), "/lake/t/archive/1234~a.json", "archive"),
    (LAYOUT.archived("f/a\nb.json"), "/lake/t/archive/f/a\nb.json", "archive"),
    (LAYOUT.inside("quarantine/f/a.json"), "/lake/t/quarantine/f/a.json", "quarantine"),
]

BAD = [
    "",
    "/",
    "/lake/t",
    "/lake/t/",
    "/lake/t2/_compactor/snapshots/00000000000000000001.json",
    "/lake/_compactor/snapshots/00000000000000000001.json",
    "lake/t/_compactor/snapshots/latest",
    "s3://lake/t/_compactor/snapshots/latest",
    "/lake/t/_compactor",
    "/lake/t/_compactor/snapshots",
    "/lake/t/_compactor/snapshots/1.json",
    "/lake/t/_compactor/snapshots/0000000000000000001.json",
    "/lake/t/_compactor/snapshots/000000000000000000001.json",
    "/lake/t/_compactor/snapshots/-0000000000000000001.json",
    "/lake/t/_compactor/snapshots/0000000000000000000a.json",
    "/lake/t/_compactor/snapshots/00000000000000000001.json.tmp",
    "/lake/t/_compactor/snapshots/00000000000000000001.json/x",
    "/lake/t/_compactor/snapshots/x/00000000000000000001.json",
    "/lake/t/_compactor/snapshots/.00000000000000000001.json",
    "/lake/t/_compactor/snapshots/latest2",
    "/lake/t/_compactor/ledger/v7-0123abcd.jsonl.gz",
    "/lake/t/_compactor/ledger/v00000007-0123abcd.jsonl",
    "/lake/t/_compactor/ledger/v00000007-0123ABCD.jsonl.gz",
    "/lake/t/_compactor/other.json",
    "/lake/t/_compactor/notices/other.json",
    "/lake/t/base/segment=0-00001/p",
    "/lake/t/base/v00000007-0123abcd/p",
    "/lake/t/base/v00000007-0123abcd/segment=/p",
    "/lake/t/base/v00000007-0123abcd/segment=x/p",
    "/lake/t/base/v00000007-0123abcd/segment=0-00001/",
    "/lake/t/base/v00000007-0123abcd/segment=0-00001/p",
    "/lake/t/base/v00000007-0123abcd/segment=0-00001/row_state=other/p",
    "/lake/t/base/v00000007-0123abcd/segment=0-00001/row_state=live/a/b",
    "/lake/t/base/00000007-0123abcd/segment=0-00001/p",
    "/lake/t/delta/v00000007-0123abcd",
    "/lake/t/delta/v00000007-0123abcd/p",
    "/lake/t/delta/v00000007-0123abcd/row_state=live/a/b",
    "/lake/t/delta/7/part-0.parquet",
    "/lake/t/feed/v00000007-0123abcd",
    "/lake/t/feed/7/part-0.parquet",
    "/lake/t/delta/v00000007-0123abcd-9/part-0.parquet",
    "/lake/t/archive",
    "/lake/t/archive/",
    "/lake/t/incremental/increment_2026010100/a.json",
    "/lake/t/Base/v00000007-0123abcd/segment=0-00001/p",
]


@pytest.mark.parametrize(("built", "expected", "kind"), GOOD)
def test_a_path_is_built_and_recognised(built: str, expected: str, kind: str) -> None:
    """What one function builds, the inverse knows."""
    assert built == expected
    assert LAYOUT.kind(built) == kind


@pytest.mark.parametrize("name", ["f" * 250 + ".json", "ü" * 127, "x.json"])
def test_no_name_is_longer_than_a_file_system_allows(name: str) -> None:
    """A landed file may have a name of 255 bytes. Its name with the etag and that of its reason file are other ones, for every file and etag."""
    others = [make(f"h/{name}", etag) for etag in ("1" * 40, "2" * 40) for make in (LAYOUT.archived, LAYOUT.reason)]
    others += [LAYOUT.reason(f"h/x{name[1:]}", "1" * 40)]
    assert all(len(each.rpartition("/")[2].encode()) <= 255 for each in others)
    assert len({*others}) == (4 if name.startswith("x") else 5)
    assert all(".json" in each or not name.endswith(".json") for each in others)


@pytest.mark.parametrize("location", BAD)
def test_what_is_not_ours_is_not_recognised(location: str) -> None:
    """A near miss is nobody's: vacuum must not touch it, the search for Snapshots not read it."""
    assert LAYOUT.kind(location) is None
    assert LAYOUT.version_of(location) is None


UNITS = [
    (join(LAYOUT.base(COMMIT), "segment=0-00001", "p"), "base/v00000007-0123abcd/segment=0-00001"),
    (join(LAYOUT.base(COMMIT), "segment=0-00001", "_temporary/0/p"), "base/v00000007-0123abcd/segment=0-00001"),
    (join(LAYOUT.base(COMMIT), "_temporary/0/task/p"), "base/v00000007-0123abcd/_temporary"),
    (join(LAYOUT.base(COMMIT), "_SUCCESS"), "base/v00000007-0123abcd/_SUCCESS"),
    (join(LAYOUT.delta(COMMIT), "p"), "delta/v00000007-0123abcd"),
    (join(LAYOUT.delta(COMMIT), "__magic_job-1/p"), "delta/v00000007-0123abcd"),
    (join(LAYOUT.feed(COMMIT), "_temporary/0/p"), "feed/v00000007-0123abcd"),
    (LAYOUT.ledger(COMMIT), "_compactor/ledger/v00000007-0123abcd.jsonl.gz"),
]


@pytest.mark.parametrize(("location", "path"), UNITS)
def test_what_an_attempt_left_belongs_to_one_unit(location: str, path: str) -> None:
    """Whatever its engine put below its directories, with the id of the attempt."""
    assert LAYOUT.unit(location) == (path, COMMIT)


@pytest.mark.parametrize(
    "location",
    [
        LAYOUT.snapshot(7),
        LAYOUT.hint(),
        LAYOUT.archived("base/v00000007-0123abcd/segment=0-00001/p"),
        "/lake/t/base/v00000007-0123abcd",
        "/lake/t/delta/v00000007-0123abcd",
        "/lake/t/base/mine/p",
        "/lake/t/base/7-0123abcd/segment=0-00001/p",
        "/lake/t/delta/v00000007-0123ABCD/p",
        "/lake/t/_compactor/ledger/x.jsonl.gz",
        "/lake/t/_compactor/ledger/v00000007-0123abcd.jsonl.gz/p",
        "/lake/u/delta/v00000007-0123abcd/p",
    ],
)
def test_what_no_attempt_left_is_no_unit(location: str) -> None:
    """Vacuum deletes units and nothing else."""
    assert LAYOUT.unit(location) is None


@given(version=st.integers(1, 10**20 - 1), root=st.sampled_from(["/lake/t", "/lake/t/", "s3://lake/t", "file:///x/y z/ü"]))
def test_a_snapshots_version_comes_back_from_its_path(version: int, root: str) -> None:
    """Whatever the root looks like."""
    layout = Layout(root, root)
    assert layout.version_of(layout.snapshot(version)) == version
    assert layout.kind(layout.snapshot(version)) == "snapshot"


def test_snapshots_sort_by_version() -> None:
    """A listing in name order is one in version order."""
    paths = [LAYOUT.snapshot(version) for version in (1, 9, 10, 99, 100, 10**19)]
    assert paths == sorted(paths)


def test_other_kinds_of_path_are_no_snapshot() -> None:
    """Only a Snapshot has a version."""
    assert {LAYOUT.version_of(built) for built, _, kind in GOOD if kind != "snapshot"} == {None}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("/a", "b"), "/a/b"),
        (("/a/", "/b/"), "/a/b"),
        (("/a", "", "b"), "/a/b"),
        (("s3://bucket/", "x/y"), "s3://bucket/x/y"),
        (("/", "a"), "/a"),
        (("/a/",), "/a"),
        (("/a", ""), "/a"),
    ],
)
def test_parts_are_joined_by_single_slashes(parts: tuple[str, ...], expected: str) -> None:
    """Empty parts vanish."""
    assert join(*parts) == expected


@given(path=st.from_regex(r"[a-z0-9=%~ ]{1,8}(/[a-z0-9=.]{1,8}){0,3}", fullmatch=True), root=st.sampled_from(["/lake", "s3://b/p/", "/lake/t/"]))
def test_relative_is_the_inverse_of_join(path: str, root: str) -> None:
    """What lies below a root comes back as it was."""
    assert relative(join(root, path), root) == path


@pytest.mark.parametrize("location", ["/lake/tt/x", "/lake/t", "/lake", "lake/t/x", "s3://lake/t/x"])
def test_a_location_elsewhere_has_no_relative_path(location: str) -> None:
    """A sibling whose name begins alike lies elsewhere too."""
    with pytest.raises(ValueError, match="does not lie below"):
        relative(location, "/lake/t")


def test_an_attempts_id_starts_with_a_letter_and_tells_its_version() -> None:
    """Athena prunes partitions by text only; ids sort by version."""
    assert COMMIT == "v00000007-0123abcd"
    assert commit_id(9, "ffffffff") < commit_id(10, "00000000")
