"""Operators: wait for an hour, run a command line of ours for a table. What they do is told by the CLI; here it becomes Airflow's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from compactor.airflow import alerts
from compactor.airflow.hours import HOUR, hour_of, hours_between, read_hour, written
from compactor.airflow.outcome import QUESTIONS, judge, sentence
from compactor.core.model.errors import Refused, TryLater
from compactor.core.results.reports import Ended
from compactor.ports import Runner, Submitted

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
except ImportError:  # before Airflow 3.2
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException

POLL_SECONDS = 30.0


def hour_of_run(context: Any) -> datetime:
    """The hour that a task's run stands for."""
    run = context["dag_run"]
    return hour_of(getattr(run, "partition_key", None), run.logical_date, run.run_after)


def attempt_of(context: Any) -> str:
    """The name of a try of a task: the same when a scheduler starts it twice, another when it is tried again or cleared."""
    ti = context["ti"]
    return "/".join(map(str, (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)))


def arrived(config: str, table: str, hours: list[str]) -> list[str]:
    """Those of the hours of which anything has landed for a table."""
    if not hours:
        return []
    from compactor.app.app import App

    with App.open(config) as app:
        return [hour for hour in hours if app.arrived(table, read_hour(hour))]


class WaitForHour(BaseOperator):
    """Until something of the run's hour has landed, `wait` seconds after the hour's end at most: an hour in which nothing happened is no error."""

    def __init__(self, *, config: str, table: str, wait: float, **more: Any) -> None:
        super().__init__(**more)
        self.config, self.table, self.wait = config, table, wait

    def execute(self, context: Any) -> str:
        """The hour. Deferred while it waits, so that it takes no worker's slot."""
        hour = hour_of_run(context)
        until = (hour + HOUR).timestamp() + self.wait
        if time.time() < until and not self._arrived(hour):
            self.log.info("%s: nothing of %s has landed yet; waiting", self.table, written(hour))
            self.defer(trigger=HourTrigger(self.config, self.table, written(hour), until), method_name="resume")
        return written(hour)

    def resume(self, context: Any, event: dict[str, Any]) -> str:
        """The hour, after the wait."""
        self.log.info("%s: %s", self.table, event["told"])
        return str(event["hour"])

    def _arrived(self, hour: datetime) -> bool:
        try:
            return bool(arrived(self.config, self.table, [written(hour)]))
        except Refused as error:
            raise AirflowFailException(str(error)) from error


class HourTrigger(BaseTrigger):
    """Looks every `poll` seconds whether something of an hour has landed, till `until` (epoch seconds)."""

    def __init__(self, config: str, table: str, hour: str, until: float, poll: float = POLL_SECONDS) -> None:
        super().__init__()
        self.config, self.wanted, self.hour, self.until, self.poll = config, table, hour, until, poll

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How the triggerer makes it again."""
        given = {"config": self.config, "table": self.wanted, "hour": self.hour, "until": self.until, "poll": self.poll}
        return f"{type(self).__module__}.{type(self).__qualname__}", given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event."""
        told = f"nothing of {self.hour} has landed in time; going on without"
        while time.time() < self.until:
            try:
                if await asyncio.to_thread(arrived, self.config, self.wanted, [self.hour]):
                    told = f"{self.hour} has landed"
                    break
            except (Refused, TryLater) as error:
                # the run itself will meet it, and say so
                self.log.warning("%s: %s", self.wanted, error)
            await asyncio.sleep(max(0.0, min(self.poll, self.until - time.time())))
        yield TriggerEvent({"hour": self.hour, "told": told})


@contextmanager
def airflows_errors() -> Iterator[None]:
    """Ours as Airflow's: refused → no retry."""
    try:
        yield
    except Refused as error:
        raise AirflowFailException(str(error)) from error
    except TryLater as error:
        raise AirflowException(str(error)) from error


