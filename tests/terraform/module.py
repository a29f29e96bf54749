"""The Terraform module as values: its blocks, parsed, and what is wrong with them by the provider's schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hcl2

from tests.terraform.provider_schema import Block

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "terraform"
EXAMPLES = sorted(path.parent for path in MODULE.glob("examples/*/main.tf"))
FILES = sorted(MODULE.rglob("*.tf")) + sorted(MODULE.rglob("*.hcl"))

META = {"count", "for_each", "provider", "depends_on", "lifecycle", "connection", "provisioner"}
"""What any resource may hold, whatever the provider says."""


@dataclass(frozen=True)
class Declared:
    """A block at the top of a file: `kind` resource, data, variable, output, module, locals ...; `labels` what stands behind it."""

    file: Path
    kind: str
    labels: tuple[str, ...]
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """As one writes it to refer to it."""
        return ".".join(self.labels)


@cache
def declared(folder: Path) -> tuple[Declared, ...]:
    """Every block of the *.tf files of a folder. Raises what python-hcl2 raises when a file is no HCL."""
    return tuple(block for path in sorted(folder.glob("*.tf")) for block in _blocks(path))


def of_kind(folder: Path, kind: str) -> dict[str, Declared]:
    """name → block, of one kind."""
    return {block.name: block for block in declared(folder) if block.kind == kind}


def locals_of(folder: Path) -> dict[str, Any]:
    """Every local value, as it is written."""
    return {key: value for block in declared(folder) if block.kind == "locals" for key, value in block.body.items()}


def used_types() -> list[tuple[str, str]]:
    """(kind, type) of every resource and data source of the module and its examples."""
    folders = (MODULE, *EXAMPLES)
    return sorted({(block.kind, block.labels[0]) for folder in folders for block in declared(folder) if block.kind in ("resource", "data")})


def problems(body: dict[str, Any], schema: Block, where: str) -> Iterator[str]:
    """What a block holds that the schema does not have, what it lacks, what is not the user's to set, and too few or too many of a block."""
    written = {key: value for key, value in body.items() if key != "dynamic"}
    dynamic = [(name, inner) for each in body.get("dynamic", []) for name, inner in each.items()]
    for name, value in written.items():
        if name in schema["blocks"]:
            if not isinstance(value, list) or not all(isinstance(inner, dict) for inner in value):
                yield f"{where}.{name} is a block: write `{name} {{ ... }}`, without ="
        elif name not in schema["arguments"]:
            yield f"{where} has no argument {name}; it has {sorted([*schema['arguments'], *schema['blocks']])}"
        elif schema["arguments"][name][1] == "c":
            yield f"{where}.{name} is the provider's to say"
        elif isinstance(value, list) and value and isinstance(value[0], dict) and "__is_block__" in value[0]:
            yield f"{where}.{name} is an argument: write `{name} = ...`"
    for name, (_, flags) in schema["arguments"].items():
        if "r" in flags and name not in written:
            yield f"{where} lacks {name}"
    for name, inner in schema["blocks"].items():
        fixed = [each for each in written.get(name, []) if isinstance(each, dict)]
        made = [each for found, each in dynamic if found == name]
        if len(fixed) + len(made) < inner["min"]:
            yield f"{where} lacks a block {name}"
        if inner["max"] and len(fixed) > inner["max"]:
            yield f"{where} has {len(fixed)} blocks {name}, and may have {inner['max']}"
        for each in [*fixed, *(content for one in made for content in one["content"])]:
            yield from problems(_without_marks(each), inner, f"{where}.{name}")
    for name, _ in dynamic:
        if name not in schema["blocks"]:
            yield f"{where} has no block {name} to make"


def references(folder: Path, kind: str) -> set[str]:
    """Names behind `var.` or `local.` anywhere in a folder's *.tf files, comments left out."""
    text = "\n".join(re.sub(r"(?m)#(?![^\"\n]*\"\s*$).*$", "", path.read_text(encoding="utf-8")) for path in folder.glob("*.tf"))
    return set(re.findall(rf"\b{kind}\.(\w+)", text))


def strings(value: Any) -> Iterator[str]:
    """Every string inside a parsed value, and the quoted ones inside its expressions."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield from re.findall(r'"([^"]*)"', value) if '"' in value else [value]


def _blocks(path: Path) -> Iterator[Declared]:
    with path.open(encoding="utf-8") as file:
        parsed = hcl2.load(file)
    for kind, bodies in parsed.items():
        if kind != "__comments__":
            for body in bodies:
                yield from _labelled(path, kind, (), plain(body))


def _labelled(path: Path, kind: str, labels: tuple[str, ...], body: dict[str, Any]) -> Iterator[Declared]:
    """python-hcl2 nests labels as dictionaries of one key, and marks where the block itself begins."""
    if "__is_block__" in body:
        yield Declared(path, kind, labels, _without_marks(body))
    else:
        for label, inner in body.items():
            yield from _labelled(path, kind, (*labels, label), inner)


def plain(value: Any) -> Any:
    """Without the quotes that python-hcl2 leaves on strings and keys, and without comments."""
    if isinstance(value, dict):
        return {_bare(key): plain(inner) for key, inner in value.items() if key not in ("__comments__", "__inline_comments__")}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return _bare(value) if isinstance(value, str) else value


def _bare(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _without_marks(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "__is_block__"}
