"""CSV through the real flows: dialect, nulls, and types guessed from text without changing it."""

from __future__ import annotations

import gzip
import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused, NoRowsYet, OrderRefused, SchemaRefused
from compactor.core.model.policy import EVOLVE
from compactor.core.model.spec import Csv, TableSpec
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input import csv_files, csv_types, files
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def put(spec: TableSpec, hour: int, text: str, file: str = "part-0.csv") -> Path:
    """A file in the folder of an hour, its bytes as they are."""
    path = Path(spec.landing) / f"increment_20240305{hour:02d}" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def read(lake: Lake, spec: TableSpec, *paths: Path) -> tuple[list[files.RawFrame], files.Unreadable]:
    return csv_files.read(lake.spark, spec, files.Origins((spec.landing,)), dict.fromkeys(map(str, paths), ()), ConsistentReads({}))


def test_flat_rows_in_csv(lake: Lake) -> None:
    """A header, an operation, an order of numbers (10 comes after 9), values with delimiter, quote and line break."""
    spec = lake.spec()
    put(spec, 1, 'id,seq,op,v\n1,9,u,"a, ""b""\nc"\n2,9,u,x\n')
    lake.run(spec)
    put(spec, 2, "id,seq,op,v\n1,10,u,later\n2,10,d,\n3,10,c,\\n\n")
    put(spec, 2, "id,seq,op,v\n1,8,u,late\n", "part-1.csv")
    lake.run(spec)
    assert [{"id": 1, "seq": 10, "v": "later"}, {"id": 3, "seq": 10, "v": "\\n"}] == lake.rows(spec)
    assert [] == lake.problems(spec)


DIALECTS = {
    "null and empty": (Csv(), 'id,seq,v\n1,1,\n2,1,""\n3,1,NULL\n4,1, \n', [None, "", "NULL", " "]),
    "a null marker": (Csv(null_value="NULL"), 'id,seq,v\n1,1,\n2,1,""\n3,1,NULL\n4,1,null\n', ["", "", None, "null"]),
    "lines end with CRLF": (Csv(), 'id,seq,v\r\n1,1,a\r\n2,1,"b"\r\n3,1,"c\r\nd"\r\n4,1,\r\n', ["a", "b", "c\r\nd", None]),
    "carriage returns inside": (Csv(), 'id,seq,v\n1,1,"a\rb"\n2,1,c\n3,1,d\n4,1,e', ["a\rb", "c", "d", "e"]),
    "tabulators": (Csv(delimiter="\t"), "id\tseq\tv\n1\t1\ta,b\n2\t1\tc\n3\t1\td\n4\t1\te\n", ["a,b", "c", "d", "e"]),
    "nothing is quoted": (Csv(quote=""), 'id,seq,v\n1,1,"a\n2,1,"b"\n3,1,c"\n4,1,d\n', ['"a', '"b"', 'c"', "d"]),
    "null characters, of MySQL's bits": (Csv(quote=""), "id,seq,v\n1,1,\0\n2,1,\0a\n3,1,a\0b\n4,1,\0\0\n", ["\0", "\0a", "a\0b", "\0\0"]),
    "backslashes are text": (Csv(), 'id,seq,v\n1,1,"a\\"\n2,1,b\\\n3,1,"\\""x"\n4,1,d\n', ["a\\", "b\\", '\\"x', "d"]),
    "byte order mark": (Csv(), "\ufeffid,seq,v\n1,1,a\n2,1,b\n3,1,ä\n4,1,€\n", ["a", "b", "ä", "€"]),
    "byte order mark without header": (Csv(columns=("id", "seq", "v")), "\ufeff1,1,a\n2,1,b\n3,1,ä\n4,1,€\n", ["a", "b", "ä", "€"]),
    "byte order mark before a quote": (Csv(columns=("id", "seq", "v")), '\ufeff"1",1,a\n"2",1,b\n3,1,"ä"\n4,1,€\n', ["a", "b", "ä", "€"]),
    "names in the configuration": (Csv(columns=("id", "seq", "v")), "1,1,a\n2,1,b\n3,1,c\n4,1,d\n", ["a", "b", "c", "d"]),
}


