"""The list of SQL mutants: a mutant whose text is gone, or that no test file would notice, is none."""

from __future__ import annotations

from pathlib import Path

from scripts.mutants import sql

ROOT = Path(__file__).parents[1]


def test_every_mutant_changes_one_place_and_names_tests() -> None:
    """`sql` ends where a text is not in its file exactly once."""
    mutants = sql()
    assert mutants
    for path, what, changed, tests in mutants:
        assert changed != (ROOT / path).read_text(encoding="utf-8"), what
        assert tests, what
        assert all((ROOT / test).exists() for test in tests), what
