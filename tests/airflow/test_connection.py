"""Credentials from Airflow connections: of AWS through the Amazon provider's own hook, of the registry and of webhooks."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from compactor.airflow import connection
from compactor.aws import client
from compactor.config.settings import Settings, load
from compactor.core.model.errors import Refused
from compactor.core.settings.variables import USER_INFO
from compactor.flows.run import failure
from compactor.ports import Submitted
from tests.airflow.conftest import PROGRAM, Company, states

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has used no connection, and two connections."""
    monkeypatch.setattr(connection, "_sessions", {})
    monkeypatch.setattr(connection, "_filled", {})
    monkeypatch.setattr(client, "make_session", client.make_session)
    monkeypatch.setattr(client, "session_region", None)
    monkeypatch.setattr("compactor.airflow.opened._apps", {})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "of the worker")
    for name in ("LAKE", "OTHER"):
        monkeypatch.setenv(f"AIRFLOW_CONN_AWS_{name}", f"aws://KEY_OF_{name}:secret@/?region_name=eu-west-1")
    yield
    connection._sessions.clear()


def settings(tmp_path: Path, said: str) -> Settings:
    """A configuration."""
    file = tmp_path / "compactor.yaml"
    file.write_text(f"{said}\ntables: {{t: {{key: [id]}}}}\n", encoding="utf-8")
    return load(file)


def test_clients_and_commands_get_the_credentials_of_the_connection(tmp_path: Path) -> None:
    """Instead of the worker's; the worker's session token must not be sent with another's key."""
    connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_lake}"))
    made = client.connect("s3", client.ClientConfig(), None)
    assert made._request_signer._credentials.access_key == "KEY_OF_LAKE"
    connection.export()
    assert [os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION")] == ["KEY_OF_LAKE", "eu-west-1", "eu-west-1"]
    assert "AWS_SESSION_TOKEN" not in os.environ


def test_the_connections_region_comes_before_that_of_the_environment(tmp_path: Path) -> None:
    """In S3 and in every other service; a key of the configuration comes before both."""
    from compactor.storage.s3.client import S3Client

    connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_lake}"))
    assert client.AwsClient("emr", client.ClientConfig()).region == "eu-west-1"
    assert client.AwsClient("emr", client.ClientConfig("eu-north-1")).region == "eu-north-1"
    assert S3Client(settings(tmp_path, "").s3_keys).settings.region == "eu-west-1"
    assert S3Client(settings(tmp_path, "region: eu-north-1").s3_keys).settings.region == "eu-north-1"


