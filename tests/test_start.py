"""docs/start.md and docs/notebook.ipynb do what they show: every block is typed, every cell executed, in the directory of a new user."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.notebook import NOTEBOOK, executed

PAGE = (Path(__file__).parents[1] / "docs" / "start.md").read_text(encoding="utf-8")
BLOCKS = [(typed, shown or "") for typed, shown in re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", PAGE, re.MULTILINE | re.DOTALL)]
"""What the reader types, and what the page shows below it."""

FIRST_RUN = next(at for at, (typed, _) in enumerate(BLOCKS) if "compactor run" in typed)
LAST = len(BLOCKS) - 1
"""A mistake, which is found without Spark."""


def follow(typed: str, shown: str, directory: Path) -> None:
    """Type a block. Its output must be what the page shows."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("COMPACTOR_")}, "PATH": path}
    ended = subprocess.run(["bash", "-euc", typed], cwd=directory, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert same(shown, ended.stdout), f"{typed}\nprinted\n{ended.stdout}\nthe page shows\n{shown}"


def same(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed: `...` stands for the rest of a line or for lines, blanks do not count."""
    lines = [".*\n" if not line.strip(" .") and "..." in line else _line(line) for line in shown.splitlines()]
    pattern = "".join("(?:.*\n)*" if line == ".*\n" else line for line in lines)
    return not shown or re.fullmatch(pattern, "".join(f"{' '.join(line.split())}\n" for line in printed.splitlines())) is not None


def _line(shown: str) -> str:
    return re.escape(" ".join(shown.split())).replace(r"\.\.\.", ".*") + "\n"


def test_outputs_are_compared_line_by_line() -> None:
    """A page that shows something else is noticed."""
    assert same("a  1 ...\n...\nend\n", "a 1 2\nb\nc\nend\n")
    assert same("a\n...\nend\n", "a\nend\n")
    for shown in ("a 2 ...\n...\nend\n", "a 1 2\nend\n", "a 1 2\nb\nc\n"):
        assert not same(shown, "a 1 2\nb\nc\nend\n")


def test_the_page_is_followed_up_to_the_first_run(tmp_path: Path) -> None:
    """Files, configuration, check; and the mistake with its line that leads to the page of errors. No Spark."""
    assert len(BLOCKS) >= 8
    for typed, shown in [*BLOCKS[:FIRST_RUN], BLOCKS[LAST]]:
        follow(typed, shown, tmp_path)


@pytest.mark.slow
def test_the_page_and_the_notebook_are_followed_to_the_end(tmp_path: Path) -> None:
    """Two runs, in processes of their own. Then `python -m scripts.notebook DIRECTORY` would store the same outputs."""
    for typed, shown in BLOCKS:
        follow(typed, shown, tmp_path)
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert executed(stored, tmp_path) == stored


def test_the_notebook_has_outputs() -> None:
    """Of each code cell, in the form of Jupyter's version 4.5."""
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    assert all(cell["outputs"][0]["data"]["text/plain"] for cell in cells)
    for cell in cells:
        compile("".join(cell["source"]), "cell", "exec")
