"""A writer that sleeps longer than `grace` while vacuum works plans again or gives up; it never ends with an unexpected error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.model import line
from tests.oracle.sizes import FULL, tiered
from tests.simulation import verbs
from tests.simulation.bank import Delivery
from tests.simulation.life import Plan, replayed
from tests.simulation.scheduler import GO, SLEEP, Decision

GRACE = 20.0
FILES = [
    Delivery(f"increment_2026010{number}00/0.json", tuple(line("u", [key], [number], {"a": 100 + number * (1 - 2 * key)}) for key in (0, 1)))
    for number in range(1, 6)
]


def plan(verb: str, argument: Any) -> Plan:
    """A table of three versions whose newest has a Delta, a file that waits in landing, a writer, and a vacuum that comes after its grace period."""
    return Plan(
        verbs.options("merge-on-read", 1e9, 400, keep=400.0, grace=GRACE, keep_versions=4),
        strict=True,
        prelude=tuple(FILES[:3]),
        last=FILES[4],
        programs={
            "sink": (("deliver", FILES[3]),),
            "undo": (("restore", 1),) if verb == "reabsorb" else (),
            "writer": ((verb, argument),),
            "vacuum": (("idle", 2 * GRACE), ("vacuum", None)),
        },
    )


@pytest.mark.parametrize(
    ("verb", "argument"),
    tiered([("run", None), ("compact", None), ("rebuild", None), ("reabsorb", None), ("restore", 1)], fast=[("run", None), ("rebuild", None)]),
)
def test_a_writer_sleeps_at_any_call_and_vacuum_works(verb: str, argument: Any) -> None:
    """Whatever the writer has staged may be gone when it wakes; the table is right all the same. Every third call, at full size every one."""
    life = plan(verb, argument)
    before = [Decision("sink")] * 10 + [Decision("undo")] * 300
    calls = 0
    while True:
        tape = [*before, *[Decision("writer")] * calls, Decision("writer", SLEEP, 3 * GRACE), *[Decision("vacuum")] * 300]
        outcome = replayed(life, tape)
        assert outcome.failure is None, f"asleep at call {calls}\n{outcome.report()}"
        if not any(step.actor == "writer" and step.fate != GO for step in outcome.trace):
            break
        calls += 1 if FULL else 3
    assert calls > 20
