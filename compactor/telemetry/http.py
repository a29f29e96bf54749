"""Sinks that send by HTTP: a Prometheus pushgateway, and a receiver of OpenLineage events such as Marquez. Addresses may contain a token, so errors
show only the host.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import urlsplit

from compactor.core.measures import prometheus
from compactor.core.measures.measures import Measured
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.settings.metrics import MetricsSettings

TIMEOUT_SECONDS = 15.0
TOKEN = "OPENLINEAGE_API_KEY"  # noqa: S105 - the name of a variable, which OpenLineage's own clients read too
"""Environment variable with the receiver's token; without it none is sent."""


def push(measured: Measured, settings: MetricsSettings) -> None:
    """Replace the values of each table in the pushgateway; other values of the table stay. Raises Refused and Unavailable."""
    for table in measured.tables:
        labels = {"job": "compactor", "deployment": settings.deployment, "table": table.table}
        path = "".join(f"/{name}@base64/{base64.urlsafe_b64encode(value.encode()).decode()}" for name, value in labels.items())
        text = prometheus.text([table], {"deployment": settings.deployment})
        post(f"{str(settings.pushgateway).rstrip('/')}/metrics{path}", text.encode(), {"Content-Type": "text/plain; version=0.0.4"})


def send_events(measured: Measured, settings: MetricsSettings) -> None:
    """POST each OpenLineage event. Raises Refused and Unavailable."""
    token = os.environ.get(TOKEN, "").strip()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    for event in measured.events:
        post(str(settings.openlineage), json.dumps(event, ensure_ascii=False).encode(), headers)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, or carry a token elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """POST once. Raises Refused for a final error response, and Unavailable if there is no answer."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused("expected an address such as http://host:9091 (not shown: it may contain a token)")
    request = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")  # noqa: S310 - the scheme is checked above
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_SECONDS) as response:
            response.read()
    except urllib.error.HTTPError as error:
        kind = Unavailable if error.code in (408, 429) or error.code >= 500 else Refused
        raise kind(f"{parts.hostname} answered with status {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{parts.hostname} does not answer: {type(error).__name__}") from None
