"""Landed files may have any name that a file system can hold: exactly the listed files are read, each once, and archived, erased and listed by name."""

from __future__ import annotations

import csv
import io
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote as url_unquote

import pytest

from compactor.core.model.errors import InconsistentRead, Refused
from compactor.core.model.spec import TableSpec
from compactor.flows.keep.erase import Request, erase
from compactor.flows.read.status import plan, status
from compactor.flows.table import Table
from compactor.spark import consistency
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input.files import Origins
from compactor.storage.local import LocalStorage
from tests.oracle.sizes import FULL
from tests.parts import any_text
from tests.parts.odd_names import ODD, random_names
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

HOUR = "increment_2024030500"


def land(lake: Lake, spec: TableSpec, names: Sequence[str]) -> None:
    """A file a name, each with a row whose key is the place of the name."""
    folder = Path(spec.landing) / HOUR
    folder.mkdir(parents=True, exist_ok=True)
    for key, name in enumerate(names):
        row = {"id": key, "seq": 1, "name": f"row {key}"}
        if name.endswith(".parquet"):
            lake.spark.createDataFrame([tuple(row.values())], "id INT, seq INT, name STRING").coalesce(1).write.parquet(str(lake.root / "made"))
            next((lake.root / "made").glob("*.parquet")).rename(folder / name)
            for left in (lake.root / "made").iterdir():
                left.unlink()
            (lake.root / "made").rmdir()
        elif name.endswith(".csv"):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([row.keys(), row.values()])
            (folder / name).write_text(text.getvalue())
        else:
            (folder / name).write_text(json.dumps(row) + "\n")


