"""The change feed through the real flows: applied from any version to any later one it gives that version; what is named is kept, and no longer."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.catalog import feed as feeds
from compactor.core.catalog import views
from compactor.core.model.errors import NoRowsYet, Refused, Unavailable
from compactor.core.model.policy import Policy
from compactor.core.model.snapshot import Snapshot
from compactor.flows.read.status import status
from compactor.flows.read.visible import changes
from compactor.flows.table import Table
from tests.faults import Crash, Faults
from tests.flows.test_programs import STEPS, files, sent
from tests.oracle.lake import Lake, table
from tests.oracle.model import Key, Row, cast, line
from tests.oracle.sizes import sized
from tests.oracle.whole_engine import WholeEngine

DAY = 86400.0


def one(lake: Lake, name: str, *lines: str) -> Any:
    """Deliver a file of the first hour and run."""
    lake.deliver(f"increment_2026010100/{name}.json", lines)
    return lake.run()


def parts(lake: Lake, start: int, to: int | None = None) -> list[Snapshot]:
    """What `compactor changes` would read."""
    return list(changes(Table(lake.env(), lake.spec), start, to))


def told(lake: Lake, start: int, to: int | None = None) -> list[dict[str, Any]]:
    """The feed's rows."""
    engine = WholeEngine(lake.storage)
    return [json.loads(each) for snapshot in parts(lake, start, to) for each in engine.read_feed(lake.spec, snapshot)]


def rows_of(lake: Lake, snapshot: Snapshot | None, last: Snapshot) -> dict[Key, Row]:
    """A version's rows by key, in the columns of `last`."""
    return WholeEngine(lake.storage).rows(lake.spec, snapshot, last.schema)


def followed(lake: Lake, rows: dict[Key, Row], start: int, last: Snapshot) -> dict[Key, Row]:
    """A copy of version `start` brought to `last`, version by version: the columns of each (a restore may take some away), then its changes."""
    for snapshot in lake.committed():
        if start < snapshot.version <= last.version:
            rows = {key: {name: value for name, value in row.items() if name in snapshot.schema.names} for key, row in rows.items()}
            part = list(WholeEngine(lake.storage).read_feed(lake.spec, snapshot)) if snapshot.feed and snapshot.feed.part else []
            rows = applied(rows, [json.loads(each) for each in part], last)
    return rows


def applied(rows: dict[Key, Row], feed: list[dict[str, Any]], last: Snapshot) -> dict[Key, Row]:
    """A copy of `rows` after these changes, by the plainest consumer; it refuses a change that does not fit."""
    out = dict(rows)
    kinds = {field.name: field.type for field in last.schema.fields}
    for change in feed:
        row = {name: cast(value, kinds[name]) for name, value in change.items() if name in kinds and value is not None}
        key = tuple(row.pop(name) for name in last.schema.key)
        kind = change["_change_type"]
        if kind == "insert":
            assert key not in out
            out[key] = row
        elif kind == "update_postimage":
            assert key in out
            out[key] = row
        else:
            assert out[key] == row, f"the image of before of {key}"
            if kind == "delete":
                del out[key]
    return out


@sized(60)
@given(
    steps=STEPS,
    seed=st.integers(0, 10_000),
    write_mode=st.sampled_from(("merge-on-read", "auto", "copy-on-write")),
    segment=st.sampled_from((300, 100_000)),
    compact_every=st.sampled_from((0.0, 3.0)),
)
def test_the_feed_applied_from_any_version_gives_any_later_one(
    steps: list[tuple[str, int, int]], seed: int, write_mode: str, segment: int, compact_every: float
) -> None:
    """Over commits of both kinds, truncates, restores, taking again, pins and folds; folds and pins have no part; verify finds nothing."""
    rng = random.Random(seed)
    lake = Lake(table(write_mode=write_mode, target_file_bytes=segment, compact_every=compact_every, feed="net", keep_versions=1000))
    for path, lines in files(sent(steps), rng, rng.randint(2, 6)):
        lake.deliver(path, lines)
        try:
            lake.run()
        except NoRowsYet:
            continue
        known = lake.restorable()
        act = rng.choice(("", "", "restore", "reabsorb", "pin"))
        if act == "restore":
            lake.restore(rng.choice(known))
        elif act == "reabsorb":
            lake.reabsorb()
        elif act == "pin":
            lake.pin(known[-1], f"p{known[-1]}")
    versions = list(lake.committed())
    for snapshot in versions:
        assert snapshot.feed is not None
        assert snapshot.feed.part is None or snapshot.operation in ("commit", "restore", "reabsorb")
    every: list[Snapshot | None] = [None, *versions]
    for start, before in enumerate(every[:-1]):
        # a restore that takes columns away begins the feed anew: who is before it is refused
        for last in [each for each in versions[start:] if each.feed is not None and each.feed.began <= start]:
            found = followed(lake, rows_of(lake, before, last), start, last)
            assert found == rows_of(lake, last, last), f"{start} to {last.version}"
    assert lake.failed_checks() == []


