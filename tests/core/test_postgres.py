"""PostgreSQL's type names, as a table."""

from __future__ import annotations

import pytest

from compactor.core.model import types
from compactor.core.sources.postgres import HEX, MIXED, NUMBER, TEXT, column, is_array

NAMES = {
    "smallint": "smallint",
    "integer": "int",
    "INT8": "bigint",
    "oid": "bigint",
    "numeric": "string",
    "numeric(20,4)": "decimal(20,4)",
    "numeric(5)": "decimal(5,0)",
    "numeric(2,-3)": "decimal(5,0)",
    "numeric(3,5)": "decimal(5,5)",
    "numeric(39,0)": "string",
    "decimal(10, 2)": "decimal(10,2)",
    "real": "float",
    "double precision": "double",
    "boolean": "boolean",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp(3) with time zone": "timestamp",
    "time(3) without time zone": "string",
    "time with time zone": "string",
    "interval day to second(3)": "string",
    "bytea": "binary",
    "character varying(40)": "string",
    "character(8)": "string",
    '"char"': "string",
    "pg_catalog.int4": "int",
    "public.date": "string",
    "daterange": "string",
    "bit varying(16)": "string",
    "public.mood": "string",
    'public."My (odd) type"': "string",
    "money": "string",
    "": "string",
}


@pytest.mark.parametrize(("type_name", "stored"), NAMES.items())
def test_a_type_name_gives_the_stored_type(type_name: str, stored: str) -> None:
    """Also as the item of an array, of any depth; bytes are written as hexadecimal digits."""
    field = column("c", type_name)
    assert stored == types.text(field.type)
    assert ("string",) == field.raw
    number = stored == "string" and type_name.startswith("numeric")
    assert (HEX if stored == "binary" else NUMBER if number else TEXT) == field.semantic
    if type_name:
        assert is_array(f"{type_name}[]")
        assert not is_array(type_name)
        assert f"array<{stored}>" == types.text(column("c", f"{type_name}[]").type)
        assert f"array<array<{stored}>>" == types.text(column("c", f"{type_name}[]", 2).type)


def test_an_array_whose_values_differ_in_depth_is_text() -> None:
    """Its items keep their type, so that the text can be JSON."""
    field = column("c", "integer[]", MIXED)
    assert ("string",) == field.type
    assert field.item is not None
    assert ("int",) == field.item.type
