"""The texts of published views: defaults in their column's type, and no text that an engine cannot read is ever published."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.core.catalog import history_views, views
from compactor.core.catalog.dialect import PRESTO, Dialect
from compactor.core.model.errors import CheckFailed
from tests.spark.added_defaults import DEFAULTS, OLDER, TEXT_ALLOWED, columns, land, record
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def check_presto(lake: Lake, spec: Any) -> None:
    """What Athena would get is valid too."""
    snapshot = lake.snapshot(spec)
    tables = [*views.tables(spec, snapshot), history_views.table(spec, snapshot)]
    for view in (views.view(spec, snapshot, PRESTO), history_views.view(spec, snapshot, snapshot.history, PRESTO)):  # type: ignore[arg-type]
        lake.env.engine().check_view(view, tables)


def test_older_rows_show_the_default_of_every_type_and_follow_it_to_text(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the view and its history; also when the column becomes text. A text that an engine cannot read leaves the view as it was."""
    spec = lake.spec(history=True, key=("id",))
    land(lake, spec)
    kinds = {field.name: field.type for field in lake.snapshot(spec).schema.fields}
    assert {name: kinds[name] for name in DEFAULTS} == {name: kind for name, (_, kind, _) in DEFAULTS.items()}
    # a reader's session replaces `${name}`, ours does not
    lake.spark.conf.set("spark.sql.variable.substitute", "true")
    for view in ("t", "t_history"):
        rows = {row["id"]: {name: row[name] for name in DEFAULTS} for row in lake.rows(spec, view)}
        assert rows == {1: OLDER, 2: OLDER, 3: dict.fromkeys(DEFAULTS)}
    lake.spark.conf.set("spark.sql.variable.substitute", "false")
    check_presto(lake, spec)
    assert lake.problems(spec) == []

    spec = lake.with_settings(spec, policy=TEXT_ALLOWED)
    lake.land(spec, 3, [record(columns(b="string", t4="string", d="string"), {"id": 4, "seq": 4, "b": "x", "t4": "y", "d": "z"})])
    lake.run(spec)
    older = {**OLDER, "b": "false", "t4": str(OLDER["t4"]), "d": "-12.50"}
    rows = {row["id"]: {name: row[name] for name in DEFAULTS} for row in lake.rows(spec)}
    assert rows == {1: older, 2: older, 3: dict.fromkeys(DEFAULTS), 4: {**dict.fromkeys(DEFAULTS), "b": "x", "t4": "y", "d": "z"}}
    check_presto(lake, spec)

    shown = lake.rows(spec)
    lake.land(spec, 4, [record([*columns(b="string", t4="string", d="string"), {"field": "new", "type": "int32", "optional": True, "default": 5}],
                               {"id": 5, "seq": 5, "new": 1})])  # fmt: skip
    constant = Dialect.constant
    for text, why in (("CAST('5' AS integer)", "does not know the type integer"), ("false", "cannot be read"), ("CAST('5' AS bigint)", "bigint")):
        monkeypatch.setattr(Dialect, "constant", lambda self, value, kind, text=text: text if kind == "int" else constant(self, value, kind))
        with pytest.raises(CheckFailed, match=why):
            lake.run(spec)
        assert lake.rows(spec) == shown
    monkeypatch.undo()
    lake.run(spec)
    assert {row["id"]: row["new"] for row in lake.rows(spec)} == {1: 5, 2: 5, 3: 5, 4: 5, 5: 1}
