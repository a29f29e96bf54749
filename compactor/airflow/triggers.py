"""Triggers wait for an hour's files, or for a job on EMR, in Airflow's triggerer instead of a worker slot. A group of tables has one of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from compactor.airflow.hours import read_hour
from compactor.airflow.opened import opened, opened_in_triggerer
from compactor.core.model.errors import CompactorError
from compactor.core.parallel import in_parallel
from compactor.ports import RemoteRunner, Submitted

if TYPE_CHECKING:
    from compactor.app.app import App

SPARK_UI = "Spark UI"
"""Name of the page that a job has only when it runs."""

POLL_SECONDS = 30.0
"""Interval between two checks of a trigger."""


def arrived(config: str, table: str, hours: list[str]) -> list[str]:
    """Return those of `hours` for which a file of the table has landed."""
    from compactor.flows.read import arrived as landed

    stored = opened(config).table(table)
    return [hour for hour in hours if landed.arrived(stored, read_hour(hour))]


def waiting(config: str, table: str, hours: list[str], new: list[str]) -> list[str]:
    """Return those of `hours` whose files wait in landing. `new`: the hours of the folders with such files, as `compactor plan` has them."""
    from compactor.flows.read import arrived as landed

    stored = opened(config).table(table)
    return [hour for hour in hours if landed.waits(stored, read_hour(hour), new)]


def missing(app: App, tables: Iterable[str], hour: str) -> list[str]:
    """Return the tables for which no file of an hour has landed. A table that is not configured any more is not missing."""
    from compactor.flows.read import arrived as landed

    names = [name for name in tables if name in app.settings.tables]
    arrivals = in_parallel(lambda name: landed.arrived(app.table(name), read_hour(hour)), names)
    return [name for name, file_landed in zip(names, arrivals) if not file_landed]


def not_whole(app: App, tables: Iterable[str], hour: str) -> dict[str, str]:
    """Return table → why the hour is not whole in it, for those in which it is not. Raises ConfigError for a table that is not configured."""
    from compactor.flows.read import arrived as landed

    names = list(tables)
    reasons = in_parallel(lambda name: landed.whole(app.table(name), read_hour(hour)), names)
    return {name: reason for name, reason in zip(names, reasons) if reason is not None}


class HourTrigger(BaseTrigger):
    """Check every `poll` seconds whether a file of an hour has landed for each of these tables, until the time `until` (epoch seconds).

    `whole`: whether the hour is whole in each of them.
    """

    def __init__(self, config: str, tables: list[str], hour: str, until: float, poll: float = POLL_SECONDS, whole: bool = False) -> None:
        super().__init__()
        self.config, self.tables, self.hour, self.until, self.poll, self.whole = config, tables, hour, until, poll, whole

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, from which the triggerer creates the trigger again."""
        arguments = {"config": self.config, "tables": self.tables, "hour": self.hour, "until": self.until, "poll": self.poll, "whole": self.whole}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when every table has the hour or the time is over."""
        check = not_whole if self.whole else missing
        waiting = self.tables
        while waiting and time.time() < self.until:
            try:
                app = await opened_in_triggerer(self.config)
                waiting = list(await asyncio.to_thread(check, app, waiting, self.hour))
            except CompactorError as error:
                # the run itself will meet the same error and report it
                self.log.warning("waiting for %s: %s", self.hour, error)
            if waiting:
                await asyncio.sleep(max(0.0, min(self.poll, self.until - time.time())))
        yield TriggerEvent({"hour": self.hour, "missing": waiting})


class JobTrigger(BaseTrigger):
    """Check every `poll` seconds whether a job on EMR has ended. If a person clears or marks the task, the job is cancelled.

    Errors, such as a moment without a valid configuration or credentials, are logged until the job's time is over: the job runs on meanwhile.
    `tables` are the tables of the job. `until_ui`: also end when Spark's UI has a page, which EMR opens when the job begins to run; only the task can
    show it.
    """

    def __init__(self, config: str, tables: list[str], submitted: dict[str, Any], poll: float = POLL_SECONDS, until_ui: bool = False) -> None:
        super().__init__()
        self.config, self.tables, self.submitted, self.poll, self.until_ui = config, tables, submitted, poll, until_ui
        self._runner: tuple[App, RemoteRunner] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, from which the triggerer creates the trigger again."""
        arguments = {"config": self.config, "tables": self.tables, "submitted": self.submitted, "poll": self.poll, "until_ui": self.until_ui}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when the job has ended, its time is over, or Spark's UI has a page while the job runs (`active`).

        `problem` is the error of the last check that failed, if none has succeeded since.
        """
        submitted, problem, active = Submitted(**self.submitted), None, False
        while True:
            try:
                remote = await self._remote()
                if await asyncio.to_thread(remote.ended, submitted):
                    break
                problem = None
                if active := self.until_ui and SPARK_UI in await asyncio.to_thread(remote.links, submitted):
                    break
            except CompactorError as error:
                self.log.warning("job %s: %s", submitted.job, error)
                problem = str(error)
                if time.time() > submitted.until:
                    break
            await asyncio.sleep(self.poll)
        yield TriggerEvent({"submitted": self.submitted, "tables": self.tables, "problem": problem, "active": active})

    async def on_kill(self) -> None:
        """Cancel the job. Airflow calls this from 3.3 on; before, the job ends by itself and a later run finds its work done."""
        await asyncio.to_thread((await self._remote()).stop, Submitted(**self.submitted))

    async def _remote(self) -> RemoteRunner:
        app = await opened_in_triggerer(self.config)
        if self._runner is None or self._runner[0] is not app:
            self._runner = (app, app.submitted_runner(Submitted(**self.submitted)))
        return self._runner[1]
