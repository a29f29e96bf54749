"""The schema of the AWS provider, for the types that our module uses: of the newest version and of the oldest one that the module accepts.

The provider's own binary comes only from its maker's registry. The Python wheels `cdktn-provider-aws` and `cdktf-cdktf-provider-aws` contain
generated JavaScript for every resource, with each argument's name, type, and whether it is required, optional or computed. `aws.jsonl` and
`aws_oldest.jsonl` keep that for the types that our module uses, so that the fast tests need no download. After `make test-terraform` has fetched
the wheels, `.venv/bin/python -m tests.terraform.provider_schema` writes both again.

A line is one type:
    {"type": "aws_s3_bucket", "kind": "resource", "block": {"arguments": {name: [type, flags]}, "blocks": {name: {...}}}}
where type is Terraform's own spelling of types in JSON, flags are letters of `roc` (required, optional, computed), and an inner block
also has `nesting` (list, set, single), `min` and `max` (0: any number).
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Block = dict[str, Any]
"""`arguments` and `blocks`, as above."""


@dataclass(frozen=True)
class Version:
    """A version of the provider."""

    number: str
    """Its number."""

    kept: Path
    """The file with its schema."""

    wheel: str
    """The Python package that contains its schema, as it is imported."""

    def blocks(self) -> dict[tuple[str, str], Block]:
        """Return (kind, type) → block, from the kept file; kind is `resource` or `data`."""
        lines = (json.loads(line) for line in self.kept.read_text(encoding="utf-8").splitlines())
        return {(line["kind"], line["type"]): line["block"] for line in lines}

    def packages(self, tools: Path) -> list[Path]:
        """Return the JavaScript packages of the installed wheel in an environment: one, or none if it is not installed."""
        return sorted(tools.glob(f"lib/python*/site-packages/{self.wheel}/_jsii/*.tgz"))


NEWEST = Version("6.69.1", Path(__file__).with_name("aws.jsonl"), "cdktn_provider_aws")
OLDEST = Version("6.19.0", Path(__file__).with_name("aws_oldest.jsonl"), "cdktf_cdktf_provider_aws")

_SIMPLE = {"string": "string", "number": "number", "boolean": "bool", "any": "dynamic"}
_GETTERS = {
    "getStringAttribute": "string",
    "getNumberAttribute": "number",
    "getBooleanAttribute": "bool",
    "getListAttribute": ["list", "string"],
    "getNumberListAttribute": ["list", "number"],
    "getStringMapAttribute": ["map", "string"],
}
_ARGUMENT = re.compile(
    r"^ +(?P<name>\w+): \{\s+value: (?P<value>.+),\s+isBlock: (?P<block>true|false),\s+type: \"(?P<type>\w+)\",\s+"
    r"storageClassType: \"(?P<class>\w+)\",\s+\}",
    re.MULTILINE,
)
_FLAGS = re.compile(r"// (?P<name>\w+) - computed: (?P<c>\w+), optional: (?P<o>\w+), required: (?P<r>\w+)\n(?=(?P<body>(?:.*\n){1,4}))")
_PARTS = re.compile(r"^(?:export )?(?:function (?P<function>\w+)ToHclTerraform\(|class (?P<class>\w+) extends cdkt[fn]\.(?P<base>\w+))", re.MULTILINE)


def kept_text(blocks: dict[tuple[str, str], Block]) -> str:
    """Return the content of a kept file."""
    lines = ({"type": kind[1], "kind": kind[0], "block": blocks[kind]} for kind in sorted(blocks))
    return "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)


def read_package(version: Version, package: Path, types: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Block]:
    """These (kind, type) from a package. Raises KeyError naming a type that the provider does not have, ValueError for another version."""
    folders = {_folder(kind, name): (kind, name) for kind, name in types}
    found: dict[tuple[str, str], Block] = {}
    for folder, script, typed in _sources(package, set(folders)):
        if f"providerVersion: '{version.number}'" not in script:
            raise ValueError(f"{package.name}: {folder} is not of provider {version.number}")
        found[folders[folder]] = _block_of(script, typed)
    missing = sorted(set(folders.values()) - set(found))
    if missing:
        raise KeyError(f"provider {version.number} has no {missing}")
    return found


def _folder(kind: str, name: str) -> str:
    """aws_s3_bucket → s3-bucket; the data source aws_region → data-aws-region."""
    return "data-" + name.replace("_", "-") if kind == "data" else name.removeprefix("aws_").replace("_", "-")


def _sources(package: Path, folders: set[str]) -> Iterator[tuple[str, str, str]]:
    """(folder, its JavaScript, its type declarations)."""
    texts: dict[str, dict[str, str]] = {}
    with tarfile.open(package, mode="r:gz") as archive:
        for member in archive:
            _, _, path = member.name.partition("/lib/")
            folder, _, name = path.partition("/")
            file = archive.extractfile(member) if folder in folders and name in ("index.js", "index.d.ts") else None
            if file is not None:
                texts.setdefault(folder, {})[name] = file.read().decode()
    for folder, pair in texts.items():
        yield folder, pair["index.js"], pair["index.d.ts"]


def _block_of(script: str, typed: str) -> Block:
    """A type's block: its class at the end of the script, the structures it uses before."""
    marks = list(_PARTS.finditer(script))
    texts = [script[mark.start() : after.start() if after else None] for mark, after in zip(marks, [*marks[1:], None])]
    functions = {mark["function"]: text for mark, text in zip(marks, texts) if mark["function"]}
    classes = {mark["class"].lower(): text for mark, text in zip(marks, texts) if mark["class"]}
    name, main = next((mark["class"], text) for mark, text in zip(marks, texts) if mark["base"] in ("TerraformResource", "TerraformDataSource"))
    return _members(main[main.find("synthesizeHclAttributes") :], main, functions, classes, typed, name + "Config")


