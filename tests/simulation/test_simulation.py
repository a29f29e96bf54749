"""Lives of a table out of seeds: at every port call another process may go on, die, sleep or get no answer. One step is one scheduled port call."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.oracle.sizes import FULL
from tests.simulation.life import plan_of, seeded
from tests.simulation.shrink import Shrinking

ROOT = Path(__file__).parents[2]
FIXED = range(48)
"""Seeds that every run of the suite plays."""
SECONDS = 600.0 if FULL else 30.0
"""How long the slow test draws new seeds."""
STEPS_A_MINUTE = 10_000


def check(seed: int) -> int:
    """Play the life of a seed; return its steps. Fails with the seed, the shrunk schedule and what was wrong."""
    outcome = seeded(seed)
    if outcome.failure is not None:
        plan, _ = plan_of(random.Random(seed))
        small = Shrinking(plan, outcome).smallest()
        pytest.fail(
            f"seed {seed}: {outcome.failure}\nfull schedule: python -m tests.simulation {seed}\nshrunk from {outcome.steps} to {small.steps} steps:\n"
            f"{small.report()}",
            pytrace=False,
        )
    return outcome.steps


@pytest.mark.parametrize("part", range(4))
def test_fixed_seeds(part: int) -> None:
    """The same lives on every machine."""
    for seed in FIXED[part::4]:
        check(seed)


def _rotate(seconds: float, capsys: pytest.CaptureFixture[str]) -> None:
    first = int(os.environ.get("COMPACTOR_SEED") or time.time_ns() // 1_000_000 % 10**9)
    began, steps, seed = time.monotonic(), 0, first
    with capsys.disabled():
        print(f"\nsimulation: first seed {first} (COMPACTOR_SEED={first} repeats it)")
    while time.monotonic() - began < seconds:
        steps += check(seed)
        seed += 1
    spent = time.monotonic() - began
    with capsys.disabled():
        print(f"simulation: {seed - first} lives, {steps} steps, {steps / spent * 60:,.0f} steps a minute")
    assert steps / spent * 60 > STEPS_A_MINUTE


def test_new_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """Other lives in each run; the first seed is printed."""
    _rotate(4.0, capsys)


@pytest.mark.slow
def test_many_new_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten minutes of them at full size."""
    _rotate(SECONDS, capsys)


def test_a_seed_replays_exactly() -> None:
    """Every step of a life is the same in another process with another hash seed."""
    code = "import sys; from tests.simulation.life import seeded; print([str(step) for s in (3, 4, 5) for step in seeded(s).trace])"
    outputs = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, text=True, check=True)
        for salt in ("1", "2")
    ]
    assert outputs[0].stdout == outputs[1].stdout
    assert outputs[0].stdout.count("put_if_absent") > 5
