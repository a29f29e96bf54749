"""Triggers: they wait for an hour's files, or for a job on EMR, in Airflow's triggerer instead of a worker slot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from compactor.airflow.hours import read_hour
from compactor.core.model.errors import Refused, TryLater
from compactor.ports import Submitted

POLL_SECONDS = 30.0
"""Interval between two checks of a trigger."""


def arrived(config: str, table: str, hours: list[str]) -> list[str]:
    """Return those of `hours` for which a file of the table has landed."""
    if not hours:
        return []
    from compactor.app.app import App

    with App.open(config) as app:
        return [hour for hour in hours if app.arrived(table, read_hour(hour))]


class HourTrigger(BaseTrigger):
    """Check every `poll` seconds whether a file of an hour has landed, until the time `until` (epoch seconds)."""

    def __init__(self, config: str, table: str, hour: str, until: float, poll: float = POLL_SECONDS) -> None:
        super().__init__()
        self.config, self.table_name, self.hour, self.until, self.poll = config, table, hour, until, poll

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, from which the triggerer creates the trigger again."""
        arguments = {"config": self.config, "table": self.table_name, "hour": self.hour, "until": self.until, "poll": self.poll}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when a file has landed or the time is over."""
        message = f"no file of {self.hour} has landed in time; continuing without it"
        while time.time() < self.until:
            try:
                if await asyncio.to_thread(arrived, self.config, self.table_name, [self.hour]):
                    message = f"{self.hour} has landed"
                    break
            except (Refused, TryLater) as error:
                # the run itself will meet the same error and report it
                self.log.warning("%s: %s", self.table_name, error)
            await asyncio.sleep(max(0.0, min(self.poll, self.until - time.time())))
        yield TriggerEvent({"hour": self.hour, "message": message})


class JobTrigger(BaseTrigger):
    """Check every `poll` seconds whether a job on EMR has ended. If a person clears or marks the task, the job is cancelled."""

    def __init__(self, config: str, table: str, submitted: dict[str, Any], poll: float = POLL_SECONDS) -> None:
        super().__init__()
        self.config, self.table_name, self.submitted, self.poll = config, table, submitted, poll

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, from which the triggerer creates the trigger again."""
        arguments = {"config": self.config, "table": self.table_name, "submitted": self.submitted, "poll": self.poll}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when the job has ended or its state cannot be read."""
        problem, final = None, False
        try:
            while not await asyncio.to_thread(self._call_runner, "ended"):
                await asyncio.sleep(self.poll)
        except (Refused, TryLater) as error:
            problem, final = str(error), isinstance(error, Refused)
        yield TriggerEvent({"submitted": self.submitted, "problem": problem, "final": final})

    async def on_kill(self) -> None:
        """Cancel the job. Airflow calls this from 3.3 on; before, the job ends by itself and a later run finds its work done."""
        await asyncio.to_thread(self._call_runner, "stop")

    def _call_runner(self, method: str) -> bool:
        """Call `ended` or `stop` of the table's remote runner. Return True if the table has no remote runner any more."""
        from compactor.app.app import App

        with App.open(self.config) as app:
            remote = app.remote_runner(self.table_name)
        return remote is None or bool(getattr(remote, method)(Submitted(**self.submitted)))
