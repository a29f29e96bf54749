"""`compactor erase` on real files: every byte of every object is searched, decompressed, and so are the values of Parquet pages."""

from __future__ import annotations

import base64
import gzip
import json
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest

from compactor.core.model.errors import InputRefused, Refused
from compactor.core.model.spec import Csv, TableSpec
from compactor.core.results.reports import ErasureReport
from compactor.flows.keep.erase import Request, erase
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.parts.one_spark import AVRO
from tests.spark.lake import Lake
from tests.spark.test_change_event import event as change_event
from tests.spark.test_debezium import GONE as UNAVAILABLE
from tests.spark.test_debezium import debezium, event
from tests.spark.test_wal2json import many, one
from tests.spark.test_wire import HEADERS, line, wire

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
        data += b"\n".join(base64.b64decode(text) for text in re.findall(rb'"b64": "([^"]*)"', data))
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

    # the columns of a file without a header are as the settings say
    spec = lake.spec("h", csv=Csv(columns=("id", "seq", "ref", "name")))
    path = Path(spec.landing) / "increment_2024030500" / "part-0.csv"
    path.parent.mkdir(parents=True)
    path.write_text("1,1,7,Ann\n7,2,1,Bob\n")
    lake.run(spec)
    with pytest.raises(Refused, match="was read as CSV with the columns id, seq, ref, name, and `csv:` names ref, seq, id, name"):
        erased(lake, lake.with_settings(spec, csv=Csv(columns=("ref", "seq", "id", "name"))), ("1",))
    assert erased(lake, lake.with_settings(spec, csv=Csv(columns=("id", "seq", "ref", "more", "name"))), ("1",)).finished

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


PERSON = {"type": "record", "name": "P", "fields": [{"name": "id", "type": "string"}, {"name": "mail", "type": ["null", "string"]}]}
PERSON_KEY = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "string"}]}
SCHEMAS = {1: PERSON, 7: PERSON_KEY, 8: "string"}


