"""Raw files without some of their records: everything else stays as it was, byte for byte."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from compactor.core.erasure.keys import check_key, hashed, key_values, with_keys
from compactor.core.model.errors import InputRefused, Refused
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import Csv
from compactor.core.results.batch import ErasedRecords
from compactor.spark.input import rewrite
from compactor.storage.local import LocalStorage
from tests.oracle.lake import table


@pytest.mark.parametrize(
    ("kind", "data", "numbers", "total", "made"),
    [
        ("json", b"a\nb\nc\n", (2,), 3, b"a\n\nc\n"),
        ("json", b"a\nb\nc", (3, 1), 3, b"\nb\n"),
        ("json", b"a\r\nb\rc\n\nd", (2, 5), 5, b"a\r\n\rc\n\n"),
        ("json", b"", (), 0, b""),
        ("csv", b"id,v\n1,a\n\n2,b\n3,c", (2,), 3, b"id,v\n1,a\n\n3,c"),
        ("csv", b'id,v\n1,"a\n""x"""\n2,"b\nc"\n3,5" x\n4,d\n', (2, 4), 4, b'id,v\n1,"a\n""x"""\n3,5" x\n'),
        ("csv", b'id,v\n1,"a" b"\n2,"c\n3,d\n', (1,), 2, b'id,v\n2,"c\n3,d\n'),
    ],
)
def test_lines(kind: str, data: bytes, numbers: tuple[int, ...], total: int, made: bytes) -> None:
    """In JSON lines an empty line keeps the numbers of the others."""
    assert rewrite.bytes_without(f"x.{kind}", kind, data, ErasedRecords(numbers, total), header=True) == made
    packed = rewrite.bytes_without(f"x.{kind}.gz", kind, gzip.compress(data), ErasedRecords(numbers, total), header=True)
    assert gzip.decompress(packed) == made
    assert packed == rewrite.bytes_without(f"x.{kind}.gz", kind, gzip.compress(data), ErasedRecords(numbers, total), header=True)


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "list", "type": {"type": "array", "items": "int"}},
        {"name": "map", "type": {"type": "map", "values": ["null", "double", "float", "boolean"]}},
        {"name": "kind", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
        {"name": "fixed", "type": {"type": "fixed", "name": "f", "size": 3}},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "inner", "type": ["null", {"type": "record", "name": "i", "fields": [{"name": "b", "type": "bytes"}, {"name": "f", "type": "f"}]}]},
    ],
}


def record(at: int) -> dict[str, Any]:
    """A record of that schema."""
    inner = {"b": bytes(at), "f": b"xyz"} if at % 3 else None
    values = {"x": 1.5, "y": None, "z": True} if at % 2 else {}
    return {
        "id": -at * 1000,
        "text": "s" * at if at % 2 else None,
        "list": [*range(-at, at)],
        "map": values,
        "kind": "AB"[at % 2],
        "fixed": b"abc",
        "when": at,
        "inner": inner,
    }


def test_other_codecs_of_avro_are_refused() -> None:
    """The other blocks would have to be written by another program than the source's."""
    stream = io.BytesIO()
    fastavro.writer(stream, SCHEMA, [record(1)], codec="bzip2")
    with pytest.raises(InputRefused, match="blocks are compressed with bzip2; expected null or deflate"):
        rewrite.bytes_without("x.avro", "avro", stream.getvalue(), ErasedRecords((1,), 1))


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro(codec: str) -> None:
    """Every type is measured; blocks without a chosen record stay as they are."""
    stream = io.BytesIO()
    fastavro.writer(stream, SCHEMA, map(record, range(200)), codec=codec, sync_interval=500, metadata={"who": "me"})
    data = stream.getvalue()
    chosen = (1, 2, 50, 51, 52, 53, 54, 55, 199, 200)
    made = rewrite.bytes_without("x.avro", "avro", data, ErasedRecords(chosen, 200))
    # fastavro reads timestamps as such
    left = [each["id"] for each in fastavro.reader(io.BytesIO(made))]  # type: ignore[call-overload, index]
    assert left == [-at * 1000 for at in range(200) if at + 1 not in chosen]
    assert rewrite.bytes_without("x.avro", "avro", data, ErasedRecords((), 200)) == data
    assert rewrite.bytes_without("x.avro", "avro", made, ErasedRecords((), 190)) == made


TRANSACTION = '{"xid":7, "change" : [ {"kind":"insert","columnvalues":["a]}", 1e400]} ,{"kind":"delete"},\t{"kind":"update"}],"nextlsn":"0/1"}'
CUT = '{"xid":7, "change" : [ {"kind":"message"} ,{"kind":"delete"},\t{"kind":"message"}],"nextlsn":"0/1"}'


def kafka(value: str) -> str:
    """A Kafka record whose value is text."""
    return json.dumps({"payload": value, "offset": 3}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("line", "made"),
    [
        (TRANSACTION, CUT),
        (f'{{"key": null, "value": {TRANSACTION}, "offset": 3}}', f'{{"key": null, "value": {CUT}, "offset": 3}}'),
        (kafka(TRANSACTION.replace("a]", "ä]")), kafka(CUT)),
        (f'{{"value": null, "payload": {TRANSACTION}}}', f'{{"value": null, "payload": {CUT}}}'),
    ],
)
def test_a_record_of_several_changes_keeps_the_others_and_their_numbers(line: str, made: str) -> None:
    """Byte for byte; a record without any other change goes as a whole."""
    data = f"{line}\n{line}\n{line}".encode()
    left = rewrite.bytes_without("x.json", "json", data, ErasedRecords((1, 2), 3, ((2, 0), (2, 2))))
    assert left.decode() == f"\n{made}\n{line}"


