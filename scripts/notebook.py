"""Execute docs/notebook.ipynb without Jupyter.

`python -m scripts.notebook DIRECTORY` does so where docs/start.md was followed, and stores the outputs.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def executed(notebook: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, executed one after the other in `directory`."""
    names: dict[str, Any] = {}
    cells, number = [], 0
    before = Path.cwd()
    os.chdir(directory)
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                cell = {**cell, "execution_count": number, "outputs": _outputs(_value("".join(cell["source"]), names), number)}
            cells.append(cell)
    finally:
        os.chdir(before)
    return {**notebook, "cells": cells}


def _value(source: str, names: dict[str, Any]) -> Any:
    """Run a cell. Return the value of its last statement, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the cells are ours
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None  # noqa: S307


def _outputs(value: Any, number: int) -> list[dict[str, Any]]:
    if value is None:
        return []
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data = {"text/html": value._repr_html_().splitlines(keepends=True), **data}
    return [{"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}]


if __name__ == "__main__":
    made = executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")), Path(sys.argv[1]))
    NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