def check_all(lake: Lake, spec: TableSpec, names: Sequence[str]) -> None:
    """Every row is in the view once, every file in the archive."""
    assert sorted(row["id"] for row in lake.rows(spec)) == list(range(len(names)))
    assert sorted(path.name for path in Path(spec.root, "archive").rglob("*") if path.is_file()) == sorted(names)
    assert [] == lake.landed(spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_any_name_is_read_once(lake: Lake, suffix: str) -> None:
    """Glob signs, colons, quotes, controls and every Unicode category, in one run."""
    spec, seed = lake.spec(), random.randrange(1 << 30)
    names = sorted({*(f"{name}{suffix}" for name in ODD), *random_names(random.Random(seed), 10, suffix)})
    print("seed", seed)
    land(lake, spec, names)
    assert lake.run(spec).files == len(names)
    check_all(lake, spec, names)


@pytest.mark.slow
def test_parquet_files_with_glob_signs(lake: Lake) -> None:
    """Parquet files are opened in another way."""
    spec, names = lake.spec(), ["export [1:2].parquet", "1.parquet", "[1].parquet", "tick`.parquet"]
    land(lake, spec, names)
    lake.run(spec)
    check_all(lake, spec, names)


@pytest.mark.slow
def test_any_name_and_any_text_all_the_way(tmp_path: Path) -> None:
    """On a local disk; `tests/engines/test_s3_warehouse.py` has the same on S3."""
    chance = random.Random(seed := random.randrange(1 << 30))
    print("seed", seed)
    # a random name may be one of the odd ones
    names = {*(f"{name}.json" for name in ODD), *random_names(chance, 400 if FULL else 10, ".json"), *random_names(chance, 5, ".json.gz")}
    any_text.travel(LocalStorage(), str(tmp_path / "w"), tmp_path, chance, sorted(names))


@pytest.mark.slow
def test_two_files_of_one_size_of_which_one_is_a_pattern_for_the_other(lake: Lake) -> None:
    """`[a].json` as a pattern fits `a.json` only."""
    spec, names = lake.spec(), ["[a].json", "a.json"]
    land(lake, spec, names)
    lake.run(spec)
    check_all(lake, spec, names)


@pytest.mark.slow
def test_a_warehouse_may_have_glob_signs(lake: Lake) -> None:
    """Base and Delta lie below such a path too."""
    spec = lake.spec("t", write_mode="merge-on-read")
    spec = lake.with_settings(spec, root=str(lake.root / "a [b]" / "t"), landing=str(lake.root / "a [b]" / "in"))
    for names in (["a.json"], ["b.json", "c.json"]):
        land(lake, spec, names)
        lake.run(spec)
    assert lake.snapshot(spec).delta is not None
    assert [0, 1] == [row["id"] for row in lake.rows(spec)]


def test_other_files_than_were_asked_for_are_noticed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a location were read as a pattern again, no row would be committed, although the bytes agree."""
    monkeypatch.setattr(consistency, "_pattern", lambda location: location)
    monkeypatch.setattr(consistency, "_WAIT_SECONDS", 0.0)
    for name in ("a.json", "[a].json"):
        (lake.root / name).write_text("{}\n")
    sizes = {str(lake.root / name): 3 for name in ("a.json", "[a].json")}
    with pytest.raises(InconsistentRead, match=r"expected Spark to read 2 locations, found 1; missing: .*/\[a\].json"):
        ConsistentReads(sizes).open(lake.spark.read.format("text"), [*sizes])


@pytest.mark.slow
def test_names_in_quarantine_and_in_an_erase(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invalid records and unreadable files are named, long names included; an erase finds the records of a file with such a name."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", "a secret of some length")
    spec, seed = lake.spec(quarantine_share=1.0), random.randrange(1 << 30)
    print("seed", seed)
    names = sorted({*(f"{name}.json" for name in ODD[:20]), *random_names(random.Random(seed), 5, ".json")})
    land(lake, spec, names)
    folder = Path(spec.landing) / HOUR
    for name in names:
        with (folder / name).open("a") as file:
            file.write("no JSON\n")
    lake.run(spec)
    assert [2] * len(names) == [record for record, _ in lake.unusable(spec)]
    for name in names:
        repaired = folder.parent.parent / "archive" / HOUR / name
        assert repaired.read_text().endswith("no JSON\n")
    fine = lake.spec("fine")
    land(lake, fine, names)
    lake.run(fine)
    lake.now += 1
    erase(Table(lake.env, fine), Request((("3",),), now=True))
    assert not [path for path in Path(fine.root).rglob("*.json") if '"row 3"' in path.read_text()]
    (Path(fine.root) / "archive" / HOUR / names[4]).write_text('{"id": 4, "seq": 1}\n' * 2 + " " * 40)
    assert any("ingested records: " in problem for problem in lake.problems(fine))


@pytest.mark.slow
def test_an_erase_counts_what_it_reads(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A raw file with other records than were ingested, and as many bytes, is no proof that a key is gone."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", "a secret of some length")
    spec = lake.spec()
    landed = lake.land(spec, 0, [{"id": 1, "seq": 1}, {"id": 2, "seq": 1}])
    size = landed.stat().st_size
    lake.run(spec)
    archived = next(path for path in Path(spec.root, "archive").rglob("*.json"))
    archived.write_text('{"id": 1, "seq": 1}'.ljust(size - 1) + "\n")
    with pytest.raises(Refused, match=r"expected 2 events as when it was ingested, found 1. Nothing was erased"):
        erase(Table(lake.env, spec), Request((("2",),), now=True))


def test_what_nobody_can_name_or_may_follow_stays_in_landing(lake: Lake) -> None:
    """A link, a name that is not UTF-8, and a folder that names no date are named by run, plan, status and check; the others go on."""
    spec = lake.spec()
    lake.land(spec, 0, [{"id": 1, "seq": 1}])
    secret = lake.root / "secret.json"
    secret.write_text('{"id": 2, "seq": 1}\n')
    folder = Path(spec.landing) / HOUR
    (folder / "link.json").symlink_to(secret)
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.json")).write_text('{"id": 3, "seq": 1}\n')
    impossible = Path(spec.landing) / "increment_2024023000"
    impossible.mkdir()
    (impossible / "a.json").write_text('{"id": 4, "seq": 1}\n')
    expected = (
        "left in landing until renamed or removed: increment_2024023000/a.json lies in a folder that names no date; "
        "increment_2024030500/caf\\xe9.json has a name that is not UTF-8; increment_2024030500/link.json is a symbolic link"
    )
    table = Table(lake.env, spec)
    for outcome in ("committed", "idle"):
        report = lake.run(spec)
        assert outcome == report.outcome
        assert expected in report.notes
    assert [1] == [row["id"] for row in lake.rows(spec)]
    assert expected in plan(table).steps
    assert expected == status(table).unusable_files
    assert expected in [item.detail for item in plan(table).checks if not item.ok]
    json.dumps([status(table).to_json(), report.to_json()], ensure_ascii=False).encode()


def test_a_new_table_says_which_values_only_the_names_of_folders_have(lake: Lake) -> None:
    """Hive and Spark leave the columns of `partitionBy` out of the files. Once is enough: they may mean nothing, as Kafka's `partition=0`."""
    spec = lake.spec()
    lake.land(spec, 0, [{"id": 1, "seq": 1, "Place": "x"}], "region=eu/place=x/part-0.json")
    assert [note for note in lake.run(spec).notes if note.startswith("folders are called region=..: ")]
    lake.land(spec, 1, [{"id": 2, "seq": 1, "Place": "x"}], "region=us/part-0.json")
    assert not [note for note in lake.run(spec).notes if "region" in note]


@pytest.mark.slow
def test_a_time_in_the_future_does_not_wait(lake: Lake) -> None:
    """A wrong clock of the writer would keep the file in landing for ever."""
    spec = lake.spec(settle=60.0)
    path = lake.land(spec, 0, [{"id": 1, "seq": 1}])
    soon, late = LocalStorage().now() + 30, LocalStorage().now() + 1e9
    os.utime(path, (soon, soon))
    assert "idle" == lake.run(spec).outcome
    os.utime(path, (late, late))
    assert "committed" == lake.run(spec).outcome


ORIGINS = [
    # (landing, warehouse, URI, name)
    ("/data/student", "/lake/data", "file:///lake/data/student/archive/h/a%20b.json", "h/a b.json"),
    ("/data/student", "/lake/data", "file:///data/student/h/a+b.json", "h/a+b.json"),
    ("s3://lake/orders", "s3://datalake", "s3a://datalake/orders/archive/h/a.json", "h/a.json"),
    ("s3://lake/orders", "s3://datalake", "s3://lake/orders/h/a.json", "h/a.json"),
    ("s3://lake/orders", "s3://lake", "s3://lake/orders/archive/lake/orders/a.json", "archive/lake/orders/a.json"),
    ("/data/student", "/lake/data", "file:/data/student/h/a.json", "h/a.json"),
    ("/data/student", "/lake/data", "file:/lake/data/student/archive/h/a.json", "h/a.json"),
    ("/data/student", "/lake/data", "file:/own/a.json", "of its own"),
    ("/data/student", "/lake/data", "file:/other/own/a.json", None),
]


@pytest.mark.parametrize("encoded", [True, False])
def test_a_file_is_called_by_the_root_that_it_lies_below(lake: Lake, encoded: bool) -> None:
    """Not by one whose path only occurs in its own: Spark and Python must call it by the same name."""
    for landing, warehouse, uri, expected in ORIGINS:
        if "%" in uri and not encoded:
            continue
        root = warehouse + landing[landing.rindex("/") :]
        origins = Origins((landing, f"{root}/archive", f"{root}/quarantine"), (("/own/a.json", "of its own"),), encoded)
        (row,) = lake.spark.sql(f"SELECT {origins.sql()} AS name FROM (SELECT named_struct('file_path', '{uri}') AS _metadata)").collect()
        assert row.name == expected, uri
        location = url_unquote(uri.removeprefix("file:").replace("///", "/").replace("s3a:", "s3:"))
        if expected is not None and "own" not in expected:
            assert origins.path(location) == expected
