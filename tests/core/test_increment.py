"""Landing folders: patterns, the hours they name, and what is no data."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model import times
from compactor.core.sources.increment import (
    Landed,
    file_format,
    folder_at,
    hour_place,
    ignored,
    is_dated_changes,
    is_full_load,
    landed,
    names_no_date,
    pattern_problem,
    split_pattern,
)

HOURLY = "increment_%Y%m%d%H"
HIVE = "year=%Y/month=%m/day=%d/hour=%H"
PLAIN = "%Y/%m/%d/%H"
QUARTERS = "%Y-%m-%d/%H%M"


@pytest.mark.parametrize(
    ("path", "root", "pattern"),
    [
        ("student/incremental/increment_%Y%m%d%H", "student/incremental", HOURLY),
        ("s3://b/raw/year=%Y/month=%m/day=%d/hour=%H/", "s3://b/raw", HIVE),
        ("/raw/%Y/%m/%d/%H", "/raw", PLAIN),
        ("raw/student", "raw/student", ""),
        ("raw/student/", "raw/student", ""),
        ("%Y", "", "%Y"),
    ],
)
def test_a_landing_path_is_split_at_its_first_pattern(path: str, root: str, pattern: str) -> None:
    """Root and pattern."""
    assert split_pattern(path) == (root, pattern)


@pytest.mark.parametrize("pattern", [HOURLY, HIVE, PLAIN, QUARTERS, "", "%Y", "load", "day_%Y%m%d"])
def test_good_patterns_have_no_problem(pattern: str) -> None:
    """The documented ones, and none at all."""
    assert pattern_problem(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("%Y%j", "%j"),
        ("%y%m%d", "%y"),
        ("hour_%s", "%s"),
        ("%%Y", "%%"),
        ("%Y/%Y%m", "twice"),
        ("%m/%-m", "twice"),
        ("%-Y", "%-Y"),
        ("%H%d%H", "twice"),
        ("%Y%m%d%H%M%S", "%S"),
    ],
)
def test_bad_patterns_are_named(pattern: str, problem: str) -> None:
    """Codes nobody knows, and parts said twice."""
    assert problem in (pattern_problem(pattern) or "")


@pytest.mark.parametrize(
    ("pattern", "path", "folder", "hour"),
    [
        (HOURLY, "increment_2026112014/a.parquet", "increment_2026112014", "2026-11-20T14:00"),
        (HOURLY, "increment_2026112014/part=1/a.parquet", "increment_2026112014", "2026-11-20T14:00"),
        (HOURLY, "increment_2024022923/a", "increment_2024022923", "2024-02-29T23:00"),
        (HIVE, "year=2026/month=01/day=02/hour=03/x.json", "year=2026/month=01/day=02/hour=03", "2026-01-02T03:00"),
        (PLAIN, "2026/01/02/03/x.json", "2026/01/02/03", "2026-01-02T03:00"),
        (QUARTERS, "2026-01-02/0345/x.json", "2026-01-02/0345", "2026-01-02T03:45"),
        ("day_%Y%m%d", "day_20260102/x", "day_20260102", "2026-01-02T00:00"),
        ("load", "load/x", "load", None),
        ("", "a.json", "", None),
        ("", "any/folder/a.json", "", None),
    ],
)
def test_a_file_belongs_to_the_folder_that_fits(pattern: str, path: str, folder: str, hour: str | None) -> None:
    """Deeper folders belong to the increment that holds them."""
    assert landed(pattern, path) == Landed(folder, hour)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (HOURLY, "a.json"),
        (HOURLY, "increment_2026112014"),
        (HOURLY, "increment_2026112014.json"),
        (HOURLY, "increment_20261120/a"),
        (HOURLY, "increment_20261120141/a"),
        (HOURLY, "increment_2026112014x/a"),
        (HOURLY, "xincrement_2026112014/a"),
        (HOURLY, "x/increment_2026112014/a"),
        (HOURLY, "increment_2026132014/a"),
        (HOURLY, "increment_2026110014/a"),
        (HOURLY, "increment_2026022914/a"),
        (HOURLY, "increment_2026112024/a"),
        (HOURLY, "increment_0000112014/a"),
        (HOURLY, "increment_202611201a/a"),
        (HOURLY, "Increment_2026112014/a"),
        (HIVE, "year=2026/month=1/day=02/hour=03/x"),
        (HIVE, "year=2026/month=01/day=02/x"),
        (PLAIN, "2026/01/02/x"),
        (PLAIN, "2026/01/02/60/x"),
        (QUARTERS, "2026-01-02/0360/x"),
        ("a.b", "aXb/x"),
    ],
)
def test_a_file_that_fits_no_folder_or_no_date_has_no_increment(pattern: str, path: str) -> None:
    """Near misses, and dates that no calendar has."""
    assert landed(pattern, path) is None


SEQUENCES = {"YYYYMMDD": "Ymd", "YYYYMMDDHH": "YmdH", "YYYYMM": "Ym", "MMYYYYDD": "mYd", "DDMMYYYY": "dmY"}
DELIMITERS = {"SLASH": "/", "UNDERSCORE": "_", "DASH": "-", "NONE": ""}


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_every_folder_that_dms_dates_can_be_said(sequence: str, delimiter: str) -> None:
    """DatePartitionSequence and DatePartitionDelimiter; with a delimiter also without leading zeros, as AWS's walk-throughs show them."""
    values = {"Y": "2026", "m": "03", "d": "09", "H": "07"}
    between = DELIMITERS[delimiter]
    pattern = between.join(f"%{code}" for code in SEQUENCES[sequence])
    folder = between.join(values[code] for code in SEQUENCES[sequence])
    day = "09" if "d" in SEQUENCES[sequence] else "01"
    hour = "07" if "H" in SEQUENCES[sequence] else "00"
    assert pattern_problem(pattern) is None
    assert landed(pattern, f"{folder}/20260309-071500123.csv", load_files=True) == Landed(folder, f"2026-03-{day}T{hour}:00")
    assert split_pattern(f"dms/school/student/{pattern}") == ("dms/school/student", pattern)
    if between:
        bare = between.join(f"%{'' if code == 'Y' else '-'}{code}" for code in SEQUENCES[sequence])
        short = between.join(values[code].lstrip("0") for code in SEQUENCES[sequence])
        assert pattern_problem(bare) is None
        for result in (folder, short):
            assert landed(bare, f"{result}/x.csv") == Landed(result, f"2026-03-{day}T{hour}:00")


