"""A restore stays restored although a compaction of the version before it ends later."""

from __future__ import annotations

import pytest

from tests.oracle.model import line
from tests.simulation import verbs
from tests.simulation.bank import Delivery
from tests.simulation.life import Life, Plan, seeded
from tests.simulation.scheduler import GO, Decision, Tape

OPENED = Delivery("increment_2026010100/0.json", tuple(line("c", [key], [key], {"a": key}) for key in range(1, 7)))
UPDATED = Delivery("increment_2026010101/1.json", (line("u", [1], [11], {"a": 100}),))
WRONG = Delivery("increment_2026010102/2.json", tuple(line("u", [key], [20 + key], {"a": 666}) for key in range(2, 7)))
RESTORED = ((1, 100), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6))

PLAN = Plan(
    verbs.options("merge-on-read", 1e9, 1500),
    strict=True,
    prelude=(OPENED, UPDATED, WRONG),
    last=Delivery("increment_2026010103/3.json", ()),
    programs={"compactor": (("compact", None),), "operator": (("restore version", 2),)},
    couples=False,
)


def life(calls: int) -> Life:
    """Let a compaction of version 3 make this many port calls, restore version 2, and let the compaction go on; look before anything is undone."""
    made = Life(PLAN)
    made.begin()
    made.scheduler.run(made.bodies(), Tape([Decision("compactor")] * calls + [Decision("operator")] * 1000))
    return made


def compaction_calls() -> int:
    """How many port calls the compaction makes when nobody disturbs it."""
    made = life(10_000)
    return sum(step.actor == "compactor" and step.fate == GO for step in made.scheduler.trace)


@pytest.mark.parametrize("quarter", range(4))
def test_a_restore_stays_beside_a_compaction_at_every_call(quarter: int) -> None:
    """Wherever the compaction is when the restore commits: the rows are those of version 2."""
    total = compaction_calls()
    assert total > 20
    for calls in range(quarter, total + 1, 4):
        made = life(calls)
        made.undisturbed("run")
        view = made.look()
        assert view.rows == RESTORED, f"restored after call {calls} of the compaction: {[one.operation for one in made.audit.snapshots.values()]}"


def test_without_the_requirement_the_wrong_rows_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedules above are those that need the requirement."""
    verbs.forget_restores(monkeypatch)
    with pytest.raises(AssertionError, match="other rows than its inputs"):
        _ = [life(calls) for calls in range(compaction_calls())]


@pytest.mark.slow
def test_random_lives_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the requirement, lives out of seeds find a restore that a compaction has undone."""
    verbs.forget_restores(monkeypatch)
    steps = 0
    for seed in range(2000):
        outcome = seeded(seed, ("runner", "compactor", "operator"))
        steps += outcome.steps
        if outcome.failure is not None:
            break
    assert outcome.failure is not None, f"2000 lives of {steps} steps found nothing"
    assert "with other rows than its inputs have" in outcome.failure
    print(f"seed {seed} found it, {steps} steps after the first one")
