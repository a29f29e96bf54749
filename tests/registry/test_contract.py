"""What `ports.Registry` promises, asked of every implementation: three servers' dialects, and a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from compactor.core.model.errors import Refused, RegistryRefused, SchemaRefused
from compactor.core.schema import avro
from compactor.ports import Registry
from compactor.registry.confluent import ConfluentRegistry
from compactor.registry.files import FileRegistry
from compactor.registry.http import RegistrySettings
from compactor.storage.local import LocalStorage
from tests.registry.server import RegistryServer, serving

CAPTURED = Path(__file__).parents[1] / "capture" / "data" / "registry"
HERE: list[str] = ["confluent", "karapace", "apicurio", "folder"]

V1 = {"type": "record", "name": "Student", "namespace": "school", "fields": [{"name": "id", "type": "int"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": "string", "default": ""}]}
V3 = {**V1, "fields": [*V2["fields"], {"name": "age", "type": "int"}]}
ZIP = {"type": "fixed", "name": "Zip", "namespace": "geo", "size": 5}
ADDRESS = {"type": "record", "name": "Address", "namespace": "geo", "fields": [{"name": "zip", "type": "Zip"}]}
HOME = {
    "type": "record",
    "name": "Home",
    "namespace": "school",
    "fields": [{"name": "at", "type": "geo.Address"}, {"name": "zip", "type": "geo.Zip"}],
}


class World:
    """A registry with contents: a server's, or the same as files."""

    def __init__(self, kind: str, server: RegistryServer, folder: Path) -> None:
        self.kind, self.server, self.folder = kind, server, folder
        self.opened: list[ConfluentRegistry] = []

    def put(self, subject: str, schema: Any, *references: tuple[str, str, int]) -> int:
        """The next version of a subject. References: name, subject, version."""
        said = [{"name": name, "subject": other, "version": number} for name, other, number in references]
        schema_id = self.server.register(subject, schema, said)
        number = max(self.server.subjects[subject])
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (self.folder / f"{quote(subject, safe='')}.v{number}.id{schema_id}.avsc").write_text(text, encoding="utf-8")
        return schema_id

    def open(self, level: str = "") -> Registry:
        """A client that knows nothing yet."""
        if level:
            self.server.levels[""] = level
        if self.kind == "folder":
            return FileRegistry(LocalStorage(), str(self.folder), level or "BACKWARD")
        self.opened.append(ConfluentRegistry(RegistrySettings((self.server.url,)), {}))
        return self.opened[-1]


@pytest.fixture(params=HERE)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Every implementation in turn."""
    with serving(request.param if request.param != "folder" else "confluent") as server:
        made = World(request.param, server, tmp_path)
        yield made
        for registry in made.opened:
            registry.close()


def test_subjects_are_listed_in_order(world: World) -> None:
    """All of them, in the order of their letters."""
    for subject in ("b-value", "a-value", "a-key", "Z"):
        world.put(subject, V1)
    registry = world.open()
    assert registry.subjects() == ["Z", "a-key", "a-value", "b-value"]


def test_versions_and_the_newest(world: World) -> None:
    """Ascending; the newest has the greatest number."""
    first, second = world.put("s-value", V1), world.put("s-value", V2)
    registry = world.open()
    assert registry.versions("s-value") == [1, 2]
    newest = registry.latest("s-value")
    assert newest is not None
    assert (newest.subject, newest.version, newest.id, json.loads(newest.text)) == ("s-value", 2, second, V2)
    older = registry.version("s-value", 1)
    assert (older.version, older.id, json.loads(older.text)) == (1, first, V1)


def test_what_a_schema_says_is_not_changed(world: World) -> None:
    """Its text is handed on letter by letter, so that ids made of it agree with those in files."""
    text = '{ "type":"record",\n "name":"R", "fields":[ {"name":"größe","type":"int", "doc":"日本"} ] }'
    world.put("s", text)
    newest = world.open().latest("s")
    assert newest is not None
    assert newest.text == text


def test_an_unknown_subject(world: World) -> None:
    """Has no versions; asking for one is refused, with the subject's name."""
    world.put("known", V1)
    registry = world.open()
    assert registry.latest("unknown") is None
    assert registry.versions("unknown") == []
    with pytest.raises(RegistryRefused, match="version 1 of unknown"):
        registry.version("unknown", 1)
    with pytest.raises(RegistryRefused, match="version 7 of known"):
        registry.version("known", 7)


def test_schemas_by_the_id_in_kafka_records(world: World) -> None:
    """The same content has one id, wherever it is registered."""
    world.put("other", V2)
    schema_id = world.put("s", V1)
    registry = world.open()
    assert json.loads(registry.by_id(schema_id)) == V1
    with pytest.raises(RegistryRefused, match="id 4711"):
        registry.by_id(4711)