def _members(written: str, owner: str, functions: dict[str, str], classes: dict[str, str], typed: str, interface: str) -> Block:
    """Arguments and blocks: `written` says how they are written to HCL, `owner` is the class that says how they are read.

    The newer wheel has the flags in comments of that class. The older one lacks the comments of what a user may set; there the declaration of
    `interface` says whether it is required. (Whether it is also computed is not known then, and does not matter to a configuration.)
    """
    flags: dict[str, Any] = {**_declared(typed, interface), **{found["name"]: found for found in _FLAGS.finditer(owner)}}
    arguments: dict[str, Any] = {}
    blocks: dict[str, Any] = {}
    for found in _ARGUMENT.finditer(written):
        name, said = found["name"], flags[found["name"]]
        struct = next((part for part in re.findall(r"(\w+)ToHclTerraform", found["value"]) if part in functions), "")
        if struct and re.search(rf"^ +\* {name} block$", typed, re.MULTILINE):
            inside = classes.get(struct.lower() + "outputreference", "")
            blocks[name] = {
                "nesting": {"struct": "single"}.get(found["type"], found["type"]),
                "min": int(said["r"] == "true"),
                "max": 0 if "listMapperHcl" in found["value"] else 1,
                **_members(functions[struct], inside, functions, classes, typed, struct[0].upper() + struct[1:]),
            }
        else:
            arguments[name] = [_type(found["type"], found["class"]), _letters(said)]
    for name, said in flags.items():
        if said["c"] == "true" and name not in arguments and name not in blocks:
            getter = re.search(r"this\.(get\w+)\(", said["body"])
            arguments[name] = [_GETTERS.get(getter[1] if getter else "", "dynamic"), _letters(said)]
    return {"arguments": arguments, "blocks": blocks}


def _declared(typed: str, interface: str) -> dict[str, dict[str, str]]:
    """name → flags and body, as in a match of _FLAGS, of what a user may set."""
    text = re.search(rf"^export interface {interface} .*?^\}}", typed, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^ +readonly (\w+)(\??):", text[0] if text else "", re.MULTILINE)
    names = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(): optional == "?" for name, optional in found}
    return {name: {"c": "false", "o": str(optional).lower(), "r": str(not optional).lower(), "body": ""} for name, optional in names.items()}


def _letters(said: Any) -> str:
    return "".join(letter for letter in "roc" if said[letter] == "true")


def _type(kind: str, name: str) -> Any:
    """`list`, `stringList` → ["list", "string"]."""
    element = _SIMPLE.get(re.sub(r"(List|Set|Map)$", "", name), "dynamic")
    return element if kind == "simple" else [kind, element] if kind in ("list", "set", "map") else "dynamic"


if __name__ == "__main__":
    from tests.terraform.module import used_types

    for each in (OLDEST, NEWEST):
        each.kept.write_text(kept_text(read_package(each, *each.packages(Path("build/terraform")), used_types())), encoding="utf-8")
