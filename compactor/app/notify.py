"""Send messages to the targets of `notify:`."""

from __future__ import annotations

from compactor.core.results.notice import Message, Target


def notify(target: Target, message: Message) -> None:
    """Send a message to one target. Raises Refused or Unavailable."""
    from compactor.notify import local

    kind, *words = target
    if kind == "log":
        local.to_log(message)
    elif kind == "command":
        local.to_command(words, message)
    elif kind == "sns":
        from compactor.notify.sns import to_sns

        to_sns(words[0], message)
    else:
        from compactor.notify.webhook import address_in, to_service, to_webhook

        if kind == "webhook":
            to_webhook(words[0], message)
        elif kind == "webhook_env":
            to_webhook(address_in(words[0]), message)
        else:
            to_service(kind, address_in(words[0]), message)