@pytest.mark.parametrize(
    ("path", "load", "changes"),
    [
        ("LOAD00000001.csv", True, False),
        ("LOAD0000000A.parquet", True, False),
        ("LOAD001.csv", True, False),
        ("LOAD00000001.csv.gz", True, False),
        ("LOAD_2_0000000F.csv", True, False),
        ("a/b/LOAD00000001.csv", True, False),
        ("20141029-1134010000.csv", False, True),
        ("20220521-145815742.parquet", False, True),
        ("2022/05/21/20220521-145815742.csv.gz", False, True),
        ("LOADING.csv", False, False),
        ("load00000001.csv", False, False),
        ("LOAD.csv", False, False),
        ("LOAD00000001", False, False),
        ("20220521.csv", False, False),
        ("part-00000.csv", False, False),
        ("LOAD00000001.csv/part-0.csv", False, False),
    ],
)
def test_how_dms_calls_its_files(path: str, load: bool, changes: bool) -> None:
    """Full load and changes, by the last part of the path."""
    assert (is_full_load(path), is_dated_changes(path)) == (load, changes)


@pytest.mark.parametrize(
    ("path", "load_files", "expected"),
    [
        ("LOAD00000001.csv", True, Landed("", None)),
        ("LOAD00000001.csv", False, None),
        ("x/LOAD00000001.csv", True, None),
        ("20260101-000000000.csv", True, None),
        ("2026/01/01/LOAD00000001.csv", True, Landed("2026/01/01", "2026-01-01T00:00")),
    ],
)
def test_a_full_load_lies_beside_the_dated_folders(path: str, load_files: bool, expected: Landed | None) -> None:
    """And belongs to the table's own folder."""
    assert landed("%Y/%m/%d", path, load_files=load_files) == expected


@given(moment=st.datetimes(min_value=datetime(1000, 1, 1)), pattern=st.sampled_from([HOURLY, HIVE, PLAIN]))
def test_the_folder_of_any_hour_names_that_hour(moment: datetime, pattern: str) -> None:
    """`strftime` and its inverse."""
    result = landed(pattern, f"{moment.strftime(pattern)}/a.json")
    assert result == Landed(moment.strftime(pattern), moment.strftime("%Y-%m-%dT%H:00"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f/a.parquet", False),
        ("year=2026/a.parquet", False),
        ("_year=2026/a.parquet", False),
        ("f/a.tmp.parquet", False),
        ("f/_SUCCESS", True),
        ("f/.a.parquet.crc", True),
        ("f/a.parquet.crc", True),
        ("f/a.parquet.tmp", True),
        ("f/a.inprogress", True),
        ("f/a.parquet._COPYING_", True),
        ("_temporary/0/a.parquet", True),
        (".hidden/a.parquet", True),
        ("f/.a", True),
        ("f_$folder$", True),
        ("f/", True),
    ],
)
def test_markers_and_unfinished_files_are_ignored(path: str, expected: bool) -> None:
    """What Spark and Hive overlook, and what writers name so."""
    assert ignored(path) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f/a.parquet", "parquet"),
        ("f/a.snappy.parquet", "parquet"),
        ("f/A.PARQUET", "parquet"),
        ("f/a.avro", "avro"),
        ("f/a.json", "json"),
        ("f/a.json.gz", "json"),
        ("f/a.jsonl.zst", "json"),
        ("f/a.ndjson", "json"),
        ("f/a.csv.bz2", "csv"),
        ("f.json/a", None),
        ("f/a.gz", None),
        ("f/a.txt", None),
        ("f/json", None),
    ],
)
def test_the_name_tells_the_format(path: str, expected: str | None) -> None:
    """Compression suffixes are taken off; some names show no format."""
    assert file_format(path) == expected


