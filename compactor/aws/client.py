"""A thin client for AWS services: creates the boto3 client, sends one request, classifies the response, and retries."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from compactor.aws.retry import EXPIRED, PASSING, ExpectedError, Retryable, RetryPolicy, access_problem, api_name, code_of, kind_of, words
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.settings.aws import ClientConfig

T = TypeVar("T")


@functools.cache
def _descriptions() -> Any:
    return botocore.session.get_session().get_component("data_loader")


def _session() -> Any:
    own = botocore.session.get_session()
    # to read and parse the description of a service is most of what a new client costs
    own.register_component("data_loader", _descriptions())
    return boto3.session.Session(botocore_session=own)


make_session: Callable[[], Any] = _session
"""Returns the boto3 session of a client. A new session looks for credentials again, and shares them with no other user of boto3 in this process.
Airflow replaces it by the session of a connection."""

session_region: str | None = None
"""Region of that connection. It comes before the region in the environment."""


def region(given: str | None) -> str | None:
    """Return the region that requests go to: `given`, else that of Airflow's connection, else the environment's."""
    return given or session_region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def connect(service: str, config: ClientConfig, region: str | None, **more: Any) -> Any:
    """Return a boto3 client. `more` goes into botocore's Config. Raises BotoCoreError and ValueError."""
    attempts = config.client_attempts
    botocore_config = Config(
        connect_timeout=config.connect_seconds,
        read_timeout=config.read_seconds,
        retries={"total_max_attempts": attempts, "mode": "adaptive" if attempts > 1 else "standard"},
        max_pool_connections=32,
        **more,
    )
    return make_session().client(service, region_name=region, endpoint_url=config.endpoint, config=botocore_config)


class Connection:
    """A boto3 client for many threads, created on first use and again when its credentials have expired."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.made: Any = None

    @property
    def client(self) -> Any:
        with self._lock:
            if self.made is None:
                self.made = self._make()
            return self.made

    def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return boto3's response. Raises ClientError and BotoCoreError."""
        try:
            answer: dict[str, Any] = getattr(self.client, operation)(**parameters)
        except ClientError as error:
            if kind_of(error) != EXPIRED:
                raise
            # The credentials may have been renewed at their source: load them once more.
            self.made = None
            answer = getattr(self.client, operation)(**parameters)
        return answer

    def request(self, operation: str, parameters: dict[str, Any], expect: Iterable[str], refusal: Callable[[Exception], Refused]) -> dict[str, Any]:
        """Send one request, once. Raises ExpectedError for the kinds in `expect`, and what `refusal` returns for other final errors.

        Retryable errors are raised unchanged, and expired credentials as Unavailable. Parameters that are None are left out.
        """
        try:
            return self.send(operation, {name: value for name, value in parameters.items() if value is not None})
        except (ClientError, BotoCoreError) as error:
            kind = kind_of(error)
            if kind == PASSING:
                raise
            if kind in expect:
                raise ExpectedError(kind) from error
            refused = refusal(error)
            # whoever starts the command again may give it new credentials
            raise (Unavailable(str(refused)) if kind == EXPIRED else refused) from error


class AwsClient:
    """Requests to one AWS service. Thread-safe; connects on first use.

    `final`: what to do about errors that no retry can change, as (codes, text with {host} and {action}). `otherwise`: the text for other codes.
    `refused`: the class of these errors; `always`: parameters of every request.
    """

    def __init__(
        self,
        service: str,
        config: ClientConfig,
        final: Sequence[tuple[set[str], str]] = (),
        otherwise: str = "{host} refused {action}",
        refused: type[Refused] = Refused,
        **always: Any,
    ) -> None:
        self._service, self._config, self._final, self._otherwise = service, config, final, otherwise
        self._refused, self._always = refused, always
        self._retry_policy = RetryPolicy(config.operation_seconds, config.wait_seconds_min, config.wait_seconds_max)
        self._connection = Connection(self._connect)

    def retry(self, what: str, action: str, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds, fails finally, or reaches the deadline (`RetryPolicy.retry`). A KeyError: the response lacks a member."""

        def whole() -> T:
            try:
                return attempt()
            except KeyError as error:
                raise Retryable(f"the response has no {error}") from None

        return self._retry_policy.retry(what, action, whole)

    def request(self, operation: str, what: str, expect: Iterable[str] = (), **parameters: Any) -> dict[str, Any]:
        """See `Connection.request`. `what` names the table or job in error messages."""
        return self._connection.request(operation, {**self._always, **parameters}, expect, lambda error: self.refusal(error, what, operation))

    def refusal(self, error: Exception, what: str, operation: str) -> Refused:
        """Return the exception for an error that no retry can change, with what to do about it."""
        text = next((text for codes, text in self._final if code_of(error) in codes), self._otherwise)
        problem = access_problem(error, self.host) or f"{text.format(host=self.host, action=api_name(operation))} ({words(error)})"
        return self._refused(f"{what}: {problem}")

    @property
    def host(self) -> str:
        made = self._connection.made
        endpoint = made.meta.endpoint_url if made is not None else self._config.endpoint
        return str(endpoint or self._service).partition("://")[2] or self._service

    @property
    def region(self) -> str:
        """Return the region that requests go to. Raises Refused if none is known."""
        return str(self._connection.client.meta.region_name)

    def _connect(self) -> Any:
        try:
            client = connect(self._service, self._config, region(self._config.region))
        except (BotoCoreError, ValueError) as error:
            raise self.refusal(error, self._service, "connect") from error
        client.meta.events.register("before-parse", _whole)
        return client


def _whole(response_dict: dict[str, Any], **_: Any) -> None:
    """Raise Retryable for a truncated response. botocore does not check: the rest would read as "no errors"."""
    headers, length = response_dict["headers"], len(response_dict["body"])
    if "content-length" not in headers and "transfer-encoding" not in headers:
        raise Retryable("the response ended within its headers")
    if "content-length" in headers and "content-encoding" not in headers and int(headers["content-length"]) != length:
        raise Retryable(f"the response ended after {length} of {headers['content-length']} bytes")
