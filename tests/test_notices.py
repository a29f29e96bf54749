"""Notices of schema changes: told before the first use, once, to every target; what a target gets; targets that fail."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apprise
import boto3
import pytest
from botocore.stub import Stubber

from compactor.app import notify as app_notify
from compactor.aws import client as aws_client
from compactor.core.model.errors import CompactorError, ConfigError, Refused, SchemaRefused, Unavailable
from compactor.core.model.policy import Daily, Policy, Protection
from compactor.core.results import notice
from compactor.core.results.notice import Alert, Notice, Target
from compactor.core.schema.policy import Change, Decision
from compactor.core.schema.schema_history import steps
from compactor.flows.environment import Environment
from compactor.flows.publish import notices
from compactor.flows.table import Table
from compactor.notify import webhook
from tests.faults import Crash, Faults
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

NOTICE = Notice("student", 4, "2026-11-20T00:00:00Z", False, (Decision(Change("added", "n", after="int", detail="null in older rows"), "add", "n"),))


class Told:
    """A lake whose notices are kept: each with the version that was committed when it came."""

    def __init__(self, **settings: Any) -> None:
        self.lake = Lake(table(**{"notify": (("log",), ("sns", "arn")), **settings}))
        self.found: list[tuple[str, int, Notice]] = []
        self.failing: set[str] = set()
        plain = self.lake.env
        self.lake.env = lambda faults=None: self._watched(plain(faults))  # type: ignore[method-assign]

    def _watched(self, env: Environment) -> Environment:
        return dataclasses.replace(env, notify=self._tell)

    def _tell(self, target: Target, told: Notice) -> None:
        if target[0] in self.failing:
            raise Unavailable("nobody there")
        newest = self.lake.newest()
        self.found.append((target[0], newest.version if newest else 0, told))

    def land(self, at: int, **values: Any) -> None:
        """One more file with one row."""
        self.lake.deliver(f"increment_20260101{at:02}/a.json", [line("c", [at], [at], values)])

    @property
    def kinds(self) -> list[tuple[str, list[str]]]:
        """(target, kinds of change) of each telling."""
        return [(target, [decision.change.kind for decision in told.decisions]) for target, _, told in self.found]


def test_a_change_is_told_before_it_is_used_and_once() -> None:
    """When the target hears of it, the newest Snapshot is still the one before; another run says nothing."""
    told = Told()
    told.land(1, a=1)
    told.lake.run()
    assert told.found == []
    told.land(2, a=2, b="x")
    told.lake.run()
    assert told.kinds == [("log", ["added"]), ("sns", ["added"])]
    target, version, found = told.found[0]
    assert (target, version, found.version, found.refused) == ("log", 1, 2, False)
    said = found.to_json()
    assert said["event"] == "schema_changed"
    assert said["changes"][0]["column"] == "b"
    assert said["objects"][0] == "school.t"
    assert [statement.split(" ADD ")[0] for statement in said["ddl"]] == ["ALTER TABLE `school`.`t_base`", "ALTER TABLE `school`.`t_delta`"]
    told.land(3, a=3, b="y")
    told.lake.run()
    assert len(told.found) == 2


def test_a_notice_names_every_view_and_table_that_readers_may_use() -> None:
    """Those that the settings add, too, and not the table of landed files where they hold protected columns as they are."""
    told = Told()
    told.land(1, a=1)
    told.lake.run()
    parent = told.lake.newest()
    assert parent is not None
    more: dict[str, Any] = {"history": True, "daily": Daily(), "feed": "net", "iceberg": ("base",), "columns": (Protection("secret", "hash"),)}
    found = notice.of(dataclasses.replace(told.lake.spec, **more), parent, (), None, parent.time)
    names = [name.removeprefix("school.t") for name in found.objects]
    assert names == ["", "_history", "_daily", "_iceberg", "_base", "_delta", "_changes", "_history_rows", "_daily_rows"]


def test_a_refused_change_is_told_once_however_often_the_table_tries() -> None:
    """And again when it is another one. The increments stay."""
    told = Told(policy=Policy("fail"))
    told.land(1, a=1)
    told.lake.run()
    told.land(2, a=2, b="x")
    for _ in range(3):
        with pytest.raises(SchemaRefused):
            told.lake.run()
    assert told.kinds == [("log", ["added"]), ("sns", ["added"])]
    assert told.found[0][2].to_json()["event"] == "schema_refused"
    told.land(3, a=2, c="x")
    with pytest.raises(SchemaRefused):
        told.lake.run()
    assert len(told.found) == 4
    assert len(told.lake.landing()) == 2


def test_a_column_left_out_is_told_once_and_not_with_every_commit() -> None:
    """`freeze`: every run finds it again."""
    told = Told(policy=Policy("freeze"))
    for at in range(1, 6):
        told.land(at, a=1, **({"b": "x"} if at > 1 else {}))
        told.lake.run()
    assert told.kinds == [("log", ["added"]), ("sns", ["added"])]
    newest = told.lake.newest()
    assert newest is not None
    assert newest.schema.names == ("id", "a")


def test_a_target_that_fails_holds_up_nothing_and_is_told_later(caplog: pytest.LogCaptureFixture) -> None:
    """The others hear of it; whoever finds the same change again tells it again."""
    told = Told(policy=Policy("freeze"))
    told.failing = {"sns"}
    for at in range(1, 3):
        told.land(at, a=1, **({"b": "x"} if at > 1 else {}))
        told.lake.run()
    assert told.kinds == [("log", ["added"])]
    assert "could not send a schema change to sns: nobody there" in caplog.text
    told.failing = set()
    told.land(3, a=1, b="x")
    told.lake.run()
    assert told.kinds == [("log", ["added"]), ("log", ["added"]), ("sns", ["added"])]


def test_a_run_cut_anywhere_tells_at_least_once() -> None:
    """At every call that storage or catalog can fail: after the next run the change has been told, and the table is right."""
    calls = 1
    while True:
        told = Told()
        told.land(1, a=1)
        told.lake.run()
        told.land(2, a=2, b="x")
        try:
            told.lake.run(Faults(calls))
        except Crash:
            told.lake.run()
            assert told.kinds[:1] == [("log", ["added"])]
            shown = told.lake.look()
            assert shown is not None
            assert shown.rows == told.lake.expected()
            calls += 1
            continue
        break
    assert calls > 15


def test_the_history_of_a_schema_comes_from_its_snapshots() -> None:
    """Newest first: what each Snapshot brought; commits without a change are passed over."""
    lake = Lake(table(policy=Policy(drop="hide", kinds=(("to_string", "evolve"),))))
    for at, values in enumerate(({"a": 1}, {"a": 2}, {"a": 2, "b": 1}, {"a": "x", "b": 1}, {"a": "x"}), 1):
        lake.deliver(f"increment_20260101{at:02}/a.json", [line("c", [at], [at], values)])
        lake.run()
    found = steps([*Table(lake.env(), lake.spec).history()])
    assert [[(change.kind, change.column) for change in step.changes] for step in found] == [
        [("removed", "b")],
        [("to_string", "a")],
        [("added", "b")],
        [("added", "id"), ("added", "a")],
    ]
    assert [step.generation for step in found] == [2, 2, 1, 1]
    assert sorted((step.version for step in found), reverse=True) == [step.version for step in found]


class Hook(BaseHTTPRequestHandler):
    """Answers with the statuses it is told to, then 204; keeps what it got."""

    statuses: list[int]
    got: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.statuses.pop(0) if self.statuses else 204)
        self.send_header("Location", "/elsewhere")
        self.send_header("Retry-After", "10")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds for which a webhook is waited for, without waiting."""
    waited: list[float] = []
    monkeypatch.setattr(webhook, "time", SimpleNamespace(sleep=waited.append, monotonic=lambda: sum(waited)))
    monkeypatch.setattr(webhook, "_unreached", set())
    return waited