@pytest.mark.slow
def test_records_of_topics_and_parquet_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and keys as JSON, Avro and text, in JSON lines and in Parquet; tombstones and ignored operations hold the person too."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    lake = Lake(lake.spark, lake.root, lambda number: json.dumps(SCHEMAS[number]))

    def avro(number: int, datum: object) -> bytes:
        return wire(number, datum, SCHEMAS[number])

    gone, mail = "4711-secret", GONE[0]
    connect = {"schema": {"type": "struct", "fields": [{"field": "id", "type": "string"}]}, "payload": {"id": gone}}
    lines = [
        line(0, avro(1, {"id": gone, "mail": mail}), avro(7, {"id": gone})),
        line(1, avro(1, {"id": "k1", "mail": "a"}), avro(7, {"id": "k1"})),
        line(2, json.dumps({"id": gone, "mail": mail}), json.dumps({"id": gone})),
        line(3, None, json.dumps(connect)),
        line(4, None, avro(7, {"id": gone})),
        line(5, None, gone),
        line(6, None, avro(8, gone)),
        line(7, None, json.dumps({"id": "k2"})),
        line(8, json.dumps({"id": gone, "mail": mail, "__op": "x"}), "null"),
        line(9, json.dumps({"id": "k3", "mail": "c", "__op": "c"})),
    ]
    spec = lake.spec("k", container="kafka", order_by=("kafka.offset",), op_map=(("x", "ignore"),))
    lake.land(spec, 0, lines)
    lake.run(spec)
    rows = [row for row in lake.rows(spec) if row["id"] != gone]
    assert [row["id"] for row in rows] == ["k1", "k3"]
    report = erased(lake, spec, (gone,))
    assert report.finished
    archived = Path(spec.root) / "archive" / "increment_2024030500" / "part-0.json"
    assert archived.read_text().splitlines() == ["" if number in (0, 2, 3, 4, 5, 6, 8) else text for number, text in enumerate(lines)]
    assert found(lake, spec) == []
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"
    assert lake.rows(spec) == rows
    lake.land(spec, 1, [line(10, None, gone), line(11, json.dumps({"id": "k4"}))])
    lake.run(spec)
    assert erased(lake, spec).finished
    assert found(lake, spec) == []
    # beside an operation and a place in the source such a record is ignored
    spec = lake.spec("i", container="kafka", order_by=("seq",))
    rows_of_deletes = [line(2, json.dumps({"id": "k5", "seq": 2, "__op": "d"}))]
    lake.land(spec, 0, [line(0, json.dumps({"id": "k5", "seq": 1, "__op": "c"})), line(1, None, f"Struct{{id={gone}}}"), *rows_of_deletes])
    lake.run(spec)
    with pytest.raises(InputRefused, match="records without a value whose key cannot be read"):
        erased(lake, spec, (gone,))

    spec = lake.spec("p", container="kafka", order_by=("kafka.offset",), format="parquet")
    values = [(gone, mail), ("k1", "a"), (gone, None), ("k2", "b")]
    records = [
        {"key": bytearray(avro(7, {"id": key})), "value": bytearray(avro(1, {"id": key, "mail": value})) if value else None, "headers": [],
         "offset": at, "partition": 0}
        for at, (key, value) in enumerate(values)
    ]  # fmt: skip
    lake.land_parquet(spec, 0, records, HEADERS)
    lake.run(spec)
    rows = [row for row in lake.rows(spec) if row["id"] != gone]
    (archived,) = (Path(spec.root) / "archive").rglob("*.parquet")
    before = lake.spark.read.parquet(str(archived)).where("offset IN (1, 3)").collect()
    assert len(found(lake, spec)) > 1
    assert erased(lake, spec, (gone,)).finished
    assert found(lake, spec) == []
    assert lake.spark.read.parquet(str(archived)).collect() == before
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"
    assert lake.rows(spec) == rows

    spec = lake.spec("q", format="parquet")
    ddl = "id STRING, seq BIGINT, mail STRING, d DATE, t TIMESTAMP, n DECIMAL(12,3), a ARRAY<STRUCT<x: INT>>, m MAP<STRING, BINARY>, i INT"
    filled = {"d": date(1066, 10, 14), "t": datetime(1900, 1, 1, 1, 2, 3, 4), "n": Decimal("1.500"), "a": [(1,), None], "m": {"x": b"y"}, "i": -1}
    people = [
        person(gone if at == 300 else f"k{at}", at, mail if at == 300 else "a", **(filled if at % 2 else dict.fromkeys(filled))) for at in range(500)
    ]
    lake.land_parquet(spec, 0, people, ddl)
    lake.run(spec)
    rows = [row for row in lake.rows(spec) if row["id"] != gone]
    (archived,) = (Path(spec.root) / "archive").rglob("*.parquet")
    before = lake.spark.read.parquet(str(archived)).where(f"id <> '{gone}'").collect()
    assert erased(lake, spec, (gone,)).finished
    assert found(lake, spec) == []
    assert lake.spark.read.parquet(str(archived)).collect() == before
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"
    assert lake.rows(spec) == rows
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_the_history_and_the_feed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of other keys stay in the history, on all their days; the feed begins anew, also with every event in it."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    spec = lake.spec("h", history=True, feed="net", target_file_bytes=2000)
    gone = "4711-secret"
    lake.land(spec, 0, [person(f"k{at}", at, f"{at}@example" * 20) for at in range(40)] + [person(gone, 90, GONE[0])])
    lake.run(spec)
    for hour in range(1, 4):
        lake.land(spec, hour, [person(key, 100 * hour + at, f"{key}{hour}") for at, key in enumerate((gone, "k1", gone, f"k{hour + 5}"))])
        lake.run(spec)

    def versions() -> list[dict[str, object]]:
        return [row for row in lake.rows(spec, "h_history") if row["id"] != gone]

    before, rows = versions(), [row for row in lake.rows(spec) if row["id"] != gone]
    assert {place.split("/")[0] for place in found(lake, spec)} >= {"base", "feed", "history", "archive"}
    report = erased(lake, spec, (gone,))
    assert report.finished, report
    assert report.events == 7
    assert found(lake, spec) == []
    assert not list((Path(spec.root) / "feed").rglob("*.parquet"))
    assert versions() == before == lake.rows(spec, "h_history")
    assert lake.rows(spec) == rows
    assert lake.problems(spec) == []
    lake.land(spec, 4, [person(gone, 401, GONE[0]), person("k1", 402, "newest")])
    lake.run(spec)
    assert lake.problems(spec) == []
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"
    assert lake.problems(spec) == []
    history = lake.snapshot(spec).history
    assert history is not None
    assert history.since is None, "the rebuilt history begins with the first event, too"
    assert {place.split("/")[0] for place in found(lake, spec)} == {"archive"}
    assert erased(lake, spec).finished
    assert found(lake, spec) == []
    assert len(versions()) == len(before) + 1
    assert versions() == lake.rows(spec, "h_history")


