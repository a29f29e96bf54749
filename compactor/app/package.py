"""The job as it is put onto a cluster: a zip of exactly the modules that `compactor.job` needs, and the program that starts it.

The same sources give the same bytes, on every machine: names in order, one time, nothing compressed (compressors differ).
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
from compactor.storage.local import LocalStorage

ZIP, MAIN = "compactor.zip", "main.py"
ENTRY = "compactor.job"
_TIME = (1980, 1, 1, 0, 0, 0)
_PROGRAM = b'''"""Starts the job; spark-submit brings compactor.zip."""

import sys

from compactor.job import main

sys.exit(main())
'''


@dataclass(frozen=True)
class Package:
    """What belongs together on the cluster: file name → content. `digest` tells two packages apart."""

    files: dict[str, bytes]
    modules: tuple[str, ...]

    @property
    def digest(self) -> str:
        """16 hex digits."""
        return hashlib.sha256(b"".join(self.files[name] for name in sorted(self.files))).hexdigest()[:16]


def package() -> Package:
    """The job zip and its program, from the sources that run here."""
    root = Path(__file__).parent
    modules = sorted(_needed(root))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as zipped:
        for module in modules:
            file = _file(root, module)
            entry = zipfile.ZipInfo(file.relative_to(root.parent).as_posix(), _TIME)
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            zipped.writestr(entry, file.read_bytes())
    return Package({ZIP: content.getvalue(), MAIN: _PROGRAM}, tuple(modules))


def deliver_to(place: str, config: Path) -> tuple[Package, list[str]]:
    """The package, and where it lies now. The configuration, where there is one, says how S3 is reached."""
    here = absolute(place, os.getcwd())
    if not is_s3(here):
        return (packed := package()), deliver(packed, LocalStorage(), here)
    from compactor.storage.s3.storage import S3Storage

    reached = load(config).s3_settings if config.exists() else S3Settings().within(os.environ)
    return (packed := package()), deliver(packed, S3Storage(here, reached), here)


def deliver(packed: Package, storage: Storage, place: str) -> list[str]:
    """Write the files below `place`. Raises Refused when another package lies there: jobs that are queued or run would be mixed of two."""
    paths = {join(place, name): content for name, content in packed.files.items()}
    for path, content in paths.items():
        if storage.stat(path) is not None and storage.read(path) != content:
            raise Refused(f"{path} holds another package, which jobs may be about to read; choose a new folder, such as {join(place, packed.digest)}")
    for path, content in paths.items():
        storage.write(path, content)
    return sorted(paths)


def _needed(root: Path) -> set[str]:
    """The modules of ours that the entry point imports, directly or not, also inside functions; and the packages around them."""
    found: set[str] = set()
    open_ = [ENTRY]
    while open_:
        module = open_.pop()
        if module not in found:
            found.add(module)
            open_ += [*_imported(root, module), *([module.rpartition(".")[0]] if "." in module else [])]
    return found


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
