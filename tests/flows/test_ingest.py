"""Kafka topics into landing folders: every offset in exactly one file, whatever dies on the way."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

import pytest

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.sources import increment
from compactor.core.sources.kafka_files import Bounds, Fetched, Offsets, offsets_of
from compactor.flows.environment import Environment
from compactor.flows.land.ingest import Ingest, Ingested
from compactor.ports import Storage
from tests.faults import MODES, Crash, FaultyStorage, every_fault
from tests.oracle.lake import Lake
from tests.oracle.lake import table as on_topic
from tests.oracle.model import line
from tests.oracle.watch import Intrusion
from tests.parts.memory_storage import MemoryStorage

HOUR = 3600.0


@dataclass
class FakeTopics:
    """A cluster in memory: records are the times at which they were written, None where a transaction was aborted; `begins` is what is kept."""

    storage: Storage
    records: dict[tuple[str, int], list[float | None]]
    begins: dict[tuple[str, int], int] = field(default_factory=dict)
    topic_id: str = ""

    def bounds(self, topics: Sequence[str]) -> Mapping[tuple[str, int], Bounds]:
        return {place: Bounds(self.begins.get(place, 0), len(found), self.topic_id) for place, found in self.records.items() if place[0] in topics}

    def fetch(self, wanted: Sequence[Offsets], staging: str) -> list[Fetched]:
        out = []
        for item in wanted:
            times = self.records[item.topic, item.partition][item.first : item.last + 1]
            held = [(item.first + at, time) for at, time in enumerate(times) if time is not None]
            if not held:
                continue
            path = join(staging, f"{item.topic}-{item.partition}.parquet")
            self.storage.write(path, json.dumps([offset for offset, _ in held]).encode())
            info = self.storage.stat(path)
            assert info is not None
            out.append(Fetched(item, info, len(held), max(time for _, time in held)))
        return out


def table(name: str = "student", **settings: str) -> TableSpec:
    landing = {"landing": f"/lake/{name}/incremental", "pattern": "increment_%Y%m%d%H", **settings}
    return TableSpec(name, f"/lake/{name}", database="d", view=name, tables_in="d", key=("id",), topic=f"pg.{name}", **landing)  # type: ignore[arg-type]


def _none() -> NoReturn:
    raise AssertionError("ingest needs no engine and no catalog")


def ingest(storage: Storage, topics: FakeTopics, *specs: TableSpec, max_records: int = 4, skip_lost: bool = False) -> list[Ingested]:
    return Ingest(Environment(storage, _none, _none), topics, specs or (table(),), "/lake/_ingest", max_records, skip_lost).all_there_is()


def landed(storage: Storage) -> dict[str, list[int]]:
    """Path below /lake → the offsets inside, of everything that is in a landing folder or archived."""
    return {info.path[6:]: json.loads(storage.read(info.path)) for info in storage.list("/lake") if "/_ingest/" not in info.path}


def offsets(storage: Storage, topic: str = "pg.student", partition: int = 0) -> list[int]:
    """The offsets in files, as often as they are there, in order."""
    named = {path: offsets_of(path) for path in landed(storage)}
    return sorted(
        offset
        for path, inside in landed(storage).items()
        if (found := named[path]) and (found.topic, found.partition) == (topic, partition)
        for offset in inside
    )


def test_records_go_to_the_folder_of_their_hour_in_files_of_bounded_size() -> None:
    """The hour is the newest record's; a second call lands nothing, a third what has come since."""
    storage = MemoryStorage()
    topics = FakeTopics(storage, {("pg.student", 0): [0.0] * 6 + [HOUR] * 3, ("pg.student", 1): [2 * HOUR]})
    assert [Ingested("student", "pg.student", 10, 4, 0)] == ingest(storage, topics)
    assert [Ingested("student", "pg.student", 0, 0, 0)] == ingest(storage, topics)
    topics.records["pg.student", 1].append(3 * HOUR)
    assert [Ingested("student", "pg.student", 1, 1, 0)] == ingest(storage, topics)
    zeros = "0" * 18
    assert {
        f"student/incremental/increment_1970010100/pg.student+0+{zeros}0-{zeros}3.parquet": [0, 1, 2, 3],
        f"student/incremental/increment_1970010101/pg.student+0+{zeros}4-{zeros}7.parquet": [4, 5, 6, 7],
        f"student/incremental/increment_1970010101/pg.student+0+{zeros}8-{zeros}8.parquet": [8],
        f"student/incremental/increment_1970010102/pg.student+1+{zeros}0-{zeros}0.parquet": [0],
        f"student/incremental/increment_1970010103/pg.student+1+{zeros}1-{zeros}1.parquet": [1],
    } == landed(storage)


