"""The texts of published views: defaults in their column's type, and no text that an engine cannot read is ever published."""

from __future__ import annotations

import shutil
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from compactor.core.catalog import history_views, views
from compactor.core.catalog.dialect import PRESTO, Dialect
from compactor.core.model.errors import CheckFailed, SchemaRefused
from compactor.flows.publish.landing import sync_landing
from compactor.flows.table import Table
from compactor.spark import session
from tests.spark.added_defaults import DEFAULTS, OLDER, TEXT_ALLOWED, columns, land, record
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def check_presto(lake: Lake, spec: Any) -> None:
    """What Athena would get is valid too."""
    snapshot = lake.snapshot(spec)
    tables = [*views.tables(spec, snapshot), history_views.table(spec, snapshot)]
    for view in (views.view(spec, snapshot, PRESTO), history_views.view(spec, snapshot, snapshot.history, PRESTO)):  # type: ignore[arg-type]
        lake.env.engine().check_view(view, tables)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_table_of_landed_files_follows_the_types_of_the_files(lake: Lake) -> None:
    """No run reports that it could not be updated; what lands next is shown, and folders are in one table only."""
    spec = lake.spec(op="op")
    for hour, kind in enumerate(("int", "bigint", "int", "bigint"), 1):
        lake.land_parquet(spec, hour, [{"id": hour, "seq": hour, "n": hour, "op": "c"}], f"id bigint, seq bigint, n {kind}, op string")
        notes = lake.run(spec).notes
        assert [note for note in notes if "not updated" in note] == []
        assert len([note for note in notes if "`n` was widened from int to bigint" in note]) == (hour == 2)
        lake.land_parquet(spec, 9, [{"id": 90, "seq": 90, "n": 90, "op": "c"}], f"id bigint, seq bigint, n {kind}, op string")
        sync_landing(Table(lake.env, spec), lake.snapshot(spec))
        shown, other = ("t_incremental", "t_incremental_g2") if kind == "int" else ("t_incremental_g2", "t_incremental")
        # a session keeps the files that it has listed once
        lake.spark.catalog.refreshTable(f"`{lake.database}`.`{shown}`")
        assert [(row["id"], row["n"]) for row in lake.rows(spec, shown)] == [(90, 90)]
        assert lake.env.catalog().partitions(lake.database, other) == []
        shutil.rmtree(Path(spec.landing) / "increment_2024030509")
    assert [row["n"] for row in lake.rows(spec)] == [1, 2, 3, 4]


@pytest.mark.slow
def test_numbers_stay_numbers_until_text_is_asked_for_and_then_are_as_the_source_wrote_them(lake: Lake) -> None:
    """2, then 1.50, then "x" in three runs: double, refused, text out of the archive; each change of a type is reported, no value is another number."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1, "a": 2, "big": 9007199254740993, "m": [1]}])
    lake.run(spec)
    lake.land(spec, 2, ['{"id": 2, "seq": 2, "a": 1.50, "big": 7, "m": [0.5]}'])
    assert [note for note in lake.run(spec).notes if "was widened from bigint to double" in note]
    assert [row["a"] for row in lake.rows(spec)] == [2.0, 1.5]
    wrong = lake.land(spec, 3, [{"id": 3, "seq": 3, "a": 1, "big": 0.5}])
    with pytest.raises(SchemaRefused, match=r"column big: .*9007199254740993.* would be another number"):
        lake.run(spec)
    protected = lake.with_settings(spec, archive_kms_key="arn:aws:kms:eu-west-1:123456789012:key/a")
    with pytest.raises(SchemaRefused, match=r"column big: .* such as \(not shown: .*\) would be another number"):
        lake.run(protected)
    wrong.unlink()
    lake.land(spec, 3, [{"id": 3, "seq": 3, "a": 9007199254740993, "big": 1}, {"id": 4, "seq": 4, "a": 3, "big": 1}])
    assert lake.run(lake.with_settings(spec, quarantine_share=1.0)).counts["quarantined"] == 1
    assert "the value of a is not of type double" in lake.unusable(spec)[0][1]

    lake.land(spec, 4, [{"id": 5, "seq": 5, "a": "x", "big": 1}])
    with pytest.raises(SchemaRefused, match=r"`a` changed from double to string.*to_string: evolve"):
        lake.run(spec)
    assert [row["a"] for row in lake.rows(spec)] == [2.0, 1.5, 3.0]
    spec = lake.with_settings(spec, policy=TEXT_ALLOWED, quarantine_share=1.0)
    report = lake.run(spec)
    assert [name.split()[0] for name in report.operations] == ["rebuild", "commit"]
    assert [note for note in report.notes if "`a` changed from double to string" in note]
    lake.land(spec, 5, ['{"id": 6, "seq": 6, "a": 7.250, "big": 1}'])
    lake.run(spec)
    # the record that was no double fits a column of text
    shown = {1: "2", 2: "1.50", 3: "9007199254740993", 4: "3", 5: "x", 6: "7.250"}
    assert {row["id"]: row["a"] for row in lake.rows(spec)} == shown
    assert lake.problems(spec) == []

    spec = lake.spec("parquet")
    lake.land_parquet(spec, 1, [{"id": 1, "seq": 1, "n": 1e15}], "id bigint, seq bigint, n double")
    lake.run(spec)
    lake.land_parquet(spec, 2, [{"id": 2, "seq": 2, "n": Decimal("1.5")}], "id bigint, seq bigint, n decimal(21,1)")
    with pytest.raises(SchemaRefused, match=r"`n` changed from double to decimal\(21,1\)"):
        lake.run(spec)


@pytest.mark.slow
def test_files_of_both_forms_are_one_table(lake: Lake) -> None:
    """`parquet: hive`, then standard, then hive: base and Delta have another form each, and every read is right. DuckDB reads the same."""
    spec = lake.spec(write_mode="merge-on-read", compact_every=1e9)
    ddl = "id bigint, seq bigint, at timestamp, n decimal(9,2), tags array<string>, counts map<string,int>"
    forms = [session.PARQUET[form] for form in ("hive", "standard", "hive")]
    moments = [datetime(2024, 3, 5, 10, 0, 0, at) for at in (1, 2, 3)]
    try:
        for hour, (form, at) in enumerate(zip(forms, moments), 1):
            for name, value in form.items():
                lake.spark.conf.set(name, value)
            row = {"seq": hour, "at": at, "n": Decimal(f"{hour}.25"), "tags": ["a", None, "b"], "counts": {"x": hour}}
            lake.land_parquet(spec, hour, [{"id": 1, **row}, {"id": 1 + hour, **row}], ddl)
            lake.run(spec)
            rows = lake.rows(spec)
            assert [row["at"] for row in rows] == [f"{each.isoformat()}Z" for each in (at, *moments[:hour])]
            assert [row["tags"] for row in rows] == [["a", None, "b"]] * (hour + 1)
            assert [(row["n"], row["counts"]["x"]) for row in rows] == [(each + Decimal("0.25"), each) for each in (hour, *range(1, hour + 1))]
        assert lake.problems(spec) == []
        lake.run(lake.with_settings(spec, compact_every=0.0))
        assert [row["at"] for row in lake.rows(spec)] == [f"{each.isoformat()}Z" for each in (moments[2], *moments)]
        assert lake.problems(spec) == []
    finally:
        for name, value in forms[0].items():
            lake.spark.conf.set(name, value)
