"""Every kind of change under every policy in each kind of file, read back through the view: at once, after a fold, and after a rebuild.

One table goes through all of them (`tests/spark/changed.py`). The sample takes each kind of file once, and each policy; `COMPACTOR_TESTS=full`
takes every pair. Another key: `tests/spark/test_rebuild.py`. What each policy does about one change alone: `tests/core/test_policy.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import EVOLVE, EXPLICIT, Policy
from compactor.core.model.spec import TableSpec
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.spark.changed import DEFAULTS, FORMS, ROWS, Form, land, plain, shown
from tests.spark.conftest import AVRO
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

POLICIES = {"evolve": EVOLVE, "hide": Policy(drop="hide"), "freeze": Policy("freeze"), "fail": Policy("fail")}
SAMPLE = {
    ("parquet", "evolve"), ("avro", "hide"), ("debezium json", "fail"), ("debezium avro", "freeze"), ("json", "freeze"), ("csv", "evolve"),
}  # fmt: skip
CASES = [
    (form, policy)
    for form, policy in itertools.product(FORMS, POLICIES)
    if (os.environ.get("COMPACTOR_TESTS") == "full" or (form, policy) in SAMPLE) and (AVRO or "avro" not in form)
]
FAST_CASE = ("json", "freeze")
"""What `make test` takes; the others are in the slow tier."""


def changes(form: Form, hour: int) -> set[tuple[str, str]]:
    """(kind, path) of what the rows of an hour bring, where their files can tell it."""
    if hour == 2:
        found = {("to_string", "text"), ("date_to_timestamp", "day"), ("added", "box.list[].c")}
        found |= {("string_to_bytes", "mark"), ("string_to_bytes", "code")}
        # without a schema a member that is gone is not told from one that is null
        found |= {("widened", "wide"), ("widened", "box.x"), ("removed", "box.list[].b"), ("removed", "again")} if form.typed else set()
    else:
        found = {("added", "plus"), ("added", "score"), ("removed", "gone")}
        found |= {("replaced", "again")} if form.typed else set()
        found |= {("renamed", "label")} if form.aliases else set()
    return {(kind, path) for kind, path in found if path.split(".")[0] not in form.lacks}


def refused(policy: str, kind: str) -> bool:
    """What each policy stops at."""
    return {"fail": True, "freeze": kind in ("widened", "replaced", *EXPLICIT)}.get(policy, kind in EXPLICIT)


def expected(form: Form, policy: str, hour: int) -> list[dict[str, Any]]:
    """The view after the rows of an hour: of each row the newest, in the columns of now."""
    newest = {row["id"]: (at, row) for at in range(1, hour + 1) for row in ROWS[at]}
    columns = set(form.columns(1)) | (set(form.columns(hour)) - {"label"} if policy != "freeze" else set())
    columns -= {"seq"} if policy != "hide" else {"seq", *(set(form.columns(1)) - set(form.columns(hour)) - {"name"})}
    renamed = {"name": "label"} if form.aliases and hour == 3 and policy != "freeze" else {}
    return [
        {renamed.get(name, name): shown(_value(form, policy, hour, at, name, row)) for name in columns} for _, (at, row) in sorted(newest.items())
    ]


def _value(form: Form, policy: str, hour: int, at: int, name: str, row: Any) -> Any:
    """A column of a row written in the hour `at`, as the view shows it after `hour`."""
    known = name in form.columns(at) or (name == "name" and "label" in form.columns(at))
    if name == "again" and hour == 3 and at < 3:
        return None
    if not known:
        return DEFAULTS[name] if name in DEFAULTS and form.defaults else None
    value = row[name]
    if hour > 1 and name == "day" and at == 1:
        return f"{value.isoformat()}T00:00:00.000000Z"
    if hour > 1 and name == "text":
        return str(value)
    if hour > 1 and name in ("mark", "code"):
        return value if isinstance(value, bytes) else value.encode()
    if name == "box" and hour > 1:
        return {**value, "list": [{"b": None, **({} if policy == "freeze" else {"c": None}), **_without(item, policy)} for item in value["list"]]}
    return value


def _without(item: dict[str, Any], policy: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "c" or policy != "freeze"}


def asking(spec: TableSpec, kinds: set[str]) -> TableSpec:
    """The table with a policy that names these kinds besides."""
    return dataclasses.replace(
        spec, policy=dataclasses.replace(spec.policy, kinds=(*spec.policy.kinds, *((kind, "evolve") for kind in sorted(kinds))))
    )


def rows(lake: Lake, spec: TableSpec) -> list[dict[str, Any]]:
    """What the view shows, by id."""
    return sorted((plain(row) for row in lake.rows(spec)), key=lambda row: str(row["id"]))


@pytest.mark.parametrize(("name", "policy"), [pytest.param(*case, marks=[] if case == FAST_CASE else pytest.mark.slow) for case in CASES])
def test_changes_are_followed_left_out_or_refused(lake: Lake, name: str, policy: str) -> None:
    """A refused increment stays in landing, nothing else is refused, and it is taken once the policy names what it stopped at.

    That need be named for one run only, but for dates and bytes: what they were is read again by `verify`, a rebuild, a late file.
    """
    form = FORMS[name]
    spec = lake.spec(**{"policy": POLICIES[policy], "write_mode": "merge-on-read", "compact_every": 1e9, **form.settings})
    land(lake, spec, name, 1)
    lake.run(spec)
    assert rows(lake, spec) == expected(form, policy, 1)
    for hour in (2, 3):
        land(lake, spec, name, hour)
        stopped = {(kind, path) for kind, path in changes(form, hour) if refused(policy, kind)}
        if stopped:
            with pytest.raises(SchemaRefused, match="stay in landing") as error:
                lake.run(spec)
            assert {(one.change.kind, one.change.column) for one in error.value.decisions if one.action == "refuse"} == stopped  # type: ignore[attr-defined]
            assert all(f"{kind}: evolve" in str(error.value) for kind, _ in stopped)
            assert len(lake.landed(spec)) == 1
        spec = asking(spec, {kind for kind, _ in stopped if kind in EXPLICIT})
        lake.run(asking(spec, {kind for kind, _ in stopped}))
        assert rows(lake, spec) == expected(form, policy, hour)
    assert lake.problems(spec) == []
    if form.typed or "box" not in form.lacks:
        land(lake, spec, name, 4, [{"id": 1, "text": {"x": 1}}], {"id": "bigint", "seq": "bigint", "text": "struct<x:int>"})
        asked = tuple((kind, action) for kind, action in spec.policy.kinds if kind != "to_string")
        with pytest.raises(SchemaRefused, match="only text can hold" if not form.typed else "no type can store both"):
            lake.run(dataclasses.replace(spec, policy=dataclasses.replace(spec.policy, kinds=asked)))
        shutil.rmtree(Path(spec.landing) / "increment_2024030504")
    assert lake.snapshot(spec).delta is not None
    lake.run(lake.with_settings(spec, compact_every=0.0))
    assert lake.snapshot(spec).delta is None
    assert rows(lake, spec) == expected(form, policy, 3)
    lake.now += 1
    # what a policy keeps out stays out
    report = rebuild_table(Table(lake.env, spec))
    assert (report.outcome, report.files) == ("published", 3)
    assert rows(lake, spec) == expected(form, policy, 3)
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_a_newest_event_that_is_a_delete_with_only_its_key_removes_no_column(lake: Lake) -> None:
    """Whatever the policy does about removed columns: the other rows still have them."""
    for name, policy in (("hide", Policy(drop="hide")), ("fail", Policy("evolve", (("removed", "fail"),)))):
        spec = lake.spec(name, policy=policy)
        lake.land(spec, 1, [{"id": 1, "seq": 1, "op": "c", "n": 5}, {"id": 2, "seq": 2, "op": "c", "n": 6}])
        lake.run(spec)
        lake.land(spec, 2, [{"id": 1, "seq": 3, "op": "u", "n": 7}, {"id": 2, "seq": 4, "op": "d"}])
        lake.run(spec)
        assert [(1, 7)] == [(row["id"], row["n"]) for row in lake.rows(spec)], name
