"""Send messages to the targets of `notify:`."""

from __future__ import annotations

import os

from compactor.core.model.errors import ConfigError, variable
from compactor.core.results.notice import IN_VARIABLES, Message, Target
from compactor.notify import local


def notify(target: Target, message: Message) -> None:
    """Send a message to one target. Raises Refused or Unavailable, and ConfigError for a variable that is not set."""
    kind, *words = target
    if kind in IN_VARIABLES:
        kind, words = kind.removesuffix("_env"), _addresses(words[0])
    if kind == "log":
        local.to_log(message)
    elif kind == "command":
        local.to_command(words, message)
    elif kind == "sns":
        from compactor.notify.sns import to_sns

        to_sns(words[0], message)
    elif kind == "webhook":
        from compactor.notify.webhook import to_webhook

        to_webhook(words[0], message)
    else:
        from compactor.notify.webhook import to_services

        to_services(words, message)


def _addresses(name: str) -> list[str]:
    addresses = os.environ.get(name, "").split()
    if not addresses:
        raise ConfigError(f"notify: expected an address in the environment variable {variable(name)}, which is not set or empty")
    return addresses