def test_a_connection_without_region_leaves_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_REGION before AWS_DEFAULT_REGION, as without a connection; and none where there is none."""
    from compactor.storage.s3.client import S3Client

    monkeypatch.setenv("AIRFLOW_CONN_AWS_LAKE", "aws://KEY_OF_LAKE:secret@/")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_lake}"))
    assert client.AwsClient("emr", client.ClientConfig()).region == "eu-central-1"
    assert S3Client(settings(tmp_path, "").s3_keys).settings.region == "eu-central-1"
    connection.export()
    assert [os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION")] == ["KEY_OF_LAKE", "eu-central-1", "us-east-1"]
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert S3Client(settings(tmp_path, "").s3_keys).settings.region is None


def test_a_moment_without_sts_ends_no_wait_for_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that assumes a role asks for it when its session is made."""
    from botocore.client import BaseClient
    from botocore.exceptions import EndpointConnectionError

    from compactor.airflow.triggers import JobTrigger

    def away(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://sts.eu-west-1.amazonaws.com/")

    monkeypatch.setattr(BaseClient, "_make_api_call", away)
    role = "role_arn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fx"
    monkeypatch.setenv("AIRFLOW_CONN_AWS_LAKE", f"aws://KEY_OF_LAKE:secret@/?region_name=eu-west-1&{role}")
    file = settings(tmp_path, "airflow: {aws_conn_id: aws_lake}").file
    trigger = JobTrigger(str(file), ["t"], asdict(Submitted("job-1", "s3://logs/r", time.time() + 0.3)), 0.1)
    payload = asyncio.run(anext(trigger.run())).payload
    assert "aws_conn_id: no credentials by the connection aws_lake" in payload["problem"]


def test_airflows_own_errors_are_known_before_3_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """`airflow.sdk.exceptions` has their exception there too, and not those of tasks."""
    import runpy

    from airflow.sdk import exceptions

    from compactor.airflow import compat

    for name in ("AirflowException", "AirflowFailException", "AirflowSkipException", "DownstreamTasksSkipped"):
        monkeypatch.setattr("airflow.exceptions." + name, getattr(exceptions, name), raising=False)
    monkeypatch.delattr(exceptions, "DownstreamTasksSkipped")
    old = runpy.run_path(str(compat.__file__))
    assert (old["AsyncCallback"], old["AirflowRuntimeError"]) == (None, exceptions.AirflowRuntimeError)


def test_a_changed_connection_is_used_after_some_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A triggerer runs for weeks. One that stays as it is keeps its session, which renews the credentials of a role."""
    from compactor.airflow import opened

    file = settings(
        tmp_path, "airflow: {aws_conn_id: aws_lake, conn_ids: {SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO: registry}}\nregistry: {url: 'http://r'}"
    ).file
    monkeypatch.setenv(USER_INFO, "of the worker")
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", "http://me:old@")
    now = time.time()
    monkeypatch.setattr("compactor.airflow.opened.time.time", lambda: now)
    first, session = opened.opened(str(file)), client.make_session()
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", "http://me:new@")
    assert (opened.opened(str(file)), os.environ[USER_INFO]) == (first, "me:old")
    now += opened.RENEW_SECONDS
    opened.opened(str(file))
    assert (client.make_session(), os.environ[USER_INFO]) == (session, "me:new")
    monkeypatch.setenv("AIRFLOW_CONN_AWS_LAKE", "aws://NEW_KEY:secret@/?region_name=eu-west-1")
    now += opened.RENEW_SECONDS
    opened.opened(str(file))
    assert client.make_session().get_credentials().access_key == "NEW_KEY"


def test_tables_in_s3_are_read_with_the_connections_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By tasks and triggers, and when Airflow reads the DAG files: these may have no other credentials."""
    from compactor.airflow import dags, opened
    from compactor.storage.s3.storage import S3Storage

    asked: list[str] = []
    monkeypatch.setattr(S3Storage, "list", lambda self, folder: asked.append(client.make_session().get_credentials().access_key) or iter(()))
    file = settings(tmp_path, "airflow: {aws_conn_id: aws_lake}\ndiscovered: s3://lake/tables.d").file
    opened.open_app(str(file))
    monkeypatch.setattr(connection, "_sessions", {})
    monkeypatch.setattr(client, "make_session", lambda: None)
    monkeypatch.setenv("COMPACTOR_CONFIG", str(file))
    dags.settings("")
    assert asked == ["KEY_OF_LAKE", "KEY_OF_LAKE"]


class Decoder:
    """How Airflow 3.0 to 3.2 ask for connections in the triggerer: through streams of its event loop, one question after another."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        (self.reader, self.writer), self.lock, self.sent, self.loop = streams, asyncio.Lock(), 0, asyncio.get_running_loop()

    async def asend(self, question: Any) -> Any:
        """Ask, and read the answer to that question."""
        from airflow.sdk.execution_time.comms import ConnectionResult

        async with self.lock:
            self.sent += 1
            self.writer.write(f"{self.sent}\n".encode())
            if int(await self.reader.readline()) != self.sent:
                raise RuntimeError("Response read out of order")
        if type(question).__name__ != "GetConnection":
            return None
        empty = dict.fromkeys(("host", "schema", "login", "port", "extra"))
        return ConnectionResult(conn_id="chat", conn_type="http", password="https://chat.example", **empty)

    def send(self, question: Any) -> Any:
        """The same for synchronous code."""
        from asgiref.sync import async_to_sync

        return async_to_sync(self.asend)(question)


def test_a_triggers_question_is_asked_where_airflow_reads_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere the answer is left unread, and the next one that the triggerer reads ends it with all its triggers."""
    from airflow.sdk.execution_time import task_runner

    from compactor.airflow.alerts import late
    from compactor.airflow.triggers import HourTrigger

    file = settings(tmp_path, "airflow: {conn_ids: {SCHEMA_HOOK: chat}}\ndefaults: {notify: [{webhook_env: SCHEMA_HOOK}]}").file
    monkeypatch.setenv("SCHEMA_HOOK", "of the worker")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await asyncio.sleep(0.05)
            writer.write(line)

    async def triggerer() -> int:
        ours, theirs = socket.socketpair()
        task = asyncio.ensure_future(answer(*await asyncio.open_connection(sock=theirs)))
        decoder = Decoder(await asyncio.open_connection(sock=ours))
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", decoder, raising=False)
        for ask in (
            lambda: anext(HourTrigger(str(file), ["t"], "2024-03-05T01", time.time() + 0.5, 0.1).run()),
            lambda: late(str(file), ["t"], "0:50:00"),
        ):
            monkeypatch.setattr("compactor.airflow.opened._apps", {})
            await ask()
            await decoder.asend("what is new?")
            assert os.environ.pop("SCHEMA_HOOK") == "https://chat.example"
        task.cancel()
        return decoder.sent

    assert asyncio.run(triggerer()) >= 4


def test_without_a_connection_nothing_changes(tmp_path: Path) -> None:
    """AWS's standard chain."""
    connection.use(settings(tmp_path, "airflow: {}"))
    connection.export()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "of the worker"
    assert client.connect("s3", client.ClientConfig(), "eu-west-1")._request_signer._credentials.access_key == "of the worker"


@pytest.mark.parametrize("said", ["airflow: {aws_conn_id: aws_other}", "airflow: {}"])
def test_a_process_has_one_connection(tmp_path: Path, said: str) -> None:
    """The triggerer works for every configuration, and must not mix their credentials."""
    connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_lake}"))
    with pytest.raises(Refused, match="expected aws_lake, as another configuration of this Airflow has; found"):
        connection.use(settings(tmp_path, said))


