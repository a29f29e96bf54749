"""`compactor explain`: the passes over a batch and their SQL (`flows/read/explain.py`)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from compactor import demo
from compactor.core.model.errors import NoRowsYet, Refused
from compactor.core.results.explained import FRAMES, PASSES
from compactor.flows.read.explain import explain
from compactor.flows.table import Table
from tests.spark.lake import Lake

ARCHITECTURE = Path(__file__).parents[2] / "docs/design/architecture.md"


@pytest.mark.slow
def test_what_waits_is_explained_and_left_alone(lake: Lake) -> None:
    """A first load, then changes of which one is late and one has no value: each step has a reason, and every name in braces a meaning."""
    spec = lake.spec(write_mode="merge-on-read", patch_rows=True)
    lake.land(spec, 1, [{"id": number, "seq": number, "a": 1, "b": 2} for number in range(9)])
    first = explain(Table(lake.env, spec))
    assert (first.version, first.committed, first.files, first.read) == (1, False, 1, 9)
    assert first.steps[0] == ("new base", "the table has no base yet")
    assert [each.name for each in first.passes] == ["survey", "states", "reduce"]
    lake.run(spec)
    lake.land(spec, 2, [{"id": 3, "seq": 2, "a": 5}, {"id": 4, "seq": 20, "b": 7}])
    before = sorted(path for path in lake.root.rglob("*"))
    made = explain(Table(lake.env, spec))
    assert sorted(path for path in lake.root.rglob("*")) == before
    assert [step for step, _ in made.steps] == ["new Delta", "one task", "look up the base", "clocks of columns"]
    assert dict(made.steps)["clocks of columns"].endswith("for a, b")
    names = {name for each in made.passes for name in re.findall(r"{(\w+)}", each.sql)}
    assert names <= {*FRAMES}
    assert {"records", "changes", "states"} <= names
    report = lake.run(spec)
    assert report.counts is not None
    assert {*report.counts} <= {name.replace(" ", "_") for name, _ in made.numbers}


@pytest.mark.slow
def test_feed_history_and_compaction_are_explained_and_nothing_is_written(lake: Lake) -> None:
    """Of a batch that follows, of one with a late event, and of the compaction that is due: each pass and each name has a meaning."""
    spec = lake.spec(write_mode="merge-on-read", history=True, feed="net", read_optimized=True)
    lake.land(spec, 1, [{"id": number, "seq": number, "a": 1} for number in range(9)])
    first = explain(Table(lake.env, spec))
    assert [each.name for each in first.passes] == ["survey", "states", "reduce", "history", "history write", "feed"]
    assert [step for step, _ in first.steps[-2:]] == ["history", "change feed"]
    lake.run(spec)
    lake.land(spec, 2, [{"id": number, "seq": 20 + number, "a": 2} for number in range(3)])
    lake.run(spec)
    lake.land(spec, 3, [{"id": 0, "seq": 10, "a": 3}])
    before = sorted(path for path in lake.root.rglob("*"))
    late = explain(Table(lake.env, spec.compacting_now))
    assert sorted(path for path in lake.root.rglob("*")) == before
    assert dict(late.steps)["history"] == "in steps: some event may come before stored ones"
    assert dict(late.steps)["compaction"] == "1 segment of 1 of version 2: their Delta rows are worth a rewrite"
    labels = [each.name for each in late.passes]
    assert {"history survey", "history keys", "history stored", "history", "history write", "feed", "compact"} <= {*labels} <= {*PASSES}
    for made in (first, late):
        assert {name for each in made.passes for name in re.findall(r"{(\w+)}", each.sql)} <= {*FRAMES}
    lake.run(spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_without_new_files_the_newest_commit_is_explained(lake: Lake) -> None:
    """Its files are read again from the archive, on top of the version before it. Without that, and without any file, the reason is named."""
    spec = lake.spec(write_mode="merge-on-read")
    with pytest.raises(NoRowsYet, match="nothing waits in landing, and no kept version took files"):
        explain(Table(lake.env, spec))
    for hour in (1, 2):
        lake.land(spec, hour, [{"id": number, "seq": 10 * hour, "a": hour} for number in range(20 // hour**2)])
        lake.run(spec)
    lake.run(lake.with_settings(spec, compact_every=0.0))
    made = explain(Table(lake.env, spec))
    assert (made.version, made.committed, made.read) == (2, True, 5)
    assert made.steps[0] == ("new Delta", "the changes are few against the rows of the base")
    shutil.rmtree(lake.root / "t/archive")
    with pytest.raises(Refused, match="which version 2 took, is neither in the archive nor in landing"):
        explain(Table(lake.env, spec))


def test_the_page_shows_the_reduce_query_as_it_runs(lake: Lake) -> None:
    """That of the demo's student, hour 01 on top of hour 00."""
    spec = lake.spec("student", envelope="debezium", order_by=())
    landing = Path(demo.__file__).parent / "landing/student/incremental"
    for hour in ("increment_2024030500", "increment_2024030501"):
        shutil.copytree(landing / hour, Path(spec.landing) / hour)
        if hour.endswith("00"):
            lake.run(spec)
    made = explain(Table(lake.env, spec))
    (query,) = [each.sql for each in made.passes if each.name == "reduce"]
    assert f"```sql\n{query}\n```" in ARCHITECTURE.read_text(encoding="utf-8"), query
