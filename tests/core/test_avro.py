"""Avro schemas: names, references, envelopes, keys, and what is refused; then every schema of the captured registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.errors import SchemaRefused
from compactor.core.schema import avro

CAPTURED = Path(__file__).parents[1] / "capture" / "data" / "registry"


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record of (field name, type) pairs."""
    return {"type": "record", "name": name, **more, "fields": [{"name": field, "type": kind} for field, kind in fields]}


def parsed(schema: Any, *references: Any) -> avro.AvroSchema:
    """A schema given as Python values."""
    return avro.parse(json.dumps(schema), [json.dumps(each) for each in references])


@pytest.mark.parametrize(
    ("schema", "used"),
    [
        pytest.param(record(("a", record(("x", "int"), name="P")), ("b", "P"), namespace="n"), "n.P", id="the namespace around"),
        pytest.param(record(("a", record(("x", "int"), name="m.P")), ("b", "m.P"), namespace="n"), "m.P", id="a full name"),
        pytest.param(record(("a", record(("x", "int"), name="P", namespace="m")), ("b", "m.P"), namespace="n"), "m.P", id="a namespace of its own"),
        pytest.param(record(("a", record(("x", "int"), name="P", namespace="")), ("b", "P"), namespace="n"), "P", id="no namespace inside one"),
        pytest.param(record(("a", record(("x", "int"), name="P")), ("b", "P")), "P", id="none at all"),
        pytest.param(record(("a", record(("x", "int"), name="P")), ("b", ["null", "P"]), namespace="n"), "n.P", id="in a union"),
        pytest.param(record(("a", record(("x", "int"), name="P")), ("b", {"type": "P", "doc": "d"}), namespace="n"), "n.P", id="with attributes"),
        pytest.param(
            record(("a", {"type": {"type": "enum", "name": "P", "symbols": ["s"]}}), ("b", "P"), namespace="n"), "n.P", id="a type in a type"
        ),
    ],
)
def test_a_name_is_found_in_its_namespace(schema: dict[str, Any], used: str) -> None:
    """By the rules of Avro's specification, "Names"."""
    fields = parsed(schema).row()["fields"]
    assert fields[0]["type"] == used
    assert parsed(schema).present(fields[1]["type"])["name"] == used


def test_two_types_of_one_short_name_are_two_types() -> None:
    """Debezium calls every table's row `Value`."""
    schema = parsed(
        record(
            ("a", record(("x", "int"), name="Value", namespace="one")),
            ("b", record(("y", "long"), name="Value", namespace="two")),
            ("c", "one.Value"),
        )
    )
    assert [schema.of(member["type"])["fields"][0]["name"] for member in schema.row()["fields"]] == ["x", "y", "x"]


def test_references_become_one_self_contained_schema() -> None:
    """Also when one reference needs another, and when two need the same."""
    zip_code = {"type": "fixed", "name": "Zip", "namespace": "geo", "size": 5}
    address = record(("zip", "geo.Zip"), ("street", "string"), name="Address", namespace="geo")
    student = record(
        ("id", "long"), ("home", "geo.Address"), ("work", ["null", "geo.Address"]), ("zip", "geo.Zip"), name="Student", namespace="school"
    )
    whole = parsed(student, zip_code, address).text()
    assert avro.used_names(json.dumps(student)) == ["geo.Address", "geo.Zip"]
    assert avro.used_names(whole) == []
    assert avro.defined_names(whole) == ["school.Student", "geo.Address", "geo.Zip"]
    fastavro.parse_schema(json.loads(whole))
    again = avro.parse(whole)
    assert (again.root, again.named) == (parsed(student, zip_code, address).root, parsed(student, zip_code, address).named)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            record(("op", "string"), ("before", ["null", record(("id", "int"), name="Value")]), ("after", ["null", "Value"])), ["id"], id="debezium"
        ),
        pytest.param(record(("op", "string"), ("after", "string")), ["op", "after"], id="a table that happens to have such columns"),
        pytest.param(record(("id", "int"), ("after", ["null", record(("x", "int"), name="V")])), ["id", "after"], id="no op"),
        pytest.param(["null", record(("id", "int"))], ["id"], id="nullable"),
    ],
)
def test_the_row_of_an_envelope_is_its_after(schema: Any, expected: list[str]) -> None:
    """`op`, and an `after` that is a record."""
    assert [member["name"] for member in parsed(schema).row()["fields"]] == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (record(("id", "int")), ("id",)),
        (record(("course", "string"), ("student", "int")), ("course", "student")),
        (record(("id", "int"), ("__dbz__physicalTableIdentifier", "string")), ("id",)),
        (record(), ()),
    ],
)
def test_the_key_schema_names_the_key_columns(schema: Any, expected: tuple[str, ...]) -> None:
    """In its own order, which is the primary key's; what a router added is no column."""
    assert avro.key_fields(json.dumps(schema)) == expected