def test_a_connection_that_airflow_does_not_have_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(Refused, match="aws_nowhere"):
        connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_nowhere}"))


# ---- registry and webhooks -------------------------------------------------------------------------------------------

SECRET = "T000/B000/of-the-chat"


@dataclass
class Listener:
    """A registry and a chat program in one."""

    url: str = ""
    asked: list[tuple[str, str | None, str]] = field(default_factory=list)
    """Path, Authorization and body of each request."""


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """It takes every message, and has one subject."""
    found = Listener()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            """Note it."""
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            found.asked.append((self.path, self.headers.get("Authorization"), text))
            body = b'["student-value"]'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

    for name in ("REG_TOKEN", "SCHEMA_HOOK", "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"):
        # so that they are as before in the end
        monkeypatch.setenv(name, "of the worker")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        connections = {
            "SCHOOL_REGISTRY": {"conn_type": "http", "login": "me", "password": "pass word"},
            "CHAT": {"conn_type": "http", "host": f"{found.url}/services", "password": SECRET},
        }
        for name, told in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(told))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


def configured(company: Company, listener: Listener, registry: dict[str, str] | None = None) -> Path:
    """A configuration that uses both; its command line is a program. Returns the program's answers."""
    answers = company.folder / "answers.json"
    said = {
        "registry": {"url": listener.url, **(registry or {})},
        "airflow": {
            "command": [sys.executable, str(PROGRAM), str(answers)],
            "conn_ids": {"SCHEMA_HOOK": "chat", (registry or {}).get("token_env", USER_INFO): "school_registry"},
        },
        "defaults": {"notify": [{"webhook_env": "SCHEMA_HOOK"}], "retries": 0},
        "catalog": {"database": "connected"},
        "tables": {"student": {"key": ["id"]}},
    }
    company.config.write_text(json.dumps(said), encoding="utf-8")
    return answers


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ({}, "Basic bWU6cGFzcyB3b3Jk"),
        ({"token_env": "REG_TOKEN"}, "Bearer pass word"),
    ],
)
def test_the_registry_is_asked_with_the_connections_credentials(company: Company, listener: Listener, keys: dict[str, str], sent: str) -> None:
    """Through the variables that the configuration names, else through Confluent's own."""
    from compactor.airflow.opened import open_app

    configured(company, listener, keys)
    with open_app(str(company.config)) as app:
        assert app.registry().subjects() == ["student-value"]
    assert [authorization for _, authorization, _ in listener.asked] == [sent]


