"""HTTP requests to a registry, with retries until a deadline. The result is JSON or an error with what to do.

Retried, at the next address and after a growing random pause (Retry-After is honoured): connections that are refused, cut or time out, 408, 429,
5xx, and truncated responses. Not retried: every other status, an untrusted certificate, a page instead of JSON.
No request changes the registry, so each may be repeated.

Settings contain the names of secrets, never the secrets themselves. The first of these sources is used for credentials: the variable named by
`token_env`; user and password in an address; `SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO` (`user:password`); the machine's `.netrc`. Proxies come from
`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`, authorities from `REQUESTS_CA_BUNDLE`, otherwise from Python's own.
"""

from __future__ import annotations

import base64
import email.utils
import json
import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any, NoReturn
from urllib.parse import unquote, urlencode, urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import HTTPError

from compactor.core.model.errors import ConfigError, RegistryRefused, Unavailable, variable
from compactor.core.settings.variables import USER_INFO


@dataclass(frozen=True)
class RegistrySettings:
    """Settings of one registry."""

    urls: tuple[str, ...]
    """Addresses of the same registry, tried in turn."""
    context: str = ""
    """Context of Confluent's server (`lab` or `.lab`). Subjects are named without it."""
    token_env: str = ""
    cert_file: str = ""
    """PEM file with the client certificate and its key, for mutual TLS."""
    connect_seconds: float = 5.0
    read_seconds: float = 20.0
    """Timeout for the next part of a response."""
    deadline_seconds: float = 60.0
    """Limit for one request with all its retries."""
    attempts: int = 5
    """Number of rounds over all addresses."""

    def __repr__(self) -> str:
        return f"RegistrySettings({', '.join(shown(url) for url in self.urls)}{f', context {self.context}' if self.context else ''})"


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


def _credentials(settings: RegistrySettings, environment: Mapping[str, str]) -> tuple[AuthBase | None, tuple[str, ...]]:
    """Return the credentials, and the texts of them that no message may contain. Without any, requests uses the machine's .netrc.

    Raises ConfigError for a variable that is not set.
    """
    if settings.token_env:
        token = environment.get(settings.token_env, "").strip()
        if not token:
            raise ConfigError(f"registry: `token_env` names the environment variable {variable(settings.token_env)}, which is not set or empty")
        return _Bearer(token), (token,)
    named = (parts for parts in map(urlsplit, settings.urls) if parts.username or parts.password)
    pairs = [(unquote(parts.username or ""), unquote(parts.password or "")) for parts in named]
    user, password = pairs[0] if pairs else environment.get(USER_INFO, "").partition(":")[::2]
    if not user and not password:
        return None, ()
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return HTTPBasicAuth(user.encode(), password.encode()), (password, pair) if password else ()


log = logging.getLogger(__name__)

PAUSE_SECONDS_FIRST = 0.5
PAUSE_SECONDS_MAX = 10.0
BODY_BYTES_MAX = 64 << 20
TYPE = "application/vnd.schemaregistry.v1+json"

_AGAIN = (408, 429, 500, 502, 503, 504)
_WHAT_TO_DO = {
    401: "credentials are missing or invalid: see `SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO` and `token_env`",
    403: "this user is not allowed to read it: grant the permission",
    407: "the proxy requires credentials: put user and password into the proxy's address",
}


@dataclass(frozen=True)
class Answer:
    """A response of the registry."""

    status: int
    body: Any
    """Parsed JSON; None if an error response has none."""
    url: str
    """Address for messages, without credentials and query."""

    @property
    def code(self) -> int:
        """Return Confluent's error code, or 0 if there is none."""
        code = self.body.get("error_code") if isinstance(self.body, dict) else None
        return code if isinstance(code, int) else 0


@dataclass(frozen=True)
class Waiting:
    """Clock and randomness; tests replace them."""

    now: Callable[[], float] = time.monotonic
    """Monotonic clock in seconds."""
    sleep: Callable[[float], None] = time.sleep
    uneven: Callable[[], float] = random.random
    """Random number between 0 and 1, which varies the pauses."""


