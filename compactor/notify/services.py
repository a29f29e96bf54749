"""Messages to the services that Apprise knows, such as Slack, Teams, PagerDuty and mail: https://appriseit.com/services/. Needs the extra `apprise`.

Addresses contain tokens, so errors show only the names of services.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.notice import Message


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
