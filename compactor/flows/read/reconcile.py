"""Reconcile: compare a table with its source while both change. docs/design/proofs.md explains why to trust it.

1. Checksums of key ranges of one version of the lake and of the source as it is. Ranges that differ are divided until single keys are left.
2. Each such key is looked at once more when the lake has come to where the source was read. Only a row that neither side changed meanwhile is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from compactor.core.catalog import views
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.snapshot import Snapshot
from compactor.core.reconcile import report as reports
from compactor.core.reconcile.canonical import Columns
from compactor.core.reconcile.dialects import SPARK
from compactor.core.reconcile.reached import SourceLog
from compactor.core.reconcile.report import ReconcileReport, RowDifference, difference
from compactor.core.reconcile.side import NOTHING, Checksum, Key, Part, Query, Row, Rows, Side, Split
from compactor.flows.publish.publish import shown_version
from compactor.flows.table import Table

PIECE = 5_000
"""Rows that a key range should have."""

_NO_VALUE = ("22P02", "22003", "22007", "22008", "22021")
"""PostgreSQL's errors about a text that is no value of a type: its form, its range, a character that the encoding does not have."""

_FETCHED = 20_000
"""The most rows whose digests one statement fetches; a larger range is divided first."""

_KEYS = 500
"""Keys that are looked up in one statement."""

_CHANGING = 3
"""Looks during which a row changed every time, after which it is not judged."""


@dataclass(frozen=True)
class Pinned:
    """One version of the lake."""

    version: int
    rows: int
    """About how many rows it has."""
    reached: int | None
    """Up to where it has the source's log; None if that is unknown."""
    side: Side


@dataclass(frozen=True)
class Lake:
    """The table that is compared, as Spark reads it."""

    table: Table
    columns: Columns
    log: SourceLog
    query: Query

    def reached(self) -> int | None:
        """Return up to where the newest version has the source's log; cheap, as it is called every few seconds."""
        newest = self.table.newest()
        return self.log.reached(newest.order, newest.position) if newest else None

    def pin(self) -> Pinned:
        """Return the version that readers see now."""
        snapshot = shown(self.table)
        deleted = f" WHERE NOT `{views.DELETED}`" if self.table.spec.soft else ""
        relation = f"(SELECT * FROM ({views.view_text(self.table.spec, snapshot, versions=True)}) v{deleted}) t"
        side = Side(SPARK, relation, self.columns, self.query, f"`{views.ROW_VERSION}`")
        return Pinned(snapshot.version, snapshot.rows, self.log.reached(snapshot.order, snapshot.position), side)

    def rows(self, keys: Sequence[Key]) -> Rows:
        """Return the rows with these keys in the version that readers see now."""
        return _rows(self.pin().side, keys)


def shown(table: Table) -> Snapshot:
    """Return the version that the table's view shows. Raises Refused without one."""
    newest = table.newest()
    version = shown_version(table, newest) if newest else None
    snapshot = table.snapshot(version) if version else None
    if snapshot is None:
        raise Refused(f"table {table.name}: nothing is published yet; run `compactor run {table.name}` first")
    return snapshot


class Source(Protocol):
    """The source as `reconcile` uses it."""

    name: str
    """Server and table, without user and password."""
    side: Side
    """Its rows, as they are when they are read."""
    log: SourceLog

    def end(self) -> int | None:
        """Return the end of its log: everything that was visible in earlier reads lies before it. None if it has no such number."""


@dataclass(frozen=True)
class Options:
    parallel: int = 2
    """Statements at a time on the source."""
    chunk: int = 100_000
    """Rows that one statement on the source should read."""
    timeout: float = 300.0
    """Seconds that one statement on the source may take."""
    limit: int = 100
    """Differences that the report describes."""
    suspects: int = 20_000
    """More keys than this are not looked at one by one."""
    at: str | None = None
    """A position in the source's log, or `now`, that the lake must have reached before the comparison begins."""
    wait: float = 600.0
    """Seconds that may be spent waiting for the lake."""
    source_table: str | None = None
    """The table in the source; None for what the table's configuration names."""
    where: str | None = None
    """A condition on the source's rows, in its SQL. None leaves out the rows that `delete_when` makes deletes."""


DEFAULT = Options()


def reconcile(source: Source, lake: Lake, options: Options, pause: Callable[[], bool], clock: Callable[[], float]) -> ReconcileReport:
    """Compare all rows. `pause` waits a moment and returns False when no time is left.

    Raises Refused for an `options.at` that is no position, and Unavailable if the lake does not reach it in time.
    """
    began, start = clock(), source.end()
    if options.at is not None:
        _await(source, lake, options.at, pause)
    pinned = lake.pin()
    in_step = _caught_up(source, pinned, pause)
    parts, counts, suspects = _suspects(source.side, pinned, options)
    differences, changing, outcome = list[RowDifference](), 0, reports.TOO_MANY
    if len(suspects) <= options.suspects:
        differences, changing = _judge(source, lake, suspects, in_step, options.limit, pause, clock)
        outcome = reports.EQUAL if not differences else reports.DIFFERENT if differences[0].proof else reports.UNPROVEN
    kinds, cells = reports.tally(differences)
    return ReconcileReport(
        table=lake.table.name,
        source=source.name,
        outcome=outcome,
        version=pinned.version,
        lake_position=source.log.text(pinned.reached),
        source_position=source.log.text(start),
        source_rows=counts[0],
        lake_rows=counts[1],
        columns=lake.columns.names,
        skipped=lake.columns.skipped,
        parts=parts,
        suspects=len(suspects),
        changing=changing,
        differences=tuple(differences[: options.limit]),
        different=len(differences),
        kinds=kinds,
        cells=cells,
        seconds=round(clock() - began, 3),
    )


