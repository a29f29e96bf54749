"""The words of the project: names and prose use the field's terms and plain English. CONTRIBUTING lists the words to use instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.parts.each import each

ROOT = Path(__file__).parent.parent

NAMES = frozenset(
    "tell tells told untold say says said asked found held known seen wanted strange bad broken unfit fold folds folded world worlds elsewhere doubt "
    "sighting condemned strays standing overtaken facts".split()
)
"""Names that do not name the value: use `result`, `settings`, `rows`, `listed`, `invalid`, ..."""

PHRASES = (
    (r"\b(tells?|told|telling)\b", "returns, reports, says which, shows"),
    (r"\bfold(s|ed|ing)?\b", "compact, compaction"),
    (r"\b(say|says|said) `", "set `key:`"),
    (r"\bnobody foresaw\b", "unexpected"),
    (r"\b(what of|of which|those of them that|one that was|that which)\b", "a direct relative clause"),
    (r"\bcondemned\b", "pending deletion"),
    (r"\bstrays?\b", "orphan partitions"),
    (r"\bdoubt\b", "InconsistentRead"),
    (r"\btells apart\b", "distinguishes"),
)
"""Phrases of the private language that this project once had, and what to write instead."""

FOREIGN = {("grid.py", '"fold"')}
"""(module, string) pairs that are words of other libraries: rich calls it so when a long word is broken into several lines."""

PROSE = [path for pattern in ("*.md", "docs/**/*.md", "terraform/**/*.md") for path in ROOT.glob(pattern) if path.name != "CHANGELOG.md"]


def modules() -> list[Path]:
    """Every module of the product."""
    return sorted([*(ROOT / "compactor").rglob("*.py"), *(ROOT / "dags").glob("*.py")])


def names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that the module gives: variables, parameters, fields, functions, classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def prose(text: str) -> Iterator[tuple[str, int]]:
    """Every string and comment of a module, with the line it begins in."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            yield token.string, token.start[0]


def phrases(text: str) -> Iterator[tuple[str, int, str]]:
    """(phrase, line below the beginning of `text`, what to write)."""
    for pattern, instead in PHRASES:
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield match[0], text[: match.start()].count("\n"), instead


@each(modules())
def test_a_module_is_written_in_plain_words(path: Path) -> None:
    """No banned name, no banned phrase in strings and comments."""
    text = path.read_text()
    problems = [f"{path.name}:{line}: the name {name!r}" for name, line in names(ast.parse(text)) if name.strip("_") in NAMES]
    for string, begin in prose(text):
        if (path.name, string) in FOREIGN:
            continue
        problems += [f"{path.name}:{begin + below}: {phrase!r}; write: {instead}" for phrase, below, instead in phrases(string)]
    assert not problems, "\n".join(problems)


@each(PROSE)
def test_a_page_is_written_in_plain_words(path: Path) -> None:
    """No banned phrase on any page."""
    problems = [f"{path.name}:{line + 1}: {phrase!r}; write: {instead}" for phrase, line, instead in phrases(path.read_text())]
    assert not problems, "\n".join(problems)