class Command(BaseOperator):
    """A command line of ours for a table: `words` and the table. Its JSON is what the task returns.

    With `spark` it runs where the table's `runner` says; on EMR the task is deferred meanwhile, and takes no worker's slot. Refused → fails at
    once, whatever `retries` says; anything else that went wrong → the task fails and may be tried again.
    """

    template_fields = ("table",)

    def __init__(self, *, config: str, table: str, words: tuple[str, ...], labelled: bool = False, spark: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.config, self.table, self.words, self.labelled, self.spark = config, table, tuple(words), labelled, spark
        self._runner: Runner | None = None

    def execute(self, context: Any) -> Any:
        """What the command printed."""
        from compactor.app.app import App

        arguments = [*self.words, *self.asked(context), *([self.table] if self.table else []), "--output", "json"]
        arguments += ["--label", str(context["run_id"])] if self.labelled else []
        self.log.info("compactor %s", " ".join(arguments))
        with airflows_errors():
            with App.open(self.config) as app:
                away = self.spark and app.settings.runner_of(self.table) != "local"
                remote = app.remote_runner(self.table, attempt_of(context)) if away else None
                self._runner = remote or app.runner()
                submitted = remote.submit(arguments) if remote is not None else None
            if submitted is not None:
                self.log.info("job %s; its report will be below %s", submitted.job, submitted.report)
                trigger = JobTrigger(self.config, self.table, asdict(submitted))
                # the trigger itself knows the time: this one is for a triggerer that stands still
                self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=max(60.0, submitted.until - time.time()) + 600))
            ended = self._runner.run(arguments, lambda line: self.log.info("%s", line))
        return self._judged(ended, context)

    def resume(self, context: Any, event: dict[str, Any]) -> Any:
        """What the command printed on EMR."""
        from compactor.app.app import App

        if event["problem"] is not None:
            raise (AirflowFailException if event["final"] else AirflowException)(event["problem"])
        with airflows_errors(), App.open(self.config) as app:
            remote = app.remote_runner(self.table)
            if remote is None:
                raise Refused(f"table {self.table}: its runner was changed to local while a job of it ran; run it again")
            ended = remote.result(Submitted(**event["submitted"]), lambda line: self.log.info("%s", line))
        return self._judged(ended, context)

    def _judged(self, ended: Ended, context: Any) -> Any:
        outcome = judge(ended)
        self.tell(outcome.found)
        if outcome.problem is not None:
            raise (AirflowException if outcome.again else AirflowFailException)(outcome.problem)
        return self.answer(outcome.found, context)

    def asked(self, context: Any) -> list[str]:
        """Options that the run's parameters ask for."""
        return []

    def tell(self, found: Any) -> None:
        """Log what was found."""

    def answer(self, found: Any, context: Any) -> Any:
        """What the task returns."""
        return found

    def on_kill(self) -> None:
        """Airflow ends the task: the command ends with it."""
        if self._runner is not None:
            self._runner.cancel()


class JobTrigger(BaseTrigger):
    """Looks every `poll` seconds whether a job on EMR has ended. Ended by a person's hand (clear, mark), the task takes the job along."""

    def __init__(self, config: str, table: str, submitted: dict[str, Any], poll: float = POLL_SECONDS) -> None:
        super().__init__()
        self.config, self.wanted, self.submitted, self.poll = config, table, submitted, poll

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How the triggerer makes it again."""
        given = {"config": self.config, "table": self.wanted, "submitted": self.submitted, "poll": self.poll}
        return f"{type(self).__module__}.{type(self).__qualname__}", given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: it has ended, or nobody can find out."""
        problem, final = None, False
        try:
            while not await asyncio.to_thread(self._asked, "ended"):
                await asyncio.sleep(self.poll)
        except (Refused, TryLater) as error:
            problem, final = str(error), isinstance(error, Refused)
        yield TriggerEvent({"submitted": self.submitted, "problem": problem, "final": final})

    async def on_kill(self) -> None:
        """Cancel the job (Airflow 3.3 calls this; before, the job ends by itself and a later run finds its work done)."""
        await asyncio.to_thread(self._asked, "stop")

    def _asked(self, question: str) -> bool:
        from compactor.app.app import App

        with App.open(self.config) as app:
            remote = app.remote_runner(self.wanted)
        return remote is None or bool(getattr(remote, question)(Submitted(**self.submitted)))


class Run(Command):
    """`compactor run` for one table, with `fold` `compactor run --compact`; its report is what the task returns."""

    def __init__(self, *, compact: bool = False, **more: Any) -> None:
        super().__init__(words=("run", *(("--compact",) if compact else ())), labelled=True, spark=True, **more)

    def tell(self, found: Any) -> None:
        """The report, as a sentence."""
        for report in found or ():
            self.log.info("%s", sentence(report))

    def answer(self, found: Any, context: Any) -> dict[str, Any]:
        """The report."""
        (report,) = found
        return dict(report)


