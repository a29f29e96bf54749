"""Who asks, over which way, and what is remembered: identities, certificates, proxies, contexts, caches. No secret is ever shown."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import ipaddress
import json
import logging
import ssl
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from compactor.core.model.errors import CompactorError, ConfigError, RegistryRefused, Unavailable
from compactor.core.settings.variables import USER_INFO
from compactor.registry.confluent import ConfluentRegistry
from compactor.registry.http import RegistrySettings, addresses
from tests.registry.server import RegistryServer, reset, serving, status

SECRET = "s3cret-&%/pass"
BASIC = "Basic " + base64.b64encode(f"ada:{SECRET}".encode()).decode()

IDENTITIES: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "a token": ({"token_env": "TOKEN"}, {"TOKEN": SECRET}, f"Bearer {SECRET}"),
    "a token before a user": ({"token_env": "TOKEN"}, {"TOKEN": SECRET, USER_INFO: "ada:x"}, f"Bearer {SECRET}"),
    "the usual variable": ({}, {USER_INFO: f"ada:{SECRET}"}, BASIC),
    "nobody": ({}, {}, ""),
}


@pytest.mark.parametrize(("settings", "environment", "expected"), IDENTITIES.values(), ids=IDENTITIES)
def test_who_asks(settings: dict[str, Any], environment: dict[str, str], expected: str, server: RegistryServer, opened: Any) -> None:
    """Secrets come from the environment only; the settings name the variables."""
    server.authorization = expected
    opened(environment, **settings).subjects()
    assert server.asked[0].headers.get("Authorization", "") == expected


def test_user_and_password_in_the_address(server: RegistryServer, opened: Any) -> None:
    """As Confluent's clients take them; percent-encoded; not sent as part of the address."""
    server.authorization = BASIC
    url = server.url.replace("http://", "http://ada:s3cret-%26%25%2Fpass@")
    opened(urls=(url,)).subjects()
    assert server.asked[0].target == "/subjects"


def test_the_machines_netrc(server: RegistryServer, opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing else is said; a token that is said wins."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login ada password from-netrc\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    opened().subjects()
    opened({"TOKEN": "t"}, token_env="TOKEN").subjects()
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Basic " + base64.b64encode(b"ada:from-netrc").decode(), "Bearer t"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token_env": "NOT_THERE"}, "`token_env` names the environment variable NOT_THERE, which is not set"),
        (
            {"token_env": "hunter2"},
            r"`token_env` names the environment variable \(not shown: expected capital letters, digits and _\), which is not set",
        ),
        ({"urls": ()}, "no address"),
        ({"urls": ("registry:8081",)}, "expected an address like"),
        ({"urls": ("ftp://registry",)}, "expected an address like"),
        ({"urls": ("http://registry:port",)}, "is no address"),
        ({"urls": ("http://registry/?token=x",)}, "without [?] and #; found 'http://registry/'"),
        ({"urls": ("http://ada:pw@:8081",)}, "expected an address like"),
    ],
)
def test_settings_that_cannot_be_right(settings: dict[str, Any], message: str) -> None:
    """Told before anything is asked."""
    with pytest.raises(ConfigError, match=message) as refused:
        ConfluentRegistry(RegistrySettings(**{"urls": ("http://registry:8081",), **settings}), {})
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:8081", "http://h:8081"),
        ("https://h/", "https://h"),
        (" http://h:8080/apis/ccompat/v7/ ", "http://h:8080/apis/ccompat/v7"),
        ("https://user:pa%3Ass@h:1/x", "https://h:1/x"),
        ("http://[::1]:8081", "http://[::1]:8081"),
    ],
)
def test_addresses_as_they_are_used(url: str, expected: str) -> None:
    """Without identity, without a last slash."""
    assert addresses(RegistrySettings((url,))) == (expected,)


@pytest.mark.parametrize(
    ("settings", "environment"),
    [case[:2] for name, case in IDENTITIES.items() if name != "nobody"],
    ids=[name for name in IDENTITIES if name != "nobody"],
)
@pytest.mark.parametrize("fault", [status(401), status(500), reset, None], ids=["401", "500", "reset", "echo"])
def test_no_secret_is_ever_shown(
    settings: dict[str, Any], environment: dict[str, str], fault: Any, server: RegistryServer, opened: Any, caplog: Any
) -> None:
    """Not in errors, their causes, logs or representations; not even when the server says it back."""
    caplog.set_level(logging.DEBUG)
    server.always = fault
    server.authorization = "somebody else"  # then the answer holds what was sent
    url = server.url.replace("http://", "http://ada:in-the-address@")
    registry = opened(environment, urls=(url,), **settings)
    told = [repr(registry), repr(registry._connection), str(vars(registry)), repr(RegistrySettings((url,), **settings))]
    with pytest.raises(CompactorError) as error:
        registry.latest("s")
    told += [str(error.value), "".join(traceback.format_exception(error.value)), caplog.text]
    for secret in (SECRET, BASIC[6:], "in-the-address", "s3cret"):
        assert [text for text in told if secret in text] == []


# Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, str]]:
    """A small authority; gives (certificate, key) files by name, `ca` its own."""
    folder = tmp_path_factory.mktemp("certificates")
    start = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def made(subject: str, issuer: str, key: Any, signer: Any, authority: bool) -> x509.Certificate:
        builder = x509.CertificateBuilder(
            name(issuer), name(subject), key.public_key(), x509.random_serial_number(), start, start + datetime.timedelta(days=30)
        )
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = builder.add_extension(x509.BasicConstraints(authority, None), True).add_extension(names, False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
        return builder.sign(signer, hashes.SHA256())

    authority = ec.generate_private_key(ec.SECP256R1())
    for who in ("ca", "server", "client"):
        key = authority if who == "ca" else ec.generate_private_key(ec.SECP256R1())
        certificate = made(who, "ca", key, authority, who == "ca")
        (folder / f"{who}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{who}.key").write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
    return lambda who: (str(folder / f"{who}.pem"), str(folder / f"{who}.key"))


@pytest.fixture
def secure(certificates: Callable[[str], tuple[str, str]], request: pytest.FixtureRequest) -> Iterator[RegistryServer]:
    """A registry over TLS; with `mutual` as parameter it wants a certificate of its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates("server"))
    if getattr(request, "param", "") == "mutual":
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates("ca")[0])
    with serving(tls=context) as registry:
        registry.register("s", '"int"')
        yield registry


def test_an_authority_of_ones_own(secure: RegistryServer, opened: Any, certificates: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """REQUESTS_CA_BUNDLE has it."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certificates("ca")[0])
    assert opened(urls=(secure.url,)).subjects() == ["s"]


def test_a_certificate_nobody_vouches_for_is_refused_at_once(secure: RegistryServer, opened: Any, clock: Any) -> None:
    """Asking again would change nothing."""
    with pytest.raises(RegistryRefused, match=r"does not trust the other's certificate.*See `REQUESTS_CA_BUNDLE`"):
        opened(urls=(secure.url,)).subjects()
    assert clock.slept == []


@pytest.mark.parametrize("secure", ["mutual"], indirect=True)
def test_a_server_that_wants_to_see_a_certificate(
    secure: RegistryServer, opened: Any, certificates: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one, and its key in the same file, it answers; without, nobody gets in."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certificates("ca")[0])
    both = tmp_path / "both.pem"
    both.write_text("".join(Path(part).read_text(encoding="utf-8") for part in certificates("client")), encoding="utf-8")
    assert opened(urls=(secure.url,), cert_file=str(both)).subjects() == ["s"]
    # TLS 1.3 lets the client finish first: whether it hears the reason is a matter of chance
    with pytest.raises((RegistryRefused, Unavailable)):
        opened(urls=(secure.url,)).subjects()


def test_a_file_that_is_not_there(secure: RegistryServer, opened: Any, clock: Any, tmp_path: Path) -> None:
    """Its path is told."""
    with pytest.raises(RegistryRefused, match=r"the request cannot be sent: .*nowhere\.pem"):
        opened(urls=(secure.url,), cert_file=str(tmp_path / "nowhere.pem")).subjects()
    assert clock.slept == []


# Proxies


def test_a_proxy(server: RegistryServer, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by the environment, as everywhere."""
    server.register("s", '"int"')
    elsewhere = ("http://registry.invalid:8081",)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    assert opened(urls=elsewhere).subjects() == ["s"]
    assert server.asked[-1].target == "http://registry.invalid:8081/subjects"
    monkeypatch.setenv("NO_PROXY", "registry.invalid")
    with pytest.raises(Unavailable):
        opened(urls=elsewhere, attempts=1).subjects()
    assert len(server.asked) == 1


PROXIES = ["http://ada:pw-of-proxy@127.0.0.1:1", "http://ada:pw-of-proxy@", "ada:pw-of-proxy@nothing at all", "http://ada:pw-of-proxy@h:port"]


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxys_password_is_not_shown(proxy: str, server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in the proxy's address, which may be wrong."""
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTP_PROXY", proxy)
    settings = RegistrySettings(("http://registry.invalid",), attempts=1)
    with pytest.raises(CompactorError) as error, ConfluentRegistry(settings) as registry:
        registry.subjects()
    assert "pw-of-proxy" not in "".join(traceback.format_exception(error.value))
    assert "0x" not in str(error.value)


# Contexts


def test_a_context_is_a_registry_of_its_own(server: RegistryServer, opened: Any) -> None:
    """Its subjects are spoken of without its name; those of others are not seen."""
    part = {"type": "fixed", "name": "Zip", "size": 5}
    whole = {"type": "record", "name": "R", "fields": [{"name": "zip", "type": "Zip"}]}
    server.register("s", '"int"')
    server.register(":.lab:zip", part)
    server.register(":.lab:s", whole, [{"name": "Zip", "subject": "zip", "version": 1}])
    server.register(":.lab:t", whole, [{"name": "Zip", "subject": ":.lab:zip", "version": 1}])
    server.levels[":.lab:s"] = "FULL"
    for spelled in ("lab", ".lab", ":.lab:"):
        lab = opened(context=spelled)
        assert lab.subjects() == ["s", "t", "zip"]
        assert lab.compatibility("s") == "FULL"
        for subject in ("s", "t"):
            newest = lab.latest(subject)
            assert newest is not None
            assert (newest.subject, json.loads(newest.text)["fields"][0]["type"]["name"]) == (subject, "Zip")
    lab.by_id(2)
    assert server.asked[-1].target == "/schemas/ids/2?subject=%3A.lab%3A"
    outside = opened()
    assert outside.subjects() == ["s"]
    assert outside.latest("zip") is None


def test_a_server_that_knows_no_contexts(opened: Any) -> None:
    """Lists everything whatever it is asked; subjects are told apart here."""
    with serving("apicurio") as server:
        server.register("s", '"int"')
        server.register(":.lab:t", '"int"')
        assert opened(urls=(server.url,), context="lab").subjects() == ["t"]
        assert opened(urls=(server.url,)).subjects() == ["s"]


# What is remembered


def asked(server: RegistryServer) -> list[str]:
    """The paths that were asked for since the last look."""
    paths = [each.target.split("?")[0] for each in server.asked]
    server.asked.clear()
    return paths


def test_what_cannot_change_is_asked_once(server: RegistryServer, opened: Any) -> None:
    """Versions and ids; the newest version and the list of versions are asked again."""
    schema_id = server.register("s", '"int"')
    registry = opened()
    for _ in range(3):
        registry.version("s", 1)
        registry.by_id(schema_id)
    assert asked(server) == ["/subjects/s/versions/1", f"/schemas/ids/{schema_id}"]
    registry.latest("s")
    registry.latest("s")
    assert asked(server) == ["/subjects/s/versions/latest"] * 2
    server.register("s", '"long"')
    assert registry.latest("s").version == 2
    assert registry.version("s", 2).text == '"long"'
    assert asked(server) == ["/subjects/s/versions/latest"]


def test_threads_share_a_client(server: RegistryServer, opened: Any) -> None:
    """Tables are run side by side."""
    for number in range(20):
        server.register(f"s{number}", json.dumps({"type": "fixed", "name": "F", "size": number}))
    registry = opened()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: json.loads(registry.latest(f"s{number % 20}").text)["size"], range(200)))
    assert found == [number % 20 for number in range(200)]


def test_the_newest_version_may_be_what_is_referred_to(server: RegistryServer, opened: Any) -> None:
    """Version -1, as newer servers of Confluent take it: looked at every time."""
    server.register("zip", {"type": "fixed", "name": "Zip", "size": 5})
    server.register(
        "s", {"type": "record", "name": "R", "fields": [{"name": "zip", "type": "Zip"}]}, [{"name": "Zip", "subject": "zip", "version": -1}]
    )
    registry = opened()
    assert '"size": 5' in registry.latest("s").text
    server.register("zip", {"type": "fixed", "name": "Zip", "size": 9})
    assert '"size": 9' in registry.latest("s").text


def test_settings_can_be_shown(server: RegistryServer) -> None:
    """In logs, say: addresses only."""
    settings = RegistrySettings(("https://ada:pw@one:8081/x?k=v", "https://two"), context="lab")
    assert repr(settings) == "RegistrySettings(https://one:8081/x, https://two, context lab)"
    assert dataclasses.replace(settings, urls=()).urls == ()
