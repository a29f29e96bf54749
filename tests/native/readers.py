"""PyIceberg, Polars and DuckDB's Iceberg extension, each asked in their own environment: build/native, which `make test` sets up."""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build/native/bin/python"
READERS = ("pyiceberg", "polars", "duckdb")


@functools.cache
def _process() -> subprocess.Popen[str]:
    if not PYTHON.exists():
        raise RuntimeError(f"{PYTHON} is missing: run `make build/native/.installed`")
    process = subprocess.Popen([PYTHON, Path(__file__).with_name("answer.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_ended, process)
    return process


def _ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def ask(reader: str, metadata: str, **question: Any) -> dict[str, Any]:
    """Return a reader's answer about the table with this metadata file. Raises AssertionError with its error."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"reader": reader, "metadata": metadata, **question}) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    assert "error" not in answer, f"{reader}: {answer['error']}"
    return answer


def rows(reader: str, metadata: str, **question: Any) -> tuple[tuple[str, ...], list[Any]]:
    """Return columns and rows, sorted."""
    answer = ask(reader, metadata, **question)
    return tuple(answer["columns"]), sorted(answer["rows"], key=repr)


def plan(metadata: str, where: str) -> list[str]:
    """Return the locations of the files that PyIceberg opens for a filter."""
    return [*ask("plan", metadata, filter=where)["files"]]
