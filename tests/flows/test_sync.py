"""`sync`: the catalog becomes what a table says, once; a dry run tells the statements and changes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json

import pytest

from compactor.app.registry import Synced, sync
from compactor.core.catalog import views
from compactor.core.catalog.ddl import TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused, NoRowsYet, Unavailable
from compactor.core.model.spec import TableSpec
from compactor.flows.publish.sync import sync_table
from compactor.flows.run import look_at
from compactor.flows.table import Table
from tests.faults import Crash, Faults, FaultyCatalog, FaultyStorage
from tests.oracle.lake import Lake, copied, table
from tests.oracle.model import line
from tests.oracle.watch import Intrusion
from tests.parts.memory_catalog import MemoryCatalog

FIELDS = [
    {"name": "id", "type": "long", "doc": "the student's number"},
    {"name": "fullName", "type": ["null", "string"], "doc": "it's `quoted`; \\ DROP"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
]
DECLARED = {"avro_schema": json.dumps({"type": "record", "name": "t", "fields": FIELDS}), "subject": "shop.t-value", "registered": (3, 17)}


def done(lake: Lake, spec: TableSpec | None = None, dry_run: bool = False) -> Synced:
    """One `compactor publish`."""
    return sync(Table(lake.env(), spec or lake.spec), dry_run)


def content(lake: Lake) -> object:
    """Everything the catalog holds."""
    return lake.catalog._databases, {name: repr(thing) for name, thing in lake.catalog._objects.items()}


def view(lake: Lake) -> ViewDef:
    """The table's view."""
    found = lake.catalog.view("school", "t")
    assert found is not None
    return found


def test_a_lost_catalog_comes_back() -> None:
    """Database, tables, partitions and view, from the files alone; told before, done once."""
    lake = Lake(table())
    for hour in range(3):
        lake.deliver(f"increment_202601010{hour}/a.json", [line("c", [hour], [hour], {"a": hour})])
        lake.run()
    lake.deliver("increment_2026010109/a.json", [line("c", [9], [9], {"a": 9})])
    shown = lake.look()
    lake.catalog = type(lake.catalog)()
    told = done(lake, dry_run=True)
    assert lake.catalog._databases == {}
    heads = [" ".join(statement.split()[:3]) for statement in told.statements]
    partitions = heads.count("ALTER TABLE `school`.`t_base`") + heads.count("ALTER TABLE `school`.`t_delta`")
    assert heads[:3] == ["CREATE DATABASE IF", "CREATE EXTERNAL TABLE", "CREATE EXTERNAL TABLE"]
    assert heads.count("CREATE OR REPLACE") == 1
    # Hive refuses `row` as the name of a member, unless it is quoted
    assert ["`row`:bigint>" in statement for statement in told.statements[1:3]] == [True, True]
    assert partitions >= 2
    applied = done(lake)
    assert applied.statements == told.statements
    assert (told.applied, applied.applied) == (False, True)
    assert lake.look() == shown
    before = content(lake)
    assert done(lake).statements == done(lake, dry_run=True).statements == ()
    assert content(lake) == before


def test_a_dry_run_changes_nothing_whatever_is_missing() -> None:
    """At every point of a table's life."""
    lake = Lake(table())
    for hour in range(4):
        lake.deliver(f"increment_202601010{hour}/a.json", [line("c", [hour], [hour], {"a": hour, f"b{hour}": "x"})])
        before = content(lake)
        if lake.newest() is not None:
            done(lake, dry_run=True)
        assert content(lake) == before
        lake.run()
        older = copied(lake.catalog)
        lake.catalog._objects.pop(("school", "t"))
        (statement,) = done(lake, dry_run=True).statements
        assert statement.startswith("CREATE OR REPLACE VIEW `school`.`t`")
        assert done(lake).statements == (statement,)
        assert lake.catalog.view("school", "t") == older.view("school", "t")


