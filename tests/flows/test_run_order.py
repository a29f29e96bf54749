"""The order in which a run takes its tables: the longest first, compactions last, each in a share of its own."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from compactor.core.model.errors import EngineEnded
from compactor.core.model.spec import TableSpec
from compactor.flows import run
from compactor.flows import run_tables as many
from compactor.flows.run_tables import run_tables
from tests.oracle.lake import Lake, table
from tests.oracle.model import line


def sized(lake: Lake, name: str, rows: int) -> TableSpec:
    """A table for which so many rows have landed."""
    spec = dataclasses.replace(lake.spec, name=name, root=f"/lake/{name}", landing=f"/lake/{name}/in", view=name)
    lines = "\n".join(line("c", [key], [key], {"a": key}) for key in range(rows))
    lake.storage.write(f"{spec.landing}/increment_2026010100/a.json", lines.encode())
    return spec


def test_the_longest_table_begins_first_and_compactions_hold_back_no_commit(monkeypatch: Any) -> None:
    """By the bytes that wait; a table without work takes no part. The compaction of the first one that is ready comes after the last commit."""
    lake = Lake(table(compact_every=0.0))
    specs = [sized(lake, "small", 1), sized(lake, "large", 50), sized(lake, "middle", 9), dataclasses.replace(lake.spec, name="empty", landing="/no")]
    seen: list[str] = []
    for name in ("commit_table", "finish_table"):
        real = getattr(many, name)

        def noted(first: Any, *more: Any, real: Any = real, name: str = name) -> Any:
            table_name = first.name if name == "commit_table" else first.table.name
            seen.append(f"{name} {table_name}")
            result = real(first, *more)
            if name == "commit_table":
                result.compaction_due = table_name == "large"
            return result

        monkeypatch.setattr(many, name, noted)
    shares: list[str] = []
    reports = run_tables(dataclasses.replace(lake.env(), share=shares.append), specs, parallel=1)
    assert [(report.table, report.outcome) for report in reports] == [
        ("small", "committed"), ("large", "committed"), ("middle", "committed"), ("empty", "idle"),
    ]  # fmt: skip
    assert [step.split()[1] for step in seen if step.startswith("commit")] == ["large", "middle", "small"]
    assert seen[-1] == "finish_table large"
    assert shares == ["large", "middle", "small", "compactions"]


def test_a_compaction_that_fails_is_its_tables_failure_and_no_others(monkeypatch: Any) -> None:
    """Even where two run at a time; nothing waits for ever."""
    lake = Lake(table(compact_every=0.0))
    specs = [sized(lake, "small", 1), sized(lake, "large", 50)]
    monkeypatch.setattr(run, "due", lambda table, snapshot: table.name == "large")

    def broken(*_: Any) -> Any:
        raise OSError("disk")

    monkeypatch.setattr(run, "compact", broken)
    for parallel in (1, 2):
        done = threading.Event()
        reports = run_tables(lake.env(), specs, parallel=parallel, start=lambda busy, size, done=done: done.set())
        assert done.is_set()
        assert [(report.table, report.outcome, report.error) for report in reports] == [
            ("small", "committed" if parallel == 1 else "idle", None), ("large", "failed", "unexpected OSError: disk"),
        ]  # fmt: skip


def test_a_table_that_committed_before_ctrl_c_is_reported_as_committed(monkeypatch: Any) -> None:
    """Its compaction is left to the next run; a table that has not begun is stopped."""
    lake = Lake(table(compact_every=0.0))
    specs = [sized(lake, "small", 1), sized(lake, "large", 50)]
    env, real = lake.env(), many.commit_table

    def interrupted(*given: Any) -> Any:
        step = real(*given)
        step.compaction_due = True
        env.stop.request()
        return step

    def never(*_: Any) -> Any:
        raise AssertionError("compacted after Ctrl-C")

    monkeypatch.setattr(many, "commit_table", interrupted)
    monkeypatch.setattr(run, "compact", never)
    reports = run_tables(env, specs, parallel=1)
    assert [(report.table, report.outcome, report.version) for report in reports] == [("small", "stopped", None), ("large", "committed", 1)]


def test_a_table_that_ends_the_engine_costs_no_other_table_its_run(monkeypatch: Any) -> None:
    """All that were at work are tried again after the others, one at a time: only the table that ends every engine is left for later."""
    lake = Lake(table(compact_every=0.0))
    specs = [sized(lake, "small", 1), sized(lake, "bomb", 50), sized(lake, "middle", 9)]
    both, tries, at_work = threading.Barrier(2), [], []
    real = many.commit_table

    def commit(table: Any, *more: Any) -> Any:
        first = table.name not in tries
        tries.append(table.name)
        if first and table.name in ("bomb", "middle"):
            both.wait(60)
            raise EngineEnded("exit code 52")
        at_work.append(table.name)
        try:
            if table.name == "bomb":
                assert at_work == ["bomb"]
                raise EngineEnded("exit code 52")
            return real(table, *more)
        finally:
            at_work.remove(table.name)

    monkeypatch.setattr(many, "commit_table", commit)
    reports = run_tables(lake.env(), specs, parallel=2)
    assert [(report.table, report.outcome, report.error) for report in reports] == [
        ("small", "committed", None), ("bomb", "later", "exit code 52"), ("middle", "committed", None),
    ]  # fmt: skip
    assert sorted(tries) == ["bomb", "bomb", "middle", "middle", "small"]


def test_a_table_that_ends_the_engine_on_the_same_files_again_has_failed(monkeypatch: Any) -> None:
    """Later would not help. The error names the files; other files, or a run in between that lived, begin the count anew."""
    lake = Lake(table(compact_every=0.0))
    spec = sized(lake, "bomb", 50)
    real, dead = many.commit_table, [True]

    def commit(*given: Any) -> Any:
        if dead[0]:
            raise EngineEnded("exit code 52")
        return real(*given)

    def outcome() -> tuple[str, int, str]:
        (report,) = run_tables(lake.env(), [spec])
        return report.outcome, report.exit_code, report.error or ""

    monkeypatch.setattr(many, "commit_table", commit)
    assert outcome()[:2] == ("later", 75)
    lake.storage.write(f"{spec.landing}/increment_2026010100/b.json", line("c", [99], [99], {"a": 1}).encode())
    assert outcome()[:2] == ("later", 75)
    failed = outcome()
    assert failed[:2] == ("failed", 1)
    assert "ended again on the same 2 new files below /lake/bomb/in, the largest of them /lake/bomb/in/increment_2026010100/a.json" in failed[2]
    assert "exit code 52" in failed[2]
    assert outcome()[0] == "failed"
    dead[0] = False
    assert outcome()[0] == "committed"
