"""Declared columns: what a declaration means beside the type that was inferred from JSON, and what it must not be taken for."""

from __future__ import annotations

import dataclasses
import json

import pytest

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.schema import Field, Schema
from compactor.core.schema import column_types, writer
from compactor.core.schema.semantic_types import DECIMAL, NUMBER_OR_BYTES
from compactor.core.schema.writer import WriterField, WriterSchema

READ = {
    # type inferred from JSON, declared → type as which the values are read, semantic type
    ("bigint", "timestamp_millis"): ("bigint", "io.debezium.time.Timestamp"),
    ("string", "timestamp_millis"): ("string", "io.debezium.time.Timestamp"),
    ("bigint", "timestamp"): ("string", ""),
    ("bigint", "bigint"): ("bigint", ""),
    ("bigint", "int"): ("string", ""),
    ("double", "bigint"): ("string", ""),
    ("double", "double"): ("double", ""),
    ("double", "decimal(10,2)"): ("string", ""),
    ("string", "decimal(10,2)"): ("string", NUMBER_OR_BYTES),
    ("struct<a:int>", "bigint"): ("string", ""),
}


def read(inferred: str, word: str, text: bool = True) -> WriterField:
    """Return a declared column of records that were read as another type."""
    kind = types.parse(inferred)
    typed = column_types.declared((("c", word),))
    assert typed is not None
    return column_types.as_declared(WriterSchema("w", (WriterField("c", kind, kind),)), typed, text).fields[0]


@pytest.mark.parametrize(("case", "expected"), READ.items(), ids=str)
def test_json_is_read_as_text_where_the_inferred_type_loses_something(case: tuple[str, str], expected: tuple[str, str]) -> None:
    """Numbers keep their digits, and a value of another kind can be recognised."""
    field = read(*case)
    assert (types.text(field.raw), field.semantic) == expected


def test_a_number_in_typed_files_needs_a_unit() -> None:
    """A timestamp may be a number of anything; a schema that names the unit counts."""
    with pytest.raises(SchemaRefused, match=r"column c: declared as timestamp, and the files have bigint. Declare timestamp_millis"):
        read("bigint", "timestamp", text=False)
    assert read("bigint", "timestamp_micros", text=False).semantic == "io.debezium.time.MicroTimestamp"
    connect = WriterField("c", ("bigint",), ("timestamp",), "io.debezium.time.Timestamp")
    typed = column_types.declared((("c", "timestamp"),))
    assert typed is not None
    assert column_types.as_declared(WriterSchema("w", (connect,)), typed).fields == (connect,)


def test_members_that_json_does_not_explain_are_refused() -> None:
    """Numbers and base64 inside of a struct would be read as something else."""
    inner = {"type": "record", "name": "i", "fields": [{"name": "At", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}
    schema = writer.from_avro(json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": inner}]}))
    for written, refused in (("struct<At:bigint>", True), ("struct<At:string>", False)):
        kind = types.parse(written)
        inferred = WriterSchema("w", (WriterField("c", kind, types.stored_names(kind)),))
        if refused:
            with pytest.raises(SchemaRefused, match=r"column c.at: declared as timestamp, and the JSON has bigint there"):
                column_types.as_declared(inferred, schema, text=True)
        else:
            assert column_types.as_declared(inferred, schema, text=True).fields[0].type == ("struct", (("at", ("timestamp",)),))


def test_avros_own_logical_types_have_the_meaning_of_debeziums() -> None:
    """A schema without Connect's names says the same."""
    logical = {
        "decimal": ({"type": "bytes", "precision": 9, "scale": 2}, DECIMAL),
        "date": ({"type": "int"}, "io.debezium.time.Date"),
        "timestamp-millis": ({"type": "long"}, "io.debezium.time.Timestamp"),
        "timestamp-micros": ({"type": "long"}, "io.debezium.time.MicroTimestamp"),
        "local-timestamp-millis": ({"type": "long"}, "io.debezium.time.Timestamp"),
        "timestamp-nanos": ({"type": "long"}, "io.debezium.time.NanoTimestamp"),
        "time-millis": ({"type": "int"}, "io.debezium.time.Time"),
        "uuid": ({"type": "string"}, ""),
    }
    fields = [{"name": f"c{at}", "type": {**kind, "logicalType": name}} for at, (name, (kind, _)) in enumerate(logical.items())]
    columns = writer.from_avro(json.dumps({"type": "record", "name": "t", "fields": fields})).fields
    assert [field.semantic for field in columns] == [semantic for _, semantic in logical.values()]


def test_a_declared_name_may_differ_in_case_unless_the_files_have_both() -> None:
    """As `key:` may. The column keeps the files' spelling."""
    schema = column_types.declared((("amount", "decimal(10,2)"), ("born", "date")))
    assert schema is not None
    texts = [WriterField(name, ("string",), ("string",)) for name in ("Amount", "AMOUNT", "other")]
    made = column_types.as_declared(WriterSchema("w", (texts[0], texts[2]), undecided=("Born",)), schema)
    assert [(field.name, types.text(field.type)) for field in made.fields] == [("Amount", "decimal(10,2)"), ("other", "string"), ("Born", "date")]
    both = column_types.as_declared(WriterSchema("w", (WriterField("amount", ("string",), ("string",)), texts[0])), schema)
    assert [types.text(field.type) for field in both.fields] == ["decimal(10,2)", "string"]


def test_a_declaration_is_not_held_against_a_second_column_of_its_name() -> None:
    """`amount` is declared and `Amount`, which the files have beside it, is text."""
    fields = tuple(Field(name, source, kind, 1) for name, source, kind in (("amount", "amount", "decimal(10,2)"), ("amount_2", "Amount", "string")))
    column_types.check("t", Schema(fields, ("amount",)), column_types.declared((("amount", "decimal(10,2)"),)))
    with pytest.raises(SchemaRefused, match=r"column Amount: `types:` declares decimal\(10,2\)"):
        column_types.check("t", Schema(fields[1:], ("amount_2",)), column_types.declared((("amount", "decimal(10,2)"),)))
    hashed, made_null = (dataclasses.replace(fields[1], protection=rule) for rule in ("hash", "null"))
    column_types.check("t", Schema((hashed,), ("amount_2",)), column_types.declared((("amount", "decimal(10,2)"),)))
    with pytest.raises(SchemaRefused, match="column Amount"):
        column_types.check("t", Schema((made_null,), ("amount_2",)), column_types.declared((("amount", "decimal(10,2)"),)))
