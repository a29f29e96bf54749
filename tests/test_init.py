"""`compactor init`: what is written loads, asks for what nothing told, and never replaces a file."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow
import pyarrow.parquet
import pytest
import yaml
from typer.testing import CliRunner

from compactor.cli import main as cli
from compactor.config import settings as config
from compactor.config import text as config_text
from compactor.config.settings import Settings
from compactor.core.model.errors import CompactorError, ConfigError, Refused
from compactor.core.model.policy import Protection
from compactor.core.sources import proposal
from compactor.core.sources.proposal import Proposal, Question, TableProposal
from tests.capture import config as capture
from tests.capture import landing
from tests.parts.s3 import Server
from tests.parts.s3_fixtures import s3_endpoint, server
from tests.registry.server import serving
from tests.registry.test_tables import folder

__all__ = ["s3_endpoint", "server"]

NOT_TABLES = {"__debezium-heartbeat.pga", "pga.message", "pga.public.dbz_signal", "pga.transaction"}


def init(*words: str) -> str:
    """The command, in this process."""
    done = CliRunner().invoke(cli.app, ["init", *words])
    if done.exception is not None and isinstance(done.exception, CompactorError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def told(*words: str) -> dict[str, Any]:
    """What it says to programs."""
    found: dict[str, Any] = json.loads(init(*words, "--output", "json"))
    return found


def loaded(file: Path) -> Settings:
    """The written file, read as a run reads it."""
    return config.load(file, {})


def test_a_registry_gives_a_table_for_every_topic(tmp_path: Path) -> None:
    """The captured one: keys from the key subjects, no key where there is none, Debezium's own topics left out."""
    folder(tmp_path / "schemas")
    said = told("--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"), "--database", "school")
    assert {left["source"] for left in said["left_out"]} == NOT_TABLES
    settings = loaded(tmp_path / "compactor.yaml")
    keys = {name: tuple(capture.avro_name(column) for column in key) for name, key in capture.keys().items()}
    found = {name: settings.spec(name) for name in settings.names}
    names = {"sales_order": "order"}
    assert {name: found[names.get(name, name)].key for name in keys} == keys
    assert {spec.envelope for spec in found.values()} == {"debezium"}
    assert found["student"].subject == "pga.public.student-value"
    assert found["student"].database == "school"


def test_the_signal_table_is_left_out_where_only_the_registry_shows_its_columns(tmp_path: Path) -> None:
    """Records that carry the id of their schema cannot be read without it."""
    folder(tmp_path / "schemas")
    record = json.dumps({"topic": "", "partition": 0, "offset": 0, "key": {"b64": "AAAAAAE="}, "value": {"b64": "AAAAAAIC"}})
    for topic in ("pga.public.dbz_signal", "pga.public.student"):
        (tmp_path / "lake" / topic).mkdir(parents=True)
        (tmp_path / "lake" / topic / f"{topic}+0+0000000000.json").write_text(record.replace('""', f'"{topic}"', 1))
    words = ("--from", str(tmp_path / "lake"), "--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"))
    said = told(*words)
    assert [table["name"] for table in said["tables"]] == ["student"]
    assert "pga.public.dbz_signal" in {left["source"] for left in said["left_out"]}


def test_topics_without_rows_are_left_out_where_only_the_registry_shows_them(tmp_path: Path) -> None:
    """Transactions and messages are bytes like those of any table."""
    folder(tmp_path / "schemas")
    record = json.dumps({"topic": "", "partition": 0, "offset": 0, "key": {"b64": "AAAAAAE="}, "value": {"b64": "AAAAAAIC"}})
    for topic in ("pga.transaction", "pga.message", "pga.public.student"):
        (tmp_path / "lake" / topic).mkdir(parents=True)
        (tmp_path / "lake" / topic / "part-0.json").write_text(record.replace('""', f'"{topic}"', 1))
    said = told("--from", str(tmp_path / "lake"), "--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"))
    assert [table["name"] for table in said["tables"]] == ["student"]
    assert {"pga.transaction", "pga.message"} <= {left["source"] for left in said["left_out"]}


@pytest.mark.parametrize("form", ["debezium_json_kafka", "flat_kafka", "wal2json_v1", "wal2json_v2"])
def test_landed_files_tell_the_keys_where_records_have_them(tmp_path: Path, form: str) -> None:
    """Whole Kafka records and wal2json; the tables, where they lie and what they are wrapped in are the ones the tests configure by hand."""
    landing.land(tmp_path / "lake", form, hours=(0, 1, 2))
    said = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))
    found = {table["name"]: table for table in said["tables"]}
    for name, key in capture.keys().items():
        if name not in found:
            # nothing of it in these hours, or partitioned, which wal2json does not tell
            continue
        by_hand = capture.table_config(form, name)
        settings = found[name]["settings"]
        assert settings["envelope"] == by_hand["envelope"]
        assert settings.get("container", "value") == by_hand.get("container", "value")
        if key and form.startswith("wal2json"):
            # in the order of columns; inserts alone tell none
            assert "key" not in settings or sorted(settings["key"]) == sorted(key)
        elif key:
            assert settings["key"] == list(key)
    assert {"student", "enrollment", "audit_log", "ledger", "pkmove", "toast_def", "type_zoo", "uq_ident"} <= found.keys()
    if form.startswith("wal2json"):
        assert found["student"]["settings"]["source_table"] == "public.student"
        assert found["student"]["settings"]["key"] == ["id"]