@pytest.mark.slow
def test_dialects(lake: Lake) -> None:
    """One table a dialect, all in one session: four rows each, read as they were meant."""
    for number, (name, (csv, text, expected)) in enumerate(DIALECTS.items()):
        spec = lake.spec(f"t{number}", csv=csv)
        put(spec, 1, text)
        raws = csv_types.add_types(read(lake, spec, next(Path(spec.landing).rglob("*.csv")))[0], (), None, spec)
        rows = raws[0].rows.selectExpr("_value.id", "_value.v", "_unreadable").orderBy("id").collect()
        assert [(at + 1, value, None) for at, value in enumerate(expected)] == [tuple(row) for row in rows], name


@pytest.mark.parametrize(
    ("text", "quote", "expected"),
    [
        ('\ufeff"a ""b"""\r\nc\r\n', '"', ['a "b"', "c"]),
        ('\ufeff""\n\ufeffc\n', '"', ["", "c"]),
        ('\ufeff"a"\nb\n', "", ['"a"', "b"]),
        ("\ufeffä\n", '"', ["ä"]),
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_value(lake: Lake, text: str, quote: str, expected: list[str]) -> None:
    """Of a file without header, whether it is quoted or not, with one column or several."""
    spec = lake.spec(csv=Csv(columns=("v",), quote=quote))
    path = put(spec, 1, text)
    ((raw,), _) = read(lake, spec, path)
    assert [row.v for row in raw.rows.selectExpr("_value.v").collect()] == expected


def test_a_byte_order_mark_before_a_quoted_delimiter_is_refused(lake: Lake) -> None:
    """Spark would divide the value."""
    spec = lake.spec(csv=Csv(columns=("id", "seq", "v")))
    path = put(spec, 1, '\ufeff"1,2",1,a\n')
    frames, unreadable = read(lake, spec, path)
    assert [] == frames
    assert unreadable[str(path)].text.startswith("a byte order mark stands before a quoted value with a delimiter")


def test_files_whose_header_is_refused_leave_the_others_in_one_frame(lake: Lake) -> None:
    """Each frame has jobs of its own: one such file in a thousand must not make a thousand frames."""
    spec = lake.spec(quarantine_share=1.0)
    usable = [put(spec, 1, f"id,seq,v\n{number},1,a\n", f"{number}.csv") for number in range(4)]
    twice = put(spec, 1, "id,seq,id\n9,1,a\n", "twice.csv")
    frames, unreadable = read(lake, spec, *usable[:2], twice, *usable[2:])
    assert [tuple(map(str, usable))] == [frame.paths for frame in frames]
    assert [str(twice)] == [*unreadable]
    lake.run(spec)
    assert [0, 1, 2, 3] == [row["id"] for row in lake.rows(spec)]
    (waiting,) = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    assert "the header names 'id' twice" in str(waiting.reason)


WRONG = [
    ("id;seq;v\n1;1;a\n", "one value with the delimiter ',', and 3 with ';'.*delimiter: ';'"),
    ("id\tseq\n1\t1\n", "and 2 with .*delimiter: "),
    ("id,seq,v\n1,1,a\n2,1\n", "record 2: does not have 3 values, one for each column .id, seq, v"),
    ("id,seq,v\n1,1,a,b\n", "record 1: does not have 3 values"),
    ("id,seq,id\n1,1,a\n", "names 'id' twice"),
    ("id,seq,v,V\n1,1,a,b\n", "part-0.csv: the header names 'v' and 'V' twice"),
    ("1,1,a\n2,1,b\n", "names '1' twice"),
    ("7,8,a\n2,1,b\n", "part-0.csv: expected a header with id, 1, found '7,8,a'. Have the source write one"),
    ("7,1,a\n2,1,b\n", "no key column 'id'; it has the columns 7, 1, a"),
]


def test_what_is_wrong_with_a_file_is_said(lake: Lake) -> None:
    """A file of the wrong shape, and a file without the header that was expected."""
    for text, words in WRONG:
        spec = lake.spec(order_by=("seq",) if text.startswith("id") else ("1",), quarantine_rows=0)
        put(spec, 1, text)
        with pytest.raises(Exception, match=words):
            lake.run(spec)
        assert ["part-0.csv"] == lake.landed(spec)


@pytest.mark.slow
def test_a_column_that_the_files_lost_is_named(lake: Lake) -> None:
    """Its values are null from then on, so the report says it. Without an order a run says which setting gives one."""
    spec = lake.spec(name="loses")
    lake.land(spec, 10, ["id,seq,qty", "1,1,5"], "a.csv")
    with pytest.raises(OrderRefused, match="table loses: `order_by` is not set, and the rows carry no order"):
        lake.run(lake.with_settings(spec, order_by=()))
    lake.run(spec)
    lake.land(spec, 11, ["id,seq", "2,2"], "a.csv")
    assert [note for note in lake.run(spec).notes if note.startswith("`qty` was removed; it was bigint: ")]
    lake.land(spec, 12, ["id,seq", "3,3"], "a.csv")
    assert not [note for note in lake.run(spec).notes if "qty" in note]
    assert [row["qty"] for row in lake.rows(spec)] == [5, None, None]


@pytest.mark.slow
def test_declared_types_and_the_lines_that_do_not_fit(lake: Lake) -> None:
    """`types:` makes dates of text. An invalid record is quoted as the line of the file, also in a report."""
    spec = lake.spec(csv=Csv(delimiter=";"), types=(("born", "date"), ("zip", "string")))
    lines = ["1;1;2024-02-29;01;a", "2;1;soon;02;b", '3;1;2023-02-29;03;"x;""y"""', "4;1;too;many;values;here", ";1;2024-01-01;05;", "6;1;;6;"]
    put(spec, 1, "\n".join(["id;seq;born;zip;v", *lines]) + "\n")
    lake.run(spec)
    assert [(1, "2024-02-29", "01"), (6, "None", "6")] == [(row["id"], str(row["born"]), row["zip"]) for row in lake.rows(spec)]
    table = Table(lake.env, spec)
    (item,) = quarantine.with_reasons(table, quarantine.waiting(table, lake.snapshot(spec)))
    assert "record 2: column born holds soon, expected date (and 3 more)" == item.reason
    assert [(at + 1, lines[at]) for at in (1, 2, 3, 4)] == [(each["record"], each["text"]) for each in quarantine.reasons(table, item)["unusable"]]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_declared_numbers_are_exact_or_none(lake: Lake) -> None:
    """Nothing is rounded: not a decimal with a power of ten, nor a whole number as a double."""
    spec = lake.spec(types=(("amount", "decimal(10,2)"), ("x", "double")))
    put(spec, 1, "id,seq,amount,x\n1,1,1.5E3,0.1\n2,1,1.5E-3,\n3,1,150e-2,1e400\n4,1,1E-30,\n5,1,,12345678901234567\n6,1,,12345678901234568\n")
    lake.run(spec)
    assert [(1, "1500.00"), (6, "None")] == [(row["id"], str(row["amount"])) for row in lake.rows(spec)]
    assert [2, 3, 4, 5] == [record for record, _ in lake.unusable(spec)]


GUESSES = {
    "whole": (["1", "-20", "0"], "bigint"),
    "beyond 64 bits": (["1", "12345678901234567890"], "decimal(38,0)"),
    "beyond 38 digits": (["1", "9" * 39], "string"),
    "leading zeros": (["1", "007"], "string"),
    "plus sign": (["+1"], "string"),
    "minus nothing": (["-0"], "bigint"),
    "money": (["12.50", "-0.01", "1234567890123456789.00"], "decimal(21,2)"),
    "many digits": (["12345678901234567.8901"], "decimal(23,4)"),
    "whole digits up to 38": (["123456789012345678901234567890.12345678"], "decimal(38,8)"),
    "differing scale": (["1.5", "2", "-3.125"], "decimal(22,3)"),
    "minus zero": (["-0.00", "1.00"], "decimal(21,2)"),
    "an exponent": (["1e5"], "string"),
    "no point before": ([".5"], "string"),
    "dates": (["2024-01-01"], "string"),
    "words": (["true"], "string"),
    "blanks": ([" 1"], "string"),
    "a line break at the end": (["5\n", "5"], "string"),
    "an empty text": (["1", '""'], "string"),
    "null and numbers": (["1", ""], "bigint"),
}


def test_guesses_lose_no_digit(lake: Lake) -> None:
    """A table of columns: the type, and every value: text as it was written, numbers with all their digits."""
    spec = lake.spec(key=(), order_by=())
    rows = itertools.zip_longest(*[values for values, _ in GUESSES.values()], fillvalue="")
    path = put(
        spec,
        1,
        ",".join(f'"{name}"' for name in GUESSES)
        + "\n"
        + "".join(",".join(f'"{text}"' if text.endswith("\n") else text for text in row) + "\n" for row in rows),
    )
    (raw,) = csv_types.add_types(read(lake, spec, path)[0], (), None, spec)
    fields = {field.name: field for field in raw.fields or ()}
    assert {name: kind for name, (_, kind) in GUESSES.items()} == {name: csv_types.types.text(field.type) for name, field in fields.items()}
    printed = raw.rows.selectExpr(*[f"CAST(_value.`{name}` AS STRING) AS `{name}`" for name in GUESSES]).collect()
    for name, (values, _) in GUESSES.items():
        shown = [row[name] for row in printed if row[name] is not None]
        as_read = [value.replace('""', "") for value in values if value]
        assert as_read == shown if GUESSES[name][1] == "string" else [*map(Decimal, as_read)] == [*map(Decimal, shown)], name


@pytest.mark.slow
def test_any_split_into_runs_gives_the_same_table(lake: Lake) -> None:
    """Files whose guesses differ, absorbed together and in every order alone: one column each, no digit lost, and text as the source wrote it."""
    files = ["id,seq,a,b\n1,1,7.50,1.50\n", "id,seq,a,b\n2,2,007,2.505\n", "id,seq,a,b\n3,3,8,2\n"]
    amounts = [Decimal("1.5"), Decimal("2.505"), Decimal(2)]
    expected = [{"id": at, "seq": at, "a": a, "b": b} for at, (a, b) in enumerate(zip(("7.50", "007", "8"), amounts), 1)]
    for number, runs in enumerate([[[0, 1, 2]], [[0], [1], [2]], [[2], [1], [0]], [[1], [0, 2]]]):
        spec = lake.spec(f"t{number}", policy=TEXT_ALLOWED)
        for run in runs:
            for file in run:
                put(spec, 1, files[file], f"part-{file}.csv")
            if number == 1 and run == [1]:
                with pytest.raises(SchemaRefused, match=r"`a` changed from decimal.* and only text can hold"):
                    lake.run(lake.with_settings(spec, policy=EVOLVE))
            lake.run(spec)
        assert expected == lake.rows(spec), runs
        assert ["id", "seq", "a", "b"] == [field.name for field in lake.snapshot(spec).schema.fields], runs
        assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_file_that_holds_nothing(lake: Lake) -> None:
    """Empty, blank, packed or its header only: no rows, no error; a header alone tells no types, so a new table waits. So do JSON files without rows."""
    spec = lake.spec()
    put(spec, 1, "id,seq,v\n")
    put(spec, 1, "", "part-1.csv")
    put(spec, 1, "\r\n\r\n", "blank.csv")
    put(spec, 1, "", "nothing.csv.gz").write_bytes(gzip.compress(b""))
    jsons = lake.spec("jsons")
    put(jsons, 1, "[]\n", "list.json")
    put(jsons, 1, "\n", "blank.json")
    put(jsons, 1, "", "nothing.json.gz").write_bytes(gzip.compress(b""))
    for waiting in (spec, jsons):
        with pytest.raises(NoRowsYet):
            lake.run(waiting)
    put(spec, 1, "id,seq,v\n1,1,a\n", "part-2.csv")
    assert "committed" == lake.run(spec).outcome
    put(spec, 2, "id,seq,v\n", "part-3.csv")
    put(spec, 2, "\n", "part-4.csv")
    assert lake.run(spec).counts.get("quarantined", 0) == 0
    assert [{"id": 1, "seq": 1, "v": "a"}] == lake.rows(spec)


def packed(lake: Lake, codec: str, data: bytes) -> bytes:
    """Data as Hadoop's codec of that name packs it, in Spark's JVM."""
    jvm: Any = lake.spark._jvm
    out = jvm.java.io.ByteArrayOutputStream()
    if codec == "zst":
        stream = jvm.com.github.luben.zstd.ZstdOutputStream(out)
    else:
        conf = lake.spark._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
        stream = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodecByName(codec).createOutputStream(out)
    stream.write(data)
    stream.close()
    return bytes(out.toByteArray())


@pytest.mark.slow
def test_compressed_text(lake: Lake) -> None:
    """CSV and JSON lines, by the suffix of the name. All codecs in one run."""
    spec = lake.spec()
    folder = Path(spec.landing) / "increment_2024030501"
    folder.mkdir(parents=True)
    codecs = {"gz": "gzip", "bz2": "bzip2", "snappy": "snappy", "zst": "zst"}
    for number, (suffix, codec) in enumerate(codecs.items()):
        (folder / f"a.csv.{suffix}").write_bytes(packed(lake, codec, b"id,seq,v\n%d,1,a\n" % (2 * number)))
        (folder / f"b.json.{suffix}").write_bytes(packed(lake, codec, b'{"id": %d, "seq": 2, "v": "b"}\n' % (2 * number + 1)))
    lake.run(spec)
    pairs = [(2 * number, 2 * number + 1) for number in range(len(codecs))]
    assert [{"id": key, "seq": seq, "v": v} for pair in pairs for key, seq, v in zip(pair, (1, 2), "ab")] == lake.rows(spec)


@pytest.mark.slow
def test_a_quoted_value_that_never_ends_makes_the_file_unreadable(lake: Lake) -> None:
    """It would take the lines after it. One that ends with its file is a value of several lines; a quote in an unquoted value does not matter."""
    spec = lake.spec(quarantine_share=1.0)
    put(spec, 1, 'id,seq,v\n1,1,"12 inch\n2,1,b\n3,1,""\n\n', "a.csv")
    put(spec, 1, 'id,seq,v\n8,1,"cut', "e.csv")
    put(spec, 1, 'id,seq,v\n9,1,"cut\n', "f.csv")
    longer = "id,seq,v\n" + "10,1,i\n" * 10_000
    put(spec, 1, f'{longer}11,1,"cut\n', "g.csv")
    put(spec, 1, f'{longer}12,1,"\nx,"\n', "h.csv")
    put(spec, 1, 'id,seq,v\n4,1,"d\nd""\n"\n', "b.csv")
    put(spec, 1, 'id,seq,v\n5,1,5" pipe\n6,1,"f\nf"', "c.csv")
    put(spec, 1, "", "d.csv.zst").write_bytes(packed(lake, "zst", b'id,seq,v\n7,1,"g\n8,1,h'))
    lake.run(spec)
    assert [(4, 'd\nd"\n'), (5, '5" pipe'), (6, "f\nf"), (10, "i"), (12, "\nx,")] == sorted((row["id"], row["v"]) for row in lake.rows(spec))
    waits = {item.path.rpartition("/")[2]: item.reason for item in quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))}
    assert ["a.csv", "d.csv.zst", "e.csv", "f.csv", "g.csv"] == sorted(waits)
    for file, reason in waits.items():
        number = 10_002 if file == "g.csv" else 2
        assert f"record {number} (a header counts): a quoted value does not end" in str(reason), waits


