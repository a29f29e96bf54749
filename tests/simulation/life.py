"""A table's life: a plan (what the processes do) and its play (in which order their port calls happen), both out of one seed."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from compactor.core.model.spec import TableSpec
from tests.faults import Crash
from tests.oracle import lake
from tests.oracle.engine import ListEngine
from tests.oracle.reader import Shown, look
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage
from tests.simulation import verbs
from tests.simulation.audit import Audit, registered
from tests.simulation.bank import Bank, Delivery, deliveries
from tests.simulation.ports import ActorCatalog, ActorEngine, ActorStorage, StrictCatalog
from tests.simulation.scheduler import CHANGES, GO, START, Actor, Choose, Decision, Dice, Habits, Scheduler, Step, Tape

Program = tuple[tuple[str, Any], ...]
"""What a process does, one verb after the other, each with its argument."""


@dataclass(frozen=True)
class Plan:
    """Everything about a life but the order of its steps."""

    options: Mapping[str, Any]
    """Fields of the TableSpec."""
    strict: bool
    """Whether the catalog refuses to replace a newer view."""
    prelude: tuple[Delivery, ...]
    """Files that land before the life begins, each followed by an undisturbed run."""
    last: Delivery
    """A file that lands when all processes are done."""
    programs: Mapping[str, Program]
    """What each process does."""
    couples: bool = True
    """Whether the rows are accounts of the bank."""


@dataclass(frozen=True)
class Outcome:
    """How a life went."""

    failure: str | None
    """What was wrong, None if nothing was."""
    steps: int
    """Scheduled port calls."""
    tape: tuple[Decision, ...]
    """The decisions: with the plan they replay the life."""
    trace: tuple[Step, ...]
    """Who did which port call."""
    committed: tuple[str, ...]
    """The operations of all versions."""

    def report(self) -> str:
        """The failure and the schedule, as text."""
        return "\n".join([*schedule(self.trace), f"versions: {' '.join(self.committed)}", f"FAILED: {self.failure}"])


def schedule(trace: Sequence[Step]) -> Iterator[str]:
    """Return the steps as text, a line for each stretch in which one actor acts alone: its changes, its faults, and how many calls lie between."""
    for name, steps in itertools.groupby(trace, key=lambda step: step.actor):
        parts: list[str] = []
        quiet, began, last = 0, None, ""
        for step in steps:
            began = step.at if began is None else began
            if step.operation in CHANGES or step.fate != GO or step.operation == "idle":
                parts += [f"{quiet} calls"] * (quiet > 0)
                fate = "" if step.fate == GO else f" << {step.fate}"
                parts.append(f"{step.operation} {step.path.removeprefix('/lake/t/')}".strip() + fate)
                quiet = 0
            else:
                quiet, last = quiet + 1, f"{step.operation} {step.path.removeprefix('/lake/t/')}".strip()
        parts += [f"{quiet} calls up to {last}"] * (quiet > 0)
        yield f"{began:8.2f}  {name:<10} {', '.join(parts)}"


class Life:
    """A table in memory and the processes that work on it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.spec: TableSpec = lake.table(**plan.options)
        self.scheduler = Scheduler(self._inspect)
        self.storage = MemoryStorage(self._clock)
        self.catalog: MemoryCatalog = StrictCatalog() if plan.strict else MemoryCatalog()
        self.audit = Audit(self.spec, self.storage, self.catalog, plan.strict, plan.couples)
        self._nonces = itertools.count(1)

    def _clock(self) -> float:
        return self.scheduler.now

    def _nonce(self) -> str:
        return f"{next(self._nonces):08x}"

    def _inspect(self, changed: Sequence[tuple[str, str]]) -> None:
        self.audit.inspect(changed, self.scheduler.now, self.scheduler.trace[-1].actor)

    def play(self, choose: Choose) -> None:
        """Play the life and check it. Raises AssertionError, or what a verb raises that it may not raise."""
        self.begin()
        self.scheduler.run(self.bodies(), choose)
        # nothing may need to be done: what is remembered of the catalog must be true, whoever died while it published
        with contextlib.suppress(*verbs.VERBS["run"][1]):
            self.undisturbed("run")
        self.audit.newest_is_shown()
        # a run of nothing but damaged files is refused: a good one lands beside them
        self._deliver(self.plan.last)
        self.undisturbed("run")
        self.audit.settled(everything=False)
        self.undisturbed("reabsorb")
        self.undisturbed("run")
        self.audit.settled(everything=True)
        self.scheduler.now += 10 * (self.spec.keep + self.spec.grace)
        self.undisturbed("vacuum")
        self.audit.settled(everything=True)
        table = self._table()
        newest = self.audit.newest
        attempts = verbs.first_attempts(table, newest)
        assert len(attempts) == len(set(attempts)), "an input is in the ledger twice"
        assert {*attempts} == {*self.audit.ledger}, "the ledger files contradict the Snapshots"
        wrong = verbs.failed_checks(table)
        assert not wrong, wrong

    def begin(self) -> None:
        """Play the prelude."""
        for delivery in self.plan.prelude:
            self._deliver(delivery)
            with suppress(verbs.InputRefused):
                self.undisturbed("run")

    def bodies(self) -> dict[str, Callable[[Actor], None]]:
        """Return the functions of the processes."""
        return {name: self._body(program) for name, program in self.plan.programs.items()}

    def look(self) -> Shown:
        """Return what a reader sees now."""
        shown = look(self.catalog, self.storage, self.spec)
        assert shown is not None
        return shown

    def undisturbed(self, verb: str, argument: Any = None) -> None:
        """Run a verb while nobody else does anything."""
        self.scheduler.now += 1.0
        verbs.VERBS[verb][0](self._table(), argument)
        self.audit.caught_up(self.scheduler.now)

    def _table(self) -> Any:
        return verbs.opened(self.storage, ListEngine(self.storage), self.catalog, self._clock, self._nonce, self.spec)

    def _deliver(self, delivery: Delivery) -> None:
        self.audit.lands(delivery.path)
        self.storage.write(self.audit.layout.landed(delivery.path), delivery.data)
        self.audit.landed(delivery.path, delivery.data)

    # processes ----------------------------------------------------------------------------------------------------

    def _body(self, program: Program) -> Callable[[Actor], None]:
        def body(actor: Actor) -> None:
            for verb, argument in program:
                # a sink that died delivers again; every other process is started for its next verb
                while self._done(actor, verb, argument) is False and verb == "deliver":
                    continue
                if actor.ended:
                    return

        return body

    def _done(self, actor: Actor, verb: str, argument: Any) -> bool:
        """Run a verb in a new process; return whether it lived to its end."""
        actor.crashed = actor.ended
        try:
            if verb == "idle":
                actor.sleep(argument)
            elif verb == "deliver":
                actor.call("write", self.audit.layout.landed(argument.path), lambda: self._deliver(argument))
            elif verb == "read":
                self._read(actor)
            else:
                self._flow(actor, verb, argument)
        except Crash:
            return actor.ended
        except verbs.TryLater:
            return verb != "deliver"
        return True

    def _flow(self, actor: Actor, verb: str, argument: Any) -> None:
        storage, (function, allowed) = ActorStorage(self.storage, actor), verbs.VERBS[verb]

        def clock() -> float:
            return actor.call("clock", "", self._clock)

        engine: Any = ActorEngine(storage, actor)
        table = verbs.opened(storage, engine, ActorCatalog(self.catalog, actor), clock, self._nonce, self.spec)
        try:
            self.audit.debts.pop(actor.name, None)
            function(table, argument)
            self.audit.paid(actor.name)
        except allowed:
            return
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{actor.name}: {verb} ended with {type(error).__name__}: {error}") from error

    def _read(self, actor: Actor) -> None:
        """Query the view as an engine does: text, tables and partitions, then the files."""
        catalog, storage, spec = ActorCatalog(self.catalog, actor), ActorStorage(self.storage, actor), self.spec
        began = self.scheduler.now
        view = catalog.view(spec.database, spec.view)
        if view is None:
            return
        tables, partitions = registered(catalog, spec, view)
        if self.scheduler.now - began >= spec.keep:
            return
        files: dict[str, Any] = {}
        try:
            for partition in [partition for some in partitions.values() for partition in some]:
                infos = [*storage.list(partition.location)]
                files[partition.location] = [(info, storage.read(info.path)) for info in infos]
            shown = self.audit.evaluated(view, tables, partitions, files)
            self.audit.check(shown)
        except (AssertionError, FileNotFoundError) as error:
            if self.scheduler.now - began < spec.grace:
                raise AssertionError(f"a reader since {began - START:.2f}: {error}") from error


