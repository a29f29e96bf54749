"""The Terraform module as text: it parses, fits the provider's schema, is laid out, says what everything is for. No terraform is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import hcl2
import pytest

from tests.terraform.layout import unformatted
from tests.terraform.module import (
    EXAMPLES,
    FILES,
    META,
    MODULE,
    ROOT,
    Declared,
    declared,
    locals_of,
    of_kind,
    plain,
    problems,
    references,
    used_types,
)
from tests.terraform.provider_schema import Block, kept

SCHEMA = kept()
FOLDERS = (MODULE, *EXAMPLES)
RESOURCES = [block for folder in FOLDERS for block in declared(folder) if block.kind in ("resource", "data")]
VARIABLES = [block for folder in FOLDERS for block in of_kind(folder, "variable").values()]
OUTPUTS = [block for folder in FOLDERS for block in of_kind(folder, "output").values()]
PAGE = (ROOT / "docs" / "terraform.md").read_text(encoding="utf-8")


def title(found: Declared | Path) -> str:
    """How a case is called."""
    return str(found.relative_to(MODULE)) if isinstance(found, Path) else f"{found.file.parent.name}-{found.kind}-{found.name}"


def test_the_files_that_are_promised_are_there() -> None:
    """Whoever knows Terraform modules finds everything where they look."""
    assert {path.name for path in MODULE.glob("*.tf")} >= {"versions.tf", "main.tf", "variables.tf", "outputs.tf", "iam.tf", "monitoring.tf"}
    assert [example.name for example in EXAMPLES] == ["complete", "minimal"]
    assert list(MODULE.glob("tests/*.tftest.hcl"))


@pytest.mark.parametrize("path", FILES, ids=title)
def test_a_file_is_hcl_and_laid_out(path: Path) -> None:
    """Parsed by python-hcl2; `make test-terraform` has terraform itself look at both."""
    text = path.read_text(encoding="utf-8")
    assert hcl2.loads(text)
    assert list(unformatted(text)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\n", []),
        ("a   = 1\nbcd = 2\n", []),
        ("a = 1\nbcd = 2\n", ["2: its = stands under no other"]),
        ("a   = 1\n", ["1: more than one space before ="]),
        ("a = [\n  1,\n]\nbcd = 2\n", []),
        ('a = "x" \n', ["1: white space at the end, or a tab"]),
        ("a {\n   b = 1\n}\n", ["2: indented by an odd number of spaces"]),
        ("a = <<-EOT\n   odd \n  EOT\n", []),
        ('a   = "{"\nbcd = 2\n', []),
        ("a = 1", ["the file should end with one newline"]),
    ],
)
def test_layout_is_looked_at(text: str, expected: list[str]) -> None:
    """What `terraform fmt` would change is found, what it would not is left."""
    assert list(unformatted(text)) == expected


@pytest.mark.parametrize("block", RESOURCES, ids=title)
def test_a_block_fits_the_providers_schema(block: Declared) -> None:
    """Every argument and inner block exists, none that is required is missing."""
    body = {name: value for name, value in block.body.items() if name not in META}
    assert list(problems(body, SCHEMA[block.kind, block.labels[0]], block.name)) == []


INNER: Block = {"nesting": "list", "min": 1, "max": 1, "arguments": {"size": ["number", "r"]}, "blocks": {}}
TOY: Block = {"arguments": {"name": ["string", "r"], "arn": ["string", "c"], "tags": [["map", "string"], "o"]}, "blocks": {"disk": INNER}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('name = "a"\ndisk {\n  size = 1\n}', ""),
        ('nam = "a"\ndisk {\n  size = 1\n}', "x has no argument nam; it has ['arn', 'disk', 'name', 'tags']"),
        ("disk {\n  size = 1\n}", "x lacks name"),
        ('name = "a"', "x lacks a block disk"),
        ('name = "a"\narn = "b"\ndisk {\n  size = 1\n}', "x.arn is the provider's to say"),
        ('name = "a"\ndisk = { size = 1 }', "x.disk is a block: write `disk { ... }`, without ="),
        ('name = "a"\ndisk {\n  size = 1\n}\ntags {\n  a = 1\n}', "x.tags is an argument: write `tags = ...`"),
        ('name = "a"\ndisk {\n  sise = 1\n}', "x.disk has no argument sise; it has ['size']"),
        ('name = "a"\ndisk {\n  size = 1\n}\ndisk {\n  size = 2\n}', "x has 2 blocks disk, and may have 1"),
        ('name = "a"\ndynamic "disk" {\n  for_each = []\n  content {\n    sise = 1\n  }\n}', "x.disk has no argument sise; it has ['size']"),
        ('name = "a"\ndisk {\n  size = 1\n}\ndynamic "disc" {\n  for_each = []\n  content {}\n}', "x has no block disc to make"),
    ],
)
def test_what_does_not_fit_is_found(text: str, expected: str) -> None:
    """Each kind of mistake, in a type with two arguments and a block."""
    assert next(problems(plain(hcl2.loads(text + "\n")), TOY, "x"), "") == expected


def test_the_kept_schema_is_of_the_types_in_use() -> None:
    """`python -m tests.terraform.provider_schema` writes it again."""
    assert sorted(SCHEMA) == used_types()


@pytest.mark.parametrize("block", VARIABLES, ids=title)
def test_an_input_says_its_type_and_what_it_is_for(block: Declared) -> None:
    """Never `any`; the description is a sentence."""
    assert block.body.get("type")
    assert "any" not in re.findall(r"\w+", str(block.body["type"]))
    assert re.search(r"[.`]\s*(EOT)?\"?$", block.body["description"].strip()), "a description ends like a sentence"


@pytest.mark.parametrize("name", sorted(of_kind(MODULE, "variable")))
def test_an_input_can_be_refused(name: str) -> None:
    """By a validation with a refusal among the tests, unless every value of its type makes sense (or S3 and SNS know best)."""
    free = {"tags", "force_destroy", "code_bucket", "logs_bucket", "notifications", "dashboard"}
    refusals = (MODULE / "tests" / "refusals.tftest.hcl").read_text(encoding="utf-8")
    validated = "validation" in of_kind(MODULE, "variable")[name].body
    tested = f"expect_failures = [var.{name}]" in refusals
    # A cluster's bounds are left to its validation alone.
    assert (name in free) != validated
    assert tested == (validated and name != "cluster")


@pytest.mark.parametrize("block", OUTPUTS, ids=title)
def test_an_output_says_what_it_is(block: Declared) -> None:
    """And is a value."""
    assert block.body["description"].endswith(".")
    assert "value" in block.body


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_nothing_is_declared_that_is_not_used_or_used_that_is_not_declared(folder: Path) -> None:
    """Variables and locals."""
    assert references(folder, "var") == set(of_kind(folder, "variable"))
    assert references(folder, "local") == set(locals_of(folder))


def test_the_module_leaves_provider_and_region_to_its_user() -> None:
    """No provider block, no backend, no region, account or partition spelt out."""
    kinds = {block.kind for block in declared(MODULE)}
    assert kinds == {"terraform", "data", "locals", "resource", "variable", "output"}
    assert set(next(block.body for block in declared(MODULE) if block.kind == "terraform")) == {"required_version", "required_providers"}
    for path in MODULE.glob("*.tf"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"\b(?:us|eu|ap|sa|ca|me|af|il|cn)-[a-z]+-\d\b|\b\d{12}\b|\"arn:aws[:-]", text) == [], path.name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_versions_are_bounded(folder: Path) -> None:
    """The module and its examples ask for the same."""
    body = next(block.body for block in declared(folder) if block.kind == "terraform")
    assert body["required_version"] == ">= 1.9.0"
    assert body["required_providers"][0]["aws"] == {"source": "hashicorp/aws", "version": ">= 6.0.0, < 7.0.0"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_gives_what_is_required_and_nothing_unknown(example: Path) -> None:
    """Of the inputs of the module beside it."""
    call = of_kind(example, "module")["compactor"].body
    inputs = of_kind(MODULE, "variable")
    required = {name for name, block in inputs.items() if "default" not in block.body}
    assert call["source"] == "../../"
    assert required == {"name", "database"}
    assert required <= set(call) <= {"source", *inputs}


def test_the_examples_use_nearly_every_input() -> None:
    """The rest is for trials and for those who bring their own."""
    used = {name for example in EXAMPLES for name in of_kind(example, "module")["compactor"].body}
    assert set(of_kind(MODULE, "variable")) - used == {"code_bucket", "logs_bucket", "force_destroy", "kms_key_arn"}


def test_the_page_has_every_input_output_and_metric() -> None:
    """In a table of docs/terraform.md, at the left, and nothing that is gone."""
    rows = {found for line in PAGE.splitlines() if line.startswith("| `") for found in re.findall(r"`(\w+)`", line.split("|")[1])}
    metrics = set(re.findall(r'metric += "(\w+)"', (MODULE / "monitoring.tf").read_text(encoding="utf-8")))
    assert metrics
    assert rows == {*of_kind(MODULE, "variable"), *of_kind(MODULE, "output"), *metrics}


def test_the_kept_schema_is_one_line_a_type() -> None:
    """So that a change of the provider is a change one can read."""
    lines = (ROOT / "tests/terraform/aws.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len({(json.loads(line)["kind"], json.loads(line)["type"]) for line in lines}) == len(used_types())
