"""The Iceberg table of a warehouse that moved, in a catalog that was lost, and under settings that changed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from compactor.core.iceberg import manifests, metadata
from compactor.core.settings.forms import NEVER
from compactor.flows.publish.sync import sync_table
from compactor.flows.run import look_at
from tests.native.lake import NativeLake, as_parquet
from tests.native.test_export import change
from tests.parts.memory_catalog import MemoryCatalog

__all__ = ["as_parquet"]
pytestmark = pytest.mark.usefixtures("as_parquet")


def move(lake: NativeLake, root: Path) -> None:
    """Move the warehouse, as docs/operations.md says, and publish."""
    old, new = lake.spec.root, str(root / "t")
    for info in [*lake.storage.list(old)]:
        lake.storage.write(info.path.replace(old, new), lake.storage.read(info.path))
        lake.storage.delete([info.path])
    lake.catalog = MemoryCatalog()
    lake.spec = dataclasses.replace(lake.spec, root=new, landing=f"{new}/incremental")
    sync_table(lake.table())


@pytest.mark.parametrize("form", metadata.FORMATS)
def test_a_moved_table_names_no_file_of_the_old_place(tmp_path: Path, form: str) -> None:
    """At once after `publish`, and after later commits, which use manifests of earlier ones again."""
    lake = NativeLake(tmp_path / "a", form, compact_window=NEVER, target_file_bytes=300)
    change(lake, 1, *range(40), op="c")
    change(lake, 2, 3)
    old, number = lake.spec.root, lake.exported().number
    move(lake, tmp_path / "b")
    exported = lake.exported()
    assert (exported.number, len(exported.raw["snapshots"]), exported.raw["metadata-log"]) == (number + 1, 1, [])
    lake.check("pyiceberg")
    change(lake, 3, 5)
    lake.compact()
    lake.check()
    for info in lake.storage.list(lake.layout.iceberg(form)):
        if info.path.endswith(".json") and not info.path.endswith(tuple(f"/v{each}.metadata.json" for each in range(number + 1))):
            assert old.encode() not in lake.storage.read(info.path)
    for entry in lake.exported().raw["snapshots"]:
        for manifest in manifests.read_list(lake.storage.read(entry["manifest-list"].removeprefix("file://"))):
            assert old.encode() not in lake.storage.read(manifest.path.removeprefix("file://"))


def test_a_moved_table_that_cannot_be_shown_yet_waits_for_the_compaction(tmp_path: Path) -> None:
    """Nothing points to the metadata of the old place meanwhile."""
    lake = NativeLake(tmp_path / "a", compact_window=NEVER, target_file_bytes=300, iceberg=())
    change(lake, 1, *range(40), op="c")
    lake.spec = dataclasses.replace(lake.spec, iceberg=("base",))
    sync_table(lake.table())
    number = lake.exported().number
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metadata, "parts_of", lambda *_: "a reason")
        move(lake, tmp_path / "b")
        assert lake.catalog.native("school", "t_iceberg") is None
        lake.vacuum()
    assert lake.exported().number == number
    lake.now += 1
    sync_table(lake.table())
    lake.check("pyiceberg")


@pytest.mark.parametrize("form", metadata.FORMATS)
def test_publish_restores_the_table_in_a_new_catalog(tmp_path: Path, form: str) -> None:
    """As it does the views; the metadata file stays the same."""
    lake = NativeLake(tmp_path, form)
    change(lake, 1, *range(10), op="c")
    before, lake.catalog = lake.exported(), MemoryCatalog()
    sync_table(lake.table())
    assert lake.exported() == before
    lake.check("pyiceberg")


def test_settings_that_change_on_a_quiet_table_are_followed(tmp_path: Path) -> None:
    """`iceberg:` is set, the view renamed, the key removed: the next run follows, and notes what is left until it is dropped; then runs are idle."""
    lake = NativeLake(tmp_path, iceberg=())
    change(lake, 1, *range(10), op="c")

    def run(**setting: object) -> list[str]:
        lake.spec = dataclasses.replace(lake.spec, **setting)  # type: ignore[arg-type]
        assert isinstance(look_at(lake.table()), int)
        notes = [note for note in lake.run().notes if "earlier settings" in note]
        assert not isinstance(look_at(lake.table()), int)
        return notes

    assert run(iceberg=("base",)) == []
    lake.check("pyiceberg")
    left = "an Iceberg table of earlier settings, whose files vacuum deletes: DROP TABLE"
    assert [note for note in run(view="u") if "Iceberg" in note] == [f"school.t_iceberg is {left} school.t_iceberg in Hive or Spark"]
    assert lake.catalog.native("school", "u_iceberg") is not None
    for name in ("t", "t_ro", "t_iceberg"):
        del lake.catalog._objects["school", name]
    assert run(iceberg=()) == [f"school.u_iceberg is {left} school.u_iceberg in Hive or Spark"]
    del lake.catalog._objects["school", "u_iceberg"]
    assert not any("Iceberg" in note for note in run(view="t"))