def test_files_with_a_registry_lack_nothing(tmp_path: Path) -> None:
    """Avro container files have no keys, and folders of their own kind; the registry tells the keys, so the file loads at once."""
    folder(tmp_path / "schemas")
    said = told("--from", str(landing.DATA / "files_avro"), "--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"))
    assert all(table["complete"] for table in said["tables"])
    spec = loaded(tmp_path / "compactor.yaml").spec("enrollment")
    assert (spec.key, spec.subject) == (("course_code", "student_id", "term"), "pga.public.enrollment-value")
    assert (spec.landing.endswith("files_avro/public.enrollment"), spec.pattern) == (True, "dt=%Y-%m-%d/hour=%H")


@pytest.mark.parametrize("packed", [False, True])
def test_records_with_their_place_in_metadata_are_kafka_records(tmp_path: Path, packed: bool) -> None:
    """As Lenses' sinks write them; the bytes of key and value are JSON, or `packed`: base64 of JSON."""
    (tmp_path / "lake" / "student").mkdir(parents=True)
    parts: dict[str, Any] = {"key": {"id": 1}, "value": {"op": "c", "before": None, "after": {"id": 1, "v": "a"}, "source": {"lsn": 1}}}
    if packed:
        parts = {name: base64.b64encode(json.dumps(part).encode()).decode() for name, part in parts.items()}
    record = {**parts, "metadata": {"topic": "student", "partition": 0, "offset": 1}}
    (tmp_path / "lake" / "student" / "a.json").write_text(json.dumps(record) + "\n")
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    settings = table["settings"]
    assert (settings["envelope"], settings["container"], settings["key"]) == ("debezium", "kafka", ["id"])


def test_values_in_the_registrys_wire_format_are_what_its_schema_says(tmp_path: Path) -> None:
    """Records of Kafka with Avro bytes: the files show the topic, the registry all else."""
    folder(tmp_path / "schemas")
    lake = tmp_path / "lake/pga.public.student/2026-11-27-05"
    lake.mkdir(parents=True)
    record = {"topic": "pga.public.student", "partition": 0, "offset": 1, "key": {"b64": "AAAAACoQ"}, "value": {"b64": "AAAAACsA"}}
    (lake / "pga.public.student+0+0000000001.json").write_text(json.dumps(record) + "\n")
    (table,) = told("--from", str(tmp_path / "lake"), "--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert (table["complete"], table["settings"]["envelope"], table["settings"]["container"]) == (True, "debezium", "kafka")
    assert table["settings"]["key"] == ["id"]


def test_a_likely_key_is_written_with_its_evidence_and_a_guess_is_asked(tmp_path: Path) -> None:
    """Values alone have no key. 60 rows with different ids show one; with 6 rows the line waits for somebody, and a run refuses the table."""
    landing.land(tmp_path / "many", "debezium_json_value", hours=[0], only=["student"])
    init("--from", str(tmp_path / "many"), "--config", str(tmp_path / "many.yaml"))
    line = next(line for line in (tmp_path / "many.yaml").read_text().splitlines() if line.strip().startswith("key:"))
    assert line.endswith("# inferred, verify it: never null and unique in 60 sampled rows; no other column is")
    assert loaded(tmp_path / "many.yaml").spec("student").key == ("id",)
    (landed,) = (tmp_path / "many").rglob("*.json")
    few = tmp_path / "few" / landed.relative_to(tmp_path / "many")
    few.parent.mkdir(parents=True)
    few.write_text("".join(landed.read_text().splitlines(keepends=True)[:6]))
    file = tmp_path / "few.yaml"
    shown = init("--from", str(tmp_path / "few"), "--config", str(file))
    assert shown.endswith("few.yaml: 1 table; set `key:` for student\n")
    text = file.read_text()
    assert "# Before the first run: set `key:` for student." in text
    with pytest.raises(ConfigError, match="table student, key key: expected the key columns"):
        loaded(file)
    file.write_text(text.replace("    #key: [id]", "    key: [id]"))
    assert loaded(file).spec("student").key == ("id",)


def test_landing_folders_are_written_relative_to_the_warehouse(tmp_path: Path) -> None:
    """So that the folder can be moved. Days may come first in the folders' names; dates in the files get a type."""
    rows = [f"{at};n{at % 3};2026-01-{at + 1:02};2026-11-20T10:{at:02}:00" for at in range(25)]
    for day, part in (("20-11-2026", rows[:24]), ("21-11-2026", rows[24:])):
        (tmp_path / "people" / "in" / day).mkdir(parents=True)
        (tmp_path / "people" / "in" / day / "a.csv").write_text("\n".join(["id;Straße (neu);born;updated_at", *part]) + "\n")
    file = tmp_path / "compactor.yaml"
    (table,) = told("--from", str(tmp_path), "--config", str(file))["tables"]
    assert table["settings"] == {
        "key": ["id"],
        "increments": "../people/in/%d-%m-%Y",
        "envelope": "flat",
        "csv": {"delimiter": ";"},
        "types": {"born": "date", "updated_at": "timestamp"},
    }
    file.write_text(file.read_text().replace("#order_by", "order_by"))
    spec = loaded(file).spec("people")
    assert (spec.landing, spec.pattern) == (f"{tmp_path}/people/in", "%d-%m-%Y")
    assert spec.types == (("born", "date"), ("updated_at", "timestamp"))


def test_values_that_only_a_schema_explains_are_asked_about(tmp_path: Path) -> None:
    """Connect without `schemas.enable`: base64 of decimals, days and milliseconds as numbers. The line to write stands in the file."""
    rows = [{"id": at, "balance": "BH4=", "birth_date": 20782 - at, "created": 1795611600123, "big": 2**55, "word": "open"} for at in range(9)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps({"op": "r", "after": row, "source": {"table": "t"}}) + "\n" for row in rows))
    file = tmp_path / "compactor.yaml"
    (table,) = told("--from", str(tmp_path / "in"), "--config", str(file))["tables"]
    types = {"balance": "decimal(10,?)", "birth_date": "date_days", "created": "timestamp_millis"}
    assert [question["settings"]["types"] for question in table["questions"] if "types" in question["settings"]] == [types]
    file.write_text(file.read_text().replace("#key", "key").replace("#types", "types"))
    with pytest.raises(ConfigError, match=r"expected .* or decimal\(12,2\), of at most 38 digits, found 'decimal\(10,\?\)'"):
        loaded(file)
    # no value shows the scale
    file.write_text(file.read_text().replace("?", "2"))
    assert dict(loaded(file).spec(table["name"]).types) == {**types, "balance": "decimal(10,2)"}