def test_what_one_commit_changes_is_one_change_a_key() -> None:
    """insert, update, delete; the images of before are the rows as they were; what changes nothing makes nothing."""
    lake = Lake(table(feed="net", compact_every=1e9))
    one(lake, "a", *(line("c", [key], [key], {"a": key}) for key in range(1, 5)))
    one(
        lake, "b",
        line("u", [1], [10], {"a": 10}), line("u", [1], [11], {"a": 11}),
        line("d", [2], [12]), line("d", [3], [13]), line("c", [3], [14], {"a": 33}),
        line("u", [4], [15], {"a": 4}), line("c", [5], [16], {"a": 5}), line("c", [6], [17], {"a": 6}), line("d", [6], [18]),
        line("d", [5], [19]), line("c", [9], [19], {"a": 1}),
    )  # fmt: skip
    assert [(each["_change_type"], each["id"], each["a"]) for each in told(lake, 1)] == [
        ("update_preimage", 1, 1), ("update_postimage", 1, 11), ("delete", 2, 2),
        ("update_preimage", 3, 3), ("update_postimage", 3, 33), ("insert", 9, 1),
    ]  # fmt: skip
    part = lake.newest().feed.part  # type: ignore[union-attr]
    assert (part.inserts, part.updates, part.deletes, part.rows) == (1, 2, 1, 6)
    version = lake.newest().version  # type: ignore[union-attr]
    one(lake, "again", line("d", [2], [12]), line("c", [3], [14], {"a": 33}))
    assert told(lake, version) == []
    assert parts(lake, version) == []


def test_a_feed_switched_on_later_begins_there_and_says_so() -> None:
    """Asked for older changes it names the version from which on there are some; switched off it is gone, and on again it begins anew."""
    lake = Lake(table(compact_every=1e9))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    with pytest.raises(Refused, match=r"version 1 has no change feed; set `change_feed: true`"):
        parts(lake, 0)
    lake.spec = dataclasses.replace(lake.spec, feed="net")
    with pytest.raises(Refused, match="it begins with the next run that has changes"):
        parts(lake, 1)
    one(lake, "b", line("u", [1], [2], {"a": 2}))
    assert [each["a"] for each in told(lake, 1)] == [1, 2]
    with pytest.raises(Refused, match=r"the changes from version 0 on are not available; the change feed begins at version 1"):
        parts(lake, 0)
    with pytest.raises(Refused, match="expected a version up to 2, which readers see, found 3"):
        parts(lake, 3)
    with pytest.raises(Refused, match="expected a version up to 2, which readers see, found 9"):
        parts(lake, 1, 9)
    lake.spec = dataclasses.replace(lake.spec, feed="off")
    one(lake, "c", line("u", [1], [3], {"a": 3}))
    assert lake.newest().feed.mode == "off"  # type: ignore[union-attr]
    lake.spec = dataclasses.replace(lake.spec, feed="net")
    one(lake, "d", line("u", [1], [4], {"a": 4}))
    with pytest.raises(Refused, match="begins at version 3"):
        parts(lake, 1)
    assert [each["a"] for each in told(lake, 3)] == [3, 4]
    lake.spec = dataclasses.replace(lake.spec, delete="soft")
    one(lake, "e", line("u", [1], [5], {"a": 5}))
    # what is deleted is shown from then on: no copy of version 4 with these changes would have it
    with pytest.raises(Refused, match="begins at version 5"):
        parts(lake, 4)