def test_an_alert_goes_to_the_connections_address_and_no_secret_is_shown(
    company: Company, listener: Listener, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command line has it in its environment. Neither the logs, the fields of the tasks, nor what they return have it."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from airflow.sdk.log import redact
    from airflow.utils.session import create_session

    answers = configured(company, listener)
    hook = f"{listener.url}/services/{SECRET}"
    report = failure("student", Refused("no such operation")).to_json()
    answers.write_text(json.dumps({"run": {"found": [report], "code": 1, "shows": ["SCHEMA_HOOK", "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"]}}))
    folder = company.folder / "warehouse/student/incremental/increment_2024030502"
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_text('{"id": 1}\n', encoding="utf-8")
    moment = datetime(2024, 2, 5, 4, 10, tzinfo=timezone.utc)
    run = company.dag("compact_hourly").test(logical_date=moment, run_after=moment)
    assert states(run)["tables.student"] == "failed"
    ((path, _, body),) = listener.asked
    assert (path, json.loads(body)["event"]) == (f"/services/{SECRET}", "run_failed")
    assert json.loads(answers.with_suffix(".shown").read_text(encoding="utf-8")) == [hook, "me:pass word"]

    # the process above each task masks what the task has logged; in this one there is none
    logged = "".join(capfd.readouterr())
    assert SECRET in logged
    shown = str(redact(logged))
    assert "the program's environment has" in shown
    with create_session() as session:
        for kind in (XComModel, RenderedTaskInstanceFields):
            rows = session.query(kind).filter_by(dag_id="compact_hourly", run_id=run.run_id).all()
            assert rows
            shown += "".join(str(vars(row)) for row in rows)
    for secret in (SECRET, "pass word"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ({"password": "https://chat.example/hook?sig=1"}, "https://chat.example/hook?sig=1"),
        ({"host": "https://hooks.slack.com/services", "password": "T/B/x"}, "https://hooks.slack.com/services/T/B/x"),
        ({"host": "chat.example", "schema": "http", "port": 8080, "password": "/x"}, "http://chat.example:8080/x"),
        ({"host": "chat.example"}, "https://chat.example"),
        ({"login": "me"}, None),
    ],
)
def test_the_address_in_a_connection(
    company: Company, listener: Listener, monkeypatch: pytest.MonkeyPatch, told: dict[str, str], address: str | None
) -> None:
    """A password alone, or host and password, as people fill in the form."""
    configured(company, listener)
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps({"conn_type": "http", **told}))
    if address is None:
        with pytest.raises(Refused, match="expected an address as password or host of the connection chat"):
            connection.use(load(company.config))
        return
    connection.use(load(company.config))
    assert os.environ["SCHEMA_HOOK"] == address


def test_connections_that_do_not_fit_are_refused(company: Company, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, and without what is in them; a variable is of one connection in a process."""
    configured(company, listener)
    connection.use(load(company.config))
    text = company.config.read_text(encoding="utf-8")
    company.config.write_text(text.replace('"chat"', '"nowhere"'), encoding="utf-8")
    with pytest.raises(Refused, match=r"airflow.conn_ids: Airflow has no connection nowhere"):
        connection.use(load(company.config))
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", json.dumps({"conn_type": "http", "password": "https://other.example"}))
    with pytest.raises(Refused, match="variable SCHEMA_HOOK: expected the connection chat, as another configuration has; found nowhere"):
        connection.use(load(company.config))
    monkeypatch.setenv("AIRFLOW_CONN_SCHOOL_REGISTRY", json.dumps({"conn_type": "http", "password": SECRET}))
    company.config.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match="the connection school_registry has no value for the variable SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO") as refused:
        connection.use(load(company.config))
    assert SECRET not in str(refused.value)
