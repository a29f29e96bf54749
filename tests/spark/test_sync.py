"""`sync` on a real metastore: what a dry run tells is SQL that Spark runs, and declared tables can be queried before their rows come."""

from __future__ import annotations

import json

import pytest

from compactor.app.registry import sync
from compactor.core.catalog.ddl import quoted
from compactor.flows.table import Table
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

FIELDS = [
    {"name": "id", "type": "long", "doc": "the student's number"},
    {"name": "address", "type": ["null", {"type": "record", "name": "A", "fields": [{"name": "zip", "type": "string"}]}]},
    {"name": "name", "type": ["null", "string"], "doc": "it's `quoted`; \\ back"},
]


def test_a_table_from_its_schema_to_its_rows(lake: Lake) -> None:
    """Empty first, with types and comments; then the rows; a dry run before, nothing to do after; the statements stand a run by Spark."""
    schema = json.dumps({"type": "record", "name": "t", "fields": FIELDS})
    spec = lake.spec(avro_schema=schema, subject="shop.t-value", registered=(2, None))
    told = sync(Table(lake.env, spec), dry_run=True)
    assert not lake.env.catalog().has_database(lake.database)
    assert sync(Table(lake.env, spec), dry_run=False).statements == told.statements
    assert lake.rows(spec) == []
    described = {row.col_name: (row.data_type, row.comment) for row in lake.spark.sql(f"DESCRIBE {quoted(lake.database)}.t").collect()}
    assert described["id"] == ("bigint", "the student's number")
    assert described["address"][0] == "struct<zip:string>"
    assert described["name"] == ("string", "it's `quoted`; \\ back")

    lake.land(spec, 1, [{"op": "c", "id": 1, "name": "Ann", "address": {"zip": "10115"}, "seq": 1}])
    lake.run(spec)
    assert [(row["id"], row["name"]) for row in lake.rows(spec)] == [(1, "Ann")]
    assert sync(Table(lake.env, spec), dry_run=True).statements == ()

    again = sync(Table(lake.env, lake.with_settings(spec, view="t_again")), dry_run=True)
    (statement,) = [text for text in again.statements if text.startswith("CREATE OR REPLACE VIEW")]
    # options in the order of Spark's grammar, so that people can run what they read
    lake.spark.sql(statement)
    assert lake.rows(spec, "t_again") == lake.rows(spec)
    parser = lake.spark._jsparkSession.sessionState().sqlParser()
    for text in [*told.statements, *again.statements]:
        parser.parsePlan(text)
