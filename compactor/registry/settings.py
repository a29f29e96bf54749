"""How a registry is reached: addresses, identity, certificates, patience. Secrets are named here, and read from the environment when they are used.

Where secrets come from, the first that is there: the environment variables named by `token_env`, `password_env` and `username_env`; user and
password inside an address; `SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO` (`user:password`); the machine's `.netrc`. Proxies come from `proxy`, else
from `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`; authorities from `ca_file`, else from `REQUESTS_CA_BUNDLE`, else Python's own.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from compactor.core.model.errors import ConfigError

USER_INFO = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"


@dataclass(frozen=True)
class RegistrySettings:
    """One registry. `urls` are addresses of the same contents, tried in turn. Times in seconds.

    `context` names a context of Confluent's server (`lab` or `.lab`); subjects are then spoken of without it.
    `attempts` counts rounds over all addresses; `deadline_seconds` bounds one question with all its repetitions.
    `cache_dir` keeps versions and ids, which never change, from one process to the next; "" keeps them in memory only.
    """

    urls: tuple[str, ...]
    context: str = ""
    username: str = ""
    username_env: str = ""
    password_env: str = ""
    token_env: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    proxy: str = field(default="", repr=False)
    connect_seconds: float = 5.0
    read_seconds: float = 20.0
    deadline_seconds: float = 60.0
    attempts: int = 5
    cache_dir: str = ""

    def __repr__(self) -> str:
        return f"RegistrySettings({', '.join(shown(url) for url in self.urls)}{f', context {self.context}' if self.context else ''})"


@dataclass(frozen=True)
class Identity:
    """Who we are to the registry: a token, or user and password, or nobody in particular."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that no message may hold."""
        pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode() if self.password else ""
        return tuple(secret for secret in (self.password, self.token, pair) if secret)


def addresses(settings: RegistrySettings) -> tuple[str, ...]:
    """The addresses without user and password, without a slash at the end. Raises ConfigError."""
    if not settings.urls:
        raise ConfigError("registry: no address. Say `url:`, or a folder of .avsc files.")
    return tuple(_address(url) for url in settings.urls)


def _address(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ConfigError(f"registry: {shown(url)!r} is no address; expected something like https://registry.example:8081") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"registry: expected an address like https://registry.example:8081, without ? and #; found {shown(url)!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def proxy(settings: RegistrySettings) -> str:
    """The proxy that is named, or "". Raises ConfigError."""
    try:
        parts = urlsplit(settings.proxy)
        usable = not settings.proxy or (parts.scheme in ("http", "https") and parts.hostname and " " not in settings.proxy and (parts.port or True))
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("registry: expected a `proxy` like http://proxy.example:3128, found something else (not shown: it may hold a password)")
    return settings.proxy


def hidden(settings: RegistrySettings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Secrets that stand in the addresses of proxies: no message may hold them."""
    found = [settings.proxy, *(value for name, value in environment.items() if name.lower() in ("http_proxy", "https_proxy", "all_proxy"))]
    users = [url.partition("://")[2].rpartition("@")[0] or url.rpartition("@")[0] for url in found]
    secrets = [user.partition(":")[2] for user in users]
    return tuple(form for secret in secrets if secret for form in (secret, unquote(secret)))


def shown(url: str) -> str:
    """An address as messages may show it: without user, password and query."""
    head, mark, rest = url.partition("://")
    if not mark:
        head, rest = "", url
    rest = rest.split("?")[0].split("#")[0]
    host, slash, path = rest.partition("/")
    return f"{head}{mark}{host.rpartition('@')[2]}{slash}{path}"


def identity(settings: RegistrySettings, environment: Mapping[str, str]) -> Identity:
    """Who we are, or nobody: then requests looks into the machine's .netrc. Raises ConfigError for a variable that is not set."""
    if settings.token_env:
        return Identity(token=_said(settings.token_env, "token_env", environment))
    if settings.username or settings.username_env:
        username = settings.username or _said(settings.username_env, "username_env", environment)
        if not settings.password_env:
            raise ConfigError("registry: `username` without `password_env`, the name of the environment variable that holds the password")
        return Identity(username, _said(settings.password_env, "password_env", environment))
    for url in settings.urls:
        parts = urlsplit(url)
        if parts.username or parts.password:
            return Identity(unquote(parts.username or ""), unquote(parts.password or ""))
    username, _, password = environment.get(USER_INFO, "").partition(":")
    return Identity(username, password)


def _said(name: str, key: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise ConfigError(f"registry: `{key}` names the environment variable {name}, which is not set or empty")
    return value