@pytest.mark.slow
def test_a_carriage_return_at_the_end_of_the_last_value_is_kept_or_its_file_refused(lake: Lake) -> None:
    """Spark does not say whether a value was quoted. Line ends of CRLF and of LF may be mixed, and are no values."""
    spec = lake.spec(quarantine_share=1.0)
    longer = "".join(f"{n},1,i\r\n" for n in range(100, 10_100))
    put(spec, 1, 'id,seq,v\n1,1,"a\r"\n2,1,b\n3,1,"c\r"', "a.csv")
    put(spec, 1, 'id,seq,v\r\n4,1,"d"\r\n5,1,e\n6,1,"f\rf"\r\n7,1,"\r\n"\n\r\n', "b.csv")
    put(spec, 1, 'id,seq,v\r\n8,1,"h\r"\r\n9,1,i\r\n', "c.csv")
    put(spec, 1, f"id,seq,v\r\n{longer}", "d.csv")
    put(spec, 1, f'id,seq,v\r\n{longer.replace("i", "j")}10,1,"k\r"\n', "e.csv")
    lake.run(spec)
    rows = {row["id"]: row["v"] for row in lake.rows(spec)}
    assert {**dict.fromkeys(range(100, 10100), "i"), 1: "a\r", 2: "b", 3: "c\r", 4: "d", 5: "e", 6: "f\rf", 7: "\r\n"} == rows
    waits = {item.path.rpartition("/")[2]: item.reason for item in quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))}
    assert ["c.csv", "e.csv"] == sorted(waits)
    assert all("has a quoted value that ends in a carriage return at the end of a line" in str(reason) for reason in waits.values())


