"""A storage with a root of its own, and names that storages get wrong."""

from __future__ import annotations

import uuid

from compactor.core.model.files import FileInfo
from compactor.ports import Storage

ODD_NAMES = [
    *(
        "a b",
        " leading",
        "trailing ",
        "Käse-Ümläut-ß",
        "日本",
        "a=b",
        "year=2026",
        "a%20b",
        "%2F",
        "a+b",
        "a&b;c",
        "a#b?c=d",
        "'\"`$x",
    ),
    *(
        ".hidden",
        "_SUCCESS",
        "..two",
        "three...",
        "a.b.c.parquet",
        "trailing.",
        "-rf",
        "~",
        "*",
        "[x]",
        "{y}",
        "a\\b",
        "x" * 200,
        "ü" * 100,
    ),
]
BAD_NAMES = ["", "/", "relative", "/a//b", "/a/", "/a/.", "/a/../b", "/a\0b"]


class World:
    """A storage and the root this test may use in it."""

    def __init__(self, storage: Storage, root: str) -> None:
        self.storage = storage
        self.root = f"{root}/{uuid.uuid4().hex}"

    def path(self, *names: str) -> str:
        """A location in this world."""
        return "/".join([self.root, *names])

    def put(self, name: str, data: bytes) -> FileInfo:
        """Write, and look what is there."""
        self.storage.write(self.path(name), data)
        return self.info(name)

    def info(self, name: str) -> FileInfo:
        """What is there, which must be something."""
        found = self.storage.stat(self.path(name))
        assert found is not None
        return found

    def content(self) -> dict[str, bytes]:
        """Everything in this world, by relative name."""
        return {info.path[len(self.root) + 1 :]: self.storage.read(info.path) for info in self.storage.list(self.root)}
