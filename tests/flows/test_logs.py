"""The log of a run: what each phase did with its figures, to which table, version and run each line belongs, and what long phases are doing."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import re
import threading
from collections.abc import Iterator

import pytest

from compactor.core.results.reports import Tasks
from compactor.flows import logs
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from tests.oracle.lake import Lake, table
from tests.oracle.model import line


class Log:
    """A log into text, as the command line makes it."""

    def __init__(self, form: str) -> None:
        self._text = io.StringIO()
        self.handler = logging.StreamHandler(self._text)
        logs.configure(self.handler, form, logging.INFO, run="nightly")

    @property
    def lines(self) -> list[str]:
        return self._text.getvalue().splitlines()


@pytest.fixture
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """In the form that the test asks for; taken away afterwards."""
    monkeypatch.setattr(logs, "RUN", logs.RUN)
    logger = logging.getLogger("compactor")
    level = logger.level
    made = Log(request.param)
    yield made
    logging.getLogger().removeHandler(made.handler)
    logger.setLevel(level)


def lake_after_two_runs() -> Lake:
    lake = Lake(table(compact_every=1e9))
    for hour, keys in enumerate((range(60), range(0, 60, 2))):
        lake.deliver(f"increment_202601010{hour}/a.json", [line("u", [key], [hour * 100 + key], {"a": key}) for key in keys])
        if hour:
            lake.spec = dataclasses.replace(lake.spec, compact_every=0.0)
        lake.now += 1
        run_tables(lake.env(), [lake.spec])
    return lake


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_every_phase_is_a_line_with_figures_that_begins_with_the_table(log: Log) -> None:
    """Seconds, sizes and times differ from run to run."""
    lake_after_two_runs()
    lines = [re.sub(r"[\d,.]+ (bytes|s)\b|\d{4}-[^\]]*", lambda match: f"~ {match[1] or ''}".strip(), line) for line in log.lines]
    assert lines[:6] == [
        "t: listed 1 new file, ~ bytes, in ~ s [run nightly, ~]",
        "t: decoded 60 events from 1 file in ~ s [run nightly, ~]",
        "t: resolved 60 changes in ~ s [run nightly, ~]",
        "t: wrote a base of 60 rows, ~ bytes, in ~ s [run nightly, ~]",
        "t: committed version 1 (commit), 60 rows [version 1, run nightly, ~]",
        "t: published version 1 in the view school.t in ~ s [version 1, run nightly, ~]",
    ]
    assert lines[6] == "t: archived 1 file in ~ s [version 1, run nightly, ~]"
    assert "t: wrote a Delta of 30 rows, ~ bytes, in ~ s [version 1, run nightly, ~]" in lines


@pytest.mark.parametrize("log", ["json"], indirect=True)
def test_json_lines_carry_table_run_version_and_the_figures_as_numbers(log: Log) -> None:
    """One object a line, for a program that collects logs."""
    lake_after_two_runs()
    values = [json.loads(text) for text in log.lines]
    assert {(value["table"], value["run"], value["level"]) for value in values} == {("t", "nightly", "INFO")}
    decoded = [value for value in values if value.get("phase") == "decoding"]
    assert [(value["events"], value["files"], value.get("version")) for value in decoded] == [(60, 1, None), (30, 1, 1)]
    assert all(value["message"].startswith("t: decoded") and isinstance(value["seconds"], float) for value in decoded)
    assert [value["version"] for value in values if value.get("operation") == "commit"] == [1, 2]


@pytest.mark.parametrize("log", ["json"], indirect=True)
def test_a_run_with_nothing_to_do_logs_nothing(log: Log) -> None:
    """Hundreds of tables are idle every hour."""
    lake = lake_after_two_runs()
    run_tables(lake.env(), [lake.spec])
    before = len(log.lines)
    run_tables(lake.env(), [lake.spec])
    assert len(log.lines) == before


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_a_long_phase_is_logged_while_it_goes_on(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the counts of Spark's tasks where some run; the thread that looks has no part in the run."""
    lake = Lake(table())
    env = dataclasses.replace(lake.env(), tasks=lambda group: Tasks(12, 2, 1_040) if group.startswith("t-") else None)
    monkeypatch.setattr(logs, "EVERY_SECONDS", 0.0)
    with logs.phase(Table(env, lake.spec), "resolving") as phase:
        threading.Thread(target=phase.go_on).start()
        with logs.phase(Table(env, dataclasses.replace(lake.spec, name="u")), "archiving") as other:
            other.go_on()
        deadline = threading.Event()
        for _ in range(100):
            if len(log.lines) >= 2:
                break
            deadline.wait(0.05)
    shown = sorted(text.split(" [")[0] for text in log.lines)
    assert shown == ["t: resolving for 0 s, 12 of 1,040 tasks done, 2 running", "u: archiving for 0 s"]


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_a_line_of_an_adapter_carries_the_table_too(log: Log) -> None:
    """The table is named in front only where the line does not begin with it. What py4j logs by itself is left out."""
    with logs.about(table="t", version=4):
        logging.getLogger("compactor.aws.retry").info("s3://lake/x: could not list")
        logging.getLogger("compactor").error("compactor: t: no")
        logging.getLogger().handle(
            logging.LogRecord("root", logging.ERROR, "/x/py4j/java_gateway.py", 1, "Exception while sending command.", (), None)
        )
    logging.getLogger("compactor").info("afterwards")
    assert log.lines[0].startswith("s3://lake/x: could not list [t, version 4, run nightly, 20")
    assert log.lines[1] == "compactor: t: no"
    assert log.lines[2].startswith("afterwards [run nightly, 20")


@pytest.mark.parametrize("log", ["json"], indirect=True)
def test_a_table_that_fails_is_a_line_of_level_error(log: Log) -> None:
    """For a rule of a log collector. On a terminal, where the report follows, only the report shows it."""
    lake = Lake(table())
    lake.storage.write("/lake/t/incremental/wrong/a.json", b"{}")
    run_tables(lake.env(), [lake.spec])
    (value,) = [json.loads(text) for text in log.lines]
    assert (value["level"], value["table"], value["outcome"], value["error_class"]) == ("ERROR", "t", "failed", "InputRefused")
    assert value["message"].startswith("t: failed: no file below /lake/t/incremental")
    terminal = logging.StreamHandler(io.StringIO())
    logs.configure(terminal, "text", logging.WARNING, bare=True)
    run_tables(lake.env(), [lake.spec])
    logging.getLogger().removeHandler(terminal)
    assert terminal.stream.getvalue() == ""


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_no_value_can_look_like_a_line_of_its_own(log: Log) -> None:
    """A name of a file may have line ends, and what a terminal obeys."""
    logging.getLogger("compactor").info("t: left %s", "a\x1b[2J\u202e\nt: committed version 9\x85.json")
    assert [line.split(" [run")[0] for line in log.lines] == ["t: left a\\x1b[2J\\u202e", "  t: committed version 9\\x85.json"]
