"""Messages to an HTTP address: one POST of JSON. The address may contain a token, so errors show only its host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests

from compactor.core.model.errors import ConfigError, Refused, Unavailable, variable
from compactor.core.results.notice import Message
from compactor.notify import services

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 15.0
ATTEMPTS = 3


def address_in(name: str) -> str:
    """Return the address, or the key, from an environment variable. Raises ConfigError if it is not set."""
    url = os.environ.get(name, "").strip()
    if not url:
        raise ConfigError(f"notify: expected an address or a key in the environment variable {variable(name)}, which is not set or empty")
    return url


def to_webhook(url: str, message: Message) -> None:
    """POST the message's own JSON. Raises Unavailable after ATTEMPTS, Refused for a final error response."""
    _post(url, message.to_json())


def to_service(kind: str, value: str, message: Message) -> None:
    """POST the message in the form of a service. Raises as `to_webhook` does.

    kind: `slack`, `teams` or `pagerduty`. value: the address; PagerDuty's integration key.
    """
    if kind == "pagerduty":
        server, key = services.pagerduty_address(value)
        path, body = services.pagerduty(message, key)
        _post(server + path, body)
    else:
        _post(value, services.slack(message) if kind == "slack" else services.teams(message))


def _post(url: str, body: Mapping[str, Any]) -> None:
    host = urlsplit(url).hostname or "no host"
    why = ""
    for _ in range(ATTEMPTS):
        try:
            # a redirect would turn the POST into a GET, or carry the notice elsewhere
            answer = requests.post(url, json=body, timeout=(CONNECT_SECONDS, ANSWER_SECONDS), allow_redirects=False)
        except (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema, requests.exceptions.InvalidSchema):
            raise Refused(
                "notify: expected a webhook address such as https://host/path, found something else (not shown: it may contain a token)"
            ) from None
        except requests.exceptions.RequestException as error:
            why = type(error).__name__
            continue
        if answer.status_code < 300:
            return
        why = f"status {answer.status_code}"
        if answer.status_code not in (408, 429) and answer.status_code < 500:
            raise Refused(f"notify: the webhook at {host} answered with {why}")
    raise Unavailable(f"notify: the webhook at {host} did not accept the message: {why}")
