"""Play lives by hand: `python -m tests.simulation SEED` prints the schedule of a seed, `python -m tests.simulation FIRST LAST` looks for failures."""

from __future__ import annotations

import random
import sys
import time

from tests.simulation.life import plan_of, seeded
from tests.simulation.shrink import Shrinking, kind


def main(first: int, last: int | None = None) -> None:
    """Print one life step by step, or what a range of seeds finds, one example of each kind shrunk."""
    if last is None:
        outcome = seeded(first)
        print("\n".join(str(step) for step in outcome.trace))
        print(f"versions: {' '.join(outcome.committed)}\n{outcome.failure or 'nothing was wrong'}")
        return
    began, steps = time.monotonic(), 0
    kinds: dict[str, list[int]] = {}
    for seed in range(first, last):
        outcome = seeded(seed)
        steps += outcome.steps
        if outcome.failure is not None:
            kinds.setdefault(kind(outcome), []).append(seed)
    spent = time.monotonic() - began
    print(f"{last - first} lives, {steps} steps, {spent:.1f} s, {steps / spent * 60:,.0f} steps a minute", flush=True)
    for name, seeds in kinds.items():
        print(f"\n{len(seeds)} lives: {name}: {seeds[:20]}", flush=True)
    for seeds in kinds.values():
        plan, _ = plan_of(random.Random(seeds[0]))
        small = Shrinking(plan, seeded(seeds[0])).smallest()
        print(f"\n{len(seeds)} lives, such as {seeds[:5]}; shrunk:\n{small.report()}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