def test_a_cut_compressed_file_is_named(lake: Lake) -> None:
    """Half a gzip is no half of its rows."""
    spec = lake.spec()
    whole = packed(lake, "gzip", b"id,seq,v\n" + b"".join(b"%d,1,%d\n" % (n, n * n) for n in range(50000)))
    path = put(spec, 1, "", "part-0.csv.gz")
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputRefused, match=r"part-0.csv.gz"):
        lake.run(spec)
    assert ["part-0.csv.gz"] == lake.landed(spec)


@pytest.mark.slow
def test_types_that_most_stored_records_do_not_have_do_not_empty_a_table(lake: Lake) -> None:
    """`rebuild` names the first of them and publishes nothing, or with both words what is left; `verify` says that records are invalid."""
    spec = lake.spec()
    put(spec, 1, "id,seq,v\n" + "".join(f"{number},{number},{'1.5' if number < 3 else 'n/a'}\n" for number in range(30)))
    lake.run(spec)
    typed = lake.with_settings(spec, types=(("v", "decimal(10,2)"),))
    assert any("ingested records: 27 records of 1 file cannot be used with the present settings any more" in each for each in lake.problems(typed))
    with pytest.raises(InputRefused, match=r"27 of 30 records are unusable; the limit is 50 % .*part-0.csv, record 4: .*Nothing was published"):
        rebuild_table(Table(lake.env, typed), accept=True, fewer=True)
    allowed = lake.with_settings(typed, quarantine_share=1.0)
    assert (rebuild_table(Table(lake.env, allowed), accept=True).outcome, lake.snapshot(spec).version) == ("fewer", 1)
    report = rebuild_table(Table(lake.env, allowed), accept=True, fewer=True)
    assert (report.outcome, report.rows, report.invalid) == ("published", 3, 27)
    assert [number for number, _ in lake.unusable(typed)] == list(range(4, 31))
    assert [] == lake.problems(typed)


