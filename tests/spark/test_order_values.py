"""The newest row wins, whatever form the values of its order have: they are compared as the values that are stored."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from compactor.core.model.errors import OrderRefused
from compactor.spark.rows.order_texts import is_misordered
from tests.spark.lake import Lake
from tests.spark.test_debezium_types import VARIABLE, of, packed, scaled

pytestmark = pytest.mark.spark


def record(schema: dict[str, Any], id_: int, at: Any, v: str) -> dict[str, Any]:
    """A flat row in Connect's JSON whose column `at` has a schema."""
    fields = [{"field": "id", "type": "int64"}, {"field": "at", **schema}, {"field": "v", "type": "string"}]
    return {"schema": {"type": "struct", "fields": fields}, "payload": {"id": id_, "at": at, "v": v}}


CONNECT: dict[str, tuple[dict[str, Any], Any, Any]] = {
    # Connect's schema, the older value, the newer value
    "zoned": (of("string", "io.debezium.time.ZonedTimestamp"), "2024-03-05T10:00:00Z", "2024-03-05T10:00:00.5Z"),
    "zones": (of("string", "io.debezium.time.ZonedTimestamp"), "2024-03-05T12:00:00+02:00", "2024-03-05T11:00:00Z"),
    "money": (scaled(2, 9), packed(-100), packed(255)),
    "wide": (scaled(3, 38), packed(10**30), packed(10**30 + 1)),
    "time": (of("int64", "io.debezium.time.MicroTime"), 86_400_000_000, 363_600_000_000),
    "double": (of("double"), 9.5, 10.25),
}
TEXTS = {
    "fractions": ("2024-03-05T10:00:00Z", "2024-03-05T10:00:00.5Z"),
    "nanoseconds": ("2024-03-05 10:00:00.123456788", "2024-03-05 10:00:00.123456789"),
    "offsets": ("2024-03-05T12:30:00.10+0200", "2024-03-05 11:00:00Z"),
    "no_seconds": ("2024-03-05T10:00Z", "2024-03-05T10:00:30Z"),
    "no_seconds_with_offset": ("2024-03-05T12:01+02:00", "2024-03-05T10:01:00.5Z"),
    "blank_before_offset": ("2024-03-05 12:30:00.000 +0200", "2024-03-05 11:00:00.000 +0000"),
    "commas": ("2024-03-05T12:00:00,000+02:00", "2024-03-05T11:00:00,000+00:00"),
    "comma_and_none": ("2024-03-05T10:00:00Z", "2024-03-05T10:00:00,500Z"),
    "small_letters": ("2024-03-05t10:00:00z", "2024-03-05t10:00:00.5z"),
    "words": ("alpha", "beta"),
    "lsns": ("0/FFFFFF8", "0/10000000"),
    "many_digits": ("9" * 39, f"1{'0' * 39}"),
    "hexadecimal": ("0000002200000188000a", "00000022000001880010"),
}


MISORDERED = (
    *("2026-11-20 11:00:00 AM", "01:00 p.m.", "20-NOV-26 01.00.00.000000 PM", "Oct 30 2026 08:00", "20 Nov 2026", "November 20, 2026", "2026-Nov-20"),
    *("Tue, 01 Dec 2026", "Fri 2026-11-20", "2026-11-20 09:00:00 CET", "08:30 PST", "2026-11-20T09:00:00+01:00[Europe/Berlin]", "08:00:00 GMT+1"),
    *("2026-11-20 09:00:00.5 America/New_York", "9:59:00", "2026-11-20 9:59", "1e10", "1E-5", "1.5e3", "0044-03-15 BC", "10000-01-01", "-0044-03-15"),
    *("+10", "9  ", "0 ", "20261120T080000+0200", "2026-11-20T08+02:00", "2026-11-20T08:00:00.1234567891+02:00"),
    *("2026-11-19T24:00:00+02:00", "20261120T080000.5 -0130"),
    *("master.000006:99", "mysql-bin.000012:4711", "AAAAIgAAAYgAAg==", " 9", " 10"),
)
SORTED = (
    *("2026-11-20 08:00:00 UTC", "2026-11-20 08:00:00.5 GMT", "2026-11-20T08:00:00.000000000", "2026-11-20T08:00:00Z_0001", "08:30:00", "2026-W47"),
    *("1.2.3", "1.10.0-rc1", "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-77", "123e4567-dec0-7abc-deca-426614174000", "00001e10", "DEADBEEF", "12bc"),
    *("00000027:00000758:0005", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "mysql-bin.000123", "1526919030474-0", "00000000/0000001A", "august", "batch 5"),
    *(
        "20261120T080000.123Z",
        "20261120T080000+0000",
        "2026-11-20T08:00:00.1234567891Z",
        "20260101100000  ",
        "+0000000100",
        "0009 ",
        "2026-11-20T08:00:00.1234567891",
        "a+10",
        "   9",
        " 2026-11-20",
        "mysql-bin.000012:0000000099",
        "1732060800.123456:0001",
        "20261120T080000.123456 0001",
        "20261120080000",
    ),
)
"""Text that sorts otherwise than what it means, and text that may look like it."""


