"""`compactor schema` and `publish` on the command line: what is foreseen, printed, and the exit codes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compactor.app.registry import SchemaReport, Synced, schema_report
from compactor.cli import main as cli
from compactor.cli import options
from compactor.core.model.errors import CatalogRefused, NoRowsYet, Refused
from compactor.core.model.policy import Policy
from compactor.core.schema.policy import Change, Decision
from compactor.core.schema.schema_history import Step
from compactor.flows.table import Table
from compactor.registry.files import FileRegistry
from compactor.storage.local import LocalStorage
from tests.oracle.lake import Lake, table
from tests.oracle.model import line


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}, *fields]})


OLD = schema({"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]})
NEW = {
    "an added column": (schema({"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}, {"name": "c", "type": "int", "default": 7}), ["added add"]),
    "a removed one": (schema({"name": "a", "type": "long"}), ["removed keep"]),
    "a wider one": (schema({"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 25, "scale": 0}}, {"name": "b", "type": "string"}), ["widened widen"]),
    "what only text holds": (schema({"name": "a", "type": "string"}, {"name": "b", "type": "string"}), ["to_string refuse"]),
    "a renamed one": (schema({"name": "a", "type": "long"}, {"name": "x", "type": ["null", "string"], "aliases": ["b"]}), ["renamed rename"]),
    "what concerns no stored column": (schema({"name": "a", "type": "long"}, {"name": "b", "type": "string", "doc": "why"}), []),
    "what no type holds": (schema({"name": "a", "type": {"type": "array", "items": "long"}}, {"name": "b", "type": "string"}), ["incompatible refuse"]),
}  # fmt: skip


@pytest.fixture
def lake() -> Lake:
    """A table whose rows were written by OLD, version 1 of its subject."""
    made = Lake(table(subject="t-value", registered=(1, None)))
    made.deliver("increment_2026010101/a.json", [line("c", [1], [1], {"a": 1, "b": "x"})])
    made.run()
    return made


@pytest.mark.parametrize("case", NEW)
def test_what_the_newest_schema_will_do_is_reported(lake: Lake, case: str) -> None:
    """What the table does about its columns; under `fail` it refuses the same."""
    text, decided = NEW[case]
    spec = dataclasses.replace(lake.spec, avro_schema=text, registered=(2, None))
    report = schema_report(Table(lake.env(), spec), None)
    assert [f"{decision.change.kind} {decision.action}" for decision in report.decisions] == decided
    assert (report.before, report.after) == (("t-value", 1, None), ("t-value", 2, None))
    assert report.refused == any("refuse" in decision for decision in decided)
    failing = schema_report(Table(lake.env(), dataclasses.replace(spec, policy=Policy("fail"))), None)
    assert [decision.action for decision in failing.decisions] == ["refuse"] * len(decided)


@pytest.mark.parametrize(("policy", "level"), [("evolve", "BACKWARD"), ("fail", "BACKWARD"), ("evolve", "NONE"), ("fail", "NONE")])
def test_registry_and_table_may_refuse_a_schema_that_is_to_come(lake: Lake, tmp_path: Path, policy: str, level: str) -> None:
    """Nothing is registered, and before the first commit the table refuses nothing."""
    tmp_path.joinpath("t-value.avsc").write_text(OLD)
    registry = FileRegistry(LocalStorage(), str(tmp_path), level)
    spec = dataclasses.replace(lake.spec, policy=Policy(policy))
    for text, allowed in ((schema({"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}), True), (NEW["a wider one"][0], False)):
        report = schema_report(Table(lake.env(), spec), registry, text)
        assert report.level == level
        assert bool(report.problems) == (not allowed and level == "BACKWARD")
        refused = [decision.change.column for decision in report.decisions if decision.action == "refuse"]
        assert refused == (["a"] if policy == "fail" and not allowed else [])
        assert report.refused == bool(report.problems or refused)
        assert schema_report(Table(Lake(table()).env(), table(subject="t-value")), registry, text).decisions == ()
    assert registry.versions("t-value") == [1]
    with pytest.raises(Refused, match="no subject is declared"):
        schema_report(Table(lake.env(), table()), registry, OLD)


def test_a_table_without_schema_or_rows_has_no_report(lake: Lake) -> None:
    """The errors say which of them is missing."""
    with pytest.raises(Refused, match="no schema is declared"):
        schema_report(Table(lake.env(), lake.spec), None)
    with pytest.raises(NoRowsYet, match="nothing is committed yet"):
        schema_report(Table(Lake(table()).env(), table(avro_schema=OLD)), None)


class FakeApp:
    """Answers of its own."""

    decisions: tuple[Decision, ...] = (Decision(Change("added", "c", after="int", detail="older rows read 7"), "add", "c"),)

    def __enter__(self) -> FakeApp:
        return self

    def __exit__(self, *_: object) -> None: ...

    def specs(self, names: Sequence[str]) -> list[Any]:
        return [table(name=name, subject="s" if name == "declares" else None) for name in names or ("declares", "bare")]

    def publish(self, names: Sequence[str], dry_run: bool, accept: bool) -> list[Synced]:
        if names == ["waits"]:
            raise NoRowsYet("table waits: no schema is declared")
        if names == ["theirs"]:
            raise CatalogRefused("table theirs: not ours")
        return [Synced(names[0], "version 3", ("CREATE DATABASE `d`",) if names[0] == "new" else (), not dry_run)]

    def schema(self, names: Sequence[str], next_schema: str | None = None, notify: bool = False) -> list[SchemaReport]:
        if names == ["waits"]:
            raise NoRowsYet("waits: nothing is committed yet")
        after = None if next_schema is not None else ("t-value", 2, 9)
        problems = tuple((next_schema or "").split())
        return [SchemaReport(names[0], ("t-value", 1, 4), after, self.decisions, "FULL" if after is None else "", problems)]

    def schema_history(self, name: str) -> list[Step]:
        return [Step(3, "2026-11-20T14:00:00.000Z", 2, ("t-value", 2, 9), (Change("widened", "a", "int", "bigint"),))]


def compactor(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command."""
    monkeypatch.setattr(options, "opened", lambda *_: FakeApp())
    done = CliRunner().invoke(cli.app, list(words))
    return done.exit_code, done.stdout, done.stderr