@pytest.mark.slow
def test_javas_suffixes_make_no_number(lake: Lake) -> None:
    """For Java 1d, 2f and 0x1p3 are numbers."""
    spec = lake.spec("suffixes", format="csv", types=(("x", "double"),), quarantine_share=0.9)
    path = Path(spec.landing) / "increment_2024030510"
    path.mkdir(parents=True)
    (path / "a.csv").write_text("id,seq,x\n1,1,1d\n2,1,2f\n3,1,0x1p3\n4,1,1.5e3\n5,1,NaN\n")
    lake.run(spec)
    assert [row["id"] for row in lake.rows(spec)] == [4, 5]


@pytest.mark.slow
def test_a_first_value_may_be_long(lake: Lake) -> None:
    """Longer than Python's own limit of a value."""
    spec = lake.spec("long", format="csv", csv=Csv(header=False, columns=("id", "seq", "v")))
    path = Path(spec.landing) / "increment_2024030510"
    path.mkdir(parents=True)
    (path / "a.csv").write_text(f"1,1,{'x' * 200_000}\n")
    lake.run(spec)
    assert [len(row["v"]) for row in lake.rows(spec)] == [200_000]


@pytest.mark.slow
def test_a_header_that_the_settings_do_not_expect_is_no_row(lake: Lake) -> None:
    """Also where key and order are text, so that it could be one."""
    spec = lake.spec("headed", format="csv", csv=Csv(columns=("id", "seq", "v")), quarantine_rows=0)
    put(spec, 1, "ID,SEQ,V\na,1,x\n")
    with pytest.raises(InputRefused, match=r"the first line has the names in `csv: \{columns: \[\.\.\]\}`: expected a row"):
        lake.run(spec)