# plans ------------------------------------------------------------------------------------------------------------


def plan_of(dice: random.Random, roles: Sequence[str] = ()) -> tuple[Plan, Habits]:
    """Draw a plan and the habits of its processes; `roles` are those of its processes beside the sink, if they are given."""
    bank = Bank(dice.choice((3, 4)), dice, types_change=dice.random() < 0.1)
    files = deliveries(dice, bank, dice.choice((4, 5, 6, 7)))
    last = Delivery("increment_2026010103/last.json", tuple(bank.transfer(0)))
    landed = dice.choice((0, 1, 2, 3, 3))
    keep, grace, window = dice.choice((5.0, 40.0, 400.0)), dice.choice((20.0, 60.0)), dice.choice((10.0, 600.0))
    options = verbs.options(
        dice.choice(verbs.WRITE_MODES),
        dice.choice((0.0, 1e9, 1e9)),
        dice.choice((400, 1500)),
        keep=keep,
        grace=grace,
        publish_window=window,
        keep_versions=dice.choice((1, 2, 4)),
    )
    naps = (1.0, grace / 2, 1.5 * window if window < 100 else 5.0, 1.5 * grace + keep)
    calm = dice.random() < 0.4
    habits = Habits(
        stay=dice.choice((0.0, 0.5, 0.9, 0.97)),
        crash=0.0 if calm else dice.choice((0.0, 0.002, 0.01)),
        fail=0.0 if calm else dice.choice((0.0, 0.002, 0.01)),
        sleep=dice.choice((0.0, 0.002, 0.01, 0.03)),
        naps=naps,
    )
    programs = {"sink": _spread(dice, [("deliver", file) for file in files[landed:]], naps)}
    for name in roles or _cast(dice):
        programs[name] = _spread(dice, _ROLES[name](dice), naps)
    return Plan(options, dice.random() < 0.8, tuple(files[:landed]), last, programs), habits


