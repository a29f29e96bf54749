"""The command line: help, exit codes, JSON shapes, and that what reads only files starts no JVM."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from compactor.app.app import App
from compactor.app.query import Rows
from compactor.app.registry import Synced
from compactor.app.spark import local_jars
from compactor.cli import grid, options, sql
from compactor.cli import main as cli
from compactor.core.model.errors import Busy, CheckFailed, ConfigError, InputRefused, Refused
from compactor.core.model.files import FeedPart
from compactor.core.model.inputs import Input
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Feed, Pin, Snapshot
from compactor.core.planning.landing import Landing
from compactor.core.reconcile.report import Cell, ReconcileReport, RepairReport, RowDifference
from compactor.core.results.checks import Check, Difference
from compactor.core.results.record import RunRecord, TableReport
from compactor.core.results.reports import AdoptReport, RebuildReport, ReencryptReport, Swept, TablePlan, TableStatus, VacuumReport
from compactor.demo import HERE, MARKER, STEPS, commands, deliver, prepare
from compactor.flows.read.quarantine import QuarantinedFile
from compactor.flows.read.reconcile import Options
from tests.oracle.sizes import tiered

COMMANDS_MAX = 24


def commands_of(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Walk Typer's tree: every command with the words that are typed for it."""
    if not hasattr(command, "commands"):
        yield " ".join(words), command
        return
    for word, inner in command.commands.items():
        yield from commands_of(inner, (*words, word))


COMMANDS = dict(commands_of(typer.main.get_command(cli.app)))
NO_JVM = (
    *(("status",), ("plan",), ("run",), ("log", "student"), ("verify", "--files-only", "--deep")),
    *(("versions", "vacuum"), ("log", "student", "--inputs"), ("versions", "pin", "student")),
)
STATUS = TableStatus("student", 3, "2024-03-05T03:00", None, "2024-03-05T03:10:00Z", 7, 1, 99, 2, 1, 5, 9, "broadcast", 1, 2, None, 0, 1)
HELD = QuarantinedFile("student", "increment_2024030503/a.json", "e", "2024-03-05T03:00", 2, "", "/archive/a.json", "/quarantine/e~a.json")


SCHEMA = Schema((Field("a", "a", "bigint"), Field("b", "b", "string")), ("a",))
SNAPSHOT = Snapshot("student", "u", 4, 3, "w", "", "2024-03-05T04:10:00.000Z", "commit", SCHEMA, (("seq", "bigint"),), "b", (), None)
PIN = Pin("audit", 2, "2024-03-05T03:10:00.000Z")
SWEPT = (
    Swept("student", "delta/v00000002-00000002", "expired", 1, 1000, "2024-03-06T03:10:00Z"),
    Swept("student", "base/v00000003-00000003/segment=0-00000", "orphan", 2, 2345, None),
)
KEPT = {2: "pinned as audit", 5: "younger than `keep`", 6: "younger than `keep`", 7: "the newest"}
VACUUM = VacuumReport("student", 7, True, (1, 3, 4), KEPT, SWEPT)


REBUILT = RebuildReport("student", "published", 9, 7, 12, 3456, 100, Difference(1, 2, 30, ('{"id":1}',), ("column x int is gone",)), undone=4)

RECONCILED = ReconcileReport(
    'postgresql://db:5432/school "student"', "0/A", "0/B", 1001, 3, {"changed": 1, "repeated": 1, "missing": 1}, {"fee": 1}, 1,
    (("tags", "text[] has no canonical form"),), "student", "different", 4, 1000, ("id", "fee"), 3, 4, (
        RowDifference({"id": "7"}, "changed", (1, 1), (Cell("fee", "1.25", None),), "lake at 0/B, source read at 0/A"),
        RowDifference({"id": "8"}, "repeated", (1, 2), (), "lake at 0/B, source read at 0/A"),
        RowDifference({"id": "9"}, "missing", (1, 0), (), ""),
    ), 1.5,
)  # fmt: skip

ORDER, COLUMNS = (("seq", "bigint"),), (("id", "ID", "bigint"), ("a", "a", "string"))
ADOPTED = AdoptReport("student", "would be adopted", None, "/old", 2, 4567, 100, ORDER, COLUMNS, 12, 3, ("not stored: __op",))


