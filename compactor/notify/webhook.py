"""Messages to an HTTP address, as one POST of JSON; and to the services that Apprise knows, such as Slack, Teams, PagerDuty and mail
(https://appriseit.com/services/, the extra `apprise`). Addresses may contain tokens, so errors show only hosts and names of services."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import requests

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.notice import Message

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 15.0
PAUSES = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds between the attempts. `Retry-After` makes one longer, up to the last."""
MOST_SECONDS = 65.0
"""No attempt begins so long after the first one."""
_unreached: set[str] = set()
"""Hosts that did not accept the last message of this process. The next is tried once: a host that is gone must not hold up hundreds of alerts."""


def to_webhook(url: str, message: Message) -> None:
    """POST the message's own JSON, again after PAUSES where that may help. Raises Unavailable, and Refused for a final error response."""
    # not with urllib3's Retry, which logs the address
    host = urlsplit(url).hostname or "no host"
    why, end = "", time.monotonic() + MOST_SECONDS
    for pause in (*(() if host in _unreached else PAUSES), 0.0):
        retry_after = ""
        try:
            # a redirect would turn the POST into a GET, or carry the notice elsewhere
            answer = requests.post(url, json=message.to_json(), timeout=(CONNECT_SECONDS, ANSWER_SECONDS), allow_redirects=False)
        except (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema, requests.exceptions.InvalidSchema):
            raise Refused(
                "notify: expected a webhook address such as https://host/path, found something else (not shown: it may contain a token)"
            ) from None
        except requests.exceptions.RequestException as error:
            why = type(error).__name__
        else:
            if answer.status_code < 300:
                _unreached.discard(host)
                return
            why, retry_after = f"status {answer.status_code}", answer.headers.get("Retry-After", "")
            if answer.status_code not in (408, 429) and answer.status_code < 500:
                raise Refused(f"notify: the webhook at {host} answered with {why}")
        pause = max(pause, min(float(retry_after), PAUSES[-1]) if retry_after.isdecimal() and pause else 0.0)
        if not pause or time.monotonic() + pause > end:
            break
        time.sleep(pause)
    _unreached.add(host)
    raise Unavailable(f"notify: the webhook at {host} did not accept the message: {why}")


def to_services(addresses: Sequence[str], message: Message) -> None:
    """Send the message to each address. Raises Refused for an address that Apprise does not know, Unavailable for a service that does not take it."""
    try:
        import apprise
    except ImportError:
        raise Refused("notify: messages to services need Apprise, which the extra `apprise` installs") from None
    # its lines may show addresses
    logging.getLogger("apprise").disabled = True
    fields = message.to_json()
    kind = apprise.NotifyType.FAILURE if message.urgent else apprise.NotifyType.INFO
    if fields["event"] == "run_recovered":
        kind = apprise.NotifyType.SUCCESS
    unknown, failed = 0, []
    for address in addresses:
        service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="compactor"))
        if not service.add(address):
            unknown += 1
            continue
        if "overflow=" not in address:
            service[0].overflow_mode = apprise.OverflowMode.TRUNCATE
        # one title for all messages of a table: PagerDuty finds the incident of a failure by it, if the address has `action=map`
        if not service.notify(message.text, f"compactor: {fields['table']}", kind, apprise.NotifyFormat.TEXT):
            failed.append(str(service[0].service_name))
    if unknown:
        raise Refused(
            f"notify: expected addresses such as slack://.., found {unknown} that Apprise does not know (not shown: they may contain tokens)"
        )
    if failed:
        raise Unavailable(f"notify: {', '.join(failed)} did not accept the message. `apprise -vv -b test ADDRESS` shows why")