@pytest.mark.parametrize(
    ("pattern", "zone", "place"),
    [
        (HOURLY, "UTC", ("increment_2026112014", "2026-11-20T14:00")),
        (HIVE, "UTC", ("year=2026/month=11/day=20/hour=14", "2026-11-20T14:00")),
        (HOURLY, "Europe/Berlin", ("increment_2026112015", "2026-11-20T14:00")),
        ("%Y/%-m/%-d/%-H", "America/New_York", ("2026/11/20/9", "2026-11-20T14:00")),
        ("day_%Y%m%d", "UTC", ("day_20261120", "2026-11-20T00:00")),
        ("day_%Y%m%d", "Asia/Tokyo", ("day_20261120", "2026-11-19T15:00")),
        (QUARTERS, "UTC", ("2026-11-20", "2026-11-20T14")),
        ("change_%Y%m%d%H%M", "UTC", ("", "2026-11-20T14")),
        ("", "UTC", None),
        ("load", "UTC", None),
    ],
)
def test_an_hour_has_a_place(pattern: str, zone: str, place: tuple[str, str] | None) -> None:
    """The directory to look into, and how the hour of a file there begins."""
    assert hour_place(pattern, datetime(2026, 11, 20, 14, tzinfo=timezone.utc), zone) == place


@given(moment=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), pattern=st.sampled_from([HOURLY, HIVE, PLAIN, "%-d.%-m.%Y/%-H"]))
def test_the_place_of_an_hour_is_where_its_files_are_found(moment: datetime, pattern: str) -> None:
    """The inverse of `landed`."""
    hour = moment.replace(minute=0, second=0, microsecond=0, tzinfo=timezone.utc)
    place = hour_place(pattern, hour)
    assert place is not None
    assert landed(pattern, f"{place[0]}/part.json") == Landed(place[0], place[1])
    assert place[1] == hour.strftime("%Y-%m-%dT%H:%M")


def test_connects_s3_sink_as_the_page_sets_it_up_writes_folders_that_fit() -> None:
    """`path.format` (Joda's letters) and `increments:` on docs/sources.md are the same folders, and the file there has the hour of its folder."""
    page = (Path(__file__).parents[2] / "docs/sources.md").read_text(encoding="utf-8")
    section = page[page.index("## Connect's S3 sink") :]
    settings = dict(line.split("=", 1) for line in re.findall(r"```properties\n(.*?)```", section, re.DOTALL)[0].splitlines())
    (written,) = re.findall(r"`(topics/\S+\.json)`", section)
    (root, pattern), topic = split_pattern(re.findall(r"increments: s3://acme-landing/(\S+)", section)[0]), written.split("/")[1]
    codes = {"YYYY": "%Y", "MM": "%m", "dd": "%d", "HH": "%H"}
    spelled = re.sub(r"'([^']*)'|([A-Za-z]+)", lambda part: part[1] if part[1] is not None else codes[part[2]], settings["path.format"])
    assert (root, pattern) == (f"{settings['topics.dir']}/{topic}", spelled)
    relative = written.removeprefix(f"{root}/")
    assert landed(pattern, relative) == Landed("year=2026/month=11/day=25/hour=14", "2026-11-25T14:00")
    assert (file_format(relative), ignored(relative)) == ("json", False)
    assert hour_place(pattern, datetime(2026, 11, 25, 14, tzinfo=timezone.utc)) == ("year=2026/month=11/day=25/hour=14", "2026-11-25T14:00")


@pytest.mark.parametrize(
    ("folder", "zone", "hour"),
    [
        ("0999010100", "UTC", "0999-01-01T00:00"),
        ("0001010100", "UTC", "0001-01-01T00:00"),
        ("0001010100", "Asia/Tokyo", None),
        ("9999123123", "America/New_York", None),
        ("0000010100", "UTC", None),
    ],
)
def test_the_hour_of_any_folder_is_a_time_or_none(folder: str, zone: str, hour: str | None) -> None:
    """A year below 1000 has four digits; a folder whose hour has no year in UTC names no date."""
    path = f"increment_{folder}/a.json"
    place = landed(HOURLY, path, zone)
    assert (place and place.hour, names_no_date(HOURLY, path, zone)) == (hour, hour is None)
    if hour is not None:
        assert folder_at(HOURLY, times.to_seconds(hour), zone) == f"increment_{folder}"


def test_whatever_begins_with_a_dot_is_ignored() -> None:
    """Also with a `=` in its name, as a partition has one."""
    assert [ignored(f"hour/{name}") for name in (".a=b.json", ".day=5/a.json", "_day=5/a.json", "_SUCCESS")] == [True, True, False, True]
