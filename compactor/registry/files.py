"""A folder of Avro schemas as a registry: for schemas in a repository, and for machines without access to a server.

A file is named `<subject>[.v<version>][.id<id>].avsc`, anywhere below the folder:

    student-value.avsc               version 1
    student-value.v2.avsc            version 2
    student-value.v3.id98.avsc       version 3; Kafka records name it by 98
    orders%2Fitems-value.avsc        subject `orders/items-value`: characters that a file name cannot have are percent-encoded
    98.avsc                          the schema with id 98; `subjects.json`, `[{"subject": .., "version": 3, "id": 98}, ..]`, has its subject

A schema may use named types that other files define, in their newest version. The folder is read once, on first use: only the next process
sees a file that is added later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from urllib.parse import unquote

from compactor.core.model.errors import RegistryRefused, SchemaRefused
from compactor.core.schema import avro, compatibility
from compactor.ports import RegisteredSchema, Storage

_SUBJECTS = "subjects.json"
_BARE_ID = re.compile(r"(?P<id>[0-9]{1,9})\.avsc")
_NAME = re.compile(r"(?P<subject>.+?)(?:\.v(?P<version>[1-9][0-9]{0,8}))?(?:\.id(?P<id>[0-9]{1,9}))?\.avsc")


class FileRegistry:
    """The Registry in the directory `root` of a Storage. `level` is the compatibility level for new versions."""

    def __init__(self, storage: Storage, root: str, level: str = "BACKWARD") -> None:
        if level not in compatibility.LEVELS:
            raise RegistryRefused(f"schema folder {root}: expected a compatibility level of {', '.join(compatibility.LEVELS)}; found {level!r}")
        self._storage = storage
        self._root = root
        self._level = level

    def __repr__(self) -> str:
        return f"FileRegistry({self._root})"

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def subjects(self) -> list[str]:
        return sorted(self._files)

    def versions(self, subject: str) -> list[int]:
        return sorted(self._files.get(subject, ()))

    def latest(self, subject: str) -> RegisteredSchema | None:
        numbers = self.versions(subject)
        return self.version(subject, numbers[-1]) if numbers else None

    def version(self, subject: str, number: int) -> RegisteredSchema:
        file = self._files.get(subject, {}).get(number)
        if file is None:
            numbers = ", ".join(map(str, self.versions(subject))) or "none"
            raise RegistryRefused(f"schema folder {self._root}: no version {number} of {subject}; versions found: {numbers}")
        path, schema_id = file
        return RegisteredSchema(subject, number, schema_id, self._text(path))

    def by_id(self, schema_id: int) -> str:
        """Return the text of the file whose name has that id. Raises RegistryRefused if there is none."""
        paths = [path for numbers in self._files.values() for path, number in numbers.values() if number == schema_id]
        if len({self._read(path) for path in paths}) > 1:
            raise RegistryRefused(f"schema folder {self._root}: files with id {schema_id} differ: {', '.join(paths)}")
        if paths:
            return self._text(paths[0])
        raise RegistryRefused(f"schema folder {self._root}: no file with id {schema_id}; expected a name like student-value.v1.id{schema_id}.avsc")

    def compatibility(self, subject: str) -> str:
        """Return the level of the folder, the same for all subjects."""
        return self._level

    def check(self, subject: str, text: str) -> list[str]:
        """Return why `text` cannot become the subject's next version, by Avro's rules."""
        return compatibility.check(self._level, text, [self.version(subject, number).text for number in self.versions(subject)])

    @cached_property
    def _files(self) -> dict[str, dict[int, tuple[str, int | None]]]:
        """Return subject → version → (path, id). Raises RegistryRefused for two files of the same version."""
        files: dict[str, dict[int, tuple[str, int | None]]] = {}
        listed = [info.path for info in self._storage.list(self._root)]
        by_id = self._subjects_by_id([path for path in listed if path.rsplit("/", 1)[-1] == _SUBJECTS])
        for path in listed:
            name = path.rsplit("/", 1)[-1]
            bare, match = _BARE_ID.fullmatch(name), _NAME.fullmatch(name)
            if bare:
                schema_id: int | None = int(bare["id"])
                versions = by_id.get(int(bare["id"]), [(bare["id"], 1)])
            elif match is None or re.match(r"\.[^.]", name):
                continue
            else:
                schema_id = int(match["id"]) if match["id"] else None
                versions = [(unquote(match["subject"]), int(match["version"] or 1))]
            for subject, number in versions:
                other = files.setdefault(subject, {}).setdefault(number, (path, schema_id))[0]
                if other != path:
                    raise RegistryRefused(f"schema folder {self._root}: {other} and {path} are both version {number}; remove or rename one")
        if not files:
            what = "no file that ends in .avsc" if listed else "no files"
            raise RegistryRefused(f"schema folder {self._root}: {what}; expected files like student-value.avsc")
        return files

    def _subjects_by_id(self, paths: list[str]) -> dict[int, list[tuple[str, int]]]:
        """Return id → (subject, version) from `subjects.json` files. Raises RegistryRefused for a file of another form."""
        by_id: dict[int, list[tuple[str, int]]] = {}
        for path in paths:
            try:
                for entry in json.loads(self._read(path)):
                    by_id.setdefault(int(entry["id"]), []).append((str(entry["subject"]), int(entry["version"])))
            except (ValueError, TypeError, KeyError):
                raise RegistryRefused(f'{path}: expected a list of {{"subject": .., "version": .., "id": ..}}') from None
        return by_id

    @cached_property
    def _definitions(self) -> dict[str, str]:
        """Return full name → path of the newest file that defines it. An invalid schema is ignored here."""
        paths: dict[str, str] = {}
        for subject in self.subjects():
            path = self._files[subject][self.versions(subject)[-1]][0]
            try:
                names = avro.defined_names(self._read(path))
            except SchemaRefused:
                continue
            for name in names:
                paths.setdefault(name, path)
        return paths

    def _read(self, path: str) -> str:
        try:
            return self._storage.read(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SchemaRefused(f"{path}: not UTF-8 at byte {error.start}") from None
        except FileNotFoundError:
            raise RegistryRefused(f"{path}: the file disappeared while the folder was read") from None

    def _text(self, path: str) -> str:
        """Return a self-contained text: the file's own, or one that includes the types of other files."""
        text = self._read(path)
        needed = list(dict.fromkeys(self._needed(path, (path,))))
        try:
            schema = avro.parse(text, [self._read(each) for each in needed])
        except SchemaRefused as error:
            raise SchemaRefused(f"{path}: {error}") from None
        return schema.text() if needed else text

    def _needed(self, path: str, above: tuple[str, ...]) -> Iterator[str]:
        """Yield the files that define the types of `path`, each after the files that it needs itself."""
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
