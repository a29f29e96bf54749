"""A registry that fails in every way: what is repeated, what is refused at once, how long it takes, and what the error says."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from compactor.core.model.errors import RegistryRefused, Unavailable
from compactor.registry.confluent import ConfluentRegistry
from compactor.registry.http import RegistrySettings
from tests.registry import server as faults
from tests.registry.conftest import SleepLess
from tests.registry.server import Fault, RegistryServer, page, redirect, says, serving, status

PASSING: dict[str, Fault] = {
    "408": status(408),
    "429": status(429),
    "500": status(500),
    "502 with a page": page(502),
    "503": status(503, "", Connection="close"),
    "504 with a page": page(504, "<html>Gateway Time-out</html>"),
    "a reset": faults.reset,
    "an answer cut short": faults.cut,
    "a missing chunk": faults.cut_chunks,
    "an answer that ends by hanging up": faults.cut_silently,
    "no gzip though it says so": faults.bad_gzip,
    "no answer in time": faults.slow(0.4),
}
"""What may be better the next time."""

LASTING: dict[str, tuple[Fault, str]] = {
    "400": (status(400), "answered 400"),
    "401": (status(401), "answered 401.*`SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO` and `token_env`"),
    "403": (status(403), "answered 403.*grant the permission"),
    "403 with a page": (page(403), "answered 403.*grant the permission"),
    "404 with a page": (page(404), "answered 404.*this address has no Confluent API. Apicurio's ends in /apis/ccompat/v7"),
    "405": (status(405, "nope"), "answered 405"),
    "501": (status(501), "answered 501"),
    "a page": (page(), "the response is a web page"),
    "a page that says it is JSON": (says("<html>"), "the response is a web page"),
    "a number": (says(7), "expected a list of names, found 7"),
    "an object": (says({"subjects": []}), "expected a list of names, found"),
    "a list of numbers": (says([1, 2]), "expected a list of names"),
    "a circle of redirects": (redirect("/subjects"), "redirects in a circle"),
}
"""What stays as it is, and what is said about it."""


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
@pytest.mark.parametrize("times", [1, 4])
def test_a_passing_failure_is_not_noticed(fault: Fault, times: int, server: RegistryServer, opened: Any) -> None:
    """The question is asked again, up to five times in all."""
    server.register("s", '"int"')
    server.faults += [fault] * times
    assert opened(read_seconds=0.2).subjects() == ["s"]
    assert len(server.asked) == times + 1


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_failure_that_does_not_pass_is_for_later(fault: Fault, server: RegistryServer, opened: Any) -> None:
    """Exit 75: address, what was asked for and what happened are told."""
    server.always = fault
    with pytest.raises(Unavailable) as later:
        opened(read_seconds=0.2).subjects()
    said = str(later.value)
    assert f"the list of subjects: no answer after 5 attempts. {server.url}/subjects: " in said
    assert said.endswith("Try again later.")
    assert "0x" not in said
    assert "object at" not in said
    assert len(server.asked) == 5


@pytest.mark.parametrize(("fault", "message"), LASTING.values(), ids=LASTING)
def test_a_lasting_failure_is_refused_at_once(fault: Fault, message: str, server: RegistryServer, opened: Any) -> None:
    """Nothing is repeated, nobody waits."""
    server.always = fault
    with pytest.raises(RegistryRefused, match=message) as refused:
        opened().subjects()
    assert server.url in str(refused.value)
    assert len(server.asked) == 1 or "circle" in message


@pytest.mark.parametrize("method", ["latest", "versions", "compatibility"])
@pytest.mark.parametrize("answer", [page(404), status(404, {"title": "no such resource", "status": 404})], ids=["a page", "another program's JSON"])
def test_a_404_of_somebody_else_is_no_missing_subject(method: str, answer: Fault, server: RegistryServer, opened: Any) -> None:
    """A wrong address must not look like an empty registry: the registry's own 404 comes with an error code."""
    server.always = answer
    with pytest.raises(RegistryRefused, match="this address has no Confluent API"):
        getattr(opened(), method)("s")


