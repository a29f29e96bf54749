"""Run ordinary synchronous functions as coroutines and decide before every port call which of them goes on.

An actor is a greenlet. Each port call of an actor (`tests/simulation/ports.py`) first returns control to the scheduler, which picks the actor that
acts next and its fate: the call succeeds, the process dies before or after it, the store does not answer, or the actor sleeps. There are no threads
and there is no real time: the clock moves a little with each step, and to the next waking time when all actors sleep.

The same decisions give the same life. Decisions come from a random seed (`Habits`, `Dice`) or from a recorded schedule (`Tape`).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest.mock import patch

from greenlet import getcurrent, greenlet

from compactor.core.model.errors import Unavailable
from tests.faults import Crash

T = TypeVar("T")

GO, CRASH, CRASH_AFTER, FAIL, FAIL_AFTER, SLEEP = "go", "crash", "crash after", "unavailable", "answer lost", "sleep"
TICK = 0.05
"""Seconds that the clock moves with each step."""
START = 1_770_000_000.0

CHANGES = frozenset(
    (
        "write",
        "replace",
        "put_if_absent",
        "move",
        "move end",
        "delete",
        "replace_view",
        "ensure_table",
        "ensure_partitions",
        "drop_partitions",
        "ensure_database",
    )
)
"""Port calls that change something; a crash after any other call equals a crash before the next one."""


@dataclass(frozen=True)
class Decision:
    """One entry of a schedule."""

    actor: str
    """The actor that acts."""
    fate: str = GO
    """What becomes of its pending call."""
    seconds: float = 0.0
    """How long the actor sleeps, with the fate `sleep`."""


@dataclass(frozen=True)
class Step:
    """One line of a trace."""

    actor: str
    """The actor that acted."""
    operation: str
    """The port call that was pending, `idle` for a pause between two verbs."""
    path: str
    """The object that the call concerns."""
    fate: str
    """What became of the call."""
    at: float
    """The clock, in seconds since the start of the life."""

    def __str__(self) -> str:
        fate = "" if self.fate == GO else f"  << {self.fate}"
        return f"{self.at:8.2f}  {self.actor:<10} {self.operation:<18} {self.path}{fate}"


class Actor:
    """A process: a function that runs until its next port call whenever the scheduler resumes it."""

    def __init__(self, scheduler: Scheduler, name: str, body: Callable[[Actor], None]) -> None:
        self.name, self.scheduler = name, scheduler
        self.pending = ("start", "")
        self.wake = 0.0
        self.crashed = self.ended = False
        self._greenlet = greenlet(lambda _: body(self), scheduler.hub)

    @property
    def done(self) -> bool:
        """Whether the function has returned."""
        return bool(self._greenlet.dead)

    def resume(self, fate: str) -> None:
        """Run to the next port call. Raises what the function raises."""
        # an actor is one greenlet: its calls are made one after another, however many there are
        with patch("compactor.core.parallel.FEW", sys.maxsize):
            self._greenlet.switch(fate)

    def end(self) -> None:
        """Unwind the function; its port calls fail from now on."""
        self.crashed = self.ended = True
        if self._greenlet and not self.done:
            with suppress(Crash):
                self._greenlet.throw(Crash)

    def call(self, operation: str, path: str, effect: Callable[[], T]) -> T:
        """Carry out one port call when the scheduler says so, or fail. Raises Crash, also for every later call of the dead process, Unavailable."""
        if self.crashed:
            raise Crash(f"{self.name} is dead")
        fate = self._pause(operation, path)
        if fate in (CRASH_AFTER, FAIL_AFTER, GO):
            result = effect()
            if operation in CHANGES:
                self.scheduler.changed.append((operation, path))
            if fate == GO:
                return result
        if fate in (FAIL, FAIL_AFTER):
            raise Unavailable(f"no answer to {operation} {path}")
        self.crashed = True
        raise Crash(f"{self.name} died at {operation} {path}")

    def sleep(self, seconds: float) -> None:
        """Let `seconds` of the clock pass."""
        self.wake = self.scheduler.now + seconds
        self._pause("idle", "")

    def _pause(self, operation: str, path: str) -> str:
        # a notice's name contains a digest of the table's random uuid
        self.pending = (operation, path if "/notices/" not in path else "a notice")
        fate: str = self.scheduler.hub.switch()
        return fate


class Scheduler:
    """Interleaves actors. `steps` counts scheduled port calls; `changed` lists the changes of the step that was made last."""

    def __init__(self, inspect: Callable[[Sequence[tuple[str, str]]], None]) -> None:
        self.hub: Any = None
        self.now = START
        self.steps = 0
        self.actors: dict[str, Actor] = {}
        self.changed: list[tuple[str, str]] = []
        self.trace: list[Step] = []
        self.tape: list[Decision] = []
        self._inspect = inspect

    def run(self, bodies: dict[str, Callable[[Actor], None]], choose: Choose) -> None:
        """Run these functions to their end. Raises what one of them, or the inspection after a step, raises."""
        self.hub = getcurrent()
        self.actors = {name: Actor(self, name, body) for name, body in bodies.items()}
        try:
            for actor in self.actors.values():
                actor.resume(GO)
            while waiting := [actor for actor in self.actors.values() if not actor.done]:
                awake = [actor for actor in waiting if actor.wake <= self.now]
                if awake:
                    self._step(choose(awake))
                else:
                    self.now = min(actor.wake for actor in waiting)
        finally:
            for actor in self.actors.values():
                actor.end()

    def _step(self, decision: Decision) -> None:
        actor = self.actors[decision.actor]
        operation, path = actor.pending
        self.tape.append(decision)
        fate = f"sleeps {decision.seconds:g} s" if decision.fate == SLEEP else decision.fate
        self.trace.append(Step(actor.name, operation, path, fate, self.now - START))
        if decision.fate == SLEEP:
            actor.wake = self.now + decision.seconds
            return
        if operation != "idle":
            self.steps += 1
        self.now += TICK
        self.changed.clear()
        actor.resume(decision.fate)
        if self.changed:
            self._inspect(self.changed)


Choose = Callable[[Sequence[Actor]], Decision]
"""The actors that are awake → the next decision."""


@dataclass(frozen=True)
class Habits:
    """How a random life goes; the rates are probabilities per step."""

    stay: float = 0.0
    """The actor that acted last goes on."""
    crash: float = 0.0
    """The process dies at the call."""
    fail: float = 0.0
    """The store does not answer."""
    sleep: float = 0.0
    """The actor sleeps before the call."""
    naps: tuple[float, ...] = (30.0,)
    """Seconds, one of which an actor sleeps."""


class Dice:
    """Decisions by a random generator."""

    def __init__(self, dice: random.Random, habits: Habits) -> None:
        self._random, self._habits = dice.random, habits
        self._choice = dice.choice
        self._last: Actor | None = None

    def __call__(self, awake: Sequence[Actor]) -> Decision:
        habits = self._habits
        actor = self._last
        if actor not in awake or self._random() >= habits.stay:
            actor = awake[int(self._random() * len(awake))]
        assert actor is not None
        self._last = actor
        operation = actor.pending[0]
        if operation == "idle":
            return Decision(actor.name)
        draw = self._random()
        if draw < habits.crash:
            return Decision(actor.name, CRASH_AFTER if operation in CHANGES and self._random() < 0.5 else CRASH)
        draw -= habits.crash
        if draw < habits.fail and operation != "clock":
            return Decision(actor.name, FAIL_AFTER if operation in CHANGES and self._random() < 0.5 else FAIL)
        draw -= habits.fail
        if 0 <= draw < habits.sleep:
            return Decision(actor.name, SLEEP, self._choice(habits.naps))
        return Decision(actor.name)


class Tape:
    """Recorded decisions. Those that do not fit any more (the actor is done or asleep) are skipped; in the end each actor goes on to its end."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._left = list(reversed(decisions))

    def __call__(self, awake: Sequence[Actor]) -> Decision:
        names = {actor.name for actor in awake}
        while self._left:
            decision = self._left.pop()
            if decision.actor in names:
                return decision
        return Decision(awake[0].name)
