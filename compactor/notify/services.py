"""Messages in the forms of Slack, Microsoft Teams and PagerDuty. Plain JSON values; nothing is sent here.

Formats: Slack's incoming webhooks with Block Kit (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks), Adaptive Cards 1.4
posted to a Teams workflow (https://adaptivecards.io/explorer/AdaptiveCard.html), PagerDuty's Events API v2
(https://developer.pagerduty.com/docs/events-api-v2-overview).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compactor.core.results.notice import Message

SLACK_TITLE_CHARS_MAX = 150
SLACK_TEXT_CHARS_MAX = 3_000
TEAMS_TEXT_CHARS_MAX = 20_000
"""Teams refuses messages over 28 KB."""
PAGERDUTY_SUMMARY_CHARS_MAX = 1_024
PAGERDUTY_DETAILS_BYTES_MAX, PAGERDUTY_TEXT_CHARS_MAX = 400_000, 30_000
"""PagerDuty refuses events over 512 KB. A character is at most 12 bytes of JSON."""
PAGERDUTY = "https://events.pagerduty.com"

_SEVERITY = {"run_failed": "error", "schema_refused": "error", "table_late": "warning", "quarantined": "warning"}


def slack(message: Message) -> dict[str, Any]:
    """Return a message with a title, the text, and a button for each address; `text` is what a notification shows."""
    title = f"{_symbol(message)} {message.subject}"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(title, SLACK_TITLE_CHARS_MAX)}},
        # plain text, because names of columns and errors may contain what Slack reads as formatting or as a mention
        {"type": "section", "text": {"type": "plain_text", "text": _cut(_body(message), SLACK_TEXT_CHARS_MAX), "emoji": False}},
    ]
    links = _links(message)
    if links:
        buttons = [{"type": "button", "text": {"type": "plain_text", "text": name}, "url": url} for name, url in links.items()]
        blocks.append({"type": "actions", "elements": buttons})
    return {"text": _cut(title, SLACK_TITLE_CHARS_MAX), "blocks": blocks}


def teams(message: Message) -> dict[str, Any]:
    """Return an Adaptive Card with a title, the text, and a button for each address, in the envelope of a Teams workflow."""
    colour = "Attention" if message.urgent else "Good"
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": message.subject, "size": "Large", "weight": "Bolder", "color": colour, "wrap": True},
            # a RichTextBlock is not read as Markdown; one for each line, because clients differ in line breaks
            *(
                {"type": "RichTextBlock", "spacing": "None", "inlines": [{"type": "TextRun", "text": line}]}
                for line in _cut(_body(message), TEAMS_TEXT_CHARS_MAX).split("\n")
                if line
            ),
        ],
        "actions": [{"type": "Action.OpenUrl", "title": name, "url": url} for name, url in _links(message).items()],
    }
    return {"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}]}


def pagerduty(message: Message, routing_key: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of an event.

    A message that needs somebody opens an incident, `run_recovered` closes the one of the same table and DAG, and a schema change that stops nothing
    is a change event, which calls nobody.
    """
    fields = message.to_json()
    event, dag = fields["event"], fields.get("where", {}).get("dag", "")
    # rare: a change of thousands of columns
    details = fields if len(json.dumps(fields)) < PAGERDUTY_DETAILS_BYTES_MAX else {"text": _cut(message.text, PAGERDUTY_TEXT_CHARS_MAX)}
    summary = _cut(message.text.split("\n")[0], PAGERDUTY_SUMMARY_CHARS_MAX)
    payload = {"summary": summary, "source": fields["table"], "timestamp": fields["time"], "custom_details": details}
    links = [{"href": url, "text": name} for name, url in _links(message).items()]
    body = {"routing_key": routing_key, "payload": payload, "links": links}
    if not message.urgent and event != "run_recovered":
        return "/v2/change/enqueue", body
    incident = "run_failed" if event == "run_recovered" else event
    severity = {"severity": _SEVERITY.get(event, "info"), "component": fields["table"], "group": dag, "class": event}
    return "/v2/enqueue", {
        **body,
        "payload": {**payload, **severity},
        "event_action": "resolve" if event == "run_recovered" else "trigger",
        "dedup_key": "/".join(["compactor", fields["table"], incident, *([dag] if dag else [])]),
        "client": "compactor",
    }


def pagerduty_address(value: str) -> tuple[str, str]:
    """Return server and routing key of a value: the key alone, or the key behind another server, `https://events.eu.pagerduty.com/<key>`."""
    server, slash, key = value.rpartition("/")
    return (server if slash else PAGERDUTY), key


def _symbol(message: Message) -> str:
    return ":red_circle:" if message.urgent else ":large_green_circle:"


def _links(message: Message) -> Mapping[str, str]:
    where = message.to_json().get("where", {})
    return {name: value for name, value in where.items() if value.startswith(("https://", "http://"))}


def _body(message: Message) -> str:
    """Return the text without the lines that are buttons."""
    buttons = {f"- {name}: {url}" for name, url in _links(message).items()}
    return "\n".join(line for line in message.text.split("\n") if line not in buttons)


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 3] + "..."
