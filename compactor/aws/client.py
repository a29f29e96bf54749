"""One request to an AWS service that speaks JSON (Glue): the boto3 client, and its answer in this project's words."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from compactor.aws.retry import EXPIRED, PASSING, ExpectedError, Retryable, RetryPolicy, kind_of
from compactor.core.model.errors import Refused

T = TypeVar("T")


@dataclass(frozen=True)
class ClientConfig:
    """Where a service is and how long one operation is tried; None: what the environment says, as every AWS tool reads it.

    Seconds: to connect, for a response to begin, for one operation with all its retries, between two attempts; `client_attempts` are
    botocore's own tries below each of ours.
    """

    region: str | None = None
    endpoint: str | None = None
    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    operation_seconds: float = 120.0
    wait_seconds_min: float = 0.2
    wait_seconds_max: float = 10.0
    client_attempts: int = 3


def connect(service: str, reach: ClientConfig, region: str | None, **more: Any) -> Any:
    """A boto3 client; `more` goes into botocore's Config. Raises BotoCoreError and ValueError."""
    attempts = reach.client_attempts
    config = Config(
        connect_timeout=reach.connect_seconds,
        read_timeout=reach.read_seconds,
        retries={"total_max_attempts": attempts, "mode": "adaptive" if attempts > 1 else "standard"},
        max_pool_connections=32,
        **more,
    )
    # A session of its own: the credentials are looked for anew, and no other user of boto3 in this process shares them.
    return boto3.session.Session().client(service, region_name=region, endpoint_url=reach.endpoint, config=config)


class Connection:
    """A boto3 client for many threads: made on first use, and anew when its credentials have run out."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.made: Any = None

    @property
    def client(self) -> Any:
        """The client."""
        with self._lock:
            if self.made is None:
                self.made = self._make()
            return self.made

    def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """One request, as boto3 answers it. Raises ClientError and BotoCoreError."""
        try:
            answer: dict[str, Any] = getattr(self.client, operation)(**parameters)
        except ClientError as error:
            if kind_of(error) != EXPIRED:
                raise
            # Somebody may have renewed them where they were found: look there once more.
            self.made = None
            answer = getattr(self.client, operation)(**parameters)
        return answer


class AwsClient:
    """Requests to one service. Made for many threads; the connection is made on first use.

    `refusal(error, what, operation, host)` explains an answer that trying again does not change.
    """

    def __init__(self, service: str, reach: ClientConfig, refusal: Callable[[Exception, str, str, str], Refused]) -> None:
        self._service, self._reach, self._refusal = service, reach, refusal
        self._patience = RetryPolicy(reach.operation_seconds, reach.wait_seconds_min, reach.wait_seconds_max)
        self._connection = Connection(self._connect)

    def persist(self, what: str, action: str, attempt: Callable[[], T]) -> T:
        """`attempt` until it succeeds, fails for good or the operation's time is over (`retry.Patience`)."""
        return self._patience.persist(what, action, attempt)

    def ask(self, operation: str, what: str, expect: Iterable[str] = (), **parameters: Any) -> dict[str, Any]:
        """One request, sent once by us. Raises Answer for the kinds expected, Refused for what is final; what passes comes as it is.

        `what` names the table for whoever reads the error. `parameters` with the value None are left out.
        """
        sent = {name: value for name, value in parameters.items() if value is not None}
        try:
            return self._connection.send(operation, sent)
        except (ClientError, BotoCoreError) as error:
            kind = kind_of(error)
            if kind == PASSING:
                raise
            if kind in expect:
                raise ExpectedError(kind) from error
            raise self._refusal(error, what, operation, self.host) from error

    @property
    def host(self) -> str:
        """The endpoint as messages name it."""
        made = self._connection.made
        endpoint = made.meta.endpoint_url if made is not None else self._reach.endpoint
        return str(endpoint or self._service).partition("://")[2] or self._service

    def _connect(self) -> Any:
        region = self._reach.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        try:
            client = connect(self._service, self._reach, region)
        except (BotoCoreError, ValueError) as error:
            raise self._refusal(error, self._service, "connect", self._service) from error
        client.meta.events.register("before-parse", _whole)
        return client


def _whole(response_dict: dict[str, Any], **_: Any) -> None:
    """Raise Passing for an answer that a connection cut off: what is left of it would read as "no errors", and nobody else looks."""
    headers, length = response_dict["headers"], len(response_dict["body"])
    if "content-length" not in headers and "transfer-encoding" not in headers:
        raise Retryable("the answer ended among its headers")
    if "content-length" in headers and "content-encoding" not in headers and int(headers["content-length"]) != length:
        raise Retryable(f"the answer ended after {length} of {headers['content-length']} bytes")
