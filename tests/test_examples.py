"""The examples in docstrings answer what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for path in (ROOT / "compactor").rglob("*.py") if "    >>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_an_example_answers_what_it_shows(path: Path) -> None:
    """What differs is printed."""
    failed, tried = doctest.testmod(importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)))
    assert failed == 0 < tried
