"""One question to a registry over HTTP: repeated while that can help, ended by a deadline, answered in JSON or by an error that says what to do.

Repeated, on the next address and after a growing, uneven pause (Retry-After is obeyed): connections refused, cut or timed out, 408, 429, 5xx,
and answers that end early. Not repeated: every other status, an untrusted certificate, a page instead of JSON.
Every question here changes nothing at the registry, so that each may be repeated.
"""

from __future__ import annotations

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
from urllib.parse import urlencode

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import HTTPError

from compactor.core.model.errors import RegistryRefused, Unavailable
from compactor.registry.settings import Identity, RegistrySettings, addresses, hidden, identity, proxy, shown

log = logging.getLogger(__name__)

PAUSE_SECONDS_FIRST = 0.5
PAUSE_SECONDS_MAX = 10.0
BODY_BYTES_MAX = 64 << 20
TYPE = "application/vnd.schemaregistry.v1+json"

_AGAIN = (408, 429, 500, 502, 503, 504)
_WHAT_TO_DO = {
    401: "it wants to know who asks, or does not know this one: see `username`, `password_env`, `token_env`",
    403: "whoever asks here may not see this: have the rights granted",
    407: "the proxy wants to know who asks: put user and password into the proxy's address",
}


@dataclass(frozen=True)
class Answer:
    """What came back: `body` is JSON, None where a refusal carried none. `url` is as messages show it."""

    status: int
    body: Any
    url: str

    @property
    def code(self) -> int:
        """Confluent's error code, 0 where there is none."""
        code = self.body.get("error_code") if isinstance(self.body, dict) else None
        return code if isinstance(code, int) else 0


