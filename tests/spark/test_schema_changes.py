"""Every kind of change under every policy, read back through the view: in each file format, after a fold, and against the archive.

The sample takes one format for each cell; `COMPACTOR_TESTS=full` takes all.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compactor.core.errors import SchemaRefused
from compactor.core.policy import TABLE, Policy
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

FORMATS = ("json", "parquet", "csv")
POLICIES = ("evolve", "freeze", "fail")
OLD = [{"id": 1, "a": 1, "b": "x", "seq": 1}, {"id": 2, "a": 2, "b": "y", "seq": 2}]
DDL = {"id": "bigint", "a": "int", "b": "string", "c": "string", "seq": "bigint"}
NEW: Mapping[str, tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]] = {
    "added": ([{"id": 2, "a": 3, "b": "z", "c": "new", "seq": 3}], {}),
    "removed": ([{"id": 2, "a": 3, "seq": 3}], {}),
    "widened": ([{"id": 2, "a": "many", "b": "z", "seq": 3}], {"a": "string"}),
}
"""Kind → the rows that come next, and the types that are other ones than in DDL."""

AFTER = {
    ("added", "evolve"): [{"id": 1, "a": 1, "b": "x", "c": None}, {"id": 2, "a": 3, "b": "z", "c": "new"}],
    ("added", "freeze"): [{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 3, "b": "z"}],
    ("removed", "evolve"): [{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 3, "b": None}],
    ("removed", "freeze"): [{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 3, "b": None}],
    ("removed", "hide"): [{"id": 1, "a": 1}, {"id": 2, "a": 3}],
    ("widened", "evolve"): [{"id": 1, "a": "1", "b": "x"}, {"id": 2, "a": "many", "b": "z"}],
}
"""What the view shows then, without the order's column; a pair that is not here is refused."""

CELLS = [*itertools.product(NEW, POLICIES), ("removed", "hide")]
CASES = [
    (kind, policy, form)
    for at, (kind, policy) in enumerate(CELLS)
    for form in (FORMATS if os.environ.get("COMPACTOR_TESTS") == "full" else FORMATS[at % 3 : at % 3 + 1])
]


def land(lake: Lake, spec: Any, form: str, hour: int, rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> None:
    """Rows of one hour in a format."""
    if form == "parquet":
        lake.land_parquet(spec, hour, rows, ", ".join(f"{name} {({**DDL, **types})[name]}" for name in rows[0]))
    elif form == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        lake.land(spec, hour, lines, "part-0.csv")
    else:
        lake.land(spec, hour, rows)


@pytest.mark.parametrize(("kind", "policy", "form"), CASES)
def test_a_change_is_followed_left_out_or_refused(lake: Lake, kind: str, policy: str, form: str) -> None:
    """As the table of `core/policy.py` says; a refused increment stays in landing and is taken once the policy allows it."""
    follow = Policy("evolve", drop="hide") if policy == "hide" else Policy(policy)
    spec = lake.spec(policy=follow, fold_every=1e9)
    land(lake, spec, form, 1, OLD, {})
    lake.run(spec)
    rows, types = NEW[kind]
    land(lake, spec, form, 2, rows, types)
    if (kind, policy) not in AFTER:
        assert TABLE[kind][POLICIES.index(policy)] == "refuse"
        with pytest.raises(SchemaRefused, match="stay in landing"):
            lake.run(spec)
        assert len(lake.landed(spec)) == 1
        spec, policy = lake.with_settings(spec, policy=Policy()), "evolve"
    lake.run(spec)

    def shown() -> list[dict[str, Any]]:
        return [{name: value for name, value in row.items() if name != "seq"} for row in lake.rows(spec)]

    assert sorted(shown(), key=lambda row: row["id"]) == AFTER[kind, policy]
    # the view against its definition, and against one resolve of the whole archive: a rebuild
    assert lake.problems(spec) == []
    lake.run(lake.with_settings(spec, fold_every=0.0))
    assert sorted(shown(), key=lambda row: row["id"]) == AFTER[kind, policy]
    assert lake.problems(spec) == []