class _Failed(Exception):
    """An attempt failed and may be repeated, `wait` seconds later at the earliest."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class _Bearer(AuthBase):
    """Authentication by token. An object instead of a header, because requests replaces a header by credentials from .netrc."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Connection:
    """HTTP connection to one registry with one or several addresses. Thread-safe. Close it."""

    def __init__(self, settings: RegistrySettings, environment: Mapping[str, str] | None = None, waiting: Waiting | None = None) -> None:
        self.urls = addresses(settings)
        self._settings = settings
        environment = os.environ if environment is None else environment
        auth, secrets = _credentials(settings, environment)
        self._secrets = (*secrets, *hidden(environment))
        self._waiting = waiting or Waiting()
        self._first = 0
        self._session = requests.Session()
        self._session.max_redirects = 5
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.auth = auth
        if settings.cert_file:
            self._session.cert = settings.cert_file

    def __repr__(self) -> str:
        return f"Connection({', '.join(self.urls)})"

    def close(self) -> None:
        self._session.close()

    def request(
        self, path: str, about: str, query: Mapping[str, str] | None = None, accept: tuple[int, ...] = (), body: dict[str, Any] | None = None
    ) -> Answer:
        """GET `path`, or POST `body` as JSON. Raises RegistryRefused for a status that is neither 200 nor in `accept`.

        `about` names the requested object there. A 404 to GET without an error code does not come from a registry: it is refused even if accepted.
        """
        tail = path + (f"?{urlencode(query)}" if query else "")
        end = self._waiting.now() + self._settings.deadline_seconds
        failures: list[str] = []
        pause = PAUSE_SECONDS_FIRST
        for attempt in range(max(1, self._settings.attempts)):
            waits = [0.0]
            for _ in self.urls:
                base = self.urls[self._first % len(self.urls)]
                try:
                    answer = self._once(base, tail, body, end)
                    accepted = answer.status in accept and (answer.status != 404 or answer.code or body is not None)
                    return answer if answer.status == 200 or accepted else self._refused(answer, about)
                except _Failed as failed:
                    failures.append(f"{base}{path}: {failed}")
                    waits.append(failed.wait)
                    self._first += 1
                if self._waiting.now() >= end:
                    self._give_up(about, failures, "")
            if attempt + 1 >= self._settings.attempts:
                break
            wait = max(pause * (0.5 + self._waiting.uneven() / 2), *waits)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
            if self._waiting.now() + wait >= end:
                self._give_up(about, failures, f" It requests a pause of {max(waits):.0f} s." if max(waits) >= wait else "")
            log.warning("schema registry, %s: %s; retrying in %.1f s", about, failures[-1], wait)
            self._waiting.sleep(wait)
        self._give_up(about, failures, "")

    def _give_up(self, about: str, failures: list[str], more: str) -> NoReturn:
        last = list(dict.fromkeys(failures[-len(self.urls) :]))
        raise Unavailable(f"schema registry, {about}: no answer after {len(failures)} attempts. {'; '.join(last)}.{more} Try again later.")

    def _once(self, base: str, tail: str, body: dict[str, Any] | None, end: float) -> Answer:
        """Make one attempt. Raises _Failed and RegistryRefused."""
        left = max(0.1, end - self._waiting.now())
        limits = min(self._settings.connect_seconds, left), min(self._settings.read_seconds, left)
        headers = {"Accept": f"{TYPE}, application/json;q=0.9", **({"Content-Type": TYPE} if body is not None else {})}
        url, where = base + tail, base + tail.split("?")[0]
        try:
            with self._session.request(
                "GET" if body is None else "POST",
                url,
                data=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=limits,
                stream=True,
                allow_redirects=body is None,
            ) as response:
                return self._read(response, where, end)
        except requests.exceptions.SSLError as error:
            if "certificate" in str(error).lower():
                self._refuse(where, f"one side does not trust the other's certificate: {_reason(error)}. See `REQUESTS_CA_BUNDLE` and `cert_file`.")
            hint = "" if self._settings.cert_file else "; does the server require a `cert_file`?"
            raise _Failed(self._clean(f"TLS failed ({_reason(error)}){hint}")) from None
        except requests.exceptions.TooManyRedirects:
            self._refuse(where, "it redirects in a circle. Is this the registry's address?")
        except (requests.exceptions.Timeout, requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            raise _Failed(self._clean(_reason(error))) from None
        except HTTPError as error:
            raise _Failed(self._clean(f"the response was truncated ({_reason(error)})")) from None
        except (requests.exceptions.RequestException, OSError, ValueError, TypeError) as error:
            # for example an invalid proxy address, or a missing certificate file
            self._refuse(where, f"the request cannot be sent: {_reason(error)}")

    def _read(self, response: requests.Response, where: str, end: float) -> Answer:
        status = response.status_code
        if status in _AGAIN:
            raise _Failed(f"{status} {response.reason or ''}".strip(), _retry_after(response.headers))
        if 300 <= status < 400:
            self._refuse(where, f"it redirects to {shown(response.headers.get('Location', 'nowhere'))}. Use that address.")
        content = self._content(response, where, end)
        kind = response.headers.get("Content-Type", "")
        try:
            return Answer(status, json.loads(content), where)
        except (ValueError, RecursionError):
            if status != 200:
                return Answer(status, None, where)
            if "html" in kind.lower() or content.lstrip()[:1] == b"<":
                self._refuse(where, "the response is a web page. Is this the registry's address, and does it require no login?")
            raise _Failed(f"the response is no JSON, or truncated ({len(content)} bytes, {kind or 'no type'})") from None

    def _content(self, response: requests.Response, where: str, end: float) -> bytes:
        """Return the whole body. The deadline ends a slow response, because a read timeout restarts with each byte."""
        parts, size = [], 0
        while part := response.raw.read1(1 << 16, decode_content=True):
            parts.append(part)
            size += len(part)
            if size > BODY_BYTES_MAX:
                self._refuse(where, f"the response has more than {BODY_BYTES_MAX >> 20} MB, too much for a schema")
            if self._waiting.now() >= end:
                raise _Failed(f"the response took longer than {self._settings.deadline_seconds:.0f} s")
        return b"".join(parts)

    def _refused(self, answer: Answer, about: str) -> NoReturn:
        if answer.status == 404 and not answer.code:
            hint = "this address has no Confluent API. Apicurio's ends in /apis/ccompat/v7"
        else:
            hint = _WHAT_TO_DO.get(answer.status, "")
        message = answer.body.get("message") if isinstance(answer.body, dict) else None
        reason = self._clean(str(message))[:300] if message else ""
        parts = [f"schema registry, {about}: {answer.url} answered {answer.status}", f" {answer.code}" if answer.code else ""]
        raise RegistryRefused("".join([*parts, f" ({reason})" if reason else "", f": {hint}." if hint else "."]))

    def _refuse(self, where: str, why: str) -> NoReturn:
        raise RegistryRefused(self._clean(f"schema registry, {where}: {why}")) from None

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds in Retry-After: a number, or a date by the server's own clock. 0 if it is missing or invalid."""
    value = headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value[:9])
    try:
        until, now = (email.utils.parsedate_to_datetime(text) for text in (value, headers.get("Date", "")))
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def _reason(error: BaseException) -> str:
    """Return the innermost cause of an error, without object names and memory addresses."""
    inner: BaseException = error
    while True:
        below = getattr(inner, "reason", None) or next((arg for arg in inner.args if isinstance(arg, BaseException)), None)
        if not isinstance(below, BaseException) or below is inner:
            break
        inner = below
    text = str(inner).split(">: ")[-1].strip() or type(inner).__name__
    return f"{type(inner).__name__}: {text}"[:200]