@pytest.fixture
def hook() -> Iterator[tuple[str, type[Hook]]]:
    """An address, and the class that answers there."""
    kind = type("Hook_", (Hook,), {"statuses": [], "got": []})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook?token=secret", kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_json(hook: tuple[str, type[Hook]], monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    """Named in the file or by an environment variable; asked again while that helps, and not before the time that the server asks for."""
    url, server = hook
    app_notify.notify(("webhook", url), NOTICE)
    monkeypatch.setenv("HOOK", url)
    server.statuses[:] = [503, 429, 429, 429]
    app_notify.notify(("webhook_env", "HOOK"), NOTICE)
    assert server.got == [NOTICE.to_json()] * 6
    assert pauses == [10.0, 10.0, 10.0, 16.0]
    assert NOTICE.to_json()["text"].startswith("table student: its source's schema has changed (version 4)\n- `n` was added: int")


@pytest.mark.parametrize(
    ("statuses", "error", "why"),
    [([404], Refused, "status 404"), ([302], Refused, "status 302"), ([500] * 5, Unavailable, "status 500")],
)
def test_a_webhook_that_says_no(
    hook: tuple[str, type[Hook]], statuses: list[int], error: type[CompactorError], why: str, pauses: list[float]
) -> None:
    """The address is not shown: it may hold a token. It is tried for about a minute, then once for each message until it answers."""
    url, server = hook
    server.statuses[:] = statuses
    with pytest.raises(error, match=why) as found:
        app_notify.notify(("webhook", url), NOTICE)
    assert "secret" not in str(found.value)
    assert len(server.got) == len(statuses)
    if error is Unavailable:
        assert 40 < sum(pauses) < 65
        server.statuses[:] = [500]
        with pytest.raises(Unavailable):
            app_notify.notify(("webhook", url), NOTICE)
        app_notify.notify(("webhook", url), NOTICE)
        server.statuses[:] = [500]
        app_notify.notify(("webhook", url), NOTICE)
        assert len(server.got) == len(statuses) + 4


def test_a_webhook_that_is_not_there(pauses: list[float]) -> None:
    """Nobody listens; a variable that is not set."""
    with pytest.raises(Unavailable, match="ConnectionError") as found:
        app_notify.notify(("webhook", "http://127.0.0.1:9/secret"), NOTICE)
    assert "secret" not in str(found.value)
    with pytest.raises(ConfigError, match="NOT_SET, which is not set"):
        app_notify.notify(("webhook_env", "NOT_SET"), NOTICE)


def test_apprise_gets_the_text(hook: tuple[str, type[Hook]], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file or by a variable with several addresses. All messages of a table have one title; a failure looks like one."""
    url, server = hook
    address = url.replace("http://", "json://")
    app_notify.notify(("apprise", address), ALERT)
    monkeypatch.setenv("CHAT", f"{address} {address}&method=POST")
    app_notify.notify(("apprise_env", "CHAT"), dataclasses.replace(ALERT, event="run_recovered"))
    app_notify.notify(("apprise", address), NOTICE)
    shown = [(each["title"], each["message"].split("\n")[0], each["type"]) for each in server.got]
    recovered = ("compactor: student", "table student has recovered: the metastore is away", "success")
    assert shown == [
        ("compactor: student", "table student has failed: the metastore is away", "failure"),
        *(recovered, recovered),
        ("compactor: student", "table student: its source's schema has changed (version 4)", "info"),
    ]