STRANGE: list[tuple[str, Any]] = [
    ("latest", {}),
    ("latest", []),
    ("latest", {"schema": 5, "version": 1, "id": 1}),
    ("latest", {"schema": '"int"', "id": 1}),
    ("latest", {"schema": '"int"', "version": "1", "id": 1}),
    ("latest", {"schema": '"int"', "version": 1, "id": 1, "references": "x"}),
    ("latest", {"schema": '"int"', "version": 1, "id": 1, "references": [{"name": "x"}]}),
    ("latest", {"schema": '"\ud800"', "version": 1, "id": 1}),
    ("versions", {"a": 1}),
    ("versions", ["1"]),
    ("compatibility", {}),
    ("compatibility", {"compatibilityLevel": "SIDEWAYS"}),
    ("compatibility", None),
]


@pytest.mark.parametrize(("method", "body"), STRANGE, ids=[f"{method} {body}".encode("ascii", "replace").decode() for method, body in STRANGE])
def test_json_of_another_shape_is_refused(method: str, body: Any, server: RegistryServer, opened: Any) -> None:
    """Not an AttributeError three calls later."""
    server.always = says(body)
    with pytest.raises(RegistryRefused, match=r"expected|a reference without"):
        getattr(opened(), method)("s")


def test_a_verdict_of_another_shape_is_refused(server: RegistryServer, opened: Any) -> None:
    """`is_compatible` decides over data."""
    server.faults += [None, says({"is_compatible": "no"})]
    with pytest.raises(RegistryRefused, match="whether it is compatible"):
        opened().check("s", '"int"')


def test_a_schema_of_another_kind_is_refused(server: RegistryServer, opened: Any) -> None:
    """Protobuf and JSON Schema are told from Avro."""
    server.register("s", 'syntax = "proto3";', kind="PROTOBUF")
    from compactor.core.model.errors import SchemaRefused

    with pytest.raises(SchemaRefused, match="s version 1: expected an Avro schema, found PROTOBUF"):
        opened().latest("s")


# Pauses


def test_pauses_grow_and_are_uneven(server: RegistryServer, clock: SleepLess) -> None:
    """Half a second, one, two, four; each between half and all of it, so that many clients do not come back together."""
    server.always = status(503)
    for uneven, expected in ((1.0, [0.5, 1.0, 2.0, 4.0]), (0.0, [0.25, 0.5, 1.0, 2.0])):
        clock.slept.clear()
        with ConfluentRegistry(RegistrySettings((server.url,)), {}, clock.waiting(uneven)) as registry, pytest.raises(Unavailable):
            registry.subjects()
        assert clock.slept == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "Sat, 21 Nov 2026 10:00:30 GMT", "Date": "Sat, 21 Nov 2026 10:00:10 GMT"}, 20.0),
        ({"Retry_After": "Sat, 21 Nov 2026 10:00:00 GMT", "Date": "Sat, 21 Nov 2026 10:00:10 GMT"}, 0.5),
        ({"Retry_After": "soon"}, 0.5),
        ({"Retry_After": "-3"}, 0.5),
        ({}, 0.5),
    ],
)
def test_the_server_says_when_to_come_back(headers: dict[str, str], expected: float, server: RegistryServer, opened: Any, clock: SleepLess) -> None:
    """In seconds or as a date, by its own clock; nonsense counts as nothing."""

    def busy(handler: faults.Handler) -> None:
        # send_response would add a Date of its own
        handler.send_response_only(429)
        for name, value in {**headers, "Content-Length": "0"}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    server.faults.append(busy)
    assert opened().subjects() == []
    assert clock.slept == [expected]


def test_nobody_waits_longer_than_the_deadline(server: RegistryServer, opened: Any, clock: SleepLess) -> None:
    """A server that wants an hour of peace is told of, not waited for."""
    server.always = status(429, Retry_After="3600")
    with pytest.raises(Unavailable, match="It requests a pause of 3600 s"):
        opened().subjects()
    assert clock.slept == []
    assert len(server.asked) == 1


