"""`compactor schema diff`, `schema history` and `sync` on the command line: what is foreseen, printed, and the exit codes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compactor.app.schema import Announced, SchemaCheck, SchemaDiff, Synced, announce, check_schema, diff_schema
from compactor.cli import main as cli
from compactor.cli import options
from compactor.core.model.errors import CatalogRefused, NoRowsYet, Refused
from compactor.core.model.policy import Policy
from compactor.core.schema.change import Change
from compactor.core.schema.policy import Decision
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
    "an added column": (schema({"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}, {"name": "c", "type": "int", "default": 7}), ["added add"], ["added"]),
    "a removed one": (schema({"name": "a", "type": "long"}), ["removed keep"], ["removed"]),
    "a wider one": (schema({"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 25, "scale": 0}}, {"name": "b", "type": "string"}), ["widened widen"], ["widened", "required"]),
    "what only text holds": (schema({"name": "a", "type": "string"}, {"name": "b", "type": "string"}), ["to_string refuse"], ["incompatible", "required"]),
    "a renamed one": (schema({"name": "a", "type": "long"}, {"name": "x", "type": ["null", "string"], "aliases": ["b"]}), ["renamed rename"], ["renamed"]),
    "what concerns no stored column": (schema({"name": "a", "type": "long"}, {"name": "b", "type": "string", "doc": "why"}), [], ["required", "comment"]),
    "what no type holds": (schema({"name": "a", "type": {"type": "array", "items": "long"}}, {"name": "b", "type": "string"}), ["incompatible refuse"], ["incompatible", "required"]),
}  # fmt: skip


@pytest.fixture
def lake() -> Lake:
    """A table whose rows were written by OLD, version 1 of its subject."""
    made = Lake(table(subject="t-value", registered=(1, None)))
    made.deliver("increment_2026010101/a.json", [line("c", [1], [1], {"a": 1, "b": "x"})])
    made.run()
    return made


def looked(lake: Lake, folder: Path, text: str, policy: Policy) -> SchemaDiff:
    """`schema diff` after version 2 was registered."""
    folder.joinpath("t-value.avsc").write_text(OLD)
    folder.joinpath("t-value.v2.avsc").write_text(text)
    spec = dataclasses.replace(lake.spec, avro_schema=text, registered=(2, None), policy=policy)
    return diff_schema(Table(lake.env(), spec), FileRegistry(LocalStorage(), str(folder)))


@pytest.mark.parametrize("case", NEW)
def test_what_the_newest_schema_will_do_is_foreseen(lake: Lake, tmp_path: Path, case: str) -> None:
    """Every difference between the versions, and what the table does about its columns; under `fail` it refuses the same."""
    text, decided, registered = NEW[case]
    found = looked(lake, tmp_path, text, Policy())
    assert [f"{decision.change.kind} {decision.action}" for decision in found.decisions] == decided
    assert [change.kind for change in found.registry] == registered
    assert (found.before, found.after) == (("t-value", 1, None), ("t-value", 2, None))
    failing = looked(lake, tmp_path, text, Policy("fail"))
    assert [decision.action for decision in failing.decisions] == ["refuse"] * len(decided)


@pytest.mark.parametrize(("policy", "level"), [("evolve", "BACKWARD"), ("fail", "BACKWARD"), ("evolve", "NONE"), ("fail", "NONE")])
def test_a_schema_that_is_to_come_is_asked_of_registry_and_table(lake: Lake, tmp_path: Path, policy: str, level: str) -> None:
    """Either may say no; nothing is registered, and before the first commit the table has nothing to say."""
    tmp_path.joinpath("t-value.avsc").write_text(OLD)
    registry = FileRegistry(LocalStorage(), str(tmp_path), level)
    spec = dataclasses.replace(lake.spec, policy=Policy(policy))
    for text, allowed in ((schema({"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}), True), (NEW["a wider one"][0], False)):
        found = check_schema(Table(lake.env(), spec), registry, text)
        assert (found.subject, found.level) == ("t-value", level)
        assert bool(found.problems) == (not allowed and level == "BACKWARD")
        refused = [decision.change.column for decision in found.decisions if decision.action == "refuse"]
        assert refused == (["a"] if policy == "fail" and not allowed else [])
        assert found.passed == (not found.problems and not refused)
        assert check_schema(Table(Lake(table()).env(), table(subject="t-value")), registry, text).decisions == ()
    assert registry.versions("t-value") == [1]
    with pytest.raises(Refused, match="no subject is declared"):
        check_schema(Table(lake.env(), table()), registry, OLD)


def test_nothing_is_foreseen_where_nothing_is_known(lake: Lake) -> None:
    """No declared schema; no rows yet."""
    with pytest.raises(Refused, match="no schema is declared"):
        diff_schema(Table(lake.env(), lake.spec), None)
    with pytest.raises(NoRowsYet, match="nothing is committed yet"):
        diff_schema(Table(Lake(table()).env(), table(avro_schema=OLD)), None)


class FakeApp:
    """Answers of its own."""

    decisions: tuple[Decision, ...] = (Decision(Change("added", "c", after="int", detail="older rows read 7"), "add", "c"),)

    def __enter__(self) -> FakeApp:
        return self

    def __exit__(self, *_: object) -> None: ...

    def specs(self, names: Sequence[str]) -> list[Any]:
        return [type("Spec", (), {"name": name})() for name in names]

    def publish(self, names: Sequence[str], dry_run: bool, accept: bool) -> list[Synced]:
        if names == ["waits"]:
            raise NoRowsYet("table waits: no schema is declared")
        if names == ["theirs"]:
            raise CatalogRefused("table theirs: not ours")
        return [Synced(names[0], "version 3", ("CREATE DATABASE `d`",) if names[0] == "new" else (), not dry_run)]

    def schema_diff(self, name: str) -> SchemaDiff:
        return SchemaDiff(name, ("t-value", 1, 4), ("t-value", 2, 9), (Change("required", "b"),), self.decisions)

    def schema_check(self, name: str, text: str) -> SchemaCheck:
        return SchemaCheck(name, "t-value", "FULL", tuple(text.split()), self.decisions)

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


def test_schema_diff_ends_with_1_when_the_table_would_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a pipeline can ask before a producer is released."""
    code, out, _ = compactor(monkeypatch, "schema", "diff", "t")
    assert code == 0
    assert "t: from t-value version 1 to t-value version 2" in out
    assert "`b` is required now" in out
    assert "`c` was added: int, older rows read 7: the column is added" in out
    refused = tuple(dataclasses.replace(decision, action="refuse") for decision in FakeApp.decisions)
    monkeypatch.setattr(FakeApp, "decisions", refused)
    code, out, _ = compactor(monkeypatch, "schema", "diff", "t", "--output", "json")
    assert code == 1
    assert json.loads(out)[0]["decisions"][0]["action"] == "refuse"
    # without a table: all that declare a schema, as in other commands
    declaring = [type("Spec", (), {"name": name, "subject": subject, "avro_schema": None})() for name, subject in (("a", "a-value"), ("b", None))]
    monkeypatch.setattr(FakeApp, "specs", lambda self, names: declaring)
    code, out, _ = compactor(monkeypatch, "schema", "diff", "--output", "json")
    assert (code, [item["table"] for item in json.loads(out)]) == (1, ["a"])