def test_dms_is_told_by_its_file_names(tmp_path: Path) -> None:
    """A full load beside dated folders; CSV without header asks for names."""
    for path in ("school/student/LOAD00000001.csv", "school/student/2026/01/05/20260105-120000123.csv"):
        (tmp_path / "dms" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dms" / path).write_text("I,1,Ann\nI,2,Ben\n")
    (table,) = told("--from", str(tmp_path / "dms"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert (table["name"], table["settings"]["envelope"]) == ("student", "dms")
    assert table["settings"]["increments"] == "../dms/school/student/%Y/%m/%d"
    assert [question["settings"] for question in table["questions"]] == [{"csv": {"columns": ["column_1", "column_2"]}}, {"key": ["column_1"]}]


def test_every_commented_line_can_be_uncommented(tmp_path: Path) -> None:
    """Each alone leaves valid YAML; all settings together give a configuration that loads."""
    debezium = {"op": "c", "after": {"id": 1}, "source": {"connector": "db2", "table": "visit"}}
    files = {
        "visit/a.json": json.dumps(debezium),
        "price/a.json": json.dumps({"sku": 1, "updated_at": 5}),
        "dms/student/LOAD00000001.csv": "I,1,Ann\nI,2,Ben\n",
        "stream/a.json": "\n".join(json.dumps({"id": at, **more}) for at, more in enumerate(({"__table": "a"}, {"__table": "b"}, {}))),
        "avro/t+0+1.json": json.dumps({"topic": "t", "offset": 1, "key": {"b64": "AA=="}, "value": {"b64": "AA=="}}),
        "city/a.csv": "id;name\n1;Ulm, Donau\n",
        "signal/a.json": json.dumps({"id": 1, "type": "x", "data": "y"}),
    }
    for path, content in files.items():
        (tmp_path / "lake" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lake" / path).write_text(content)
    file = tmp_path / "compactor.yaml"
    said = told("--from", str(tmp_path / "lake"), "--config", str(file))
    assert len(said["tables"]) == 8
    assert [left["source"] for left in said["left_out"]] == ["signal"]
    lines = file.read_text().splitlines()
    commented = [at for at, line in enumerate(lines) if line.lstrip().startswith("#")]
    suggested = [at for at in commented if re.match(r"#\w", lines[at].lstrip())]
    assert {lines[at].split("#")[1].split(":")[0].strip() for at in suggested} == {"key", "order_by", "csv"}
    for chosen in [*([at] for at in suggested), suggested]:
        text = "\n".join(line.replace("#", "", 1) if at in chosen else line for at, line in enumerate(lines))
        config_text.read(text, "compactor.yaml")
    file.write_text(text)
    settings = loaded(file)
    assert settings.spec("student").csv.columns == ("column_1", "column_2")
    assert settings.spec("price").order_by == ("updated_at",)


CSV = {
    "semicolons": ("id;name;price\n1;Ann, B;1,5\n2;Ben;2,5\n", {"delimiter": ";"}, None),
    "tabs": ("id\tname\n1\tAnn\n", {"delimiter": "\t"}, None),
    "commas": ('id,name\n1,"a;b"\n2,c\n', None, None),
    "the index of pandas": (",id,name,seq\n0,7,Ann,1\n1,8,Ben,2\n", None, None),
    "a delimiter behind the last": ("id,name,seq,\n7,Ann,1,\n8,Ben,2,\n", None, None),
    "an empty value without header": (",1,Ann\n4,2,Ben\n", None, {"columns": ["column_1", "column_2", "column_3"]}),
    "semicolons without header": ("1;Ann\n2;Ben\n", None, {"columns": ["column_1", "column_2"], "delimiter": ";"}),
}


@pytest.mark.parametrize("case", CSV)
def test_the_delimiter_of_csv_files_is_recognised(tmp_path: Path, case: str) -> None:
    """It is proposed where it is no comma, beside the names to be given where there is no header."""
    text, settings, question = CSV[case]
    (tmp_path / "lake" / "student").mkdir(parents=True)
    (tmp_path / "lake" / "student" / "a.csv").write_text(text)
    file = tmp_path / "compactor.yaml"
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(file))["tables"]
    assert table["settings"].get("csv") == settings
    assert [asked["settings"]["csv"] for asked in table["questions"] if "csv" in asked["settings"]] == ([question] if question else [])
    file.write_text(file.read_text().replace("\n    #csv", "\n    csv").replace("\n    #key", "\n    key"))
    assert loaded(file).spec("student").csv.delimiter == (settings or question or {}).get("delimiter", ",")


def test_unique_columns_of_csv_files_are_proposed_as_the_key(tmp_path: Path) -> None:
    """The rows below a header count like those of JSON files."""
    (tmp_path / "lake" / "student").mkdir(parents=True)
    (tmp_path / "lake" / "student" / "a.csv").write_text("id,name,term\n" + "".join(f"{at},n{at},1\n" for at in range(6)))
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    sentence, key = table["questions"][0]["question"], table["questions"][0]["settings"]
    assert (key, "A guess: id (never null and unique in 6 sampled rows; so is name)." in sentence) == ({"key": ["id"]}, True)


GUESSES = {
    "by its name": ("a.csv", "id,modified_on\n1,x\n", "order_by", ["modified_on"], "A guess by its name"),
    "by its values": ("a.csv", "id,seen\n1,2024-03-05 10:00:00\n", "order_by", ["seen"], "its values are times"),
    "by its place": ("a.csv", "id,_ab_cdc_updated_at,_ab_cdc_lsn\n1,x,7\n", "order_by", ["_ab_cdc_lsn"], "A guess by its name"),
    "not by lists of numbers": ("a.json", '{"id": 1, "seq": "[null,\\"9\\"]", "version": 3}\n', "order_by", ["version"], "A guess by its name"),
    "no order": ("a.csv", "id,name\n1,x\n", "order_by", ["changed_at"], "`envelope: full-load`"),
}


@pytest.mark.parametrize("case", GUESSES)
def test_the_order_is_guessed(tmp_path: Path, case: str) -> None:
    """By name, or by values; where nothing looks like it, what to do without one."""
    name, text, setting, guess, sentence = GUESSES[case]
    (tmp_path / "lake/student").mkdir(parents=True)
    (tmp_path / "lake/student" / name).write_text(text)
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    ((question, found),) = [(each["question"], each["settings"]) for each in table["questions"] if setting in each["settings"]]
    assert found == {setting: guess}
    assert sentence in question


@pytest.mark.parametrize("deletes", [1, 0])
@pytest.mark.parametrize("more", [{}, {"__deleted": "false"}])
def test_deletes_without_a_row_have_their_place_by_offset(tmp_path: Path, more: dict[str, str], deletes: int) -> None:
    """As ExtractNewRecordState writes them by default, perhaps later; beside `__deleted` each delete has a row."""
    (tmp_path / "lake/student").mkdir(parents=True)
    values = [{"id": 1, "__op": "c", "__lsn": 5, **more}, *[None] * deletes]
    records = [{"topic": "t", "partition": 0, "offset": at, "key": {"id": 1}, "value": value} for at, value in enumerate(values)]
    (tmp_path / "lake/student/a.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert table["settings"].get("order_by") == (None if more else ["offset"])
    assert loaded(tmp_path / "compactor.yaml").spec("student").order_by == (() if more else ("offset",))


CONTRADICTIONS = {
    "a delete without it": ({"id": 2, "u": ""}, "u2", "a deleted row has no value in u"),
    "a delete with a filler for it": ({"id": 2, "u": 0}, 102, "a deleted row has another value in u"),
    "rows that share it": (None, "u1", "u has 5 values in 6 inserted rows"),
    "a delete of its row": ({"id": 0, "u": 102}, 102, ""),
    "a delete of a row whose key is the empty text": ({"id": 9, "u": "", "v": "x"}, "u2", ""),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_key_of_records_that_does_not_identify_rows_is_asked(tmp_path: Path, case: str) -> None:
    """`message.key.columns` and `ValueToKey` may name any columns."""
    before, second, why = CONTRADICTIONS[case]
    values = [101, second, *((f"u{at}" if isinstance(second, str) else 100 + at) for at in range(3, 7))]
    values[0] = "u1" if isinstance(second, str) else 101
    rows = [{"id": at, "u": value, "v": "x"} for at, value in enumerate(values, 1)]
    events = [{"op": "c", "before": None, "after": row} for row in rows]
    events += [{"op": "d", "before": {"v": None, **before}, "after": None}] if before else []
    records = [
        {"topic": "t", "partition": 0, "offset": at, "key": {"u": (event["after"] or event["before"])["u"]}, "value": event}
        for at, event in enumerate(events)
    ]
    (tmp_path / "lake/student").mkdir(parents=True)
    (tmp_path / "lake/student/a.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert table["settings"].get("key") == (None if why else ["u"])
    asked = [(each["settings"]["key"], each["question"]) for each in table["questions"] if "key" in each["settings"]]
    assert [key for key, _ in asked] == ([["id"]] if why else [])
    assert all(why in question for _, question in asked), asked


def test_avro_values_that_python_cannot_hold_are_numbers(tmp_path: Path) -> None:
    """A time of 24:00, as MariaDB has it: the records name their table, and no second one is seen in the folder."""
    kinds = {"id": "long", "at": {"type": "int", "logicalType": "time-millis"}}
    row = {"type": "record", "name": "Value", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    source = {"type": "record", "name": "Source", "fields": [{"name": name, "type": "string"} for name in ("connector", "db", "table")]}
    members = {"before": ["null", row], "after": ["null", "Value"], "source": source, "op": "string"}
    schema = {"type": "record", "name": "Envelope", "fields": [{"name": name, "type": kind} for name, kind in members.items()]}
    records = [
        {"before": None, "after": {"id": at, "at": value}, "source": {"connector": "mysql", "db": "shop", "table": "t"}, "op": "c"}
        for at, value in enumerate((0, 86_400_000))
    ]
    (tmp_path / "lake/m.shop.t").mkdir(parents=True)
    for record in records:
        with (tmp_path / f"lake/m.shop.t/{record['after']['id']}.avro").open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema(schema), [record])
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert (table["settings"]["envelope"], "source_table" in table["settings"]) == ("debezium", False)


def test_the_key_of_parquet_files_is_guessed_by_its_name(tmp_path: Path) -> None:
    """Their rows are not read, and the sentence does not say that they show nothing."""
    (tmp_path / "lake/orders").mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table({"note": ["a"], "order_id": [1]}), tmp_path / "lake/orders/a.parquet")
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    first = table["questions"][0]
    assert (first["settings"], "A guess by its name; too few rows were read." in first["question"]) == ({"key": ["order_id"]}, True)


def test_no_key_is_guessed_of_what_describes_the_change(tmp_path: Path) -> None:
    """DMS writes the operation first; before images and positions come with its rules."""
    columns = {"Op": ["I"], "AR_H_CHANGE_SEQ": ["1"], "BI_plate": ["a"], "plate": ["a"], "note": ["b"]}
    folder = tmp_path / "lake/item"
    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "LOAD00000001.parquet")
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert (table["settings"]["envelope"], table["questions"][0]["settings"]) == ("dms", {"key": ["plate"]})


def test_the_keys_that_a_sink_writes_beside_values_show_no_table(tmp_path: Path) -> None:
    """They are larger than the values here, and neither `init` nor `plan` looks at them."""
    folder = tmp_path / "lake/orders"
    folder.mkdir(parents=True)
    (folder / "shop.orders+0+0000000000.json").write_text('{"id": 1, "seq": 1}\n')
    (folder / "shop.orders+0+0000000000.keys.json").write_text('"1, which is no row"\n' * 9)
    file = tmp_path / "compactor.yaml"
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(file))["tables"]
    assert table["questions"][0]["settings"] == {"key": ["id"]}
    file.write_text("warehouse: .\ntables:\n  orders: {key: [id], order_by: [seq], increments: lake/orders, ignore: ['*.keys.*']}\n")
    assert loaded(file).spec("orders").ignore == ("*.keys.*",)
    done = CliRunner().invoke(cli.app, ["plan", "--config", str(file), "--output", "json"])
    assert [check["detail"] for check in json.loads(done.stdout)[0]["checks"] if check["name"] == "files in landing"] == [
        "1 new, 0 ingested before, 0 may not be complete"
    ]


def test_numbers_and_dates_in_another_form_are_named(tmp_path: Path) -> None:
    """They become text, which nobody sees before the first query."""
    (tmp_path / "lake/student").mkdir(parents=True)
    (tmp_path / "lake/student/a.csv").write_text("id;fee;born\n1;1.975,41;20.08.2026\n2;3,5;1.1.2026\n")
    (table,) = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    sentences = [each["question"] for each in table["questions"] if not each["settings"]]
    assert [sentence.split(". ")[0] for sentence in sentences] == [
        "fee has numbers with a decimal comma (1.975,41)", "born has dates as day.month.year (20.08.2026)",
    ]  # fmt: skip


def test_a_column_of_deletions_is_named(tmp_path: Path) -> None:
    """A row with a value in it is a delete only if `delete_when` says so. Nothing has to be set."""
    (tmp_path / "lake/student").mkdir(parents=True)
    (tmp_path / "lake/student/a.csv").write_text("id,updated_at,deleted_at\n1,2026-11-20 07:00:00,\n")
    result = told("--from", str(tmp_path / "lake"), "--config", str(tmp_path / "compactor.yaml"))
    assert [each["question"].partition("add ")[2] for each in result["tables"][0]["questions"] if not each["settings"]] == [
        '`delete_when: "deleted_at IS NOT NULL"`.'
    ]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """Also one that is not a configuration."""
    folder(tmp_path / "schemas")
    (tmp_path / "compactor.yaml").write_text("mine")
    with pytest.raises(Refused, match="exists and is not overwritten"):
        init("--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"))
    assert (tmp_path / "compactor.yaml").read_text() == "mine"


def test_the_file_can_be_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--config -` writes nothing; what it prints is the file."""
    folder(tmp_path / "schemas")
    monkeypatch.chdir(tmp_path)
    shown = init("--registry", "schemas", "--config", "-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["schemas"]
    init("--registry", "schemas")
    assert (tmp_path / "compactor.yaml").read_text() == shown
    assert "  url: schemas" in shown.splitlines()


def test_landing_is_said_once_for_all_topics(tmp_path: Path) -> None:
    """`--increments` with the topic or the table in it."""
    folder(tmp_path / "schemas")
    pattern = "/landing/{topic}/dt=%Y-%m-%d/hour=%H"
    init("--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"), "--increments", pattern)
    spec = loaded(tmp_path / "compactor.yaml").spec("student")
    assert (spec.landing, spec.pattern) == ("/landing/pga.public.student", "dt=%Y-%m-%d/hour=%H")


NOTHING: Sequence[tuple[Sequence[str], str]] = (
    (("--from", "nowhere"), "^path .*/nowhere does not exist$"),
    (("--from", "markers/_SUCCESS"), "_SUCCESS is a file; give its folder"),
    (("--from", "bare"), "no landed files there$"),
    (("--from", "markers"), "only 1 marker or unfinished file"),
    (("--from", "cut"), r"cut: no table found; no rows in the sampled files; .*a.json.gz cannot be read \(.*ended.*\)$"),
    (("--from", "torn"), r"a.parquet cannot be read \(No magic bytes found at end\)$"),
    (("--registry", "nowhere"), "schema folder .*/nowhere does not exist$"),
    (("--from", "empty"), "empty: no table found; t: no rows in the sampled files; t/a.json has no record that could be a row$"),
    (("--from", "other"), r"t/data.txt has no record that could be a row; its name has none of the suffixes \.parquet, .*, \.csv: set `format:`$"),
    (("--registry", "empty"), "no file that ends in .avsc"),
)


@pytest.mark.parametrize(("words", "why"), NOTHING)
def test_where_nothing_is_found_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], why: str) -> None:
    """And the reason is told."""
    monkeypatch.chdir(tmp_path)
    for path, content in (("markers/_SUCCESS", ""), ("empty/t/a.json", "\n{oops\n"), ("other/t/data.txt", "no rows here\n")):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "bare").mkdir()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "a.parquet").write_bytes(b"PAR1" + b"x" * 50)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "a.json.gz").write_bytes(gzip.compress(b"{}" * 999)[:-9])
    with pytest.raises(CompactorError, match=why):
        init(*words)
    assert not (tmp_path / "compactor.yaml").exists()


def test_files_without_suffix_are_looked_into(tmp_path: Path) -> None:
    """As Hive and many exports name them: `000000_0`, `part-0`."""
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "seq": [1, 2]}), tmp_path / "file.parquet")
    other = {
        "log": b"at 12:00, started\nstopped\n",
        "hive": b"1\x01a, b\n2\x01c, d\n",
        "xml": b"<a x='1,2'>\n<b x='1,2'>\n",
        "cut": b'{"id": 1, "s\n1,2\n',
    }
    contents = {"p": (tmp_path / "file.parquet").read_bytes(), "c": b"id|seq\n1|1\n", "j": b'{"id": 1, "seq": 1}\n'}
    for table, content in {**contents, **other}.items():
        file = tmp_path / "landing" / table / "2026-11-20-08" / "000000_0"
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    init("--from", str(tmp_path / "landing"), "--config", str(tmp_path / "compactor.yaml"))
    tables = yaml.safe_load((tmp_path / "compactor.yaml").read_text())["tables"]
    assert tables.keys() == contents.keys()
    assert [(tables[name]["format"], tables[name].get("csv")) for name in contents] == [
        ("parquet", None),
        ("csv", {"delimiter": "|"}),
        ("json", None),
    ]


def test_columns_named_as_those_of_an_envelope_make_a_flat_row(tmp_path: Path) -> None:
    """A table of its own may have `op`, `before` and `after`."""
    (tmp_path / "landing" / "t" / "2026-11-20-08").mkdir(parents=True)
    lines = ({"id": at, "op": "c", "before": at, "after": "x", "source": "s", "ts_ms": at} for at in range(3))
    (tmp_path / "landing" / "t" / "2026-11-20-08" / "a.json").write_text("\n".join(map(json.dumps, lines)))
    (said,) = told("--from", str(tmp_path / "landing"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert said["settings"]["envelope"] == "flat"


def test_a_folder_whose_name_the_configuration_would_read_as_a_pattern_is_left_out(tmp_path: Path) -> None:
    """One such folder does not make the file unusable for the others."""
    for name in ("plain", "per%20cent", "curl{y}", "br[1]", "what?"):
        (tmp_path / "landing" / name / "2026-11-20-08").mkdir(parents=True)
        (tmp_path / "landing" / name / "2026-11-20-08" / "a.json").write_text('{"id": 1, "seq": 1}\n')
    said = told("--from", str(tmp_path / "landing"), "--config", str(tmp_path / "compactor.yaml"))
    assert {left["source"] for left in said["left_out"]} == {"per%20cent", "curl{y}", "br[1]", "what?"}
    assert [table["name"] for table in said["tables"]] == ["plain"]


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    """Line breaks, quotes, colons and YAML's own words in topics, columns and folders neither end a comment nor become keys."""
    evil = "x\n  stolen: {key: []}\n#\u2028\u0085 '\": {}[]&*!|>%@`"
    tables = (
        TableProposal(
            "a", evil, {"key": [evil, "no", "~", "1e3", "a: b"], "envelope": "flat", "source_table": evil}, evil, (Question(evil, {"op": evil}),)
        ),
        TableProposal("b", evil, {"key": ["id"], "envelope": "flat"}),
    )
    text = proposal.text(Proposal(tables, ((evil, evil),)), "wh", "d", {}, hive=False)
    (tmp_path / "compactor.yaml").write_text(text, encoding="utf-8")
    settings = loaded(tmp_path / "compactor.yaml")
    assert settings.names == ("a", "b")
    assert settings.spec("a").key == (evil, "no", "~", "1e3", "a: b")
    assert settings.spec("a").source_table == evil


def test_a_registry_address_is_written_without_its_password(tmp_path: Path) -> None:
    """That has another way: `token_env`, or the environment."""
    from compactor.app import init as app_init

    address = "https://me:secret@registry.example:8081/apis"
    assert app_init.registry_keys(address, {"token_env": "PW"}, "/") == {
        "url": "https://registry.example:8081/apis",
        "token_env": "PW",
    }
    assert app_init.registry_keys("s3://lake/schemas", {}, "/") == {"url": "s3://lake/schemas"}


def test_a_key_may_be_left_to_the_registry(tmp_path: Path) -> None:
    """`schema: {subject: x-value}` without `key:`: the key subject tells it; where it does not, the table is refused with what to say."""
    from compactor.app.app import App

    folder(tmp_path / "schemas")
    tables = "".join(
        f"  {name}: {{schema: {{subject: {subject}}}, envelope: debezium}}\n"
        for name, subject in (
            ("enrollment", "pga.public.enrollment-value"),
            ("audit_log", "pga.public.audit_log-value"),
            ("odd", "pga.public.student-key"),
        )
    )
    (tmp_path / "compactor.yaml").write_text(f"registry: {{url: schemas}}\ntables:\n{tables}", encoding="utf-8")
    with App.open(tmp_path / "compactor.yaml") as app:
        enrollment, audit_log, odd = app.specs()
        found = app.with_schema(enrollment)
        assert found.key == ("course_code", "student_id", "term")
        assert found.registered is not None
        with pytest.raises(Refused, match=r"no subject pga.public.audit_log-key. Set `key:"):
            app.with_schema(audit_log)
        with pytest.raises(Refused, match="does not end in -value"):
            app.with_schema(odd)
        with pytest.raises(Refused, match="Term belongs to `key`, which every row stores as it is; remove it from `columns:`"):
            app.with_schema(dataclasses.replace(enrollment, columns=(Protection("Term", "mask", 2),)))


def row(name: str, *fields: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": "string"} for field in fields]}


@pytest.mark.slow
def test_sixty_five_topics_of_a_server(tmp_path: Path) -> None:
    """Over HTTP, in one go; what is no Avro, and what belongs to no topic, is left out and named; the password is not written down."""
    with serving() as registry:
        for at in range(65):
            registry.register(f"shop.public.t{at:02}-value", row("v", "id", "n", "__op", "__lsn"))
            registry.register(f"shop.public.t{at:02}-key", row("k", "id"))
        registry.register("proto-value", 'syntax = "proto3";', kind="PROTOBUF")
        registry.register("shared.Address", row("a", "zip"))
        registry.register("bare-value", row("v", "n"))
        registry.register("bare-key", '"string"')
        address = registry.url.replace("http://", "http://me:secret@")
        file = tmp_path / "compactor.yaml"
        said = told("--registry", address, "--config", str(file))
    assert len(said["tables"]) == 66
    assert {left["source"] for left in said["left_out"]} == {"proto", "shared.Address"}
    assert "secret" not in file.read_text()
    # nobody said it: a run asks the registry again, and says what is missing
    assert [name for name in loaded(file).names if loaded(file).spec(name).registered_key] == ["bare"]
    file.write_text(file.read_text().replace('    #key: ["n"]', '    key: ["n"]'))
    settings = loaded(file)
    assert settings.registry.url == (registry.url,)
    assert {settings.spec(name).key for name in settings.names} == {("id",), ("n",)}


@pytest.mark.usefixtures("s3_endpoint")
def test_a_bucket_is_looked_at_like_a_folder(server: Server, tmp_path: Path) -> None:
    """Landing and warehouse are in the same store."""
    import boto3

    for day, name in ((5, "a"), (6, "b")):
        text = json.dumps({"changeType": "update", "columnNames": ["id", "n"], "columnValues": ["1", "2"], "oldKeyNames": ["id"]})
        key = f"raw/school.student/year=2026/month=01/day={day:02}/{name}.jsonl"
        boto3.client("s3", region_name="us-east-1").put_object(Bucket="lake", Key=key, Body=text.encode())
    said = told("--from", "s3://lake/raw", "--config", str(tmp_path / "compactor.yaml"))
    (table,) = said["tables"]
    assert (table["name"], table["settings"]["key"], table["settings"]["envelope"]) == ("student", ["id"], "change-event")
    spec = loaded(tmp_path / "compactor.yaml").spec("student")
    assert (spec.landing, spec.pattern) == ("s3://lake/raw/school.student", "year=%Y/month=%m/day=%d")
    assert spec.root == "s3://lake/warehouse/student"


FOUND: dict[str, tuple[dict[str, object], dict[str, object], str]] = {
    "MongoDB": (
        {"op": "c", "before": None, "after": '{"_id":{"$oid":"65a0"},"n":1}', "source": {"connector": "mongodb", "collection": "c", "ts_ms": 1}},
        {"key": ["_id"], "envelope": "debezium"},
        "",
    ),
    "TiCDC": (
        {"op": "c", "after": {"id": 1}, "source": {"connector": "TiCDC", "table": "t", "commit_ts": 5}},
        {"envelope": "debezium"},
        "Which columns identify a row?",
    ),
    "SQL Server, flattened": (
        {"id": 1, "n": "a", "__op": "c", "__source_commit_lsn": "27:1", "__source_change_lsn": "27:2", "__source_event_serial_no": 1},
        {},
        "Which columns identify a row?",
    ),
    "Maxwell": (
        {"database": "shop", "table": "t", "type": "insert", "ts": 1, "xid": 2, "data": {"id": 1}},
        {},
        "These records look like Maxwell's, which are not read",
    ),
    "Canal": (
        {"data": [{"id": "1"}], "database": "shop", "table": "t", "type": "INSERT", "isDdl": False, "pkNames": ["id"], "es": 1},
        {},
        "These records look like Canal's, which are not read",
    ),
    "GoldenGate": (
        {"table": "QA.T", "op_type": "U", "op_ts": "2024-01-01 00:00:00", "pos": "0001", "before": {"ID": 1}, "after": {"ID": 1}},
        {},
        "These records look like GoldenGate's, which are not read",
    ),
    "Qlik Replicate": (
        {"header__change_seq": "2026", "header__change_oper": "D", "id": 1, "n": "a"},
        {},
        "The values of header__change_oper look like operations",
    ),
    "an operation of another name": (
        {"table": "QA.T", "op_type": "D", "pos": "00000000000000001234", "ID": 1, "N": "a"},
        {},
        "The values of op_type look like operations",
    ),
}
"""Program → a record, settings that are certain, the first question."""


@pytest.mark.parametrize("program", FOUND)
def test_records_of_other_programs_are_told_apart(tmp_path: Path, program: str) -> None:
    """What a run can read gets the settings that it needs, what it cannot is named; no question where a default is right."""
    record, certain, question = FOUND[program]
    (tmp_path / "lake" / "visit" / "2026-01-01").mkdir(parents=True)
    (tmp_path / "lake" / "visit" / "2026-01-01" / "a.json").write_text(json.dumps(record))
    (table,) = told("--from", str(tmp_path / "lake" / "visit"), "--config", str(tmp_path / "compactor.yaml"))["tables"]
    assert certain.items() <= table["settings"].items()
    asked = [each["question"] for each in table["questions"]]
    assert asked[0].startswith(question) if question else not asked, asked
    assert not any("order" in each for each in asked) or program not in ("TiCDC", "SQL Server, flattened"), asked


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the same command can be repeated."""
    folder(tmp_path / "schemas")
    arguments = ("--registry", str(tmp_path / "schemas"), "--config", str(tmp_path / "compactor.yaml"))

    def full(path: Path, text: str, **_: Any) -> int:
        path.write_bytes(text[:10].encode())
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(Refused, match=r"compactor.yaml: cannot be written: No space left on device"):
            init(*arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["schemas"]
    init(*arguments)