class FakeApp:
    """Answers instead of Spark."""

    def __init__(self) -> None:
        self.reports = [TableReport("student", "committed", 3, ("commit 3",), counts={"read": 2})]
        self.rows = Rows(["a", "b"], ['{"a":1.50,"b":null}', '{"a":2,"b":"x, \\"y\\""}'])
        self.ok, self.key = True, "arn:aws:kms:eu-central-1:123456789012:key/1"
        self.asked: dict[str, Any] = {}
        self.settings = SimpleNamespace(uses_s3=False)

    def folders(self) -> list[str]:
        return []

    def plan_of_folders(self, samples: bool) -> list[Any]:
        return []

    def __enter__(self) -> FakeApp:
        return self

    def __exit__(self, *_: object) -> None: ...

    def specs(self, names: Sequence[str]) -> list[Any]:
        return [type("Spec", (), {"name": name, "archive_kms_key": self.key})() for name in names or ("student", "broken")]

    def run(self, names: Sequence[str], progress: Any, **more: Any) -> list[TableReport]:
        self.asked = {"names": list(names), **more}
        for name in names:
            progress(name, "done", 1.0)
        return self.reports

    def status(self, names: Sequence[str]) -> list[TableStatus]:
        return [STATUS for name in names if self._fine(name)]

    def plan(self, names: Sequence[str], samples: bool) -> list[TablePlan]:
        return [TablePlan("student", 3, Landing(()), ("nothing to do",)) for name in names if self._fine(name)]

    def changes(self, name: str, start: int, to: int | None, wait: Any) -> Any:
        self.asked = {"name": name, "from": start, "to": to, "follows": wait is not None}
        parted = dataclasses.replace(SNAPSHOT, feed=Feed("net", 0, 0, False, FeedPart("feed/x", 3, (), 1, 1, 0)))
        yield parted, iter(self.rows)

    def vacuum(self, names: Sequence[str], dry: bool, label: str) -> list[VacuumReport]:
        self.asked = {"names": list(names), "dry": dry, "label": label}
        return [dataclasses.replace(VACUUM, dry=dry) for name in names if self._fine(name)]

    def reencrypt(self, names: Sequence[str]) -> list[ReencryptReport]:
        self.asked = {"names": list(names)}
        return [ReencryptReport(name, self.key, 1200, 7) for name in names if self._fine(name)]

    def restore(self, name: str, as_of: str | None, **more: Any) -> list[TableReport]:
        self.asked = {"name": name, "as_of": as_of, **{key: value for key, value in more.items() if key != "progress"}}
        return self.reports

    def rebuild(self, name: str, **more: Any) -> RebuildReport:
        self.asked = {"name": name, **{key: value for key, value in more.items() if key != "progress"}}
        return REBUILT if more["accept"] else dataclasses.replace(REBUILT, outcome="differs", version=None)

    def adopt(self, name: str, path: str, **more: Any) -> AdoptReport:
        self.asked = {"name": name, "path": path, **{key: value for key, value in more.items() if key != "progress"}}
        return ADOPTED if more["dry"] else dataclasses.replace(ADOPTED, outcome="adopted", version=1)

    def table(self, name: str, label: str = "") -> FakeTable:
        return FakeTable(self, name)

    def verify(self, names: Sequence[str], files_only: bool, deep: bool) -> list[Check]:
        self.asked = {"files_only": files_only, "deep": deep}
        return [Check(name, "files", self.ok, "1 files") for name in names if self._fine(name)]

    def quarantined(self, names: Sequence[str] = ()) -> list[QuarantinedFile]:
        return [HELD]

    def replay(self, name: str, paths: Sequence[str], progress: Any, label: str) -> TableReport:
        self.asked = {"name": name, "paths": list(paths), "label": label}
        return self.reports[0]

    def discard(self, name: str, paths: Sequence[str], progress: Any, label: str, records: bool) -> TableReport:
        self.asked = {"name": name, "paths": list(paths), "label": label, "records": records}
        return self.reports[0]

    def sql(self, text: str, as_of: str | None = None, engine: str = "auto") -> Rows:
        self.asked = {"sql": text}
        return self.rows

    def reconcile(self, name: str, url: str, *more: Any) -> ReconcileReport:
        self.asked = {"name": name, "url": url, "more": more}
        return RECONCILED

    def repair(self, name: str, url: str, *more: Any, run: bool, signal: str | None) -> RepairReport:
        self.asked = {"name": name, "run": run, "signal": signal}
        after = dataclasses.replace(RECONCILED, outcome="equal", differences=(), different=0) if run else None
        return RepairReport(RECONCILED, after, 2, 1, 4, "increment_2026112014/_repair-student-0a.json" if run else "", ("tags",))

    def publish(self, names: Sequence[str], dry_run: bool, accept: bool) -> list[Synced]:
        if not accept:
            raise CheckFailed(f"table {names[0]}: version 7 is committed and not shown")
        return [Synced(name, "version 7, although: too few", ("CREATE VIEW x",), not dry_run) for name in names]

    def _fine(self, name: str) -> bool:
        if name == "broken":
            raise InputRefused("table broken: no file fits")
        return True


MISUSED = (
    ("versions", "restore", "student"),
    ("versions", "restore", "student", "--accept-loss"),
    ("versions", "pin", "student", "3", "--remove", "audit"),
    ("quarantine", "--replay"),
    ("quarantine", "student", "a.json", "--replay", "--discard"),
    ("quarantine", "student", "a.json", "--records"),
    ("log", "student", "--as-of", "3"),
    ("log", "student", "--files", "--inputs"),
    ("log", "student", "-o", "csv"),
)


@dataclasses.dataclass
class FakeTable:
    """A table of FakeApp, which answers instead of its files."""

    app: FakeApp
    name: str

    def pin(self, version: int, name: str) -> None:
        self.app.asked = {"name": self.name, "version": version, "pin": name}

    def unpin(self, name: str) -> None:
        self.app.asked = {"name": self.name, "remove": name}

    def pins(self) -> tuple[Pin, ...]:
        return (PIN,)

    def last_run(self) -> RunRecord | None:
        ended, first = "2024-03-05T08:00:00.000Z", "2024-03-05T06:00:00.000Z"
        failed = RunRecord(self.name, "later", error="no answer", error_class="Unavailable", error_id="unavailable", started=ended, ended=ended)
        return dataclasses.replace(failed, failures=3, failing_since=first)

    @staticmethod
    def healed(tables: list[FakeTable], records: list[RunRecord | None]) -> list[RunRecord | None]:
        return records

    def newest(self) -> None:
        return None

    def everything(self, newest: None) -> list[Input]:
        return [Input("f/a.json", 10, "e", "f", None, 2, (0, 5, "f/a.json", 0, 0), None, quarantined=1, reason='x, "y"')]

    def reasons(self, file: QuarantinedFile) -> dict[str, Any]:
        return {"records": 2, "unusable": [{"record": 7, "reason": "is not a JSON object", "text": "{oops"}]}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeApp:
    made = FakeApp()
    monkeypatch.setattr(options, "opened", lambda *_: made)
    for flow in (
        "keep.pin.pin",
        "keep.pin.unpin",
        "keep.pin.pins",
        "record.last_run",
        "record.healed",
        "ledger.everything",
        "read.quarantine.reasons",
    ):
        # the flow of a table answers as the table
        monkeypatch.setattr(f"compactor.flows.{flow}", getattr(FakeTable, flow.rpartition(".")[2]))
    return made


