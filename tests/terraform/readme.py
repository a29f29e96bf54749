"""The tables of terraform/README.md, in the form of the Terraform registry. `python -m tests.terraform.readme` writes them again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

from tests.terraform.module import MODULE, Declared, declared, of_kind

README = MODULE / "README.md"
BEGIN, END = "<!-- generated: python -m tests.terraform.readme -->\n", "<!-- end of generated -->\n"


def tables() -> str:
    """Return requirements, resources, inputs and outputs of the module as Markdown."""
    inputs = sorted(of_kind(MODULE, "variable").values(), key=lambda block: ("default" in block.body, block.name))
    outputs = sorted(of_kind(MODULE, "output").values(), key=lambda block: block.name)
    versions = next(block.body for block in declared(MODULE) if block.kind == "terraform")
    provider = versions["required_providers"][0]["aws"]["version"]
    kinds = sorted({(block.labels[0], block.kind) for block in declared(MODULE) if block.kind in ("resource", "data")})
    parts = [
        "## Requirements\n\n| Name | Version |\n|---|---|\n",
        f"| terraform | {versions['required_version']} |\n| aws | {provider} |\n\n",
        "## Resources\n\n| Type | Kind |\n|---|---|\n",
        *(f"| `{name}` | {kind} |\n" for name, kind in kinds),
        "\n## Inputs\n\n| Name | Description | Type | Default | Required |\n|---|---|---|---|:---:|\n",
        *(f"| `{block.name}` | {text(block)} | {fields(block)} | {default(block)} | {required(block)} |\n" for block in inputs),
        "\n## Outputs\n\n| Name | Description |\n|---|---|\n",
        *(f"| `{block.name}` | {text(block)} |\n" for block in outputs),
    ]
    return "".join(parts)


def text(block: Declared) -> str:
    """Return a description in one line."""
    written = re.sub(r"^<<-?EOT\n|\n *EOT$", "", str(block.body["description"]).strip().strip('"'))
    return " ".join(dedent(written).split()).replace("|", "\\|")


def fields(block: Declared) -> str:
    """Return the type of an input; of an object, its fields, the optional ones in brackets."""
    kind = str(block.body["type"]).removeprefix("${").removesuffix("}")
    if "object(" not in kind:
        return f"`{kind}`"
    inner = "list of objects: " if kind.startswith("list") else "object: "
    return inner + ", ".join(f"[`{name}`]" if optional else f"`{name}`" for name, optional in _members(kind))


def _members(kind: str) -> Iterator[tuple[str, bool]]:
    """Yield the fields of an object's type, not those of objects inside it: name, and whether it is optional."""
    depth = 0
    for found in re.finditer(r"[{}]|(\w+) = (optional\()?", kind):
        if found[1]:
            if depth == 1:
                yield found[1], bool(found[2])
        else:
            depth += 1 if found[0] == "{" else -1


def default(block: Declared) -> str:
    """Return the default as it is written."""
    value = block.body.get("default", "")
    return "" if "default" not in block.body else f"`{str(value).lower() if isinstance(value, bool) else 'null' if value is None else value}`"


def required(block: Declared) -> str:
    """Return yes or no."""
    return "no" if "default" in block.body else "yes"


def written() -> str:
    """Return the README with its tables as they are now."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + tables() + "\n" + END + after


if __name__ == "__main__":
    README.write_text(written(), encoding="utf-8")