@pytest.mark.parametrize("place", ["/lake/student/archive", "/lake/student/quarantine"])
def test_what_was_absorbed_or_put_aside_is_not_landed_again(place: str) -> None:
    """Also under the names that the archive gives when the plain one is taken."""
    storage = MemoryStorage()
    storage.write(f"{place}/increment_1970010100/ab12~{Offsets('pg.student', 0, 0, 5).name()}", b"[0, 1, 2, 3, 4, 5]")
    ingest(storage, FakeTopics(storage, {("pg.student", 0): [0.0] * 7}))
    assert list(range(7)) == offsets(storage)


@pytest.mark.parametrize(("before", "after"), [("incremental", "quarantine"), ("incremental", "archive"), ("quarantine", "archive")])
def test_a_file_that_moves_meanwhile_is_not_landed_again(before: str, after: str) -> None:
    """A run archives it, or a replay takes it out of quarantine, at any call."""
    name = f"increment_1970010100/{Offsets('pg.student', 0, 0, 5).name()}"
    for at in itertools.count(1):
        storage = MemoryStorage()
        storage.write(f"/lake/student/{before}/{name}", b"[0, 1, 2, 3, 4, 5]")

        def moved(storage: MemoryStorage = storage) -> None:
            info = storage.stat(f"/lake/student/{before}/{name}")
            assert info is not None
            storage.move(info, f"/lake/student/{after}/{name}")

        intrusion = Intrusion(at, moved)
        faulty: Storage = FaultyStorage(storage, intrusion)
        ingest(faulty, FakeTopics(faulty, {("pg.student", 0): [0.0] * 7}))
        if not intrusion.happened:
            break
        assert list(range(7)) == offsets(storage)
    assert at > 8


@pytest.mark.parametrize("mode", MODES)
def test_a_process_that_dies_anywhere_neither_loses_nor_doubles(mode: str) -> None:
    """At the n-th operation on the storage, for every n; half of the files are archived between the two lives."""
    for faults in every_fault(mode=mode):
        storage = MemoryStorage()
        topics = FakeTopics(storage, {("pg.student", 0): [float(n) * 1000 for n in range(9)], ("pg.student", 1): [5.0] * 3})
        topics.storage = FaultyStorage(storage, faults)  # type: ignore[assignment]
        with suppress(Crash):
            ingest(topics.storage, topics)
        for at, info in enumerate([*storage.list("/lake/student/incremental")]):
            if at % 2:
                storage.move(info, info.path.replace("/incremental/", "/archive/"))
        topics.storage = storage
        ingest(storage, topics)
        assert (list(range(9)), [0, 1, 2]) == (offsets(storage), offsets(storage, partition=1)), faults.calls
        assert [] == list(storage.list("/lake/_ingest"))


def test_stretches_without_records_are_passed() -> None:
    """Aborted transactions: longer ones than a file takes too."""
    storage = MemoryStorage()
    topics = FakeTopics(storage, {("pg.student", 0): [0.0, None, *[None] * 9, 1.0, None]})
    assert [Ingested("student", "pg.student", 2, 2, 0)] == ingest(storage, topics)
    assert [0, 11] == offsets(storage)


def test_each_topic_goes_to_its_table() -> None:
    """Flat folders too; hours are told in the table's zone."""
    storage = MemoryStorage()
    topics = FakeTopics(storage, {("pg.student", 0): [0.0], ("pg.course", 0): [0.0], ("pg.other", 0): [0.0]})
    ingest(storage, topics, table(hours_in="Asia/Kolkata"), table("course", pattern=""))
    assert {"student/incremental/increment_1970010105", "course/incremental"} == {path.rpartition("/")[0] for path in landed(storage)}


def test_a_topic_created_anew_is_refused() -> None:
    """Its offsets begin again: landing them under names that are taken would lose them."""
    storage = MemoryStorage()
    ingest(storage, FakeTopics(storage, {("pg.student", 0): [0.0] * 9}))
    with pytest.raises(Refused, match=r"offsets up to 8 are landed, and the topic ends before 2\. It was created anew"):
        ingest(storage, FakeTopics(storage, {("pg.student", 0): [0.0] * 2}))


