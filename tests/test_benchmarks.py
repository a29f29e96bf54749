"""The benchmarks at a size of seconds: they run, and the bytes they tell, which no machine changes, are what the design promises."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import __main__ as commits
from benchmarks import clustering, feed, history, read
from compactor.app import App

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.own_spark]


def told(program: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a benchmark prints, as JSON."""
    assert 0 == program(words)
    return dict(json.loads(capsys.readouterr().out))


def test_a_commit_writes_what_the_changes_cost_and_the_naive_recipe_what_the_table_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten times the rows: the same bytes for a commit, and nearly ten times as many for rewriting."""
    ratios = told(commits.main, capsys, "--rows", "2000,20000", "--changes", "50", "--repeat", "1", "--output", "json")["ratios"]
    assert ratios["commit"]["bytes_written"] < 1.2
    assert ratios["naive commit"]["bytes_written"] > 5


def test_a_feed_costs_what_the_changes_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """Less than a tenth of the first load's, which tells every row."""
    (size,) = told(feed.main, capsys, "--rows", "20000", "--changes", "50", "--repeat", "1")["sizes"]
    extra = {work: size[f"{work}, feed net"]["bytes_written"] - size[f"{work}, feed off"]["bytes_written"] for work in ("load", "commit")}
    assert 0 < extra["commit"] < extra["load"] / 10


def test_an_hour_of_history_costs_what_the_hour_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """An hour between two folds writes a small part of what the naive recipe does."""
    hours = told(history.main, capsys, "--rows", "20000", "--changes", "50", "--hours", "2", "--naive-every", "2")["hours"]
    assert hours[1]["bytes_written"] < hours[1]["naive"]["bytes_written"] / 10


def test_the_table_that_is_read_lands_where_runs_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two increments; the benchmark itself starts a JVM for each query."""
    monkeypatch.setattr("benchmarks.read.subprocess", SimpleNamespace(run=lambda *_, **__: None))
    read.make(tmp_path, 100, 10)
    with App.open(tmp_path / "compactor.yaml") as app:
        (state,) = app.status()
    assert state.waiting_files == 2


def test_a_filter_on_a_clustered_column_reads_less(capsys: pytest.CaptureFixture[str]) -> None:
    """From files of several row groups. Of so few rows Spark reads a megabyte anyway, so that only DuckDB's bytes show it."""
    found = told(clustering.main, capsys, "--rows", "200000", "--segments", "1", "--row-group", "1000000", "--repeat", "1", "--without-folders")
    assert set(found["spark"]) == {"region", "token", "key"}
    for name in ("region", "token"):
        assert found["duckdb"][name][f"by {name}"]["mb"] < found["duckdb"][name]["by key"]["mb"] / 2