def _await(source: Source, lake: Lake, place: str, pause: Callable[[], bool]) -> None:
    log = source.log
    position = source.end() if place == "now" else log.parse(place)
    if position is None:
        raise Refused(f"expected `now` or a position such as {log.example}, got {place!r}")
    if lake.reached() is None:
        raise Refused(f"table {lake.table.name} has no position in the source's log: nothing was ingested, or its order is another. Leave out --at.")
    if not _until(lake.reached, position, pause):
        at = log.text(lake.reached())
        raise Unavailable(f"the lake has not reached {log.text(position)}, it is at {at}. Wait longer (--wait-lake), or run the table.")


Marks = tuple[tuple[str, str], ...]
"""(`Row.digest`, `Row.mark`) of the rows with a key."""

Suspects = dict[Key, tuple[Marks, Marks]]
"""Key → its rows in the source and in the lake, where they differ: by a delay, a change since, or an error."""


def _suspects(source: Side, pinned: Pinned, options: Options) -> tuple[int, tuple[int, int], Suspects]:
    """Return how many parts were compared, the numbers of rows, and the keys whose rows differ."""
    chunks, split = _chunks(source, pinned, options)
    suspects: Suspects = {}
    with ThreadPoolExecutor(max(1, options.parallel), thread_name_prefix="source") as pool:
        compared = _compared(pool, source, pinned.side, chunks, split)
        counts = (sum(there[0] for _, there, _ in compared), sum(here[0] for _, _, here in compared))
        number = len(compared)
        open_parts = _differing(compared)
        while open_parts and len(suspects) <= options.suspects:
            batch = _batch(open_parts)
            if batch:
                results = pool.submit(source.digests, batch)
                here, there = pinned.side.digests(batch), results.result()
                if unnamed := next((key for key in (*here, *there) if None in key), None):
                    raise Refused(
                        f"a row of {'the lake' if unnamed in here else 'the source'} has the key {unnamed}; null stands for what is no value of the "
                        "source's type, or infinite or NaN. Nothing distinguishes such rows: correct them, and compare again"
                    )
                both = {key: (there.get(key, ()), here.get(key, ())) for key in sorted({*here, *there})}
                suspects.update({key: (_marks(rows[0]), _marks(rows[1])) for key, rows in both.items() if not _same(*rows)})
                continue
            # larger than what is fetched at once
            part, _ = open_parts.pop(0)
            compared = _compared(pool, source, pinned.side, [part], part.divided())
            number += len(compared)
            open_parts = [*_differing(compared), *open_parts]
    return number, counts, suspects


def _compared(pool: ThreadPoolExecutor, source: Side, lake: Side, chunks: Sequence[Part], split: Split) -> list[tuple[Part, Checksum, Checksum]]:
    """Return the parts of consecutive chunks, with the source's and the lake's checksum. The source reads one chunk in a statement."""
    answers = [pool.submit(source.checksums, chunk, split) for chunk in chunks]
    whole = Part(chunks[0].low, chunks[-1].high, chunks[0].prefix)
    ours = lake.checksums(whole, split)
    theirs = {label: checksum for answer in answers for label, checksum in answer.result().items()}
    return [(split.part(label, whole), theirs.get(label, NOTHING), ours.get(label, NOTHING)) for label in sorted({*ours, *theirs})]


def _differing(compared: Sequence[tuple[Part, Checksum, Checksum]]) -> list[tuple[Part, int]]:
    """Return the parts whose checksums differ, with the rows that a side has there at most."""
    return [(part, max(there[0], here[0])) for part, there, here in compared if there != here]


