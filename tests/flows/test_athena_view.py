"""The view in Athena's form: the same rows as the view at every moment, in SQL that Athena's parser takes; published after it, pinned like it."""

from __future__ import annotations

import re

import pytest
import sqlglot

from compactor.core.catalog import dialect, views
from compactor.core.catalog.dialect import HIVE, PRESTO
from compactor.core.model.errors import CatalogRefused
from compactor.flows.publish import publish
from compactor.flows.table import Table
from tests.flows.test_every_crash import DELIVERIES
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.reader import look


@pytest.mark.parametrize("delete", ["hide", "soft"])
def test_both_views_show_the_same_rows_after_every_run(delete: str) -> None:
    """Late events, deletes, key changes, a column that came later: the reader runs both texts."""
    lake = Lake(table(athena=True, delete=delete))
    for number, deliver in enumerate(DELIVERIES):
        deliver(lake)
        lake.run()
        one, other = lake.look(), look(lake.catalog, lake.storage, lake.spec, "t_athena")
        assert one is not None
        assert other is not None
        assert (one.rows, one.columns, one.version) == (other.rows, other.columns, other.version)
        assert len(one.rows) > number
        assert "`" not in other.text
        for reader in ("athena", "trino"):
            parsed = sqlglot.parse_one(other.text, read=reader)
            spelled = parsed.sql(dialect="spark", identify=True)
            assert spelled == sqlglot.parse_one(one.text, read="spark").sql(dialect="spark", identify=True), "they differ in spelling only"


def test_without_athena_there_is_one_view() -> None:
    lake = Lake(table())
    DELIVERIES[0](lake)
    lake.run()
    assert lake.catalog.view("school", "t_athena") is None


def test_athena_added_later_is_published_by_the_next_run() -> None:
    """Nothing has landed; the catalog lacks an object that it should have."""
    lake = Lake(table())
    DELIVERIES[0](lake)
    lake.run()
    lake.spec = table(athena=True)
    lake.run()
    newest = lake.newest()
    assert newest is not None
    assert newest.version == 1
    assert not publish.behind(Table(lake.env(), lake.spec), newest)
    assert look(lake.catalog, lake.storage, lake.spec, "t_athena") is not None


def test_a_foreign_view_of_that_name_is_refused_before_anything_is_replaced() -> None:
    lake = Lake(table())
    DELIVERIES[0](lake)
    lake.run()
    shown = lake.catalog.view("school", "t")
    assert shown is not None
    lake.spec = table(athena=True)
    lake.catalog._objects["school", "t_athena"] = type(shown)("school", "t_athena", "SELECT 1", shown.columns)
    lake.deliver("increment_2026010105/a.json", [line("c", [77], [300], {"a": 77})])
    with pytest.raises(CatalogRefused, match=r"the view school\.t_athena exists and is not ours"):
        lake.run()
    assert lake.catalog.view("school", "t") == shown


@pytest.mark.parametrize(
    ("hive", "presto"),
    [
        ("string", "varchar"),
        ("int", "integer"),
        ("float", "real"),
        ("binary", "varbinary"),
        ("timestamp", "timestamp(3)"),
        ("date", "date"),
        ("decimal(38,9)", "decimal(38,9)"),
        ("map<string,array<int>>", "map(varchar,array(integer))"),
        ("struct<a:int,`b c`:string>", 'row("a" integer,"b c" varchar)'),
    ],
)
def test_types_are_spelled_as_presto_spells_them(hive: str, presto: str) -> None:
    assert dialect.presto_type(hive) == presto


@pytest.mark.parametrize("text", ["plain", "it's", 'say "hi"', "back\\slash", "a`b", "x' OR '1'='1", "\\' --"])
def test_texts_and_names_stay_what_they_are(text: str) -> None:
    """Quoting is undone by the parser of each engine, whatever the text holds."""
    for one, reader in ((HIVE, "spark"), (PRESTO, "trino")):
        found = sqlglot.parse_one(f"SELECT {one.text(text)} AS {one.name(text)}", read=reader).expressions[0]
        assert (found.this.this, found.alias) == (text, text)


def test_a_default_of_an_added_column_is_cast_to_presto_types() -> None:
    """Rows from before the column show what the source shows for them, here too."""
    lake = Lake(table(athena=True))
    DELIVERIES[0](lake)
    lake.run()
    newest = lake.newest()
    assert newest is not None
    first = newest.position_max
    assert first is not None
    fields = [
        field if field.name in newest.schema.key else type(field)(**{**vars(field), "first": first, "default": 7}) for field in newest.schema.fields
    ]
    schema = type(newest.schema)(tuple(fields), newest.schema.key)
    text = views.view_text(lake.spec, type(newest)(**{**vars(newest), "schema": schema}), PRESTO)
    epoch = r"""CASE WHEN \(\("__b"\."_at"\."epoch" IS NULL OR "__b"\."_at"\."epoch" < 0\) OR .*"""
    assert re.search(epoch + r"""AND "__b"\."a" IS NULL THEN CAST\('7' AS bigint\) ELSE "__b"\."a" END AS "a\"""", text)
    sqlglot.parse_one(text, read="athena")
