"""Messages in the forms of Slack, Teams and PagerDuty: their limits, and what reaches a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from compactor.app import notify
from compactor.core.model.errors import ConfigError
from compactor.core.results.notice import IN_VARIABLES, Alert, Message, Notice
from compactor.core.schema.diff import Change
from compactor.core.schema.policy import Decision
from compactor.notify import services

WHERE = {"dag": "compact_hourly", "task": "tables.student", "log": "https://airflow.example/log/1"}
FAILED = Alert("student", "run_failed", "2026-11-20T14:12:07Z", "column age: expected int, found 'x'", WHERE)
RECOVERED = Alert("student", "run_recovered", "2026-11-20T15:12:31Z", "the table is up to date", {"dag": "compact_hourly"})
CHANGED = Notice("student", 4, "2026-11-20T00:00:00Z", False, (Decision(Change("added", "n", after="int", detail="null in older rows"), "add", "n"),))
REFUSED = Notice("student", 4, "2026-11-20T00:00:00Z", True, CHANGED.decisions)
LONG = Alert("t" * 400, "run_failed", "2026-11-20T14:12:07Z", "<!channel> *é* " * 40_000, WHERE)
MESSAGES: list[Message] = [
    FAILED,
    RECOVERED,
    CHANGED,
    REFUSED,
    LONG,
    Alert("student", "table_late", "2026-11-20T14:12:07Z", "3 files wait", {}),
    Alert("student", "quarantined", "2026-11-20T14:12:07Z", "2 records", {"page": "http://wiki.example"}),
]


def size(body: Any) -> int:
    """Bytes as JSON."""
    return len(json.dumps(body).encode())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.to_json()["event"])
def test_slack_gets_a_title_plain_text_and_buttons(message: Message) -> None:
    """Within its limits: 150 and 3,000 characters; nothing is formatted, so that no text mentions a channel."""
    body = services.slack(message)
    title, section, *actions = body["blocks"]
    assert (title["type"], title["text"]["type"], section["type"], section["text"]["type"]) == ("header", "plain_text", "section", "plain_text")
    assert 0 < len(title["text"]["text"]) <= 150
    assert 0 < len(section["text"]["text"]) <= 3_000
    assert message.subject[:100] in body["text"]
    addresses = [value for value in message.to_json().get("where", {}).values() if value.startswith("http")]
    assert [button["url"] for block in actions for button in block["elements"]] == addresses
    assert not any(address in section["text"]["text"] for address in addresses)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.to_json()["event"])
def test_teams_gets_an_adaptive_card(message: Message) -> None:
    """In the envelope of a workflow, below 28 KB, with all lines of the text."""
    body = services.teams(message)
    ((kind, card),) = [(each["contentType"], each["content"]) for each in body["attachments"]]
    assert (body["type"], kind, card["type"], card["version"]) == ("message", "application/vnd.microsoft.card.adaptive", "AdaptiveCard", "1.4")
    title, *lines = card["body"]
    assert (title["type"], title["color"]) == ("TextBlock", "Attention" if message.urgent else "Good")
    assert {line["type"] for line in lines} == {"RichTextBlock"}
    assert size(body) < 28_000
    if message is not LONG:
        shown = [line["inlines"][0]["text"] for line in lines] + [f"- {action['title']}: {action['url']}" for action in card["actions"]]
        assert sorted(shown) == sorted(message.text.split("\n"))


@pytest.mark.parametrize(
    ("message", "path", "action", "severity"),
    [
        (FAILED, "/v2/enqueue", "trigger", "error"),
        (LONG, "/v2/enqueue", "trigger", "error"),
        (REFUSED, "/v2/enqueue", "trigger", "error"),
        (MESSAGES[5], "/v2/enqueue", "trigger", "warning"),
        (MESSAGES[6], "/v2/enqueue", "trigger", "warning"),
        (RECOVERED, "/v2/enqueue", "resolve", "info"),
        (CHANGED, "/v2/change/enqueue", None, None),
    ],
    ids=["run_failed", "long", "schema_refused", "table_late", "quarantined", "run_recovered", "schema_changed"],
)
def test_pagerduty_gets_an_incident_its_end_or_a_change(message: Message, path: str, action: str | None, severity: str | None) -> None:
    """With the fields that the Events API requires, below 512 KB."""
    found, body = services.pagerduty(message, "KEY")
    assert (found, body.get("event_action"), body["payload"].get("severity")) == (path, action, severity)
    assert body["routing_key"] == "KEY"
    assert 0 < len(body["payload"]["summary"]) <= 1_024
    assert body["payload"]["source"] == message.to_json()["table"]
    assert size(body) < 512_000


def test_a_recovery_resolves_the_incident_of_its_table_and_dag_only() -> None:
    """A failure in another DAG, of another table, or of another kind stays open."""

    def key(message: Message) -> str:
        return str(services.pagerduty(message, "KEY")[1]["dedup_key"])

    assert key(RECOVERED) == key(FAILED)
    others = [
        Alert("student", "run_failed", FAILED.time, "", {"dag": "maintenance"}),
        Alert("ledger", "run_failed", FAILED.time, "", {"dag": "compact_hourly"}),
        Alert("student", "table_late", FAILED.time, "", {"dag": "compact_hourly"}),
    ]
    assert key(RECOVERED) not in {key(other) for other in others}


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """An address without a path, and the paths and bodies that were posted there."""
    got: list[tuple[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    listening = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}", got
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_each_kind_of_target_posts_its_form(server: tuple[str, list[tuple[str, Any]]], monkeypatch: pytest.MonkeyPatch) -> None:
    """To the address in the variable; PagerDuty's variable may name another server before the key."""
    url, got = server
    bodies = {
        "webhook_env": ("/x", FAILED.to_json()),
        "slack": ("/x", services.slack(FAILED)),
        "teams": ("/x", services.teams(FAILED)),
        "pagerduty": services.pagerduty(FAILED, "x"),
    }
    assert set(bodies) == set(IN_VARIABLES)
    monkeypatch.setenv("CHAT", f"{url}/x")
    for kind, expected in bodies.items():
        notify.notify((kind, "CHAT"), FAILED)
        assert got.pop() == expected
        with pytest.raises(ConfigError, match=r"expected an address or a key in the environment variable \$?NOT_SET, which is not set"):
            notify.notify((kind, "NOT_SET"), FAILED)


def test_pagerduty_has_an_address_of_its_own() -> None:
    """A key alone goes to the usual server, one behind an address there."""
    assert services.pagerduty_address("abc") == ("https://events.pagerduty.com", "abc")
    assert services.pagerduty_address("https://events.eu.pagerduty.com/abc") == ("https://events.eu.pagerduty.com", "abc")
