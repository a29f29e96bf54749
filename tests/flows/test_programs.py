"""Random programs through the real flows: whatever order files come in, however often, however split into runs, the table is the model's."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.edit import Edit
from compactor.core.model.errors import Conflict, InconsistentRead, InputRefused, NoRowsYet, TryLater, Unavailable
from compactor.core.model.policy import Policy
from compactor.core.model.snapshot import COUNTS
from compactor.core.sources.quarantine import SHARE_MIN
from compactor.flows.environment import Environment
from compactor.flows.keep.pin import pin
from compactor.flows.read import quarantine
from compactor.flows.read.status import plan, status
from compactor.flows.run import run_table
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from compactor.flows.transact import ATTEMPTS, preview, put
from compactor.flows.verbs import discard_table
from tests.faults import Crash, Faults, every_fault
from tests.oracle.lake import Lake, as_rows, table
from tests.oracle.model import line, replayed
from tests.oracle.reader import Shown
from tests.oracle.sizes import sized
from tests.oracle.source import PLAIN, Source
from tests.parts.memory_storage import MemoryStorage

STEPS = st.lists(st.tuples(st.sampled_from(PLAIN), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=40)


def sent(steps: list[tuple[str, int, int]], composite: bool = False, keys: int = 12) -> Source:
    """A source after these statements."""
    source = Source(keys=keys, composite=composite)
    for step in steps:
        source.step(*step)
    return source


def files(source: Source, rng: random.Random, count: int) -> list[tuple[str, list[str]]]:
    """The source's events spread over files of some hours, a quarter of them twice, and one whole file again under another name."""
    names = [f"increment_20260101{rng.randrange(3):02d}/{number:03d}.json" for number in range(count)]
    spread: dict[str, list[str]] = {name: [] for name in names}
    for each in rng.sample(source.lines, len(source.lines)) + rng.sample(source.lines, len(source.lines) // 4):
        spread[rng.choice(names)].append(each)
    out = [(name, lines) for name, lines in spread.items() if lines]
    again = rng.choice(out)
    return rng.sample([*out, (again[0].replace(".json", "-again.json"), again[1])], len(out) + 1)


@sized(400)
@given(
    steps=STEPS,
    seed=st.integers(0, 10_000),
    write_mode=st.sampled_from(("merge-on-read", "auto", "copy-on-write")),
    composite=st.booleans(),
    segment=st.sampled_from((300, 1200, 100_000)),
    compact_every=st.sampled_from((0.0, 3.0, 1e9)),
)
def test_any_order_any_repetition_any_split_into_runs_gives_the_same_table(
    steps: list[tuple[str, int, int]], seed: int, write_mode: str, composite: bool, segment: int, compact_every: float
) -> None:
    """The view ends as the source's own rows; every event is counted once; an idle run makes no Snapshot; verify finds nothing."""
    source, rng = sent(steps, composite), random.Random(seed)
    key = ("id", "part") if composite else ("id",)
    lake = Lake(table(key=key, write_mode=write_mode, target_file_bytes=segment, compact_every=compact_every))
    read = 0
    for path, lines in files(source, rng, rng.randint(1, 6)):
        lake.deliver(path, lines)
        if rng.random() < 0.6:
            read += counted(lake)
    read += counted(lake)
    newest, seen = lake.newest(), lake.look()
    if newest is None or seen is None:
        # nothing but truncates: no row has told the columns yet
        assert all('"t"' in each for each in source.lines)
        return
    assert seen.rows == as_rows(source.table(), newest.schema) == lake.expected()
    assert seen.version == newest.version
    assert read == len(lake.events(lake.delivered))
    assert lake.landing() == set()
    idle = lake.run()
    assert (idle.outcome, idle.operations, idle.version) == ("idle", (), newest.version) or "compact" in idle.operations[0]
    assert lake.failed_checks() == []
    again(lake, seen)


def again(lake: Lake, seen: Shown) -> None:
    """Every file lands once more under a later name: the rows are those of before."""
    for number, ((path, _), data) in enumerate([*lake.delivered.items()]):
        lake.deliver(f"{path.partition('/')[0]}/zz{number:03}.json", data.decode().splitlines())
    lake.run()
    assert lake.look().rows == seen.rows  # type: ignore[union-attr]


def counted(lake: Lake) -> int:
    """One run; gives back how many events it read, each of which became exactly one thing."""
    try:
        report = lake.run()
    except NoRowsYet:
        return 0
    assert sum(report.counts.get(name, 0) for name in COUNTS) == report.counts.get("read", 0)
    return report.counts.get("read", 0)


@sized(200)
@given(seed=st.integers(0, 10_000), steps=STEPS)
def test_all_at_once_and_hour_by_hour_agree(steps: list[tuple[str, int, int]], seed: int) -> None:
    """One run over everything and one run a file end with the same rows; only the order of columns is that of their coming."""
    spread = files(sent(steps), random.Random(seed), 4)
    lakes = [Lake(table()), Lake(table())]
    for path, lines in spread:
        lakes[0].deliver(path, lines)
        lakes[1].deliver(path, lines)
        counted(lakes[1])
    counted(lakes[0])
    once, often = (lake.look() for lake in lakes)
    assert (named(once) if once else None) == (named(often) if often else None)


def named(seen: Shown) -> list[dict[str, Any]]:
    """Rows without the order of their columns."""
    return sorted((dict(sorted(zip(seen.columns, row))) for row in seen.rows), key=repr)


def one(lake: Lake, name: str, *lines: str) -> Any:
    """Deliver a file of the first hour and run."""
    lake.deliver(f"increment_2026010100/{name}.json", lines)
    return lake.run()


def test_an_idle_run_makes_no_snapshot() -> None:
    """Without new files nothing is written at all."""
    lake = Lake(table())
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    before = {info.path: info.etag for info in lake.storage.list("/")}
    assert lake.run().outcome == "idle"
    assert {info.path: info.etag for info in lake.storage.list("/")} == before


def test_nothing_landed_and_only_rowless_records_landed() -> None:
    """An empty landing is idle; records that tell no columns wait for the first row."""
    lake = Lake(table())
    assert lake.run().outcome == "idle"
    lake.deliver("increment_2026010100/a.json", ['{"op": "-"}'])
    [report] = run_tables(lake.env(), [lake.spec])
    assert (report.outcome, report.exit_code) == ("idle", 0)
    assert one(lake, "b", line("c", [1], [1], {"a": 1})).counts["ignored"] == 1
    assert lake.landing() == set()


def test_a_truncate_takes_what_is_older_whenever_it_comes() -> None:
    """A truncate that arrives late leaves the rows written after it."""
    lake = Lake(table())
    one(lake, "a", *(line("c", [key], [10 + key], {"a": key}) for key in range(8)))
    one(lake, "b", line("u", [1], [40], {"a": 41}))
    one(lake, "t", '{"op": "t", "position": [15]}')
    assert sorted(row[0] for row in lake.look().rows) == [1, 6, 7]  # type: ignore[union-attr]
    one(lake, "c", line("u", [2], [14], {"a": 0}), line("c", [3], [50], {"a": 3}))
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    one(lake, "t2", '{"op": "t", "position": [90]}')
    assert lake.look().rows == ()  # type: ignore[union-attr]
    one(lake, "d", line("c", [5], [91], {"a": 5}), line("c", [6], [89], {"a": 6}))
    assert [row[0] for row in lake.look().rows] == [5]  # type: ignore[union-attr]
    assert lake.failed_checks() == []


@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_tombstones_older_than_their_retention_go_and_are_remembered(write_mode: str) -> None:
    """Not before it ends; then with the next rewrite of their segment."""
    lake = Lake(table(write_mode=write_mode, tombstone_retention=3600.0, order_by=("__lsn",)))
    one(lake, "a", *(line("c", [key], [key], {"a": key}) for key in range(1, 6)))
    one(lake, "b", line("d", [3], [100]))
    for times, (wait, tombstones, purged) in enumerate(((3000, 1, None), (1000, 0, (0, 100, "increment_2026010100/b.json", 0, 0)))):
        lake.now += wait
        for key in (1, 2, 4, 5):
            one(lake, f"c{times}{key}", line("u", [key], [200 + 100 * times + key], {"a": 0}))
        newest = lake.newest()
        assert newest is not None
        assert (newest.tombstones, newest.purged_to) == (tombstones, purged)
        assert 3 not in {row[0] for row in lake.look().rows}  # type: ignore[union-attr]


def test_columns_come_and_change_their_type_while_the_table_grows() -> None:
    """A new column, then one that widens: tables of a second generation, one view, files as new as the Snapshot."""
    lake = Lake(table(policy=Policy(kinds=(("to_string", "evolve"),))))
    one(lake, "a", *(line("c", [key], [key], {"a": key}) for key in range(6)))
    one(lake, "b", line("u", [1], [100], {"a": 1, "b": "new"}))
    one(lake, "c", line("u", [2], [200], {"a": "text", "b": "x"}), line("u", [3], [201], {"a": 7}))
    newest = lake.newest()
    assert newest is not None
    assert newest.schema.generation == 2
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    assert (2, "text", "x") in lake.look().rows  # type: ignore[union-attr]
    one(lake, "d", line("u", [4], [300], {"a": 8}))
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    assert lake.failed_checks() == []


BAD = {
    "no JSON": "nonsense",
    "cut short": '{"op": "c", "key": [1], "posi',
    "unknown operation": line("q", [1], [1]),
    "null key": line("c", [None], [1], {"a": 1}),
    "no key": line("c", [], [1], {"a": 1}),
    "null order value": line("c", [1], [None], {"a": 1}),
}
LIMITS = {"no record may be unusable": {"quarantine_rows": 0}, "less than half may be": {"quarantine_share": 0.4}, "nothing but unusable ones": {}}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("limit", LIMITS)
def test_more_bad_input_than_allowed_is_refused_and_nothing_is_lost(case: str, limit: str) -> None:
    """The error names the file; table and landing are as they were; the run succeeds once the file is repaired."""
    lake = Lake(table(**LIMITS[limit]))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    before = {info.path: info.etag for info in lake.storage.list("/")}
    count = SHARE_MIN if "quarantine_share" in LIMITS[limit] else 1
    landed = {lake.deliver("increment_2026010101/bad.json", [BAD[case]] * count)}
    if LIMITS[limit]:
        landed.add(lake.deliver("increment_2026010101/good.json", [line("u", [1], [2], {"a": 2})]))
    with pytest.raises(InputRefused, match=r"bad\.json, record 1"):
        lake.run()
    assert lake.landing() == landed
    assert dict(before.items()) == {info.path: info.etag for info in lake.storage.list("/") if "010101" not in info.path}
    lake.deliver("increment_2026010101/bad.json", [line("c", [2], [3], {"a": 3})])
    lake.run()
    assert (2, 3) in lake.look().rows  # type: ignore[union-attr]


@pytest.mark.parametrize("case", [*BAD, "a file that cannot be opened"])
def test_what_cannot_be_used_waits_in_quarantine_and_the_rest_is_absorbed(case: str) -> None:
    """Counted, described, and taken again once it is repaired: then the table is what a run that never broke would have made."""
    lake = Lake(table())
    whole = case not in BAD
    good, repaired = line("c", [1], [1], {"a": 1}), line("u", [1], [3], {"a": 3})
    one(lake, "a", good)
    name = lake.deliver("increment_2026010101/bad.json", [line("c", [2], [2], {"a": 2}), BAD.get(case, repaired)], damaged=whole)
    lake.deliver("increment_2026010101/good.json", [line("u", [1], [4], {"a": 1, "b": 4})])
    report = lake.run()
    assert report.counts["quarantined"] == (0 if whole else 1)
    assert "compactor quarantine t" in report.notes[-1]
    (held,) = quarantine.waiting(Table(lake.env(), lake.spec), lake.newest())
    assert (held.path, held.etag, held.records) == (*name, None if whole else 1)
    told = quarantine.reasons(Table(lake.env(), lake.spec), held)
    assert [entry.get("record") for entry in told["unusable"]] == [None if whole else 2]
    (listed,) = quarantine.with_reasons(Table(lake.env(), lake.spec), [held])
    assert listed.reason == (held.reason if whole else f"record 2: {told['unusable'][0]['reason']}")
    assert listed.reason
    assert lake.look().rows == (((1, 1, 4),) if whole else ((1, 1, 4), (2, 2, None)))  # type: ignore[union-attr]

    lake.storage.write(held.location if whole else held.repaired, "\n".join([line("c", [2], [2], {"a": 2}), repaired]).encode())  # type: ignore[arg-type]
    assert lake.replay().operations[0].startswith("replay")
    assert lake.look().rows == ((1, 1, 4), (2, 2, None))  # type: ignore[union-attr]
    assert quarantine.waiting(Table(lake.env(), lake.spec), lake.newest()) == []
    assert [info.path for info in lake.storage.list(f"{lake.spec.root}/quarantine")] == []
    assert not lake.failed_checks()
    assert lake.replay().outcome == "idle"


@pytest.mark.parametrize("same_size", [False, True])
@pytest.mark.parametrize("given_up", [False, True])
def test_a_copy_replaces_the_unreadable_file(given_up: bool, same_size: bool) -> None:
    """In place or beside it, at the path that `compactor quarantine TABLE` prints: the archive has the copy alone, and a rebuild reads it."""
    lake = Lake(table())
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    content = line("c", [2], [2], {"a": 2})
    path, _ = lake.deliver("increment_2026010101/bad.json", [content], damaged=True)
    one(lake, "good", line("u", [1], [4], {"a": 1, "b": 4}))
    (held,) = quarantine.waiting(Table(lake.env(), lake.spec), lake.newest())
    if given_up:
        lake.now += 1.0
        report = discard_table(lake.table(), [path])
        assert (report.operations[0][:6], report.counts) == ("replay", {})
    else:
        lake.storage.write(held.repaired, (content + (" " if same_size else "")).encode())
        lake.replay()
    assert quarantine.waiting(Table(lake.env(), lake.spec), lake.newest()) == []
    assert list(lake.storage.list(f"{lake.spec.root}/quarantine")) == []
    assert len([info for info in lake.storage.list(f"{lake.spec.root}/archive") if info.path.endswith("bad.json")]) == 1
    one(lake, "c", line("c", [3], [9], {"a": 1}))
    assert {row[0] for row in lake.look().rows} == ({1, 3} if given_up else {1, 2, 3})  # type: ignore[union-attr]
    assert not lake.failed_checks()
    lake.rebuild()


def test_a_replay_after_an_interrupted_discard_gives_nothing_up() -> None:
    """The empty copy that it left is named, not read in the place of the file, which was repaired meanwhile."""
    lake = Lake(table())
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    path, _ = lake.deliver("increment_2026010101/bad.json", [line("c", [2], [2], {"a": 2})], damaged=True)
    one(lake, "good", line("u", [1], [4], {"a": 4}))
    (held,) = quarantine.waiting(lake.table(), lake.newest())
    with pytest.raises(Crash):
        discard_table(lake.table(Faults(1, "after_effect", only=["put_if_absent"])), [path])
    assert held.location is not None
    lake.storage.write(held.location, line("c", [2], [2], {"a": 2}).encode())
    with pytest.raises(InputRefused, match=f"{held.repaired} is empty.*an interrupted --discard left it. Delete it and replay again"):
        lake.replay()
    lake.storage.delete([held.repaired])
    lake.replay()
    assert {row[0] for row in lake.look().rows} == {1, 2}  # type: ignore[union-attr]


def test_a_file_of_which_records_are_in_the_table_is_not_given_up() -> None:
    """Its other records would be lost to a rebuild; nor is a path that does not wait."""
    lake = Lake(table())
    path, _ = lake.deliver("increment_2026010101/bad.json", [line("c", [2], [2], {"a": 2}), "{oops"])
    lake.run()
    with pytest.raises(InputRefused, match=r"the other records of .* are in the table.*bad.json --discard --records` gives its invalid records up"):
        discard_table(lake.table(), [path])
    with pytest.raises(InputRefused, match="is not in quarantine"):
        discard_table(lake.table(), ["increment_2026010101/b.json"])
    assert lake.newest().version == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("archive", ["move", "keep"])
def test_invalid_records_are_given_up(archive: str) -> None:
    """None waits, no reason file is left; verify and rebuild agree, and one that becomes invalid later waits as ever. A restore brings both ways back."""
    lake = Lake(table(archive=archive))
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    path, _ = lake.deliver("increment_2026010101/bad.json", [line("c", [2], [2], {"a": 2}), "{oops"])
    lake.run()
    unreadable, _ = lake.deliver("increment_2026010101/no.json", [line("c", [9], [9], {"a": 9})], damaged=True)
    one(lake, "good", line("u", [1], [4], {"a": 4}))
    with pytest.raises(InputRefused, match=r"no record of .*no.json could be read; leave out --records"):
        discard_table(lake.table(), [unreadable], records=True)
    copy = next(held.repaired for held in quarantine.waiting(lake.table(), lake.newest()) if held.path == path)
    lake.storage.write(copy, b"{}")
    with pytest.raises(InputRefused, match=r"a repaired copy lies at .*: replay"):
        discard_table(lake.table(), [path], records=True)
    lake.storage.delete([copy])
    reasons = [info.path for info in lake.storage.list(f"{lake.spec.root}/quarantine") if info.path.endswith("bad.json.reason.json")]
    before = lake.newest().version  # type: ignore[union-attr]

    report = discard_table(lake.table(), [path], records=True)

    def waits() -> list[str]:
        return [held.path for held in quarantine.waiting(lake.table(), lake.newest())]

    assert (report.outcome, report.counts, waits()) == ("committed", {}, [unreadable])
    assert len(reasons) == 1
    assert lake.storage.stat(reasons[0]) is None
    assert lake.failed_checks() == []
    assert (lake.rebuild().invalid, lake.rebuild(accept=True).outcome, waits()) == (0, "published", [unreadable])
    assert lake.run().outcome == "idle"
    given_up = lake.newest().version  # type: ignore[union-attr]
    lake.restore(before)
    assert waits() == [path, unreadable]
    lake.restore(given_up)
    assert waits() == [unreadable]
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    assert lake.failed_checks() == []


def test_records_are_given_up_once_wherever_it_is_cut() -> None:
    """The run after it deletes the reason."""
    for faults in every_fault("from_then_on"):
        lake = Lake(table())
        path, _ = lake.deliver("increment_2026010101/bad.json", [line("c", [2], [2], {"a": 2}), "{oops"])
        lake.run()
        with contextlib.suppress(Crash):
            discard_table(lake.table(faults), [path], records=True)
        lake.run()
        if quarantine.waiting(lake.table(), lake.newest()):
            discard_table(lake.table(), [path], records=True)
        assert list(lake.storage.list(f"{lake.spec.root}/quarantine")) == []
        assert lake.newest().version == 2  # type: ignore[union-attr]


def test_a_replay_takes_the_named_paths_and_refuses_unknown_ones() -> None:
    """By their paths in the ledger; what still cannot be opened stays where it is."""
    lake = Lake(table())
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    for name in ("x", "y"):
        lake.deliver(f"increment_2026010101/{name}.json", [line("c", [2], [2], {"a": 2})], damaged=True)
        one(lake, f"good-{name}", line("u", [1], [5], {"a": 1}))
    with pytest.raises(InputRefused, match=r"z\.json is not in quarantine"):
        lake.replay(None, "increment_2026010101/z.json")
    with pytest.raises(InputRefused, match=r"x\.json: cannot be read"):
        lake.replay(None, "increment_2026010101/x.json")
    held = quarantine.waiting(Table(lake.env(), lake.spec), lake.newest())
    assert [item.path[-6:] for item in held] == ["x.json", "y.json"]
    lake.storage.write(held[1].location, line("c", [2], [2], {"a": 2}).encode())  # type: ignore[arg-type]
    lake.replay(None, held[1].path)
    assert [item.path[-6:] for item in quarantine.waiting(Table(lake.env(), lake.spec), lake.newest())] == ["x.json"]


def test_one_table_that_fails_does_not_stop_the_others() -> None:
    """Reports come in the order asked for, each with its own outcome; an error that nobody foresaw is one table's failure too."""
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    broken = dataclasses.replace(lake.spec, name="broken", root="/lake/broken", landing="/lake/broken/in", view="broken")
    lake.storage.write("/lake/broken/in/increment_2026010100/a.json", b"nonsense")
    odd = dataclasses.replace(broken, name="odd", view="odd", landing="/lake/odd", pattern="a(")
    lake.storage.write("/lake/odd/a(/a.json", b"1")
    strange = dataclasses.replace(broken, name="strange", view="strange", settle="no number")  # type: ignore[arg-type]
    reports = run_tables(lake.env(), [broken, strange, odd, lake.spec])
    assert [(report.table, report.outcome) for report in reports] == [
        ("broken", "failed"), ("strange", "failed"), ("odd", "failed"), ("t", "committed"),
    ]  # fmt: skip
    assert [report.error_class for report in reports] == ["InputRefused", "TypeError", "InputRefused", None]
    assert all(report.error and report.exit_code == 1 for report in reports[:3])


def test_status_and_plan_change_nothing() -> None:
    """They look at files only, before and after a run."""
    lake = Lake(table())
    for _ in range(2):
        lake.deliver("increment_2026010105/a.json", [line("c", [1], [1], {"a": 1})])
        before = {info.path: info.etag for info in lake.storage.list("/")}
        assert status(Table(lake.env(), lake.spec)).waiting_files == 1
        assert plan(Table(lake.env(), lake.spec)).landing.new[0].hour == "2026-01-01T05:00"
        assert {info.path: info.etag for info in lake.storage.list("/")} == before
        lake.run()
        assert status(Table(lake.env(), lake.spec)).waiting_files == 0
        assert plan(Table(lake.env(), lake.spec)).steps == ("nothing to do",)


def test_files_younger_than_settle_and_folders_before_the_first_wait() -> None:
    """They stay in landing, unabsorbed, until they are old enough or the setting changes."""
    lake = Lake(table(settle=60.0, first_folder="increment_2026010101"))
    old = lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.now += 100
    young = lake.deliver("increment_2026010102/b.json", [line("c", [2], [2], {"a": 1})])
    assert lake.run().outcome == "idle"
    assert lake.landing() == {old, young}
    lake.now += 100
    assert lake.run().files == 1
    assert lake.landing() == {old}


def test_archive_keep_leaves_the_files_and_absorbs_them_once() -> None:
    """With `archive: keep` the ledger alone tells what is new, over many runs."""
    lake = Lake(table(archive="keep"))
    for number in range(40):
        report = one(lake, f"f{number:03d}", line("u", [number % 5], [number], {"a": number}))
        assert report.counts["read"] == 1
    assert lake.run().outcome == "idle"
    assert len(lake.landing()) == 40
    assert lake.look().rows == as_rows(replayed(lake.events(lake.delivered)), lake.newest().schema)  # type: ignore[union-attr]


def test_a_commit_whose_answer_was_lost_is_recognised_as_its_own() -> None:
    """A store's client that tries again is told "exists": the Snapshot there holds this attempt's own id."""

    class Forgetful(MemoryStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            super().put_if_absent(path, data)
            return False

    lake = Lake(table())
    lake.storage = Forgetful(lambda: lake.now)
    report = one(lake, "a", line("c", [1], [1], {"a": 1}))
    assert (report.outcome, report.version) == ("committed", 1)
    assert lake.landing() == set()


def test_a_run_that_loses_every_race_gives_up_and_loses_nothing() -> None:
    """Somebody else commits just before every put: after some attempts it is Conflict, try again later; the files wait in landing."""
    lake = Lake(table())
    one(lake, "a", line("c", [1], [1], {"a": 1}))
    rival = Table(lake.env(), lake.spec)
    lost = []

    class Lost(MemoryStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            newest = lake.newest()
            assert newest is not None
            lost.append(path)
            put(rival, preview(rival, newest, Edit("commit", f"rival{len(lost)}")))
            return super().put_if_absent(path, data)

    storage, lake.storage = lake.storage, Lost(lake._clock)
    lake.storage._objects = storage._objects
    ours = lake.deliver("increment_2026010101/ours.json", [line("u", [1], [50], {"a": 50})])
    with pytest.raises(Conflict):
        lake.run()
    assert (len(lost), lake.landing()) == (ATTEMPTS, {ours})
    lake.storage = storage
    assert lake.run().outcome == "committed"
    assert lake.look().rows == lake.expected() == ((1, 50),)  # type: ignore[union-attr]


def test_a_compaction_that_loses_every_race_leaves_the_commit_as_it_is() -> None:
    """It is optional work: the run that committed is committed, and a later run compacts."""
    lake = Lake(table())
    for n in range(1, 4):
        lake.deliver(f"increment_20260101{n:02d}/a.json", [line("c", [n], [n], {"a": n})])
        with_delta = dataclasses.replace(lake.spec, compact_every=1e9)
        assert run_table(Table(lake.env(), with_delta)).outcome == "committed"
    lost = []

    class Lost(MemoryStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if json.loads(data)["operation"] == "compact":
                lost.append(path)
                rival = Table(Environment(storage, lake.env().engine, lake.env().catalog), lake.spec)
                pin(rival, 1, f"rival{len(lost)}")
            return super().put_if_absent(path, data)

    storage, lake.storage = lake.storage, Lost(lake._clock)
    lake.storage._objects = storage._objects
    lake.deliver("increment_2026010109/b.json", [line("u", [1], [50], {"a": 50})])
    report = lake.run()
    assert len(lost) == ATTEMPTS
    assert (report.outcome, report.operations) == ("committed", ("commit 4",))
    lake.storage = storage
    assert lake.run().operations == ("compact 10",)
    assert lake.look().rows == lake.expected() == ((1, 50), (2, 2), (3, 3))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("error", "rewritten", "ends"),
    [(InconsistentRead, True, "committed"), (InconsistentRead, False, "InconsistentRead"), (Unavailable, True, "Unavailable")],
)
def test_what_contradicts_itself_because_a_file_was_written_over_is_read_again(error: type[TryLater], rewritten: bool, ends: str) -> None:
    """Where nothing was written over, or nobody answers, it is for the next run."""
    lake = Lake(table())
    lake.deliver("increment_2026010101/a.json", [line("c", [1], [1], {"a": 1})])
    env, engine = lake.env(), lake.env().engine()
    failed: list[str] = []

    class Once:
        """The engine, whose first reading fails."""

        def __getattr__(self, name: str) -> Any:
            if name == "read" and not failed:
                failed.append(name)
                if rewritten:
                    lake.deliver("increment_2026010101/a.json", [line("c", [1], [2], {"a": 2})])
                raise error("expected 10 bytes, found 0")
            return getattr(engine, name)

    try:
        told = run_table(Table(dataclasses.replace(env, engine=Once), lake.spec)).outcome
    except TryLater as raised:
        told = type(raised).__name__
    assert (told, failed) == (ends, ["read"])
    lake.run()
    assert lake.look().rows == lake.expected() == ((1, 2 if rewritten else 1),)  # type: ignore[union-attr]
