"""A lake in random use: a sink that delivers, repeats and rewrites; runs that finish, die, lose the store or race; a reader who always looks."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from compactor.core.model.errors import InputRefused, NoRowsYet, Refused, TryLater
from compactor.flows.read.status import plan, status
from compactor.flows.table import Table
from compactor.storage.local import LocalStorage
from tests.faults import ERRORS, MODES, Crash, Faults
from tests.oracle.lake import Lake, as_rows, table
from tests.oracle.s3_lake import BUCKET, storage
from tests.oracle.sizes import sized
from tests.oracle.source import PLAIN, Source
from tests.oracle.stores import StoredLake
from tests.oracle.watch import Intrusion, Watch
from tests.parts.s3 import Server

STEPS = st.lists(st.tuples(st.sampled_from(PLAIN), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6)
CALLS = st.integers(1, 140)


class Use(RuleBasedStateMachine):
    """One table, one source whose rows are known, and events that the sink still holds back."""

    @initialize(
        write_mode=st.sampled_from(("merge-on-read", "merge-on-read", "auto", "copy-on-write")),
        segment=st.sampled_from((400, 1500)),
        compact_every=st.sampled_from((0.0, 5.0)),
        rows=st.integers(1, 12),
        keep=st.sampled_from((0.0, 40.0)),
        versions=st.sampled_from((1, 3)),
        grace=st.sampled_from((0.0, 20.0)),
        changes=st.sampled_from((("off", 0.0), ("net", 0.0), ("net", 60.0))),
    )
    def begin(
        self, write_mode: str, segment: int, compact_every: float, rows: int, keep: float, versions: int, grace: float, changes: tuple[str, float]
    ) -> None:
        """A table with some rows that have landed."""
        feed, feed_retention = changes
        retention = {"keep": keep, "keep_versions": versions, "grace": grace, "feed": feed, "feed_retention": feed_retention}
        self.lake = self.made(write_mode=write_mode, target_file_bytes=segment, compact_every=compact_every, quarantine_share=1.0, **retention)
        self.watch = Watch(self.lake)
        self.source = Source(keys=16)
        self.held: list[str] = []
        self.numbers = 0
        self.deliver([("insert", number, number) for number in range(rows)], 0)

    def made(self, **changes: Any) -> Lake:
        """An empty lake with such a table."""
        return Lake(table(**changes))

    def _land(self, lines: Sequence[str], hour: int, path: str = "") -> None:
        if lines:
            self.numbers += 1
            path = path or f"increment_20260101{hour:02d}/{self.numbers:04d}.json"
            self.watch.overwritten |= {name for name in self.lake.landing() if name[0] == path}
            self.lake.deliver(path, lines)

    @rule(steps=STEPS, hour=st.integers(0, 3))
    def deliver(self, steps: list[tuple[str, int, int]], hour: int) -> None:
        """The source works, its events land at once."""
        start = len(self.source.lines)
        for step in steps:
            self.source.step(*step)
        self._land(self.source.lines[start:], hour)

    @rule(steps=STEPS)
    def hold_back(self, steps: list[tuple[str, int, int]]) -> None:
        """The source works, the sink is slow."""
        start = len(self.source.lines)
        for step in steps:
            self.source.step(*step)
        self.held += self.source.lines[start:]

    @precondition(lambda self: self.held)
    @rule(share=st.integers(1, 4), hour=st.integers(0, 3), last_first=st.booleans())
    def deliver_late(self, share: int, hour: int, last_first: bool) -> None:
        """Some of the events held back land, oldest or newest first."""
        count = -(-len(self.held) // share)
        late = self.held[-count:] if last_first else self.held[:count]
        self.held = self.held[:-count] if last_first else self.held[count:]
        self._land(late, hour)

    @rule(pick=st.integers(0, 99), hour=st.integers(0, 3))
    def deliver_again(self, pick: int, hour: int) -> None:
        """A file lands once more under another name."""
        again = list(self.lake.delivered.values())[pick % len(self.lake.delivered)]
        self._land(again.decode(errors="ignore").splitlines(), hour)

    @rule(pick=st.integers(0, 99), step=st.tuples(st.sampled_from(PLAIN), st.integers(0, 30), st.integers(0, 30)))
    def rewrite(self, pick: int, step: tuple[str, int, int]) -> None:
        """The sink writes a name again, with what it held and one event more; the file may lie in landing or be archived long ago."""
        latest = {path: data for (path, _), data in self.lake.delivered.items() if b"\xff" not in data}
        path, data = list(latest.items())[pick % len(latest)]
        self.source.step(*step)
        self._land([*data.decode().splitlines(), self.source.lines[-1]], 0, path)
        # a statement of two events: the first is late
        self.held += self.source.lines[-2:-1]

    @rule(pick=st.integers(0, 99), hour=st.integers(0, 3), whole=st.booleans())
    def deliver_damaged(self, pick: int, hour: int, whole: bool) -> None:
        """Events that landed already land again, beside a record that cannot be used or in a file that cannot be opened."""
        again = list(self.lake.delivered.values())[pick % len(self.lake.delivered)]
        lines = [one for one in again.decode(errors="ignore").splitlines() if one != "{oops"]
        # a run of nothing but damaged files is refused: a good one lands beside it
        self._land(lines, hour)
        self.lake.deliver(f"increment_20260101{hour:02d}/{self.numbers:04d}-damaged.json", [*lines, "{oops", *lines], damaged=whole)

    @rule()
    def replay(self) -> None:
        """What waits in quarantine is taken again; nobody has repaired it, so it goes on waiting."""
        with suppress(InputRefused):
            self.lake.replay()

    @rule()
    def run(self) -> None:
        """A run that nobody disturbs finishes everything."""
        self.lake.run()
        self.watch.settled()

    @rule(at=CALLS, mode=st.sampled_from(MODES), error=st.sampled_from(ERRORS))
    def run_with_a_fault(self, at: int, mode: str, error: str) -> None:
        """A run that dies, or whose store does not answer, at some call."""
        with suppress(Crash, TryLater):
            self.lake.run(Faults(at, mode, error=error))

    @rule(at=CALLS, mode=st.sampled_from(MODES))
    def replay_with_a_fault(self, at: int, mode: str) -> None:
        """A replay that dies at some call."""
        with suppress(Crash, TryLater, InputRefused):
            self.lake.replay(Faults(at, mode))

    @rule(at=CALLS, steps=STEPS, fault=st.integers(0, 200))
    def run_beside_another(self, at: int, steps: list[tuple[str, int, int]], fault: int) -> None:
        """While a run is at some call, more lands and another writer runs, whole or dying; both may lose the race, neither may break."""

        def other() -> None:
            self.deliver(steps, 2)
            with suppress(Crash, TryLater):
                self.lake.run(Faults(fault, "from_then_on") if fault < 100 else None)

        with suppress(TryLater):
            self.lake.run(Intrusion(at, other))

    @rule(at=CALLS)
    def rewrite_while_running(self, at: int) -> None:
        """The sink rewrites a file of landing while a run is at some call."""

        def other() -> None:
            for path, etag in sorted(self.lake.landing())[:1]:
                self.source.step("update", 0, self.numbers)
                self._land([*self.lake.delivered[path, etag].decode(errors="ignore").splitlines(), self.source.lines[-1]], 0, path)

        with suppress(TryLater):
            self.lake.run(Intrusion(at, other))

    @rule(at=st.one_of(st.none(), CALLS), mode=st.sampled_from(MODES), error=st.sampled_from(ERRORS))
    def vacuum(self, at: int | None, mode: str, error: str) -> None:
        """What may go goes, whole or cut at some call."""
        with suppress(Crash, TryLater):
            self.lake.vacuum(None if at is None else Faults(at, mode, error=error))

    @rule(at=CALLS, steps=STEPS)
    def vacuum_while_running(self, at: int, steps: list[tuple[str, int, int]]) -> None:
        """A run sleeps at some call, others commit more and vacuum: it wins, plans again or gives up, and harms nothing."""

        def others() -> None:
            self.deliver(steps, 1)
            self.lake.run()
            self.lake.vacuum()
            self.lake.now += 30.0
            self.lake.vacuum()

        with suppress(TryLater):
            self.lake.run(Intrusion(at, others))

    @rule(at=CALLS, steps=STEPS)
    def run_while_vacuuming(self, at: int, steps: list[tuple[str, int, int]]) -> None:
        """Vacuum sleeps at some call, a run commits more."""

        def other() -> None:
            self.deliver(steps, 1)
            self.lake.run()

        with suppress(TryLater):
            self.lake.vacuum(Intrusion(at, other))

    @precondition(lambda self: self.lake.restorable())
    @rule(pick=st.integers(0, 99), at=st.one_of(st.none(), CALLS), mode=st.sampled_from(MODES))
    def restore(self, pick: int, at: int | None, mode: str) -> None:
        """An older state comes back, or nothing happens; cut at some call it is finished by the next run."""
        found = self.lake.restorable()
        with suppress(Crash, TryLater):
            self.lake.restore(found[pick % len(found)], None if at is None else Faults(at, mode))

    @precondition(lambda self: self.lake.restorable())
    @rule(pick=st.integers(0, 99), at=CALLS, vacuum_first=st.booleans())
    def restore_beside_vacuum(self, pick: int, at: int, vacuum_first: bool) -> None:
        """One of the two loses; a version that is gone is refused."""
        found = self.lake.restorable()
        version = found[pick % len(found)]

        def restore() -> None:
            with suppress(TryLater, Refused):
                self.lake.restore(version)

        with suppress(TryLater, Refused):
            if vacuum_first:
                self.lake.vacuum(Intrusion(at, restore))
            else:
                self.lake.restore(version, Intrusion(at, self.lake.vacuum))

    @rule(at=st.one_of(st.none(), CALLS), mode=st.sampled_from(MODES))
    def reabsorb(self, at: int | None, mode: str) -> None:
        """What restores have undone is taken again."""
        with suppress(Crash, TryLater, InputRefused):
            self.lake.reabsorb(None if at is None else Faults(at, mode))

    def _rebuilt(self, faults: Faults | None = None) -> None:
        """What cannot be told from the archive any more is refused by name; never are there other rows (invariant 7)."""
        with suppress(InputRefused):
            assert self.lake.rebuild(faults).outcome == "published"

    @precondition(lambda self: self.lake.newest())
    @rule(at=st.one_of(st.none(), CALLS), mode=st.sampled_from(MODES), error=st.sampled_from(ERRORS))
    def rebuild(self, at: int | None, mode: str, error: str) -> None:
        """The table is built again out of its raw files, whole or cut at some call."""
        with suppress(Crash, TryLater):
            self._rebuilt(None if at is None else Faults(at, mode, error=error))

    @precondition(lambda self: self.lake.newest())
    @rule(at=CALLS, steps=STEPS, more=st.sampled_from(("run", "vacuum", "restore")), pick=st.integers(0, 99))
    def rebuild_beside_others(self, at: int, steps: list[tuple[str, int, int]], more: str, pick: int) -> None:
        """While it goes on others absorb more, vacuum, or restore."""

        def others() -> None:
            self.deliver(steps, 2)
            self.lake.run()
            if more == "vacuum":
                self.lake.vacuum()
            found = self.lake.restorable()
            if more == "restore" and found:
                self.lake.restore(found[pick % len(found)])

        with suppress(TryLater):
            self._rebuilt(Intrusion(at, others))

    @precondition(lambda self: self.lake.restorable())
    @rule(pick=st.integers(0, 99), name=st.sampled_from("ab"))
    def pin(self, pick: int, name: str) -> None:
        """A version is pinned under a name; a name that is taken is refused."""
        found = self.lake.restorable()
        with suppress(Refused):
            self.lake.pin(found[pick % len(found)], name)

    @rule(name=st.sampled_from("ab"))
    def unpin(self, name: str) -> None:
        """A pin goes."""
        with suppress(Refused, NoRowsYet):
            self.lake.unpin(name)

    @rule()
    def ask(self) -> None:
        """Status and plan change nothing."""
        before = [*self.lake.storage.list(self.lake.spec.root)]
        status(Table(self.lake.env(), self.lake.spec))
        plan(Table(self.lake.env(), self.lake.spec))
        assert [*self.lake.storage.list(self.lake.spec.root)] == before

    @rule(seconds=st.sampled_from((1.0, 60.0)))
    def time_passes(self, seconds: float) -> None:
        """Folds become due."""
        self.lake.now += seconds

    @invariant()
    def the_invariants_hold(self) -> None:
        """Every one of them, after every step."""
        if hasattr(self, "watch"):
            self.watch.look()

    def teardown(self) -> None:
        """In the end everything lands and a run finishes: the table is the source's own rows, however it came to be."""
        if hasattr(self, "watch"):
            self._land(self.held, 1)
            self.lake.run()
            self.watch.settled()
            self.lake.reabsorb()
            self.lake.vacuum()
            self.watch.settled()
            seen, newest = self.lake.look(), self.lake.newest()
            assert seen is not None
            assert newest is not None
            assert seen.rows == as_rows(self.source.table(), newest.schema)


TestUse = Use.TestCase
TestUse.settings = sized(60, steps=30)


class UseOfDirectory(Use):
    """The same in a file system."""

    def made(self, **changes: Any) -> Lake:
        """In a directory of its own."""
        self.folder = tempfile.mkdtemp()
        return StoredLake(table(root=f"{self.folder}/t", landing=f"{self.folder}/t/incremental", **changes), LocalStorage())

    def teardown(self) -> None:
        """And the directory goes."""
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


TestUseOfDirectory = UseOfDirectory.TestCase
TestUseOfDirectory.settings = sized(10, steps=30)


class UseOfS3(Use):
    """The same on an S3 server."""

    server: Server

    def made(self, **changes: Any) -> Lake:
        """In an empty bucket."""
        self.server.restore("empty")
        root = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
        return StoredLake(table(root=root, landing=f"{root}/incremental", **changes), storage(self.server.url, 20.0), self.server)


TestUseOfS3 = pytest.mark.usefixtures("emptied")(pytest.mark.slow(UseOfS3.TestCase))
TestUseOfS3.settings = sized(5, steps=25)


@pytest.fixture
def emptied(server: Server) -> None:
    """The server is started, and where it goes back to."""
    UseOfS3.server = server
    server.save("empty")