def test_a_declared_table_is_there_before_its_rows() -> None:
    """Columns with the schema's documentation as comments, properties that name subject, version and id; the first commit takes over."""
    lake = Lake(table(**DECLARED))
    told = done(lake, dry_run=True)
    assert content(lake) == ({}, {})
    assert done(lake).statements == told.statements
    assert "it\\'s `quoted`; \\\\ DROP" in told.statements[1]
    shown = view(lake)
    assert [(column.name, column.type, column.comment) for column in shown.columns] == [
        ("id", "bigint", "the student's number"),
        ("fullname", "string", "it's `quoted`; \\ DROP; source name fullName"),
        ("tags", "array<string>", ""),
    ]
    assert shown.properties["compactor.schema.subject"] == "shop.t-value"
    assert (shown.properties["compactor.schema.version"], shown.properties["compactor.schema.id"]) == ("3", "17")
    assert done(lake).statements == ()
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"fullName": "Ann"})])
    lake.run()
    assert view(lake).properties[views.VERSION] == "1"
    assert view(lake).properties["compactor.schema.id"] == "17"
    assert lake.look() is not None
    assert done(lake).statements == ()


@pytest.mark.parametrize("dies", [False, True])
def test_the_first_run_beside_a_publication_without_rows_is_shown(dies: bool) -> None:
    """At any call of `publish` a run makes version 1 and shows it: the empty view does not stay, also if `publish` dies after it has put it there."""
    for at in itertools.count(1):
        lake = Lake(table(**DECLARED))
        lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"fullName": "Ann"})])
        faults = Intrusion(at, lake.run)
        catalog = FaultyCatalog(lake.catalog, Faults(1, "after_effect", ["replace_view"])) if dies else lake.catalog
        env = dataclasses.replace(lake.env(), storage=FaultyStorage(lake.storage, faults), catalog=functools.partial(FaultyCatalog, catalog, faults))
        with contextlib.suppress(Crash):
            assert sync_table(Table(env, lake.spec)) in ("version 1", "no rows yet")
        if not faults.happened:
            break
        if isinstance(look_at(lake.table()), int):
            assert dies
            lake.run()
        assert view(lake).properties[views.VERSION] == "1"
        assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    assert at > 8


def test_what_belongs_to_somebody_else_is_left_alone() -> None:
    """A view that is no table's, and the declared view of a table stored elsewhere."""
    lake = Lake(table(**DECLARED))
    lake.catalog.ensure_database("school", "/lake")
    lake.catalog.replace_view(ViewDef("school", "t", "SELECT 1 AS `one`", ()))
    for dry_run in (True, False):
        with pytest.raises(CatalogRefused, match=r"the view school\.t exists"):
            done(lake, dry_run=dry_run)
    lake.catalog._objects.clear()
    done(lake)
    other = dataclasses.replace(lake.spec, root="/elsewhere/t")
    with pytest.raises(CatalogRefused, match="nothing is stored below /elsewhere/t yet"):
        done(lake, other)
    lake.catalog.replace_view(dataclasses.replace(view(lake), properties={**view(lake).properties, views.ROOT: "/elsewhere/t"}))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    with pytest.raises(CatalogRefused, match="another life"):
        lake.run()


