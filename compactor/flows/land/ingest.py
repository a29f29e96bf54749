"""ingest: Kafka topics → files in landing folders, each offset in exactly one file.

The files' names say which offsets they hold, and the id of their topic. Nothing else is remembered: what comes next follows from the names in
landing, archive and quarantine. A process that died between any two steps leaves at worst staged files, which the next one removes. A file goes to
the folder of the hour of its newest record, whenever it is written.

One ingest of a warehouse at a time: two would land records twice (the tables stay right, `run` counts them as duplicates).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compactor.core.model.errors import Refused
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.sources import increment
from compactor.core.sources.kafka_files import Bounds, Fetched, Offsets, offsets_of
from compactor.flows import ledger
from compactor.flows.environment import Environment
from compactor.flows.table import Table
from compactor.ports import Topics

Partition = tuple[str, int]
"""(topic, number)"""


@dataclass(frozen=True)
class Ingested:
    table: str
    topic: str
    records: int
    files: int
    behind: int
    """Records that the topic had already and that are left for the next round."""

    def plus(self, later: Ingested) -> Ingested:
        """Both together; `behind` is the later one's."""
        return Ingested(self.table, self.topic, self.records + later.records, self.files + later.files, later.behind)


@dataclass
class Ingest:
    """Lands the topics of tables, in rounds."""

    env: Environment
    topics: Topics
    specs: Sequence[TableSpec]
    staging: str
    """A directory of its own."""
    max_records: int
    """Most records of a partition that a file takes."""
    skip_lost: bool = False
    """Whether to go on behind offsets that Kafka has not kept."""
    # stretches without any record (aborted transactions) make no file that could name them
    _empty: dict[Partition, Offsets] = field(default_factory=dict)

    def all_there_is(self) -> list[Ingested]:
        """Rounds until nothing is left of what was there."""
        total = {item.topic: item for item in self.one_round()}
        while any(item.behind for item in total.values()):
            for item in self.one_round():
                total[item.topic] = total[item.topic].plus(item)
        return list(total.values())

    def one_round(self) -> list[Ingested]:
        """At most one file of every partition. Raises Refused for topics that were created anew or have lost the next records."""
        specs = {str(spec.topic): spec for spec in self.specs}
        self.env.storage.delete(info.path for info in self.env.storage.list(self.staging))
        bounds = self.topics.bounds(list(specs))
        ranges = list(self._next_offsets(specs, bounds))
        fetched = self.topics.fetch(ranges, self.staging) if ranges else []
        for item in fetched:
            self._land(specs[item.offsets.topic], item)
        landed = {item.offsets for item in fetched}
        self._empty.update({(item.topic, item.partition): item for item in ranges if item not in landed})
        behind = {(item.topic, item.partition): bounds[item.topic, item.partition].end - 1 - item.last for item in ranges}
        return [
            Ingested(
                spec.name,
                topic,
                sum(item.records for item in fetched if item.offsets.topic == topic),
                sum(item.offsets.topic == topic for item in fetched),
                sum(count for (name, _), count in behind.items() if name == topic),
            )
            for topic, spec in specs.items()
        ]

    def _next_offsets(self, specs: Mapping[str, TableSpec], bounds: Mapping[Partition, Bounds]) -> list[Offsets]:
        taken: dict[Partition, list[Offsets]] = {}
        for item in [*(item for spec in specs.values() for item in self._taken(spec)), *self._empty.values()]:
            taken.setdefault((item.topic, item.partition), []).append(item)
        out = []
        for partition, kept in bounds.items():
            spec = specs[partition[0]]
            done = self._of_topic(spec, kept.topic_id, taken.get(partition, []))
            first = self._next(spec, partition, kept, max((item.last + 1 for item in done), default=kept.begin))
            if first < kept.end:
                out.append(Offsets(*partition, first, min(kept.end, first + self.max_records) - 1, kept.topic_id))
        return out

    def _taken(self, spec: TableSpec) -> set[Offsets]:
        """What the names of a table's files say: all ranges of its topic that are landed."""
        layout, storage = spec.layout, self.env.storage
        # in the order in which files move: none is missed that moves while we list
        names = {offsets_of(info.path) for place in (spec.landing, layout.quarantined(""), layout.archived("")) for info in storage.list(place)}
        return {offsets for offsets in names if offsets is not None and offsets.topic == spec.topic}

    def _of_topic(self, spec: TableSpec, topic_id: str, taken: Sequence[Offsets]) -> list[Offsets]:
        """Return those ranges that are of the topic as it is now. Raises Refused if the others are not of an earlier epoch."""
        others = [item for item in taken if topic_id and item.topic_id not in ("", topic_id)]
        if others:
            table = Table(self.env, spec)
            epochs = {offsets_of(item.path): item.epoch for item in ledger.newest_entries(table, table.newest())}
            if any(epochs.get(item, spec.epoch) >= spec.epoch for item in others):
                raise Refused(
                    f"table {spec.name}: topic {spec.topic} was created anew: it has the id {topic_id}, and files of the id {others[0].topic_id} are "
                    "landed. Nothing more was landed. Let `compactor run` ingest what has landed, then set "
                    f"`epoch: {spec.epoch + 1}`: the new topic is landed from its first record on, and its changes are newer than all before."
                )
        return [item for item in taken if item not in others]

    def _next(self, spec: TableSpec, partition: Partition, kept: Bounds, first: int) -> int:
        """Return the first offset that is not landed, `first` by the names of files."""
        where = f"table {spec.name}: topic {partition[0]}, partition {partition[1]}"
        if first > kept.end:
            raise Refused(
                f"{where}: offsets up to {first - 1} are landed, and the topic ends before {kept.end}. It was created anew. Nothing was landed. Give "
                "the new topic a table of its own."
            )
        if first < kept.begin and not self.skip_lost:
            raise Refused(
                f"{where}: the next offset is {first}, and Kafka has kept none before {kept.begin}: {kept.begin - first} records are lost. Nothing "
                "was landed. `--skip-lost` goes on behind the gap; the table is right again after a new snapshot at the source."
            )
        return max(first, kept.begin)

    def _land(self, spec: TableSpec, item: Fetched) -> None:
        """Move a staged file to where it belongs; one that is there already (another process was faster) is let go."""
        moment = self.env.storage.now() if item.until is None else item.until
        path = join(increment.folder_at(spec.pattern, moment, spec.hours_in), item.offsets.name())
        layout = spec.layout
        try:
            if self.env.storage.stat(layout.archived(path)) is None and self.env.storage.move(item.file, layout.landed(path)):
                return
        except FileExistsError:
            pass
        self.env.storage.delete([item.file.path])