@pytest.mark.slow
def test_later_text_that_does_not_sort_with_the_stored_is_invalid(lake: Lake) -> None:
    """A date of another form, a number, or nothing: it would be older than what is stored, without a word."""
    spec = lake.spec(order_by=("at",), quarantine_share=1.0)
    lake.land(spec, 1, [{"id": 1, "at": "2026-11-20T08:00:00Z", "v": "old"}, {"id": 2, "at": "", "v": "old"}])
    assert lake.run(spec).counts["quarantined"] == 1
    later = ["12/20/2026 08:00", "1795200000", "", "2026-11-21 08:00:00"]
    lake.land(spec, 2, [{"id": 1, "at": at, "v": "new"} for at in later])
    lake.run(spec)
    assert [(row["id"], row["v"]) for row in lake.rows(spec)] == [(1, "new")]
    reasons = [(record, reason.partition(", expected")[0]) for record, reason in lake.unusable(spec)]
    assert sorted(reasons) == sorted((number, f"order_by column at holds '{at}'") for number, at in [(2, ""), *enumerate(later[:3], 1)])


@pytest.mark.slow
def test_numbers_stay_the_order_of_a_table_with_other_text_in_quarantine(lake: Lake) -> None:
    """`verify` reads all records again: those in quarantine do not make the others text."""
    spec = lake.spec(order_by=("at",), quarantine_share=1.0)
    lake.land(spec, 1, [{"id": 1, "at": "9", "v": "old"}, {"id": 2, "at": "10", "v": "old"}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "at": "10", "v": "new"}, {"id": 2, "at": "abc", "v": "new"}])
    lake.run(spec)
    assert sorted((row["id"], row["v"]) for row in lake.rows(spec)) == [(1, "new"), (2, "old")]
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_the_order_column_may_change_the_case_of_its_letters(lake: Lake) -> None:
    """As any other column. A record that has both names has two columns, and `order_by` means one of them."""
    spec = lake.spec(order_by=("Seq",))
    lake.land(spec, 1, [{"id": 1, "seq": 1, "v": "a"}, {"id": 2, "seq": 3, "v": "a"}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "SEQ": 2, "v": "b"}, {"id": 2, "Seq": 2, "v": "b"}])
    lake.run(spec)
    assert [(1, 2, "b"), (2, 3, "a")] == [(row["id"], row["seq"], row["v"]) for row in lake.rows(spec)]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_the_newer_value_wins_in_whatever_order_the_runs_come(lake: Lake) -> None:
    """Timestamps as text, decimals as base64 and beyond 2^53: in one run, and late in another; Positions survive their JSON."""
    tables = {name: (record(schema, 1, old, "old"), record(schema, 1, new, "new")) for name, (schema, old, new) in CONNECT.items()}
    tables |= {name: tuple({"id": 1, "at": at, "v": v} for at, v in zip(pair, ("old", "new"))) for name, pair in TEXTS.items()}  # type: ignore[misc]
    for name, (old, new) in tables.items():
        spec = lake.spec(name, order_by=("at",), write_mode="merge-on-read")
        lake.land(spec, 1, [new, old])
        assert lake.run(spec).counts["superseded"] == 1, name
        lake.land(spec, 2, [old])
        assert lake.run(spec).counts["late"] == 1, name
        assert [row["v"] for row in lake.rows(spec)] == ["new"], name
        assert lake.problems(spec) == [], name
    assert dict(lake.snapshot(lake.spec("wide")).order)["at"] == "decimal(38,3)"

    spec = lake.spec("bytes", order_by=("at",))
    lsns = [bytes.fromhex(digits) for digits in ("00000022000001880002", "0000002200000188000a", "00000022000001880003")]
    lake.land_parquet(spec, 1, [{"id": 1, "at": lsns[0], "v": "old"}], "id bigint, at binary, v string")
    lake.run(spec)
    lake.land_parquet(spec, 2, [{"id": 1, "at": at, "v": v} for at, v in zip(lsns[1:], ("new", "old"))], "id bigint, at binary, v string")
    lake.run(spec)
    assert [row["v"] for row in lake.rows(spec)] == ["new"]
    spec = lake.spec("base64", order_by=("at",), types=(("at", "binary"),))
    for hour, at in enumerate((1, 2, 0), 1):
        lake.land(spec, hour, [{"id": 1, "at": base64.b64encode(lsns[at]).decode(), "v": str(at)}])
        lake.run(spec)
    assert [row["v"] for row in lake.rows(spec)] == ["1"]

    spec = lake.spec("parquet", order_by=("at",))
    ddl = "id bigint, at decimal(20,0), v string"
    rows = [{"id": 1, "at": Decimal(2**53 + 1), "v": "new"}, {"id": 1, "at": Decimal(2**53), "v": "old"}]
    lake.land_parquet(spec, 1, rows, ddl)
    lake.run(spec)
    lake.land_parquet(spec, 2, [{"id": 1, "at": 2**53, "v": "late"}], "id bigint, at bigint, v string")
    assert lake.run(spec).counts["late"] == 1
    assert [row["v"] for row in lake.rows(spec)] == ["new"]