@pytest.mark.parametrize(
    "line", ['{"change": []}', '{"change": [{}]} {}', '{"change": [{}], "change": [{}]}', "[]", '{"action": "I"}', "{'change': [{}]}"]
)
def test_a_record_without_such_a_change_is_refused(line: str) -> None:
    """The wrong one might go."""
    with pytest.raises(InputRefused, match="cannot be rewritten: "):
        rewrite.bytes_without("x.json", "json", line.encode(), ErasedRecords((1,), 1, ((1, 3),)))
    with pytest.raises(InputRefused, match="hold changes of other keys too, and are no JSON lines"):
        rewrite.without(None, LocalStorage(), table(), "x.avro", ErasedRecords((1,), 1, ((1, 0),)), "staging")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "kind", "data", "why"),
    [
        ("x.json", "json", b"a\nb\n", "3 records stand on 2 lines"),
        ("x.json.gz", "json", b"a\n", "cannot be rewritten"),
        ("x.avro", "avro", b"Obj\x01", "cannot be rewritten"),
    ],
)
def test_what_does_not_fit_is_refused(path: str, kind: str, data: bytes, why: str) -> None:
    """Another number of records means that the wrong one might go."""
    with pytest.raises(InputRefused, match=why):
        rewrite.bytes_without(path, kind, data, ErasedRecords((1,), 3))


@pytest.mark.parametrize(
    ("path", "kind", "why"),
    [
        ("x.orc", "orc", "orc files cannot be, record by record"),
        ("x", None, "unknown files cannot be"),
        ("x.json.zst", "json", "only plain and gzip files can be"),
    ],
)
def test_other_formats_are_refused(path: str, kind: str | None, why: str) -> None:
    """Such a file goes as a whole, if at all."""
    with pytest.raises(InputRefused, match=f"^{path}: cannot be rewritten: {why}"):
        rewrite.bytes_without(path, kind, b"", ErasedRecords((1,), 1))


@pytest.mark.parametrize(
    ("name", "settings", "data", "made"),
    [
        ("a.json.gz", {}, gzip.compress(b"1\n2\n", mtime=0), gzip.compress(b"\n2\n", mtime=0)),
        ("a.csv", {}, b"id;v\n1;a\n2;b\n", b"id;v\n2;b\n"),
        ("a", {"format": "json"}, b"1\n2\n", b"\n2\n"),
    ],
)
def test_the_copy_is_alone_in_its_folder(tmp_path: Path, name: str, settings: dict[str, Any], data: bytes, made: bytes) -> None:
    """The table's format and dialect decide; the file itself stays."""
    (tmp_path / name).write_bytes(data)
    spec = table(csv=Csv(delimiter=";"), **settings)
    # only Parquet needs Spark
    info = rewrite.without(None, LocalStorage(), spec, f"{tmp_path}/{name}", ErasedRecords((1,), 2), f"{tmp_path}/staging/0")  # type: ignore[arg-type]
    assert (Path(info.path).read_bytes(), info.size) == (made, len(made))
    assert (tmp_path / name).read_bytes() == data


@pytest.mark.parametrize(
    "text", ["7", "{oops", '{"id": null, "part": 1}', '{"id": 1}', '{"id": 1, "part": 1, "x": 2}', "[1, 2]", '{"id": 1, "part": []}']
)
def test_keys_of_several_columns_are_json_objects(text: str) -> None:
    """Each column has a value."""
    with pytest.raises(Refused, match="expected a key as"):
        key_values(text, ("id", "part"), "t")


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ([("id", "int")], [("id", "bigint")], True),
        ([("id", "string")], [("id", "string")], True),
        ([("id", "decimal(10,2)")], [("id", "decimal(12,2)")], False),
        ([("id", "bigint")], [("id", "string")], False),
        ([("id", "bigint")], [("other", "bigint")], False),
        ([("id", "bigint")], [("id", "bigint"), ("part", "int")], False),
    ],
)
def test_a_key_that_the_hashes_would_not_recognise_is_refused(before: list[tuple[str, str]], after: list[tuple[str, str]], same: bool) -> None:
    """Only whole numbers that become wider stay the same text."""
    was, now = (
        Schema(tuple(Field(name, name, kind, 1, None, None) for name, kind in columns), tuple(name for name, _ in columns))
        for columns in (before, after)
    )
    if same:
        check_key("t", was, now)
    else:
        with pytest.raises(Refused, match=r"keys were erased while the key was \(id "):
            check_key("t", was, now)


def test_another_secret_is_noticed() -> None:
    """Without it every erased key would come back."""
    erased = with_keys(None, ['["7"]'], b"one secret of some length", "t")
    assert erased.keys == (hashed('["7"]', b"one secret of some length"),)
    assert with_keys(erased, ['["8"]', '["7"]'], b"one secret of some length", "t").keys == tuple(
        sorted(hashed(text, b"one secret of some length") for text in ('["7"]', '["8"]'))
    )
    with pytest.raises(Refused, match="is not the one that the erased keys were hashed with"):
        with_keys(erased, [], b"another secret of some length", "t")