@pytest.mark.parametrize(
    "subject", ["a b", "a/b", "a%2Fb", "größe", "日本-value", "a?b#c", "a&b=c", "x" * 180, "pga.public.Mixed_Case-value", "...", "a.v2x"]
)
def test_odd_subjects(world: World, subject: str) -> None:
    """Subjects are free text."""
    world.put(subject, V1)
    registry = world.open()
    assert registry.subjects() == [subject]
    newest = registry.latest(subject)
    assert newest is not None
    assert newest.subject == subject


def test_references_are_resolved(world: World) -> None:
    """Into one schema that needs no other, also through two steps and along two ways."""
    world.put("zip", ZIP)
    world.put("address", ADDRESS, ("geo.Zip", "zip", 1))
    schema_id = world.put("home", HOME, ("geo.Address", "address", 1), ("geo.Zip", "zip", 1))
    registry = world.open()
    newest = registry.latest("home")
    assert newest is not None
    for text in (newest.text, registry.by_id(schema_id), registry.version("home", 1).text):
        assert avro.used_names(text) == []
        schema = avro.parse(text)
        assert [schema.of(member["type"])["name"] for member in schema.row()["fields"]] == ["geo.Address", "geo.Zip"]


def test_references_in_a_circle_are_refused(world: World) -> None:
    """Naming the way round."""
    world.put("a", {"type": "record", "name": "A", "fields": [{"name": "b", "type": "B"}]}, ("B", "b", 1))
    world.put("b", {"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}, ("A", "a", 1))
    with pytest.raises(SchemaRefused, match=r"→"):
        world.open().latest("a")


def test_a_reference_that_leads_nowhere_is_refused(world: World) -> None:
    """With the name that is missing."""
    world.put("a", {"type": "record", "name": "A", "fields": [{"name": "b", "type": "geo.B"}]})
    with pytest.raises(SchemaRefused, match=r"geo\.B"):
        world.open().latest("a")


@pytest.mark.parametrize("text", ["", "{", "<html>", '{"type": "record"}', '"nothing.known"'])
def test_what_is_no_avro_is_refused(world: World, text: str) -> None:
    """When it is asked for, not before: other subjects can be used."""
    world.put("bad", text)
    world.put("good", V1)
    registry = world.open()
    assert registry.latest("good") is not None
    with pytest.raises(SchemaRefused, match="bad"):
        registry.latest("bad")


@pytest.mark.parametrize(
    ("level", "candidate", "accepted"),
    [("BACKWARD", V2, True), ("BACKWARD", V3, False), ("FORWARD", V3, True), ("FULL", V3, False), ("NONE", V3, True), ("BACKWARD", V1, True), ("FULL_TRANSITIVE", V2, True)],
)  # fmt: skip
def test_whether_a_schema_may_follow(world: World, level: str, candidate: Any, accepted: bool) -> None:
    """By the level in force; why not is told in words, also where the server only says no."""
    world.put("s", V1)
    registry = world.open(level)
    assert registry.compatibility("s") == level
    why = registry.check("s", json.dumps(candidate))
    assert (why == []) == accepted
    assert accepted or "age" in why[0]
    assert registry.versions("s") == [1], "asking registers nothing"


def test_anything_may_be_the_first_version(world: World) -> None:
    """Nothing came before it."""
    world.put("other", V1)
    assert world.open().check("new", json.dumps(V3)) == []


def test_what_is_no_schema_may_not_follow(world: World) -> None:
    """Refused before anybody is asked."""
    world.put("s", V1)
    with pytest.raises(SchemaRefused):
        world.open().check("s", '{"type": "recor')


def test_a_real_registrys_contents(world: World) -> None:
    """Ninety versions of seventy-two subjects that Debezium 3.7 wrote: each is there with id and text, by every way."""
    listed = json.loads((CAPTURED / "subjects.json").read_text(encoding="utf-8"))
    texts = {each["id"]: (CAPTURED / "schemas" / f"{each['id']}.avsc").read_text(encoding="utf-8").strip() for each in listed}
    for each in sorted(listed, key=lambda each: each["id"]):
        entry = {"id": each["id"], "content": {"schema": texts[each["id"]], "schemaType": "AVRO", "references": []}}
        world.server.subjects.setdefault(each["subject"], {})[each["version"]] = entry
        (world.folder / f"{each['subject']}.v{each['version']}.id{each['id']}.avsc").write_text(texts[each["id"]], encoding="utf-8")
    registry = world.open()
    assert registry.subjects() == sorted({each["subject"] for each in listed})
    for subject in registry.subjects():
        expected = {each["version"]: each["id"] for each in listed if each["subject"] == subject}
        assert registry.versions(subject) == sorted(expected)
        for number, schema_id in expected.items():
            found = registry.version(subject, number)
            assert (found.id, found.text) == (schema_id, texts[schema_id])
            assert registry.by_id(schema_id) == texts[schema_id]


def test_errors_are_ours() -> None:
    """A level nobody knows is refused at once."""
    with pytest.raises(Refused, match="SIDEWAYS"):
        FileRegistry(LocalStorage(), "/nowhere", "SIDEWAYS")