def _chunks(source: Side, pinned: Pinned, options: Options) -> tuple[list[Part], Split]:
    """Return what one statement on the source reads each, and the ranges whose checksums it returns."""
    pieces = max(1, -(-pinned.rows // PIECE))
    ranges = [each for each in (source.bounds(), pinned.side.bounds()) if each is not None]
    if not ranges:
        digits = 1
        while 16**digits < pieces:
            digits += 1
        return [Part()], Split(digits=digits)
    low, high = min(first for first, _ in ranges), max(last for _, last in ranges) + 1
    width = max(1, -(-(high - low) // pieces))
    step = width * max(1, options.chunk // PIECE)
    return [Part(at, min(at + step, high)) for at in range(low, high, step)], Split(width)


def _batch(parts: list[tuple[Part, int]]) -> list[Part]:
    """Take the parts off the list whose rows fit into one statement. None are taken if the first one alone is too large and can be divided."""
    batch: list[Part] = []
    rows = 0
    while parts and (rows + parts[0][1] <= _FETCHED or (not batch and len(parts[0][0].prefix) >= 8)):
        part, count = parts.pop(0)
        batch.append(part)
        rows += count
    return batch


def _judge(
    source: Source, lake: Lake, suspects: Suspects, in_step: bool, limit: int, pause: Callable[[], bool], clock: Callable[[], float]
) -> tuple[list[RowDifference], int]:
    """Look at keys until each is equal, proven to differ, changed in every look, or no time is left. Return the differences, proven ones first,
    and the number of keys that changed in every look.

    `suspects` were read from the lake first. `in_step`: the source had come to the lake's position by then. A standby may be behind the lake: then it
    would not show yet that a row has changed since. The values of `limit` differences are kept.
    """
    differences, changing, changes, began = list[RowDifference](), 0, Counter[Key](), clock()
    kept = Counter[bool]()

    def add(key: Key, there: Sequence[Row], shown: Sequence[Row], proof: str) -> None:
        described = difference(lake.columns, key, there, shown, proof)
        kept[bool(proof)] += 1
        # values may be large: only those that the report may show are kept
        differences.append(described if kept[bool(proof)] <= limit else described.without_values())

    while suspects:
        target = source.end()
        in_time = _until(lake.reached, target, pause)
        pinned = lake.pin()
        now_in_step = _caught_up(source, pinned, pause)
        in_step, proof = in_step and now_in_step, ""
        if in_step and target is not None and pinned.reached is not None and pinned.reached >= target:
            proof = f"lake at {source.log.text(pinned.reached)}, source read at {source.log.text(target)}"
        elif pinned.reached is None and not in_time:
            proof = f"the source has not changed it for {clock() - began:.0f} s"
        left: Suspects = {}
        for key, there, shown in _looked_up(source.side, pinned.side, [*suspects]):
            before = suspects[key]
            if _same(there, shown):
                continue
            if before != (_marks(there), _marks(shown)):
                changes[key] += 1
                if changes[key] == _CHANGING:
                    changing += 1
                elif in_time and in_step:
                    left[key] = (_marks(there), _marks(shown))
                else:
                    add(key, there, shown, "")
                continue
            # a view has a key once, whatever the source did since
            repeated = f"version {pinned.version} has the key {len(shown)} times" if len(shown) > max(1, len(there)) else ""
            if in_time and in_step and not (proof or repeated):
                left[key] = before
            else:
                add(key, there, shown, proof or repeated)
        suspects, in_step = left, now_in_step
    return sorted(differences, key=lambda item: not item.proof), changing


def _same(source: Sequence[Row], lake: Sequence[Row]) -> bool:
    return [row.digest for row in source] == [row.digest for row in lake]


def _marks(rows: Sequence[Row]) -> Marks:
    return tuple((row.digest, row.mark) for row in rows)


def _caught_up(source: Source, pinned: Pinned, pause: Callable[[], bool]) -> bool:
    return pinned.reached is None or _until(source.end, pinned.reached, pause)


def _until(position: Callable[[], int | None], target: int | None, pause: Callable[[], bool]) -> bool:
    """Wait until a position has come to `target`. Return False if the time is over first."""
    while target is None or (reached := position()) is None or reached < target:
        if not pause():
            return False
    return True


def current_rows(source: Source, keys: Sequence[Key], reached: int | None, pause: Callable[[], bool]) -> Rows:
    """Return the source's rows with these keys, read when it shows everything up to `reached`. Raises Unavailable for a standby that is behind."""
    if reached is not None and not _until(source.end, reached, pause):
        raise Unavailable(f"the source has not come to the lake's position {source.log.text(reached)}. Is it a standby that is behind? Try again.")
    return _rows(source.side, keys)


def _looked_up(source: Side, lake: Side, keys: Sequence[Key]) -> Iterator[tuple[Key, Sequence[Row], Sequence[Row]]]:
    """Yield (key, its rows in the source, those in the lake)."""
    for at in range(0, len(keys), _KEYS):
        some = keys[at : at + _KEYS]
        there, here = _rows(source, some), _rows(lake, some)
        yield from ((key, there.get(key, ()), here.get(key, ())) for key in some)


def _rows(side: Side, keys: Sequence[Key]) -> Rows:
    """Return the rows with these keys. A key that is no value of the side's type, such as a text that is no UUID, has none."""
    rows: Rows = {}
    todo = [keys[at : at + _KEYS] for at in range(0, len(keys), _KEYS)]
    while todo:
        some = todo.pop()
        try:
            rows.update(side.rows(some))
        except Refused as error:
            if getattr(error.__cause__, "sqlstate", None) not in _NO_VALUE:
                raise
            half = len(some) // 2
            todo += [some[:half], some[half:]] if half else []
    return rows