def called(*arguments: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(cli.app, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.stdout, found.stderr


def program(folder: Path, *arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    command = [sys.executable, "-c", code or "from compactor.cli.main import main; main()", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COMPACTOR_")}
    root = str(Path(cli.__file__).parents[2])
    return subprocess.run(command, cwd=folder, env={**environment, "PYTHONPATH": root}, capture_output=True, text=True, timeout=120)


def test_the_commands_are_few_and_share_their_options() -> None:
    """A second name, such as `check`, is no second command. Those that open no configuration lack some options."""
    assert len([name for name, command in COMMANDS.items() if not command.hidden]) <= COMMANDS_MAX
    shared = {"--config", "--output", "--verbose", "--wait", "--log-format"}
    lacking = {name: shared - {option for param in command.params for option in param.opts} for name, command in COMMANDS.items()}
    assert {name for name, missing in lacking.items() if missing} <= {"demo", "init", "package"}


def test_an_option_has_one_form() -> None:
    """The same short name, type and metavar in every command."""
    forms: dict[str, set[tuple[str, ...]]] = {}
    for command in COMMANDS.values():
        for param in command.params:
            if param.opts[0].startswith("-"):
                forms.setdefault(max(param.opts, key=len), set()).add((*sorted(param.opts), str(param.metavar), str(bool(param.multiple))))
    assert {name: found for name, found in forms.items() if len(found) > 1} == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    """One that can be copied."""
    code, said, _ = called(*command.split(), "--help")
    assert code == 0
    assert f"  compactor {'plan' if command == 'check' else command}" in said.partition("Example:")[2]


@pytest.mark.parametrize("former", cli.FORMER)
def test_a_former_command_is_refused_with_the_present_one(former: str) -> None:
    """Whatever follows; the present one exists."""
    code, _, said = called(*former.split(), "student", "--output", "json")
    assert (code, f"`compactor {former}` is now `compactor {cli.FORMER[former]}`." in said) == (2, True)
    assert any(cli.FORMER[former].startswith(name) for name in COMMANDS)


def test_help_without_a_command() -> None:
    """Lists all of them, uncut."""
    said = called("--help")[1]
    assert [name for name in COMMANDS if f"\n  {name.split()[0]} " not in said] == ["check"]
    assert "..." not in said.partition("Commands:")[2]


@pytest.mark.parametrize("arguments", [("bogus",), ("run", "--bogus"), ("log",), ("run", "--wait", "-1"), ("status", "-o", "csv"), *MISUSED])
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    """As everywhere."""
    assert called(*arguments)[0] == 2


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([("committed", 0), ("idle", 0)], 0),
        ([("committed", 0), ("failed", 1)], 1),
        ([("committed", 0), ("later", 75)], 75),
        ([("later", 75), ("failed", 1)], 1),
    ],
)
def test_exit_code_of_run(fake: FakeApp, outcomes: list[tuple[str, int]], code: int) -> None:
    """1 when a table failed, 75 when trying again later is all there is to do; every error is told at the end."""
    fake.reports = [
        TableReport(f"t{at}", outcome, error=f"reason {at}" if exit_code else None, exit_code=exit_code)
        for at, (outcome, exit_code) in enumerate(outcomes)
    ]
    found, shown, told = called("run")
    assert found == code
    assert [report.table for report in fake.reports if report.table not in shown] == []
    assert [f"reason {at}" in told for at, (_, exit_code) in enumerate(outcomes) if exit_code] == [True] * told.count("reason")


def test_run_as_json(fake: FakeApp) -> None:
    """Reports as they are, and nothing on stderr."""
    code, shown, told = called("run", "student", "--output", "json", "--label", "r1", "--parallel", "3")
    assert (code, told) == (0, "")
    assert json.loads(shown) == [json.loads(json.dumps(fake.reports[0].to_json()))]
    assert fake.asked == {"names": ["student"], "label": "r1", "parallel": 3, "compact": False}
    called("run", "--compact", "student")
    assert fake.asked == {"names": ["student"], "label": "", "compact": True}


def test_reconcile_names_rows_columns_and_positions(fake: FakeApp) -> None:
    """And ends with the exit code of the outcome."""
    code, shown, _ = called("reconcile", "student", "--source", "postgresql://reader@db/school", "--at", "now", "--wait-lake", "5", "--chunk", "5000")
    assert (code, fake.asked["url"], fake.asked["more"]) == (
        1,
        "postgresql://reader@db/school",
        (Options(2, 5000, at="now", wait=5.0),),
    )
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[1:] == [
        "id=7 changed fee: source '1.25', lake null lake at 0/B, source read at 0/A",
        "id=8 1 rows in the source, 2 in the lake lake at 0/B, source read at 0/A",
        "id=9 missing the lake has not come that far",
        "student: different. 1,001 rows in the source, 1,000 in the lake (version 4); 3 rows differ",
        'compared 2 columns in 3 key ranges with postgresql://db:5432/school "student" in 1.5 s',
        "positions: source 0/A, lake 0/B; 4 rows looked at again",
        "1 rows changed in every look and are not judged",
        "not compared: tags: text[] has no canonical form",
    ]
    code, shown, _ = called("reconcile", "student", "--source", "postgresql://db/school", "-o", "json")
    assert (code, json.loads(shown)["differences"][0]["cells"]) == (1, [{"column": "fee", "source": "1.25", "lake": None}])
    assert (json.loads(shown)["exit_code"], dataclasses.replace(RECONCILED, outcome="unproven").exit_code) == (1, 75)


LEFT_NULL = "rows that only the source has get null in columns that are not compared (tags), with --signal all values"

REPAIRS = [
    ((), 1, f"dry run: a repair would bring 2 rows from the source, 1 deletes; 4 rows that differ are left; {LEFT_NULL}; use --run to repair"),
    (
        ("--run", "--signal", "s"),
        0,
        f"repaired by increment_2026112014/_repair-student-0a.json: 2 rows from the source, 1 deletes; 4 rows that differ are left; {LEFT_NULL}.",
    ),
]


@pytest.mark.parametrize(("options", "code", "sentence"), REPAIRS, ids=["dry run", "run"])
def test_a_repair_is_done_on_request_only(fake: FakeApp, options: tuple[str, ...], code: int, sentence: str) -> None:
    """And ends with the exit code of the last comparison."""
    exit_code, shown, _ = called("reconcile", "student", "--source", "postgresql://db/school", "--repair", *options)
    assert (exit_code, fake.asked) == (code, {"name": "student", "run": bool(options), "signal": "s" if options else None})
    assert sentence in " ".join(shown.split())
    _, shown, _ = called("reconcile", "student", "--source", "postgresql://db/school", "--repair", *options, "-o", "json")
    assert json.loads(shown)["exit_code"] == code
    assert called("reconcile", "student", "--source", "postgresql://db/school", "--run")[0] == 2


def test_publish_shows_a_blocked_version_when_it_is_accepted(fake: FakeApp) -> None:
    """Without it the reason is printed."""
    assert called("publish", "student") == (
        1,
        "",
        "\n1 table failed:\n  student (failed, check-failed): version 7 is committed and not shown\nsee docs/errors.md#check-failed\n",
    )
    shown = "-- student: version 7, although: too few, 1 statement\nCREATE VIEW x;\n\n"
    assert called("publish", "student", "--accept")[:2] == (0, shown)


def test_run_logs_each_table_that_is_done(fake: FakeApp, caplog: pytest.LogCaptureFixture) -> None:
    """Where there is no terminal."""
    caplog.set_level("INFO", "compactor")
    called("run", "a", "b")
    first, second = caplog.messages
    assert first.startswith("a: done after 0 s, 1 of 2 tables, about ")
    assert second == "b: done after 0 s, 2 of 2 tables"


@pytest.mark.parametrize(("command", "keys"), [("status", STATUS.to_json()), ("plan", None), ("verify", None)])
def test_one_broken_table_hides_no_other(fake: FakeApp, command: str, keys: Any) -> None:
    """The others are shown, the exit code is 1."""
    code, shown, told = called(command, "--output", "json")
    assert code == 1
    assert [entry["table"] for entry in json.loads(shown)] == ["student"]
    assert keys is None or json.loads(shown) == [keys]
    assert "broken (failed, input-refused): no file fits" in told
    assert called(command, "student")[0] == 0


def test_verify_fails_when_a_check_does(fake: FakeApp) -> None:
    """With exit code 1."""
    fake.ok = False
    code, shown, _ = called("verify", "student")
    assert code == 1
    assert "FAILED" in shown


MANY = [f"t{at:02d}" for at in range(65)]


def test_of_many_late_tables_ten_have_a_line_below_their_row(fake: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are counted, unless every line is asked for."""
    late = [dataclasses.replace(STATUS, table=name, late="files of 2026-01-01 still wait in landing") for name in MANY]
    monkeypatch.setattr(fake, "status", lambda names: [item for item in late if item.table in names])
    monkeypatch.setattr(fake, "specs", lambda names: [SimpleNamespace(name=name) for name in names or MANY])
    lines = called("status")[1].splitlines()
    assert [line for line in lines if "still wait" in line] == [f"{name}: {late[0].late}" for name in MANY[:10]]
    assert "and 55 more tables like these (--verbose shows all)" in lines
    assert sum("still wait" in line for line in called("status", "--verbose")[1].splitlines()) == 65


def test_of_many_tables_those_that_need_somebody_are_shown(fake: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are counted in one line, unless every row is asked for. JSON and exit codes are complete."""
    outcomes = {"t30": "failed", "t40": "later", "t50": "committed", "t51": "committed", "t52": "committed"}
    fake.reports = [TableReport(name, outcomes.get(name, "idle"), notes=("one file went to quarantine",) * (name == "t51")) for name in MANY]
    fake.reports[30] = dataclasses.replace(fake.reports[30], error="no column x", exit_code=1)
    problems = {"t31": "no file has ever landed"}
    work = {"t60": ("read 2 new files",)}
    monkeypatch.setattr(fake, "plan", lambda names, samples: [_plan(name, work.get(name), problems.get(name)) for name in names])
    checks = [Check(name, check, (name, check) != ("t30", "ledger"), "2 files") for name in MANY for check in ("files", "ledger")]
    monkeypatch.setattr(fake, "verify", lambda names, **_: [check for check in checks if check.table in names])
    monkeypatch.setattr(fake, "specs", lambda names: [SimpleNamespace(name=name) for name in names or MANY])
    expected = {
        "run": (["table", "t30", "t40", "t51", "60 idle, 2 committed (--verbose shows all)", "t51: one file went to quarantine"], 65),
        "plan": (
            ["t31 (version 3)", "  nothing to do", "  problem: no", "1 with work, 0 new files; 63 with nothing to do (--verbose shows all)"],
            65,
        ),
        "verify": (["table", "t30", "129 checks passed; 64 tables without a failed one (--verbose shows all)"], 130),
    }
    for command, (starts, number) in expected.items():
        code, shown, _ = called(command)
        assert (code, len(shown.splitlines())) == (1, len(starts)), shown
        assert [line[: len(start)] for line, start in zip(shown.splitlines(), starts, strict=True)] == starts
        code, whole, _ = called(command, "--verbose")
        assert (code, whole.splitlines()[1][:3] in ("t30", "  n"), len(whole.splitlines()) >= number) == (1, True, True)
        assert len(json.loads(called(command, "--output", "json")[1])) == number
        few = called(command, *MANY[25:35])[1] if command != "run" else "t29"
        assert "--verbose" not in few
        assert "t29" in few


def _plan(name: str, steps: tuple[str, ...] | None, problem: str | None) -> TablePlan:
    return TablePlan(name, 3, Landing(()), steps or ("nothing to do",), (Check(name, "files in landing", problem is None, problem or "2 new"),))


def test_sql_as_json_csv_and_text(fake: FakeApp) -> None:
    """Numbers keep their digits in every form."""
    assert called("sql", "select 1", "-o", "json")[1] == '[\n{"a":1.50,"b":null},\n{"a":2,"b":"x, \\"y\\""}\n]\n'
    assert called("sql", "select 1", "-o", "csv")[1] == 'a,b\n1.50,\n2,"x, ""y"""\n'
    assert [line.split() for line in called("sql", "select 1")[1].splitlines()] == [["a", "b"], ["1.50", "null"], ["2", "x,", '"y"']]


def test_quarantine_lists_shows_replays_and_discards(fake: FakeApp) -> None:
    """What waits, why, and what a replay did; for people and for programs."""
    assert "increment_2024030503/a.json" in called("quarantine")[1]
    assert json.loads(called("quarantine", "-o", "json")[1]) == [HELD.to_json()]
    shown = called("quarantine", "student")[1]
    assert "record 7: is not a JSON object" in shown
    assert "{oops" in shown
    assert "and 1 more" in shown
    assert HELD.repaired in shown
    (told,) = json.loads(called("quarantine", "student", HELD.path, "-o", "json")[1])
    assert (told["path"], told["unusable"][0]["record"]) == (HELD.path, 7)
    assert json.loads(called("quarantine", "student", HELD.path, "--replay", "-o", "json")[1]) == json.loads(json.dumps(fake.reports[0].to_json()))
    assert fake.asked == {"name": "student", "paths": [HELD.path], "label": ""}
    assert called("quarantine", "student", HELD.path, "--discard")[0] == 0
    assert fake.asked == {"name": "student", "paths": [HELD.path], "label": "", "records": False}
    assert f"quarantine student {HELD.path} --discard --records" in shown
    assert called("quarantine", "student", HELD.path, "--discard", "--records")[0] == 0
    assert fake.asked["records"]
    assert called("quarantine", "student", "--discard")[0] == 2


@pytest.mark.parametrize(("form", "shown"), [("json", "[]\n"), ("csv", ""), ("text", "")])
def test_sql_without_a_result(fake: FakeApp, form: str, shown: str) -> None:
    """A statement such as DROP TABLE."""
    fake.rows = Rows([])
    assert called("sql", "drop table x", "-o", form) == (0, shown, "")


def test_cells_keep_what_was_written() -> None:
    """Nested values, escapes, equal names, an empty object."""
    row = '{"a":1E+2,"a":"\\u00e9\\n","b":{"c":[1,null,{"d":2.0}]},"e":true,"f":""}'
    assert grid.cells(row) == [("a", "1E+2"), ("a", "é\n"), ("b", '{"c":[1,null,{"d":2.0}]}'), ("e", "true"), ("f", "")]
    assert grid.cells("{}") == []


def test_csv_is_what_a_csv_reader_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Quotes, commas, line ends, blanks."""
    values = ["", " x", 'a"b', "c,d", "e\nf", "g\r", "é"]
    grid.rows_as_csv(["v,w"], [json.dumps({"v": value}, separators=(",", ":")) for value in values])
    assert [*csv.reader(io.StringIO(capsys.readouterr().out, newline=""))] == [["v,w"], *([value] for value in values)]


@pytest.mark.parametrize("arguments", tiered(NO_JVM, fast=[("status",), ("run",), ("versions", "pin", "student")]), ids=" ".join)
def test_files_alone_need_no_spark(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Not even PySpark is imported, nor what other commands need."""
    (tmp_path / "compactor.yaml").write_text("tables: {student: {key: [id], envelope: debezium}}")
    heavy = {"pyspark", "requests", "boto3", "duckdb", "fsspec", "jinja2"}
    code = f"import sys; from compactor.cli.main import app; app(standalone_mode=False); assert not {heavy} & {{*sys.modules}}"
    found = program(tmp_path, *arguments, "--output", "json", code=code)
    log = [line for line in found.stderr.splitlines() if not re.match(r"student: done after \d+ s, 1 of 1 table \[run ", line)]
    assert (found.returncode, log) == (0, [])
    assert isinstance(json.loads(found.stdout), list)


def test_help_imports_no_spark(tmp_path: Path) -> None:
    """Help is quick."""
    code = "import sys; from compactor.cli.main import app\ntry: app()\nfinally: assert not {'pyspark', 'compactor.config.settings'} & {*sys.modules}"
    found = program(tmp_path, "run", "--help", code=code)
    assert (found.returncode, found.stderr) == (0, "")


def test_errors_are_one_paragraph(tmp_path: Path) -> None:
    """The file that is missing, no traceback; with -v the traceback too."""
    found = program(tmp_path, "status", "--config", "nowhere.yaml")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("compactor: nowhere.yaml: no such file. Set --config PATH")
    assert "Traceback" not in found.stderr
    assert "Traceback" in program(tmp_path, "status", "-v").stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Busy("in use"), 75, "compactor: in use\nsee docs/errors.md#busy\n"),
        (ConfigError("wrong"), 1, "compactor: wrong\nsee docs/errors.md#config-error\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            OSError(28, "No space left on device"),
            1,
            "compactor: unexpected OSError: [Errno 28] No space left on device (-v shows where)\nsee docs/errors.md#unexpected\n",
        ),
    ],
)
def test_last_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str) -> None:
    """Every error has its exit code."""

    def raising(*_: object) -> None:
        raise error

    monkeypatch.setattr(options, "opened", raising)
    monkeypatch.setattr(sys, "argv", ["compactor", "status"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, capsys.readouterr().err) == (code, said)


def test_changes_are_one_json_object_a_line_or_a_table_a_version(fake: FakeApp) -> None:
    """From a version up to another, or for as long as one likes."""
    code, said, _ = called("changes", "student", "--after", "3", "--to", "4", "-o", "json")
    assert (code, said.splitlines()) == (0, list(fake.rows))
    assert fake.asked == {"name": "student", "from": 3, "to": 4, "follows": False}
    code, said, _ = called("changes", "student", "--after", "0", "--every", "1")
    assert said.splitlines()[0] == "version 4 (commit, 2024-03-05 04:10:00): 1 insert, 1 update, 0 deletes"
    assert [line.split() for line in said.splitlines()[1:]] == [["a", "b"], ["1.50", "null"], ["2", "x,", '"y"']]
    assert fake.asked["follows"]
    assert called("changes", "student")[0] == 2


@pytest.mark.spark
@pytest.mark.own_spark
@pytest.mark.slow
def test_sql_in_a_real_session(tmp_path: Path) -> None:
    """Values that Python's own types cannot hold, statements without result, mistakes in one paragraph, a missing database."""
    from compactor.app.app import App
    from compactor.core.model.errors import Refused

    (tmp_path / "compactor.yaml").write_text("catalog: {database: default}\ntables: {student: {key: [id]}}")
    with App.open(tmp_path / "compactor.yaml") as app:
        statement = (
            "select 1.50 d, cast(null as int) n, timestamp'0001-01-01 00:00:00' - interval 5000 years t, x'00ff' b, "
            "date'9999-12-31' + interval 2 years y, double('nan') f, array(1, null) a, 2 d, 123456789012345678901234567890.12 l"
        )
        (row,) = app.sql(statement, engine="spark")
        assert row == (
            '{"d":1.50,"n":null,"t":"-4999-01-01T00:00:00.000000Z","b":"AP8=","y":"+10001-12-31","f":"NaN",'
            '"a":[1,null],"d":2,"l":123456789012345678901234567890.12}'
        )
        done = app.sql("create view v as select 1 a;")
        assert (done.columns, list(done)) == ([], [])
        assert list(app.sql("select a from v")) == ['{"a":1}']
        for wrong, said in (("select nope from v", "nope"), ("selct 1", "selct"), ("select 1/0", "zero"), ("select * from x.y", "y")):
            with pytest.raises(Refused, match=said) as refused:
                list(app.sql(wrong, engine="spark"))
            assert "at org.apache" not in str(refused.value)
        app.settings.catalog.__dict__["database"] = "school"
        with pytest.raises(Refused, match="the database school does not exist yet"):
            app.sql("select 1", engine="spark")


def test_jars_of_the_environment(tmp_path: Path) -> None:
    """Local files, checked before a JVM starts."""
    (tmp_path / "a.jar").touch()
    assert local_jars(f"{tmp_path}/a.jar, ") == [f"{tmp_path}/a.jar"]
    with pytest.raises(ConfigError, match=r"environment COMPACTOR_JARS: /nowhere/b\.jar does not exist"):
        local_jars("/nowhere/b.jar")


# ---- the demo's own parts --------------------------------------------------------------------------------------------


def test_demo_data_is_small_and_whole() -> None:
    """It travels in the package."""
    files = [path for path in (HERE / "landing").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_500_000
    assert {path.parent.name[-2:] for path in files} == {"00", "01", "02", "03", "04", "05", "07", "08"}


def test_demo_delivers_each_hour_once(tmp_path: Path) -> None:
    """Also when a run has archived it meanwhile."""
    prepare(tmp_path / "demo", fresh=True)
    counts = [deliver(tmp_path / "demo", hours) for _, hours in STEPS]
    assert counts == [16, 2, 2, 0, 1, 2]
    student = tmp_path / "demo" / "student"
    student.joinpath("incremental").rename(student / "archive")
    assert [deliver(tmp_path / "demo", hours) for _, hours in STEPS] == [0] * len(STEPS)


def test_demo_empties_only_what_it_made(tmp_path: Path) -> None:
    """Fresh starts over, keep goes on, other people's files are refused."""
    directory = tmp_path / "demo"
    prepare(directory, fresh=True)
    deliver(directory, range(1))
    prepare(directory, fresh=False)
    assert (directory / "student").is_dir()
    prepare(directory, fresh=True)
    assert sorted(path.name for path in directory.iterdir()) == [MARKER, "compactor.yaml"]
    (tmp_path / "mine").write_text("x")
    for place in (tmp_path, tmp_path / "mine"):
        with pytest.raises(cli.CompactorError, match="choose another folder with --dir"):
            prepare(place, fresh=True)
    assert (tmp_path / "mine").read_text() == "x"


def test_demo_waits_for_nobody(tmp_path: Path) -> None:
    """A directory in which another demo runs is not emptied under it."""
    from compactor.spark.embedded import embedded_lock

    prepare(tmp_path / "demo", fresh=True)
    held = embedded_lock(str(tmp_path / "demo" / "metastore"), 0)
    try:
        with pytest.raises(Busy):
            prepare(tmp_path / "demo", fresh=True)
    finally:
        held.release()


def test_demo_commands_can_be_copied(tmp_path: Path) -> None:
    """Each begins with a command that there is; the configuration is one that loads."""
    import shlex

    from compactor.config.settings import load

    prepare(tmp_path / "a demo", fresh=True)
    config = tmp_path / "a demo" / "compactor.yaml"
    assert len(load(config, {}).names) == 6
    for command in commands(config):
        words = shlex.split(command)
        assert words[0] == "less" or words[1] in COMMANDS
        assert str(config) in words


def test_vacuum_only_tells_unless_it_is_told_to_run(fake: FakeApp) -> None:
    """What, how large, why, when; and what is kept for which reason."""
    code, shown, _ = called("versions", "vacuum", "student")
    assert (code, fake.asked["dry"]) == (0, True)
    assert "kept: 2 (pinned as audit), 5-6 (younger than `keep`), 7 (the newest)" in shown
    assert "expired versions: 1, 3, 4" in shown
    assert "2,345 bytes would be deleted, 1,000 bytes pending deletion after their grace period" in shown
    assert "nothing was deleted" in shown
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("base/")] == [[SWEPT[1].path, "2", "2,345"]]
    code, shown, _ = called("versions", "vacuum", "student", "--run", "--output", "json", "--label", "r")
    assert (code, fake.asked) == (0, {"names": ["student"], "dry": False, "label": "r"})
    (found,) = json.loads(shown)
    assert (found["bytes_gone"], found["expired"], found["kept"]["2"]) == (2345, [1, 3, 4], "pinned as audit")
    assert found["swept"][0]["goes"] == "2024-03-06T03:10:00Z"
    code, shown, told = called("versions", "vacuum", "--output", "json")
    assert (code, [entry["table"] for entry in json.loads(shown)]) == (1, ["student"])
    assert "broken (failed, input-refused)" in told


def test_reencrypt_tells_how_many_files_had_another_key(fake: FakeApp) -> None:
    """For the tables with a key; one that fails stops no other; without such tables nothing is called."""
    code, shown, _ = called("reencrypt", "student")
    assert (code, fake.asked) == (0, {"names": ["student"]})
    assert shown.split()[-4:] == ["student", "1,200", "7", fake.key]
    code, shown, told = called("reencrypt", "--output", "json")
    assert (code, json.loads(shown)) == (1, [{"table": "student", "key": fake.key, "files": 1200, "changed": 7}])
    assert "broken (failed, input-refused)" in told
    fake.key, fake.asked = "", {}
    assert called("reencrypt")[:2] == (0, "no table has `archive_kms_key`\n")
    assert fake.asked == {}


def test_restore_asks_for_a_version_or_a_time(fake: FakeApp) -> None:
    """And, alone or after it, for what was undone."""
    assert called("versions", "restore", "student", "--as-of", "2")[0] == 0
    assert fake.asked == {"name": "student", "as_of": "2", "reabsorb": False, "label": "", "accept_loss": False}
    assert called("versions", "restore", "student", "--as-of", "2", "--accept-loss")[0] == 0
    assert fake.asked["accept_loss"]
    assert called("versions", "restore", "student", "--as-of", "2024-03-05", "--reabsorb")[0] == 0
    assert (fake.asked["as_of"], fake.asked["reabsorb"]) == ("2024-03-05", True)
    assert json.loads(called("versions", "restore", "student", "--reabsorb", "-o", "json")[1]) == [json.loads(json.dumps(fake.reports[0].to_json()))]


def test_a_rebuild_tells_what_differs(fake: FakeApp) -> None:
    """And ends with 1 when nothing was published for that reason."""
    code, shown, _ = called("rebuild", "student", "--as-of", "7")
    assert (code, fake.asked) == (1, {"name": "student", "as_of": "7", "accept": False, "dry": False, "label": "", "fewer": False})
    for told in (
        "1 rows of version 7 are missing, 2 are new, 30 have other values",
        '{"id":1}',
        "column x int is gone",
        "--accept-differences",
        "4 files",
    ):
        assert told in shown
    code, shown, _ = called("rebuild", "student", "--accept-differences", "--output", "json")
    assert (code, json.loads(shown)["version"], json.loads(shown)["difference"]["changed"]) == (0, 9, 30)
    assert "published as version 9" in called("rebuild", "student", "--accept-differences")[1]


def test_adopting_tells_what_becomes_of_the_columns(fake: FakeApp) -> None:
    """A dry run says that it was one."""
    code, shown, _ = called("adopt", "student", "/old", "--ingested-through", "increment_2024030502", "--dry-run")
    asked = {"name": "student", "path": "/old", "through": "increment_2024030502", "dry": True, "label": ""}
    assert (code, fake.asked) == (0, asked)
    for told in ("2 files (4,567 bytes) with 100 rows", "ordered by seq (bigint)", "12 landed files", "3 wait", "not stored: __op", "(dry run)"):
        assert told in shown
    code, shown, _ = called("adopt", "student", "/old", "--ingested-through", "increment_2024030502", "-o", "json")
    assert json.loads(shown)["columns"] == [["id", "ID", "bigint"], ["a", "a", "string"]]
    assert "adopted as version 1" in called("adopt", "student", "/old", "--ingested-through", "increment_2024030502")[1]


def test_erasing_from_a_table_that_is_none_names_the_likely_one(tmp_path: Path) -> None:
    config = tmp_path / "compactor.yaml"
    config.write_text("warehouse: .\ntables: {student: {key: [id], envelope: debezium}}\n", encoding="utf-8")
    with App.open(config) as here, pytest.raises(ConfigError, match="no table 'studnt'; did you mean student"):
        here.erase("studnt", ("1",))


def test_adopting_is_for_this_machine(tmp_path: Path) -> None:
    """A table that runs on EMR, and a base that this configuration does not reach, are refused before Spark starts."""
    emr = "region: us-east-1\nemr: {job: s3://code/j, logs: s3://code/l, application: a, role: 'arn:aws:iam::123456789012:role/j'}"
    for text, path, message in (
        (
            f"warehouse: s3://lake\ncatalog: {{type: glue}}\n{emr}\ntables: {{t: {{key: [id], runner: emr-serverless}}}}",
            "/old",
            "the table's runner is emr-serv",
        ),
        ("tables: {t: {key: [id]}}", "s3://lake/old", "is in S3, but "),
    ):
        config = tmp_path / "compactor.yaml"
        config.write_text(text, encoding="utf-8")
        with App.open(config) as here, pytest.raises(Refused, match=message):
            here.adopt("t", path, through="increment_2024030502")
        assert not here.runtime.started


def test_pins(fake: FakeApp) -> None:
    """Made, listed, removed; the list is shown each time."""
    assert called("versions", "pin", "student", "2", "--name", "audit")[1].split() == [
        "name",
        "version",
        "since",
        "audit",
        "2",
        "2024-03-05",
        "03:10:00",
    ]
    assert fake.asked == {"name": "student", "version": 2, "pin": "audit"}
    assert json.loads(called("versions", "pin", "student", "-o", "json")[1]) == [{"name": "audit", "version": 2, "time": PIN.time}]
    assert called("versions", "pin", "student", "--remove", "audit")[0] == 0
    assert fake.asked == {"name": "student", "remove": "audit"}


def test_the_ledger_is_exported(fake: FakeApp) -> None:
    """As a table, JSON, or CSV with a header."""
    assert "f/a.json" in called("log", "student", "--inputs")[1]
    (entry,) = json.loads(called("log", "student", "--inputs", "-o", "json")[1])
    assert (entry["path"], entry["outcome"], entry["position_min"]) == ("f/a.json", "absorbed", [0, 5, "f/a.json", 0, 0])
    (row,) = csv.DictReader(io.StringIO(called("log", "student", "--inputs", "-o", "csv")[1]))
    assert (row["rows"], row["reason"], json.loads(row["position_min"])) == ("2", 'x, "y"', [0, 5, "f/a.json", 0, 0])


def test_verify_may_go_deep(fake: FakeApp) -> None:
    """On request."""
    called("verify", "student", "--deep", "--files-only")
    assert fake.asked == {"files_only": True, "deep": True}


def test_a_watched_status_is_shown_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until Ctrl-C; a table that cannot be read does not end it. JSON is for programs, which have loops of their own."""
    (tmp_path / "compactor.yaml").write_text("tables: {student: {key: [id]}}")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) >= 3:
            raise KeyboardInterrupt

    # not time.sleep itself: threads of other tests may sleep
    monkeypatch.setattr("compactor.cli.options.time", SimpleNamespace(sleep=wait))
    result = CliRunner().invoke(cli.app, ["status", "--every", "5", "--config", str(tmp_path / "compactor.yaml")])
    assert (waits, result.output.count("every 5 s"), result.output.count("student")) == ([5.0] * 3, 3, 3)
    assert re.search(r"\d\d:\d\d:\d\dZ, every 5 s", result.output)
    CliRunner().invoke(cli.app, ["status", "--every", "2", "student", "--config", str(tmp_path / "compactor.yaml")])
    assert waits[3:] == [2.0]
    both = CliRunner().invoke(cli.app, ["status", "--every", "5", "--output", "json", "--config", str(tmp_path / "compactor.yaml")])
    assert both.exit_code == 2


@pytest.mark.parametrize("output", list(options.Output))
def test_an_answer_in_a_pipe_is_there_at_once(output: options.Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command may go on for days."""
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="utf-8"))
    options.Call(lambda: None, output, verbose=False, label="").answer("one", lambda: print("one"))
    assert b"one" in pipe.getvalue()


