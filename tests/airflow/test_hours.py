"""Hours of runs, and how a command line's end is judged: plain values, without Airflow."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from compactor.airflow.hours import floor, hour_of, hour_of_run, hours_between, read_hour, written
from compactor.airflow.outcome import REFUSED, judge, sentence
from compactor.core.model import errors
from compactor.core.model.errors import CompactorError, Refused, TryLater
from compactor.core.results.record import TableReport
from compactor.core.results.reports import Ended
from compactor.flows.run import failure


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("key", "logical", "start", "hour"),
    [
        ("2024-03-05T03", "2024-03-05T09:10+00:00", None, "2024-03-05T03"),
        (None, "2024-03-05T04:10+00:00", "2024-03-09T00:00+00:00", "2024-03-05T03"),
        (None, "2024-03-05T04:00+00:00", None, "2024-03-05T03"),
        (None, "2024-03-05T00:59:59+00:00", None, "2024-03-04T23"),
        (None, "2024-03-05T04:10+05:30", None, "2024-03-04T21"),
        (None, None, "2024-03-05T04:10+00:00", "2024-03-05T03"),
    ],
    ids=["partition key", "logical date, whenever it runs", "on the hour", "over midnight", "in another zone", "started by an asset or the API"],
)
def test_the_hour_of_a_run(key: str | None, logical: str | None, start: str | None, hour: str) -> None:
    """The key's, else the last full one."""
    assert written(hour_of(key, logical and at(logical), start and at(start))) == hour


@pytest.mark.parametrize(
    ("kind", "logical", "start", "hour"),
    [
        ("scheduled", "2024-03-05T03:10", "2024-03-05T04:10", "2024-03-05T03"),
        ("scheduled", "2024-03-05T04:10", "2024-03-05T04:10", "2024-03-05T03"),
        ("backfill", "2024-03-05T03:10", "2024-03-05T04:10", "2024-03-05T03"),
        ("manual", "2024-03-05T04:10", "2024-03-09T00:00", "2024-03-05T03"),
        ("asset_triggered", None, "2024-03-05T04:10", "2024-03-05T03"),
    ],
)
def test_a_timetable_may_call_a_run_by_the_begin_of_its_interval(kind: str, logical: str | None, start: str, hour: str) -> None:
    """As cron does with `create_cron_data_intervals`. Who starts a run by hand gives its logical date."""
    moments = (None if text is None else at(f"{text}+00:00") for text in (logical, start))
    run = SimpleNamespace(**dict(zip(("logical_date", "run_after"), moments)), run_type=kind)
    assert written(hour_of_run(run)) == hour


def test_a_run_that_tells_no_time_has_no_hour() -> None:
    """Guessing would be worse."""
    with pytest.raises(ValueError, match="found none of them"):
        hour_of(None, None, None)


@pytest.mark.parametrize("text", ["2024-03-05T03", "2024-03-05T03:00", "2024-03-05T03:59:59Z", "2024-03-05T04:30+01:00", " 2024-03-05T03 "])
def test_hours_are_read_as_people_write_them(text: str) -> None:
    """The hour counts, in UTC."""
    assert written(read_hour(text)) == "2024-03-05T03"


@pytest.mark.parametrize("text", ["", "yesterday", "2024-03-05T24", "2024-13-01T00", "05.03.2024 03", "0001-01-01T00:00+05:00"])
def test_what_is_no_hour_is_refused(text: str) -> None:
    """With an example of one."""
    with pytest.raises(ValueError, match=r"expected an hour such as 2026-11-20T14, found"):
        read_hour(text)


def test_a_range_has_both_ends() -> None:
    """Also over a change of the clocks: hours are UTC. Backwards is refused."""
    first, last = read_hour("2024-03-30T22"), read_hour("2024-03-31T03")
    assert [written(hour) for hour in hours_between(first, last)][::5] == ["2024-03-30T22", "2024-03-31T03"]
    assert hours_between(first, first) == [first]
    with pytest.raises(ValueError, match="expected a last hour from 2024-03-31T03 on, found 2024-03-30T22"):
        hours_between(last, first)
    with pytest.raises(ValueError, match=r"expected at most 20 years of hours, found 0?224-03-31T03 to 2024-03-31T03"):
        hours_between(read_hour("0224-03-31T03"), last)
    assert floor(datetime(2024, 3, 5, 4, 30, tzinfo=timezone(timedelta(hours=5, minutes=45)))) == at("2024-03-04T22:00+00:00")