def test_apprise_shows_no_address(hook: tuple[str, type[Hook]], caplog: pytest.LogCaptureFixture) -> None:
    """Neither in errors nor in its own lines of any level; the other addresses get the message."""
    url, server = hook
    address = url.replace("http://", "json://")
    server.statuses[:] = [500, 204]
    with caplog.at_level(logging.DEBUG), pytest.raises(Unavailable, match="JSON did not accept the message") as refused:
        app_notify.notify(("apprise", address, address), NOTICE)
    assert len(server.got) == 2
    with caplog.at_level(logging.DEBUG), pytest.raises(Refused, match="found 1 that Apprise does not know") as unknown:
        app_notify.notify(("apprise", "nonsense://secret", address), NOTICE)
    assert len(server.got) == 3
    lines = [record.getMessage() for record in caplog.records if not record.name.startswith("urllib3")]
    assert "secret" not in "".join([str(refused.value), str(unknown.value), *lines])
    with pytest.raises(ConfigError, match="NOT_SET, which is not set"):
        app_notify.notify(("apprise_env", "NOT_SET"), NOTICE)


def test_apprise_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(Refused, match=r"need Apprise, which the extra `apprise` installs"):
        app_notify.notify(("apprise", "json://host/secret"), NOTICE)


def test_a_recovery_resolves_the_incident_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """At PagerDuty, by the first line of the text, which is the title."""
    sent: list[dict[str, Any]] = []
    answer = SimpleNamespace(status_code=202, content=b"")
    monkeypatch.setattr("requests.post", lambda url, data, **_: sent.append(json.loads(data)) or answer)
    for message in (ALERT, dataclasses.replace(ALERT, event="run_recovered"), dataclasses.replace(ALERT, table="ledger")):
        app_notify.notify(("apprise", "pagerduty://integration@api?action=map"), message)
    assert [each["event_action"] for each in sent] == ["trigger", "resolve", "trigger"]
    failed, recovered, other = (each["dedup_key"] for each in sent)
    assert failed == recovered != other