def test_schema_check_ends_with_1_when_somebody_says_no(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The registry, or the table; a file that is not there is a wrong command line."""
    file = tmp_path / "next.avsc"
    file.write_text("")
    code, out, _ = compactor(monkeypatch, "schema", "check", "t", str(file))
    assert code == 0
    assert "t: the schema can be the next version of t-value (compatibility FULL)" in out
    assert "`c` was added: int, older rows read 7: the column is added" in out
    file.write_text("because")
    code, out, _ = compactor(monkeypatch, "schema", "check", "t", str(file))
    assert (code, "cannot be the next version" in out, "  because\n" in out) == (1, True, True)
    file.write_text("")
    monkeypatch.setattr(FakeApp, "decisions", tuple(dataclasses.replace(decision, action="refuse") for decision in FakeApp.decisions))
    code, out, _ = compactor(monkeypatch, "schema", "check", "t", str(file), "--output", "json")
    assert (code, json.loads(out)["passed"], json.loads(out)["problems"]) == (1, False, [])
    assert compactor(monkeypatch, "schema", "check", "t", str(tmp_path / "none.avsc"))[0] == 2


def test_schema_history_tells_snapshots_and_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For people and for programs."""
    _, out, _ = compactor(monkeypatch, "schema", "history", "t")
    assert "version 3, " in out
    assert "t-value version 2\n  `a` was widened from int to bigint\n" in out
    _, out, _ = compactor(monkeypatch, "schema", "history", "t", "--output", "json")
    assert json.loads(out)[0]["registered"] == ["t-value", 2, 9]


def test_a_new_schema_is_told_before_any_row_of_it(lake: Lake) -> None:
    """Once; and whether the table will stop at it."""
    told: list[tuple[bool, str]] = []
    env = dataclasses.replace(lake.env(), notify=lambda target, notice: told.append((notice.refused, notice.text)))
    spec = dataclasses.replace(lake.spec, avro_schema=NEW["an added column"][0], registered=(2, None))
    assert not announce(Table(env, spec)).refused
    (change,) = announce(Table(env, spec)).changes
    assert [(refused, change in text) for refused, text in told] == [(False, True)]
    assert announce(Table(env, dataclasses.replace(spec, policy=Policy("fail")))).refused
    assert [refused for refused, _ in told] == [False, True]
    same = dataclasses.replace(spec, avro_schema=OLD, registered=(1, None))
    assert (announce(Table(env, same)).changes, len(told)) == ((), 2)


def test_schema_notify_prints_changes_and_passes_over_tables_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table without rows is no error; one whose registry says no is."""
    answers: dict[str, Any] = {"a": Announced("a", True, ("column x: removed",)), "b": NoRowsYet("b: nothing yet")}

    class Here:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None: ...

        def specs(self, names: Sequence[str]) -> list[Any]:
            return [table(name=name, subject="s") for name in names or answers]

        def schema_notify(self, names: Sequence[str]) -> list[Any]:
            found = answers[names[0]]
            if isinstance(found, Exception):
                raise found
            return [found]

    monkeypatch.setattr(options, "opened", lambda *_, **__: Here())
    done = CliRunner().invoke(cli.app, ["schema", "notify", "--output", "json"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, [{"table": "a", "refused": True, "changes": ["column x: removed"]}])
    answers["b"] = Refused("no such subject")
    assert CliRunner().invoke(cli.app, ["schema", "notify"]).exit_code == 1
