"""Settings that stored rows do not allow any more: a plan names what the next run would refuse."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from compactor.core.model.policy import MASK, Protection
from compactor.flows.read.status import plan
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "as they were": ({}, ""),
    "what a run does not mind": ({"keep": 2.0}, ""),
    "another key": ({"key": ("id", "a")}, r"expected the key \(id\), by which its rows are stored, found \(id, a\)"),
    "a key that may come with the next files": ({"key": ("number",)}, ""),
    "no key": ({"key": ()}, r"expected the key \(id\), by which its rows are stored, found \(none\)"),
    "another order": ({"order_by": ("a",)}, "order_by is a, but the table was built with seq"),
    "a type that nothing can be read as": ({"types": (("a", "date"),)}, "column a: `types:` declares date, and its rows are stored as bigint"),
    "a rule for a stored column": (
        {"columns": (Protection("a", MASK),)},
        r"`columns:` has mask\(0\) for a, but stored rows were written with no rule",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_names_the_setting_that_stored_rows_do_not_allow(case: str) -> None:
    """Before anything lands; and names no other problem."""
    changes, problem = CASES[case]
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [10], {"a": 5})])
    lake.run()
    lake.spec = dataclasses.replace(lake.spec, **changes)
    (check,) = (each for each in plan(lake.table()).checks if each.name == "settings of the stored rows")
    assert check.ok == (not problem)
    if problem:
        assert re.search(problem, check.detail)
