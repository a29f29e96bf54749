"""`verify` finds one wrong cell, a lost row and a doubled row, wherever it is: in the files and in what the catalog shows of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from compactor.core.catalog import feed, history_views, landed, live, views
from compactor.core.catalog.ddl import PartitionDef, ViewDef
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows.publish.landing import sync_landing
from compactor.flows.read.verify import verify
from compactor.flows.table import Table
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

COLUMNS = "id INT, seq BIGINT, v STRING, op STRING"

PLANTS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "wrong cell": lambda rows: rows.selectExpr(
        *["CASE WHEN id = 5 THEN 'wrong' ELSE v END AS v" if name == "v" else f"`{name}`" for name in rows.columns]
    ),
    "lost row": lambda rows: rows.where("NOT id = 5"),
    "doubled row": lambda rows: rows.union(rows.where("id = 5")),
}
"""What is done to the rows of one file."""

TEXTS: dict[str, Callable[[ViewDef], str]] = {
    "wrong cell": lambda view: f"SELECT {', '.join(_wrong(column.name) for column in view.columns)} FROM ({view.text}) `__x`",
    "lost row": lambda view: f"SELECT * FROM ({view.text}) `__x` WHERE NOT `id` = 5",
    "doubled row": lambda view: f"{view.text} UNION ALL SELECT * FROM ({view.text}) `__x` WHERE `id` = 5",
}
"""What is done to the text of a view."""

OF_THE_VIEW = {"view equals base and Delta", "view equals full recompute", "current versions equal the view"}
"""The checks that compare the view."""


def _wrong(name: str) -> str:
    return "CASE WHEN `id` = 5 THEN 'wrong' ELSE `v` END AS `v`" if name == "v" else f"`{name}`"


def rows(*values: tuple[int, int, str, str]) -> list[dict[str, object]]:
    return [dict(zip(("id", "seq", "v", "op"), row, strict=True)) for row in values]


@pytest.mark.slow
def test_verify_finds_a_wrong_cell_a_lost_row_and_a_doubled_row_in_view_history_feed_and_live_view(lake: Lake) -> None:
    """The planted files have the sizes that the Snapshot names, so that only the comparison of rows can find them."""
    spec = lake.spec(live_view=True, archive="keep", op="op", history=True, feed="net", write_mode="merge-on-read")
    lake.land_parquet(spec, 1, rows(*((n, 10, f"v{n}", "c") for n in range(1, 9))), COLUMNS)
    lake.run(spec)
    lake.land_parquet(spec, 2, rows((2, 20, "new", "u"), (3, 20, "", "d"), (5, 20, "five", "u"), (6, 5, "late", "u")), COLUMNS)
    lake.run(spec)
    lake.land_parquet(spec, 3, rows((4, 30, "four", "u"), (9, 30, "nine", "c")), COLUMNS)
    sync_landing(Table(lake.env, spec), lake.snapshot(spec))
    assert lake.problems(spec) == []

    snapshot = lake.snapshot(spec)
    assert snapshot.delta is not None
    assert snapshot.history is not None
    assert snapshot.feed is not None
    assert snapshot.feed.part is not None
    closed = snapshot.history.closed[0]
    for name, change in PLANTS.items():
        files = planted(lake, spec, closed.path, change), planted(lake, spec, snapshot.feed.part.path, change)
        shown = text(lake, spec, views.view, name), text(lake, spec, live_view, name), feed_partition(lake, spec, name)
        with ExitStack() as stack:
            for plant in (*files, *shown):
                stack.enter_context(plant)
            expected = {*OF_THE_VIEW, "history equals full recompute", "feed = difference", "live view equals the next version"}
            assert failed(lake, spec) == expected | ({"feed table"} if name != "wrong cell" else set()), name
    with planted(lake, spec, snapshot.delta.path, PLANTS["wrong cell"]), text(lake, spec, history, "wrong cell"):
        assert {"view equals full recompute", "history equals full recompute"} <= failed(lake, spec)
    copy = Path(spec.root) / snapshot.delta.path / "row_state=live/part-copy.parquet"
    copy.write_bytes(next(copy.parent.glob("*.parquet")).read_bytes())
    files = next(check for check in verify(Table(dataclasses.replace(lake.env, files_only=True), spec)) if check.name == "files")
    assert not files.ok
    assert files.detail.startswith(f"{snapshot.delta.path}/row_state=live/part-copy.parquet: expected nothing, found")


def live_view(spec: TableSpec, snapshot: Snapshot) -> ViewDef:
    return live.live_view(spec, snapshot, landed.table(spec, snapshot), {"increment_2024030503": 0})


def history(spec: TableSpec, snapshot: Snapshot) -> ViewDef:
    assert snapshot.history is not None
    return history_views.view(spec, snapshot, snapshot.history)


def failed(lake: Lake, spec: TableSpec) -> set[str]:
    return {problem.partition(":")[0] for problem in lake.problems(spec)}


class planted:
    """Change the rows of the first file in a directory of the table; the Snapshots name its new size. Everything is put back at the end."""

    def __init__(self, lake: Lake, spec: TableSpec, path: str, change: Callable[[DataFrame], DataFrame]) -> None:
        folder = Path(spec.root) / path
        self.file = min([*folder.glob("row_state=live/*.parquet"), *folder.glob("*.parquet")])
        self.name = self.file.relative_to(folder).as_posix()
        self.lake, self.path, self.change = lake, path, change
        snapshots = [Path(Table(lake.env, spec).layout.snapshot(version)) for version in range(1, lake.snapshot(spec).version + 1)]
        self.before = {each: each.read_bytes() for each in [self.file, *snapshots]}

    def __enter__(self) -> None:
        made = self.file.parent.parent / "_planted"
        self.change(self.lake.spark.read.parquet(str(self.file))).coalesce(1).write.mode("overwrite").parquet(str(made))
        data = next(made.glob("*.parquet")).read_bytes()
        for each in [*made.iterdir()]:
            each.unlink()
        made.rmdir()
        self.write(self.file, data)
        for path in self.before:
            if path != self.file:
                path.write_text(json.dumps(self.resized(json.loads(path.read_text()), len(data))))

    def resized(self, value: object, size: int, mine: bool = False) -> object:
        """Files of several directories have the same name."""
        if isinstance(value, dict):
            mine = value["path"] == self.path if "path" in value else mine
            own = {"size": size, "checksum": ""} if mine and value.get("name") == self.name else {}
            return {key: self.resized(member, size, mine) for key, member in value.items()} | own
        if isinstance(value, list):
            return [self.name, size] if mine and value[:1] == [self.name] else [self.resized(member, size, mine) for member in value]
        return value

    def write(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        # Hadoop's checksum of the file that was there
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        for path, data in self.before.items():
            self.write(path, data)


class text:
    """Give a view another text. The right one comes back at the end."""

    def __init__(self, lake: Lake, spec: TableSpec, view: Callable[..., ViewDef], name: str) -> None:
        self.catalog, self.right = lake.env.catalog(), view(spec, lake.snapshot(spec))
        self.wrong = dataclasses.replace(self.right, text=TEXTS[name](self.right))

    def __enter__(self) -> None:
        self.catalog.replace_view(self.wrong)

    def __exit__(self, *_: object) -> None:
        self.catalog.replace_view(self.right)


class feed_partition:
    """Unregister the newest partition of the feed, or register it again under another value."""

    def __init__(self, lake: Lake, spec: TableSpec, name: str) -> None:
        self.name, self.catalog = name, lake.env.catalog()
        snapshot = lake.snapshot(spec)
        partition = feed.partition(spec, snapshot)
        assert partition is not None
        self.table, self.right = feed.table(spec, snapshot), partition
        self.copy = PartitionDef((f"{partition.values[0]}x",), partition.location)

    def __enter__(self) -> None:
        if self.name == "lost row":
            self.catalog.drop_partitions(self.table.database, self.table.name, [self.right.values])
        if self.name == "doubled row":
            self.catalog.ensure_partitions(self.table.database, self.table.name, [self.copy])

    def __exit__(self, *_: object) -> None:
        self.catalog.drop_partitions(self.table.database, self.table.name, [self.copy.values])
        self.catalog.ensure_partitions(self.table.database, self.table.name, [self.right])