def test_sync_prints_statements_and_passes_over_tables_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for its first rows is told and no failure; what is somebody else's is one, and hides nothing."""
    code, out, err = compactor(monkeypatch, "publish", "new", "old", "waits", "--dry-run")
    assert code == 0
    assert out == "-- new: version 3, 1 statement would be run\nCREATE DATABASE `d`;\n\n-- old: version 3, nothing to do\n"
    assert "no schema is declared" in err
    code, out, err = compactor(monkeypatch, "publish", "theirs", "new", "--output", "json")
    assert code == 1
    assert [(item["table"], item["applied"]) for item in json.loads(out)] == [("new", True)]
    assert "not ours" in err


def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run stop at each change."""
    monkeypatch.setattr(FakeApp, "decisions", tuple(dataclasses.replace(decision, action="refuse") for decision in FakeApp.decisions))


def test_schema_ends_with_1_when_a_run_would_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a pipeline can ask before a producer is released. A table that waits for its first rows is no failure."""
    code, out, err = compactor(monkeypatch, "schema", "t", "waits")
    assert (code, "nothing is committed yet" in err) == (0, True)
    assert "t: from t-value version 1 to t-value version 2" in out
    assert "`c` was added: int, older rows read 7: the column is added" in out
    refusing(monkeypatch)
    # without a table: all that declare a schema, as in other commands
    code, out, _ = compactor(monkeypatch, "schema", "--output", "json")
    assert (code, [item["table"] for item in json.loads(out)]) == (1, ["declares"])
    assert (json.loads(out)[0]["decisions"][0]["action"], json.loads(out)[0]["refused"]) == ("refuse", True)
    # whoever sends notices has done so
    assert compactor(monkeypatch, "schema", "--notify")[0] == 0
    assert compactor(monkeypatch, "schema", "t", "--notify", "--history")[0] == 2
    monkeypatch.setattr(FakeApp, "specs", lambda self, names: [])
    assert "no table declares a schema" in compactor(monkeypatch, "schema")[1]


def test_a_schema_that_is_to_come_ends_with_1_when_registry_or_table_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file that is not there, and no table, are a wrong command line."""
    file = tmp_path / "next.avsc"
    file.write_text("")
    words = ("schema", "t", "--next", str(file))
    code, out, _ = compactor(monkeypatch, *words)
    assert code == 0
    assert "t: the schema can be the next version of its subject (compatibility FULL)" in out
    assert "`c` was added: int, older rows read 7: the column is added" in out
    file.write_text("because")
    code, out, _ = compactor(monkeypatch, *words)
    assert (code, "cannot be the next version" in out, "  because\n" in out) == (1, True, True)
    file.write_text("")
    refusing(monkeypatch)
    code, out, _ = compactor(monkeypatch, *words, "--output", "json")
    assert (code, json.loads(out)[0]["refused"], json.loads(out)[0]["problems"]) == (1, True, [])
    assert compactor(monkeypatch, "schema", "t", "--next", str(tmp_path / "none.avsc"))[0] == 2
    assert compactor(monkeypatch, "schema", "--next", str(file))[0] == 2


def test_the_history_has_snapshots_and_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For people and for programs."""
    _, out, _ = compactor(monkeypatch, "schema", "t", "--history")
    assert "t: version 3, " in out
    assert "t-value version 2\n  `a` was widened from int to bigint\n" in out
    _, out, _ = compactor(monkeypatch, "schema", "t", "--history", "--output", "json")
    assert (json.loads(out)[0]["table"], json.loads(out)[0]["registered"]) == ("t", ["t-value", 2, 9])


def test_the_former_names_are_refused_with_the_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """`schema check` was a command."""
    code, _, err = compactor(monkeypatch, "schema", "check", "t", "next.avsc")
    assert (code, "is now `compactor schema TABLE --next FILE`" in err) == (2, True)


def test_notices_of_a_new_schema_are_sent_before_any_row_of_it(lake: Lake) -> None:
    """Once; and with whether the table will stop at it."""
    sent: list[tuple[bool, str]] = []
    env = dataclasses.replace(lake.env(), notify=lambda target, notice: sent.append((notice.refused, notice.text)))
    spec = dataclasses.replace(lake.spec, avro_schema=NEW["an added column"][0], registered=(2, None))
    assert not schema_report(Table(env, spec), None).refused
    assert sent == []
    assert not schema_report(Table(env, spec), None, notify=True).refused
    (decision,) = schema_report(Table(env, spec), None, notify=True).decisions
    assert [(refused, decision.sentence in text) for refused, text in sent] == [(False, True)]
    assert schema_report(Table(env, dataclasses.replace(spec, policy=Policy("fail"))), None, notify=True).refused
    assert [refused for refused, _ in sent] == [False, True]
    same = dataclasses.replace(spec, avro_schema=OLD, registered=(1, None))
    assert (schema_report(Table(env, same), None, notify=True).decisions, len(sent)) == ((), 2)
