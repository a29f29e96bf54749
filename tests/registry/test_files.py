"""A folder of schemas: what its files' names say, and what cannot be right about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor.core.model.errors import RegistryRefused, SchemaRefused
from compactor.registry.files import FileRegistry
from tests.parts.memory_storage import MemoryStorage

ROOT = "s3://bucket/schemas"


def folder(**files: Any) -> FileRegistry:
    """A registry of these files; content as text, bytes or a schema."""
    return of({f"{name}.avsc": content for name, content in files.items()})


def of(files: dict[str, Any]) -> FileRegistry:
    """The same with whole names."""
    storage = MemoryStorage()
    for name, content in files.items():
        data = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
        storage.write(f"{ROOT}/{name}", data)
    return FileRegistry(storage, ROOT)


@pytest.mark.parametrize(
    ("name", "subject", "version", "schema_id"),
    [
        ("student-value.avsc", "student-value", 1, None),
        ("student-value.v2.avsc", "student-value", 2, None),
        ("student-value.v12.id98.avsc", "student-value", 12, 98),
        ("student-value.id98.avsc", "student-value", 1, 98),
        ("pga.public.student-value.v3.avsc", "pga.public.student-value", 3, None),
        ("orders%2Fitems.avsc", "orders/items", 1, None),
        ("a.version.avsc", "a.version", 1, None),
        ("a.v0.avsc", "a.v0", 1, None),
        ("a%2Ev2.avsc", "a.v2", 1, None),
        ("deep/er/student-value.v2.avsc", "student-value", 2, None),
    ],
)
def test_what_a_name_says(name: str, subject: str, version: int, schema_id: int | None) -> None:
    """Subject, version, id."""
    found = of({name: '"int"'}).latest(subject)
    assert found is not None
    assert (found.subject, found.version, found.id) == (subject, version, schema_id)


def test_files_called_by_their_ids_belong_to_whom_subjects_json_says() -> None:
    """As an export of a registry leaves them; one id may be several subjects'."""
    told = [
        {"subject": "a-value", "version": 2, "id": 98},
        {"subject": "b-value", "version": 1, "id": 98},
        {"subject": "a-value", "version": 1, "id": 7},
    ]
    registry = of({"subjects.json": told, "schemas/98.avsc": '"long"', "schemas/7.avsc": '"int"', "schemas/5.avsc": '"string"'})
    assert registry.subjects() == ["5", "a-value", "b-value"]
    assert ([1, 2], '"long"', '"string"') == (registry.versions("a-value"), registry.by_id(98), registry.by_id(5))
    found = registry.latest("a-value")
    assert found is not None
    assert (2, 98, '"long"') == (found.version, found.id, found.text)


@pytest.mark.parametrize("told", ["{}{", '{"subject": "a"}', "[1]", '[{"subject": "a"}]'])
def test_a_subjects_json_of_another_shape_is_refused(told: str) -> None:
    """By its name, with the shape that is expected."""
    with pytest.raises(RegistryRefused, match=r"subjects\.json: expected a list of"):
        of({"subjects.json": told, "7.avsc": '"int"'}).subjects()


def test_other_files_are_passed_over() -> None:
    """Notes, backups, hidden files."""
    files = dict.fromkeys(["README.md", "s.avsc~", ".s.avsc", "s.avsc.bak", "_SUCCESS", "s.json"], "text")
    assert of({**files, "s.avsc": '"int"'}).subjects() == ["s"]


@pytest.mark.parametrize("files", [{}, {"README.md": "text"}])
def test_a_folder_without_schemas_is_refused(files: dict[str, str]) -> None:
    """A mistyped path is no empty registry."""
    with pytest.raises(RegistryRefused, match=r"schema folder s3://bucket/schemas: (no files|no file that ends in \.avsc)"):
        of(files).subjects()


def test_two_files_of_one_version_are_refused() -> None:
    """Both are named."""
    with pytest.raises(RegistryRefused, match=r"a/s\.v1\.avsc and .*s\.avsc are both version 1"):
        of({"a/s.v1.avsc": '"int"', "s.avsc": '"long"'}).subjects()


def test_one_id_for_two_contents_is_refused() -> None:
    """The same content may stand in several files."""
    assert of({"a.id7.avsc": '"int"', "b.id7.avsc": '"int"'}).by_id(7) == '"int"'
    with pytest.raises(RegistryRefused, match="files with id 7 differ"):
        of({"a.id7.avsc": '"int"', "b.id7.avsc": '"long"'}).by_id(7)


def test_types_that_other_files_define() -> None:
    """By full name; the newest version of a subject counts."""
    old = {"type": "fixed", "name": "Zip", "namespace": "geo", "size": 5}
    student = {"type": "record", "name": "Student", "fields": [{"name": "zip", "type": "geo.Zip"}]}
    registry = of(
        {"zip.v1.avsc": old, "zip.v10.avsc": {**old, "size": 10}, "zip.v9.avsc": {**old, "size": 9}, "student.avsc": student, "broken.avsc": "{"}
    )
    found = registry.latest("student")
    assert found is not None
    assert json.loads(found.text)["fields"][0]["type"]["size"] == 10


def test_the_way_round_a_circle_is_told() -> None:
    """With the files' paths."""
    made = {name: {"type": "record", "name": name, "fields": [{"name": "x", "type": other}]} for name, other in (("A", "B"), ("B", "C"), ("C", "A"))}
    with pytest.raises(SchemaRefused, match=r"A\.avsc → .*B\.avsc → .*C\.avsc → .*A\.avsc"):
        folder(**made).latest("A")


def test_text_that_is_not_utf_8_is_refused() -> None:
    """Where it goes wrong is told; Windows' mark at the beginning does no harm."""
    with pytest.raises(SchemaRefused, match=r"s\.avsc: not UTF-8 at byte 3"):
        folder(s=b'"in\xff"').latest("s")
    found = folder(s=b'\xef\xbb\xbf"int"').latest("s")
    assert found is not None
    assert found.text == '"int"'