def test_a_table_without_feed_knows_nothing_of_it() -> None:
    """No directory, no table, nothing in its Snapshots, no call of the engine's."""
    lake = Lake(table())
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    one(lake, "b", line("u", [1], [2], {"a": 2}))
    assert lake.newest().feed is None  # type: ignore[union-attr]
    assert list(lake.storage.list(f"{lake.spec.root}/feed")) == []
    assert lake.catalog.table("school", "t_changes") is None


def test_sql_finds_every_part_in_the_catalog_before_the_view_moves() -> None:
    """One partition a version, named by the commit; a run that died before it published leaves its part to the next."""
    lake = Lake(table(feed="net", compact_every=1e9))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    for number in range(2, 5):
        lake.deliver(f"increment_2026010101/{number}.json", [line("u", [1], [number], {"a": number})])
        with pytest.raises(Unavailable):
            lake.run(Faults(1, "from_then_on", only=["ensure_table"], error="unavailable"))
        lake.run()
    found = lake.catalog.partitions("school", "t_changes")
    snapshots = [each for each in lake.committed() if each.feed and each.feed.part]
    assert [partition.values for partition in found] == [(each.writer,) for each in snapshots]
    assert [partition.rows for partition in found] == [each.feed.part.rows for each in snapshots]  # type: ignore[union-attr]
    assert sorted(partition.values[0] for partition in found)[-1] >= f"v{lake.newest().version:08d}"  # type: ignore[union-attr]


def test_columns_that_change_their_type_bring_a_table_of_their_own() -> None:
    """The feed goes on in `t_changes_g2`; the images of before have the new type."""
    lake = Lake(table(feed="net", compact_every=1e9, policy=Policy(kinds=(("to_string", "evolve"),))))
    one(lake, "a", line("c", [1], [1], {"a": 1}), line("c", [2], [2], {"a": 2}))
    one(lake, "b", line("u", [1], [3], {"a": "text"}))
    assert [(each["_change_type"], each["a"]) for each in told(lake, 1)] == [("update_preimage", "1"), ("update_postimage", "text")]
    assert len(lake.catalog.partitions("school", "t_changes")) == 1
    assert len(lake.catalog.partitions("school", "t_changes_g2")) == 1
    assert feeds.table(lake.spec, lake.newest()).columns[:2] == lake.catalog.table("school", "t_changes_g2").columns[:2]  # type: ignore[arg-type, union-attr]


def aged(**settings: Any) -> Lake:
    """Five versions, a day apart, of which readers have the last."""
    lake = Lake(table(feed="net", grace=3600.0, keep=DAY, compact_every=1e9, **settings))
    for number in range(5):
        one(lake, f"f{number}", line("u", [1], [number], {"a": number}))
        lake.now += DAY
    return lake


def test_changes_outlive_the_versions_they_made() -> None:
    """With a longer retention than `keep` stubs name them still; partitions stay, and applying goes on as before."""
    lake = aged(feed_retention=30 * DAY, keep_versions=1)
    lake.vacuum()
    assert [each.version for each in lake.committed() if each.expired]
    assert [each["a"] for each in told(lake, 0)] == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    lake.now += DAY
    lake.vacuum()
    assert [each["a"] for each in told(lake, 0)] == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert len(lake.catalog.partitions("school", "t_changes")) == 5


@pytest.mark.parametrize("keep_versions", [1, 100])
def test_changes_past_their_retention_go_whether_or_not_their_version_is_kept(keep_versions: int) -> None:
    """Partitions first, files a grace period later; the reader that comes too late is told from where to go on."""
    lake = aged(feed_retention=2.5 * DAY, keep_versions=keep_versions)
    lake.vacuum()
    assert len(lake.catalog.partitions("school", "t_changes")) == 2
    files = {info.path.split("/")[4] for info in lake.storage.list(f"{lake.spec.root}/feed")}
    assert len(files) == 5
    with pytest.raises(Refused, match=r"older changes are past `keep`: it can be read from version 3 on"):
        parts(lake, 2)
    assert [each["a"] for each in told(lake, 3)] == [2, 3, 3, 4]
    lake.now += 7200
    lake.vacuum()
    assert {info.path.split("/")[4] for info in lake.storage.list(f"{lake.spec.root}/feed")} == {
        partition.values[0] for partition in lake.catalog.partitions("school", "t_changes")
    }
    assert lake.failed_checks() == []


