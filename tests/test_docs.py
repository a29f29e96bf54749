"""The documents cannot drift: what the code has is in them, what they point at is there, what is generated is up to date."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from compactor.cli import main as cli
from compactor.config import settings as config
from compactor.config.reference import json_schema
from compactor.core.model import errors
from scripts import cli_page, errors_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
WRITTEN = [page for page in PAGES if page.name != "cli.md"]
"""Pages that people wrote."""

COMMANDS = sorted(info.name or getattr(info.callback, "__name__", "") for info in cli.app.registered_commands)
ERRORS = sorted(
    name for name, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__ and kind is not errors.CompactorError
)
PACKAGES = sorted(
    str(init.parent.relative_to(ROOT / "compactor"))
    for pattern in ("*/__init__.py", "core/*/__init__.py")
    for init in (ROOT / "compactor").glob(pattern)
    if init.parent.name != "demo"
)


def text(name: str) -> str:
    """A page."""
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_reference(command: str) -> None:
    """As something to be typed."""
    assert f"## `compactor {command}`" in text("docs/cli.md")


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_says_what_to_do(name: str) -> None:
    """In docs/errors.md, under its id, with the code the command line ends with. tests/measures/ checks that the page is up to date."""
    kind = getattr(errors, name)
    (section,) = re.findall(rf"^## {kind.id}\n(.+?)(?=^## )", text("docs/errors.md"), re.MULTILINE | re.DOTALL)
    assert f"Class `{name}`" in section
    assert f"exit code {kind.exit_code}." in section
    assert re.search(r"\*\*What to do:\*\* \w.{20}", section)
    assert "advice" in kind.__dict__


def test_every_subclass_of_an_error_is_on_the_page() -> None:
    """Wherever it is defined. Each id is a heading of its own, and so is that of unexpected errors."""
    headings = re.findall(r"^## (.+)$", text("docs/errors.md"), re.MULTILINE)
    classes = [*errors_page.classes()][1:]
    assert {kind.id for kind in classes} <= set(headings)
    assert len(headings) == len(set(headings))
    assert errors.UNEXPECTED in headings
    named = rf"^class (\w+)\((?:{'|'.join([*ERRORS, 'CompactorError'])})\):"
    defined = {name for path in (ROOT / "compactor").rglob("*.py") for name in re.findall(named, path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert {name for name in defined if f"Class `{name}`" not in text("docs/errors.md")} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_in_the_architecture(package: str) -> None:
    """In a table, in a sentence, or in the picture; the parts of core each in the table."""
    page = text("docs/design/architecture.md")
    assert re.search(rf"`{package}`" if "/" in package else rf"(?<![\w/]){package}(?![\w/])", page)


def test_no_module_is_named_that_is_not_there() -> None:
    """In any page."""
    named = {
        found for page in WRITTEN for found in re.findall(r"`((?:core|flows|spark|storage|catalog)/[\w/]+\.py)`", page.read_text(encoding="utf-8"))
    }
    assert sorted(name for name in named if not (ROOT / "compactor" / name).exists()) == []


@pytest.mark.parametrize("former", cli.FORMER)
def test_no_former_command_is_named(former: str) -> None:
    """On no page, in no message, help or comment."""
    paths = [*(path for path in WRITTEN if path.name != "CHANGELOG.md"), *(ROOT / "compactor").rglob("*.py"), *(ROOT / "dags").glob("*.py")]
    assert [path.name for path in paths if re.search(rf"compactor {former}\b", path.read_text(encoding="utf-8"))] == []


def test_the_exported_schema_is_up_to_date() -> None:
    """`make docs` writes it again."""
    assert json.loads(text("docs/compactor.schema.json")) == json_schema()


def test_the_command_reference_is_up_to_date() -> None:
    """`make docs` writes it again. An option that many commands have is explained once, and each of them names it."""
    page = cli_page.page()
    assert text("docs/cli.md") == page.rstrip("\n") + "\n"
    assert page.count("* `-v, --verbose`: Show every row and column") == 1
    assert re.search(r"^## `compactor run`\n(?:(?!^## ).*\n)*Also: `--config`", page, re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What a page's headings are called in links, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    """To a file of the repository, and to a heading in it when one is named."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def referring() -> list[Path]:
    """Files that may name a page by its path: code, tests, scripts, the Terraform module, other pages."""
    folders = ("compactor", "tests", "scripts", "benchmarks", "dags", "terraform", "docs")
    suffixes = (".py", ".md", ".tf", ".hcl", ".yaml", ".yml", ".ipynb", ".json", ".toml")
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]
    return [*found, *(path for path in ROOT.iterdir() if path.is_file() and path.suffix in (*suffixes, "") and path.name != "LICENSE")]


