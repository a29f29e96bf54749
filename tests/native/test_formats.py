"""Avro and Parquet by hand, beside fastavro and pyarrow; column bounds; field ids; manifests that are used again."""

from __future__ import annotations

import datetime
import io
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.formats import avro, parquet
from compactor.core.iceberg import manifests
from compactor.core.iceberg.schema import ids_of, mapping
from tests.oracle.sizes import sized

SCHEMA: Any = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "t", "type": ["null", "string"]},
        {
            "name": "b",
            "type": [
                "null",
                {"type": "array", "items": {"type": "record", "name": "p", "fields": [{"name": "k", "type": "int"}, {"name": "v", "type": "bytes"}]}},
            ],
        },
        {"name": "f", "type": "boolean"},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "e", "type": {"type": "record", "name": "none", "fields": []}},
    ],
}
LONGS = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "n": LONGS,
            "t": st.none() | st.text(),
            "b": st.none() | st.lists(st.fixed_dictionaries({"k": st.integers(-(2**31), 2**31 - 1), "v": st.binary()})),
            "f": st.booleans(),
            "m": st.dictionaries(st.text(), LONGS),
            "e": st.just({}),
        }
    )
)


@sized(200)
@given(records=RECORDS)
def test_fastavro_reads_what_we_write_and_so_do_we(records: list[Any]) -> None:
    """And the same records give the same bytes."""
    data = avro.write(SCHEMA, records, {"x": "ü"})
    reader = fastavro.reader(io.BytesIO(data))
    assert [*reader] == records
    assert reader.metadata["x"] == "ü"
    header, back = avro.read(data)
    assert (header["x"], back) == ("ü", records)
    assert avro.write(SCHEMA, records, {"x": "ü"}) == data


@pytest.mark.parametrize("data", [b"", b"PAR1", avro.write("long", [1], {})[:-1] + b"\x00"])
def test_other_and_damaged_files_are_refused(data: bytes) -> None:
    """They are no manifests."""
    with pytest.raises(ValueError, match="Avro"):
        avro.read(data)


@pytest.mark.parametrize(
    ("blocks", "complete"),
    [((1, 2), True), ((1, 0), True), ((1, 0, 0), True), ((), True), ((0,), True), ((1, 0, 2), False), ((0, 1), False), ((0, 0, 1, 0), False)],
)
def test_spark_reads_nothing_behind_an_empty_block(blocks: tuple[int, ...], complete: bool) -> None:
    """Such a file is refused, as far as its bytes were read; at the end of a file empty blocks hide nothing."""
    # other programs' metadata may be any bytes
    header = avro.write("long", [], {"x": "?"}).replace(b"?", b"\xff")
    marker = header[-avro.SYNC :]
    whole = header + b"".join(avro.block(records, bytes(9 * records), marker) for records in blocks)
    assert avro.container_schema(header, marker) == '"long"'
    for head in (whole, whole[: max(len(header), len(whole) - 5)]):
        if complete:
            assert avro.container_schema(head, marker) == '"long"'
        else:
            with pytest.raises(ValueError, match="a block of 0 records before its last one"):
                avro.container_schema(head, marker)


def footer(table: pyarrow.Table, kinds: dict[tuple[str, ...], str], **options: Any) -> parquet.Footer:
    """What our reader says of a table that pyarrow writes."""
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, **options)
    return parquet.parse(out.getvalue(), kinds)


CASES: list[tuple[str, pyarrow.DataType, list[Any], bytes | None, bytes | None]] = [
    ("int", pyarrow.int32(), [3, None, -7, 5], struct.pack("<i", -7), struct.pack("<i", 5)),
    ("tinyint", pyarrow.int8(), [3, -7], struct.pack("<i", -7), struct.pack("<i", 3)),
    ("bigint", pyarrow.int64(), [2**40, -(2**50)], struct.pack("<q", -(2**50)), struct.pack("<q", 2**40)),
    ("double", pyarrow.float64(), [1.5, -2.0], struct.pack("<d", -2.0), struct.pack("<d", 1.5)),
    ("float", pyarrow.float32(), [1.5, -2.0], struct.pack("<f", -2.0), struct.pack("<f", 1.5)),
    ("boolean", pyarrow.bool_(), [True, False], b"\x00", b"\x01"),
    ("date", pyarrow.date32(), [datetime.date(1969, 12, 31), datetime.date(1970, 1, 2)], struct.pack("<i", -1), struct.pack("<i", 1)),
    ("timestamp", pyarrow.timestamp("us", "UTC"), [datetime.datetime(1970, 1, 1, 0, 0, 1)], struct.pack("<q", 10**6), struct.pack("<q", 10**6)),
    ("string", pyarrow.string(), ["b", "é", "a"], b"a", "é".encode()),
    ("string", pyarrow.string(), ["x" * 100], b"x" * 64, b"x" * 63 + b"y"),
    ("string", pyarrow.string(), ["\U0010ffff" * 100], "\U0010ffff".encode() * 16, None),
    ("string", pyarrow.string(), ["\ud7ff" * 100], "\ud7ff".encode() * 21, "\ud7ff".encode() * 20 + "\ue000".encode()),
    ("binary", pyarrow.binary(), [b"\xff" * 100, b"\x01"], b"\x01", None),
    ("binary", pyarrow.binary(), [b"a\xff" * 50], b"a\xff" * 32, b"a\xff" * 31 + b"b"),
    ("decimal(5,2)", pyarrow.decimal128(5, 2), [Decimal("-1.28"), Decimal("1.27")], b"\x80", b"\x7f"),
    ("decimal(38,0)", pyarrow.decimal128(38, 0), [Decimal(-129), Decimal(128)], b"\xff\x7f", b"\x00\x80"),
    ("int", pyarrow.int32(), [None, None], None, None),
]


