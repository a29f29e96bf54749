"""sources.yml for dbt: what its tests compute. tests/engines/test_dbt.py has dbt itself read it."""

from __future__ import annotations

import dataclasses

import duckdb
import yaml

from compactor.core.catalog import dbt
from compactor.core.model.policy import UNIQUE, Rule
from tests.oracle.lake import table
from tests.report import synthetic


def test_columns_that_are_unique_together_have_different_texts() -> None:
    """Whatever characters their values have. A null in one of them is a null of the whole, which dbt does not count."""
    (snapshot,) = synthetic.snapshots(1)
    spec = dataclasses.replace(table(), rules=(Rule(UNIQUE, ("c1", "c2")),))
    view = yaml.safe_load(dbt.sources([(spec, snapshot)]))["sources"][0]["tables"][0]
    expression = view["data_tests"][0]["unique"]["arguments"]["column_name"]
    assert "string" not in expression, "Trino and Athena have no such type"
    values = ["a", "a|", "|a", "|", "||", ",", "|,", ",|", "", "a|,", ",a"]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (c1 varchar, c2 varchar)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(one, two) for one in values for two in values])
        assert connection.execute(f"SELECT count(DISTINCT {expression}) FROM t").fetchall() == [(len(values) ** 2,)]
        assert connection.execute(f"SELECT {expression} FROM (SELECT 1 AS c1, NULL AS c2)").fetchall() == [(None,)]
