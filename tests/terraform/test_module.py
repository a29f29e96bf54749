"""The Terraform module as text: it parses, fits the provider's schema, is laid out, says what everything is for. No terraform is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import hcl2
import pytest

from compactor import __version__
from compactor.config.settings import load
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
from tests.terraform.provider_schema import NEWEST, OLDEST, Block, Version
from tests.terraform.readme import README, written

VERSIONS = pytest.mark.parametrize("version", [NEWEST, OLDEST], ids=lambda version: version.number)
FOLDERS = (MODULE, *EXAMPLES)
RESOURCES = [block for folder in FOLDERS for block in declared(folder) if block.kind in ("resource", "data")]
VARIABLES = [block for folder in FOLDERS for block in of_kind(folder, "variable").values()]
OUTPUTS = [block for folder in FOLDERS for block in of_kind(folder, "output").values()]
PAGE = (ROOT / "docs" / "aws.md").read_text(encoding="utf-8").partition("\n### Alarms\n")[2].partition("\n## ")[0]


def title(found: Declared | Path) -> str:
    """How a case is called."""
    return str(found.relative_to(MODULE)) if isinstance(found, Path) else f"{found.file.parent.name}-{found.kind}-{found.name}"


def test_the_files_that_are_promised_are_there() -> None:
    """Whoever knows Terraform modules finds everything where they look."""
    assert {path.name for path in MODULE.glob("*.tf")} >= {"versions.tf", "main.tf", "variables.tf", "outputs.tf", "iam.tf", "monitoring.tf"}
    assert [example.name for example in EXAMPLES] == ["complete", "environments", "minimal"]
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


@VERSIONS
def test_every_block_fits_the_providers_schema(version: Version) -> None:
    """Every argument and inner block exists, none that is required is missing: in the newest provider, and in the oldest one we accept."""
    schema = version.blocks()
    wrong = []
    for block in RESOURCES:
        body = {name: value for name, value in block.body.items() if name not in META}
        wrong += problems(body, schema[block.kind, block.labels[0]], block.name)
    assert wrong == []


def test_everything_that_can_have_tags_has_them() -> None:
    """Costs are allocated by tags; a resource without them is nobody's."""
    schema = NEWEST.blocks()
    untagged = [
        block.name
        for block in RESOURCES
        if block.kind == "resource" and "tags" in schema[block.kind, block.labels[0]]["arguments"] and "tags" not in block.body
    ]
    assert untagged == []


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


@VERSIONS
def test_the_kept_schema_is_of_the_types_in_use(version: Version) -> None:
    """`python -m tests.terraform.provider_schema` writes it again."""
    assert sorted(version.blocks()) == used_types()
    lines = version.kept.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len({(json.loads(line)["kind"], json.loads(line)["type"]) for line in lines})


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
    assert body["required_providers"][0]["aws"] == {"source": "hashicorp/aws", "version": f">= {OLDEST.number}, < 7.0.0"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_gives_what_is_required_and_nothing_unknown(example: Path) -> None:
    """Of the inputs of the module beside it."""
    call = of_kind(example, "module")["compactor"].body
    inputs = of_kind(MODULE, "variable")
    required = {name for name, block in inputs.items() if "default" not in block.body}
    assert call["source"] == "../../"
    assert required == {"name", "database"}
    assert required <= set(call) <= {"source", *inputs}


@pytest.mark.parametrize("file", sorted(MODULE.glob("examples/*/*.tfvars")), ids=title)
def test_a_file_of_values_sets_what_its_example_requires(file: Path) -> None:
    """And nothing that the example does not declare."""
    declared_here = of_kind(file.parent, "variable")
    given = set(plain(hcl2.loads(file.read_text(encoding="utf-8")))) - {"__comments__"}
    assert {name for name, block in declared_here.items() if "default" not in block.body} <= given <= set(declared_here)


def test_the_examples_use_nearly_every_input() -> None:
    """The rest is for trials and for those who bring their own."""
    used = {name for example in EXAMPLES for name in of_kind(example, "module")["compactor"].body}
    assert set(of_kind(MODULE, "variable")) - used == {"code_bucket", "logs_bucket", "kms_key", "package_version"}


def test_the_readme_has_every_input_and_output() -> None:
    """As they are declared now."""
    assert README.read_text(encoding="utf-8") == written(), "run .venv/bin/python -m tests.terraform.readme"


def test_the_page_has_every_metric() -> None:
    """In a table of docs/aws.md, at the left, and nothing that is gone."""
    rows = {found for line in PAGE.splitlines() if line.startswith("| `") for found in re.findall(r"`(\w+)`", line.split("|")[1])}
    metrics = set(re.findall(r'metric += "(\w+)"', (MODULE / "monitoring.tf").read_text(encoding="utf-8")))
    assert metrics
    assert rows == metrics


def test_the_output_compactor_yaml_is_a_configuration(tmp_path: Path) -> None:
    """tests/compactor.yaml is the output for the inputs of complete.tftest.hcl, which terraform compares; with a table it can be loaded."""
    text = (MODULE / "tests" / "compactor.yaml").read_text(encoding="utf-8")
    file = tmp_path / "compactor.yaml"
    file.write_text(text + "tables: {student: {key: [id]}}\n", encoding="utf-8")
    settings = load(file)
    emr = settings.emr
    assert settings.tables["student"].runner == "emr-serverless"
    assert (emr.application, emr.role, emr.cluster) == ("00abc", "arn:aws:iam::123456789012:role/some", "j-1")
    assert (emr.job, settings.spec("student").tables_in) == ("s3://compactor-code-123456789012-eu-west-1/jobs/0.1.0", "school_internal")


def test_the_module_expects_the_package_of_this_version() -> None:
    """Module and tool are released together."""
    assert of_kind(MODULE, "variable")["package_version"].body["default"] == __version__


NEVER_UNKNOWN = {
    "force_destroy", "log_retention_days", "package_version", "emails", "create", "services", "register", "package", "airflow_version", "release_label",
    "environment_class", "webserver_access_mode", "maintenance_start", "architecture", "maximum_cpu", "maximum_memory", "maximum_disk", "storage_class",
    "primary_instance_type", "core_instance_type", "options", "views",
}  # fmt: skip
"""What a user writes down, and no resource returns."""


def given_later(value: object, name: str = "") -> set[str]:
    """The arguments of a module call that are unknown, or contain something unknown."""
    if isinstance(value, list):
        return {found for each in value for found in given_later(each, name)}
    if isinstance(value, dict):
        return {found for key, each in value.items() for found in given_later(each, key)} | ({name} if "local.later" in str(value) else set())
    return {name} if "local.later" in str(value) else set()


def test_every_name_and_arn_is_unknown_in_the_test_of_unknown_inputs() -> None:
    """A new input that takes one is missing there until it is added."""
    given = {found for call in of_kind(MODULE / "tests" / "unknown", "module").values() for found in given_later(call.body)}
    taken: set[str] = set()
    for name, block in of_kind(MODULE, "variable").items():
        kind = str(block.body["type"])
        if "object(" in kind:
            taken |= set(re.findall(r"(\w+) = (?:optional\()?(?:(?:list|set|map)\()?string", kind))
        elif "string" in kind:
            taken.add(name)
    assert taken - NEVER_UNKNOWN - given == set()
    assert NEVER_UNKNOWN & given == set()