@pytest.mark.slow
def test_transactions_of_wal2json_and_change_events(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a transaction with several rows only the changes of the keys go; the others keep their places in the order."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    mail, settings = GONE[0], {"format": "json", "order_by": (), "quarantine_rows": 0}
    mixed = many(
        9, ("insert", {"id": 1, "v": mail}, None), ("insert", {"id": 2, "v": "a"}, None), ("update", {"id": 1, "v": mail}, {"id": 1}),
        ("update", {"id": 2, "v": "b"}, {"id": 2}), ("insert", {"id": 1, "v": mail}, None),
    )  # fmt: skip
    mixed["change"][-1]["table"] = "other"
    alone = many(10, ("update", {"id": 1, "v": mail, "n": 1}, None), ("delete", None, {"id": 1}))
    for name, documents in {
        "w": [mixed, alone, many(11, ("insert", {"id": 3, "v": "c"}, None)), one("U", 12, {"id": 1, "v": mail}), one("I", 13, {"id": 4, "v": "d"})],
        "k": [{"key": None, "value": json.dumps(mixed), "offset": 1}, {"key": '{"id": 1}', "value": None, "offset": 2}],
    }.items():
        spec = lake.spec(name, envelope="wal2json", source_table="public.t", container="kafka" if name == "k" else "value", **settings)
        lake.land(spec, 0, documents)
        lake.run(spec)
        rows = [row for row in lake.rows(spec) if row["id"] != 1]
        assert [(row["id"], row["v"]) for row in rows if row["id"] == 2] == [(2, "b")]
        report = erased(lake, spec, ("1",))
        assert report.finished, report
        archived = (Path(spec.root) / "archive" / "increment_2024030500" / "part-0.json").read_text().split("\n")
        # the row of the other table is not this table's
        assert "".join(archived).count(mail) == 1
        assert [bool(text) for text in archived[: len(documents)]] == ([True, False, True, False, True] if name == "w" else [True, False])
        silent = {"kind": "message"}
        left = json.loads(archived[0]) if name == "w" else json.loads(json.loads(archived[0])["value"])
        assert left == {**mixed, "change": [silent, mixed["change"][1], silent, mixed["change"][3], mixed["change"][4]]}
        assert rebuild_table(Table(lake.env, spec)).outcome == "published"
        assert lake.rows(spec) == rows
        assert lake.problems(spec) == []
        assert erased(lake, spec).finished

    spec = lake.spec("e", envelope="change-event", **settings)
    events = [
        change_event("insert", 1, {"id": "1", "v": mail}),
        change_event("insert", 2, {"id": "2", "v": "a"}),
        change_event("update", 3, {"v": mail}, {"ID": "1"}),
        change_event("update", 4, {"id": "5", "v": "b"}, {"id": "2"}),
        change_event("delete", 5, {}, {"id": "1"}),
    ]
    lake.land(spec, 0, events)
    lake.run(spec)
    with pytest.raises(Refused, match="Name both keys"):
        erased(lake, spec, ("2",))
    rows = lake.rows(spec)
    report = erased(lake, spec, ("1",))
    assert report.finished, report
    archived = (Path(spec.root) / "archive" / "increment_2024030500" / "part-0.json").read_text().split("\n")
    assert archived == ["", json.dumps(events[1]), "", json.dumps(events[3]), "", ""]
    assert found(lake, spec) == []
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"
    assert lake.rows(spec) == rows
    assert erased(lake, spec, ("2",), ("5",)).finished
    assert lake.rows(spec) == []


@pytest.mark.slow
def test_an_erase_keeps_the_values_that_tombstones_of_other_keys_hide(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The create of a row under its new key may still come, without the values that the old key had."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    spec = debezium(lake, write_mode="merge-on-read", compact_every=1e9)
    lake.land(spec, 0, [event("c", n, after={"id": n, "v": f"value {n}"}) for n in (1, 8, 9)])
    lake.run(spec)
    lake.land(spec, 1, [event("d", 20, before={"id": 1, "v": None}, commit=90)])
    lake.run(spec)
    lake.now += 1
    assert erase(Table(lake.env, spec), Request((("9",),), now=True)).finished
    lake.land(spec, 2, [event("c", 20, after={"id": 2, "v": UNAVAILABLE}, commit=90)])
    lake.run(spec)
    assert {2: "value 1", 8: "value 8"} == {row["id"]: row["v"] for row in lake.rows(spec)}
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_repaired_file_and_the_last_key(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original has a record that cannot be read: the error names the copy that has it repaired. A table without any key left is sound, too."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    spec = lake.spec(types=(("n", "int"),), quarantine_rows=10)
    rows = [{"id": 1, "seq": 1, "n": "x"}, {"id": 3, "seq": 4, "n": 4}, {"id": 4, "seq": 5, "n": 4}]
    lake.land(spec, 0, rows)
    lake.run(spec)
    (held,) = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    lake.env.storage.write(held.repaired or "", "\n".join(json.dumps(row) for row in [{"id": 1, "seq": 1, "n": 33}, *rows[1:]]).encode())
    lake.replay(spec)
    with pytest.raises(
        InputRefused, match=r"Its repaired copy is \S+~part-0.json: remove (\S+part-0.json) if all of its records are in the copy"
    ) as refused:
        erased(lake, spec, ("3",))
    Path(re.findall(r"remove (\S+) if", str(refused.value))[0]).unlink()
    report = erased(lake, spec, ("3",))
    assert [item.path.rpartition("~")[2] for item in report.rewritten] == ["part-0.json"]
    assert [row["id"] for row in lake.rows(spec)] == [1, 4]
    assert lake.problems(spec) == []
    assert rebuild_table(Table(lake.env, spec), dry=True).outcome == "equal"
    assert erased(lake, spec, ("1",), ("4",)).finished
    assert lake.rows(spec) == []
    assert lake.problems(spec) == []
    assert rebuild_table(Table(lake.env, spec), dry=True).outcome == "equal"