def reports(*found: TableReport) -> str:
    return json.dumps([report.to_json() for report in found])


def raised(kind: type[CompactorError]) -> CompactorError:
    return errors.InputUnfinished(frozenset(), "cut") if kind is errors.InputUnfinished else kind("words")


EVERY = [kind for _, kind in sorted(vars(errors).items()) if isinstance(kind, type) and issubclass(kind, CompactorError)]


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind is not CompactorError], ids=lambda kind: kind.__name__)
def test_every_error_of_ours_is_tried_again_or_not(kind: type[CompactorError]) -> None:
    """As its class says, with the words and the code that `compactor run` gives for it."""
    report = failure("student", raised(kind))
    outcome = judge(Ended(report.exit_code, reports(report)))
    assert outcome.problem == f"student: {report.error}"
    assert outcome.retryable is issubclass(kind, TryLater)
    assert (kind.__name__ in REFUSED) is issubclass(kind, Refused)


KILLED = "killed by SIGKILL, most likely out of memory. Raise the memory of the worker, or lower --parallel or COMPACTOR_DRIVER_MEMORY"


@pytest.mark.parametrize(
    ("ended", "problem", "again"),
    [
        (Ended(0, "[]"), None, False),
        (Ended(0, "[1, "), "expected a JSON document, found '[1, '", False),
        (Ended(1, "", "noise\ncompactor: compactor.yaml:3: unknown key\nmore of it\n"), "compactor.yaml:3: unknown key\nmore of it", False),
        (Ended(1, "", "compactor: unexpected OSError: gone (-v shows where)\n"), "unexpected OSError: gone (-v shows where)", True),
        (Ended(1, "", '{"level": "ERROR", "message": "compactor: unexpected OSError: \\"gone\\""}\n'), 'unexpected OSError: "gone"', True),
        (Ended(2, "", "Usage: compactor [OPTIONS]\nNo such option\n"), "Usage: compactor [OPTIONS]\nNo such option", False),
        (Ended(75, "", "compactor: the metastore is in use\n"), "the metastore is in use", True),
        (Ended(-9, "", ""), KILLED, True),
        (Ended(137, "", "student: listed\nKilled\n"), f"{KILLED}. The last line of its log: Killed", True),
        (Ended(-15, "", ""), "killed by SIGTERM, because something stopped it: a timeout, a cleared task, or the end of the worker", True),
        (
            Ended(-6, "", "x\n"),
            "killed by SIGABRT, because the JVM or a library aborted; `hs_err_pid*.log` in its working directory says why. The "
            "last line of its log: x",
            True,
        ),
        (Ended(-1, "", ""), "killed by SIGHUP", True),
        (Ended(3, "", ""), "ended with exit code 3 without a message", True),
    ],
    ids=[
        "done",
        "no JSON",
        "refused before it began",
        "unforeseen",
        "unforeseen, with the log in JSON",
        "wrong usage",
        "busy",
        "killed",
        "killed, told by a shell",
        "ended by a signal",
        "aborted",
        "hung up",
        "without a word",
    ],
)
def test_an_end_without_a_report(ended: Ended, problem: str | None, again: bool) -> None:
    """What the log says last is the reason."""
    outcome = judge(ended)
    assert (outcome.problem, outcome.retryable) == (problem, again)


def test_an_unforeseen_failure_of_a_table_is_tried_again() -> None:
    """A JVM that died is no refusal; but one refusal among several failures is."""
    unforeseen = TableReport("student", "failed", error="unexpected Py4JNetworkError: gone", error_class="Py4JNetworkError", exit_code=1)
    refused = failure("ledger", errors.SchemaRefused("no"))
    assert judge(Ended(1, reports(unforeseen))).retryable
    assert not judge(Ended(1, reports(unforeseen, refused))).retryable


def test_the_log_says_what_a_run_did() -> None:
    """In a line."""
    counts: dict[str, Any] = {"read": 1200, "applied": 1100, "late": 7, "quarantined": 2}
    report = TableReport("student", "committed", 3, ("commit 3", "compact 4"), 2, counts, notes=("a note",), seconds=4.25)
    said = "student: committed; version 3; commit 3, compact 4; 2 files, 1,200 events, 1,100 rows changed; 7 late; 2 quarantined; 4.2 s; a note"
    assert sentence(report.to_json()) == said
    assert sentence(TableReport("student", "idle").to_json()) == "student: idle; 0.0 s"
