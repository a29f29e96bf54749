"""Messages to an HTTP address: one POST of JSON. The address may contain a token, so errors show only its host."""

from __future__ import annotations

from urllib.parse import urlsplit

import requests

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.notice import Message

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 15.0
ATTEMPTS = 3


def to_webhook(url: str, message: Message) -> None:
    """POST the message's own JSON. Raises Unavailable after ATTEMPTS, Refused for a final error response."""
    host = urlsplit(url).hostname or "no host"
    why = ""
    for _ in range(ATTEMPTS):
        try:
            # a redirect would turn the POST into a GET, or carry the notice elsewhere
            answer = requests.post(url, json=message.to_json(), timeout=(CONNECT_SECONDS, ANSWER_SECONDS), allow_redirects=False)
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