@dataclass(frozen=True)
class Waiting:
    """Time and chance, given by tests."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    uneven: Callable[[], float] = random.random
    """Between 0 and 1."""


class _Failed(Exception):
    """One attempt that may go better next time."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class _Bearer(AuthBase):
    """A token. An object and not a header: requests replaces a header by what it finds in .netrc."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Connection:
    """The way to one registry. Threads may share it. Close it."""

    def __init__(self, settings: RegistrySettings, environment: Mapping[str, str] | None = None, waiting: Waiting | None = None) -> None:
        self.urls = addresses(settings)
        self._settings = settings
        environment = os.environ if environment is None else environment
        who = identity(settings, environment)
        self._secrets = (*who.secrets, *hidden(settings, environment))
        self._waiting = waiting or Waiting()
        self._first = 0
        self._session = requests.Session()
        self._session.max_redirects = 5
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.auth = _auth(who)
        if proxy(settings):
            self._session.proxies = {"http": settings.proxy, "https": settings.proxy}
        if settings.cert_file:
            self._session.cert = (settings.cert_file, settings.key_file) if settings.key_file else settings.cert_file

    def __repr__(self) -> str:
        return f"Connection({', '.join(self.urls)})"

    def close(self) -> None:
        """Give the sockets back."""
        self._session.close()

    def get(self, path: str, about: str, query: Mapping[str, str] | None = None, accept: tuple[int, ...] = ()) -> Answer:
        """Ask for `path`. Statuses other than 200 are refused with the words `about` (what is asked for), unless in `accept`.

        404 is the registry's only when it comes with an error code; else nothing of the kind is there, which is refused.
        """
        return self._ask("GET", path, about, accept, query or {}, None)

    def post(self, path: str, about: str, body: Any, query: Mapping[str, str] | None = None, accept: tuple[int, ...] = ()) -> Answer:
        """The same with a body; 404 in `accept` is taken from anybody."""
        return self._ask("POST", path, about, accept, query or {}, body)

    def _ask(self, method: str, path: str, about: str, accept: tuple[int, ...], query: Mapping[str, str], body: Any) -> Answer:
        tail = path + (f"?{urlencode(query)}" if query else "")
        end = self._waiting.now() + self._settings.deadline_seconds
        failures: list[str] = []
        pause = PAUSE_SECONDS_FIRST
        for attempt in range(max(1, self._settings.attempts)):
            waits = [0.0]
            for _ in self.urls:
                base = self.urls[self._first % len(self.urls)]
                try:
                    answer = self._once(method, base, tail, body, end)
                    known = answer.status in accept and (answer.status != 404 or answer.code or method == "POST")
                    return answer if answer.status == 200 or known else self._refused(answer, about)
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
                self._give_up(about, failures, f" It asks to be left alone for {max(waits):.0f} s." if max(waits) >= wait else "")
            log.warning("schema registry, %s: %s; again in %.1f s", about, failures[-1], wait)
            self._waiting.sleep(wait)
        self._give_up(about, failures, "")

    def _give_up(self, about: str, failures: list[str], more: str) -> NoReturn:
        last = list(dict.fromkeys(failures[-len(self.urls) :]))
        raise Unavailable(f"schema registry, {about}: no answer after {len(failures)} attempts. {'; '.join(last)}.{more} Try again later.")

    def _once(self, method: str, base: str, tail: str, body: Any, end: float) -> Answer:
        """One attempt. Raises _Failed, RegistryRefused."""
        left = max(0.1, end - self._waiting.now())
        limits = min(self._settings.connect_seconds, left), min(self._settings.read_seconds, left)
        headers = {"Accept": f"{TYPE}, application/json;q=0.9", **({"Content-Type": TYPE} if body is not None else {})}
        url, where = base + tail, base + tail.split("?")[0]
        try:
            with self._session.request(
                method,
                url,
                data=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=limits,
                # given here and not to the session: there REQUESTS_CA_BUNDLE would win
                verify=self._settings.ca_file or None,
                stream=True,
                allow_redirects=method == "GET",
            ) as response:
                return self._read(response, where, end)
        except requests.exceptions.SSLError as error:
            if "certificate" in str(error).lower():
                self._refuse(where, f"one side does not trust the other's certificate: {_reason(error)}. See `ca_file`, `cert_file`, `key_file`.")
            hint = "" if self._settings.cert_file else "; does the server want to see a `cert_file`?"
            raise _Failed(self._clean(f"TLS failed ({_reason(error)}){hint}")) from None
        except requests.exceptions.TooManyRedirects:
            self._refuse(where, "it redirects in a circle. Is this the registry's address?")
        except (requests.exceptions.Timeout, requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            raise _Failed(self._clean(_reason(error))) from None
        except HTTPError as error:
            raise _Failed(self._clean(f"the answer broke off ({_reason(error)})")) from None
        except (requests.exceptions.RequestException, OSError, ValueError, TypeError) as error:
            # a proxy's address that is none, a certificate's file that is not there
            self._refuse(where, f"it cannot be asked: {_reason(error)}")

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
                self._refuse(where, "a page answers, not a schema registry. Is this the registry's address, and is nobody asked to log in?")
            raise _Failed(f"the answer is no JSON, or cut ({len(content)} bytes, {kind or 'no type'})") from None

    def _content(self, response: requests.Response, where: str, end: float) -> bytes:
        """The whole body. One that drips slowly ends with the deadline: a time-out alone counts from byte to byte."""
        parts, size = [], 0
        while part := response.raw.read1(1 << 16, decode_content=True):
            parts.append(part)
            size += len(part)
            if size > BODY_BYTES_MAX:
                self._refuse(where, f"the answer has more than {BODY_BYTES_MAX >> 20} MB, which is no schema")
            if self._waiting.now() >= end:
                raise _Failed(f"the answer took longer than {self._settings.deadline_seconds:.0f} s")
        return b"".join(parts)

    def _refused(self, answer: Answer, about: str) -> NoReturn:
        if answer.status == 404 and not answer.code:
            hint = "there is no Confluent API at this address. Apicurio's ends in /apis/ccompat/v7"
        else:
            hint = _WHAT_TO_DO.get(answer.status, "")
        said = answer.body.get("message") if isinstance(answer.body, dict) else None
        told = self._clean(str(said))[:300] if said else ""
        parts = [f"schema registry, {about}: {answer.url} answered {answer.status}", f" {answer.code}" if answer.code else ""]
        raise RegistryRefused("".join([*parts, f" ({told})" if told else "", f": {hint}." if hint else "."]))

    def _refuse(self, where: str, why: str) -> NoReturn:
        raise RegistryRefused(self._clean(f"schema registry, {where}: {why}")) from None

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _auth(who: Identity) -> AuthBase | None:
    if who.token:
        return _Bearer(who.token)
    return HTTPBasicAuth(who.username.encode(), who.password.encode()) if who.username or who.password else None


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, from a number or from a date by the server's own clock; 0 where nothing sensible is said."""
    said = headers.get("Retry-After", "").strip()
    if said.isdigit():
        return float(said[:9])
    try:
        until, now = (email.utils.parsedate_to_datetime(text) for text in (said, headers.get("Date", "")))
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def _reason(error: BaseException) -> str:
    """What went wrong in the words of whoever knows best: the innermost cause, without object names and addresses in memory."""
    inner: BaseException = error
    while True:
        below = getattr(inner, "reason", None) or next((arg for arg in inner.args if isinstance(arg, BaseException)), None)
        if not isinstance(below, BaseException) or below is inner:
            break
        inner = below
    text = str(inner).split(">: ")[-1].strip() or type(inner).__name__
    return f"{type(inner).__name__}: {text}"[:200]
