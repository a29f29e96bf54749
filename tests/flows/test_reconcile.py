"""Reconcile with two sides in memory: what is compared, how a difference is narrowed down, and which differences are not judged."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.schema import Field, Schema
from compactor.core.reconcile.canonical import Columns, Pair, SourceColumn, pair_columns
from compactor.core.reconcile.dialects import POSTGRES, SPARK, postgres_form
from compactor.core.reconcile.reached import POSTGRES_LOG, SourceLog
from compactor.core.reconcile.report import ReconcileReport
from compactor.core.reconcile.side import Checksum, Key, Part, Row, Rows, Side, Split
from compactor.flows.read.reconcile import Options, Pinned, reconcile


def columns(key: str = "integer") -> Columns:
    """A key and a value."""
    return Columns((Pair("id", "int", "id", "integer", key, True), Pair("v", "string", "V", "text", "text", False)), ())


class Memory:
    """A side: (key, value, mark) of each row. `reads` counts the rows that statements have read."""

    def __init__(self, rows: Sequence[tuple[str, str | None, str]], ranged: bool = True) -> None:
        self.all, self.ranged, self.reads = list(rows), ranged, 0

    def bounds(self) -> tuple[int, int] | None:
        numbers = [int(key) for key, _, _ in self.all] if self.ranged else []
        return (min(numbers), max(numbers)) if self.ranged and numbers else None

    def _of(self, part: Part) -> list[tuple[str, str | None, str]]:
        def inside(key: str) -> bool:
            ranged = (part.low is None or int(key) >= part.low) and (part.high is None or int(key) < part.high)
            return ranged and _md5(key or "").startswith(part.prefix)

        return [row for row in self.all if inside(row[0])]

    def checksums(self, part: Part, split: Split) -> dict[str, Checksum]:
        sums: dict[str, Checksum] = {}
        for key, value, _ in self._of(part):
            label = str(int(key) - (int(key) - (part.low or 0)) % split.width) if split.width else _md5(key or "")[: split.digits]
            count, total = sums.get(label, (0, 0))
            sums[label] = (count + 1, total + int(_md5(f"{key}:{value}")[:15], 16))
            self.reads += 1
        return sums

    def digests(self, parts: Sequence[Part]) -> Rows:
        rows = [row for part in parts for row in self._of(part)]
        self.reads += len(rows)
        return _by_key(rows)

    def rows(self, keys: Sequence[Key]) -> Rows:
        return _by_key([row for row in self.all if (row[0],) in set(keys)])


def _by_key(rows: Sequence[tuple[str, str | None, str]]) -> Rows:
    by_key: Rows = {}
    for key, value, mark in sorted(rows, key=lambda row: (row[1] or "", row[2])):
        by_key[key,] = (*by_key.get((key,), ()), Row(_md5(f"{key}:{value}"), mark, (key, value)))
    return by_key


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@dataclasses.dataclass
class Both:
    """A source and a lake; `happens` is called at each read of the source's log end and may change both."""

    source: Memory
    lake: Memory
    at: int | None = 10
    reached: int | None = 10
    happens: Callable[[Both], None] = lambda both: None
    time: float = 0.0
    patience: float = 30.0
    name: str = "pg t"

    @property
    def side(self) -> Memory:
        return self.source

    log: SourceLog = dataclasses.field(default=POSTGRES_LOG)

    def end(self) -> int | None:
        self.happens(self)
        return self.at

    def pause(self) -> bool:
        self.time += 1
        return self.time <= self.patience

    def compared(self, **options: Any) -> ReconcileReport:
        return reconcile(self, LakeOf(self), Options(**options), lambda: self.pause(), lambda: self.time)  # type: ignore[arg-type]


@dataclasses.dataclass
class LakeOf:
    """The lake's side of Both."""

    both: Both
    table = SimpleNamespace(name="t")
    columns = columns()

    def reached(self) -> int | None:
        return self.both.reached

    def pin(self) -> Pinned:
        lake = self.both.lake
        return Pinned(7, len(lake.all), self.both.reached, Memory(lake.all, lake.ranged))


