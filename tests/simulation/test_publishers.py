"""`sync` beside a run that commits and publishes a new column: it ends well, and leaves the newest version in the view."""

from __future__ import annotations

import pytest

from tests.oracle.model import line
from tests.oracle.sizes import FULL
from tests.simulation import verbs
from tests.simulation.bank import Delivery
from tests.simulation.life import Plan, replayed
from tests.simulation.scheduler import CRASH_AFTER, GO, SLEEP, Decision


def _file(number: int, **others: int) -> Delivery:
    """Both accounts of the first couple, with other columns."""
    events = [line("u", [key], [number], {"a": 100 + number * (1 - 2 * key), **others}) for key in (0, 1)]
    return Delivery(f"increment_20260101{number:02d}/0.json", tuple(events))


@pytest.mark.parametrize("strict", [True, False], ids=["compare-and-set", "none"])
def test_a_run_publishes_at_any_call_of_a_sync(strict: bool) -> None:
    """At a port call of `sync` a whole run goes on, which publishes a version with another column. Every second call, at full size every one."""
    plan = Plan(
        verbs.options("merge-on-read", 1e9, 1500),
        strict=strict,
        prelude=(_file(1), _file(2)),
        last=_file(4),
        programs={"sink": (("deliver", _file(3, c=3)),), "publisher": (("publish", None),), "runner": (("run", None),)},
    )
    calls = 0
    while True:
        tape = [*[Decision("sink")] * 5, *[Decision("publisher")] * calls, *[Decision("runner")] * 300]
        outcome = replayed(plan, tape)
        assert outcome.failure is None, f"a run at call {calls} of sync\n{outcome.report()}"
        names = [step.actor for step in outcome.trace if step.fate == GO]
        if names[-1] == "runner":
            break
        calls += 1 if FULL else 2
    assert calls > 10


@pytest.mark.slow
def test_a_sync_that_sleeps_longer_than_publish_window_shows_no_older_version() -> None:
    """It sleeps at any call, runs publish a newer version and remove its mark, and it dies after its next replacement of the view: nobody would notice.

    Asleep between its last look and the replacement it cannot know: docs/design/protocol.md names this limit of catalogs without a compare-and-set.
    """
    plan = Plan(
        verbs.options("merge-on-read", 1e9, 1500, publish_window=10.0),
        strict=False,
        prelude=(_file(1), _file(2)),
        last=_file(4),
        programs={
            "sink": (("deliver", _file(3)),),
            "publisher": (("publish", None),),
            "runner": (("idle", 30.0), ("run", None), ("run", None)),
        },
    )
    asleep_at: list[str] = []
    for calls in range(100):
        tape = [*[Decision("publisher")] * calls, Decision("publisher", SLEEP, 70.0), *[Decision("sink")] * 5, *[Decision("runner")] * 300]
        outcome = replayed(plan, tape)
        asleep = next((at for at, step in enumerate(outcome.trace) if step.fate != GO), None)
        if asleep is None:
            break
        asleep_at.append(outcome.trace[asleep].operation)
        if asleep_at[-1] == "replace_view":
            continue
        steps = [step.operation for step in outcome.trace[asleep + 1 :] if step.actor == "publisher"]
        if "replace_view" in steps:
            dies = [*[Decision("publisher")] * steps.index("replace_view"), Decision("publisher", CRASH_AFTER)]
            outcome = replayed(plan, [*tape, *dies])
        assert outcome.failure is None, f"asleep at call {calls}, {asleep_at[-1]}\n{outcome.report()}"
    assert asleep_at.count("replace_view") == 1
    assert len(asleep_at) > 20
