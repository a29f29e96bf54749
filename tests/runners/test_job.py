"""The program on a cluster, as far as it goes without Spark: its words, its report, its log, and how it ends. With Spark: tests/engines/test_emr.py."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor import job
from compactor.app.app import App
from compactor.app.packaging.job_zip import package
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.checks import Difference
from compactor.core.results.notice import Notice
from compactor.core.results.record import TableReport
from compactor.core.results.reports import RebuildReport
from compactor.core.settings.command_line import CLUSTER_COMMANDS
from compactor.core.settings.job_config import JobConfig
from compactor.runtime import Runtime
from tests.test_cli import COMMANDS

TEXT = "tables: {student: {key: [id]}, ledger: {key: []}}\n"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The program sets the level of our log, as it may: it is alone in its process."""
    before = logging.getLogger("compactor").level
    yield
    logging.getLogger("compactor").setLevel(before)


@pytest.fixture
def job_config(tmp_path: Path) -> Path:
    """The JobConfig of two tables without files, in a file."""
    (tmp_path / "compactor.yaml").write_text(TEXT, encoding="utf-8")
    with App.open(tmp_path / "compactor.yaml") as app:
        (tmp_path / "plan.json").write_bytes(app.job_config([]).written())
    return tmp_path / "plan.json"


def told(job_config: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report, log of a run of the program."""
    place = job_config.parent / "reports"
    code = job.main(["--job-config", str(job_config), "--report", str(place), *words])
    return code, json.loads((place / "report.json").read_text(encoding="utf-8")), (place / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words", [("verify", "--files-only", "--output", "json"), ("verify", "student", "--files-only"), ("versions", "vacuum", "ledger", "--label", "x")]
)
def test_it_answers_as_the_command_line_does(job_config: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output, and in the report; the log says which package ran."""
    code, report, log = told(job_config, *words)
    names = [name for name in words if name in ("student", "ledger")] or ["student", "ledger"]
    assert (code, report["code"]) == (0, 0)
    assert json.loads(capsys.readouterr().out) == json.loads(report["output"])
    assert [item["table"] for item in json.loads(report["output"])] == names
    assert log.startswith(f"{'versions vacuum' if 'vacuum' in words else words[0]} of ")


def test_a_plan_in_place_of_its_location(job_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a hand; then nothing is reported but on standard output."""
    assert job.main(["--job-config", job_config.read_text(encoding="utf-8"), "verify", "--files-only"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


@pytest.mark.parametrize(
    ("broken", "words", "said"),
    [
        ("nowhere", ("verify",), "the job configuration: expected a file at"),
        ("{}", ("verify",), "the job configuration: expected a JSON object with `format`"),
        ("", ("verify", "nobody"), "table nobody is not in the configuration of this job; it has student, ledger"),
    ],
)
def test_what_is_refused_is_the_last_word_of_the_report(job_config: Path, broken: str, words: tuple[str, ...], said: str) -> None:
    """Where Airflow looks for it."""
    if broken == "nowhere":
        job_config.unlink()
    elif broken:
        job_config.write_text(broken, encoding="utf-8")
    code, report, log = told(job_config, *words)
    assert (code, report["code"], report["output"]) == (1, 1, "")
    assert f"compactor: {said}" in report["errors"].splitlines()[-1]
    assert report["errors"] in log


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Unavailable("glue is away"), 75, "compactor: glue is away (see docs/errors.md#unavailable)"),
        (KeyError("x"), 1, "compactor: unexpected KeyError: 'x' (see docs/errors.md#unexpected)"),
    ],
)
def test_every_end_is_reported(job_config: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, said: str) -> None:
    """An unexpected error too; the exit code shows whether another attempt can help."""

    def fail(*_: object) -> Any:
        raise error

    monkeypatch.setattr(job, "answer", fail)
    ended, report, _ = told(job_config, "run")
    assert (ended, report["code"]) == (code, code)
    assert report["errors"].splitlines()[-1] == said


@pytest.mark.parametrize(("codes", "code"), [((0, 0), 0), ((0, 75), 75), ((75, 1), 1), ((), 0)])
def test_a_run_ends_as_the_command_line_does(job_config: Path, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, ...], code: int) -> None:
    """One that failed beats one to be tried again."""
    monkeypatch.setattr(job, "run_tables", lambda *_, **__: [TableReport("t", "x", exit_code=each) for each in codes])
    assert told(job_config, "run")[0] == code


@pytest.mark.parametrize(("outcome", "code"), [("published", 0), ("differs", 1), ("fewer", 1)])
def test_a_rebuild_tells_what_differs(job_config: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, code: int) -> None:
    """As its last word, which is what Airflow shows; what differs is published only where the words say so."""
    asked: list[Any] = []

    def rebuilt(table: Any, target: Any, accept: bool, dry: bool, fewer: bool) -> RebuildReport:
        asked.append((table.name, target, accept, dry, table.label, fewer))
        return RebuildReport("student", outcome, 2, 1, 3, 1000, 9, Difference(changed=2, samples=('{"id":7}',)))

    monkeypatch.setattr(job, "rebuild_table", rebuilt)
    ended, report, _ = told(job_config, "rebuild", "student", "--accept-differences", "--label", "x")
    assert (ended, asked) == (code, [("student", None, True, False, "x", False)])
    assert json.loads(report["output"])["difference"]["changed"] == 2
    assert "compactor: student: 3 files (1,000 bytes) give 9 rows; 0 rows of version 1 are missing" in report["errors"].splitlines()[-1]


def test_the_words_are_the_command_lines(job_config: Path) -> None:
    """No word means something else there."""
    for command in CLUSTER_COMMANDS:
        local = {name for param in COMMANDS[command.name].params for name in param.opts}
        assert {name for option in command.options for name in option.names} <= local
    for words in (
        ["run", "a", "-o", "json", "--label", "l", "-p", "3"],
        ["quarantine", "--replay", "a", "--output", "json"],
        ["versions", "vacuum", "--run", "a"],
        ["rebuild", "--accept-differences", "--accept-fewer-rows", "--as-of", "3", "--dry-run", "a", "-o", "json", "--label", "l"],
    ):
        assert job.parser().parse_args(["--job-config", "{}", *words]).tables == ["a"]
    with pytest.raises(SystemExit) as wrong:
        job.parser().parse_args(["--job-config", "{}", "restore", "a"])
    assert wrong.value.code == 2


def test_who_cannot_be_told_from_a_cluster_is_refused() -> None:
    """It is logged, and told from the edge."""
    with pytest.raises(Refused, match=r"webhook: messages to this target cannot be sent from a cluster\. `compactor schema --notify`"):
        job.notify(("webhook", "https://host/token"), Notice("t", 1, "", False, ()))
    job.notify(("log",), Notice("t", 1, "", False, ()))


def test_schemas_travel_with_the_job() -> None:
    """One that was registered since: the next try knows it."""
    schemas = job.runtime(JobConfig((), "/w", schemas=((7, '"long"'),)))._schemas
    assert schemas is not None
    assert schemas(7) == '"long"'
    with pytest.raises(Unavailable, match="the schema 8, which the registry did not have when this job was sent"):
        schemas(8)


def test_a_job_without_schemas_decodes_by_none() -> None:
    """No Kafka table has one: the engine refuses a record that names a schema."""
    assert job.runtime(JobConfig((), "/w"))._schemas is None


@pytest.mark.parametrize("started", [True, False])
def test_spark_ends_with_the_job(job_config: Path, monkeypatch: pytest.MonkeyPatch, started: bool) -> None:
    """The session is opened once, for this job's tables, and closed when the command ends; a command that needs none opens none."""
    calls: list[str] = []
    monkeypatch.setattr("compactor.spark.session.open_session", lambda settings: calls.append(f"open {settings.parquet}") or object())
    monkeypatch.setattr("compactor.spark.session.close_session", lambda session: calls.append("close"))

    def answer(here: Runtime, arguments: Any) -> tuple[Any, int]:
        if started:
            assert here.spark() is here.spark()
        assert here.started is started
        return [], 0

    monkeypatch.setattr(job, "answer", answer)
    assert told(job_config, "run")[0] == 0
    assert calls == (["open hive", "close"] if started else [])


def test_the_entry_point_calls_it() -> None:
    """What spark-submit starts."""
    text = package().files["main.py"].decode()
    assert "from compactor.job import main" in text
    assert text.endswith("sys.exit(main())\n")