@pytest.mark.parametrize(("kind", "arrow", "values", "low", "high"), CASES)
@pytest.mark.parametrize("integers", [True, False])
def test_bounds(kind: str, arrow: pyarrow.DataType, values: list[Any], low: bytes | None, high: bytes | None, integers: bool) -> None:
    """In Iceberg's single-value form, over all row groups; a long text is cut, and a bound that cannot be is left out."""
    read = footer(pyarrow.table({"c": pyarrow.array(values, arrow)}), {("c",): kind}, row_group_size=2, store_decimal_as_integer=integers)
    assert read.rows == len(values)
    assert read.columns["c",] == parquet.ColumnStats(len(values), values.count(None), low, high)
    assert len(read.splits) == -(-len(values) // 2)


def test_nan_has_no_bounds_and_a_column_without_statistics_has_none() -> None:
    """Nor null counts."""
    nan = pyarrow.table({"c": [1.0, float("nan")], "d": ["a", None]})
    assert footer(nan, {("c",): "double"}, write_statistics=["d"]).columns["c",] == parquet.ColumnStats(2, None)
    read = footer(pyarrow.table({"s": [{"a": 1, "b": {"c": "x"}}, None]}), {("s", "a"): "bigint", ("s", "b", "c"): "string"})
    assert read.columns["s", "b", "c"] == parquet.ColumnStats(2, 1, b"x", b"x")


@pytest.mark.parametrize(
    ("options", "legacy"), [({}, ""), ({"use_compliant_nested_type": False}, "l"), ({"use_deprecated_int96_timestamps": True}, "t")]
)
def test_forms_that_readers_misread_are_seen(options: dict[str, Any], legacy: str) -> None:
    """Lists whose element has another name, INT96; not a struct's member of any name."""
    moment = pyarrow.array([datetime.datetime(2020, 1, 1)], pyarrow.timestamp("us"))
    table = pyarrow.table(
        {
            "s": [{"bag": 1, "list": {"item": 2}}],
            "l": [[{"a": 1}]],
            "m": pyarrow.array([[("k", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
            "t": moment,
        }
    )
    read = footer(table, {("t",): "timestamp"}, **options)
    # Spark writes bounds of INT96, which are no numbers
    assert (read.legacy, bool(read.columns)) == (legacy, not legacy)


def test_a_file_that_is_no_parquet_file() -> None:
    """It is refused by its end."""
    with pytest.raises(ValueError, match="not a Parquet file"):
        parquet.length(b"0123456789")


def test_ids_survive_the_mapping() -> None:
    """Whatever the names contain."""
    ids = {("a",): 1, ("a", "element"): 2, ("a", "element", "x.y"): 3, ("b",): 4, ("b", "key"): 5, ("b", "value"): 6}
    assert ids_of(mapping(ids)) == ids


def _manifest(number: int, segments: tuple[str, ...], files: int) -> manifests.Manifest:
    return manifests.Manifest({"manifest_path": f"m{number}", "added_files_count": files, "existing_files_count": 0}, segments)


def test_which_manifests_are_used_again() -> None:
    """Those of Segments that are all there; small ones are merged when another one is written."""
    large, small, other = _manifest(1, ("a", "b"), 200), _manifest(2, ("c",), 3), _manifest(3, ("d", "e"), 100)
    before = [large, small, other]
    assert manifests.reusable(before, "abcde") == before
    assert manifests.reusable(before, "abcd") == [large]
    assert manifests.reusable(before, "abcdef") == [large, other]
    assert manifests.reusable(before, "abc") == [large, small]
    assert manifests.reusable([], "a") == []


def test_entries_of_a_manifest_that_is_given_up_keep_their_numbers(tmp_path: Path) -> None:
    """A Segment's files move into a new manifest as existing, with the snapshot and the sequence number that added them."""
    read = footer(pyarrow.table({"c": [1, 2]}), {("c",): "bigint"})
    entries = [manifests.added(name, [manifests.data_file(f"file:///t/{name}/f{at}", 9, read, {("c",): 1}) for at in range(3)], 77) for name in "ab"]
    ((made, _, content),) = manifests.written(entries, "file:///m", {"schema-id": 0}, 77, 5, "u")
    assert (made.files, made.segments, made.entry["added_rows_count"]) == (6, ("a", "b"), 12)
    (kept,) = manifests.existing(content, made, {"file:///t/b": "b"})
    assert {(file["status"], file["snapshot_id"], file["sequence_number"]) for file in kept.files} == {(0, 77, 5)}
    ((again, _, _),) = manifests.written([kept], "file:///m", {"schema-id": 0}, 88, 6, "u")
    assert (again.entry["min_sequence_number"], again.entry["existing_files_count"], again.entry["added_snapshot_id"]) == (5, 3, 88)
    listed = manifests.list_file([made, again], 88, 77, 6, 2)
    assert [*fastavro.reader(io.BytesIO(listed))] == [made.entry, again.entry]
    assert manifests.read_list(listed) == [made, again]