def test_the_deadline_counts_all_attempts(server: RegistryServer, opened: Any, clock: SleepLess) -> None:
    """Not each one by itself."""
    server.always = status(503)
    with pytest.raises(Unavailable):
        opened(deadline_seconds=2.0, attempts=100).subjects()
    assert sum(clock.slept) < 2.0


def test_an_answer_that_drips_ends_with_the_deadline(server: RegistryServer) -> None:
    """Byte after byte arrives in time, and the whole never does."""
    server.always = faults.drip(20)
    began = time.monotonic()
    with (
        ConfluentRegistry(RegistrySettings((server.url,), read_seconds=5, deadline_seconds=0.5), {}) as registry,
        pytest.raises(Unavailable, match="took longer"),
    ):
        registry.subjects()
    assert time.monotonic() - began < 5


def test_an_endless_answer_is_refused(server: RegistryServer, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No schema has 64 MB."""
    monkeypatch.setattr("compactor.registry.http.BODY_BYTES_MAX", 1000)
    server.always = says(["x" * 2000])
    with pytest.raises(RegistryRefused, match="too much for a schema"):
        opened().subjects()


def test_json_nested_without_end_is_no_crash(server: RegistryServer, opened: Any) -> None:
    """Python's parser gives up by an error of its own kind."""
    server.always = says("[" * 200_000)
    with pytest.raises(Unavailable, match="no JSON"):
        opened().subjects()


# Several addresses


def dead() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_another_address_is_asked_at_once(server: RegistryServer, opened: Any, clock: SleepLess) -> None:
    """Without a pause; and first from then on."""
    server.register("s", '"int"')
    registry = opened(urls=(dead(), server.url))
    assert registry.subjects() == ["s"]
    assert registry.subjects() == ["s"]
    assert clock.slept == []
    assert registry._connection._first == 1


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_one_of_two_servers_fails(fault: Fault, server: RegistryServer, opened: Any, clock: SleepLess) -> None:
    """In any way: the other one answers."""
    with serving() as broken:
        broken.always = fault
        server.register("s", '"int"')
        assert opened(urls=(broken.url, server.url), read_seconds=0.2).subjects() == ["s"]
    assert clock.slept == []


def test_all_addresses_are_told_when_none_answers(opened: Any, clock: SleepLess) -> None:
    """With what each of them said."""
    first, second = dead(), dead()
    with pytest.raises(Unavailable) as later:
        opened(urls=(first, second)).subjects()
    assert f"{first}/subjects: " in str(later.value)
    assert f"{second}/subjects: " in str(later.value)
    assert "refused" in str(later.value)
    assert len(clock.slept) == 4


def test_a_refusal_is_not_taken_to_the_next_address(server: RegistryServer, opened: Any) -> None:
    """They are servers of one registry: what one refuses the others do."""
    with serving() as strict:
        strict.always = status(403)
        with pytest.raises(RegistryRefused):
            opened(urls=(strict.url, server.url)).subjects()
    assert server.asked == []


def test_a_name_that_does_not_exist(opened: Any) -> None:
    """For later: names come and go with networks."""
    with pytest.raises(Unavailable, match=r"registry\.invalid"):
        opened(urls=("http://registry.invalid:8081",), attempts=1).subjects()


# Redirects


def test_a_redirect_is_followed(server: RegistryServer, opened: Any) -> None:
    """Behind a load balancer that wants another path."""
    server.register("s", '"int"')
    server.faults.append(redirect(f"{server.url}/subjects"))
    assert opened().subjects() == ["s"]


def test_a_question_with_a_body_is_not_redirected(server: RegistryServer, opened: Any) -> None:
    """It would arrive as another question."""
    server.faults += [None, redirect("https://user:pass@elsewhere/path?secret=x")]
    with pytest.raises(RegistryRefused, match=r"redirects to https://elsewhere/path\. Use that address") as refused:
        opened().check("s", '"int"')
    assert "pass" not in str(refused.value)