@pytest.mark.slow
def test_what_has_no_order_is_refused_by_name(lake: Lake) -> None:
    """Numbers of any size are stored as text; bits have their lowest byte first; a fraction is no value of an order of whole numbers."""
    spec = lake.spec("variable", order_by=("at",))
    lake.land(spec, 1, [record(VARIABLE, 1, {"scale": 0, "value": packed(7)}, "x")])
    with pytest.raises(OrderRefused, match="order_by column 'at' holds numbers of any size"):
        lake.run(spec)
    spec = lake.spec("bits", order_by=("at",))
    lake.land(spec, 1, [record(of("bytes", "io.debezium.data.Bits"), 1, "AQ==", "x")])
    with pytest.raises(OrderRefused, match="'at' has type bits, which has no order"):
        lake.run(spec)
    for at, value in enumerate(("12/31/2025", "9.5", "2026-1-5", "05-JAN-26 10:00:00")):
        spec = lake.spec(f"misordered{at}", order_by=("at",))
        lake.land(spec, 1, [{"id": 1, "at": value, "v": "x"}])
        with pytest.raises(OrderRefused, match=f"'at' is text that does not sort as what it means. The first is .*{value}.*record 1"):
            lake.run(spec)
    assert lake.spark.createDataFrame([(text,) for text in MISORDERED], "t string").where(f"NOT {is_misordered('t')}").collect() == []
    assert lake.spark.createDataFrame([(text,) for text in SORTED], "t string").where(is_misordered("t")).collect() == []
    spec = lake.spec("whole", order_by=("at",), quarantine_share=1.0)
    lake.land(spec, 1, [{"id": 1, "at": 1, "v": "first"}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "at": 1.5, "v": "between"}, {"id": 1, "at": 2.0, "v": "second"}])
    assert lake.run(spec).counts["quarantined"] == 1
    assert "not of the order's type" in lake.unusable(spec)[0][1]
    assert [row["v"] for row in lake.rows(spec)] == ["second"]
