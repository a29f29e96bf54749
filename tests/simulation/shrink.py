"""Make a failing life smaller: fewer processes, fewer verbs, fewer faults, fewer switches between processes, as long as it fails in the same way."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from tests.simulation.life import Outcome, Plan, replayed, without
from tests.simulation.scheduler import GO, Decision


class Shrinking:
    """A failing life and the smallest one found so far; 300 lives are tried at most."""

    def __init__(self, plan: Plan, outcome: Outcome) -> None:
        self.plan, self.outcome = plan, outcome
        self._kind, self._left = kind(outcome), 300

    def smallest(self) -> Outcome:
        """Try everything until nothing helps or no life is left."""
        self._verbs()
        self._faults()
        before = -1
        while self._left and before != self._left:
            before = self._left
            if not self._switches():
                break
        return self.outcome

    def _fails(self, plan: Plan, tape: Sequence[Decision]) -> bool:
        if self._left == 0:
            return False
        self._left -= 1
        outcome = replayed(plan, tape)
        if kind(outcome) != self._kind:
            return False
        self.plan, self.outcome = plan, outcome
        return True

    def _verbs(self) -> None:
        for actor in [*self.plan.programs]:
            self._fails(without(self.plan, actor), self.outcome.tape)
        for actor in [*self.plan.programs]:
            for verb in reversed(range(len(self.plan.programs[actor]))):
                self._fails(without(self.plan, actor, verb), self.outcome.tape)

    def _faults(self) -> None:
        for decision in {decision for decision in self.outcome.tape if decision.fate != GO}:
            tape = self.outcome.tape
            calm = [Decision(each.actor) if each == decision else each for each in tape]
            self._fails(self.plan, [each for each in tape if each != decision]) or self._fails(self.plan, calm)

    def _switches(self) -> bool:
        """Join stretches of one actor; return whether that ever helped."""
        better = False
        at = 0
        while self._left:
            runs = [list(run) for _, run in itertools.groupby(self.outcome.tape, key=lambda decision: decision.actor)]
            if at >= len(runs):
                return better
            if any(self._fails(self.plan, tape) for tape in _joined(runs, at)):
                better = True
            else:
                at += 1
        return better


def _joined(runs: Sequence[list[Decision]], at: int) -> Iterator[list[Decision]]:
    """The schedule without the run `at`; with it later, or earlier, beside another one of the same actor."""
    actor = runs[at][0].actor
    rest = [run for number, run in enumerate(runs) if number != at]
    yield [decision for run in rest for decision in run]
    later = next((number for number in range(at, len(rest)) if rest[number][0].actor == actor), len(rest))
    earlier = next((number + 1 for number in reversed(range(at)) if rest[number][0].actor == actor), None)
    for place in (later, earlier):
        if place is not None:
            moved = [*rest[:place], runs[at], *rest[place:]]
            yield [decision for run in moved for decision in run]


def kind(outcome: Outcome) -> str:
    """The failure without numbers and names."""
    return re.sub(r"[^ ]*\d[^ ]*", "N", outcome.failure or "")[:60]