def test_a_topic_created_anew_is_refused_by_its_id_and_landed_whole_with_the_next_epoch() -> None:
    """It has more records than were landed: going on at the old offset would lose the first ones. What landed before is ingested first."""
    lake = Lake(on_topic(topic="pg.student"))
    topics = FakeTopics(lake.storage, {("pg.student", 0): [0.0] * 3}, topic_id="first")
    ingest(lake.storage, topics, lake.spec)
    topics.topic_id, topics.records["pg.student", 0] = "second", [0.0] * 6
    newer = dataclasses.replace(lake.spec, epoch=1)
    for spec in (lake.spec, newer):
        with pytest.raises(Refused, match=r"created anew: it has the id second, and files of the id first are landed.* set `epoch: [12]`"):
            ingest(lake.storage, topics, spec)
    for path, _ in lake.landing():
        lake.deliver(path, [line("c", [1], [1], {"a": 1})])
    lake.run()
    with pytest.raises(Refused, match="set `epoch: 1`"):
        ingest(lake.storage, topics, lake.spec)
    assert [Ingested("t", "pg.student", 6, 2, 0)] == ingest(lake.storage, topics, newer)
    assert [Ingested("t", "pg.student", 0, 0, 0)] == ingest(lake.storage, topics, newer)
    assert {(0, 3), (4, 5)} == {(found.first, found.last) for path, _ in lake.landing() if (found := offsets_of(path)) and found.topic_id == "second"}


def test_vacuum_keeps_the_newest_file_of_each_partition() -> None:
    """`archive_retention` deletes the others; ingest goes on where it was."""
    lake = Lake(on_topic(topic="pg.student", archive_retention=10.0, quarantine_share=1.0))
    topics = FakeTopics(lake.storage, {("pg.student", 0): [0.0] * 9, ("pg.student", 1): [0.0] * 3})
    ingest(lake.storage, topics, lake.spec)
    for number, (path, _) in enumerate(sorted(lake.landing())):
        lake.deliver(path, [line("c", [number], [number], {"a": 1})])
    lake.run()
    lake.now += 1000.0
    lake.vacuum()
    lake.vacuum()
    assert {(0, 8), (1, 2)} == {(found.partition, found.last) for info in lake.storage.list("/lake/t/archive") if (found := offsets_of(info.path))}
    assert [Ingested("t", "pg.student", 0, 0, 0)] == ingest(lake.storage, topics, lake.spec)


def test_records_that_kafka_has_not_kept_are_told_and_skipped_on_request() -> None:
    """A first run takes what is there."""
    storage = MemoryStorage()
    topics = FakeTopics(storage, {("pg.student", 0): [0.0] * 4}, {("pg.student", 0): 2})
    ingest(storage, topics)
    topics.records["pg.student", 0] += [0.0] * 4
    topics.begins["pg.student", 0] = 6
    with pytest.raises(Refused, match=r"next offset is 4, .* none before 6: 2 records are lost\. Nothing was landed"):
        ingest(storage, topics)
    ingest(storage, topics, skip_lost=True)
    assert [2, 3, 6, 7] == offsets(storage)


def test_a_store_that_is_away_ends_the_round() -> None:
    """As `Unavailable`; the next round ends what it began."""
    for faults in every_fault(error="unavailable"):
        storage = MemoryStorage()
        topics = FakeTopics(storage, {("pg.student", 0): [0.0] * 5})
        topics.storage = FaultyStorage(storage, faults)  # type: ignore[assignment]
        with suppress(Unavailable):
            ingest(topics.storage, topics)
        topics.storage = storage
        ingest(storage, topics)
        assert list(range(5)) == offsets(storage)


@pytest.mark.parametrize("pattern", ["increment_%Y%m%d%H", "year=%Y/month=%m/day=%d/hour=%H", "%Y/%-m/%-d/%-H/%M", "%Y%m%d"])
def test_a_folder_is_read_as_it_was_named(pattern: str) -> None:
    """`folder_at` and `landed` are inverse, up to the pattern's precision."""
    for seconds, zone in ((1_700_003_580.0, "UTC"), (1_700_003_580.0, "America/St_Johns"), (86400.0 * 31, "UTC")):
        folder = increment.folder_at(pattern, seconds, zone)
        found = increment.landed(pattern, f"{folder}/x.parquet", zone)
        assert found is not None
        assert folder == found.folder
        again = increment.landed(pattern, f"{increment.folder_at(pattern, seconds + 40 * 86400, zone)}/x.parquet", zone)
        assert again is not None
        assert str(found.hour) < str(again.hour)