def rows(count: int) -> list[tuple[str, str | None, str]]:
    """Keys with gaps that grow, one of them negative."""
    return [(str(n * n // 50 + n - 3), f"v{n}", "1") for n in range(count)]


def edited(there: list[tuple[str, str | None, str]], at: int, value: str | None) -> list[tuple[str, str | None, str]]:
    """The same rows, one with another value."""
    return [*there[:at], (there[at][0], value, there[at][2]), *there[at + 1 :]]


def test_a_key_that_is_no_value_of_its_type_is_named() -> None:
    """The canonical text of such a value is null, and rows with it cannot be looked up."""
    lake = rows(5)
    with pytest.raises(Refused, match=r"a row of the lake has the key \(None,\); null stands for what is no value of the source's type"):
        Both(Memory(rows(5), False), Memory([*lake, (None, "v", "1")], False)).compared()  # type: ignore[list-item]


@pytest.mark.parametrize("ranged", [True, False], ids=["ranges of numbers", "digits of the key's digest"])
@pytest.mark.parametrize("count", [3, 12_000])
def test_every_kind_of_difference_is_named_once(ranged: bool, count: int) -> None:
    """A cell, a null, a lost row, an extra row, a doubled row; the source reads little more than its table."""
    there = rows(count)
    lake = edited(edited(there, 0, "other"), 1, None)[:-1]
    lake += [lake[1], ("1000000000", "ghost", "1")]
    both = Both(Memory(there, ranged), Memory(lake, ranged))
    report = both.compared(chunk=5_000)
    kinds = {item.kind: item for item in report.differences}
    assert (report.outcome, report.exit_code, report.different) == ("different", 1, 4)
    assert [(cell.column, cell.source, cell.lake) for cell in kinds["changed"].cells] == [("v", "v0", "other")]
    assert (kinds["missing"].key, kinds["extra"].key) == ({"id": there[-1][0]}, {"id": "1000000000"})
    assert kinds["repeated"].rows == (1, 2)
    assert all(item.proof == "lake at 0/A, source read at 0/A" for item in report.differences)
    assert both.source.reads <= count * 3


def test_nothing_is_reported_where_all_is_equal_and_the_second_look_is_saved() -> None:
    """No key is looked up, no time passes, whatever the order of the rows."""
    both = Both(Memory(rows(9000)), Memory(rows(9000)[::-1]), reached=0)
    report = both.compared()
    assert (report.outcome, report.exit_code, report.suspects, both.time) == ("equal", 0, 0, 0.0)


def test_two_empty_tables_are_equal() -> None:
    """Neither has a least key."""
    assert Both(Memory([]), Memory([])).compared().outcome == "equal"


def test_a_delay_is_waited_for() -> None:
    """The lake has the new value when it has come to where the source was read."""
    there = edited(rows(10), 3, "new")
    both = Both(Memory(there), Memory(rows(10)), at=20, reached=10)

    def pause() -> bool:
        both.time += 1
        if both.time > 5:
            both.lake, both.reached = Memory(there), 20
        return True

    both.pause = pause  # type: ignore[method-assign]
    report = both.compared()
    assert (report.outcome, report.suspects, report.different) == ("equal", 1, 0)


def test_a_difference_without_proof_is_no_error_of_the_lake() -> None:
    """It has not reached the source's position in time: exit code 75, and the row is named."""
    both = Both(Memory(edited(rows(10), 3, "new")), Memory(rows(10)), at=20, reached=10)
    report = both.compared()
    assert (report.outcome, report.exit_code, report.differences[0].proof) == ("unproven", 75, "")


def test_a_lake_without_positions_is_judged_by_time() -> None:
    """The source has not changed the row for as long as one was ready to wait."""
    both = Both(Memory(edited(rows(10), 3, "new")), Memory(rows(10)), reached=None)
    report = both.compared()
    assert (report.outcome, report.differences[0].proof) == ("different", "the source has not changed it for 31 s")


def test_a_row_that_only_a_lake_without_positions_has_is_judged_by_time() -> None:
    """One look is all that there is time for."""
    report = Both(Memory(rows(10)[:-1]), Memory(rows(10)), reached=None).compared()
    assert [(item.kind, item.proof) for item in report.differences] == [("extra", "the source has not changed it for 31 s")]


def test_a_standby_that_is_behind_the_lake_is_waited_for() -> None:
    """Until then it cannot show that it has the lake's value, too."""
    both = Both(Memory(rows(10)), Memory(edited(rows(10), 3, "new")), at=10, reached=20)

    def pause() -> bool:
        both.time += 1
        if both.time > 5:
            both.source, both.at = Memory(edited(rows(10), 3, "new")), 20
        return both.time < 30

    both.pause = pause  # type: ignore[method-assign]
    report = both.compared()
    assert (report.outcome, report.suspects, both.time) == ("equal", 0, 6)
    behind = Both(Memory(rows(10)), Memory(edited(rows(10), 3, "new")), at=10, reached=20).compared()
    assert (behind.outcome, behind.different) == ("unproven", 1)


def without_marks(there: list[tuple[str, str | None, str]]) -> Memory:
    """MySQL's rows, or those of a view."""
    return Memory([(key, value, "") for key, value, _ in there])


GHOST = ("500", "ghost", "2")
BETWEEN = {
    "changed and changed back": (edited(rows(10), 3, "old"), [*rows(10)[:3], (rows(10)[3][0], "between", "2"), *rows(10)[4:]]),
    "inserted and deleted again": (edited(rows(10), 3, "old"), [*rows(10), GHOST]),
    "inserted and deleted before": ([*rows(10), GHOST], [*rows(10), ("500", "ghost", "3")]),
}
"""What the lake shows at first → what it shows when it has come to where the source was read, and what the source has in between."""


@pytest.mark.parametrize("case", BETWEEN)
def test_a_row_that_the_source_changes_and_changes_back_between_its_reads_is_no_difference(case: str) -> None:
    """The source has no marks, so that both of its reads are the same: what the lake stored meanwhile is looked at again."""
    first, between = BETWEEN[case]
    reads: list[int] = []

    def there_and_back(both: Both) -> None:
        reads.append(1)
        # the first is the beginning of the comparison, the third comes after the read of the source's rows
        both.lake = Memory(first if len(reads) <= 2 else between if len(reads) == 3 else rows(10))

    report = Both(without_marks(rows(10)), Memory(first), happens=there_and_back).compared()
    assert (report.outcome, report.differences, report.changing) == ("equal", (), 0)
    assert len(reads) > 3


def test_a_row_that_is_wrong_is_looked_at_once() -> None:
    """Also where the source has no marks: nobody waits until the lake has come further once more."""
    reads: list[int] = []
    report = Both(without_marks(rows(10)), Memory(edited(rows(10), 3, "wrong")), happens=lambda both: reads.append(1)).compared()
    assert (report.outcome, report.different, len(reads)) == ("different", 1, 4)


def test_only_the_rows_that_count_are_read_from_a_side() -> None:
    """Of a table with `delete_when` those that are no deletes; each statement has the condition, and a text key never becomes part of it."""
    statements: list[str] = []

    def query(text: str) -> list[tuple[int, int]]:
        statements.append(text)
        return [(1, 2)] if text.startswith("SELECT min") else []

    side = Side(POSTGRES, '"t"', columns(), query, "xmin::text", "a or b")
    side.bounds(), side.checksums(Part(1, 5), Split(2)), side.digests([Part(1, 2), Part(3, 4)]), side.rows([("1",)])
    assert all('FROM "t" WHERE (a or b) AND ' in text for text in statements)
    assert 'WHERE (a or b) AND (("id" >= 1 AND "id" < 2) OR ("id" >= 3 AND "id" < 4))' in statements[3]


def test_a_key_of_floating_numbers_is_looked_up_by_its_text() -> None:
    """Its canonical text is its bits, of which SQL makes no number again."""
    pair = Pair("x", "double", "x", "double precision", "double", True)
    for sql in (POSTGRES, SPARK):
        assert (sql.operand(pair), sql.value(pair, "4607182418800017408")) == (sql.text(pair), "'4607182418800017408'")


def test_a_row_that_the_source_changes_in_every_look_is_not_judged() -> None:
    """Also when it has the same value again: PostgreSQL's xmin is another."""
    there = edited(rows(10), 3, "new")

    def touch(both: Both) -> None:
        both.source = Memory([(key, value, str(int(mark) + (key == there[3][0]))) for key, value, mark in both.source.all])

    report = Both(Memory(there), Memory(rows(10)), happens=touch).compared()
    assert (report.outcome, report.changing, report.different) == ("equal", 1, 0)


def test_a_row_that_changed_once_and_for_which_no_time_is_left_is_unproven() -> None:
    """A run has moved the lake between the digests and the look, and it is still behind the source."""
    seen: list[int] = []

    def come_further(both: Both) -> None:
        seen.append(1)
        if len(seen) == 3:
            both.lake = Memory([(key, "v2" if key == both.lake.all[3][0] else value, "2") for key, value, _ in both.lake.all])

    both = Both(Memory(edited(rows(10), 3, "new")), Memory(rows(10)), at=1000, reached=500, happens=come_further, patience=0.0)
    report = both.compared()
    assert (report.outcome, report.changing, report.different) == ("unproven", 0, 1)


def test_a_row_that_comes_and_goes_all_the_time_is_not_judged() -> None:
    """In every look the lake has it, each time as a later version stored it, and the source never has it when it is read."""
    base, seen = rows(10), []

    def blink(both: Both) -> None:
        seen.append(1)
        both.lake = Memory([*base, ("500", "ghost", str(len(seen)))])

    report = Both(Memory(base), Memory([*base, ("500", "ghost", "0")]), happens=blink).compared()
    assert (report.outcome, report.changing, report.different) == ("equal", 1, 0)


def test_a_key_that_the_lake_has_twice_needs_no_position_as_proof() -> None:
    """One version shows it, also where the lake comes no further."""
    base = rows(10)
    report = Both(Memory(base), Memory([*base, base[3]]), reached=5, patience=3.0).compared()
    assert (report.outcome, report.exit_code, report.different) == ("different", 1, 1)
    assert (report.differences[0].kind, report.differences[0].proof) == ("repeated", "version 7 has the key 2 times")


def test_too_many_differences_are_counted_and_not_looked_at() -> None:
    """A lake that is hours behind would be read row by row."""
    report = Both(Memory(rows(400)), Memory([(key, "old", "1") for key, _, _ in rows(400)])).compared(suspects=50)
    assert (report.outcome, report.exit_code, report.differences) == ("too many", 1, ())


def test_a_comparison_begins_when_the_lake_has_come_far_enough() -> None:
    """Or fails, and says how far it is."""
    both = Both(Memory(rows(3)), Memory(rows(3)), reached=10)
    assert both.compared(at="0/A").outcome == "equal"
    with pytest.raises(Unavailable, match=r"the lake has not reached 0/B, it is at 0/A\. Wait longer"):
        both.compared(at="0/B")
    assert both.time == 31


@pytest.mark.parametrize(
    ("order", "position", "expected"),
    [
        ((("commit_lsn", "bigint"), ("lsn", "bigint")), (0, 100, 160), 159),
        ((("commit_lsn", "bigint"), ("lsn", "bigint")), (0, 160, 150), 160),
        ((("commit_time", "bigint"), ("change_lsn", "bigint")), (0, 1700000000000000, 33), 32),
        ((("commit_lsn", "bigint"), ("lsn", "bigint")), (0, 100, None), 100),
        ((("ts", "bigint"),), (0, 5), None),
        ((("lsn", "string"),), (0, "0/16"), None),
        ((), None, None),
    ],
)
def test_the_position_of_a_version_shows_how_far_it_has_the_log(order: Any, position: Any, expected: int | None) -> None:
    """Only order columns that are LSNs do."""
    assert POSTGRES_LOG.reached(order, position) == expected


def test_an_lsn_is_written_as_postgresql_does() -> None:
    """There and back."""
    log = POSTGRES_LOG
    assert [log.text(log.parse(text)) for text in ("0/0", "16/B374D848", "now")] == ["0/0", "16/B374D848", "unknown"]


@pytest.mark.parametrize(
    ("stored", "source", "expected"),
    [
        ("int", "integer", "integer"),
        ("decimal(12,2)", "numeric(12,2)", "number"),
        ("string", "numeric", "number"),
        ("double", "numeric(9,2)", "double"),
        ("double", "real", "single"),
        ("timestamp", "timestamp(3) with time zone", "moment"),
        ("string", "timestamp without time zone", "moment"),
        ("string", "character(8)", "padded"),
        ("string", "uuid", "uuid"),
        ("string", "jsonb", "text"),
        ("bigint", "timestamp without time zone", "stored as bigint, timestamp without time zone in the source"),
        ("string", "bytea", "stored as string, bytea in the source"),
        ("array<int>", "integer[]", "integer[] has no canonical form"),
        ("string", "interval", "interval has no canonical form"),
        ("string", "time(3) with time zone", "time(3) with time zone has no canonical form"),
    ],
)
def test_a_column_is_compared_in_a_form_or_the_reason_is_named(stored: str, source: str, expected: str) -> None:
    """Nothing is left out silently."""
    made = pair_columns(Schema((Field("x", "X", stored),), ()), [SourceColumn("X", source, postgres_form(source))])
    assert [*(pair.form for pair in made.pairs), *(reason for _, reason in made.skipped)] == [expected]


def test_columns_of_one_side_are_named_and_key_columns_come_first() -> None:
    """In the order of the key."""
    lake = [*(Field(name, name, "int") for name in ("v", "b", "a", "ours")), Field("secret", "secret", "int", protection="null")]
    source = [SourceColumn(name, "integer", "integer") for name in ("a", "b", "theirs", "v", "secret")]
    made = pair_columns(Schema(tuple(lake), ("b", "a")), source)
    assert (made.names, made.ranged) == (("b", "a", "v"), True)
    text = pair_columns(Schema((Field("id", "id", "string"),), ("id",)), [SourceColumn("id", "bigint", "integer")])
    assert not text.ranged
    assert made.skipped == (
        ("ours", "only the lake has it"),
        ("secret", "stored by the rule null of `columns:`"),
        ("theirs", "only the source has it"),
    )
    # what a repair that inserts a row leaves null
    assert made.left_out == ("ours", "secret")


def test_an_address_is_compared_as_postgresql_prints_it() -> None:
    """Its cast to text adds the mask to a host: 10.0.0.1/32."""
    host = Pair("ip", "string", "ip", "inet", "text", False)
    net = dataclasses.replace(host, source_type="cidr")
    assert ['abbrev("ip")', '"ip"::text'] == [POSTGRES.text(pair) for pair in (host, net)]