def test_references_to_pages_lead_somewhere() -> None:
    """Also those in code, tests and messages: the path of a page, with or without a heading."""
    broken = []
    for path in referring():
        for name, anchor in re.findall(r"(?<![\w/.-])(?:\.\./)?(docs/[\w/-]+)\\?\.md(?:#([\w-]+))?", path.read_text(encoding="utf-8")):
            page = ROOT / f"{name}.md"
            if not page.exists() or (anchor and anchor not in anchors(page)):
                broken.append(f"{path.relative_to(ROOT)}: {name}.md#{anchor}")
    assert broken == []


def test_every_page_is_linked_from_the_readme() -> None:
    """Nobody finds a page that nothing leads to."""
    assert [str(page.relative_to(ROOT)) for page in PAGES[1:] if f"({page.relative_to(ROOT)})" not in text("README.md")] == []


def test_make_targets_that_pages_speak_of_exist() -> None:
    """And the README opens with the two that matter."""
    targets = set(re.findall(r"^([a-z0-9-]+):", text("Makefile"), re.MULTILINE))
    spoken = {found for page in WRITTEN for found in re.findall(r"(?:`|^)make ([a-z0-9-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)}
    assert spoken >= {"demo", "test"}
    assert spoken - targets == set()
    assert text("README.md").startswith("# compactor\n\n```\nmake demo\nmake test\n```\n")


def test_the_documents_stay_small_enough_to_be_read() -> None:
    """Thirty-five pages, fifty thousand words, and a README that fits two screens: what a new page says replaces what another one says."""
    assert len(PAGES) <= 35
    assert sum(bool(re.search(r"\w", word)) for page in PAGES for word in page.read_text(encoding="utf-8").split()) <= 50_000
    assert len(text("README.md").splitlines()) <= 120


def test_tests_that_pages_name_exist() -> None:
    """`tests/x.py::test_y` names a test, `tests/x/` a folder with some."""
    missing = []
    for page in WRITTEN:
        for path, name in re.findall(r"`(tests/[\w/.]*)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
            found = ROOT / path
            here = found.is_dir() or (found.is_file() and (not name or f"def {name}(" in found.read_text(encoding="utf-8")))
            if not here:
                missing.append(f"{page.name}: {path}::{name}")
    assert missing == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_configuration_are_accepted(page: Path, tmp_path: Path) -> None:
    """Every YAML block with tables is a compactor.yaml that loads."""
    for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block, encoding="utf-8")
        settings = config.load(file, {})
        assert settings.names or settings.discoveries


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_lines_on_pages_are_accepted(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of a code block that begins with `compactor` names a command and options that it has."""
    group = typer.main.get_command(cli.app)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "next.avsc").touch()
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if language not in ("", "sh", "console", "bash"):
            continue
        for typed in re.findall(r"^(?:\$ )?compactor (.+)$", block.replace("\\\n", " "), re.MULTILINE):
            name, rest = "compactor", shlex.split(re.split(r"  +#| [|>] |   ", typed)[0], comments=True)
            command: Any = group
            while hasattr(command, "commands") and rest:
                name, rest = rest[0], rest[1:]
                assert name in command.commands, typed
                command = command.commands[name]
            # raises for an option that does not exist, or an argument too many
            command.make_context(name, rest)


def test_pages_hold_nothing_of_the_machine_they_were_written_on() -> None:
    """No home directories, no working copies."""
    for page in PAGES:
        assert re.findall(r"/(?:home|root|work|Users|tmp/w)/\S*", page.read_text(encoding="utf-8")) == []