def test_a_feed_that_was_switched_off_goes() -> None:
    """With the next vacuum, as what expired."""
    lake = aged(feed_retention=30 * DAY)
    lake.spec = dataclasses.replace(lake.spec, feed="off")
    one(lake, "off", line("u", [1], [100], {"a": 100}))
    lake.vacuum()
    assert lake.catalog.partitions("school", "t_changes") == []
    lake.now += 7200
    lake.vacuum()
    assert list(lake.storage.list(f"{lake.spec.root}/feed")) == []
    assert lake.failed_checks() == []


def test_what_a_dead_run_wrote_of_the_feed_is_garbage() -> None:
    """Killed between the changes and the Snapshot: vacuum takes the directory, the next run writes its own."""
    lake = Lake(table(feed="net", grace=3600.0, compact_every=1e9))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    lake.deliver("increment_2026010101/b.json", [line("u", [1], [2], {"a": 2})])
    with pytest.raises(Crash):
        lake.run(Faults(1, only=["put_if_absent"]))
    left = {info.path for info in lake.storage.list(f"{lake.spec.root}/feed")}
    assert len(left) == 2
    lake.now += DAY
    lake.run()
    lake.now += DAY
    lake.vacuum()
    named = {each.feed.part.path for each in lake.committed() if each.feed and each.feed.part}
    assert {lake.layout.unit(info.path)[0] for info in lake.storage.list(f"{lake.spec.root}/feed")} == named  # type: ignore[index]
    assert lake.failed_checks() == []


def test_following_ends_only_where_it_is_told_to() -> None:
    """New versions come as they are committed, found by name; folds and pins are passed over."""
    lake = Lake(table(feed="net", compact_every=1e9))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    waited = []

    def wait() -> None:
        waited.append(len(waited))
        if len(waited) % 2:
            lake.pin(1, f"p{len(waited)}")
        else:
            one(lake, f"w{len(waited)}", line("u", [1], [len(waited) * 10], {"a": len(waited) * 10}))

    found = [snapshot.version for snapshot in changes(Table(lake.env(), lake.spec), 0, 5, wait)]
    assert found == [1, 3, 5]
    assert len(waited) == 4


def test_verify_sees_a_part_that_lacks_a_row_or_a_file() -> None:
    """Against the difference of the two versions, and against the sizes in the Snapshot."""
    lake = Lake(table(feed="net", compact_every=1e9))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    one(lake, "b", line("u", [1], [2], {"a": 2}))
    (info,) = lake.storage.list(f"{lake.spec.root}/{lake.newest().feed.part.path}")  # type: ignore[union-attr]
    data = lake.storage.read(info.path)
    lake.storage.write(info.path, data.replace(b'"a": 1', b'"a": 7'))
    assert lake.failed_checks() == ["feed = difference: version 2: they differ"]
    lake.storage.delete([info.path])
    assert any("found nothing" in problem for problem in lake.failed_checks())


def test_status_tells_from_where_the_feed_can_be_read() -> None:
    """Its mode and its first version; nothing for a table without."""
    lake = Lake(table(feed="net", compact_every=1e9))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    found = status(Table(lake.env(), lake.spec))
    assert (found.feed, found.feed_from) == ("net", 0)
    plain = Lake(table())
    one(plain, "a", line("c", [1], [1], {"a": 1}))
    found = status(Table(plain.env(), plain.spec))
    assert (found.feed, found.feed_from) == ("off", None)


def test_a_stored_column_with_one_of_the_feeds_own_names_is_refused() -> None:
    """It came before the names were reserved."""
    lake = Lake(table())
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    newest = lake.newest()
    assert newest is not None
    fields = tuple(dataclasses.replace(field, name="_change_type") if field.name == "a" else field for field in newest.schema.fields)
    with pytest.raises(Refused, match="_change_type has the name of a column of the change feed"):
        feeds.check_names("t", dataclasses.replace(newest.schema, fields=fields))
    assert views.table_name(lake.spec, feeds.TABLE, 2) == "t_changes_g2"
