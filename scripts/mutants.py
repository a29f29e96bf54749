"""Change the code in small ways and see whether the tests notice.

    python scripts/mutants.py code --count 60 --seed 1     random changes of core/ and flows/, against the tests that import the module
    python scripts/mutants.py sql                          the changes of SQL in scripts/sql_mutants.py, against the tests named there

What the fast tests do not find is tried with the sample of the slow ones. Works on a copy of the tree. Prints a line a mutant and, at the end, how
many each found. Exits with 1 when a listed change no longer applies.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("compactor/core", "compactor/flows")
FOLDERS = ("tests/core", "tests/oracle", "tests/flows", "tests/measures", "tests/read", "tests/simulation", "tests")
"""Tests of which few need Spark and none another server, cheapest folder first: pytest stops at the first that fails."""

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "earliest": "latest", "latest": "earliest"}


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Yield changed copies of one node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        yield _with(node, ops=[COMPARED[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        yield _with(node, values=node.values[:-1])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and not isinstance(node.right, (ast.Constant, ast.JoinedStr)):
        yield _with(node, op=ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLED:
        yield _with(node, func=ast.Name(CALLED[node.func.id], ast.Load()))
    if isinstance(node, (ast.If, ast.IfExp)):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield _with(node, ifs=node.ifs[:-1])
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


class Replace(ast.NodeTransformer):
    """Put `new` in the place of `old`."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the node itself, or look below it."""
        return ast.copy_location(self.new, self.old) if node is self.old else self.generic_visit(node)


def places(tree: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Return what may be changed inside functions, each with what is put in its place. Equal trees give equal lists."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = dict.fromkeys(node for function in functions for statement in function.body for node in ast.walk(statement))
    return [(node, variant) for node in inside for variant in variants(node)]


def mutant(path: Path, rng: random.Random) -> tuple[str, str]:
    """Return one mutant of a module: where and what is changed, and the new source."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = places(tree)
    if not found:
        return "nothing to change", text
    old, new = rng.choice(found)
    line = getattr(old, "lineno", getattr(getattr(old, "iter", None), "lineno", 0))
    what = f"{line}  {_short(old)}  ->  {_short(new)}"
    return what, ast.unparse(ast.fix_missing_locations(Replace(old, new).visit(tree)))


def _short(node: ast.AST) -> str:
    return re.sub(r"\s+", " ", ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))))[:70]


def tests_of(module: str) -> list[str]:
    """Return the fast tests that import a module, directly ones first."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("test_*.py"))]
    near = [path for path in files if re.search(rf"\b{re.escape(module)}\b|from {re.escape(module.rpartition('.')[0])} import", path.read_text())]
    return [str(path.relative_to(ROOT)) for path in dict.fromkeys([*near, *(path for path in files if _imports(path, module))])]


def _imports(path: Path, module: str) -> bool:
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        here = waiting.pop()
        for name in _IMPORT.findall(here.read_text(encoding="utf-8")):
            package, names = name[0] or name[2], name[1]
            for each in [package, *(f"{package}.{part.strip()}" for part in names.split(","))]:
                if each == module:
                    return True
                file = ROOT / (each.replace(".", "/") + ".py")
                if file.exists() and file not in seen:
                    seen.add(file)
                    waiting.append(file)
    return False


_IMPORT = re.compile(r"^\s*(?:from ((?:compactor|tests)[\w.]*) import ([\w, ]+)|import ((?:compactor|tests)[\w.]*))", re.MULTILINE)


def noticed(tree: Path, tests: list[str], seconds: float, sample: bool) -> str:
    """Run tests in the changed tree: "fast" or "sample" for the tests that found it, "timeout" for fast tests that did not end, or "SURVIVED"."""
    base = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    tiers = (("fast", "not slow and not engines", ""), ("sample", "slow and not engines", "sample"))
    for tier, marked, size in tiers if sample else tiers[:1]:
        environment = {**os.environ, "PYTHONPATH": str(tree), "COMPACTOR_TESTS": size}
        try:
            done = subprocess.run([*base, "-m", marked, *tests], cwd=tree, capture_output=True, text=True, timeout=seconds, env=environment)  # noqa: S603
        except subprocess.TimeoutExpired:
            return "timeout" if tier == "fast" else "SURVIVED (the sample took too long)"
        if done.returncode not in (0, 5):
            return tier
    return "SURVIVED"


def code(count: int, seed: int) -> list[tuple[Path, str, str, list[str]]]:
    """Choose mutants of code: path, description, new source, tests."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if path.name != "__init__.py"]
    chosen, rng = [], random.Random(seed)  # noqa: S311 - the same mutants every time
    # modules by their size, so that every line is as likely
    for path in rng.choices(paths, [path.stat().st_size for path in paths], k=count):
        what, changed = mutant(path, rng)
        name = path.relative_to(ROOT)
        chosen.append((name, f"{name}:{what}", changed, tests_of(str(name.with_suffix("")).replace("/", "."))))
    return chosen


def sql() -> list[tuple[Path, str, str, list[str]]]:
    """The listed mutants of SQL. Exits when one no longer applies."""
    sys.path.insert(0, str(Path(__file__).parent))
    from sql_mutants import MUTANTS

    chosen = []
    for file, old, new, tests in MUTANTS:
        text = (ROOT / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            sys.exit(f"{file}: expected this once, found it {text.count(old)} times: {old}")
        chosen.append((Path(file), f"{file}  {old[:60]}  ->  {new[:60]}", text.replace(old, new), [_test_file(test) for test in tests.split()]))
    return chosen


def _test_file(name: str) -> str:
    """Return the path of a test file that the list names: `flat` is in tests/spark, `native/spark` in tests/native."""
    folder, _, module = name.rpartition("/")
    return f"tests/{folder or 'spark'}/test_{module}.py"


def main(arguments: list[str]) -> int:
    """Try the mutants one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["code", "sql"])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600, help="limit for one mutant")
    parser.add_argument("--fast", action="store_true", help="leave out the sample of the slow tests")
    parser.add_argument("--only", default="", help="a regular expression on the description")
    parser.add_argument("--list", action="store_true", help="show the mutants, run nothing")
    asked = parser.parse_args(arguments)
    tally: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".hypothesis", "compactor-demo"))
        chosen = code(asked.count, asked.seed) if asked.kind == "code" else sql()
        for path, what, changed, tests in (each for each in chosen if re.search(asked.only, each[1])):
            if asked.list:
                print(f"{what}   [{len(tests)} files]")
                continue
            before = (tree / path).read_text(encoding="utf-8")
            (tree / path).write_text(changed, encoding="utf-8")
            began = time.monotonic()
            outcome = noticed(tree, tests, asked.seconds, not asked.fast) if tests else "SURVIVED (no fast test imports it)"
            (tree / path).write_text(before, encoding="utf-8")
            tally[outcome] = tally.get(outcome, 0) + 1
            print(f"{outcome:9} {time.monotonic() - began:5.0f} s  {what}", flush=True)
    print(", ".join(f"{outcome}: {number}" for outcome, number in sorted(tally.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
