"""Registries with Confluent's HTTP API: Confluent's own server, Karapace, Apicurio (below `/apis/ccompat/v7`).

It uses `/subjects`, `/subjects/S/versions[/N|/latest]`, `/schemas/ids/N`, `/config[/S]` and `/compatibility/subjects/S/versions[/latest]`. It
never uses `/mode`, `/schemas` and `/contexts`, which not all servers have. Apicurio answers 404 to `/config/S?defaultToGlobal=true` for a
subject without a rule; then `/config` is requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from compactor.core.model.errors import RegistryRefused, SchemaRefused
from compactor.core.schema import avro, compatibility
from compactor.ports import RegisteredSchema
from compactor.registry.http import Answer, Connection, RegistrySettings, Waiting

T = TypeVar("T")

REFERENCES_MAX = 500
"""Largest number of schemas that one schema may refer to."""

_NO_SUBJECT, _NO_VERSION = 40401, 40402
_LATEST_REFERENCE = -1


class ConfluentRegistry:
    """The Registry at these addresses. Thread-safe. Close it, or use it as a context manager."""

    def __init__(self, settings: RegistrySettings, environment: Mapping[str, str] | None = None, waiting: Waiting | None = None) -> None:
        self._connection = Connection(settings, environment, waiting)
        context = settings.context.strip(":").lstrip(".")
        self._prefix = f":.{context}:" if context else ""
        # what never changes: by id, and by (subject, version)
        self._ids: dict[int, dict[str, Any]] = {}
        self._versions: dict[tuple[str, int], dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"ConfluentRegistry({', '.join(self._connection.urls)}{f', context {self._prefix}' if self._prefix else ''})"

    def __enter__(self) -> ConfluentRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def subjects(self) -> list[str]:
        """Return all subjects of the configured context, sorted, without the context's name."""
        query = {"subjectPrefix": self._prefix} if self._prefix else {}
        names = _expect_all(self._connection.request("/subjects", "the list of subjects", query), str, "a list of names")
        # a server without contexts ignores the prefix and lists everything
        if self._prefix:
            names = [name[len(self._prefix) :] for name in names if name.startswith(self._prefix)]
        else:
            names = [name for name in names if not name.startswith(":.")]
        return sorted(names)

    def versions(self, subject: str) -> list[int]:
        answer = self._connection.request(f"{self._path(subject)}/versions", f"the versions of {subject}", accept=(404,))
        return [] if answer.status == 404 else sorted(_expect_all(answer, int, "a list of numbers"))

    def latest(self, subject: str) -> RegisteredSchema | None:
        answer = self._connection.request(f"{self._path(subject)}/versions/latest", f"the newest version of {subject}", accept=(404,))
        return None if answer.status == 404 else self._registered(subject, self._cached(subject, answer))

    def version(self, subject: str, number: int) -> RegisteredSchema:
        return self._registered(subject, self._entry(subject, number))

    def by_id(self, schema_id: int) -> str:
        entry = self._ids.get(schema_id)
        if entry is None:
            query = {"subject": self._prefix} if self._prefix else {}
            answer = self._connection.request(f"/schemas/ids/{int(schema_id)}", f"the schema with id {schema_id}", query)
            entry = self._ids[schema_id] = _schema_entry(answer)
        return self._text(entry, f"id {schema_id}")

    def compatibility(self, subject: str) -> str:
        """Return the level of the subject, otherwise of its context or the registry. Raises RegistryRefused for an unknown level."""
        about = f"the compatibility level of {subject}"
        answer = self._connection.request(f"/config/{self._quoted(subject)}", about, {"defaultToGlobal": "true"}, accept=(404,))
        if answer.status == 404:
            answer = self._connection.request("/config", about)
        body = _expect(answer, dict, "a compatibility level")
        level = body.get("compatibilityLevel") or body.get("compatibility")
        if level not in compatibility.LEVELS:
            raise _unexpected(answer, f"one of {', '.join(compatibility.LEVELS)}")
        return str(level)

    def check(self, subject: str, text: str) -> list[str]:
        """Return why `text` cannot become the subject's next version: the registry's reasons, or our own where it has none."""
        avro.parse(text)
        # without a number Apicurio compares with every version, whatever the level; so the level decides the request
        which = "" if self.compatibility(subject).endswith("_TRANSITIVE") else "/latest"
        path = f"/compatibility{self._path(subject)}/versions{which}"
        about, body = f"whether a schema may follow in {subject}", {"schema": text, "schemaType": "AVRO"}
        answer = self._connection.request(path, about, {"verbose": "true"}, accept=(404, 405, 422), body=body)
        if answer.status == 404 and answer.code in (_NO_SUBJECT, _NO_VERSION):
            return []
        if answer.status == 422:
            message = answer.body.get("message") if isinstance(answer.body, dict) else None
            return [f"the registry does not accept it as a schema: {message or 'no reason given'}"]
        return self._verdict(subject, text, answer) if answer.status == 200 else self._own_verdict(subject, text)

    def _verdict(self, subject: str, text: str, answer: Answer) -> list[str]:
        body = _expect(answer, dict, "whether it is compatible")
        if not isinstance(body.get("is_compatible"), bool):
            raise _unexpected(answer, "whether it is compatible")
        if body["is_compatible"]:
            return []
        messages = body.get("messages")
        reasons = [str(message) for message in messages] if isinstance(messages, list) else []
        return reasons or self._own_verdict(subject, text) or ["the registry reports that it is not compatible, without a reason"]

    def _own_verdict(self, subject: str, text: str) -> list[str]:
        old = [self.version(subject, number).text for number in self.versions(subject)]
        return compatibility.check(self.compatibility(subject), text, old)

    def _quoted(self, subject: str) -> str:
        name = self._prefix + subject
        if name in ("", ".", ".."):
            raise RegistryRefused(f"schema registry: the subject name {name!r} cannot be used in an address, where it has another meaning")
        return quote(name, safe="")

    def _path(self, subject: str) -> str:
        return f"/subjects/{self._quoted(subject)}"

    def _entry(self, subject: str, number: int) -> dict[str, Any]:
        entry = self._versions.get((subject, number))
        if entry is None:
            answer = self._connection.request(f"{self._path(subject)}/versions/{int(number)}", f"version {number} of {subject}")
            entry = self._cached(subject, answer)
        return entry

    def _cached(self, subject: str, answer: Answer) -> dict[str, Any]:
        entry = _schema_entry(answer)
        number, schema_id = answer.body.get("version"), answer.body.get("id")
        if not isinstance(number, int) or not isinstance(schema_id, int):
            raise _unexpected(answer, "a schema with version and id")
        entry = self._versions[subject, number] = {**entry, "version": number, "id": schema_id}
        return entry

    def _registered(self, subject: str, entry: dict[str, Any]) -> RegisteredSchema:
        return RegisteredSchema(subject, entry["version"], entry["id"], self._text(entry, f"{subject} version {entry['version']}"))

    def _text(self, entry: dict[str, Any], label: str) -> str:
        """Return a self-contained text: the registered one, or one that includes its references."""
        if entry["type"] != "AVRO":
            raise SchemaRefused(f"schema registry, {label}: expected an Avro schema, found {entry['type']}. Only Avro is supported.")
        texts: dict[tuple[str, int], str] = {}
        self._collect(entry["references"], (), texts, label)
        try:
            # parsed here, so that the error names the schema
            schema = avro.parse(entry["schema"], list(texts.values()))
        except SchemaRefused as error:
            raise SchemaRefused(f"schema registry, {label}: {error}") from None
        return schema.text() if texts else str(entry["schema"])

    def _collect(self, references: list[Any], above: tuple[tuple[str, int], ...], texts: dict[tuple[str, int], str], label: str) -> None:
        """Add the texts of all references to `texts`, each after its own references."""
        for reference in references:
            place = _place(reference, label)
            if place in above:
                circle = " → ".join(f"{subject} version {number}" for subject, number in (*above[above.index(place) :], place))
                raise SchemaRefused(f"schema registry, {label}: its references form a circle: {circle}")
            if place in texts:
                continue
            if len(texts) + len(above) >= REFERENCES_MAX:
                raise SchemaRefused(f"schema registry, {label}: it refers to more than {REFERENCES_MAX} schemas")
            entry = self._referred(place, label)
            self._collect(entry["references"], (*above, place), texts, label)
            texts[place] = entry["schema"]

    def _referred(self, place: tuple[str, int], label: str) -> dict[str, Any]:
        subject, number = place
        # a reference may contain the name of its context
        own = subject[len(self._prefix) :] if self._prefix and subject.startswith(self._prefix) else subject
        if number != _LATEST_REFERENCE:
            return self._entry(own, number)
        answer = self._connection.request(f"{self._path(own)}/versions/latest", f"{subject}, which {label} refers to")
        return self._cached(own, answer)