@pytest.mark.parametrize(
    ("address", "service"),
    [
        ("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "Slack"),
        (
            "https://prod-1.westus.logic.azure.com:443/workflows/a1/triggers/manual/paths/invoke?api-version=2016-06-01&sp=x&sv=1.0&sig=b2",
            "Workflows",
        ),
        ("pagerduty://integration@api?action=map", "PagerDuty"),
        ("mailtos://user:password@mail.example.com?to=lake@example.com", "Email"),
    ],
)
def test_the_addresses_of_the_page_are_what_apprise_knows(address: str, service: str) -> None:
    """docs/operations.md, with values in place of the dots."""
    kind = type(apprise.Apprise.instantiate(address)).__name__
    assert service in kind


def test_a_command_gets_json_on_its_standard_input(tmp_path: Path) -> None:
    """Its arguments as they are: no shell reads them."""
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    place = tmp_path / "told; rm -rf x"
    app_notify.notify(("command", sys.executable, "-c", code, str(place)), NOTICE)
    assert json.loads(place.read_text()) == NOTICE.to_json()
    with pytest.raises(Unavailable, match="ended with 3: oops"):
        app_notify.notify(("command", sys.executable, "-c", "import sys; sys.stderr.write('oops'); sys.exit(3)"), NOTICE)
    with pytest.raises(Refused, match="cannot be run"):
        app_notify.notify(("command", str(tmp_path / "missing")), NOTICE)


def test_the_log_warns_when_a_table_stops(caplog: pytest.LogCaptureFixture) -> None:
    """Else it informs."""
    import dataclasses

    with caplog.at_level(logging.INFO):
        app_notify.notify(("log",), NOTICE)
        app_notify.notify(("log",), dataclasses.replace(NOTICE, refused=True))
    assert [record.levelname for record in caplog.records if record.name == "compactor.notice"] == ["INFO", "WARNING"]


def test_sns_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a topic; one that does not exist is refused."""
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SNS", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    # moto's answers within a process have no Content-Length
    monkeypatch.setattr(aws_client, "_whole", lambda **_: None)
    with mock_aws():
        arn = boto3.client("sns", region_name="eu-central-1").create_topic(Name="schemas")["TopicArn"]
        app_notify.notify(("sns", arn), NOTICE)
        from moto.sns.models import sns_backends

        ((_, message, subject, *_),) = sns_backends["123456789012"]["eu-central-1"].topics[arn].sent_notifications
        assert json.loads(message) == NOTICE.to_json()
        assert subject == "compactor: student has a new schema"
        app_notify.notify(("sns", arn), ALERT)
        *_, (_, message, subject, *_) = sns_backends["123456789012"]["eu-central-1"].topics[arn].sent_notifications
        assert (json.loads(message), subject) == (ALERT.to_json(), "compactor: student has failed")
        with pytest.raises(Refused, match="NotFound"):
            app_notify.notify(("sns", arn + "x"), NOTICE)
        ordered = boto3.client("sns", region_name="eu-central-1").create_topic(Name="alerts.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
        app_notify.notify(("sns", ordered), ALERT)
        ((_, message, _, _, group),) = sns_backends["123456789012"]["eu-central-1"].topics[ordered].sent_notifications
        assert (json.loads(message), group) == (ALERT.to_json(), "student")


def test_sns_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every other service of AWS."""
    client = boto3.client("sns", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(aws_client, "make_session", lambda: SimpleNamespace(client=lambda *_, **__: client))
    with Stubber(client) as stub:
        stub.add_client_error("publish", "Throttling", "Rate exceeded", 400)
        stub.add_response("publish", {"MessageId": "1"})
        app_notify.notify(("sns", "arn:aws:sns:eu-central-1:123456789012:alerts"), ALERT)
        stub.assert_no_pending_responses()


ALERT = Alert("student", "run_failed", "2026-11-20T14:12:07Z", "the metastore is away", {"dag": "compact_hourly", "log": "https://airflow.example/1"})


def test_an_alert_goes_where_notices_go(hook: tuple[str, type[Hook]], caplog: pytest.LogCaptureFixture) -> None:
    """To each target, as text for people and JSON for programs; one that cannot be reached is logged, and the others are told."""
    url, server = hook
    lake = Lake(table(name="student", notify=(("command", "/nowhere"), ("log",), ("webhook", url))))
    assert not notices.notify_all(Table(dataclasses.replace(lake.env(), notify=app_notify.notify), lake.spec), ALERT, "an alert (run_failed)")
    text = "table student has failed: the metastore is away\n- dag: compact_hourly\n- log: https://airflow.example/1"
    where = {"dag": "compact_hourly", "log": "https://airflow.example/1"}
    told = {
        "table": "student",
        "event": "run_failed",
        "time": "2026-11-20T14:12:07Z",
        "reason": "the metastore is away",
        "where": where,
        "text": text,
    }
    assert server.got == [{"format": 1, **told}]
    assert [record.getMessage() for record in caplog.records] == [
        "student: could not send an alert (run_failed) to command: /nowhere cannot be run: No such file or directory",
        text,
    ]


def test_the_mark_of_a_notice_is_a_path_of_ours() -> None:
    """The inverse of the layout knows it."""
    told = Told()
    told.land(1, a=1)
    told.lake.run()
    told.land(2, a=2, b="x")
    told.lake.run()
    (mark,) = [info.path for info in told.lake.storage.list(f"{told.lake.spec.root}/_compactor/notices")]
    assert told.lake.layout.kind(mark) == "notice"
    assert notice.FORMAT == json.loads(told.lake.storage.read(mark))["format"]


def test_a_recovery_is_told_once_and_for_each_dag() -> None:
    """A failure in one DAG is not over because another one succeeds; a mark that cannot be read counts for nothing."""
    told = Told()
    lake_table = Table(told.lake.env(), told.lake.spec)
    hourly, nightly = {"dag": "compact_hourly"}, {"dag": "maintenance"}
    assert notices.recovered([lake_table], hourly) == []
    notices.alert(lake_table, "table_late", "late", hourly)
    assert notices.recovered([lake_table], hourly) == []
    for where in (hourly, hourly, nightly):
        notices.alert(lake_table, "run_failed", "no", where)
    told.failing = {"sns"}
    told.found.clear()
    assert notices.recovered([lake_table], hourly) == [lake_table.name]
    assert notices.recovered([lake_table], hourly) == []
    ((target, _, message),) = told.found
    assert (target, message.subject, message.urgent) == ("log", f"{lake_table.name} has recovered", False)  # type: ignore[comparison-overlap]
    lake_table.storage.write(lake_table.layout.failed(), b"no json")
    assert notices.recovered([lake_table], nightly) == []


def test_an_alert_is_sent_although_the_store_is_away(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Only its mark is missing, so the recovery is not told."""
    told = Told()
    lake_table = Table(told.lake.env(), told.lake.spec)

    def away(*_: object) -> None:
        raise Unavailable("the store is away")

    monkeypatch.setattr(type(lake_table.storage), "write", away)
    notices.alert(lake_table, "run_failed", "no", {"dag": "compact_hourly"})
    assert [target for target, _, _ in told.found] == ["log", "sns"]
    assert "could not be remembered: the store is away" in caplog.text
    assert notices.recovered([lake_table], {"dag": "compact_hourly"}) == []
