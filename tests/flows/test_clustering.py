"""`cluster_by:` in runs: what cannot help stops a run before it commits, and what is missing is a warning."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from compactor.core.model.errors import Refused
from compactor.core.schema import clustering
from compactor.core.settings.forms import NEVER
from compactor.core.settings.job_config import JobConfig
from tests.oracle.lake import Lake, table
from tests.oracle.model import line


def test_a_run_is_refused_before_it_commits_and_goes_on_after_the_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a run that writes a Delta only: the compaction after it could not be made. The increment stays in landing."""
    # the list engine has none of the types that are refused
    monkeypatch.setattr(clustering, "_UNSORTABLE", ("string",))
    lake = Lake(table(cluster_by=("a",), compact_window=NEVER))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.spec = dataclasses.replace(lake.spec, cluster_by=("b",))
    lake.deliver("increment_2026010101/a.json", [line("c", [2], [2], {"a": 1, "b": "x"})])
    with pytest.raises(Refused, match="`cluster_by` names b, which is string"):
        lake.run()
    assert ([version.version for version in lake.table().history()], len(lake.landing())) == ([1], 1)
    lake.spec = dataclasses.replace(lake.spec, cluster_by=())
    lake.run()
    shown = lake.look()
    assert shown is not None
    assert shown.rows == lake.expected()
    assert lake.failed_checks() == []


def test_a_column_that_has_not_come_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It may come with a later hour, and then there is none."""
    lake = Lake(table(cluster_by=("later", "a")))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    with caplog.at_level(logging.WARNING, "compactor"):
        lake.run()
    assert ["t: sorts its files without later: `cluster_by` names it, and the table has no such column yet"] == caplog.messages
    caplog.clear()
    lake.deliver("increment_2026010101/a.json", [line("c", [2], [2], {"a": 1, "later": 5})])
    with caplog.at_level(logging.WARNING, "compactor"):
        lake.run()
    assert caplog.messages == []


def test_the_columns_reach_a_job_on_a_cluster() -> None:
    """The TableSpec travels as JSON."""
    spec = table(cluster_by=("later", "a"))
    assert JobConfig.read(JobConfig((spec,), "/lake").written()).specs[0] == spec
