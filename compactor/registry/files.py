"""A folder of Avro schemas as a registry: for those who keep schemas in a repository, and for machines that reach no server.

A file is named `<subject>[.v<version>][.id<id>].avsc`, anywhere below the folder:

    student-value.avsc               version 1
    student-value.v2.avsc            version 2
    student-value.v3.id98.avsc       version 3; Kafka records name it by 98
    orders%2Fitems-value.avsc        subject `orders/items-value`: what a file's name cannot hold is percent-encoded
    98.avsc                          the schema with id 98; `subjects.json`, `[{"subject": .., "version": 3, "id": 98}, ..]`, tells whose it is

A schema may use named types that other files define; the newest version of the file that defines one counts. The folder is read when it
is first asked: a file that comes later is seen by the next process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from urllib.parse import unquote

from compactor.core.model.errors import RegistryRefused, SchemaRefused
from compactor.core.schema import avro, compatibility
from compactor.core.schema.registered import RegisteredSchema
from compactor.ports import Storage

_SUBJECTS = "subjects.json"
_BARE_ID = re.compile(r"(?P<id>[0-9]{1,9})\.avsc")
_NAME = re.compile(r"(?P<subject>.+?)(?:\.v(?P<version>[1-9][0-9]{0,8}))?(?:\.id(?P<id>[0-9]{1,9}))?\.avsc")


class FileRegistry:
    """The Registry in the directory `root` of a Storage. `level` is what new versions are held to."""

    def __init__(self, storage: Storage, root: str, level: str = "BACKWARD") -> None:
        if level not in compatibility.LEVELS:
            raise RegistryRefused(f"schema folder {root}: compatibility level {level!r} is not known; one of {', '.join(compatibility.LEVELS)}")
        self._storage = storage
        self._root = root
        self._level = level

    def __repr__(self) -> str:
        return f"FileRegistry({self._root})"

    def close(self) -> None:
        """Nothing to give back."""

    def subjects(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._files)

    def versions(self, subject: str) -> list[int]:
        """Ascending; none for an unknown subject."""
        return sorted(self._files.get(subject, ()))

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest version, or None for an unknown subject."""
        numbers = self.versions(subject)
        return self.version(subject, numbers[-1]) if numbers else None

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """That version. Raises RegistryRefused."""
        found = self._files.get(subject, {}).get(number)
        if found is None:
            known = ", ".join(map(str, self.versions(subject))) or "none"
            raise RegistryRefused(f"schema folder {self._root}: no version {number} of {subject}; versions found: {known}")
        path, schema_id = found
        return RegisteredSchema(subject, number, schema_id, self._text(path))

    def by_id(self, schema_id: int) -> str:
        """The text of the file whose name has that id. Raises RegistryRefused."""
        paths = [path for numbers in self._files.values() for path, found in numbers.values() if found == schema_id]
        if len({self._read(path) for path in paths}) > 1:
            raise RegistryRefused(f"schema folder {self._root}: files with id {schema_id} differ: {', '.join(paths)}")
        if paths:
            return self._text(paths[0])
        raise RegistryRefused(
            f"schema folder {self._root}: no file with id {schema_id}: one named like student-value.v1.id{schema_id}.avsc is needed"
        )

    def compatibility(self, subject: str) -> str:
        """The one level of the folder."""
        return self._level

    def check(self, subject: str, text: str) -> list[str]:
        """Why `text` could not become the subject's next version, by Avro's rules."""
        return compatibility.check(self._level, text, [self.version(subject, number).text for number in self.versions(subject)])

    @cached_property
    def _files(self) -> dict[str, dict[int, tuple[str, int | None]]]:
        """Subject → version → (path, id). Raises RegistryRefused for two files of one version."""
        found: dict[str, dict[int, tuple[str, int | None]]] = {}
        listed = [info.path for info in self._storage.list(self._root)]
        told = self._told([path for path in listed if path.rsplit("/", 1)[-1] == _SUBJECTS])
        for path in listed:
            name = path.rsplit("/", 1)[-1]
            bare, match = _BARE_ID.fullmatch(name), _NAME.fullmatch(name)
            if bare:
                schema_id: int | None = int(bare["id"])
                versions = told.get(int(bare["id"]), [(bare["id"], 1)])
            elif match is None or re.match(r"\.[^.]", name):
                continue
            else:
                schema_id = int(match["id"]) if match["id"] else None
                versions = [(unquote(match["subject"]), int(match["version"] or 1))]
            for subject, number in versions:
                other = found.setdefault(subject, {}).setdefault(number, (path, schema_id))[0]
                if other != path:
                    raise RegistryRefused(f"schema folder {self._root}: {other} and {path} are both version {number}; remove or rename one")
        if not found:
            what = "no file that ends in .avsc" if listed else "nothing there"
            raise RegistryRefused(f"schema folder {self._root}: {what}; expected files like student-value.avsc")
        return found

    def _told(self, paths: list[str]) -> dict[int, list[tuple[str, int]]]:
        """Id → the subjects and versions that `subjects.json` files name for it. Raises RegistryRefused for a file of another shape."""
        found: dict[int, list[tuple[str, int]]] = {}
        for path in paths:
            try:
                for entry in json.loads(self._read(path)):
                    found.setdefault(int(entry["id"]), []).append((str(entry["subject"]), int(entry["version"])))
            except (ValueError, TypeError, KeyError):
                raise RegistryRefused(f'{path}: expected a list of {{"subject": .., "version": .., "id": ..}}') from None
        return found

    @cached_property
    def _definitions(self) -> dict[str, str]:
        """Full name → path of the newest file that defines it. A file that is no schema defines nothing."""
        found: dict[str, str] = {}
        for subject in self.subjects():
            path = self._files[subject][self.versions(subject)[-1]][0]
            try:
                names = avro.defined_names(self._read(path))
            except SchemaRefused:
                continue
            for name in names:
                found.setdefault(name, path)
        return found

    def _read(self, path: str) -> str:
        try:
            return self._storage.read(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SchemaRefused(f"{path}: not UTF-8 at byte {error.start}") from None
        except FileNotFoundError:
            raise RegistryRefused(f"{path}: gone while the folder was being read") from None

    def _text(self, path: str) -> str:
        """Self-contained: as the file says, or with what other files define in it."""
        text = self._read(path)
        needed = list(dict.fromkeys(self._needed(path, (path,))))
        try:
            schema = avro.parse(text, [self._read(each) for each in needed])
        except SchemaRefused as error:
            raise SchemaRefused(f"{path}: {error}") from None
        return schema.text() if needed else text

    def _needed(self, path: str, above: tuple[str, ...]) -> Iterator[str]:
        """Files that define what `path` uses, each after those it needs itself."""
        try:
            names = avro.used_names(self._read(path))
        except SchemaRefused as error:
            raise SchemaRefused(f"{path}: {error}") from None
        for name in names:
            other = self._definitions.get(name)
            if other in above:
                raise SchemaRefused(f"{path}: schemas that need each other: {' → '.join([*above[above.index(str(other)) :], str(other)])}")
            if other is not None:
                yield from self._needed(other, (*above, other))
                yield other