ESCAPES = ["1\t1\ta\\tb\\nc\\\\d\\q", "2\t1\t\\N", "3\t1\tplain", "4\t1\t\\\\N", "5\t1\tcut\\", "6\t1\tz\\0"]
"""Lines as PostgreSQL's COPY and MySQL write them."""


@pytest.mark.slow
def test_backslashes_mean_what_the_table_says_and_nothing_until_then(lake: Lake) -> None:
    """Escapes, text (Hive), or records that wait for the setting."""
    found = {}
    for name, escape in (("unset", None), ("escapes", "\\"), ("hive", "")):
        dialect = Csv(columns=("id", "seq", "v"), null_value="\\N", delimiter="\t", quote="", escape=escape)
        spec = lake.spec(name, format="csv", csv=dialect, quarantine_share=0.9)
        put(spec, 1, "\n".join([*ESCAPES, ""]))
        lake.run(spec)
        found[name] = {row["id"]: row["v"] for row in lake.rows(spec)}, [record for record, _ in lake.unusable(spec)]
        reasons = [reason.split(",")[0].split(":")[0] for _, reason in lake.unusable(spec)]
        assert {*reasons} == {"unset": {"has a backslash"}, "escapes": {"has a value that ends in a backslash"}, "hive": set()}[name]
    assert found == {
        "unset": ({2: None, 3: "plain"}, [1, 4, 5, 6]),
        "escapes": ({1: "a\tb\nc\\dq", 2: None, 3: "plain", 4: "\\N", 6: "z\0"}, [5]),
        "hive": ({1: "a\\tb\\nc\\\\d\\q", 2: None, 3: "plain", 4: "\\\\N", 5: "cut\\", 6: "z\\0"}, []),
    }


@pytest.mark.slow
def test_a_declared_array_is_json_in_csv(lake: Lake) -> None:
    """A value with elements of another type goes to quarantine."""
    items = {"type": "array", "items": "int"}
    fields = [{"name": "id", "type": "long"}, {"name": "seq", "type": "long"}, {"name": "tags", "type": ["null", items]}]
    spec = lake.spec(avro_schema=json.dumps({"type": "record", "name": "t", "fields": fields}))
    put(spec, 1, 'id,seq,tags\n1,1,"[1,2]"\n2,2,"[""x""]"\n3,3,[]\n', "part-0.csv")
    lake.run(spec)
    assert [{"id": 1, "seq": 1, "tags": [1, 2]}, {"id": 3, "seq": 3, "tags": []}] == lake.rows(spec)
    assert [(2, 'column tags holds ["x"], expected array<int>')] == lake.unusable(spec)
