"""The comparer and its list of impossible cells, proved against an oracle; no compactor takes part."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.sizes import FULL

from . import config, landing
from .replay import replay
from .truth import IMPOSSIBLE, Difference, differences, from_truth, from_view, missing, truth, unexpected

FAMILIES = tuple(IMPOSSIBLE)


def compare(form: str, hour: int, rows: dict[str, list[dict[str, Any]]]) -> list[Difference]:
    """All differences of all tables."""
    return [found for name, table in truth(hour).items() for found in differences(rows.get(name, []), table, form)]


@pytest.mark.parametrize("hour", landing.HOURS)
@pytest.mark.parametrize("form", FAMILIES)
@pytest.mark.slow
def test_a_plain_replay_equals_postgresql_but_for_the_listed_cells(form: str, hour: int) -> None:
    """What a correct merger shows differs from PostgreSQL in exactly the cells listed as impossible."""
    found = compare(form, hour, replay(form, hour))
    assert unexpected(found, form, hour) == []
    assert missing(found, form, hour) == []


@pytest.mark.slow
def test_every_entry_of_the_list_is_needed() -> None:
    """An entry that asks for a difference names rows that exist in PostgreSQL or are extra, in an hour of its range."""
    for form, entries in IMPOSSIBLE.items():
        for entry in entries:
            if entry.certain and entry.keys:
                found = compare(form, entry.hours[0], replay(form, entry.hours[0]))
                assert any(entry.covers(difference, entry.hours[0]) for difference in found), entry


@pytest.mark.parametrize("form", ["debezium_json", "flat"] if FULL else ["debezium_json"])
@pytest.mark.slow
def test_the_comparer_sees_every_wrong_cell(form: str) -> None:
    """Any cell of any type that is replaced by null, or by the value of another row, is reported."""
    hour = 3
    for name, whole in truth(hour).items():
        shown_rows = replay(form, hour)[name][:5]
        if not whole.key or not shown_rows:
            continue
        kinds = dict(whole.columns)
        keys = {tuple(from_view(row[config.stored_name(column)], kinds[column], form) for column in whole.key) for row in shown_rows}
        table = whole._replace(rows=tuple(row for row in whole.rows if tuple(from_truth(row[column], kinds[column]) for column in whole.key) in keys))
        before = Counter(differences(shown_rows, table, form))
        for column, kind in whole.columns:
            shown = config.stored_name(column)
            for place, row in enumerate(shown_rows):
                old = from_view(row.get(shown), kind, form)
                for value in [None, *[other.get(shown) for other in shown_rows]]:
                    if from_view(value, kind, form) != old:
                        changed = [*shown_rows[:place], {**row, shown: value}, *shown_rows[place + 1 :]]
                        assert Counter(differences(changed, table, form)) != before, (name, column, value)


def test_missing_extra_and_doubled_rows_are_reported() -> None:
    """A lost row, a resurrected row and a row shown twice are each one difference, and none is taken for an impossible cell."""
    table = truth(1)["pkmove"]
    rows = replay("debezium_json", 1)["pkmove"]
    assert differences(rows, table, "debezium_json") == []
    for changed, column, counts in (
        (rows[1:], "(row missing)", (1, 0)),
        ([*rows, {**rows[0], "id": 999}], "(row extra)", (0, 1)),
        ([*rows, rows[0]], "(row doubled)", (1, 2)),
    ):
        (found,) = differences(changed, table, "debezium_json")
        assert (found.column, found.expected, found.found) == (column, *counts)
        assert unexpected([found], "debezium_json", 1) == [found]


def test_tables_without_key_are_compared_as_bags() -> None:
    """Rows of a keyless table may come in any order, but each as often as PostgreSQL has it."""
    table = truth(1)["copied_nopk"]
    rows = replay("debezium_json", 1)["copied_nopk"]
    assert len(rows) == 38
    assert differences(rows[::-1], table, "debezium_json") == []
    (found,) = differences(rows[1:], table, "debezium_json")
    assert (found.column, found.expected - found.found) == ("(row missing)", 1)


def test_columns_postgresql_does_not_have_are_ignored() -> None:
    """A dropped column that the view keeps is no difference."""
    rows = [{**row, "gone": "x"} for row in replay("debezium_json", 1)["pkmove"]]
    assert differences(rows, truth(1)["pkmove"], "debezium_json") == []


@pytest.mark.parametrize(
    ("kind", "postgresql", "shown", "form"),
    [
        ("date", "1990-11-30", "1990-11-30Z", "flat"),
        ("date", "1990-11-30", 7638, "debezium_json_noschema"),
        ("date", "0044-03-15 BC", "-0043-03-15", "flat"),
        ("timestamp without time zone", "2024-03-05 09:00:00.5", "2024-03-05T09:00:00.500Z", "debezium_json"),
        ("timestamp with time zone", "2024-03-05 09:00:00+00", "2024-03-05T10:00:00+01:00", "debezium_json"),
        ("timestamp(3) without time zone", "1970-01-01 00:00:01.5", 1500, "debezium_json_noschema"),
        ("timestamp without time zone", "1970-01-01 00:00:01.5", 1_500_000, "debezium_json_noschema"),
        ("time without time zone", "24:00:00", 86_400_000_000, "debezium_json_noschema"),
        ("time with time zone", "23:59:59.999999-12", "11:59:59.999999Z", "debezium_json"),
        ("numeric(20,4)", "3.5400", "DdQ=", None),
        ("numeric(20,4)", "0.3540", "DdQ=", "debezium_json_noschema"),
        ("numeric(20,4)", "0.3540", Decimal("0.354"), "debezium_json"),
        ("numeric", "12.5", {"scale": 1, "value": "fQ=="}, "debezium_json_noschema"),
        ("money", "-$1,234.56", "-1234.56", "flat"),
        ("real", "0.14285715", Decimal("0.142857149243354797"), "debezium_json"),
        ("double precision", "-Infinity", "-Infinity", "debezium_json"),
        ("bytea", "\\x00ff", "AP8=", "debezium_json"),
        ("bit(5)", "10101", "FQ==", "debezium_json"),
        ("bit(1)", "1", True, "debezium_json"),
        ("point", "(1.5,-2.25)", {"x": Decimal("1.5"), "y": Decimal("-2.25"), "wkb": "", "srid": None}, "debezium_json"),
        ("interval", "P1Y2M3DT4H5M6.789012S", 37_091_106_789_012, "debezium_json"),
        ("hstore", '"a"=>"1", "b"=>NULL, "c d"=>"e\\"f"', '{"a":"1","b":null,"c d":"e\\"f"}', "flat"),
        ("addr", '("main, st",12345)', "KCJtYWluLCBzdCIsMTIzNDUp", "flat"),
        ("text[]", '{a,NULL,"x,y","q\\"uote",""}', ["a", None, "x,y", 'q"uote', ""], "flat"),
        ("integer[]", "{{1,2},{3,4}}", [[1, 2], [3, 4]], "wal2json_v2"),
        ("integer[]", "{{1,2},{3,4}}", [1, 2, 3, 4], None),
        ("text", "true", True, "flat"),
    ],
)
def test_both_sides_of_a_type_meet(kind: str, postgresql: str, shown: Any, form: str | None) -> None:
    """Each way a value may be shown equals PostgreSQL's text of it (with form None: differs, because it cannot be read so)."""
    same = from_truth(postgresql, kind) == from_view(shown, kind, form or "debezium_json")
    assert same == (form is not None)