def test_a_live_view_replaces_no_view_of_somebody_else() -> None:
    """A view that happens to be called `t_live` stays, and the run says so. The table's own view is published."""
    lake = Lake(table(live_view=True, archive="keep"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.catalog.ensure_database("school", "/lake")
    own = ViewDef("school", "t_live", "SELECT 1 AS `one`", ())
    lake.catalog.replace_view(own)
    with pytest.raises(CatalogRefused, match=r"the view school\.t_live exists and is not ours"):
        lake.run()
    assert lake.catalog.view("school", "t_live").text == own.text  # type: ignore[union-attr]
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    lake.catalog._objects.pop(("school", "t_live"))
    lake.run()
    assert "`school`.`t_base`" in lake.catalog.view("school", "t_live").text  # type: ignore[union-attr]


def test_a_table_of_which_nothing_is_known_waits() -> None:
    """No Snapshot, no declared schema."""
    with pytest.raises(NoRowsYet, match="its columns are unknown"):
        done(Lake(table()))


def test_a_run_that_has_published_is_done_when_only_the_table_of_landed_files_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that goes away then is told; where a live view was asked for, the run is not done."""
    ensure_table = MemoryCatalog.ensure_table

    def away(catalog: MemoryCatalog, wanted: TableDef) -> None:
        if wanted.name.endswith("_incremental"):
            raise Unavailable("the metastore does not answer")
        ensure_table(catalog, wanted)

    monkeypatch.setattr(MemoryCatalog, "ensure_table", away)
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    report = lake.run()
    assert (report.outcome, report.notes) == ("committed", ("the table of landed files was not updated: the metastore does not answer",))
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    lake.spec = dataclasses.replace(lake.spec, live_view=True)
    lake.deliver("increment_2026010101/a.json", [line("c", [2], [2], {"a": 2})])
    with pytest.raises(Unavailable):
        lake.run()


def test_a_landing_folder_that_was_moved_gets_another_table() -> None:
    """A registered table stays where it is, and loses its folders."""
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.spec = dataclasses.replace(lake.spec, landing="/elsewhere/t")
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2})])
    assert [note for note in lake.run().notes if "not updated" in note] == []
    names = [lake.catalog.table("school", name) for name in ("t_incremental", "t_incremental_g2")]
    assert ["/lake/t/incremental", "/elsewhere/t"] == [there.location for there in names if there is not None]


def test_two_environments_on_one_database_leave_each_other_alone() -> None:
    """The second one commits its rows and publishes nothing; neither its runs nor its vacuum change what the first one shows."""
    first = Lake(table(history=True, feed="net"))
    others = [{}, {"tables_in": "other_tables"}, {"database": "other_views"}]
    for number, names in enumerate(others, 1):
        second = Lake(dataclasses.replace(first.spec, root=f"/other{number}/t", landing=f"/other{number}/landing", keep=0.0, grace=0.0, **names))
        second.storage, second.catalog = first.storage, first.catalog
        for hour in range(2):
            for lake, value in ((first, number), (second, 100)):
                lake.deliver(f"increment_20260{number}010{hour}/a.json", [line("c", [1], [10 * number + hour], {"a": value})])
            first.run()
            with pytest.raises(CatalogRefused, match=r"another life|registered at /lake/t"):
                second.run()
        second.now += 1e6
        with contextlib.suppress(CatalogRefused):
            second.vacuum()
        assert first.look().rows == ((1, number),)  # type: ignore[union-attr]
        assert first.failed_checks() == []
        assert second.expected() == ((1, 100),)


@pytest.mark.parametrize(
    ("setting", "former"),
    [
        ({"view": "students"}, ["t", "t_history", "t_ro"]),
        ({"read_optimized": False}, ["t_ro"]),
        ({"history": False}, ["t_history"]),
    ],
)
def test_a_view_of_earlier_settings_is_noted_until_it_is_dropped(setting: dict[str, object], former: list[str]) -> None:
    """Nothing updates it, so it shows old rows until vacuum takes their files."""
    lake = Lake(table(read_optimized=True, history=True))

    def noted(hour: int) -> list[str]:
        lake.deliver(f"increment_202601010{hour}/a.json", [line("c", [hour], [hour], {"a": hour})])
        return [note.rpartition(": DROP VIEW ")[2] for note in lake.run().notes if "earlier settings" in note]

    assert noted(0) == []
    lake.spec = dataclasses.replace(lake.spec, **setting)  # type: ignore[arg-type]
    assert noted(1) == noted(2) == [f"school.{name}" for name in former]
    for name in former:
        del lake.catalog._objects["school", name]
    assert noted(3) == []