def _place(reference: Any, label: str) -> tuple[str, int]:
    subject, number = (reference.get("subject"), reference.get("version")) if isinstance(reference, dict) else (None, None)
    if not isinstance(subject, str) or not isinstance(number, int):
        raise RegistryRefused(f"schema registry, {label}: a reference without subject and version: {str(reference)[:100]}")
    return subject, number


def _schema_entry(answer: Answer) -> dict[str, Any]:
    body = _expect(answer, dict, "a schema")
    text, references = body.get("schema"), body.get("references") or []
    if not isinstance(text, str) or not isinstance(references, list):
        raise _unexpected(answer, "a schema")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _unexpected(answer, "a schema of whole characters") from None
    return {"schema": text, "type": str(body.get("schemaType") or "AVRO").upper(), "references": references}


def _expect(answer: Answer, kind: type[T], what: str) -> T:
    if not isinstance(answer.body, kind):
        raise _unexpected(answer, what)
    return answer.body


def _expect_all(answer: Answer, kind: type[T], what: str) -> list[T]:
    items = [each for each in _expect(answer, list, what) if isinstance(each, kind)]
    if len(items) != len(answer.body):
        raise _unexpected(answer, what)
    return items


def _unexpected(answer: Answer, what: str) -> RegistryRefused:
    return RegistryRefused(f"schema registry, {answer.url}: expected {what}, found {str(answer.body)[:120]}. Is this a schema registry?")
