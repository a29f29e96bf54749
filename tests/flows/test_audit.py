"""Write, audit, publish: a version for which a rule of `checks:` does not hold is committed and not shown."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from typing import Any

import pytest

from compactor.app.registry import sync
from compactor.config.settings import load
from compactor.core.model.errors import CheckFailed, ConfigError, NoRowsYet, Refused
from compactor.core.model.policy import ACCEPTED, FRESH, NULL_SHARE, ROW_CHANGE, SQL, UNIQUE, Policy, Rule
from compactor.core.planning.audit import Audit, Measured, failures, query
from compactor.core.settings.job_config import JobConfig
from compactor.flows.keep.erase import Request, erase
from compactor.flows.publish import audit, publish
from compactor.flows.publish.sync import sync_table
from compactor.flows.read.status import status
from compactor.flows.read.verify import verify
from compactor.flows.read.visible import changes, kept, visible
from compactor.flows.run import Spending, commit_table, finish_table, look_at
from tests.faults import MODES, Crash, every_fault
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.sizes import tiered
from tests.oracle.whole_engine import WholeEngine

UNIQUE_A = Rule(UNIQUE, ("a",))


def lake(*rules: Rule, **changes: Any) -> Lake:
    """A table with rules."""
    return Lake(table(rules=rules, **changes))


def land(lake: Lake, number: int, *rows: tuple[int, int | None]) -> None:
    """One file with one upsert a row (key, a)."""
    lines = [line("u", [key], [number * 100 + at], {"a": value}) for at, (key, value) in enumerate(rows)]
    lake.deliver(f"increment_2026010100/{number:03d}.json", lines)


def shown(lake: Lake) -> list[tuple[Any, ...]]:
    """(version, values of a) that readers of the catalog see; those of the files see the same version."""
    look, by_files = lake.look(), visible(lake.table())
    assert (by_files and by_files.version) == (look and look.version)
    return [] if look is None else [(look.version, *(row[look.columns.index("a")] for row in look.rows))]


def test_a_version_that_breaks_a_rule_is_not_shown_until_a_later_one_repairs_it() -> None:
    """Readers keep the old version, files are archived, and each run says why; the feed and the ledger go on."""
    there = lake(UNIQUE_A, archive="move", compact_every=1e9)
    land(there, 1, (1, 5), (2, 6))
    assert (there.run().outcome, shown(there)) == ("committed", [(1, 5, 6)])

    land(there, 2, (2, 5))
    report = there.run()
    assert (report.outcome, report.exit_code, report.error_class, report.version) == ("blocked", 1, "CheckFailed", 2)
    assert "unique a: expected none, found 1 key with several rows" in str(report.error)
    assert "compactor publish t" in str(report.error)
    assert (shown(there), set(there.landing())) == ([(1, 5, 6)], set())

    assert there.run().outcome == "blocked"
    assert isinstance(look_at(there.table()), int)
    assert status(there.table()).blocked == report.error
    land(there, 3, (2, 7))
    assert (there.run().outcome, shown(there)) == ("committed", [(3, 5, 7)])
    assert there.run().outcome == "idle"
    assert status(there.table()).blocked is None


def test_an_accepted_version_is_shown_and_stays_so_after_a_compaction() -> None:
    """The next version with other rows is audited again."""
    there = lake(UNIQUE_A, compact_every=1e9)
    land(there, 1, (1, 5), (2, 5))
    assert (there.run().outcome, shown(there)) == ("blocked", [])
    newest = there.newest()
    assert newest is not None
    with pytest.raises(CheckFailed, match="committed and not shown"):
        sync_table(there.table())
    assert audit.accept(there.table(), newest).failures
    assert (sync_table(there.table()), shown(there)) == ("version 1", [(1, 5, 5)])
    there.pin(1)
    assert (there.run().outcome, shown(there)) == ("resumed", [(2, 5, 5)])
    land(there, 2, (3, 9))
    assert (there.run().outcome, shown(there)) == ("blocked", [(2, 5, 5)])


def test_a_table_without_rules_reads_and_writes_nothing_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """No object, no query."""
    monkeypatch.setattr(WholeEngine, "audit", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(audit, "_stored", lambda *_: pytest.fail("read"))
    there = lake()
    land(there, 1, (1, 5), (2, 5))
    assert (there.run().outcome, shown(there)) == ("committed", [(1, 5, 5)])
    assert there.storage.stat(there.layout.audit()) is None


def test_rows_are_counted_against_the_version_that_readers_see() -> None:
    """Not against a version that was blocked."""
    there = lake(Rule(ROW_CHANGE, (), 0.5))
    land(there, 1, *((key, key) for key in range(4)))
    there.run()
    land(there, 2, *((key, key) for key in range(10, 20)))
    report = there.run()
    assert "row_change: expected at most 50%, found 250%: 4 rows before, 14 now" in str(report.error)
    there.deliver("increment_2026010100/003.json", [line("d", [key], [300 + key]) for key in range(10, 19)])
    assert there.run().outcome == "committed"
    assert [values for _, *values in shown(there)] == [[0, 1, 19, 2, 3]]


def test_vacuum_keeps_what_readers_see_while_a_newer_version_is_blocked() -> None:
    """However old it is."""
    there = lake(UNIQUE_A, keep=1.0, keep_versions=1, grace=1.0)
    land(there, 1, (1, 5), (2, 6))
    there.run()
    for number in range(2, 6):
        land(there, number, (2, 5), (3, number * 10))
        assert there.run().outcome == "blocked"
        there.now += 100
        there.vacuum()
    assert shown(there) == [(1, 5, 6)]


@pytest.mark.parametrize("declared", [False, True])
def test_verify_of_a_table_whose_first_version_is_blocked(declared: bool) -> None:
    """Nothing is shown that could be compared; a declared view shows no version."""
    there = lake(UNIQUE_A)
    if declared:
        other = lake(UNIQUE_A)
        land(other, 1, (1, 5))
        other.run()
        newest = other.newest()
        assert newest is not None
        publish.declare(there.table(), newest.schema)
    land(there, 1, (1, 5), (2, 5))
    assert there.run().outcome == "blocked"
    details = {check.name: (check.ok, check.detail) for check in verify(there.table())}
    assert details["view equals full recompute"] == (True, "cannot be compared: version 1 is blocked, and readers see none")


def test_verify_compares_the_version_that_readers_see() -> None:
    there = lake(UNIQUE_A, compact_every=1e9)
    land(there, 1, (1, 5), (2, 6))
    there.run()
    land(there, 2, (2, 5), (3, 7))
    assert there.run().outcome == "blocked"
    details = {check.name: check.detail for check in verify(there.table())}
    assert details["compared version"] == "1, which readers see: version 2 is blocked"


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"failures": null}'])
def test_a_lost_verdict_is_made_again(damage: bytes) -> None:
    """The file is a memory, no truth."""
    there = lake(UNIQUE_A)
    land(there, 1, (1, 5), (2, 5))
    there.run()
    there.storage.write(there.layout.audit(), damage)
    there.storage.write(there.layout.shown(), damage)
    assert (there.run().outcome, shown(there)) == ("blocked", [])
    assert Audit.from_bytes(there.storage.read(there.layout.audit())).version == 1


def test_other_rules_ask_for_another_audit() -> None:
    """A rule that was taken away blocks nothing."""
    there = lake(UNIQUE_A)
    land(there, 1, (1, 5), (2, 5))
    there.run()
    there.spec = dataclasses.replace(there.spec, rules=(Rule(SQL, ("none",), values=("SELECT 1 FROM t WHERE a = 6",)),))
    assert (there.run().outcome, shown(there)) == ("resumed", [(1, 5, 5)])


def two_versions() -> Lake:
    """Version 2 is blocked, and the file that repairs it has landed."""
    there = lake(UNIQUE_A, feed="net", compact_every=1e9)
    land(there, 1, (1, 5), (2, 6))
    there.run()
    land(there, 2, (2, 5))
    there.run()
    land(there, 3, (2, 7))
    return there


def test_readers_of_files_see_the_version_that_was_published() -> None:
    """Also the change feed ends there, unless another version is named."""
    there = two_versions()
    assert shown(there) == [(1, 5, 6)]
    assert (kept(there.table()).version, kept(there.table(), 2).version) == (1, 2)
    assert [snapshot.version for snapshot in changes(there.table(), 0)] == [1]
    with pytest.raises(Refused, match="expected a version up to 1, which readers see, found 2"):
        list(changes(there.table(), 0, to=2))
    there.run()
    assert [snapshot.version for snapshot in changes(there.table(), 1)] == [2, 3]


def test_a_table_whose_first_version_is_blocked_has_no_rows_yet() -> None:
    """And the error says what to do."""
    there = lake(UNIQUE_A, feed="net")
    with pytest.raises(NoRowsYet, match="nothing is committed yet"):
        kept(there.table())
    land(there, 1, (1, 5), (2, 5))
    there.run()
    assert shown(there) == []
    for read in (lambda: kept(there.table()), lambda: list(changes(there.table(), 0))):
        with pytest.raises(NoRowsYet, match=r"no version has passed its `checks:` yet.*compactor publish t --accept"):
            read()


def test_a_dry_run_of_sync_publishes_nothing_for_readers_of_files() -> None:
    """Its catalog only records statements."""
    there = lake(UNIQUE_A)
    land(there, 1, (1, 5), (2, 5))
    there.run()
    newest = there.newest()
    assert newest is not None
    audit.accept(there.table(), newest)
    assert sync(there.table(), dry_run=True).statements
    assert shown(there) == []
    assert (sync_table(there.table()), shown(there)) == ("version 1", [(1, 5, 5)])


def test_a_dry_run_of_sync_writes_no_file() -> None:
    """Neither the verdict of its audit nor the mark of the owner, although the catalog is behind and both are missing."""
    there = lake(UNIQUE_A)
    land(there, 1, (1, 5), (2, 6))
    there.run()
    there.catalog = type(there.catalog)()
    there.storage.delete([there.layout.audit(), there.layout.owner()])
    before = {**there.storage._objects}
    assert sync(there.table(), dry_run=True).statements
    assert there.storage._objects == before
    assert sync(there.table(), dry_run=False).statements
    assert {*there.storage._objects} - {*before} == {there.layout.audit(), there.layout.owner()}


def test_rules_that_are_new_hide_nothing_that_was_shown() -> None:
    """Only what comes after them."""
    there = lake()
    land(there, 1, (1, 5), (2, 5))
    there.run()
    there.spec = dataclasses.replace(there.spec, rules=(UNIQUE_A,))
    assert shown(there) == [(1, 5, 5)]
    land(there, 2, (3, 5))
    assert (there.run().outcome, shown(there)) == ("blocked", [(1, 5, 5)])


@pytest.mark.parametrize("mode", tiered(MODES, fast=["from_then_on"]))
def test_a_run_that_dies_anywhere_shows_readers_of_files_no_blocked_version(mode: str) -> None:
    """They see an older one at most until the next run."""
    for faults in every_fault(mode):
        there = two_versions()
        with suppress(Crash):
            there.run(faults)
        seen = visible(there.table())
        assert seen is not None
        assert seen.version in (1, 3)
        there.run()
        assert shown(there) == [(3, 5, 7)]
    assert len(faults.calls) > 30


def test_a_version_that_is_seen_and_gone_is_an_error() -> None:
    """A remembered version that vacuum has given up is not read as if it had no rows."""
    there = two_versions()
    stub = next(iter(there.committed())).stub()
    there.storage.write(there.layout.snapshot(1), stub.to_bytes())
    with pytest.raises(Refused, match="version 1 is not kept"):
        visible(there.table())


@pytest.mark.parametrize(
    ("rule", "offending", "expected"),
    [
        (Rule(ROW_CHANGE, (), 2.0), None, ()),
        (Rule(NULL_SHARE, ("a",), 0.05), (5, ""), ()),
        (Rule(NULL_SHARE, ("a",), 0.05), (6, ""), ("null_share a: expected at most 5.0% nulls, found 6.0% (6 rows)",)),
        (Rule(ACCEPTED, ("a",), values=("x",)), (2, '{"a":"y"}'), ('accepted a: expected none, found 2 offending rows, such as {"a":"y"}',)),
        (Rule(SQL, ("no orphans",), values=("SELECT 1",)), (0, ""), ()),
        (Rule(SQL, ("gone",), values=("SELECT x",)), "no column x", ("sql gone: the query is refused: no column x",)),
        (Rule(FRESH, (), 3600.0), None, ("fresh: expected changes of the last 1.0 h, found 2.0 h",)),
        (Rule(FRESH, (), 7201.0), None, ()),
    ],
)
def test_a_rule_that_does_not_hold_says_what_was_expected_and_found(
    rule: Rule, offending: tuple[int, str] | str | None, expected: tuple[str, ...]
) -> None:
    """One sentence."""
    counted = Measured(100, () if offending is None else (offending,))
    assert failures([rule], counted, 50, "1970-01-01T00:00:00Z", 7200.0) == expected


def test_a_value_in_a_rule_cannot_break_out_of_its_text() -> None:
    """It is escaped as everywhere."""
    assert query(Rule(ACCEPTED, ("a`b",), values=("it's \\",)), "t").endswith("NOT IN ('it\\u0027s \\u005c')")


def test_rules_come_from_the_configuration_and_travel_to_a_cluster(tmp_path: Any) -> None:
    """And a wrong one is named with its line."""
    text = (
        "warehouse: w\ntables:\n  t:\n    key: [id]\n    max_gone: 10%\n    checks:\n      row_change: 200%\n      unique: [email, [a, b]]\n"
        "      null_share: {email: 5%}\n      accepted: {status: [1, x, true]}\n      fresh: 6h\n      sql: {orphans: 'select * from t where x is null;'}\n"
    )
    (tmp_path / "compactor.yaml").write_text(text)
    spec = load(tmp_path / "compactor.yaml").spec("t")
    assert spec.rules == (
        Rule(ROW_CHANGE, (), 2.0),
        Rule(UNIQUE, ("email",)),
        Rule(UNIQUE, ("a", "b")),
        Rule(NULL_SHARE, ("email",), 0.05),
        Rule(ACCEPTED, ("status",), values=("1", "x", "true")),
        Rule(FRESH, (), 21600.0),
        Rule(SQL, ("orphans",), values=("select * from t where x is null",)),
    )
    assert JobConfig.read(JobConfig((spec,), "/lake").written()).specs == (spec,)
    (tmp_path / "compactor.yaml").write_text(text.replace("'select * from t where x is null;'", "drop table t"))
    with pytest.raises(ConfigError, match=r"orphans: expected a query that begins with SELECT or WITH"):
        load(tmp_path / "compactor.yaml")
    (tmp_path / "compactor.yaml").write_text(text.replace("[a, b]", "[]"))
    with pytest.raises(ConfigError, match=r"unique: expected lists of columns, found an empty one"):
        load(tmp_path / "compactor.yaml")


def test_a_run_that_ends_late_takes_no_version_from_the_readers_of_files() -> None:
    """Another run has published a newer one since."""
    there = lake(UNIQUE_A, compact_every=1e9)
    land(there, 1, (1, 5))
    late = commit_table(there.table())
    land(there, 2, (1, 6))
    assert there.run().version == 2
    assert finish_table(late, Spending()).version == 1
    assert shown(there) == [(2, 6)]


@pytest.mark.parametrize("own", [False, True], ids=["a version before it", "its own version"])
def test_an_erase_goes_on_while_a_version_is_blocked(own: bool) -> None:
    """Raw files have no record of the keys any more. It is not finished while readers see the rows, and says why."""
    there = lake(Rule(ROW_CHANGE, (), 0.3), compact_every=1e9, archive="move")
    land(there, 1, *((key, key) for key in range(4)))
    there.run()
    if not own:
        land(there, 2, *((key, key) for key in range(4, 8)))
        assert there.run().outcome == "blocked"
    report = erase(there.table(), Request((("0",), ("1",)), now=True))
    assert not report.finished
    assert report.goes is None
    assert re.match(
        r"what readers see \(table t: version \d is committed and not shown.*row_change: .*--accept it shows it as it is\)", report.left[0]
    )
    assert [row for _, *row in shown(there)] == [[0, 1, 2, 3]]
    (archived,) = [info.path for info in there.storage.list("/lake/t/archive") if info.path.endswith("001.json")]
    assert there.storage.read(archived).count(b'"key"') == 2
    sync(there.table(), dry_run=False, accept=True)
    assert erase(there.table(), Request(now=True)).finished
    assert [row for _, *row in shown(there)] == [[2, 3, *([] if own else [4, 5, 6, 7])]]


def test_numbers_become_text_while_a_version_is_blocked() -> None:
    """What has landed is what repairs it."""
    there = lake(UNIQUE_A, policy=Policy(kinds=(("to_string", "evolve"),)))
    land(there, 1, (1, 5), (2, 5))
    assert there.run().outcome == "blocked"
    there.deliver("increment_2026010100/002.json", [line("u", [2], [200], {"a": "n"})])
    assert there.run().outcome == "committed"
    assert [values for _, *values in shown(there)] == [["5", "n"]]