@pytest.mark.parametrize("schema", ["string", {"type": "long"}, ["null", "string"]])
def test_a_key_without_names_is_refused(schema: Any) -> None:
    """It has no column name."""
    with pytest.raises(SchemaRefused, match="Set `key:`"):
        avro.key_fields(json.dumps(schema))


def nested(levels: int) -> str:
    """An array of arrays of ... of ints."""
    return '{"type":"array","items":' * levels + '"int"' + "}" * levels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected an Avro schema as JSON"),
        ("<html>", "expected an Avro schema as JSON, found '<html>' (JSONDecodeError)"),
        ("[" * 100_000, "expected an Avro schema as JSON"),
        ("{}", "expected a type, found {}"),
        ("7", "expected a type, found 7"),
        ("[]", "expected a union of types"),
        ('["int", ["null", "long"]]', "that are no unions themselves"),
        ('"student"', "unknown type 'student'"),
        ('{"type": "record", "name": "R"}', "record R: expected a list of fields"),
        ('{"type": "record", "fields": []}', "record without 'name'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "expected a field with name and type"),
        (json.dumps(record(("a", "int"), ("a", "long"))), "two fields 'a'"),
        (json.dumps(record(("a", record(("b", "wide"), name="P")))), "at a.b: unknown type 'wide'"),
        (
            json.dumps(record(("a", record(("x", "int"), name="P")), ("b", record(("x", "long"), name="P")))),
            "at b: type P has two different definitions",
        ),
        ('{"type": "array"}', "array without 'items'"),
        ('{"type": "enum", "name": "E", "symbols": "abc"}', "expected a list of symbols"),
        ('{"type": "fixed", "name": "F", "size": "12"}', "expected a size in bytes"),
        ('{"type": "record", "name": 5, "fields": []}', "expected a name, found 5"),
        ('{"type": null}', "expected a type, found null"),
        (nested(70), "nested deeper than 64 levels"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, message: str) -> None:
    """With the place in it, and never by another error than this one."""
    with pytest.raises(SchemaRefused) as refused:
        avro.parse(text)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 600


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 50) | st.sampled_from(["int", "record", "enum", "fixed", "map", "array", "R", "n.R", "", "decimal"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "size", "namespace", "aliases"]), inner, max_size=5),
    max_leaves=15,
)  # fmt: skip


@given(value=JSON_VALUES)
def test_any_json_is_a_schema_or_refused(value: Any) -> None:
    """Nothing else is raised; what is accepted reads back from its own text."""
    try:
        schema = parsed(value)
    except SchemaRefused:
        return
    again = avro.parse(schema.text())
    assert again.root == schema.root
    assert again.text() == schema.text()


@pytest.mark.parametrize("path", sorted((CAPTURED / "schemas").glob("*.avsc")), ids=lambda path: path.stem)
def test_a_schema_of_a_real_registry_keeps_its_meaning(path: Path) -> None:
    """What the normal form prints is the same schema to another parser (fastavro)."""
    text = path.read_text(encoding="utf-8")
    ours = fastavro.schema.to_parsing_canonical_form(json.loads(avro.parse(text).text()))
    assert ours == fastavro.schema.to_parsing_canonical_form(json.loads(text))


def test_every_table_of_a_real_registry_gives_rows_and_keys() -> None:
    """Subjects ending in -value of tables are envelopes; those ending in -key name the key columns of that table."""
    subjects = json.loads((CAPTURED / "subjects.json").read_text(encoding="utf-8"))
    texts = {(each["subject"], each["version"]): (CAPTURED / "schemas" / f"{each['id']}.avsc").read_text(encoding="utf-8") for each in subjects}
    tables = {
        subject: text for (subject, _), text in texts.items() if subject.startswith(("pga.public.", "pga.sales.")) and subject.endswith("-value")
    }
    assert len(tables) == 34
    for subject, text in tables.items():
        schema = avro.parse(text)
        assert schema.is_envelope(), subject
        columns = [member["name"] for member in schema.row()["fields"]]
        keys = [avro.key_fields(text) for (name, _), text in texts.items() if name == subject.replace("-value", "-key")]
        assert all(set(key) <= set(columns) for key in keys), subject
    assert avro.key_fields(texts["pga.public.enrollment-key", 1]) == ("course_code", "student_id", "term")
    assert not avro.parse(texts["pga.transaction-value", 1]).is_envelope()
