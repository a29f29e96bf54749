"""Landing roots and patterns out of paths, and names of tables."""

from __future__ import annotations

from datetime import datetime

import pytest

from compactor.core.sources import increment, path_inference

SPLIT = {
    "student/incremental/increment_2026112014/a.json": ("student/incremental", "increment_%Y%m%d%H"),
    "public.student/dt=2026-11-20/hour=14/a.avro": ("public.student", "dt=%Y-%m-%d/hour=%H"),
    "topics/student/year=2026/month=11/day=20/hour=14/a.parquet": ("topics/student", "year=%Y/month=%m/day=%d/hour=%H"),
    "dms/school/student/2026/11/20/20261120-140000123.csv": ("dms/school/student", "%Y/%m/%d"),
    "student/2026/1/5/3/a.json": ("student", "%Y/%-m/%-d/%-H"),
    "student/2026-11-20T14/a.json": ("student", "%Y-%m-%dT%H"),
    "student/20261120/a.json": ("student", "%Y%m%d"),
    "student/2026/a.json": ("student", "%Y"),
    "student/h_2026-11-20-14-30_utc/a.json": ("student", "h_%Y-%m-%d-%H-%M_utc"),
    "student/in/20-11-2026/a.csv": ("student/in", "%d-%m-%Y"),
    "student/in/day_11.20.2026_14/a.csv": ("student/in", "day_%m.%d.%Y_%H"),
    "student/in/05-04-2026/a.csv": ("student/in", "%d-%m-%Y"),
    "student/05-13-20260/a.csv": ("student/05-13-20260", ""),
    "student/partition=3/a.json": ("student", ""),
    "student/dt=2026-11-20/partition=3/a.json": ("student", "dt=%Y-%m-%d"),
    "student/a.json": ("student", ""),
    "a.json": ("", ""),
    "hour=03/a.json": ("", "hour=%H"),
    # a table's own name may look like a time
    "public.measure_2024_01/dt=2026-11-20/hour=14/a.avro": ("public.measure_2024_01", "dt=%Y-%m-%d/hour=%H"),
    "measure_2024_01/a.json": ("measure_2024_01", ""),
    "backup_20240101/dt=2026-11-20/a.json": ("backup_20240101", "dt=%Y-%m-%d"),
    "v2/orders/a.json": ("v2/orders", ""),
}


@pytest.mark.parametrize("path", SPLIT)
def test_a_path_is_a_root_and_a_pattern(path: str) -> None:
    """The root ends before the first folder that names a time."""
    assert path_inference.split(path.split("/")[:-1]) == SPLIT[path]


@pytest.mark.parametrize("path", [path for path, (_, pattern) in SPLIT.items() if pattern])
def test_a_found_pattern_finds_the_file_again(path: str) -> None:
    """What is proposed reads what was looked at: `increment.landed` is the inverse."""
    root, pattern = SPLIT[path]
    below = path[len(root) + 1 :] if root else path
    result = increment.landed(pattern, below)
    assert increment.pattern_problem(pattern) is None
    assert result is not None
    assert below.startswith(result.folder + "/")
    assert result.hour is None or datetime.fromisoformat(result.hour).year == 2026


def test_days_of_one_and_two_digits_are_one_folder() -> None:
    """2026/9/1 and 2026/10/11 fit one pattern; a full load beside the dated folders belongs to it."""
    (folder,) = path_inference.landing_folders(["t/2026/9/1/a.csv", "t/2026/10/11/b.csv", "t/LOAD00000001.csv"])
    assert (folder.root, folder.pattern, len(folder.files)) == ("t", "%Y/%-m/%-d", 3)


def test_one_folder_that_begins_with_the_month_decides_for_all() -> None:
    """03-04-2026 may be either; 11-20-2026 may not."""
    (folder,) = path_inference.landing_folders(["t/03-04-2026/a.csv", "t/11-20-2026/b.csv"])
    assert (folder.pattern, len(folder.files)) == ("%m-%d-%Y", 2)
    (folder,) = path_inference.landing_folders(["t/03-04-2026/a.csv", "t/20-11-2026/b.csv"])
    assert (folder.pattern, len(folder.files)) == ("%d-%m-%Y", 2)


def test_markers_and_unfinished_files_are_left_out() -> None:
    """They are no data."""
    assert path_inference.landing_folders(["t/_SUCCESS", "u/.x.crc", "v/a.json.tmp"]) == []


NAMES = [
    (["shop.public.student"], ["student"]),
    (["s.public.orders", "s.sales.orders"], ["public_orders", "sales_orders"]),
    (["Mixed Case", "größe", "2nd"], ["mixed_case", "gr__e", "2nd"]),
    # `student_base` would be the name of one of student's objects
    (["student", "student_base", "student_delta"], ["student", "student_base_2", "student_delta_2"]),
    (["student_base", "student"], ["student_base_2", "student"]),
    (["a-b", "a_b"], ["a_b", "a_b_2"]),
    (["x" * 300], ["x" * 105]),
    (["___"], ["t"]),
]


@pytest.mark.parametrize(("sources", "expected"), NAMES)
def test_names_are_what_hive_holds_and_no_two_share_an_object(sources: list[str], expected: list[str]) -> None:
    """The last part of a topic; what is taken gets a number."""
    assert path_inference.table_names(sources) == expected