@pytest.mark.parametrize("form", [form for form in landing.FORMS if not form.endswith("_parquet")])
def test_every_record_lands_once(tmp_path: Path, form: str) -> None:
    """However the records are split and shuffled, the files hold every record of the hour once, and duplicates hold it again."""
    expected = Counter(_contents(landing.land(tmp_path / "plain", form, hours=[2])))
    assert expected
    if form != "debezium_avro_files":
        shuffled = landing.land(tmp_path / "shuffled", form, hours=[2], files=5, seed=7, compress=True)
        assert len(shuffled) > len(list((tmp_path / "plain").rglob("*.json")))
        assert Counter(_contents(shuffled)) == expected
    doubled = landing.land(tmp_path / "doubled", form, hours=[2], duplicate=1, late={2: 4})
    assert Counter(_contents(doubled)) == expected + expected
    assert {path.parent.name for path in doubled} == {"increment_2024030504", "increment_2024030505"}
    assert len(doubled) == len(set(doubled)) == 2 * len([path for path in (tmp_path / "plain").rglob("*") if path.is_file()])


def _contents(paths: list[Path]) -> list[bytes]:
    found: list[bytes] = []
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".avro":
            found.append(content)
        else:
            found += (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    return found


def test_the_forms_of_one_record_carry_the_same_change() -> None:
    """The Kafka record holds the exact value text, and the form without schema holds its payload and nothing else."""
    for record in landing.records("debezium_json", 1)["public.audit_log"] + landing.records("debezium_json", 2)["public.pkmove"]:
        whole = json.loads(str(landing.line_of(record, "debezium_json_kafka")))
        assert whole["value"] == record["value"]
        assert whole["timestamp"] == record["ts"]
        bare = landing.line_of(record, "debezium_json_noschema_value")
        if record["value"] is None:
            assert bare is None
        else:
            assert json.loads(str(bare)) == json.loads(record["value"])["payload"]


def test_the_order_given_for_flat_rows_is_the_order_of_the_stream() -> None:
    """Per key, (__ts_ms, __lsn) never ties and never goes back, and only __lsn may be null."""
    for name, source in landing.tables().items():
        last: dict[str, tuple[int, int]] = {}
        for hour in landing.HOURS:
            for record in landing.records("debezium_flat", hour).get(landing.topic_suffix(source), []):
                if record["value"] is None or record["key"] is None:
                    continue
                value = json.loads(record["value"])
                place = (value[config.FLAT_ORDER[0]], value[config.FLAT_ORDER[1]] or 0)
                assert last.get(record["key"], (0, 0)) < place, name
                last[record["key"]] = place


@pytest.mark.parametrize("form", landing.FORMS)
def test_the_configuration_names_every_table_and_its_key(form: str) -> None:
    """The configuration is YAML with every table, its envelope, format, container and key."""
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(config.config_text(form, warehouse="/w"))
    assert set(read["tables"]) == set(landing.tables())
    assert read["tables"]["uq_ident"]["key"] == ["email"]
    assert read["tables"]["audit_log"]["key"] == []
    avro = form in ("debezium_avro_files", "debezium_parquet", *landing.WIRE)
    assert read["tables"]["mixed_case"]["key"] == ["Weird_Col_name" if avro else "Weird-Col name"]
    # the envelopes' own order is what is tested
    assert "order_by" not in read["tables"]["student"]
