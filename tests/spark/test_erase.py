"""`compactor erase` on real files: every byte of every object is searched, decompressed, and so are the values of Parquet pages."""

from __future__ import annotations

import gzip
from pathlib import Path

import fastavro
import pytest

from compactor.core.erasure.report import ErasureReport
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec
from compactor.flows.keep.erase import Request, erase
from compactor.flows.run import rebuild_table
from compactor.flows.table import Table
from tests.parts.one_spark import AVRO
from tests.spark.lake import Lake
from tests.spark.test_debezium import event

pytestmark = pytest.mark.spark

SECRET = "a secret of some length"
GONE = ("ann.secretive@example", "4711-secret", "bob\nsecretive")


def erased(lake: Lake, spec: TableSpec, *keys: tuple[str, ...]) -> ErasureReport:
    """One erase, without waiting for readers."""
    lake.now += 1
    return erase(Table(lake.env, spec), Request(keys, now=True))


def found(lake: Lake, spec: TableSpec) -> list[str]:
    """The objects with a value that must be gone."""
    out = []
    for path in Path(spec.root).rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if path.suffix == ".parquet":
            data += "\n".join("\n".join(map(str, row)) for row in lake.spark.read.parquet(str(path)).collect()).encode()
        if path.suffix == ".avro":
            with path.open("rb") as stream:
                data += "\n".join(map(str, fastavro.reader(stream))).encode()
        if any(value.encode() in data for value in GONE):
            out.append(path.relative_to(spec.root).as_posix())
    return out


def person(key: str, seq: int, mail: str, **more: object) -> dict[str, object]:
    """A row."""
    return {"id": key, "seq": seq, "mail": mail, **more}


@pytest.mark.slow
def test_no_byte_of_an_erased_key_is_left(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON lines, several Segments, a Delta, older versions; rebuilt, and with the events coming again."""
    spec = lake.spec(target_file_bytes=2000, compact_every=0.0, write_mode="merge-on-read")
    lake.land(spec, 0, [person(f"k{at}", at, f"{at}@example" * 20) for at in range(60)] + [person("4711-secret", 90, GONE[0])], "part-0.json.gz")
    lake.run(spec)
    lake.land(spec, 1, [person("4711-secret", 101, GONE[0], card="x"), person("k1", 102, "new"), {"id": "k2", "seq": 103, "mail": None}])
    lake.land(spec, 1, [person("k3", 104, "again")], "part-1.json")
    lake.run(spec)
    before = [row for row in lake.rows(spec) if row["id"] != "4711-secret"]
    assert {name.split("/")[0] for name in found(lake, spec)} >= {"base", "archive"}
    table = Table(lake.env, spec)
    with pytest.raises(Refused, match="Set the environment variable COMPACTOR_HASH_KEY to at least 16 bytes"):
        erased(lake, spec, ("4711-secret",))
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    report = erased(lake, spec, ("4711-secret",), ("never-there",))
    assert report.finished, report
    assert (report.rows, len(report.keys)) == (1, 2)
    assert sorted(item.path for item in report.rewritten) == ["increment_2024030500/part-0.json.gz", "increment_2024030501/part-0.json"]
    assert found(lake, spec) == []
    assert lake.rows(spec) == before
    assert lake.problems(spec) == []
    # neither the raw files nor the events that come again bring it back
    assert rebuild_table(table).outcome == "published"
    lake.land(spec, 2, [person("4711-secret", 201, GONE[0]), person("k3", 202, "third")])
    assert lake.run(spec).counts["ignored"] == 1
    assert [row["mail"] for row in lake.rows(spec) if row["id"] in ("k3", "4711-secret")] == ["third"]
    assert lake.problems(spec) == []
    lake.land(spec, 3, [person("4711-secret", 301, GONE[0])])
    monkeypatch.setenv("COMPACTOR_HASH_KEY", "another secret of some length")
    with pytest.raises(Refused, match="is not the one that the erased keys were hashed with"):
        lake.run(spec)
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    lake.run(spec)
    assert found(lake, spec) != []
    assert erased(lake, spec).finished
    assert found(lake, spec) == []
    lake.land(spec, 4, [person("k4", 401, "x", before=None)])
    lake.run(spec)
    with pytest.raises(Refused, match=r"expected a value for each column of the key, id \(string\), found a, b"):
        erased(lake, spec, ("a", "b"))


@pytest.mark.slow
def test_csv_and_avro_files_and_key_changes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are removed where the engine finds them: in quoted values of several lines, in compressed blocks."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    spec = lake.spec("c")
    lines = ["id,seq,name", "1,1,Ann", "", '2,2,"bob\nsecretive"', '3,3,"say ""hi"""', '4,4,5" pipe']
    path = Path(spec.landing) / "increment_2024030500" / "part-0.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines))
    lake.run(spec)
    report = erased(lake, spec, ("2",))
    assert report.finished
    archived = Path(spec.root) / "archive" / "increment_2024030500" / "part-0.csv"
    assert archived.read_text() == "\n".join(line for line in lines if "bob" not in line)
    assert found(lake, spec) == []
    assert [row["id"] for row in lake.rows(spec)] == [1, 3, 4]
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"

    if AVRO:
        spec = lake.spec("a")
        path = Path(spec.landing) / "increment_2024030500" / "part-0.avro"
        path.parent.mkdir(parents=True)
        fields = [{"name": "id", "type": "long"}, {"name": "seq", "type": "long"}, {"name": "mail", "type": ["null", "string"]}]
        people = [{"id": at, "seq": at, "mail": GONE[0] if at == 300 else f"{at}@example"} for at in range(500)]
        with path.open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "t", "fields": fields}), people, "deflate", sync_interval=1000)
        lake.run(spec)
        assert erased(lake, spec, ("300",)).finished
        assert found(lake, spec) == []
        assert rebuild_table(Table(lake.env, spec)).outcome == "published"
        assert {row["id"] for row in lake.rows(spec)} == {*range(500)} - {300}

    spec = lake.spec("m", envelope="debezium", order_by=())
    lake.land(spec, 0, [event("c", 1, after={"id": 5, "v": "a"}), event("u", 2, before={"id": 5, "v": "a"}, after={"id": 6, "v": "a"})])
    lake.run(spec)
    with pytest.raises(Refused, match="Name both keys"):
        erased(lake, spec, ("6",))
    assert erased(lake, spec, ("6",), ("5",)).rows == 2
    assert lake.rows(spec) == []
