"""Settings of a registry: addresses, credentials, certificates, timeouts. Settings contain the names of secrets, never the secrets themselves.

The first of these sources is used for credentials: the environment variable named by `token_env`; user and password in an address;
`SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO` (`user:password`); the machine's `.netrc`. Proxies come from `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`,
authorities from `REQUESTS_CA_BUNDLE`, otherwise from Python's own.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from compactor.core.model.errors import ConfigError, variable
from compactor.core.settings.variables import USER_INFO


@dataclass(frozen=True)
class RegistrySettings:
    """Settings of one registry."""

    urls: tuple[str, ...]
    """Addresses of the same registry, tried in turn."""

    context: str = ""
    """Context of Confluent's server (`lab` or `.lab`). Subjects are named without it."""

    token_env: str = ""
    """Environment variable with a bearer token."""

    cert_file: str = ""
    """PEM file with the client certificate and its key, for mutual TLS."""

    connect_seconds: float = 5.0
    """Timeout for a connection."""

    read_seconds: float = 20.0
    """Timeout for the next part of a response."""

    deadline_seconds: float = 60.0
    """Limit for one request with all its retries."""

    attempts: int = 5
    """Number of rounds over all addresses."""

    def __repr__(self) -> str:
        return f"RegistrySettings({', '.join(shown(url) for url in self.urls)}{f', context {self.context}' if self.context else ''})"


@dataclass(frozen=True)
class Identity:
    """Credentials for the registry: a token, user and password, or none."""

    username: str = ""
    """User; "": none."""

    password: str = field(default="", repr=False)
    """Password of the user."""

    token: str = field(default="", repr=False)
    """Bearer token; "": none."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return all texts that no message may contain."""
        pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode() if self.password else ""
        return tuple(secret for secret in (self.password, self.token, pair) if secret)


def addresses(settings: RegistrySettings) -> tuple[str, ...]:
    """Return the addresses without user, password and a slash at the end. Raises ConfigError for an invalid one."""
    if not settings.urls:
        raise ConfigError("registry: no address. Set `url:` to an address, or to a folder of .avsc files.")
    return tuple(_address(url) for url in settings.urls)


def _address(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ConfigError(f"registry: {shown(url)!r} is no address; expected something like https://registry.example:8081") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in parts.path:
        raise ConfigError(f"registry: expected an address like https://registry.example:8081, without ? and #; found {shown(url)!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def hidden(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the addresses of proxies, which no message may contain."""
    proxies = [value for name, value in environment.items() if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]
    users = [url.partition("://")[2].rpartition("@")[0] or url.rpartition("@")[0] for url in proxies]
    secrets = [user.partition(":")[2] for user in users]
    return tuple(form for secret in secrets if secret for form in (secret, unquote(secret)))


def shown(url: str) -> str:
    """Return an address for messages: without user, password and query."""
    head, mark, rest = url.partition("://")
    if not mark:
        head, rest = "", url
    # up to the last @, because a password may have / ? and # that are not percent-encoded
    rest = rest.rpartition("@")[2].split("?")[0].split("#")[0]
    return f"{head if head.isalpha() else ''}{mark}{rest}"


def identity(settings: RegistrySettings, environment: Mapping[str, str]) -> Identity:
    """Return the credentials. Without any, requests uses the machine's .netrc. Raises ConfigError for a variable that is not set."""
    if settings.token_env:
        return Identity(token=_variable(settings.token_env, "token_env", environment))
    for url in settings.urls:
        parts = urlsplit(url)
        if parts.username or parts.password:
            return Identity(unquote(parts.username or ""), unquote(parts.password or ""))
    username, _, password = environment.get(USER_INFO, "").partition(":")
    return Identity(username, password)


def _variable(name: str, key: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise ConfigError(f"registry: `{key}` names the environment variable {variable(name)}, which is not set or empty")
    return value
