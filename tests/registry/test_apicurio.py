"""The client against a real Apicurio Registry 3.0.9: a captured registry's contents, references, and every compatibility level."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from compactor.app.app import App
from compactor.core.model.errors import RegistryRefused, SchemaRefused
from compactor.core.schema import avro, compatibility
from compactor.registry.confluent import ConfluentRegistry
from compactor.registry.http import RegistrySettings
from tests.core.test_compatibility import LEVEL_CASES
from tests.parts.apicurio import apicurio

pytestmark = pytest.mark.engines
CAPTURED = Path(__file__).parents[1] / "capture" / "data" / "registry"
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all."""
    with apicurio(tmp_path_factory.mktemp("apicurio")) as found:
        yield found


@pytest.fixture(scope="module")
def call(url: str) -> Call:
    """What only whoever fills a registry asks of it."""

    def ask(method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    return ask


@pytest.fixture
def registry(url: str) -> Iterator[ConfluentRegistry]:
    """A client that knows nothing yet."""
    with ConfluentRegistry(RegistrySettings((url,)), {}) as found:
        yield found


def put(call: Call, subject: str, schema: Any, *references: tuple[str, str, int]) -> int:
    """Register; gives the id."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    said = [{"name": name, "subject": other, "version": number} for name, other, number in references]
    return int(call("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text, "references": said})["id"])


def test_a_captured_registry(call: Call, registry: ConfluentRegistry) -> None:
    """Ninety versions in, ninety out, letter by letter, by version and by id; every table's columns and key."""
    listed = json.loads((CAPTURED / "subjects.json").read_text(encoding="utf-8"))
    expected: dict[str, list[tuple[int, str]]] = {}
    for each in listed:
        text = (CAPTURED / "schemas" / f"{each['id']}.avsc").read_text(encoding="utf-8").strip()
        expected.setdefault(each["subject"], []).append((put(call, each["subject"], text), text))
    assert [subject for subject in registry.subjects() if subject.startswith("pga.")] == sorted(
        subject for subject in expected if subject.startswith("pga.")
    )
    assert set(registry.subjects()) >= set(expected)
    for subject, versions in expected.items():
        assert registry.versions(subject) == list(range(1, len(versions) + 1))
        for number, (schema_id, text) in enumerate(versions, 1):
            found = registry.version(subject, number)
            assert (found.id, found.text) == (schema_id, text)
            assert registry.by_id(schema_id) == text
        newest = registry.latest(subject)
        assert newest is not None
        assert newest.version == len(versions)


def test_what_is_not_there(registry: ConfluentRegistry) -> None:
    """Told apart from a server that is none."""
    assert registry.latest("nothing of the kind") is None
    assert registry.versions("nothing/of the kind") == []
    with pytest.raises(RegistryRefused, match="404 40403"):
        registry.by_id(987654)


def test_the_address_without_its_path_is_refused(url: str) -> None:
    """With the path that is missing."""
    with (
        ConfluentRegistry(RegistrySettings((url.replace("/apis/ccompat/v7", ""),)), {}) as elsewhere,
        pytest.raises(RegistryRefused, match="Apicurio's ends in /apis/ccompat/v7"),
    ):
        elsewhere.subjects()


def test_references(call: Call, registry: ConfluentRegistry) -> None:
    """Two steps deep."""
    put(call, "zip", {"type": "fixed", "name": "Zip", "namespace": "geo", "size": 5})
    put(call, "address", {"type": "record", "name": "Address", "namespace": "geo", "fields": [{"name": "zip", "type": "Zip"}]}, ("geo.Zip", "zip", 1))
    schema_id = put(
        call, "home", {"type": "record", "name": "Home", "fields": [{"name": "at", "type": "geo.Address"}]}, ("geo.Address", "address", 1)
    )
    found = registry.latest("home")
    assert found is not None
    assert found.text == registry.by_id(schema_id)
    assert avro.used_names(found.text) == []


@pytest.mark.parametrize("level", compatibility.LEVELS)
def test_a_level_as_the_server_judges_it(level: str, url: str, call: Call, registry: ConfluentRegistry, tmp_path: Path) -> None:
    """Confluent's rules: the server's verdict and our own agree in every case, and a reason is told; `schema --next` says the same."""
    cases = {f"{level.lower()}-{at}": case for at, case in enumerate(LEVEL_CASES) if case[2]}
    tables = {f"t{at}": {"key": ["id"], "schema": {"subject": subject}} for at, subject in enumerate(cases)}
    text = json.dumps({"warehouse": str(tmp_path), "catalog": {"database": "school"}, "registry": {"url": url}, "tables": tables})
    (tmp_path / "compactor.yaml").write_text(text, encoding="utf-8")
    with App.open(tmp_path / "compactor.yaml") as app:
        for at, (subject, (what, new, old, refused)) in enumerate(cases.items()):
            call("PUT", f"/config/{put(call, subject, old[0]) and subject}", {"compatibility": "NONE"})
            for each in old[1:]:
                put(call, subject, each)
            call("PUT", f"/config/{subject}", {"compatibility": level})
            assert registry.compatibility(subject) == level
            why = registry.check(subject, json.dumps(new))
            assert bool(why) == (level in refused.split()), (what, why)
            if why:
                assert why == compatibility.check(level, json.dumps(new), [json.dumps(each) for each in old])
            (report,) = app.schema([f"t{at}"], json.dumps(new))
            assert (report.level, report.problems, report.refused) == (level, tuple(why), bool(why))
            assert registry.versions(subject) == list(range(1, len(old) + 1)), "asking registers nothing"


def test_the_level_of_a_subject_that_does_not_exist(registry: ConfluentRegistry) -> None:
    """The registry's own: Apicurio answers 404 to the question with `defaultToGlobal`."""
    assert registry.compatibility("nothing of the kind") == "NONE"
    assert registry.check("nothing of the kind", '"int"') == []


def test_no_schema_is_asked_about(registry: ConfluentRegistry) -> None:
    """What is none is refused here."""
    with pytest.raises(SchemaRefused):
        registry.check("s", "{")
