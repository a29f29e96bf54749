"""The drawings of docs/start.md are those of the files that runs write."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scripts import drawings


@pytest.mark.slow
def test_the_drawings_show_what_runs_write(spark: SparkSession, tmp_path: Path) -> None:
    """`python scripts/drawings.py` makes them again."""
    made = {f"{step.name}.svg": drawings.svg(step) for step in drawings.steps(spark, tmp_path)}
    stored = {path.name: path.read_text(encoding="utf-8") for path in drawings.DOCS.glob("files-*.svg")}
    assert made == stored
    assert len(made) == 5
