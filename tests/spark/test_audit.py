"""`checks:` on the real engine: a version is audited from its files before the catalog has them."""

from __future__ import annotations

import re

import pytest

from compactor.core.model.policy import ACCEPTED, FRESH, NULL_SHARE, ROW_CHANGE, SQL, UNIQUE, Rule
from compactor.flows.publish import audit
from compactor.flows.publish.sync import sync_table
from compactor.flows.read.verify import verify
from compactor.flows.table import Table
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

ROW = {"id": 1, "seq": 1, "mail": "a@x", "Status": "it's", "ratio": 0.5}


@pytest.mark.slow
def test_every_kind_of_rule_blocks_and_lets_pass(lake: Lake) -> None:
    """The view's name means the new version, its name with the database what readers see; soft deletes are rows."""
    jump = f"SELECT n.id FROM t n JOIN {lake.database}.t o ON n.id = o.id WHERE n.ratio > 10 * o.ratio AND NOT n._deleted"
    rules = (
        Rule(ROW_CHANGE, (), 1.0),
        Rule(UNIQUE, ("mail",)),
        Rule(UNIQUE, ("mail", "status")),
        Rule(NULL_SHARE, ("mail",), 0.5),
        Rule(ACCEPTED, ("status",), values=("it's", "left")),
    )
    first = lake.spec(rules=rules, delete="soft")
    lake.land(first, 0, [ROW, {**ROW, "id": 2, "mail": "b@x", "Status": "left"}])
    assert lake.run(first).error is None
    spec = lake.with_settings(first, rules=(*rules, Rule(SQL, ("jump",), values=(jump,)), Rule(FRESH, (), 60.0)))

    lake.land(
        spec,
        1,
        [
            {**ROW, "seq": 2, "ratio": 50.0, "mail": "b@x", "Status": "left"},
            *({**ROW, "id": n, "seq": 2, "mail": None, "Status": "?"} for n in (3, 4, 5)),
        ],
    )
    report = lake.run(spec)
    assert (report.outcome, report.exit_code) == ("blocked", 1)
    said = str(report.error)
    for part in (
        "row_change: expected at most 100%, found 150%: 2 rows before, 5 now",
        'unique mail: expected none, found 1 key with several rows, such as {"mail":"b@x","rows":2}',
        'unique mail, status: expected none, found 1 key with several rows, such as {"mail":"b@x","status":"left","rows":2}',
        "null_share mail: expected at most 50.0% nulls, found 60.0% (3 rows)",
        'accepted status: expected none, found 3 offending rows, such as {"status":"?"}',
        'sql jump: expected none, found 1 offending row, such as {"id":1}',
        "fresh: expected changes of the last 0.0 h, found no source time",
    ):
        assert part in said
    assert {row["id"] for row in lake.rows(spec)} == {1, 2}

    table = Table(lake.env, spec)
    # what readers see is right
    assert [str(check) for check in verify(table) if not check.ok] == []
    assert {check.name: check.detail for check in verify(table)}["compared version"] == "1, which readers see: version 2 is blocked"
    newest = lake.snapshot(spec)
    audit.accept(table, newest)
    sync_table(table)
    assert {row["id"] for row in lake.rows(spec)} == {1, 2, 3, 4, 5}

    wrong = lake.with_settings(spec, rules=(Rule(SQL, ("typo",), values=("SELECT nothing FROM t",)),))
    # commits go on, and readers keep what they see
    (sentence,) = audit.again(Table(lake.env, wrong), newest).failures
    assert re.fullmatch("sql typo: the query is refused: .*nothing.*", sentence)