def test_the_prompt_helps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`help` starts no statement, psql's `\\d` lists the tables, inside a statement both are text, and `exit` ends."""
    lines = iter(["help", "\\d", "select", "help", ";", "exit", "never"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    ran: list[str] = []
    sql._loop(ran.append, lambda _: (), True)
    assert [text.split() for text in ran] == [["show", "tables"], ["select", "help"]]
    assert "show tables;" in capsys.readouterr().out
    assert next(lines) == "never"


def test_a_file_of_keys_has_a_key_on_each_line_whatever_editor_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte order mark, Windows' line ends and separators of other alphabets are no part of a key, nor its end; another encoding is refused."""
    named: list[tuple[str, ...]] = []
    monkeypatch.setattr(App, "erase", lambda app, table, keys, **more: named.append(tuple(keys)))
    keys, config = tmp_path / "keys.txt", tmp_path / "compactor.yaml"
    config.write_text("tables: {t: {key: [id], order_by: [seq]}}\n")
    keys.write_bytes('\ufeffanna@x\r\n\r\ncarl\u2028x\n {"id": 7}\n'.encode())
    CliRunner().invoke(cli.app, ["erase", "t", "--keys-from", str(keys), "--config", str(config)])
    assert named == [("anna@x", "carl\u2028x", ' {"id": 7}')]
    keys.write_bytes("anna".encode("utf-16"))
    refused = CliRunner().invoke(cli.app, ["erase", "t", "--keys-from", str(keys), "--config", str(config)])
    assert refused.exit_code == 2
    assert "save it as UTF-8" in " ".join(refused.stderr.replace("│", " ").split())
