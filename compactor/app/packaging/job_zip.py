"""The package for a cluster: a zip of the modules that `compactor.job` imports, and the program that starts it.

The same sources give the same package: sorted names and one fixed time. Compressors differ between machines, so packages are compared by what
they contain, not by their bytes.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compactor.config.settings import load
from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import Refused
from compactor.core.model.layout import join
from compactor.core.settings.s3 import S3Settings
from compactor.ports import Storage
from compactor.storage.routed import any_storage

ZIP, MAIN = "compactor.zip", "main.py"
ENTRY = "compactor.job"
_TIME = (1980, 1, 1, 0, 0, 0)
_PROGRAM = b'''"""Start the job. spark-submit puts compactor.zip on the path."""

import sys

from compactor.job import main

sys.exit(main())
'''


@dataclass(frozen=True)
class Package:
    """The files of a job."""

    files: dict[str, bytes]
    """File name → content."""
    modules: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return 16 hex digits that identify the content."""
        return hashlib.sha256(repr([(name, _content(self.files[name])) for name in sorted(self.files)]).encode()).hexdigest()[:16]


def package() -> Package:
    root = Path(__file__).parents[2]
    modules = sorted(_needed(root))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as zipped:
        for module in modules:
            file = _file(root, module)
            add(zipped, file.relative_to(root.parent).as_posix(), file.read_bytes())
    return Package({ZIP: content.getvalue(), MAIN: _PROGRAM}, tuple(modules))


def add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a compressed file, readable by all, with the one fixed time."""
    entry = zipfile.ZipInfo(name, _TIME)
    entry.external_attr, entry.create_system, entry.compress_type = 0o644 << 16, 3, zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _content(data: bytes) -> list[tuple[str, str]]:
    """Return the names and hashes of the files in a zip; of other data, its hash."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(name, hashlib.sha256(archive.read(name)).hexdigest()) for name in archive.namelist()]
    except zipfile.BadZipFile:
        return [("", hashlib.sha256(data).hexdigest())]


def upload(location: str, config: Path) -> tuple[Package, list[str]]:
    """Write the package to a folder, local or in S3. Return it with the paths of its files.

    If the configuration file exists, its `s3:` settings are used.
    """
    storage, folder = opened(location, config)
    return (packed := package()), write(packed, storage, folder)


def opened(location: str, config: Path) -> tuple[Storage, str]:
    """Return the storage of a folder, local or in S3, and the folder's absolute location."""
    folder = absolute(location, os.getcwd())
    return any_storage(load(config).s3_keys if is_s3(folder) and config.exists() else S3Settings()), folder


def write(packed: Package, storage: Storage, folder: str) -> list[str]:
    """Write the files into a folder and return their paths.

    Raises Refused if the folder has another package: a queued or running job could read files of both.
    """
    paths = {join(folder, name): content for name, content in packed.files.items()}
    for path, content in paths.items():
        if storage.stat(path) is not None and _content(storage.read(path)) != _content(content):
            raise Refused(f"{path} belongs to another package, which jobs may still read; choose a new folder, such as {join(folder, packed.digest)}")
    for path, content in paths.items():
        storage.write(path, content)
    return sorted(paths)


def _needed(root: Path) -> set[str]:
    """Return the modules of compactor that the entry point imports, directly or indirectly, also inside functions; and their packages."""
    needed: set[str] = set()
    todo = [ENTRY]
    while todo:
        module = todo.pop()
        if module not in needed:
            needed.add(module)
            todo += [*_imported(root, module), *([module.rpartition(".")[0]] if "." in module else [])]
    return needed


def _imported(root: Path, module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(_file(root, module).read_bytes())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.split(".")[0] == "compactor" and _file(root, name).exists())


def _file(root: Path, module: str) -> Path:
    place = root.parent.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
