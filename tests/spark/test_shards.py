"""Shards: several sources of one shape in one table. The rows are those of all sources, whatever comes when."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from compactor.app import App
from tests.parts.one_spark import app_on_one_spark

__all__ = ["app_on_one_spark"]

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("app_on_one_spark")]

Row = dict[str, Any]


class Source:
    """A database with one table, whose positions are its own."""

    def __init__(self, name: str, lsn: int, seed: int) -> None:
        self.name, self.lsn, self.commit, self.draw = name, lsn, lsn - 1, random.Random(seed)
        self.rows: dict[int, Row] = {}

    def changed(self, op: str, before: Row | None, after: Row | None) -> dict[str, Any]:
        """The document of a change, one transaction each."""
        source = {"connector": "postgresql", "schema": "public", "table": "orders", "txId": self.lsn, "lsn": self.lsn}
        document = {"op": op, "before": before, "after": after, "source": {**source, "sequence": json.dumps([str(self.commit), str(self.lsn)])}}
        self.commit, self.lsn = self.lsn, self.lsn + 2
        return document

    def put(self, key: int, value: str, body: str | None) -> dict[str, Any]:
        """An insert or update. `body` None: unchanged, and not sent."""
        old = self.rows.get(key)
        kept = body is None and old is not None
        self.rows[key] = {"id": key, "v": value, "body": old["body"] if old is not None and kept else body}
        sent = {**self.rows[key], **({"body": "__debezium_unavailable_value"} if kept else {})}
        return self.changed("u" if old else "c", old, sent)

    def delete(self, key: int) -> dict[str, Any]:
        """A delete."""
        return self.changed("d", self.rows.pop(key), None)

    def truncate(self) -> dict[str, Any]:
        """A truncate."""
        self.rows.clear()
        return self.changed("t", None, None)

    def work(self, count: int, truncates: bool) -> list[dict[str, Any]]:
        """Random changes of few keys."""
        out = []
        for number in range(count):
            key = self.draw.randint(1, 6)
            kind = self.draw.random()
            if truncates and number == count // 2:
                out.append(self.truncate())
            elif kind < 0.25 and key in self.rows:
                out.append(self.delete(key))
            else:
                out.append(self.put(key, f"{self.name}{number}", None if kind < 0.5 else f"body {number}"))
        return out


def land(landing: Path, source: Source, hour: int, changes: list[dict[str, Any]]) -> None:
    """A file of a shard."""
    folder = landing / source.name / f"increment_20261120{hour:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "part-0.json").write_text("".join(json.dumps(each) + "\n" for each in changes), encoding="utf-8")


def shown(app: App) -> list[tuple[Any, ...]]:
    """The rows of the view."""
    return sorted(tuple(row) for row in app.runtime.spark().sql("SELECT region, id, v, body FROM proof.orders").collect())


def rows(*sources: Source) -> list[tuple[Any, ...]]:
    """The rows of all sources."""
    return sorted((source.name, row["id"], row["v"], row["body"]) for source in sources for row in source.rows.values())


def opened(tmp_path: Path, settings: str) -> App:
    """An App with one table of shards."""
    config = tmp_path / "compactor.yaml"
    config.write_text(
        f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\ntables:\n"
        f'  orders: {{envelope: debezium, increments: "{tmp_path}/landing/{{region}}/increment_%Y%m%d%H", {settings}}}\n'
    )
    return App.open(config)


def ingested(app: App) -> None:
    """Run, and fail as the run does."""
    (report,) = app.run(["orders"])
    assert report.error is None, report.error


@pytest.mark.slow
def test_a_truncate_of_one_shard_and_a_late_event_of_the_other(tmp_path: Path) -> None:
    """Equal keys, and positions that say nothing about each other: the truncate's is greater than all of the other shard's."""
    eu, us = Source("eu", 9_000_000, 1), Source("us", 10, 2)
    with opened(tmp_path, "key: [id], change_feed: true") as app:
        landing = tmp_path / "landing"
        land(landing, eu, 1, [eu.put(1, "a", "A"), eu.put(2, "b", "B")])
        us_first = [us.put(1, "x", "X"), us.put(2, "y", "Y"), us.put(3, "z", "Z")]
        land(landing, us, 1, [us_first[0], us_first[2]])
        ingested(app)
        assert shown(app) == [("eu", 1, "a", "A"), ("eu", 2, "b", "B"), ("us", 1, "x", "X"), ("us", 3, "z", "Z")]
        late = eu.put(4, "late", "L")
        land(landing, eu, 2, [eu.truncate(), eu.put(2, "new", "N")])
        ingested(app)
        assert shown(app) == [("eu", 2, "new", "N"), ("us", 1, "x", "X"), ("us", 3, "z", "Z")]
        changes = app.runtime.spark().sql("SELECT _change_type, region, id FROM proof.orders_changes WHERE _commit_version = 2").collect()
        assert sorted(map(tuple, changes)) == [("delete", "eu", 1), ("update_postimage", "eu", 2), ("update_preimage", "eu", 2)]
        land(landing, us, 3, [us_first[1]])
        land(landing, eu, 3, [late])
        ingested(app)
        assert shown(app) == rows(eu, us)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_the_table_has_the_rows_of_all_shards(seed: int, tmp_path: Path) -> None:
    """Random changes with truncates and left-out values, in random order over several runs; then compacted, verified and rebuilt."""
    sources = [Source("eu", 5_000, seed), Source("us", 100, seed + 10), Source("asia", 4_990, seed + 20)]
    draw = random.Random(seed)
    with opened(tmp_path, "key: [id], write_mode: merge-on-read, read_optimized: true") as app:
        batches = {source.name: source.work(24, source.name != "us") for source in sources}
        hours: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for source in sources:
            for change in batches[source.name]:
                hours.setdefault((source.name, draw.randint(1, 3)), []).append(change)
        for hour in (1, 2, 3):
            for source in sources:
                landed = hours.get((source.name, hour), [])
                draw.shuffle(landed)
                land(tmp_path / "landing", source, hour, landed)
            ingested(app)
        assert shown(app) == rows(*sources)
        # no truncate, which makes a new base
        land(tmp_path / "landing", sources[1], 4, sources[1].work(4, False))
        ingested(app)
        assert shown(app) == rows(*sources)
        assert app.table("orders").newest().delta is not None  # type: ignore[union-attr]
        app.run(["orders"], compact=True)
        assert app.table("orders").newest().delta is None  # type: ignore[union-attr]
        assert shown(app) == rows(*sources)
        assert app.rebuild("orders").outcome == "published"
        assert shown(app) == rows(*sources)
        failed = [check for check in app.verify(["orders"]) if not check.ok]
        assert not failed, failed


@pytest.mark.slow
def test_rows_without_a_key_belong_to_their_shard(tmp_path: Path) -> None:
    """Equal events of two shards are two rows; a delete takes one of its own shard, a truncate all of it."""
    with opened(tmp_path, "key: []") as app:
        eu, us = Source("eu", 100, 1), Source("us", 100, 2)
        row = {"id": 1, "v": "same", "body": "text"}
        for source in (eu, us):
            land(tmp_path / "landing", source, 1, [source.changed("c", None, row), source.changed("c", None, row), source.changed("c", None, row)])
        ingested(app)
        assert len(shown(app)) == 6
        land(tmp_path / "landing", us, 2, [us.changed("d", row, None)])
        ingested(app)
        assert [region for region, *_ in shown(app)] == ["eu", "eu", "eu", "us", "us"]
        land(tmp_path / "landing", eu, 3, [eu.changed("t", None, None), eu.changed("c", None, row)])
        ingested(app)
        assert [region for region, *_ in shown(app)] == ["eu", "us", "us"]


def test_a_column_of_the_rows_with_the_shard_s_name_is_refused(tmp_path: Path) -> None:
    """With the name to change."""
    with opened(tmp_path, "key: [id]") as app:
        eu = Source("eu", 100, 1)
        land(tmp_path / "landing", eu, 1, [eu.changed("c", None, {"id": 1, "region": "inside"})])
        (report,) = app.run(["orders"])
        assert report.error is not None
        assert "the rows have a column region themselves" in report.error