class Verify(Command):
    """`compactor verify` for one table. With `asset`, an event of it carries what the run of the same table did (`reported`: that task's id)."""

    def __init__(self, *, files_only: bool, deep: bool = False, asset: Any = None, reported: str = "", **more: Any) -> None:
        words = ("verify", *(("--files-only",) if files_only else ()), *(("--deep",) if deep else ()))
        if asset is not None:
            more["outlets"] = [asset]
        super().__init__(words=words, spark=not files_only, **more)
        self.asset, self.reported = asset, reported

    def tell(self, found: Any) -> None:
        """Each check."""
        for check in found or ():
            self.log.info("%s: %s: %s: %s", check["table"], check["name"], "ok" if check["ok"] else "FAILED", check["detail"])

    def answer(self, found: Any, context: Any) -> Any:
        """The checks; and the asset's event gets its extra."""
        if self.asset is not None:
            report = context["ti"].xcom_pull(task_ids=self.reported) or {}
            kept = ("outcome", "version", "operations", "files", "rows", "counts")
            extra = {"hour": written(hour_of_run(context)), **{name: report[name] for name in kept if name in report}}
            context["outlet_events"][self.asset].extra = extra
        return found


class Plan(Command):
    """`compactor plan` for one table, and which of the hours that the run's parameters name have landed."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("plan",), **more)

    def tell(self, found: Any) -> None:
        """The steps."""
        for plan in found or ():
            for step in plan["steps"]:
                self.log.info("%s: %s", plan["table"], step)

    def answer(self, found: Any, context: Any) -> dict[str, Any]:
        """Steps, and hours: `new` wait in landing, `known` were absorbed before, of `missing` nothing landed. These can be refused."""
        (plan,) = found
        new = sorted({item["hour"] for item in plan["landing"]["new"] if item["hour"]})
        # every hour is looked at on its own: what lies in the archive of a table is too much to list
        wanted = [hour for hour in expected_hours(context["params"]) if not any(name.startswith(hour) for name in new)]
        known = arrived(self.config, self.table, wanted)
        missing = [hour for hour in wanted if hour not in known]
        self.log.info("%s: %d hours with new files, %d absorbed before, %d of which nothing landed", self.table, len(new), len(known), len(missing))
        if missing:
            told = f"{self.table}: nothing landed of {', '.join(missing[:24])}{' ...' if len(missing) > 24 else ''}"
            self.log.warning("%s", told)
            if context["params"]["complete"]:
                raise AirflowFailException(f"{told}; `complete` asks for every hour: land them, or leave it off")
        return {"table": self.table, "steps": plan["steps"], "new": new, "known": known, "missing": missing}


def expected_hours(params: Any) -> list[str]:
    """The hours that a backfill's parameters name. Raises ValueError for a range that makes no sense."""
    first, last = params["from_hour"], params["to_hour"]
    if first is None and last is not None:
        raise ValueError("expected `from_hour` beside `to_hour`, found none")
    if first is None:
        return []
    begin = read_hour(first)
    return [written(hour) for hour in hours_between(begin, begin if last is None else read_hour(last))]


class Choose(BaseOperator):
    """The tables that a backfill's parameters name, all of `tables` when they name none; its hours are checked."""

    def __init__(self, *, tables: list[str], **more: Any) -> None:
        super().__init__(**more)
        self.tables = tables

    def execute(self, context: Any) -> list[str]:
        """The tables."""
        params = context["params"]
        try:
            expected_hours(params)
        except ValueError as error:
            raise AirflowFailException(str(error)) from error
        if params["accept_differences"] and not params["rebuild"]:
            raise AirflowFailException("expected `rebuild` beside `accept_differences`, found it off")
        return list(dict.fromkeys(params["tables"])) or self.tables


class Approve(BaseOperator):
    """Passes the tables on, unless the run is a dry one: then what follows is skipped."""

    template_fields = ("tables",)

    def __init__(self, *, tables: Any, **more: Any) -> None:
        super().__init__(**more)
        self.tables = tables

    def execute(self, context: Any) -> list[str]:
        """The tables."""
        if context["params"]["dry_run"]:
            raise AirflowSkipException("a dry run: nothing was changed. Start again without `dry_run`")
        return list(self.tables)