def _cast(dice: random.Random) -> list[str]:
    """Draw who takes part: a runner always, some of the others."""
    others = ["runner-2", "compactor", "operator", "rebuilder", "vacuum", "pinner", "publisher", "reader"]
    return ["runner", *(name for name in others if dice.random() < 0.5)]


def _spread(dice: random.Random, steps: Sequence[tuple[str, Any]], naps: Sequence[float]) -> Program:
    """Put pauses between verbs."""
    out: list[tuple[str, Any]] = []
    for step in steps:
        if dice.random() < 0.3:
            out.append(("idle", dice.choice(naps)))
        out.append(step)
    return tuple(out)


def _several(verb: str, most: int) -> Callable[[random.Random], list[tuple[str, Any]]]:
    return lambda dice: [(verb, None)] * dice.randint(1, most)


def _operator(dice: random.Random) -> list[tuple[str, Any]]:
    steps: list[tuple[str, Any]] = [("restore", dice.choice((1, 1, 2, 3)))]
    steps += [dice.choice((("reabsorb", None), ("restore", 1), ("replay", None)))] * (dice.random() < 0.6)
    return steps


def _pinner(dice: random.Random) -> list[tuple[str, Any]]:
    return [("pin", dice.choice((0, 1, 2))), ("unpin", None)][: dice.choice((1, 2))]


_ROLES: dict[str, Callable[[random.Random], list[tuple[str, Any]]]] = {
    "runner": _several("run", 3),
    "runner-2": _several("run", 3),
    "compactor": _several("compact", 2),
    "operator": _operator,
    "rebuilder": lambda dice: [("rebuild", dice.choice((None, None, 1)))],
    "vacuum": _several("vacuum", 3),
    "pinner": _pinner,
    "publisher": _several("publish", 2),
    "reader": _several("read", 4),
}


def played(plan: Plan, choose: Choose) -> Outcome:
    """Play a life; report instead of raising."""
    life, failure = Life(plan), None
    try:
        life.play(choose)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    scheduler = life.scheduler
    operations = tuple(snapshot.operation for snapshot in life.audit.snapshots.values())
    return Outcome(failure, scheduler.steps, tuple(scheduler.tape), tuple(scheduler.trace), operations)


def seeded(seed: int, roles: Sequence[str] = ()) -> Outcome:
    """Play the life of a seed, with these roles if they are given."""
    dice = random.Random(seed)
    plan, habits = plan_of(dice, roles)
    return played(plan, Dice(dice, habits))


def replayed(plan: Plan, tape: Sequence[Decision]) -> Outcome:
    """Play a plan by recorded decisions."""
    return played(plan, Tape(tape))


def without(plan: Plan, actor: str, verb: int | None = None) -> Plan:
    """Return a plan without an actor, or without one of its verbs."""
    programs = dict(plan.programs)
    if verb is None:
        del programs[actor]
    else:
        programs[actor] = tuple(step for at, step in enumerate(programs[actor]) if at != verb)
    return dataclasses.replace(plan, programs=programs)