class If(BaseOperator):
    """Passes the tables on when the form's switch `asked` is on; otherwise what follows is skipped."""

    template_fields = ("tables",)

    def __init__(self, *, tables: Any, asked: str, **more: Any) -> None:
        super().__init__(**more)
        self.tables, self.asked = tables, asked

    def execute(self, context: Any) -> list[str]:
        """The tables."""
        if not context["params"][self.asked]:
            raise AirflowSkipException(f"`{self.asked}` is off")
        return list(self.tables)


class Replay(Command):
    """`compactor quarantine replay` for one table."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("quarantine", "replay"), labelled=True, spark=True, **more)


class Rebuild(Command):
    """`compactor rebuild` for one table; rows that differ fail it unless the form accepts them."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("rebuild",), labelled=True, spark=True, **more)

    def asked(self, context: Any) -> list[str]:
        """Whether rows may be others."""
        return ["--accept-differences"] if context["params"]["accept_differences"] else []


class Waste(Command):
    """`compactor vacuum` for one table: what it would delete."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("vacuum",), **more)

    def answer(self, found: Any, context: Any) -> dict[str, Any]:
        """Table, files, bytes, how many of them are raw files past their retention, and versions that are given up."""
        going = [item for report in found for item in report["swept"] if item["goes"] is None]
        size = {"files": sum(item["files"] for item in going), "bytes": sum(item["bytes"] for item in going)}
        raw = sum(item["files"] for item in going if item["reason"] == "discarded")
        return {"table": self.table, **size, "raw": raw, "expired": sum(len(report["expired"]) for report in found)}


class Vacuum(Command):
    """`compactor vacuum --run` for one table."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("vacuum", "--run"), labelled=True, spark=True, **more)


class Announce(Command):
    """`compactor schema notify` for one table."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("schema", "notify"), **more)

    def tell(self, found: Any) -> None:
        """Each change."""
        for told in found or ():
            for change in told["changes"]:
                self.log.info("%s: %s", told["table"], change)

    def answer(self, found: Any, context: Any) -> dict[str, Any]:
        """What was told; nothing of a table that has no rows yet."""
        return dict(found[0]) if found else {"table": self.table, "refused": False, "changes": []}


class Asked(BaseOperator):
    """What of the answers before is a question to a person: the tables it is about, and beside them (XCom `text`) the question itself.

    Skipped when there is none, with what follows.
    """

    template_fields = ("found",)

    def __init__(self, *, found: Any, question: str, **more: Any) -> None:
        super().__init__(**more)
        self.found, self.question = found, question

    def execute(self, context: Any) -> list[str]:
        """The tables."""
        tables, text = QUESTIONS[self.question](list(self.found))
        if not tables:
            raise AirflowSkipException("nothing to ask")
        self.log.info("%s", text)
        context["ti"].xcom_push(key="text", value=text)
        return tables


class ByHand(BaseOperator):
    """A question where Airflow has no form for it: the task fails with it, and who says yes marks it as success."""

    def __init__(self, *, subject: str, asked_by: str, **more: Any) -> None:
        super().__init__(**more)
        self.subject, self.asked_by = subject, asked_by

    def execute(self, context: Any) -> None:
        """Never succeeds."""
        text = context["ti"].xcom_pull(task_ids=self.asked_by, key="text")
        raise AirflowFailException(f"{self.subject}\n{text}\nMark this task as success to say yes; leave it to say no.")


class QuarantineAlert(Command):
    """`compactor quarantine list`; tells each table's `notify:` targets and fails when something waits."""

    def __init__(self, **more: Any) -> None:
        super().__init__(words=("quarantine", "list"), table="", **more)

    def answer(self, found: Any, context: Any) -> list[Any]:
        """Nothing, or failure."""
        waiting: dict[str, list[str]] = {}
        for item in found:
            waiting.setdefault(item["table"], []).append(f"{item['path']}: {_how_much(item['records'])}: {item['reason']}")
        lines = [f"{table}: {line}" for table, told in waiting.items() for line in told]
        if lines:
            alerts.quarantined(self.config, waiting)
            more = f"\nand {len(lines) - 50} more" if len(lines) > 50 else ""
            raise AirflowFailException(f"{len(lines)} files wait in quarantine:\n" + "\n".join(lines[:50]) + more)
        return []


def _how_much(records: int | None) -> str:
    return "the file" if records is None else f"{records:,} records"
